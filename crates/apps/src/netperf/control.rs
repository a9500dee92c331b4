//! The control connection: what the near end asks of the far end, as lines of JSON over TCP.
//!
//! netperf's own control protocol (32-bit words in the order of either machine, a structure for each test) is not spoken:
//! both ends are ours.

use super::Test;
use super::sockets::Sockets;
use crate::streams::Failure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest line.
const LINE: usize = 4096;

/// What is asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Be the far end of a test.
    Test(Order),
    /// The test is over: what was it at your end?
    Results,
}

/// A test's far end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Which test.
    pub test: Test,
    /// Of TCP_MAERTS: nanoseconds for which the far end sends, if `bytes` is 0.
    pub time_ns: u64,
    /// Of TCP_MAERTS: bytes that it sends.
    pub bytes: u64,
    /// Bytes of a request; those of a receive call where there are none.
    pub request: usize,
    /// Bytes of a response; those of a send call where there are none.
    pub response: usize,
    /// SO_SNDBUF.
    pub send_buffer: Option<usize>,
    /// SO_RCVBUF.
    pub recv_buffer: Option<usize>,
    /// TCP_NODELAY.
    pub nodelay: bool,
}

/// What is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Say {
    /// The far end listens.
    Ready(Ready),
    /// The test's figures.
    Results(Tally),
    /// No.
    Refused(String),
}

/// Where the far end is, and how it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ready {
    /// The L4 port for the test.
    pub port: u16,
    /// Bytes of its send buffer.
    pub send_buffer: usize,
    /// Bytes of its receive buffer.
    pub recv_buffer: usize,
    /// Bytes of its send call, where it has a choice.
    pub send_size: usize,
}

/// What an end counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Bytes received (TCP_MAERTS: sent).
    pub bytes: u64,
    /// Messages or transactions.
    pub messages: u64,
    /// Calls that moved bytes.
    pub calls: u64,
    /// Why it ended early.
    pub failed: Option<String>,
}

/// A connection that carries lines.
#[derive(Debug)]
pub struct Talk<F> {
    /// The descriptor.
    pub fd: F,
    heard: Vec<u8>,
    unsent: Vec<u8>,
}

impl<F: Copy> Talk<F> {
    /// Over `fd`.
    pub fn new(fd: F) -> Talk<F> {
        Talk { fd, heard: Vec::new(), unsent: Vec::new() }
    }

    /// Queues a line; [`Talk::flush`] sends it.
    pub fn say(&mut self, what: &impl Serialize) {
        // Both of our enums are plain data: nothing in them can fail.
        if let Ok(line) = serde_json::to_vec(what) {
            self.unsent.extend_from_slice(&line);
            self.unsent.push(b'\n');
        }
    }

    /// Sends what is queued, as far as it goes.
    ///
    /// # Errors
    /// `Again` if something is left; `Gone`.
    pub fn flush<S: Sockets<Fd = F>>(&mut self, sockets: &mut S) -> Result<(), Failure> {
        while !self.unsent.is_empty() {
            let n = sockets.send(self.fd, &self.unsent)?;
            self.unsent.drain(..n.min(self.unsent.len()));
        }
        Ok(())
    }

    /// The next line.
    ///
    /// # Errors
    /// `Again`; `Gone` at the end of the connection; `Invalid`: not one of ours, or too long.
    pub fn hear<S: Sockets<Fd = F>, T: DeserializeOwned>(&mut self, sockets: &mut S) -> Result<T, Failure> {
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
