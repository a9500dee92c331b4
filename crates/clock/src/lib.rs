//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Time as a value.
//!
//! The protocol code takes an [`Instant`] as an argument. Only [`Clock`] creates instants, and only
//! the modules that own a thread read it, so the protocol code does no I/O. A clock's strategy
//! determines the source and the representation of time. The representation matters: the report
//! rtems2014 measured that it costs 3 % of a TCP stream. See [`Strategy`].

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

#[cfg(feature = "std")]
mod live;
mod random;
mod sim;
#[cfg(test)]
mod tests;
#[cfg(feature = "std")]
pub mod tsc;
mod wheel;

pub use core::time::Duration;
#[cfg(feature = "std")]
pub use live::{Clock, Representation, Strategy, TimeSource, UnknownStrategy};
pub use random::Random;
pub use sim::SimClock;
pub use wheel::Wheel;

/// A point in time: nanoseconds since its clock's own epoch (process start or simulation start).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The epoch of a clock, time zero.
    pub const ZERO: Instant = Instant(0);
    /// The latest instant, which means "no deadline".
    pub const NEVER: Instant = Instant(u64::MAX);

    /// Returns the instant `ns` nanoseconds after the epoch.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Instant {
        Instant(ns)
    }

    /// Returns the instant `us` microseconds after the epoch (saturating).
    pub const fn from_micros(us: u64) -> Instant {
        Instant(us.saturating_mul(1_000))
    }

    /// Returns the instant `ms` milliseconds after the epoch (saturating).
    pub const fn from_millis(ms: u64) -> Instant {
        Instant(ms.saturating_mul(1_000_000))
    }

    /// Returns the nanoseconds since the epoch.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`; zero if `earlier` is later than this instant.
    #[inline]
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns this instant plus `by` (saturating at [`Instant::NEVER`]).
    #[inline]
    pub const fn after(self, by: Duration) -> Instant {
        let ns = by.as_nanos();
        Instant(self.0.saturating_add(if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }))
    }
}
