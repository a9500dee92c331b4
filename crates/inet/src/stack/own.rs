//! A Bloom filter of one word over a host's own addresses of a family: "certainly not ours" for nearly every source, in
//! two instructions; the routes have the last word. Addresses that were removed stay in it.

use crate::fib::AddrBits;
use std::sync::atomic::{AtomicU64, Ordering};

/// The filter as addresses are added to it.
#[derive(Default)]
pub(crate) struct OwnAddresses(AtomicU64);

/// The filter at one moment.
#[derive(Clone, Copy)]
pub(crate) struct OwnFilter(u64);

impl OwnAddresses {
    pub(crate) fn add<A: AddrBits>(&self, addr: A) {
        self.0.fetch_or(1 << place(addr), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> OwnFilter {
        OwnFilter(self.0.load(Ordering::Relaxed))
    }
}

impl OwnFilter {
    /// The filter that has no address.
    pub(crate) const NONE: OwnFilter = OwnFilter(0);

    #[inline(always)]
    pub(crate) fn may_have<A: AddrBits>(self, addr: A) -> bool {
        self.0 >> place(addr) & 1 != 0 // not by the bit: shifted this way it is one instruction (BT)
    }
}

#[inline(always)]
fn place<A: AddrBits>(addr: A) -> u32 {
    let wide = addr.to_wide();
    let folded = if A::BITS > 32 { (wide ^ wide >> 96 ^ wide >> 64 ^ wide >> 32) as u32 } else { wide as u32 };
    folded.wrapping_mul(0x9e37_79b1) >> 26
}
