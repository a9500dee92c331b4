//! Queries to one name server: by UDP first, then by a TCP connection if an answer was truncated
//! (RFC 1035 4.2, RFC 7766).

use crate::{Calls, Errno, Events, Fd, Opt, PollFd};
use clock::{Duration, Instant};
use inet::udp::Domain;
use lock::Locks;
use std::net::SocketAddr;
use wire::dns::{Answer, Query};

/// Time to wait for the answer of one name server (`timeout` in resolv.conf(5)).
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of datagrams read per turn, so that a flood of forged answers does not block the
/// host.
const DATAGRAMS_MAX: usize = 64;
/// Size of the buffer for an answer over UDP, in bytes. It exceeds the limit of RFC 1035 4.2.1 so
/// that longer answers are accepted, too.
const DATAGRAM_LEN: usize = 4096;
/// Size in bytes of the length field before each message over TCP.
const PREFIX_LEN: usize = 2;

/// Outcome of an exchange with a name server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// All queries are answered.
    Complete,
    /// The server answered with this error code.
    Rcode(u8),
    /// The socket reported this error.
    Socket(Errno),
    /// No answer within [`TIMEOUT`].
    TimedOut,
}

/// An exchange with one name server: queries and their answers.
#[derive(Debug)]
pub(super) struct Exchange {
    server: SocketAddr,
    fd: Fd,
    queries: Vec<Query>,
    deadline: Instant,
    transport: Transport,
}

#[derive(Debug)]
enum Transport {
    Udp,
    /// The TCP connection is being established.
    Connecting,
    /// The TCP connection is open. `output` contains the bytes to send, `input` the bytes received.
    Tcp {
        output: Vec<u8>,
        input: Vec<u8>,
    },
}

impl Exchange {
    /// Opens a socket to the name server and sends a query for each record type that has no answer
    /// yet.
    pub(super) fn start<L: Locks>(
        calls: &Calls<'_, L>,
        server: SocketAddr,
        name: &str,
        answers: &[(u16, Option<Answer>)],
    ) -> Result<Exchange, Errno> {
        let fd = calls.socket_of(Domain::of(&server))?;
        let deadline = calls.cx().now.after(TIMEOUT);
        let mut exchange = Exchange { server, fd, queries: Vec::new(), deadline, transport: Transport::Udp };
        let open = answers.iter().filter(|(_, answer)| answer.is_none()).map(|(ty, _)| *ty);
        let sent = exchange.send_datagrams(calls, name, open);
        sent.inspect_err(|_| _ = calls.close(fd)).map(|()| exchange)
    }

    fn send_datagrams<L: Locks>(
        &mut self,
        calls: &Calls<'_, L>,
        name: &str,
        types: impl Iterator<Item = u16>,
    ) -> Result<(), Errno> {
        calls.set_option(self.fd, Opt::NonBlocking(true))?;
        calls.connect(self.fd, self.server)?;
        let port = u64::from(calls.local_addr(self.fd)?.port());
        for ty in types {
            let id = calls.stack().draw(calls.cx(), port << 16 | u64::from(ty)) as u16;
            let query = Query { id, name: name.to_string(), ty };
            let mut message = Vec::new();
            query.emit(&mut message).ok_or(Errno::EINVAL)?;
            calls.send(self.fd, &message)?;
            self.queries.push(query);
        }
        Ok(())
    }

    pub(super) fn server(&self) -> SocketAddr {
        self.server
    }

    pub(super) fn fd(&self) -> Fd {
        self.fd
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Reads answers and stores them in `answers`. Returns how the exchange ended, or `None` while
    /// it continues.
    pub(super) fn turn<L: Locks>(
        &mut self,
        calls: &Calls<'_, L>,
        answers: &mut [(u16, Option<Answer>)],
    ) -> Option<Progress> {
        let ended = match &self.transport {
            Transport::Udp => self.read_datagrams(calls, answers),
            Transport::Connecting => self.finish_connect(calls).and_then(|()| self.exchange_stream(calls, answers)),
            Transport::Tcp { .. } => self.exchange_stream(calls, answers),
        };
        match ended {
            Ok(()) if self.queries.is_empty() => Some(Progress::Complete),
            Ok(()) => (calls.cx().now >= self.deadline).then_some(Progress::TimedOut),
            Err(ended) => Some(ended),
        }
    }

    fn read_datagrams<L: Locks>(
        &mut self,
        calls: &Calls<'_, L>,
        answers: &mut [(u16, Option<Answer>)],
    ) -> Result<(), Progress> {
        let mut datagram = [0; DATAGRAM_LEN];
        for _ in 0..DATAGRAMS_MAX {
            let len = match calls.recv_from(self.fd, &mut datagram) {
                Ok((len, _)) => len,
                Err(Errno::EAGAIN) => break,
                Err(why) => return Err(Progress::Socket(why)),
            };
            if self.accept(datagram.get(..len).unwrap_or_default(), answers)? == Accepted::Truncated {
                return self.connect(calls).map_err(Progress::Socket);
            }
        }
        Ok(())
    }

    /// Stores a message that answers one of the queries; ignores other messages.
    fn accept(&mut self, message: &[u8], answers: &mut [(u16, Option<Answer>)]) -> Result<Accepted, Progress> {
        let parsed =
            self.queries.iter().enumerate().find_map(|(at, query)| Some((at, query.parse_answer(message).ok()?)));
        let Some((at, answer)) = parsed else { return Ok(Accepted::Ignored) };
        if answer.truncated && matches!(self.transport, Transport::Udp) {
            return Ok(Accepted::Truncated);
        }
        if !matches!(answer.rcode, 0 | 3) {
            return Err(Progress::Rcode(answer.rcode));
        }
        let query = self.queries.remove(at);
        if let Some((_, slot)) = answers.iter_mut().find(|(ty, _)| *ty == query.ty) {
            *slot = Some(answer);
        }
        Ok(Accepted::Stored)
    }

    /// Replaces the UDP socket with a TCP connection and repeats the unanswered queries on it.
    fn connect<L: Locks>(&mut self, calls: &Calls<'_, L>) -> Result<(), Errno> {
        let fd = calls.stream_socket_of(Domain::of(&self.server))?;
        let _ = calls.close(std::mem::replace(&mut self.fd, fd)); // the descriptor is open
        calls.set_option(fd, Opt::NonBlocking(true))?;
        self.transport = Transport::Connecting;
        self.deadline = calls.cx().now.after(TIMEOUT);
        match calls.connect(fd, self.server) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(()),
            Err(why) => Err(why),
        }
    }

    fn finish_connect<L: Locks>(&mut self, calls: &Calls<'_, L>) -> Result<(), Progress> {
        let requested = Events { writable: true, ..Events::default() };
        if calls.poll(&mut [PollFd { fd: self.fd, requested, reported: Events::default() }]) == 0 {
            return Ok(());
        }
        match calls.take_error(self.fd) {
            Ok(None) => {}
            Ok(Some(why)) | Err(why) => return Err(Progress::Socket(why)),
        }
        let mut output = Vec::new();
        for query in &self.queries {
            let mut message = Vec::new();
            query.emit(&mut message).ok_or(Progress::Socket(Errno::EINVAL))?;
            output.extend((message.len() as u16).to_be_bytes());
            output.extend(message);
        }
        self.transport = Transport::Tcp { output, input: Vec::new() };
        Ok(())
    }

    fn exchange_stream<L: Locks>(
        &mut self,
        calls: &Calls<'_, L>,
        answers: &mut [(u16, Option<Answer>)],
    ) -> Result<(), Progress> {
        let Transport::Tcp { output, input } = &mut self.transport else { return Ok(()) };
        while !output.is_empty() {
            match calls.send(self.fd, output) {
                Ok(sent) => drop(output.drain(..sent.min(output.len()))),
                Err(Errno::EAGAIN) => break,
                Err(why) => return Err(Progress::Socket(why)),
            }
        }
        let mut chunk = [0; DATAGRAM_LEN];
        let mut is_closed = false;
        // A message has at most 64 KiB, and the server sends one message per query.
        while input.len() < self.queries.len() * (PREFIX_LEN + usize::from(u16::MAX)) {
            match calls.recv(self.fd, &mut chunk) {
                Ok(0) => is_closed = true,
                Ok(len) => input.extend(chunk.get(..len).unwrap_or_default()),
                Err(Errno::EAGAIN) => break,
                Err(why) => return Err(Progress::Socket(why)),
            }
            if is_closed {
                break;
            }
        }
        while let Some(message) = self.take_message() {
            self.accept(&message, answers)?;
        }
        if is_closed && !self.queries.is_empty() { Err(Progress::Socket(Errno::ECONNRESET)) } else { Ok(()) }
    }

    /// Takes a complete message out of the bytes received over TCP.
    fn take_message(&mut self) -> Option<Vec<u8>> {
        let Transport::Tcp { input, .. } = &mut self.transport else { return None };
        let len = usize::from(u16::from_be_bytes(*input.first_chunk::<PREFIX_LEN>()?));
        if input.len() < PREFIX_LEN + len {
            return None;
        }
        let rest = input.split_off(PREFIX_LEN + len);
        Some(std::mem::replace(input, rest).split_off(PREFIX_LEN))
    }
}

/// Handling of a received message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepted {
    Stored,
    Ignored,
    Truncated,
}
