//! IPv4 forwarding (RFC 1812 5.2, 5.3): TTL, next hop, fragment or too-big, link header.
//!
//! Packets arrive with their next hops looked up. The usual one leaves in a few ticks: TTL and checksum mended in place,
//! the gateway's Ethernet header copied from its hop, staged. Everything else goes the long way, through the neighbor
//! table or an ICMP error. One iface lock per run of packets that leave the same way.

use super::Outgoing;
use crate::Stack;
use crate::icmp4::Cause;
use crate::iface::{Iface, IfaceId};
use crate::ip4::frag::{self, FragError};
use crate::neigh::Resolved;
use crate::route::{Hop, Via};
use crate::stack::AtOnce;
use buf::{Burst, Flags, Frame};
use lock::{Cx, Guarded, Locks};
use stats::DropReason;
use std::net::Ipv4Addr;
use wire::eth::{self, EtherType};
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
    pub(crate) fn ip4_forward(&self, cx: Cx, from: Option<&Iface<L>>, packets: &mut Burst, hops: &[Option<Hop>]) {
        let forwarding = self.knobs.forwarding.on();
        let (epoch, mut sent) = (self.epoch(), 0);
        let mut open = None; // the iface that is being staged to, and its lock
        for hop in hops {
            let Some(mut packet) = packets.pop() else { break };
            if !forwarding {
                self.drop_frame(cx, packet, DropReason::Ip4NotForwarding);
                continue;
            }
            match self.forward_fast(&mut packet, from, hop.as_ref(), epoch) {
                Ok(out) => {
                    sent += 1;
                    if open.as_ref().is_none_or(|(iface, _): &(&Iface<L>, _)| iface.id != out) {
                        drop(open.take());
                        open = self.ifaces.get(out).map(|iface| (iface, iface.stage.lock(cx)));
                    }
                    match &mut open {
                        Some((iface, stage)) => self.stage_locked(cx, iface, stage, packet),
                        None => self.drop_frame(cx, packet, DropReason::TxNoPort),
                    }
                }
                Err(obstacle) => {
                    drop(open.take());
                    sent += u64::from(self.forward_slow(cx, from, packet, hop.as_ref(), obstacle));
                }
            }
        }
        self.count(cx).ip4.forwarded.add(sent);
    }

    /// Mends the packet and gives it the gateway's link header; says where it leaves, or what is in the way.
    #[inline(always)]
    fn forward_fast(
        &self,
        packet: &mut Frame,
        from: Option<&Iface<L>>,
        hop: Option<&Hop>,
        epoch: u64,
    ) -> Result<IfaceId, Obstacle> {
        if packet.flags().has(Flags::LINK_BROADCAST) {
            return Err(Obstacle::Drop(DropReason::Ip4LinkBroadcast));
        }
        let Some(hop) = hop else {
            let cause = Cause::Unreachable(unreachable::NET);
            return Err(Obstacle::Tell(DropReason::Ip4NoRoute, cause));
        };
        let bytes = packet.bytes();
        let (ttl, dst) = match bytes.first_chunk::<20>() {
            Some(header) => (header[8], Ipv4Addr::new(header[16], header[17], header[18], header[19])),
            None => return Err(Obstacle::Drop(DropReason::Ip4Malformed)),
        };
        if ttl <= 1 {
            return Err(Obstacle::Tell(DropReason::Ip4TtlExceeded, Cause::TtlExceeded));
        }
        let (out, next) = match hop.via {
            Via::Gateway(iface, gateway) => (iface, gateway),
            Via::Link(iface) => (iface, dst),
            Via::Reject => {
                let cause = Cause::Unreachable(unreachable::HOST);
                return Err(Obstacle::Tell(DropReason::Ip4NoRoute, cause));
            }
            Via::Blackhole => return Err(Obstacle::Drop(DropReason::Ip4NoRoute)),
            Via::Local(_) | Via::Broadcast(_) => return Err(Obstacle::Drop(DropReason::Ip4NotForwardable)),
        };
        let mtu = self.ifaces.get(out).map_or(0, Iface::mtu);
        if bytes.len() > mtu {
            return Err(Obstacle::Fragment);
        }
        let same_link = from.is_some_and(|from| from.id == out);
        if hop.epoch != epoch || same_link || !matches!(hop.via, Via::Gateway(..)) {
            return Err(Obstacle::Resolve(out, next));
        }
        ip4::decrement_ttl(packet.bytes_mut());
        match packet.push::<{ eth::HEADER_LEN }>() {
            Some(header) => *header = hop.adjacency,
            None => return Err(Obstacle::Drop(DropReason::TxNoPort)),
        }
        Ok(out)
    }

    /// The long way. Says whether the packet (or its fragments) went out or waits for a neighbor.
    fn forward_slow(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        mut packet: Frame,
        hop: Option<&Hop>,
        obstacle: Obstacle,
    ) -> bool {
        match obstacle {
            Obstacle::Drop(why) => self.drop_frame(cx, packet, why),
            Obstacle::Tell(why, cause) => {
                self.icmp4_error(cx, &packet, cause);
                self.drop_frame(cx, packet, why);
            }
            Obstacle::Fragment => return self.forward_fragments(cx, packet, hop),
            Obstacle::Resolve(out, next) => {
                if let (Some(from), Some(Via::Gateway(..))) = (from, hop.map(|hop| hop.via))
                    && from.id == out
                {
                    self.maybe_redirect(cx, from, &packet, next);
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
            Err((original, _)) => {
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
        let epoch = self.epoch(); // before the answer: a change meanwhile makes what is remembered stale, not wrong
        let resolved = self.neighbors.lock(cx).resolve(out, next, packet, cx.now, self.neigh_rules());
        match resolved {
            Resolved::To(packet, mac) => {
                if let Some(hop) = hop.filter(|hop| matches!(hop.via, Via::Gateway(..))) {
                    self.remember_gateway(cx, iface, hop, mac, epoch);
                }
                self.ether_output(cx, iface, mac, packet, at_once);
            }
            Resolved::Waits { ask, overflow } => {
                if let Some(oldest) = overflow {
                    self.drop_frame(cx, oldest, DropReason::NeighQueueFull);
                }
                if ask {
                    self.count(cx).neigh.created.bump();
                    self.arp_ask(cx, iface, next, None);
                }
            }
            Resolved::Full(packet) => self.drop_frame(cx, packet, DropReason::NeighTableFull),
        }
    }

    fn remember_gateway(&self, cx: Cx, iface: &Iface<L>, hop: &Hop, mac: Mac, epoch: u64) {
        let mut adjacency = [0; eth::HEADER_LEN];
        eth::Header { dst: mac, src: iface.mac, ethertype: EtherType::IPV4 }.emit(&mut adjacency);
        let routes: &Guarded<L, _> = &self.routes;
        routes.lock(cx).remember(hop.id, adjacency, epoch);
    }

    /// A packet that waited for a neighbor in vain: tell its sender, or our own socket.
    pub(crate) fn host_unreachable(&self, cx: Cx, packet: Frame) {
        self.icmp4_error(cx, &packet, Cause::Unreachable(unreachable::HOST));
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

    /// Convenience for protocols here: a packet from this host.
    pub(crate) fn reply_to(&self, src: Ipv4Addr, dst: Ipv4Addr, proto: wire::Proto) -> Outgoing {
        Outgoing { src: Some(src), dst, proto, ..Outgoing::new(dst, proto, self.knobs.ttl.get() as u8) }
    }
}
