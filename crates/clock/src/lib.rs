//! Time as a value.
//!
//! Everything above this crate takes an [`Instant`] as an argument; only [`Clock`] makes one, and only the rooms that
//! own a thread read it (DESIGN: sans-I/O inside). Its strategies differ in source and representation, because rtems2014
//! measured that the representation of time costs 3 % of a TCP stream: see [`Strategy`].

mod live;
mod sim;
#[cfg(test)]
mod tests;
pub mod tsc;
mod wheel;

pub use live::{Clock, Representation, Strategy, TimeSource, UnknownStrategy};
pub use sim::SimClock;
pub use std::time::Duration;
pub use wheel::Wheel;

/// A point in time: nanoseconds since its clock's own epoch (process start, or simulation start).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The clock's epoch.
    pub const ZERO: Instant = Instant(0);
    /// Later than anything: "no deadline".
    pub const NEVER: Instant = Instant(u64::MAX);

    /// From nanoseconds since the epoch.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Instant {
        Instant(ns)
    }

    /// From microseconds since the epoch (saturating).
    pub const fn from_micros(us: u64) -> Instant {
        Instant(us.saturating_mul(1_000))
    }

    /// From milliseconds since the epoch (saturating).
    pub const fn from_millis(ms: u64) -> Instant {
        Instant(ms.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    #[inline]
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This instant plus `by` (saturating at [`Instant::NEVER`]).
    #[inline]
    pub const fn after(self, by: Duration) -> Instant {
        let ns = by.as_nanos();
        Instant(self.0.saturating_add(if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }))
    }
}
