//! A descriptor ring: buffers that a driver lends to a card, and the card's word that it has done with them.
//!
//! The driver puts a value into a descriptor and tells how far it has come by one store (the doorbell: the tail). The card
//! works from the head to the tail, on the value in place, and reports by the bit DD of the descriptor's status word: of
//! each, or of those only whose report was asked for (RS). A report stands for all descriptors before it. The driver then
//! takes the values back, in order. As the 8254x manual has it, head equal to tail is an empty ring: one place stays free.
//! Checked with loom.

use super::{Arc, AtomicU32, Ordering, Padded, UnsafeCell};
use std::collections::VecDeque;

/// Descriptor done: the card has written its status back.
pub const DD: u32 = 1;
/// Report status: the driver asks for this descriptor's DD.
pub const RS: u32 = 1 << 8;

struct Shared<T> {
    head: Padded<AtomicU32>, // next for the card; written by it
    tail: Padded<AtomicU32>, // one past what the card may have; written by the driver
    status: Box<[AtomicU32]>,
    slots: Box<[UnsafeCell<Option<T>>]>,
}

// SAFETY: a slot is touched by the card only between its head and a tail it has acquired, by the driver only outside; it
// goes back with the release of a DD at it or behind it.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, at: u32) -> &UnsafeCell<Option<T>> {
        // SAFETY: the length is a power of two, so the masked index lies inside.
        unsafe { self.slots.get_unchecked(at as usize & (self.slots.len() - 1)) }
    }

    #[inline(always)]
    fn status(&self, at: u32) -> &AtomicU32 {
        // SAFETY: as in `slot`; both have one length.
        unsafe { self.status.get_unchecked(at as usize & (self.status.len() - 1)) }
    }
}

/// The driver's side.
pub struct Driver<T> {
    shared: Arc<Shared<T>>,
    /// Next to take back, one past the last that may be taken back, the last announced, next to fill; in this order.
    head: u32,
    done: u32,
    announced: u32,
    tail: u32,
    /// Where reports were asked for and have not been seen.
    asked: VecDeque<u32>,
}

/// The card's side.
pub struct Card<T> {
    shared: Arc<Shared<T>>,
    head: u32,
    tail_seen: u32,
}

/// A ring of `size` descriptors (rounded up to a power of two, at least 2), of which one stays empty.
pub fn descriptors<T>(size: usize) -> (Driver<T>, Card<T>) {
    let size = size.clamp(2, 1 << 20).next_power_of_two();
    let shared = Arc::new(Shared {
        head: Padded(AtomicU32::new(0)),
        tail: Padded(AtomicU32::new(0)),
        status: (0..size).map(|_| AtomicU32::new(0)).collect(),
        slots: (0..size).map(|_| UnsafeCell::new(None)).collect(),
    });
    let asked = VecDeque::with_capacity(size);
    let driver = Driver { shared: shared.clone(), head: 0, done: 0, announced: 0, tail: 0, asked };
    (driver, Card { shared, head: 0, tail_seen: 0 })
}

impl<T> Driver<T> {
    /// Descriptors in all.
    pub fn size(&self) -> usize {
        self.shared.slots.len()
    }

    /// Descriptors that can be filled now.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.size() - 1 - self.filled()
    }

    /// Descriptors filled and not taken back.
    #[inline(always)]
    pub fn filled(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Descriptors filled that the card has not been told of.
    #[inline(always)]
    pub fn unannounced(&self) -> usize {
        self.tail.wrapping_sub(self.announced) as usize
    }

    /// Descriptors filled that the card has not come to, as its head says (on a real card that costs a register read: for
    /// audits).
    pub fn pending(&self) -> usize {
        self.tail.wrapping_sub(self.shared.head.0.load(Ordering::Acquire)) as usize
    }

    /// Fills the next descriptor, with the command bits `command` ([`RS`], and what card and driver have agreed on); gives
    /// the value back if the ring is full.
    #[inline(always)]
    pub fn put(&mut self, value: T, command: u32) -> Result<(), T> {
        if self.room() == 0 {
            return Err(value);
        }
        // SAFETY: `tail` is not announced, and was taken back when it was used before: the driver's alone. What `take_done`
        // leaves is `None`, so nothing is lost by the write.
        self.shared.slot(self.tail).with_mut(|slot| unsafe { slot.write(Some(value)) });
        self.shared.status(self.tail).store(command & !DD, Ordering::Relaxed);
        if command & RS != 0 {
            self.asked.push_back(self.tail);
        }
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Fills up to `most` descriptors with what `next` gives, each with its command bits; says how many. The same as
    /// [`Driver::put`] of each, with the places kept in registers.
    #[inline(always)]
    pub fn put_from(&mut self, most: usize, mut next: impl FnMut() -> Option<(T, u32)>) -> usize {
        let (start, mut tail) = (self.tail, self.tail);
        let end = start.wrapping_add(most.min(self.room()) as u32);
        while tail != end
            && let Some((value, command)) = next()
        {
            // SAFETY: as in `put`: start..end is free.
            self.shared.slot(tail).with_mut(|slot| unsafe { slot.write(Some(value)) });
            self.shared.status(tail).store(command & !DD, Ordering::Relaxed);
            if command & RS != 0 {
                self.asked.push_back(tail);
            }
            tail = tail.wrapping_add(1);
        }
        self.tail = tail;
        tail.wrapping_sub(start) as usize
    }

    /// Tells the card of all that was filled: one store.
    #[inline(always)]
    pub fn announce(&mut self) {
        self.announced = self.tail;
        self.shared.tail.0.store(self.tail, Ordering::Release);
    }

    /// Looks at descriptor after descriptor for its report, until `most` are done; says how many can be taken back.
    #[inline(always)]
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

    /// Looks only at descriptors whose report was asked for; says how many can be taken back.
    #[inline(always)]
    pub fn find_reported(&mut self) -> usize {
        while let Some(&at) = self.asked.front()
            && at.wrapping_sub(self.head) < self.announced.wrapping_sub(self.head)
            && self.shared.status(at).load(Ordering::Acquire) & DD != 0
        {
            self.asked.pop_front();
            self.done = at.wrapping_add(1);
        }
        self.done.wrapping_sub(self.head) as usize
    }

    /// Takes back up to `most` of those found done, in order; `None` where the card has kept the value. Says how many.
    #[inline(always)]
    pub fn take_done(&mut self, most: usize, mut each: impl FnMut(Option<T>)) -> usize {
        let n = (self.done.wrapping_sub(self.head) as usize).min(most);
        let mut at = self.head;
        self.head = at.wrapping_add(n as u32);
        while at != self.head {
            // SAFETY: the descriptor lies before `done`: the card has released it, and it is not announced again; nothing is
            // put there before this returns.
            let value = self.shared.slot(at).with_mut(|slot| unsafe { (*slot).take() });
            at = at.wrapping_add(1);
            each(value);
        }
        n
    }

    /// Shows the value that [`Driver::take_done`] would give after `ahead` others, if that was found done.
    #[inline(always)]
    pub fn look_ahead(&self, ahead: usize, look: impl FnOnce(&T)) {
        if ahead < self.done.wrapping_sub(self.head) as usize {
            // SAFETY: as in `take_done`; `&self` keeps it where it is.
            self.shared.slot(self.head.wrapping_add(ahead as u32)).with_mut(|slot| {
                if let Some(value) = unsafe { &*slot } {
                    look(value);
                }
            });
        }
    }
}

impl<T> Card<T> {
    /// Descriptors that the driver has announced and the card has not done with (at least).
    #[inline]
    pub fn ready(&mut self) -> usize {
        if self.tail_seen == self.head {
            self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        }
        self.tail_seen.wrapping_sub(self.head) as usize
    }

    /// Shows the value of the next descriptor, to be changed or taken, and its command bits; `None`: there is no descriptor.
    pub fn with_next<R>(&mut self, work: impl FnOnce(&mut Option<T>, u32) -> R) -> Option<R> {
        if self.ready() == 0 {
            return None;
        }
        let command = self.shared.status(self.head).load(Ordering::Relaxed);
        // SAFETY: the descriptor lies between head and an acquired tail: the card's alone until `finish`.
        Some(self.shared.slot(self.head).with_mut(|slot| work(unsafe { &mut *slot }, command)))
    }

    /// Has done with the next descriptor and goes on to the one after it. It is reported if the driver asked for that.
    pub fn finish(&mut self) {
        let asked = self.shared.status(self.head).load(Ordering::Relaxed) & RS != 0;
        self.leave(asked);
    }

    /// The same, reported in any case.
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
