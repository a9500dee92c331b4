//! Errors by their BSD names, with the numbers that Linux uses.

use inet::ip4::OutputError;
use inet::udp::{BindError, SendError, SoError};
use std::fmt;
use std::io;

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
            /// Returns the description of the error as a sentence.
            pub fn sentence(self) -> &'static str {
                match self { $( Errno::$name => concat!($($sentence),+).trim_ascii() ),+ }
            }
        }
    };
}

errnos! {
    /// Interrupted system call: the host is stopping.
    EINTR = 4,
    /// Bad file descriptor.
    EBADF = 9,
    /// Resource temporarily unavailable: the call would block, or its timeout expired.
    EAGAIN = 11,
    /// Permission denied: broadcast without SO_BROADCAST.
    EACCES = 13,
    /// No such device: unknown interface.
    ENODEV = 19,
    /// Invalid argument.
    EINVAL = 22,
    /// Too many open files.
    EMFILE = 24,
    /// Broken pipe: the socket is shut down for writing.
    EPIPE = 32,
    /// Resource deadlock avoided: the call would wait for the virtual time of a simulation, which
    /// only the simulation advances.
    EDEADLK = 35,
    /// Destination address required: none given, and the socket is not connected.
    EDESTADDRREQ = 89,
    /// Message too long: longer than a datagram can be, or than the path accepts without
    /// fragmentation.
    EMSGSIZE = 90,
    /// Protocol not available: unknown option, or a parameter problem reported by a router.
    ENOPROTOOPT = 92,
    /// Protocol not supported by this kind of socket.
    EPROTONOSUPPORT = 93,
    /// Operation not supported by this kind of socket.
    EOPNOTSUPP = 95,
    /// Address family not supported by protocol.
    EAFNOSUPPORT = 97,
    /// Address already in use.
    EADDRINUSE = 98,
    /// Cannot assign requested address: not an address of this host, or no free port.
    EADDRNOTAVAIL = 99,
    /// Network is down: the interface is down.
    ENETDOWN = 100,
    /// Network is unreachable: no route.
    ENETUNREACH = 101,
    /// Connection reset by peer.
    ECONNRESET = 104,
    /// No buffer space available.
    ENOBUFS = 105,
    /// Socket is already connected.
    EISCONN = 106,
    /// Socket is not connected.
    ENOTCONN = 107,
    /// Connection timed out.
    ETIMEDOUT = 110,
    /// Connection refused.
    ECONNREFUSED = 111,
    /// No route to host.
    EHOSTUNREACH = 113,
    /// Operation already in progress: the handshake is not yet complete.
    EALREADY = 114,
    /// Operation now in progress: the socket becomes writable after the handshake.
    EINPROGRESS = 115,
}

impl Errno {
    /// Returns the number that Linux uses for the error.
    pub fn raw(self) -> i32 {
        self as i32
    }

    /// Returns the errno from which `error` was created; `None` if `error` has another origin. On
    /// Linux, an error of the kernel with the same number cannot be distinguished and is returned,
    /// too.
    pub fn of(error: &io::Error) -> Option<Errno> {
        match error.raw_os_error() {
            Some(raw) if cfg!(target_os = "linux") => Errno::ALL.iter().copied().find(|errno| errno.raw() == raw),
            Some(_) => None,
            None => error.get_ref()?.downcast_ref().copied(),
        }
    }

    /// Returns the kind that the standard library derives from the error.
    #[cfg(not(target_os = "linux"))]
    fn kind(self) -> io::ErrorKind {
        use io::ErrorKind;
        match self {
            Errno::EINTR => ErrorKind::Interrupted,
            Errno::EAGAIN => ErrorKind::WouldBlock,
            Errno::EACCES => ErrorKind::PermissionDenied,
            Errno::EINVAL => ErrorKind::InvalidInput,
            Errno::EPIPE => ErrorKind::BrokenPipe,
            Errno::EDEADLK => ErrorKind::Deadlock,
            Errno::EADDRINUSE => ErrorKind::AddrInUse,
            Errno::EADDRNOTAVAIL => ErrorKind::AddrNotAvailable,
            Errno::ENETDOWN => ErrorKind::NetworkDown,
            Errno::ENETUNREACH => ErrorKind::NetworkUnreachable,
            Errno::ECONNRESET => ErrorKind::ConnectionReset,
            Errno::ENOTCONN => ErrorKind::NotConnected,
            Errno::ETIMEDOUT => ErrorKind::TimedOut,
            Errno::ECONNREFUSED => ErrorKind::ConnectionRefused,
            Errno::EHOSTUNREACH => ErrorKind::HostUnreachable,
            _ => ErrorKind::Other,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.sentence())
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for io::Error {
    #[cfg(target_os = "linux")]
    fn from(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.raw())
    }

    /// Wraps the errno with its standard kind, since other systems use other error numbers.
    #[cfg(not(target_os = "linux"))]
    fn from(errno: Errno) -> io::Error {
        io::Error::new(errno.kind(), errno)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_standard_library_keeps_its_origin() {
        for errno in Errno::ALL {
            assert_eq!(Errno::of(&io::Error::from(*errno)), Some(*errno));
        }
        assert_eq!(Errno::of(&io::Error::new(io::ErrorKind::ConnectionAborted, Errno::EINTR)), Some(Errno::EINTR));
        assert_eq!(Errno::of(&io::Error::from_raw_os_error(2)), None);
        assert_eq!(Errno::of(&io::ErrorKind::WouldBlock.into()), None);
        assert_eq!(Errno::of(&io::Error::other("another origin")), None);
    }
}
