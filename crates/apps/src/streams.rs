//! Stream sockets as the applications' driver wants them: calls that never wait, and one that does.
//!
//! [`Streams`] is what [`crate::serve::Server`] is bound to: the calls of our own stack, the kernel's sockets in tests, or a
//! network in memory. Every call answers at once; what cannot be done now is [`Failure::Again`]. Readiness may be told by
//! edge or by level and may be told falsely, but never not at all: whoever got [`Failure::Again`] hears of the descriptor
//! when the call is worth another try.

use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Why a call on a stream was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Not now: EAGAIN, EINPROGRESS.
    Again,
    /// The connection is gone: reset, timed out, aborted, or writing was shut.
    Gone,
    /// ECONNREFUSED: the peer, or an ICMP message, refused the connection.
    Refused,
    /// EHOSTUNREACH: the next hop does not answer ARP, or a router reports the host as unreachable.
    HostUnreachable,
    /// ENETUNREACH or ENETDOWN: no route, or the iface is down.
    NetUnreachable,
    /// ETIMEDOUT: no answer before the last retransmission timeout.
    TimedOut,
    /// Somebody else has that address and port.
    InUse,
    /// No descriptor or no memory left.
    NoRoom,
    /// Not an address, a descriptor or an option that could be used so.
    Invalid,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Again => "would have to wait",
            Failure::Gone => "the connection is gone",
            Failure::Refused => "connection refused",
            Failure::HostUnreachable => "no route to host",
            Failure::NetUnreachable => "network is unreachable",
            Failure::TimedOut => "connection timed out",
            Failure::InUse => "the address and port are taken",
            Failure::NoRoom => "no descriptor or memory left",
            Failure::Invalid => "not possible with this address, descriptor or option",
        })
    }
}

impl std::error::Error for Failure {}

/// Both ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ends {
    /// Ours.
    pub local: SocketAddr,
    /// The other's.
    pub peer: SocketAddr,
}

/// What an application may wish of a connection. A driver that has no such thing says [`Failure::Invalid`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamOption {
    /// Send small segments at once (TCP_NODELAY).
    NoDelay(bool),
    /// Bytes of both socket buffers.
    Buffers(usize),
    /// The largest segment (TCP_MAXSEG).
    MaxSegment(u16),
    /// Type of service.
    Tos(u8),
    /// The congestion control, by its name (TCP_CONGESTION).
    Congestion(CongestionName),
}

/// A congestion control's name: at most 15 letters, digits, `_` or `-` (Linux's TCP_CA_NAME_MAX is 16 with its end).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CongestionName {
    bytes: [u8; 15],
    len: u8,
}

impl CongestionName {
    /// A name, if it can be one.
    pub fn new(name: &str) -> Option<CongestionName> {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let mut bytes = [0; 15];
        bytes.get_mut(..name.len()).filter(|_| plain && !name.is_empty())?.copy_from_slice(name.as_bytes());
        Some(CongestionName { bytes, len: name.len() as u8 })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let name = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }
}

/// What a stack knows about a connection: the fields of tcp_info that iperf3 reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamInfo {
    /// Segments sent again since the connection began.
    pub retransmits: u64,
    /// Congestion window in bytes.
    pub snd_cwnd: u64,
    /// The peer's window in bytes.
    pub snd_wnd: u64,
    /// Smoothed round-trip time.
    pub rtt_us: u64,
    /// Its mean deviation.
    pub rttvar_us: u64,
    /// Path MTU.
    pub pmtu: u64,
    /// The largest segment.
    pub mss: u64,
}

/// Stream sockets of one thread.
pub trait Streams {
    /// A descriptor.
    type Fd: Copy + Eq + Hash + fmt::Debug;

    /// `socket`, `bind`, `listen`: port 0 picks one.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid`.
    fn listen(&mut self, at: SocketAddr, backlog: usize) -> Result<Self::Fd, Failure>;

    /// Where a descriptor is bound.
    ///
    /// # Errors
    /// `Invalid`.
    fn local(&self, fd: Self::Fd) -> Result<SocketAddr, Failure>;

    /// The next connection that waits at a listener.
    ///
    /// # Errors
    /// `Again`, `NoRoom`.
    fn accept(&mut self, listener: Self::Fd) -> Result<(Self::Fd, Ends), Failure>;

    /// Begins to connect from `from` (port 0 picks one); [`Streams::connected`] says how it went.
    ///
    /// # Errors
    /// `Refused`, `InUse`, `NoRoom`, `Invalid`.
    fn connect(&mut self, from: SocketAddr, to: SocketAddr) -> Result<Self::Fd, Failure>;

    /// [`Streams::connect`] by a socket with these options. Where a socket cannot be made ready before it connects they are set after.
    ///
    /// # Errors
    /// As [`Streams::connect`]; `Invalid`: there is no such option here.
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

    /// A socket of datagrams; port 0 picks one.
    ///
    /// # Errors
    /// `InUse`, `NoRoom`, `Invalid` (there are none here).
    fn bind(&mut self, _at: SocketAddr) -> Result<Self::Fd, Failure> {
        Err(Failure::Invalid)
    }

    /// Sends one datagram to `ends.peer`, from the address `ends.local` (unspecified: the stack's choice).
    ///
    /// # Errors
    /// `Again`; everything else is about this datagram only.
    fn send_to(&mut self, _fd: Self::Fd, _bytes: &[u8], _ends: Ends) -> Result<(), Failure> {
        Err(Failure::Invalid)
    }

    /// Receives one datagram into `into`, cut off if it is longer: its length there, its sender, and the
    /// address to which it was sent (its port is not filled in).
    ///
    /// # Errors
    /// `Again`; everything else is about one datagram that was sent before.
    fn recv_from(&mut self, _fd: Self::Fd, _into: &mut [u8]) -> Result<(usize, Ends), Failure> {
        Err(Failure::Invalid)
    }

    /// How a connect went.
    ///
    /// # Errors
    /// `Again` while it is under way; `Refused`, `Gone`.
    fn connected(&mut self, fd: Self::Fd) -> Result<Ends, Failure>;

    /// Sends the beginning of `bytes`; says how many were taken.
    ///
    /// # Errors
    /// `Again`, `Gone`.
    fn send(&mut self, fd: Self::Fd, bytes: &[u8]) -> Result<usize, Failure>;

    /// Receives into `into`; 0 is the end: the peer has shut its side.
    ///
    /// # Errors
    /// `Again`, `Gone`.
    fn recv(&mut self, fd: Self::Fd, into: &mut [u8]) -> Result<usize, Failure>;

    /// Shuts our side; what was sent before still goes out.
    ///
    /// # Errors
    /// `Gone`.
    fn shutdown(&mut self, fd: Self::Fd) -> Result<(), Failure>;

    /// Gives the descriptor back; what was sent still goes out.
    fn close(&mut self, fd: Self::Fd);

    /// Gives the descriptor back and resets the connection.
    fn abort(&mut self, fd: Self::Fd);

    /// Sets an option.
    ///
    /// # Errors
    /// `Invalid`: there is no such thing here.
    fn set(&mut self, fd: Self::Fd, option: StreamOption) -> Result<(), Failure>;

    /// What the stack knows about the connection.
    fn info(&self, fd: Self::Fd) -> Option<StreamInfo>;

    /// Puts descriptors on which something may have become possible into `ready`; waits for one, at most `timeout`.
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
