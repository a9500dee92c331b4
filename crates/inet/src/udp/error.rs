//! Errors of datagram sockets.

use crate::ends::Unfit;
use crate::ip4::OutputError;

/// An error that an earlier datagram met on its way, for the socket that sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoError {
    /// Port or protocol unreachable.
    Refused,
    /// The host cannot be reached.
    HostUnreachable,
    /// The network cannot be reached.
    NetUnreachable,
    /// Too long for the path, and not to be fragmented.
    MessageSize,
    /// Something in the header was not understood.
    ProtocolOption,
}

/// Reason for which a socket was not bound or connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindError {
    /// No such socket.
    NoSocket,
    /// Bound already.
    AlreadyBound,
    /// The address and port are in use.
    InUse,
    /// Not an address of this host.
    NotOurs,
    /// An address of a family that the socket was not opened for.
    Family,
    /// Every ephemeral port is taken.
    NoPorts,
    /// Port 0 or address 0 to connect to; a link-local address without a scope id; an IPv4 address for a socket of IPv6 alone.
    Invalid,
    /// Connecting to a broadcast address without the broadcast option.
    Broadcast,
    /// No route to the destination.
    Output(OutputError),
    /// More sources than a filter holds.
    TooMany,
    /// Not connected.
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
    /// No such socket.
    NoSocket,
    /// No destination given, and not connected.
    NoDestination,
    /// A destination given, and connected.
    Connected,
    /// A destination of a family that the socket does not have, or port 0.
    BadDestination,
    /// Longer than a datagram can be.
    TooLong,
    /// No buffer free.
    NoBuffer,
    /// A broadcast address, without the broadcast option.
    Broadcast,
    /// A source address that is not this host's.
    BadSource,
    /// No such iface.
    NoIface,
    /// Ancillary data that contradicts itself or the destination.
    Invalid,
    /// Writing was shut down.
    Shut,
    /// No port free to bind to.
    NoPorts,
    /// Pending error of an earlier datagram.
    Earlier(SoError),
    /// IP could not send it.
    Output(OutputError),
}
