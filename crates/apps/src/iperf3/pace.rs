//! Paces the sending of a stream that has a target rate.
//!
//! Two limits apply. The first is the average rate since the start, so that a thread that runs late
//! catches up. The second is a token bucket that fills at twice the target rate, so that the thread
//! does not catch up in a single burst. The capacity of the bucket is one burst, or the number of
//! tokens that it gains within [`DEPTH`] if this is more, but at most [`DEPTH_BURSTS`] bursts. A
//! thread that runs on time never sends more than one burst at once.

use linerate::stack::Instant;
use std::time::Duration;

/// Depth of the token bucket, as a time. A thread on a busy processor can run late by this much and
/// still keep the average rate.
const DEPTH: Duration = Duration::from_millis(10);
/// Maximum depth of the token bucket, as a number of bursts, so that catching up does not overflow
/// the receive buffer of the peer.
const DEPTH_BURSTS: u64 = 32;

/// Pacing state of one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    began: Instant,
    /// Number of bytes sent since `began`.
    sent: u64,
    /// Time at which the token bucket is full again if nothing more is sent.
    full_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rate {
    /// Target rate in bits per second; 0 means unlimited.
    pub(super) bits: u64,
    /// Number of bytes that a stream sends at a time: a block or a burst of blocks.
    pub(super) group: u64,
}

impl Rate {
    fn time_of(self, bytes: u64, faster: u64) -> Duration {
        let ns = u128::from(bytes) * 8_000_000_000 / u128::from(self.bits.saturating_mul(faster).max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace { began: now, sent: 0, full_at: now }
    }

    /// Returns when the next bytes may be sent, and how many bytes may be sent then.
    pub(super) fn next(&self, rate: Rate) -> (Instant, u64) {
        if rate.bits == 0 {
            return (self.began, u64::MAX);
        }
        let group = rate.group.max(1);
        let of_group = self.sent % group;
        if of_group > 0 {
            // The socket's send buffer accepted only a part of the group. The rest may follow
            // without delay.
            return (self.began, group - of_group);
        }
        let by_rate = self.began.after(rate.time_of(self.sent, 1));
        let needs = rate.time_of(group, 2);
        let spare = DEPTH.min(rate.time_of(group.saturating_mul(DEPTH_BURSTS), 2)).saturating_sub(needs);
        let by_bucket = Instant::from_nanos(self.full_at.nanos().saturating_sub(spare.as_nanos() as u64));
        (by_rate.max(by_bucket), group)
    }

    pub(super) fn on_sent(&mut self, bytes: u64, rate: Rate, now: Instant) {
        self.sent = self.sent.saturating_add(bytes);
        if rate.bits > 0 {
            self.full_at = self.full_at.max(now).after(rate.time_of(bytes, 2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends blocks whenever permitted, checking at each `step`; returns the send times in
    /// microseconds.
    fn run(rate: Rate, block: u64, step: impl Fn(u64) -> u64, until_us: u64) -> Vec<u64> {
        let mut pace = Pace::new(Instant::ZERO);
        let (mut at, mut went) = (0, Vec::new());
        while at < until_us {
            let now = Instant::from_micros(at);
            while pace.next(rate).0 <= now {
                pace.on_sent(block, rate, now);
                went.push(at);
            }
            at += step(at);
        }
        went
    }

    fn most_within(went: &[u64], window_us: u64) -> usize {
        let count = |from: &u64| went.iter().filter(|at| **at >= *from && **at < *from + window_us).count();
        went.iter().map(count).max().unwrap_or(0)
    }

    #[test]
    fn blocks_are_sent_at_even_intervals() {
        // 8 Mbit/s in blocks of 1000 bytes: one block per millisecond.
        let rate = Rate { bits: 8_000_000, group: 1000 };
        let went = run(rate, 1000, |_| 10, 1_000_000);
        assert_eq!(went.len(), 1000);
        assert!(went.windows(2).all(|two| (990..=1010).contains(&(two[1] - two[0]))), "{went:?}");
    }

    #[test]
    fn a_delayed_sender_catches_up_without_a_burst() {
        let rate = Rate { bits: 80_000_000, group: 1000 };
        // 10,000 blocks per second. The thread pauses for 50 ms in the middle, so 500 blocks are
        // late.
        let went = run(rate, 1000, |at| if at == 400_000 { 50_000 } else { 10 }, 1_000_000);
        assert_eq!(went.len(), 10_000);
        // At most twice the target rate, plus the depth of the token bucket.
        assert!(most_within(&went, 1_000) <= 20 + 33, "{}", most_within(&went, 1_000));
    }

    /// Scheduling latency of two threads on one processor.
    #[test]
    fn a_thread_scheduled_each_4_ms_keeps_the_rate() {
        for (bits, group, expected) in [(5_000_000, 1000, 625), (30_000_000, 1448, 2589)] {
            let went = run(Rate { bits, group }, group, |_| 4_000, 1_000_000);
            assert!(went.len().abs_diff(expected) <= 20, "{bits}: {} instead of {expected}", went.len());
            assert!(most_within(&went, 1_000) <= DEPTH_BURSTS as usize + 1, "{}", most_within(&went, 1_000));
        }
    }

    #[test]
    fn bursts_are_as_long_as_stated() {
        let rate = Rate { bits: 8_000_000, group: 5000 };
        let went = run(rate, 1000, |_| 10, 1_000_000);
        assert_eq!(went.len(), 1000);
        assert_eq!(most_within(&went, 1_000), 5);
        assert!(went.chunks(5).all(|five| five[0] == five[4]), "{went:?}");
    }

    #[test]
    fn without_a_rate_there_is_no_pacing() {
        assert_eq!(Pace::new(Instant::ZERO).next(Rate { bits: 0, group: 1 }), (Instant::ZERO, u64::MAX));
    }
}
