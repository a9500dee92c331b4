//! Calls on UNIX sockets that std does not provide: connecting without waiting, binding with a
//! mode, and detecting truncated datagrams. The module `file` creates private socket
//! files.
#![allow(unsafe_code)] // connect(2) of a non-blocking socket and MSG_TRUNC have no safe form in std

mod file;

#[cfg(test)]
pub use file::leave_file;
pub use file::{SocketFile, bind, listen, probe};

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;

fn address(path: &Path) -> io::Result<libc::sockaddr_un> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all-zero bytes are a valid sockaddr_un.
    let mut addr: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if bytes.contains(&0) || bytes.len() >= addr.sun_path.len() {
        let most = addr.sun_path.len() - 1;
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("the path of a socket has at most {most} bytes")));
    }
    addr.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in addr.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(addr)
}

/// Connects a non-blocking stream socket to `path`. Unlike the connect of std, it does not wait
/// while the queue of the server is full.
///
/// # Errors
/// The system's errors: `WouldBlock` if the queue of the server is full, `ConnectionRefused` if no
/// process listens at the socket file, `NotFound` if there is no file. `InvalidInput` if the path
/// is too long.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let addr = address(path)?;
    let socket = UnixStream::from(super::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)?);
    socket.set_nonblocking(true)?;
    // SAFETY: the pointer is to a live sockaddr_un, passed with its true size; its path ends in
    // NUL.
    let answer = unsafe {
        let at = std::ptr::from_ref(&addr).cast();
        libc::connect(socket.as_raw_fd(), at, size_of::<libc::sockaddr_un>() as libc::socklen_t)
    };
    if answer == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// Binds a datagram socket to `path`, with mode 0600 from the beginning.
///
/// # Errors
/// The system's errors, `AddrInUse` if the file exists. `InvalidInput` if the path is too long.
fn bind_private(path: &Path) -> io::Result<UnixDatagram> {
    let addr = address(path)?;
    // The file gets the mode of the socket (fchmod(2) before bind(2)).
    let socket = File::from(super::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)?);
    socket.set_permissions(Permissions::from_mode(0o600))?;
    // SAFETY: the pointer is to a live sockaddr_un, passed with its true size; its path ends in
    // NUL.
    let answer = unsafe {
        let at = std::ptr::from_ref(&addr).cast();
        libc::bind(socket.as_raw_fd(), at, size_of::<libc::sockaddr_un>() as libc::socklen_t)
    };
    if answer == 0 { Ok(UnixDatagram::from(OwnedFd::from(socket))) } else { Err(io::Error::last_os_error()) }
}

/// Receives a datagram without waiting, and returns its length. If the datagram does not fit,
/// `into` receives its beginning, and the returned length exceeds that of `into`.
///
/// # Errors
/// The system's errors; `WouldBlock` if there is no datagram.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    // SAFETY: the message has one live part, which is writable for its length.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    Ok(if message.msg_flags & libc::MSG_TRUNC == 0 { len } else { into.len() + 1 })
}
