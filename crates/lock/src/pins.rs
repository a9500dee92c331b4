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
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(test)]
mod tests;

/// Nobody is pinned here.
const FREE: u64 = 0;

/// A place of its own cache line (two: they are fetched in pairs).
#[repr(align(128))]
#[derive(Debug)]
struct Slot(AtomicU64);

/// The readers of one table.
#[derive(Debug)]
pub struct Pins {
    /// Grows with each part that is taken out.
    count: AtomicU64,
    /// One for each thread that may read, or one for the only one.
    slots: Box<[Slot]>,
}

/// While it lives, nothing that its thread may have seen is used again.
#[derive(Debug)]
#[must_use = "the pin ends when it is dropped"]
pub struct Pinned<'a>(Option<&'a AtomicU64>);

impl Pins {
    /// For `threads` threads: a power of two, [`crate::MAX_THREADS`] where a table is shared, 1 where it is one thread's alone.
    pub fn new(threads: usize) -> Pins {
        let slots = (0..threads.next_power_of_two()).map(|_| Slot(AtomicU64::new(FREE))).collect();
        Pins { count: AtomicU64::new(1), slots }
    }

    /// The calling thread begins to read. A pin within a pin is the outer one's.
    #[inline(always)]
    pub fn pin(&self, cx: Cx) -> Pinned<'_> {
        if self.slots.len() == 1 { self.pin_at(0) } else { self.pin_at(cx.current()) }
    }

    /// [`Pins::pin`] by the thread's index.
    #[inline(always)]
    pub fn pin_at(&self, thread: usize) -> Pinned<'_> {
        let Some(Slot(slot)) = self.slots.get(thread & (self.slots.len() - 1)) else { return Pinned(None) };
        if slot.load(Ordering::Relaxed) != FREE {
            return Pinned(None);
        }
        slot.store(self.count.load(Ordering::Acquire), Ordering::Relaxed);
        if self.slots.len() > 1 {
            // Before anything is read: either the writer sees the slot, or this thread sees what the writer took out. 20 ticks.
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
        let pinned = self.slots.iter().map(|slot| slot.0.load(Ordering::Acquire)).filter(|&at| at != FREE);
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
