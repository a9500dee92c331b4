//! Transfer of bursts through a ring. The frames of a burst are copied in at most two contiguous
//! pieces, which saves a call and an index update per frame.

use super::{Consumer, Producer, Shared};
use crate::{Burst, Frame};
#[cfg(loom)]
use loom::sync::atomic::Ordering;
use std::mem::MaybeUninit;
#[cfg(not(loom))]
use std::sync::atomic::Ordering;

impl Producer<Frame> {
    /// Moves frames from the front of `from` into the ring, as many as fit. They become visible to
    /// the consumer all at once. Returns their number.
    #[inline]
    pub fn push_burst(&mut self, from: &mut Burst) -> usize {
        let capacity = self.shared.slots.len();
        if capacity - self.tail.wrapping_sub(self.head_seen) < from.len() {
            self.head_seen = self.shared.head.0.load(Ordering::Acquire);
        }
        let n = from.len().min(capacity - self.tail.wrapping_sub(self.head_seen));
        if n == 0 {
            return 0;
        }
        self.shared.write(self.tail, from.take_front(n));
        self.tail = self.tail.wrapping_add(n);
        self.shared.tail.0.store(self.tail, Ordering::Release);
        n
    }
}

impl Consumer<Frame> {
    /// Moves frames from the ring to the end of `into`: at most `most` frames, and no more than fit
    /// into the burst. Returns their number.
    #[inline]
    pub fn pop_burst(&mut self, into: &mut Burst, most: usize) -> usize {
        let n = self.ready().min(most).min(into.room());
        if n == 0 {
            return 0;
        }
        into.fill(n, |places| {
            self.shared.read(self.head, places);
            n
        });
        self.head = self.head.wrapping_add(n);
        self.shared.head.0.store(self.head, Ordering::Release);
        n
    }
}

/// Copies `n` frames, without a call if `n` is 0 or 1.
///
/// # Safety
/// Same as for `std::ptr::copy_nonoverlapping`.
#[cfg(not(loom))]
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn copy(from: *const MaybeUninit<Frame>, to: *mut MaybeUninit<Frame>, n: usize) {
    match n {
        0 => {}
        // SAFETY: guaranteed by the caller.
        1 => unsafe { to.write(from.read()) },
        // SAFETY: guaranteed by the caller.
        _ => unsafe { std::ptr::copy_nonoverlapping(from, to, n) },
    }
}

#[cfg(not(loom))]
impl Shared<Frame> {
    /// Returns a pointer to slot `at`, and the number of slots from there to the ring's end, at
    /// most `n`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn run(&self, at: usize, n: usize) -> (*mut MaybeUninit<Frame>, usize) {
        let first = at & (self.slots.len() - 1);
        let slots: *const MaybeUninit<Frame> = self.slots.as_ptr().cast();
        // SAFETY: the length is a power of two, so the masked index lies inside; a slot has the
        // layout of its cell's value.
        (unsafe { slots.add(first) }.cast_mut(), n.min(self.slots.len() - first))
    }

    /// Writes into slots that the producer owns.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn write(&self, at: usize, frames: &[MaybeUninit<Frame>]) {
        let (to, first) = self.run(at, frames.len());
        let (start, _) = self.run(0, 0);
        let (head, rest) = frames.split_at(first);
        // SAFETY: the `first` slots from `to` and the remaining slots from the ring's start lie
        // outside head..tail and belong to the producer; a frame can be moved by copying it, and
        // `frames` is not used afterwards.
        unsafe {
            copy(head.as_ptr(), to, head.len());
            copy(rest.as_ptr(), start, rest.len());
        }
    }

    /// Moves frames out of slots that the consumer owns.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn read(&self, at: usize, places: &mut [MaybeUninit<Frame>]) {
        let (from, first) = self.run(at, places.len());
        let (start, _) = self.run(0, 0);
        let (head, rest) = places.split_at_mut(first);
        // SAFETY: these slots lie inside head..tail: the producer wrote and released them, and each
        // is read once.
        unsafe {
            copy(from, head.as_mut_ptr(), head.len());
            copy(start, rest.as_mut_ptr(), rest.len());
        }
    }
}

/// Copies frames one by one, because loom tracks each slot.
#[cfg(loom)]
impl Shared<Frame> {
    fn write(&self, at: usize, frames: &[MaybeUninit<Frame>]) {
        for (i, frame) in frames.iter().enumerate() {
            // SAFETY: the producer owns the slot, and the frame is moved out of `frames` once.
            self.slot(at.wrapping_add(i)).with_mut(|slot| unsafe { *slot = std::ptr::read(frame) });
        }
    }

    fn read(&self, at: usize, places: &mut [MaybeUninit<Frame>]) {
        for (i, place) in places.iter_mut().enumerate() {
            // SAFETY: the slot lies inside head..tail: the producer wrote and released it, and it
            // is read once.
            *place = self.slot(at.wrapping_add(i)).with_mut(|slot| unsafe { std::ptr::read(slot) });
        }
    }
}
