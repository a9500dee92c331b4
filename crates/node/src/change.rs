//! Methods that change a running host: addresses, routes and neighbors. The configuration, the
//! commands and the library all call them.

mod six;

use crate::Host;
use crate::address;
use crate::config::{NeighborConfig, RouteConfig};
use grammar::CommandError;
use inet::fib::{IpPrefix, Matched, Prefix, Prefix6};
use inet::iface::{Iface, IfaceAddr, IfaceId, IfaceKind, LOOPBACK};
use inet::ip6::IfaceAddr6;
use inet::route::{Path, Routes, Via, Via6};
use lock::Locks;
use std::net::{IpAddr, Ipv4Addr};
use wire::Mac;

/// Change of an address of an iface.
#[derive(Clone, Copy, Debug)]
pub enum AddrChange {
    /// Adds an address. If the iface has the address with another prefix length, replaces it.
    Add,
    /// Adds an address, or replaces it.
    Replace,
    /// Removes an address, with any prefix length.
    Remove,
}

/// Prefix and next hop of a route of either family.
enum Hop {
    V4(Prefix, Via),
    V6(Prefix6, Via6),
}

/// Returns the error for a prefix without an own route that could be changed or removed.
fn not_own<A: Matched>(routes: &Routes<A>, prefix: IpPrefix<A>) -> CommandError {
    CommandError::failed(match routes.at(prefix).is_some_and(|route| !route.origin.is_own()) {
        true => format!("{prefix} is a route of the routing engine; change or remove it there"),
        false => format!("there is no route to {prefix}"),
    })
}

fn nowhere(addr: impl std::fmt::Display) -> CommandError {
    CommandError::failed(format!("{addr} is not on the link of an interface: add an address on its link first"))
}

/// Returns the error for a route that exists already.
pub fn has_route(prefix: impl std::fmt::Display) -> CommandError {
    CommandError::failed(format!("{prefix}: a route exists; use replace"))
}

/// Returns whether the next hop `via` of a route is `paths`. `all` are the paths of the route if it
/// has several. Without `paths`, any next hop matches. A path that names only an iface matches any
/// gateway on that iface.
fn is_by<G: PartialEq + Copy>(via: Via<G>, all: impl FnOnce() -> Vec<Path<G>>, paths: &[Path<G>]) -> bool {
    match (via, paths) {
        (_, []) => true,
        (Via::Paths(_), paths) => all() == paths,
        (Via::Gateway(id, _) | Via::Gateway6(id, _), [Path { via: Via::Link(dev), .. }]) => id == *dev,
        (via, [only]) => only.via == via,
        _ => false,
    }
}

impl<L: Locks> Host<L> {
    /// Returns the iface called `name`.
    ///
    /// # Errors
    /// Returns an error with the nearest name if there is no such iface.
    pub fn iface(&self, name: &str) -> Result<&Iface<L>, CommandError> {
        let names = self.stack.ifaces().map(|iface| iface.name.as_str());
        self.stack.iface_named(name).ok_or_else(|| CommandError::unknown("iface", name, names))
    }

    /// Returns the iface on whose link `addr` is. If the prefixes of several ifaces contain `addr`,
    /// returns the iface with the longest prefix.
    ///
    /// # Errors
    /// Returns an error if `addr` is not on the link of any iface.
    pub fn link_of(&self, addr: Ipv4Addr) -> Result<IfaceId, CommandError> {
        let cx = self.cx();
        let ifaces = self.stack.ifaces().filter(|iface| iface.kind != IfaceKind::Loopback);
        let mut best: Option<(u8, IfaceId)> = None;
        for iface in ifaces {
            let is_peer = |own: &IfaceAddr| self.stack.peer(cx, iface.id, own.addr) == Some(addr);
            for own in iface.addrs(cx).iter().filter(|own| own.contains(addr) || is_peer(own)) {
                if best.is_none_or(|(len, _)| own.len > len) {
                    best = Some((own.len, iface.id));
                }
            }
        }
        best.map(|(_, id)| id).ok_or_else(|| nowhere(addr))
    }

    /// Returns the next hop of an IPv4 route through `gateway`, on the link of `dev` if given;
    /// without a gateway, the destinations are on that link.
    ///
    /// # Errors
    /// Returns an error if neither is given, if the gateway is not on the link of any iface, or for
    /// a link-local gateway without `dev`.
    pub fn hop(&self, gateway: Option<IpAddr>, dev: Option<IfaceId>) -> Result<Via, CommandError> {
        match (gateway, dev) {
            (Some(IpAddr::V6(gateway)), dev) => {
                self.gateway6(gateway, dev).map(|(dev, gateway)| Via::Gateway6(dev, gateway))
            }
            (Some(IpAddr::V4(gateway)), dev) => {
                let dev = dev.map_or_else(|| self.link_of(gateway), Ok)?;
                self.reject_mirror(dev).map(|()| Via::Gateway(dev, gateway))
            }
            (None, Some(dev)) => self.reject_mirror(dev).map(|()| Via::Link(dev)),
            (None, None) => Err(CommandError::missing("via GATEWAY or dev IF")),
        }
    }

    /// Returns an error if the iface is a mirror, which has no addresses and no routes.
    ///
    /// # Errors
    /// Returns an error with the name of the iface to use instead.
    pub fn reject_mirror(&self, id: IfaceId) -> Result<(), CommandError> {
        let Some(mirror) = self.stack.iface(id).filter(|iface| iface.kind == IfaceKind::Mirror) else { return Ok(()) };
        let of = mirror.peer().and_then(|of| self.stack.iface(of)).map_or("another iface", |of| of.name.as_str());
        Err(CommandError::failed(format!("{} is the mirror of {of}: use {of}", mirror.name)))
    }

    /// Adds or replaces a route with one or several paths.
    ///
    /// # Errors
    /// Returns the error of the table.
    pub fn replace_paths(&self, prefix: Prefix, paths: &[Path]) -> Result<(), CommandError> {
        let added = match paths {
            [only] => self.stack.add_route(self.cx(), prefix, only.via),
            _ => self.stack.add_paths(self.cx(), prefix, paths),
        };
        added.map(drop).map_err(|why| CommandError::failed(format!("{prefix}: {why}")))
    }

    /// Replaces the paths of the own route to exactly `prefix`.
    ///
    /// # Errors
    /// Returns an error if there is no such route, or the error of the table.
    pub fn change_paths(&self, prefix: Prefix, paths: &[Path]) -> Result<(), CommandError> {
        let cx = self.cx();
        match self.stack.route_at(cx, prefix) {
            Some(_) => self.replace_paths(prefix, paths),
            None => Err(self.stack.change_routes(cx, |routes, _| (false, not_own(routes, prefix)))),
        }
    }

    /// Removes the route to exactly `prefix`. If `paths` is empty, the route may have any next hop.
    ///
    /// # Errors
    /// Returns an error if there is no such route.
    pub fn remove_paths(&self, prefix: Prefix, paths: &[Path]) -> Result<(), CommandError> {
        let cx = self.cx();
        if !self.stack.route_at(cx, prefix).is_some_and(|via| is_by(via, || self.stack.paths(cx, via), paths)) {
            return Err(self.stack.change_routes(cx, |routes, _| (false, not_own(routes, prefix))));
        }
        self.stack.remove_route(cx, prefix);
        Ok(())
    }

    /// Adds a route, or replaces the route to the same prefix.
    ///
    /// # Errors
    /// Returns an error if there is no such iface, if the gateway is not on the link of an iface,
    /// or if the table is full.
    pub fn replace_route(&self, route: &RouteConfig) -> Result<(), CommandError> {
        match self.hop_of(route)? {
            Hop::V4(prefix, via) => self.replace_paths(prefix, &[Path { via, weight: 1 }]),
            Hop::V6(prefix, via) => self.replace_paths6(prefix, &[Path { via, weight: 1 }]),
        }
    }

    /// Removes the route to exactly this prefix, with this gateway and iface.
    ///
    /// # Errors
    /// Returns an error if there is no such route, iface or gateway.
    pub fn remove_route(&self, route: &RouteConfig) -> Result<(), CommandError> {
        match self.hop_of(route)? {
            Hop::V4(prefix, via) => self.remove_paths(prefix, &[Path { via, weight: 1 }]),
            Hop::V6(prefix, via) => self.remove_paths6(prefix, &[Path { via, weight: 1 }]),
        }
    }

    /// Adds a local route, so that the host receives the packets for all addresses of `prefix`.
    /// `prefix` is an address or a prefix of either family.
    ///
    /// # Errors
    /// Returns an error if `prefix` is not valid, or if there is a route to it.
    pub fn add_local(&self, prefix: &str) -> Result<(), CommandError> {
        if prefix.contains(':') {
            let to = address::six::prefix(prefix)?;
            return match self.stack.route6_at(self.cx(), to) {
                Some(_) => Err(has_route(prefix)),
                None => self.replace_paths6(to, &[Path { via: Via6::Local(LOOPBACK), weight: 1 }]),
            };
        }
        let to = address::prefix(prefix, address::host_len)?;
        match self.stack.route_at(self.cx(), to) {
            Some(_) => Err(has_route(prefix)),
            None => self.replace_paths(to, &[Path { via: Via::Local(LOOPBACK), weight: 1 }]),
        }
    }

    /// Sets a static neighbor entry from a configuration.
    ///
    /// # Errors
    /// Returns an error if there is no such iface, or if an address is not a unicast address. If no
    /// iface is given, also returns an error if the address is not on the link of any iface.
    pub fn set_neighbor(&self, neighbor: &NeighborConfig) -> Result<(), CommandError> {
        let dev = self.dev(neighbor.dev.as_deref())?;
        match neighbor.addr {
            IpAddr::V4(addr) => {
                self.set_static_neighbor(dev.map_or_else(|| self.link_of(addr), Ok)?, addr, neighbor.mac)
            }
            IpAddr::V6(addr) => {
                self.set_static_neighbor6(dev.map_or_else(|| self.link_of6(addr), Ok)?, addr, neighbor.mac)
            }
        }
    }

    /// Sets a static neighbor entry.
    ///
    /// # Errors
    /// Returns an error if an address is not a unicast address.
    pub fn set_static_neighbor(&self, dev: IfaceId, addr: Ipv4Addr, mac: Mac) -> Result<(), CommandError> {
        let mac = address::unicast(mac)?;
        self.reject_mirror(dev)?;
        if addr.is_multicast() || addr.is_unspecified() || addr.is_broadcast() {
            return Err(CommandError::bad("neighbor", &addr.to_string(), "a unicast address of a host"));
        }
        self.stack.set_neighbor(self.cx(), dev, addr, mac);
        Ok(())
    }

    /// Adds an address with its prefix length to an iface. If the iface has the address with
    /// another length, replaces it.
    ///
    /// # Errors
    /// Returns an error if there is no such iface, if the address cannot belong to a host, if the
    /// iface already has the address with this length, or if another iface has the address.
    pub fn add_addr(&self, iface: &str, addr: IpAddr, len: u8) -> Result<(), CommandError> {
        self.change_addr_of(AddrChange::Add, iface, addr, len)
    }

    /// Removes an address from an iface, with any prefix length.
    ///
    /// # Errors
    /// Returns an error if there is no such iface, or if it does not have the address.
    pub fn remove_addr(&self, iface: &str, addr: IpAddr) -> Result<(), CommandError> {
        self.change_addr_of(AddrChange::Remove, iface, addr, 0)
    }

    pub(crate) fn change_addr_of(
        &self,
        change: AddrChange,
        iface: &str,
        addr: IpAddr,
        len: u8,
    ) -> Result<(), CommandError> {
        let dev = self.iface(iface)?;
        match addr {
            IpAddr::V4(addr) => self.change_addr(change, dev, IfaceAddr { addr, len }, None),
            IpAddr::V6(addr) => self.change_addr6(change, dev, address::six::own(IfaceAddr6::new(addr, len))?),
        }
    }

    /// Adds, replaces or removes an address of an iface. `peer` is the address of a tunnel's remote
    /// end.
    ///
    /// # Errors
    /// Returns the errors of [`Host::add_addr`] and [`Host::remove_addr`], and an error if `peer`
    /// is given for an iface that is not a tunnel.
    pub fn change_addr(
        &self,
        change: AddrChange,
        dev: &Iface<L>,
        addr: IfaceAddr,
        peer: Option<Ipv4Addr>,
    ) -> Result<(), CommandError> {
        let had = dev.addrs(self.cx()).into_iter().find(|own| own.addr == addr.addr);
        match (change, had) {
            (AddrChange::Remove, Some(_)) => drop(self.stack.remove_addr(self.cx(), dev.id, addr.addr)),
            (AddrChange::Remove, None) => {
                return Err(CommandError::failed(format!("{} does not have {}", dev.name, addr.addr)));
            }
            (AddrChange::Add, Some(own)) if own == addr => {
                return Err(CommandError::failed(format!("{} already has {}/{}", dev.name, addr.addr, addr.len)));
            }
            _ => {
                let addr = address::own_addr(addr)?;
                match peer {
                    Some(_) if dev.kind != IfaceKind::Tunnel => {
                        return Err(CommandError::failed(format!("peer: {} is not a point-to-point iface", dev.name)));
                    }
                    Some(peer) => self.put_peer(dev.id, addr.addr, peer)?,
                    None => self.put_addr(dev.id, addr)?,
                }
            }
        }
        Ok(())
    }

    /// Adds the point-to-point address `addr` to a tunnel. `peer` is the inner address of the
    /// tunnel's remote end.
    ///
    /// # Errors
    /// Returns an error if `peer` is not a unicast address, or if the table is full.
    pub fn put_peer(&self, id: IfaceId, addr: Ipv4Addr, peer: Ipv4Addr) -> Result<(), CommandError> {
        address::own_addr(IfaceAddr { addr: peer, len: 32 })?;
        self.put_addr(id, IfaceAddr { addr, len: 32 })?;
        self.stack.add_peer(self.cx(), id, addr, peer).map_err(|why| {
            self.stack.remove_addr(self.cx(), id, addr);
            CommandError::failed(format!("{peer}: cannot add its route: {why:?}"))
        })
    }

    /// Adds an address to an iface, or replaces its prefix length.
    ///
    /// # Errors
    /// Returns an error if another iface has the address, or if the table is full.
    pub fn put_addr(&self, id: IfaceId, addr: IfaceAddr) -> Result<(), CommandError> {
        let (stack, cx) = (&self.stack, self.cx());
        self.reject_mirror(id)?;
        if stack.iface(id).is_some_and(|iface| iface.kind != IfaceKind::Loopback) {
            address::on_link(addr)?;
        }
        let other = stack.ifaces().find(|iface| iface.addrs(cx).iter().any(|own| own.addr == addr.addr));
        if let Some(other) = other {
            if other.id != id {
                return Err(CommandError::failed(format!("{} already has {}", other.name, addr.addr)));
            }
            stack.remove_addr(cx, id, addr.addr); // it may have another prefix length
        }
        let added = stack.add_addr(cx, id, addr);
        added.map_err(|why| CommandError::failed(format!("{}: cannot add its routes: {why:?}", addr.addr)))
    }

    fn dev(&self, name: Option<&str>) -> Result<Option<IfaceId>, CommandError> {
        name.map(|name| self.iface(name).map(|iface| iface.id)).transpose()
    }

    fn hop_of(&self, route: &RouteConfig) -> Result<Hop, CommandError> {
        let dev = self.dev(route.dev.as_deref())?;
        match route.destination6() {
            Some(to) => Ok(Hop::V6(to, self.hop6(route.via6, dev)?)),
            None => {
                let gateway = route.via6.map(IpAddr::V6).or(route.via.map(IpAddr::V4));
                Ok(Hop::V4(route.to, self.hop(gateway, dev)?))
            }
        }
    }
}
