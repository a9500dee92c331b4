//! Frames moved together at an edge: at most [`BURST_MAX`], in order, without an allocation.
#![allow(unsafe_code)] // an unsafe room: slots head..tail are initialised, the others are not

use crate::Frame;
use std::fmt;
use std::mem::MaybeUninit;

/// The most frames a burst can hold.
pub const BURST_MAX: usize = 256;

/// A short queue of frames. Creating one writes two words, not its 8 KiB.
pub struct Burst {
    head: usize,
    tail: usize,
    slots: [MaybeUninit<Frame>; BURST_MAX],
}

impl Burst {
    /// An empty burst.
    #[inline(always)]
    pub const fn new() -> Burst {
        Burst { head: 0, tail: 0, slots: [const { MaybeUninit::uninit() }; BURST_MAX] }
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

    /// The frames, in order.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Frame] {
        // SAFETY: head..tail are initialised; `MaybeUninit<Frame>` has the layout of `Frame`.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().add(self.head).cast(), self.len()) }
    }

    /// The frames, to change in place.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [Frame] {
        // SAFETY: as in `as_slice`, exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.slots.as_mut_ptr().add(self.head).cast(), self.len()) }
    }

    /// Takes all frames, in order; those not taken by the end are dropped with the iterator's burst.
    #[inline(always)]
    pub fn drain(&mut self) -> impl Iterator<Item = Frame> + '_ {
        std::iter::from_fn(move || self.pop())
    }

    /// Drops all frames.
    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }

    /// Moves as many frames as fit from the front of `from` to the end of this one.
    pub fn take_from(&mut self, from: &mut Burst) -> usize {
        let mut moved = 0;
        while self.room() > 0 {
            let Some(frame) = from.pop() else { break };
            if self.push(frame).is_err() {
                break;
            }
            moved += 1;
        }
        moved
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
