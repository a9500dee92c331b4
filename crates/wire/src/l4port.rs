//! Port number of TCP and UDP, so that no signature contains a bare `port: u16`.

use core::fmt;

/// A TCP or UDP port number. Switch ports have a type of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct L4Port(pub u16);

impl From<u16> for L4Port {
    #[inline]
    fn from(number: u16) -> Self {
        L4Port(number)
    }
}

impl From<L4Port> for u16 {
    #[inline]
    fn from(port: L4Port) -> Self {
        port.0
    }
}

impl fmt::Display for L4Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
