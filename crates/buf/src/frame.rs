//! A frame: pointer, offset, length, facts. 16 bytes moved by value; the buffer's memory is not touched until somebody
//! reads its headers (bridge2004's T5, T6).
//!
//! Two machine words, so that a frame travels in two registers. With 32 bytes in separate fields each layer wrote a field
//! or two and the next move read them back wider than they were written, which the store buffer cannot forward: receiving a
//! datagram cost 190 ticks that way and 80 this way (docs/decisions/0003-frame-in-two-words.md).
//!
//! ```text
//!  buffer: | headroom ......... | bytes() ............ | tailroom ...... |
//!          0                    off                    off+len           pool's buffer size
//!            <- push(n) grows     pull(n) ->  append(n) grows ->
//! ```
#![allow(unsafe_code)] // an unsafe room: the slice views of a buffer that this frame alone owns

use crate::pool::Inner;
use crate::{held, unwind};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// What is known about a frame without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u16);

impl Flags {
    /// The port verified the IPv4 header checksum.
    pub const RX_IP_OK: Flags = Flags(1);
    /// The port verified the TCP or UDP checksum.
    pub const RX_L4_OK: Flags = Flags(1 << 1);
    /// The port is to fill in the IPv4 header checksum.
    pub const TX_IP_CSUM: Flags = Flags(1 << 2);
    /// The port is to fill in the TCP or UDP checksum; the field holds the pseudo-header's sum.
    pub const TX_L4_CSUM: Flags = Flags(1 << 3);
    /// Sent to a link-layer broadcast or multicast address.
    pub const LINK_BROADCAST: Flags = Flags(1 << 4);
    /// Came from this host itself.
    pub const LOOPBACK: Flags = Flags(1 << 5);
    /// A large TCP segment, longer than the link's MTU: to be cut up by the port, or received as one
    /// ([`Frame::set_gso_size`]).
    pub const GSO: Flags = Flags(1 << 6);

    /// Work left to a port: checksums to fill in, a large segment to cut up.
    pub const TX_WORK: Flags = Flags(Flags::TX_IP_CSUM.0 | Flags::TX_L4_CSUM.0 | Flags::GSO.0);

    /// Are all bits of `other` set?
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Is any bit of `other` set?
    #[inline]
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// With the bits of `other` set.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// With the bits of `other` cleared.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// One buffer, owned. Dropping it returns the buffer to its pool, from any thread.
#[repr(C)]
pub struct Frame {
    buf: NonNull<u8>,
    meta: Meta,
}

/// Everything else about a frame, in one word.
///
/// | bits | 63..53 | 52..46 | 45..39 | 38..24 | 23 | 22..0 |
/// |---|---|---|---|---|---|---|
/// | | pool | flags | bytes pulled since the L3 mark, at most 127 | offset | lent | length |
#[derive(Clone, Copy)]
struct Meta(u64);

const LEN: u64 = (1 << 23) - 1;
/// The buffer is a [`Held`](crate::Held)'s, which has lent it.
const LENT: u64 = 1 << 23;
const OFF_SHIFT: u32 = 24;
const OFF: u64 = (1 << 15) - 1;
const BACK_SHIFT: u32 = 39;
const BACK: u64 = (1 << 7) - 1;
const FLAGS_SHIFT: u32 = 46;
const FLAGS: u64 = (1 << 7) - 1;
const POOL_SHIFT: u32 = 53;
/// Pools a process can have at one time: as many as fit beside the rest.
pub(crate) const POOLS_MAX: usize = 1 << (64 - POOL_SHIFT);

impl Meta {
    #[inline(always)]
    fn len(self) -> usize {
        (self.0 & LEN) as usize
    }

    #[inline(always)]
    fn off(self) -> usize {
        (self.0 >> OFF_SHIFT & OFF) as usize
    }

    #[inline(always)]
    fn back(self) -> usize {
        (self.0 >> BACK_SHIFT & BACK) as usize
    }

    #[inline(always)]
    fn pool(self) -> usize {
        (self.0 >> POOL_SHIFT) as usize
    }

    #[inline(always)]
    fn pool_and_lent(self) -> u64 {
        self.0 & Frame::HOME
    }
}

const _: () = assert!(size_of::<Frame>() == 16 && size_of::<Option<Frame>>() == 16);

// SAFETY: a frame owns its buffer; the pool takes buffers back from any thread (see `Inner::put`).
unsafe impl Send for Frame {}
// SAFETY: `&Frame` gives read access only.
unsafe impl Sync for Frame {}

impl Frame {
    /// # Safety
    /// `buf` is an exclusive buffer of the pool numbered `pool`, initialised for the pool's size, and `off` lies within it.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(buf: NonNull<u8>, pool: u16, off: u16) -> Frame {
        Frame { buf, meta: Meta(u64::from(pool) << POOL_SHIFT | u64::from(off) << OFF_SHIFT) }
    }

    /// # Safety
    /// The frame is empty and has `front` bytes of headroom, and its buffer room for `len` bytes from there on (initialised,
    /// as all buffers are).
    #[inline(always)]
    pub(crate) unsafe fn spanning(mut self, front: usize, len: usize) -> Frame {
        self.meta.0 = self.meta.0 - ((front as u64) << OFF_SHIFT) + len as u64;
        self
    }

    /// Returns the buffers of `frames` to their pools, a run of one pool's frames at a time.
    ///
    /// # Safety
    /// The frames must not be used or dropped afterwards.
    #[inline(never)]
    pub(crate) unsafe fn drop_all(mut frames: &[Frame]) {
        unwind::note(frames.len());
        while let Some(first) = frames.first() {
            let key = first.meta.pool_and_lent();
            // As it mostly is: all of one pool.
            // SAFETY: these frames owned their buffers and are gone after this.
            if !first.is_lent() && unsafe { Inner::put_all(Inner::numbered(first.meta.pool()), frames) } {
                return;
            }
            let run = frames.iter().take_while(|frame| frame.meta.pool_and_lent() == key).count();
            let (these, others) = frames.split_at(run);
            frames = others;
            if first.is_lent() {
                // SAFETY: these frames are used by nobody after this.
                these.iter().for_each(|frame| unsafe { frame.end_loan() });
                continue;
            }
            let pool = first.meta.pool();
            // SAFETY: these frames owned their buffers, which came from this pool, and are gone after this.
            unsafe { Inner::put_many(Inner::numbered(pool), these.iter().map(|frame| frame.buf)) };
        }
    }

    /// Its buffer, and in which bits of pool number and loan it differs from `other`: none if both go home together.
    #[inline(always)]
    pub(crate) fn way_home(&self, other: &Frame) -> (NonNull<u8>, u64) {
        (self.buf, self.meta.0 ^ other.meta.0)
    }

    /// The bits of [`Frame::way_home`] that count.
    pub(crate) const HOME: u64 = u64::MAX << POOL_SHIFT | LENT;

    #[inline(always)]
    fn pool(&self) -> &Inner {
        // SAFETY: a pool's `Inner` lives, under its number, until its last frame has returned.
        unsafe { Inner::numbered(self.meta.pool()).as_ref() }
    }

    #[inline(always)]
    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: callers keep `offset` within the buffer.
        unsafe { self.buf.as_ptr().add(offset) }
    }

    /// Length in bytes (FCS not included).
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.meta.len()
    }

    /// No bytes?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is known about the frame.
    #[inline(always)]
    pub fn flags(&self) -> Flags {
        Flags((self.meta.0 >> FLAGS_SHIFT & FLAGS) as u16)
    }

    /// Replaces what is known about the frame.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: Flags) {
        self.meta.0 = self.meta.0 & !(FLAGS << FLAGS_SHIFT) | (u64::from(flags.0) & FLAGS) << FLAGS_SHIFT;
    }

    /// Text in each packet that a large TCP segment is cut into, or that it came in, but for the last, which has the rest;
    /// `None`: the frame is one packet.
    #[inline]
    pub fn gso_size(&self) -> Option<u16> {
        // SAFETY: the buffer of a frame.
        self.flags().has(Flags::GSO).then(|| unsafe { held::gso_size(self.buf) }.load(Ordering::Relaxed))
    }

    /// Makes the frame a large segment ([`Flags::GSO`]). The size stands in front of the buffer: a frame has no bits left for
    /// it (docs/decisions/0003), and one that is not flagged never looks there.
    #[inline]
    pub fn set_gso_size(&mut self, size: u16) {
        // SAFETY: the buffer of a frame.
        unsafe { held::gso_size(self.buf) }.store(size, Ordering::Relaxed);
        self.set_flags(self.flags().with(Flags::GSO));
    }

    /// The bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: off + len <= buffer size (every method keeps it), the memory is initialised and ours alone.
        unsafe { std::slice::from_raw_parts(self.at(self.meta.off()), self.len()) }
    }

    /// The bytes, to write. Of a buffer that is on loan from a [`Held`](crate::Held) these are the headers only: see
    /// [`Frame::make_own`].
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = if self.is_lent() { self.headers_len() } else { self.len() };
        // SAFETY: as in `bytes`, and `&mut self` makes the view exclusive: what others read of a lent buffer is left out.
        unsafe { std::slice::from_raw_parts_mut(self.at(self.meta.off()), len) }
    }

    /// Is the buffer a [`Held`](crate::Held)'s, on loan?
    #[inline(always)]
    pub fn is_lent(&self) -> bool {
        self.meta.0 & LENT != 0
    }

    /// Bytes in front of the payload of a buffer that is on loan.
    #[cold]
    fn headers_len(&self) -> usize {
        // SAFETY: called for lent frames only.
        let payload = unsafe { held::payload_start(self.buf) };
        payload.saturating_sub(self.meta.off()).min(self.len())
    }

    /// Whether `n` bytes in front may be written: there is as much headroom and, in a buffer that is on loan, none of it is payload that was
    /// pulled, which the holder still reads.
    #[inline(always)]
    fn may_push(&self, n: usize) -> bool {
        self.meta.off() >= n && (!self.is_lent() || self.is_before_payload())
    }

    #[cold]
    fn is_before_payload(&self) -> bool {
        // SAFETY: called for lent frames only.
        self.meta.off() <= unsafe { held::payload_start(self.buf) }
    }

    /// Moves a frame that is on loan into a buffer of its own, to be written as it likes; false if there is none.
    pub fn make_own(&mut self) -> bool {
        if self.is_lent() {
            let Some(copy) = self.try_clone() else { return false };
            *self = copy;
        }
        true
    }

    #[inline(always)]
    pub(crate) fn buffer(&self) -> NonNull<u8> {
        self.buf
    }

    #[inline(always)]
    pub(crate) fn offset(&self) -> usize {
        self.meta.off()
    }

    #[inline(always)]
    pub(crate) fn pool_number(&self) -> u16 {
        self.meta.pool() as u16
    }

    /// A second frame over the same buffer.
    ///
    /// # Safety
    /// The buffer's loan says that it is out.
    #[inline(always)]
    pub(crate) unsafe fn borrower(&self) -> Frame {
        Frame { buf: self.buf, meta: Meta(self.meta.0 | LENT) }
    }

    /// # Safety
    /// The frame is a lent one, and used by nobody after this.
    #[inline(never)]
    unsafe fn end_loan(&self) {
        // SAFETY: as the caller says; who gave back last returns the buffer.
        unsafe {
            if held::give_back(self.buf, self.pool().is_owned_here()) {
                Inner::put(Inner::numbered(self.meta.pool()), self.buf);
            }
        }
    }

    /// Bytes free in front: none in a buffer that is on loan once payload was pulled.
    #[inline]
    pub fn headroom(&self) -> usize {
        if self.may_push(0) { self.meta.off() } else { 0 }
    }

    /// Bytes free behind.
    #[inline(always)]
    pub fn tailroom(&self) -> usize {
        self.pool().size() - self.meta.off() - self.len()
    }

    /// Moves the front by `n` outwards; the caller has checked the headroom.
    #[inline(always)]
    fn grow_front(&mut self, n: usize) {
        let back = self.meta.back().saturating_sub(n) as u64;
        let n = n as u64;
        self.meta.0 = (self.meta.0 & !(BACK << BACK_SHIFT) | back << BACK_SHIFT) - (n << OFF_SHIFT) + n;
    }

    /// Grows by `N` bytes in front and gives them to be written; `None` if the headroom is too small, or holds payload of a buffer on loan that was
    /// pulled.
    #[inline(always)]
    pub fn push<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        if !self.may_push(N) {
            return None;
        }
        self.grow_front(N);
        // SAFETY: off..off+N lies inside the buffer and is ours alone, as `may_push` has checked.
        Some(unsafe { &mut *self.at(self.meta.off()).cast::<[u8; N]>() })
    }

    /// Grows by `N` bytes in front if `write`, which is shown these and the first `M` behind them, says so. The frame stays as long as it is
    /// if not, or if there are not as many.
    #[inline(always)]
    pub fn push_if<const N: usize, const M: usize>(
        &mut self,
        write: impl FnOnce(&mut [u8; N], &mut [u8; M]) -> bool,
    ) -> bool {
        let off = self.meta.off();
        let len = if self.is_lent() { self.headers_len() } else { self.len() };
        if !self.may_push(N) || len < M {
            return false;
        }
        // SAFETY: off-N..off+M lies inside the buffer and is ours alone (what others read of a lent one is behind `len`), and the two
        // views do not overlap.
        let (front, behind) =
            unsafe { (&mut *self.at(off - N).cast::<[u8; N]>(), &mut *self.at(off).cast::<[u8; M]>()) };
        let is_pushed = write(front, behind);
        if is_pushed {
            self.grow_front(N);
        }
        is_pushed
    }

    /// The same of a frame that begins with its network header, as the link layer has left it, whose buffer is its own: `false` of any other,
    /// of a large segment, and of one longer than `longest` too. One test finds them all, and what has been pulled since (nothing) need not be
    /// reckoned with: a dozen instructions of some 60 that a router has for a packet here.
    #[inline(always)]
    pub fn push_link_if<const N: usize, const M: usize>(
        &mut self,
        longest: usize,
        write: impl FnOnce(&mut [u8; N], &mut [u8; M]) -> bool,
    ) -> bool {
        const ODD: u64 = LENT | BACK << BACK_SHIFT | (Flags::GSO.0 as u64) << FLAGS_SHIFT;
        let (off, len) = (self.meta.off(), self.len());
        if self.meta.0 & ODD != 0 || len > longest || off < N || len < M {
            return false;
        }
        // SAFETY: off-N..off+M lies inside the buffer and is ours alone, and the two views do not overlap.
        let (front, behind) =
            unsafe { (&mut *self.at(off - N).cast::<[u8; N]>(), &mut *self.at(off).cast::<[u8; M]>()) };
        let is_pushed = write(front, behind);
        if is_pushed {
            let n = N as u64;
            self.meta.0 = self.meta.0 - (n << OFF_SHIFT) + n;
        }
        is_pushed
    }

    /// Grows by `n` bytes in front; `None` as with [`Frame::push`].
    #[inline(always)] // `n` is a constant for most callers
    pub fn push_n(&mut self, n: usize) -> Option<&mut [u8]> {
        if !self.may_push(n) {
            return None;
        }
        self.grow_front(n);
        self.bytes_mut().get_mut(..n)
    }

    /// Gives up `n` bytes in front; `false` (and no change) if there are fewer, or if offsets would pass 32 KiB.
    #[inline(always)]
    pub fn pull(&mut self, n: usize) -> bool {
        if n > self.len() || self.meta.off() + n > OFF as usize {
            return false;
        }
        let back = (self.meta.back() + n).min(BACK as usize) as u64;
        let n = n as u64;
        self.meta.0 = (self.meta.0 & !(BACK << BACK_SHIFT) | back << BACK_SHIFT) + (n << OFF_SHIFT) - n;
        true
    }

    /// As [`Frame::pull`] of a link header: the network header, which begins after it, is noted ([`Frame::mark_l3`]).
    #[inline(always)]
    pub fn pull_link(&mut self, n: usize) -> bool {
        if n > self.len() || self.meta.off() + n > OFF as usize {
            return false;
        }
        let n = n as u64;
        self.meta.0 = (self.meta.0 & !(BACK << BACK_SHIFT)) + (n << OFF_SHIFT) - n;
        true
    }

    /// As [`Frame::pull_link`] of a link header with `len` bytes of payload behind it, what follows them cut off: both written at once. `false` (and no
    /// change) if there are not as many bytes, or offsets would pass 32 KiB.
    #[inline(always)]
    pub fn open_link(&mut self, n: usize, len: usize) -> bool {
        let off = self.meta.off() + n;
        let fits = n + len <= self.len() && off <= OFF as usize;
        if fits {
            let kept = self.meta.0 & !(BACK << BACK_SHIFT | LEN);
            self.meta.0 = kept + ((n as u64) << OFF_SHIFT | len as u64);
        }
        fits
    }

    /// Leaves `len` bytes behind the first `N`, which are the network header and what follows it, of a frame that begins with
    /// its network header: [`Frame::truncate`] and [`Frame::pull`] in one write. `false` (and no change) if bytes have been
    /// pulled since the mark, if there are not as many, or if offsets would pass 32 KiB.
    #[inline(always)]
    pub fn open_headers<const N: usize>(&mut self, len: usize) -> bool {
        let n = N as u64;
        let opens =
            self.meta.0 & BACK << BACK_SHIFT == 0 && N + len <= self.len() && self.meta.off() + N <= OFF as usize;
        if opens {
            self.meta.0 = (self.meta.0 & !LEN) + (n.min(BACK) << BACK_SHIFT | n << OFF_SHIFT | len as u64);
        }
        opens
    }

    /// The bytes from the noted network header to the first byte, if they are `N`.
    #[inline(always)]
    pub fn headers<const N: usize>(&self) -> Option<&[u8; N]> {
        const { assert!(N < BACK as usize) }; // the greatest number stands for more, too
        if self.meta.back() != N {
            return None;
        }
        // SAFETY: the bytes in front were the frame's before they were pulled: inside the buffer, ours.
        Some(unsafe { &*self.at(self.meta.off() - N).cast::<[u8; N]>() })
    }

    /// [`Frame::headers`] to be written; `None` too if the buffer is on loan.
    #[inline(always)]
    pub fn headers_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        const { assert!(N < BACK as usize) };
        if self.meta.back() != N || self.is_lent() {
            return None;
        }
        // SAFETY: the bytes in front were the frame's before they were pulled: inside the buffer, ours alone as it is not lent.
        Some(unsafe { &mut *self.at(self.meta.off() - N).cast::<[u8; N]>() })
    }

    /// Grows the frame by `n` bytes at its end and returns them to be written; `None` if the tailroom is too
    /// small, or the buffer is on loan: after a truncation the bytes behind are the holder's payload.
    #[inline(always)]
    pub fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.tailroom() || self.is_lent() {
            return None;
        }
        let start = self.meta.off() + self.len();
        self.meta.0 += n as u64;
        // SAFETY: start..start+n lies inside the buffer and is ours alone.
        Some(unsafe { std::slice::from_raw_parts_mut(self.at(start), n) })
    }

    /// Appends a copy of `bytes`; `None` as with [`Frame::append`].
    #[inline(always)]
    pub fn extend(&mut self, bytes: &[u8]) -> Option<()> {
        self.append(bytes.len())?.copy_from_slice(bytes);
        Some(())
    }

    /// Cuts to `len` bytes; longer lengths change nothing.
    #[inline(always)]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.meta.0 = self.meta.0 & !LEN | len as u64;
        }
    }

    /// Notes that the network header begins at the first byte, so that it can be found again after pulls of up to 127
    /// bytes together (the longest IPv4 and TCP headers are 120).
    #[inline(always)]
    pub fn mark_l3(&mut self) {
        self.meta.0 &= !(BACK << BACK_SHIFT);
    }

    /// The bytes from the noted network header on, whatever has been pulled since.
    #[inline(always)]
    pub fn l3_bytes(&self) -> &[u8] {
        let back = self.meta.back();
        // SAFETY: the bytes in front were the frame's before they were pulled: inside the buffer, ours.
        unsafe { std::slice::from_raw_parts(self.at(self.meta.off() - back), self.len() + back) }
    }

    /// Takes back everything pulled since [`Frame::mark_l3`].
    #[inline]
    pub fn rewind_to_l3(&mut self) {
        self.grow_front(self.meta.back());
    }

    /// A copy in a buffer of the same pool; `None` if the pool is empty.
    pub fn try_clone(&self) -> Option<Frame> {
        let mut copy = self.pool().get(self.meta.pool() as u16)?;
        let bytes = self.l3_bytes();
        let start = self.meta.off() - self.meta.back();
        // SAFETY: both buffers have the pool's size, the source range lies in ours, and they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.at(start), bytes.len()) }
        copy.meta = Meta(self.meta.0 & !LENT);
        if let Some(size) = self.gso_size() {
            copy.set_gso_size(size);
        }
        Some(copy)
    }

    /// Asks the cache for the frame's first bytes; they will be read soon.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_ptr(self.at(self.meta.off()));
    }
}

/// Asks the cache for what `value` points at. A hint: never faults, changes nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_ptr(std::ptr::from_ref(value).cast());
}

/// [`prefetch`] of the cache line after the one in which `value` begins.
#[inline(always)]
pub fn prefetch_next<T>(value: &T) {
    prefetch_ptr(std::ptr::from_ref(value).cast::<u8>().wrapping_add(64));
}

/// Prefetches a free buffer `front` bytes from its beginning, where its frame will begin.
#[inline(always)]
pub(crate) fn prefetch_buffer(buf: NonNull<u8>, front: usize) {
    prefetch_ptr(buf.as_ptr().wrapping_add(front));
}

#[inline(always)]
fn prefetch_ptr(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetch is a hint and does not fault on any address; SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Puts `bytes` out of all caches into memory, as the write of a bus master does that a cache only snoops (PCI and PCI-X: before
/// cards wrote into the last-level cache). Changes nothing; where the processor cannot, does nothing.
pub fn evict(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64).chain(bytes.last().map(std::slice::from_ref)) {
        // SAFETY: the line is readable memory; CLFLUSH is part of SSE2, which every x86-64 has, and changes no content.
        unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

impl Drop for Frame {
    #[inline(always)]
    fn drop(&mut self) {
        unwind::note(1);
        if self.is_lent() {
            // SAFETY: this frame is gone after this.
            return unsafe { self.end_loan() };
        }
        // SAFETY: this frame owned `buf`, which came from this pool, and is gone after this.
        unsafe { Inner::put(Inner::numbered(self.meta.pool()), self.buf) }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} bytes, headroom {})", self.len(), self.headroom())
    }
}
