//! Passes bytes between the far end of a token and a connection of the host.

use crate::os;
use lock::Locks;
use socket::{Calls, Errno, Fd};
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};

/// Size of the buffer with which bytes are passed. At most so many bytes of a direction wait in
/// this process.
pub const BUFFER: usize = 128 << 10;

/// Maximum number of buffers that one turn passes in each direction.
const TURNS: usize = 8;

/// State of a connection after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Alive,
    /// Both directions have ended, or the program has closed its token.
    Over,
    /// The peer has reset the connection, or it has timed out.
    Reset,
    /// The program has closed its token with unread bytes, which resets a connection.
    Aborted,
}

/// A connection and the far end of its token.
#[derive(Debug)]
pub struct Pump {
    far: OwnedFd,
    /// Bytes from the program.
    out: Direction,
    /// Bytes for the program.
    into: Direction,
    /// The program has closed its token.
    is_closed: bool,
    /// The last turn ended before one of the sides had no more bytes.
    has_more: bool,
}

/// Result of a call with bytes: their number, or the reason why none were passed.
type Passed = Result<usize, Halt>;

/// Reason why a call passes no bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Halt {
    /// There are none, or there is no space for them.
    Wait,
    /// The connection is reset.
    Reset,
    /// The program has closed its token with unread bytes.
    Abort,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    /// Bytes that the receiver has not accepted yet.
    rest: Vec<u8>,
    /// The sender has sent its last byte.
    has_ended: bool,
    /// The end of this direction was passed on.
    is_shut: bool,
}

impl Direction {
    /// Passes bytes until one of the sides waits, the sender has ended, or the limit of a turn is
    /// reached. Returns whether it was the limit.
    fn pass(
        &mut self,
        buffer: &mut [u8],
        mut receive: impl FnMut(&mut [u8]) -> Passed,
        mut send: impl FnMut(&[u8]) -> Passed,
    ) -> Result<bool, Halt> {
        let rest = std::mem::take(&mut self.rest);
        let mut is_accepted = self.offer(&rest, &mut send)?;
        for _ in 0..TURNS {
            if self.has_ended || !is_accepted {
                return Ok(false);
            }
            match receive(buffer) {
                Ok(0) => self.has_ended = true,
                Ok(n) => is_accepted = self.offer(buffer.get(..n).unwrap_or_default(), &mut send)?,
                Err(Halt::Wait) => return Ok(false),
                Err(why) => return Err(why),
            }
        }
        Ok(is_accepted && !self.has_ended)
    }

    /// Offers bytes to the receiver, and keeps those that it does not accept. Returns whether it
    /// accepted all.
    fn offer(&mut self, mut bytes: &[u8], send: &mut impl FnMut(&[u8]) -> Passed) -> Result<bool, Halt> {
        while !bytes.is_empty() {
            match send(bytes) {
                Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Err(Halt::Wait) => {
                    self.rest = bytes.to_vec();
                    return Ok(false);
                }
                Err(why) => return Err(why),
            }
        }
        Ok(true)
    }

    /// Returns whether the end of this direction has to be passed on now.
    fn shuts(&mut self) -> bool {
        self.has_ended && self.rest.is_empty() && !std::mem::replace(&mut self.is_shut, true)
    }
}

impl Pump {
    pub fn new(far: OwnedFd) -> Pump {
        Pump { far, out: Direction::default(), into: Direction::default(), is_closed: false, has_more: false }
    }

    /// Notes that both directions of the token have ended.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Returns whether the last turn ended at its limit, so that more bytes can be passed at once.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns whether bytes of the program wait. If the host has no free buffer, there is no event
    /// when it has one again.
    pub fn is_waiting(&self) -> bool {
        !self.out.rest.is_empty()
    }

    /// Passes the bytes that both sides accept, up to a limit, and the ends of both directions.
    pub fn pass<L: Locks>(&mut self, calls: &Calls<'_, L>, fd: Fd, buffer: &mut [u8]) -> Fate {
        match self.pass_both(calls, fd, buffer) {
            Ok(has_more) => self.has_more = has_more,
            Err(Halt::Abort) => return Fate::Aborted,
            Err(_) if self.is_closed => return Fate::Over,
            Err(_) => return Fate::Reset,
        }
        if self.out.shuts() && !self.is_closed {
            let _ = calls.shutdown(fd, Shutdown::Write); // fails only if the connection has ended
        }
        if self.into.shuts() {
            os::shut_writing(self.far.as_fd());
        }
        if self.out.is_shut && (self.is_closed || self.into.is_shut) { Fate::Over } else { Fate::Alive }
    }

    fn pass_both<L: Locks>(&mut self, calls: &Calls<'_, L>, fd: Fd, buffer: &mut [u8]) -> Result<bool, Halt> {
        let far = self.far.as_fd();
        let read = |into: &mut [u8]| match os::read(far, into) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Err(Halt::Wait),
            read => read.map_err(|_| Halt::Abort),
        };
        let has_more = self.out.pass(buffer, read, |bytes| calls.send(fd, bytes).map_err(halt))?;
        if self.is_closed {
            return Ok(has_more);
        }
        let write = |bytes: &[u8]| match os::write(far, bytes) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Err(Halt::Wait),
            written => Ok(written.unwrap_or(bytes.len())), // an error: the token is closed, which is noticed apart
        };
        Ok(self.into.pass(buffer, |into| calls.recv(fd, into).map_err(halt), write)? || has_more)
    }
}

/// Returns what an error of a connection means.
fn halt(why: Errno) -> Halt {
    if matches!(why, Errno::EAGAIN | Errno::ENOBUFS) { Halt::Wait } else { Halt::Reset }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes `from` in pieces of at most 3 bytes to a receiver that accepts `space` bytes, at most
    /// 2 at a time. Returns what was received.
    fn turn(direction: &mut Direction, from: &mut &[u8], space: usize) -> (Result<bool, Halt>, Vec<u8>) {
        let mut received = Vec::new();
        let receive = |into: &mut [u8]| {
            let (now, later) = from.split_at(from.len().min(3));
            into[..now.len()].copy_from_slice(now);
            *from = later;
            Ok(now.len())
        };
        let send = |bytes: &[u8]| {
            let n = bytes.len().min(2).min(space - received.len());
            received.extend(&bytes[..n]);
            if n == 0 { Err(Halt::Wait) } else { Ok(n) }
        };
        let result = direction.pass(&mut [0; 16], receive, send);
        (result, received)
    }

    #[test]
    fn bytes_that_are_not_accepted_wait_and_the_end_follows_them() {
        let (mut direction, mut from) = (Direction::default(), &b"0123456789"[..]);
        assert_eq!(turn(&mut direction, &mut from, 4), (Ok(false), b"0123".to_vec()));
        assert_eq!(direction.rest, b"45");
        assert!(!direction.shuts());
        assert_eq!(turn(&mut direction, &mut from, 1), (Ok(false), b"4".to_vec()));
        assert_eq!(turn(&mut direction, &mut from, 5), (Ok(false), b"56789".to_vec()));
        assert_eq!((direction.has_ended, direction.shuts(), direction.shuts()), (true, true, false));
    }

    #[test]
    fn a_turn_has_a_limit() {
        let (mut direction, long) = (Direction::default(), [7; 3 * TURNS + 1]);
        let mut from = &long[..];
        assert_eq!(turn(&mut direction, &mut from, 100).0, Ok(true));
        assert_eq!(from.len(), 1);
        assert_eq!(turn(&mut direction, &mut from, 100), (Ok(false), vec![7]));
        assert!(direction.shuts());
    }
}
