//! A bounded single-producer single-consumer ring: how frames cross from one thread to another.
//!
//! Each side keeps its own copy of the other's index and re-reads the shared one only when the copy says "full" or
//! "empty": about 3 ticks a pointer in bursts of 32 here (docs/results). Checked with loom (`RUSTFLAGS="--cfg loom"`).
#![allow(unsafe_code)] // an unsafe room: slots are handed over by the indices' acquire and release

pub mod desc;
mod runs;

#[cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};
use std::mem::MaybeUninit;
#[cfg(not(loom))]
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

#[cfg(not(loom))]
#[derive(Debug)]
#[repr(transparent)] // a run of cells is a run of values
struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }
    #[inline(always)]
    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

#[repr(align(128))]
struct Padded<T>(T);

struct Shared<T> {
    head: Padded<AtomicUsize>, // next to read; written by the consumer
    tail: Padded<AtomicUsize>, // next to write; written by the producer
    closed: AtomicBool,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is touched by the producer only outside head..tail and by the consumer only inside it.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, at: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // SAFETY: the length is a power of two, so the masked index lies inside.
        unsafe { self.slots.get_unchecked(at & (self.slots.len() - 1)) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (head, tail) = (self.head.0.load(Ordering::Relaxed), self.tail.0.load(Ordering::Relaxed));
        let mut at = head;
        while at != tail {
            // SAFETY: head..tail are initialised and nobody else is left to read them.
            self.slot(at).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            at = at.wrapping_add(1);
        }
    }
}

/// The writing end.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    head_seen: usize,
}

/// The reading end.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    tail_seen: usize,
}

/// A ring with room for `capacity` values (rounded up to a power of two).
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let slots = (0..capacity.max(1).next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let shared = Arc::new(Shared {
        head: Padded(AtomicUsize::new(0)),
        tail: Padded(AtomicUsize::new(0)),
        closed: AtomicBool::new(false),
        slots,
    });
    (Producer { shared: shared.clone(), tail: 0, head_seen: 0 }, Consumer { shared, head: 0, tail_seen: 0 })
}

impl<T> Producer<T> {
    /// Places free now (at least; the consumer may be freeing more).
    #[inline]
    pub fn room(&mut self) -> usize {
        let capacity = self.shared.slots.len();
        if self.tail.wrapping_sub(self.head_seen) == capacity {
            self.head_seen = self.shared.head.0.load(Ordering::Acquire);
        }
        capacity - self.tail.wrapping_sub(self.head_seen)
    }

    /// Writes values from `next` until it gives none or the ring is full; the consumer sees all of them at once.
    #[inline]
    pub fn push_from(&mut self, mut next: impl FnMut() -> Option<T>) -> usize {
        let start = self.tail;
        let mut tail = start;
        while let room @ 1.. = self.room() {
            let end = tail.wrapping_add(room);
            while tail != end
                && let Some(value) = next()
            {
                // SAFETY: the slot lies outside head..tail: the producer's alone until the store below.
                self.shared.slot(tail).with_mut(|slot| unsafe {
                    (*slot).write(value);
                });
                tail = tail.wrapping_add(1);
            }
            self.tail = tail;
            if tail != end {
                break;
            }
        }
        if tail != start {
            self.shared.tail.0.store(tail, Ordering::Release);
        }
        tail.wrapping_sub(start)
    }

    /// Writes one value; gives it back if the ring is full.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.room() == 0 {
            return Err(value);
        }
        // SAFETY: as in `push_from`.
        self.shared.slot(self.tail).with_mut(|slot| unsafe {
            (*slot).write(value);
        });
        self.tail = self.tail.wrapping_add(1);
        self.shared.tail.0.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Has the reading end gone?
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

impl<T> Consumer<T> {
    /// Values ready to be read (at least).
    #[inline]
    pub fn ready(&mut self) -> usize {
        if self.tail_seen == self.head {
            self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        }
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Reads at most `most` values into `into`; the producer gets all the places back at once.
    #[inline]
    pub fn pop_into(&mut self, most: usize, mut into: impl FnMut(T)) -> usize {
        let n = self.ready().min(most);
        let (mut at, end) = (self.head, self.head.wrapping_add(n));
        while at != end {
            // SAFETY: the slot lies inside head..tail: written, released to us, read once.
            into(self.shared.slot(at).with_mut(|slot| unsafe { (*slot).assume_init_read() }));
            at = at.wrapping_add(1);
        }
        self.head = end;
        if n > 0 {
            self.shared.head.0.store(end, Ordering::Release);
        }
        n
    }

    /// Values in the ring now (the producer may be adding more).
    pub fn level(&self) -> usize {
        self.shared.tail.0.load(Ordering::Acquire).wrapping_sub(self.head)
    }

    /// Reads one value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.ready() == 0 {
            return None;
        }
        // SAFETY: as in `pop_into`.
        let value = self.shared.slot(self.head).with_mut(|slot| unsafe { (*slot).assume_init_read() });
        self.head = self.head.wrapping_add(1);
        self.shared.head.0.store(self.head, Ordering::Release);
        Some(value)
    }

    /// Has the writing end gone? What it wrote before can still be read.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

impl<T> std::fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Producer(wrote {})", self.tail)
    }
}

impl<T> std::fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Consumer(read {})", self.head)
    }
}

#[cfg(test)]
mod tests;
