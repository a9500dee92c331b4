//! Wake-up protocol, in which no wake-up is lost, between a switch thread (`SwitchThread`) and the
//! threads that send it frames or need its lock.
//!
//! A thread first stores its request (a frame, or a request for the lock), and then wakes the
//! `SwitchThread` if it sleeps ([`lock::Doorbell`]). The protocol is checked with loom (`cargo
//! xtask loom`), with a lock and a counter instead of the pipe ([`super::exchange::Call`]).

use lock::Doorbell;
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pending requests to a `SwitchThread`.
#[derive(Debug, Default)]
pub struct LockRequests {
    /// Number of threads that wait for the lock of the `SwitchThread`.
    asking: AtomicUsize,
    /// State of the `SwitchThread`: whether it sleeps or is about to sleep.
    asleep: Doorbell,
}

impl LockRequests {
    /// Requests that the `SwitchThread` release its lock, and runs `take`, which acquires it. Calls
    /// `ring` if the `SwitchThread` sleeps. The request ends when `take` returns.
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

    /// Calls `ring` if the `SwitchThread` sleeps, at most once per sleep. The caller must have
    /// stored its request before.
    #[inline]
    pub fn wake(&self, ring: impl FnOnce()) {
        self.asleep.wake(0, ring);
    }

    /// Runs `sleep`, which ends when the thread is woken, unless `stay` finds work or a thread
    /// waits for the lock. `rung` consumes the wake-up. It is called if a wake-up was sent or is
    /// being sent.
    pub fn sleep<R>(&self, stay: impl FnOnce() -> bool, sleep: impl FnOnce() -> R, rung: impl FnOnce()) -> Option<R> {
        self.asleep.sleep(u64::MAX, || stay() || self.is_pending(), sleep, rung)
    }
}

#[cfg(all(test, loom))]
mod tests;
