//! Tunnel output. It receives packets from `ip4` and `ip6` (gif, GRE) and frames from the transmit
//! stage (EtherIP, VXLAN), and passes the outer packets to `ip4::output` or `ip6::output`.
//!
//! Headers are prepended in place. If the headroom is too small, the packet is moved to another
//! buffer, which is counted. The outer header has the tunnel's TTL, and the DSCP and ECN field of
//! the inner header (RFC 6040 4.1). Unless configured otherwise, it also has the DF flag of the
//! inner header. An inner IPv6 packet longer than 1280 bytes is treated as if DF were set (RFC 4213
//! 3.2.2); the outer packet of a shorter one may be fragmented. If the outer header is IPv6, DF
//! prevents fragmentation by this host. A tunnel may lead into another tunnel, up to a depth of
//! `net.link.gif.max_nesting`. This limit also stops a tunnel that leads into itself.

use super::table::OuterRoute;
use super::trouble::Trouble;
use super::{Config, DontFragment, Kind, input};
use crate::Stack;
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip::exit::{Exit, Target};
use crate::ip4::pmtu::FLOOR6;
use crate::ip4::{Outgoing, OutputError, frag};
use crate::ip6::{Outgoing6, frag as frag6};
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use wire::checksum::Partial;
use wire::eth::EtherType;
use wire::gso::Segment;
use wire::ip6;
use wire::{L4Port, Proto, checksum, eth, etherip, flow, gre, ip4, udp, vxlan};

/// Additional headroom in bytes of a packet that is moved to another buffer. It is intended for the
/// headers of further tunnels.
const SPARE: usize = 128;
/// First source port of VXLAN packets, from the dynamic range (RFC 7348 5, RFC 6335 6).
const FIRST_PORT: u16 = 49_152;

/// Fields of the inner header that are copied to the outer header.
#[derive(Clone, Copy, Default)]
struct Inner {
    tos: u8,
    df: bool,
}

impl<L: Locks> Stack<L> {
    /// Sends an IP packet through the tunnel `iface`, or an Ethernet frame if the tunnel carries
    /// frames.
    ///
    /// The caller may hold the lock of a socket but no other lock. Therefore no socket may be
    /// locked here.
    #[inline(never)]
    pub(crate) fn tunnel_output(&self, cx: Cx, iface: &Iface<L>, inner: Frame, at_once: AtOnce) {
        let depth = &self.count(cx).nesting;
        let level = depth.load(Ordering::Relaxed);
        if i64::from(level) >= self.sysctls.tunnel_nesting.get() {
            return self.not_sent(cx, iface, inner, DropReason::TunnelNested);
        }
        depth.store(level + 1, Ordering::Relaxed);
        match large_segment(iface, &inner) {
            None => self.encapsulate(cx, iface, inner, at_once),
            Some(segment) => self.encapsulate_pieces(cx, iface, (inner, segment), at_once),
        }
        depth.store(level, Ordering::Relaxed);
    }

    /// Sends a large segment as several packets. If it were sent as one outer packet, that packet
    /// would be fragmented, and the loss of one fragment would lose the whole segment. Ports cannot
    /// segment packets with two IP headers.
    #[cold]
    fn encapsulate_pieces(&self, cx: Cx, iface: &Iface<L>, large: (Frame, Segment), at_once: AtOnce) {
        let (whole, mut segment) = large;
        while let Some(len) = segment.next_len() {
            let mut piece = self.pool.get();
            if piece.as_mut().and_then(|piece| segment.cut(whole.bytes(), piece.append(len)?)).is_none() {
                drop(piece);
                return self.not_sent(cx, iface, whole, DropReason::TunnelNoBuffer);
            }
            if let Some(piece) = piece {
                self.count(cx).audit.made.bump();
                self.encapsulate(cx, iface, piece, at_once);
            }
        }
        self.drop_frame(cx, whole, DropReason::TunnelCut);
    }

    fn encapsulate(&self, cx: Cx, iface: &Iface<L>, mut inner: Frame, at_once: AtOnce) {
        if !iface.is_up() {
            return self.not_sent(cx, iface, inner, DropReason::TxNoPort);
        }
        let mut tunnels = self.tunnels.lock(cx);
        let leaving = tunnels.leaving(iface.id);
        iface.tx.passed(&inner);
        drop(tunnels);
        let Some((config, sequence, way)) = &leaving else {
            return self.not_sent(cx, iface, inner, DropReason::TunnelNoEnds);
        };
        let found;
        let way = match way {
            Some(way) if way.epoch == self.epoch() => way,
            _ => {
                found = self.find_outer_route(cx, iface.id, config.remote);
                let Some(found) = &found else {
                    self.report_to_sender(cx, config, &mut inner, Trouble::Host);
                    return self.not_sent(cx, iface, inner, DropReason::TunnelNoRoute);
                };
                found
            }
        };
        if way.iface == iface.id {
            return self.not_sent(cx, iface, inner, DropReason::TunnelNested);
        }
        let from_far_end = source_of(inner.bytes()) == Some(config.remote);
        if config.kind == Kind::Gif && from_far_end {
            // The other end of the tunnel would send the packet back (RFC 2003 3.2).
            return self.not_sent(cx, iface, inner, DropReason::TunnelNested);
        }
        let inside = if ip6::is_version(inner.bytes()) { EtherType::IPV6 } else { EtherType::IPV4 };
        let Some(about) = complete(config, &mut inner) else {
            return self.not_sent(cx, iface, inner, DropReason::TunnelNoBuffer);
        };
        let df = config.df == DontFragment::Set || config.df == DontFragment::Copy && about.df;
        let overhead = config.overhead() - if config.kind.is_ethernet() { eth::HEADER_LEN } else { 0 };
        if df && inner.len() + overhead > way.path {
            let mtu = way.path.saturating_sub(config.overhead());
            self.narrow_tunnel(cx, iface.id, mtu);
            self.report_to_sender(cx, config, &mut inner, Trouble::TooBig(mtu));
            return self.not_sent(cx, iface, inner, DropReason::TunnelTooBig);
        }
        let Some(mut packet) = self.with_room(cx, iface, inner, overhead + eth::HEADER_LEN) else { return };
        if self.put_in_front(config, *sequence, inside, &mut packet).is_none() {
            return self.not_sent(cx, iface, packet, DropReason::TunnelNoBuffer);
        }
        match self.output_outer(cx, packet, (config, way), inside, Inner { df, ..about }, at_once) {
            Ok(_) => self.count(cx).tunnel.encapsulated.bump(),
            Err(_) => self.count_tunnel_error(cx, iface.id, |iface| &iface.tx),
        }
    }

    /// Finds the route to a tunnel's remote address. Caches the route if the MAC address of the
    /// next hop is known.
    #[inline(never)]
    fn find_outer_route(&self, cx: Cx, id: IfaceId, remote: IpAddr) -> Option<OuterRoute> {
        let way = self.tunnel_route(cx, remote)?;
        if way.station.is_some()
            && let Some(tunnel) = self.tunnels.lock(cx).get_mut(id)
        {
            tunnel.way = Some(way);
        }
        Some(way)
    }

    fn output_outer(
        &self,
        cx: Cx,
        packet: Frame,
        (config, way): (&Config, &OuterRoute),
        inside: EtherType,
        about: Inner,
        at_once: AtOnce,
    ) -> Result<(), OutputError> {
        let (proto, ttl) = (config.kind.proto(inside), config.ttl.map(i64::from));
        match (config.local, config.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let ttl = ttl.unwrap_or_else(|| self.sysctls.tunnel_ttl.get()) as u8;
                let (src, tos, df, exit) = (Some(local), about.tos, about.df, way.exit());
                let out = Outgoing { src, tos, df, exit, at_once, ..Outgoing::new(remote, proto, ttl) };
                self.ip4_output(cx, packet, &out)
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                let hops = ttl.unwrap_or_else(|| self.sysctls.tunnel_hop_limit.get()) as u8;
                let (src, class, whole, exit) = (Some(local), about.tos, about.df, way.exit());
                let out = Outgoing6 { src, class, whole, exit, at_once, ..Outgoing6::new(remote, proto, hops) };
                self.ip6_output(cx, packet, &out)
            }
            _ => {
                self.drop_frame(cx, packet, DropReason::TunnelNoEnds); // `set_tunnel` rejects mixed families
                Err(OutputError::NoRoute)
            }
        }
    }

    /// Drops a packet that cannot be sent through `iface`.
    fn not_sent(&self, cx: Cx, iface: &Iface<L>, frame: Frame, why: DropReason) {
        self.count_tunnel_error(cx, iface.id, |iface| &iface.tx);
        self.drop_frame(cx, frame, why);
    }

    /// Prepends the headers between the outer IP header and the payload, for example the GRE
    /// header.
    fn put_in_front(&self, config: &Config, sequence: u32, inside: EtherType, packet: &mut Frame) -> Option<()> {
        match config.kind {
            Kind::Gif => {}
            Kind::Gre => {
                let header = config.gre(sequence, inside);
                if header.has_checksum && !packet.make_own() {
                    return None;
                }
                packet.push_n(header.header_len())?;
                header.emit(packet.bytes_mut())?;
            }
            Kind::EtherIp => *packet.push()? = etherip::HEADER,
            Kind::Vxlan => {
                let src = self.vxlan_port(packet.bytes());
                vxlan::Header { vni: config.vni }.emit(packet.push()?);
                let len = u16::try_from(packet.len() + udp::HEADER_LEN).ok()?;
                // Over IPv4, VXLAN needs no UDP checksum, since the inner frame has checksums (RFC
                // 7348 5).
                let header = udp::Header { src, dst: config.l4port, len, checksum: 0 };
                header.emit(packet.push()?);
                if let (IpAddr::V6(local), IpAddr::V6(remote)) = (config.local, config.remote) {
                    packet.make_own().then_some(())?;
                    let pseudo = Partial::pseudo6(local, remote, Proto::UDP, len.into());
                    let checksum = pseudo.add(checksum::sum(packet.bytes())).finish_nonzero();
                    udp::Header { checksum, ..header }.emit(packet.bytes_mut().first_chunk_mut()?);
                }
            }
        }
        Some(())
    }

    /// Returns the source port of a VXLAN packet. It is a dynamic port that is derived from the
    /// inner flow, so that routers spread flows over paths (RFC 7348 5). It cannot be predicted
    /// from outside.
    fn vxlan_port(&self, frame: &[u8]) -> L4Port {
        let hash = self.secret.hash2(flow::hash(self.secret, frame), u64::from(vxlan::PORT.0));
        L4Port(FIRST_PORT + (hash % u64::from(u16::MAX - FIRST_PORT + 1)) as u16)
    }

    /// Returns the packet with at least `need` bytes of headroom. The packet is moved to another
    /// buffer if necessary.
    fn with_room(&self, cx: Cx, iface: &Iface<L>, packet: Frame, need: usize) -> Option<Frame> {
        if packet.headroom() >= need {
            return Some(packet);
        }
        let len = packet.len();
        let shift = (need + SPARE).saturating_sub(self.pool.headroom());
        let fits = self.pool.headroom() + shift + len <= self.pool.size();
        let copy = if fits { self.pool.get() } else { self.large_buffer(cx) };
        let moved = copy.and_then(|mut copy| {
            copy.append(shift + len)?;
            copy.pull(shift).then_some(())?;
            copy.bytes_mut().copy_from_slice(packet.bytes()); // same length, since `copy` was extended to it
            Some(copy)
        });
        match moved {
            Some(moved) => {
                self.count(cx).audit.made.bump();
                self.drop_frame(cx, packet, DropReason::TunnelMoved);
                Some(moved)
            }
            None => {
                self.not_sent(cx, iface, packet, DropReason::TunnelNoBuffer);
                None
            }
        }
    }

    /// Reports to the sender of an inner packet that the packet was not sent. For a local sender,
    /// the report is deferred to the next poll, since the sender's socket may now be locked.
    fn report_to_sender(&self, cx: Cx, config: &Config, inner: &mut Frame, trouble: Trouble) {
        if config.kind.is_ethernet() {
            match input::inside_ethernet(inner) {
                Some(at) => drop(inner.pull_link(at)),
                None => return,
            }
        }
        inner.mark_l3();
        let is_local = match source_of(inner.bytes()) {
            Some(IpAddr::V4(src)) => self.is_own(cx, src),
            Some(IpAddr::V6(src)) => self.is_own6(cx, src),
            None => return,
        };
        match ip6::is_version(inner.bytes()) {
            _ if is_local => self.queue_report(cx, trouble, inner.bytes()),
            true => self.icmp6_error(cx, None, inner, trouble.problem6()),
            false => self.icmp4_error(cx, inner, trouble.cause()),
        }
    }
}

impl OuterRoute {
    /// Returns the outgoing interface and next hop, if the MAC address of the next hop is known.
    fn exit<A>(&self) -> Option<Exit<A>> {
        self.station.map(|mac| Exit { iface: self.iface, to: Target::Station(mac) })
    }
}

/// Returns the source address of a packet.
fn source_of(packet: &[u8]) -> Option<IpAddr> {
    match ip6::is_version(packet) {
        true => ip6::Header::parse_quoted(packet).ok().map(|header| header.src.into()),
        false => ip4::HeaderView::of(packet).map(|header| header.src().into()),
    }
}

/// Returns the size information of a large segment that must be split before encapsulation; `None`
/// for any other packet.
fn large_segment<L: Locks>(iface: &Iface<L>, inner: &Frame) -> Option<Segment> {
    let size = inner.gso_size()?;
    let at = if iface.kind == IfaceKind::Tunnel { 0 } else { input::inside_ethernet(inner)? };
    Segment::read(inner.bytes(), at, size)
}

/// Computes the checksums that were left to a port, since the port cannot compute them for a packet
/// in a tunnel. Returns the fields of the inner header that are copied to the outer header. Returns
/// `None` if a checksum cannot be written because the packet shares its buffer and no other buffer
/// is free.
fn complete(config: &Config, inner: &mut Frame) -> Option<Inner> {
    let at = if config.kind.is_ethernet() { input::inside_ethernet(inner) } else { Some(0) };
    let work = inner.flags();
    inner.set_flags(Flags::default());
    let Some(at) = at.filter(|at| inner.pull(*at)) else { return Some(Inner::default()) };
    let about = complete_packet(work, inner);
    inner.push_n(at); // restores the link header, which is still in the headroom
    about
}

fn complete_packet(work: Flags, packet: &mut Frame) -> Option<Inner> {
    if ip6::is_version(packet.bytes()) {
        let Ok(header) = ip6::Header::parse(packet.bytes()) else { return Some(Inner::default()) };
        if work.has(Flags::TX_L4_CSUM) {
            frag6::finish_checksum(packet, &header)?;
        }
        return Some(Inner { tos: header.traffic_class, df: packet.len() > FLOOR6 });
    }
    let Ok(header) = ip4::Header::parse(packet.bytes()) else { return Some(Inner::default()) };
    if work.has(Flags::TX_L4_CSUM) {
        frag::finish_checksum(packet, &header)?;
    }
    if work.has(Flags::TX_IP_CSUM) {
        packet.make_own().then_some(())?;
        ip4::fill_checksum(packet.bytes_mut().get_mut(..header.ihl_len)?);
    }
    Some(Inner { tos: header.tos, df: header.df })
}

const _: () = assert!(gre::MAX_HEADER_LEN <= 2 * SPARE);
