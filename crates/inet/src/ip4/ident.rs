//! Identifications of the packets that this host sends (RFC 791 3.2, RFC 6864).
//!
//! Only a packet that may be fragmented needs an identification; with DF set it is 0. For other
//! packets, the identification is a counter per address pair and protocol. Its start is derived
//! from the pair and a secret (as RFC 7739 recommends). Its steps are unpredictable: one, plus a
//! random part of the time since the last packet. Therefore the numbers reveal nothing to a
//! receiver about packets to other hosts, neither that some were sent (idle scan) nor how many
//! (CVE-2020-36516, CVE-2019-10638). The pairs share 4096 counters, as in Linux. The random steps
//! hide that two pairs share a counter.

use clock::Instant;
use std::net::Ipv4Addr;
use wire::Proto;
use wire::hash::Key;

const COUNTERS: usize = 4096;
/// Time in nanoseconds in which the random part of a step advances the identification by at most
/// one, and by one half on average. The 65,536 numbers then repeat after 8 minutes. RFC 6864 4.2
/// requires that they do not repeat within the maximum lifetime of a datagram, 2 minutes.
const UNIT_NS: u64 = 4_000_000;
/// Maximum random part of a step: a quarter of all numbers.
const STEP_MAX: u32 = 1 << 14;

#[derive(Clone, Copy, Default)]
struct Counter {
    id: u16,
    last: u32, // time in units of UNIT_NS; wraps after 198 days, which may make one step too small
}

/// Identification counters of a host.
pub(crate) struct Idents {
    key: Key,
    counters: Box<[Counter]>,
    drawn: u64,
}

impl Idents {
    pub(crate) fn new(key: Key) -> Idents {
        Idents { key, counters: vec![Counter::default(); COUNTERS].into(), drawn: 0 }
    }

    /// Returns the next identification for packets of `proto` from `src` to `dst`.
    pub(crate) fn next(&mut self, src: Ipv4Addr, dst: Ipv4Addr, proto: Proto, now: Instant) -> u16 {
        let hash = self.key.hash2(u64::from(u32::from(src)) << 32 | u64::from(u32::from(dst)), u64::from(proto.0));
        self.drawn = self.drawn.wrapping_add(1);
        let random = self.key.hash2(self.drawn, hash);
        let units = (now.nanos() / UNIT_NS) as u32;
        let Some(counter) = self.counters.get_mut(hash as usize % COUNTERS) else { return random as u16 };
        let passed = units.wrapping_sub(counter.last).min(STEP_MAX);
        let step = (u64::from(passed) * (random >> 32)) >> 32; // below `passed`
        counter.id = counter.id.wrapping_add(1).wrapping_add(step as u16);
        counter.last = units;
        counter.id.wrapping_add((hash >> 48) as u16)
    }
}

#[cfg(test)]
mod tests;
