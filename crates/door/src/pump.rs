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
}

/// A connection and the far end of its token.
#[derive(Debug)]
pub struct Pump {
    far: OwnedFd,
    /// Bytes from the program that the connection has not accepted yet, and their direction.
    out: Direction,
    /// Bytes for the program that the token has not accepted yet.
    into: Direction,
    /// The program has closed its token.
    is_closed: bool,
    /// The last turn ended before one of the sides had no more bytes.
    has_more: bool,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    /// Bytes that the receiver has not accepted yet.
    rest: Vec<u8>,
    /// The sender has ended.
    has_ended: bool,
    /// The receiver knows that the sender has ended.
    is_told: bool,
}

impl Direction {
    fn is_over(&self) -> bool {
        self.has_ended && self.is_told
    }

    /// Offers bytes to a receiver until it accepts no more. Returns whether it accepted all.
    fn offer<E>(&mut self, mut bytes: &[u8], mut send: impl FnMut(&[u8]) -> Result<usize, E>) -> Result<bool, E>
    where
        E: PartialEq + WouldBlock,
    {
        while !bytes.is_empty() {
            match send(bytes) {
                Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Err(why) if why.would_block() => {
                    self.rest = bytes.to_vec();
                    return Ok(false);
                }
                Err(why) => return Err(why),
            }
        }
        self.rest = Vec::new();
        Ok(true)
    }
}

/// Errors of which one means that a call would wait.
trait WouldBlock {
    fn would_block(&self) -> bool;
}

impl WouldBlock for Errno {
    fn would_block(&self) -> bool {
        matches!(self, Errno::EAGAIN | Errno::ENOBUFS)
    }
}

impl WouldBlock for io::ErrorKind {
    fn would_block(&self) -> bool {
        *self == io::ErrorKind::WouldBlock
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

    /// Passes the bytes that both sides accept, up to a limit.
    pub fn pass<L: Locks>(&mut self, calls: &Calls<'_, L>, fd: Fd, buffer: &mut [u8]) -> Fate {
        self.has_more = false;
        match (self.pass_out(calls, fd, buffer), self.pass_in(calls, fd, buffer)) {
            (Err(()), _) | (_, Err(())) if !self.is_closed => Fate::Reset,
            (Err(()), _) | (_, Err(())) => Fate::Over,
            _ if self.is_closed && self.out.is_over() => Fate::Over,
            _ if self.out.is_over() && self.into.is_over() => Fate::Over,
            _ => Fate::Alive,
        }
    }

    /// Passes bytes from the program to the connection.
    fn pass_out<L: Locks>(&mut self, calls: &Calls<'_, L>, fd: Fd, buffer: &mut [u8]) -> Result<(), ()> {
        let Pump { far, out, is_closed, has_more, .. } = self;
        let mut send = |bytes: &[u8]| calls.send(fd, bytes);
        let rest = std::mem::take(&mut out.rest);
        if !out.offer(&rest, &mut send).map_err(drop)? {
            return Ok(());
        }
        for turn in 0.. {
            if out.has_ended {
                break;
            }
            if turn == TURNS {
                *has_more = true;
                return Ok(());
            }
            match os::read(far.as_fd(), buffer) {
                Ok(0) => out.has_ended = true,
                Ok(n) if out.offer(buffer.get(..n).unwrap_or_default(), &mut send).map_err(drop)? => {}
                Ok(_) => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => out.has_ended = true, // the program closed with unread bytes
            }
        }
        if !std::mem::replace(&mut out.is_told, true) && !*is_closed {
            let _ = calls.shutdown(fd, Shutdown::Write); // fails only if the connection has ended
        }
        Ok(())
    }

    /// Passes bytes from the connection to the program.
    fn pass_in<L: Locks>(&mut self, calls: &Calls<'_, L>, fd: Fd, buffer: &mut [u8]) -> Result<(), ()> {
        let Pump { far, into, is_closed, has_more, .. } = self;
        if *is_closed {
            return Ok(());
        }
        let mut write = |bytes: &[u8]| os::write(far.as_fd(), bytes).map_err(|why| why.kind());
        let rest = std::mem::take(&mut into.rest);
        // A program that has closed its token is noticed by the end of the other direction.
        if !into.offer(&rest, &mut write).unwrap_or(true) {
            return Ok(());
        }
        for turn in 0.. {
            if into.has_ended {
                break;
            }
            if turn == TURNS {
                *has_more = true;
                return Ok(());
            }
            match calls.recv(fd, buffer) {
                Ok(0) => into.has_ended = true,
                Ok(n) => {
                    if !into.offer(buffer.get(..n).unwrap_or_default(), &mut write).unwrap_or(true) {
                        return Ok(());
                    }
                }
                Err(Errno::EAGAIN) => return Ok(()),
                Err(_) => return Err(()),
            }
        }
        if !std::mem::replace(&mut into.is_told, true) {
            os::shut_writing(far.as_fd());
        }
        Ok(())
    }
}
