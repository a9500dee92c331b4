//! An event that a thread can wait for and that any thread can raise. It is built on eventfd(2), or
//! on a pair of sockets where there is no eventfd. One of its uses is the interrupt line of a card.
#![allow(unsafe_code)] // eventfd(2) has no safe form in std

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

#[cfg(target_os = "linux")]
use std::fs::File as Descriptor;
#[cfg(not(target_os = "linux"))]
use std::os::unix::net::UnixStream as Descriptor;

/// An event that stays raised until it is cleared.
#[derive(Debug)]
pub struct Event {
    readable: Descriptor,
    /// Socket that is written to raise the event. An eventfd is written through `readable`.
    #[cfg(not(target_os = "linux"))]
    writable: Descriptor,
}

impl Event {
    /// Creates an event that is not raised.
    ///
    /// # Errors
    /// The system's errors, such as no available descriptors.
    #[cfg(target_os = "linux")]
    pub fn new() -> io::Result<Event> {
        use std::os::fd::FromRawFd;
        // SAFETY: eventfd(2) takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor; nothing else owns it.
        Ok(Event { readable: unsafe { Descriptor::from_raw_fd(fd) } })
    }

    /// Creates an event that is not raised.
    ///
    /// # Errors
    /// The system's errors, such as no available descriptors.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> io::Result<Event> {
        let (readable, writable) = Descriptor::pair()?;
        readable.set_nonblocking(true)?;
        writable.set_nonblocking(true)?;
        Ok(Event { readable, writable })
    }

    #[cfg(target_os = "linux")]
    fn writable(&self) -> &Descriptor {
        &self.readable
    }

    #[cfg(not(target_os = "linux"))]
    fn writable(&self) -> &Descriptor {
        &self.writable
    }

    /// Raises the event. This cannot fail: if the counter or the buffer is full, the event is
    /// already raised.
    pub fn raise(&self) {
        let _ = self.writable().write(&1u64.to_ne_bytes());
    }

    /// Clears the event. Returns whether it was raised.
    pub fn clear(&self) -> bool {
        let mut was_raised = false;
        // One read clears an eventfd. A socket is cleared once it is empty.
        while (&self.readable).read(&mut [0; 8]).is_ok_and(|n| n > 0) {
            was_raised = true;
            if cfg!(target_os = "linux") {
                break;
            }
        }
        was_raised
    }

    /// Returns a descriptor that is readable while the event is raised.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}
