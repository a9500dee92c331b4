//! An event on which a thread can sleep, and which any thread can raise, built on eventfd(2). It is
//! used as a card's interrupt line.
#![allow(unsafe_code)] // eventfd(2) has no safe form in std

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

/// An event that stays raised until it is cleared.
#[derive(Debug)]
pub struct Event(File);

impl Event {
    /// Creates an event that is not raised.
    ///
    /// # Errors
    /// The system's errors, such as no available descriptors.
    pub fn new() -> io::Result<Event> {
        // SAFETY: eventfd(2) takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor; nothing else owns it.
        Ok(Event(unsafe { File::from_raw_fd(fd) }))
    }

    /// Raises the event. This cannot fail: if the counter is full, the event is already raised.
    pub fn raise(&self) {
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Clears the event. Returns whether it was raised.
    pub fn clear(&self) -> bool {
        (&self.0).read(&mut [0; 8]).is_ok()
    }

    /// Returns a descriptor that is readable while the event is raised.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
