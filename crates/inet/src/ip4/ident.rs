//! Identifications of the packets this host makes (RFC 791 3.2, RFC 6864).
//!
//! Only what may be fragmented needs one: a packet with DF has 0. The others get numbers that count up for each pair of
//! addresses and protocol, from a start that is a secret of the pair (RFC 7739's reasoning), in steps that nobody can
//! predict from outside: one, and a random part of the time since the last. Who reads the numbers sent to him learns
//! nothing about packets to others, neither that there were some (the idle scan) nor how many (CVE-2020-36516,
//! CVE-2019-10638). Pairs share 4096 counters as Linux's do; what two pairs in one have in common, the random steps hide.

use clock::Instant;
use std::net::Ipv4Addr;
use wire::Proto;
use wire::hash::Key;

const COUNTERS: usize = 4096;
/// A pair that is silent moves on by at most one in this time, half that on average: 65,536 numbers last 8 minutes, four
/// times what a datagram may live (RFC 6864 4.2 asks for 2).
const UNIT_NS: u64 = 4_000_000;
/// The longest step: a quarter of the circle.
const STEP_MAX: u32 = 1 << 14;

#[derive(Clone, Copy, Default)]
struct Counter {
    id: u16,
    last: u32, // in units; wraps after 198 days, which costs one wrong step
}

/// The identification counters of one host.
pub(crate) struct Idents {
    key: Key,
    counters: Box<[Counter]>,
    drawn: u64,
}

impl Idents {
    pub(crate) fn new(key: Key) -> Idents {
        Idents { key, counters: vec![Counter::default(); COUNTERS].into(), drawn: 0 }
    }

    /// The next identification for packets of `proto` from `src` to `dst`.
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
