//! Commands for IPv6: `ifconfig IF inet6`, `ip -6`, `route -6`, `ndp`. Each grammar has a file in
//! this directory. This file parses addresses with zones, and finds the iface of a gateway.

mod ifconfig;
mod ip;
mod ndp;
mod route;

pub(super) use ifconfig::{Forms as IfconfigForms, addr_infos, describe};
pub(super) use ip::{addr, addr_text, neigh, neigh_rows, neigh_text, route as ip_route};
pub(super) use ndp::NdpForms;
pub(super) use route::{add as route_add, delete as route_delete, get as route_get, table};

use super::context::Ctl;
use super::parse;
use grammar::CommandError;
use inet::fib::Prefix6;
use inet::iface::IfaceId;
use inet::ip6::{IfaceAddr6, Refused6};
use inet::route::{Path, Via6};
use lock::Locks;
use std::net::Ipv6Addr;
use wire::ip6;

/// Parses `A` or `A%IF` into the address, and the iface whose link the zone denotes.
pub(super) fn zoned<L: Locks>(
    ctl: &Ctl<'_, L>,
    what: &str,
    word: &str,
) -> Result<(Ipv6Addr, Option<IfaceId>), CommandError> {
    let (text, zone) = word.split_once('%').map_or((word, None), |(text, zone)| (text, Some(zone)));
    let addr = text.parse().map_err(|_| CommandError::bad(what, word, "an IPv6 address such as fd00::1"))?;
    Ok((addr, zone.map(|name| ctl.iface(name).map(|iface| iface.id)).transpose()?))
}

/// Rejects an address that is not a unicast address of a host.
fn host(what: &str, addr: Ipv6Addr) -> Result<Ipv6Addr, CommandError> {
    if addr.is_multicast() || addr.is_unspecified() || ip6::is_v4_mapped(addr) {
        return Err(CommandError::bad(what, &addr.to_string(), "a unicast address of a host"));
    }
    Ok(addr)
}

/// Parses `default`, `A/LEN`, or `A` alone.
pub(super) fn prefix(word: &str) -> Result<Prefix6, CommandError> {
    if matches!(word, "default" | "any" | "all") {
        return Ok(Prefix6::DEFAULT);
    }
    let text = if word.contains('/') { word.to_string() } else { format!("{word}/128") };
    text.parse().map_err(|why: inet::fib::PrefixError<u128>| CommandError::bad("destination", word, why.to_string()))
}

/// Returns a prefix as text. As in iproute2 and BSD, a /128 is printed as an address and a /0 as
/// `default`.
pub(super) fn prefix_text(prefix: Prefix6) -> String {
    match prefix.len() {
        0 => "default".to_string(),
        128 => prefix.addr().to_string(),
        _ => prefix.to_string(),
    }
}

/// Parses `A/LEN` as an address that a host may have. Needs no host, so that configurations can be
/// checked.
pub(crate) fn own_address(word: &str) -> Result<IfaceAddr6, CommandError> {
    let bad = || CommandError::bad("address", word, "an IPv6 address with its prefix length such as fd00::1/64");
    let (text, len) = word.split_once('/').ok_or_else(bad)?;
    let len = parse::number("prefix length", len, 0, 128)? as u8;
    Ok(IfaceAddr6::new(host("address", text.parse().map_err(|_| bad())?)?, len))
}

/// Returns the error message for an address that was not added.
pub(crate) fn refused(why: Refused6) -> &'static str {
    match why {
        Refused6::NotAHost => "not an address that a host may have on this interface",
        Refused6::MtuTooSmall => "IPv6 requires an MTU of at least 1280 bytes",
        Refused6::NoRoom => "the table of addresses or routes is full",
    }
}

/// Returns an address as text; a link-local address gets its zone, as in BSD.
fn with_zone<L: Locks>(ctl: &Ctl<'_, L>, addr: Ipv6Addr, id: IfaceId) -> String {
    if ip6::is_link_local(addr) { format!("{addr}%{}", ctl.iface_name(id)) } else { addr.to_string() }
}

impl<L: Locks> Ctl<'_, L> {
    /// Returns the iface whose link contains `addr`.
    fn link_of6(&self, addr: Ipv6Addr) -> Result<IfaceId, CommandError> {
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
    fn gateway6(&self, word: &str, dev: Option<IfaceId>) -> Result<Via6, CommandError> {
        let (addr, zone) = zoned(self, "gateway", word)?;
        let addr = host("gateway", addr)?;
        let dev = dev.or(zone).map_or_else(|| self.link_of6(addr), Ok)?;
        Ok(Via6::Gateway(dev, addr))
    }

    /// Adds or replaces a route with one or several paths.
    fn add_route6(&self, prefix: Prefix6, paths: &[Path<Ipv6Addr>]) -> Result<(), CommandError> {
        if ip6::is_link_local(prefix.addr()) && prefix.len() >= 10 || prefix.addr().is_multicast() {
            return Err(CommandError::failed(format!("{prefix}: link-local and multicast prefixes cannot be routed")));
        }
        let added = match paths {
            [only] => self.host.stack.add_route6(self.cx, prefix, only.via),
            _ => self.host.stack.add_paths6(self.cx, prefix, paths),
        };
        added.map(drop).map_err(|why| CommandError::failed(format!("{prefix}: {why}")))
    }

    /// Returns whether the route was added together with an address.
    fn came_with_address(&self, prefix: Prefix6, via: Via6) -> bool {
        let (Via6::Link(id) | Via6::Local(id)) = via else { return false };
        let addrs = self.host.stack.iface(id).map(|iface| iface.addrs6(self.cx)).unwrap_or_default();
        let own = |own: &IfaceAddr6| {
            own.prefix() == prefix || Prefix6::host(own.addr) == prefix || own.peer.map(Prefix6::host) == Some(prefix)
        };
        addrs.iter().any(own)
    }
}
