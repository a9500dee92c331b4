//! The verdict on a comparison: `faster`, `slower`, `no difference shown`, `inconclusive`, or
//! `unfit`.
//!
//! A ratio is above 1 if the second side is faster. The noise floor comes from the ratio of two
//! sides with equal settings, built separately in the same rounds: it is the farther end of its
//! 95 % interval, and at least 1 %, the effect of code placement alone. The rules, in this order:
//! 1. fewer than 8 builds: inconclusive;
//! 2. a floor above 25 %: unfit, this machine cannot show a difference now;
//! 3. the 99 % interval excludes 1 and the estimate is beyond the floor: faster or slower;
//! 4. the 95 % interval lies within the floor on both sides of 1: no difference shown;
//! 5. else inconclusive, with the smallest difference that this number of builds would find.
//!
//! Rule 3 uses 99 % because with a 95 % interval and the floor, 1.4 % of equal sides are judged
//! different, but with 99 % only 0.6 %. `linerate lab selftest` measures these shares on real rigs,
//! the tests of this module on simulated ones. No verdict claims that two sides are equal, and
//! there is no correction for multiple comparisons. The number of builds that would settle an
//! inconclusive case is not given, since a number computed from the current estimate is wrong more
//! than one time in five.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sample::rank::FIVE_PER_CENT;
use crate::sample::{Ratio, Sample, StatError};

/// Minimum noise floor: differences up to 1 % are never reported.
const LEAST_FLOOR: f64 = 0.01;
/// Noise floor above which the machine is unfit.
const MOST_FLOOR: f64 = 0.25;
/// Minimum number of pairs: with fewer there is no 99 % interval, and the floor is not reliable.
const LEAST_PAIRS: u32 = 8;
/// Distance of a difference from zero, in standard deviations of its estimate, at which four of
/// five comparisons detect it. In theory it is 2.58 + 0.84, but the standard deviation is itself an
/// estimate. This value, and that of the next constant (theory: 0.84), come from simulations: with
/// them 84 % of the differences are detected, with the values of the theory 73 %.
const CLEAR_OF_CHANCE: f64 = 4.0;
const CLEAR_OF_FLOOR: f64 = 1.5;

/// Noise floor: the ratio of two sides with equal settings, built separately.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Estimate of the ratio, whose true value is 1.
    pub ratio: f64,
    /// Lower end of the 95 % interval of `ratio`.
    pub lo: f64,
    /// Upper end of the 95 % interval of `ratio`.
    pub hi: f64,
    /// Number of pairs of builds.
    pub n: u32,
}

impl NoiseFloor {
    /// The floor of a run without comparisons: n is 0, the interval is [1, 1].
    pub const NONE: NoiseFloor = NoiseFloor { ratio: 1.0, lo: 1.0, hi: 1.0, n: 0 };

    /// Computes the floor from the samples of a side and its twin.
    ///
    /// # Errors
    /// Any [`StatError`].
    pub fn of(side: &Sample, twin: &Sample) -> Result<NoiseFloor, StatError> {
        Ratio::paired(&side.values(), &twin.values()).map(NoiseFloor::from)
    }

    /// Returns the largest difference that is treated as noise, in per cent; at least 1.
    pub fn percent(&self) -> f64 {
        percent(self.log())
    }

    /// Returns whether the floor is too high for any comparison.
    pub fn is_unfit(&self) -> bool {
        self.n >= LEAST_PAIRS && self.log() > MOST_FLOOR.ln_1p()
    }

    /// Returns the floor on the logarithmic scale.
    fn log(&self) -> f64 {
        self.lo.ln().abs().max(self.hi.ln().abs()).max(LEAST_FLOOR.ln_1p())
    }
}

impl From<Ratio> for NoiseFloor {
    fn from(ratio: Ratio) -> NoiseFloor {
        NoiseFloor { ratio: ratio.median, lo: ratio.lo, hi: ratio.hi, n: ratio.n }
    }
}

fn percent(log: f64) -> f64 {
    (log.exp() - 1.0) * 100.0
}

/// The outcome of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// The second side is faster.
    Faster,
    /// The second side is slower.
    Slower,
    /// Any difference is within the noise floor.
    NoDifferenceShown {
        /// Noise floor in per cent.
        floor_pct: f64,
    },
    /// Neither a difference nor its absence is shown.
    Inconclusive {
        /// The smallest true difference that four in five such comparisons would show, in per cent;
        /// `None` with fewer than 8 builds, which show no difference.
        shows_pct: Option<f64>,
    },
    /// The noise floor is above 25 %.
    Unfit {
        /// Noise floor in per cent.
        floor_pct: f64,
    },
}

impl Verdict {
    /// Returns whether the verdict claims a difference.
    pub fn is_firm(&self) -> bool {
        matches!(self, Verdict::Faster | Verdict::Slower)
    }
}

/// Factor by which the deviation that is derived from an interval is enlarged, to compute the
/// smallest difference that would show. The interval of a few builds may be too short, above all if
/// some builds are disturbed or are in another mode.
const OF_FEW_BUILDS: f64 = 2.0;

/// Judges `ratio` (above 1 if the second side is better) against the noise floor of its rounds.
pub fn judge(ratio: &Ratio, floor: &NoiseFloor) -> Verdict {
    let (estimate, band) = (ratio.median.ln(), floor.log());
    let Some((lo, hi)) = ratio.firm else { return Verdict::Inconclusive { shows_pct: None } };
    if floor.is_unfit() {
        return Verdict::Unfit { floor_pct: floor.percent() };
    }
    if estimate.abs() > band && (lo > 1.0 || hi < 1.0) {
        return if estimate > 0.0 { Verdict::Faster } else { Verdict::Slower };
    }
    if ratio.lo.ln() >= -band && ratio.hi.ln() <= band {
        return Verdict::NoDifferenceShown { floor_pct: floor.percent() };
    }
    // The deviation is only an estimate from this interval, and another run would have another
    // floor.
    let deviation = OF_FEW_BUILDS * (ratio.hi.ln() - ratio.lo.ln()) / 2.0 / FIVE_PER_CENT.z();
    let shows = (deviation * CLEAR_OF_CHANCE).max(band + deviation * CLEAR_OF_FLOOR);
    Verdict::Inconclusive { shows_pct: Some(percent(shows)) }
}

/// Rounds a value in per cent to one decimal.
fn short(pct: f64) -> f64 {
    (pct * 10.0).round() / 10.0
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Faster => f.pad("faster"),
            Verdict::Slower => f.pad("slower"),
            Verdict::NoDifferenceShown { floor_pct } => {
                f.pad(&format!("no difference shown (noise floor {} %)", short(*floor_pct)))
            }
            Verdict::Inconclusive { shows_pct: None } => f.pad("inconclusive (too few builds)"),
            Verdict::Inconclusive { shows_pct: Some(pct) } => {
                f.pad(&format!("inconclusive ({} % and more would show)", short(*pct)))
            }
            Verdict::Unfit { floor_pct } => f.pad(&format!("unfit (noise floor {} %)", short(*floor_pct))),
        }
    }
}

/// Parse error: the text is not a verdict.
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
        let pct = |before: &str, after: &str| {
            text.strip_prefix(before).and_then(|text| text.strip_suffix(after)).and_then(|text| text.parse().ok())
        };
        match text {
            "faster" => Ok(Verdict::Faster),
            "slower" => Ok(Verdict::Slower),
            "inconclusive (too few builds)" => Ok(Verdict::Inconclusive { shows_pct: None }),
            _ => {
                let shown = pct("no difference shown (noise floor ", " %)")
                    .map(|floor_pct| Verdict::NoDifferenceShown { floor_pct });
                let open = || {
                    pct("inconclusive (", " % and more would show)")
                        .map(|pct| Verdict::Inconclusive { shows_pct: Some(pct) })
                };
                let unfit = || pct("unfit (noise floor ", " %)").map(|floor_pct| Verdict::Unfit { floor_pct });
                shown.or_else(open).or_else(unfit).ok_or_else(|| NotAVerdict(text.to_owned()))
            }
        }
    }
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
