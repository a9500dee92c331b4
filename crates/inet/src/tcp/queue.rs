//! Data of a connection, in three queues: written but not acknowledged, received but not read, and
//! received out of order.
//!
//! A [`SendQueue`] keeps written data in the buffers into which it was copied, with headroom for
//! headers. A buffer is lent to the frame that sends it, so the data is not copied again. A
//! [`RecvQueue`] stores received frames. Small frames are merged by copying, so that a peer that
//! sends single bytes does not pin a buffer with each byte. [`OutOfOrder`] stores bytes, not
//! frames, in pages of 4 kB. Its memory is therefore limited by the window, however small the
//! segments are.

use buf::{Frame, Held};
use std::collections::{BTreeMap, VecDeque};
use wire::checksum::{self, Partial};

/// A buffer of the send queue.
#[derive(Debug)]
struct Piece {
    held: Held,
    /// Stream position of the buffer's first byte, modulo 2^32.
    start: u32,
    /// Folded checksum of the bytes; `None` if the port was expected to compute it.
    sum: Option<u16>,
}

impl Piece {
    /// Returns the offset of stream position `byte` in this buffer; negative if the position is
    /// before it.
    #[inline]
    fn place_of(&self, byte: u32) -> i32 {
        byte.wrapping_sub(self.start) as i32
    }

    fn sum(&self) -> Option<Partial> {
        self.sum.map(Partial::from_folded)
    }

    /// Copies as much of `left` as fits into this buffer. Returns `false` if nothing fits.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn fill(&mut self, left: &mut &[u8], sizes: Sizes, sums: Sums) -> bool {
        let (at, known) = (self.held.len(), self.sum());
        let Some((now, rest)) = left.split_at_checked(sizes.fit(&self.held).min(left.len())) else { return false };
        let Some(room) = self.held.append(now.len()).filter(|room| !room.is_empty()) else { return false };
        match (known, sums) {
            (Some(sum), Sums::Ours) => self.sum = Some(sum.add_at(at, checksum::copy_and_sum(room, now)).folded()),
            _ => {
                checksum::copy(room, now);
                self.sum = None;
            }
        }
        *left = rest;
        true
    }
}

/// Data that is written but not acknowledged, in order. The first byte has the sequence number
/// SND.UNA.
#[derive(Debug)]
pub struct SendQueue {
    pieces: VecDeque<Piece>,
    /// Stream position of SND.UNA, modulo 2^32; the queue is always shorter than 2^31.
    front: u32,
    len: u32,
    space: u32,
    /// Index in `pieces` where the last search ended. The next search is nearly always for this
    /// piece or the following one.
    near: u32,
}

/// Maximum size of a queue in bytes, even if a larger size is requested.
const MOST: u32 = 1 << 30;

/// Size limits of a piece, that is, of the data in one buffer of the send queue.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Maximum number of bytes in a segment.
    pub small: usize,
    /// Maximum number of bytes in a large segment, which the port splits; 0 if the port does not
    /// support them.
    pub large: usize,
    /// True if the first byte must begin a new piece, even if the last piece contains little data.
    /// This is set if all data queued before was sent, perhaps with a short last segment. If new
    /// data were added to that piece, all further segments would span two pieces and be copied
    /// instead of lent.
    pub aligned: bool,
}

/// Side that computes the checksums of added data, as predicted when the data is added. The stack
/// computes checksums while it copies the data. If the prediction was wrong, a missing checksum is
/// computed when the data is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sums {
    /// The stack computes the checksums.
    Ours,
    /// The port computes the checksums.
    Ports,
}

impl Sizes {
    /// Returns how many more bytes fit into the piece `held`.
    #[inline]
    fn fit(self, held: &Held) -> usize {
        let (len, room) = (held.len(), held.tailroom());
        let most = if self.large > 0 && len + room >= self.large { self.large } else { self.small };
        most.saturating_sub(len).min(room)
    }
}

/// Location of a byte range in the send queue.
pub(crate) enum Range {
    /// The range is at the front of the piece with this index, so the piece can be lent.
    Front(usize),
    /// The range is elsewhere and must be copied.
    Scattered,
}

impl SendQueue {
    /// Creates a queue of up to `space` bytes.
    pub fn new(space: u32) -> SendQueue {
        SendQueue { pieces: VecDeque::new(), front: 0, len: 0, space: space.min(MOST), near: 0 }
    }

    /// Resets the queue for a new connection. Drops its content, and frees capacity for more than
    /// two pieces.
    pub fn reinit(&mut self, space: u32) {
        self.pieces.clear();
        self.pieces.shrink_to(2);
        (self.front, self.len, self.space, self.near) = (0, 0, space.min(MOST), 0);
    }

    /// Returns the number of bytes queued.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of buffers queued.
    #[inline]
    pub fn buffers(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the maximum number of bytes.
    pub fn space(&self) -> usize {
        self.space as usize
    }

    /// Changes the maximum number of bytes. Data already queued stays.
    pub fn set_space(&mut self, bytes: u32) {
        self.space = bytes.min(MOST);
    }

    /// Returns the number of bytes that can be added.
    #[inline]
    pub fn room(&self) -> usize {
        self.space.saturating_sub(self.len) as usize
    }

    /// Returns whether a third of the queue is free.
    pub fn is_roomy(&self) -> bool {
        self.room() * 3 >= self.space()
    }

    /// Copies up to [`SendQueue::room`] bytes into pieces with buffers from `make`. Returns the
    /// number of bytes copied. A piece contains at most `sizes.large` bytes if its buffer is that
    /// large, otherwise at most `sizes.small`. The argument of `make` is the larger of the number
    /// of bytes still to be copied and the number of bytes queued.
    pub fn append(
        &mut self,
        bytes: &[u8],
        sizes: Sizes,
        sums: Sums,
        mut make: impl FnMut(usize) -> Option<Frame>,
    ) -> usize {
        let mut left = bytes.get(..bytes.len().min(self.room())).unwrap_or_default();
        let wanted = left.len();
        if let Some(last) = self.pieces.back_mut().filter(|_| !sizes.aligned) {
            last.fill(&mut left, sizes, sums);
        }
        while !left.is_empty() {
            let waiting = left.len().max(self.len());
            let Some(held) = make(waiting).and_then(|frame| Held::new(frame).ok()) else { break };
            let start = self.front.wrapping_add(self.len).wrapping_add((wanted - left.len()) as u32);
            let mut piece = Piece { held, start, sum: (sums == Sums::Ours).then_some(0) };
            if !piece.fill(&mut left, sizes, sums) {
                break;
            }
            if self.pieces.capacity() == 0 {
                self.pieces.reserve_exact(1); // usually sufficient for a request or its answer
            }
            self.pieces.push_back(piece);
        }
        let taken = wanted - left.len();
        self.len += taken as u32;
        taken
    }

    /// Frees unused capacity.
    pub fn shrink(&mut self) {
        self.pieces.shrink_to_fit();
    }

    /// Removes `bytes` acknowledged bytes from the front.
    pub fn release(&mut self, bytes: u32) {
        let bytes = bytes.min(self.len);
        self.len -= bytes;
        self.front = self.front.wrapping_add(bytes);
        while let Some(first) = self.pieces.front() {
            if first.place_of(self.front) < first.held.len() as i32 {
                break;
            }
            self.pieces.pop_front();
            self.near = self.near.saturating_sub(1);
        }
    }

    /// Returns the index of the piece that contains the byte at offset `at`, and the byte's offset
    /// in the piece.
    #[inline]
    fn find(&mut self, at: u32) -> Option<(usize, usize)> {
        let byte = self.front.wrapping_add(at);
        let holds = |index: usize| {
            let piece = self.pieces.get(index)?;
            let from = usize::try_from(piece.place_of(byte)).ok()?;
            (from < piece.held.len()).then_some((index, from))
        };
        let near = self.near as usize;
        let found = holds(near).or_else(|| holds(near + 1)).or_else(|| {
            let after = self.pieces.partition_point(|piece| piece.place_of(byte) >= 0);
            holds(after.checked_sub(1)?)
        });
        self.near = found.map_or(self.near, |(index, _)| index as u32);
        found
    }

    /// Returns the number of bytes from offset `at` to the end of its piece, and whether the piece
    /// begins at `at`.
    #[inline]
    pub(crate) fn rest_of_piece_at(&mut self, at: u32) -> (usize, bool) {
        match self.find(at) {
            Some((index, from)) => self.pieces.get(index).map_or((0, false), |p| (p.held.len() - from, from == 0)),
            None => (0, false),
        }
    }

    /// Returns the location of the `len` bytes at offset `at`.
    pub(crate) fn locate(&mut self, at: u32, len: u32) -> Range {
        match self.find(at) {
            Some((index, 0)) if self.pieces.get(index).is_some_and(|piece| piece.held.len() >= len as usize) => {
                Range::Front(index)
            }
            _ => Range::Scattered,
        }
    }

    /// Returns a frame with the first `len` bytes of piece `index`, and their checksum if it is
    /// known. Returns `None` while the piece is already lent.
    #[inline]
    pub(crate) fn lend(&mut self, index: usize, len: u32) -> Option<(Frame, Option<Partial>)> {
        let piece = self.pieces.get_mut(index)?;
        let mut frame = piece.held.lend()?;
        if len as usize == frame.len() {
            return Some((frame, piece.sum()));
        }
        frame.truncate(len as usize);
        Some((frame, None))
    }

    /// Returns a frame with all queued data, as [`SendQueue::lend`] does, if this data is `len`
    /// bytes in one piece.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn lend_all(&mut self, len: u32) -> Option<(Frame, Option<Partial>)> {
        let piece = self.pieces.front_mut()?;
        if self.len != len || piece.held.len() != self.len as usize || piece.start != self.front {
            return None; // lengths alone may match by chance: a partly released piece and a second one
        }
        self.near = 0;
        let sum = piece.sum();
        Some((piece.held.lend()?, sum))
    }

    /// Copies the `len` bytes at offset `at` to the end of `frame`. Returns their checksum:
    /// `Some(None)` if the checksum of one of the pieces is unknown. Returns `None` if the bytes
    /// are not queued or do not fit.
    pub(crate) fn copy(&mut self, at: u32, len: u32, frame: &mut Frame) -> Option<Option<Partial>> {
        let (mut index, mut from) = self.find(at)?;
        let (mut left, mut done, mut sum) = (len as usize, 0, Some(Partial::ZERO));
        while left > 0 {
            let piece = self.pieces.get(index)?;
            let bytes = piece.held.bytes().get(from..)?;
            let bytes = bytes.get(..bytes.len().min(left))?;
            let room = frame.append(bytes.len())?;
            match (sum, piece.sum()) {
                (Some(before), Some(_)) => sum = Some(before.add_at(done, checksum::copy_and_sum(room, bytes))),
                _ => {
                    checksum::copy(room, bytes);
                    sum = None;
                }
            }
            (left, done) = (left - bytes.len(), done + bytes.len());
            (index, from) = (index + 1, 0);
        }
        Some(sum)
    }
}

/// Data that can be read: a received frame, or bytes merged from several frames.
#[derive(Debug)]
enum Chunk {
    Frame {
        frame: Frame,
        /// Number of bytes of the frame that have been read. The offset in a frame itself cannot be
        /// used, since it is limited to 32 KiB, which is less than a large segment.
        read: u32,
    },
    #[expect(clippy::box_collection, reason = "8 bytes in the chunk, not 32: few chunks are of this kind")]
    Bytes(Box<VecDeque<u8>>),
}

/// Data received in order but not read.
#[derive(Debug)]
pub struct RecvQueue {
    chunks: VecDeque<Chunk>,
    len: usize,
    /// Stream position of the next byte to be received: the number of bytes received in order since
    /// the connection began.
    end: u64,
}

/// Divisor of the buffer size. Data shorter than 1/`SMALL` of its buffer is copied, to limit the
/// unused part of buffers.
const SMALL: usize = 8;
/// Maximum number of bytes in a merged chunk.
const GATHERED: usize = 1 << 16;

impl RecvQueue {
    /// Creates an empty queue. The next byte received has the stream position `end`.
    pub fn new(end: u64) -> RecvQueue {
        RecvQueue { chunks: VecDeque::new(), len: 0, end }
    }

    /// Resets the queue for a new connection. Drops its content, and frees capacity for more than
    /// two chunks.
    pub fn reinit(&mut self) {
        self.chunks.clear();
        self.chunks.shrink_to(2);
        (self.len, self.end) = (0, 0);
    }

    /// Returns the number of bytes queued.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the stream position of the next byte to be received.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Appends the bytes of a frame.
    #[inline]
    pub fn push(&mut self, frame: Frame) {
        if frame.is_empty() {
            return;
        }
        let room = frame.len() + frame.headroom() + frame.tailroom();
        // The first small frame is not copied: it is usually a request, which we answer next.
        if frame.len() * SMALL < room && !self.chunks.is_empty() {
            return self.push_bytes(frame.bytes());
        }
        self.len += frame.len();
        self.end += frame.len() as u64;
        if self.chunks.capacity() == 0 {
            self.chunks.reserve_exact(1);
        }
        self.chunks.push_back(Chunk::Frame { frame, read: 0 });
    }

    /// Appends a copy of `bytes`.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        self.end += bytes.len() as u64;
        match self.chunks.back_mut() {
            Some(Chunk::Bytes(last)) if last.len() + bytes.len() <= GATHERED => last.extend(bytes),
            _ => self.chunks.push_back(Chunk::Bytes(Box::new(bytes.iter().copied().collect()))),
        }
    }

    /// Moves as many bytes to `into` as fit. Returns the number of bytes moved.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        // The usual case: a request or an answer in one frame, which is read in one call.
        if let Some(Chunk::Frame { frame, read: 0 }) = self.chunks.front()
            && frame.len() == self.len
            && let Some(into) = into.get_mut(..self.len)
        {
            into.copy_from_slice(frame.bytes());
            self.chunks.pop_front();
            return std::mem::take(&mut self.len);
        }
        self.read_chunks(into)
    }

    fn read_chunks(&mut self, into: &mut [u8]) -> usize {
        let mut read = 0;
        while let Some(room) = into.get_mut(read..).filter(|room| !room.is_empty()) {
            let Some(chunk) = self.chunks.front_mut() else { break };
            let (n, over) = chunk.read(room);
            read += n;
            if over {
                self.chunks.pop_front();
            }
        }
        self.len -= read;
        read
    }

    /// Copies bytes to `into` without removing them. Returns the number of bytes copied.
    pub fn peek(&self, into: &mut [u8]) -> usize {
        let mut read = 0;
        for chunk in self.chunks.iter() {
            let Some(room) = into.get_mut(read..).filter(|room| !room.is_empty()) else { break };
            read += chunk.peek(room);
        }
        read
    }

    /// Frees unused capacity.
    pub fn shrink(&mut self) {
        self.chunks.shrink_to_fit();
    }

    /// Drops all queued data. Returns the number of bytes dropped.
    pub fn clear(&mut self) -> usize {
        self.chunks.clear();
        std::mem::take(&mut self.len)
    }

    /// Returns the number of chunks queued, each of which is a frame or merged bytes.
    #[inline]
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the number of pool buffers queued.
    pub fn frames(&self) -> usize {
        self.chunks.iter().filter(|chunk| matches!(chunk, Chunk::Frame { .. })).count()
    }
}

impl Chunk {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> (usize, bool) {
        let n = self.peek(into);
        match self {
            Chunk::Frame { frame, read } => {
                *read += n as u32;
                (n, *read as usize == frame.len())
            }
            Chunk::Bytes(bytes) => {
                bytes.drain(..n);
                (n, bytes.is_empty())
            }
        }
    }

    #[inline]
    fn peek(&self, into: &mut [u8]) -> usize {
        match self {
            Chunk::Frame { frame, read } => copy(into, frame.bytes().get(*read as usize..).unwrap_or_default()),
            Chunk::Bytes(bytes) => {
                let (front, back) = bytes.as_slices();
                let n = copy(into, front);
                n + into.get_mut(n..).map_or(0, |into| copy(into, back))
            }
        }
    }
}

#[inline]
fn copy(into: &mut [u8], from: &[u8]) -> usize {
    let n = into.len().min(from.len());
    if let (Some(into), Some(from)) = (into.get_mut(..n), from.get(..n)) {
        into.copy_from_slice(from);
    }
    n
}

const PAGE: u64 = 4096;

/// Data received out of order, by stream position. The core records which bytes are present.
#[derive(Debug, Default)]
pub struct OutOfOrder {
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl OutOfOrder {
    /// Stores `bytes`, whose first byte has stream position `at`.
    pub fn insert(&mut self, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize].into());
            let room = page.get_mut((at % PAGE) as usize..).unwrap_or_default();
            let n = copy(room, bytes);
            bytes = bytes.get(n..).unwrap_or_default();
            at += n as u64;
        }
    }

    /// Moves the `len` bytes at stream position `at` to the end of `queue`, and discards all data
    /// before the end of that range. Returns `false` if some of the bytes are missing.
    #[must_use]
    pub fn take(&mut self, mut at: u64, len: u64, queue: &mut RecvQueue) -> bool {
        let end = at + len;
        while at < end {
            let until = (at / PAGE + 1) * PAGE;
            let n = until.min(end) - at;
            let from = (at % PAGE) as usize;
            match self.pages.get(&(at / PAGE)).and_then(|page| page.get(from..from + n as usize)) {
                Some(bytes) => queue.push_bytes(bytes),
                None => return false,
            }
            at += n;
        }
        self.pages = self.pages.split_off(&(end / PAGE));
        true
    }

    /// Returns the memory used in bytes.
    pub fn bytes(&self) -> usize {
        self.pages.len() * PAGE as usize
    }
}

#[cfg(test)]
mod tests;
