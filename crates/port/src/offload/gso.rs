//! Splits large TCP segments in software, for ports that cannot split them: applies [`wire::gso`]
//! to frames.
//!
//! The payload is copied, because a frame has only one buffer.

use super::l3_place;
use buf::{Flags, Frame, Pool};
use wire::eth;
use wire::gso::Segment;

/// A large segment being split.
#[derive(Debug)]
pub struct Cutter {
    frame: Frame,
    segment: Segment,
}

impl Cutter {
    /// Starts splitting `frame`.
    ///
    /// # Errors
    /// Returns the frame if it is not a large TCP segment.
    pub fn new(frame: Frame) -> Result<Cutter, Frame> {
        match read(&frame) {
            Some(segment) => Ok(Cutter { frame, segment }),
            None => Err(frame),
        }
    }

    /// Returns whether the whole segment has been split.
    pub fn is_done(&self) -> bool {
        self.segment.is_done()
    }

    /// Returns the length in bytes of the longest piece.
    pub fn longest(&self) -> usize {
        self.segment.longest()
    }

    /// Returns the original large segment.
    pub fn into_frame(self) -> Frame {
        self.frame
    }

    /// Returns the next piece, in a buffer of `pool`; `None` if no buffer of the pool is free, or
    /// if its buffers are too short.
    pub fn cut(&mut self, pool: &Pool) -> Option<Frame> {
        let len = self.segment.next_len()?;
        let mut piece = pool.get()?;
        self.segment.cut(self.frame.bytes(), piece.append(len)?)?;
        piece.set_flags(self.frame.flags().without(Flags::TX_WORK));
        Some(piece)
    }
}

fn read(frame: &Frame) -> Option<Segment> {
    let size = frame.gso_size()?;
    let is_ip = |ethertype| matches!(ethertype, eth::EtherType::IPV4 | eth::EtherType::IPV6);
    let (_, l3) = l3_place(frame.bytes()).filter(|(ethertype, _)| is_ip(*ethertype))?;
    Segment::read(frame.bytes(), l3, size)
}

/// Returns the offsets of the TCP header and of its payload in a large segment, as virtio needs
/// them; `None` if it is not a large segment.
pub fn places(frame: &Frame) -> Option<(usize, usize)> {
    read(frame).map(|segment| segment.places())
}

#[cfg(test)]
pub(crate) mod tests;
