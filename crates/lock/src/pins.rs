//! Tracks readers, so that memory that a reader may still use is not reused (epoch-based
//! reclamation; this project uses the word "epoch" for other counts).
//!
//! A writer removes parts of a table (a group of entries, a next hop) while other threads read the
//! table. A reader that began earlier may still have the number of a removed part. Readers call
//! [`Pins::pin`] while they read, which records the count of removals at which they began.
//! [`Pins::retire`] returns to the writer the count at which a part was removed. The writer reuses
//! the part once no reader is pinned at an earlier count ([`Pins::passed`]). No thread waits: a
//! slow reader only delays reuse.
//!
//! After Fraser, Practical lock-freedom (2004), 5.2.3, without a bound on the distance between
//! counts. Checked with loom.

use crate::Cx;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use stats::Shards;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(test)]
mod tests;

/// Value of the slot of a thread that does not read.
const FREE: u64 = 0;

/// The readers of one table.
#[derive(Debug)]
pub struct Pins {
    /// Number of parts removed so far.
    count: AtomicU64,
    /// One slot for each thread that reads, or a single slot if only one thread does. A new slot is
    /// [`FREE`].
    slots: Shards<AtomicU64>,
    is_shared: bool,
}

/// Guard of a reader. While it exists, no part that its thread may have read is reused.
#[derive(Debug)]
#[must_use = "the pin ends when it is dropped"]
pub struct Pinned<'a>(Option<&'a AtomicU64>);

impl Pins {
    /// Creates slots for `threads` threads. For a shared table this is [`crate::USUAL_THREADS`];
    /// further threads get a slot with their first pin. With 1, only one thread may use the table.
    pub fn new(threads: usize) -> Pins {
        Pins { count: AtomicU64::new(1), slots: Shards::new(threads), is_shared: threads > 1 }
    }

    /// Starts reading on the calling thread. A nested pin has no further effect.
    #[inline(always)]
    pub fn pin(&self, cx: Cx) -> Pinned<'_> {
        if self.is_shared { self.pin_slot(self.slots.at(cx.current())) } else { self.pin_slot(self.slots.sole()) }
    }

    /// Starts reading as [`Pins::pin`] does, on the thread with index `thread`.
    #[inline(always)]
    pub fn pin_at(&self, thread: usize) -> Pinned<'_> {
        self.pin_slot(self.slots.at(thread))
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn pin_slot<'a>(&'a self, slot: &'a AtomicU64) -> Pinned<'a> {
        if slot.load(Ordering::Relaxed) != FREE {
            return Pinned(None);
        }
        slot.store(self.count.load(Ordering::Acquire), Ordering::Relaxed);
        if self.is_shared {
            // The store comes before any read of the table: either the writer reads the slot, or
            // this thread reads that the writer has removed a part. The fence costs 20 ticks. The
            // same applies to a new slot, which this thread created before the fence, so a writer
            // with a later fence finds it, too.
            fence(Ordering::SeqCst);
        }
        Pinned(Some(slot))
    }

    /// Records that a part has just been removed by overwriting the last reference to it. Returns
    /// the count to compare with [`Pins::passed`]. Only one writer at a time may call this.
    pub fn retire(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns the lowest count at which a reader is still pinned. Parts that were retired at this
    /// or a lower count can be reused.
    pub fn passed(&self) -> u64 {
        fence(Ordering::SeqCst);
        let pinned = self.slots.iter().map(|slot| slot.load(Ordering::Acquire)).filter(|&at| at != FREE);
        pinned.min().unwrap_or(u64::MAX)
    }
}

impl Drop for Pinned<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.store(FREE, Ordering::Release);
        }
    }
}
