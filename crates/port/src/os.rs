//! Interface to the operating system: TAP devices, packet sockets, AF_XDP, UNIX sockets,
//! namespaces, links and addresses. All unsafe code of the crate is in this module.
//!
//! The rest of the crate is safe code: it reads and writes the descriptors of this module through
//! `std`. Systems other than Linux have UNIX sockets and descriptors to wait for, but no devices.
#![allow(unsafe_code)] // ioctl(2), unshare(2), fork(2), mmap(2), netlink and packet sockets have no safe form in std

#[cfg(target_os = "linux")]
pub mod bpf;
pub mod epoll;
pub mod event;
pub mod link;
#[cfg(target_os = "linux")]
pub mod netlink;
#[cfg(target_os = "linux")]
pub mod netns;
#[cfg(target_os = "linux")]
pub mod packet;
#[cfg(target_os = "linux")]
pub mod tun;
pub mod unix;
#[cfg(target_os = "linux")]
pub mod xdp;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Returns the text of an error number, such as `Operation not permitted (os error 1)`.
#[cfg(target_os = "linux")]
fn errno_text(errno: i32) -> String {
    io::Error::from_raw_os_error(errno).to_string()
}

/// Opens a socket that is closed on exec.
fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    let kind = kind | libc::SOCK_CLOEXEC;
    // SAFETY: socket(2) takes no pointers.
    let fd = unsafe { libc::socket(family, kind, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor; nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    #[cfg(not(target_os = "linux"))]
    close_on_exec(socket.as_raw_fd())?;
    Ok(socket)
}

fn close_on_exec(fd: i32) -> io::Result<()> {
    // SAFETY: fcntl(2) with integers only.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets a socket option whose value is a plain structure of integers.
#[cfg(target_os = "linux")]
fn set_option<T: Copy>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer is to a live `T`, passed with its true size; the kernel only reads.
    let answer = unsafe {
        let at = std::ptr::from_ref(value).cast();
        libc::setsockopt(fd.as_raw_fd(), level, option, at, size_of::<T>() as libc::socklen_t)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a text file of at most `most` bytes. A longer file, or an endless one such as `/dev/zero`,
/// is an error.
///
/// # Errors
/// System errors, and `InvalidData` for more than `most` bytes or bytes that are not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("file is larger than {most} bytes")));
    }
    Ok(text)
}

/// Takes ownership of an inherited descriptor, given by its number. It must have been open for
/// writing before this program started.
///
/// # Errors
/// The descriptor is not open, is open for reading only, or belongs to this program itself.
pub fn inherited_for_writing(fd: i32) -> io::Result<OwnedFd> {
    let ask = |what: i32| {
        // SAFETY: fcntl(2) takes no pointer for these two commands.
        let answer = unsafe { libc::fcntl(fd, what) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
    };
    if ask(libc::F_GETFL)? & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    if ask(libc::F_GETFD)? & libc::FD_CLOEXEC != 0 || fd <= libc::STDERR_FILENO {
        let why = "descriptor belongs to this program: use one above 2 that was open before it started";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    close_on_exec(fd)?;
    // SAFETY: the descriptor is open. It is inherited and has no owner yet: descriptors that this
    // program opened, or that an earlier call returned, are close-on-exec and were refused above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the effective user ID of the process at the other end of a UNIX socket, as it was at the
/// time of connect or listen (SO_PEERCRED, unix(7); elsewhere getpeereid(3)).
///
/// # Errors
/// The system's errors.
#[cfg(not(target_os = "linux"))]
pub fn peer_uid(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let (mut user, mut group) = (0, 0);
    // SAFETY: both pointers are to live integers of the types that the call writes.
    let answer = unsafe { libc::getpeereid(socket.as_raw_fd(), &raw mut user, &raw mut group) };
    if answer == 0 { Ok(user) } else { Err(io::Error::last_os_error()) }
}

/// Returns the effective user ID of the process at the other end of a UNIX socket, as it was at the
/// time of connect or listen (SO_PEERCRED, unix(7); elsewhere getpeereid(3)).
///
/// # Errors
/// The system's errors.
#[cfg(target_os = "linux")]
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

/// Returns the effective user ID of this process.
pub fn own_uid() -> u32 {
    // SAFETY: no arguments, and it never fails.
    unsafe { libc::geteuid() }
}

/// Returns whether `fd` can be read without blocking. Also returns true at end of file or after a
/// failure, which the read then reports.
pub fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd, count 1, no waiting.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

/// Returns whether PIPE_BUF bytes can be written to `fd` without blocking, either now or within
/// `within_ms` milliseconds. Also returns true if the pipe has failed or no longer has a reader;
/// the next write then reports the error.
pub fn is_writable(fd: BorrowedFd<'_>, within_ms: i32) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one valid pollfd, count 1.
    unsafe { libc::poll(&mut poll, 1, within_ms) == 1 }
}

/// Opens a FIFO for non-blocking writing; `None` if it has no reader.
///
/// # Errors
/// The system's errors.
pub fn open_fifo(path: &Path) -> io::Result<Option<File>> {
    use std::os::unix::fs::OpenOptionsExt;
    match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns standard output as a separate file (a duplicated descriptor), because the standard
/// output of `std` is line-buffered.
///
/// # Errors
/// Standard output is closed, or no descriptors are available.
pub fn stdout() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Returns standard input as a separate file (a duplicated descriptor).
///
/// # Errors
/// Standard input is closed, or no descriptors are available.
pub fn stdin() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Returns the wall-clock time, in nanoseconds since 1970.
pub fn calendar_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
