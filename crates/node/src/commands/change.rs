//! Functions that change a running host and take values instead of command words, for
//! configurations and the library. They have the effects of the commands `ip` and `arp`, and call
//! the same functions. A program that uses only these functions does not contain the commands.

use super::context::Ctl;
use super::iface::AddrChange;
use super::{ip, ipneigh, iproute, parse, six};
use crate::Host;
use crate::config::{NeighborConfig, RouteConfig};
use grammar::CommandError;
use inet::fib::{Prefix, Prefix6};
use inet::iface::{IfaceAddr, IfaceId, LOOPBACK};
use inet::ip6::IfaceAddr6;
use inet::route::{Path, Via, Via6};
use lock::Locks;
use port::Pairs;
use std::net::IpAddr;

/// Prefix and next hop of a route of either family.
enum Hop {
    V4(Prefix, Via),
    V6(Prefix6, Via6),
}

/// Adds a route, or replaces the route to the same prefix.
///
/// # Errors
/// Returns an error if there is no such iface, if the gateway is not on the link of an iface, or if
/// the table is full.
pub fn replace_route<L: Locks>(host: &Host<L>, route: &RouteConfig) -> Result<(), CommandError> {
    with(host, |ctl| match hop(ctl, route)? {
        Hop::V4(prefix, via) => ctl.add_route(prefix, &[Path { via, weight: 1 }]),
        Hop::V6(prefix, via) => ctl.add_route6(prefix, &[Path { via, weight: 1 }]),
    })
}

/// Removes the route to exactly this prefix, with this gateway and iface.
///
/// # Errors
/// Returns an error if there is no such route, iface or gateway.
pub fn remove_route<L: Locks>(host: &Host<L>, route: &RouteConfig) -> Result<(), CommandError> {
    with(host, |ctl| match hop(ctl, route)? {
        Hop::V4(prefix, via) => iproute::remove(ctl, prefix, &[Path { via, weight: 1 }]),
        Hop::V6(prefix, via) => six::remove_route(ctl, prefix, &[Path { via, weight: 1 }]),
    })
}

/// Adds a local route, so that the host receives the packets for all addresses of `prefix`.
/// `prefix` is an address or a prefix of either family.
///
/// # Errors
/// Returns an error if `prefix` is not valid, or if there is a route to it.
pub fn add_local<L: Locks>(host: &Host<L>, prefix: &str) -> Result<(), CommandError> {
    let exists = || CommandError::failed(format!("{prefix}: a route exists; use replace"));
    with(host, |ctl| {
        if prefix.contains(':') {
            let to = six::prefix(prefix)?;
            if host.stack.route6_at(ctl.cx, to).is_some() {
                return Err(exists());
            }
            return ctl.add_route6(to, &[Path { via: Via6::Local(LOOPBACK), weight: 1 }]);
        }
        let to = parse::prefix(prefix, parse::host_len)?;
        if ctl.route_at(to).is_some() {
            return Err(exists());
        }
        ctl.add_route(to, &[Path { via: Via::Local(LOOPBACK), weight: 1 }])
    })
}

/// Sets a static neighbor entry.
///
/// # Errors
/// Returns an error if there is no such iface, or if an address is not a unicast address. If no
/// iface is given, also returns an error if the address is not on the link of any iface.
pub fn set_neighbor<L: Locks>(host: &Host<L>, neighbor: &NeighborConfig) -> Result<(), CommandError> {
    with(host, |ctl| {
        let dev = dev(ctl, neighbor.dev.as_deref())?;
        match neighbor.addr {
            IpAddr::V4(addr) => {
                ipneigh::set_neighbor(ctl, dev.map_or_else(|| ctl.link_of(addr), Ok)?, addr, neighbor.mac)
            }
            IpAddr::V6(addr) => six::set_neighbor(ctl, dev.map_or_else(|| ctl.link_of6(addr), Ok)?, addr, neighbor.mac),
        }
    })
}

/// Adds an address with its prefix length to an iface. If the iface has the address with another
/// length, replaces it.
///
/// # Errors
/// Returns an error if there is no such iface, if the address cannot belong to a host, if the iface
/// already has the address with this length, or if another iface has the address.
pub fn add_addr<L: Locks>(host: &Host<L>, iface: &str, addr: IpAddr, len: u8) -> Result<(), CommandError> {
    change_addr(host, AddrChange::Add, iface, addr, len)
}

/// Removes an address from an iface, with any prefix length.
///
/// # Errors
/// Returns an error if there is no such iface, or if it does not have the address.
pub fn remove_addr<L: Locks>(host: &Host<L>, iface: &str, addr: IpAddr) -> Result<(), CommandError> {
    change_addr(host, AddrChange::Remove, iface, addr, 0)
}

fn change_addr<L: Locks>(
    host: &Host<L>,
    change: AddrChange,
    iface: &str,
    addr: IpAddr,
    len: u8,
) -> Result<(), CommandError> {
    with(host, |ctl| {
        let dev = ctl.iface(iface)?;
        match addr {
            IpAddr::V4(addr) => ip::change_addr(ctl, change, dev, IfaceAddr { addr, len }, None),
            IpAddr::V6(addr) => six::change_addr(ctl, change, dev, six::own(IfaceAddr6::new(addr, len))?),
        }
    })
}

fn with<L: Locks, R>(host: &Host<L>, change: impl FnOnce(&Ctl<'_, L>) -> R) -> R {
    change(&Ctl { host, pairs: &Pairs::new(), cx: host.cx(), json: false })
}

fn dev<L: Locks>(ctl: &Ctl<'_, L>, name: Option<&str>) -> Result<Option<IfaceId>, CommandError> {
    name.map(|name| ctl.iface(name).map(|iface| iface.id)).transpose()
}

fn hop<L: Locks>(ctl: &Ctl<'_, L>, route: &RouteConfig) -> Result<Hop, CommandError> {
    let dev = dev(ctl, route.dev.as_deref())?;
    if route.to6.is_some() || route.via6.is_some() {
        return Ok(Hop::V6(route.to6.unwrap_or(Prefix6::DEFAULT), ctl.hop6(route.via6, dev)?));
    }
    Ok(Hop::V4(route.to, ctl.hop(route.via, dev)?))
}
