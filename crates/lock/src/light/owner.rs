//! The owner word of a light lock: free, or who holds it, and whether others wait.
//!
//! ```text
//! free -- compare-and-swap(me) --> me -- another finds it held, past spinning --> me | WAITERS
//!   ^                               |                                                 |
//!   +------- exchange(free) --------+------------- exchange(free), wake one ----------+
//! ```
//!
//! A thread that waits sets [`WAITERS`] while it holds the gate, and sleeps on the gate's condition variable; who releases a
//! word with [`WAITERS`] passes through the gate before it wakes one, so the wake-up finds the sleeper. The woken thread
//! takes the word with [`WAITERS`] set, since it cannot know whether others still sleep. A thread that comes at that moment
//! may be first: a lock that is handed over would stay idle for the 100,000 ticks of a wake-up. Checked with loom.

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

/// Nobody holds the lock.
const FREE: u32 = 0;
/// Set beside the owner: threads wait, so the release must wake one. Owners are small numbers.
const WAITERS: u32 = 1 << 31;
/// Looks at a held lock before waiting for it, as many as the standard library's mutex takes. None under loom, where a loop
/// of loads never ends.
const SPINS: u32 = if cfg!(loom) { 0 } else { 100 };

/// Who holds a lock.
#[derive(Debug, Default)]
#[repr(C)] // the word in front
pub(super) struct Owner {
    word: AtomicU32,
    gate: Mutex<()>,
    turn: Condvar,
}

impl Owner {
    /// Makes `me`, which is not 0, the owner, as soon as nobody else is.
    ///
    /// # Panics
    /// If it is the owner already.
    #[inline(always)]
    pub(super) fn acquire(&self, me: u32) {
        if let Err(held) = self.word.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed) {
            self.acquire_held(me, held);
        }
    }

    /// Makes the lock free, and wakes a thread that waits for it.
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

    /// Takes the lock if it becomes free soon and nobody waits.
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
        // Whoever set WAITERS holds the gate until it sleeps.
        drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        self.turn.notify_one();
    }

    /// Whether threads wait.
    #[cfg(all(test, not(loom)))]
    pub(super) fn has_waiters(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITERS != 0
    }
}

#[cfg(all(test, loom))]
mod models;
