//! Route lookups alone, in an IPv4 or IPv6 FIB with as many routes as an Internet router has.

use super::route::{Lengths, destinations6, prefixes, prefixes_of, prefixes6};
use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use clock::Random;
use inet::fib::{Fib, IpPrefix, Matched, NextHopId, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};

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
    /// Creates a rig of `routes` IPv4 routes through `hops` next hops. About `addresses` random
    /// addresses are looked up in turn, 32 at a time.
    ///
    /// # Errors
    /// The table is full.
    pub fn new(id: &str, routes: usize, hops: u32, addresses: usize) -> anyhow::Result<FibRig> {
        FibRig::of(id, prefixes(routes), hops, random(addresses.next_multiple_of(LOOKUPS)))
    }

    /// Creates a rig of `routes` IPv4 routes, with the given distribution of prefix lengths,
    /// through 250 next hops. The first address of each route is looked up in turn, 32 at a time.
    ///
    /// # Errors
    /// The table is full.
    pub fn with_lengths(id: &str, routes: usize, lengths: Lengths) -> anyhow::Result<FibRig> {
        let of_each: Vec<u32> = prefixes_of(routes, lengths).map(|prefix| prefix.addr().to_bits()).collect();
        let addresses = of_each.iter().copied().cycle().take(routes.next_multiple_of(LOOKUPS)).collect();
        FibRig::of(id, prefixes_of(routes, lengths), 250, addresses)
    }
}

/// Returns `n` pseudo-random addresses.
fn random(n: usize) -> Vec<u32> {
    let mut random = Random::new(88_172_645_463_325_252);
    (0..n).map(|_| random.bits() as u32).collect()
}

impl FibRig<u128> {
    /// Creates a rig of `routes` IPv6 routes through 16 next hops. One address of each route is
    /// looked up in turn, 32 at a time.
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

/// Rig that loads from random positions of an array as large as the first level of a FIB with a
/// million routes. Its cost is the lower limit of the cost of a lookup.
pub struct LoadsRig {
    id: String,
    array: Vec<u32>,
    addresses: Vec<u32>,
    at: usize,
}

impl LoadsRig {
    /// Creates a rig that loads from an array of 64 MB, at the positions of a million random
    /// addresses in turn.
    pub fn new(id: &str) -> LoadsRig {
        let mut array = vec![0; 1 << 24];
        buf::mem::advise_huge(&mut array);
        array.fill(1);
        LoadsRig { id: id.to_owned(), array, addresses: random(1 << 20), at: 0 }
    }
}

impl Subject for LoadsRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let slice = &self.addresses[self.at..self.at + LOOKUPS];
        self.at = (self.at + LOOKUPS) % self.addresses.len();
        let mut sum = 0u32;
        let reading = measure(LOOKUPS as u64, || {
            sum = slice.iter().fold(0, |sum, addr| sum.wrapping_add(self.array[(addr >> 8) as usize]));
        });
        ensure!(sum as usize == LOOKUPS, "{}: the array was not read", self.id);
        Ok(reading)
    }
}

/// Number of changes of a trial.
const CHANGES: usize = 256;

/// A full IPv4 FIB in which routes of one length are added and removed alternately.
pub struct FibChangeRig {
    id: String,
    fib: Fib,
    len: u8,
    random: Random,
}

impl FibChangeRig {
    /// Creates a rig of `routes` routes with the lengths of the Internet's table. Each change adds
    /// or removes a random route of length `len`.
    ///
    /// # Errors
    /// The table is full.
    pub fn new(id: &str, routes: usize, len: u8) -> anyhow::Result<FibChangeRig> {
        let FibRig { fib, .. } = FibRig::of(id, prefixes(routes), 250, Vec::new())?;
        Ok(FibChangeRig { id: id.to_owned(), fib, len, random: Random::new(9) })
    }
}

impl Subject for FibChangeRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let hop = NextHopId::new(999).context("next hop number out of range")?;
        let mut prefixes = Vec::with_capacity(CHANGES / 2);
        while prefixes.len() < CHANGES / 2 {
            let prefix = Prefix::new(Ipv4Addr::from_bits(self.random.bits() as u32), self.len)?;
            // Only routes that are not in the table are added and removed, so that every trial has
            // the same table.
            if self.fib.get(prefix).is_none() && !prefixes.contains(&prefix) {
                prefixes.push(prefix);
            }
        }
        let mut removed = 0;
        let reading = measure(CHANGES as u64, || {
            for prefix in &prefixes {
                self.fib.insert(*prefix, hop)?;
                removed += usize::from(self.fib.remove(*prefix).is_some());
            }
            anyhow::Ok(())
        });
        ensure!(removed == CHANGES / 2, "{}: {removed} of {} routes were removed", self.id, CHANGES / 2);
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
    fn changes_leave_the_table_as_it_was() {
        for len in [8, 24, 32] {
            let mut rig = FibChangeRig::new("fib.change", 20_000, len).unwrap();
            assert_eq!((rig.trial().unwrap().ops, rig.fib.len()), (CHANGES as u64, 20_000), "/{len}");
        }
    }

    #[test]
    fn every_address_is_loaded() {
        assert_eq!(LoadsRig::new("loads").trial().unwrap().ops, LOOKUPS as u64);
    }

    #[test]
    fn tables_have_the_requested_lengths() {
        let lengths = |lengths| prefixes_of(5000, lengths).map(|prefix| prefix.len()).collect::<BTreeSet<u8>>();
        assert_eq!(lengths(Lengths::Host), BTreeSet::from([32]));
        assert_eq!(lengths(Lengths::Uniform), (9..=32).collect());
        assert_eq!(FibRig::with_lengths("fib", 5000, Lengths::Host).unwrap().trial().unwrap().ops, LOOKUPS as u64);
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
