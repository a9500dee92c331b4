//! Tunnel input. `ip4` and `ip6` pass packets for this host to it, and `udp` passes datagrams
//! without a socket. The inner packet continues to `requeue`.
//!
//! The outer source address must be the tunnel's remote address (RFC 4213 3.6), and the key or VNI
//! must match. The reverse path check, which gif(4) makes in its ingress filter, is left to source
//! validation. The frame keeps its buffer: headers are pulled, and nothing is copied. If there is
//! no tunnel of that kind at the destination address, the packet is treated like one with an
//! unknown protocol or, for VXLAN, like one for an unused port.

use super::table::Arrival;
use super::{Kind, ecn};
use crate::Stack;
use crate::iface::{Iface, IfaceId, Traffic};
use buf::{Flags, Frame};
use clock::Instant;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::IpAddr;
use wire::eth::{self, EtherType};
use wire::ip6::{self, Chain};
use wire::{L4Port, Malformed, Proto, etherip, gre, ip4, udp, vxlan};

/// Contents of a tunnel header: its length, key or VNI, sequence number, and the type of its
/// payload.
struct ParsedOuter {
    len: usize,
    key: Option<u32>,
    sequence: Option<u32>,
    inside: EtherType,
}

impl<L: Locks> Stack<L> {
    /// Processes a packet of a tunnel protocol. The packet begins with its IP header, whose fields
    /// are in `header`. Returns the packet if there is no tunnel of that kind.
    pub(crate) fn tunnel_input(&self, cx: Cx, packet: Frame, header: &ip4::Header) -> Option<Frame> {
        let ends = (header.src.into(), header.dst.into());
        self.take_out(cx, packet, header.proto, ends, (header.ihl_len, header.tos))
    }

    /// Processes an IPv6 packet of a tunnel protocol, with its chain of headers. Returns the packet
    /// if there is no tunnel of that kind.
    pub(crate) fn tunnel_input6(&self, cx: Cx, packet: Frame, header: &ip6::Header, chain: &Chain) -> Option<Frame> {
        let ends = (header.src.into(), header.dst.into());
        self.take_out(cx, packet, chain.upper, ends, (chain.offset, header.traffic_class))
    }

    fn take_out(
        &self,
        cx: Cx,
        packet: Frame,
        proto: Proto,
        (src, dst): (IpAddr, IpAddr),
        (before, tos): (usize, u8),
    ) -> Option<Frame> {
        let kind = match proto {
            Proto::GRE => Kind::Gre,
            Proto::ETHERIP => Kind::EtherIp,
            _ => Kind::Gif,
        };
        if !self.tunnels.lock(cx).has(kind, dst, L4Port(0)) {
            return Some(packet);
        }
        let seen = look(kind, proto, packet.bytes().get(before..).unwrap_or_default());
        let came = Arrival { kind, src, dst, l4port: L4Port(0) };
        self.decapsulate(cx, packet, (before, tos), came, seen);
        None
    }

    /// Processes a datagram without a socket. It begins with its IP header. Returns the datagram if
    /// there is no VXLAN tunnel for it.
    pub(crate) fn vxlan_input(&self, cx: Cx, packet: Frame) -> Option<Frame> {
        let Some(outer) = ip4::HeaderView::of(packet.bytes()) else { return Some(packet) };
        let (ends, before) = ((outer.src().into(), outer.dst().into()), (outer.ihl_len(), outer.tos()));
        self.take_datagram_out(cx, packet, ends, before)
    }

    /// Processes an IPv6 datagram without a socket, as [`Stack::vxlan_input`] does for IPv4.
    /// `chain` contains its extension headers.
    pub(crate) fn vxlan_input6(&self, cx: Cx, packet: Frame, header: &ip6::Header, chain: &Chain) -> Option<Frame> {
        let ends = (header.src.into(), header.dst.into());
        self.take_datagram_out(cx, packet, ends, (chain.offset, header.traffic_class))
    }

    /// Processes an IPv6 datagram with an invalid checksum, as [`Stack::vxlan_input6`] does. A
    /// datagram without a checksum may be for a tunnel that accepts such datagrams (RFC 6935 5).
    #[cold]
    pub(crate) fn vxlan_unchecked(&self, cx: Cx, packet: Frame, header: &ip6::Header, chain: &Chain) -> Option<Frame> {
        let datagram = udp::Header::parse(chain.payload(header, packet.bytes())).ok();
        let accepts = datagram.is_some_and(|datagram| {
            datagram.checksum == 0 && self.tunnels.lock(cx).accepts_unchecked(header.dst.into(), datagram.dst)
        });
        if accepts { self.vxlan_input6(cx, packet, header, chain) } else { Some(packet) }
    }

    /// Processes a datagram with `before` bytes in front of its UDP header. Returns the packet if
    /// there is no VXLAN tunnel for it.
    fn take_datagram_out(
        &self,
        cx: Cx,
        packet: Frame,
        (src, dst): (IpAddr, IpAddr),
        (before, tos): (usize, u8),
    ) -> Option<Frame> {
        let datagram = packet.bytes().get(before..).unwrap_or_default();
        let Ok(header) = udp::Header::parse(datagram) else { return Some(packet) };
        if !self.tunnels.lock(cx).has(Kind::Vxlan, dst, header.dst) {
            return Some(packet);
        }
        let seen = look(Kind::Vxlan, Proto::UDP, header.payload(datagram));
        let came = Arrival { kind: Kind::Vxlan, src, dst, l4port: header.dst };
        self.decapsulate(cx, packet, (before + udp::HEADER_LEN, tos), came, seen);
        None
    }

    fn decapsulate(
        &self,
        cx: Cx,
        mut packet: Frame,
        (before, tos): (usize, u8),
        came: Arrival,
        seen: Result<ParsedOuter, DropReason>,
    ) {
        let seen = match seen {
            Ok(seen) => seen,
            Err(why) => return self.drop_frame(cx, packet, why),
        };
        let mut tunnels = self.tunnels.lock(cx);
        let found = tunnels.find(&came, seen.key).map(|tunnel| {
            let sequence = seen.sequence.filter(|_| tunnel.config.sequence);
            (tunnel.iface, take_in_order(&mut tunnel.expected, sequence))
        });
        drop(tunnels);
        let (iface, in_order) = match found {
            Ok(found) => found,
            Err(why) => return self.drop_frame(cx, packet, why),
        };
        let known = match seen.inside {
            EtherType::IPV4 => Ok(()),
            EtherType::IPV6 if self.ifaces.get(iface).is_some_and(|iface| iface.has_ip6()) => Ok(()),
            EtherType::IPV6 => Err(DropReason::TunnelIp6),
            _ => Err(DropReason::TunnelUnknownType),
        };
        let before = before + seen.len;
        let opened = in_order.and(known).and_then(|()| open(&mut packet, before, came.kind, seen.inside, tos));
        match opened {
            Err(why) => {
                self.count_tunnel_error(cx, iface, |iface| &iface.rx);
                self.drop_frame(cx, packet, why);
            }
            Ok(()) => {
                packet.mark_l3();
                packet.set_flags(Flags::default()); // the port has set the flags for the outer packet
                self.count(cx).tunnel.decapsulated.bump();
                self.requeue(cx, iface, packet);
            }
        }
    }

    /// Counts an error of a tunnel. `way` selects the receive or the transmit counters of the
    /// interface.
    #[cold]
    pub(super) fn count_tunnel_error(&self, cx: Cx, id: IfaceId, way: impl FnOnce(&Iface<L>) -> &Traffic) {
        let _tunnels = self.tunnels.lock(cx);
        if let Some(iface) = self.ifaces.get(id) {
            way(iface).errors.bump();
        }
    }

    /// Returns the time at which [`Stack::poll`] must process the queued decapsulated packets.
    pub(crate) fn requeued_due(&self, cx: Cx) -> Instant {
        if self.requeued.has_some() { cx.now } else { Instant::NEVER }
    }
}

/// Removes the outer headers from a packet of a tunnel of this kind. The headers are `len` bytes
/// long, and `tos` is the outer type of service. `said` is the EtherType in the tunnel header.
fn open(packet: &mut Frame, len: usize, kind: Kind, said: EtherType, tos: u8) -> Result<(), DropReason> {
    packet.pull(len).then_some(()).ok_or(DropReason::TunnelMalformed)?;
    if !kind.is_ethernet() && (said == EtherType::IPV6) != ip6::is_version(packet.bytes()) {
        return Err(DropReason::TunnelMalformed); // the IP version differs from the EtherType
    }
    let inside = if kind.is_ethernet() { inside_ethernet(packet) } else { Some(0) };
    let inner = inside.and_then(|at| packet.bytes_mut().get_mut(at..)).unwrap_or_default();
    match ip6::is_version(inner) {
        true if inner.get(7) == Some(&0) => return Err(DropReason::Ip6HopLimit),
        false if inner.get(8) == Some(&0) => return Err(DropReason::Ip4TtlExceeded), // RFC 2003 3.1
        _ => {}
    }
    ecn::leave(tos, inner)
}

/// Returns the offset of the IP packet in an Ethernet frame, if there is one.
pub(super) fn inside_ethernet(frame: &Frame) -> Option<usize> {
    let header = eth::Header::parse(frame.bytes()).ok()?;
    matches!(header.ethertype, EtherType::IPV4 | EtherType::IPV6).then_some(eth::HEADER_LEN)
}

/// Parses the header of a tunnel of this kind, which is at the beginning of `payload`.
fn look(kind: Kind, proto: Proto, payload: &[u8]) -> Result<ParsedOuter, DropReason> {
    let malformed = |_: Malformed| DropReason::TunnelMalformed;
    let plain = |len, inside| ParsedOuter { len, key: None, sequence: None, inside };
    match kind {
        Kind::Gif if proto == Proto::IPV6 => Ok(plain(0, EtherType::IPV6)),
        Kind::Gif => Ok(plain(0, EtherType::IPV4)),
        Kind::Gre => {
            let header = gre::Header::parse(payload).map_err(malformed)?;
            if header.has_checksum && !gre::checksum_ok(payload) {
                return Err(DropReason::TunnelBadChecksum);
            }
            let (key, sequence) = (header.key, header.sequence);
            Ok(ParsedOuter { len: header.header_len(), key, sequence, inside: header.protocol })
        }
        Kind::EtherIp => {
            etherip::check(payload).map_err(malformed).map(|()| plain(etherip::HEADER_LEN, EtherType::IPV4))
        }
        Kind::Vxlan => {
            let header = vxlan::Header::parse(payload).map_err(malformed)?;
            Ok(ParsedOuter { key: Some(header.vni), ..plain(vxlan::HEADER_LEN, EtherType::IPV4) })
        }
    }
}

/// Rejects a packet whose sequence number is not after the last accepted one (RFC 2890 2.2).
fn take_in_order(expected: &mut Option<u32>, sequence: Option<u32>) -> Result<(), DropReason> {
    let Some(sequence) = sequence else { return Ok(()) };
    if expected.is_some_and(|expected| (sequence.wrapping_sub(expected) as i32) < 0) {
        return Err(DropReason::TunnelLate);
    }
    *expected = Some(sequence.wrapping_add(1));
    Ok(())
}
