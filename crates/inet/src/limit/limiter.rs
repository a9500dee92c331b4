//! Rate limits of ICMP errors, echo replies and address defense, and counters for the selection of
//! ephemeral ports.

use super::TokenBucket;
use clock::{Duration, Instant};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::hash::Key;

const DESTINATIONS: usize = 256;
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// Rate limits of a host.
pub(crate) struct Limiter {
    key: Key,
    errors: TokenBucket,
    per_destination: Box<[TokenBucket]>,
    echoes: TokenBucket,
    ids: Box<[u16]>,
    defended: Option<Instant>,
}

impl Limiter {
    pub(crate) fn new(key: Key) -> Limiter {
        Limiter {
            key,
            errors: TokenBucket::default(),
            per_destination: vec![TokenBucket::default(); DESTINATIONS].into(),
            echoes: TokenBucket::default(),
            ids: vec![0; DESTINATIONS].into(),
            defended: None,
        }
    }

    /// Returns whether an echo request that arrives now may be answered; `rate` is in replies per
    /// second.
    pub(crate) fn echo_allowed(&mut self, rate: u64, now: Instant) -> bool {
        self.echoes.take(rate, now)
    }

    pub(crate) fn error_allowed(&mut self, dst: Ipv4Addr, rate: u64, now: Instant) -> bool {
        self.allowed(self.key.hash2(u64::from(u32::from(dst)), 0), rate, now)
    }

    /// Returns whether an ICMPv6 error may be sent to `dst`. The limit applies per /64 prefix,
    /// since one host can use all addresses of its prefix.
    pub(crate) fn error_allowed6(&mut self, dst: Ipv6Addr, rate: u64, now: Instant) -> bool {
        self.allowed(self.key.hash2((dst.to_bits() >> 64) as u64, 6), rate, now)
    }

    fn allowed(&mut self, hash: u64, rate: u64, now: Instant) -> bool {
        if rate == 0 {
            return true;
        }
        // A destination gets a quarter of the rate, plus a secret fraction of up to a sixteenth of
        // the rate, so that the limit cannot be measured from outside.
        let share = (rate / 4).max(1);
        let jittered = share + hash % (share / 4 + 1);
        let mine = self.per_destination.get_mut(hash as usize >> 8 & (DESTINATIONS - 1));
        // The common limit of all destinations is lowered by up to an eighth, by a different amount
        // each second. One destination thus cannot infer how many errors are sent to others
        // (CVE-2020-25705).
        let reserve = self.key.hash2(now.nanos() / 1_000_000_000, 1) % (rate / 8 + 1);
        mine.is_none_or(|bucket| bucket.take(jittered, now)) && self.errors.take_above(reserve, rate, now)
    }

    pub(crate) fn may_defend(&mut self, now: Instant) -> bool {
        let may = self.defended.is_none_or(|last| now.since(last) >= DEFEND_INTERVAL);
        if may {
            self.defended = Some(now);
        }
        may
    }

    /// Increments one of 256 counters, which is selected by `class`, and returns its new value.
    pub(crate) fn next_id(&mut self, class: u64) -> u16 {
        match self.ids.get_mut(class as usize >> 16 & (DESTINATIONS - 1)) {
            Some(id) => {
                *id = id.wrapping_add(1);
                *id
            }
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const RATE: u64 = 1000;

    fn limiter(seed: u64) -> Limiter {
        Limiter::new(Key::seeded(seed))
    }

    /// Returns the number of errors that one destination may receive at once.
    fn share(seed: u64, dst: u32) -> u64 {
        let mut limiter = limiter(seed);
        (0..RATE).filter(|_| limiter.error_allowed(Ipv4Addr::from_bits(dst), RATE, Instant::ZERO)).count() as u64
    }

    /// Returns the number of errors that all destinations together may receive at once in a given
    /// second.
    fn all(seed: u64, second: u64) -> u64 {
        let (mut limiter, now) = (limiter(seed), Instant::from_millis(second * 1000 + 5));
        let requested = (0..20 * RATE as u32).map(|n| Ipv4Addr::from_bits(0x0a00_0000 + n * 7919));
        requested.filter(|dst| limiter.error_allowed(*dst, RATE, now)).count() as u64
    }

    /// The limit of one destination is a quarter of the rate plus a secret fraction of up to a
    /// quarter of that. It cannot be measured from outside (CVE-2020-25705).
    #[test]
    fn the_share_of_a_destination_is_unpredictable() {
        let by_key: BTreeSet<u64> = (0..500).map(|seed| share(seed, 0x0a00_0001)).collect();
        assert!(by_key.iter().all(|share| (RATE / 4..=RATE / 4 + RATE / 16).contains(share)), "{by_key:?}");
        assert!(by_key.len() >= 55, "of 63 shares {} occur", by_key.len());
        let by_destination: BTreeSet<u64> = (0..500).map(|n| share(1, 0x0a00_0001 + n)).collect();
        assert!(by_destination.len() >= 55, "of 63 shares {} occur", by_destination.len());
    }

    /// The common limit of all destinations is up to an eighth lower than the rate. It differs
    /// between seconds and between hosts.
    #[test]
    fn the_overall_limit_is_unpredictable_and_changes_each_second() {
        let spread = |numbers: BTreeSet<u64>| {
            assert!(numbers.iter().all(|all| (RATE - RATE / 8 - 1..=RATE).contains(all)), "{numbers:?}");
            assert!(numbers.len() >= 60, "of 126 limits {} occur in 100", numbers.len());
        };
        spread((0..100).map(|seed| all(seed, 3)).collect());
        spread((0..100).map(|second| all(1, second)).collect());
    }

    /// For IPv6, the same limits apply per /64 prefix instead of per address.
    #[test]
    fn the_share_of_a_prefix_is_unpredictable() {
        let share = |seed: u64, prefix: u128| {
            let (mut limiter, now) = (limiter(seed), Instant::ZERO);
            let dst = |n: u64| Ipv6Addr::from_bits(prefix << 64 | u128::from(n));
            (0..RATE).filter(|n| limiter.error_allowed6(dst(*n), RATE, now)).count() as u64
        };
        let by_key: BTreeSet<u64> = (0..300).map(|seed| share(seed, 0x2001_0db8)).collect();
        let by_prefix: BTreeSet<u64> = (0..300).map(|n| share(1, 0x2001_0db8 + n)).collect();
        assert!(by_key.len() >= 50 && by_prefix.len() >= 50, "{} and {}", by_key.len(), by_prefix.len());
    }
}
