//! Buffers that are away: with a device that fills or reads them, and gives them back by their place in the pool's memory.
//!
//! A frame given away ([`Away::give`]) leaves as a [`Place`]; the device gives that back, and the frame is made again of it
//! ([`Away::take`]). What is not on record as given by this very account is not taken, so whatever a device answers, no
//! buffer has two owners. To the pool a buffer that is away is in use.
//!
//! On record is a word for each stretch of memory that is too short for two buffers: which one of its cache lines begins
//! the buffer. So nothing is divided by a stride that is no power of two.
#![allow(unsafe_code)] // an unsafe room: frames are taken apart and made again of buffers whose absence is on record

#[cfg(all(test, not(loom)))]
mod tests;

use crate::{Frame, Layout, Pool};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Where a frame lies in its pool's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The first byte of the buffer's stride, from the pool's first byte on.
    pub slot: usize,
    /// The frame's first byte, from there on: not less than [`Layout::front`].
    pub data: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// The account of one pool's buffers that one device has for one purpose.
pub struct Away {
    pool: Pool,
    layout: Layout,
    number: u16,
    size: usize,
    /// For each 2^shift bytes: 0, or which line in it, from 1 on, begins the stride of a buffer that is away.
    lines: Box<[u16]>,
    shift: u32,
    out: usize,
}

// SAFETY: the layout's pointer is of the pool's memory, which lives as long as the pool, which may move and be shared itself.
unsafe impl Send for Away {}

/// The longest offset that a frame's word has room for.
const OFFSET_MAX: usize = (1 << 15) - 1;

impl Away {
    /// An account of `pool`, with nothing away; `None` if its buffers lie anywhere ([`Kind::Malloc`](crate::Kind::Malloc)), or
    /// more than 4 MiB apart.
    pub fn new(pool: &Pool) -> Option<Away> {
        let layout = pool.layout()?;
        let shift = layout.stride.ilog2();
        if !(6..22).contains(&shift) {
            return None;
        }
        let lines = vec![0; layout.len.div_ceil(1 << shift)].into_boxed_slice();
        Some(Away { pool: pool.clone(), layout, number: pool.number(), size: pool.size(), lines, shift, out: 0 })
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Where its buffers lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Buffers that are away.
    #[inline]
    pub fn len(&self) -> usize {
        self.out
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.out == 0
    }

    /// May the frame be given: is it of this pool, and its buffer nobody else's?
    #[inline]
    pub fn accepts(&self, frame: &Frame) -> bool {
        frame.pool_number() == self.number && !frame.is_lent()
    }

    /// Gives a frame away.
    ///
    /// # Errors
    /// The frame, if it is another pool's or on loan.
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
        let frame = ManuallyDrop::new(frame); // it is made again by `take`
        Ok(Place { slot, data: self.layout.front + frame.offset(), len: frame.len() })
    }

    #[inline(always)]
    fn line(&self, slot: usize) -> u16 {
        ((slot & ((1 << self.shift) - 1)) >> 6) as u16 + 1
    }

    /// Takes a frame back: its bytes are now those at `place`. `None`: no buffer there is away, or (the buffer is then back in
    /// its pool) the place does not lie within it.
    #[inline]
    pub fn take(&mut self, place: Place) -> Option<Frame> {
        let buf = self.strike(place.slot)?;
        // SAFETY: struck off the record, on which it was because a frame of this pool was taken apart in `give`.
        let mut frame = unsafe { Frame::from_raw(buf, self.number, 0) };
        let off = place.data.checked_sub(self.layout.front).filter(|off| *off <= OFFSET_MAX)?;
        let end = off.checked_add(place.len).filter(|end| *end <= self.size)?;
        // SAFETY: an empty frame without headroom to take of; `end` lies within the buffer, which is initialised as all are.
        frame = unsafe { frame.spanning(0, end) };
        frame.pull_link(off).then_some(frame)
    }

    /// The buffer at `slot`, which is no longer away; `None`: it was not.
    #[inline(always)]
    fn strike(&mut self, slot: usize) -> Option<NonNull<u8>> {
        let line = self.line(slot);
        let entry = self.lines.get_mut(slot >> self.shift).filter(|entry| **entry == line && slot & 63 == 0)?;
        *entry = 0;
        self.out -= 1;
        // SAFETY: what is on record is where a buffer's stride begins, inside the pool's memory.
        Some(unsafe { self.layout.base.add(slot + self.layout.front) })
    }

    /// Moves the whole record to another account, and has nothing on it any more: to be kept when this one ends.
    #[must_use]
    pub fn hand_over(&mut self) -> Away {
        let (lines, out) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.out));
        Away { pool: self.pool.clone(), lines, out, ..*self }
    }

    /// Gives up what is away: it never comes back, and the pool's memory stays. For a device that would not let go.
    pub fn abandon(&mut self) {
        self.lines.fill(0);
        self.out = 0;
    }
}

/// What is away comes home: whoever drops the account has seen to it that the device is done with it.
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
