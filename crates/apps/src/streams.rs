//! Interface to stream sockets for the driver of applications. No call blocks, except `poll`.
//!
//! [`crate::serve::Server`] runs on any implementation of [`Streams`]: our own stack, the kernel's
//! sockets in tests, or an in-memory network. A call that cannot proceed returns
//! [`Failure::Again`]. After that, `poll` must report the descriptor once the call can be retried.
//! It may report readiness as edges or levels, and more often than necessary.

pub mod net;

use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Reason why a call on a socket failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The call would block now: EAGAIN, EINPROGRESS.
    Again,
    /// The connection is gone: reset, timed out, aborted, or shut down for writing.
    Gone,
    /// ECONNREFUSED: the peer, or an ICMP message, refused the connection.
    Refused,
    /// EHOSTUNREACH: the next hop does not answer ARP, or a router reports the host as unreachable.
    HostUnreachable,
    /// ENETUNREACH or ENETDOWN: no route, or the iface is down.
    NetUnreachable,
    /// ETIMEDOUT: the peer did not answer any of the retransmissions.
    TimedOut,
    /// The address and port are in use.
    InUse,
    /// No descriptor or no memory is left.
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

/// Local and remote address of a connection or datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ends {
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

/// An option of a connection. An implementation that does not support it returns
/// [`Failure::Invalid`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamOption {
    /// Sends small segments at once if set (TCP_NODELAY).
    NoDelay(bool),
    /// Size of the send buffer and of the receive buffer, in bytes each.
    Buffers(usize),
    /// Maximum segment size in bytes (TCP_MAXSEG).
    MaxSegment(u16),
    /// Type of service byte of the IPv4 header, or traffic class of the IPv6 header.
    Tos(u8),
    /// Name of the congestion control algorithm (TCP_CONGESTION).
    Congestion(CongestionName),
}

/// Name of a congestion control algorithm: at most 15 letters, digits, `_` or `-` (Linux's
/// TCP_CA_NAME_MAX is 16, including the NUL).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionName {
    bytes: [u8; 15],
    len: u8,
}

impl CongestionName {
    /// Creates a name; `None` if it is not valid.
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

/// TCP statistics of a connection: those fields of tcp_info that iperf3 reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamInfo {
    /// Number of segments retransmitted since the connection began.
    pub retransmits: u64,
    /// Congestion window in bytes.
    pub snd_cwnd: u64,
    /// Send window that the peer advertises, in bytes.
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

    /// Opens a listener (`socket`, `bind`, `listen`); L4 port 0 selects a free port.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid`.
    fn listen(&mut self, at: SocketAddr, backlog: usize) -> Result<Self::Fd, Failure>;

    /// Returns the local address and port of a descriptor.
    ///
    /// # Errors
    /// `Invalid`.
    fn local(&self, fd: Self::Fd) -> Result<SocketAddr, Failure>;

    /// Accepts the next connection of a listener; returns its descriptor and its addresses.
    ///
    /// # Errors
    /// `Again`, `NoRoom`.
    fn accept(&mut self, listener: Self::Fd) -> Result<(Self::Fd, Ends), Failure>;

    /// Begins to connect from `from` (L4 port 0: any) to `to`; [`Streams::connected`] returns the
    /// result.
    ///
    /// # Errors
    /// `Refused`, `InUse`, `NoRoom`, `Invalid`.
    fn connect(&mut self, from: SocketAddr, to: SocketAddr) -> Result<Self::Fd, Failure>;

    /// Begins to connect as [`Streams::connect`] does, with socket options. An implementation that
    /// cannot set the options before it connects sets them afterwards.
    ///
    /// # Errors
    /// The errors of [`Streams::connect`]; `Invalid` if an option is not supported.
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

    /// Opens a UDP socket at an address; L4 port 0 selects a free port.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid` (UDP is not supported).
    fn bind(&mut self, _at: SocketAddr) -> Result<Self::Fd, Failure> {
        Err(Failure::Invalid)
    }

    /// Sends one datagram to `ends.peer` from the address `ends.local`. If `ends.local` is
    /// unspecified, the stack selects the address.
    ///
    /// # Errors
    /// `Again`; any other error concerns only this datagram.
    fn send_to(&mut self, _fd: Self::Fd, _bytes: &[u8], _ends: Ends) -> Result<(), Failure> {
        Err(Failure::Invalid)
    }

    /// Receives one datagram into `into`; a longer one is truncated. Returns its length and its
    /// addresses: the sender with its port, the destination without a port.
    ///
    /// # Errors
    /// `Again`; any other error concerns a datagram that was sent earlier.
    fn recv_from(&mut self, _fd: Self::Fd, _into: &mut [u8]) -> Result<(usize, Ends), Failure> {
        Err(Failure::Invalid)
    }

    /// Returns the result of [`Streams::connect`]: the addresses of the connection.
    ///
    /// # Errors
    /// `Again` while the connection is being established; `Refused`, `Gone`.
    fn connected(&mut self, fd: Self::Fd) -> Result<Ends, Failure>;

    /// Sends the first part of `bytes`; returns how many bytes the socket accepted.
    ///
    /// # Errors
    /// `Again`, `Gone`.
    fn send(&mut self, fd: Self::Fd, bytes: &[u8]) -> Result<usize, Failure>;

    /// Receives bytes into `into` and returns their number; 0 means that the peer has shut down its
    /// side.
    ///
    /// # Errors
    /// `Again`, `Gone`.
    fn recv(&mut self, fd: Self::Fd, into: &mut [u8]) -> Result<usize, Failure>;

    /// Shuts down our sending side. Data already sent is still delivered.
    ///
    /// # Errors
    /// `Gone`.
    fn shutdown(&mut self, fd: Self::Fd) -> Result<(), Failure>;

    /// Closes the descriptor; data already sent is still delivered.
    fn close(&mut self, fd: Self::Fd);

    /// Closes the descriptor and resets the connection.
    fn abort(&mut self, fd: Self::Fd);

    /// Sets an option of a connection.
    ///
    /// # Errors
    /// `Invalid` if the option is not supported.
    fn set(&mut self, fd: Self::Fd, option: StreamOption) -> Result<(), Failure>;

    /// Returns the TCP statistics of a connection; `None` if they are not available.
    fn info(&self, fd: Self::Fd) -> Option<StreamInfo>;

    /// Appends the descriptors that may have become ready to `ready`. If there are none, waits for
    /// one, but at most for `timeout`.
    fn poll(&mut self, ready: &mut Vec<Self::Fd>, timeout: Duration);
}

/// Returns the address `at` with another L4 port; a link-local address keeps its interface.
pub fn at_port(at: SocketAddr, port: u16) -> SocketAddr {
    let mut at = at;
    at.set_port(port);
    at
}

/// Returns the unspecified address with port 0, of the same family as `to`.
pub fn any_towards(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    }
}
