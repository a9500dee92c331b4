//! Drop reasons: the complete list of reasons why a frame ends without being delivered or sent.
//!
//! Each entry of the list gives the enum's variant, the counter's dotted name (module path first),
//! and the description. Traces print the last part of the name. `linerate audit` adds up the
//! counters: frames in = frames out + frames held + frames dropped by reason, exactly. Frames of
//! kind [`End::Consumed`] are not lost: they count as frames out, so an alert can watch the losses
//! alone.

/// Kind of a drop reason: a loss, or the normal end of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The frame was lost or rejected.
    Lost,
    /// The frame served its purpose: it was processed, merged into another frame, or sent as
    /// fragments.
    Consumed,
}

macro_rules! end {
    () => {
        End::Lost
    };
    ($end:ident) => {
        End::$end
    };
}

macro_rules! drop_reasons {
    ($( $(#[doc = $sentence:literal])+ $variant:ident = $prefix:literal . $word:ident $(=> $end:ident)? ),+ $(,)?) => {
        /// Reason why a frame was dropped.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum DropReason { $( $(#[doc = $sentence])+ $variant ),+ }

        impl DropReason {
            /// All reasons, in order of declaration, which is the order in which a frame passes the
            /// layers.
            pub const ALL: &'static [DropReason] = &[$( DropReason::$variant ),+];

            /// Returns the dotted name of the counter, such as `inet.ip4.in.bad_checksum`.
            pub fn name(self) -> &'static str {
                match self { $( DropReason::$variant => concat!($prefix, ".", stringify!($word)) ),+ }
            }

            /// Returns the part of the counter's name before the word, such as `inet.ip4.in`.
            pub(super) fn prefix(self) -> &'static str {
                match self { $( DropReason::$variant => $prefix ),+ }
            }

            /// Returns the word for the reason in a trace line: the last part of its counter's
            /// name.
            pub fn word(self) -> &'static str { match self { $( DropReason::$variant => stringify!($word) ),+ } }

            /// Returns whether a frame dropped for this reason was lost or consumed.
            pub fn end(self) -> End {
                match self { $( DropReason::$variant => end!($($end)?) ),+ }
            }

            /// Returns the description of the reason.
            pub fn sentence(self) -> &'static str {
                match self { $( DropReason::$variant => concat!($($sentence),+).trim_ascii() ),+ }
            }
        }
    };
}

drop_reasons! {
    /// Bridge: the bridge is down.
    BridgeDown = "bridge.in" . down,
    /// Bridge: the bridge is in monitor mode and does not forward.
    BridgeMonitor = "bridge.in" . monitor,
    /// Bridge: frame is shorter than an Ethernet header.
    BridgeShort = "bridge.in" . short,
    /// Bridge: source address is a group address or zero (IEEE 802.3 3.2.3).
    BridgeBadSource = "bridge.in" . bad_source,
    /// Bridge: received on a span port, which only sends copies.
    BridgeSpan = "bridge.in" . span,
    /// Bridge: addressed to a reserved group that bridges do not forward (IEEE 802.1Q table 8-1).
    BridgeReserved = "bridge.in" . reserved,
    /// Bridge: the queue of frames for the bridge itself is full.
    BridgeLocalFull = "bridge.in" . local_full,
    /// Bridge: port is muted for a time because addresses moved back and forth between it and
    /// another port, as in a loop.
    BridgeMuted = "bridge.in" . muted,
    /// Bridge: port is disabled or discarding (IEEE 802.1Q 8.4).
    BridgeDiscarding = "bridge.in" . discarding,
    /// Bridge: frame is too short for its VLAN tag.
    BridgeTagShort = "bridge.in" . tag_short,
    /// Bridge: VLAN ID is 4095, which is reserved (IEEE 802.1Q table 9-2).
    BridgeBadVid = "bridge.in" . bad_vid,
    /// Bridge: two VLAN tags on a port that accepts at most one.
    BridgeDoubleTag = "bridge.in" . double_tag,
    /// Bridge: port accepts only tagged or only untagged frames, or has no PVID for untagged ones
    /// (IEEE 802.1Q 6.9).
    BridgeNotAdmitted = "bridge.in" . not_admitted,
    /// Bridge: port is not a member of the frame's VLAN (IEEE 802.1Q 8.6.2).
    BridgeVlanIn = "bridge.in" . vlan,
    /// Bridge: rejected by the port's input rules.
    BridgeRuleIn = "bridge.in" . rule,
    /// Bridge: source address is one of the bridge's own addresses.
    BridgeOwnSource = "bridge.in" . own_source,
    /// Bridge: source address belongs to another port by a static or sticky entry.
    BridgeBound = "bridge.in" . bound,
    /// Bridge: source address is new and the port has reached its address limit.
    BridgePortFull = "bridge.in" . port_full,
    /// Bridge: port is learning and not yet forwarding (IEEE 802.1Q 8.4).
    BridgeLearning = "bridge.in" . learning,
    /// Bridge: destination is on the port where the frame was received.
    BridgeSamePort = "bridge.in" . same_port,
    /// Bridge: destination port is isolated from this port (both private, in different clusters,
    /// or a span port).
    BridgeApart = "bridge.in" . apart,
    /// Bridge: destination port is not forwarding, or is muted.
    BridgeNotForwarding = "bridge.in" . not_forwarding,
    /// Bridge: destination port has no carrier.
    BridgeNoCarrier = "bridge.in" . no_carrier,
    /// Bridge: destination port is administratively down.
    BridgePortDown = "bridge.in" . port_down,
    /// Bridge: the destination port's device was removed, or its pipe has no reader.
    BridgePortGone = "bridge.in" . port_gone,
    /// Bridge: destination port is not a member of the frame's VLAN (IEEE 802.1Q 8.6.4).
    BridgeVlanOut = "bridge.in" . vlan_out,
    /// Bridge: the ingress port exceeded its broadcast rate limit (storm control).
    BridgeBroadcastStorm = "bridge.in" . broadcast_storm,
    /// Bridge: the ingress port exceeded its multicast rate limit (storm control).
    BridgeMulticastStorm = "bridge.in" . multicast_storm,
    /// Bridge: the ingress port exceeded its rate limit for unknown destinations (storm control).
    BridgeUnknownStorm = "bridge.in" . unknown_storm,
    /// Bridge: IGMP or MLD message is malformed or has a wrong checksum (RFC 4541 2.1.1).
    BridgeSnoopMalformed = "bridge.in" . snoop_malformed,
    /// Bridge: there is no other port to which the frame may be sent.
    BridgeNowhere = "bridge.in" . nowhere,
    /// Bridge: no free buffer for the copy to another port.
    BridgeNoCopy = "bridge.out" . no_copy,
    /// Bridge: no free bytes in front of the frame for a VLAN tag.
    BridgeNoTagRoom = "bridge.out" . no_tag_room,
    /// Bridge: rejected by the output port's rules.
    BridgeRuleOut = "bridge.out" . rule,
    /// Bridge: the output port accepted no more frames.
    BridgeOutFull = "bridge.out" . full,
    /// Bridge: the output port's device rejected the frame (device down, without carrier or gone;
    /// frame too long or malformed).
    BridgePortFailed = "bridge.out" . port_failed,
    /// Bridge: the workers' queue to the output port is full.
    BridgeQueueFull = "bridge.out" . queue_full,
    /// Bridge: the output port was removed, or accepted no more frames when the switch shut down.
    BridgePortRemoved = "bridge.out" . port_removed,
    /// Policy of the port: the hook does not allow the packet's flow, or it cannot be parsed.
    PolicyDenied = "node.policy" . denied,
    /// Policy of the port: the station exceeded its quota.
    PolicyQuota = "node.policy" . quota,
    /// Netisr: the workstream's queue for this protocol is full (limits: net.isr).
    NetisrQueueFull = "dispatch.netisr" . queue_full,
    /// Frame is shorter than an Ethernet header.
    EtherShort = "inet.link.ether.in" . short,
    /// Source address is multicast, broadcast or zero (IEEE 802.3 3.2.3, 802.1D 7.8).
    EtherBadSource = "inet.link.ether.in" . bad_source,
    /// Source address is this interface's own: another station has the same MAC address, or the
    /// link loops.
    EtherOwnSource = "inet.link.ether.in" . own_source,
    /// Addressed to another station (ports also deliver frames for other stations).
    EtherOtherHost = "inet.link.ether.in" . other_host,
    /// EtherType is not supported, the frame has a VLAN tag other than VLAN 0, or it contains IPv6
    /// and the interface has no IPv6 address.
    EtherUnknownType = "inet.link.ether.in" . unknown_type,
    /// The interface is administratively down.
    IfaceDown = "inet.link.ether.in" . iface_down,
    /// Packet for the mirror of the interface: its class exceeded its rate (net.punt).
    PuntPoliced = "inet.punt" . policed,
    /// ARP packet is malformed (RFC 826: types, lengths).
    ArpMalformed = "inet.arp.in" . malformed,
    /// ARP packet for another host, ignored.
    ArpIgnored = "inet.arp.in" . ignored => Consumed,
    /// ARP packet processed: the neighbor table was updated, and a reply (if any) is a frame of its
    /// own.
    ArpConsumed = "inet.arp.in" . consumed => Consumed,
    /// ARP sender claims one of our addresses (RFC 5227 2.4).
    ArpConflict = "inet.arp.in" . conflict,
    /// ARP sender would overwrite a static (permanent) entry.
    ArpStatic = "inet.arp.in" . would_overwrite_static,
    /// Neighbor did not reply in time (RFC 1122 2.3.2.2).
    NeighTimeout = "inet.neigh" . timeout,
    /// Queue of packets for this neighbor is full: the oldest was dropped.
    NeighQueueFull = "inet.neigh" . queue_full,
    /// Packets waiting for address resolution have used up their share of the buffer pool: this one
    /// was dropped in favor of a packet to a neighbor requested later.
    NeighShareFull = "inet.neigh" . share_full,
    /// Address resolution was not complete when another neighbor replaced this entry in the full
    /// neighbor table (RFC 6583 7).
    NeighDisplaced = "inet.neigh" . displaced,
    /// Neighbor table is full of entries in use.
    NeighTableFull = "inet.neigh" . table_full,
    /// IPv4 header is truncated, or its header or total length is invalid.
    Ip4Malformed = "inet.ip4.in" . malformed,
    /// IPv4 version is not 4.
    Ip4BadVersion = "inet.ip4.in" . bad_version,
    /// IPv4 header checksum is wrong (RFC 791 3.1).
    Ip4BadChecksum = "inet.ip4.in" . bad_checksum,
    /// IPv4 options are malformed (RFC 1122 3.2.1.8).
    Ip4BadOptions = "inet.ip4.in" . bad_options,
    /// IPv4 source route is present: dropped, not followed (RFC 7126 4.3).
    Ip4SourceRoute = "inet.ip4.in" . source_route,
    /// Source address must not appear on a wire (RFC 1812 5.3.7: martians).
    Ip4MartianSource = "inet.ip4.in" . martian_source,
    /// Destination address must not appear on a wire.
    Ip4MartianDestination = "inet.ip4.in" . martian_destination,
    /// Source address is one of ours: LAND attack, or a loop.
    Ip4OwnSource = "inet.ip4.in" . own_source,
    /// No route to the source, or none through this interface (RFC 3704;
    /// net.inet.ip.source_validation).
    Ip4InvalidSource = "inet.ip4.in" . invalid_source,
    /// Not addressed to us, and forwarding is off.
    Ip4NotForwarding = "inet.ip4.in" . not_forwarding,
    /// Unicast packet in a link-layer broadcast, neither accepted nor forwarded (RFC 1122 3.3.6).
    Ip4LinkBroadcast = "inet.ip4.in" . link_broadcast,
    /// Multicast group that no socket has joined.
    Ip4NotMember = "inet.ip4.in" . not_member,
    /// Unknown protocol (answered with protocol unreachable where allowed).
    Ip4UnknownProtocol = "inet.ip4.in" . unknown_protocol,
    /// TTL expired in transit (answered with time exceeded where allowed).
    Ip4TtlExceeded = "inet.ip4.forward" . ttl_exceeded,
    /// No route to the destination.
    Ip4NoRoute = "inet.ip4.forward" . no_route,
    /// The route prohibits the destination.
    Ip4Prohibited = "inet.ip4.forward" . prohibited,
    /// Larger than the next link's MTU and DF is set (answered with fragmentation needed).
    Ip4TooBig = "inet.ip4.forward" . too_big,
    /// Sent with a TTL of 0, so it must not leave this host (RFC 1112 6.1).
    Ip4TtlZero = "inet.ip4.out" . ttl_zero,
    /// Broadcast or multicast packet, not forwarded.
    Ip4NotForwardable = "inet.ip4.forward" . not_forwardable,
    /// Packet sent as fragments: its bytes were sent, and the original frame freed.
    Ip4Fragmented = "inet.ip4.forward" . fragmented => Consumed,
    /// Fragment with an invalid length, offset or flag (Ping of Death, jolt2, RFC 1858).
    FragMalformed = "inet.ip4.reass" . malformed,
    /// Fragment overlaps bytes already received: the whole datagram is dropped (RFC 5722's rule,
    /// applied to IPv4).
    FragOverlap = "inet.ip4.reass" . overlap,
    /// Identical fragment was already received.
    FragDuplicate = "inet.ip4.reass" . duplicate,
    /// Fragment of a datagram whose reassembly was abandoned because the table or memory limit was
    /// reached.
    FragEvicted = "inet.ip4.reass" . evicted,
    /// Reassembly timed out (RFC 1122 3.3.2).
    FragTimeout = "inet.ip4.reass" . timeout,
    /// Fragment merged into the reassembled datagram, and its frame freed.
    FragMerged = "inet.ip4.reass" . merged => Consumed,
    /// No buffer for the reassembled datagram.
    FragNoBuffer = "inet.ip4.reass" . no_buffer,
    /// ICMP message is too short for its type, or its quoted packet is truncated.
    IcmpMalformed = "inet.icmp4.in" . malformed,
    /// ICMP checksum is wrong.
    IcmpBadChecksum = "inet.icmp4.in" . bad_checksum,
    /// ICMP message processed: an error was passed to its socket, a redirect applied, or an echo
    /// answered with a new frame.
    IcmpConsumed = "inet.icmp4.in" . consumed => Consumed,
    /// ICMP message that matches no socket here, or of an unsupported type.
    IcmpIgnored = "inet.icmp4.in" . ignored,
    /// Echo request to a broadcast or multicast address, not answered (RFC 1122 3.2.2.6; Smurf).
    IcmpBroadcastEcho = "inet.icmp4.in" . broadcast_echo,
    /// ICMP redirect not accepted (RFC 1122 3.2.2.2, off by default).
    IcmpRedirectIgnored = "inet.icmp4.in" . redirect_ignored,
    /// ICMP echo above the reply rate limit.
    IcmpRateLimited = "inet.icmp4.in" . rate_limited,
    /// IGMP message processed or ignored.
    IgmpConsumed = "inet.igmp.in" . consumed => Consumed,
    /// IGMP message is malformed.
    IgmpMalformed = "inet.igmp.in" . malformed,
    /// IPv6 header is truncated, or its payload length or an extension header exceeds the packet.
    Ip6Malformed = "inet.ip6.in" . malformed,
    /// IPv6 version is not 6.
    Ip6BadVersion = "inet.ip6.in" . bad_version,
    /// Source address must not appear on a wire: a group, ::1, IPv4-mapped, or :: to a host (RFC
    /// 4291 2.5).
    Ip6MartianSource = "inet.ip6.in" . martian_source,
    /// Destination address must not appear on a wire.
    Ip6MartianDestination = "inet.ip6.in" . martian_destination,
    /// Source address is one of ours: LAND attack, or a loop.
    Ip6OwnSource = "inet.ip6.in" . own_source,
    /// No route to the source, or none through this interface (RFC 3704;
    /// net.inet6.ip6.source_validation).
    Ip6InvalidSource = "inet.ip6.in" . invalid_source,
    /// Unicast IPv6 packet in a link-layer multicast.
    Ip6LinkBroadcast = "inet.ip6.in" . link_broadcast,
    /// Extension headers out of order or too many: Hop-by-Hop not first, a second Fragment header,
    /// more than 8 (RFC 8200 4.1).
    Ip6BadExtension = "inet.ip6.in" . bad_extension,
    /// Unknown option with a type that requires the packet to be dropped (RFC 8200 4.2).
    Ip6BadOption = "inet.ip6.in" . unknown_option,
    /// IPv6 source route is present: dropped, not followed (RFC 5095, RFC 8200 4.4).
    Ip6RoutingHeader = "inet.ip6.in" . routing_header,
    /// IPv6 multicast group that no socket here has joined.
    Ip6NotMember = "inet.ip6.in" . not_member,
    /// Link-local address that is not one of ours on this link; such packets are never forwarded
    /// (RFC 4007 9).
    Ip6NotHere = "inet.ip6.in" . not_here,
    /// Addressed to a tentative or duplicate address (RFC 4862 5.4).
    Ip6Tentative = "inet.ip6.in" . tentative,
    /// IPv6: not addressed to us, and forwarding is off.
    Ip6NotForwarding = "inet.ip6.in" . not_forwarding,
    /// Unknown next header (answered with a parameter problem where allowed).
    Ip6UnknownNext = "inet.ip6.in" . unknown_next_header,
    /// No payload after the headers (RFC 8200 4.7).
    Ip6NoNext = "inet.ip6.in" . no_next_header,
    /// Source address is not valid beyond its link (answered with beyond scope where allowed).
    Ip6BeyondScope = "inet.ip6.forward" . beyond_scope,
    /// Sent with a hop limit of 0, so it must not leave this host.
    Ip6HopLimitZero = "inet.ip6.out" . hop_limit_zero,
    /// Hop limit expired in transit (answered with time exceeded where allowed).
    Ip6HopLimit = "inet.ip6.forward" . hop_limit_exceeded,
    /// Packet would leave through the point-to-point link on which it arrived: the peer does not
    /// have the address (answered with address unreachable).
    Ip6GoesBack = "inet.ip6.forward" . goes_back,
    /// No route to the IPv6 destination.
    Ip6NoRoute = "inet.ip6.forward" . no_route,
    /// The route prohibits the IPv6 destination.
    Ip6Prohibited = "inet.ip6.forward" . prohibited,
    /// Larger than the next link's MTU (answered with packet too big where allowed).
    Ip6TooBig = "inet.ip6.forward" . too_big,
    /// IPv6 packet sent as fragments: its bytes were sent, and the original frame freed.
    Ip6Fragmented = "inet.ip6.out" . fragmented => Consumed,
    /// ICMPv6 message is too short for its type, or its quoted packet is truncated.
    Icmp6Malformed = "inet.icmp6.in" . malformed,
    /// ICMPv6 checksum is wrong.
    Icmp6BadChecksum = "inet.icmp6.in" . bad_checksum,
    /// ICMPv6 error message processed.
    Icmp6Consumed = "inet.icmp6.in" . consumed => Consumed,
    /// ICMPv6 message that matches no socket here, is of an unsupported type, or is an echo request
    /// that cannot be answered.
    Icmp6Ignored = "inet.icmp6.in" . ignored,
    /// ICMPv6 echo above the reply rate limit.
    Icmp6RateLimited = "inet.icmp6.in" . rate_limited,
    /// Neighbor discovery message is malformed, has an option of length 0, or is fragmented (RFC
    /// 4861 7.1, RFC 6980).
    NdMalformed = "inet.nd.in" . malformed,
    /// Neighbor discovery message with a hop limit other than 255: it was not sent by a node on
    /// this link.
    NdHopLimit = "inet.nd.in" . hop_limit,
    /// Neighbor discovery message processed.
    NdConsumed = "inet.nd.in" . consumed => Consumed,
    /// Neighbor discovery message for another host, or a router message on an interface without
    /// accept_rtadv or advertise.
    NdIgnored = "inet.nd.in" . ignored => Consumed,
    /// Neighbor discovery: another host has, or requests, one of our addresses.
    NdConflict = "inet.nd.in" . conflict,
    /// Neighbor discovery would overwrite a static (permanent) entry.
    NdStatic = "inet.nd.in" . would_overwrite_static,
    /// MLD message processed or ignored.
    MldConsumed = "inet.mld.in" . consumed => Consumed,
    /// MLD message is malformed, or was not sent by a node on this link.
    MldMalformed = "inet.mld.in" . malformed,
    /// UDP length is shorter than the header or longer than the packet.
    UdpBadLength = "inet.udp.in" . bad_length,
    /// UDP checksum is wrong (RFC 1122 4.1.3.4).
    UdpBadChecksum = "inet.udp.in" . bad_checksum,
    /// UDP destination port is 0.
    UdpPortZero = "inet.udp.in" . port_zero,
    /// No socket on this UDP port (answered with port unreachable where allowed).
    UdpNoSocket = "inet.udp.in" . no_socket,
    /// No socket accepts this broadcast or multicast datagram.
    UdpNoSocketBroadcast = "inet.udp.in" . no_socket_broadcast,
    /// The UDP socket's receive buffer is full.
    UdpBufferFull = "inet.udp.in" . buffer_full,
    /// The UDP socket has shut down reading, or was closed with unread datagrams.
    UdpClosed = "inet.udp.in" . closed,
    /// The UDP socket is connected to another peer.
    UdpNotPeer = "inet.udp.in" . not_peer,
    /// No buffer for the copy of a datagram that several sockets receive.
    UdpNoCopy = "inet.udp.in" . no_copy,
    /// The receive buffer of a raw or ICMP socket is full.
    RawBufferFull = "inet.raw.in" . buffer_full,
    /// A raw or ICMP socket was closed with unread packets.
    RawClosed = "inet.raw.in" . closed,
    /// No buffer for the copy of a packet for a raw socket.
    RawNoCopy = "inet.raw.in" . no_copy,
    /// The checksum requested by a raw socket (RFC 3542 3.1) is wrong.
    RawBadChecksum = "inet.raw.in" . bad_checksum,
    /// Packet of a protocol used only by raw sockets, which received copies.
    RawConsumed = "inet.raw.in" . consumed => Consumed,
    /// TCP header is truncated, or its data offset is invalid (RFC 9293 3.1).
    TcpMalformed = "inet.tcp.in" . malformed,
    /// TCP checksum is wrong (RFC 9293 3.1, MUST-3).
    TcpBadChecksum = "inet.tcp.in" . bad_checksum,
    /// TCP source or destination port is 0.
    TcpPortZero = "inet.tcp.in" . port_zero,
    /// TCP segment to a broadcast or multicast address (RFC 9293 3.9.2.3, MUST-57).
    TcpGroup = "inet.tcp.in" . group,
    /// No TCP connection or listener: answered with an RST (RFC 9293 3.10.7.1).
    TcpNoConnection = "inet.tcp.in" . no_connection,
    /// SYN with FIN or RST, or no relevant flag set.
    TcpBadFlags = "inet.tcp.in" . bad_flags,
    /// Old duplicate detected by its timestamp (PAWS, RFC 7323 5.3).
    TcpPaws = "inet.tcp.in" . paws,
    /// Outside the TCP receive window (RFC 9293 3.10.7.4, first).
    TcpOutOfWindow = "inet.tcp.in" . out_of_window,
    /// RST in the window but not at its left edge: answered with a challenge ACK (RFC 5961 3.2).
    TcpResetChallenged = "inet.tcp.in" . reset_challenged,
    /// RST without effect: no connection matches, or its sequence or ACK number is unacceptable.
    TcpResetIgnored = "inet.tcp.in" . reset_ignored,
    /// RST that aborted a handshake.
    TcpHandshakeReset = "inet.tcp.in" . handshake_reset,
    /// SYN on an established connection: answered with a challenge ACK (RFC 5961 4.2).
    TcpSynChallenged = "inet.tcp.in" . syn_challenged,
    /// Duplicate SYN of a handshake in progress.
    TcpSynDuplicate = "inet.tcp.in" . syn_duplicate,
    /// TCP segment without the ACK flag that is neither SYN nor RST.
    TcpNoAck = "inet.tcp.in" . no_ack,
    /// Acknowledges data that was never sent.
    TcpAckUnsent = "inet.tcp.in" . ack_unsent,
    /// Acknowledges data that was acknowledged more than a window ago (RFC 5961 5.2).
    TcpAckTooOld = "inet.tcp.in" . ack_too_old,
    /// Acknowledges something other than our SYN during the handshake: answered with an RST.
    TcpBadHandshake = "inet.tcp.in" . bad_handshake,
    /// TCP segment with only data received before.
    TcpDuplicate = "inet.tcp.in" . duplicate,
    /// TCP data after the peer's FIN.
    TcpAfterFin = "inet.tcp.in" . after_fin,
    /// TCP data for a socket that the process has closed (answered with an RST).
    TcpAfterClose = "inet.tcp.in" . after_close,
    /// TCP data out of order, and the maximum number of gaps in the received data is reached.
    TcpReassemblyFull = "inet.tcp.in" . reassembly_full,
    /// TCP segment of a connection in TIME-WAIT.
    TcpTimeWait = "inet.tcp.in" . time_wait,
    /// The listener's accept queue is full.
    TcpAcceptQueueFull = "inet.tcp.in" . accept_queue_full,
    /// No free entry for another TCP connection.
    TcpNoRoom = "inet.tcp.in" . no_room,
    /// TCP data not stored: the memory limit of all connections is reached (net.inet.tcp.memlimit).
    TcpNoMemory = "inet.tcp.in" . no_memory,
    /// Tunnel header is truncated, has an unsupported version, or has forbidden flags.
    TunnelMalformed = "inet.tunnel.in" . malformed,
    /// GRE checksum is wrong (RFC 2784 2.1).
    TunnelBadChecksum = "inet.tunnel.in" . bad_checksum,
    /// Source address is not the remote end of any tunnel here (gif(4)'s ingress filter, RFC 4213
    /// 3.6).
    TunnelBadSource = "inet.tunnel.in" . bad_source,
    /// Key or VNI differs from that of the tunnel to this sender (RFC 2890 2.1, RFC 7348 4.1).
    TunnelBadKey = "inet.tunnel.in" . bad_key,
    /// GRE sequence number is not newer than that of a packet received before (RFC 2890 2.2).
    TunnelLate = "inet.tunnel.in" . late,
    /// IPv6 packet in a tunnel, but the interface has no IPv6 address.
    TunnelIp6 = "inet.tunnel.in" . ip6,
    /// GRE payload is neither IPv4 nor IPv6.
    TunnelUnknownType = "inet.tunnel.in" . unknown_type,
    /// Outer packet has a congestion mark, but the inner packet does not support ECN (RFC 6040
    /// 4.2).
    TunnelEcn = "inet.tunnel.in" . congested,
    /// The queue of decapsulated packets is full.
    TunnelQueueFull = "inet.tunnel.in" . queue_full,
    /// The tunnel's addresses are not configured.
    TunnelNoEnds = "inet.tunnel.out" . no_ends,
    /// No route to the tunnel's remote end.
    TunnelNoRoute = "inet.tunnel.out" . no_route,
    /// Too many nested tunnels (net.link.gif.max_nesting), a tunnel routed into itself, or a packet
    /// routed back to the remote end that sent it.
    TunnelNested = "inet.tunnel.out" . nested,
    /// Larger than the tunnel's path MTU and must not be fragmented (the sender was notified).
    TunnelTooBig = "inet.tunnel.out" . too_big,
    /// No headroom for the tunnel's headers: the packet was copied to another buffer, and this
    /// frame freed.
    TunnelMoved = "inet.tunnel.out" . moved => Consumed,
    /// Large segment split into packets for the tunnel, and its frame freed.
    TunnelCut = "inet.tunnel.out" . cut => Consumed,
    /// No free buffer with space for the tunnel's headers.
    TunnelNoBuffer = "inet.tunnel.out" . no_buffer,
    /// The interface's transmit queue is full.
    TxQueueFull = "inet.link.ether.out" . queue_full,
    /// The interface has no port, is down, or its port is gone.
    TxNoPort = "inet.link.ether.out" . no_port,
    /// The loopback queue is full.
    LoopQueueFull = "inet.link.loopback" . queue_full,
    /// The host shut down with the frame still queued.
    Shutdown = "node" . shutdown,
    /// Frame lost by a bug in this program: a nonzero value should be reported.
    Bug = "stats" . bug,
}
