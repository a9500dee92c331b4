//! Errors of datagram sockets.

use crate::ends::Unfit;
use crate::ip4::OutputError;

/// Error about an earlier datagram, for the socket that sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoError {
    /// Port or protocol unreachable.
    Refused,
    /// The host is unreachable.
    HostUnreachable,
    /// The network is unreachable.
    NetUnreachable,
    /// The datagram exceeds the path MTU and must not be fragmented.
    MessageSize,
    /// A header field was rejected.
    ProtocolOption,
}

/// Reason why a socket was not bound or connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindError {
    /// There is no such socket.
    NoSocket,
    /// The socket is bound already.
    AlreadyBound,
    /// The address and port are in use.
    InUse,
    /// Not an address of this host.
    NotOurs,
    /// The address has another family than the socket.
    Family,
    /// All ephemeral ports are in use.
    NoPorts,
    /// Connecting to port 0 or the unspecified address; a link-local address without a scope id; an
    /// IPv4 address for an IPv6-only socket.
    Invalid,
    /// Connecting to a broadcast address without the broadcast option.
    Broadcast,
    /// The destination cannot be reached, for example without a route.
    Output(OutputError),
    /// There are more sources than a filter holds.
    TooMany,
    /// The socket is not connected.
    NotConnected,
}

impl From<Unfit> for BindError {
    fn from(unfit: Unfit) -> BindError {
        match unfit {
            Unfit::Family => BindError::Family,
            Unfit::Mapped => BindError::Invalid,
        }
    }
}

/// Reason why a datagram was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// There is no such socket.
    NoSocket,
    /// No destination was given, and the socket is not connected.
    NoDestination,
    /// A destination was given, and the socket is connected.
    Connected,
    /// The destination has another family than the socket, or port 0.
    BadDestination,
    /// The datagram exceeds the maximum length.
    TooLong,
    /// No buffer is free.
    NoBuffer,
    /// The destination is a broadcast address, without the broadcast option.
    Broadcast,
    /// The source address is not one of this host's.
    BadSource,
    /// There is no such interface.
    NoIface,
    /// The ancillary data contradicts itself or the destination.
    Invalid,
    /// The socket is shut down for writing.
    Shut,
    /// There is no free port to bind to.
    NoPorts,
    /// Pending error of an earlier datagram.
    Earlier(SoError),
    /// The packet could not be sent.
    Output(OutputError),
}
