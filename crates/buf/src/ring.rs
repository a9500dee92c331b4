//! A bounded single-producer single-consumer ring, which moves frames from one thread to another.
//!
//! Each side keeps a copy of the other side's index, and reads the shared index again only if the
//! ring would be full or empty according to the copy. This costs about 3 ticks per pointer in
//! bursts of 32 (docs/results). Checked with loom (`RUSTFLAGS="--cfg loom"`).
#![allow(unsafe_code)] // unsafe: acquire and release of the indices transfer the slots

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
#[repr(transparent)] // a run of cells has the layout of a run of values
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
    head: Padded<AtomicUsize>, // index of the next value to read; written by the consumer
    tail: Padded<AtomicUsize>, // index of the next slot to write; written by the producer
    closed: AtomicBool,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: the producer accesses only slots outside head..tail, the consumer only slots inside it.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: same as above.
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
            // SAFETY: head..tail are initialised, and there is no other reader left.
            self.slot(at).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            at = at.wrapping_add(1);
        }
    }
}

/// The producer side of a ring.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    head_seen: usize,
}

/// The consumer side of a ring.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    tail_seen: usize,
}

/// Creates a ring with slots for `capacity` values (rounded up to a power of two).
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
    /// Returns the number of free slots. The actual number may be larger, because the consumer may
    /// be freeing slots at the same time.
    #[inline]
    pub fn room(&mut self) -> usize {
        let capacity = self.shared.slots.len();
        if self.tail.wrapping_sub(self.head_seen) == capacity {
            self.head_seen = self.shared.head.0.load(Ordering::Acquire);
        }
        capacity - self.tail.wrapping_sub(self.head_seen)
    }

    /// Writes the values that `next` returns, until it returns `None` or the ring is full. The
    /// values become visible to the consumer all at once. Returns their number.
    #[inline]
    pub fn push_from(&mut self, mut next: impl FnMut() -> Option<T>) -> usize {
        let start = self.tail;
        let mut tail = start;
        while let room @ 1.. = self.room() {
            let end = tail.wrapping_add(room);
            while tail != end
                && let Some(value) = next()
            {
                // SAFETY: the slot lies outside head..tail: the producer owns it until the store
                // below.
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

    /// Writes one value. Returns it as the error if the ring is full.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.room() == 0 {
            return Err(value);
        }
        // SAFETY: same as in `push_from`.
        self.shared.slot(self.tail).with_mut(|slot| unsafe {
            (*slot).write(value);
        });
        self.tail = self.tail.wrapping_add(1);
        self.shared.tail.0.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Returns whether the consumer has been dropped.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

impl<T> Consumer<T> {
    /// Returns the number of values that can be read. The actual number may be larger, because the
    /// producer may be adding values at the same time.
    #[inline]
    pub fn ready(&mut self) -> usize {
        if self.tail_seen == self.head {
            self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        }
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Passes at most `most` values to `into`. Their slots become free for the producer all at
    /// once. Returns their number.
    #[inline]
    pub fn pop_into(&mut self, most: usize, mut into: impl FnMut(T)) -> usize {
        let n = self.ready().min(most);
        let (mut at, end) = (self.head, self.head.wrapping_add(n));
        while at != end {
            // SAFETY: the slot lies inside head..tail: the producer wrote and released it, and it
            // is read once.
            into(self.shared.slot(at).with_mut(|slot| unsafe { (*slot).assume_init_read() }));
            at = at.wrapping_add(1);
        }
        self.head = end;
        if n > 0 {
            self.shared.head.0.store(end, Ordering::Release);
        }
        n
    }

    /// Returns the number of values in the ring. The producer may be adding more at the same time.
    pub fn level(&self) -> usize {
        self.shared.tail.0.load(Ordering::Acquire).wrapping_sub(self.head)
    }

    /// Reads the next value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.ready() == 0 {
            return None;
        }
        // SAFETY: same as in `pop_into`.
        let value = self.shared.slot(self.head).with_mut(|slot| unsafe { (*slot).assume_init_read() });
        self.head = self.head.wrapping_add(1);
        self.shared.head.0.store(self.head, Ordering::Release);
        Some(value)
    }

    /// Returns whether the producer has been dropped. Values written before can still be read.
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
