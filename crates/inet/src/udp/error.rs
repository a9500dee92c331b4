//! Errors of datagram sockets.

use crate::ends::Unfit;
use crate::ip4::OutputError;

/// ICMP error about an earlier datagram, stored for the socket that sent it.
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
    /// A router or the destination rejected a header field.
    ProtocolOption,
}

/// Reason for which a socket was not bound or connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindError {
    /// There is no such socket.
    NoSocket,
    /// The socket is already bound.
    AlreadyBound,
    /// Another socket uses the address and port.
    InUse,
    /// The address does not belong to this host.
    NotOurs,
    /// The address is of another family than the socket.
    Family,
    /// All ephemeral ports are in use.
    NoPorts,
    /// The destination of a connect has port 0 or the unspecified address, a link-local address has
    /// no scope id, or an IPv4 address was given for an IPv6-only socket.
    Invalid,
    /// The destination of a connect is a broadcast address, and the socket does not have the
    /// broadcast option.
    Broadcast,
    /// The destination cannot be reached, for example because there is no route.
    Output(OutputError),
    /// A source filter would have more sources than the maximum.
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

/// Reason for which a datagram was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// There is no such socket.
    NoSocket,
    /// No destination was given, and the socket is not connected.
    NoDestination,
    /// A destination was given although the socket is connected.
    Connected,
    /// The destination is of another family than the socket, or its port is 0.
    BadDestination,
    /// The datagram exceeds the maximum length.
    TooLong,
    /// No buffer is free.
    NoBuffer,
    /// The destination is a broadcast address, and the socket does not have the broadcast option.
    Broadcast,
    /// The source address does not belong to this host.
    BadSource,
    /// There is no such interface.
    NoIface,
    /// The ancillary data contradicts itself or the destination.
    Invalid,
    /// The socket is shut down for writing.
    Shut,
    /// There is no free port to bind to.
    NoPorts,
    /// An error about an earlier datagram was pending; this call returns it.
    Earlier(SoError),
    /// The packet could not be sent.
    Output(OutputError),
}
