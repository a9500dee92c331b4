//! `linerate netperf`: netperf's tests by netperf's definitions (REPORTS 2.4), between any two ends.
//!
//! ```text
//!  near::Near     the end that asks: control connection, test, figures        sockets::Sockets: the calls of an end
//!  far::Far       the end that is asked: sink, source, echo, a turn at a time    ours::OurSockets: of a host of ours
//!  control        what they say to each other: lines of JSON over TCP         (lab has the host kernel's)
//!  report         netperf's banners, titles and columns; JSON
//!  confidence     -i and -I: repeated until the mean is known well enough
//!  session        a test from banner to figures; Play: what two ends do, wherever they are
//! ```
//!
//! A test is straight-line code at the near end, which calls [`sockets::Sockets::step`] while it waits; on one thread that gives the
//! far end its turn. So the same code runs over our sockets and over the kernel's, on one thread and on two. Nothing is
//! allocated per message, transaction or connection.

pub mod confidence;
pub mod control;
pub mod far;
pub mod hist;
pub mod near;
pub mod ours;
pub mod report;
pub mod serve;
pub mod session;
pub mod sockets;
#[cfg(test)]
mod tests;

use clock::Duration;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// netserver's L4 port.
pub const PORT: u16 = 12_865;
/// The largest message, request or response of a stream.
pub const MESSAGE_MAX: usize = 4 << 20;
/// The largest payload of a datagram over IPv4.
pub const DATAGRAM_MAX: usize = 65_507;

/// A test.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Test {
    /// Bytes from here to there.
    TcpStream,
    /// Bytes from there to here: the word STREAM read backwards.
    TcpMaerts,
    /// A request there, a response back, on one connection.
    TcpRr,
    /// A connection opened and closed.
    TcpCc,
    /// A connection opened, a request, a response, closed.
    TcpCrr,
    /// Datagrams from here to there, without flow control.
    UdpStream,
    /// A request and a response as datagrams.
    UdpRr,
}

impl Test {
    /// All of them, in netperf's manual's order.
    pub const ALL: [Test; 7] =
        [Test::TcpStream, Test::TcpMaerts, Test::UdpStream, Test::TcpRr, Test::TcpCc, Test::TcpCrr, Test::UdpRr];

    /// The word after `-t`.
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

    /// Does it move bytes one way, and is it measured in bits per second?
    pub fn is_stream(self) -> bool {
        matches!(self, Test::TcpStream | Test::TcpMaerts | Test::UdpStream)
    }

    /// Does it send datagrams?
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
            format!("no test of that name; there are {names}")
        })
    }
}

/// How long a test goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// So long.
    Time(Duration),
    /// So many transactions, or bytes of a stream (`-l` with a negative number).
    Count(u64),
}

/// What is asked of a test.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Which (`-t`).
    pub test: Test,
    /// How long (`-l`).
    pub length: Length,
    /// Bytes of a send call (`-m`); `None`: the socket's send buffer.
    pub send_size: Option<usize>,
    /// Bytes of a receive call (`-M`); `None`: the socket's receive buffer.
    pub recv_size: Option<usize>,
    /// Bytes of a request (`-r`).
    pub request: usize,
    /// Bytes of a response (`-r`).
    pub response: usize,
    /// Requests beyond the first that are under way at a time (`-b`).
    pub burst: usize,
    /// Our socket buffers (`-s`).
    pub near: BufferSizes,
    /// The far end's (`-S`).
    pub far: BufferSizes,
    /// TCP_NODELAY at both ends (`-D`).
    pub nodelay: bool,
    /// Each call's or transaction's time is taken (`-v 2`): it costs two readings of the clock.
    pub times: bool,
    /// How often an interim result is told (`-D` before the `--`).
    pub interim: Option<Duration>,
}

/// Sizes of a socket's buffers that are wished for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferSizes {
    /// SO_SNDBUF.
    pub send: Option<usize>,
    /// SO_RCVBUF.
    pub recv: Option<usize>,
}

impl Options {
    /// netperf's defaults: 10 seconds, a byte there and a byte back.
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

    /// Are the sizes in range?
    ///
    /// # Errors
    /// Which one is not, and what was expected.
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
            return Err(format!("-b {}: at most {BURST_MAX} requests more than one", self.burst));
        }
        if self.burst > 0 && !matches!(self.test, Test::TcpRr | Test::UdpRr) {
            return Err(format!("-b is for TCP_RR and UDP_RR: {} has no requests under way side by side", self.test));
        }
        if self.test == Test::UdpStream && matches!(self.length, Length::Count(_)) {
            return Err("-l: UDP_STREAM has a time and no count, as netperf's".to_owned());
        }
        match self.length {
            Length::Time(time) if time.is_zero() || time > LENGTH_MAX => {
                Err(format!("-l: 1 to {} seconds", LENGTH_MAX.as_secs()))
            }
            Length::Count(0) => Err("-l: nothing to do".to_owned()),
            _ => Ok(()),
        }
    }
}

/// The most that `-b` may say.
pub const BURST_MAX: usize = 65_536;
/// The longest test: a day.
pub const LENGTH_MAX: Duration = Duration::from_secs(86_400);

/// What a test found, once.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which test.
    pub test: Test,
    /// Seconds from its beginning to its end, setting up not counted; a stream's last byte is.
    pub elapsed: f64,
    /// Seconds of these in which the near end's thread was preempted ([`crate::span::Took`]).
    pub preempted: f64,
    /// Our socket's buffers.
    pub near: sockets::Sizes,
    /// The far end's.
    pub far: sockets::Sizes,
    /// Bytes of a send call.
    pub send_size: usize,
    /// Bytes of a receive call.
    pub recv_size: usize,
    /// Bytes of a request.
    pub request: usize,
    /// Bytes of a response.
    pub response: usize,
    /// Requests beyond the first that were under way.
    pub burst: usize,
    /// Send calls that took a whole message, or transactions.
    pub messages: u64,
    /// Send calls that failed (UDP_STREAM).
    pub errors: u64,
    /// Bytes moved, as the sender counts.
    pub bytes: u64,
    /// What the far end counted.
    pub tally: control::Tally,
    /// Times, if they were taken.
    pub times: Option<hist::Histogram>,
    /// It ended before its time, by Ctrl-C.
    pub cut: bool,
}

impl Outcome {
    /// The figure of merit: 10^6 bit/s of a stream as its sender sees it (UDP_STREAM too), else transactions a second.
    pub fn figure(&self) -> f64 {
        match self.test {
            test if test.is_stream() => self.bytes as f64 * 8e-6 / self.elapsed.max(1e-9),
            _ => self.messages as f64 / self.elapsed.max(1e-9),
        }
    }

    /// UDP_STREAM's second line: 10^6 bit/s that arrived.
    pub fn received(&self) -> f64 {
        self.tally.bytes as f64 * 8e-6 / self.elapsed.max(1e-9)
    }

    /// What confidence is asked of: what arrived, where that is another figure.
    pub fn merit(&self) -> f64 {
        if self.test == Test::UdpStream { self.received() } else { self.figure() }
    }
}
