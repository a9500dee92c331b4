//! The live clock: one of three strategies (REPORTS A9), chosen by a knob, read by the rooms that own a thread.

use crate::{Instant, SimClock, tsc};
use std::fmt;
use std::str::FromStr;

/// How a live clock turns the machine's time into an [`Instant`]. What each read costs is a rung of the ladder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strategy {
    /// Ask the kernel for seconds and nanoseconds (vDSO `clock_gettime`).
    Timespec,
    /// Read the TSC and divide: a 64-bit division and a remainder per read, as in rtems2014's configuration B.
    NsDivision,
    /// Read the TSC, multiply and shift: no division (rtems2014's wish e).
    #[default]
    TscScaled,
}

/// A word that names no strategy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownStrategy(pub String);

impl fmt::Display for UnknownStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown clock '{}': expected timespec, ns or tsc", self.0)
    }
}

impl std::error::Error for UnknownStrategy {}

impl FromStr for Strategy {
    type Err = UnknownStrategy;
    fn from_str(word: &str) -> Result<Strategy, UnknownStrategy> {
        match word {
            "timespec" => Ok(Strategy::Timespec),
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
            Strategy::NsDivision => "ns",
            Strategy::TscScaled => "tsc",
        })
    }
}

/// A source of [`Instant`]s: live by one of the strategies, or simulated.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Timespec { base: std::time::Instant },
    Division { base: u64, hertz: u64 },
    Scaled { base: u64, mult: u64 },
    Sim(SimClock),
}

const SHIFT: u32 = 32;

impl Clock {
    /// A live clock whose epoch is now. Where the TSC is not invariant both TSC strategies fall back to
    /// [`Strategy::Timespec`]; [`Clock::strategy`] then says so.
    pub fn live(strategy: Strategy) -> Clock {
        if strategy == Strategy::Timespec || !tsc::invariant() {
            return Clock(Source::Timespec { base: std::time::Instant::now() });
        }
        let hertz = tsc::hertz();
        let base = tsc::ticks();
        Clock(match strategy {
            Strategy::NsDivision => Source::Division { base, hertz },
            _ => Source::Scaled { base, mult: ((1_000_000_000u128 << SHIFT) / hertz as u128) as u64 },
        })
    }

    /// A clock that stands still until its [`SimClock`] is moved.
    pub fn sim(clock: &SimClock) -> Clock {
        Clock(Source::Sim(clock.clone()))
    }

    /// The strategy in force; `None` for a simulated clock.
    pub fn strategy(&self) -> Option<Strategy> {
        match self.0 {
            Source::Timespec { .. } => Some(Strategy::Timespec),
            Source::Division { .. } => Some(Strategy::NsDivision),
            Source::Scaled { .. } => Some(Strategy::TscScaled),
            Source::Sim(_) => None,
        }
    }

    /// What time it is.
    #[inline]
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::Scaled { base, mult } => {
                let elapsed = tsc::ticks().wrapping_sub(*base);
                Instant::from_nanos(((elapsed as u128 * *mult as u128) >> SHIFT) as u64)
            }
            Source::Division { base, hertz } => {
                let elapsed = tsc::ticks().wrapping_sub(*base);
                let (secs, rest) = (elapsed / hertz, elapsed % hertz);
                Instant::from_nanos(secs * 1_000_000_000 + rest * 1_000_000_000 / hertz)
            }
            Source::Timespec { base } => {
                let spec = base.elapsed();
                Instant::from_nanos(spec.as_secs() * 1_000_000_000 + u64::from(spec.subsec_nanos()))
            }
            Source::Sim(clock) => clock.now(),
        }
    }
}
