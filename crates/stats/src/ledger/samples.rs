//! Histograms of the time of each stage, from a sample of the bookings.
//!
//! The first booking of each stage and every 64th after it is a sample. The count is by stage, so
//! that stages which follow each other in a fixed order all have samples.

use crate::Counter;
use std::boxed::Box;

/// One booking of this number is a sample. A power of two.
pub const SAMPLED: u64 = 64;

/// Upper bounds of the buckets of [`StageTimes`](super::StageTimes) in nanoseconds, each four times
/// the preceding one. A further bucket has the longer times.
pub const STAGE_BOUNDS_NS: [u64; 9] = [16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

/// Number of buckets.
pub(super) const BUCKETS: usize = STAGE_BOUNDS_NS.len() + 1;
const PICOSECONDS: f64 = 1e12;

/// Samples of a ledger, by the number of the stage.
#[derive(Debug)]
pub(super) struct Samples {
    /// Picoseconds for each tick of the counter.
    ps_per_tick: f64,
    stages: Box<[Histogram]>,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [Counter; BUCKETS],
    sum_ps: Counter,
}

impl Samples {
    /// Creates empty histograms for `stages` stages. `hertz` is the rate of the tick counter.
    pub(super) fn new(stages: usize, hertz: u64) -> Samples {
        let ps_per_tick = PICOSECONDS / hertz.max(1) as f64;
        Samples { ps_per_tick, stages: (0..stages).map(|_| Histogram::default()).collect() }
    }

    /// Adds a booking of `ticks` for `units` frames. Called by the thread of the ledger.
    pub(super) fn add(&self, stage: usize, ticks: u64, units: u64) {
        let ps = (ticks as f64 * self.ps_per_tick / units.max(1) as f64) as u64;
        let at = STAGE_BOUNDS_NS.partition_point(|bound| bound * 1000 < ps);
        let Some(histogram) = self.stages.get(stage) else { return };
        histogram.buckets[at].bump();
        histogram.sum_ps.add(ps);
    }

    /// Returns the number of samples in each bucket of each stage, and the sum of the samples of
    /// the stage in picoseconds.
    pub(super) fn sums(&self) -> impl Iterator<Item = ([u64; BUCKETS], u64)> + '_ {
        self.stages.iter().map(|stage| (stage.buckets.each_ref().map(Counter::get), stage.sum_ps.get()))
    }
}
