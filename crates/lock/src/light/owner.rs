//! The owner word of a light lock: free, or the owner's number with a flag for waiting threads.
//!
//! ```text
//! free -- compare-and-swap(me) --> me -- another finds it held, past spinning --> me | WAITERS
//!   ^                               |                                                 |
//!   +------- exchange(free) --------+------------- exchange(free), wake one ----------+
//! ```
//!
//! A waiting thread sets [`WAITERS`] while it holds the mutex `gate`, and sleeps on the condition
//! variable of that mutex. A thread that releases a word with [`WAITERS`] locks the gate before it
//! wakes a waiter, so the wake-up is not lost. The woken thread acquires the word with [`WAITERS`]
//! set, because it cannot detect whether others still sleep. A thread that arrives at that moment
//! may acquire the lock first. If the lock were passed to the woken thread directly, it would be
//! unused for the 100,000 ticks of a wake-up. Checked with loom.

#[cfg(all(test, not(loom)))]
use super::tests::CountedU32 as AtomicU32;
#[cfg(all(test, loom))]
use loom::sync::{Condvar, Mutex, atomic::AtomicU32};
use std::sync::PoisonError;
#[cfg(not(test))]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
#[cfg(not(all(test, loom)))]
use std::sync::{Condvar, Mutex};

/// The lock has no owner.
const FREE: u32 = 0;
/// Flag in addition to the owner's number. It means that threads wait, so the release must wake
/// one. The numbers of owners are smaller than this flag.
const WAITERS: u32 = 1 << 31;
/// Number of times a held lock is polled before the thread sleeps, as in the standard library's
/// mutex. It is 0 under loom, where a loop of loads never ends.
const SPINS: u32 = if cfg!(loom) { 0 } else { 100 };

/// Owner word of a lock, with the mutex and condition variable of the waiting threads.
#[derive(Debug, Default)]
#[repr(C)] // the word first
pub(super) struct Owner {
    word: AtomicU32,
    gate: Mutex<()>,
    turn: Condvar,
}

impl Owner {
    /// Waits until the lock is free, and makes `me` the owner. `me` must not be 0.
    ///
    /// # Panics
    /// Panics if `me` is already the owner.
    #[inline(always)]
    pub(super) fn acquire(&self, me: u32) {
        if let Err(held) = self.word.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed) {
            self.acquire_held(me, held);
        }
    }

    /// Frees the lock, and wakes a waiting thread if there is one.
    #[inline(always)]
    pub(super) fn release(&self) {
        if self.word.swap(FREE, Ordering::Release) & WAITERS != 0 {
            self.wake_one();
        }
    }

    #[cold]
    fn acquire_held(&self, me: u32, held: u32) {
        assert!(held & !WAITERS != me, "lock taken twice by one context");
        if !self.spin(me) {
            self.wait(me);
        }
    }

    /// Polls the lock for a short time and acquires it if it becomes free. Gives up if other
    /// threads wait.
    fn spin(&self, me: u32) -> bool {
        for _ in 0..SPINS {
            match self.word.load(Ordering::Relaxed) {
                FREE if self.swap_in(FREE, me) => return true,
                held if held & WAITERS != 0 => return false,
                _ => std::hint::spin_loop(),
            }
        }
        false
    }

    fn wait(&self, me: u32) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let held = self.word.load(Ordering::Relaxed);
            match held {
                FREE if self.swap_in(FREE, me | WAITERS) => return,
                FREE => {}
                _ if held & WAITERS != 0 || self.swap_in(held, held | WAITERS) => {
                    gate = self.turn.wait(gate).unwrap_or_else(PoisonError::into_inner);
                }
                _ => {}
            }
        }
    }

    fn swap_in(&self, from: u32, to: u32) -> bool {
        self.word.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wake_one(&self) {
        // A thread that has set WAITERS holds the gate until it sleeps.
        drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        self.turn.notify_one();
    }

    /// Returns whether threads wait for the lock.
    #[cfg(all(test, not(loom)))]
    pub(super) fn has_waiters(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITERS != 0
    }
}

#[cfg(all(test, loom))]
mod models;
