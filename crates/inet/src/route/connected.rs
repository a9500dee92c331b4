//! IPv4 routes that are added and removed with an interface address.

use super::via::Via;
use crate::iface::{Iface, IfaceAddr, IfaceKind};
use fib::Prefix;
use lock::Locks;
use std::net::Ipv4Addr;

/// Returns the routes of an interface address: to its network, to its broadcast addresses and to
/// the address itself.
#[inline(never)]
pub(crate) fn connected_routes<L: Locks>(iface: &Iface<L>, addr: IfaceAddr) -> Vec<(Prefix, Via)> {
    let mut routes = Vec::new();
    let mut add = |dst: Ipv4Addr, len: u8, via: Via| routes.extend(Prefix::new(dst, len).ok().map(|p| (p, via)));
    match iface.kind {
        IfaceKind::Loopback => add(addr.addr, addr.len, Via::Local(iface.id)),
        IfaceKind::Ethernet => {
            add(addr.addr, addr.len, Via::Link(iface.id));
            if let Some(broadcast) = addr.broadcast() {
                add(broadcast, 32, Via::Broadcast(iface.id));
                add(Ipv4Addr::from(u32::from(addr.addr) & addr.mask()), 32, Via::Broadcast(iface.id)); // RFC 1122 3.3.6
            }
            add(addr.addr, 32, Via::Local(iface.id));
        }
        IfaceKind::Tunnel => {
            add(addr.addr, addr.len, Via::Link(iface.id));
            add(addr.addr, 32, Via::Local(iface.id));
        }
        IfaceKind::Mirror => {} // has no addresses
    }
    routes
}
