//! Sysctls of the stack: each declared once, with its sysctl-like name, range, default and
//! description.
//!
//! All are plain numbers (switches are 0 and 1) that may change while the stack runs; a read is one
//! relaxed load.

mod linux;

pub use stats::{OutOfRange, Sysctl, SysctlInfo};

stats::sysctls! {
    /// Sysctls of the stack.
    pub struct Sysctls {
        /// Forward packets that are not for this host.
        forwarding = "net.inet.ip.forwarding", 0..=1, 0;
        /// Time to live of packets from this host.
        ttl = "net.inet.ip.ttl", 1..=255, 64;
        /// Send redirects when a packet leaves through the interface it came from (RFC 1812
        /// 5.2.7.2).
        send_redirects = "net.inet.ip.redirect", 0..=1, 1;
        /// Drop packets by a reverse path check of the source: 1 loose, any route to the source; 2
        /// strict, a route by the receiving interface (RFC 1812 5.3.8, RFC 3704); Linux's
        /// rp_filter uses 1 for strict and 2 for loose.
        source_validation = "net.inet.ip.source_validation", 0..=2, 0;
        /// Accept redirects, each for ten minutes (an attacker can use them to divert traffic).
        accept_redirects = "net.inet.icmp.accept_redirects", 0..=1, 0;
        /// Maximum ICMP errors per second to all destinations together, 0 for no limit; one
        /// destination gets about a quarter.
        icmp_rate = "net.inet.icmp.icmplim", 0..=1000000, 200;
        /// Maximum echo requests answered per second, 0 for no limit.
        echo_rate = "net.inet.icmp.echolim", 0..=100000000, 100000;
        /// Answer echo requests sent to broadcast and multicast addresses (Smurf).
        broadcast_echo = "net.inet.icmp.bmcastecho", 0..=1, 0;
        /// Compute and send UDP checksums.
        udp_checksum = "net.inet.udp.checksum", 0..=1, 1;
        /// Initial receive buffer of a UDP socket, in bytes.
        udp_recvspace = "net.inet.udp.recvspace", 512..=1073741824, 42080;
        /// Maximum datagram size of a UDP socket, in bytes (send buffer; nothing is queued in it,
        /// as in BSD).
        udp_sendspace = "net.inet.udp.sendspace", 512..=1073741824, 65507;
        /// Maximum UDP payload that a socket sends.
        udp_maxdgram = "net.inet.udp.maxdgram", 512..=65507, 65507;
        /// Cache a socket's headers, route and neighbor from one datagram to the next.
        header_cache = "net.inet.udp.header_cache", 0..=1, 1;
        /// Drop UDP datagrams to ports without a socket silently; 0 answers with port unreachable.
        udp_blackhole = "net.inet.udp.blackhole", 0..=1, 0;
        /// Drop segments to ports without a listener silently; 0 answers with a reset.
        tcp_blackhole = "net.inet.tcp.blackhole", 0..=1, 0;
        /// Initial receive buffer of a TCP socket, in bytes.
        tcp_recvspace = "net.inet.tcp.recvspace", 2048..=1073741824, 131072;
        /// Maximum receive buffer that auto-tuning reaches, in bytes.
        tcp_recvspace_max = "net.inet.tcp.recvbuf_max", 2048..=1073741824, 6291456;
        /// Initial send buffer of a TCP socket, in bytes.
        tcp_sendspace = "net.inet.tcp.sendspace", 2048..=1073741824, 131072;
        /// Maximum send buffer that auto-tuning reaches, in bytes.
        tcp_sendspace_max = "net.inet.tcp.sendbuf_max", 2048..=1073741824, 4194304;
        /// Use window scaling and timestamps (RFC 7323); 2 is window scaling alone.
        tcp_rfc1323 = "net.inet.tcp.rfc1323", 0..=2, 1;
        /// Use selective acknowledgments (RFC 2018).
        tcp_sack = "net.inet.tcp.sack.enable", 0..=1, 1;
        /// Use explicit congestion notification (RFC 3168): 1 requests it, 2 accepts it on request
        /// of the peer.
        tcp_ecn = "net.inet.tcp.ecn.enable", 0..=2, 2;
        /// Congestion control of new connections: 1 is CUBIC (RFC 9438), 0 NewReno (RFC 5681, RFC
        /// 6582).
        tcp_cc_cubic = "net.inet.tcp.cc.cubic", 0..=1, 1;
        /// Segments of the initial congestion window (RFC 6928).
        tcp_initcwnd = "net.inet.tcp.initcwnd_segments", 1..=64, 10;
        /// Limit the slow start increase per ACK to a few segments: 2 (RFC 3465), 8 with HyStart++
        /// (RFC 9406), 1 after a timeout; 0 for all newly acknowledged data, as Linux.
        tcp_rfc3465 = "net.inet.tcp.rfc3465", 0..=1, 1;
        /// Reduce the congestion window on congestion (as Linux, which validates its window), not
        /// the data in flight (RFC 5681 3.1).
        tcp_reduce_cwnd = "net.inet.tcp.reduce_cwnd", 0..=1, 0;
        /// Send new data in runs of at least this many segments if available, with PSH at the end
        /// of a run (Linux's tcp_min_tso_segs and segmentation offload); 0 for no runs.
        tcp_push_runs = "net.inet.tcp.push_runs", 0..=64, 0;
        /// Delay the ACK of a FIN like that of data, and do not send D-SACK with it (as Linux).
        tcp_delay_fin_ack = "net.inet.tcp.delay_fin_ack", 0..=1, 0;
        /// Maximum retransmission timeout in milliseconds (RFC 6298 2.5: 60000 or more).
        tcp_rto_max = "net.inet.tcp.rto_max", 1000..=120000, 120000;
        /// Maximum retransmissions of a SYN (Linux: 6).
        tcp_syn_retries = "net.inet.tcp.syn_retries", 0..=127, 7;
        /// Maximum retransmissions of a SYN-ACK (Linux: 5).
        tcp_synack_retries = "net.inet.tcp.synack_retries", 0..=127, 7;
        /// Restart the congestion window after an idle time of one RTO (RFC 5681 4.1).
        tcp_idle_restart = "net.inet.tcp.idle_restart", 0..=1, 1;
        /// Segment size assumed for an IPv4 peer without an MSS option.
        tcp_mssdflt = "net.inet.tcp.mssdflt", 216..=65495, 536;
        /// Segment size assumed for an IPv6 peer without an MSS option (RFC 9293 3.7.1).
        tcp_v6mssdflt = "net.inet.tcp.v6mssdflt", 216..=65495, 1220;
        /// Minimum segment size sent, even if the peer's MSS is smaller (CVE-2019-11479).
        tcp_minmss = "net.inet.tcp.minmss", 48..=65495, 48;
        /// Maximum segment lifetime in milliseconds; a connection stays in TIME-WAIT for twice
        /// that.
        tcp_msl = "net.inet.tcp.msl", 1..=600000, 30000;
        /// Maximum delay of an ACK in milliseconds (RFC 9293 3.8.6.3: below 500).
        tcp_delacktime = "net.inet.tcp.delacktime", 0..=499, 200;
        /// Idle time before the first keepalive probe, in milliseconds.
        tcp_keepidle = "net.inet.tcp.keepidle", 1000..=2147483647, 7200000;
        /// Interval of keepalive probes in milliseconds.
        tcp_keepintvl = "net.inet.tcp.keepintvl", 10..=2147483647, 75000;
        /// Unanswered keepalive probes before the connection is dropped.
        tcp_keepcnt = "net.inet.tcp.keepcnt", 1..=127, 9;
        /// Merge consecutive segments that arrive in one burst.
        tcp_lro = "net.inet.tcp.lro", 0..=1, 1;
        /// Pass large segments to ports that support it.
        tcp_tso = "net.inet.tcp.tso", 0..=1, 1;
        /// Discover the path MTU without ICMP (RFC 8899).
        tcp_pmtud = "net.inet.tcp.pmtud_blackhole_detection", 0..=1, 0;
        /// Maximum buffer memory of all connections together, in bytes (sent and not acknowledged,
        /// received and not read, out of order); 0 is three quarters of the pool. At half of it no
        /// more out-of-order data is kept, at three quarters buffers stop growing, at all of it
        /// data is dropped for readers with unread data. From half of it on, a connection may queue
        /// four times the free memory for sending, or a few segments, for which up to five
        /// sixteenths more may be used.
        tcp_memlimit = "net.inet.tcp.memlimit", 0..=1099511627776, 0;
        /// Maximum connections without a process, except TIME-WAIT; a close beyond that resets.
        tcp_max_orphans = "net.inet.tcp.max_orphans", 0..=16777216, 8192;
        /// Milliseconds after which a connection without a process is dropped if its peer accepts
        /// no data (sockstress); when memory is exhausted this applies to all connections.
        tcp_stall_time = "net.inet.tcp.stall_time", 1000..=2147483647, 120000;
        /// SYN cookies (RFC 4987): 0 never, 1 when the SYN queue is full, 2 always.
        tcp_syncookies = "net.inet.tcp.syncookies", 0..=2, 1;
        /// Maximum handshakes in progress per listener.
        tcp_syncache = "net.inet.tcp.syncache.hashsize", 1..=1048576, 1024;
        /// Maximum accept queue of a listener.
        tcp_somaxconn = "kern.ipc.soacceptqueue", 1..=1048576, 4096;
        /// Maximum frames collected from single-frame sends for one tx_burst.
        tx_burst = "net.link.tx_burst", 1..=256, 1;
        /// Maximum frames waiting when a port accepts no more.
        tx_queue = "net.link.tx_queue", 1..=256, 256;
        /// Maximum packets waiting for one neighbor's address.
        neigh_queue = "net.link.ether.inet.maxhold", 1..=256, 16;
        /// Maximum packets waiting for all neighbors' addresses together; 0: an eighth of the pool.
        neigh_queue_all = "net.link.ether.inet.maxhold_all", 0..=1048576, 0;
        /// Maximum neighbor entries.
        neigh_limit = "net.link.ether.inet.max_entries", 8..=1048576, 4096;
        /// Time in seconds for which a neighbor counts as reachable.
        neigh_max_age = "net.link.ether.inet.max_age", 1..=86400, 1200;
        /// Answer ARP requests; 0: only learn from them, because another stack with the same
        /// addresses answers (the first of a split host).
        arp_answer = "net.link.ether.inet.answer", 0..=1, 1;
        /// Requests before resolution of a neighbor fails.
        neigh_tries = "net.link.ether.inet.maxtries", 1..=32, 3;
        /// Maximum frames in the loopback queue.
        loop_queue = "net.link.loopback.queue", 1..=65536, 512;
        /// Maximum decapsulated frames waiting for input.
        tunnel_queue = "net.link.tunnel.queue", 1..=65536, 512;
        /// Maximum nesting of tunnels for a packet; FreeBSD's default, 1, does not allow a tunnel
        /// in a tunnel.
        tunnel_nesting = "net.link.gif.max_nesting", 1..=16, 8;
        /// Time to live of outer packets, for tunnels without their own setting.
        tunnel_ttl = "net.inet.ip.gifttl", 1..=255, 30;
        /// IGMP version on links without an older querier; 2 has no source filters.
        igmp_version = "net.inet.igmp.default_version", 2..=3, 3;
        /// Forward IPv6 packets that are not for this host.
        forwarding6 = "net.inet6.ip6.forwarding", 0..=1, 0;
        /// Drop IPv6 packets by a reverse path check, like net.inet.ip.source_validation;
        /// link-local sources are valid on every link.
        source_validation6 = "net.inet6.ip6.source_validation", 0..=2, 0;
        /// Hop limit of IPv6 packets from this host.
        hop_limit6 = "net.inet6.ip6.hlim", 1..=255, 64;
        /// Open IPv6 sockets without IPv4 (IPV6_V6ONLY); sockets opened before are not changed.
        v6only = "net.inet6.ip6.v6only", 0..=1, 0;
        /// Set flow labels on packets from this host (RFC 6437).
        auto_flowlabel = "net.inet6.ip6.auto_flowlabel", 0..=1, 1;
        /// Send ICMPv6 redirects when a packet leaves through the interface it came from (RFC 4861
        /// 8.2).
        send_redirects6 = "net.inet6.ip6.redirect", 0..=1, 1;
        /// Accept ICMPv6 redirects, each for ten minutes; no effect while the host forwards IPv6.
        accept_redirects6 = "net.inet6.icmp6.rediraccept", 0..=1, 0;
        /// Accept router advertisements on ports attached from now on (others: `ifconfig IF inet6
        /// accept_rtadv`). No effect while forwarding.
        accept_rtadv = "net.inet6.ip6.accept_rtadv", 0..=1, 0;
        /// Number of solicitations of duplicate address detection (RFC 4862 5.4); 0 disables it.
        dad_count = "net.inet6.ip6.dad_count", 0..=10, 1;
        /// Hop limit of outer IPv6 packets, for tunnels without their own setting.
        tunnel_hop_limit = "net.inet6.ip6.gifhlim", 1..=255, 30;
        /// Maximum ICMPv6 errors per second to all destinations together, 0 for no limit; one /64
        /// gets about a quarter.
        icmp6_rate = "net.inet6.icmp6.errppslimit", 0..=1000000, 100;
        /// Maximum IPv6 neighbor entries.
        neigh6_limit = "net.inet6.ip6.neighborgcthresh", 8..=1048576, 2048;
        /// Maximum packets waiting for one IPv6 neighbor's address.
        neigh6_queue = "net.inet6.icmp6.nd6_maxqueuelen", 1..=256, 16;
        /// Maximum packets waiting for all IPv6 neighbors' addresses together; 0: an eighth of the
        /// pool.
        neigh6_queue_all = "net.inet6.icmp6.nd6_maxqueue_all", 0..=1048576, 0;
        /// Solicitations before resolution of an IPv6 neighbor fails.
        neigh6_tries = "net.inet6.icmp6.nd6_mmaxtries", 1..=32, 3;
        /// Time in seconds that an IPv6 neighbor counts as reachable.
        neigh6_reachable = "net.inet6.icmp6.nd6_reachable", 1..=86400, 30;
        /// Prefetch headers, hash buckets and sockets while a burst is processed.
        prefetch = "net.isr.prefetch", 0..=1, 1;
    }
}
