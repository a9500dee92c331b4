//! A set of descriptors to wait for, built on epoll(7). The set itself has one descriptor, which
//! does not change when members are added or removed.
#![allow(unsafe_code)] // epoll(7) has no safe form in std

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A set of descriptors.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Creates an empty set.
    ///
    /// # Errors
    /// The system's errors, such as no available descriptors.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: epoll_create1(2) takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor; nothing else owns it.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds a descriptor. It must be removed before it is closed, because a duplicate would keep it
    /// in the set.
    ///
    /// # Errors
    /// The system's errors, such as a descriptor that is in the set already.
    pub fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd)
    }

    /// Removes a descriptor. Has no effect if it is not in the set.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd); // the only possible error: not in the set
    }

    /// Returns a descriptor that is readable while one of the set is readable.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn control(&self, step: i32, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: `event` is a live structure, which the kernel only reads.
        let answer = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), step, fd.as_raw_fd(), &raw mut event) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
