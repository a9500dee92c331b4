//! Parsing of values that several commands share.

use grammar::{CommandError, Words};
use inet::fib::Prefix;
use inet::iface::IfaceAddr;
use std::net::Ipv4Addr;
use wire::Mac;

/// Parses the value of `word`, for which this host supports only the values `only`. Other values
/// are rejected, so that no value is silently ignored. `why` is the reason that the error message
/// gives.
pub(crate) fn only(words: &mut Words<'_>, word: &str, only: &[&str], why: &str) -> Result<(), CommandError> {
    let value = words.next("a value")?;
    if only.contains(&value) {
        Ok(())
    } else {
        Err(CommandError::failed(format!("{word} {value}: not supported: {why}")))
    }
}

/// Parses the value after `word` if `word` is a keyword of `ip route` for which only one value is
/// supported. Returns `false` for any other word.
pub(crate) fn no_choice(words: &mut Words<'_>, word: &str) -> Result<bool, CommandError> {
    match word {
        "table" => only(words, word, &["main", "254"], "there is one table, main")?,
        "metric" | "preference" => only(words, word, &["0"], "a destination has one route, without a metric")?,
        "proto" | "protocol" => only(words, word, &["static", "boot"], "the origin of a route is not stored")?,
        "pref" => only(words, word, &["medium"], "routes have no preference")?,
        _ => return Ok(false),
    }
    Ok(true)
}

pub(crate) fn ip4(what: &str, word: &str) -> Result<Ipv4Addr, CommandError> {
    word.parse().map_err(|_| CommandError::bad(what, word, "an IPv4 address such as 10.0.0.1"))
}

/// Parses an address of either family.
pub(crate) fn ip_any(what: &str, word: &str) -> Result<std::net::IpAddr, CommandError> {
    word.parse().map_err(|_| CommandError::bad(what, word, "an IP address such as 10.0.0.1 or fd00::1"))
}

pub(crate) fn mac(word: &str) -> Result<Mac, CommandError> {
    word.parse().map_err(|_| CommandError::bad("MAC address", word, "six hexadecimal bytes such as 12:23:34:45:56:00"))
}

pub(crate) fn number(what: &str, word: &str, min: i64, max: i64) -> Result<i64, CommandError> {
    let found = word.parse().ok().filter(|n| (min..=max).contains(n));
    found.ok_or_else(|| CommandError::bad(what, word, format!("a number from {min} to {max}")))
}

/// Parses a netmask: `255.255.255.0`, `0xffffff00`, or a prefix length.
pub(crate) fn mask(word: &str) -> Result<u8, CommandError> {
    let bits = match word.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => word.parse::<Ipv4Addr>().ok().map(u32::from),
    };
    let len = match bits {
        Some(bits) => (bits.leading_ones() + bits.trailing_zeros() >= 32).then_some(bits.leading_ones() as u8),
        None => word.parse().ok().filter(|len| *len <= 32),
    };
    len.ok_or_else(|| CommandError::bad("netmask", word, "255.255.255.0, 0xffffff00, or a length from 0 to 32"))
}

/// Parses `A` or `A/LEN`. `len_of` returns the length for an address without one.
pub(crate) fn addr(word: &str, len_of: fn(Ipv4Addr) -> u8) -> Result<IfaceAddr, CommandError> {
    let (text, len) = match word.split_once('/') {
        Some((text, len)) => (text, Some(number("prefix length", len, 0, 32)? as u8)),
        None => (word, None),
    };
    let addr = ip4("address", text)?;
    Ok(IfaceAddr { addr, len: len.unwrap_or_else(|| len_of(addr)) })
}

/// Returns the default prefix length of an address in BSD, which depends on the address class (RFC
/// 791 3.2).
pub(crate) fn class_len(addr: Ipv4Addr) -> u8 {
    match addr.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        192..=223 => 24,
        _ => 32,
    }
}

/// Returns the prefix length for a single address, 32.
pub(crate) fn host_len(_addr: Ipv4Addr) -> u8 {
    32
}

/// Parses `default`, `A/LEN`, or `A`, for which `len_of` returns the length.
pub(crate) fn prefix(word: &str, len_of: fn(Ipv4Addr) -> u8) -> Result<Prefix, CommandError> {
    if matches!(word, "default" | "any" | "all") {
        return Ok(Prefix::DEFAULT);
    }
    let addr = addr(word, len_of)?;
    Prefix::new(addr.addr, addr.len).map_err(|why| CommandError::bad("destination", word, why.to_string()))
}

/// Returns a prefix as text. As in iproute2 and BSD, a /32 is printed as an address and a /0 as
/// `default`.
pub(crate) fn prefix_text(prefix: Prefix) -> String {
    match prefix.len() {
        0 => "default".to_string(),
        32 => prefix.addr().to_string(),
        _ => prefix.to_string(),
    }
}

/// Rejects a loopback address for any iface other than the loopback, because loopback addresses
/// must not appear outside a host (RFC 1122 3.2.1.3 (g)).
pub(crate) fn on_link(addr: IfaceAddr) -> Result<IfaceAddr, CommandError> {
    match addr.addr.is_loopback() {
        true => {
            Err(CommandError::bad("address", &addr.addr.to_string(), "an address outside 127/8, which is only for lo0"))
        }
        false => Ok(addr),
    }
}

/// Rejects addresses that no host may use as its own, because routers drop packets with a martian
/// source address (RFC 1812 5.3.7).
pub(crate) fn own_addr(addr: IfaceAddr) -> Result<IfaceAddr, CommandError> {
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
pub(crate) fn own_address(word: &str) -> Result<inet::iface::IfaceAddr, CommandError> {
    on_link(own_addr(addr(word, host_len)?)?)
}
