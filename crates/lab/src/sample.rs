//! Samples: a side's trials, reduced to a median with a 95 % interval.
//!
//! *The unit of replication is the build* ([`crate::side`]): a side is built anew for every round,
//! and the trials of a round are first reduced to their median. Every n, interval and ratio is over
//! builds, never over trials of one build.
//!
//! *Median of one sample*: the interval between two order statistics. Its coverage is binomial and
//! valid for every distribution (Hahn and Meeker, Statistical Intervals, 5.2; NIST handbook 7.2).
//! The bootstrap was rejected: for a median it resamples the same few order statistics and covers
//! less than it claims at n = 10.
//!
//! *Ratio of two samples*: the Hodges-Lehmann estimate on the logarithms of paired builds, with the
//! interval that inverts Wilcoxon's signed-rank test (Hollander, Wolfe, Chicken, Nonparametric
//! Statistical Methods, 3.1-3.3). Effects on both sides of a pair cancel; the null distribution is
//! exact; one outlier has little influence; and for normal noise it needs only pi/3 = 1.05 times
//! the builds of Student's t. It requires symmetry, which two sides with equal settings have by
//! construction. It gives two intervals: 95 %, which is printed, and 99 %, which verdicts use.
//!
//! Outliers are counted ([`Summary::outliers`]) and kept. Only *disturbed* trials are dropped: see
//! [`crate::run`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::subject::Reading;
use crate::table;

pub mod rank;

/// Reason for dropping a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// The hypervisor took the processor away (`steal` in /proc/stat).
    Steal,
    /// The thread had the processor for less than the required share of the time.
    CpuShare,
    /// The tick counter and the wall clock disagree: one of them was stepped.
    Clock,
    /// The core was slower than usual when the trial ended.
    Slow,
    /// A side failed in this round, and the round was repeated.
    Round,
}

/// One trial of a subject, with its readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Number of the round and of the build: each round has one build of each side.
    pub round: u32,
    /// Readings of the clocks.
    pub reading: Reading,
    /// The disturbance, if there was one.
    pub disturbed: Option<Disturbance>,
}

/// All trials of one side in one run. Samples of a run are paired by build: build i of one sample
/// with build i of another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Identifier of the side.
    pub id: String,
    /// The trials kept, in order of their rounds; each round has one or more trials.
    pub trials: Vec<Trial>,
    /// The trials that were disturbed, dropped and replaced.
    pub dropped: Vec<Trial>,
    /// Set if too many trials were disturbed to replace them all, so that some were kept.
    pub noisy: bool,
    /// Reason for a missing figure: the side could not be built, or its trials failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Failures of builds or trials; each cost a round, which was repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Reason for fewer rounds than requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

impl Sample {
    /// Returns an empty sample with identifier `id`.
    pub fn new(id: &str) -> Sample {
        Sample { id: id.to_owned(), ..Sample::default() }
    }

    /// Returns the ticks per operation, one value per build: the median of its trials.
    pub fn values(&self) -> Vec<f64> {
        let builds = self.trials.chunk_by(|a, b| a.round == b.round);
        builds.map(|trials| median(&trials.iter().map(|t| t.reading.ticks_per_op()).collect::<Vec<_>>())).collect()
    }

    /// Returns the median and spread of [`Sample::values`].
    ///
    /// # Errors
    /// [`StatError::Empty`] without builds, [`StatError::NotPositive`] if a value is not positive.
    pub fn summary(&self) -> Result<Summary, StatError> {
        Summary::of(&self.values())
    }
}

/// Reason for a missing figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatError {
    /// The sample has no values.
    Empty,
    /// A value is zero, negative or not finite, so it has no ratio or logarithm.
    NotPositive {
        /// Index of the value, from 0.
        index: usize,
    },
    /// The two samples have different numbers of values.
    Unpaired {
        /// Number of values in the first sample.
        left: usize,
        /// Number of values in the second sample.
        right: usize,
    },
}

impl fmt::Display for StatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatError::Empty => write!(f, "no values"),
            StatError::NotPositive { index } => write!(f, "value {index} is not positive"),
            StatError::Unpaired { left, right } => write!(f, "{left} values cannot be paired with {right}"),
        }
    }
}

impl std::error::Error for StatError {}

/// Median and spread of one sample, in the sample's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Median of the values.
    pub median: f64,
    /// Lower end of the median's interval.
    pub lo: f64,
    /// Upper end of the median's interval.
    pub hi: f64,
    /// Coverage of the interval: at least 0.95 with 6 or more values, less with fewer.
    pub coverage: f64,
    /// Median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// Values farther than 5 scaled MAD (1.4826 MAD is one standard deviation of normal noise) from
    /// the median.
    pub outliers: u32,
    /// Number of values in the sample.
    pub n: u32,
    /// The least and the greatest value.
    pub range: [f64; 2],
}

impl Summary {
    /// Summarises `values`, in any order.
    ///
    /// # Errors
    /// [`StatError::Empty`], or [`StatError::NotPositive`] for the first value that is not a
    /// positive number.
    pub fn of(values: &[f64]) -> Result<Summary, StatError> {
        check(values)?;
        let sorted = sorted(values);
        let median = middle(&sorted);
        let mad = self::median(&sorted.iter().map(|value| (value - median).abs()).collect::<Vec<_>>());
        let outliers = sorted.iter().filter(|value| (*value - median).abs() > 5.0 * 1.4826 * mad).count() as u32;
        let (skip, coverage) = rank::median_interval(sorted.len(), rank::FIVE_PER_CENT);
        let (lo, hi) = (sorted[skip], sorted[sorted.len() - 1 - skip]);
        let range = [sorted[0], sorted[sorted.len() - 1]];
        Ok(Summary { median, lo, hi, coverage, mad, outliers, n: sorted.len() as u32, range })
    }

    /// Returns half the interval's width relative to the median: the `±` of the figure.
    pub fn spread(&self) -> f64 {
        (self.hi - self.lo) / 2.0 / self.median
    }
}

/// Ratio of one sample to another, paired by build.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Hodges-Lehmann estimate of the ratio.
    pub median: f64,
    /// Lower end of the 95 % interval.
    pub lo: f64,
    /// Upper end of the 95 % interval.
    pub hi: f64,
    /// Coverage of the interval: at least 0.95 with 6 or more pairs, less with fewer.
    pub coverage: f64,
    /// Ends of the 99 % interval, which verdicts use; `None` with fewer than 8 pairs, which do not
    /// reach 99 %.
    pub firm: Option<(f64, f64)>,
    /// Number of pairs of builds.
    pub n: u32,
}

impl Ratio {
    /// Estimates the ratio of `over[i] / under[i]`. With costs, `Ratio::paired(before, after)` is
    /// the speed-up of `after`.
    ///
    /// # Errors
    /// Any [`StatError`].
    pub fn paired(over: &[f64], under: &[f64]) -> Result<Ratio, StatError> {
        if over.len() != under.len() {
            return Err(StatError::Unpaired { left: over.len(), right: under.len() });
        }
        check(over)?;
        check(under)?;
        let logs: Vec<f64> = over.iter().zip(under).map(|(a, b)| (a / b).ln()).collect();
        let rank::Centre { estimate, shown: (lo, hi, coverage), firm } = rank::hodges_lehmann(&logs);
        let firm = (firm.2 >= 0.99).then_some((firm.0.exp(), firm.1.exp()));
        Ok(Ratio { median: estimate.exp(), lo: lo.exp(), hi: hi.exp(), coverage, firm, n: logs.len() as u32 })
    }

    /// Formats the estimate and its interval with `digits` decimals; with fewer than 6 pairs, the
    /// range in place of the interval.
    pub fn show(&self, digits: usize) -> String {
        table::spread([self.median, self.lo, self.hi], self.n, |value| format!("{value:.digits$}"))
    }

    /// Returns the inverse ratio, of the second sample to the first.
    pub fn inverse(&self) -> Ratio {
        let firm = self.firm.map(|(lo, hi)| (1.0 / hi, 1.0 / lo));
        Ratio { median: 1.0 / self.median, lo: 1.0 / self.hi, hi: 1.0 / self.lo, firm, ..*self }
    }

    /// Returns whether 1, no difference, lies inside the 95 % interval.
    pub fn includes_one(&self) -> bool {
        self.lo <= 1.0 && self.hi >= 1.0
    }
}

fn check(values: &[f64]) -> Result<(), StatError> {
    if values.is_empty() {
        return Err(StatError::Empty);
    }
    match values.iter().position(|value| !(value.is_finite() && *value > 0.0)) {
        Some(index) => Err(StatError::NotPositive { index }),
        None => Ok(()),
    }
}

/// Returns the median of `values`, in any order. Panics if there are none.
pub fn median(values: &[f64]) -> f64 {
    middle(&sorted(values))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Returns the median of sorted values: of an even number, the mean of the two middle ones. Panics
/// on an empty slice.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

#[cfg(test)]
mod tests;
