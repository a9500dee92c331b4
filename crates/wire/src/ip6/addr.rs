//! What IPv6 addresses say of themselves: scopes, groups, and how a link's address becomes one (RFC 4291, RFC 2464).

use crate::Mac;
use std::net::Ipv6Addr;

/// Every node on a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Every router on a link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Every router that speaks version 2 of MLD (RFC 3810 5.2.14).
pub const ALL_MLD2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// The group of all nodes whose address ends like this one (RFC 4291 2.7.1).
pub fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from(b) << 8 | u16::from(c))
}

/// The link-local address of the station `mac`: fe80::/64 and its modified EUI-64 (RFC 2464 4, 5).
pub fn link_local(mac: Mac) -> Ipv6Addr {
    let Mac([a, b, c, d, e, f]) = mac;
    let pair = |high: u8, low: u8| u16::from(high) << 8 | u16::from(low);
    Ipv6Addr::new(0xfe80, 0, 0, 0, pair(a ^ 2, b), pair(c, 0xff), pair(0xfe, d), pair(e, f))
}

/// fe80::/10.
pub const fn is_link_local(addr: Ipv6Addr) -> bool {
    addr.segments()[0] & 0xffc0 == 0xfe80
}

/// ::ffff:0:0/96: an IPv4 address as programs write it, which belongs on no wire (RFC 4291 2.5.5.2).
pub fn is_v4_mapped(addr: Ipv6Addr) -> bool {
    addr.to_bits() >> 32 == 0xffff
}

/// How far an address is good: 1 iface, 2 link, 5 site, 14 everywhere (RFC 4291 2.7; RFC 4007 5 for unicast).
pub fn scope(addr: Ipv6Addr) -> u8 {
    match addr.octets() {
        [0xff, flags_scope, ..] => flags_scope & 0xf,
        _ if addr.is_loopback() || is_link_local(addr) => 2,
        _ => 14,
    }
}
