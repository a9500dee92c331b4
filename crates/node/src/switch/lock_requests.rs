//! Wake-up protocol without lost wake-ups, between a switch thread (`SwitchThread`) and the threads
//! that send it frames or need its lock.
//!
//! A thread with a request stores it (a frame, or a request for the lock) and wakes the
//! `SwitchThread` if it sleeps ([`lock::Doorbell`]). Checked with loom (`cargo xtask loom`), with a
//! lock and a count in place of the pipe ([`super::exchange::Call`]).

use lock::Doorbell;
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pending requests to a `SwitchThread`.
#[derive(Debug, Default)]
pub struct LockRequests {
    /// Number of threads waiting for its lock.
    asking: AtomicUsize,
    /// Records whether the `SwitchThread` sleeps or is about to sleep.
    asleep: Doorbell,
}

impl LockRequests {
    /// Runs `take` while the `SwitchThread` releases its lock; calls `ring` if it sleeps.
    pub fn request<R>(&self, ring: impl FnOnce(), take: impl FnOnce() -> R) -> R {
        self.asking.fetch_add(1, Ordering::SeqCst);
        self.wake(ring);
        let taken = take();
        self.asking.fetch_sub(1, Ordering::SeqCst);
        taken
    }

    /// Returns whether a thread waits for the lock.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
    }

    /// Calls `ring` if the `SwitchThread` sleeps, at most once per sleep. The request must be
    /// stored before.
    #[inline]
    pub fn wake(&self, ring: impl FnOnce()) {
        self.asleep.wake(0, ring);
    }

    /// Runs `sleep`, which ends on a wake-up, unless `stay` finds work or a thread waits for the
    /// lock. `rung` consumes the wake-up; it is called if a wake-up was sent or is being sent.
    pub fn sleep<R>(&self, stay: impl FnOnce() -> bool, sleep: impl FnOnce() -> R, rung: impl FnOnce()) -> Option<R> {
        self.asleep.sleep(u64::MAX, || stay() || self.is_pending(), sleep, rung)
    }
}

#[cfg(all(test, loom))]
mod tests;
