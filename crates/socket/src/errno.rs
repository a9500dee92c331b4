//! Errors by their BSD names, with Linux's numbers.

use inet::ip4::OutputError;
use inet::udp::{BindError, SendError, SoError};
use std::fmt;

macro_rules! errnos {
    ($( $(#[doc = $sentence:literal])+ $name:ident = $number:literal ),+ $(,)?) => {
        /// Error of a socket call.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(i32)]
        pub enum Errno { $( $(#[doc = $sentence])+ $name = $number ),+ }

        impl Errno {
            /// All errors, in the order of their numbers.
            pub const ALL: &'static [Errno] = &[$( Errno::$name ),+];
            /// Returns the name, such as `EMSGSIZE`.
            pub fn name(self) -> &'static str { match self { $( Errno::$name => stringify!($name) ),+ } }
            /// Returns the description as a sentence.
            pub fn sentence(self) -> &'static str {
                match self { $( Errno::$name => concat!($($sentence),+).trim_ascii() ),+ }
            }
        }
    };
}

errnos! {
    /// Interrupted: the host is being stopped.
    EINTR = 4,
    /// Bad file descriptor.
    EBADF = 9,
    /// Nothing available: the call may not wait, or its timeout has expired.
    EAGAIN = 11,
    /// Broadcast without the SO_BROADCAST option.
    EACCES = 13,
    /// No such iface.
    ENODEV = 19,
    /// Invalid argument.
    EINVAL = 22,
    /// Too many open descriptors.
    EMFILE = 24,
    /// The socket is shut down for writing.
    EPIPE = 32,
    /// Destination address required: none given, and not connected.
    EDESTADDRREQ = 89,
    /// Message too long: for a datagram, or for the path without fragmentation.
    EMSGSIZE = 90,
    /// An option that this protocol does not have, or a parameter problem reported by a router.
    ENOPROTOOPT = 92,
    /// Protocol not supported by a socket of this kind.
    EPROTONOSUPPORT = 93,
    /// Call not supported by a socket of this kind.
    EOPNOTSUPP = 95,
    /// Address family not supported.
    EAFNOSUPPORT = 97,
    /// Address and port already in use.
    EADDRINUSE = 98,
    /// Not an address of this host.
    EADDRNOTAVAIL = 99,
    /// The iface is down.
    ENETDOWN = 100,
    /// No route to the network.
    ENETUNREACH = 101,
    /// The peer reset the connection.
    ECONNRESET = 104,
    /// No free buffer in the pool.
    ENOBUFS = 105,
    /// Destination given for a connected socket.
    EISCONN = 106,
    /// Not connected.
    ENOTCONN = 107,
    /// The peer did not answer in time.
    ETIMEDOUT = 110,
    /// Connection refused.
    ECONNREFUSED = 111,
    /// The host cannot be reached.
    EHOSTUNREACH = 113,
    /// The handshake is already in progress.
    EALREADY = 114,
    /// The handshake is in progress; the socket becomes writable when it is done.
    EINPROGRESS = 115,
}

impl Errno {
    /// Returns Linux's number of the error.
    pub fn raw(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.sentence())
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> std::io::Error {
        std::io::Error::from_raw_os_error(errno.raw())
    }
}

impl From<SoError> for Errno {
    fn from(error: SoError) -> Errno {
        match error {
            SoError::Refused => Errno::ECONNREFUSED,
            SoError::HostUnreachable => Errno::EHOSTUNREACH,
            SoError::NetUnreachable => Errno::ENETUNREACH,
            SoError::MessageSize => Errno::EMSGSIZE,
            SoError::ProtocolOption => Errno::ENOPROTOOPT,
        }
    }
}

impl From<OutputError> for Errno {
    fn from(error: OutputError) -> Errno {
        match error {
            OutputError::NoRoute => Errno::ENETUNREACH,
            OutputError::Rejected => Errno::EHOSTUNREACH,
            OutputError::TooBig(_) => Errno::EMSGSIZE,
            OutputError::IfaceDown => Errno::ENETDOWN,
        }
    }
}

impl From<SendError> for Errno {
    fn from(error: SendError) -> Errno {
        match error {
            SendError::NoSocket => Errno::EBADF,
            SendError::NoDestination => Errno::EDESTADDRREQ,
            SendError::Connected => Errno::EISCONN,
            SendError::BadDestination => Errno::EAFNOSUPPORT,
            SendError::TooLong => Errno::EMSGSIZE,
            SendError::NoBuffer => Errno::ENOBUFS,
            SendError::Broadcast => Errno::EACCES,
            SendError::NoIface => Errno::ENODEV,
            SendError::Invalid => Errno::EINVAL,
            SendError::Shut => Errno::EPIPE,
            SendError::NoPorts | SendError::BadSource => Errno::EADDRNOTAVAIL,
            SendError::Earlier(error) => error.into(),
            SendError::Output(error) => error.into(),
        }
    }
}

impl From<BindError> for Errno {
    fn from(error: BindError) -> Errno {
        match error {
            BindError::NoSocket => Errno::EBADF,
            BindError::AlreadyBound | BindError::Invalid => Errno::EINVAL,
            BindError::InUse => Errno::EADDRINUSE,
            BindError::NotOurs | BindError::NoPorts => Errno::EADDRNOTAVAIL,
            BindError::Family => Errno::EAFNOSUPPORT,
            BindError::Broadcast => Errno::EACCES,
            BindError::Output(error) => error.into(),
            BindError::TooMany => Errno::ENOBUFS,
            BindError::NotConnected => Errno::ENOTCONN,
        }
    }
}
