//! Stream sockets of the family AF_UNIX (unix(7)). All calls return at once.

use super::{check, opened, transferred};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Abstract name of a socket that does not listen: 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Name(pub [u8; 16]);

/// Address and its length, as bind(2) and connect(2) take it.
type Address = (libc::sockaddr_un, libc::socklen_t);

impl Name {
    fn address(self) -> Address {
        address(std::iter::once(0).chain(self.0)) // an abstract name follows a zero byte
    }
}

fn address(bytes: impl Iterator<Item = u8>) -> Address {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    let mut len = size_of::<libc::sa_family_t>();
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
        len += 1;
    }
    (address, len as libc::socklen_t)
}

/// Returns the address of a file.
fn of_path(path: &Path) -> io::Result<Address> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > 107 {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    Ok(address(bytes.iter().copied().chain(std::iter::once(0))))
}

/// Opens a stream socket. `nonblocking` is the flag O_NONBLOCK.
///
/// # Errors
/// Errors of socket(2).
pub fn socket(nonblocking: bool) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    // SAFETY: the call has no pointers.
    opened(libc::c_long::from(unsafe { libc::socket(libc::AF_UNIX, flags, 0) }))
}

/// Gives a socket an abstract name.
///
/// # Errors
/// Errors of bind(2).
pub fn set_name(fd: BorrowedFd<'_>, name: Name) -> io::Result<()> {
    bind(fd, name.address())
}

fn bind(fd: BorrowedFd<'_>, (address, len): Address) -> io::Result<()> {
    // SAFETY: `address` has at least `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(())
}

/// Lets a socket listen at the file `path`, or, without one, changes the length of its queue.
///
/// # Errors
/// Errors of bind(2) and listen(2).
pub fn listen(fd: BorrowedFd<'_>, path: Option<&Path>, backlog: i32) -> io::Result<()> {
    path.map_or(Ok(()), |path| bind(fd, of_path(path)?))?;
    // SAFETY: the call has no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
    Ok(())
}

/// Connects a socket to the listener at the file `path`.
///
/// # Errors
/// `ECONNREFUSED` without a listener, `EAGAIN` if the listener's queue is full and `fd` does not
/// block.
pub fn connect(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let (address, len) = of_path(path)?;
    // SAFETY: `address` has at least `len` bytes.
    check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(())
}

/// Accepts a connection. The new socket has the flag O_NONBLOCK if `nonblocking` is set. The caller
/// makes sure that `fd` does not block, or that a connection waits.
///
/// # Errors
/// `EAGAIN` if no connection waits.
pub fn accept(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<OwnedFd> {
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `polled` is one valid structure.
    if unsafe { libc::poll(&raw mut polled, 1, 0) } == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let flags = libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    // SAFETY: no address is requested.
    let new = unsafe { libc::accept4(fd.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
    opened(libc::c_long::from(new))
}

/// Returns the name of the socket to which `fd` is connected; `None` if it has no name of 16 bytes.
pub fn peer_name(fd: BorrowedFd<'_>) -> Option<Name> {
    let mut address = libc::sockaddr_un { sun_family: 0, sun_path: [0; 108] };
    let mut len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: `address` has `len` bytes.
    let result = unsafe { libc::getpeername(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    let (_, of_name) = Name([0; 16]).address();
    let is_name = result == 0 && i32::from(address.sun_family) == libc::AF_UNIX && len == of_name;
    let mut name = [0; 16];
    name.iter_mut().zip(address.sun_path.iter().skip(1)).for_each(|(to, from)| *to = *from as u8);
    is_name.then_some(Name(name))
}

/// Returns the number of the socket in the kernel, which all copies of a descriptor share.
///
/// # Errors
/// Errors of fstat(2).
pub fn inode(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: all fields are integers, for which zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is valid for the call.
    check(unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) })?;
    Ok(stat.st_ino)
}

/// Returns whether the descriptor has the flag O_NONBLOCK.
pub fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: the call has no pointers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// Returns an option of the level SOL_SOCKET with an integer value.
pub fn option(fd: BorrowedFd<'_>, name: i32) -> i32 {
    let (mut value, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: `value` has `len` bytes.
    unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len) };
    value
}

/// Sets an option of the level SOL_SOCKET with an integer value. The kernel limits values.
pub fn set_option(fd: BorrowedFd<'_>, name: i32, value: i32) {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` has `len` bytes.
    unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, (&raw const value).cast(), len) };
}

/// Receives bytes. Returns 0 at the end of the stream.
///
/// # Errors
/// `EAGAIN` if there are none.
pub fn read(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `into` has the given length.
    transferred(unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) })
}

/// Sends bytes. Returns the number of bytes accepted.
///
/// # Errors
/// `EAGAIN` if the receiver's queue is full, `EPIPE` if it is closed.
pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    send(fd, bytes, 0)
}

/// Sends bytes with flags of send(2).
///
/// # Errors
/// As [`write`].
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8], flags: i32) -> io::Result<usize> {
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` has the given length.
    transferred(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// Ends the direction of sending: the receiver gets an end of file.
pub fn shut_writing(fd: BorrowedFd<'_>) {
    // SAFETY: the call has no pointers. It fails only if the connection has ended.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) };
}
