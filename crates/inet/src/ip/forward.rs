//! The fast path of forwarding: hops counted down, a neighbor's link header copied, staged.
//!
//! Packets arrive with their next hops looked up. What a packet may have in its way (its last hop, a length, options, a
//! neighbor that is not known) is for the slow path of its family. One iface lock per run of packets that leave the same
//! way.

use super::{Input, link_len};
use crate::Stack;
use crate::fib::NextHopId;
use crate::iface::{AtOnce, Iface, IfaceId, IfaceKind};
use crate::neigh::Resolved;
use crate::route::{Adjacency, Hop, Via};
use crate::stack::Odd;
use buf::{Burst, Frame};
use lock::{Cx, Locks, Pinned};
use stats::DropReason;
use wire::eth;

impl<L: Locks> Stack<L> {
    /// Takes up to a chunk of packets that all have the next hop `hop`.
    pub(crate) fn ip_forward<F: Input>(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        packets: &mut Burst,
        hop: Option<&Hop<F::Addr>>,
    ) {
        if !F::is_router(self) {
            return packets.drain().for_each(|packet| self.drop_frame(cx, packet, F::NOT_FORWARDING));
        }
        let Some((hop, out)) = hop.and_then(|hop| Some((hop, self.way_out::<F>(from, hop)?))) else {
            return self.forward_each::<F>(cx, from, packets, hop);
        };
        let on_link = matches!(hop.via, Via::Link(_));
        let (mut link, mut link_of) = (hop.adjacency, F::default()); // unspecified: no packet's
        let (n, mtu, mut odd) = (packets.len(), F::mtu(out), Odd::default());
        for (at, packet) in packets.as_mut_slice().iter_mut().enumerate() {
            match F::passable(packet, mtu) {
                Some(dst) if on_link && dst != link_of => match F::neighbor(self, cx, out.id, dst.to_addr()) {
                    Some(mac) => (link, link_of) = (out.header_to(mac, F::ETHERTYPE), dst),
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
            F::take_hop(packet);
            if let Some(header) = packet.push::<{ eth::HEADER_LEN }>() {
                *header = link;
            }
        }
        if odd.any() {
            return self.forward_mixed::<F>(cx, from, packets, hop, out, odd);
        }
        self.stage_all(cx, out, packets);
        F::counts(self.count(cx)).forwarded.add(n as u64);
    }

    /// Takes from the front of a chunk of opened packets, which go to different gateways, as many as can go the short way through one iface,
    /// and returns how many: a router with many gateways on a link sees runs of one, and what a run costs would be paid for each packet.
    pub(super) fn forward_through_gateways<F: Input>(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        pinned: &Pinned<'_>,
    ) -> usize {
        let (epoch, ways) = (self.links_epoch(), F::ways(self));
        let first = ids.first().and_then(|id| ways.hop(pinned, (*id)?));
        let Some(Via::Gateway(id, _)) = first.map(|hop| hop.via).filter(|_| F::is_router(self)) else {
            return 0;
        };
        let Some(out) = self.ifaces.get(id).filter(|out| from.is_none_or(|from| from.id != out.id)) else { return 0 };
        let (mtu, all) = (F::mtu(out), packets.len());
        let pass = |(packet, id): (&mut Frame, &Option<NextHopId>)| {
            let adjacency = id.and_then(|id| ways.adjacency_to(pinned, id, out.id, epoch));
            adjacency.is_some_and(|adjacency| F::pass_on(packet, mtu, adjacency))
        };
        let n = packets.as_mut_slice().iter_mut().zip(ids).map(pass).take_while(|passed| *passed).count();
        if n == all {
            self.stage_all(cx, out, packets);
        } else {
            let mut passed = Burst::new();
            passed.take_some(packets, n);
            self.stage_all(cx, out, &mut passed);
        }
        F::counts(self.count(cx)).forwarded.add(n as u64);
        n
    }

    /// Returns the iface to stations on a link, or to a gateway whose MAC address is known; never where the packets come from.
    #[inline(always)]
    fn way_out<F: Input>(&self, from: Option<&Iface<L>>, hop: &Hop<F::Addr>) -> Option<&Iface<L>> {
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

    /// Takes a chunk in which some packets have their link header and others, the odd ones, something in their way.
    #[inline(never)]
    fn forward_mixed<F: Input>(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        packets: &mut Burst,
        hop: &Hop<F::Addr>,
        out: &Iface<L>,
        odd: Odd,
    ) {
        let mut sent = 0;
        for (at, packet) in packets.drain().enumerate() {
            if odd.has(at) {
                sent += u64::from(F::forward_slow(self, cx, from, packet, Some(hop)));
            } else {
                self.stage(cx, out, packet, AtOnce::Later);
                sent += 1;
            }
        }
        F::counts(self.count(cx)).forwarded.add(sent);
    }

    #[inline(never)]
    fn forward_each<F: Input>(&self, cx: Cx, from: Option<&Iface<L>>, packets: &mut Burst, hop: Option<&Hop<F::Addr>>) {
        let sent = packets.drain().map(|packet| u64::from(F::forward_slow(self, cx, from, packet, hop))).sum();
        F::counts(self.count(cx)).forwarded.add(sent);
    }

    /// Sends a packet to a neighbor whose MAC address may or may not be known; keeps it in the gateway's hop.
    pub(crate) fn send_to_neighbor<F: Input>(
        &self,
        cx: Cx,
        out: IfaceId,
        next: F::Addr,
        packet: Frame,
        hop: Option<&Hop<F::Addr>>,
        at_once: AtOnce,
    ) {
        let Some(iface) = self.ifaces.get(out).filter(|iface| iface.is_up()) else {
            return self.drop_frame(cx, packet, DropReason::TxNoPort);
        };
        match iface.kind {
            IfaceKind::Tunnel => return self.tunnel_output(cx, iface, packet, at_once), // its far end is the only neighbor
            IfaceKind::Loopback => return self.drop_frame(cx, packet, F::NO_ROUTE),
            IfaceKind::Ethernet => {}
        }
        let epoch = self.links_epoch(); // before the answer: a change meanwhile makes what is remembered stale, not wrong
        let mut neighbors = F::neighbors(self).lock(cx);
        let resolved = neighbors.resolve(out, next, packet, cx.now, F::neighbor_rules(self), &self.pool);
        let ended = neighbors.take_ended();
        drop(neighbors);
        self.end_all(cx, ended);
        match resolved {
            Resolved::To(packet, mac) => {
                if let Some(hop) = hop.filter(|hop| matches!(hop.via, Via::Gateway(..))) {
                    F::ways(self).remember(cx, hop.id, hop.via, iface.header_to(mac, F::ETHERTYPE), epoch);
                }
                self.ether_output::<F>(cx, iface, mac, packet, at_once);
            }
            Resolved::Waits { ask } => {
                if ask {
                    self.count(cx).neigh.created.bump();
                    F::ask(self, cx, iface, next);
                    if at_once == AtOnce::Yes {
                        self.flush(cx); // a sender that now waits for the answer has nobody who flushes for it
                    }
                }
            }
            Resolved::Full(packet) => self.drop_frame(cx, packet, DropReason::NeighTableFull),
        }
    }
}

/// Takes a hop from the IP header of `H` bytes with which a packet begins, and gives it a link header; `false`, and nothing
/// changed, if its hops or its length are in the way.
#[inline(always)]
pub(crate) fn pass_on<const H: usize>(
    packet: &mut Frame,
    mtu: usize,
    link: Adjacency,
    take_hop: impl Fn(&mut [u8; H]) -> bool + Copy,
) -> bool {
    let write = move |header: &mut [u8; eth::HEADER_LEN], packet: &mut [u8; H]| {
        link.write(header);
        take_hop(packet)
    };
    packet.push_link_if(mtu, write) || pass_on_large(packet, mtu, write)
}

/// [`pass_on`] of a large segment, or of a buffer on loan.
#[inline(never)]
fn pass_on_large<const H: usize>(
    packet: &mut Frame,
    mtu: usize,
    write: impl Fn(&mut [u8; eth::HEADER_LEN], &mut [u8; H]) -> bool,
) -> bool {
    link_len(packet) <= mtu && packet.push_if(write)
}
