//! A descriptor ring: a driver gives buffers to a card, and the card returns them by setting status
//! bits.
//!
//! The driver puts values into descriptors and announces them with one store to the tail (the
//! doorbell). The card processes the values in place, from the head to the tail. It reports
//! completion with the DD bit in a descriptor's status word: either in every descriptor, or only in
//! those with the RS bit. DD in one descriptor also reports the completion of all descriptors
//! before it. The driver then takes the values back, in order. As in Intel's 8254x manual, a head
//! equal to the tail means an empty ring, so one descriptor remains unused. Checked with loom.

use super::{Arc, AtomicU32, Ordering, Padded, UnsafeCell};
use std::collections::VecDeque;

/// Bit DD (descriptor done): the card has processed the descriptor and written back its status.
pub const DD: u32 = 1;
/// Bit RS (report status): the driver requests that the card set DD in this descriptor.
pub const RS: u32 = 1 << 8;

struct Shared<T> {
    head: Padded<AtomicU32>, // index of the card's next descriptor; written by the card
    tail: Padded<AtomicU32>, // end of the announced descriptors; written by the driver
    status: Box<[AtomicU32]>,
    slots: Box<[UnsafeCell<Option<T>>]>,
}

// SAFETY: the card accesses a slot only between its head and a tail that it has acquired, and the
// driver only outside that range; the card returns a slot by a release store of DD in the slot or
// in a later one.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: same as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, at: u32) -> &UnsafeCell<Option<T>> {
        // SAFETY: the length is a power of two, so the masked index lies inside.
        unsafe { self.slots.get_unchecked(at as usize & (self.slots.len() - 1)) }
    }

    #[inline(always)]
    fn status(&self, at: u32) -> &AtomicU32 {
        // SAFETY: same as in `slot`; both have the same length.
        unsafe { self.status.get_unchecked(at as usize & (self.status.len() - 1)) }
    }
}

/// The driver's side of a ring.
pub struct Driver<T> {
    shared: Arc<Shared<T>>,
    /// Position of the next descriptor to take back. The next three fields are the end of the
    /// descriptors that can be taken back, the end of the announced descriptors, and the next
    /// descriptor to fill.
    head: u32,
    done: u32,
    announced: u32,
    tail: u32,
    /// Descriptors for which a report was requested (RS) that has not yet arrived.
    requested: VecDeque<u32>,
}

/// The card's side of a ring.
pub struct Card<T> {
    shared: Arc<Shared<T>>,
    head: u32,
    tail_seen: u32,
}

/// Creates a ring of `size` descriptors (rounded up to a power of two, at least 2). One of them
/// remains unused.
pub fn descriptors<T>(size: usize) -> (Driver<T>, Card<T>) {
    let size = size.clamp(2, 1 << 20).next_power_of_two();
    let shared = Arc::new(Shared {
        head: Padded(AtomicU32::new(0)),
        tail: Padded(AtomicU32::new(0)),
        status: (0..size).map(|_| AtomicU32::new(0)).collect(),
        slots: (0..size).map(|_| UnsafeCell::new(None)).collect(),
    });
    let requested = VecDeque::with_capacity(size);
    let driver = Driver { shared: shared.clone(), head: 0, done: 0, announced: 0, tail: 0, requested };
    (driver, Card { shared, head: 0, tail_seen: 0 })
}

impl<T> Driver<T> {
    /// Returns the total number of descriptors.
    pub fn size(&self) -> usize {
        self.shared.slots.len()
    }

    /// Returns the number of descriptors that can be filled now.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.size() - 1 - self.filled()
    }

    /// Returns the number of descriptors that are filled and not yet taken back.
    #[inline(always)]
    pub fn filled(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Returns the number of descriptors that are filled but not yet announced to the card.
    #[inline(always)]
    pub fn unannounced(&self) -> usize {
        self.tail.wrapping_sub(self.announced) as usize
    }

    /// Returns the number of filled descriptors that the card has not yet processed, according to
    /// its head. On a real card this is a register read, so it is for audits only.
    pub fn pending(&self) -> usize {
        self.tail.wrapping_sub(self.shared.head.0.load(Ordering::Acquire)) as usize
    }

    /// Fills the next descriptor with `value` and the command bits `command`: [`RS`], and bits
    /// agreed between card and driver. Returns the value as the error if the ring is full.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn put(&mut self, value: T, command: u32) -> Result<(), T> {
        if self.room() == 0 {
            return Err(value);
        }
        // SAFETY: the slot at `tail` is not announced, and its previous value was taken back, so
        // the driver owns it. `take_done` leaves `None` in it, so the write drops nothing.
        self.shared.slot(self.tail).with_mut(|slot| unsafe { slot.write(Some(value)) });
        self.shared.status(self.tail).store(command & !DD, Ordering::Relaxed);
        if command & RS != 0 {
            self.requested.push_back(self.tail);
        }
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Fills up to `most` descriptors with the values and command bits that `next` returns. Returns
    /// their number. Equivalent to repeated [`Driver::put`], with the indexes kept in registers.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn put_from(&mut self, most: usize, mut next: impl FnMut() -> Option<(T, u32)>) -> usize {
        let (start, mut tail) = (self.tail, self.tail);
        let end = start.wrapping_add(most.min(self.room()) as u32);
        while tail != end
            && let Some((value, command)) = next()
        {
            // SAFETY: same as in `put`: start..end is free.
            self.shared.slot(tail).with_mut(|slot| unsafe { slot.write(Some(value)) });
            self.shared.status(tail).store(command & !DD, Ordering::Relaxed);
            if command & RS != 0 {
                self.requested.push_back(tail);
            }
            tail = tail.wrapping_add(1);
        }
        self.tail = tail;
        tail.wrapping_sub(start) as usize
    }

    /// Announces all filled descriptors to the card, with one store.
    #[inline(always)]
    pub fn announce(&mut self) {
        self.announced = self.tail;
        self.shared.tail.0.store(self.tail, Ordering::Release);
    }

    /// Checks DD in each descriptor in order, until one is not done or `most` are done. Returns the
    /// number of descriptors that can be taken back.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn find_done(&mut self, most: usize) -> usize {
        let mut done = self.done;
        while done != self.announced
            && (done.wrapping_sub(self.head) as usize) < most
            && self.shared.status(done).load(Ordering::Acquire) & DD != 0
        {
            done = done.wrapping_add(1);
        }
        self.done = done;
        done.wrapping_sub(self.head) as usize
    }

    /// Checks DD only in descriptors for which a report was requested (RS). Returns the number of
    /// descriptors that can be taken back.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn find_reported(&mut self) -> usize {
        while let Some(&at) = self.requested.front()
            && at.wrapping_sub(self.head) < self.announced.wrapping_sub(self.head)
            && self.shared.status(at).load(Ordering::Acquire) & DD != 0
        {
            self.requested.pop_front();
            self.done = at.wrapping_add(1);
        }
        self.done.wrapping_sub(self.head) as usize
    }

    /// Takes back up to `most` descriptors that were found done, in order. Passes each value to
    /// `each`, or `None` if the card kept the value. Returns the number of descriptors.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn take_done(&mut self, most: usize, mut each: impl FnMut(Option<T>)) -> usize {
        let n = (self.done.wrapping_sub(self.head) as usize).min(most);
        let mut at = self.head;
        self.head = at.wrapping_add(n as u32);
        while at != self.head {
            // SAFETY: the descriptor lies before `done`: the card has released it, it is not
            // announced again, and it is not refilled before this returns.
            let value = self.shared.slot(at).with_mut(|slot| unsafe { (*slot).take() });
            at = at.wrapping_add(1);
            each(value);
        }
        n
    }

    /// Calls `look` with the value that [`Driver::take_done`] would return after `ahead` other
    /// values, if its descriptor was found done.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn look_ahead(&self, ahead: usize, look: impl FnOnce(&T)) {
        if ahead < self.done.wrapping_sub(self.head) as usize {
            // SAFETY: same as in `take_done`; `&self` keeps the value in place.
            self.shared.slot(self.head.wrapping_add(ahead as u32)).with_mut(|slot| {
                if let Some(value) = unsafe { &*slot } {
                    look(value);
                }
            });
        }
    }
}

impl<T> Card<T> {
    /// Returns the number of descriptors that are announced to the card and not finished. The
    /// actual number may be larger, because the driver may be announcing more at the same time.
    #[inline]
    pub fn ready(&mut self) -> usize {
        if self.tail_seen == self.head {
            self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        }
        self.tail_seen.wrapping_sub(self.head) as usize
    }

    /// Calls `work` with the next descriptor's value, which `work` may change or take, and its
    /// command bits. Returns `None` if no descriptor is announced.
    pub fn with_next<R>(&mut self, work: impl FnOnce(&mut Option<T>, u32) -> R) -> Option<R> {
        if self.ready() == 0 {
            return None;
        }
        let command = self.shared.status(self.head).load(Ordering::Relaxed);
        // SAFETY: the descriptor lies between head and an acquired tail: the card owns it until
        // `finish`.
        Some(self.shared.slot(self.head).with_mut(|slot| work(unsafe { &mut *slot }, command)))
    }

    /// Finishes the next descriptor. Sets DD only if the driver requested a report.
    pub fn finish(&mut self) {
        let requested = self.shared.status(self.head).load(Ordering::Relaxed) & RS != 0;
        self.leave(requested);
    }

    /// Finishes the next descriptor, and sets DD in any case.
    pub fn finish_and_report(&mut self) {
        self.leave(true);
    }

    fn leave(&mut self, report: bool) {
        if self.ready() == 0 {
            return;
        }
        if report {
            let status = self.shared.status(self.head);
            status.store(status.load(Ordering::Relaxed) | DD, Ordering::Release);
        }
        self.head = self.head.wrapping_add(1);
        self.shared.head.0.store(self.head, Ordering::Release);
    }
}

impl<T> std::fmt::Debug for Driver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({} of {} filled)", self.filled(), self.size())
    }
}

impl<T> std::fmt::Debug for Card<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Card(at {})", self.head)
    }
}

#[cfg(test)]
mod tests;
