//! A ring that is shared with the kernel: entries for descriptors, a producer index and a consumer
//! index.
//!
//! Both indices only increase, and wrap at 2^32; the position of an entry is its index modulo the
//! size of the ring. By increasing its index, the producer makes entries visible to the consumer
//! (release on one side, acquire on the other). In the same way, the consumer's index returns free
//! entries to the producer (linux/if_xdp.h; Documentation/networking/af_xdp.rst, "Rings").

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Offsets of the parts of a ring in its mapping, and the number of entries, which is a power of
/// two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub offset: libc::xdp_ring_offset,
    pub page: libc::off_t,
    pub places: u32,
}

/// Mapping of a ring with entries of type `T`.
struct Ring<T> {
    base: NonNull<u8>,
    len: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    places: NonNull<T>,
    mask: u32,
}

// SAFETY: the mapping is owned; its indices are atomic, and each entry is accessed only by the side
// that owns it.
unsafe impl<T: Copy + Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(fd: BorrowedFd<'_>, shape: &Shape) -> io::Result<Ring<T>> {
        let start = shape.offset.desc as usize;
        let len = start + shape.places as usize * size_of::<T>();
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address of this new mapping, so it does not affect
        // existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd.as_raw_fd(), shape.page) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: the offsets come from the kernel and lie within the mapping of `len` bytes.
        let at = |offset: u64| unsafe { base.add(offset as usize) };
        Ok(Ring {
            base,
            len,
            producer: at(shape.offset.producer).cast(),
            consumer: at(shape.offset.consumer).cast(),
            flags: at(shape.offset.flags).cast(),
            places: at(shape.offset.desc).cast(),
            mask: shape.places - 1,
        })
    }

    fn size(&self) -> u32 {
        self.mask + 1
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: the index is inside the mapping, aligned by the kernel, and only ever used as an
        // atomic.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: same as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    /// Returns a pointer to the entry with the given index. The mask ensures that the pointer is
    /// inside the mapping.
    fn place(&self, index: u32) -> *mut T {
        // SAFETY: the mapping has `mask + 1` entries.
        unsafe { self.places.add((index & self.mask) as usize).as_ptr() }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: base and len are those of this value's live mapping.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.len);
        }
    }
}

/// Producer side of a ring, which this process fills.
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Index after the last entry written.
    at: u32,
    /// Index after the last entry known to be free.
    end: u32,
}

impl<T: Copy> Producer<T> {
    pub fn map(fd: BorrowedFd<'_>, shape: &Shape) -> io::Result<Producer<T>> {
        let ring = Ring::map(fd, shape)?;
        Ok(Producer { at: 0, end: ring.size(), ring })
    }

    /// Returns the number of free entries. Reads the kernel's index only if fewer than `want`
    /// entries are known to be free.
    #[inline]
    pub fn room(&mut self, want: u32) -> u32 {
        if self.end.wrapping_sub(self.at) < want {
            self.end = self.ring.consumer().load(Ordering::Acquire).wrapping_add(self.ring.size());
        }
        self.end.wrapping_sub(self.at).min(self.ring.size())
    }

    /// Writes an entry if one is free, and returns whether it was. [`Producer::publish`] then
    /// passes the entry to the kernel.
    #[inline]
    pub fn write(&mut self, value: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: free entries are owned by the producer.
        unsafe { self.ring.place(self.at).write(value) };
        self.at = self.at.wrapping_add(1);
        true
    }

    /// Passes the written entries to the kernel.
    #[inline]
    pub fn publish(&mut self) {
        self.ring.producer().store(self.at, Ordering::Release);
    }

    /// Returns the number of published entries that the kernel has not taken yet.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.ring.producer().load(Ordering::Relaxed).wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Returns whether the kernel requires a wakeup call for the published entries.
    #[inline]
    pub fn wants_wakeup(&self) -> bool {
        // Orders the store of the index before the load of the flag; otherwise a wakeup could be
        // missed.
        fence(Ordering::SeqCst);
        // SAFETY: the flags are inside the mapping, aligned by the kernel, and only ever used as an
        // atomic.
        let flags = unsafe { self.ring.flags.as_ref() }.load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Consumer side of a ring, which the kernel fills.
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Index of the next entry to read.
    at: u32,
    /// Index after the last entry known to be available.
    end: u32,
}

impl<T: Copy> Consumer<T> {
    pub fn map(fd: BorrowedFd<'_>, shape: &Shape) -> io::Result<Consumer<T>> {
        Ok(Consumer { ring: Ring::map(fd, shape)?, at: 0, end: 0 })
    }

    /// Returns the next entry; `None` if there is none. [`Consumer::release`] later returns the
    /// entry to the kernel.
    #[inline]
    pub fn read(&mut self) -> Option<T> {
        if self.at == self.end {
            self.end = self.ring.producer().load(Ordering::Acquire);
            if self.at == self.end {
                return None;
            }
        }
        // SAFETY: the kernel wrote the entry before its index passed it. The entry consists of
        // integers, for which all values are valid.
        let value = unsafe { self.ring.place(self.at).read() };
        self.at = self.at.wrapping_add(1);
        Some(value)
    }

    /// Returns the entries read so far to the kernel.
    #[inline]
    pub fn release(&mut self) {
        self.ring.consumer().store(self.at, Ordering::Release);
    }
}
