//! Addresses as people give them, without names: resolving is not a stack's business, and not the kernel's here.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// What stands for an address with a port.
pub trait ToAddr {
    /// The address.
    ///
    /// # Errors
    /// `InvalidInput` for what is none.
    fn to_addr(&self) -> io::Result<SocketAddr>;
}

macro_rules! into {
    ($($kind:ty),+) => { $(
        impl ToAddr for $kind {
            fn to_addr(&self) -> io::Result<SocketAddr> {
                Ok((*self).into())
            }
        }
    )+ };
}

into!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16), ([u8; 4], u16));

impl ToAddr for str {
    fn to_addr(&self) -> io::Result<SocketAddr> {
        let what = || format!("'{self}' is not ADDRESS:PORT in numbers");
        self.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, what()))
    }
}

impl ToAddr for String {
    fn to_addr(&self) -> io::Result<SocketAddr> {
        self.as_str().to_addr()
    }
}

impl ToAddr for (&str, u16) {
    fn to_addr(&self) -> io::Result<SocketAddr> {
        let what = || format!("'{}' is not an address in numbers", self.0);
        let ip: IpAddr = self.0.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, what()))?;
        Ok(SocketAddr::new(ip, self.1))
    }
}

impl<T: ToAddr + ?Sized> ToAddr for &T {
    fn to_addr(&self) -> io::Result<SocketAddr> {
        T::to_addr(self)
    }
}
