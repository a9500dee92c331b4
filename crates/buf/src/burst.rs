//! Frames moved together: at most [`BURST_MAX`], in order, without allocation.
#![allow(unsafe_code)] // unsafe: slots head..tail are initialised, the others are not

use crate::Frame;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Maximum number of frames in a burst.
pub const BURST_MAX: usize = 256;

/// A short queue of frames. Creating one writes two words, not the 4 KiB of its slots.
pub struct Burst {
    head: usize,
    tail: usize,
    slots: [MaybeUninit<Frame>; BURST_MAX],
}

/// Panics in debug builds: a burst was full although its caller must have checked for a free slot.
#[cold]
#[inline(never)]
#[track_caller]
fn no_room() {
    debug_assert!(false, "no free slot in a burst that must have one");
}

impl Burst {
    /// Returns an empty burst.
    #[inline(always)]
    pub const fn new() -> Burst {
        Burst { head: 0, tail: 0, slots: [const { MaybeUninit::uninit() }; BURST_MAX] }
    }

    /// Returns a burst that contains one frame.
    #[inline(always)]
    pub fn of(frame: Frame) -> Burst {
        let mut burst = Burst::new();
        burst.put(frame, || {});
        burst
    }

    /// Appends a frame; the caller must have checked that there is a free slot. If there is none,
    /// which is a bug, the frame is dropped and `count` is called to count the loss. With debug
    /// assertions, the call panics.
    #[inline(always)]
    pub fn put(&mut self, frame: Frame, count: impl FnOnce()) {
        if self.push(frame).is_err() {
            no_room();
            count();
        }
    }

    /// Returns the number of frames.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Returns whether the burst is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Returns the number of free slots.
    #[inline(always)]
    pub fn room(&self) -> usize {
        BURST_MAX - self.len()
    }

    /// Appends a frame. Returns it as the error if the burst is full.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.tail == BURST_MAX {
            if self.head == 0 {
                return Err(frame);
            }
            self.compact();
        }
        // `tail < BURST_MAX` holds here. Without this check the compiler would add a bounds check
        // that panics.
        if let Some(slot) = self.slots.get_mut(self.tail) {
            slot.write(frame);
            self.tail += 1;
        }
        Ok(())
    }

    /// Calls `write` with up to `n` free slots at the end. `write` must fill the slots in order and
    /// return the number filled. Returns the same number.
    #[cfg_attr(not(debug_assertions), inline(always))]
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
        // SAFETY: moves the `len` initialised slots to the front; frames are plain values that can
        // be moved.
        unsafe {
            let base = self.slots.as_mut_ptr();
            std::ptr::copy(base.add(self.head), base, len);
        }
        (self.head, self.tail) = (0, len);
    }

    /// Removes and returns the first frame.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn pop(&mut self) -> Option<Frame> {
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
            return None;
        }
        let at = self.head;
        self.head += 1;
        // SAFETY: slot `at` was initialised and is now outside head..tail: it is moved out once.
        Some(unsafe { self.slots.get_unchecked(at).assume_init_read() })
    }

    /// Removes the first `n` frames, or all if there are fewer, and returns their slots. The caller
    /// must move the frames out of the slots.
    #[inline(always)]
    pub(crate) fn take_front(&mut self, n: usize) -> &[MaybeUninit<Frame>] {
        let from = self.head;
        self.head += n.min(self.len());
        self.slots.get(from..self.head).unwrap_or_default()
    }

    /// Returns the frames, in order.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Frame] {
        // SAFETY: head..tail are initialised; `MaybeUninit<Frame>` has the layout of `Frame`.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().add(self.head).cast(), self.len()) }
    }

    /// Returns the total length of all frames in bytes.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        match self.as_slice() {
            [one] => one.len(), // avoids the 20 instructions that set up the loop
            frames => frames.iter().map(Frame::len).sum(),
        }
    }

    /// Returns the frames as a mutable slice, in order.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [Frame] {
        // SAFETY: same as in `as_slice`, exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.slots.as_mut_ptr().add(self.head).cast(), self.len()) }
    }

    /// Removes all frames and returns them in order. Dropping the iterator drops the frames not
    /// taken from it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn drain(&mut self) -> Drain<'_> {
        let (head, tail) = (self.head, self.tail);
        (self.head, self.tail) = (0, 0);
        // SAFETY: head <= tail <= BURST_MAX: both pointers lie within the slots or right after
        // them.
        let (next, end) = unsafe { (self.slots.as_ptr().add(head), self.slots.as_ptr().add(tail)) };
        Drain { next: next.cast(), end: end.cast(), _burst: PhantomData }
    }

    /// Drops all frames.
    #[cfg_attr(not(debug_assertions), inline(always))]
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

    /// Moves frames from the front of `from` to the end of this burst, as many as fit. Returns
    /// their number.
    pub fn take_from(&mut self, from: &mut Burst) -> usize {
        self.take_some(from, BURST_MAX)
    }

    /// Moves frames as [`Burst::take_from`] does, but at most `most` of them. Returns their number.
    #[inline]
    pub fn take_some(&mut self, from: &mut Burst, most: usize) -> usize {
        let n = most.min(from.len()).min(self.room());
        // SAFETY: the first `n` frames of `from` are moved out once: its head is then moved past
        // them.
        let frames = unsafe { std::slice::from_raw_parts(from.slots.as_ptr().add(from.head), n) };
        from.head += n;
        self.fill(n, |places| {
            // SAFETY: `fill` passes `n` slots, because at least `n` are free; two bursts do not
            // overlap.
            unsafe { std::ptr::copy_nonoverlapping(frames.as_ptr(), places.as_mut_ptr(), n) };
            n
        })
    }
}

/// Iterator that removes the frames of a burst.
#[derive(Debug)]
pub struct Drain<'a> {
    next: *const Frame,
    end: *const Frame,
    _burst: PhantomData<&'a mut Burst>,
}

impl Drain<'_> {
    /// Returns the frames that have not been taken.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Frame] {
        // SAFETY: next..end are initialised, and the burst stays borrowed.
        unsafe { std::slice::from_raw_parts(self.next, self.len()) }
    }
}

impl Iterator for Drain<'_> {
    type Item = Frame;

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn next(&mut self) -> Option<Frame> {
        if self.next == self.end {
            return None;
        }
        // SAFETY: next..end are initialised, outside the burst's head..tail, and each is moved out
        // once.
        unsafe {
            let frame = self.next.read();
            self.next = self.next.add(1);
            Some(frame)
        }
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        // SAFETY: both pointers point into, or right after, the slots of one burst.
        let left = unsafe { self.end.offset_from_unsigned(self.next) };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.next != self.end {
            // SAFETY: frames that have not been taken are initialised, and not used after this.
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
