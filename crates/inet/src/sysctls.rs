//! Sysctls of the stack. Each is declared once, with its name, range, default and description.
//!
//! All sysctls are numbers that can be changed while the stack runs; switches are 0 and 1. Reading
//! a sysctl costs one relaxed load.

mod linux;

pub use stats::{OutOfRange, Sysctl, SysctlInfo};

stats::sysctls! {
    /// Sysctls of the stack.
    pub struct Sysctls {
        /// Forward packets that are not addressed to this host.
        forwarding = "net.inet.ip.forwarding", 0..=1, 0;
        /// Time to live of packets that this host sends.
        ttl = "net.inet.ip.ttl", 1..=255, 64;
        /// Send redirects when a packet leaves by the interface that received it (RFC 1812
        /// 5.2.7.2).
        send_redirects = "net.inet.ip.redirect", 0..=1, 1;
        /// Drop packets whose source fails a reverse path check: 0 off; 1 loose, any route to the
        /// source is sufficient; 2 strict, the route must use the receiving interface (RFC 1812
        /// 5.3.8, RFC 3704). Linux's rp_filter uses 1 for strict and 2 for loose.
        source_validation = "net.inet.ip.source_validation", 0..=2, 0;
        /// Accept redirects, each of which is valid for ten minutes. An attacker can use redirects
        /// to divert traffic.
        accept_redirects = "net.inet.icmp.accept_redirects", 0..=1, 0;
        /// Maximum number of ICMP errors per second to all destinations together; 0 for no limit. A
        /// single destination gets about a quarter of them.
        icmp_rate = "net.inet.icmp.icmplim", 0..=1000000, 200;
        /// Maximum number of echo requests answered per second; 0 for no limit.
        echo_rate = "net.inet.icmp.echolim", 0..=100000000, 100000;
        /// Answer echo requests to broadcast and multicast addresses, which smurf attacks use.
        broadcast_echo = "net.inet.icmp.bmcastecho", 0..=1, 0;
        /// Compute and send UDP checksums.
        udp_checksum = "net.inet.udp.checksum", 0..=1, 1;
        /// Initial receive buffer size of a UDP socket, in bytes.
        udp_recvspace = "net.inet.udp.recvspace", 512..=1073741824, 42080;
        /// Maximum datagram size of a UDP socket, in bytes. As in BSD, this is the size of the send
        /// buffer, in which no data is queued.
        udp_sendspace = "net.inet.udp.sendspace", 512..=1073741824, 65507;
        /// Maximum UDP payload that a socket sends, in bytes.
        udp_maxdgram = "net.inet.udp.maxdgram", 512..=65507, 65507;
        /// Cache the headers, route and neighbor of a UDP socket for its next datagram.
        header_cache = "net.inet.udp.header_cache", 0..=1, 1;
        /// Drop UDP datagrams to ports without a socket silently; 0 answers them with port
        /// unreachable.
        udp_blackhole = "net.inet.udp.blackhole", 0..=1, 0;
        /// Drop TCP segments to ports without a listener silently; 0 answers them with a reset.
        tcp_blackhole = "net.inet.tcp.blackhole", 0..=1, 0;
        /// Initial receive buffer size of a TCP socket, in bytes.
        tcp_recvspace = "net.inet.tcp.recvspace", 2048..=1073741824, 131072;
        /// Maximum receive buffer size that auto-tuning can reach, in bytes.
        tcp_recvspace_max = "net.inet.tcp.recvbuf_max", 2048..=1073741824, 6291456;
        /// Initial send buffer size of a TCP socket, in bytes.
        tcp_sendspace = "net.inet.tcp.sendspace", 2048..=1073741824, 131072;
        /// Maximum send buffer size that auto-tuning can reach, in bytes.
        tcp_sendspace_max = "net.inet.tcp.sendbuf_max", 2048..=1073741824, 4194304;
        /// Use window scaling and timestamps (RFC 7323): 0 neither, 1 both, 2 window scaling only.
        tcp_rfc1323 = "net.inet.tcp.rfc1323", 0..=2, 1;
        /// Use selective acknowledgments (RFC 2018).
        tcp_sack = "net.inet.tcp.sack.enable", 0..=1, 1;
        /// Use explicit congestion notification (RFC 3168): 0 off, 1 request and accept it, 2
        /// accept it only if the peer requests it.
        tcp_ecn = "net.inet.tcp.ecn.enable", 0..=2, 2;
        /// Congestion control algorithm of new connections: 1 CUBIC (RFC 9438), 0 NewReno (RFC
        /// 5681, RFC 6582).
        tcp_cc_cubic = "net.inet.tcp.cc.cubic", 0..=1, 1;
        /// Initial congestion window in segments (RFC 6928).
        tcp_initcwnd = "net.inet.tcp.initcwnd_segments", 1..=64, 10;
        /// Limit the growth of the congestion window per ACK in slow start: to 2 segments (RFC
        /// 3465), 8 with HyStart++ (RFC 9406), or 1 after a timeout. With 0, the window grows by
        /// all newly acknowledged data, as in Linux.
        tcp_rfc3465 = "net.inet.tcp.rfc3465", 0..=1, 1;
        /// On congestion, derive the new window from the congestion window, as Linux does, instead
        /// of from the data in flight (RFC 5681 3.1).
        tcp_reduce_cwnd = "net.inet.tcp.reduce_cwnd", 0..=1, 0;
        /// Send new data in batches of at least this many segments if available, with PSH at the
        /// end of each batch; 0 for no batches. Resembles Linux's tcp_min_tso_segs with
        /// segmentation offload.
        tcp_push_runs = "net.inet.tcp.push_runs", 0..=64, 0;
        /// Delay the ACK of a FIN like that of data, and send no D-SACK with it, as Linux does.
        tcp_delay_fin_ack = "net.inet.tcp.delay_fin_ack", 0..=1, 0;
        /// Maximum retransmission timeout, in milliseconds. RFC 6298 2.5 requires 60000 or more.
        tcp_rto_max = "net.inet.tcp.rto_max", 1000..=120000, 120000;
        /// Maximum number of retransmissions of a SYN. Linux uses 6.
        tcp_syn_retries = "net.inet.tcp.syn_retries", 0..=127, 7;
        /// Maximum number of retransmissions of a SYN-ACK. Linux uses 5.
        tcp_synack_retries = "net.inet.tcp.synack_retries", 0..=127, 7;
        /// Restart the congestion window after an idle time of one RTO (RFC 5681 4.1).
        tcp_idle_restart = "net.inet.tcp.idle_restart", 0..=1, 1;
        /// MSS in bytes assumed for an IPv4 peer that sends no MSS option.
        tcp_mssdflt = "net.inet.tcp.mssdflt", 216..=65495, 536;
        /// MSS in bytes assumed for an IPv6 peer that sends no MSS option (RFC 9293 3.7.1).
        tcp_v6mssdflt = "net.inet.tcp.v6mssdflt", 216..=65495, 1220;
        /// Minimum MSS for sending, in bytes. It is used even if the peer's MSS is smaller
        /// (CVE-2019-11479).
        tcp_minmss = "net.inet.tcp.minmss", 48..=65495, 48;
        /// Maximum segment lifetime, in milliseconds. A connection stays in TIME-WAIT for twice
        /// this time.
        tcp_msl = "net.inet.tcp.msl", 1..=600000, 30000;
        /// Maximum delay of an ACK, in milliseconds. RFC 9293 3.8.6.3 requires less than 500.
        tcp_delacktime = "net.inet.tcp.delacktime", 0..=499, 200;
        /// Idle time before the first keepalive probe, in milliseconds.
        tcp_keepidle = "net.inet.tcp.keepidle", 1000..=2147483647, 7200000;
        /// Interval between keepalive probes, in milliseconds.
        tcp_keepintvl = "net.inet.tcp.keepintvl", 10..=2147483647, 75000;
        /// Number of unanswered keepalive probes after which the connection is dropped.
        tcp_keepcnt = "net.inet.tcp.keepcnt", 1..=127, 9;
        /// Merge consecutive TCP segments that arrive in one burst (LRO).
        tcp_lro = "net.inet.tcp.lro", 0..=1, 1;
        /// Pass large TCP segments to ports that can split them (TSO).
        tcp_tso = "net.inet.tcp.tso", 0..=1, 1;
        /// Discover the path MTU without ICMP (RFC 8899).
        tcp_pmtud = "net.inet.tcp.pmtud_blackhole_detection", 0..=1, 0;
        /// Maximum buffer memory of all TCP connections together, in bytes; 0 for three quarters of
        /// the pool. It includes data that is sent but not acknowledged, received but not read, or
        /// out of order. From half of the limit on, out-of-order data is dropped. From three
        /// quarters on, buffers stop growing. At the limit, received data is dropped if the
        /// application has unread data. From half of the limit on, a connection may queue at most
        /// four times the free memory for sending, but always a few segments, for which up to five
        /// sixteenths of the limit may be used in addition.
        tcp_memlimit = "net.inet.tcp.memlimit", 0..=1099511627776, 0;
        /// Maximum number of connections whose socket is closed, except those in TIME-WAIT. Beyond
        /// this number, closing a socket resets its connection.
        tcp_max_orphans = "net.inet.tcp.max_orphans", 0..=16777216, 8192;
        /// Time in milliseconds after which a connection whose socket is closed is dropped if its
        /// peer accepts no data (sockstress attack). While memory is exhausted, this applies to all
        /// connections.
        tcp_stall_time = "net.inet.tcp.stall_time", 1000..=2147483647, 120000;
        /// Use SYN cookies (RFC 4987): 0 never, 1 when the SYN queue is full, 2 always.
        tcp_syncookies = "net.inet.tcp.syncookies", 0..=2, 1;
        /// Maximum number of handshakes in progress per listener.
        tcp_syncache = "net.inet.tcp.syncache.hashsize", 1..=1048576, 1024;
        /// Maximum number of connections in the accept queue of a listener.
        tcp_somaxconn = "kern.ipc.soacceptqueue", 1..=1048576, 4096;
        /// Maximum number of frames sent one at a time that are collected and then passed to the
        /// port together.
        tx_burst = "net.link.tx_burst", 1..=256, 1;
        /// Maximum number of frames that are queued while a port accepts no more.
        tx_queue = "net.link.tx_queue", 1..=256, 256;
        /// Maximum number of packets waiting for the MAC address of one neighbor.
        neigh_queue = "net.link.ether.inet.maxhold", 1..=256, 16;
        /// Maximum number of packets waiting for the MAC addresses of all neighbors together; 0 for
        /// an eighth of the pool.
        neigh_queue_all = "net.link.ether.inet.maxhold_all", 0..=1048576, 0;
        /// Maximum number of neighbor entries.
        neigh_limit = "net.link.ether.inet.max_entries", 8..=1048576, 4096;
        /// Time in seconds for which a neighbor is treated as reachable after it was confirmed.
        neigh_max_age = "net.link.ether.inet.max_age", 1..=86400, 1200;
        /// Answer ARP requests. With 0, ARP requests only update the neighbor table, because
        /// another stack with the same addresses answers them (the first stack of a split host).
        arp_answer = "net.link.ether.inet.answer", 0..=1, 1;
        /// Number of requests after which resolution of a neighbor fails.
        neigh_tries = "net.link.ether.inet.maxtries", 1..=32, 3;
        /// Maximum number of packets in the loopback queue.
        loop_queue = "net.link.loopback.queue", 1..=65536, 512;
        /// Maximum number of decapsulated packets waiting to be processed.
        tunnel_queue = "net.link.tunnel.queue", 1..=65536, 512;
        /// Maximum number of tunnels in which a packet can be nested. FreeBSD's default, 1, does
        /// not allow a tunnel in a tunnel.
        tunnel_nesting = "net.link.gif.max_nesting", 1..=16, 8;
        /// Time to live of outer packets, for tunnels that do not set their own.
        tunnel_ttl = "net.inet.ip.gifttl", 1..=255, 30;
        /// IGMP version on links without a querier of an older version. Version 2 has no source
        /// filters.
        igmp_version = "net.inet.igmp.default_version", 2..=3, 3;
        /// Maximum number of ARP replies and announcements per second that are passed from an iface
        /// to its mirror; 0 for no limit.
        punt_arp = "net.punt.arp.rate", 0..=10000000, 1000;
        /// Maximum number of neighbor and router discovery messages of IPv6 per second that are
        /// passed from an iface to its mirror; 0 for no limit.
        punt_nd = "net.punt.nd.rate", 0..=10000000, 1000;
        /// Maximum number of IGMP and MLD messages per second that are passed from an iface to its
        /// mirror; 0 for no limit.
        punt_igmp = "net.punt.igmp.rate", 0..=10000000, 500;
        /// Maximum number of BGP packets per second that are passed from an iface to its mirror; 0
        /// for no limit.
        punt_bgp = "net.punt.bgp.rate", 0..=10000000, 20000;
        /// Maximum number of BFD packets per second that are passed from an iface to its mirror; 0
        /// for no limit.
        punt_bfd = "net.punt.bfd.rate", 0..=10000000, 10000;
        /// Maximum number of OSPF packets per second that are passed from an iface to its mirror; 0
        /// for no limit.
        punt_ospf = "net.punt.ospf.rate", 0..=10000000, 5000;
        /// Maximum number of IS-IS frames per second that are passed from an iface to its mirror; 0
        /// for no limit.
        punt_isis = "net.punt.isis.rate", 0..=10000000, 5000;
        /// Maximum number of VRRP packets per second that are passed from an iface to its mirror; 0
        /// for no limit.
        punt_vrrp = "net.punt.vrrp.rate", 0..=10000000, 1000;
        /// Maximum number of PIM packets per second that are passed from an iface to its mirror; 0
        /// for no limit.
        punt_pim = "net.punt.pim.rate", 0..=10000000, 1000;
        /// Maximum number of LLDP frames per second that are passed from an iface to its mirror; 0
        /// for no limit.
        punt_lldp = "net.punt.lldp.rate", 0..=10000000, 100;
        /// Maximum number of LACP frames per second that are passed from an iface to its mirror; 0
        /// for no limit.
        punt_lacp = "net.punt.lacp.rate", 0..=10000000, 100;
        /// Maximum number of ICMP messages in no other class per second that are passed from an
        /// iface to its mirror; 0 for no limit.
        punt_icmp = "net.punt.icmp.rate", 0..=10000000, 1000;
        /// Maximum number of packets to link-local groups in no other class per second that are
        /// passed from an iface to its mirror; 0 for no limit.
        punt_group = "net.punt.group.rate", 0..=10000000, 500;
        /// Maximum number of packets to this host, and broadcasts, in no other class per second
        /// that are passed from an iface to its mirror; 0 for no limit.
        punt_local = "net.punt.local.rate", 0..=10000000, 5000;
        /// Count received packets and bytes by the route of their destination; `ip -s route` shows
        /// them.
        route_counters = "net.route.counters", 0..=1, 0;
        /// Forward IPv6 packets that are not addressed to this host.
        forwarding6 = "net.inet6.ip6.forwarding", 0..=1, 0;
        /// Drop IPv6 packets whose source fails a reverse path check, as
        /// net.inet.ip.source_validation does for IPv4. Link-local sources are valid on every link.
        source_validation6 = "net.inet6.ip6.source_validation", 0..=2, 0;
        /// Hop limit of IPv6 packets that this host sends.
        hop_limit6 = "net.inet6.ip6.hlim", 1..=255, 64;
        /// Create IPv6 sockets that do not accept IPv4 (IPV6_V6ONLY). Does not change existing
        /// sockets.
        v6only = "net.inet6.ip6.v6only", 0..=1, 0;
        /// Set flow labels in packets that this host sends (RFC 6437).
        auto_flowlabel = "net.inet6.ip6.auto_flowlabel", 0..=1, 1;
        /// Send ICMPv6 redirects when a packet leaves by the interface that received it (RFC 4861
        /// 8.2).
        send_redirects6 = "net.inet6.ip6.redirect", 0..=1, 1;
        /// Accept ICMPv6 redirects, each of which is valid for ten minutes. Has no effect while the
        /// host forwards IPv6.
        accept_redirects6 = "net.inet6.icmp6.rediraccept", 0..=1, 0;
        /// Accept router advertisements on ports that are attached from now on. For existing ports,
        /// use `ifconfig IF inet6 accept_rtadv`. Has no effect while the host forwards IPv6.
        accept_rtadv = "net.inet6.ip6.accept_rtadv", 0..=1, 0;
        /// Number of solicitations that duplicate address detection sends (RFC 4862 5.4); 0
        /// disables it.
        dad_count = "net.inet6.ip6.dad_count", 0..=10, 1;
        /// Hop limit of outer IPv6 packets, for tunnels that do not set their own.
        tunnel_hop_limit = "net.inet6.ip6.gifhlim", 1..=255, 30;
        /// Maximum number of ICMPv6 errors per second to all destinations together; 0 for no limit.
        /// A single /64 prefix gets about a quarter of them.
        icmp6_rate = "net.inet6.icmp6.errppslimit", 0..=1000000, 100;
        /// Maximum number of IPv6 neighbor entries.
        neigh6_limit = "net.inet6.ip6.neighborgcthresh", 8..=1048576, 2048;
        /// Maximum number of packets waiting for the MAC address of one IPv6 neighbor.
        neigh6_queue = "net.inet6.icmp6.nd6_maxqueuelen", 1..=256, 16;
        /// Maximum number of packets waiting for the MAC addresses of all IPv6 neighbors together;
        /// 0 for an eighth of the pool.
        neigh6_queue_all = "net.inet6.icmp6.nd6_maxqueue_all", 0..=1048576, 0;
        /// Number of solicitations after which resolution of an IPv6 neighbor fails.
        neigh6_tries = "net.inet6.icmp6.nd6_mmaxtries", 1..=32, 3;
        /// Time in seconds for which an IPv6 neighbor is treated as reachable after it was
        /// confirmed.
        neigh6_reachable = "net.inet6.icmp6.nd6_reachable", 1..=86400, 30;
        /// Prefetch headers, hash buckets and sockets while a burst is processed.
        prefetch = "net.isr.prefetch", 0..=1, 1;
    }
}
