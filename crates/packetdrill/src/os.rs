//! System calls on descriptors that do not belong to this interface: pipes, files, and inotify.
//!
//! Uses unsafe code.

use crate::calls::Done;
use libc::{c_int, off_t};
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn count(n: isize) -> Done<usize> {
    usize::try_from(n).map_err(|_| errno())
}

/// Creates a non-blocking inotify descriptor. Returns `None` if the kernel refuses it.
pub(crate) fn inotify() -> Option<File> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
    // SAFETY: a new descriptor, owned by nothing else.
    (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
}

/// Watches the file at `path` for writes; returns the watch descriptor used in events.
pub(crate) fn watch_writes(notes: &File, path: &CStr) -> c_int {
    // SAFETY: a C string that outlives the call.
    unsafe { libc::inotify_add_watch(notes.as_raw_fd(), path.as_ptr(), libc::IN_MODIFY) }
}

/// Returns the number of unread bytes in a pipe.
pub(crate) fn waiting(pipe: c_int) -> Done<usize> {
    let mut n: c_int = 0;
    // SAFETY: the request writes one int there.
    let done = unsafe { libc::ioctl(pipe, libc::FIONREAD, &raw mut n) };
    count((done + n) as isize)
}

/// Returns the number of bytes that can be written to a pipe without blocking.
pub(crate) fn room(pipe: c_int) -> Done<usize> {
    // SAFETY: no pointers.
    let size = count(unsafe { libc::fcntl(pipe, libc::F_GETPIPE_SZ) } as isize)?;
    Ok(size.saturating_sub(waiting(pipe)?))
}

/// Calls read(2), or pread(2) with an offset, for up to `len` bytes.
pub(crate) fn read(fd: c_int, offset: Option<off_t>, len: usize) -> Done<Vec<u8>> {
    let mut bytes = vec![0u8; len];
    let into = bytes.as_mut_ptr().cast();
    // SAFETY: there is space for `len` bytes.
    let n = match offset {
        None => unsafe { libc::read(fd, into, len) },
        Some(offset) => unsafe { libc::pread(fd, into, len, offset) },
    };
    bytes.truncate(count(n)?);
    Ok(bytes)
}

/// Calls write(2).
pub(crate) fn write(fd: c_int, bytes: &[u8]) -> Done<usize> {
    // SAFETY: the slice is readable.
    count(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}
