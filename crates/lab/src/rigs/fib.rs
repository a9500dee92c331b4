//! Lookups alone: the FIB with a million routes.

use super::route::{destinations6, prefixes, prefixes6};
use crate::subject::{self, Reading, Subject, measure};
use anyhow::{Context, anyhow, ensure};
use inet::fib::{Fib, NextHopId};
use inet::fib6::{self, Fib6, Via6};
use inet::iface::IfaceId;
use std::net::Ipv6Addr;
use wire::hash::Key;

const LOOKUPS: usize = 1 << 16;

/// Creates a rig of the IPv6 table: `routes` routes through 16 next hops, an address of each looked up in turn.
///
/// # Errors
/// The table is full.
pub fn fib6_rig(id: &'static str, routes: usize) -> anyhow::Result<impl Subject> {
    let mut fib = Fib6::new(Key::seeded(1), fib6::LIMIT);
    for (i, prefix) in prefixes6(routes).enumerate() {
        let gateway = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 0x10 + (i % 16) as u16);
        fib.insert(prefix, Via6::Gateway(IfaceId(1), gateway)).map_err(|_| anyhow!("no room for {routes} routes"))?;
    }
    ensure!(fib.len() == routes);
    let addresses: Vec<Ipv6Addr> = destinations6(routes).collect();
    let mut at = 0;
    Ok(subject::from_fn(id, move || {
        let mut found = 0;
        let reading = measure(LOOKUPS as u64, || {
            for _ in 0..LOOKUPS {
                found += usize::from(std::hint::black_box(fib.lookup(addresses[at])).is_some());
                at = if at + 1 < addresses.len() { at + 1 } else { 0 };
            }
        });
        ensure!(found == LOOKUPS, "{id}: {found} of {LOOKUPS} addresses found a route");
        Ok(reading)
    }))
}

/// A FIB and the addresses that are looked up in it.
pub struct FibRig {
    id: String,
    fib: Fib,
    addresses: Vec<u32>,
    at: usize,
    burst: usize,
}

impl FibRig {
    /// `routes` routes through `hops` next hops; `addresses` different random addresses, looked up in turn, 32 at once.
    ///
    /// # Errors
    /// The table is full.
    pub fn new(id: &str, routes: usize, hops: u32, addresses: usize) -> anyhow::Result<FibRig> {
        let mut fib = Fib::new().with_huge_pages();
        for (i, prefix) in prefixes(routes).enumerate() {
            fib.insert(prefix, NextHopId::new(i as u32 % hops).context("next hop")?)?;
        }
        ensure!(fib.len() == routes);
        let mut state = 88_172_645_463_325_252u64;
        let addresses = (0..addresses.next_multiple_of(LOOKUPS))
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u32
            })
            .collect();
        Ok(FibRig { id: id.to_owned(), fib, addresses, at: 0, burst: 32 })
    }

    /// So many addresses are asked for at once, of which [`LOOKUPS`] are a multiple.
    pub fn in_bursts_of(self, burst: usize) -> FibRig {
        FibRig { burst, ..self }
    }
}

impl Subject for FibRig {
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
        ensure!(found > 0, "{}: no address found a route", self.id);
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The next hops of a rig's addresses, and how many addresses have one.
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
        assert_eq!(fib6_rig("six.fib", 20_000).unwrap().trial().unwrap().ops, LOOKUPS as u64);
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
