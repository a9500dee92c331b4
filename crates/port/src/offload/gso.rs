//! Large TCP segments, cut into what a link takes, where the port does not do it: [`wire::gso`] for frames.
//!
//! The text is copied: a frame has one buffer.

use super::l3_place;
use buf::{Flags, Frame, Pool};
use wire::eth;
use wire::gso::Segment;

/// A large segment that is being cut up.
#[derive(Debug)]
pub struct Cutter {
    frame: Frame,
    segment: Segment,
}

impl Cutter {
    /// Begins to cut `frame` up.
    ///
    /// # Errors
    /// The frame, if it is not a large segment of TCP.
    pub fn new(frame: Frame) -> Result<Cutter, Frame> {
        match read(&frame) {
            Some(segment) => Ok(Cutter { frame, segment }),
            None => Err(frame),
        }
    }

    /// Is all of it cut?
    pub fn is_done(&self) -> bool {
        self.segment.is_done()
    }

    /// Bytes of the longest piece.
    pub fn longest(&self) -> usize {
        self.segment.longest()
    }

    /// The segment itself, whatever was cut off.
    pub fn into_frame(self) -> Frame {
        self.frame
    }

    /// The next piece, in a buffer of `pool`; `None`: it has none, or none so large.
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

/// The headers of a large segment as virtio wants to know them: where the TCP header begins, and where the text does;
/// `None`: it is none.
pub fn places(frame: &Frame) -> Option<(usize, usize)> {
    read(frame).map(|segment| segment.places())
}

#[cfg(test)]
pub(crate) mod tests;
