//! The word under a comparison: `faster`, `slower`, `no difference shown`, or `inconclusive (...)`.
//!
//! A ratio here says how many times better the second of two is, so above 1 is faster. The noise floor is what A against A
//! showed in the same run: the farther end of that ratio's interval. Then, in this order:
//! 1. the estimate is beyond the floor and the interval excludes 1: faster or slower;
//! 2. the interval lies within the floor or 1 %, whichever is wider, on both sides of 1: no difference shown;
//! 3. else inconclusive, with the trials that would probably settle it.
//!
//! Not here: any claim that two things are equal, and any correction for looking at many comparisons.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sample::rank::Z95;
use crate::sample::{Ratio, Sample, StatError};

/// Differences up to 1 % are called none if the floor does not ask for more.
const LEAST_BAND: f64 = 0.01;
/// The normal distribution's 80 % point: the chance that the trials asked for do settle a true difference.
const Z80: f64 = 0.841_621_233_572_914_2;
/// Its 90 % point: both ends must come inside the band, each with 90 %, for both to do so with 80 %.
const Z90: f64 = 1.281_551_565_544_600_4;
/// With fewer pairs no interval reaches 95 % (see [`crate::sample`]).
const LEAST_PAIRS: u32 = 6;
/// Signed ranks need this many times the trials of the normal theory (1 / their efficiency of 3/pi).
const RANK_FACTOR: f64 = std::f64::consts::PI / 3.0;

/// What A against A showed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// The estimate, 1 but for chance.
    pub ratio: f64,
    /// Lower end of its interval.
    pub lo: f64,
    /// Upper end of its interval.
    pub hi: f64,
    /// How many pairs.
    pub n: u32,
}

impl NoiseFloor {
    /// From two samples of one subject, taken in turn.
    ///
    /// # Errors
    /// Every [`StatError`].
    pub fn of(a: &Sample, again: &Sample) -> Result<NoiseFloor, StatError> {
        Ratio::paired(&a.values(), &again.values()).map(NoiseFloor::from)
    }

    /// The largest difference that may be noise, in per cent.
    pub fn percent(&self) -> f64 {
        (self.log().exp() - 1.0) * 100.0
    }

    fn log(&self) -> f64 {
        self.lo.ln().abs().max(self.hi.ln().abs())
    }
}

impl From<Ratio> for NoiseFloor {
    fn from(ratio: Ratio) -> NoiseFloor {
        NoiseFloor { ratio: ratio.median, lo: ratio.lo, hi: ratio.hi, n: ratio.n }
    }
}

/// What a comparison shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// The second is faster.
    Faster,
    /// The second is slower.
    Slower,
    /// If there is a difference, it is within the noise floor or 1 %.
    NoDifferenceShown,
    /// Neither can be said.
    Inconclusive {
        /// With so many trials more ...
        more_trials: u32,
        /// ... a true difference of this many per cent would be found four times in five. Where this is the band of rule 2,
        /// the absence of any difference would be shown as often.
        would_settle_pct: f64,
    },
}

/// The verdict on `ratio` (how many times better the second is) against the noise floor of the same run.
pub fn judge(ratio: &Ratio, floor: &NoiseFloor) -> Verdict {
    let (estimate, floor) = (ratio.median.ln(), floor.log());
    let band = floor.max(LEAST_BAND.ln_1p());
    let enough = ratio.n >= LEAST_PAIRS;
    if enough && estimate.abs() > floor && !ratio.includes_one() {
        return if estimate > 0.0 { Verdict::Faster } else { Verdict::Slower };
    }
    if enough && ratio.lo.ln() >= -band && ratio.hi.ln() <= band {
        return Verdict::NoDifferenceShown;
    }
    inconclusive(ratio, band)
}

/// How many trials until the estimate, if true, stands clear of 1; or, if it is within the band, until the interval
/// fits into the band. The spread is read off the interval in hand, which shrinks with the root of the trials.
fn inconclusive(ratio: &Ratio, band: f64) -> Verdict {
    let n = f64::from(ratio.n);
    let deviation = (ratio.hi.ln() - ratio.lo.ln()) / 2.0 * n.sqrt() / Z95;
    let estimate = ratio.median.ln().abs();
    let (settled, z) = if estimate > band { (estimate, Z95 + Z80) } else { (band, Z95 + Z90) };
    let needed = ((z * deviation / settled).powi(2) * RANK_FACTOR).ceil().max(f64::from(LEAST_PAIRS));
    Verdict::Inconclusive { more_trials: (needed - n).max(1.0) as u32, would_settle_pct: (settled.exp() - 1.0) * 100.0 }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Faster => f.pad("faster"),
            Verdict::Slower => f.pad("slower"),
            Verdict::NoDifferenceShown => f.pad("no difference shown"),
            Verdict::Inconclusive { more_trials, would_settle_pct } => {
                let pct = (would_settle_pct * 10.0).round() / 10.0; // shown as 1, 2.5, 17
                f.pad(&format!("inconclusive ({more_trials} more trials would settle {pct} %)"))
            }
        }
    }
}

/// The text is none of the four verdicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAVerdict(pub String);

impl fmt::Display for NotAVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a verdict: {:?}", self.0)
    }
}

impl std::error::Error for NotAVerdict {}

impl FromStr for Verdict {
    type Err = NotAVerdict;

    fn from_str(text: &str) -> Result<Verdict, NotAVerdict> {
        match text {
            "faster" => Ok(Verdict::Faster),
            "slower" => Ok(Verdict::Slower),
            "no difference shown" => Ok(Verdict::NoDifferenceShown),
            _ => parse_inconclusive(text).ok_or_else(|| NotAVerdict(text.to_owned())),
        }
    }
}

fn parse_inconclusive(text: &str) -> Option<Verdict> {
    let inside = text.strip_prefix("inconclusive (")?.strip_suffix(" %)")?;
    let (trials, pct) = inside.split_once(" more trials would settle ")?;
    Some(Verdict::Inconclusive { more_trials: trials.parse().ok()?, would_settle_pct: pct.parse().ok()? })
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Verdict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Verdict, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
pub(crate) mod synthetic;
#[cfg(test)]
mod tests;
