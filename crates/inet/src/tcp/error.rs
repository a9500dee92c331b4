//! Errors of TCP's calls.

use crate::ip4::OutputError;

/// Error of a call, or the end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpError {
    /// No such socket.
    NoSocket,
    /// It would have to wait.
    WouldBlock,
    /// Bound, listening or connected already.
    Already,
    /// The handshake is under way.
    InProgress,
    /// Connected already.
    Connected,
    /// Not connected.
    NotConnected,
    /// Not listening.
    NotListening,
    /// Listening: not to be connected.
    Listens,
    /// The address and port are in use.
    InUse,
    /// Not an address of this host.
    NotOurs,
    /// An address of a family that the socket was not opened for.
    Family,
    /// Port 0, or an address that cannot be connected to.
    Invalid,
    /// Every ephemeral port is taken.
    NoPorts,
    /// No more sockets.
    TooMany,
    /// Writing was shut down.
    Shut,
    /// The peer refused.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// Given up.
    TimedOut,
    /// The host cannot be reached.
    HostUnreachable,
    /// No route to the destination.
    Output(OutputError),
}
