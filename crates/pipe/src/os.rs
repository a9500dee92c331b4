//! System calls for the machine's clock, for pipes and for mounts. All unsafe code of the crate is
//! in this module.
#![allow(unsafe_code)] // clock_gettime(2), fcntl(2), vmsplice(2), mmap(2), mount(2), recvmsg(2) have no safe form in std

mod fuse;

pub use fuse::{FUSE_TYPE, fuse_mount, fuse_unmount, user};
pub use port::os::stdout;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Returns CLOCK_MONOTONIC in nanoseconds. All processes of the machine read the same clock.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live timespec to write to; the clock exists on every Linux. If the call fails, the
    // time stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Returns whether `fd` is a pipe.
pub fn is_pipe(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: an all-zero stat is a valid one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a live stat to write to.
    let answer = unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) };
    answer == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFIFO
}

/// Sets the capacity of a pipe to 1 MiB, the default maximum for an unprivileged user. Returns the
/// resulting capacity in bytes, or 0 if `fd` is not a pipe.
pub fn widen_pipe(fd: BorrowedFd<'_>) -> usize {
    const WANTED: i32 = 1 << 20;
    // SAFETY: fcntl(2) with integer arguments only.
    unsafe {
        if libc::fcntl(fd.as_raw_fd(), libc::F_SETPIPE_SZ, WANTED) < 0 {
            // The user's limit may be lower, or the pipe may be full. Its capacity then stays
            // unchanged.
        }
        usize::try_from(libc::fcntl(fd.as_raw_fd(), libc::F_GETPIPE_SZ)).unwrap_or(0)
    }
}

/// Memory whose pages are moved into a pipe without copying (vmsplice(2)). The pipe, and readers
/// that use splice(2) or tee(2), keep references to these pages.
///
/// A page that was sent must therefore never change. The caller writes only to pages that were not
/// sent yet ([`Pages::room`]), or to none ([`Pages::keep`]). [`Pages::reopen`] releases all pages
/// and replaces them by new ones.
#[derive(Debug)]
pub struct Pages {
    at: *mut u8,
    len: usize,
    /// Number of bytes that have been sent, rounded up to whole pages.
    sent: usize,
    /// The mapping returned by mmap(2); `at` lies within it, aligned to a huge page.
    mapped: (*mut libc::c_void, usize),
}

// SAFETY: the memory is owned by this value alone, like a Box's.
unsafe impl Send for Pages {}

/// Size of a huge page in bytes.
const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;

impl Pages {
    /// Allocates at least `len` bytes of zeroed memory, in huge pages if available.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(len: usize) -> io::Result<Pages> {
        let len = len.next_multiple_of(HUGE);
        // Space to align the mapping to a huge page, because not every kernel does that.
        let whole = len + HUGE;
        // SAFETY: a new private anonymous mapping at any address; `at` stays within it; madvise(2)
        // on it is only a hint.
        unsafe {
            let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let base = libc::mmap(std::ptr::null_mut(), whole, rights, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let at = base.cast::<u8>().add(base.cast::<u8>().align_offset(HUGE));
            libc::madvise(at.cast(), len, libc::MADV_HUGEPAGE);
            Ok(Pages { at, len, sent: 0, mapped: (base, whole) })
        }
    }

    /// Returns the memory after the sent pages, which the caller fills before the next
    /// [`Pages::send`].
    pub fn room(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `len` bytes, owned exclusively, and lives as long as `self` is
        // borrowed. `send` moves `sent` past every page it sends, so no page from `sent` on was
        // sent; `Kept` gives no such access.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(self.sent), self.len - self.sent) }
    }

    /// Makes the memory read-only, so that it can be sent any number of times.
    pub fn keep(self) -> Kept {
        Kept(self)
    }

    /// Sends the first `len` bytes of [`Pages::room`] and passes their pages to the readers.
    /// Afterwards [`Pages::room`] begins after these pages. If `pipe` does not accept pages, the
    /// bytes are written with write(2).
    ///
    /// # Errors
    /// Errors of writing to the pipe, such as `BrokenPipe` if there is no reader.
    pub fn send(&mut self, pipe: &File, len: usize) -> io::Result<()> {
        let end = self.len.min(self.sent + len);
        let sent = self.splice(pipe, self.sent, end);
        self.sent = end.next_multiple_of(PAGE);
        sent
    }

    fn splice(&self, mut pipe: &File, from: usize, len: usize) -> io::Result<()> {
        let len = len.min(self.len);
        let mut from = from.min(len);
        while from < len {
            // SAFETY: `from` is within the mapping.
            let base = unsafe { self.at.add(from) };
            let piece = libc::iovec { iov_base: base.cast(), iov_len: len - from };
            // SAFETY: one iovec of mapped memory; the kernel reads it now and as long as the pipe
            // references it.
            match unsafe { libc::vmsplice(pipe.as_raw_fd(), &piece, 1, 0) } {
                n if n >= 0 => from += n as usize,
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error if error.kind() == io::ErrorKind::BrokenPipe => return Err(error),
                    // The file is not a pipe, or a pipe that does not accept pages.
                    _ => {
                        // SAFETY: the mapping has `len` bytes, and nothing writes to them
                        // meanwhile.
                        let rest = unsafe { std::slice::from_raw_parts(base, len - from) };
                        return pipe.write_all(rest);
                    }
                },
            }
        }
        Ok(())
    }

    /// Releases all pages and replaces them by new, zeroed pages. [`Pages::room`] is the whole
    /// memory again.
    ///
    /// # Errors
    /// System errors of madvise(2).
    pub fn reopen(&mut self) -> io::Result<()> {
        // SAFETY: the mapping is our own. Its pages are released, which leaves them to other
        // owners, and zeroed pages are mapped at the next access.
        match unsafe { libc::madvise(self.at.cast(), self.len, libc::MADV_DONTNEED) } {
            0 => {
                self.sent = 0;
                Ok(())
            }
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our own mapping, no longer in use; pages referenced by a pipe stay alive.
        unsafe { libc::munmap(self.mapped.0, self.mapped.1) };
    }
}

/// Memory that no longer changes, so that it can be sent repeatedly.
#[derive(Debug)]
pub struct Kept(Pages);

impl Kept {
    /// Sends the bytes `from..to` of the memory.
    ///
    /// # Errors
    /// Errors of writing to the pipe.
    pub fn send(&self, pipe: &File, from: usize, to: usize) -> io::Result<()> {
        self.0.splice(pipe, from, to)
    }

    /// Returns all bytes of the memory.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is `len` bytes and is not written to any more.
        unsafe { std::slice::from_raw_parts(self.0.at, self.0.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;

    fn pipe() -> (File, File) {
        let mut fds = [0; 2];
        // SAFETY: two integers to write to; then two descriptors with no other owner.
        unsafe {
            assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
            use std::os::fd::FromRawFd;
            (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1]))
        }
    }

    /// Sent pages do not change even if the reader moves them out of the pipe without copying
    /// (splice(2)) and reads them much later.
    #[test]
    fn sent_pages_never_change() {
        let ((from, to), (kept, keep)) = (pipe(), pipe());
        assert!(widen_pipe(to.as_fd()) >= 1 << 16 && widen_pipe(keep.as_fd()) >= 1 << 16);
        let mut pages = Pages::new(1).unwrap();
        const ROUND: usize = 1 << 14;
        for round in 0..4_u8 {
            if round == 2 {
                pages.reopen().unwrap();
            }
            pages.room()[..ROUND].fill(b'a' + round);
            pages.send(&to, ROUND).unwrap();
            // Moves the pages into another pipe, as cat(1) or pv(1) would.
            // SAFETY: splice(2) between two pipes that are open, without offsets.
            let moved = unsafe {
                let none = std::ptr::null_mut();
                libc::splice(from.as_raw_fd(), none, keep.as_raw_fd(), none, ROUND, 0)
            };
            assert_eq!(moved, ROUND as isize);
        }
        pages.room().fill(b'!');
        pages.reopen().unwrap();
        pages.room().fill(b'!');
        drop(pages);
        let mut all = vec![0; 4 * ROUND];
        (&kept).read_exact(&mut all).unwrap();
        for (round, bytes) in all.chunks(ROUND).enumerate() {
            assert!(bytes.iter().all(|byte| *byte == b'a' + round as u8), "{round}");
        }
    }

    #[test]
    fn files_are_written_instead_of_spliced() {
        let path = std::env::temp_dir().join(format!("linerate-pages-{}", std::process::id()));
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        let mut pages = Pages::new(1).unwrap();
        pages.room()[..5].copy_from_slice(b"hello");
        pages.send(&file, 5).unwrap();
        assert_eq!(pages.room()[..5], [0; 5]);
        assert_eq!(pages.room().len(), HUGE - PAGE);
        pages.reopen().unwrap();
        assert_eq!((pages.room().len(), pages.room()[0]), (HUGE, 0));
        pages.room()[..3].copy_from_slice(b"abc");
        let kept = pages.keep();
        kept.send(&file, 1, 3).unwrap();
        assert_eq!(kept.bytes()[..3], *b"abc");
        assert_eq!(std::fs::read(&path).unwrap(), b"hellobc");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_pipe_without_reader_is_broken_pipe() {
        let (from, to) = pipe();
        drop(from);
        // As in the program, SIGPIPE is ignored, which Rust's start-up code does.
        let error = Pages::new(1).unwrap().send(&to, 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
