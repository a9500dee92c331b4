//! Parsing of values that several commands share.

pub(crate) use node::address::{addr, host_len, ip4, number, own_addr, prefix};

use grammar::{CommandError, Words};
use inet::fib::Prefix;
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

/// Parses an address of either family.
pub(crate) fn ip_any(what: &str, word: &str) -> Result<std::net::IpAddr, CommandError> {
    word.parse().map_err(|_| CommandError::bad(what, word, "an IP address such as 10.0.0.1 or fd00::1"))
}

pub(crate) fn mac(word: &str) -> Result<Mac, CommandError> {
    word.parse().map_err(|_| CommandError::bad("MAC address", word, "six hexadecimal bytes such as 12:23:34:45:56:00"))
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

/// Returns a prefix as text. As in iproute2 and BSD, a /32 is printed as an address and a /0 as
/// `default`.
pub(crate) fn prefix_text(prefix: Prefix) -> String {
    match prefix.len() {
        0 => "default".to_string(),
        32 => prefix.addr().to_string(),
        _ => prefix.to_string(),
    }
}
