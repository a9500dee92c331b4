//! Transfer of bytes over a connection between any two [`End`]s. The work and the checks are the
//! same for all kinds of ends.

use super::{Link, Two, balanced};
use crate::rigs::text::Text;
use crate::subject::{Reading, Subject, measure};
use anyhow::ensure;
use clock::Instant;
use lock::Up;
use node::Host;
use socket::{Errno, Fd, Opt};

/// Number of bytes transferred in a trial.
pub const BULK: usize = 8 << 20;
/// Number of bytes sent per call.
pub const CHUNK: usize = 64 << 10;
/// Size of a send or receive buffer, so that the data in flight stays in the second-level cache.
pub const BUFFER: usize = 256 << 10;
/// Number of bytes that are compared one by one after each trial, outside the measurement.
const COMPARED: usize = 1 << 20;
/// Number of rounds without a received byte after which a stream is reported as stalled.
const PATIENCE: u32 = 1_000_000;

/// One end of a connection. Calls do not block.
pub trait End {
    /// Sends as many of `bytes` as fit into the send buffer; returns the number.
    ///
    /// # Errors
    /// The connection ended.
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<usize>;

    /// Receives bytes that have arrived; returns 0 if there are none.
    ///
    /// # Errors
    /// The connection ended.
    fn recv(&mut self, into: &mut [u8]) -> anyhow::Result<usize>;

    /// Runs this end's host for one round, if it has one; returns whether there was work.
    fn turn(&mut self) -> bool {
        false
    }

    /// Checks the state of the end after each trial.
    ///
    /// # Errors
    /// The end is in an invalid state, which the error describes.
    fn check(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

impl End for Box<dyn End> {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<usize> {
        (**self).send(bytes)
    }

    fn recv(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
        (**self).recv(into)
    }

    fn turn(&mut self) -> bool {
        (**self).turn()
    }

    fn check(&mut self) -> anyhow::Result<()> {
        (**self).check()
    }
}

/// Bulk transfer with 64 KiB per call, both ends on one thread; an operation is one transferred
/// byte.
pub struct Bulk<E> {
    id: String,
    ends: [E; 2],
    text: Text,
    into: Vec<u8>,
    /// Number of bytes transferred so far.
    at: u64,
}

impl<E: End> Bulk<E> {
    /// Creates a transfer from the first of `ends` to the second.
    pub fn between(id: &str, ends: [E; 2]) -> Bulk<E> {
        Bulk { id: id.to_owned(), ends, text: Text::new(CHUNK), into: vec![0; CHUNK], at: 0 }
    }

    /// Returns the sending and the receiving end.
    pub fn ends(&mut self) -> &mut [E; 2] {
        &mut self.ends
    }

    /// Transfers `bytes` bytes, and checks all received bytes with `is_right`.
    pub(super) fn carry(&mut self, bytes: usize, is_right: impl Fn(&Text, u64, &[u8]) -> bool) -> anyhow::Result<()> {
        let (mut sent, mut got, mut idle) = (0, 0, 0u32);
        let [from, to] = &mut self.ends;
        while got < bytes {
            while sent < bytes {
                let chunk = self.text.at(self.at + sent as u64, CHUNK.min(bytes - sent));
                match from.send(chunk)? {
                    0 => break,
                    n => sent += n,
                }
            }
            to.turn();
            let before = got;
            loop {
                let n = to.recv(&mut self.into)?;
                if n == 0 {
                    break;
                }
                ensure!(
                    is_right(&self.text, self.at + got as u64, &self.into[..n]),
                    "{}: received unexpected data",
                    self.id
                );
                got += n;
            }
            from.turn();
            idle = if got == before { idle + 1 } else { 0 };
            ensure!(idle < PATIENCE, "{}: stalled after {got} of {bytes} bytes", self.id);
        }
        ensure!(got == bytes, "{}: only {got} of {bytes} bytes arrived", self.id);
        self.at += bytes as u64;
        Ok(())
    }

    /// Transfers `bytes` bytes and measures the cost.
    ///
    /// # Errors
    /// The stream ended, stalled, or delivered other bytes than were sent.
    pub fn measured(&mut self, bytes: usize) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(bytes as u64, || done = self.carry(bytes, Text::is_likely));
        done?;
        self.carry(COMPARED, Text::is)?;
        self.ends.iter_mut().try_for_each(End::check)?;
        Ok(reading)
    }
}

impl<E: End> Subject for Bulk<E> {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        self.measured(BULK)
    }
}

/// A host of this project, and its end of the connection.
pub struct Ours {
    host: Host<Up>,
    fd: Fd,
    /// Time of the host's last round.
    now: Instant,
}

/// Bulk transfer between two of our hosts.
pub type BulkRig = Bulk<Ours>;

impl Ours {
    /// Creates an end that sends or, without `sends`, receives. Its socket buffer has a fixed size,
    /// like those of the peers.
    pub(in crate::rigs) fn new(host: Host<Up>, fd: Fd, sends: bool) -> anyhow::Result<Ours> {
        host.shared_calls().set_option(fd, if sends { Opt::SendBuffer(BUFFER) } else { Opt::RecvBuffer(BUFFER) })?;
        let now = host.step().now;
        Ok(Ours { host, fd, now })
    }
}

impl Ours {
    #[cfg(test)]
    pub(super) fn host(&self) -> &Host<Up> {
        &self.host
    }
}

impl BulkRig {
    /// Creates one connection over `link`.
    ///
    /// # Errors
    /// A socket call failed, or the port could not be added.
    pub fn new(id: &str, link: Link) -> anyhow::Result<BulkRig> {
        let two = Two::new(link, &[])?;
        let listener = two.listen(5001)?;
        let client = two.begin(5001)?;
        let server = two.accept(listener)?;
        let [from, to] = two.hosts;
        Ok(Bulk::between(id, [Ours::new(from, client, true)?, Ours::new(to, server, false)?]))
    }
}

impl End for Ours {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<usize> {
        match self.host.calls_at(self.now).send(self.fd, bytes) {
            Ok(n) => Ok(n),
            Err(Errno::EAGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn recv(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
        match self.host.calls_at(self.now).recv(self.fd, into) {
            Ok(n) => {
                ensure!(n > 0, "unexpected end of stream");
                Ok(n)
            }
            Err(Errno::EAGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn turn(&mut self) -> bool {
        let step = self.host.step();
        self.now = step.now;
        step.frames > 0
    }

    fn check(&mut self) -> anyhow::Result<()> {
        balanced("bulk", &self.host)
    }
}
