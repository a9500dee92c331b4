//! A ring's memory, which a socket and its owner both see.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// The mapping of a packet socket's ring.
#[derive(Debug)]
pub(super) struct Map {
    at: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to this value, and to the kernel by turns as the status words say: no thread matters to either.
unsafe impl Send for Map {}

impl Map {
    /// Maps the ring of `socket`, whose length it is.
    pub(super) fn new(socket: &OwnedFd, len: usize) -> io::Result<Map> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, somewhere; the kernel checks that the length is the ring's.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, rights, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Map { at: at.cast(), len }) }
    }

    /// The status word at byte `offset`; `None`: there is none.
    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset + 4 > self.len {
            return None;
        }
        // SAFETY: aligned (a mapping begins at a page) and within the mapping, which lives as long as `self`; it is read and written as
        // an atomic only, by us and by the kernel.
        Some(unsafe { AtomicU32::from_ptr(self.at.add(offset).cast()) })
    }

    /// Reads a status word; what was written before the other side changed it is seen after this.
    #[inline]
    pub(super) fn status(&self, offset: usize) -> u32 {
        self.word(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Changes a status word; the other side sees what was written before this.
    #[inline]
    pub(super) fn set_status(&mut self, offset: usize, status: u32) {
        if let Some(word) = self.word(offset) {
            word.store(status, Ordering::Release);
        }
    }

    /// The bytes of `from..to`; none if that is not within the ring.
    ///
    /// # Safety
    /// The status word of this slot says that it is ours.
    #[inline]
    pub(super) unsafe fn bytes(&self, from: usize, to: usize) -> &[u8] {
        if from > to || to > self.len {
            return &[];
        }
        // SAFETY: within the mapping, initialised by the kernel, which does not write to it while it is ours, as the caller says.
        unsafe { std::slice::from_raw_parts(self.at.add(from), to - from) }
    }

    /// The same, to be written.
    ///
    /// # Safety
    /// As [`Map::bytes`], and the range holds no status word.
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
        // SAFETY: our own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}
