//! Who is reading: so that what readers may still have in hand is not used again under them (epoch-based reclamation; these counts are not what
//! VOCABULARY calls epochs).
//!
//! A table that is changed while others read it takes parts out: a group of entries, a next hop. A reader that began before may still
//! hold such a part's number. Readers [`Pins::pin`] while they do, at the count they began with; the writer notes the count at which a
//! part was taken out ([`Pins::retire`]) and uses it again once no reader is pinned at an earlier one ([`Pins::passed`]). Nobody waits:
//! a reader that stays long only delays what is used again.
//!
//! After Fraser, Practical lock-freedom (2004), 5.2.3, without a bound on how far counts may be apart. Checked with loom.

use crate::Cx;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use stats::Shards;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(test)]
mod tests;

/// Nobody is pinned here.
const FREE: u64 = 0;

/// The readers of one table.
#[derive(Debug)]
pub struct Pins {
    /// Grows with each part that is taken out.
    count: AtomicU64,
    /// One for each thread that reads, or one for the only one. [`FREE`] is what a new one begins with.
    slots: Shards<AtomicU64>,
    is_shared: bool,
}

/// While it lives, nothing that its thread may have seen is used again.
#[derive(Debug)]
#[must_use = "the pin ends when it is dropped"]
pub struct Pinned<'a>(Option<&'a AtomicU64>);

impl Pins {
    /// Makes slots for `threads` threads; where a table is shared, for [`crate::USUAL_THREADS`], and a thread beyond
    /// them gets its slot with its first pin. With 1 the table is one thread's alone.
    pub fn new(threads: usize) -> Pins {
        Pins { count: AtomicU64::new(1), slots: Shards::new(threads), is_shared: threads > 1 }
    }

    /// The calling thread begins to read. A pin within a pin is the outer one's.
    #[inline(always)]
    pub fn pin(&self, cx: Cx) -> Pinned<'_> {
        if self.is_shared { self.pin_slot(self.slots.at(cx.current())) } else { self.pin_slot(self.slots.sole()) }
    }

    /// [`Pins::pin`] by the thread's index.
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
            // Before anything is read: either the writer sees the slot, or this thread sees what the writer took out. 20 ticks.
            // A slot that is new is seen as its content is: this thread found it before the fence, so it is there for a
            // writer whose fence comes after.
            fence(Ordering::SeqCst);
        }
        Pinned(Some(slot))
    }

    /// A part has been taken out just now (its last reference overwritten): the count to hand to [`Pins::passed`]. One writer at a time.
    pub fn retire(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// What was retired at this count or an earlier one may be used again.
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
