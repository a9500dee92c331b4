//! Bloom filter of two words for a host's own addresses of one family. In a few instructions, it
//! excludes nearly every source address that does not belong to the host. An address that matches
//! the filter is looked up in the FIB. Removed addresses stay in the filter.

use fib::AddrBits;
use std::sync::atomic::{AtomicU64, Ordering};

/// The filter, to which addresses can be added.
#[derive(Default)]
pub(crate) struct OwnAddresses([AtomicU64; 2]);

/// A snapshot of the filter.
#[derive(Clone, Copy)]
pub(crate) struct OwnFilter([u64; 2]);

impl OwnAddresses {
    pub(crate) fn add<A: AddrBits>(&self, addr: A) {
        for (bits, place) in self.0.iter().zip(places(addr)) {
            bits.fetch_or(1 << place, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> OwnFilter {
        OwnFilter(self.0.each_ref().map(|bits| bits.load(Ordering::Relaxed)))
    }
}

impl OwnFilter {
    pub(crate) const NONE: OwnFilter = OwnFilter([0; 2]);

    #[inline(always)]
    pub(crate) fn may_have<A: AddrBits>(self, addr: A) -> bool {
        let ([first, second], [one, other]) = (places(addr), self.0);
        // Shifts instead of masks, since they compile to one instruction (BT).
        (one >> first) & (other >> second) & 1 != 0
    }
}

#[inline(always)]
fn places<A: AddrBits>(addr: A) -> [u32; 2] {
    let wide = addr.to_wide();
    let folded = if A::BITS > 32 { (wide ^ wide >> 96 ^ wide >> 64 ^ wide >> 32) as u32 } else { wide as u32 };
    let hash = folded.wrapping_mul(0x9e37_79b1);
    [hash >> 26, hash >> 20 & 63]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few addresses of peers match the filter. A match would send the peer's packets through the
    /// slow path.
    #[test]
    fn few_peers_match_the_own_address_filter() {
        let own = OwnAddresses::default();
        let net = 0xfd00u128 << 112;
        [net | 1, net, 1, 0xfe80 << 112 | 0x00b2_00ff_fe00_0001].into_iter().for_each(|addr| own.add(addr));
        let filter = own.now();
        assert!(filter.may_have(net | 1) && !OwnFilter::NONE.may_have(net | 1));
        let taken = (2..10_002).filter(|peer| filter.may_have(net | peer)).count();
        assert!(taken < 150, "{taken} of 10,000 IPv6 addresses");
        let taken = (0..10_000u32).filter(|peer| filter.may_have(0x0a00_0002 + peer)).count();
        assert!(taken < 150, "{taken} of 10,000 IPv4 addresses");
    }
}
