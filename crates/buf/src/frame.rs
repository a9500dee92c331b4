//! A frame: pointer, offset, length and flags in 16 bytes. It is moved by value, and the buffer's
//! memory is not touched until the headers are read (the report bridge2004).
//!
//! A frame has two machine words, so that it is passed in two registers. An earlier frame of 32
//! bytes with separate fields was slower: each layer wrote one or two fields, and the next move
//! read them back in wider words, which the store buffer cannot forward. Receiving a datagram cost
//! 190 ticks with that frame, and costs 80 with two words
//! (docs/decisions/0003-frame-in-two-words.md).
//!
//! ```text
//!  buffer: | headroom ......... | bytes() ............ | tailroom ...... |
//!          0                    off                    off+len           pool's buffer size
//!            <- push(n) grows     pull(n) ->  append(n) grows ->
//! ```
#![allow(unsafe_code)] // unsafe: the slice views of a buffer that only this frame owns

use crate::pool::Inner;
use crate::{held, unwind};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Properties of a frame that are known without reading its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u16);

impl Flags {
    /// The port verified the IPv4 header checksum.
    pub const RX_IP_OK: Flags = Flags(1);
    /// The port verified the TCP or UDP checksum.
    pub const RX_L4_OK: Flags = Flags(1 << 1);
    /// The port must fill in the IPv4 header checksum.
    pub const TX_IP_CSUM: Flags = Flags(1 << 2);
    /// The port must fill in the TCP or UDP checksum; its field already contains the
    /// pseudo-header's sum.
    pub const TX_L4_CSUM: Flags = Flags(1 << 3);
    /// The frame is addressed to a link-layer broadcast or multicast address.
    pub const LINK_BROADCAST: Flags = Flags(1 << 4);
    /// The frame was sent by this host itself.
    pub const LOOPBACK: Flags = Flags(1 << 5);
    /// The frame is a large TCP segment, longer than the link's MTU. On transmission the port must
    /// split it; on reception the port merged it from several packets ([`Frame::set_gso_size`]).
    pub const GSO: Flags = Flags(1 << 6);

    /// All flags that require work of the port before it sends the frame: filling in checksums and
    /// splitting a large segment.
    pub const TX_WORK: Flags = Flags(Flags::TX_IP_CSUM.0 | Flags::TX_L4_CSUM.0 | Flags::GSO.0);

    /// Returns whether all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any bit of `other` is set.
    #[inline]
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the flags with the bits of `other` set.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns the flags with the bits of `other` cleared.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// An owned buffer with a frame in it. Dropping it returns the buffer to its pool, from any thread.
#[repr(C)]
pub struct Frame {
    buf: NonNull<u8>,
    meta: Meta,
}

/// All properties of a frame except its buffer, in one word.
///
/// | bits | 63..53 | 52..46 | 45..39 | 38..24 | 23 | 22..0 |
/// |---|---|---|---|---|---|---|
/// | | pool | flags | bytes pulled since `mark_l3`, at most 127 | offset | lent | length |
#[derive(Clone, Copy)]
struct Meta(u64);

const LEN: u64 = (1 << 23) - 1;
/// Bit that is set while the buffer is on loan from a [`Held`](crate::Held).
const LENT: u64 = 1 << 23;
const OFF_SHIFT: u32 = 24;
const OFF: u64 = (1 << 15) - 1;
const BACK_SHIFT: u32 = 39;
const BACK: u64 = (1 << 7) - 1;
const FLAGS_SHIFT: u32 = 46;
const FLAGS: u64 = (1 << 7) - 1;
const POOL_SHIFT: u32 = 53;
/// Maximum number of pools in a process, given by the width of the pool number in [`Meta`].
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
    /// Creates an empty frame at offset `off` of `buf`.
    ///
    /// # Safety
    /// `buf` is an exclusive buffer of the pool with number `pool`, initialised for the pool's
    /// size, and `off` lies within it.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(buf: NonNull<u8>, pool: u16, off: u16) -> Frame {
        Frame { buf, meta: Meta(u64::from(pool) << POOL_SHIFT | u64::from(off) << OFF_SHIFT) }
    }

    /// Returns the empty frame with `len` bytes, moved `front` bytes towards the buffer's start.
    ///
    /// # Safety
    /// The frame is empty and has `front` bytes of headroom, and its buffer, which is initialised,
    /// has at least `len` bytes after the new start of the frame.
    #[inline(always)]
    pub(crate) unsafe fn spanning(mut self, front: usize, len: usize) -> Frame {
        self.meta.0 = self.meta.0 - ((front as u64) << OFF_SHIFT) + len as u64;
        self
    }

    /// Returns the buffers of `frames` to their pools, one group of consecutive frames of the same
    /// pool at a time.
    ///
    /// # Safety
    /// The frames must not be used or dropped afterwards.
    #[inline(never)]
    pub(crate) unsafe fn drop_all(mut frames: &[Frame]) {
        unwind::note(frames.len());
        while let Some(first) = frames.first() {
            let key = first.meta.pool_and_lent();
            // The common case: all frames are of one pool.
            // SAFETY: these frames owned their buffers and are not used after this.
            if !first.is_lent() && unsafe { Inner::put_all(Inner::numbered(first.meta.pool()), frames) } {
                return;
            }
            let run = frames.iter().take_while(|frame| frame.meta.pool_and_lent() == key).count();
            let (these, others) = frames.split_at(run);
            frames = others;
            if first.is_lent() {
                // SAFETY: these frames are not used after this.
                these.iter().for_each(|frame| unsafe { frame.end_loan() });
                continue;
            }
            let pool = first.meta.pool();
            // SAFETY: these frames owned their buffers, which came from this pool, and are not used
            // after this.
            unsafe { Inner::put_many(Inner::numbered(pool), these.iter().map(|frame| frame.buf)) };
        }
    }

    /// Returns the buffer, and the bits in which this frame and `other` differ. If no bit of
    /// [`Frame::HOME`] is among them, both frames are freed in the same way.
    #[inline(always)]
    pub(crate) fn way_home(&self, other: &Frame) -> (NonNull<u8>, u64) {
        (self.buf, self.meta.0 ^ other.meta.0)
    }

    /// Mask of the bits that determine how a frame is freed: pool number, and whether the buffer is
    /// on loan.
    pub(crate) const HOME: u64 = u64::MAX << POOL_SHIFT | LENT;

    #[inline(always)]
    fn pool(&self) -> &Inner {
        // SAFETY: a pool's `Inner` stays alive under its number until its last frame has returned.
        unsafe { Inner::numbered(self.meta.pool()).as_ref() }
    }

    #[inline(always)]
    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: callers keep `offset` within the buffer.
        unsafe { self.buf.as_ptr().add(offset) }
    }

    /// Returns the length in bytes, without the frame check sequence (FCS).
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.meta.len()
    }

    /// Returns whether the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the flags of the frame.
    #[inline(always)]
    pub fn flags(&self) -> Flags {
        Flags((self.meta.0 >> FLAGS_SHIFT & FLAGS) as u16)
    }

    /// Replaces the flags of the frame.
    #[inline(always)]
    pub fn set_flags(&mut self, flags: Flags) {
        self.meta.0 = self.meta.0 & !(FLAGS << FLAGS_SHIFT) | (u64::from(flags.0) & FLAGS) << FLAGS_SHIFT;
    }

    /// Returns the payload size, in bytes, of the packets into which a large TCP segment is to be
    /// split, or from which it was merged. The last packet may be shorter. `None` if the frame is a
    /// single packet.
    #[inline]
    pub fn gso_size(&self) -> Option<u16> {
        // SAFETY: `self.buf` is the buffer of a frame.
        self.flags().has(Flags::GSO).then(|| unsafe { held::gso_size(self.buf) }.load(Ordering::Relaxed))
    }

    /// Makes the frame a large segment ([`Flags::GSO`]) with `size` bytes of payload per packet.
    /// The size is stored in front of the buffer, because the frame's words have no bits left for
    /// it (docs/decisions/0003). It is read only if the flag is set.
    #[inline]
    pub fn set_gso_size(&mut self, size: u16) {
        // SAFETY: `self.buf` is the buffer of a frame.
        unsafe { held::gso_size(self.buf) }.store(size, Ordering::Relaxed);
        self.set_flags(self.flags().with(Flags::GSO));
    }

    /// Returns the bytes of the frame.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: off + len <= buffer size (every method preserves this), and the memory is
        // initialised and owned by this frame alone.
        unsafe { std::slice::from_raw_parts(self.at(self.meta.off()), self.len()) }
    }

    /// Returns the bytes for writing. If the buffer is on loan from a [`Held`](crate::Held), only
    /// the headers are returned; [`Frame::make_own`] makes all bytes writable.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = if self.is_lent() { self.headers_len() } else { self.len() };
        // SAFETY: same as in `bytes`; `&mut self` makes the view exclusive, and the shared part of
        // a lent buffer is excluded.
        unsafe { std::slice::from_raw_parts_mut(self.at(self.meta.off()), len) }
    }

    /// Returns whether the buffer is on loan from a [`Held`](crate::Held).
    #[inline(always)]
    pub fn is_lent(&self) -> bool {
        self.meta.0 & LENT != 0
    }

    /// Returns the number of bytes between the frame's start and the payload of a buffer on loan.
    #[cold]
    fn headers_len(&self) -> usize {
        // SAFETY: called for lent frames only.
        let payload = unsafe { held::payload_start(self.buf) };
        payload.saturating_sub(self.meta.off()).min(self.len())
    }

    /// Returns whether the frame can be extended by `n` bytes at the front. This requires enough
    /// headroom. In a buffer on loan, the headroom must not contain pulled payload either, because
    /// the holder still reads it.
    #[inline(always)]
    fn may_push(&self, n: usize) -> bool {
        self.meta.off() >= n && (!self.is_lent() || self.is_before_payload())
    }

    #[cold]
    fn is_before_payload(&self) -> bool {
        // SAFETY: called for lent frames only.
        self.meta.off() <= unsafe { held::payload_start(self.buf) }
    }

    /// Moves a frame whose buffer is on loan into a buffer of its own, in which all bytes can be
    /// written. Returns false if no buffer is free.
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

    /// Returns a second frame with the same buffer.
    ///
    /// # Safety
    /// The state of the buffer's loan is "lent".
    #[inline(always)]
    pub(crate) unsafe fn borrower(&self) -> Frame {
        Frame { buf: self.buf, meta: Meta(self.meta.0 | LENT) }
    }

    /// Ends the loan of the buffer. If the [`Held`](crate::Held) has been dropped, returns the
    /// buffer to its pool.
    ///
    /// # Safety
    /// The frame is lent, and not used after this.
    #[inline(never)]
    unsafe fn end_loan(&self) {
        // SAFETY: guaranteed by the caller; the last of the two owners returns the buffer.
        unsafe {
            if held::give_back(self.buf, self.pool().is_owned_here()) {
                Inner::put(Inner::numbered(self.meta.pool()), self.buf);
            }
        }
    }

    /// Returns the number of free bytes in front of the frame. It is 0 if payload was pulled from a
    /// buffer on loan.
    #[inline]
    pub fn headroom(&self) -> usize {
        if self.may_push(0) { self.meta.off() } else { 0 }
    }

    /// Returns the number of free bytes after the frame.
    #[inline(always)]
    pub fn tailroom(&self) -> usize {
        self.pool().size() - self.meta.off() - self.len()
    }

    /// Extends the frame at the front by `n` bytes. The caller must have checked the headroom.
    #[inline(always)]
    fn grow_front(&mut self, n: usize) {
        let back = self.meta.back().saturating_sub(n) as u64;
        let n = n as u64;
        self.meta.0 = (self.meta.0 & !(BACK << BACK_SHIFT) | back << BACK_SHIFT) - (n << OFF_SHIFT) + n;
    }

    /// Extends the frame at the front by `N` bytes and returns them for writing. Returns `None` if
    /// the headroom is too small, or if it contains pulled payload of a buffer on loan.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn push<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        if !self.may_push(N) {
            return None;
        }
        self.grow_front(N);
        // SAFETY: off..off+N lies inside the buffer and is owned by this frame alone, as checked by
        // `may_push`.
        Some(unsafe { &mut *self.at(self.meta.off()).cast::<[u8; N]>() })
    }

    /// Calls `write` with the `N` bytes in front of the frame and the frame's first `M` bytes. If
    /// `write` returns true, extends the frame by the `N` bytes. Otherwise, or if there are fewer
    /// than `N` or `M` bytes, the frame is unchanged.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn push_if<const N: usize, const M: usize>(
        &mut self,
        write: impl FnOnce(&mut [u8; N], &mut [u8; M]) -> bool,
    ) -> bool {
        let off = self.meta.off();
        let len = if self.is_lent() { self.headers_len() } else { self.len() };
        if !self.may_push(N) || len < M {
            return false;
        }
        // SAFETY: off-N..off+M lies inside the buffer and is owned by this frame alone (the shared
        // part of a lent buffer comes after `len`), and the two views do not overlap.
        let (front, behind) =
            unsafe { (&mut *self.at(off - N).cast::<[u8; N]>(), &mut *self.at(off).cast::<[u8; M]>()) };
        let is_pushed = write(front, behind);
        if is_pushed {
            self.grow_front(N);
        }
        is_pushed
    }

    /// Extends the frame as [`Frame::push_if`] does, under three more conditions: the frame begins
    /// with its network header and no bytes have been pulled since; the buffer is not on loan; the
    /// frame has at most `longest` bytes. Returns false for any other frame and for a large
    /// segment. A single test covers most of these conditions, and the count of pulled bytes need
    /// not be updated. This saves a dozen of the 60 or so instructions that a router spends here
    /// per packet.
    #[cfg_attr(not(debug_assertions), inline(always))]
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
        // SAFETY: off-N..off+M lies inside the buffer and is owned by this frame alone, and the two
        // views do not overlap.
        let (front, behind) =
            unsafe { (&mut *self.at(off - N).cast::<[u8; N]>(), &mut *self.at(off).cast::<[u8; M]>()) };
        let is_pushed = write(front, behind);
        if is_pushed {
            let n = N as u64;
            self.meta.0 = self.meta.0 - (n << OFF_SHIFT) + n;
        }
        is_pushed
    }

    /// Extends the frame at the front by `n` bytes and returns them for writing. Returns `None`
    /// under the same conditions as [`Frame::push`].
    #[inline(always)] // `n` is a constant for most callers
    pub fn push_n(&mut self, n: usize) -> Option<&mut [u8]> {
        if !self.may_push(n) {
            return None;
        }
        self.grow_front(n);
        self.bytes_mut().get_mut(..n)
    }

    /// Removes `n` bytes at the front. Returns false and changes nothing if the frame has fewer
    /// bytes or the offset would exceed 32 KiB.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn pull(&mut self, n: usize) -> bool {
        if n > self.len() || self.meta.off() + n > OFF as usize {
            return false;
        }
        let back = (self.meta.back() + n).min(BACK as usize) as u64;
        let n = n as u64;
        self.meta.0 = (self.meta.0 & !(BACK << BACK_SHIFT) | back << BACK_SHIFT) + (n << OFF_SHIFT) - n;
        true
    }

    /// Removes a link header of `n` bytes as [`Frame::pull`] does, and marks the byte after it as
    /// the start of the network header ([`Frame::mark_l3`]).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn pull_link(&mut self, n: usize) -> bool {
        if n > self.len() || self.meta.off() + n > OFF as usize {
            return false;
        }
        let n = n as u64;
        self.meta.0 = (self.meta.0 & !(BACK << BACK_SHIFT)) + (n << OFF_SHIFT) - n;
        true
    }

    /// Removes a link header as [`Frame::pull_link`] does, and truncates the rest to `len` bytes,
    /// in one write. Returns false and changes nothing if the frame has fewer bytes or the offset
    /// would exceed 32 KiB.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn open_link(&mut self, n: usize, len: usize) -> bool {
        let off = self.meta.off() + n;
        let fits = n + len <= self.len() && off <= OFF as usize;
        if fits {
            let kept = self.meta.0 & !(BACK << BACK_SHIFT | LEN);
            self.meta.0 = kept + ((n as u64) << OFF_SHIFT | len as u64);
        }
        fits
    }

    /// Removes the first `N` bytes, which are the network header and the header after it, and
    /// truncates the rest to `len` bytes: [`Frame::truncate`] and [`Frame::pull`] in one write. The
    /// frame must begin with its network header. Returns false and changes nothing if bytes were
    /// pulled since [`Frame::mark_l3`], the frame has fewer bytes, or the offset would exceed 32
    /// KiB.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn open_headers<const N: usize>(&mut self, len: usize) -> bool {
        let n = N as u64;
        let opens =
            self.meta.0 & BACK << BACK_SHIFT == 0 && N + len <= self.len() && self.meta.off() + N <= OFF as usize;
        if opens {
            self.meta.0 = (self.meta.0 & !LEN) + (n.min(BACK) << BACK_SHIFT | n << OFF_SHIFT | len as u64);
        }
        opens
    }

    /// Returns the pulled bytes from the network header ([`Frame::mark_l3`]) up to the frame's
    /// first byte, if there are exactly `N`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn headers<const N: usize>(&self) -> Option<&[u8; N]> {
        const { assert!(N < BACK as usize) }; // BACK also represents larger numbers of pulled bytes
        if self.meta.back() != N {
            return None;
        }
        // SAFETY: these bytes belonged to the frame until they were pulled: they lie inside the
        // buffer and are owned by this frame.
        Some(unsafe { &*self.at(self.meta.off() - N).cast::<[u8; N]>() })
    }

    /// Returns the pulled bytes as [`Frame::headers`] does, for writing; `None` also if the buffer
    /// is on loan.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn headers_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        const { assert!(N < BACK as usize) };
        if self.meta.back() != N || self.is_lent() {
            return None;
        }
        // SAFETY: these bytes belonged to the frame until they were pulled: they lie inside the
        // buffer, which is not lent, and are owned by this frame alone.
        Some(unsafe { &mut *self.at(self.meta.off() - N).cast::<[u8; N]>() })
    }

    /// Extends the frame at its end by `n` bytes and returns them for writing. Returns `None` if
    /// the tailroom is too small, or if the buffer is on loan, because the bytes after a truncated
    /// frame are then the holder's payload.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.tailroom() || self.is_lent() {
            return None;
        }
        let start = self.meta.off() + self.len();
        self.meta.0 += n as u64;
        // SAFETY: start..start+n lies inside the buffer and is owned by this frame alone.
        Some(unsafe { std::slice::from_raw_parts_mut(self.at(start), n) })
    }

    /// Appends a copy of `bytes`; `None` under the same conditions as [`Frame::append`].
    #[inline(always)]
    pub fn extend(&mut self, bytes: &[u8]) -> Option<()> {
        self.append(bytes.len())?.copy_from_slice(bytes);
        Some(())
    }

    /// Truncates the frame to `len` bytes. Does nothing if the frame is not longer.
    #[inline(always)]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.meta.0 = self.meta.0 & !LEN | len as u64;
        }
    }

    /// Marks the frame's first byte as the start of the network header. The position is kept while
    /// up to 127 bytes in total are pulled (the longest IPv4 and TCP headers together have 120
    /// bytes).
    #[inline(always)]
    pub fn mark_l3(&mut self) {
        self.meta.0 &= !(BACK << BACK_SHIFT);
    }

    /// Returns the bytes from the start of the network header ([`Frame::mark_l3`]), including those
    /// pulled since.
    #[inline(always)]
    pub fn l3_bytes(&self) -> &[u8] {
        let back = self.meta.back();
        // SAFETY: the pulled bytes belonged to the frame before: they lie inside the buffer and are
        // owned by this frame.
        unsafe { std::slice::from_raw_parts(self.at(self.meta.off() - back), self.len() + back) }
    }

    /// Undoes all pulls since [`Frame::mark_l3`].
    #[inline]
    pub fn rewind_to_l3(&mut self) {
        self.grow_front(self.meta.back());
    }

    /// Returns a copy in another buffer of the same pool; `None` if no buffer is free.
    pub fn try_clone(&self) -> Option<Frame> {
        let mut copy = self.pool().get(self.meta.pool() as u16)?;
        let bytes = self.l3_bytes();
        let start = self.meta.off() - self.meta.back();
        // SAFETY: both buffers have the pool's size, the source range lies in this frame's buffer,
        // and the buffers do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.at(start), bytes.len()) }
        copy.meta = Meta(self.meta.0 & !LENT);
        if let Some(size) = self.gso_size() {
            copy.set_gso_size(size);
        }
        Some(copy)
    }

    /// Prefetches the frame's first bytes.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_ptr(self.at(self.meta.off()));
    }
}

/// Prefetches the memory of `value`. This is a hint: it never faults and changes nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_ptr(std::ptr::from_ref(value).cast());
}

/// Prefetches the cache line after the one in which `value` begins.
#[inline(always)]
pub fn prefetch_next<T>(value: &T) {
    prefetch_ptr(std::ptr::from_ref(value).cast::<u8>().wrapping_add(64));
}

/// Prefetches the cache line of a free buffer in which its next frame will begin, `front` bytes
/// after the buffer's start.
#[inline(always)]
pub(crate) fn prefetch_buffer(buf: NonNull<u8>, front: usize) {
    prefetch_ptr(buf.as_ptr().wrapping_add(front));
}

#[cfg_attr(not(debug_assertions), inline(always))]
fn prefetch_ptr(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetch is a hint and does not fault on any address; SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Flushes `bytes` from all caches to memory. A write by a bus master has this effect on PCI and
/// PCI-X, where caches only snoop; later NICs write into the last-level cache. The contents do not
/// change. Does nothing on processors without the instruction.
pub fn evict(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64).chain(bytes.last().map(std::slice::from_ref)) {
        // SAFETY: the line is readable memory; CLFLUSH is part of SSE2, which every x86-64 has, and
        // changes no content.
        unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

impl Drop for Frame {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn drop(&mut self) {
        unwind::note(1);
        if self.is_lent() {
            // SAFETY: this frame is not used after this.
            return unsafe { self.end_loan() };
        }
        // SAFETY: this frame owned `buf`, which came from this pool, and is not used after this.
        unsafe { Inner::put(Inner::numbered(self.meta.pool()), self.buf) }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} bytes, headroom {})", self.len(), self.headroom())
    }
}
