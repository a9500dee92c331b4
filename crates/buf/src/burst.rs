//! Frames moved together at an edge: at most [`BURST_MAX`], in order, without an allocation.
#![allow(unsafe_code)] // an unsafe room: slots head..tail are initialised, the others are not

use crate::Frame;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The most frames a burst can hold.
pub const BURST_MAX: usize = 256;

/// A short queue of frames. Creating one writes two words, not its 8 KiB.
pub struct Burst {
    head: usize,
    tail: usize,
    slots: [MaybeUninit<Frame>; BURST_MAX],
}

/// A frame had no place where there is one.
#[cold]
#[inline(never)]
#[track_caller]
fn no_room() {
    debug_assert!(false, "a burst that has room is full");
}

impl Burst {
    /// An empty burst.
    #[inline(always)]
    pub const fn new() -> Burst {
        Burst { head: 0, tail: 0, slots: [const { MaybeUninit::uninit() }; BURST_MAX] }
    }

    /// A burst of one.
    #[inline(always)]
    pub fn of(frame: Frame) -> Burst {
        let mut burst = Burst::new();
        burst.put(frame, || {});
        burst
    }

    /// Appends a frame for which there is room, as the caller knows. Without room, which is a mistake in this program, the frame is dropped,
    /// `count` counts it, and tests fail: a panic where debug assertions are on.
    #[inline(always)]
    pub fn put(&mut self, frame: Frame, count: impl FnOnce()) {
        if self.push(frame).is_err() {
            no_room();
            count();
        }
    }

    /// How many frames.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// None?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Places left.
    #[inline(always)]
    pub fn room(&self) -> usize {
        BURST_MAX - self.len()
    }

    /// Adds a frame at the end; gives it back if there is no room.
    #[inline(always)]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.tail == BURST_MAX {
            if self.head == 0 {
                return Err(frame);
            }
            self.compact();
        }
        // `tail < BURST_MAX` holds here; the comparison spares the bounds check.
        if let Some(slot) = self.slots.get_mut(self.tail) {
            slot.write(frame);
            self.tail += 1;
        }
        Ok(())
    }

    /// Lets `write` fill up to `n` places at the end, from the first on; it says how many it has.
    #[inline(always)]
    pub(crate) fn fill(&mut self, n: usize, write: impl FnOnce(&mut [MaybeUninit<Frame>]) -> usize) -> usize {
        if n > BURST_MAX - self.tail {
            self.compact();
        }
        let room = self.slots.get_mut(self.tail..).unwrap_or_default();
        let n = n.min(room.len());
        let filled = room.get_mut(..n).map_or(0, write);
        self.tail += filled;
        filled
    }

    #[cold]
    fn compact(&mut self) {
        let len = self.len();
        // SAFETY: moves the `len` initialised slots to the front; frames are plain values that may be moved.
        unsafe {
            let base = self.slots.as_mut_ptr();
            std::ptr::copy(base.add(self.head), base, len);
        }
        (self.head, self.tail) = (0, len);
    }

    /// Takes the first frame.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Frame> {
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
            return None;
        }
        let at = self.head;
        self.head += 1;
        // SAFETY: slot `at` was initialised and now lies outside head..tail: it is moved out once.
        Some(unsafe { self.slots.get_unchecked(at).assume_init_read() })
    }

    /// The first `n` frames, to be moved out by whoever asked; at most as many as there are.
    #[inline(always)]
    pub(crate) fn take_front(&mut self, n: usize) -> &[MaybeUninit<Frame>] {
        let from = self.head;
        self.head += n.min(self.len());
        self.slots.get(from..self.head).unwrap_or_default()
    }

    /// The frames, in order.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Frame] {
        // SAFETY: head..tail are initialised; `MaybeUninit<Frame>` has the layout of `Frame`.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().add(self.head).cast(), self.len()) }
    }

    /// Bytes of all frames together.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        match self.as_slice() {
            [one] => one.len(), // a loop that is ready for 256 costs 20 instructions before it begins
            frames => frames.iter().map(Frame::len).sum(),
        }
    }

    /// The frames, to change in place.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [Frame] {
        // SAFETY: as in `as_slice`, exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.slots.as_mut_ptr().add(self.head).cast(), self.len()) }
    }

    /// Takes all frames, in order; those not taken by the end are dropped with the iterator.
    #[inline(always)]
    pub fn drain(&mut self) -> Drain<'_> {
        let (head, tail) = (self.head, self.tail);
        (self.head, self.tail) = (0, 0);
        // SAFETY: head <= tail <= BURST_MAX: both ends lie within the slots or right behind them.
        let (next, end) = unsafe { (self.slots.as_ptr().add(head), self.slots.as_ptr().add(tail)) };
        Drain { next: next.cast(), end: end.cast(), _burst: PhantomData }
    }

    /// Drops all frames.
    #[inline(always)]
    pub fn clear(&mut self) {
        match self.as_slice() {
            [] => {}
            [_] => {
                let last = self.pop();
                (self.head, self.tail) = (0, 0);
                drop(last);
            }
            _ => drop(self.drain()),
        }
    }

    /// Moves as many frames as fit from the front of `from` to the end of this one.
    pub fn take_from(&mut self, from: &mut Burst) -> usize {
        self.take_some(from, BURST_MAX)
    }

    /// The same, but no more than `most`.
    #[inline]
    pub fn take_some(&mut self, from: &mut Burst, most: usize) -> usize {
        let n = most.min(from.len()).min(self.room());
        // SAFETY: the first `n` frames of `from` are moved out once: its head then stands behind them.
        let frames = unsafe { std::slice::from_raw_parts(from.slots.as_ptr().add(from.head), n) };
        from.head += n;
        self.fill(n, |places| {
            // SAFETY: `fill` gives `n` places, which `room` has promised; two bursts do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(frames.as_ptr(), places.as_mut_ptr(), n) };
            n
        })
    }
}

/// The frames of a burst, being taken.
#[derive(Debug)]
pub struct Drain<'a> {
    next: *const Frame,
    end: *const Frame,
    _burst: PhantomData<&'a mut Burst>,
}

impl Drain<'_> {
    /// Those that have not been taken.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Frame] {
        // SAFETY: next..end are initialised, and the burst stays borrowed.
        unsafe { std::slice::from_raw_parts(self.next, self.len()) }
    }
}

impl Iterator for Drain<'_> {
    type Item = Frame;

    #[inline(always)]
    fn next(&mut self) -> Option<Frame> {
        if self.next == self.end {
            return None;
        }
        // SAFETY: next..end are initialised, outside the burst's head..tail, and each is moved out once.
        unsafe {
            let frame = self.next.read();
            self.next = self.next.add(1);
            Some(frame)
        }
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        // SAFETY: both point into, or right behind, the slots of one burst.
        let left = unsafe { self.end.offset_from_unsigned(self.next) };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.next != self.end {
            // SAFETY: what has not been taken is initialised, and nobody sees it after this.
            unsafe { Frame::drop_all(std::slice::from_raw_parts(self.next, self.len())) }
        }
    }
}

impl Default for Burst {
    fn default() -> Burst {
        Burst::new()
    }
}

impl Drop for Burst {
    #[inline(always)]
    fn drop(&mut self) {
        self.clear();
    }
}

impl fmt::Debug for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}
