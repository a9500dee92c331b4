//! Lingering connections: the application has closed them, but further data from the peer is still
//! read and discarded. Their number, duration and bytes are limited.

use super::ServeCounts;
use crate::streams::{Failure, Streams};
use linerate::stack::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum time for which a peer may continue to send after the application has closed the
/// connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of bytes that a peer may send after the application has closed the connection.
const BYTES: usize = 1 << 20;
/// Maximum number of lingering connections; when another one is added, the oldest is closed.
const MOST: usize = 256;

#[derive(Debug)]
struct One<F> {
    fd: F,
    until: Instant,
    left: usize,
}

/// Lingering connections, oldest first.
#[derive(Debug)]
pub(super) struct Lingering<F>(VecDeque<One<F>>);

impl<F> Default for Lingering<F> {
    fn default() -> Self {
        Lingering(VecDeque::new())
    }
}

impl<F: Copy + Eq> Lingering<F> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a connection. If the maximum number is reached, returns the oldest connection, which
    /// must be closed.
    pub(super) fn push(&mut self, fd: F, now: Instant) -> Option<F> {
        let oldest = if self.0.len() >= MOST { self.0.pop_front() } else { None };
        self.0.push_back(One { fd, until: now.after(PATIENCE), left: BYTES });
        oldest.map(|one| one.fd)
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.0.front().map(|one| one.until)
    }

    /// Removes and returns a connection whose lingering time is over, if there is one.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<F> {
        self.0.front().filter(|one| one.until <= now)?;
        self.0.pop_front().map(|one| one.fd)
    }

    pub(super) fn drain(&mut self, end: impl FnMut(F)) {
        self.0.drain(..).map(|one| one.fd).for_each(end);
    }

    /// Reads and discards available data. Closes the connection and returns `true` if it has ended
    /// or has sent too much.
    pub(super) fn read<S: Streams<Fd = F>>(
        &mut self,
        streams: &mut S,
        fd: F,
        buffer: &mut [u8],
        counts: &ServeCounts,
    ) -> bool {
        let Some(at) = self.0.iter().position(|one| one.fd == fd) else { return true };
        let Some(one) = self.0.get_mut(at) else { return true };
        loop {
            match streams.recv(fd, buffer) {
                Err(Failure::Again) => return false,
                Ok(n) if n > 0 => {
                    one.left = one.left.saturating_sub(n);
                    if one.left == 0 {
                        counts.linger_cut.bump();
                        break;
                    }
                }
                Ok(_) | Err(_) => break,
            }
        }
        streams.close(fd);
        self.0.remove(at);
        true
    }
}
