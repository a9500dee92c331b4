//! Fast path of forwarding: decrements the TTL or hop limit, writes the link header for the next
//! hop, and stages the packet for transmission.
//!
//! The caller has looked up the next hops of the packets. Packets that need more work (an expired
//! hop limit, fragmentation, options, an unresolved neighbor) take the slow path of their family.
//! For consecutive packets with the same next hop, the lock of the transmit queue is acquired only
//! once.

use super::exit::{Exit, Target};
use super::{Input, link_len};
use crate::Stack;
use crate::family::Family;
use crate::iface::{AtOnce, Iface, IfaceId, IfaceKind};
use crate::neigh::Resolved;
use crate::route::{Adjacency, Hop, Via};
use crate::stack::SlowFrames;
use buf::{Burst, Frame};
use fib::NextHopId;
use lock::{Cx, Locks, Pinned};
use stats::DropReason;
use wire::{Mac, eth};

impl<L: Locks> Stack<L> {
    /// Forwards up to a chunk of packets that all have the next hop `hop`.
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
        let Some((hop, out)) = hop.and_then(|hop| Some((hop, self.egress_iface::<F>(from, hop)?))) else {
            return self.forward_each::<F>(cx, from, packets, hop);
        };
        let on_link = matches!(hop.via, Via::Link(_));
        let (mut link, mut link_of) = (hop.adjacency, F::default()); // `::` or 0.0.0.0: not a destination
        let (n, mtu, mut slow) = (packets.len(), F::mtu(out), SlowFrames::default());
        for (at, packet) in packets.as_mut_slice().iter_mut().enumerate() {
            match F::passable(packet, mtu) {
                Some(dst) if on_link && dst != link_of => match F::neighbor(self, cx, out.id, dst.to_addr()) {
                    Some(mac) => (link, link_of) = (out.header_to(mac, F::ETHERTYPE), dst),
                    None => {
                        slow.add(at);
                        continue;
                    }
                },
                Some(_) => {}
                None => {
                    slow.add(at);
                    continue;
                }
            }
            F::take_hop(packet);
            if let Some(header) = packet.push::<{ eth::HEADER_LEN }>() {
                *header = link;
            }
        }
        if slow.any() {
            return self.forward_partly_slow::<F>(cx, from, packets, hop, out, slow);
        }
        self.stage_all(cx, out, packets);
        F::counts(self.count(cx)).forwarded.add(n as u64);
    }

    /// Forwards packets with different gateways from the front of a chunk, as long as they leave by
    /// the same interface and the fast path can forward them. Returns the number of packets
    /// forwarded. Without this function, a router with many gateways on a link would process
    /// packets one at a time, since few consecutive packets have the same gateway.
    pub(super) fn forward_through_gateways<F: Input>(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        packets: &mut Burst,
        ids: &[Option<NextHopId>],
        pinned: &Pinned<'_>,
    ) -> usize {
        let (epoch, reader) = (self.links_epoch(), F::routes_reader(self));
        let first = ids.first().and_then(|id| reader.hop(pinned, (*id)?));
        let via = first.map(|hop| hop.via).filter(|_| F::is_router(self));
        let Some(Via::Gateway(id, _) | Via::Gateway6(id, _)) = via else { return 0 };
        let Some(out) = self.ifaces.get(id).filter(|out| from.is_none_or(|from| from.id != out.id)) else { return 0 };
        let (mtu, all) = (F::mtu(out), packets.len());
        let pass = |(packet, id): (&mut Frame, &Option<NextHopId>)| {
            let adjacency = id.and_then(|id| reader.adjacency_to(pinned, id, out.id, epoch));
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

    /// Returns the outgoing interface for the fast path. Returns `None` if the next hop is neither
    /// a link nor a gateway with a resolved MAC address, or if the packets arrived by the same
    /// interface.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn egress_iface<F: Input>(&self, from: Option<&Iface<L>>, hop: &Hop<F::Addr>) -> Option<&Iface<L>> {
        let out = match hop.via {
            Via::Link(out) => out,
            Via::Gateway(out, _) | Via::Gateway6(out, _) if hop.epoch == self.links_epoch() => out,
            _ => return None,
        };
        if from.is_some_and(|from| from.id == out) {
            return None;
        }
        self.ifaces.get(out).filter(|out| out.kind == IfaceKind::Ethernet) // a tunnel has no link header
    }

    /// Sends a chunk of packets. Packets in `slow` take the slow path; the others already have
    /// their link header.
    #[inline(never)]
    fn forward_partly_slow<F: Input>(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        packets: &mut Burst,
        hop: &Hop<F::Addr>,
        out: &Iface<L>,
        slow: SlowFrames,
    ) {
        let mut sent = 0;
        for (at, packet) in packets.drain().enumerate() {
            if slow.has(at) {
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
        let pinned = F::routes_reader(self).pin(cx);
        let forward = |packet: Frame| {
            // A next hop object may have got several paths since the caller chose the paths.
            let hop = hop.and_then(|hop| self.choose_path::<F>(cx, &pinned, *hop, &packet));
            F::forward_slow(self, cx, from, packet, hop.as_ref())
        };
        let sent = packets.drain().map(|packet| u64::from(forward(packet))).sum();
        F::counts(self.count(cx)).forwarded.add(sent);
    }

    /// Returns the MAC address of the neighbor to which packets of this host leave; `None` if it is
    /// unresolved, or if they are not sent to a neighbor.
    pub(crate) fn neighbor_at<F: Family>(&self, cx: Cx, exit: &Exit<F::Addr>) -> Option<Mac> {
        match exit.to {
            Target::Neighbor(next) => F::neighbor(self, cx, exit.iface, next),
            Target::Neighbor6(next) => u128::neighbor(self, cx, exit.iface, next),
            Target::Station(_) | Target::Here => None,
        }
    }

    /// Sends a packet of family `F` to the neighbor `next`, an address of family `N`, or queues it
    /// until the MAC address is resolved. If `hop` leads to a gateway, stores the resolved MAC
    /// address in it for the fast path.
    pub(crate) fn send_to_neighbor<F: Input, N: Input>(
        &self,
        cx: Cx,
        out: IfaceId,
        next: N::Addr,
        packet: Frame,
        hop: Option<&Hop<F::Addr>>,
        at_once: AtOnce,
    ) {
        let Some(iface) = self.ifaces.get(out).filter(|iface| iface.is_up()) else {
            return self.drop_frame(cx, packet, DropReason::TxNoPort);
        };
        match iface.kind {
            IfaceKind::Tunnel => return self.tunnel_output(cx, iface, packet, at_once), // a tunnel has no neighbors
            IfaceKind::Loopback | IfaceKind::Mirror => return self.drop_frame(cx, packet, F::NO_ROUTE),
            IfaceKind::Ethernet => {}
        }
        let epoch = self.links_epoch(); // before the lookup: a change meanwhile makes the stored entry stale, not wrong
        let mut neighbors = N::neighbors(self).lock(cx);
        let resolved = neighbors.resolve(out, next, packet, cx.now, N::neighbor_rules(self), &self.pool);
        let ended = neighbors.take_ended();
        drop(neighbors);
        self.end_all(cx, ended);
        match resolved {
            Resolved::To(packet, mac) => {
                if let Some(hop) = hop.filter(|hop| hop.via.is_gateway()) {
                    F::routes_reader(self).remember(cx, hop.id, hop.via, iface.header_to(mac, F::ETHERTYPE), epoch);
                }
                self.ether_output::<F>(cx, iface, mac, packet, at_once);
            }
            Resolved::Waits { ask } => {
                if ask {
                    self.count(cx).neigh.created.bump();
                    N::ask(self, cx, iface, next);
                    if at_once == AtOnce::Yes {
                        self.flush(cx); // the caller will not flush for a packet that waits for resolution
                    }
                }
            }
            Resolved::Full(packet) => self.drop_frame(cx, packet, DropReason::NeighTableFull),
        }
    }
}

/// Decrements the TTL or hop limit in the IP header (`H` bytes) at the front of a packet, and
/// writes the link header. Returns `false` and changes nothing if the hop limit has expired or the
/// packet is longer than `mtu`.
#[cfg_attr(not(debug_assertions), inline(always))]
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

/// Performs [`pass_on`] for a large TCP segment, or for a packet in a buffer that a [`buf::Held`]
/// keeps for retransmission.
#[inline(never)]
fn pass_on_large<const H: usize>(
    packet: &mut Frame,
    mtu: usize,
    write: impl Fn(&mut [u8; eth::HEADER_LEN], &mut [u8; H]) -> bool,
) -> bool {
    link_len(packet) <= mtu && packet.push_if(write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::iface::{IfaceAddr, Offload};
    use crate::route::{Origin, Path, Protocol, Target};
    use buf::{Pool, PoolConfig};
    use lock::{How, Light};
    use wire::{Proto, ip4};

    /// A packet whose next hop gets its first path set after the caller has looked for path sets.
    #[test]
    fn a_packet_with_a_path_set_as_next_hop_takes_a_path() {
        let cx = Cx::enter(How::Inline, clock::Instant::from_millis(1));
        let pool = Pool::new(&PoolConfig { buffers: 8, ..PoolConfig::default() }).unwrap();
        let stack = Stack::<Light>::new(cx, Config::new("r", pool.clone()));
        let out = stack.add_iface("em0", Mac([2, 0, 0, 0, 0, 1]), 1500, Offload::default()).unwrap();
        stack.add_addr(cx, out, IfaceAddr { addr: [10, 0, 0, 1].into(), len: 24 }).unwrap();
        stack.sysctls.forwarding.set(1);
        let paths = [2, 3].map(|n| {
            let gateway = [10, 0, 0, n].into();
            stack.set_neighbor(cx, out, gateway, Mac([2, 0, 0, 0, 0, n]));
            Path { via: Via::Gateway(out, gateway), weight: 1 }
        });
        stack.with_routes(cx, |routes| {
            let object = routes.new_object(&paths).unwrap();
            let origin = Origin::engine(Protocol(186), 1, cx.now);
            routes.learn("20.0.0.0/8".parse().unwrap(), Target::Object(object), origin).unwrap();
        });
        let hop = stack.ways.lookup(cx, [20, 0, 0, 1].into()).unwrap();
        assert!(matches!(hop.via, Via::Paths(_)));
        let mut packet = pool.get().unwrap();
        let mut header = [0; ip4::HEADER_LEN];
        ip4::Header::new([10, 0, 0, 9].into(), [20, 0, 0, 1].into(), Proto::UDP, 0).unwrap().emit(&mut header);
        packet.extend(&header).unwrap();
        stack.ip_forward::<u32>(cx, None, &mut Burst::of(packet), Some(&hop));
        assert_eq!(stack.counter("inet.ip4.forwarded"), 1);
    }
}
