//! `linerate netperf`: the tests of netperf, as netperf defines them, between any two ends. The
//! near end (client) requests and measures a test, the far end (netserver) serves it.
//!
//! ```text
//!  near::Near           runs tests: control connection, test, results
//!  far::Far             serves tests: sink, source or echo, one turn at a time
//!  control              messages between the ends: lines of JSON over TCP
//!  sockets::Sockets     socket calls of an end; the crate programs implements them on our hosts,
//!                       the crate lab on the kernel's sockets
//!  report               netperf's banners, titles and columns; JSON
//!  confidence           -i and -I: repetition until the mean is precise enough
//!  session              runs a test from banner to results; Play: code run between two ends
//! ```
//!
//! A test is straight-line code at the near end, which calls [`sockets::Sockets::step`] while it
//! waits. If a single thread runs both ends, this call gives the far end its turn. The same code
//! therefore runs on our sockets and on the kernel's, with one thread or two. Nothing is allocated
//! per message, transaction or connection.

pub mod confidence;
pub mod control;
pub mod far;
pub mod hist;
pub mod near;
pub mod report;
pub mod session;
pub mod sockets;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Default L4 port of netserver.
pub const PORT: u16 = 12_865;
/// Maximum number of bytes of a message, request or response over TCP.
pub const MESSAGE_MAX: usize = 4 << 20;
/// Maximum payload of a UDP datagram over IPv4, in bytes.
pub const DATAGRAM_MAX: usize = 65_507;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Test {
    /// Sends bytes from the near end to the far end over one connection.
    TcpStream,
    /// Sends bytes from the far end to the near end over one connection ("MAERTS" is "STREAM"
    /// reversed).
    TcpMaerts,
    /// Exchanges requests and responses on one connection.
    TcpRr,
    /// Opens and closes connections, without data.
    TcpCc,
    /// For each transaction, opens a connection, exchanges a request and a response, and closes it.
    TcpCrr,
    /// Sends datagrams from the near end to the far end, without flow control.
    UdpStream,
    /// Exchanges requests and responses as datagrams.
    UdpRr,
}

impl Test {
    /// All tests, in the order of netperf's manual.
    pub const ALL: [Test; 7] =
        [Test::TcpStream, Test::TcpMaerts, Test::UdpStream, Test::TcpRr, Test::TcpCc, Test::TcpCrr, Test::UdpRr];

    /// Returns the name of the test, as given to `-t`.
    pub fn name(self) -> &'static str {
        match self {
            Test::TcpStream => "TCP_STREAM",
            Test::TcpMaerts => "TCP_MAERTS",
            Test::TcpRr => "TCP_RR",
            Test::TcpCc => "TCP_CC",
            Test::TcpCrr => "TCP_CRR",
            Test::UdpStream => "UDP_STREAM",
            Test::UdpRr => "UDP_RR",
        }
    }

    /// Returns whether the test transfers bytes in one direction and is measured in bits per
    /// second.
    pub fn is_stream(self) -> bool {
        matches!(self, Test::TcpStream | Test::TcpMaerts | Test::UdpStream)
    }

    /// Returns whether the test uses UDP.
    pub fn is_udp(self) -> bool {
        matches!(self, Test::UdpStream | Test::UdpRr)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Test {
    type Err = String;

    fn from_str(word: &str) -> Result<Test, String> {
        let found = Test::ALL.into_iter().find(|test| test.name().eq_ignore_ascii_case(word));
        found.ok_or_else(|| {
            let names = Test::ALL.map(Test::name).join(", ");
            format!("unknown test: expected one of {names}")
        })
    }
}

/// Limit that ends a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// The test ends after this time.
    Time(Duration),
    /// The test ends after this number of transactions, or after this number of bytes in a stream
    /// test (`-l` with a negative number).
    Count(u64),
}

/// Options of a test.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The test to run (`-t`).
    pub test: Test,
    /// Limit that ends the test (`-l`).
    pub length: Length,
    /// Number of bytes per send call (`-m`); `None`: size of the socket's send buffer.
    pub send_size: Option<usize>,
    /// Number of bytes per receive call (`-M`); `None`: size of the socket's receive buffer.
    pub recv_size: Option<usize>,
    /// Number of bytes per request (`-r`).
    pub request: usize,
    /// Number of bytes per response (`-r`).
    pub response: usize,
    /// Number of requests in flight in addition to the first (`-b`).
    pub burst: usize,
    /// Socket buffer sizes of the near end (`-s`).
    pub near: BufferSizes,
    /// Socket buffer sizes of the far end (`-S`).
    pub far: BufferSizes,
    /// Set if TCP_NODELAY is set at both ends (`-D`).
    pub nodelay: bool,
    /// Set if the time of each call or transaction is measured (`-v 2`), which requires two clock
    /// readings per measurement.
    pub times: bool,
    /// Interval at which interim results are printed (global option `-D`, before the `--`).
    pub interim: Option<Duration>,
}

/// Requested socket buffer sizes in bytes; `None`: system default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferSizes {
    /// Value of SO_SNDBUF.
    pub send: Option<usize>,
    /// Value of SO_RCVBUF.
    pub recv: Option<usize>,
}

impl Options {
    /// Returns netperf's defaults: 10 seconds, requests and responses of one byte.
    pub fn new(test: Test) -> Options {
        Options {
            test,
            length: Length::Time(Duration::from_secs(10)),
            send_size: None,
            recv_size: None,
            request: 1,
            response: 1,
            burst: 0,
            near: BufferSizes::default(),
            far: BufferSizes::default(),
            nodelay: false,
            times: false,
            interim: None,
        }
    }

    /// Checks the ranges of the options.
    ///
    /// # Errors
    /// The option that is out of range, and the expected range.
    pub fn check(&self) -> Result<(), String> {
        let most = if self.test.is_udp() { DATAGRAM_MAX } else { MESSAGE_MAX };
        let within = |flag: &str, size: Option<usize>| match size {
            Some(size) if !(1..=most).contains(&size) => Err(format!("{flag} {size}: expected 1 to {most} bytes")),
            _ => Ok(()),
        };
        within("-m", self.send_size)?;
        within("-M", self.recv_size)?;
        within("-r", Some(self.request))?;
        within("-r", Some(self.response))?;
        if self.burst > BURST_MAX {
            return Err(format!("-b {}: must be at most {BURST_MAX}", self.burst));
        }
        if self.burst > 0 && !matches!(self.test, Test::TcpRr | Test::UdpRr) {
            return Err(format!("-b requires TCP_RR or UDP_RR: {} has no concurrent requests", self.test));
        }
        if self.test == Test::UdpStream && matches!(self.length, Length::Count(_)) {
            return Err("-l: must be a time in seconds for UDP_STREAM".to_owned());
        }
        match self.length {
            Length::Time(time) if time.is_zero() || time > LENGTH_MAX => {
                Err(format!("-l: must be 1 to {} seconds", LENGTH_MAX.as_secs()))
            }
            Length::Count(0) => Err("-l: must not be zero".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Maximum value of `-b`.
pub const BURST_MAX: usize = 65_536;
/// Maximum length of a test: one day.
pub const LENGTH_MAX: Duration = Duration::from_secs(86_400);

/// Result of one run of a test.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub test: Test,
    /// Duration in seconds, without setup. A stream ends when its last byte arrives.
    pub elapsed: f64,
    /// Seconds of the duration in which the near end's thread was preempted
    /// ([`crate::span::Took`]).
    pub preempted: f64,
    /// Socket buffer sizes of the near end.
    pub near: sockets::Sizes,
    /// Socket buffer sizes of the far end.
    pub far: sockets::Sizes,
    /// Number of bytes per send call.
    pub send_size: usize,
    /// Number of bytes per receive call.
    pub recv_size: usize,
    pub request: usize,
    pub response: usize,
    /// Number of requests in flight in addition to the first.
    pub burst: usize,
    /// Number of send calls that completed a message, or of transactions.
    pub messages: u64,
    /// Number of send calls that failed (UDP_STREAM).
    pub errors: u64,
    /// Number of bytes transferred, as counted by the sender.
    pub bytes: u64,
    /// Numbers of bytes, messages and calls that the far end counted and reported.
    pub tally: control::Tally,
    /// Times of the calls or transactions, if they were measured.
    pub times: Option<hist::Histogram>,
    /// Set if Ctrl-C ended the test early.
    pub cut: bool,
}

impl Outcome {
    /// Returns the main result of the test: the sender's rate in 10^6 bit/s for streams, including
    /// UDP_STREAM; otherwise the number of transactions per second.
    pub fn figure(&self) -> f64 {
        match self.test {
            test if test.is_stream() => self.bytes as f64 * 8e-6 / self.elapsed.max(1e-9),
            _ => self.messages as f64 / self.elapsed.max(1e-9),
        }
    }

    /// Returns the receiver's rate in 10^6 bit/s, which is printed on the second line of a
    /// UDP_STREAM result.
    pub fn received(&self) -> f64 {
        self.tally.bytes as f64 * 8e-6 / self.elapsed.max(1e-9)
    }

    /// Returns the result for which the confidence interval is computed: the receiver's rate for
    /// UDP_STREAM, otherwise the main result.
    pub fn merit(&self) -> f64 {
        if self.test == Test::UdpStream { self.received() } else { self.figure() }
    }
}
