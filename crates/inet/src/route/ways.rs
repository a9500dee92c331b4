//! What packets go by: the FIB's answers and the next hops, read on any thread without a lock while routes change.
//!
//! A reader pins, looks up numbers, reads the hops they stand for, and lets go. What it has then is a copy, true when it was read.

use super::hops::{Adjacency, Hop, Hops};
use super::paths::{BUCKETS, Sets};
use super::via::{PathsId, Via};
use crate::fib::{Ahead, Matched, NextHopId, Reader};
use crate::iface::IfaceId;
use clock::Instant;
use lock::{Cx, Pinned, Pins};
use std::sync::Arc;

/// The readers' side of [`super::Routes`].
pub struct Ways<A: Matched = u32> {
    fib: Reader<A>,
    hops: Arc<Shared>,
}

impl<A: Matched> Clone for Ways<A> {
    fn clone(&self) -> Ways<A> {
        Ways { fib: self.fib.clone(), hops: Arc::clone(&self.hops) }
    }
}

#[derive(Default)]
struct Shared {
    hops: Hops,
    sets: Sets,
}

impl Ways {
    /// Returns the prefetcher of [`Ways::lookup_chunk`]'s lines, address by address.
    #[inline(always)]
    pub fn ahead(&self) -> Option<Ahead<'_>> {
        self.fib.ahead()
    }
}

impl<A: Matched> Ways<A> {
    pub(super) fn new(fib: Reader<A>) -> Ways<A> {
        Ways { fib, hops: Arc::default() }
    }

    /// The calling thread begins to read.
    #[inline(always)]
    pub fn pin(&self, cx: Cx) -> Pinned<'_> {
        self.fib.pin(cx)
    }

    pub(super) fn pins(&self) -> &Pins {
        self.fib.pins()
    }

    /// Where packets to `dst` go; [`Via::Paths`] is left to the caller, who knows the flow.
    #[inline(always)]
    pub fn lookup(&self, cx: Cx, dst: A::Addr) -> Option<Hop<A::Addr>> {
        self.lookup_within(&self.pin(cx), A::of(dst))
    }

    /// The same within a pin: a set of paths that is found is that set until it ends.
    #[inline(always)]
    pub fn lookup_within(&self, pinned: &Pinned<'_>, dst: A) -> Option<Hop<A::Addr>> {
        self.hop(pinned, self.fib.lookup(pinned, dst)?)
    }

    /// Where packets to each of `dst` go, in `ids`; the hop itself if it is the same for all, as at a host or behind one
    /// gateway it is. None is looked up when there are fewer `ids` than destinations.
    #[inline(always)]
    pub fn lookup_chunk(&self, pinned: &Pinned<'_>, dst: &[A], ids: &mut [Option<NextHopId>]) -> Option<Hop<A::Addr>> {
        let (&first, _) = dst.split_first()?;
        let ids = ids.get_mut(..dst.len())?;
        if dst.iter().fold(A::default(), |differs, dst| differs | *dst ^ first) == A::default() {
            ids.fill(self.fib.lookup(pinned, first));
        } else {
            self.fib.lookup_burst(pinned, dst, ids);
        }
        let first = *ids.first()?;
        if ids.iter().all(|id| *id == first) { self.hop(pinned, first?) } else { None }
    }

    /// The Ethernet header of the gateway that `id` leads to, if that is on `out` and the header is good in `epoch`.
    #[inline(always)]
    pub fn adjacency_to(&self, _: &Pinned<'_>, id: NextHopId, out: IfaceId, epoch: u64) -> Option<Adjacency> {
        self.hops.hops.adjacency_to(id, out, epoch)
    }

    /// The next hop numbered `id`.
    #[inline(always)]
    pub fn hop(&self, _: &Pinned<'_>, id: NextHopId) -> Option<Hop<A::Addr>> {
        self.hops.hops.get::<A>(id)
    }

    pub(super) fn via(&self, id: NextHopId) -> Option<Via<A::Addr>> {
        self.hops.hops.via::<A>(id)
    }

    pub(super) fn set(&self, id: NextHopId, via: Via<A::Addr>) {
        self.hops.hops.set::<A>(id, via);
    }

    /// Keeps the Ethernet header for the gateway `via`, whose hop was `id`: good while `epoch` is the links'.
    pub fn remember(&self, cx: Cx, id: NextHopId, via: Via<A::Addr>, adjacency: [u8; 14], epoch: u64) {
        let _pinned = self.pin(cx);
        self.hops.hops.remember::<A>(id, via, adjacency, epoch);
    }

    /// Whether any route has several paths.
    #[inline(always)]
    pub fn has_paths(&self) -> bool {
        self.hops.sets.any()
    }

    pub(super) fn note_sets(&self, used: usize) {
        self.hops.sets.note(used);
    }

    pub(super) fn set_paths(&self, id: PathsId, buckets: &[NextHopId]) {
        self.hops.sets.set(id, buckets);
    }

    /// The one of several paths that a flow takes, by the hash of what makes it a flow.
    pub fn choose(&self, pinned: &Pinned<'_>, paths: PathsId, hash: u64, now: Instant) -> Option<Hop<A::Addr>> {
        self.hop(pinned, self.hops.sets.choose(paths, hash, &self.hops.hops, now)?)
    }

    /// What [`Ways::choose`] would say of a packet that goes nowhere: it does not use up a dead gateway's next try.
    pub fn peek(&self, pinned: &Pinned<'_>, paths: PathsId, hash: u64, now: Instant) -> Option<Hop<A::Addr>> {
        self.hop(pinned, self.hops.sets.would_choose(paths, hash, &self.hops.hops, now)?)
    }

    /// Where [`Ways::choose`] would lead, with nothing noted of who tries again.
    pub fn would_choose(&self, _: &Pinned<'_>, paths: PathsId, hash: u64, now: Instant) -> Option<Via<A::Addr>> {
        self.via(self.hops.sets.would_choose(paths, hash, &self.hops.hops, now)?)
    }

    /// Whether one of several paths leaves by `iface`.
    pub fn has_path_by(&self, _: &Pinned<'_>, paths: PathsId, iface: IfaceId) -> bool {
        let vias = (0..BUCKETS).filter_map(|bucket| self.via(self.hops.sets.at(paths, bucket)?));
        vias.into_iter().any(|via| matches!(via, Via::Link(out) | Via::Gateway(out, _) if out == iface))
    }

    /// A gateway did not answer, or does again.
    pub fn set_dead(&self, id: NextHopId, until: Option<Instant>) {
        match until {
            Some(until) => self.hops.hops.bury(id, until),
            None => self.hops.hops.revive(id),
        }
    }

    /// Until when a gateway that did not answer is left alone where there is a choice.
    pub fn dead_until(&self, id: NextHopId) -> Option<Instant> {
        self.hops.hops.dead_until(id)
    }

    /// Whether any gateway is taken for dead.
    pub fn any_dead(&self) -> bool {
        self.hops.hops.any_dead()
    }

    pub(super) fn bytes(&self) -> usize {
        self.hops.hops.bytes()
    }
}
