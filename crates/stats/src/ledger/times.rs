//! Times of the stages of a ledger, as histograms.

use super::samples::{BUCKETS, Samples};
use super::{Ledger, STAGES, Stage};
use std::boxed::Box;
use std::vec::Vec;

/// Histogram of the time of a stage for each frame or call, in a sample of its bookings. The times
/// include the cost of the ledger's readings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StageTimes {
    /// Stage of the path that was measured.
    pub stage: Stage,
    /// Numbers of samples up to each bound of [`STAGE_BOUNDS_NS`](super::STAGE_BOUNDS_NS), and
    /// beyond the last.
    pub buckets: [u64; BUCKETS],
    /// Sum of the samples in picoseconds.
    pub sum_ps: u64,
}

impl Ledger {
    /// Switches booking on or off as [`Ledger::set_on`] does. While it is on, a sample of the
    /// bookings is kept by time ([`Ledger::times`]); `hertz` is the rate of the tick counter.
    pub fn set_on_with_times(&self, on: bool, now: u64, hertz: u64) {
        if on {
            self.samples.get_or_init(|| Box::new(Samples::new(STAGES, hertz)));
        }
        self.set_on(on, now);
    }

    /// Returns the histograms of all stages with samples, in the order of the path.
    pub fn times(&self) -> impl Iterator<Item = StageTimes> + '_ {
        let sums = self.samples.get().into_iter().flat_map(|samples| samples.sums());
        let times = Stage::ALL.iter().zip(sums);
        let times = times.map(|(&stage, (buckets, sum_ps))| StageTimes { stage, buckets, sum_ps });
        times.filter(|times| times.buckets != [0; BUCKETS])
    }
}

impl StageTimes {
    /// Returns the sums of the histograms of `ledgers`, in the order of the path.
    pub fn of<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>) -> Vec<StageTimes> {
        let mut all = Vec::new();
        ledgers.into_iter().for_each(|ledger| StageTimes::add_all(&mut all, ledger));
        all
    }

    /// Adds the histograms of `ledger` to `all`, which are in the order of the path.
    pub fn add_all(all: &mut Vec<StageTimes>, ledger: &Ledger) {
        for times in ledger.times() {
            match all.iter_mut().find(|sum| sum.stage == times.stage) {
                Some(sum) => {
                    sum.buckets.iter_mut().zip(times.buckets).for_each(|(sum, samples)| *sum += samples);
                    sum.sum_ps = sum.sum_ps.wrapping_add(times.sum_ps);
                }
                None => all.push(times),
            }
        }
        all.sort_by_key(|times| times.stage as usize);
    }
}
