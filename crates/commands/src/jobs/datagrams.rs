//! Job with a connected UDP socket, through which a control client exchanges datagrams. Each input
//! becomes one datagram, and each line of output is one received datagram in hexadecimal.

use super::stream::append_hex;
use clock::Instant;
use lock::Locks;
use node::jobs::{Around, BUFFER_MAX, End, Work};
use socket::{Domain, Errno, Fd, Opt};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Maximum number of datagrams that wait to be sent.
const QUEUE_MAX: usize = 64;
/// Maximum UDP payload of an IPv4 packet, in bytes.
const LONGEST: usize = 65_507;

pub(crate) struct Datagrams {
    to: SocketAddr,
    fd: Option<Fd>,
    input: VecDeque<Vec<u8>>,
    finished: bool,
    /// Buffer into which datagrams are received.
    buffer: Vec<u8>,
}

impl Datagrams {
    /// Creates a job that sends datagrams to `to`.
    pub(crate) fn new(to: SocketAddr) -> Datagrams {
        Datagrams { to, fd: None, input: VecDeque::new(), finished: false, buffer: vec![0; LONGEST] }
    }

    fn open<L: Locks>(&mut self, around: &Around<'_, L>) -> Result<Fd, Errno> {
        let fd = around.calls.socket_of(Domain::of(&self.to))?;
        self.fd = Some(fd);
        around.calls.set_option(fd, Opt::NonBlocking(true))?;
        around.calls.connect(fd, self.to)?;
        Ok(fd)
    }

    fn exchange<L: Locks>(&mut self, around: &Around<'_, L>, fd: Fd, out: &mut String) -> Result<(), Errno> {
        while let Some(datagram) = self.input.front() {
            match around.calls.send(fd, datagram) {
                Err(Errno::EAGAIN | Errno::ENOBUFS) => break,
                sent => drop(sent?),
            }
            self.input.pop_front();
        }
        while out.len() < BUFFER_MAX {
            match around.calls.recv_from(fd, &mut self.buffer) {
                Ok((n, _)) => {
                    append_hex(self.buffer.get(..n).unwrap_or_default(), out);
                    out.push('\n');
                }
                Err(Errno::EAGAIN) => break,
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

impl<L: Locks> Work<L> for Datagrams {
    fn turn(&mut self, around: &Around<'_, L>, out: &mut String) -> Option<End> {
        let opened = self.fd.map_or_else(|| self.open(around), Ok);
        match opened.and_then(|fd| self.exchange(around, fd, out)) {
            Ok(()) => (self.finished && self.input.is_empty()).then_some(End::Done),
            Err(why) => Some(End::Failed(format!("{}: {why}", self.to))),
        }
    }

    fn next(&self) -> Instant {
        if self.fd.is_none() { Instant::ZERO } else { Instant::NEVER }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, String> {
        if bytes.len() > LONGEST {
            return Err(format!("datagram of {} bytes: must be at most {LONGEST} bytes", bytes.len()));
        }
        if self.input.len() >= QUEUE_MAX {
            return Ok(0);
        }
        self.input.push_back(bytes.to_vec());
        Ok(bytes.len())
    }

    fn finish(&mut self) {
        self.finished = true;
    }

    fn close(&mut self, around: &Around<'_, L>) {
        if let Some(fd) = self.fd.take() {
            let _ = around.calls.close(fd); // cannot fail: it was open
        }
    }
}
