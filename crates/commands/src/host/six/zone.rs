//! IPv6 addresses with zones, and routes that belong to addresses.

use crate::host::context::Ctl;
use grammar::CommandError;
use inet::fib::Prefix6;
use inet::iface::IfaceId;
use inet::ip6::IfaceAddr6;
use inet::route::Via6;
use lock::Locks;
use std::net::Ipv6Addr;
use wire::ip6;

/// Parses `A` or `A%IF` into the address `A`, and the iface that the zone `IF` names.
pub(in crate::host) fn zoned<L: Locks>(
    ctl: &Ctl<'_, L>,
    what: &str,
    word: &str,
) -> Result<(Ipv6Addr, Option<IfaceId>), CommandError> {
    let (text, zone) = word.split_once('%').map_or((word, None), |(text, zone)| (text, Some(zone)));
    let addr = text.parse().map_err(|_| CommandError::bad(what, word, "an IPv6 address such as fd00::1"))?;
    Ok((addr, zone.map(|name| ctl.host.iface(name).map(|iface| iface.id)).transpose()?))
}

/// Returns an address as text; a link-local address gets its zone, as in BSD.
pub(super) fn with_zone<L: Locks>(ctl: &Ctl<'_, L>, addr: Ipv6Addr, id: IfaceId) -> String {
    if ip6::is_link_local(addr) { format!("{addr}%{}", ctl.iface_name(id)) } else { addr.to_string() }
}

impl<L: Locks> Ctl<'_, L> {
    /// Returns the next hop for gateway `word`, on the link of `dev` if given.
    pub(super) fn gateway6(&self, word: &str, dev: Option<IfaceId>) -> Result<Via6, CommandError> {
        let (addr, zone) = zoned(self, "gateway", word)?;
        self.host.hop6(Some(addr), dev.or(zone))
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
