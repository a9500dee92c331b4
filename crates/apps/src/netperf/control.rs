//! The control connection: the near end sends requests to the far end as lines of JSON over TCP.
//!
//! netperf's own control protocol is not supported, since both ends are this program. The messages
//! of that protocol consist of 32-bit words in the byte order of either machine, with a different
//! structure for each test.

use super::Test;
use super::sockets::Sockets;
use crate::streams::Failure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum length of a line in bytes.
const LINE: usize = 4096;

/// Request of the near end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Start the far end of a test with these parameters.
    Test(Order),
    /// End the test and return the far end's counts.
    Results,
}

/// Parameters that the near end sends for the far end of a test.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Order {
    pub test: Test,
    /// TCP_MAERTS: duration in nanoseconds for which the far end sends, if `bytes` is 0.
    pub time_ns: u64,
    /// TCP_MAERTS: number of bytes that the far end sends; 0 if the test is limited by time.
    pub bytes: u64,
    /// Number of bytes per request; in tests without requests, number of bytes per receive call.
    pub request: usize,
    /// Number of bytes per response; in tests without responses, number of bytes per send call.
    pub response: usize,
    /// Requested size of the socket's send buffer in bytes (SO_SNDBUF).
    pub send_buffer: Option<usize>,
    /// Requested size of the socket's receive buffer in bytes (SO_RCVBUF).
    pub recv_buffer: Option<usize>,
    /// Set if the far end sets TCP_NODELAY on its sockets.
    pub nodelay: bool,
}

/// Reply of the far end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Say {
    /// The far end's socket for the test is open.
    Ready(Ready),
    /// The test has ended; the value contains the counts of the far end.
    Results(Tally),
    /// The request was refused, with the reason.
    Refused(String),
}

/// L4 port and buffer sizes of the far end's socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ready {
    /// L4 port to which the near end connects for the test.
    pub port: u16,
    /// Size of the send buffer in bytes.
    pub send_buffer: usize,
    /// Size of the receive buffer in bytes.
    pub recv_buffer: usize,
    /// Number of bytes per send call, in tests in which the far end selects it.
    pub send_size: usize,
}

/// Counts of the far end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Number of bytes received (TCP_MAERTS: sent).
    pub bytes: u64,
    /// Number of messages or transactions.
    pub messages: u64,
    /// Number of calls that transferred bytes.
    pub calls: u64,
    /// Reason why the test ended early; `None` if it did not.
    pub failed: Option<String>,
}

/// A connection on which both ends exchange lines.
#[derive(Debug)]
pub struct Talk<F> {
    pub fd: F,
    heard: Vec<u8>,
    unsent: Vec<u8>,
}

impl<F: Copy> Talk<F> {
    /// Creates a line-based connection on the connected socket `fd`.
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

    /// Sends as many of the queued bytes as possible.
    ///
    /// # Errors
    /// `Again` if some bytes are still queued; `Gone` if the connection has ended.
    pub fn flush<S: Sockets<Fd = F>>(&mut self, sockets: &mut S) -> Result<(), Failure> {
        while !self.unsent.is_empty() {
            let n = sockets.send(self.fd, &self.unsent)?;
            self.unsent.drain(..n.min(self.unsent.len()));
        }
        Ok(())
    }

    /// Receives the next line and parses it as a `T`.
    ///
    /// # Errors
    /// `Again` if no complete line has arrived; `Gone` at the end of the connection; `Invalid` if
    /// the line is unknown or too long.
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
