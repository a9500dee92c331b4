//! Route cache of a stack with one thread.

use fib::{AddrBits, NextHopId};

/// Route cache of a stack with one thread. The low bits of the destination select the entry (direct
/// mapping), so that this host's address and a peer's do not evict each other. An entry is valid if
/// its epoch (count of routing changes) equals the current epoch of the stack.
#[derive(Default)]
pub(crate) struct RouteCache<A>([(u64, A, Option<NextHopId>); FOUND]);

/// Number of cache entries.
const FOUND: usize = 8;

impl<A: AddrBits> RouteCache<A> {
    /// Returns the cache entry for `dst`: epoch, address and next hop. The entry may belong to
    /// another address.
    #[inline(always)]
    pub(crate) fn entry(&mut self, dst: A) -> Option<&mut (u64, A, Option<NextHopId>)> {
        self.0.get_mut(dst.to_wide() as usize % FOUND)
    }
}
