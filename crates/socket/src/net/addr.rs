//! Addresses in the form in which users write them: numeric, or a name that the host's name servers
//! resolve.

use super::{Net, lookup};
use crate::resolve::{Families, LookupError};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A numeric address with a port, or a name with a port, as with `std::net::ToSocketAddrs`.
pub trait ToAddr {
    /// Returns the address; for a name, the preferred one of its addresses.
    ///
    /// # Errors
    /// `InvalidInput` if the text is neither an address nor a name with a port; for a name also the
    /// errors of [`lookup`], converted to [`io::Error`].
    fn to_addr<N: Net>(&self, net: &N) -> io::Result<SocketAddr>;

    /// Returns all addresses of a name, the preferred one first.
    ///
    /// # Errors
    /// Those of [`ToAddr::to_addr`].
    fn to_addrs<N: Net>(&self, net: &N) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![self.to_addr(net)?])
    }
}

macro_rules! into {
    ($($kind:ty),+) => { $(
        impl ToAddr for $kind {
            fn to_addr<N: Net>(&self, _: &N) -> io::Result<SocketAddr> {
                Ok((*self).into())
            }
        }
    )+ };
}

into!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16), ([u8; 4], u16));

impl ToAddr for str {
    fn to_addr<N: Net>(&self, net: &N) -> io::Result<SocketAddr> {
        self.parse().or_else(|_| first(self, self.to_addrs(net)?))
    }

    fn to_addrs<N: Net>(&self, net: &N) -> io::Result<Vec<SocketAddr>> {
        if let Ok(addr) = self.parse() {
            return Ok(vec![addr]);
        }
        let parts = self.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let what = || format!("'{self}': expected HOST:PORT");
        let parts: (&str, u16) = parts.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, what()))?;
        parts.to_addrs(net)
    }
}

impl ToAddr for String {
    fn to_addr<N: Net>(&self, net: &N) -> io::Result<SocketAddr> {
        self.as_str().to_addr(net)
    }

    fn to_addrs<N: Net>(&self, net: &N) -> io::Result<Vec<SocketAddr>> {
        self.as_str().to_addrs(net)
    }
}

impl ToAddr for (&str, u16) {
    fn to_addr<N: Net>(&self, net: &N) -> io::Result<SocketAddr> {
        first(self.0, self.to_addrs(net)?)
    }

    fn to_addrs<N: Net>(&self, net: &N) -> io::Result<Vec<SocketAddr>> {
        let (host, port) = *self;
        lookup(net, host, port, Families::Any).map_err(|why| io::Error::new(kind(&why), why))
    }
}

impl<T: ToAddr + ?Sized> ToAddr for &T {
    fn to_addr<N: Net>(&self, net: &N) -> io::Result<SocketAddr> {
        T::to_addr(self, net)
    }

    fn to_addrs<N: Net>(&self, net: &N) -> io::Result<Vec<SocketAddr>> {
        T::to_addrs(self, net)
    }
}

fn first(host: &str, addrs: Vec<SocketAddr>) -> io::Result<SocketAddr> {
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
        // As in the standard library, `Interrupted` would make the caller retry.
        LookupError::Interrupted(_) => io::ErrorKind::ConnectionAborted,
        _ => io::ErrorKind::Other,
    }
}
