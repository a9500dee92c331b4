//! Lookups alone: the FIB with a million routes.

use super::route::prefixes;
use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use inet::fib::{Fib, NextHopId};

const LOOKUPS: usize = 1 << 16;

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
