//! Changes of IPv6 addresses, routes and neighbors.

use super::{AddrChange, is_by, not_own, nowhere};
use crate::Host;
use crate::address;
use grammar::CommandError;
use inet::fib::Prefix6;
use inet::iface::{Iface, IfaceId};
use inet::ip6::IfaceAddr6;
use inet::route::{Path, Via6};
use lock::Locks;
use std::net::Ipv6Addr;
use wire::{Mac, ip6};

impl<L: Locks> Host<L> {
    /// Returns the iface on whose link `addr` is.
    ///
    /// # Errors
    /// Returns an error for a link-local address, which is on every link, and if `addr` is not on
    /// the link of any iface.
    pub fn link_of6(&self, addr: Ipv6Addr) -> Result<IfaceId, CommandError> {
        if ip6::is_link_local(addr) {
            return Err(CommandError::failed(format!(
                "{addr} is a link-local address: give its interface, as in {addr}%em0"
            )));
        }
        let cx = self.cx();
        let own = self.stack.ifaces().flat_map(|iface| iface.addrs6(cx).into_iter().map(move |own| (own, iface.id)));
        let near = own.filter(|(own, _)| own.prefix().contains(addr) && own.len < 128 || own.peer == Some(addr));
        near.max_by_key(|(own, _)| own.len).map(|(_, id)| id).ok_or_else(|| nowhere(addr))
    }

    /// Returns the next hop through `gateway`, on the link of `dev` if given; without a gateway,
    /// the destinations are on that link.
    ///
    /// # Errors
    /// Returns an error if neither is given, or if the gateway is not on the link of any iface.
    pub fn hop6(&self, gateway: Option<Ipv6Addr>, dev: Option<IfaceId>) -> Result<Via6, CommandError> {
        match (gateway, dev) {
            (Some(gateway), dev) => self.gateway6(gateway, dev).map(|(dev, gateway)| Via6::Gateway(dev, gateway)),
            (None, Some(dev)) => self.reject_mirror(dev).map(|()| Via6::Link(dev)),
            (None, None) => Err(CommandError::missing("via GATEWAY or dev IF")),
        }
    }

    /// Returns an IPv6 gateway with its iface: `dev`, or else the iface on whose link it is.
    pub(super) fn gateway6(
        &self,
        gateway: Ipv6Addr,
        dev: Option<IfaceId>,
    ) -> Result<(IfaceId, Ipv6Addr), CommandError> {
        let gateway = address::six::host("gateway", gateway)?;
        let dev = dev.map_or_else(|| self.link_of6(gateway), Ok)?;
        self.reject_mirror(dev).map(|()| (dev, gateway))
    }

    /// Adds or replaces a route with one or several paths.
    ///
    /// # Errors
    /// Returns an error for a prefix that cannot be routed, and the error of the table.
    pub fn replace_paths6(&self, prefix: Prefix6, paths: &[Path<Ipv6Addr>]) -> Result<(), CommandError> {
        if ip6::is_link_local(prefix.addr()) && prefix.len() >= 10 || prefix.addr().is_multicast() {
            return Err(CommandError::failed(format!("{prefix}: link-local and multicast prefixes cannot be routed")));
        }
        let is_local = paths.iter().any(|path| matches!(path.via, Via6::Local(_)));
        let is_nobody =
            prefix == Prefix6::host(Ipv6Addr::UNSPECIFIED) || ip6::is_v4_mapped(prefix.addr()) && prefix.len() >= 96;
        if is_local && is_nobody {
            return Err(CommandError::failed(format!(
                "{prefix}: unspecified and IPv4-mapped addresses cannot be local"
            )));
        }
        let added = match paths {
            [only] => self.stack.add_route6(self.cx(), prefix, only.via),
            _ => self.stack.add_paths6(self.cx(), prefix, paths),
        };
        added.map(drop).map_err(|why| CommandError::failed(format!("{prefix}: {why}")))
    }

    /// Replaces the paths of the own route to exactly `prefix`.
    ///
    /// # Errors
    /// Returns an error if there is no such route, or the error of [`Host::replace_paths6`].
    pub fn change_paths6(&self, prefix: Prefix6, paths: &[Path<Ipv6Addr>]) -> Result<(), CommandError> {
        let cx = self.cx();
        match self.stack.route6_at(cx, prefix) {
            Some(_) => self.replace_paths6(prefix, paths),
            None => Err(self.stack.change_routes(cx, |_, routes| (false, not_own(routes, prefix)))),
        }
    }

    /// Removes the route to exactly `prefix`. If `paths` is empty, the route may have any next hop.
    ///
    /// # Errors
    /// Returns an error if there is no such route.
    pub fn remove_paths6(&self, prefix: Prefix6, paths: &[Path<Ipv6Addr>]) -> Result<(), CommandError> {
        let cx = self.cx();
        if !self.stack.route6_at(cx, prefix).is_some_and(|via| is_by(via, || self.stack.paths6(cx, via), paths)) {
            return Err(self.stack.change_routes(cx, |_, routes| (false, not_own(routes, prefix))));
        }
        self.stack.remove_route6(cx, prefix);
        Ok(())
    }

    /// Sets a static neighbor entry.
    ///
    /// # Errors
    /// Returns an error if an address is not a unicast address.
    pub fn set_static_neighbor6(&self, dev: IfaceId, addr: Ipv6Addr, mac: Mac) -> Result<(), CommandError> {
        let mac = address::unicast(mac)?;
        self.reject_mirror(dev)?;
        self.stack.set_neighbor6(self.cx(), dev, address::six::host("neighbor", addr)?, mac);
        Ok(())
    }

    /// Adds, replaces or removes an address of an iface.
    ///
    /// # Errors
    /// Returns an error if an address to remove does not exist, or if an address cannot be added.
    pub fn change_addr6(&self, change: AddrChange, dev: &Iface<L>, own: IfaceAddr6) -> Result<(), CommandError> {
        let had = dev.addrs6(self.cx()).into_iter().find(|had| had.addr == own.addr);
        match (change, had) {
            (AddrChange::Remove, Some(_)) => drop(self.stack.remove_addr6(self.cx(), dev.id, own.addr)),
            (AddrChange::Remove, None) => {
                return Err(CommandError::failed(format!("{} does not have {}", dev.name, own.addr)));
            }
            (AddrChange::Add, Some(had)) if had.len == own.len => {
                return Err(CommandError::failed(format!("{} already has {}/{}", dev.name, own.addr, own.len)));
            }
            _ => self.put_addr6(dev, own)?,
        }
        Ok(())
    }

    /// Adds an address to an iface, or replaces its prefix length.
    ///
    /// # Errors
    /// Returns an error if another iface has the address, or if the address cannot be added.
    pub fn put_addr6(&self, iface: &Iface<L>, addr: IfaceAddr6) -> Result<(), CommandError> {
        let cx = self.cx();
        self.reject_mirror(iface.id)?;
        let has = |other: &&Iface<L>| other.addrs6(cx).iter().any(|own| own.addr == addr.addr);
        let other = self.stack.ifaces().filter(|other| other.id != iface.id).find(has);
        if let Some(other) = other.filter(|_| !ip6::is_link_local(addr.addr)) {
            return Err(CommandError::failed(format!("{} already has {}", other.name, addr.addr)));
        }
        let added = self.stack.add_addr6(cx, iface.id, addr);
        added.map_err(|why| {
            CommandError::failed(format!("{}: {}: {}", iface.name, addr.addr, address::six::refused(why)))
        })
    }
}
