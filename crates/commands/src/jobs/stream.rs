//! Job with a TCP connection, through which a control client exchanges data. The job's input is
//! sent to the peer, and its output is the received bytes in hexadecimal.

use clock::Instant;
use lock::Locks;
use node::jobs::{Around, BUFFER_MAX, End, Work};
use socket::{Domain, Errno, Events, Fd, Opt, PollFd};
use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr};

/// Maximum number of bytes received per call.
const CHUNK: usize = 16 * 1024;

pub(crate) struct Stream {
    /// Address to which the current attempt connects.
    to: SocketAddr,
    /// Addresses to try after this one, in reverse order.
    others: Vec<SocketAddr>,
    from: Option<SocketAddr>,
    state: State,
    input: VecDeque<u8>,
    /// Set at the end of the input. A FIN follows once all input is sent.
    finished: bool,
    shut: bool,
}

enum State {
    New,
    Connecting(Fd),
    Open(Fd),
    Closed,
}

impl Stream {
    /// Creates a job that connects to `to`, from `from` or from an address that the host selects.
    pub(crate) fn new(to: SocketAddr, from: Option<SocketAddr>) -> Stream {
        let others = Vec::new();
        Stream { to, others, from, state: State::New, input: VecDeque::new(), finished: false, shut: false }
    }

    /// Adds further addresses. Each is tried if the connection to the previous address fails.
    pub(crate) fn or_to(mut self, others: impl DoubleEndedIterator<Item = SocketAddr>) -> Stream {
        self.others = others.rev().collect();
        self
    }

    /// Continues with the next address after a failure. Returns the result of the job if there is
    /// no further address.
    fn fail<L: Locks>(&mut self, around: &Around<'_, L>, why: Errno) -> Option<End> {
        let Some(next) = self.others.pop() else { return Some(End::Failed(format!("{}: {why}", self.to))) };
        self.close(around);
        (self.to, self.state) = (next, State::New);
        None
    }

    fn connect<L: Locks>(&mut self, around: &Around<'_, L>) -> Result<(), Errno> {
        let fd = around.calls.stream_socket_of(Domain::of(&self.to))?;
        self.state = State::Connecting(fd);
        around.calls.set_option(fd, Opt::NonBlocking(true))?;
        if let Some(from) = self.from {
            around.calls.bind(fd, from)?;
        }
        match around.calls.connect(fd, self.to) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Sends and receives as much as possible. Returns `true` if the peer has closed its direction.
    fn exchange<L: Locks>(&mut self, around: &Around<'_, L>, fd: Fd, out: &mut String) -> Result<bool, Errno> {
        while !self.input.is_empty() {
            let (front, _) = self.input.as_slices();
            match around.calls.send(fd, front) {
                Ok(0) | Err(Errno::EAGAIN) => break,
                Ok(n) => drop(self.input.drain(..n)),
                Err(why) => return Err(why),
            }
        }
        if self.finished && self.input.is_empty() && !self.shut {
            around.calls.shutdown(fd, Shutdown::Write)?;
            self.shut = true;
        }
        let mut chunk = [0; CHUNK];
        while out.len() < BUFFER_MAX {
            match around.calls.recv(fd, &mut chunk) {
                Ok(0) => return Ok(true),
                Ok(n) => append_hex(chunk.get(..n).unwrap_or_default(), out),
                Err(Errno::EAGAIN) => break,
                Err(why) => return Err(why),
            }
        }
        Ok(false)
    }
}

/// Appends `bytes` as hexadecimal digits.
pub(super) fn append_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 * bytes.len());
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    out.extend(digits.filter_map(|digit| DIGITS.get(usize::from(digit))).map(|digit| char::from(*digit)));
}

impl<L: Locks> Work<L> for Stream {
    fn turn(&mut self, around: &Around<'_, L>, out: &mut String) -> Option<End> {
        if let State::New = self.state
            && let Err(why) = self.connect(around)
        {
            return self.fail(around, why);
        }
        if let State::Connecting(fd) = self.state {
            let requested = Events { writable: true, ..Events::default() };
            let mut polled = [PollFd { fd, requested, reported: Events::default() }];
            if around.calls.poll(&mut polled) == 0 {
                return None;
            }
            match around.calls.take_error(fd) {
                Ok(None) => self.state = State::Open(fd),
                Ok(Some(why)) | Err(why) => return self.fail(around, why),
            }
        }
        let State::Open(fd) = self.state else { return None };
        match self.exchange(around, fd, out) {
            Ok(true) if self.input.is_empty() || self.shut => Some(End::Done),
            Ok(_) => None,
            Err(why) => Some(End::Failed(format!("{}: {why}", self.to))),
        }
    }

    fn next(&self) -> Instant {
        if let State::New = self.state { Instant::ZERO } else { Instant::NEVER }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let n = bytes.len().min(BUFFER_MAX.saturating_sub(self.input.len()));
        self.input.extend(bytes.get(..n).unwrap_or_default());
        Ok(n)
    }

    fn finish(&mut self) {
        self.finished = true;
    }

    fn close(&mut self, around: &Around<'_, L>) {
        if let State::Connecting(fd) | State::Open(fd) = std::mem::replace(&mut self.state, State::Closed) {
            let _ = around.calls.close(fd); // cannot fail: it was open
        }
    }
}
