//! The network of both routers: two links, the stations on them, and routes to networks beyond
//! them.

use std::net::Ipv4Addr;
use wire::Mac;

/// One of the two links of the router.
pub struct Link {
    pub addr: Ipv4Addr,
    pub len: u8,
    pub mtu: u16,
    pub mac: Mac,
}

const fn link(addr: [u8; 4], len: u8, mtu: u16, n: u8) -> Link {
    Link { addr: octets(addr), len, mtu, mac: Mac([0x02, 0, 0, 0, 0xfe, n]) }
}

const fn octets([a, b, c, d]: [u8; 4]) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

pub const LINKS: [Link; 2] = [link([10, 0, 0, 1], 22, 1500, 0), link([10, 0, 4, 1], 24, 600, 1)];
/// The gateway of each link; [`SECOND`] is another gateway on the first link.
pub const GATEWAYS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 4, 2)];
pub const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
/// Number of stations. Those on the first link are in 10.0.1.0 and the two /24 after it; those on
/// the second link have numbers below this one.
pub const STATIONS: u8 = 240;

/// Destination of a route.
#[derive(Clone, Copy)]
pub enum To {
    /// The gateway of the link.
    Gateway(usize),
    /// The second gateway of the first link.
    Second,
    Reject,
    Prohibit,
    Blackhole,
}

/// 10.1 is beyond the first link and 10.2 beyond the second. A part of 10.2 is beyond the first
/// link, so stations there are redirected.
pub const ROUTES: [(&str, To); 6] = [
    ("10.1.0.0/16", To::Gateway(0)),
    ("10.2.0.0/16", To::Gateway(1)),
    ("10.2.9.0/24", To::Second),
    ("10.3.0.0/16", To::Reject),
    ("10.4.0.0/16", To::Prohibit),
    ("10.5.0.0/16", To::Blackhole),
];

/// Returns the link by which the routes reach an address.
pub fn link_to(addr: Ipv4Addr) -> Option<usize> {
    match addr.octets() {
        [10, 0, 0..=3, _] | [10, 1, ..] | [10, 2, 9, _] => Some(0),
        [10, 0, 4, _] | [10, 2, ..] => Some(1),
        _ => None,
    }
}

/// Returns the MAC address of a station.
pub fn mac(addr: Ipv4Addr) -> Mac {
    let [_, b, c, d] = addr.octets();
    Mac([0x02, 0, 0, b, c, d])
}

/// Returns the neighbors on the links: all stations to which either router needs to send.
pub fn neighbors() -> Vec<(usize, Ipv4Addr)> {
    let first = (1..=3).flat_map(|third| (1..=STATIONS).map(move |last| (0, Ipv4Addr::new(10, 0, third, last))));
    let second = (2..=STATIONS).map(|last| (1, Ipv4Addr::new(10, 0, 4, last)));
    let gateways = [GATEWAYS[0], SECOND].map(|addr| (0, addr));
    first.chain(second).chain(gateways).collect()
}
