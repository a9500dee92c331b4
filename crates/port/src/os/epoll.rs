//! A set of descriptors to wait for, built on epoll(7), or on kqueue(2) where there is no epoll.
//! The set itself has one descriptor, which does not change when members are added or removed.
#![allow(unsafe_code)] // epoll(7) and kqueue(2) have no safe form in std

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
        let fd = create();
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor; nothing else owns it.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds a descriptor. It must be removed before it is closed, because it would stay in the set
    /// while a duplicate of it is open.
    ///
    /// # Errors
    /// The system's errors, such as a descriptor that is in the set already.
    pub fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        control(&self.0, Change::Add, fd)
    }

    /// Removes a descriptor. Has no effect if it is not in the set.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = control(&self.0, Change::Remove, fd); // the only possible error: not in the set
    }

    /// Returns a descriptor that is readable while one of the set is readable.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A change of the set.
#[derive(Clone, Copy)]
enum Change {
    Add,
    Remove,
}

#[cfg(target_os = "linux")]
fn create() -> i32 {
    // SAFETY: epoll_create1(2) takes no pointers.
    unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }
}

#[cfg(target_os = "linux")]
fn control(set: &OwnedFd, change: Change, fd: BorrowedFd<'_>) -> io::Result<()> {
    let step = match change {
        Change::Add => libc::EPOLL_CTL_ADD,
        Change::Remove => libc::EPOLL_CTL_DEL,
    };
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: `event` is a live structure, which the kernel only reads.
    let answer = unsafe { libc::epoll_ctl(set.as_raw_fd(), step, fd.as_raw_fd(), &raw mut event) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The descriptor of a kqueue is not inherited by fork(2), and is closed on exec.
#[cfg(not(target_os = "linux"))]
fn create() -> i32 {
    // SAFETY: kqueue(2) has no arguments.
    unsafe { libc::kqueue() }
}

#[cfg(not(target_os = "linux"))]
fn control(set: &OwnedFd, change: Change, fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid kevent.
    let mut event: libc::kevent = unsafe { std::mem::zeroed() };
    event.ident = fd.as_raw_fd() as usize;
    event.filter = libc::EVFILT_READ;
    event.flags = match change {
        Change::Add => libc::EV_ADD,
        Change::Remove => libc::EV_DELETE,
    };
    // SAFETY: one change, which the kernel only reads; no events are requested.
    let answer =
        unsafe { libc::kevent(set.as_raw_fd(), &raw const event, 1, std::ptr::null_mut(), 0, std::ptr::null()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
