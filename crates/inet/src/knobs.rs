//! The stack's knobs: each declared once, with its sysctl-like name, range, default and sentence.
//!
//! All are plain numbers (switches are 0 and 1) that may change while the stack runs; a read is one relaxed load.

mod linux;

pub use stats::{Knob, KnobInfo, OutOfRange};

stats::knobs! {
    /// The stack's knobs.
    pub struct Knobs {
        /// Forward packets that are not for this host.
        forwarding = "net.inet.ip.forwarding", 0..=1, 0;
        /// Time to live of packets made here.
        ttl = "net.inet.ip.ttl", 1..=255, 64;
        /// Send redirects when a packet leaves through the iface it came from (RFC 1812 5.2.7.2).
        send_redirects = "net.inet.ip.redirect", 0..=1, 1;
        /// Drop packets whose source packets do not go back to: 1 loose, no route leads there; 2 strict, none by the iface they came by
        /// (RFC 1812 5.3.8, RFC 3704); the other way round than Linux's rp_filter.
        source_validation = "net.inet.ip.source_validation", 0..=2, 0;
        /// Accept redirects, each for ten minutes (a stranger can use them to take a route over).
        accept_redirects = "net.inet.icmp.accept_redirects", 0..=1, 0;
        /// ICMP errors a second, all destinations together, 0 for no limit; one destination gets at most a quarter.
        icmp_rate = "net.inet.icmp.icmplim", 0..=1000000, 200;
        /// Echo requests answered a second, 0 for no limit.
        echo_rate = "net.inet.icmp.echolim", 0..=100000000, 100000;
        /// Answer echo requests sent to broadcast and multicast addresses (Smurf).
        broadcast_echo = "net.inet.icmp.bmcastecho", 0..=1, 0;
        /// Compute and send UDP checksums.
        udp_checksum = "net.inet.udp.checksum", 0..=1, 1;
        /// Bytes of receive buffer of a new UDP socket.
        udp_recvspace = "net.inet.udp.recvspace", 512..=1073741824, 42080;
        /// Bytes of send buffer of a UDP socket. Nothing waits in it: a datagram longer than it is refused, as in BSD.
        udp_sendspace = "net.inet.udp.sendspace", 512..=1073741824, 65507;
        /// Largest UDP payload a socket sends.
        udp_maxdgram = "net.inet.udp.maxdgram", 512..=65507, 65507;
        /// Keep a socket's headers, route and neighbor from one datagram to the next.
        header_cache = "net.inet.udp.header_cache", 0..=1, 1;
        /// Answer datagrams to ports without a socket with port unreachable; 1 is silence, as BSD's blackhole.
        udp_blackhole = "net.inet.udp.blackhole", 0..=1, 0;
        /// Segments for ports without a listener are dropped in silence, not answered with a reset.
        tcp_blackhole = "net.inet.tcp.blackhole", 0..=1, 0;
        /// Bytes of receive buffer that a TCP socket begins with.
        tcp_recvspace = "net.inet.tcp.recvspace", 2048..=1073741824, 131072;
        /// Bytes of receive buffer that auto-tuning goes up to.
        tcp_recvspace_max = "net.inet.tcp.recvbuf_max", 2048..=1073741824, 6291456;
        /// Bytes of send buffer that a TCP socket begins with.
        tcp_sendspace = "net.inet.tcp.sendspace", 2048..=1073741824, 131072;
        /// Bytes of send buffer that auto-tuning goes up to.
        tcp_sendspace_max = "net.inet.tcp.sendbuf_max", 2048..=1073741824, 4194304;
        /// Window scaling and timestamps (RFC 7323); 2 is window scaling alone.
        tcp_rfc1323 = "net.inet.tcp.rfc1323", 0..=2, 1;
        /// Selective acknowledgments (RFC 2018).
        tcp_sack = "net.inet.tcp.sack.enable", 0..=1, 1;
        /// Explicit congestion notification (RFC 3168): 1 asks for it, 2 agrees to it when asked.
        tcp_ecn = "net.inet.tcp.ecn.enable", 0..=2, 2;
        /// Congestion control of new connections: 1 is CUBIC (RFC 9438), 0 NewReno (RFC 5681, RFC 6582).
        tcp_cc_cubic = "net.inet.tcp.cc.cubic", 0..=1, 1;
        /// Segments of the initial congestion window (RFC 6928).
        tcp_initcwnd = "net.inet.tcp.initcwnd_segments", 1..=64, 10;
        /// An ACK opens the window in slow start by a few segments at most: 2 (RFC 3465), 8 with HyStart++ (RFC 9406), and 1 after
        /// a timeout. 0: by all that newly arrived, as Linux.
        tcp_rfc3465 = "net.inet.tcp.rfc3465", 0..=1, 1;
        /// Congestion reduces the congestion window (as Linux, whose window is validated) and not what is in flight (RFC 5681 3.1).
        tcp_reduce_cwnd = "net.inet.tcp.reduce_cwnd", 0..=1, 0;
        /// New text leaves in runs, as Linux hands it to a port that cuts segments up, and a run of several ends with PSH: this many
        /// segments at least, if there are so many (Linux's tcp_min_tso_segs). 0: no runs.
        tcp_push_runs = "net.inet.tcp.push_runs", 0..=64, 0;
        /// An ACK of the peer's FIN may be delayed as one of text is, and carries no D-SACK (as Linux).
        tcp_delay_fin_ack = "net.inet.tcp.delay_fin_ack", 0..=1, 0;
        /// Milliseconds that a retransmission timeout grows to at most (RFC 6298 2.5: 60000 or more).
        tcp_rto_max = "net.inet.tcp.rto_max", 1000..=120000, 120000;
        /// A SYN without an answer is sent again this often (Linux: 6).
        tcp_syn_retries = "net.inet.tcp.syn_retries", 0..=127, 7;
        /// A SYN-ACK without an answer is sent again this often (Linux: 5).
        tcp_synack_retries = "net.inet.tcp.synack_retries", 0..=127, 7;
        /// The congestion window begins anew after a silence of an RTO (RFC 5681 4.1).
        tcp_idle_restart = "net.inet.tcp.idle_restart", 0..=1, 1;
        /// Segment size assumed for a peer that names none.
        tcp_mssdflt = "net.inet.tcp.mssdflt", 216..=65495, 536;
        /// Segment size assumed for a peer of IPv6 that names none (RFC 9293 3.7.1).
        tcp_v6mssdflt = "net.inet.tcp.v6mssdflt", 216..=65495, 1220;
        /// Least segment size sent, however little a peer asks for (CVE-2019-11479).
        tcp_minmss = "net.inet.tcp.minmss", 48..=65495, 48;
        /// Milliseconds that a segment may live; a connection stays in TIME-WAIT for twice that.
        tcp_msl = "net.inet.tcp.msl", 1..=600000, 30000;
        /// Milliseconds that an ACK may be delayed at most (RFC 9293 3.8.6.3: below 500).
        tcp_delacktime = "net.inet.tcp.delacktime", 0..=499, 200;
        /// Milliseconds of silence before the first keepalive probe.
        tcp_keepidle = "net.inet.tcp.keepidle", 1000..=2147483647, 7200000;
        /// Milliseconds between keepalive probes.
        tcp_keepintvl = "net.inet.tcp.keepintvl", 10..=2147483647, 75000;
        /// Keepalive probes without an answer before the connection is dropped.
        tcp_keepcnt = "net.inet.tcp.keepcnt", 1..=127, 9;
        /// Take segments in order that come in one burst together, as one.
        tcp_lro = "net.inet.tcp.lro", 0..=1, 1;
        /// Hand large segments to ports that take them.
        tcp_tso = "net.inet.tcp.tso", 0..=1, 1;
        /// Search for the path's MTU without ICMP (RFC 8899).
        tcp_pmtud = "net.inet.tcp.pmtud_blackhole_detection", 0..=1, 0;
        /// Bytes of buffers that all connections may hold together: sent and not acknowledged, received and not read, out of
        /// order; 0 is three quarters of the pool. At half of it nothing more is kept out of order, at three quarters buffers
        /// stop growing, at all of it text is dropped for those who have not read what they got. From half of it on a connection
        /// may queue for sending four times what is free, or a few segments, for which up to five sixteenths more may be held.
        tcp_memlimit = "net.inet.tcp.memlimit", 0..=1099511627776, 0;
        /// Connections that no process holds any more, TIME-WAIT aside; a close beyond that resets.
        tcp_max_orphans = "net.inet.tcp.max_orphans", 0..=16777216, 8192;
        /// Milliseconds after which a connection that no process holds is given up if its peer takes nothing (sockstress); and
        /// any connection, when memory has run out.
        tcp_stall_time = "net.inet.tcp.stall_time", 1000..=2147483647, 120000;
        /// SYN cookies (RFC 4987): 0 never, 1 when the SYN queue is full, 2 always.
        tcp_syncookies = "net.inet.tcp.syncookies", 0..=2, 1;
        /// Handshakes that one listener keeps under way.
        tcp_syncache = "net.inet.tcp.syncache.hashsize", 1..=1048576, 1024;
        /// The longest accept queue that a listener may ask for.
        tcp_somaxconn = "kern.ipc.soacceptqueue", 1..=1048576, 4096;
        /// Frames collected for one tx_burst by calls that send one.
        tx_burst = "net.link.tx_burst", 1..=256, 1;
        /// Frames that may wait when a port takes no more.
        tx_queue = "net.link.tx_queue", 1..=256, 256;
        /// Packets that may wait for one neighbor's answer.
        neigh_queue = "net.link.ether.inet.maxhold", 1..=256, 16;
        /// Packets that may wait for all neighbors' answers together; 0: an eighth of the pool.
        neigh_queue_all = "net.link.ether.inet.maxhold_all", 0..=1048576, 0;
        /// Neighbors remembered.
        neigh_limit = "net.link.ether.inet.max_entries", 8..=1048576, 4096;
        /// Seconds that a neighbor's answer is good for.
        neigh_max_age = "net.link.ether.inet.max_age", 1..=86400, 1200;
        /// Answer ARP's questions; 0: learn from them alone, another stack with these addresses answers (a split host's first).
        arp_answer = "net.link.ether.inet.answer", 0..=1, 1;
        /// Tries before a neighbor is given up.
        neigh_tries = "net.link.ether.inet.maxtries", 1..=32, 3;
        /// Frames that may wait in the loopback queue.
        loop_queue = "net.link.loopback.queue", 1..=65536, 512;
        /// Frames taken out of tunnels that may wait to be taken in.
        tunnel_queue = "net.link.tunnel.queue", 1..=65536, 512;
        /// Tunnels through which a packet may go out one in another; FreeBSD's default, 1, is without room for one in one.
        tunnel_nesting = "net.link.gif.max_nesting", 1..=16, 8;
        /// Time to live of tunnels' outer packets, of those that were given none of their own.
        tunnel_ttl = "net.inet.ip.gifttl", 1..=255, 30;
        /// Version of IGMP on links where no router of an earlier one is heard; 2 has no source filters.
        igmp_version = "net.inet.igmp.default_version", 2..=3, 3;
        /// Forward IPv6 packets that are not for this host.
        forwarding6 = "net.inet6.ip6.forwarding", 0..=1, 0;
        /// The same as net.inet.ip.source_validation, for IPv6 packets; link-local sources are valid on every link.
        source_validation6 = "net.inet6.ip6.source_validation", 0..=2, 0;
        /// Hop limit of IPv6 packets made here.
        hop_limit6 = "net.inet6.ip6.hlim", 1..=255, 64;
        /// Sockets of IPv6 take no IPv4 (IPV6_V6ONLY); those opened before keep what they have.
        v6only = "net.inet6.ip6.v6only", 0..=1, 0;
        /// Label the flows of packets made here (RFC 6437).
        auto_flowlabel = "net.inet6.ip6.auto_flowlabel", 0..=1, 1;
        /// Send ICMPv6 redirects when a packet leaves through the interface it came from (RFC 4861 8.2).
        send_redirects6 = "net.inet6.ip6.redirect", 0..=1, 1;
        /// Accept ICMPv6 redirects, each for ten minutes; no effect while the host forwards IPv6.
        accept_redirects6 = "net.inet6.icmp6.rediraccept", 0..=1, 0;
        /// Accept router advertisements on ports attached from now on (others: `ifconfig IF inet6 accept_rtadv`). No effect while
        /// forwarding.
        accept_rtadv = "net.inet6.ip6.accept_rtadv", 0..=1, 0;
        /// Times that somebody else is asked for before an IPv6 address is ours (RFC 4862 5.4); 0: nobody is asked.
        dad_count = "net.inet6.ip6.dad_count", 0..=10, 1;
        /// Hop limit of tunnels' outer packets of IPv6, of those that were given none of their own.
        tunnel_hop_limit = "net.inet6.ip6.gifhlim", 1..=255, 30;
        /// ICMPv6 errors a second, all destinations together, 0 for no limit; one /64 gets at most a quarter.
        icmp6_rate = "net.inet6.icmp6.errppslimit", 0..=1000000, 100;
        /// IPv6 neighbors remembered.
        neigh6_limit = "net.inet6.ip6.neighborgcthresh", 8..=1048576, 2048;
        /// Packets that may wait for one IPv6 neighbor's answer.
        neigh6_queue = "net.inet6.icmp6.nd6_maxqueuelen", 1..=256, 16;
        /// Packets that may wait for all IPv6 neighbors' answers together; 0: an eighth of the pool.
        neigh6_queue_all = "net.inet6.icmp6.nd6_maxqueue_all", 0..=1048576, 0;
        /// Solicitations before an IPv6 neighbor is given up.
        neigh6_tries = "net.inet6.icmp6.nd6_mmaxtries", 1..=32, 3;
        /// Seconds that an IPv6 neighbor's answer is good for.
        neigh6_reachable = "net.inet6.icmp6.nd6_reachable", 1..=86400, 30;
        /// Ask the cache ahead for headers, hash buckets and sockets while a burst is taken apart.
        prefetch = "net.isr.prefetch", 0..=1, 1;
    }
}
