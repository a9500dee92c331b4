//! Ring of received frames, which are encoded once for all readers of a file. It consists of blocks
//! of whole records, and has a position for each reader.
//!
//! ```text
//! push(block) ->  [block][block][block]  -> take(reader): whole records, as many as fit
//!                 ^ slow reader    ^ fast reader
//! ```
//!
//! The ring has a maximum size in bytes. A push to a full ring drops the oldest block. For each
//! reader, the frames of this block that it has not read count as overflow. Readers receive
//! references to blocks, not copies.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Frames that are pushed together, encoded consecutively in the format of the file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Block {
    /// Encoded frames; unused bytes may follow the last one.
    pub bytes: Vec<u8>,
    /// Offset in `bytes` of the end of each frame.
    pub ends: Vec<u32>,
}

/// Approximate maximum number of bytes in a block, small enough for several blocks in a
/// second-level cache.
pub const BLOCK: usize = 128 * 1024;

impl Block {
    /// Returns the number of bytes of all frames.
    pub fn len(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// Returns whether the block has no frames.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns whether the block must be pushed before more frames are added.
    pub fn is_full(&self) -> bool {
        self.len() >= BLOCK
    }

    fn clear(&mut self) {
        self.ends.clear();
    }

    /// Returns the offset in `bytes` at which the frame `index` begins.
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

/// A reference to consecutive frames of a block, delivered to a reader.
#[derive(Debug, Clone)]
pub struct Piece {
    block: Arc<Block>,
    range: Range<usize>,
}

impl Piece {
    /// Returns the bytes of the frames.
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes.get(self.range.clone()).unwrap_or_default()
    }

    /// Splits off and returns the first `len` bytes. Returns `None` if there are no more than `len`
    /// bytes.
    pub fn split(&mut self, len: usize) -> Option<Piece> {
        if len >= self.range.len() {
            return None;
        }
        let front = self.range.start..self.range.start + len;
        self.range.start = front.end;
        Some(Piece { block: self.block.clone(), range: front })
    }
}

/// Position of a reader in the ring, and its counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reader {
    /// Number of the next frame to deliver. Frames are numbered from 0 as they are pushed.
    next: u64,
    /// Number of frames delivered to this reader.
    pub delivered: u64,
    /// Number of frames dropped before this reader read them.
    pub overflow: u64,
}

/// Result of a read.
#[derive(Debug)]
pub enum Taken {
    /// Complete frames, as references to the bytes of blocks.
    Pieces(Vec<Piece>),
    /// No frames are available.
    Nothing,
    /// The next frame, which is longer than the requested size.
    Long(Piece),
}

/// Ring of encoded frames for several readers. See the module documentation.
#[derive(Debug)]
pub struct Ring {
    /// Blocks, each with the number of its first frame.
    blocks: VecDeque<(u64, Arc<Block>)>,
    bytes: usize,
    most: usize,
    /// Number of the next frame to be pushed.
    next: u64,
    spare: Vec<Block>,
}

/// Maximum number of empty blocks kept for reuse.
const SPARE: usize = 16;
/// A block with fewer bytes is appended to the previous block, because a port with little traffic
/// delivers frames one by one.
const SMALL: usize = 16 * 1024;

impl Ring {
    /// Creates an empty ring of at most `most` bytes.
    pub fn new(most: usize) -> Ring {
        Ring { blocks: VecDeque::new(), bytes: 0, most, next: 0, spare: Vec::new() }
    }

    /// Creates a reader that receives all frames from now on.
    pub fn reader(&self) -> Reader {
        Reader { next: self.next, ..Reader::default() }
    }

    /// Returns an empty block for the caller to fill and push.
    pub fn spare(&mut self) -> Block {
        self.spare.pop().unwrap_or_default()
    }

    /// Returns the number of frames buffered for `reader`.
    pub fn waiting(&self, reader: &Reader) -> u64 {
        self.next - reader.next.max(self.first())
    }

    /// Returns the number of bytes buffered for `reader`.
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

    /// Returns whether there are frames for `reader`.
    pub fn is_ready(&self, reader: &Reader) -> bool {
        reader.next < self.next
    }

    fn first(&self) -> u64 {
        self.blocks.front().map_or(self.next, |(first, _)| *first)
    }

    /// Appends the frames of `block`. Drops the oldest blocks if the ring is full.
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
        // The last block is kept, regardless of its length.
        while self.bytes > self.most && self.blocks.len() > 1 {
            self.drop_first();
        }
    }

    /// Drops the blocks that all `readers` have read.
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

    /// Keeps a block for reuse.
    fn keep(&mut self, mut block: Block) {
        if self.spare.len() < SPARE {
            block.clear();
            self.spare.push(block);
        }
    }

    /// Returns the next frames for `reader`, as many as fit into `room` bytes, and advances its
    /// position. If not even one frame fits, returns [`Taken::Long`].
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
