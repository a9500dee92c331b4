//! A doorbell: a thread sleeps without missing work, and work wakes it once.
//!
//! ```text
//!  who brings   stores the work             fence   reads until when the thread sleeps: rings, once
//!  the thread   stores until when it sleeps fence   looks for work: stays awake
//! ```
//! Of two that store and then read, at least one sees the other's store, by the fences between. What rings (an eventfd, a byte in a
//! pipe) is the caller's. Checked with loom.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(test)]
mod tests;

const AWAKE: u64 = 0;

/// The doorbell of one thread at a time. Times are the caller's, in nanoseconds.
#[derive(Debug, Default)]
pub struct Doorbell {
    /// Until when the thread sleeps, or is about to.
    until: AtomicU64,
}

impl Doorbell {
    /// Calls `ring` if the thread sleeps beyond `at`: once for each sleep at most. The work was stored before.
    #[inline]
    pub fn wake(&self, at: u64, ring: impl FnOnce()) {
        fence(Ordering::SeqCst);
        if at < self.until.load(Ordering::Relaxed) && self.until.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            ring();
        }
    }

    /// Announces a sleep until `until`. The caller looks for work after this, and calls [`Doorbell::withdraw`] in the end.
    #[inline]
    pub fn announce(&self, until: u64) {
        self.until.swap(until.max(1), Ordering::AcqRel); // not a store: loom lets one be overtaken by an earlier swap
        fence(Ordering::SeqCst);
    }

    /// Returns whether it was rung since the announcement, or is about to be.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.until.load(Ordering::Acquire) == AWAKE
    }

    /// Ends the announcement; returns whether it was rung, or is about to be.
    #[inline]
    pub fn withdraw(&self) -> bool {
        self.until.swap(AWAKE, Ordering::AcqRel) == AWAKE
    }

    /// Sleeps by `sleep`, which ends at `until` or when it was rung, unless `stay` finds work. `rung` takes back what was rung,
    /// and is called when it was, or is about to be.
    pub fn sleep<R>(
        &self,
        until: u64,
        stay: impl FnOnce() -> bool,
        sleep: impl FnOnce() -> R,
        rung: impl FnOnce(),
    ) -> Option<R> {
        self.announce(until);
        let slept = if stay() { None } else { Some(sleep()) };
        if self.withdraw() {
            rung();
        }
        slept
    }
}
