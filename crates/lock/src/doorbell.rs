//! A doorbell for a sleeping thread. The thread misses no event, and is woken at most once per
//! sleep.
//!
//! ```text
//!  producer   stores the work                fence   reads the end of the sleep: rings, once
//!  sleeper    stores the end of its sleep    fence   checks for work: stays awake if there is any
//! ```
//! Each side stores and then reads. Because of the fences, at least one of them reads the value
//! that the other stored. The caller provides the wake-up itself (an eventfd, or a byte in a pipe).
//! Checked with loom.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(test)]
mod tests;

const AWAKE: u64 = 0;

/// Doorbell of a thread that sleeps; only one thread at a time may sleep on it. Times are in
/// nanoseconds of the caller's clock.
#[derive(Debug, Default)]
pub struct Doorbell {
    /// Time at which the thread's sleep ends, set before the sleep begins. [`AWAKE`] while no sleep
    /// is announced.
    until: AtomicU64,
}

impl Doorbell {
    /// Calls `ring` if the thread would sleep beyond time `at`, at most once per sleep. The caller
    /// must have stored the data for the thread before.
    #[inline]
    pub fn wake(&self, at: u64, ring: impl FnOnce()) {
        fence(Ordering::SeqCst);
        if at < self.until.load(Ordering::Relaxed) && self.until.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            ring();
        }
    }

    /// Announces a sleep until `until`. After this call, the caller must check once more for data
    /// before it sleeps, and finally call [`Doorbell::withdraw`].
    #[inline]
    pub fn announce(&self, until: u64) {
        // A swap instead of a store, since loom may order a store before an earlier swap.
        self.until.swap(until.max(1), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Returns whether `ring` was called since the announcement, or is about to be called.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.until.load(Ordering::Acquire) == AWAKE
    }

    /// Ends the announcement. Returns whether `ring` was called, or is about to be called.
    #[inline]
    pub fn withdraw(&self) -> bool {
        self.until.swap(AWAKE, Ordering::AcqRel) == AWAKE
    }

    /// Announces a sleep and calls `sleep`, unless `stay` returns true because there is work.
    /// `sleep` must return at time `until` or when the doorbell rings. If the doorbell rang or is
    /// about to ring, calls `rung`, which must consume the wake-up.
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
