//! Route lookups of the packet path: FIB results and next hops, read on any thread without a lock
//! while routes change.
//!
//! A thread pins itself, so that no next hop that it reads is reused in the meantime. It then looks
//! up the numbers of next hops, reads the next hops, and unpins. Each next hop is returned as a
//! copy that was correct when it was read.

use super::hops::{Adjacency, Hop, Hops};
use super::paths::{BUCKETS, Sets};
use super::via::{PathsId, Via};
use crate::iface::IfaceId;
use clock::Instant;
use fib::{Ahead, IpPrefix, Matched, NextHopId, Reader};
use lock::{Cx, Pinned, Pins};
use std::sync::Arc;

/// Read access to [`super::Routes`].
pub struct RouteReader<A: Matched = u32> {
    fib: Reader<A>,
    hops: Arc<Shared>,
}

impl<A: Matched> Clone for RouteReader<A> {
    fn clone(&self) -> RouteReader<A> {
        RouteReader { fib: self.fib.clone(), hops: Arc::clone(&self.hops) }
    }
}

#[derive(Default)]
struct Shared {
    hops: Hops,
    sets: Sets,
}

impl RouteReader {
    /// Returns a prefetcher for the cache lines that [`RouteReader::lookup_chunk`] reads.
    #[inline(always)]
    pub fn ahead(&self) -> Option<Ahead<'_>> {
        self.fib.ahead()
    }
}

impl<A: Matched> RouteReader<A> {
    pub(super) fn new(fib: Reader<A>) -> RouteReader<A> {
        RouteReader { fib, hops: Arc::default() }
    }

    /// Pins the calling thread: until the result is dropped, no next hop that the thread reads is
    /// reused. A thread must be pinned while it reads.
    #[inline(always)]
    pub fn pin(&self, cx: Cx) -> Pinned<'_> {
        self.fib.pin(cx)
    }

    pub(super) fn pins(&self) -> &Pins {
        self.fib.pins()
    }

    /// Returns the prefix of the route that packets to `dst` use.
    pub(crate) fn prefix_for(&self, pinned: &Pinned<'_>, dst: A) -> Option<IpPrefix<A>> {
        self.fib.lookup_prefix(pinned, dst).map(|(prefix, _)| prefix)
    }

    /// Returns the next hop of packets to `dst`. If it is [`Via::Paths`], the caller must select a
    /// path by the hash of the flow.
    #[inline(always)]
    pub fn lookup(&self, cx: Cx, dst: A::Addr) -> Option<Hop<A::Addr>> {
        self.lookup_within(&self.pin(cx), A::of(dst))
    }

    /// Returns the next hop of packets to `dst`. A returned path set stays valid until `pinned` is
    /// dropped.
    #[inline(always)]
    pub fn lookup_within(&self, pinned: &Pinned<'_>, dst: A) -> Option<Hop<A::Addr>> {
        self.hop(pinned, self.fib.lookup(pinned, dst)?)
    }

    /// Writes the next hop number of each address in `dst` to `ids`. The numbers are valid until
    /// `pinned` is dropped, but the target of a next hop object may change. Returns the next hop if
    /// all numbers are the same, as on a host or behind a single gateway. Looks up nothing if `ids`
    /// is shorter than `dst`.
    #[cfg_attr(not(debug_assertions), inline(always))]
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

    /// Returns the cached Ethernet header of gateway `id`, if the gateway is on `out` and the
    /// header is valid at `epoch`.
    #[inline(always)]
    pub fn adjacency_to(&self, _: &Pinned<'_>, id: NextHopId, out: IfaceId, epoch: u64) -> Option<Adjacency> {
        self.hops.hops.adjacency_to(id, out, epoch)
    }

    /// Returns next hop `id`.
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

    pub(super) fn set_object(&self, id: NextHopId, target: NextHopId) {
        self.hops.hops.set_object(id, target);
    }

    pub(super) fn object_target(&self, id: NextHopId) -> Option<NextHopId> {
        self.hops.hops.object_target(id)
    }

    /// Caches the Ethernet header for the gateway `via` with next hop number `id`. The header is
    /// valid while `epoch` equals the stack's link epoch.
    pub fn remember(&self, cx: Cx, id: NextHopId, via: Via<A::Addr>, adjacency: [u8; 14], epoch: u64) {
        let _pinned = self.pin(cx);
        self.hops.hops.remember::<A>(id, via, adjacency, epoch);
    }

    /// Returns whether any route has several paths.
    #[inline(always)]
    pub fn has_paths(&self) -> bool {
        self.hops.sets.any()
    }

    /// Returns whether it matters that a gateway is dead: a route has other paths, or the engine
    /// may give its routes another next hop.
    pub fn avoids_dead(&self) -> bool {
        self.has_paths() || self.hops.hops.has_objects()
    }

    /// Returns whether routes of a next hop object take that of another one.
    pub fn has_diverted(&self) -> bool {
        self.hops.hops.has_diverted()
    }

    pub(super) fn note_diverted(&self, count: usize) {
        self.hops.hops.note_diverted(count);
    }

    pub(super) fn note_sets(&self, used: usize) {
        self.hops.sets.note(used);
    }

    /// Returns the next hop of a bucket.
    pub(super) fn bucket(&self, id: PathsId, bucket: usize) -> Option<NextHopId> {
        self.hops.sets.at(id, bucket)
    }

    pub(super) fn set_paths(&self, id: PathsId, buckets: &[NextHopId]) {
        self.hops.sets.set(id, buckets);
    }

    /// Returns the path for a flow; `hash` is the hash of the flow.
    pub fn choose(&self, pinned: &Pinned<'_>, paths: PathsId, hash: u64, now: Instant) -> Option<Hop<A::Addr>> {
        self.hop(pinned, self.hops.sets.choose(paths, hash, &self.hops.hops, now)?)
    }

    /// Returns the path as [`RouteReader::choose`] does, but without a side effect: a dead gateway
    /// is not marked as being tried again.
    pub fn peek(&self, pinned: &Pinned<'_>, paths: PathsId, hash: u64, now: Instant) -> Option<Hop<A::Addr>> {
        self.hop(pinned, self.hops.sets.would_choose(paths, hash, &self.hops.hops, now)?)
    }

    /// Returns the target that [`RouteReader::choose`] would select, without side effects.
    pub fn would_choose(&self, _: &Pinned<'_>, paths: PathsId, hash: u64, now: Instant) -> Option<Via<A::Addr>> {
        self.via(self.hops.sets.would_choose(paths, hash, &self.hops.hops, now)?)
    }

    /// Returns whether one of the paths in a set leaves by `iface`.
    pub fn has_path_by(&self, _: &Pinned<'_>, paths: PathsId, iface: IfaceId) -> bool {
        let vias = (0..BUCKETS).filter_map(|bucket| self.via(self.hops.sets.at(paths, bucket)?));
        vias.into_iter().any(|via| via.iface() == Some(iface))
    }

    /// Marks a gateway as dead until the given time, or as alive if `until` is `None`.
    pub(super) fn set_dead(&self, id: NextHopId, until: Option<Instant>) {
        match until {
            Some(until) => self.hops.hops.mark_dead(id, until),
            None => self.hops.hops.mark_alive(id),
        }
    }

    /// Returns the time until which a dead gateway is avoided; `None` if it is alive.
    pub fn dead_until(&self, id: NextHopId) -> Option<Instant> {
        self.hops.hops.dead_until(id)
    }

    /// Returns whether any gateway is marked as dead.
    pub fn any_dead(&self) -> bool {
        self.hops.hops.any_dead()
    }

    pub(super) fn bytes(&self) -> usize {
        self.hops.hops.bytes()
    }
}
