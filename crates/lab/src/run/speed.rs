//! The speed of the core, measured by a few microseconds of known work.
//!
//! A guest's processor may lose half its speed for 5 to 50 ms at a time while steal time stays 0,
//! probably because the hypervisor gives it one thread of a core while the core's other thread is
//! busy. A probe takes 1.6 times as long then.

use std::collections::VecDeque;
use std::hint::black_box;

use crate::tsc;

/// Number of iterations of a probe, some microseconds in all.
const ITERATIONS: u64 = 2000;
/// Number of probes that the usual speed is computed from.
const REMEMBERED: usize = 64;
/// Ratio of a probe's time to the usual time above which the probe is slow. On an idle machine
/// probes differ by 1 %; with busy neighbors up to one in four is slow. If the frequency changes
/// for longer, the new speed becomes the usual one.
const SLOW: f64 = 1.1;

/// The usual speed of a core.
#[derive(Debug, Default)]
pub(super) struct Speed {
    recent: VecDeque<u64>,
}

impl Speed {
    /// Returns whether a probe of `ticks` is slow. If `remember` is set, first includes the probe
    /// in the usual speed.
    pub(super) fn is_slow(&mut self, ticks: u64, remember: bool) -> bool {
        if remember || self.recent.is_empty() {
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back(ticks);
        }
        ticks as f64 > SLOW * self.usual() as f64
    }

    /// Returns the lower quartile of the remembered probes.
    fn usual(&self) -> u64 {
        let mut sorted: Vec<u64> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 4).copied().unwrap_or(u64::MAX)
    }
}

/// Runs a probe and returns its ticks. A probe consists of independent chains of additions, so that
/// the core's full width is used.
pub(super) fn probe() -> u64 {
    let mut chains: [u64; 8] = black_box([1, 2, 3, 4, 5, 6, 7, 8]);
    let start = tsc::now();
    for step in 0..ITERATIONS {
        for chain in &mut chains {
            *chain = chain.wrapping_add(step) ^ (*chain >> 3);
        }
    }
    let end = tsc::now();
    black_box(chains);
    end.saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_slow_until_its_speed_is_usual() {
        let mut speed = Speed::default();
        assert!(!speed.is_slow(1000, true), "the first probe is all that is known");
        assert!((0..40).all(|n| !speed.is_slow(1000 + n, true)));
        assert!(speed.is_slow(1700, true) && speed.is_slow(1700, false) && !speed.is_slow(1050, true));
        let accepted = (0..REMEMBERED).position(|_| !speed.is_slow(1700, true));
        assert!(accepted.is_some_and(|n| n > REMEMBERED / 2), "{accepted:?}");
        assert!(!speed.is_slow(1000, true), "faster is never slow");
    }

    #[test]
    fn a_probe_takes_microseconds() {
        let least = (0..50).map(|_| probe()).min().unwrap();
        assert!(crate::timer::rate().ns(least as f64) > 500.0, "{least}");
    }
}
