//! Errors of TCP calls.

use crate::ip4::OutputError;

/// Error of a call, or the reason why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpError {
    /// There is no such socket.
    NoSocket,
    /// The call would block.
    WouldBlock,
    /// Bound, listening or connected already.
    Already,
    /// The handshake is in progress.
    InProgress,
    /// The socket is connected already.
    Connected,
    /// The socket is not connected.
    NotConnected,
    /// The socket is not listening.
    NotListening,
    /// The socket is listening and cannot connect.
    Listens,
    /// The address and port are in use.
    InUse,
    /// Not an address of this host.
    NotOurs,
    /// The address has another family than the socket.
    Family,
    /// Port 0, or an address that cannot be connected to.
    Invalid,
    /// All ephemeral ports are in use.
    NoPorts,
    /// There are too many sockets.
    TooMany,
    /// The socket is shut down for writing.
    Shut,
    /// The peer refused the connection.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The connection timed out.
    TimedOut,
    /// The host is unreachable.
    HostUnreachable,
    /// The packet could not be sent, for example without a route.
    Output(OutputError),
}
