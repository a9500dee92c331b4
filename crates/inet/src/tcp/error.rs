//! Errors of TCP calls.

use crate::ip4::OutputError;

/// Error of a call, or the reason why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpError {
    /// There is no such socket.
    NoSocket,
    /// The call would block.
    WouldBlock,
    /// The socket is already bound, listening or connected.
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
    /// Another socket uses the address and port.
    InUse,
    /// The address does not belong to this host.
    NotOurs,
    /// The address is of another family than the socket.
    Family,
    /// The port is 0, or the address cannot be connected to.
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
    /// The packet could not be sent, for example because there was no route.
    Output(OutputError),
}
