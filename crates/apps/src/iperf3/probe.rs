//! Measures latency while a test runs: on a second connection, the client sends eight bytes to one
//! of our servers, which echoes them. Only one exchange is in flight at a time.
//!
//! A round-trip time is measured from the turn of the client's event loop that sends the request to
//! the turn that receives the reply. It therefore includes the delays of the event loops of both
//! sides, as it would in any program.

use super::proto::{COOKIE, PROBE, PROBE_BYTES};
use linerate::stack::Instant;
use std::time::Duration;

/// Interval between two requests.
const EVERY: Duration = Duration::from_millis(5);
/// Maximum number of round-trip times recorded; later ones are ignored.
const KEPT_MAX: usize = 1 << 18;

/// Round-trip times measured during a test, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// Number of round trips.
    pub count: usize,
    pub min_us: f64,
    /// Median in microseconds.
    pub p50_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    pub max_us: f64,
}

impl Latency {
    /// Computes the statistics of round-trip times in nanoseconds; `None` if there are none.
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

/// The client's side of the probe connection.
#[derive(Debug)]
pub(super) struct Probe {
    cookie: Vec<u8>,
    cookie_at: usize,
    question: [u8; PROBE_BYTES],
    question_at: usize,
    answered: usize,
    requested: Option<Instant>,
    next: Instant,
    trips_ns: Vec<u64>,
}

impl Probe {
    /// Creates a probe for the test that has the cookie `of_test`.
    pub(super) fn new(of_test: &[u8], now: Instant) -> Probe {
        let mut cookie = PROBE.to_vec();
        cookie.extend_from_slice(of_test.get(PROBE.len()..COOKIE).unwrap_or_default());
        Probe {
            cookie,
            cookie_at: 0,
            question: *b"\x05latency",
            question_at: PROBE_BYTES,
            answered: 0,
            requested: None,
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

    /// Handles received bytes. Returns `false` if they are not the echo of the request, which means
    /// that the server does not support the probe.
    pub(super) fn on_bytes(&mut self, bytes: &[u8], now: Instant) -> bool {
        let expected = self.question.get(self.answered..self.answered + bytes.len());
        let Some(requested) = self.requested.filter(|_| expected == Some(bytes)) else { return false };
        self.answered += bytes.len();
        if self.answered == PROBE_BYTES {
            if self.trips_ns.len() < KEPT_MAX {
                self.trips_ns.push(now.since(requested).as_nanos() as u64);
            }
            self.requested = None;
        }
        true
    }

    /// Returns when the next request is due, if the cookie was sent and no reply is outstanding.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        (self.requested.is_none() && self.cookie_at >= self.cookie.len()).then_some(self.next)
    }

    /// Starts the next request if it is due; returns whether there is something to send.
    pub(super) fn on_timer(&mut self, now: Instant) -> bool {
        let is_due = self.next_timer().is_some_and(|at| at <= now);
        if is_due {
            (self.question_at, self.answered) = (0, 0);
            (self.requested, self.next) = (Some(now), now.after(EVERY));
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
    fn percentiles_of_round_trips() {
        let latency = Latency::of((1..=200).rev().map(|n| n * 1_000).collect()).unwrap();
        let expected = Latency { count: 200, min_us: 1.0, p50_us: 100.0, p99_us: 198.0, max_us: 200.0 };
        assert_eq!(latency, expected);
        assert_eq!(Latency::of(Vec::new()), None);
    }

    #[test]
    fn unexpected_probe_answers_are_detected() {
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
