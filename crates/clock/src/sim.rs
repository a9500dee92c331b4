//! A clock whose time changes only when it is advanced, for simulations and tests in virtual time.

use crate::Instant;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// Shared virtual time. All clones return the same time.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Arc<AtomicU64>);

impl SimClock {
    /// Creates a clock at [`Instant::ZERO`].
    pub fn new() -> SimClock {
        SimClock::default()
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Acquire))
    }

    /// Advances to `to`. An instant in the past has no effect.
    pub fn advance_to(&self, to: Instant) {
        self.0.fetch_max(to.nanos(), Ordering::AcqRel);
    }

    /// Advances the time by `by`.
    pub fn advance(&self, by: core::time::Duration) {
        self.advance_to(self.now().after(by));
    }
}
