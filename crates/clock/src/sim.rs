//! A clock that moves only when it is told to: simulations and conversations run on it.

use crate::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared virtual time. Clones show the same instant.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Arc<AtomicU64>);

impl SimClock {
    /// A clock standing at [`Instant::ZERO`].
    pub fn new() -> SimClock {
        SimClock::default()
    }

    /// The virtual instant.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Acquire))
    }

    /// Moves forward to `to`; an instant already past changes nothing.
    pub fn advance_to(&self, to: Instant) {
        self.0.fetch_max(to.nanos(), Ordering::AcqRel);
    }

    /// Moves forward by `by`.
    pub fn advance(&self, by: std::time::Duration) {
        self.advance_to(self.now().after(by));
    }
}
