//! Every exit has a name: the one list of reasons for which a frame ends without being delivered or sent.
//!
//! Each line gives the enum's variant, the counter's dotted name (module path first), and the sentence. The last word
//! of the name is the word in traces. `linerate audit` adds them up: in = out + held + dropped-by-reason, exactly.
//! A reason of [`End::Consumed`] is no loss: it is part of `out`, so that an alert can watch `dropped`.

use crate::{Counter, Described, Entry};

/// Kind of a drop reason: a loss, or the normal end of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The frame was lost or refused.
    Lost,
    /// The frame served its purpose: read and used, merged into another frame, or sent on as fragments.
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
        /// Why a frame was dropped.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum DropReason { $( $(#[doc = $sentence])+ $variant ),+ }

        impl DropReason {
            /// Every reason, in order of declaration (the order of the path).
            pub const ALL: &'static [DropReason] = &[$( DropReason::$variant ),+];

            /// The counter's dotted name.
            pub fn name(self) -> &'static str {
                match self { $( DropReason::$variant => concat!($prefix, ".", stringify!($word)) ),+ }
            }

            /// The word in a trace line.
            pub fn word(self) -> &'static str { match self { $( DropReason::$variant => stringify!($word) ),+ } }

            /// Whether such a frame is lost, or was used up.
            pub fn end(self) -> End {
                match self { $( DropReason::$variant => end!($($end)?) ),+ }
            }

            /// The sentence.
            pub fn sentence(self) -> &'static str {
                match self { $( DropReason::$variant => concat!($($sentence),+).trim_ascii() ),+ }
            }
        }

        impl Described for Drops {
            fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64)) {
                $( each($prefix, stringify!($word), DropReason::$variant.sentence(), self.get(DropReason::$variant)); )+
            }
        }
    };
}

drop_reasons! {
    /// Bridge: it is down.
    BridgeDown = "bridge.in" . down,
    /// Bridge: it looks on, and forwards nothing (monitor).
    BridgeMonitor = "bridge.in" . monitor,
    /// Bridge: shorter than an Ethernet header.
    BridgeShort = "bridge.in" . short,
    /// Bridge: the source address is a group's, or zero (IEEE 802.3 3.2.3).
    BridgeBadSource = "bridge.in" . bad_source,
    /// Bridge: came through a span port, which only gets copies.
    BridgeSpan = "bridge.in" . span,
    /// Bridge: addressed to a group that no bridge forwards (IEEE 802.1Q table 8-1).
    BridgeReserved = "bridge.in" . reserved,
    /// Bridge: more frames for the bridge itself wait than may.
    BridgeLocalFull = "bridge.in" . local_full,
    /// Bridge: its port is muted: addresses moved to and fro between it and another, as in a loop.
    BridgeMuted = "bridge.in" . muted,
    /// Bridge: its port is disabled or discarding (IEEE 802.1Q 8.4).
    BridgeDiscarding = "bridge.in" . discarding,
    /// Bridge: too short for the VLAN tag that it announces.
    BridgeTagShort = "bridge.in" . tag_short,
    /// Bridge: VLAN 4095, which is nobody's (IEEE 802.1Q table 9-2).
    BridgeBadVid = "bridge.in" . bad_vid,
    /// Bridge: two VLAN tags, where the port takes no more than one.
    BridgeDoubleTag = "bridge.in" . double_tag,
    /// Bridge: tagged or untagged, and the port admits only the other; or untagged, and the port has no PVID (IEEE 802.1Q 6.9).
    BridgeNotAdmitted = "bridge.in" . not_admitted,
    /// Bridge: of a VLAN that its port is not in (IEEE 802.1Q 8.6.2).
    BridgeVlanIn = "bridge.in" . vlan,
    /// Bridge: the port's rules for what comes in refuse it.
    BridgeRuleIn = "bridge.in" . rule,
    /// Bridge: the source is an address of the bridge itself.
    BridgeOwnSource = "bridge.in" . own_source,
    /// Bridge: the source belongs to another port, by a static or sticky entry.
    BridgeBound = "bridge.in" . bound,
    /// Bridge: the source is new, and its port has as many addresses as it may.
    BridgePortFull = "bridge.in" . port_full,
    /// Bridge: its port is learning, not yet forwarding (IEEE 802.1Q 8.4).
    BridgeLearning = "bridge.in" . learning,
    /// Bridge: its destination is where it came from.
    BridgeSamePort = "bridge.in" . same_port,
    /// Bridge: its destination is at a port to which this one sends nothing: private, or of another cluster.
    BridgeApart = "bridge.in" . apart,
    /// Bridge: its destination is at a port that does not forward, or is muted.
    BridgeNotForwarding = "bridge.in" . not_forwarding,
    /// Bridge: its destination is at a port without carrier.
    BridgeNoCarrier = "bridge.in" . no_carrier,
    /// Bridge: its destination is at a port that is administratively down.
    BridgePortDown = "bridge.in" . port_down,
    /// Bridge: its destination is at a port whose device is gone, or whose pipe has no reader.
    BridgePortGone = "bridge.in" . port_gone,
    /// Bridge: its destination is at a port that is not in its VLAN (IEEE 802.1Q 8.6.4).
    BridgeVlanOut = "bridge.in" . vlan_out,
    /// Bridge: more broadcasts came through its port than may.
    BridgeBroadcastStorm = "bridge.in" . broadcast_storm,
    /// Bridge: more multicasts came through its port than may.
    BridgeMulticastStorm = "bridge.in" . multicast_storm,
    /// Bridge: more frames for unknown addresses came through its port than may.
    BridgeUnknownStorm = "bridge.in" . unknown_storm,
    /// Bridge: an IGMP or MLD message that is not what it says, or whose checksum does not verify (RFC 4541 2.1.1).
    BridgeSnoopMalformed = "bridge.in" . snoop_malformed,
    /// Bridge: no other port takes it.
    BridgeNowhere = "bridge.in" . nowhere,
    /// Bridge: the copy for one more port could not be made: no buffer.
    BridgeNoCopy = "bridge.out" . no_copy,
    /// Bridge: no room in front of it for a VLAN tag.
    BridgeNoTagRoom = "bridge.out" . no_tag_room,
    /// Bridge: the rules of the port to which it goes refuse it.
    BridgeRuleOut = "bridge.out" . rule,
    /// Bridge: the port to which it goes has no room.
    BridgeOutFull = "bridge.out" . full,
    /// Bridge: given to a port whose device did not take it: down, without carrier, gone, or the frame is too long or malformed.
    BridgePortFailed = "bridge.out" . port_failed,
    /// Bridge: the workers' queue to its port was full.
    BridgeQueueFull = "bridge.out" . queue_full,
    /// Bridge: its port was removed, or took no more when the switch ended.
    BridgePortRemoved = "bridge.out" . port_removed,
    /// Netisr: as many frames of its protocol wait for its workstream as may (net.isr).
    NetisrQueueFull = "dispatch.netisr" . queue_full,
    /// Shorter than an Ethernet header.
    EtherShort = "inet.link.ether.in" . short,
    /// Source address is multicast, broadcast or zero (IEEE 802.3 3.2.3, 802.1D 7.8).
    EtherBadSource = "inet.link.ether.in" . bad_source,
    /// Source address is this iface's own: another station has the same MAC address, or the link loops.
    EtherOwnSource = "inet.link.ether.in" . own_source,
    /// Addressed to another station: a port gives what it sees, whom it is for or not.
    EtherOtherHost = "inet.link.ether.in" . other_host,
    /// An EtherType (or VLAN) that nobody here speaks.
    EtherUnknownType = "inet.link.ether.in" . unknown_type,
    /// The iface is administratively down.
    IfaceDown = "inet.link.ether.in" . iface_down,
    /// ARP packet malformed (RFC 826: types, lengths).
    ArpMalformed = "inet.arp.in" . malformed,
    /// ARP not for us, consumed without an answer.
    ArpIgnored = "inet.arp.in" . ignored => Consumed,
    /// ARP read and used: its information is in the neighbor table, its answer (if any) is a frame of its own.
    ArpConsumed = "inet.arp.in" . consumed => Consumed,
    /// ARP sender claims an address of ours (RFC 5227 2.4).
    ArpConflict = "inet.arp.in" . conflict,
    /// ARP sender would overwrite a static (permanent) entry.
    ArpStatic = "inet.arp.in" . would_overwrite_static,
    /// Waiting for a neighbor whose answer did not come in time (RFC 1122 2.3.2.2).
    NeighTimeout = "inet.neigh" . timeout,
    /// More packets were waiting for this neighbor than the pending queue holds: the oldest went.
    NeighQueueFull = "inet.neigh" . queue_full,
    /// Packets waiting for neighbors fill their share of the pool: dropped for a packet to a later neighbor.
    NeighShareFull = "inet.neigh" . share_full,
    /// Waiting for a neighbor that had not answered when its entry was removed for another's (RFC 6583 7).
    NeighDisplaced = "inet.neigh" . displaced,
    /// The neighbor table is full of entries in use.
    NeighTableFull = "inet.neigh" . table_full,
    /// IPv4 header shorter than 20 bytes or than it says, or longer than the frame.
    Ip4Malformed = "inet.ip4.in" . malformed,
    /// IPv4 version is not 4.
    Ip4BadVersion = "inet.ip4.in" . bad_version,
    /// IPv4 header checksum did not verify (RFC 791 3.1).
    Ip4BadChecksum = "inet.ip4.in" . bad_checksum,
    /// IPv4 options malformed (RFC 1122 3.2.1.8).
    Ip4BadOptions = "inet.ip4.in" . bad_options,
    /// Source route present: dropped, not followed (RFC 7126 4.3).
    Ip4SourceRoute = "inet.ip4.in" . source_route,
    /// Source address that may not appear on a wire (RFC 1812 5.3.7: martians).
    Ip4MartianSource = "inet.ip4.in" . martian_source,
    /// Destination address that may not appear on a wire.
    Ip4MartianDestination = "inet.ip4.in" . martian_destination,
    /// Source address is one of ours: LAND, or a loop.
    Ip4OwnSource = "inet.ip4.in" . own_source,
    /// No route leads back to the source, or none by this iface (RFC 3704; net.inet.ip.source_validation).
    Ip4InvalidSource = "inet.ip4.in" . invalid_source,
    /// Not for us and forwarding is off.
    Ip4NotForwarding = "inet.ip4.in" . not_forwarding,
    /// A unicast packet inside a link-layer broadcast is not accepted nor forwarded (RFC 1122 3.3.6).
    Ip4LinkBroadcast = "inet.ip4.in" . link_broadcast,
    /// A multicast group that no socket here has joined.
    Ip4NotMember = "inet.ip4.in" . not_member,
    /// A protocol nobody here speaks (answered with protocol unreachable where allowed).
    Ip4UnknownProtocol = "inet.ip4.in" . unknown_protocol,
    /// TTL ran out on the way (answered with time exceeded where allowed).
    Ip4TtlExceeded = "inet.ip4.forward" . ttl_exceeded,
    /// No route to the destination.
    Ip4NoRoute = "inet.ip4.forward" . no_route,
    /// A route says that its destination is prohibited.
    Ip4Prohibited = "inet.ip4.forward" . prohibited,
    /// Larger than the next link's MTU and may not be fragmented (answered with fragmentation needed).
    Ip4TooBig = "inet.ip4.forward" . too_big,
    /// Sent with a TTL of 0: does not leave this host (RFC 1112 6.1).
    Ip4TtlZero = "inet.ip4.out" . ttl_zero,
    /// Broadcast or multicast is not forwarded.
    Ip4NotForwardable = "inet.ip4.forward" . not_forwardable,
    /// The original of a packet that left as fragments: its bytes went out, its frame ended here.
    Ip4Fragmented = "inet.ip4.forward" . fragmented => Consumed,
    /// Fragment with a length, offset or flag that cannot be (Ping of Death, jolt2, RFC 1858).
    FragMalformed = "inet.ip4.reass" . malformed,
    /// Fragment overlaps bytes already held: the whole datagram is dropped (RFC 5722's rule, applied to IPv4).
    FragOverlap = "inet.ip4.reass" . overlap,
    /// Identical fragment held already.
    FragDuplicate = "inet.ip4.reass" . duplicate,
    /// Fragment of a datagram whose reassembly was given up for room (table or memory limit).
    FragEvicted = "inet.ip4.reass" . evicted,
    /// Reassembly did not complete in time (RFC 1122 3.3.2).
    FragTimeout = "inet.ip4.reass" . timeout,
    /// Fragment merged: its bytes live on in the reassembled datagram, its frame ended here.
    FragMerged = "inet.ip4.reass" . merged => Consumed,
    /// No buffer for the reassembled datagram.
    FragNoBuffer = "inet.ip4.reass" . no_buffer,
    /// ICMP message shorter than its kind, or its quoted packet is cut short.
    IcmpMalformed = "inet.icmp4.in" . malformed,
    /// ICMP checksum did not verify.
    IcmpBadChecksum = "inet.icmp4.in" . bad_checksum,
    /// ICMP message consumed here: an error handed to its socket, a redirect noted, an echo answered with a new frame.
    IcmpConsumed = "inet.icmp4.in" . consumed => Consumed,
    /// ICMP message that nobody here asked for.
    IcmpIgnored = "inet.icmp4.in" . ignored,
    /// Echo to a broadcast or multicast address is not answered (RFC 1122 3.2.2.6; Smurf).
    IcmpBroadcastEcho = "inet.icmp4.in" . broadcast_echo,
    /// Redirect that is not accepted (RFC 1122 3.2.2.2, off by default).
    IcmpRedirectIgnored = "inet.icmp4.in" . redirect_ignored,
    /// Echo above the answer rate.
    IcmpRateLimited = "inet.icmp4.in" . rate_limited,
    /// IGMP message consumed or ignored.
    IgmpConsumed = "inet.igmp.in" . consumed => Consumed,
    /// IGMP message malformed.
    IgmpMalformed = "inet.igmp.in" . malformed,
    /// IPv6 header cut short, or its payload length or an extension header longer than the packet.
    Ip6Malformed = "inet.ip6.in" . malformed,
    /// IPv6 version is not 6.
    Ip6BadVersion = "inet.ip6.in" . bad_version,
    /// Source address that may not appear on a wire: a group, ::1, an IPv4 address in disguise, :: to a host (RFC 4291 2.5).
    Ip6MartianSource = "inet.ip6.in" . martian_source,
    /// Destination address that may not appear on a wire.
    Ip6MartianDestination = "inet.ip6.in" . martian_destination,
    /// Source address is one of ours: LAND, or a loop.
    Ip6OwnSource = "inet.ip6.in" . own_source,
    /// No route leads back to the source, or none by this iface (RFC 3704; net.inet6.ip6.source_validation).
    Ip6InvalidSource = "inet.ip6.in" . invalid_source,
    /// A unicast IPv6 packet inside a link-layer multicast.
    Ip6LinkBroadcast = "inet.ip6.in" . link_broadcast,
    /// Extension headers out of order or too many: Hop-by-Hop not first, a second Fragment header, more than 8 (RFC 8200 4.1).
    Ip6BadExtension = "inet.ip6.in" . bad_extension,
    /// An option that nobody here knows, whose number says that the packet is to be dropped (RFC 8200 4.2).
    Ip6BadOption = "inet.ip6.in" . unknown_option,
    /// A source route, which is not followed (RFC 5095, RFC 8200 4.4).
    Ip6RoutingHeader = "inet.ip6.in" . routing_header,
    /// An IPv6 group that nothing here listens to.
    Ip6NotMember = "inet.ip6.in" . not_member,
    /// A link-local address that is not ours on this link, and is never forwarded (RFC 4007 9).
    Ip6NotHere = "inet.ip6.in" . not_here,
    /// To an address that is not certainly ours yet, or is somebody else's (RFC 4862 5.4).
    Ip6Tentative = "inet.ip6.in" . tentative,
    /// IPv6: not for us and forwarding is off.
    Ip6NotForwarding = "inet.ip6.in" . not_forwarding,
    /// A next header nobody here speaks (answered with a parameter problem where allowed).
    Ip6UnknownNext = "inet.ip6.in" . unknown_next_header,
    /// Nothing behind the headers (RFC 8200 4.7).
    Ip6NoNext = "inet.ip6.in" . no_next_header,
    /// UDP or TCP over IPv6, for which there are no sockets (answered with port unreachable where allowed).
    Ip6NoSocket = "inet.ip6.in" . no_socket,
    /// A source address that is not good beyond its link (answered with beyond scope where allowed).
    Ip6BeyondScope = "inet.ip6.forward" . beyond_scope,
    /// Sent with a hop limit of 0: does not leave this host.
    Ip6HopLimitZero = "inet.ip6.out" . hop_limit_zero,
    /// Hop limit ran out on the way (answered with time exceeded where allowed).
    Ip6HopLimit = "inet.ip6.forward" . hop_limit_exceeded,
    /// Came by a point-to-point link and would go back by it: nobody at its other end has the address (answered with address unreachable).
    Ip6GoesBack = "inet.ip6.forward" . goes_back,
    /// No route to the IPv6 destination.
    Ip6NoRoute = "inet.ip6.forward" . no_route,
    /// A route says that its IPv6 destination is prohibited.
    Ip6Prohibited = "inet.ip6.forward" . prohibited,
    /// Larger than the next link's MTU (answered with packet too big where allowed).
    Ip6TooBig = "inet.ip6.forward" . too_big,
    /// The original of an IPv6 packet that left as fragments: its bytes went out, its frame ended here.
    Ip6Fragmented = "inet.ip6.out" . fragmented => Consumed,
    /// ICMPv6 message shorter than its kind, or its quoted packet is cut short.
    Icmp6Malformed = "inet.icmp6.in" . malformed,
    /// ICMPv6 checksum did not verify.
    Icmp6BadChecksum = "inet.icmp6.in" . bad_checksum,
    /// ICMPv6 error consumed here.
    Icmp6Consumed = "inet.icmp6.in" . consumed => Consumed,
    /// ICMPv6 message that nobody here asked for.
    Icmp6Ignored = "inet.icmp6.in" . ignored,
    /// ICMPv6 echo above the answer rate.
    Icmp6RateLimited = "inet.icmp6.in" . rate_limited,
    /// Neighbor discovery: not as it must be, an option without length, in fragments (RFC 4861 7.1, RFC 6980).
    NdMalformed = "inet.nd.in" . malformed,
    /// Neighbor discovery with a hop limit that is not 255: from beyond the link.
    NdHopLimit = "inet.nd.in" . hop_limit,
    /// Neighbor discovery read and used.
    NdConsumed = "inet.nd.in" . consumed => Consumed,
    /// Neighbor discovery that does not concern this host; router messages on interfaces without accept_rtadv or advertise.
    NdIgnored = "inet.nd.in" . ignored => Consumed,
    /// Neighbor discovery: somebody else has, or wants, an address of ours.
    NdConflict = "inet.nd.in" . conflict,
    /// Neighbor discovery would overwrite a static (permanent) entry.
    NdStatic = "inet.nd.in" . would_overwrite_static,
    /// MLD message consumed or ignored.
    MldConsumed = "inet.mld.in" . consumed => Consumed,
    /// MLD message malformed, or from beyond the link.
    MldMalformed = "inet.mld.in" . malformed,
    /// UDP length field shorter than its header or longer than the packet.
    UdpBadLength = "inet.udp.in" . bad_length,
    /// UDP checksum did not verify (RFC 1122 4.1.3.4).
    UdpBadChecksum = "inet.udp.in" . bad_checksum,
    /// UDP port 0 as destination.
    UdpPortZero = "inet.udp.in" . port_zero,
    /// No socket on this UDP port (answered with port unreachable where allowed).
    UdpNoSocket = "inet.udp.in" . no_socket,
    /// No socket wants this broadcast or multicast datagram.
    UdpNoSocketBroadcast = "inet.udp.in" . no_socket_broadcast,
    /// The socket's receive buffer is full.
    UdpBufferFull = "inet.udp.in" . buffer_full,
    /// The socket has shut down reading, or was closed with datagrams unread.
    UdpClosed = "inet.udp.in" . closed,
    /// The socket is connected to somebody else.
    UdpNotPeer = "inet.udp.in" . not_peer,
    /// The extra copy of a datagram that several sockets receive could not be made: no buffer.
    UdpNoCopy = "inet.udp.in" . no_copy,
    /// The receive buffer of a raw or ICMP socket is full.
    RawBufferFull = "inet.raw.in" . buffer_full,
    /// A raw or ICMP socket was closed with packets unread.
    RawClosed = "inet.raw.in" . closed,
    /// The copy of a packet for a raw socket could not be made: no buffer.
    RawNoCopy = "inet.raw.in" . no_copy,
    /// The checksum that a raw socket requests (RFC 3542 3.1) did not verify.
    RawBadChecksum = "inet.raw.in" . bad_checksum,
    /// Packet of a protocol that raw sockets alone take: they have copies.
    RawConsumed = "inet.raw.in" . consumed => Consumed,
    /// TCP header shorter than 20 bytes or than it says, or longer than the packet (RFC 9293 3.1).
    TcpMalformed = "inet.tcp.in" . malformed,
    /// TCP checksum did not verify (RFC 9293 3.1, MUST-3).
    TcpBadChecksum = "inet.tcp.in" . bad_checksum,
    /// TCP port 0 as source or destination.
    TcpPortZero = "inet.tcp.in" . port_zero,
    /// A segment to a broadcast or multicast address (RFC 9293 3.9.2.3, MUST-57).
    TcpGroup = "inet.tcp.in" . group,
    /// No connection and no listener: answered with an RST (RFC 9293 3.10.7.1).
    TcpNoConnection = "inet.tcp.in" . no_connection,
    /// SYN with FIN or RST, or no flag that means something.
    TcpBadFlags = "inet.tcp.in" . bad_flags,
    /// An old duplicate by its timestamp (RFC 7323 5.3).
    TcpPaws = "inet.tcp.in" . paws,
    /// Outside the receive window (RFC 9293 3.10.7.4, first).
    TcpOutOfWindow = "inet.tcp.in" . out_of_window,
    /// RST in the window, but not at its edge: challenged (RFC 5961 3.2).
    TcpResetChallenged = "inet.tcp.in" . reset_challenged,
    /// RST that ends nothing.
    TcpResetIgnored = "inet.tcp.in" . reset_ignored,
    /// RST that ended a handshake.
    TcpHandshakeReset = "inet.tcp.in" . handshake_reset,
    /// SYN on a connection that is open: challenged (RFC 5961 4.2).
    TcpSynChallenged = "inet.tcp.in" . syn_challenged,
    /// A SYN that is being answered already.
    TcpSynDuplicate = "inet.tcp.in" . syn_duplicate,
    /// Without ACK, which all but SYN and RST carry.
    TcpNoAck = "inet.tcp.in" . no_ack,
    /// Acknowledges what was never sent.
    TcpAckUnsent = "inet.tcp.in" . ack_unsent,
    /// Acknowledges what was acknowledged more than a window ago (RFC 5961 5.2).
    TcpAckTooOld = "inet.tcp.in" . ack_too_old,
    /// Acknowledges anything but the SYN that is under way: reset.
    TcpBadHandshake = "inet.tcp.in" . bad_handshake,
    /// All of its text was here already.
    TcpDuplicate = "inet.tcp.in" . duplicate,
    /// Text behind the peer's FIN.
    TcpAfterFin = "inet.tcp.in" . after_fin,
    /// Text that nobody will read: the process has closed (reset).
    TcpAfterClose = "inet.tcp.in" . after_close,
    /// One more gap in the text received than are kept.
    TcpReassemblyFull = "inet.tcp.in" . reassembly_full,
    /// A late segment of a connection in TIME-WAIT.
    TcpTimeWait = "inet.tcp.in" . time_wait,
    /// As many connections wait to be accepted as may.
    TcpAcceptQueueFull = "inet.tcp.in" . accept_queue_full,
    /// No place for another connection.
    TcpNoRoom = "inet.tcp.in" . no_room,
    /// TCP text not kept: connections hold as much as they may (net.inet.tcp.memlimit).
    TcpNoMemory = "inet.tcp.in" . no_memory,
    /// A tunnel's header that cannot be: cut short, of another version, with flags that are refused.
    TunnelMalformed = "inet.tunnel.in" . malformed,
    /// The checksum in a GRE header did not verify (RFC 2784 2.1).
    TunnelBadChecksum = "inet.tunnel.in" . bad_checksum,
    /// Not sent by the far end of a tunnel here (gif(4)'s ingress filter, RFC 4213 3.6).
    TunnelBadSource = "inet.tunnel.in" . bad_source,
    /// From a tunnel's far end with another key or VNI than the tunnel's (RFC 2890 2.1, RFC 7348 4.1).
    TunnelBadKey = "inet.tunnel.in" . bad_key,
    /// GRE: numbered as or before a packet that came already (RFC 2890 2.2).
    TunnelLate = "inet.tunnel.in" . late,
    /// IPv6 in a tunnel whose iface has no IPv6 address.
    TunnelIp6 = "inet.tunnel.in" . ip6,
    /// GRE: a protocol inside that is not IP.
    TunnelUnknownType = "inet.tunnel.in" . unknown_type,
    /// Congestion was marked on the outer packet of a sender that does not understand marks (RFC 6040 4.2).
    TunnelEcn = "inet.tunnel.in" . congested,
    /// More that came out of tunnels waits to be taken in than may.
    TunnelQueueFull = "inet.tunnel.in" . queue_full,
    /// The tunnel has not been given its ends.
    TunnelNoEnds = "inet.tunnel.out" . no_ends,
    /// No route to the tunnel's far end.
    TunnelNoRoute = "inet.tunnel.out" . no_route,
    /// Too many tunnels one in another (net.link.gif.max_nesting), one that leads into itself, or one whose far end sent what is to go in.
    TunnelNested = "inet.tunnel.out" . nested,
    /// Longer than the tunnel's path carries, and may not be fragmented (its sender was told).
    TunnelTooBig = "inet.tunnel.out" . too_big,
    /// No room in front of the packet for the tunnel's headers: its bytes went on in another buffer, its frame ended here.
    TunnelMoved = "inet.tunnel.out" . moved => Consumed,
    /// A large segment: its pieces went in, each by itself, and its frame ended here.
    TunnelCut = "inet.tunnel.out" . cut => Consumed,
    /// No buffer with room for the tunnel's headers.
    TunnelNoBuffer = "inet.tunnel.out" . no_buffer,
    /// The iface's transmit queue is full.
    TxQueueFull = "inet.link.ether.out" . queue_full,
    /// The iface has no port, is down, or its port is gone.
    TxNoPort = "inet.link.ether.out" . no_port,
    /// The loopback queue is full.
    LoopQueueFull = "inet.link.loopback" . queue_full,
    /// The host ended with the frame still queued.
    Shutdown = "node" . shutdown,
    /// Lost by a mistake in this program, in a place that no frame reaches: please report it.
    Bug = "stats" . bug,
}

/// One counter per [`DropReason`], one writer.
#[derive(Debug)]
pub struct Drops([Counter; DropReason::ALL.len()]);

impl Default for Drops {
    fn default() -> Drops {
        Drops(std::array::from_fn(|_| Counter::default()))
    }
}

impl Drops {
    /// Counts one frame dropped for `why`.
    #[inline]
    pub fn bump(&self, why: DropReason) {
        self.0[why as usize].bump();
        crate::trace::frame_dropped(why);
    }

    /// Frames dropped for `why`.
    pub fn get(&self, why: DropReason) -> u64 {
        self.0[why as usize].get()
    }

    /// Frames that ended here, all reasons together.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }

    /// Frames that ended so, all reasons together.
    pub fn total_of(&self, end: End) -> u64 {
        DropReason::ALL.iter().filter(|why| why.end() == end).map(|why| self.get(*why)).sum()
    }

    /// Only the reasons that happened.
    pub fn nonzero(&self) -> Vec<Entry> {
        let mut out = Vec::new();
        self.visit(&mut |prefix, field, sentence, value| {
            if value > 0 {
                out.push(Entry { name: format!("{prefix}.{field}"), sentence, value });
            }
        });
        out
    }
}
