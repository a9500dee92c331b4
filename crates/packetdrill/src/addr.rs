//! `struct sockaddr_in` and `sockaddr_in6` as bytes. IPv6 sockets represent an IPv4 address as an
//! IPv4-mapped address.

use crate::Errno;
use inet::udp::Domain;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Length in bytes of a `struct sockaddr_in6` without its scope id, which RFC 2133 did not define.
const SIN6_LEN: usize = 24;

/// Returns the number that the C interface uses for an address family.
pub(crate) fn number(domain: Domain) -> i32 {
    match domain {
        Domain::Inet => libc::AF_INET,
        Domain::Inet6 => libc::AF_INET6,
    }
}

/// Returns the address family with this number in the C interface.
pub(crate) fn domain(number: i32) -> Option<Domain> {
    match number {
        libc::AF_INET => Some(Domain::Inet),
        libc::AF_INET6 => Some(Domain::Inet6),
        _ => None,
    }
}

/// A parsed `struct sockaddr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// `AF_UNSPEC`: no address.
    Nobody,
    Addr(SocketAddr),
}

/// Parses a `struct sockaddr`.
pub(crate) fn parse(bytes: &[u8]) -> Result<Name, Errno> {
    let family = bytes.first_chunk().map(|two| u16::from_ne_bytes(*two)).ok_or(libc::EINVAL)?;
    let port = || bytes.get(2..4).and_then(|two| two.first_chunk()).map(|two| u16::from_be_bytes(*two));
    match domain(family.into()) {
        None if i32::from(family) == libc::AF_UNSPEC => Ok(Name::Nobody),
        None => Err(libc::EAFNOSUPPORT),
        Some(Domain::Inet) => {
            let octets: [u8; 4] = *bytes.get(4..8).and_then(|four| four.first_chunk()).ok_or(libc::EINVAL)?;
            Ok(Name::Addr(SocketAddr::from((Ipv4Addr::from(octets), port().ok_or(libc::EINVAL)?))))
        }
        Some(Domain::Inet6) => {
            let octets: [u8; 16] = *bytes.get(8..SIN6_LEN).and_then(|all| all.first_chunk()).ok_or(libc::EINVAL)?;
            let four = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).copied();
            let flow_info = four(4).map_or(0, u32::from_be_bytes);
            let scope = four(SIN6_LEN).map_or(0, u32::from_ne_bytes);
            let port = port().ok_or(libc::EINVAL)?;
            Ok(Name::Addr(SocketAddrV6::new(Ipv6Addr::from(octets), port, flow_info, scope).into()))
        }
    }
}

/// Returns an address as the `struct sockaddr` of a socket of `domain`.
pub(crate) fn emit(addr: SocketAddr, domain: Domain) -> Vec<u8> {
    let (port, family) = (addr.port().to_be_bytes(), (number(domain) as u16).to_ne_bytes());
    let (ip, scope) = match (addr, domain) {
        (SocketAddr::V4(addr), Domain::Inet) => return [&family[..], &port, &addr.ip().octets(), &[0; 8]].concat(),
        (SocketAddr::V4(addr), Domain::Inet6) => (addr.ip().to_ipv6_mapped(), 0),
        (SocketAddr::V6(addr), _) => (*addr.ip(), addr.scope_id()),
    };
    [&family[..], &port, &[0; 4], &ip.octets(), &scope.to_ne_bytes()].concat()
}

/// Returns the address used on the wire: IPv4 for an IPv4-mapped address.
pub(crate) fn on_wire(addr: SocketAddr) -> IpAddr {
    addr.ip().to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        let four: SocketAddr = "192.0.2.1:8080".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:8080".parse().unwrap();
        let six: SocketAddr = "[fe80::1%3]:8080".parse().unwrap();
        for (addr, domain, len, back) in [
            (four, Domain::Inet, 16, four),
            (four, Domain::Inet6, 28, mapped),
            (mapped, Domain::Inet6, 28, mapped),
            (six, Domain::Inet6, 28, six),
        ] {
            let bytes = emit(addr, domain);
            assert_eq!(bytes.len(), len);
            assert_eq!(parse(&bytes), Ok(Name::Addr(back)));
        }
        assert_eq!((on_wire(mapped), on_wire(six)), (four.ip(), six.ip()));
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        assert_eq!(parse(&[]), Err(libc::EINVAL));
        assert_eq!(parse(&[0, 0]), Ok(Name::Nobody));
        assert_eq!(parse(&[1, 0, 0, 0]), Err(libc::EAFNOSUPPORT));
        assert_eq!(parse(&[2, 0, 0, 80]), Err(libc::EINVAL));
        let six = [&[10, 0, 0, 80, 0, 0, 0, 0][..], &Ipv6Addr::LOCALHOST.octets()].concat();
        assert_eq!(parse(&six), Ok(Name::Addr("[::1]:80".parse().unwrap())), "without a scope id");
        assert_eq!(parse(&six[..23]), Err(libc::EINVAL));
    }
}
