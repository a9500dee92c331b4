//! Notifications of a seccomp filter: system calls of other processes that wait for an answer
//! (seccomp_unotify(2)).

use super::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Number of a system call that waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Id(u64);

/// A system call that waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notification {
    pub id: Id,
    /// Thread that called.
    pub tid: u32,
    /// Number of the system call.
    pub number: i64,
    /// Arguments of the system call.
    pub args: [u64; 6],
}

/// The end of a filter at which its notifications arrive.
#[derive(Debug)]
pub struct Notifications(OwnedFd);

impl Notifications {
    pub fn new(listener: OwnedFd) -> Notifications {
        Notifications(listener)
    }

    /// Returns the next notification. Called only if the descriptor is readable, since it waits
    /// otherwise. `None` if the call was interrupted.
    pub fn next(&self) -> Option<Notification> {
        // SAFETY: all fields are integers, for which zero is valid; the kernel requires zeros.
        let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: `raw` is valid for the call, which writes one structure of this size.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) };
        let seen =
            || Notification { id: Id(raw.id), tid: raw.pid, number: i64::from(raw.data.nr), args: raw.data.args };
        (result == 0).then(seen)
    }

    /// Returns whether a further notification has arrived.
    pub fn is_pending(&self) -> bool {
        let mut polled = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `polled` is one valid structure.
        unsafe { libc::poll(&raw mut polled, 1, 0) == 1 && polled.revents & libc::POLLIN != 0 }
    }

    /// Returns whether the call still waits. What was read of the caller's memory before is that of
    /// the caller, and not of a later process with its number.
    pub fn is_waiting(&self, Id(id): Id) -> bool {
        // SAFETY: `id` is valid for the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    /// Answers a call with a value or an error number. Returns whether the call still waited: one
    /// that was interrupted has no answer.
    pub fn answer(&self, id: Id, result: Result<i64, i32>) -> bool {
        let (val, error) = result.map_or_else(|errno| (0, -errno), |value| (value, 0));
        self.send(id, val, error, 0)
    }

    /// Lets the kernel perform the call.
    pub fn proceed(&self, id: Id) {
        let _ = self.send(id, 0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    fn send(&self, Id(id): Id, val: i64, error: i32, flags: u32) -> bool {
        let response = libc::seccomp_notif_resp { id, val, error, flags };
        // SAFETY: `response` is valid for the call.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const response) == 0 }
    }

    /// Gives the caller a copy of `fd` and answers with its number.
    ///
    /// # Errors
    /// `ENOENT` if the call no longer waits, `EMFILE` if the caller has too many descriptors.
    pub fn answer_with(&self, Id(id): Id, fd: BorrowedFd<'_>, close_on_exec: bool) -> io::Result<()> {
        let added = libc::seccomp_notif_addfd {
            id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: fd.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        // SAFETY: `added` is valid for the call.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const added) })?;
        Ok(())
    }
}

impl AsFd for Notifications {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
