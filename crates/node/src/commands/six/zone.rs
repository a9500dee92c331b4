//! IPv6 addresses with zones, the lookup of an address's iface, and changes of IPv6 routes.

use super::addr::host;
use crate::commands::context::Ctl;
use grammar::CommandError;
use inet::fib::Prefix6;
use inet::iface::IfaceId;
use inet::ip6::IfaceAddr6;
use inet::route::{Path, Via6};
use lock::Locks;
use std::net::Ipv6Addr;
use wire::ip6;

/// Parses `A` or `A%IF` into the address `A`, and the iface that the zone `IF` names.
pub(in crate::commands) fn zoned<L: Locks>(
    ctl: &Ctl<'_, L>,
    what: &str,
    word: &str,
) -> Result<(Ipv6Addr, Option<IfaceId>), CommandError> {
    let (text, zone) = word.split_once('%').map_or((word, None), |(text, zone)| (text, Some(zone)));
    let addr = text.parse().map_err(|_| CommandError::bad(what, word, "an IPv6 address such as fd00::1"))?;
    Ok((addr, zone.map(|name| ctl.iface(name).map(|iface| iface.id)).transpose()?))
}

/// Returns an address as text; a link-local address gets its zone, as in BSD.
pub(super) fn with_zone<L: Locks>(ctl: &Ctl<'_, L>, addr: Ipv6Addr, id: IfaceId) -> String {
    if ip6::is_link_local(addr) { format!("{addr}%{}", ctl.iface_name(id)) } else { addr.to_string() }
}

impl<L: Locks> Ctl<'_, L> {
    /// Returns the iface on whose link `addr` is.
    pub(crate) fn link_of6(&self, addr: Ipv6Addr) -> Result<IfaceId, CommandError> {
        if ip6::is_link_local(addr) {
            return Err(CommandError::failed(format!(
                "{addr} is a link-local address: give its interface, as in {addr}%em0"
            )));
        }
        let ifaces = self.host.stack.ifaces();
        let own = ifaces.flat_map(|iface| iface.addrs6(self.cx).into_iter().map(move |own| (own, iface.id)));
        let near = own.filter(|(own, _)| own.prefix().contains(addr) && own.len < 128 || own.peer == Some(addr));
        let nowhere = || {
            CommandError::failed(format!("{addr} is not on the link of an interface: add an address on its link first"))
        };
        near.max_by_key(|(own, _)| own.len).map(|(_, id)| id).ok_or_else(nowhere)
    }

    /// Returns the next hop for gateway `word`, on the link of `dev` if given.
    pub(super) fn gateway6(&self, word: &str, dev: Option<IfaceId>) -> Result<Via6, CommandError> {
        let (addr, zone) = zoned(self, "gateway", word)?;
        self.hop6(Some(addr), dev.or(zone))
    }

    /// Returns the next hop through `gateway`, on the link of `dev` if given; without a gateway,
    /// the destinations are on that link.
    pub(crate) fn hop6(&self, gateway: Option<Ipv6Addr>, dev: Option<IfaceId>) -> Result<Via6, CommandError> {
        match (gateway, dev) {
            (Some(gateway), dev) => {
                let gateway = host("gateway", gateway)?;
                Ok(Via6::Gateway(dev.map_or_else(|| self.link_of6(gateway), Ok)?, gateway))
            }
            (None, Some(dev)) => Ok(Via6::Link(dev)),
            (None, None) => Err(CommandError::missing("via GATEWAY or dev IF")),
        }
    }

    /// Adds or replaces a route with one or several paths.
    pub(crate) fn add_route6(&self, prefix: Prefix6, paths: &[Path<Ipv6Addr>]) -> Result<(), CommandError> {
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
            [only] => self.host.stack.add_route6(self.cx, prefix, only.via),
            _ => self.host.stack.add_paths6(self.cx, prefix, paths),
        };
        added.map(drop).map_err(|why| CommandError::failed(format!("{prefix}: {why}")))
    }

    /// Returns whether the route was added together with an iface's address.
    pub(super) fn came_with_address(&self, prefix: Prefix6, via: Via6) -> bool {
        let (Via6::Link(id) | Via6::Local(id)) = via else { return false };
        let addrs = self.host.stack.iface(id).map(|iface| iface.addrs6(self.cx)).unwrap_or_default();
        let is_link = matches!(via, Via6::Link(_));
        let own = |own: &IfaceAddr6| {
            let on_link = own.prefix() == prefix || own.peer.map(Prefix6::host) == Some(prefix);
            Prefix6::host(own.addr) == prefix || is_link && on_link
        };
        addrs.iter().any(own)
    }
}
