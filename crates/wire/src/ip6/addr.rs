//! IPv6 addresses: scopes, groups, and link-local addresses formed from MAC addresses (RFC 4291,
//! RFC 2464).

use crate::Mac;
use core::net::Ipv6Addr;

/// Multicast group of all nodes on a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Multicast group of all routers on a link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Multicast group of all routers on a link that support MLD version 2 (RFC 3810 5.2.14).
pub const ALL_MLD2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Returns the solicited-node multicast group of an address (RFC 4291 2.7.1).
pub fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from(b) << 8 | u16::from(c))
}

/// Returns the link-local address of the station with MAC address `mac`: fe80::/64 with the
/// modified EUI-64 (RFC 2464 4, 5).
pub fn link_local(mac: Mac) -> Ipv6Addr {
    let Mac([a, b, c, d, e, f]) = mac;
    let pair = |high: u8, low: u8| u16::from(high) << 8 | u16::from(low);
    Ipv6Addr::new(0xfe80, 0, 0, 0, pair(a ^ 2, b), pair(c, 0xff), pair(0xfe, d), pair(e, f))
}

/// Returns whether the address is link-local (fe80::/10).
pub const fn is_link_local(addr: Ipv6Addr) -> bool {
    addr.segments()[0] & 0xffc0 == 0xfe80
}

/// Returns whether the address is IPv4-mapped (::ffff:0:0/96). Programs use such addresses, but
/// they do not appear on the wire (RFC 4291 2.5.5.2).
pub fn is_v4_mapped(addr: Ipv6Addr) -> bool {
    addr.to_bits() >> 32 == 0xffff
}

/// Returns the scope of an address: 1 interface, 2 link, 5 site, 14 global (RFC 4291 2.7; RFC 4007
/// 5 for unicast).
pub fn scope(addr: Ipv6Addr) -> u8 {
    match addr.octets() {
        [0xff, flags_scope, ..] => flags_scope & 0xf,
        _ if addr.is_loopback() || is_link_local(addr) => 2,
        _ => 14,
    }
}
