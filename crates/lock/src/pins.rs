//! Tracking of readers, so that data that a reader may still use is not reused (epoch-based
//! reclamation; these counts are not what VOCABULARY calls epochs).
//!
//! A table that is changed while others read it has parts removed: a group of entries, a next hop.
//! A reader that began earlier may still hold the number of such a part. Readers call [`Pins::pin`]
//! for that time, which records the count at which they began. The writer gets the count at which a
//! part was removed ([`Pins::retire`]) and reuses the part once no reader is pinned at an earlier
//! count ([`Pins::passed`]). No thread waits: a slow reader only delays reuse.
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

/// Value of a slot without a pinned reader.
const FREE: u64 = 0;

/// Readers of one table.
#[derive(Debug)]
pub struct Pins {
    /// Incremented with each part that is removed.
    count: AtomicU64,
    /// One slot for each thread that reads, or one for the only thread. A new slot is [`FREE`].
    slots: Shards<AtomicU64>,
    is_shared: bool,
}

/// Prevents the reuse of parts that its thread may have seen, until dropped.
#[derive(Debug)]
#[must_use = "the pin ends when it is dropped"]
pub struct Pinned<'a>(Option<&'a AtomicU64>);

impl Pins {
    /// Creates slots for `threads` threads. For a shared table this is [`crate::USUAL_THREADS`],
    /// and further threads get a slot with their first pin. With 1 the table belongs to one thread
    /// alone.
    pub fn new(threads: usize) -> Pins {
        Pins { count: AtomicU64::new(1), slots: Shards::new(threads), is_shared: threads > 1 }
    }

    /// Starts reading on the calling thread. A nested pin has no effect of its own.
    #[inline(always)]
    pub fn pin(&self, cx: Cx) -> Pinned<'_> {
        if self.is_shared { self.pin_slot(self.slots.at(cx.current())) } else { self.pin_slot(self.slots.sole()) }
    }

    /// Same as [`Pins::pin`], by the thread's index.
    #[inline(always)]
    pub fn pin_at(&self, thread: usize) -> Pinned<'_> {
        self.pin_slot(self.slots.at(thread))
    }

    #[inline(always)]
    fn pin_slot<'a>(&'a self, slot: &'a AtomicU64) -> Pinned<'a> {
        if slot.load(Ordering::Relaxed) != FREE {
            return Pinned(None);
        }
        slot.store(self.count.load(Ordering::Acquire), Ordering::Relaxed);
        if self.is_shared {
            // Comes before any read of the table: either the writer sees the slot, or this thread
            // sees that the writer removed a part. The fence costs 20 ticks. The same holds for a
            // new slot: this thread found it before the fence, so a writer with a later fence
            // finds it too.
            fence(Ordering::SeqCst);
        }
        Pinned(Some(slot))
    }

    /// Records that a part has just been removed (its last reference overwritten); returns the
    /// count to compare with [`Pins::passed`]. One writer at a time.
    pub fn retire(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns the count up to which retired parts can be reused.
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
