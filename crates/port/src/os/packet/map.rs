//! Memory of a ring that is shared by the kernel's socket and this process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// The mapping of a packet socket's ring.
#[derive(Debug)]
pub(super) struct Map {
    at: *mut u8,
    len: usize,
}

// SAFETY: each part of the memory belongs either to this value or to the kernel, according to the
// status words, and neither depends on the thread.
unsafe impl Send for Map {}

impl Map {
    /// Maps the ring of `socket`, which is `len` bytes long.
    pub(super) fn new(socket: &OwnedFd, len: usize) -> io::Result<Map> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address of this new mapping, and checks that the length is
        // that of the ring.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, rights, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Map { at: at.cast(), len }) }
    }

    /// Returns the status word at byte `offset`; `None` if it is outside the ring or unaligned.
    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset + 4 > self.len {
            return None;
        }
        // SAFETY: aligned (a mapping begins at a page) and within the mapping, which lives as long
        // as `self`. Both this code and the kernel access it only atomically.
        Some(unsafe { AtomicU32::from_ptr(self.at.add(offset).cast()) })
    }

    /// Reads a status word with acquire ordering. Data that the kernel wrote before it changed the
    /// word is then visible.
    #[inline]
    pub(super) fn status(&self, offset: usize) -> u32 {
        self.word(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Writes a status word with release ordering. Data written before is visible to the kernel
    /// once it has read the word.
    #[inline]
    pub(super) fn set_status(&mut self, offset: usize, status: u32) {
        if let Some(word) = self.word(offset) {
            word.store(status, Ordering::Release);
        }
    }

    /// Returns the bytes `from..to`; empty if they are not within the ring.
    ///
    /// # Safety
    /// The status word of the slot must state that the slot belongs to this process.
    #[inline]
    pub(super) unsafe fn bytes(&self, from: usize, to: usize) -> &[u8] {
        if from > to || to > self.len {
            return &[];
        }
        // SAFETY: the bytes are within the mapping and were initialized by the kernel, which does
        // not write to them while this process owns the slot, as the caller guarantees.
        unsafe { std::slice::from_raw_parts(self.at.add(from), to - from) }
    }

    /// Returns the bytes `from..to` for writing; empty if they are not within the ring.
    ///
    /// # Safety
    /// The conditions of [`Map::bytes`], and the range must not contain a status word.
    #[inline]
    pub(super) unsafe fn bytes_mut(&mut self, from: usize, to: usize) -> &mut [u8] {
        if from > to || to > self.len {
            return &mut [];
        }
        // SAFETY: as in `bytes`; `&mut self` makes it exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(from), to - from) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this is the value's own mapping, which is not used any more.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}
