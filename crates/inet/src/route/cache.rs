//! The route cache of a stack with one thread.

use crate::fib::{AddrBits, NextHopId};

/// Route cache of a stack with one thread, direct-mapped by the last bits of the destination, so that our own address and a
/// peer's do not push each other out. An entry is good while the stack's epoch is the one it has.
#[derive(Default)]
pub(crate) struct RouteCache<A>([(u64, A, Option<NextHopId>); FOUND]);

/// Addresses whose next hop is remembered.
const FOUND: usize = 8;

impl<A: AddrBits> RouteCache<A> {
    /// Returns the entry of `dst`: epoch, address and next hop.
    #[inline(always)]
    pub(crate) fn entry(&mut self, dst: A) -> Option<&mut (u64, A, Option<NextHopId>)> {
        self.0.get_mut(dst.to_wide() as usize % FOUND)
    }
}
