//! When a lane may sleep: what it and those who want something of it must not miss of each other.
//!
//! ```text
//!  who wants   stores what he wants (a frame, or that he asks)   fence   looks whether the lane sleeps: rings, once
//!  the lane    stores that it sleeps                             fence   looks whether there is something: stays
//! ```
//! Of two that store and then look one at least sees the other's store, by the fences between; so a lane never sleeps over anything.
//! Checked with loom (`cargo xtask loom`), with a lock and a count in the place of the pipe ([`super::exchange::Call`]).

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Who wants what of one lane.
#[derive(Debug, Default)]
pub struct Bell {
    /// How many wait for the lane's lock.
    asking: AtomicUsize,
    /// The lane sleeps, or is about to.
    asleep: AtomicBool,
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
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            ring();
        }
    }

    /// Sleeps by `sleep`, which ends when somebody has rung, unless `stay` finds something to do or somebody asks. `rung` takes
    /// back what one has rung, and is called when one has, or is about to.
    pub fn sleep<R>(&self, stay: impl FnOnce() -> bool, sleep: impl FnOnce() -> R, rung: impl FnOnce()) -> Option<R> {
        self.asleep.swap(true, Ordering::AcqRel); // not a store: loom lets one be overtaken by a swap that came before it
        fence(Ordering::SeqCst);
        let slept = if stay() || self.is_asked() { None } else { Some(sleep()) };
        if !self.asleep.swap(false, Ordering::AcqRel) {
            rung();
        }
        slept
    }
}

#[cfg(all(test, loom))]
mod tests;
