//! The live clock: a source and a representation of time, selected by a setting. Only modules that
//! own a thread read it.
//!
//! | strategy | word | source | representation | cost per reading |
//! |---|---|---|---|---|
//! | [`Strategy::Timespec`] | `timespec` | kernel | seconds, nanoseconds | the vDSO's |
//! | [`Strategy::TscTimespec`] | `timespec-tsc` | TSC | seconds, nanoseconds | two multiplies |
//! | [`Strategy::NsDivision`] | `ns` | TSC | 64-bit nanoseconds | two 64-bit divisions |
//! | [`Strategy::TscScaled`] | `tsc` | TSC | 64-bit nanoseconds | one multiply |
//!
//! The strategies `timespec-tsc` and `ns` are the configurations A and B of the report rtems2014.
//! Their source is the same, so only the representation differs.

use crate::{Instant, SimClock, tsc};
use std::fmt;
use std::str::FromStr;

/// Method by which a live clock converts the machine's time to an [`Instant`]. `linerate ladder`
/// and `linerate repro` measure the cost of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strategy {
    /// Reads seconds and nanoseconds from the kernel (vDSO `clock_gettime`).
    Timespec,
    /// Reads the TSC and computes seconds and nanoseconds without a division (configuration A of
    /// the report rtems2014). One multiplication converts ticks to seconds and a binary fraction,
    /// another converts the fraction to nanoseconds, as in FreeBSD's `bintime`.
    TscTimespec,
    /// Reads the TSC and divides (configuration B of the report rtems2014). Each reading needs two
    /// 64-bit divisions; the first yields a quotient and a remainder, the second only a quotient.
    NsDivision,
    /// Reads the TSC, multiplies and shifts (proposed in the report rtems2014).
    #[default]
    TscScaled,
}

/// Hardware or kernel source of a strategy's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeSource {
    /// The kernel's monotonic clock.
    Kernel,
    /// The time-stamp counter.
    Tsc,
}

/// Form in which a strategy computes time before it is converted to an [`Instant`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Representation {
    /// Seconds and nanoseconds within the second.
    Timespec,
    /// Nanoseconds in 64 bits.
    Nanoseconds,
}

impl Strategy {
    /// All strategies, in the order in which error messages list them.
    pub const ALL: [Strategy; 4] =
        [Strategy::Timespec, Strategy::TscTimespec, Strategy::NsDivision, Strategy::TscScaled];

    /// Returns the source of the time.
    pub const fn source(self) -> TimeSource {
        match self {
            Strategy::Timespec => TimeSource::Kernel,
            Strategy::TscTimespec | Strategy::NsDivision | Strategy::TscScaled => TimeSource::Tsc,
        }
    }

    /// Returns the form in which the time is computed.
    pub const fn representation(self) -> Representation {
        match self {
            Strategy::Timespec | Strategy::TscTimespec => Representation::Timespec,
            Strategy::NsDivision | Strategy::TscScaled => Representation::Nanoseconds,
        }
    }

    /// Returns whether each reading needs a division.
    pub const fn divides(self) -> bool {
        matches!(self, Strategy::NsDivision)
    }
}

/// Error: the given name denotes no strategy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownStrategy(pub String);

impl fmt::Display for UnknownStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown clock '{}': expected timespec, timespec-tsc, ns or tsc", self.0)
    }
}

impl std::error::Error for UnknownStrategy {}

impl FromStr for Strategy {
    type Err = UnknownStrategy;
    fn from_str(word: &str) -> Result<Strategy, UnknownStrategy> {
        match word {
            "timespec" => Ok(Strategy::Timespec),
            "timespec-tsc" => Ok(Strategy::TscTimespec),
            "ns" => Ok(Strategy::NsDivision),
            "tsc" => Ok(Strategy::TscScaled),
            other => Err(UnknownStrategy(other.to_string())),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::Timespec => "timespec",
            Strategy::TscTimespec => "timespec-tsc",
            Strategy::NsDivision => "ns",
            Strategy::TscScaled => "tsc",
        })
    }
}

/// A source of [`Instant`]s: either live, with one of the strategies, or simulated.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Timespec { base: std::time::Instant },
    Fraction { base: u64, scale: u64 },
    Division { base: u64, hertz: u64 },
    Scaled { base: u64, mult: u64 },
    Sim(SimClock),
}

const SHIFT: u32 = 32;
const NANOS: u64 = 1_000_000_000;

impl Clock {
    /// Creates a live clock whose epoch is the time of the call. If the TSC is not invariant,
    /// strategies that read it are replaced by [`Strategy::Timespec`], which [`Clock::strategy`]
    /// then returns.
    pub fn live(strategy: Strategy) -> Clock {
        if strategy.source() == TimeSource::Kernel || !tsc::invariant() {
            return Clock(Source::Timespec { base: std::time::Instant::now() });
        }
        let hertz = tsc::hertz();
        let base = tsc::ticks();
        Clock(match strategy {
            Strategy::TscTimespec => Source::Fraction { base, scale: scale(hertz) },
            Strategy::NsDivision => Source::Division { base, hertz },
            _ => Source::Scaled { base, mult: ((u128::from(NANOS) << SHIFT) / u128::from(hertz)) as u64 },
        })
    }

    /// Creates a clock whose time changes only when its [`SimClock`] is advanced.
    pub fn sim(clock: &SimClock) -> Clock {
        Clock(Source::Sim(clock.clone()))
    }

    /// Returns the strategy in use; `None` for a simulated clock.
    pub fn strategy(&self) -> Option<Strategy> {
        match self.0 {
            Source::Timespec { .. } => Some(Strategy::Timespec),
            Source::Fraction { .. } => Some(Strategy::TscTimespec),
            Source::Division { .. } => Some(Strategy::NsDivision),
            Source::Scaled { .. } => Some(Strategy::TscScaled),
            Source::Sim(_) => None,
        }
    }

    /// Returns the current time.
    #[inline]
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::Scaled { base, mult } => {
                let elapsed = tsc::ticks().wrapping_sub(*base);
                Instant::from_nanos(((u128::from(elapsed) * u128::from(*mult)) >> SHIFT) as u64)
            }
            Source::Fraction { base, scale } => {
                let (secs, nanos) = timespec(tsc::ticks().wrapping_sub(*base), *scale);
                Instant::from_nanos(secs * NANOS + u64::from(nanos))
            }
            Source::Division { base, hertz } => Instant::from_nanos(divided(tsc::ticks().wrapping_sub(*base), *hertz)),
            Source::Timespec { base } => {
                let spec = base.elapsed();
                Instant::from_nanos(spec.as_secs() * NANOS + u64::from(spec.subsec_nanos()))
            }
            Source::Sim(clock) => clock.now(),
        }
    }
}

/// Returns the length of a tick as a binary fraction of a second: 2^64 / `hertz`, rounded down. A
/// `hertz` below 2 is treated as 2.
pub(crate) const fn scale(hertz: u64) -> u64 {
    let hertz = if hertz < 2 { 2 } else { hertz };
    ((1u128 << 64) / hertz as u128) as u64
}

/// Converts `ticks` to seconds, and nanoseconds within the second.
#[inline(always)]
pub(crate) const fn timespec(ticks: u64, scale: u64) -> (u64, u32) {
    let time = ticks as u128 * scale as u128;
    let fraction = time as u64 >> 32;
    ((time >> 64) as u64, ((fraction * NANOS) >> 32) as u32)
}

/// Converts `ticks` to nanoseconds with two divisions, of which the first also yields a remainder.
#[inline(always)]
pub(crate) const fn divided(ticks: u64, hertz: u64) -> u64 {
    let (secs, rest) = (ticks / hertz, ticks % hertz);
    secs * NANOS + rest * NANOS / hertz
}
