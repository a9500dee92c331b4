//! A ring shared with the kernel: places for descriptors, an index that one side moves on and one that the other does.
//!
//! Both indices only grow, and wrap at 2^32; a place is its index modulo the size. What a producer wrote is the consumer's
//! once the producer's index says so (a release here, an acquire there), and the other way round with places that are free
//! again (linux/if_xdp.h; Documentation/networking/af_xdp.rst, "Rings").

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Where the parts of a ring lie in its mapping, and how many places it has: a power of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub offset: libc::xdp_ring_offset,
    pub page: libc::off_t,
    pub places: u32,
}

/// A mapping of a ring of `T`.
struct Ring<T> {
    base: NonNull<u8>,
    len: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    places: NonNull<T>,
    mask: u32,
}

// SAFETY: the mapping is owned; its indices are atomic, and its places are written or read by the one side that they belong to.
unsafe impl<T: Copy + Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(fd: BorrowedFd<'_>, shape: &Shape) -> io::Result<Ring<T>> {
        let start = shape.offset.desc as usize;
        let len = start + shape.places as usize * size_of::<T>();
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd.as_raw_fd(), shape.page) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: the kernel says where in the mapping, which it made `len` bytes long, the parts are.
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
        // SAFETY: inside the mapping, aligned by the kernel, and only ever used as an atomic.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    /// The place of an index. Masked: it lies in the mapping whatever the index.
    fn place(&self, index: u32) -> *mut T {
        // SAFETY: the mapping has `mask + 1` places.
        unsafe { self.places.add((index & self.mask) as usize).as_ptr() }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: base and len are those of a live mapping of ours.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.len);
        }
    }
}

/// Our end of a ring that we fill.
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Behind the last that was written.
    at: u32,
    /// Behind the last free place that is known of.
    end: u32,
}

impl<T: Copy> Producer<T> {
    pub fn map(fd: BorrowedFd<'_>, shape: &Shape) -> io::Result<Producer<T>> {
        let ring = Ring::map(fd, shape)?;
        Ok(Producer { at: 0, end: ring.size(), ring })
    }

    /// Free places: at least `want`, if there are.
    #[inline]
    pub fn room(&mut self, want: u32) -> u32 {
        if self.end.wrapping_sub(self.at) < want {
            self.end = self.ring.consumer().load(Ordering::Acquire).wrapping_add(self.ring.size());
        }
        self.end.wrapping_sub(self.at).min(self.ring.size())
    }

    /// Writes one, if there is room; it is the kernel's after [`Producer::publish`].
    #[inline]
    pub fn write(&mut self, value: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: a free place is ours to write.
        unsafe { self.ring.place(self.at).write(value) };
        self.at = self.at.wrapping_add(1);
        true
    }

    /// Gives the kernel what was written.
    #[inline]
    pub fn publish(&mut self) {
        self.ring.producer().store(self.at, Ordering::Release);
    }

    /// What was given and the kernel has not yet taken.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.ring.producer().load(Ordering::Relaxed).wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Does the kernel want to be told of what was given?
    #[inline]
    pub fn wants_wakeup(&self) -> bool {
        // Between the index above and the flag below: else both sides could miss each other.
        fence(Ordering::SeqCst);
        // SAFETY: inside the mapping, aligned by the kernel, and only ever used as an atomic.
        let flags = unsafe { self.ring.flags.as_ref() }.load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Our end of a ring that the kernel fills.
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// The next to read.
    at: u32,
    /// Behind the last that is known to be there.
    end: u32,
}

impl<T: Copy> Consumer<T> {
    pub fn map(fd: BorrowedFd<'_>, shape: &Shape) -> io::Result<Consumer<T>> {
        Ok(Consumer { ring: Ring::map(fd, shape)?, at: 0, end: 0 })
    }

    /// The next, if there is one; its place is the kernel's again after [`Consumer::release`].
    #[inline]
    pub fn read(&mut self) -> Option<T> {
        if self.at == self.end {
            self.end = self.ring.producer().load(Ordering::Acquire);
            if self.at == self.end {
                return None;
            }
        }
        // SAFETY: written by the kernel before its index passed here; the kernel writes integers only, of which any are valid.
        let value = unsafe { self.ring.place(self.at).read() };
        self.at = self.at.wrapping_add(1);
        Some(value)
    }

    /// Gives the kernel the places of what was read.
    #[inline]
    pub fn release(&mut self) {
        self.ring.consumer().store(self.at, Ordering::Release);
    }
}
