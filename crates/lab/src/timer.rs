//! Cost of the timer itself, and the tick rate.
//!
//! [`cost`] is the median distance in ticks between two back-to-back readings, which is the reading
//! of an empty measured region. [`crate::subject::measure`] subtracts it, and every
//! [`crate::env::Environment`] contains it.

use std::sync::OnceLock;
use std::time::Duration;

use crate::{os, tsc};

/// Number of readings for [`cost`]: enough that one or two interrupts cannot move the median; about
/// 0.2 ms in all.
const READS: usize = 4001;
/// Duration for which [`rate`] compares both clocks.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Tick rate and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Number of ticks per second.
    pub hz: u64,
    /// `cpuid 0x15` or `calibrated against CLOCK_MONOTONIC`.
    pub source: &'static str,
}

impl Rate {
    /// Converts ticks to nanoseconds.
    pub fn ns(self, ticks: f64) -> f64 {
        ticks * 1e9 / self.hz as f64
    }
}

/// Returns the ticks of an empty measured region. Measured once per process.
pub fn cost() -> u64 {
    static COST: OnceLock<u64> = OnceLock::new();
    *COST.get_or_init(|| median_gap(tsc::now, READS))
}

/// Returns the tick rate. Measured once per process (20 ms), unless the processor reports it.
pub fn rate() -> Rate {
    static RATE: OnceLock<Rate> = OnceLock::new();
    *RATE.get_or_init(|| match tsc::stated_hz() {
        Some(hz) => Rate { hz, source: "cpuid 0x15" },
        None => Rate { hz: calibrate(CALIBRATION), source: "calibrated against CLOCK_MONOTONIC" },
    })
}

fn median_gap(mut now: impl FnMut() -> u64, reads: usize) -> u64 {
    let mut gaps: Vec<u64> = (0..reads)
        .map(|_| {
            let start = now();
            now().saturating_sub(start)
        })
        .collect();
    gaps.sort_unstable();
    gaps.get(reads / 2).copied().unwrap_or(0)
}

fn calibrate(span: Duration) -> u64 {
    let (start_ticks, start_ns) = both_clocks();
    while os::monotonic_ns() - start_ns < span.as_nanos() as u64 {
        std::hint::spin_loop();
    }
    let (end_ticks, end_ns) = both_clocks();
    let (ticks, ns) = (end_ticks.saturating_sub(start_ticks), end_ns.saturating_sub(start_ns).max(1));
    (u128::from(ticks) * 1_000_000_000 / u128::from(ns)) as u64
}

/// Reads both clocks at one moment: of several attempts, the one with the shortest time between the
/// readings.
fn both_clocks() -> (u64, u64) {
    let attempts = (0..16).map(|_| {
        let before = tsc::now();
        let ns = os::monotonic_ns();
        let after = tsc::now();
        let gap = after.saturating_sub(before);
        (gap, before + gap / 2, ns)
    });
    let (_, ticks, ns) = attempts.min().unwrap_or((0, tsc::now(), os::monotonic_ns()));
    (ticks, ns)
}

#[cfg(test)]
mod tests;
