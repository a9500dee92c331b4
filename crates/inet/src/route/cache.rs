//! Route cache of a stack with one thread.

use crate::fib::{AddrBits, NextHopId};

/// Route cache of a stack with one thread. It is direct-mapped by the low bits of the destination,
/// so that our own address and a peer's do not evict each other. An entry is valid if its epoch
/// (count of routing changes) equals the stack's.
#[derive(Default)]
pub(crate) struct RouteCache<A>([(u64, A, Option<NextHopId>); FOUND]);

/// Number of cache entries.
const FOUND: usize = 8;

impl<A: AddrBits> RouteCache<A> {
    /// Returns the cache slot for `dst`, which may hold another address: epoch, address and next
    /// hop.
    #[inline(always)]
    pub(crate) fn entry(&mut self, dst: A) -> Option<&mut (u64, A, Option<NextHopId>)> {
        self.0.get_mut(dst.to_wide() as usize % FOUND)
    }
}
