//! Sockets with the names and semantics of `std::net`.
//!
//! Each constructor takes the host as its first argument. A socket contains a handle of its host,
//! so the host runs at least as long as its sockets. The types have the host's type as a parameter,
//! which is [`Host`] by default.
//!
//! [`tasks`] has sockets with `async` methods. [`Poll`] waits for events of many sockets.

#[cfg(feature = "quinn")]
pub mod quinn;

use crate::Host;

pub use ::socket::net::{Alone, Incoming, Net, Pollable, Reply, Target, ToAddr, lookup};
pub use ::socket::resolve::{Families, LookupError};
pub use ::socket::{
    Ancillary, Domain, Errno, FilterMode, IcmpFilter, Membership, Message, Opt, OptKind, PacketInfo, SourceChange,
    SourceFilter,
};
pub use ::tcp::Info as TcpInfo;
pub use ::tcp::cc::Algorithm;

/// A TCP connection.
pub type TcpStream<H = Host> = ::socket::net::TcpStream<H>;
/// A TCP listener.
pub type TcpListener<H = Host> = ::socket::net::TcpListener<H>;
/// A UDP socket.
pub type UdpSocket<H = Host> = ::socket::net::UdpSocket<H>;
/// A raw socket.
pub type RawSocket<H = Host> = ::socket::net::RawSocket<H>;
/// An ICMP socket, which sends echo requests.
pub type IcmpSocket<H = Host> = ::socket::net::IcmpSocket<H>;
/// Waits for events of many sockets on one thread.
pub type Poll<H = Host> = ::socket::net::Poll<H>;
/// Receives the connections to any address and port, for a transparent proxy.
pub type TcpForwarder<H = Host> = ::socket::net::TcpForwarder<H>;
/// A connection of a [`TcpForwarder`] that waits for a decision.
pub type TcpRequest<H = Host> = ::socket::net::TcpRequest<H>;
/// Receives the datagrams to any address and port, for a transparent proxy.
pub type UdpForwarder<H = Host> = ::socket::net::UdpForwarder<H>;
/// Datagrams of a [`UdpForwarder`] that wait for a decision.
pub type UdpRequest<H = Host> = ::socket::net::UdpRequest<H>;

/// Sockets with `async` methods, for tasks of any runtime and of simulations.
pub mod tasks {
    use crate::Host;

    pub use ::socket::net::tasks::{ReadHalf, Sleep, WriteHalf, lookup, sleep};

    /// A TCP connection for tasks.
    pub type TcpStream<H = Host> = ::socket::net::tasks::TcpStream<H>;
    /// A TCP listener for tasks.
    pub type TcpListener<H = Host> = ::socket::net::tasks::TcpListener<H>;
    /// A UDP socket for tasks.
    pub type UdpSocket<H = Host> = ::socket::net::tasks::UdpSocket<H>;
    /// Receives the connections to any address and port.
    pub type TcpForwarder<H = Host> = ::socket::net::tasks::TcpForwarder<H>;
    /// A connection of a [`TcpForwarder`] that waits for a decision.
    pub type TcpRequest<H = Host> = ::socket::net::tasks::TcpRequest<H>;
    /// Receives the datagrams to any address and port.
    pub type UdpForwarder<H = Host> = ::socket::net::tasks::UdpForwarder<H>;
    /// Datagrams of a [`UdpForwarder`] that wait for a decision.
    pub type UdpRequest<H = Host> = ::socket::net::tasks::UdpRequest<H>;
    /// The half of a stream that reads.
    pub type OwnedReadHalf<H = Host> = ::socket::net::tasks::OwnedReadHalf<H>;
    /// The half of a stream that writes.
    pub type OwnedWriteHalf<H = Host> = ::socket::net::tasks::OwnedWriteHalf<H>;
}

/// Sockets of [`tasks`], whose streams implement `AsyncRead` and `AsyncWrite` of tokio.
#[cfg(feature = "tokio")]
pub use tasks as tokio;
