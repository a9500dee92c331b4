//! Closed connections that discard further data, limited in number, time and bytes.

use super::ServeCounts;
use crate::streams::{Failure, Streams};
use clock::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// Time a peer may continue to send.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes a peer may continue to send.
const BYTES: usize = 1 << 20;
/// Maximum number of connections; beyond it the oldest is cut off.
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

    /// Adds a connection. Returns the oldest one if it has to make room.
    pub(super) fn push(&mut self, fd: F, now: Instant) -> Option<F> {
        let oldest = if self.0.len() >= MOST { self.0.pop_front() } else { None };
        self.0.push_back(One { fd, until: now.after(PATIENCE), left: BYTES });
        oldest.map(|one| one.fd)
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.0.front().map(|one| one.until)
    }

    /// Removes and returns a connection that has timed out.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<F> {
        self.0.front().filter(|one| one.until <= now)?;
        self.0.pop_front().map(|one| one.fd)
    }

    pub(super) fn drain(&mut self, end: impl FnMut(F)) {
        self.0.drain(..).map(|one| one.fd).for_each(end);
    }

    /// Discards available data. Returns `true` if the connection ended and was closed.
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
