//! Buffers given to a device. The device fills or reads them, and identifies a buffer that it
//! returns by its position in the pool's memory.
//!
//! [`Away::give`] turns a frame into a [`Place`] for the device. The device later returns the
//! place, and [`Away::take`] turns it back into a frame. [`Away::take`] accepts only buffers that
//! the same `Away` has given to the device. A buffer therefore never has two owners, whatever the
//! device returns. The pool counts a buffer as in use while the device has it.
//!
//! The record has one word for each 2^n bytes of memory, where n is chosen so that at most one
//! buffer begins in them. The word contains the index of the cache line in which the buffer begins.
//! This avoids divisions by a stride that is not a power of two.
#![allow(unsafe_code)] // unsafe: frames are taken apart, and rebuilt from buffers on record

#[cfg(all(test, not(loom)))]
mod tests;

use crate::{Frame, Layout, Pool};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Position of a frame in its pool's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Offset of the buffer's stride from the first byte of the pool's memory, in bytes.
    pub slot: usize,
    /// Offset of the frame's first byte from `slot`, in bytes: at least [`Layout::front`].
    pub data: usize,
    /// Length of the frame in bytes.
    pub len: usize,
}

/// Records which buffers of a pool a device has at present for one purpose, such as receiving.
pub struct Away {
    pool: Pool,
    layout: Layout,
    number: u16,
    size: usize,
    /// One word for each 2^`shift` bytes of the pool's memory. If a buffer that the device has
    /// begins in these bytes, the word is the index, counted from 1, of the cache line in which the
    /// buffer's stride begins. Otherwise it is 0.
    lines: Box<[u16]>,
    shift: u32,
    out: usize,
}

// SAFETY: the layout's pointer points into the pool's memory, which lives as long as the pool; the
// pool itself is `Send`.
unsafe impl Send for Away {}

/// Maximum offset, in bytes, that a frame can store.
const OFFSET_MAX: usize = (1 << 15) - 1;

impl Away {
    /// Creates a record for `pool`, with no buffer given yet. Returns `None` if the pool's buffers
    /// have no fixed layout ([`Kind::Malloc`](crate::Kind::Malloc)) or are 4 MiB or more apart.
    pub fn new(pool: &Pool) -> Option<Away> {
        let layout = pool.layout()?;
        let shift = layout.stride.ilog2();
        if !(6..22).contains(&shift) {
            return None;
        }
        let lines = vec![0; layout.len.div_ceil(1 << shift)].into_boxed_slice();
        Some(Away { pool: pool.clone(), layout, number: pool.number(), size: pool.size(), lines, shift, out: 0 })
    }

    /// Returns the pool to which the buffers belong.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the layout of the pool's buffers.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the number of buffers that the device has.
    #[inline]
    pub fn len(&self) -> usize {
        self.out
    }

    /// Returns whether the device has no buffer.
    pub fn is_empty(&self) -> bool {
        self.out == 0
    }

    /// Returns whether `frame` can be given to the device: it belongs to this pool, and its buffer
    /// is not on loan.
    #[inline]
    pub fn accepts(&self, frame: &Frame) -> bool {
        frame.pool_number() == self.number && !frame.is_lent()
    }

    /// Gives a frame to the device.
    ///
    /// # Errors
    /// The frame, if it belongs to another pool or is on loan.
    #[inline]
    pub fn give(&mut self, frame: Frame) -> Result<Place, Frame> {
        if !self.accepts(&frame) {
            return Err(frame);
        }
        let slot =
            (frame.buffer().as_ptr() as usize).wrapping_sub(self.layout.base.as_ptr() as usize + self.layout.front);
        let line = self.line(slot);
        let Some(entry) = self.lines.get_mut(slot >> self.shift) else { return Err(frame) };
        *entry = line;
        self.out += 1;
        let frame = ManuallyDrop::new(frame); // rebuilt by `take`
        Ok(Place { slot, data: self.layout.front + frame.offset(), len: frame.len() })
    }

    #[inline(always)]
    fn line(&self, slot: usize) -> u16 {
        ((slot & ((1 << self.shift) - 1)) >> 6) as u16 + 1
    }

    /// Takes the buffer at `place` back from the device, and returns it as a frame that consists of
    /// the bytes at `place`. Returns `None` if the device had no buffer there, or if `place`
    /// exceeds the buffer. In the second case the buffer returns to its pool.
    #[inline]
    pub fn take(&mut self, place: Place) -> Option<Frame> {
        let buf = self.strike(place.slot)?;
        // SAFETY: the buffer was just removed from the record, and `give` forgot the frame that
        // owned it.
        let mut frame = unsafe { Frame::from_raw(buf, self.number, 0) };
        let off = place.data.checked_sub(self.layout.front).filter(|off| *off <= OFFSET_MAX)?;
        let end = off.checked_add(place.len).filter(|end| *end <= self.size)?;
        // SAFETY: the frame is empty and has no headroom; `end` lies within the buffer, which is
        // initialised as all buffers are.
        frame = unsafe { frame.spanning(0, end) };
        frame.pull_link(off).then_some(frame)
    }

    /// Removes the buffer at offset `slot` from the record and returns it; `None` if the device did
    /// not have it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn strike(&mut self, slot: usize) -> Option<NonNull<u8>> {
        let line = self.line(slot);
        let entry = self.lines.get_mut(slot >> self.shift).filter(|entry| **entry == line && slot & 63 == 0)?;
        *entry = 0;
        self.out -= 1;
        // SAFETY: an entry on record is the beginning of a buffer's stride inside the pool's
        // memory.
        Some(unsafe { self.layout.base.add(slot + self.layout.front) })
    }

    /// Moves all entries of the record to a new `Away`. This one is then empty and can be dropped
    /// without returning buffers to the pool.
    #[must_use]
    pub fn hand_over(&mut self) -> Away {
        let (lines, out) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.out));
        Away { pool: self.pool.clone(), lines, out, ..*self }
    }

    /// Gives up the buffers that the device has: they are never reused, and the pool's memory is
    /// never freed. For a device that may continue to access them.
    pub fn abandon(&mut self) {
        self.lines.fill(0);
        self.out = 0;
    }
}

/// Returns the buffers to the pool. The owner must have ensured that the device no longer uses
/// them.
impl Drop for Away {
    fn drop(&mut self) {
        for stretch in 0..self.lines.len() {
            let Some(line) = self.lines.get(stretch).and_then(|line| line.checked_sub(1)) else { continue };
            drop(self.take(Place {
                slot: (stretch << self.shift) + (usize::from(line) << 6),
                data: self.layout.front,
                len: 0,
            }));
        }
    }
}

impl fmt::Debug for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Away({} of {:?})", self.out, self.pool)
    }
}
