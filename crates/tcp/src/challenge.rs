//! Challenge ACKs, limited per connection by an unpredictable budget (RFC 5961 7).
//!
//! A limit shared by the whole host is a side channel: from the number of challenge ACKs left, an
//! attacker learns whether a guess about another host's connection was right (CVE-2016-5696). Each
//! connection therefore has its own budget, whose size and period are drawn at random each time.

use clock::Instant;

const SECOND_MS: u32 = 1_000;

/// Challenge ACK budget of one connection, in eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChallengeLimit {
    /// End of the current period in milliseconds, wrapping at 2^32.
    until_ms: u32,
    left: u16,
    begun: bool,
}

impl ChallengeLimit {
    /// Returns whether a challenge ACK may be sent now, and counts it if so. `limit` is the average
    /// number per second; one period allows between half and one and a half times as many. A
    /// `limit` of 0 allows none. `chance` is a random number.
    pub fn take(&mut self, limit: u8, now: Instant, chance: u64) -> bool {
        let now_ms = (now.nanos() / 1_000_000) as u32;
        let remaining = self.until_ms.wrapping_sub(now_ms);
        // a period is at most 1.5 s: a longer remaining time is a wrapped negative difference, so
        // the period has ended
        if !self.begun || remaining == 0 || remaining > 3 * SECOND_MS / 2 {
            self.begin(limit, now_ms, chance);
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    /// Starts a period of 0.5 to 1.5 s with a budget of `limit`/2 to 3 `limit`/2.
    fn begin(&mut self, limit: u8, now_ms: u32, chance: u64) {
        let limit = u16::from(limit);
        self.left = (limit / 2 + (chance % (u64::from(limit) + 1)) as u16).max(limit.min(1));
        let length = SECOND_MS / 2 + ((chance >> 32) % u64::from(SECOND_MS)) as u32;
        (self.until_ms, self.begun) = (now_ms.wrapping_add(length), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn chance(n: u64) -> u64 {
        crate::siphash::Key(n, 0).sip13(&[n])
    }

    #[test]
    fn a_flood_is_answered_at_about_the_limit() {
        let mut limit = ChallengeLimit::default();
        let sent = (0..1_000_000u64).filter(|n| limit.take(10, Instant::from_micros(n * 100), chance(*n))).count();
        assert!((800..1200).contains(&sent), "{sent} in 100 s");
    }

    #[test]
    fn the_number_of_challenges_is_unpredictable() {
        let budgets: BTreeSet<usize> = (0..1_000)
            .map(|n| {
                let mut limit = ChallengeLimit::default();
                (0..100).filter(|_| limit.take(100, Instant::ZERO, chance(n))).count()
            })
            .collect();
        assert!(budgets.len() >= 50 && budgets.iter().all(|n| (50..=150).contains(n)), "{budgets:?}");
    }

    /// Returns the milliseconds from the first challenge ACK to the next period, when the budget is
    /// used at once.
    fn window(chance: u64) -> u32 {
        let mut limit = ChallengeLimit::default();
        while limit.take(10, Instant::ZERO, chance) {}
        (1..2_000).find(|ms| limit.take(10, Instant::from_millis(u64::from(*ms)), chance)).unwrap()
    }

    /// RFC 5961 7, CVE-2016-5696: neither the time nor the size of the next budget is predictable.
    /// In a thousand draws, each tenth of the range occurs about equally often.
    #[test]
    fn the_length_of_an_interval_is_unpredictable() {
        let windows: Vec<u32> = (0..1_000).map(|n| window(chance(n))).collect();
        assert!(windows.iter().all(|ms| (500..=1_500).contains(ms)));
        for tenth in 0..10 {
            let share = windows.iter().filter(|ms| (**ms - 500).min(999) / 100 == tenth).count();
            assert!((50..=150).contains(&share), "{share} between {} and {} ms", 500 + tenth * 100, 600 + tenth * 100);
        }
        assert!(windows.iter().collect::<BTreeSet<_>>().len() > 500);
        // Length and size are independent: periods of the smallest budgets are as long as those of
        // the largest.
        let budget = |n: u64| {
            let mut limit = ChallengeLimit::default();
            (0..100).filter(|_| limit.take(10, Instant::ZERO, chance(n))).count()
        };
        for budgets in [5..=7, 13..=15] {
            let some: Vec<u32> =
                (0..1_000).filter(|n| budgets.contains(&budget(*n))).map(|n| windows[n as usize]).collect();
            let mean = some.iter().sum::<u32>() / some.len() as u32;
            assert!((900..=1_100).contains(&mean), "{mean} ms with {budgets:?}");
        }
    }

    #[test]
    fn one_connection_reveals_nothing_about_another() {
        let now = Instant::from_millis(5);
        let (mut flooded, mut quiet) = (ChallengeLimit::default(), ChallengeLimit::default());
        assert!((0..1000).any(|n| !flooded.take(10, now, chance(n))));
        assert!(quiet.take(10, now, 0));
    }

    #[test]
    fn a_limit_of_one_allows_one_and_zero_none() {
        for n in 0..100 {
            assert!(ChallengeLimit::default().take(1, Instant::ZERO, chance(n)));
            assert!(!ChallengeLimit::default().take(0, Instant::ZERO, chance(n)));
        }
    }

    #[test]
    fn a_window_that_ended_long_ago_is_over() {
        for gap_ms in [2_000, 1 << 31, (1 << 32) - 1_600] {
            let mut limit = ChallengeLimit::default();
            while limit.take(5, Instant::from_millis(1_000), 1) {}
            assert!(limit.take(5, Instant::from_millis(1_000 + gap_ms), 1), "{gap_ms}");
        }
        assert_eq!(size_of::<ChallengeLimit>(), 8);
    }
}
