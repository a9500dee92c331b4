//! Samples: what a subject's trials gave, reduced to a middle with a 95 % interval.
//!
//! *Median of one sample*: the interval between two order statistics, whose coverage is binomial and holds for every
//! distribution (Hahn and Meeker, Statistical Intervals, 5.2; NIST handbook 7.2). The bootstrap was rejected: for a median
//! it resamples the same few order statistics and covers less than it claims at n = 10.
//!
//! *Ratio of two samples*: the Hodges-Lehmann estimate on the logarithms of paired trials, with the interval that inverts
//! Wilcoxon's signed-rank test (Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, 3.1-3.3). What hits both
//! sides of a pair cancels; the null distribution is exact; one wild trial moves it little; and for normal noise it needs
//! only pi/3 = 1.05 times the trials that Student's t does. It asks for symmetry, which A against A has by construction.
//!
//! Outliers are counted ([`Summary::outliers`]) and kept. Trials that were *disturbed* are another matter: see [`crate::run`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::subject::Reading;

pub mod rank;

/// What made a trial unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// The hypervisor ran somebody else on this processor (`steal` in /proc/stat).
    Steal,
    /// The thread had the processor for less of the time than asked for.
    CpuShare,
}

/// One trial of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// Trials of one round were made one after another and are a pair.
    pub round: u32,
    /// What was read.
    pub reading: Reading,
    /// What disturbed it, if anything did.
    pub disturbed: Option<Disturbance>,
}

/// All trials of one subject in one run; trial i of one sample is the partner of trial i of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The subject's name.
    pub id: String,
    /// The trials kept, one per round.
    pub trials: Vec<Trial>,
    /// The trials dropped as disturbed, and replaced.
    pub dropped: Vec<Trial>,
    /// Too many were disturbed to replace them all: some disturbed trials are among those kept.
    pub noisy: bool,
}

impl Sample {
    /// Ticks per operation, trial by trial.
    pub fn values(&self) -> Vec<f64> {
        self.trials.iter().map(|trial| trial.reading.ticks_per_op()).collect()
    }

    /// Middle and spread of [`Sample::values`].
    ///
    /// # Errors
    /// [`StatError::Empty`] without trials, [`StatError::NotPositive`] if one measured nothing.
    pub fn summary(&self) -> Result<Summary, StatError> {
        Summary::of(&self.values())
    }
}

/// Why there is no figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatError {
    /// There are no values.
    Empty,
    /// Value number `index` is zero, negative or not finite: no ratio, no logarithm.
    NotPositive {
        /// Its place, from 0.
        index: usize,
    },
    /// The two samples have different numbers of trials.
    Unpaired {
        /// Trials of the first.
        left: usize,
        /// Trials of the second.
        right: usize,
    },
}

impl fmt::Display for StatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatError::Empty => write!(f, "no trials"),
            StatError::NotPositive { index } => write!(f, "trial {index} has no positive value"),
            StatError::Unpaired { left, right } => write!(f, "{left} trials cannot be paired with {right}"),
        }
    }
}

impl std::error::Error for StatError {}

/// Middle and spread of one sample, in the sample's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// Lower end of the median's interval.
    pub lo: f64,
    /// Upper end of the median's interval.
    pub hi: f64,
    /// What the interval covers: at least 0.95 from 6 values on, less below.
    pub coverage: f64,
    /// Median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// Values farther than 5 scaled MAD (1.4826 MAD is one standard deviation of normal noise) from the median.
    pub outliers: u32,
    /// How many values.
    pub n: u32,
}

impl Summary {
    /// Summarises `values`, in any order.
    ///
    /// # Errors
    /// [`StatError::Empty`], or [`StatError::NotPositive`] for the first value that is not a positive number.
    pub fn of(values: &[f64]) -> Result<Summary, StatError> {
        check(values)?;
        let sorted = sorted(values);
        let median = middle(&sorted);
        let mad = middle(&self::sorted(&sorted.iter().map(|value| (value - median).abs()).collect::<Vec<_>>()));
        let outliers = sorted.iter().filter(|value| (*value - median).abs() > 5.0 * 1.4826 * mad).count() as u32;
        let (skip, coverage) = rank::median_interval(sorted.len());
        let (lo, hi) = (sorted[skip], sorted[sorted.len() - 1 - skip]);
        Ok(Summary { median, lo, hi, coverage, mad, outliers, n: sorted.len() as u32 })
    }

    /// Half the interval's width relative to the median: the `±` of the figure.
    pub fn spread(&self) -> f64 {
        (self.hi - self.lo) / 2.0 / self.median
    }
}

/// How many times as large one sample is as the other, pair by pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The estimate.
    pub median: f64,
    /// Lower end of its interval.
    pub lo: f64,
    /// Upper end of its interval.
    pub hi: f64,
    /// What the interval covers: at least 0.95 from 6 pairs on, less below.
    pub coverage: f64,
    /// How many pairs.
    pub n: u32,
}

impl Ratio {
    /// `over[i] / under[i]`, reduced. With costs, `Ratio::paired(before, after)` says how many times faster `after` is.
    ///
    /// # Errors
    /// Every [`StatError`].
    pub fn paired(over: &[f64], under: &[f64]) -> Result<Ratio, StatError> {
        if over.len() != under.len() {
            return Err(StatError::Unpaired { left: over.len(), right: under.len() });
        }
        check(over)?;
        check(under)?;
        let logs: Vec<f64> = over.iter().zip(under).map(|(a, b)| (a / b).ln()).collect();
        let ((lo, middle, hi), coverage) = rank::hodges_lehmann(&logs);
        Ok(Ratio { median: middle.exp(), lo: lo.exp(), hi: hi.exp(), coverage, n: logs.len() as u32 })
    }

    /// The same comparison seen from the other side.
    pub fn inverse(&self) -> Ratio {
        Ratio { median: 1.0 / self.median, lo: 1.0 / self.hi, hi: 1.0 / self.lo, ..*self }
    }

    /// Is 1, no difference, inside the interval?
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

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The middle of ordered values, the mean of the two middle ones if they are even in number. Not for empty slices.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

#[cfg(test)]
mod tests;
