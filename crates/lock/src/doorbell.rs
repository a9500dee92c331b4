//! A doorbell: lets a thread sleep without missing work, and wakes it at most once per sleep.
//!
//! ```text
//!  producer   stores the work                fence   reads the end of the sleep: rings, once
//!  sleeper    stores the end of its sleep    fence   checks for work: stays awake if there is any
//! ```
//! Each side stores and then reads; because of the fences, at least one of them sees the other's
//! store. The caller provides the wake-up itself (an eventfd, a byte in a pipe). Checked with loom.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(test)]
mod tests;

const AWAKE: u64 = 0;

/// Doorbell of one thread at a time. Times are in nanoseconds of the caller's clock.
#[derive(Debug, Default)]
pub struct Doorbell {
    /// End of the thread's sleep, which may be about to start.
    until: AtomicU64,
}

impl Doorbell {
    /// Calls `ring` if the thread sleeps beyond `at`, at most once per sleep. The work must have
    /// been stored before.
    #[inline]
    pub fn wake(&self, at: u64, ring: impl FnOnce()) {
        fence(Ordering::SeqCst);
        if at < self.until.load(Ordering::Relaxed) && self.until.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            ring();
        }
    }

    /// Announces a sleep until `until`. The caller must check for work after this, and finally call
    /// [`Doorbell::withdraw`].
    #[inline]
    pub fn announce(&self, until: u64) {
        // Not a store, since loom may order a store before an earlier swap.
        self.until.swap(until.max(1), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Returns whether the bell was rung since the announcement, or is about to be.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.until.load(Ordering::Acquire) == AWAKE
    }

    /// Ends the announcement; returns whether the bell was rung, or is about to be.
    #[inline]
    pub fn withdraw(&self) -> bool {
        self.until.swap(AWAKE, Ordering::AcqRel) == AWAKE
    }

    /// Sleeps by calling `sleep`, which must return at `until` or when the bell rings, unless
    /// `stay` finds work. Calls `rung` to consume the ring if the bell was rung, or is about to be.
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
