//! Memory of a ring, shared by the kernel's socket and this process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// The mapping of a packet socket's ring.
#[derive(Debug)]
pub(super) struct Map {
    at: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to this value and to the kernel in turns, as the status words show;
// neither depends on the thread.
unsafe impl Send for Map {}

impl Map {
    /// Maps the ring of `socket`; `len` is the ring's length.
    pub(super) fn new(socket: &OwnedFd, len: usize) -> io::Result<Map> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at any address; the kernel checks that the length is the ring's.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, rights, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Map { at: at.cast(), len }) }
    }

    /// Returns the status word at byte `offset`; `None`: outside the ring or unaligned.
    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset + 4 > self.len {
            return None;
        }
        // SAFETY: aligned (a mapping begins at a page) and within the mapping, which lives as long
        // as `self`. Both this code and the kernel access it only atomically.
        Some(unsafe { AtomicU32::from_ptr(self.at.add(offset).cast()) })
    }

    /// Reads a status word (acquire). Data that the kernel wrote before it changed the word is then
    /// visible.
    #[inline]
    pub(super) fn status(&self, offset: usize) -> u32 {
        self.word(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Writes a status word (release). Data written before is visible to the kernel once it reads
    /// the word.
    #[inline]
    pub(super) fn set_status(&mut self, offset: usize, status: u32) {
        if let Some(word) = self.word(offset) {
            word.store(status, Ordering::Release);
        }
    }

    /// Returns the bytes of `from..to`; empty if that is not within the ring.
    ///
    /// # Safety
    /// The status word of this slot must show that it belongs to this side.
    #[inline]
    pub(super) unsafe fn bytes(&self, from: usize, to: usize) -> &[u8] {
        if from > to || to > self.len {
            return &[];
        }
        // SAFETY: within the mapping, initialized by the kernel, which does not write to it while
        // this side owns it, as the caller guarantees.
        unsafe { std::slice::from_raw_parts(self.at.add(from), to - from) }
    }

    /// Returns the bytes of `from..to` for writing; empty if that is not within the ring.
    ///
    /// # Safety
    /// As for [`Map::bytes`], and the range must hold no status word.
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
        // SAFETY: our own mapping, which is not used any more.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}
