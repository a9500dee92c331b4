//! Parsing and checks of addresses, for configurations, commands and calls.

pub mod six;

use grammar::CommandError;
use inet::fib::Prefix;
use inet::iface::IfaceAddr;
use std::net::Ipv4Addr;
use wire::Mac;

/// Parses an IPv4 address. `what` names it in the error.
pub fn ip4(what: &str, word: &str) -> Result<Ipv4Addr, CommandError> {
    word.parse().map_err(|_| CommandError::bad(what, word, "an IPv4 address such as 10.0.0.1"))
}

/// Parses a number from `min` to `max`. `what` names it in the error.
pub fn number(what: &str, word: &str, min: i64, max: i64) -> Result<i64, CommandError> {
    let found = word.parse().ok().filter(|n| (min..=max).contains(n));
    found.ok_or_else(|| CommandError::bad(what, word, format!("a number from {min} to {max}")))
}

/// Parses `A` or `A/LEN`. `len_of` returns the length for an address without one.
pub fn addr(word: &str, len_of: fn(Ipv4Addr) -> u8) -> Result<IfaceAddr, CommandError> {
    let (text, len) = match word.split_once('/') {
        Some((text, len)) => (text, Some(number("prefix length", len, 0, 32)? as u8)),
        None => (word, None),
    };
    let addr = ip4("address", text)?;
    Ok(IfaceAddr { addr, len: len.unwrap_or_else(|| len_of(addr)) })
}

/// Returns the prefix length for a single address, 32.
pub fn host_len(_addr: Ipv4Addr) -> u8 {
    32
}

/// Parses `default`, `A/LEN`, or `A`, for which `len_of` returns the length.
pub fn prefix(word: &str, len_of: fn(Ipv4Addr) -> u8) -> Result<Prefix, CommandError> {
    if matches!(word, "default" | "any" | "all") {
        return Ok(Prefix::DEFAULT);
    }
    let addr = addr(word, len_of)?;
    Prefix::new(addr.addr, addr.len).map_err(|why| CommandError::bad("destination", word, why.to_string()))
}

/// Rejects a loopback address for any iface other than the loopback, because loopback addresses
/// must not appear outside a host (RFC 1122 3.2.1.3 (g)).
pub fn on_link(addr: IfaceAddr) -> Result<IfaceAddr, CommandError> {
    match addr.addr.is_loopback() {
        true => {
            Err(CommandError::bad("address", &addr.addr.to_string(), "an address outside 127/8, which is only for lo0"))
        }
        false => Ok(addr),
    }
}

/// Rejects addresses that no host may use as its own, because routers drop packets with a martian
/// source address (RFC 1812 5.3.7).
pub fn own_addr(addr: IfaceAddr) -> Result<IfaceAddr, CommandError> {
    let ip = addr.addr;
    if ip.octets()[0] == 0 || ip.is_multicast() || ip.octets()[0] >= 240 {
        return Err(CommandError::bad("address", &ip.to_string(), "a unicast address of a host"));
    }
    let host = u32::from(ip) & !addr.mask();
    if addr.len < 31 && (host == 0 || host == !addr.mask()) {
        let what = format!("a host in {ip}/{}, not the network or its broadcast address", addr.len);
        return Err(CommandError::bad("address", &ip.to_string(), what));
    }
    Ok(addr)
}

/// Parses `A/LEN` as an address that a host may have on a link.
pub fn own_address(word: &str) -> Result<IfaceAddr, CommandError> {
    on_link(own_addr(addr(word, host_len)?)?)
}

/// Rejects a MAC address that no single station can have.
pub fn unicast(mac: Mac) -> Result<Mac, CommandError> {
    if mac.is_multicast() || mac == Mac::ZERO {
        return Err(CommandError::bad("MAC address", &mac.to_string(), "a unicast MAC address"));
    }
    Ok(mac)
}
