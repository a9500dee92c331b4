//! A frame: pointer, offset, length, facts. 32 bytes moved by value; the buffer's memory is not touched until somebody
//! reads its headers (bridge2004's T5, T6).
//!
//! ```text
//!  buffer: | headroom ......... | bytes() ............ | tailroom ...... |
//!          0                    off                    off+len           pool's buffer size
//!            <- push(n) grows     pull(n) ->  append(n) grows ->
//! ```
#![allow(unsafe_code)] // an unsafe room: the slice views of a buffer that this frame alone owns

use crate::pool::Inner;
use std::fmt;
use std::ptr::NonNull;

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

    /// Are all bits of `other` set?
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
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
    pool: NonNull<Inner>,
    len: u32,
    /// A flow hash if a port or a layer computed one; 0 if not.
    pub hash: u32,
    off: u16,
    /// Where the network header begins, from the buffer's start: see [`Frame::mark_l3`].
    l3: u16,
    /// What is known about the frame.
    pub flags: Flags,
    /// Bytes of payload per segment when the port is to cut the frame up; 0: send as it is.
    pub gso_size: u16,
}

const _: () = assert!(size_of::<Frame>() == 32);

// SAFETY: a frame owns its buffer; the pool takes buffers back from any thread (see `Inner::put`).
unsafe impl Send for Frame {}
// SAFETY: `&Frame` gives read access only.
unsafe impl Sync for Frame {}

impl Frame {
    /// # Safety
    /// `buf` is an exclusive buffer of `pool`, initialised for the pool's size, and `off` lies within it.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(buf: NonNull<u8>, pool: NonNull<Inner>, off: u16) -> Frame {
        Frame { buf, pool, len: 0, hash: 0, off, l3: 0, flags: Flags(0), gso_size: 0 }
    }

    #[inline(always)]
    fn pool(&self) -> &Inner {
        // SAFETY: a pool's `Inner` lives until its last frame has returned.
        unsafe { self.pool.as_ref() }
    }

    /// Length in bytes (FCS not included).
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// No bytes?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: off + len <= buffer size (every method keeps it), the memory is initialised and ours alone.
        unsafe { std::slice::from_raw_parts(self.buf.as_ptr().add(usize::from(self.off)), self.len as usize) }
    }

    /// The bytes, to write.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes the view exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.buf.as_ptr().add(usize::from(self.off)), self.len as usize) }
    }

    /// Bytes free in front.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.off)
    }

    /// Bytes free behind.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.pool().size() - usize::from(self.off) - self.len as usize
    }

    /// Grows by `N` bytes in front and gives them to be written; `None` if the headroom is too small.
    #[inline(always)]
    pub fn push<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let off = usize::from(self.off).checked_sub(N)?;
        self.off = off as u16;
        self.len += N as u32;
        // SAFETY: off..off+N lies inside the buffer and is ours alone.
        Some(unsafe { &mut *self.buf.as_ptr().add(off).cast::<[u8; N]>() })
    }

    /// Grows by `n` bytes in front; `None` if the headroom is too small.
    pub fn push_n(&mut self, n: usize) -> Option<&mut [u8]> {
        let off = usize::from(self.off).checked_sub(n)?;
        self.off = off as u16;
        self.len += n as u32;
        self.bytes_mut().get_mut(..n)
    }

    /// Gives up `n` bytes in front; `false` (and no change) if there are fewer.
    #[inline(always)]
    pub fn pull(&mut self, n: usize) -> bool {
        if n > self.len as usize {
            return false;
        }
        self.off += n as u16;
        self.len -= n as u32;
        true
    }

    /// Grows by `n` bytes behind and gives them to be written; `None` if the tailroom is too small.
    #[inline(always)]
    pub fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.tailroom() {
            return None;
        }
        let start = usize::from(self.off) + self.len as usize;
        self.len += n as u32;
        // SAFETY: start..start+n lies inside the buffer and is ours alone.
        Some(unsafe { std::slice::from_raw_parts_mut(self.buf.as_ptr().add(start), n) })
    }

    /// Copies `bytes` behind; `None` if the tailroom is too small.
    #[inline(always)]
    pub fn extend(&mut self, bytes: &[u8]) -> Option<()> {
        self.append(bytes.len())?.copy_from_slice(bytes);
        Some(())
    }

    /// Cuts to `len` bytes; longer lengths change nothing.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len as usize {
            self.len = len as u32;
        }
    }

    /// Notes that the network header begins at the first byte, so that it can be found again after pulls.
    #[inline(always)]
    pub fn mark_l3(&mut self) {
        self.l3 = self.off;
    }

    /// The bytes from the noted network header on, whatever has been pulled since.
    #[inline(always)]
    pub fn l3_bytes(&self) -> &[u8] {
        let back = usize::from(self.off.saturating_sub(self.l3));
        // SAFETY: l3 <= off lies inside the buffer; the bytes between were the frame's before they were pulled.
        unsafe {
            let start = self.buf.as_ptr().add(usize::from(self.off) - back);
            std::slice::from_raw_parts(start, self.len as usize + back)
        }
    }

    /// Takes back everything pulled since [`Frame::mark_l3`].
    #[inline]
    pub fn rewind_to_l3(&mut self) {
        let back = self.off.saturating_sub(self.l3);
        self.off -= back;
        self.len += u32::from(back);
    }

    /// A copy in a buffer of the same pool; `None` if the pool is empty.
    pub fn try_clone(&self) -> Option<Frame> {
        let mut copy = self.pool().get(self.pool)?;
        let (back, len) = (self.off.saturating_sub(self.l3).min(self.off), self.len as usize);
        // SAFETY: both buffers have the pool's size, the source range lies in ours, and they do not overlap.
        unsafe {
            let start = usize::from(self.off - back);
            let n = usize::from(back) + len;
            std::ptr::copy_nonoverlapping(self.buf.as_ptr().add(start), copy.buf.as_ptr().add(start), n);
        }
        (copy.len, copy.off, copy.l3) = (self.len, self.off, self.l3);
        (copy.hash, copy.flags, copy.gso_size) = (self.hash, self.flags, self.gso_size);
        Some(copy)
    }

    /// Asks the cache for the frame's first bytes; they will be read soon.
    #[inline(always)]
    pub fn prefetch(&self) {
        prefetch_ptr(self.buf.as_ptr().wrapping_add(usize::from(self.off)));
    }
}

/// Asks the cache for what `value` points at. A hint: never faults, changes nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_ptr(std::ptr::from_ref(value).cast());
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

impl Drop for Frame {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this frame owned `buf`, which came from this pool, and is gone after this.
        unsafe { Inner::put(self.pool, self.buf) }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} bytes, headroom {})", self.len, self.off)
    }
}
