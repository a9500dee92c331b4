//! HyStart++: leaves slow start when the round-trip time grows, before the queue overflows (RFC
//! 9406).
//!
//! Compares the RTTs of this round with those of the previous one. If they have grown by an eighth
//! (at least 4 ms, at most 16 ms), conservative slow start begins, in which the window grows a
//! quarter as fast, for at most five rounds. If the RTT falls again, its growth was jitter, and
//! slow start resumes. [`HyStart`] returns only the phase; the caller owns the window. It is used
//! only for the first slow start of a connection (4.3).

/// Parameters of RFC 9406 4.3.
const MIN_RTT_THRESH: u32 = 4_000; // µs
const MAX_RTT_THRESH: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u8 = 8;
const CSS_ROUNDS: u8 = 5;
/// Divisor of the window's growth in conservative slow start (CSS).
pub const CSS_GROWTH_DIVISOR: u32 = 4;
/// Maximum number of segments that one ACK adds to the window without pacing (RFC 9406 4.3).
pub const L: u32 = 8;

const UNKNOWN: u32 = u32::MAX;

/// Phase of slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// The window grows by the bytes acknowledged.
    #[default]
    SlowStart,
    /// The window grows by a quarter of the bytes acknowledged.
    Conservative,
    /// Slow start is over: ssthresh becomes the current window.
    Over,
}

/// State of HyStart++: the minimum RTTs of the current and the previous round, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HyStart {
    phase: Phase,
    samples: u8,
    css_rounds: u8,
    last_min: u32,
    current_min: u32,
    baseline: u32,
}

impl Default for HyStart {
    fn default() -> HyStart {
        HyStart {
            phase: Phase::SlowStart,
            samples: 0,
            css_rounds: 0,
            last_min: UNKNOWN,
            current_min: UNKNOWN,
            baseline: UNKNOWN,
        }
    }
}

impl HyStart {
    /// Processes an ACK in slow start and returns the phase.
    pub fn on_ack(&mut self, rtt_us: Option<u32>, round_start: bool) -> Phase {
        if round_start {
            self.begin_round();
        }
        if let Some(us) = rtt_us {
            self.current_min = self.current_min.min(us.min(UNKNOWN - 1));
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= N_RTT_SAMPLE {
            match self.phase {
                Phase::SlowStart if self.delay_has_grown() => {
                    (self.phase, self.baseline, self.css_rounds) = (Phase::Conservative, self.current_min, 0);
                }
                Phase::Conservative if self.current_min < self.baseline => {
                    (self.phase, self.baseline) = (Phase::SlowStart, UNKNOWN);
                }
                _ => {}
            }
        }
        self.phase
    }

    fn begin_round(&mut self) {
        (self.last_min, self.current_min, self.samples) = (self.current_min, UNKNOWN, 0);
        if self.phase == Phase::Conservative {
            // The round in which conservative slow start began is one of the five, although it was
            // partial.
            self.css_rounds = self.css_rounds.saturating_add(1);
            if self.css_rounds >= CSS_ROUNDS {
                self.phase = Phase::Over;
            }
        }
    }

    fn delay_has_grown(&self) -> bool {
        let threshold = (self.last_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        self.last_min != UNKNOWN
            && self.current_min != UNKNOWN
            && self.current_min >= self.last_min.saturating_add(threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a round of `acks` ACKs that each measure `rtt_ms`; returns the phase after the last.
    fn round(hystart: &mut HyStart, rtt_ms: u32, acks: u32) -> Phase {
        let rtt = Some(rtt_ms * 1000);
        (0..acks).map(|nth| hystart.on_ack(rtt, nth == 0)).last().unwrap()
    }

    #[test]
    fn a_steady_round_trip_keeps_slow_start() {
        let mut hystart = HyStart::default();
        for _ in 0..20 {
            assert_eq!(round(&mut hystart, 100, 20), Phase::SlowStart);
        }
    }

    #[test]
    fn rtt_growth_starts_conservative_slow_start_for_five_rounds() {
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 100, 10), Phase::SlowStart);
        assert_eq!(round(&mut hystart, 112, 7), Phase::SlowStart, "seven samples are too few");
        assert_eq!(hystart.on_ack(Some(112_000), false), Phase::SlowStart, "12 ms are below 12.5");
        assert_eq!(round(&mut hystart, 125, 7), Phase::SlowStart);
        assert_eq!(hystart.on_ack(Some(126_000), false), Phase::SlowStart, "13 are below 14");
        assert_eq!(round(&mut hystart, 141, 8), Phase::Conservative);
        for _ in 0..4 {
            assert_eq!(round(&mut hystart, 150, 8), Phase::Conservative);
        }
        assert_eq!(hystart.on_ack(None, true), Phase::Over);
    }

    #[test]
    fn the_threshold_is_4_to_16_ms() {
        for (base, below, enough) in [(1, 4, 5), (400, 415, 416)] {
            let mut hystart = HyStart::default();
            round(&mut hystart, base, 8);
            assert_eq!(round(&mut hystart.clone(), below, 8), Phase::SlowStart);
            assert_eq!(round(&mut hystart, enough, 8), Phase::Conservative);
        }
    }

    #[test]
    fn jitter_returns_to_slow_start() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 50, 8);
        assert_eq!(round(&mut hystart, 80, 8), Phase::Conservative);
        assert_eq!(round(&mut hystart, 79, 8), Phase::SlowStart, "below the baseline: the delay was not a queue");
    }

    #[test]
    fn a_round_without_measurements_decides_nothing() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 50, 8);
        assert!((0..50).all(|nth| hystart.on_ack(None, nth == 0) == Phase::SlowStart));
        assert_eq!(round(&mut hystart, 500, 8), Phase::SlowStart, "there is nothing to compare with");
    }
}
