//! When a lane may sleep: what it and those who want something of it must not miss of each other.
//!
//! A thread that wants something stores it (a frame, or a request for the lock) and rings a lane that sleeps ([`lock::Doorbell`]).
//! Checked with loom (`cargo xtask loom`), with a lock and a count in the place of the pipe ([`super::exchange::Call`]).

use lock::Doorbell;
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Who wants what of one lane.
#[derive(Debug, Default)]
pub struct Bell {
    /// How many wait for the lane's lock.
    asking: AtomicUsize,
    /// The lane sleeps, or is about to.
    asleep: Doorbell,
}

impl Bell {
    /// Has the lane let go of its lock while `take` takes it; `ring` is called if it sleeps.
    pub fn ask<R>(&self, ring: impl FnOnce(), take: impl FnOnce() -> R) -> R {
        self.asking.fetch_add(1, Ordering::SeqCst);
        self.wake(ring);
        let taken = take();
        self.asking.fetch_sub(1, Ordering::SeqCst);
        taken
    }

    /// Does somebody wait for the lock?
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
    }

    /// Calls `ring` if the lane sleeps: once for each sleep at most. What the lane is to find was stored before.
    #[inline]
    pub fn wake(&self, ring: impl FnOnce()) {
        self.asleep.wake(0, ring);
    }

    /// Sleeps by `sleep`, which ends when somebody has rung, unless `stay` finds something to do or somebody asks. `rung` takes
    /// back what one has rung, and is called when one has, or is about to.
    pub fn sleep<R>(&self, stay: impl FnOnce() -> bool, sleep: impl FnOnce() -> R, rung: impl FnOnce()) -> Option<R> {
        self.asleep.sleep(u64::MAX, || stay() || self.is_asked(), sleep, rung)
    }
}

#[cfg(all(test, loom))]
mod tests;
