//! IPv4 forwarding (RFC 1812 5.2, 5.3): TTL, next hop, fragment or too-big, link header.
//!
//! Packets arrive with their next hops looked up. The usual one leaves in a few ticks: TTL and checksum mended in place,
//! the gateway's Ethernet header copied from its hop, staged. Everything else goes the long way, through the neighbor
//! table or an ICMP error. One iface lock per run of packets that leave the same way.

use crate::Stack;
use crate::fib::NextHopId;
use crate::icmp4::Cause;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip4::frag::{self, FragError};
use crate::neigh::Resolved;
use crate::route::{Adjacency, Hop, Via};
use crate::stack::{AtOnce, Odd};
use buf::{Burst, Flags, Frame};
use lock::{Cx, Locks, Pinned};
use stats::DropReason;
use std::net::Ipv4Addr;
use wire::eth;
use wire::icmp4::unreachable;
use wire::{Mac, ip4};

/// What stands in the way of forwarding.
enum Obstacle {
    Drop(DropReason),
    Tell(DropReason, Cause),
    Fragment,
    Resolve(IfaceId, Ipv4Addr),
}

impl<L: Locks> Stack<L> {
    /// Takes up to a chunk of packets that all have the next hop `hop`.
    pub(crate) fn ip4_forward(&self, cx: Cx, from: Option<&Iface<L>>, packets: &mut Burst, hop: Option<&Hop>) {
        if !self.knobs.forwarding.on() {
            return packets.drain().for_each(|packet| self.drop_frame(cx, packet, DropReason::Ip4NotForwarding));
        }
        let Some((hop, out)) = hop.and_then(|hop| Some((hop, self.way_out(from, hop)?))) else {
            return self.forward_each(cx, from, packets, hop);
        };
        let on_link = matches!(hop.via, Via::Link(_));
        let (mut link, mut link_of) = (hop.adjacency, Ipv4Addr::UNSPECIFIED); // nobody's: a martian
        let (n, mtu, mut odd) = (packets.len(), out.mtu(), Odd::default());
        for (at, packet) in packets.as_mut_slice().iter_mut().enumerate() {
            match passable(packet, mtu) {
                Some(dst) if on_link && dst != link_of => match self.neighbors.lock(cx).lookup(out.id, dst, cx.now) {
                    Some(mac) => (link, link_of) = (out.header_to(mac), dst),
                    None => {
                        odd.add(at);
                        continue;
                    }
                },
                Some(_) => {}
                None => {
                    odd.add(at);
                    continue;
                }
            }
            pass_on(packet, &link);
        }
        if odd.any() {
            return self.forward_mixed(cx, from, packets, hop, out, odd);
        }
        self.stage_all(cx, out, packets);
        self.count(cx).ip4.forwarded.add(n as u64);
    }

    /// Takes from the front of a chunk of plain packets, which go to different gateways, as many as can go the short way through one iface,
    /// and says how many: a router with many gateways on a link sees runs of one, and what a run costs would be paid for each packet.
    pub(crate) fn forward_through_gateways(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        pinned: &Pinned<'_>,
    ) -> usize {
        let epoch = self.links_epoch();
        let first = ids.first().and_then(|id| self.ways.hop(pinned, (*id)?));
        let Some(Via::Gateway(id, _)) = first.map(|hop| hop.via).filter(|_| self.knobs.forwarding.on()) else {
            return 0;
        };
        let Some(out) = self.ifaces.get(id).filter(|out| from.is_none_or(|from| from.id != out.id)) else { return 0 };
        let (mtu, all) = (out.mtu(), packets.len());
        let pass = |(packet, id): (&mut Frame, &Option<NextHopId>)| {
            let adjacency = id.and_then(|id| self.ways.adjacency_to(pinned, id, out.id, epoch));
            adjacency.is_some_and(|adjacency| pass_on_plain(packet, mtu, adjacency))
        };
        let n = packets.as_mut_slice().iter_mut().zip(ids).map(pass).take_while(|passed| *passed).count();
        if n == all {
            self.stage_all(cx, out, packets);
        } else {
            let mut passed = Burst::new();
            passed.take_some(packets, n);
            self.stage_all(cx, out, &mut passed);
        }
        self.count(cx).ip4.forwarded.add(n as u64);
        n
    }

    /// The iface to stations on a link, or to a gateway whose MAC address is known; never where the packets come from.
    #[inline(always)]
    fn way_out(&self, from: Option<&Iface<L>>, hop: &Hop) -> Option<&Iface<L>> {
        let out = match hop.via {
            Via::Link(out) => out,
            Via::Gateway(out, _) if hop.epoch == self.links_epoch() => out,
            _ => return None,
        };
        if from.is_some_and(|from| from.id == out) {
            return None;
        }
        self.ifaces.get(out).filter(|out| out.kind == IfaceKind::Ethernet) // a tunnel has no link header
    }

    /// A chunk in which some packets have their link header and others, the odd ones, something in their way.
    #[inline(never)]
    fn forward_mixed(&self, cx: Cx, from: Option<&Iface<L>>, packets: &mut Burst, hop: &Hop, out: &Iface<L>, odd: Odd) {
        let mut sent = 0;
        for (at, packet) in packets.drain().enumerate() {
            if odd.has(at) {
                sent += u64::from(self.forward_slow(cx, from, packet, Some(hop)));
            } else {
                self.stage(cx, out, packet, AtOnce::Later);
                sent += 1;
            }
        }
        self.count(cx).ip4.forwarded.add(sent);
    }

    #[inline(never)]
    fn forward_each(&self, cx: Cx, from: Option<&Iface<L>>, packets: &mut Burst, hop: Option<&Hop>) {
        let sent = packets.drain().map(|packet| u64::from(self.forward_slow(cx, from, packet, hop))).sum();
        self.count(cx).ip4.forwarded.add(sent);
    }

    /// What is in the way of a packet, if only that its neighbor must be asked for.
    fn obstacle(&self, packet: &Frame, hop: Option<&Hop>) -> Obstacle {
        if packet.flags().has(Flags::LINK_BROADCAST) {
            return Obstacle::Drop(DropReason::Ip4LinkBroadcast);
        }
        let Some(hop) = hop else {
            return Obstacle::Tell(DropReason::Ip4NoRoute, Cause::Unreachable(unreachable::NET));
        };
        let Some(header) = ip4::Glance::of(packet.bytes()) else {
            return Obstacle::Drop(DropReason::Ip4Malformed);
        };
        let (out, next) = match hop.via {
            Via::Gateway(iface, gateway) => (iface, gateway),
            Via::Link(iface) => (iface, header.dst()),
            Via::Reject => return Obstacle::Tell(DropReason::Ip4NoRoute, Cause::Unreachable(unreachable::HOST)),
            Via::Prohibit => {
                return Obstacle::Tell(DropReason::Ip4Prohibited, Cause::Unreachable(unreachable::ADMIN_PROHIBITED));
            }
            Via::Blackhole | Via::Paths(_) => return Obstacle::Drop(DropReason::Ip4NoRoute),
            Via::Local(_) | Via::Broadcast(_) => return Obstacle::Drop(DropReason::Ip4NotForwardable),
        };
        // Behind the question whether it may go on at all (RFC 1812 5.2.1.2): a route to nowhere says nothing else of itself.
        if header.ttl() <= 1 {
            return Obstacle::Tell(DropReason::Ip4TtlExceeded, Cause::TtlExceeded);
        }
        if super::link_len(packet) > self.ifaces.get(out).map_or(0, Iface::mtu) {
            return Obstacle::Fragment;
        }
        Obstacle::Resolve(out, next)
    }

    /// The long way. Says whether the packet (or its fragments) went out or waits for a neighbor.
    fn forward_slow(&self, cx: Cx, from: Option<&Iface<L>>, mut packet: Frame, hop: Option<&Hop>) -> bool {
        match self.obstacle(&packet, hop) {
            Obstacle::Drop(why) => self.drop_frame(cx, packet, why),
            Obstacle::Tell(why, cause) => {
                self.icmp4_error(cx, &packet, cause);
                self.drop_frame(cx, packet, why);
            }
            Obstacle::Fragment => return self.forward_fragments(cx, packet, hop),
            Obstacle::Resolve(out, next) => {
                if let Some(from) = from.filter(|from| from.id == out) {
                    self.maybe_redirect(cx, from, &packet, next);
                }
                if !self.record_options(cx, out, next, &mut packet) {
                    self.drop_frame(cx, packet, DropReason::Ip4BadOptions);
                    return false;
                }
                ip4::decrement_ttl(packet.bytes_mut());
                self.send_to_neighbor(cx, out, next, packet, hop, AtOnce::Later);
                return true;
            }
        }
        false
    }

    fn forward_fragments(&self, cx: Cx, mut packet: Frame, hop: Option<&Hop>) -> bool {
        let Ok(header) = ip4::Header::parse(packet.bytes()) else {
            self.drop_frame(cx, packet, DropReason::Ip4Malformed);
            return false;
        };
        let Some((out, next)) = hop.and_then(|hop| match hop.via {
            Via::Gateway(iface, gateway) => Some((iface, gateway)),
            Via::Link(iface) => Some((iface, header.dst)),
            _ => None,
        }) else {
            self.drop_frame(cx, packet, DropReason::Ip4NoRoute);
            return false;
        };
        let mtu = self.ifaces.get(out).map_or(0, Iface::mtu);
        if header.df {
            self.icmp4_error(cx, &packet, Cause::FragNeeded(mtu as u16));
            self.drop_frame(cx, packet, DropReason::Ip4TooBig);
            return false;
        }
        if !self.record_options(cx, out, next, &mut packet) {
            self.drop_frame(cx, packet, DropReason::Ip4BadOptions);
            return false;
        }
        // A large segment whose pieces are too long themselves: to the link it is one long datagram.
        packet.set_flags(packet.flags().without(Flags::GSO));
        let before = ip4::decrement_ttl(packet.bytes_mut());
        let header = ip4::Header { ttl: before.unwrap_or(header.ttl), ..header };
        self.output_fragments(cx, packet, &header, mtu, |stack, fragment| {
            stack.send_to_neighbor(cx, out, next, fragment, None, AtOnce::Later);
        })
    }

    /// Cuts a packet up and hands each fragment to `send`; says whether that could be done.
    pub(crate) fn output_fragments(
        &self,
        cx: Cx,
        packet: Frame,
        header: &ip4::Header,
        mtu: usize,
        mut send: impl FnMut(&Self, Frame),
    ) -> bool {
        let mut fragments = Vec::new();
        let counters = self.count(cx);
        match frag::fragment(packet, header, mtu, &self.pool, &mut |fragment| fragments.push(fragment)) {
            Ok(original) => {
                counters.audit.made.add(fragments.len() as u64);
                counters.ip4.fragmented.bump();
                counters.ip4.fragments_sent.add(fragments.len() as u64);
                self.drop_frame(cx, original, DropReason::Ip4Fragmented);
                fragments.into_iter().for_each(|fragment| send(self, fragment));
                true
            }
            Err((original, FragError::NoBuffer)) => {
                self.drop_frame(cx, original, DropReason::FragNoBuffer);
                false
            }
            Err((original, FragError::Malformed)) => {
                self.drop_frame(cx, original, DropReason::FragMalformed);
                false
            }
            Err((original, FragError::DontFragment | FragError::MtuTooSmall)) => {
                self.drop_frame(cx, original, DropReason::Ip4TooBig);
                false
            }
        }
    }

    /// Sends a packet to a neighbor whose MAC address may or may not be known; remembers it in the gateway's hop.
    pub(crate) fn send_to_neighbor(
        &self,
        cx: Cx,
        out: IfaceId,
        next: Ipv4Addr,
        packet: Frame,
        hop: Option<&Hop>,
        at_once: AtOnce,
    ) {
        let Some(iface) = self.ifaces.get(out) else {
            return self.drop_frame(cx, packet, DropReason::TxNoPort);
        };
        if iface.kind == IfaceKind::Tunnel {
            return self.tunnel_output(cx, iface, packet, at_once); // its far end is the only neighbor
        }
        let epoch = self.links_epoch(); // before the answer: a change meanwhile makes what is remembered stale, not wrong
        let mut neighbors = self.neighbors.lock(cx);
        let resolved = neighbors.resolve(out, next, packet, cx.now, self.neigh_rules(), &self.pool);
        let ended = neighbors.take_ended();
        drop(neighbors);
        self.end_all(cx, ended);
        match resolved {
            Resolved::To(packet, mac) => {
                if let Some(hop) = hop.filter(|hop| matches!(hop.via, Via::Gateway(..))) {
                    self.remember_gateway(cx, iface, hop, mac, epoch);
                }
                self.ether_output(cx, iface, mac, packet, at_once);
            }
            Resolved::Waits { ask } => {
                if ask {
                    self.count(cx).neigh.created.bump();
                    self.arp_ask(cx, iface, next, None);
                    if at_once == AtOnce::Yes {
                        self.flush(cx); // a sender that now waits for the answer has nobody who flushes for it
                    }
                }
            }
            Resolved::Full(packet) => self.drop_frame(cx, packet, DropReason::NeighTableFull),
        }
    }

    /// Writes address and time where options ask for it (RFC 1812 5.3.13.5, .6); `false` if they are wrong.
    fn record_options(&self, cx: Cx, out: IfaceId, next: Ipv4Addr, packet: &mut Frame) -> bool {
        if ip4::Glance::of(packet.bytes()).is_none_or(|header| header.ihl_len() == ip4::HEADER_LEN) {
            return true;
        }
        let addr = self.ifaces.get(out).and_then(|out| self.source_for(cx, out, next));
        let scribe = ip4::Scribe { addr: addr.unwrap_or(Ipv4Addr::UNSPECIFIED), millis: self.millis_of_options(cx) };
        ip4::record(packet.bytes_mut(), scribe, &|addr| self.is_own(cx, addr)).is_ok()
    }

    /// Returns the time for a Timestamp option: milliseconds of our clock, whose high bit says that they do
    /// not count from midnight UT (RFC 791 3.1).
    pub(crate) fn millis_of_options(&self, cx: Cx) -> u32 {
        1 << 31 | (cx.now.nanos() / 1_000_000) as u32
    }

    fn remember_gateway(&self, cx: Cx, iface: &Iface<L>, hop: &Hop, mac: Mac, epoch: u64) {
        self.ways.remember(cx, hop.id, hop.via, iface.header_to(mac), epoch);
    }

    /// Drops a packet whose neighbor did not answer, and reports it to its sender or to our own socket.
    pub(crate) fn host_unreachable(&self, cx: Cx, packet: Frame) {
        self.icmp4_error(cx, &packet, Cause::NoNeighbor);
        self.drop_frame(cx, packet, DropReason::NeighTimeout);
    }

    /// A redirect when the sender could have reached the gateway itself (RFC 1812 5.2.7.2).
    fn maybe_redirect(&self, cx: Cx, from: &Iface<L>, packet: &Frame, gateway: Ipv4Addr) {
        let Ok(header) = ip4::Header::parse(packet.bytes()) else { return };
        let neighbor = from.addrs(cx).iter().any(|addr| addr.contains(header.src) && addr.contains(gateway));
        if self.knobs.send_redirects.on() && neighbor {
            self.icmp4_error(cx, packet, Cause::Redirect(gateway));
        }
    }
}

/// Where the packet goes if nothing is in its way.
#[inline(always)]
fn passable(packet: &Frame, mtu: usize) -> Option<Ipv4Addr> {
    let header = ip4::Glance::of(packet.bytes())?;
    let room = super::link_len(packet) <= mtu && packet.headroom() >= eth::HEADER_LEN;
    let room = room && header.ihl_len() == ip4::HEADER_LEN; // options may want to be written in
    (room && header.ttl() > 1 && !packet.flags().has(Flags::LINK_BROADCAST)).then(|| header.dst())
}

/// Mends the packet and gives it its link header.
#[inline(always)]
fn pass_on(packet: &mut Frame, link: &[u8; eth::HEADER_LEN]) {
    ip4::decrement_ttl(packet.bytes_mut());
    if let Some(header) = packet.push::<{ eth::HEADER_LEN }>() {
        *header = *link;
    }
}

/// The same of a packet that input has found plain, unless its TTL or its length is in the way.
#[inline(always)]
fn pass_on_plain(packet: &mut Frame, mtu: usize, adjacency: Adjacency) -> bool {
    let write = |link: &mut [u8; eth::HEADER_LEN], header: &mut [u8; ip4::HEADER_LEN]| {
        adjacency.write(link);
        ip4::take_hop(header)
    };
    packet.push_link_if(mtu, write) || pass_on_large(packet, mtu, adjacency)
}

/// Of a large segment too, or of a buffer on loan.
#[inline(never)]
fn pass_on_large(packet: &mut Frame, mtu: usize, adjacency: Adjacency) -> bool {
    super::link_len(packet) <= mtu
        && packet.push_if(|link: &mut [u8; eth::HEADER_LEN], header: &mut [u8; ip4::HEADER_LEN]| {
            adjacency.write(link);
            ip4::take_hop(header)
        })
}
