//! IPv6 addresses with zones, and routes that belong to addresses.

use crate::host::context::Ctl;
use grammar::CommandError;
use inet::iface::IfaceId;
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
}
