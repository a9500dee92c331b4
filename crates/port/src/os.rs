//! What the operating system is asked: TAP devices, packet sockets, AF_XDP, namespaces, links and addresses. The crate's room for unsafe code.
//!
//! The rest of the crate is safe: it reads and writes the descriptors that come from here through `std`.
#![allow(unsafe_code)] // ioctl(2), unshare(2), fork(2), mmap(2), netlink and packet sockets have no safe form in std

pub mod bpf;
pub mod event;
pub mod link;
pub mod netlink;
pub mod netns;
pub mod packet;
pub mod tun;
pub mod xdp;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

/// An error number with its text, as `strerror(3)` has it: `Operation not permitted (os error 1)`.
fn errno_text(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

/// A new socket, close-on-exec.
fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option whose value is a plain structure of integers.
fn set_option<T: Copy>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer is to a live `T` and its true size goes with it; the kernel only reads.
    let answer = unsafe {
        let at = std::ptr::from_ref(value).cast();
        libc::setsockopt(fd.as_raw_fd(), level, option, at, size_of::<T>() as libc::socklen_t)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a file of text that has at most `most` bytes. What has more, or no end (`/dev/zero`), is an error.
///
/// # Errors
/// The system's; `InvalidData` for more bytes, and for bytes that are not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("more than {most} bytes")));
    }
    Ok(text)
}

/// Takes over a descriptor that is open for writing since before this program began, by its number.
///
/// # Errors
/// It is not open, it is open for reading only, or it is one of this program's own.
pub fn inherited_for_writing(fd: i32) -> io::Result<OwnedFd> {
    let ask = |what: i32| {
        // SAFETY: fcntl(2) takes no pointer for these two.
        let answer = unsafe { libc::fcntl(fd, what) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
    };
    if ask(libc::F_GETFL)? & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    if ask(libc::F_GETFD)? & libc::FD_CLOEXEC != 0 || fd <= libc::STDERR_FILENO {
        let why = "a descriptor of the program itself: give one above 2 that was open before";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    // SAFETY: fcntl(2) with integers only.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open. It came from outside and nobody took it: what this program opens, and what this function
    // gave away before, is close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the effective user id of the process at the other end of a UNIX socket, as it was when it connected
/// or began to listen (SO_PEERCRED, unix(7)).
///
/// # Errors
/// The system's.
pub fn peer_uid(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointers are to a live structure and its true size.
    let answer = unsafe {
        let at = std::ptr::from_mut(&mut peer).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, at, &raw mut len)
    };
    if answer == 0 { Ok(peer.uid) } else { Err(io::Error::last_os_error()) }
}

/// Returns the effective user id of this process.
pub fn own_uid() -> u32 {
    // SAFETY: no arguments, and it never fails.
    unsafe { libc::geteuid() }
}

/// Can `fd` be read without waiting? True also when it has ended or failed: the read then says so.
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd, count 1, no waiting.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

/// Can a pipe's worth of bytes (PIPE_BUF) be written to `fd` without waiting, now or within `within_ms` milliseconds? True also when
/// nobody reads it any more or it has failed: the write then says so.
pub fn is_writable(fd: BorrowedFd<'_>, within_ms: i32) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one valid pollfd, count 1.
    unsafe { libc::poll(&mut poll, 1, within_ms) == 1 }
}

/// Opens a FIFO to write if somebody reads it; what would have to wait is then refused. `None`: nobody does.
///
/// # Errors
/// The system's.
pub fn open_fifo(path: &Path) -> io::Result<Option<File>> {
    use std::os::unix::fs::OpenOptionsExt;
    match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Standard output as a file of its own (a duplicate descriptor): std's own keeps the end of a line back.
///
/// # Errors
/// It is closed, or no descriptors are left.
pub fn stdout() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Standard input as a file of its own (a duplicate descriptor).
///
/// # Errors
/// Standard input is closed, or no descriptors are left.
pub fn stdin() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// The calendar's time, in nanoseconds since 1970.
pub fn calendar_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
