//! IPv6 zones (RFC 4007): a link-local address is valid on a single link only.
//!
//! Inside the stack, as in KAME, a link-local address contains its zone in its second 16 bits,
//! which are 0 on the wire (RFC 4291 2.5.6). Addresses on different links therefore differ in all
//! comparisons. The zone is the number of the interface plus one, since 0 means no zone. Programs
//! use the same number as the scope id of a [`std::net::SocketAddrV6`].

use crate::iface::IfaceId;
use std::net::{Ipv6Addr, SocketAddr};
use wire::ip6;

const ZONE: u128 = 0xffff << 96;

/// Returns the bits of `addr`. If `addr` is link-local, the bits include the zone of `iface`; with
/// `None`, they include no zone.
pub(crate) fn embed(addr: Ipv6Addr, iface: Option<IfaceId>) -> u128 {
    let bits = addr.to_bits();
    if !ip6::is_link_local(addr) {
        return bits;
    }
    bits & !ZONE | u128::from(iface.map_or(0, scope_id)) << 96
}

/// Returns whether the zone bits of a link-local address are set, which they never are on the wire
/// (RFC 4291 2.5.6).
pub(crate) fn is_forged(addr: Ipv6Addr) -> bool {
    ip6::is_link_local(addr) && addr.to_bits() & ZONE != 0
}

/// Returns the address in wire format. If it is link-local and contains an interface, also returns
/// the interface.
pub(crate) fn split(bits: u128) -> (Ipv6Addr, Option<IfaceId>) {
    let addr = Ipv6Addr::from_bits(bits);
    if !ip6::is_link_local(addr) {
        return (addr, None);
    }
    (Ipv6Addr::from_bits(bits & !ZONE), iface_of((bits >> 96) as u16 as u32))
}

/// Returns the scope id of an interface, as programs use it.
pub fn scope_id(iface: IfaceId) -> u32 {
    u32::from(iface.0) + 1
}

/// Returns the interface of a scope id. Returns `None` for 0, which means no zone, and for values
/// out of range.
pub fn iface_of(scope_id: u32) -> Option<IfaceId> {
    scope_id.checked_sub(1).and_then(|number| u16::try_from(number).ok()).map(IfaceId)
}

/// Returns `addr` in the form that an IPv6 socket uses: an IPv4 address is mapped (RFC 3493 3.7).
pub fn mapped(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        v6 => v6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_carries_its_iface_and_others_do_not() {
        let (near, far): (Ipv6Addr, Ipv6Addr) = ("fe80::1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let (one, two) = (embed(near, Some(IfaceId(1))), embed(near, Some(IfaceId(2))));
        assert_ne!(one, two);
        assert_eq!(split(one), (near, Some(IfaceId(1))));
        assert_eq!(split(embed(near, None)), (near, None));
        assert_eq!(split(embed(far, Some(IfaceId(1)))), (far, None));
        // Bits that a program or an attacker has set at the position of the zone are not a zone.
        let forged: Ipv6Addr = "fe80:2::1".parse().unwrap();
        assert_eq!((embed(forged, None), embed(forged, Some(IfaceId(2)))), (embed(near, None), two));
        assert!(is_forged(forged) && !is_forged(near) && !is_forged(far));
        assert_eq!((iface_of(0), iface_of(3), iface_of(70_000)), (None, Some(IfaceId(2)), None));
    }
}
