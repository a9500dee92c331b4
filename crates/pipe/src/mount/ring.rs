//! Frames that a port received, encoded once for all that read the same file: blocks of whole records, and a place in them for each reader.
//!
//! ```text
//! push(block) ->  [block][block][block]  -> take(reader): pieces of blocks, whole records, as many as fit
//!                 ^ slow reader    ^ fast reader
//! ```
//!
//! The ring is bounded in bytes. What is pushed when it is full makes the oldest block go: a reader that had not read it yet has lost those
//! frames, and they are counted as its overflow. Nothing is copied for a reader: it is given shares of blocks.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Frames of one push, one behind the other in the form of their file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Block {
    /// Their records; behind the last there may be slack.
    pub bytes: Vec<u8>,
    /// Where each record ends.
    pub ends: Vec<u32>,
}

/// What one block holds at most before the next is begun, about: several fit into a second-level cache.
pub const BLOCK: usize = 128 * 1024;

impl Block {
    /// Bytes of records.
    pub fn len(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// Without a frame?
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Should what is in it go before more comes?
    pub fn is_full(&self) -> bool {
        self.len() >= BLOCK
    }

    fn clear(&mut self) {
        self.ends.clear();
    }

    /// Where the record `index` begins.
    fn begin(&self, index: usize) -> usize {
        let before = index.checked_sub(1).and_then(|before| self.ends.get(before));
        before.map_or(0, |end| *end as usize)
    }

    fn append(&mut self, other: &Block) {
        let (base, len) = (self.len(), other.len());
        self.bytes.truncate(base);
        self.bytes.extend_from_slice(other.bytes.get(..len).unwrap_or_default());
        self.ends.extend(other.ends.iter().map(|end| base as u32 + end));
    }
}

/// Records that a reader takes: a share of a block.
#[derive(Debug, Clone)]
pub struct Piece {
    block: Arc<Block>,
    range: Range<usize>,
}

impl Piece {
    /// The records.
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes.get(self.range.clone()).unwrap_or_default()
    }

    /// Splits `len` bytes off its front, if there are more.
    pub fn split(&mut self, len: usize) -> Option<Piece> {
        if len >= self.range.len() {
            return None;
        }
        let front = self.range.start..self.range.start + len;
        self.range.start = front.end;
        Some(Piece { block: self.block.clone(), range: front })
    }
}

/// A reader's place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reader {
    /// The number of the next frame that it is to get; the first ever is 0.
    next: u64,
    /// Frames it was given.
    pub delivered: u64,
    /// Frames that were gone before it asked for them.
    pub overflow: u64,
}

/// What a reader is answered.
#[derive(Debug)]
pub enum Taken {
    /// Whole records.
    Pieces(Vec<Piece>),
    /// There are no frames.
    Nothing,
    /// The next record is longer than what was asked for: here it is alone.
    Long(Piece),
}

/// See the module.
#[derive(Debug)]
pub struct Ring {
    /// With the number of each one's first frame.
    blocks: VecDeque<(u64, Arc<Block>)>,
    bytes: usize,
    most: usize,
    /// The number of the next frame to come.
    next: u64,
    spare: Vec<Block>,
}

/// Emptied blocks that are kept to be filled again.
const SPARE: usize = 16;
/// Blocks shorter than this are put together: a quiet port gives frames one by one.
const SMALL: usize = 16 * 1024;

impl Ring {
    /// An empty one, for `most` bytes.
    pub fn new(most: usize) -> Ring {
        Ring { blocks: VecDeque::new(), bytes: 0, most, next: 0, spare: Vec::new() }
    }

    /// A reader that gets all frames from now on.
    pub fn reader(&self) -> Reader {
        Reader { next: self.next, ..Reader::default() }
    }

    /// A block to fill.
    pub fn spare(&mut self) -> Block {
        self.spare.pop().unwrap_or_default()
    }

    /// Frames that wait for `reader`, if none is lost from now on.
    pub fn waiting(&self, reader: &Reader) -> u64 {
        self.next - reader.next.max(self.first())
    }

    /// Bytes that wait for `reader`.
    pub fn ahead(&self, reader: &Reader) -> usize {
        let mut read = 0;
        for (first, block) in &self.blocks {
            match reader.next.checked_sub(*first) {
                Some(index) if index > 0 => read += block.begin(block.ends.len().min(index as usize)),
                _ => break,
            }
        }
        self.bytes - read
    }

    /// Has `reader` anything to read?
    pub fn is_ready(&self, reader: &Reader) -> bool {
        reader.next < self.next
    }

    fn first(&self) -> u64 {
        self.blocks.front().map_or(self.next, |(first, _)| *first)
    }

    /// Appends frames; the oldest go when there is no room.
    pub fn push(&mut self, block: Block) {
        if block.is_empty() {
            return self.keep(block);
        }
        self.bytes += block.len();
        let count = block.ends.len() as u64;
        match self.blocks.back_mut().and_then(|(_, last)| Arc::get_mut(last)) {
            Some(last) if block.len() < SMALL && last.len() + block.len() <= BLOCK => {
                last.append(&block);
                self.keep(block);
            }
            _ => self.blocks.push_back((self.next, Arc::new(block))),
        }
        self.next += count;
        // The last block stays, however long it is.
        while self.bytes > self.most && self.blocks.len() > 1 {
            self.drop_first();
        }
    }

    /// Forgets what all `readers` have read.
    pub fn release<'a>(&mut self, readers: impl Iterator<Item = &'a Reader>) {
        let oldest = readers.map(|reader| reader.next).min().unwrap_or(self.next);
        while self.blocks.front().is_some_and(|(first, block)| first + block.ends.len() as u64 <= oldest) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, block)) = self.blocks.pop_front() {
            self.bytes -= block.len();
            if let Ok(block) = Arc::try_unwrap(block) {
                self.keep(block);
            }
        }
    }

    /// Keeps an emptied block.
    fn keep(&mut self, mut block: Block) {
        if self.spare.len() < SPARE {
            block.clear();
            self.spare.push(block);
        }
    }

    /// As many whole records as fit into `room` bytes, in their order.
    pub fn take(&self, reader: &mut Reader, room: usize) -> Taken {
        let pieces = self.pieces(reader, room, usize::MAX);
        if !pieces.is_empty() {
            return Taken::Pieces(pieces);
        }
        self.pieces(reader, usize::MAX, 1).pop().map_or(Taken::Nothing, Taken::Long)
    }

    fn pieces(&self, reader: &mut Reader, room: usize, most: usize) -> Vec<Piece> {
        let lost = self.first().saturating_sub(reader.next);
        reader.overflow += lost;
        reader.next += lost;
        let (mut pieces, mut left) = (Vec::new(), room);
        let from = self.blocks.partition_point(|(first, block)| first + block.ends.len() as u64 <= reader.next);
        for (first, block) in self.blocks.range(from..) {
            let index = (reader.next - first) as usize;
            let begin = block.begin(index);
            let fits = block.ends.partition_point(|end| *end as usize <= begin.saturating_add(left));
            let fits = fits.min(index.saturating_add(most));
            if fits <= index {
                break;
            }
            let range = begin..block.begin(fits);
            left -= range.len();
            reader.next += (fits - index) as u64;
            reader.delivered += (fits - index) as u64;
            pieces.push(Piece { block: block.clone(), range });
            if fits < block.ends.len() || most == 1 {
                break;
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests;
