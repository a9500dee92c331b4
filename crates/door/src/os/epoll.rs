//! Edge-triggered readiness of descriptors.

use super::{check, opened};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Maximum number of events that one call returns.
const EVENTS: usize = 64;

/// An event of a watched descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Number that was given to [`Epoll::add`].
    pub token: u64,
    /// Both directions of the socket have ended, or all processes of a filter have.
    pub has_ended: bool,
}

/// A set of watched descriptors (epoll(7)).
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// # Errors
    /// Errors of epoll_create1(2).
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: the call has no pointers.
        Ok(Epoll(opened(libc::c_long::from(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }))?))
    }

    /// Watches `fd`. With `edges`, each change is reported once, of reading and of writing;
    /// otherwise readable data is reported until it is read.
    ///
    /// # Errors
    /// Errors of epoll_ctl(2).
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, edges: bool) -> io::Result<()> {
        let events =
            if edges { libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET } else { libc::EPOLLIN };
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: `event` is valid for the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) })?;
        Ok(())
    }

    /// Returns pending events without waiting, some 64 at most.
    pub fn take(&self) -> Vec<Ready> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: `events` is an array of the given length.
        let n = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as libc::c_int, 0) };
        let n = usize::try_from(n).unwrap_or(0); // an error is a lack of events
        let ready = |event: &libc::epoll_event| Ready {
            token: event.u64,
            has_ended: event.events & libc::EPOLLHUP as u32 != 0,
        };
        events.iter().take(n).map(ready).collect()
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
