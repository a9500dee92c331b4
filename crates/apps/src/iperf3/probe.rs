//! Latency beside a test: eight bytes go to a server of ours and come back, again and again, one at a time.
//!
//! Each round trip is from the turn of our loop in which the question was sent to the one in which the answer came, so what
//! our own loop and the server's add to the wire is part of it, as it would be for any program.

use super::proto::{COOKIE, PROBE, PROBE_BYTES};
use clock::Instant;
use std::time::Duration;

/// From one question to the next.
const EVERY: Duration = Duration::from_millis(5);
/// Round trips kept; of a longer test the later ones are not.
const KEPT_MAX: usize = 1 << 18;

/// Round trips beside a test, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// How many.
    pub count: usize,
    /// The shortest.
    pub min_us: f64,
    /// Half of them were not longer.
    pub p50_us: f64,
    /// Ninety-nine of a hundred were not longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latency {
    /// Of round trips in nanoseconds; `None` of none.
    fn of(mut all: Vec<u64>) -> Option<Latency> {
        all.sort_unstable();
        let at = |share: f64| {
            let rank = (all.len() as f64 * share).ceil() as usize;
            all.get(rank.saturating_sub(1)).map(|ns| *ns as f64 / 1e3)
        };
        let (min_us, p50_us, p99_us, max_us) = (at(0.0)?, at(0.5)?, at(0.99)?, at(1.0)?);
        Some(Latency { count: all.len(), min_us, p50_us, p99_us, max_us })
    }
}

/// The client's end.
#[derive(Debug)]
pub(super) struct Probe {
    cookie: Vec<u8>,
    cookie_at: usize,
    question: [u8; PROBE_BYTES],
    question_at: usize,
    answered: usize,
    asked: Option<Instant>,
    next: Instant,
    trips_ns: Vec<u64>,
}

impl Probe {
    /// Beside the test of that cookie.
    pub(super) fn new(of_test: &[u8], now: Instant) -> Probe {
        let mut cookie = PROBE.to_vec();
        cookie.extend_from_slice(of_test.get(PROBE.len()..COOKIE).unwrap_or_default());
        Probe {
            cookie,
            cookie_at: 0,
            question: *b"\x05latency",
            question_at: PROBE_BYTES,
            answered: 0,
            asked: None,
            next: now,
            trips_ns: Vec::new(),
        }
    }

    pub(super) fn output(&self) -> &[u8] {
        let cookie = self.cookie.get(self.cookie_at..).unwrap_or_default();
        if cookie.is_empty() { self.question.get(self.question_at..).unwrap_or_default() } else { cookie }
    }

    pub(super) fn sent(&mut self, n: usize) {
        if self.cookie_at < self.cookie.len() { self.cookie_at += n } else { self.question_at += n }
    }

    /// The answer comes. False: that is not one; the server knows no such connection.
    pub(super) fn on_bytes(&mut self, bytes: &[u8], now: Instant) -> bool {
        let expected = self.question.get(self.answered..self.answered + bytes.len());
        let Some(asked) = self.asked.filter(|_| expected == Some(bytes)) else { return false };
        self.answered += bytes.len();
        if self.answered == PROBE_BYTES {
            if self.trips_ns.len() < KEPT_MAX {
                self.trips_ns.push(now.since(asked).as_nanos() as u64);
            }
            self.asked = None;
        }
        true
    }

    /// When there is something to ask; not before the cookie is sent, not while an answer is waited for.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        (self.asked.is_none() && self.cookie_at >= self.cookie.len()).then_some(self.next)
    }

    /// Asks, if it is time; then there is output.
    pub(super) fn on_timer(&mut self, now: Instant) -> bool {
        let is_due = self.next_timer().is_some_and(|at| at <= now);
        if is_due {
            (self.question_at, self.answered) = (0, 0);
            (self.asked, self.next) = (Some(now), now.after(EVERY));
        }
        is_due
    }

    pub(super) fn latency(&self) -> Option<Latency> {
        Latency::of(self.trips_ns.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_round_trips() {
        let latency = Latency::of((1..=200).rev().map(|n| n * 1_000).collect()).unwrap();
        let expected = Latency { count: 200, min_us: 1.0, p50_us: 100.0, p99_us: 198.0, max_us: 200.0 };
        assert_eq!(latency, expected);
        assert_eq!(Latency::of(Vec::new()), None);
    }

    #[test]
    fn what_is_not_the_answer_is_noticed() {
        let mut probe = Probe::new(&[b'a'; COOKIE], Instant::ZERO);
        assert_eq!(probe.output().len(), COOKIE);
        assert!(!probe.on_timer(Instant::ZERO), "the cookie first");
        probe.sent(COOKIE - 1);
        assert_eq!(probe.next_timer(), None, "nobody is woken for what cannot be asked yet");
        probe.sent(1);
        assert_eq!(probe.next_timer(), Some(Instant::ZERO));
        assert!(probe.on_timer(Instant::ZERO) && probe.output().len() == 8);
        probe.sent(8);
        assert!(!probe.on_bytes(&[255], Instant::from_micros(7)), "ACCESS_DENIED");
        assert!(
            probe.on_bytes(b"\x05lat", Instant::from_micros(7)) && probe.on_bytes(b"ency", Instant::from_micros(9))
        );
        assert_eq!(probe.latency().unwrap().max_us, 9.0);
        assert!(!probe.on_bytes(b"\x05", Instant::from_micros(9)), "nothing was asked");
    }
}
