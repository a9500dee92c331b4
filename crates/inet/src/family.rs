//! Differences between IPv4 and IPv6, for the protocols above them: the trait [`Family`],
//! implemented for the integer types of addresses ([`u32`], [`u128`]).
//!
//! UDP and TCP are written once, generic over this trait. An IPv6 link-local address in memory
//! contains the number of its interface ([`zone`]), which packets never contain.

use crate::Stack;
use crate::counters::{Counters, Ip4, Ip6};
use crate::demux::Bits;
use crate::ends::Domain;
use crate::iface::{AtOnce, Iface, IfaceId};
use crate::ip::exit::{Exit, OutputError, Target};
use crate::ip4::Outgoing;
use crate::ip4::pmtu::LARGEST;
use crate::ip6::Outgoing6;
use crate::route::{RouteCache, RouteReader, Routes};
use crate::stack::OwnAddresses;
use crate::zone;
use buf::Frame;
use fib::Matched;
use lock::{Cx, Guarded, Locks};
use stats::{Counter, DropReason};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::checksum::{self, Partial};
use wire::eth::EtherType;
use wire::hash::Key;
use wire::{L4Port, Mac, Proto, flow, icmp4, icmp6, ip4, ip6};

/// References to the IP counters that exist for both families.
#[derive(Clone, Copy)]
pub(crate) struct IpCounts<'a> {
    pub(crate) received: &'a Counter,
    pub(crate) delivered: &'a Counter,
    pub(crate) forwarded: &'a Counter,
    pub(crate) sent: &'a Counter,
    pub(crate) no_route: &'a Counter,
}

/// IP header fields of a packet that this host sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<A> {
    pub(crate) src: A,
    pub(crate) dst: A,
    pub(crate) proto: Proto,
    /// Type of service or traffic class.
    pub(crate) tos: u8,
    /// Time to live or hop limit.
    pub(crate) ttl: u8,
    /// True if neither this host nor a router may fragment the packet.
    pub(crate) df: bool,
    /// True if the payload begins with its own IP header (`IP_HDRINCL`); IPv4 only.
    pub(crate) has_header: bool,
    /// Source and destination port; the IPv6 flow label is computed from them.
    pub(crate) ports: [L4Port; 2],
}

/// The fields of the IP header that UDP and TCP need from a packet for this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glimpse<A> {
    pub(crate) src: A,
    pub(crate) dst: A,
    /// Type of service or traffic class.
    pub(crate) tos: u8,
    /// Offsets from the start of the packet: the first byte after the IP header, and the end of the
    /// packet.
    pub(crate) upper: (usize, usize),
}

/// An address family, implemented for the integer type of its addresses: [`u32`] or [`u128`]. 0 is
/// the unspecified address.
pub(crate) trait Family: Bits + Matched {
    /// Domain of the family's sockets.
    const DOMAIN: Domain;
    /// Protocol number of ICMP or ICMPv6.
    const ICMP: Proto;
    /// ICMP type of an echo request.
    const ECHO_REQUEST: u8;
    /// Length in bytes of the IP header without options or extension headers.
    const IP_LEN: usize;
    /// EtherType of the family's packets.
    const ETHERTYPE: EtherType;
    /// True if the UDP checksum is mandatory (RFC 8200 8.1).
    const IS_SUMMED: bool;
    /// Drop reason for a packet with an unreadable header.
    const MALFORMED: DropReason;
    /// Drop reason for a packet without a route.
    const NO_ROUTE: DropReason;
    /// Drop reason for a received packet whose source is an address of this host.
    const OWN_SOURCE: DropReason;
    /// Drop reason for a packet of this host with a TTL or hop limit of 0.
    const TTL_ZERO: DropReason;

    /// Returns the routing table, which the control plane changes under a lock.
    fn routes<L: Locks>(stack: &Stack<L>) -> &Guarded<L, Routes<Self>>;
    /// Returns the lock-free reader that the packet path uses for route lookups.
    fn routes_reader<L: Locks>(stack: &Stack<L>) -> &RouteReader<Self>;
    fn route_cache<L: Locks>(stack: &Stack<L>) -> &Guarded<L, RouteCache<Self>>;
    /// Returns the Bloom filter of this host's own addresses.
    fn own<L: Locks>(stack: &Stack<L>) -> &OwnAddresses;
    /// Returns the TTL or hop limit of a packet; `None` if the packet is too short.
    fn hop_limit(packet: &[u8]) -> Option<u8>;
    /// Returns the flow hash of a packet: equal for all packets of a flow.
    fn flow(key: Key, packet: &[u8]) -> Option<u64>;
    /// Returns whether this is a multicast address.
    fn is_multicast(self) -> bool;
    /// Returns whether this is a broadcast or multicast address.
    fn is_for_many(self) -> bool;
    /// Returns whether a packet may leave by a link other than loopback: neither address may be a
    /// loopback address (RFC 1122 3.2.1.3 (g), RFC 4291 2.5.3).
    fn is_for_links(src: Self, dst: Self) -> bool;
    /// Returns the partial checksum of the pseudo header of a packet with `len` payload bytes.
    fn pseudo(src: Self, dst: Self, proto: Proto, len: u32) -> Partial;
    /// Returns the initial value for the checksum of an ICMP message of `len` bytes: the sum of the
    /// pseudo header for ICMPv6, zero for ICMPv4.
    fn icmp_seed(src: Self, dst: Self, len: u32) -> Partial;
    /// Reads the IP header of a packet for this host. `zone` is the receiving interface, which
    /// becomes part of IPv6 link-local addresses. An IPv6 packet must have no extension headers.
    fn glimpse(packet: &[u8], zone: Option<IfaceId>) -> Option<Glimpse<Self>>;
    /// Returns the outgoing interface and next hop for packets to `dst`. `iface` is the interface
    /// that the sender requests; `None`: the interface of the route.
    fn exit<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        dst: Self,
        iface: Option<IfaceId>,
    ) -> Result<Exit<Self::Addr>, OutputError>;
    /// Returns the source address of packets to `dst` that leave by `exit`.
    fn source<L: Locks>(stack: &Stack<L>, cx: Cx, dst: Self, exit: &Exit<Self::Addr>) -> Result<Self, OutputError>;
    /// Returns the default TTL or hop limit.
    fn ttl<L: Locks>(stack: &Stack<L>) -> u8;
    /// Returns the MAC address of a resolved neighbor.
    fn neighbor<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, next: Self::Addr) -> Option<Mac>;
    /// Returns the size in bytes of the largest packet of this family on `iface`.
    fn mtu<L: Locks>(iface: &Iface<L>) -> usize;
    /// Returns the path MTU to `dst` in bytes, as found by path MTU discovery; 65,535 if none was
    /// found.
    fn path_mtu<L: Locks>(stack: &Stack<L>, cx: Cx, dst: Self) -> usize;
    /// Returns whether a socket of this host has joined the group `dst` on `iface`.
    fn accepts_group<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, dst: Self) -> bool;
    fn counts(counters: &Counters) -> IpCounts<'_>;
    /// Writes an IP header with a length of 0 into the first [`Family::IP_LEN`] bytes of `into`.
    /// Returns the header's partial checksum (zero for IPv6); `None` if `into` is too short.
    fn emit<L: Locks>(stack: &Stack<L>, head: &Head<Self>, into: &mut [u8]) -> Option<Partial>;
    /// Completes a header written by [`Family::emit`] with the payload length and the ECN bits.
    /// `sum` is the partial checksum that `emit` returned.
    fn finish(header: &mut [u8], sum: Partial, upper_len: u16, ecn: u8);
    /// Prepends the IP header to a packet and sends it by `exit`. If `by_port` is true, the port
    /// computes the transport checksum.
    fn send<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        packet: Frame,
        head: &Head<Self>,
        exit: &Exit<Self::Addr>,
        by_port: bool,
        at_once: AtOnce,
    ) -> Result<(), OutputError>;
}

fn v4(bits: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(bits)
}

impl Family for u32 {
    const DOMAIN: Domain = Domain::Inet;
    const ICMP: Proto = Proto::ICMP;
    const ECHO_REQUEST: u8 = icmp4::ty::ECHO_REQUEST;
    const IP_LEN: usize = ip4::HEADER_LEN;
    const ETHERTYPE: EtherType = EtherType::IPV4;
    const IS_SUMMED: bool = false;
    const MALFORMED: DropReason = DropReason::Ip4Malformed;
    const NO_ROUTE: DropReason = DropReason::Ip4NoRoute;
    const OWN_SOURCE: DropReason = DropReason::Ip4OwnSource;
    const TTL_ZERO: DropReason = DropReason::Ip4TtlZero;

    #[inline(always)]
    fn routes<L: Locks>(stack: &Stack<L>) -> &Guarded<L, Routes> {
        &stack.routes
    }

    #[inline(always)]
    fn routes_reader<L: Locks>(stack: &Stack<L>) -> &RouteReader {
        &stack.ways
    }

    #[inline(always)]
    fn route_cache<L: Locks>(stack: &Stack<L>) -> &Guarded<L, RouteCache<u32>> {
        &stack.route_cache
    }

    #[inline(always)]
    fn own<L: Locks>(stack: &Stack<L>) -> &OwnAddresses {
        &stack.own
    }

    #[inline(always)]
    fn hop_limit(packet: &[u8]) -> Option<u8> {
        ip4::HeaderView::of(packet).map(ip4::HeaderView::ttl)
    }

    fn flow(key: Key, packet: &[u8]) -> Option<u64> {
        flow::four(key, packet)
    }

    #[inline(always)]
    fn is_multicast(self) -> bool {
        v4(self).is_multicast()
    }

    #[inline(always)]
    fn is_for_many(self) -> bool {
        v4(self).is_multicast() || v4(self).is_broadcast()
    }

    fn is_for_links(src: u32, dst: u32) -> bool {
        !(v4(src).is_loopback() || v4(dst).is_loopback() || dst == 0)
    }

    #[inline(always)]
    fn pseudo(src: u32, dst: u32, proto: Proto, len: u32) -> Partial {
        Partial::pseudo4(v4(src), v4(dst), proto, len as u16)
    }

    fn icmp_seed(_: u32, _: u32, _: u32) -> Partial {
        Partial::ZERO
    }

    #[inline(always)]
    fn glimpse(packet: &[u8], _: Option<IfaceId>) -> Option<Glimpse<u32>> {
        let ip = ip4::HeaderView::of(packet)?;
        let end = usize::from(ip.total_len()).min(packet.len());
        Some(Glimpse { src: ip.src().to_bits(), dst: ip.dst().to_bits(), tos: ip.tos(), upper: (ip.ihl_len(), end) })
    }

    fn exit<L: Locks>(stack: &Stack<L>, cx: Cx, dst: u32, iface: Option<IfaceId>) -> Result<Exit, OutputError> {
        stack.exit_for(cx, v4(dst), iface)
    }

    fn source<L: Locks>(stack: &Stack<L>, cx: Cx, dst: u32, exit: &Exit) -> Result<u32, OutputError> {
        stack.source_at(cx, v4(dst), exit).map(Ipv4Addr::to_bits)
    }

    fn ttl<L: Locks>(stack: &Stack<L>) -> u8 {
        stack.sysctls.ttl.get() as u8
    }

    fn neighbor<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, next: Ipv4Addr) -> Option<Mac> {
        stack.neighbors.lock(cx).lookup(iface, next, cx.now)
    }

    fn mtu<L: Locks>(iface: &Iface<L>) -> usize {
        iface.mtu()
    }

    fn path_mtu<L: Locks>(stack: &Stack<L>, cx: Cx, dst: u32) -> usize {
        stack.path_mtus.lock(cx).get(v4(dst), cx.now)
    }

    fn accepts_group<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, dst: u32) -> bool {
        stack.groups.lock(cx).is_member(iface, v4(dst))
    }

    #[inline(always)]
    fn counts(counters: &Counters) -> IpCounts<'_> {
        let Counters { ip4: Ip4 { received, delivered, forwarded, sent, no_route, .. }, .. } = counters;
        IpCounts { received, delivered, forwarded, sent, no_route }
    }

    fn emit<L: Locks>(_: &Stack<L>, head: &Head<u32>, into: &mut [u8]) -> Option<Partial> {
        let network = into.first_chunk_mut::<{ ip4::HEADER_LEN }>()?;
        let header = ip4::Header::new(v4(head.src), v4(head.dst), head.proto, 0)?;
        let Head { tos, ttl, df, .. } = *head;
        ip4::Header { total_len: 0, ttl, tos, df, ..header }.emit(network);
        [network[10], network[11]] = [0, 0];
        Some(checksum::header20(network))
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn finish(header: &mut [u8], sum: Partial, upper_len: u16, ecn: u8) {
        let Some(ip) = header.first_chunk_mut::<{ ip4::HEADER_LEN }>() else { return };
        let total_len = upper_len + ip4::HEADER_LEN as u16;
        [ip[2], ip[3]] = total_len.to_be_bytes();
        // The ECN bits differ between segments, so they are added here. They are the low bits of
        // the first 16-bit word of the header (version, IHL, TOS), so the checksum is updated by
        // adding their value.
        ip[1] |= ecn;
        let sum = sum.add_u16(total_len).add_u16(u16::from(ecn)).finish();
        [ip[10], ip[11]] = sum.to_be_bytes();
    }

    fn send<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        packet: Frame,
        head: &Head<u32>,
        exit: &Exit,
        by_port: bool,
        at_once: AtOnce,
    ) -> Result<(), OutputError> {
        let Head { tos, df, has_header, .. } = *head;
        let out = Outgoing {
            has_header,
            src: Some(v4(head.src)),
            tos,
            df,
            iface: Some(exit.iface).filter(|_| matches!(exit.to, Target::Station(_))),
            partial_l4: by_port,
            at_once,
            ..Outgoing::new(v4(head.dst), head.proto, head.ttl)
        };
        stack.ip4_output(cx, packet, &out)
    }
}

fn v6(bits: u128) -> Ipv6Addr {
    zone::split(bits).0
}

impl Family for u128 {
    const DOMAIN: Domain = Domain::Inet6;
    const ICMP: Proto = Proto::IPV6_ICMP;
    const ECHO_REQUEST: u8 = icmp6::ty::ECHO_REQUEST;
    const IP_LEN: usize = ip6::HEADER_LEN;
    const ETHERTYPE: EtherType = EtherType::IPV6;
    const IS_SUMMED: bool = true;
    const MALFORMED: DropReason = DropReason::Ip6Malformed;
    const NO_ROUTE: DropReason = DropReason::Ip6NoRoute;
    const OWN_SOURCE: DropReason = DropReason::Ip6OwnSource;
    const TTL_ZERO: DropReason = DropReason::Ip6HopLimitZero;

    #[inline(always)]
    fn routes<L: Locks>(stack: &Stack<L>) -> &Guarded<L, Routes<u128>> {
        &stack.six.routes
    }

    #[inline(always)]
    fn routes_reader<L: Locks>(stack: &Stack<L>) -> &RouteReader<u128> {
        &stack.six.ways
    }

    #[inline(always)]
    fn route_cache<L: Locks>(stack: &Stack<L>) -> &Guarded<L, RouteCache<u128>> {
        &stack.six.route_cache
    }

    #[inline(always)]
    fn own<L: Locks>(stack: &Stack<L>) -> &OwnAddresses {
        &stack.six.own
    }

    #[inline(always)]
    fn hop_limit(packet: &[u8]) -> Option<u8> {
        packet.first_chunk::<{ ip6::HEADER_LEN }>().map(|header| header[7])
    }

    fn flow(key: Key, packet: &[u8]) -> Option<u64> {
        flow::six(key, packet)
    }

    fn is_multicast(self) -> bool {
        v6(self).is_multicast()
    }

    fn is_for_many(self) -> bool {
        v6(self).is_multicast()
    }

    fn is_for_links(src: u128, dst: u128) -> bool {
        !(v6(src).is_loopback() || v6(dst).is_loopback() || dst == 0)
    }

    #[inline(always)]
    fn pseudo(src: u128, dst: u128, proto: Proto, len: u32) -> Partial {
        Partial::pseudo6(v6(src), v6(dst), proto, len)
    }

    fn icmp_seed(src: u128, dst: u128, len: u32) -> Partial {
        u128::pseudo(src, dst, Proto::IPV6_ICMP, len)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn glimpse(packet: &[u8], zone: Option<IfaceId>) -> Option<Glimpse<u128>> {
        let header = ip6::Header::parse_quoted(packet).ok()?;
        let end = ip6::HEADER_LEN + usize::from(header.payload_len);
        Some(Glimpse {
            src: zone::embed(header.src, zone),
            dst: zone::embed(header.dst, zone),
            tos: header.traffic_class,
            upper: (ip6::HEADER_LEN, end.min(packet.len())),
        })
    }

    fn exit<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        dst: u128,
        iface: Option<IfaceId>,
    ) -> Result<Exit<Ipv6Addr>, OutputError> {
        let (addr, zone) = zone::split(dst);
        stack.exit6_for(cx, addr, zone.or(iface))
    }

    fn source<L: Locks>(stack: &Stack<L>, cx: Cx, dst: u128, exit: &Exit<Ipv6Addr>) -> Result<u128, OutputError> {
        if let Target::Here = exit.to {
            return Ok(dst);
        }
        let iface = stack.iface_of(Some(exit.iface)).ok_or(OutputError::NoRoute)?;
        let src = stack.source6_for(cx, iface, v6(dst)).ok_or(OutputError::NoRoute)?;
        Ok(zone::embed(src, Some(exit.iface)))
    }

    fn ttl<L: Locks>(stack: &Stack<L>) -> u8 {
        stack.sysctls.hop_limit6.get() as u8
    }

    fn neighbor<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, next: Ipv6Addr) -> Option<Mac> {
        stack.six.neighbors.lock(cx).lookup(iface, next, cx.now)
    }

    fn mtu<L: Locks>(iface: &Iface<L>) -> usize {
        iface.mtu6()
    }

    fn path_mtu<L: Locks>(stack: &Stack<L>, cx: Cx, dst: u128) -> usize {
        stack.six.path_mtus.lock(cx).get(v6(dst), cx.now).min(LARGEST)
    }

    fn accepts_group<L: Locks>(stack: &Stack<L>, cx: Cx, iface: IfaceId, dst: u128) -> bool {
        stack.groups.lock(cx).is_member(iface, v6(dst))
    }

    #[inline(always)]
    fn counts(counters: &Counters) -> IpCounts<'_> {
        let Counters { ip6: Ip6 { received, delivered, forwarded, sent, no_route, .. }, .. } = counters;
        IpCounts { received, delivered, forwarded, sent, no_route }
    }

    fn emit<L: Locks>(stack: &Stack<L>, head: &Head<u128>, into: &mut [u8]) -> Option<Partial> {
        ip6::Header {
            traffic_class: head.tos,
            flow_label: stack.flow_label(head.src, head.dst, head.ports),
            payload_len: 0,
            next: head.proto,
            hop_limit: head.ttl,
            src: v6(head.src),
            dst: v6(head.dst),
        }
        .emit(into.first_chunk_mut()?);
        Some(Partial::ZERO)
    }

    #[inline(always)]
    fn finish(header: &mut [u8], _: Partial, upper_len: u16, ecn: u8) {
        let Some(ip) = header.first_chunk_mut::<{ ip6::HEADER_LEN }>() else { return };
        [ip[4], ip[5]] = upper_len.to_be_bytes();
        ip[1] |= ecn << 4; // the traffic class is not byte-aligned
    }

    fn send<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        packet: Frame,
        head: &Head<u128>,
        exit: &Exit<Ipv6Addr>,
        by_port: bool,
        at_once: AtOnce,
    ) -> Result<(), OutputError> {
        let out = Outgoing6 {
            partial_l4: by_port,
            src: Some(v6(head.src)),
            class: head.tos,
            iface: Some(exit.iface),
            whole: head.df,
            flow_label: stack.flow_label(head.src, head.dst, head.ports),
            at_once,
            ..Outgoing6::new(v6(head.dst), head.proto, head.ttl)
        };
        stack.ip6_output(cx, packet, &out)
    }
}

impl<L: Locks> Stack<L> {
    /// Returns the flow label of the packets of one flow (RFC 6437): 20 bits, constant within the
    /// flow and unpredictable. Returns 0 if the sysctl `auto_flowlabel` is off.
    pub(crate) fn flow_label(&self, src: u128, dst: u128, [src_port, dst_port]: [L4Port; 2]) -> u32 {
        if !self.sysctls.auto_flowlabel.on() {
            return 0;
        }
        let folded = |bits: u128| (bits >> 64) as u64 ^ (bits as u64).rotate_left(32);
        let ports = u64::from(src_port.0) << 16 | u64::from(dst_port.0);
        (self.secret.hash4(folded(src), folded(dst), ports, LABEL) as u32 & 0xf_ffff).max(1)
    }
}

/// Constant that is added to the input of the flow label hash, so that this hash differs from other
/// hashes with the same secret.
const LABEL: u64 = 0x6c61_6265;

/// Removes the extension headers from a packet for this host. The packet then consists of the IPv6
/// header and the `len` bytes that were at offset `at`, which begin with the upper-layer header.
/// Returns `false` if the packet cannot be written and must be dropped.
pub(crate) fn cut_extensions(packet: &mut Frame, header: &ip6::Header, next: Proto, at: usize, len: usize) -> bool {
    packet.truncate(at + len);
    if at > ip6::HEADER_LEN {
        let moved = packet.pull(at - ip6::HEADER_LEN) && packet.make_own();
        packet.mark_l3();
        let written = packet.bytes_mut().first_chunk_mut().map(|ip| {
            ip6::Header { payload_len: len as u16, next, ..*header }.emit(ip);
        });
        return moved && written.is_some();
    }
    true
}
