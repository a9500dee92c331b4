//! Socket addresses in the memory of a program: `struct sockaddr_in` and `sockaddr_in6`.

use inet::udp::Domain;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const INET: u16 = libc::AF_INET as u16;
const INET6: u16 = libc::AF_INET6 as u16;
/// Length of `sockaddr_in6`, the longer one.
pub const LEN_MAX: usize = 28;

/// Parses an address. Returns `None` if it is shorter than its family requires, or of another
/// family.
pub fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match family {
        INET => {
            let _whole = bytes.get(..16)?;
            let addr: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some((Ipv4Addr::from(addr), port).into())
        }
        INET6 => {
            let addr: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let flow = u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?);
            let zone = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
            Some(SocketAddrV6::new(addr.into(), port, flow, zone).into())
        }
        _ => None,
    }
}

/// Returns the address as a socket of the family `domain` reports it. An IPv6 socket reports an
/// IPv4 address as an IPv4-mapped one.
pub fn encode(addr: SocketAddr, domain: Domain) -> Vec<u8> {
    let mut out = Vec::with_capacity(LEN_MAX);
    match (domain, addr.ip().to_canonical()) {
        (Domain::Inet, ip) => {
            let v4 = if let IpAddr::V4(v4) = ip { v4 } else { Ipv4Addr::UNSPECIFIED };
            out.extend(INET.to_ne_bytes());
            out.extend(addr.port().to_be_bytes());
            out.extend(v4.octets());
            out.extend([0; 8]);
        }
        (Domain::Inet6, ip) => {
            let v6 = match ip {
                IpAddr::V4(v4) if v4.is_unspecified() => Ipv6Addr::UNSPECIFIED,
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            let zone = if let SocketAddr::V6(v6) = addr { v6.scope_id() } else { 0 };
            out.extend(INET6.to_ne_bytes());
            out.extend(addr.port().to_be_bytes());
            out.extend([0; 4]);
            out.extend(v6.octets());
            out.extend(zone.to_ne_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_written_and_parsed() {
        for text in ["10.0.0.1:80", "[fe80::1%3]:443", "[::]:0"] {
            let addr: SocketAddr = text.parse().unwrap();
            let domain = if addr.is_ipv4() { Domain::Inet } else { Domain::Inet6 };
            let bytes = encode(addr, domain);
            assert_eq!(bytes.len(), if addr.is_ipv4() { 16 } else { LEN_MAX });
            assert_eq!(parse(&bytes), Some(addr), "{text}");
            assert_eq!(parse(&bytes[..bytes.len() - 1]), None);
        }
        let mapped = encode("10.0.0.1:80".parse().unwrap(), Domain::Inet6);
        assert_eq!(parse(&mapped), Some("[::ffff:10.0.0.1]:80".parse().unwrap()));
        assert_eq!([parse(&[]), parse(&[1, 0, 0, 80, 0, 0, 0, 0])], [None; 2]);
    }
}
