//! The control connection: requests of the near end to the far end, as lines of JSON over TCP.
//!
//! netperf's own control protocol (32-bit words in the byte order of either machine, a structure
//! per test) is not supported, since both ends are ours.

use super::Test;
use super::sockets::Sockets;
use crate::streams::Failure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum bytes of a line.
const LINE: usize = 4096;

/// Request of the near end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Start the far end of a test.
    Test(Order),
    /// End the test and return its counts.
    Results,
}

/// Parameters of a test's far end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Order {
    pub test: Test,
    /// TCP_MAERTS: nanoseconds for which the far end sends, if `bytes` is 0.
    pub time_ns: u64,
    /// TCP_MAERTS: bytes the far end sends.
    pub bytes: u64,
    /// Bytes per request; in tests without requests, bytes per receive call.
    pub request: usize,
    /// Bytes per response; in tests without responses, bytes per send call.
    pub response: usize,
    /// Requested SO_SNDBUF.
    pub send_buffer: Option<usize>,
    /// Requested SO_RCVBUF.
    pub recv_buffer: Option<usize>,
    /// Sets TCP_NODELAY.
    pub nodelay: bool,
}

/// Reply of the far end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Say {
    /// The test's socket is open.
    Ready(Ready),
    /// Counts of the test.
    Results(Tally),
    /// The request was refused, with the reason.
    Refused(String),
}

/// Port and sizes of the far end's socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ready {
    /// L4 port of the test.
    pub port: u16,
    /// Bytes of the send buffer.
    pub send_buffer: usize,
    /// Bytes of the receive buffer.
    pub recv_buffer: usize,
    /// Bytes per send call, where the far end chooses them.
    pub send_size: usize,
}

/// Counts of one end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Bytes received (TCP_MAERTS: sent).
    pub bytes: u64,
    /// Messages or transactions.
    pub messages: u64,
    /// Calls that moved bytes.
    pub calls: u64,
    /// Reason why the test ended early.
    pub failed: Option<String>,
}

/// A connection that exchanges lines.
#[derive(Debug)]
pub struct Talk<F> {
    pub fd: F,
    heard: Vec<u8>,
    unsent: Vec<u8>,
}

impl<F: Copy> Talk<F> {
    /// Creates a line connection on `fd`.
    pub fn new(fd: F) -> Talk<F> {
        Talk { fd, heard: Vec::new(), unsent: Vec::new() }
    }

    /// Queues a line; [`Talk::flush`] sends it.
    pub fn say(&mut self, what: &impl Serialize) {
        // Serializing plain data cannot fail.
        if let Ok(line) = serde_json::to_vec(what) {
            self.unsent.extend_from_slice(&line);
            self.unsent.push(b'\n');
        }
    }

    /// Sends queued bytes as far as possible.
    ///
    /// # Errors
    /// `Again` if bytes are left; `Gone`.
    pub fn flush<S: Sockets<Fd = F>>(&mut self, sockets: &mut S) -> Result<(), Failure> {
        while !self.unsent.is_empty() {
            let n = sockets.send(self.fd, &self.unsent)?;
            self.unsent.drain(..n.min(self.unsent.len()));
        }
        Ok(())
    }

    /// Receives the next line.
    ///
    /// # Errors
    /// `Again`; `Gone` at the end of the connection; `Invalid` for an unknown or too long line.
    pub fn receive<S: Sockets<Fd = F>, T: DeserializeOwned>(&mut self, sockets: &mut S) -> Result<T, Failure> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return serde_json::from_slice(&line).map_err(|_| Failure::Invalid);
            }
            if self.heard.len() > LINE {
                return Err(Failure::Invalid);
            }
            let mut some = [0; 1024];
            match sockets.recv(self.fd, &mut some)? {
                0 => return Err(Failure::Gone),
                n => self.heard.extend_from_slice(some.get(..n).unwrap_or_default()),
            }
        }
    }
}
