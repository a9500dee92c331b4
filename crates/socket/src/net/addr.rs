//! Addresses in the form in which users write them: numeric, or a name that the host's name servers
//! resolve.

use super::{Net, lookup};
use crate::AnyPrefix;
use crate::resolve::{Families, LookupError};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Target of a socket call, before its name is resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Target<'a> {
    /// A numeric address.
    Addr(SocketAddr),
    /// A name, or an address with a zone, and a port.
    Name(&'a str, u16),
}

/// A numeric address with a port, or a name with a port, as with `std::net::ToSocketAddrs`.
pub trait ToAddr {
    /// Returns the address or the name, which is not resolved yet.
    ///
    /// # Errors
    /// `InvalidInput` if the text is neither an address nor a name with a port.
    fn target(&self) -> io::Result<Target<'_>>;

    /// Returns a reference to the address if `self` is a [`SocketAddr`], so that sending does not
    /// copy it.
    #[inline]
    fn as_addr(&self) -> Option<&SocketAddr> {
        None
    }

    /// Returns the address; for a name, the preferred one of its addresses.
    ///
    /// # Errors
    /// Those of [`ToAddr::target`]; for a name also the errors of [`lookup`], converted to
    /// [`io::Error`].
    #[inline]
    fn to_addr<N: Net>(&self, net: &N) -> io::Result<SocketAddr> {
        match self.target()? {
            Target::Addr(addr) => Ok(addr),
            Target::Name(host, port) => resolve_first(net, host, port),
        }
    }

    /// Returns all addresses of a name, the preferred one first.
    ///
    /// # Errors
    /// Those of [`ToAddr::to_addr`].
    fn to_addrs<N: Net>(&self, net: &N) -> io::Result<Vec<SocketAddr>> {
        match self.target()? {
            Target::Addr(addr) => Ok(vec![addr]),
            Target::Name(host, port) => resolve(net, host, port),
        }
    }
}

macro_rules! into {
    ($($kind:ty),+) => { $(
        impl ToAddr for $kind {
            #[inline]
            fn target(&self) -> io::Result<Target<'_>> {
                Ok(Target::Addr((*self).into()))
            }
        }
    )+ };
}

impl ToAddr for SocketAddr {
    #[inline]
    fn target(&self) -> io::Result<Target<'_>> {
        Ok(Target::Addr(*self))
    }

    #[inline]
    fn as_addr(&self) -> Option<&SocketAddr> {
        Some(self)
    }
}

into!(SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16), ([u8; 4], u16));

impl ToAddr for str {
    fn target(&self) -> io::Result<Target<'_>> {
        if let Ok(addr) = self.parse() {
            return Ok(Target::Addr(addr));
        }
        let parts = self.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("'{self}': expected HOST:PORT")))?;
        Ok(Target::Name(host, port))
    }
}

impl ToAddr for String {
    fn target(&self) -> io::Result<Target<'_>> {
        self.as_str().target()
    }
}

impl ToAddr for (&str, u16) {
    fn target(&self) -> io::Result<Target<'_>> {
        Ok(Target::Name(self.0, self.1))
    }
}

impl<T: ToAddr + ?Sized> ToAddr for &T {
    #[inline]
    fn target(&self) -> io::Result<Target<'_>> {
        T::target(self)
    }

    #[inline]
    fn as_addr(&self) -> Option<&SocketAddr> {
        T::as_addr(self)
    }
}

#[cold]
fn resolve_first<N: Net>(net: &N, host: &str, port: u16) -> io::Result<SocketAddr> {
    first(host, resolve(net, host, port)?)
}

fn resolve<N: Net>(net: &N, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    lookup(net, host, port, Families::Any).map_err(lookup_error)
}

/// Converts a name lookup error to an I/O error.
pub(super) fn lookup_error(why: LookupError) -> io::Error {
    io::Error::new(kind(&why), why)
}

pub(super) fn first(host: &str, addrs: Vec<SocketAddr>) -> io::Result<SocketAddr> {
    let what = || io::Error::new(io::ErrorKind::NotFound, LookupError::NoAddress(host.to_string()));
    addrs.first().copied().ok_or_else(what)
}

/// Returns the kind of I/O error for a failed name lookup.
fn kind(why: &LookupError) -> io::ErrorKind {
    match why {
        LookupError::BadName(_) | LookupError::BadZone(_) | LookupError::NoZone(_) | LookupError::OtherFamily(..) => {
            io::ErrorKind::InvalidInput
        }
        LookupError::NotFound(_) | LookupError::NoAddress(_) => io::ErrorKind::NotFound,
        LookupError::TimedOut { .. } => io::ErrorKind::TimedOut,
        LookupError::Unreachable { .. } => io::ErrorKind::HostUnreachable,
        // Not `Interrupted`, since callers retry on it, as with the standard library.
        LookupError::Interrupted(_) => io::ErrorKind::ConnectionAborted,
        LookupError::Simulated(_) => io::ErrorKind::Deadlock,
        _ => io::ErrorKind::Other,
    }
}

/// Parses a prefix such as `10.0.0.0/8`.
pub(super) fn parsed_prefix(prefix: &str) -> io::Result<AnyPrefix> {
    AnyPrefix::parse(prefix).ok_or_else(|| {
        let why = format!("prefix '{prefix}': expected a prefix as in 10.0.0.0/8 or 2001:db8::/32");
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}
