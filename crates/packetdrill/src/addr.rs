//! `struct sockaddr_in` and `sockaddr_in6` as bytes. An IPv6 socket speaks IPv4 through mapped addresses.

use crate::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A socket's family, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub fn number(self) -> i32 {
        match self {
            Family::V4 => libc::AF_INET,
            Family::V6 => libc::AF_INET6,
        }
    }

    pub fn of(number: i32) -> Option<Family> {
        match number {
            libc::AF_INET => Some(Family::V4),
            libc::AF_INET6 => Some(Family::V6),
            _ => None,
        }
    }
}

/// What a `struct sockaddr` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// `AF_UNSPEC`.
    Nobody,
    Addr(SocketAddr),
}

/// Reads a `struct sockaddr`.
pub(crate) fn parse(bytes: &[u8]) -> Result<Name, Errno> {
    let family = bytes.first_chunk().map(|two| u16::from_ne_bytes(*two)).ok_or(libc::EINVAL)?;
    let port = || bytes.get(2..4).and_then(|two| two.first_chunk()).map(|two| u16::from_be_bytes(*two));
    match Family::of(family.into()) {
        None if i32::from(family) == libc::AF_UNSPEC => Ok(Name::Nobody),
        None => Err(libc::EAFNOSUPPORT),
        Some(Family::V4) => {
            let octets: [u8; 4] = *bytes.get(4..8).and_then(|four| four.first_chunk()).ok_or(libc::EINVAL)?;
            Ok(Name::Addr(SocketAddr::from((Ipv4Addr::from(octets), port().ok_or(libc::EINVAL)?))))
        }
        Some(Family::V6) => {
            let octets: [u8; 16] = *bytes.get(8..24).and_then(|all| all.first_chunk()).ok_or(libc::EINVAL)?;
            let addr = Ipv6Addr::from(octets);
            let addr = match addr.to_ipv4_mapped() {
                Some(addr) => addr,
                None if addr.is_unspecified() => Ipv4Addr::UNSPECIFIED,
                None => return Err(libc::EADDRNOTAVAIL), // IPv6 is not spoken here
            };
            Ok(Name::Addr(SocketAddr::from((addr, port().ok_or(libc::EINVAL)?))))
        }
    }
}

/// The `struct sockaddr` of a socket of `family`.
pub(crate) fn emit(addr: SocketAddr, family: Family) -> Vec<u8> {
    let IpAddr::V4(ip) = addr.ip() else { return Vec::new() };
    let port = addr.port().to_be_bytes();
    match family {
        Family::V4 => {
            let family = (libc::AF_INET as u16).to_ne_bytes();
            [&family[..], &port, &ip.octets(), &[0; 8]].concat()
        }
        Family::V6 => {
            let family = (libc::AF_INET6 as u16).to_ne_bytes();
            [&family[..], &port, &[0; 4], &ip.to_ipv6_mapped().octets(), &[0; 4]].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let addr: SocketAddr = "192.0.2.1:8080".parse().unwrap();
        for (family, len) in [(Family::V4, 16), (Family::V6, 28)] {
            let bytes = emit(addr, family);
            assert_eq!(bytes.len(), len);
            assert_eq!(parse(&bytes), Ok(Name::Addr(addr)));
        }
    }

    #[test]
    fn what_is_no_address() {
        assert_eq!(parse(&[]), Err(libc::EINVAL));
        assert_eq!(parse(&[0, 0]), Ok(Name::Nobody));
        assert_eq!(parse(&[1, 0, 0, 0]), Err(libc::EAFNOSUPPORT));
        assert_eq!(parse(&[2, 0, 0, 80]), Err(libc::EINVAL));
        let mut six = vec![10, 0, 0, 80, 0, 0, 0, 0];
        six.extend(Ipv6Addr::LOCALHOST.octets());
        assert_eq!(parse(&six), Err(libc::EADDRNOTAVAIL));
    }
}
