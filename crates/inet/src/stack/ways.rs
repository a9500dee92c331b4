//! Where packets go: the routes as packets ask them, and which of several paths a flow takes.

use super::{CHUNK, Stack};
use crate::fib::NextHopId;
use crate::iface::IfaceId;
use crate::route::{DEAD_FOR, Hop, Via};
use buf::{Burst, Frame};
use lock::{Cx, Locks, Pinned};
use std::net::Ipv4Addr;
use wire::{flow, ip4};

/// What one thread's stack has found before, while nothing has changed since: a place for an address by its last bits, so that our own
/// and a peer's do not push each other out.
#[derive(Default)]
pub(crate) struct Found([(u64, u32, Option<NextHopId>); FOUND]);

/// Addresses whose next hop is remembered.
const FOUND: usize = 8;

impl<L: Locks> Stack<L> {
    /// Where packets to `dst` go. With one thread the address is nearly always one of the few of before, as it is at a host: with three
    /// routes that spares 60 instructions. Several threads would need a lock for it, which costs more.
    #[inline(always)]
    pub(crate) fn way_to(&self, cx: Cx, pinned: &Pinned<'_>, dst: Ipv4Addr) -> Option<Hop> {
        if L::SHARED {
            return self.ways.lookup_within(pinned, dst);
        }
        let (epoch, mut found) = (self.epoch(), self.found.lock(cx));
        let place = found.0.get_mut(dst.to_bits() as usize % FOUND)?;
        match *place {
            (since, before, Some(id)) if before == dst.to_bits() && since == epoch => self.ways.hop(pinned, id),
            _ => {
                let hop = self.ways.lookup_within(pinned, dst)?;
                *place = (epoch, dst.to_bits(), Some(hop.id));
                Some(hop)
            }
        }
    }

    /// Where this host's own packets to `dst` go: of several paths one for each destination.
    #[inline(always)]
    pub(crate) fn way_from_here(&self, cx: Cx, dst: Ipv4Addr) -> Option<Hop> {
        let pinned = self.ways.pin(cx);
        let hop = self.way_to(cx, &pinned, dst)?;
        match hop.via {
            Via::Paths(set) => self.ways.choose(&pinned, set, self.own_hash(dst), cx.now),
            _ => Some(hop),
        }
    }

    /// The hop itself, or the path that the packet's flow takes.
    #[inline(always)]
    pub(crate) fn choose_path(&self, cx: Cx, pinned: &Pinned<'_>, hop: Hop, packet: &Frame) -> Option<Hop> {
        let Via::Paths(set) = hop.via else { return Some(hop) };
        let hash = self.flow_hash(packet.bytes());
        match ip4::Glance::of(packet.bytes()).is_some_and(|header| header.ttl() > 1) {
            true => self.ways.choose(pinned, set, hash, cx.now),
            false => self.ways.peek(pinned, set, hash, cx.now),
        }
    }

    /// Puts in `ids` for each packet whose route has several paths the one its flow takes; the hop if it is one for all.
    #[inline(never)]
    pub(crate) fn choose_paths(
        &self,
        cx: Cx,
        pinned: &Pinned<'_>,
        packets: &Burst,
        ids: &mut [Option<NextHopId>; CHUNK],
    ) -> Option<Hop> {
        for (id, packet) in ids.iter_mut().zip(packets.as_slice()) {
            if let Some(hop) = id.and_then(|id| self.ways.hop(pinned, id)) {
                *id = self.choose_path(cx, pinned, hop, packet).map(|hop| hop.id);
            }
        }
        let (first, rest) = ids.get(..packets.len())?.split_first()?;
        if rest.iter().all(|id| id == first) { self.ways.hop(pinned, (*first)?) } else { None }
    }

    /// What makes packets a flow: addresses, protocol, and the L4 ports where they are known. A fragment has none to show but the first,
    /// and must go where that goes: for fragments the addresses do.
    pub(crate) fn flow_hash(&self, packet: &[u8]) -> u64 {
        self.secret.hash2(flow::four(self.secret, packet).unwrap_or_default(), FLOW)
    }

    /// The same of what is given; `ports`: both L4 ports as they stand in the packet, 0 if there are none.
    pub(crate) fn flow_hash_of(&self, src: Ipv4Addr, dst: Ipv4Addr, proto: u8, ports: u64) -> u64 {
        let both = u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits());
        self.secret.hash2(flow::of(self.secret, both, proto, ports), FLOW)
    }

    /// What makes this host's own packets a flow: their destination.
    pub(crate) fn own_hash(&self, dst: Ipv4Addr) -> u64 {
        self.secret.hash4(0, u64::from(dst.to_bits()), 0, OWN)
    }

    /// A neighbor did not answer: paths that lead by it are avoided for a time.
    pub(crate) fn silent(&self, cx: Cx, iface: IfaceId, addr: Ipv4Addr) {
        if self.ways.has_paths()
            && let Some(id) = self.routes.lock(cx).hop_to(Via::Gateway(iface, addr))
        {
            self.ways.set_dead(id, Some(cx.now.after(DEAD_FOR)));
        }
    }

    /// A neighbor answers.
    pub(crate) fn answered(&self, cx: Cx, iface: IfaceId, addr: Ipv4Addr) {
        if self.ways.any_dead()
            && let Some(id) = self.routes.lock(cx).hop_to(Via::Gateway(iface, addr))
        {
            self.ways.set_dead(id, None);
        }
    }
}

/// What the secret is used for: no two hashes of one stack are alike.
const FLOW: u64 = 0x666c_6f77;
const OWN: u64 = 0x006f_776e;
