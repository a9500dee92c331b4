//! Stream sockets as used by the applications' driver: calls that never block, except `poll`.
//!
//! [`crate::serve::Server`] runs on any implementation of [`Streams`]: our own stack, the kernel's
//! sockets in tests, or an in-memory network. Every call returns at once; a call that cannot
//! proceed returns [`Failure::Again`]. Readiness may be edge- or level-triggered and may be
//! spurious, but must not be lost: after [`Failure::Again`], `poll` reports the descriptor once the
//! call can be retried.

use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Reason why a call on a socket failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The call cannot proceed now: EAGAIN, EINPROGRESS.
    Again,
    /// The connection is gone: reset, timed out, aborted, or shut down for writing.
    Gone,
    /// ECONNREFUSED: the peer, or an ICMP message, refused the connection.
    Refused,
    /// EHOSTUNREACH: the next hop does not answer ARP, or a router reports the host as unreachable.
    HostUnreachable,
    /// ENETUNREACH or ENETDOWN: no route, or the iface is down.
    NetUnreachable,
    /// ETIMEDOUT: no answer before the last retransmission timeout.
    TimedOut,
    /// The address and port are in use.
    InUse,
    /// No descriptor or memory left.
    NoRoom,
    /// Invalid address, descriptor or option.
    Invalid,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Again => "operation would block",
            Failure::Gone => "connection closed or reset",
            Failure::Refused => "connection refused",
            Failure::HostUnreachable => "no route to host",
            Failure::NetUnreachable => "network is unreachable",
            Failure::TimedOut => "connection timed out",
            Failure::InUse => "address already in use",
            Failure::NoRoom => "out of descriptors or memory",
            Failure::Invalid => "invalid address, descriptor or option",
        })
    }
}

impl std::error::Error for Failure {}

/// Both addresses of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ends {
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

/// An option of a connection. A driver that does not support it returns [`Failure::Invalid`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamOption {
    /// Sends small segments at once (TCP_NODELAY).
    NoDelay(bool),
    /// Bytes of both socket buffers.
    Buffers(usize),
    /// Maximum segment size (TCP_MAXSEG).
    MaxSegment(u16),
    /// Type of service byte.
    Tos(u8),
    /// Congestion control by name (TCP_CONGESTION).
    Congestion(CongestionName),
}

/// Name of a congestion control: at most 15 letters, digits, `_` or `-` (TCP_CA_NAME_MAX of Linux
/// is 16 with the NUL).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionName {
    bytes: [u8; 15],
    len: u8,
}

impl CongestionName {
    /// Creates a name, if it is valid.
    pub fn new(name: &str) -> Option<CongestionName> {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let mut bytes = [0; 15];
        bytes.get_mut(..name.len()).filter(|_| plain && !name.is_empty())?.copy_from_slice(name.as_bytes());
        Some(CongestionName { bytes, len: name.len() as u8 })
    }

    pub fn as_str(&self) -> &str {
        let name = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }
}

/// Statistics of a connection: the fields of tcp_info that iperf3 reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamInfo {
    /// Segments retransmitted since the connection began.
    pub retransmits: u64,
    /// Congestion window in bytes.
    pub snd_cwnd: u64,
    /// Send window, as advertised by the peer, in bytes.
    pub snd_wnd: u64,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u64,
    /// Mean deviation of the round-trip time in microseconds.
    pub rttvar_us: u64,
    /// Path MTU in bytes.
    pub pmtu: u64,
    /// Maximum segment size in bytes.
    pub mss: u64,
}

/// Stream sockets of one thread.
pub trait Streams {
    type Fd: Copy + Eq + Hash + fmt::Debug;

    /// Opens a listener (`socket`, `bind`, `listen`); port 0 selects a free port.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid`.
    fn listen(&mut self, at: SocketAddr, backlog: usize) -> Result<Self::Fd, Failure>;

    /// Returns the local address of a descriptor.
    ///
    /// # Errors
    /// `Invalid`.
    fn local(&self, fd: Self::Fd) -> Result<SocketAddr, Failure>;

    /// Accepts the next connection of a listener.
    ///
    /// # Errors
    /// `Again`, `NoRoom`.
    fn accept(&mut self, listener: Self::Fd) -> Result<(Self::Fd, Ends), Failure>;

    /// Starts to connect from `from` (port 0: any); [`Streams::connected`] returns the result.
    ///
    /// # Errors
    /// `Refused`, `InUse`, `NoRoom`, `Invalid`.
    fn connect(&mut self, from: SocketAddr, to: SocketAddr) -> Result<Self::Fd, Failure>;

    /// Like [`Streams::connect`], with socket options. An implementation that cannot set them
    /// before connecting sets them after.
    ///
    /// # Errors
    /// Those of [`Streams::connect`]; `Invalid` if an option is not supported.
    fn connect_with(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        options: &[StreamOption],
    ) -> Result<Self::Fd, Failure> {
        let fd = self.connect(from, to)?;
        for option in options {
            if let Err(why) = self.set(fd, *option) {
                self.abort(fd);
                return Err(why);
            }
        }
        Ok(fd)
    }

    /// Opens a UDP socket; port 0 selects a free port.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid` (UDP is not supported).
    fn bind(&mut self, _at: SocketAddr) -> Result<Self::Fd, Failure> {
        Err(Failure::Invalid)
    }

    /// Sends one datagram to `ends.peer`, from the address `ends.local` (unspecified: selected by
    /// the stack).
    ///
    /// # Errors
    /// `Again`; other errors concern only this datagram.
    fn send_to(&mut self, _fd: Self::Fd, _bytes: &[u8], _ends: Ends) -> Result<(), Failure> {
        Err(Failure::Invalid)
    }

    /// Receives one datagram into `into`, truncated if it is longer. Returns its length, its
    /// sender, and its destination address (without the port).
    ///
    /// # Errors
    /// `Again`; other errors concern a datagram sent earlier.
    fn recv_from(&mut self, _fd: Self::Fd, _into: &mut [u8]) -> Result<(usize, Ends), Failure> {
        Err(Failure::Invalid)
    }

    /// Returns the result of a connect.
    ///
    /// # Errors
    /// `Again` while it is in progress; `Refused`, `Gone`.
    fn connected(&mut self, fd: Self::Fd) -> Result<Ends, Failure>;

    /// Sends the first part of `bytes`; returns how many bytes were accepted.
    ///
    /// # Errors
    /// `Again`, `Gone`.
    fn send(&mut self, fd: Self::Fd, bytes: &[u8]) -> Result<usize, Failure>;

    /// Receives into `into`; 0 means that the peer has shut down its side.
    ///
    /// # Errors
    /// `Again`, `Gone`.
    fn recv(&mut self, fd: Self::Fd, into: &mut [u8]) -> Result<usize, Failure>;

    /// Shuts down our side; data already sent is still delivered.
    ///
    /// # Errors
    /// `Gone`.
    fn shutdown(&mut self, fd: Self::Fd) -> Result<(), Failure>;

    /// Closes the descriptor; data already sent is still delivered.
    fn close(&mut self, fd: Self::Fd);

    /// Closes the descriptor and resets the connection.
    fn abort(&mut self, fd: Self::Fd);

    /// Sets an option.
    ///
    /// # Errors
    /// `Invalid` if the option is not supported.
    fn set(&mut self, fd: Self::Fd, option: StreamOption) -> Result<(), Failure>;

    /// Returns the statistics of a connection.
    fn info(&self, fd: Self::Fd) -> Option<StreamInfo>;

    /// Adds descriptors that may have become ready to `ready`; waits for one for at most `timeout`.
    fn poll(&mut self, ready: &mut Vec<Self::Fd>, timeout: Duration);
}

/// Returns the address of `at` with another L4 port; a link-local one keeps its interface.
pub fn at_port(at: SocketAddr, port: u16) -> SocketAddr {
    let mut at = at;
    at.set_port(port);
    at
}

/// Returns the unspecified address and port 0 of the family of `to`.
pub fn any_towards(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    }
}
