//! System calls: notifications of seccomp, memory and descriptors of other processes, UNIX sockets,
//! epoll, fork and exec.
#![allow(unsafe_code)] // unsafe code is confined here: system calls without a safe interface

mod epoll;
mod notify;
mod process;
mod spawn;
mod unix;

pub use epoll::Epoll;
pub use notify::{Id, Notification, Notifications};
pub use process::{Process, raise_descriptor_limit};
pub use spawn::spawn;
pub use unix::{
    Name, accept, connect, inode, is_nonblocking, listen, option, peer_name, read, send, set_name, set_option,
    shut_writing, socket, write,
};

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Returns the result of a system call, or its error.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Returns the number of bytes that a system call transferred, or its error.
fn transferred(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Returns the descriptor that a system call has opened, or its error.
fn opened(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = check(result as libc::c_int)?;
    // SAFETY: the system call has just returned `fd`, so it is open and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
