//! Large TCP segments that a device delivers whole: their buffers, and how they are split if no
//! large buffer is left.
//!
//! A consumer that never reads keeps large buffers in use. Reception must continue nevertheless, so
//! one large buffer is always kept in reserve. A segment received into the reserve buffer is split
//! into smaller buffers of another pool; the large buffer then becomes the reserve again.

use super::gso::Cutter;
use buf::{Flags, Frame, Pool, PoolConfig, PoolLocks};
use std::io::{self, ErrorKind};

/// Number of large buffers of one device, enough for more than the largest receive buffer of a
/// connection. They occupy physical memory only after they have been written.
pub const LARGE_BUFFERS: usize = 128;

/// Length of the largest IP packet in bytes.
pub const LARGEST: usize = 65_535;

/// Length of the largest packet in bytes, plus the headers around it.
const LARGE_DATA: usize = LARGEST + 1 + 64;

/// Creates the pool for large segments. Its frames can be freed on any thread.
pub fn pool(buffers: usize) -> io::Result<Pool> {
    let config = PoolConfig { buffers, data: LARGE_DATA, locks: PoolLocks::Light, ..PoolConfig::default() };
    Pool::new(&config).map_err(|error| io::Error::new(ErrorKind::OutOfMemory, error.to_string()))
}

/// Result of splitting a segment from the reserve buffer.
#[derive(Debug)]
pub enum Cut {
    /// A piece of the segment.
    Piece(Frame),
    /// No buffer was free for the next piece.
    NoBuffer,
    /// The frame was dropped, because it is a single packet of a large MTU instead of a large
    /// segment, or because its pieces do not fit into the buffers of the other pool.
    Uncuttable,
}

/// Large buffers of a receiving half.
#[derive(Debug)]
pub struct Large {
    pool: Option<Pool>,
    /// The buffer in reserve; `None` while it is in use.
    spare: Option<Frame>,
    cutting: Option<Cutter>,
}

impl Large {
    /// Creates the state with the large buffers of `pool`, and takes the reserve buffer from it. If
    /// `pool` is `None`, the receiving half has no large buffers.
    pub fn new(pool: Option<Pool>) -> Large {
        Large { spare: pool.as_ref().and_then(Pool::get), pool, cutting: None }
    }

    /// Returns whether there are large buffers.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.pool.is_some()
    }

    /// Returns a large buffer, but never the one in reserve. Returns `None` if no other is free.
    pub fn get(&self) -> Option<Frame> {
        self.pool.as_ref()?.get()
    }

    /// Takes the buffer in reserve. Returns `None` if it is in use.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        self.spare.take()
    }

    /// Returns whether the reserve buffer is in use, so that the received segment must be split.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.pool.is_some() && self.spare.is_none()
    }

    /// Keeps `spare` in reserve if there is no reserve buffer; otherwise frees it. If headers were
    /// added to `spare`, frees it and reserves a new buffer instead, because its headroom would
    /// shrink with each use.
    pub fn keep(&mut self, mut spare: Frame) {
        let Some(pool) = self.pool.as_ref().filter(|_| self.spare.is_none()) else { return };
        spare.truncate(0);
        spare.set_flags(Flags::default());
        if spare.headroom() == pool.headroom() {
            self.spare = Some(spare);
        } else {
            drop(spare);
            self.spare = pool.get();
        }
    }

    /// Returns whether a segment is being split.
    #[inline]
    pub fn is_cutting(&self) -> bool {
        self.cutting.is_some()
    }

    /// Starts splitting a segment into buffers of the pool `small`. Returns the first piece.
    #[cold]
    pub fn split(&mut self, frame: Frame, small: &Pool) -> Cut {
        let room = small.size() - small.headroom();
        match Cutter::new(frame) {
            Ok(cutter) if cutter.longest() <= room => {
                self.cutting = Some(cutter);
                self.cut(small)
            }
            // The pieces are longer than any buffer of `small`, so waiting for a free buffer would
            // stop reception.
            Ok(cutter) => self.refuse(cutter.into_frame()),
            Err(frame) => self.refuse(frame),
        }
    }

    fn refuse(&mut self, frame: Frame) -> Cut {
        self.keep(frame);
        Cut::Uncuttable
    }

    /// Returns the next piece. If no buffer is free for it, the caller tries again later.
    #[cold]
    pub fn cut(&mut self, small: &Pool) -> Cut {
        let Some(mut cutter) = self.cutting.take() else { return Cut::NoBuffer };
        let piece = cutter.cut(small);
        if cutter.is_done() {
            self.keep(cutter.into_frame());
        } else {
            self.cutting = Some(cutter);
        }
        piece.map_or(Cut::NoBuffer, Cut::Piece)
    }
}

#[cfg(test)]
mod tests;
