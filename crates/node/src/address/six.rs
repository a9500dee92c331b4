//! Parsing and checks of IPv6 addresses and prefixes.

use super::number;
use grammar::CommandError;
use inet::fib::Prefix6;
use inet::ip6::{IfaceAddr6, Refused6};
use std::net::Ipv6Addr;
use wire::ip6;

/// Rejects an address that is not a unicast address of a host.
pub fn host(what: &str, addr: Ipv6Addr) -> Result<Ipv6Addr, CommandError> {
    if addr.is_multicast() || addr.is_unspecified() || ip6::is_v4_mapped(addr) {
        return Err(CommandError::bad(what, &addr.to_string(), "a unicast address of a host"));
    }
    Ok(addr)
}

/// Parses `default`, `A/LEN`, or `A` alone.
pub fn prefix(word: &str) -> Result<Prefix6, CommandError> {
    if matches!(word, "default" | "any" | "all") {
        return Ok(Prefix6::DEFAULT);
    }
    let text = if word.contains('/') { word.to_string() } else { format!("{word}/128") };
    text.parse().map_err(|why: inet::fib::PrefixError<u128>| CommandError::bad("destination", word, why.to_string()))
}

/// Parses `A/LEN` as an address that a host may have.
pub fn own_address(word: &str) -> Result<IfaceAddr6, CommandError> {
    let bad = || CommandError::bad("address", word, "an IPv6 address with its prefix length such as fd00::1/64");
    let (text, len) = word.split_once('/').ok_or_else(bad)?;
    let len = number("prefix length", len, 0, 128)? as u8;
    own(IfaceAddr6::new(text.parse().map_err(|_| bad())?, len))
}

/// Rejects an address that a host cannot have.
pub fn own(addr: IfaceAddr6) -> Result<IfaceAddr6, CommandError> {
    host("address", addr.addr).map(|_| addr)
}

/// Returns the error message for an address that was not added.
pub fn refused(why: Refused6) -> &'static str {
    match why {
        Refused6::NotAHost => "not an address that a host may have on this interface",
        Refused6::MtuTooSmall => "IPv6 requires an MTU of at least 1280 bytes",
        Refused6::NoRoom => "the table of addresses or routes is full",
    }
}
