//! The bytes of a connection: what waits to be sent or acknowledged, what waits to be read, what came too early.
//!
//! A [`SendQueue`] keeps what an application wrote in the buffers that it was copied into, with room for headers in front; each is
//! lent to the frame that carries it, so that nothing is copied again. A [`RecvQueue`] holds frames as they came. Small ones
//! are copied together: a peer that sends single bytes must not pin a buffer with each. [`OutOfOrder`] holds bytes, not
//! frames, on pages of 4 kB: its memory is what the window says, however small the segments are.

use buf::{Frame, Held};
use std::collections::{BTreeMap, VecDeque};
use wire::checksum::{self, Partial};

/// One buffer of the send queue.
#[derive(Debug)]
struct Piece {
    held: Held,
    /// The number of its first byte in the stream, on a circle of 2^32.
    start: u32,
    /// Sum of its bytes, folded, unless the port was expected to make it.
    sum: Option<u16>,
}

impl Piece {
    /// Where in it the byte number `byte` is, or would be; negative: before it.
    #[inline]
    fn place_of(&self, byte: u32) -> i32 {
        byte.wrapping_sub(self.start) as i32
    }

    fn sum(&self) -> Option<Partial> {
        self.sum.map(Partial::from_folded)
    }

    /// Copies in what it takes of `left`; `false`: none of it.
    #[inline(always)]
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

/// What was written and is not acknowledged, in order; the front is SND.UNA's byte.
#[derive(Debug)]
pub struct SendQueue {
    pieces: VecDeque<Piece>,
    /// The number of SND.UNA's byte in the stream, on a circle: there are never as many as 2^31 in the queue.
    front: u32,
    len: u32,
    space: u32,
    /// Where the last search ended, as a place in `pieces`: the next begins there, or one further, nearly always.
    near: u32,
}

/// Bytes that a queue takes at most, whatever it is told.
const MOST: u32 = 1 << 30;

/// How much goes into one piece.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// A segment.
    pub small: usize,
    /// A segment that the port cuts up; 0: there are none.
    pub large: usize,
    /// The first byte begins a piece, however little the last one holds: what is in the queue was sent, the last of it in a short
    /// segment perhaps. Added to its piece, all segments after it would lie across two pieces, and be copied instead of lent.
    pub aligned: bool,
}

/// Who makes the sums of what is added. It is made with the copy, and a guess: one that is needed after all is made then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sums {
    /// We do.
    Ours,
    /// The port does.
    Ports,
}

impl Sizes {
    /// How much more a piece takes.
    #[inline]
    fn fit(self, held: &Held) -> usize {
        let (len, room) = (held.len(), held.tailroom());
        let most = if self.large > 0 && len + room >= self.large { self.large } else { self.small };
        most.saturating_sub(len).min(room)
    }
}

/// Where a range of the queue lies.
pub(crate) enum Range {
    /// At the front of one piece: it can be lent.
    Front(usize),
    /// Anywhere: it must be copied.
    Scattered,
}

impl SendQueue {
    /// With room for `space` bytes.
    pub fn new(space: u32) -> SendQueue {
        SendQueue { pieces: VecDeque::new(), front: 0, len: 0, space: space.min(MOST), near: 0 }
    }

    /// As new, in the place of another. What is in it is dropped, room for more than a piece or two given back.
    pub fn renew(&mut self, space: u32) {
        self.pieces.clear();
        self.pieces.shrink_to(2);
        (self.front, self.len, self.space, self.near) = (0, 0, space.min(MOST), 0);
    }

    /// Bytes in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Buffers in it.
    #[inline]
    pub fn buffers(&self) -> usize {
        self.pieces.len()
    }

    /// How many bytes it takes.
    pub fn space(&self) -> usize {
        self.space as usize
    }

    /// Takes more or fewer from now on; what is in it stays.
    pub fn set_space(&mut self, bytes: u32) {
        self.space = bytes.min(MOST);
    }

    /// Bytes that may be added.
    #[inline]
    pub fn room(&self) -> usize {
        self.space.saturating_sub(self.len) as usize
    }

    /// Is a third of it free?
    pub fn is_roomy(&self) -> bool {
        self.room() * 3 >= self.space()
    }

    /// Copies up to [`SendQueue::room`] bytes in, in pieces for which `make` gives buffers; says how many. A piece has at most
    /// `sizes.large` bytes if its buffer holds as much, else at most `sizes.small`. `make` is told what wait together: what
    /// is still to be copied, or what is in the queue if that is more.
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
                self.pieces.reserve_exact(1); // as many as a request or its answer takes, mostly
            }
            self.pieces.push_back(piece);
        }
        let taken = wanted - left.len();
        self.len += taken as u32;
        taken
    }

    /// Keeps room for what there is.
    pub fn shrink(&mut self) {
        self.pieces.shrink_to_fit();
    }

    /// Lets go of `bytes` at the front.
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

    /// The piece that holds the byte at `at`, and where in it that byte is.
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

    /// Bytes from `at` to the end of the piece it is in, and whether it begins the piece.
    #[inline]
    pub(crate) fn rest_of_piece_at(&mut self, at: u32) -> (usize, bool) {
        match self.find(at) {
            Some((index, from)) => self.pieces.get(index).map_or((0, false), |p| (p.held.len() - from, from == 0)),
            None => (0, false),
        }
    }

    /// Where the `len` bytes at `at` lie.
    pub(crate) fn locate(&mut self, at: u32, len: u32) -> Range {
        match self.find(at) {
            Some((index, 0)) if self.pieces.get(index).is_some_and(|piece| piece.held.len() >= len as usize) => {
                Range::Front(index)
            }
            _ => Range::Scattered,
        }
    }

    /// A frame of the first `len` bytes of piece `index`, and their sum if it is known; `None` while it is out.
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

    /// A frame of all that is in the queue, if that is `len` bytes in one piece, as by [`SendQueue::lend`].
    #[inline(always)]
    pub(crate) fn lend_all(&mut self, len: u32) -> Option<(Frame, Option<Partial>)> {
        let piece = self.pieces.front_mut()?;
        if self.len != len || piece.held.len() != self.len as usize || piece.start != self.front {
            return None; // or what is gone of the first piece is as long as the second
        }
        self.near = 0;
        let sum = piece.sum();
        Some((piece.held.lend()?, sum))
    }

    /// Copies the `len` bytes at `at` to the end of `frame`; their sum, if we make sums at all; `None` if they are not there or
    /// find no room.
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

/// Bytes to be read: a frame as it came, or bytes that came in more than one.
#[derive(Debug)]
enum Chunk {
    Frame {
        frame: Frame,
        /// Bytes of it that were read. A frame's own offset ends at 32 KiB, before a large segment does.
        read: u32,
    },
    #[expect(clippy::box_collection, reason = "8 bytes in the chunk, not 32: few chunks are of this kind")]
    Bytes(Box<VecDeque<u8>>),
}

/// What came in order and was not read.
#[derive(Debug)]
pub struct RecvQueue {
    chunks: VecDeque<Chunk>,
    len: usize,
    /// Bytes that came in order since the connection began: where the next one lies in the stream.
    end: u64,
}

/// Text shorter than this part of its buffer is copied, so that buffers are at least so full.
const SMALL: usize = 8;
/// One copied chunk grows to this.
const GATHERED: usize = 1 << 16;

impl RecvQueue {
    /// Empty; the next byte is number `end`.
    pub fn new(end: u64) -> RecvQueue {
        RecvQueue { chunks: VecDeque::new(), len: 0, end }
    }

    /// As new, in the place of another. What is in it is dropped, room for more than a chunk or two given back.
    pub fn renew(&mut self) {
        self.chunks.clear();
        self.chunks.shrink_to(2);
        (self.len, self.end) = (0, 0);
    }

    /// Bytes in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// None?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of the byte that comes next.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Adds a frame's bytes.
    #[inline]
    pub fn push(&mut self, frame: Frame) {
        if frame.is_empty() {
            return;
        }
        let room = frame.len() + frame.headroom() + frame.tailroom();
        // One small frame alone may wait as it is: that is a request, and its answer follows.
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

    /// Adds bytes, copied.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        self.end += bytes.len() as u64;
        match self.chunks.back_mut() {
            Some(Chunk::Bytes(last)) if last.len() + bytes.len() <= GATHERED => last.extend(bytes),
            _ => self.chunks.push_back(Chunk::Bytes(Box::new(bytes.iter().copied().collect()))),
        }
    }

    /// Moves bytes out, as many as `into` holds or as there are; says how many.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        // A request, or an answer: one frame, read at once.
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

    /// Copies bytes out and leaves them; says how many.
    pub fn peek(&self, into: &mut [u8]) -> usize {
        let mut read = 0;
        for chunk in self.chunks.iter() {
            let Some(room) = into.get_mut(read..).filter(|room| !room.is_empty()) else { break };
            read += chunk.peek(room);
        }
        read
    }

    /// Keeps room for what there is.
    pub fn shrink(&mut self) {
        self.chunks.shrink_to_fit();
    }

    /// Drops everything; says how many bytes that were.
    pub fn clear(&mut self) -> usize {
        self.chunks.clear();
        std::mem::take(&mut self.len)
    }

    /// Frames, and bytes of several gathered, that wait in it.
    #[inline]
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Buffers of pools that wait in it.
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

/// Bytes ahead of what was received in order, by their number in the stream. Which of them are there the core knows.
#[derive(Debug, Default)]
pub struct OutOfOrder {
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl OutOfOrder {
    /// Keeps `bytes`, the first of which is number `at`.
    pub fn insert(&mut self, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize].into());
            let room = page.get_mut((at % PAGE) as usize..).unwrap_or_default();
            let n = copy(room, bytes);
            bytes = bytes.get(n..).unwrap_or_default();
            at += n as u64;
        }
    }

    /// Moves the `len` bytes from number `at` on to the end of `queue`, and forgets all before their end;
    /// `false` if some of them are not here.
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

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.pages.len() * PAGE as usize
    }
}

#[cfg(test)]
mod tests;
