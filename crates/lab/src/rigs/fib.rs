//! Route lookups alone, in an IPv4 or IPv6 FIB with as many routes as a router.

use super::route::{destinations6, prefixes, prefixes6};
use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use inet::fib::{Fib, IpPrefix, Matched, NextHopId};
use std::net::Ipv6Addr;

const LOOKUPS: usize = 1 << 16;

/// A FIB and the addresses that are looked up in it.
pub struct FibRig<A: Matched = u32> {
    id: String,
    fib: Fib<A>,
    addresses: Vec<A>,
    at: usize,
    burst: usize,
}

impl FibRig {
    /// Creates a rig of `routes` routes of IPv4 through `hops` next hops; `addresses` different
    /// random addresses are looked up in turn, 32 at once.
    ///
    /// # Errors
    /// The table is full.
    pub fn new(id: &str, routes: usize, hops: u32, addresses: usize) -> anyhow::Result<FibRig> {
        let mut state = 88_172_645_463_325_252u64;
        let addresses = (0..addresses.next_multiple_of(LOOKUPS))
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u32
            })
            .collect();
        FibRig::of(id, prefixes(routes), hops, addresses)
    }
}

impl FibRig<u128> {
    /// Creates a rig of `routes` routes of IPv6 through 16 next hops; an address of each is looked
    /// up in turn, 32 at once.
    ///
    /// # Errors
    /// The table is full.
    pub fn six(id: &str, routes: usize) -> anyhow::Result<FibRig<u128>> {
        let of_each: Vec<u128> = destinations6(routes).map(Ipv6Addr::to_bits).collect();
        let addresses = of_each.iter().copied().cycle().take(routes.next_multiple_of(LOOKUPS)).collect();
        FibRig::of(id, prefixes6(routes), 16, addresses)
    }
}

impl<A: Matched> FibRig<A> {
    fn of(
        id: &str,
        prefixes: impl Iterator<Item = IpPrefix<A>>,
        hops: u32,
        addresses: Vec<A>,
    ) -> anyhow::Result<FibRig<A>> {
        let mut fib = Fib::new().with_huge_pages();
        for (i, prefix) in prefixes.enumerate() {
            fib.insert(prefix, NextHopId::new(i as u32 % hops).context("next hop number out of range")?)?;
        }
        Ok(FibRig { id: id.to_owned(), fib, addresses, at: 0, burst: 32 })
    }

    /// Sets the number of addresses looked up at once; [`LOOKUPS`] is a multiple of it.
    pub fn in_bursts_of(self, burst: usize) -> FibRig<A> {
        FibRig { burst, ..self }
    }
}

impl<A: Matched + Send> Subject for FibRig<A> {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let slice = &self.addresses[self.at..self.at + LOOKUPS];
        self.at = (self.at + LOOKUPS) % self.addresses.len();
        let (mut hops, mut found) = (vec![None; self.burst], 0usize);
        let reading = measure(LOOKUPS as u64, || {
            for burst in slice.chunks_exact(self.burst) {
                self.fib.lookup_burst(burst, &mut hops);
                found += usize::from(std::hint::black_box(&hops)[0].is_some());
            }
        });
        ensure!(found > 0, "{}: no route found for any address", self.id);
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the next hops of a rig's addresses, and the number of addresses that have one.
    fn looked_up(rig: &FibRig) -> (BTreeSet<String>, usize) {
        let mut hops = vec![None; rig.burst];
        let (mut different, mut found) = (BTreeSet::new(), 0);
        for burst in rig.addresses.chunks_exact(rig.burst) {
            rig.fib.lookup_burst(burst, &mut hops);
            for (addr, hop) in burst.iter().zip(&hops) {
                assert_eq!(*hop, rig.fib.lookup((*addr).into()), "{addr:#x}: alone and in a burst");
                found += usize::from(hop.is_some());
                different.extend(hop.map(|hop| format!("{hop:?}")));
            }
        }
        (different, found)
    }

    #[test]
    fn each_address_has_its_route_in_the_ipv6_table() {
        let mut rig = FibRig::six("six.fib", 20_000).unwrap();
        assert_eq!((rig.fib.len(), rig.trial().unwrap().ops), (20_000, LOOKUPS as u64));
        let mut hops = vec![None; rig.addresses.len()];
        rig.fib.lookup_burst(&rig.addresses, &mut hops);
        assert!(hops.iter().all(Option::is_some));
    }

    #[test]
    fn a_row_has_its_routes_next_hops_and_bursts() {
        for (hops, burst) in [(1, 32), (7, 256), (7, 1)] {
            let mut rig = FibRig::new("fib", 20_000, hops, 1).unwrap().in_bursts_of(burst);
            assert_eq!((rig.fib.len(), rig.burst, rig.addresses.len()), (20_000, burst, LOOKUPS));
            let (different, found) = looked_up(&rig);
            assert_eq!(different.len(), hops as usize);
            assert!(found > 0 && found <= LOOKUPS, "{found}");
            assert_eq!(rig.trial().unwrap().ops, LOOKUPS as u64);
        }
    }
}
