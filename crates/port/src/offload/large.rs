//! Large TCP segments that a device gives uncut: buffers for them, and what becomes of them when there are no more.
//!
//! A reader that never reads must not stop the device. So one large buffer is always kept back; the segment that came into that one is cut
//! up into small buffers, and then the buffer is kept back again.

use super::gso::Cutter;
use buf::{Flags, Frame, Pool, PoolConfig, PoolLocks};
use std::io::{self, ErrorKind};

/// Large buffers of one device: more than fill the largest receive buffer of a connection. Memory is theirs once they are used.
pub const LARGE_BUFFERS: usize = 128;

/// The largest IP packet.
pub const LARGEST: usize = 65_535;

/// The largest packet, and what stands around it.
const LARGE_DATA: usize = LARGEST + 1 + 64;

/// Buffers for large segments. Frames of theirs end on any thread.
pub fn pool(buffers: usize) -> io::Result<Pool> {
    let config = PoolConfig { buffers, data: LARGE_DATA, locks: PoolLocks::Light, ..PoolConfig::default() };
    Pool::new(&config).map_err(|error| io::Error::new(ErrorKind::OutOfMemory, error.to_string()))
}

/// What a segment in the last large buffer came to.
#[derive(Debug)]
pub enum Cut {
    /// A piece of it.
    Piece(Frame),
    /// No buffer for the next piece.
    NoBuffer,
    /// It is no segment that could be cut, a packet of a large MTU; or its pieces are longer than a small buffer: dropped.
    Uncuttable,
}

/// A receiving half's large buffers.
#[derive(Debug)]
pub struct Large {
    pool: Option<Pool>,
    /// The buffer that is kept back; `None`: it is in use.
    spare: Option<Frame>,
    cutting: Option<Cutter>,
}

impl Large {
    /// Of `pool`; without one there are no large buffers.
    pub fn new(pool: Option<Pool>) -> Large {
        Large { spare: pool.as_ref().and_then(Pool::get), pool, cutting: None }
    }

    /// Are there any?
    #[inline]
    pub fn is_some(&self) -> bool {
        self.pool.is_some()
    }

    /// A buffer, if it is not the last.
    pub fn get(&self) -> Option<Frame> {
        self.pool.as_ref()?.get()
    }

    /// The last one.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        self.spare.take()
    }

    /// Is the last one in use?
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.pool.is_some() && self.spare.is_none()
    }

    /// Keeps a buffer back, whatever frame it was; one that is not needed ends.
    pub fn keep(&mut self, mut spare: Frame) {
        if self.is_spent() {
            spare.truncate(0);
            spare.set_flags(Flags::default());
            self.spare = Some(spare);
        }
    }

    /// Is a segment being cut?
    #[inline]
    pub fn is_cutting(&self) -> bool {
        self.cutting.is_some()
    }

    /// Begins to cut a segment into buffers of `small`; the first piece.
    #[cold]
    pub fn split(&mut self, frame: Frame, small: &Pool) -> Cut {
        let room = small.size() - small.headroom();
        match Cutter::new(frame) {
            Ok(cutter) if cutter.longest() <= room => {
                self.cutting = Some(cutter);
                self.cut(small)
            }
            // No buffer will ever do for a piece that is too long: who waited for one would receive nothing any more.
            Ok(cutter) => self.refuse(cutter.into_frame()),
            Err(frame) => self.refuse(frame),
        }
    }

    fn refuse(&mut self, frame: Frame) -> Cut {
        self.keep(frame);
        Cut::Uncuttable
    }

    /// The next piece. Without a buffer for it, it is cut next time.
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
