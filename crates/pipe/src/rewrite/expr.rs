//! Parser for edit expressions of the form `FIELD=VALUE`, and its errors.

use super::ops::Op;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use wire::Mac;
use wire::edit::{Side, Upper};
use wire::eth::EtherType;
use wire::text::MAX_FRAME;

/// Names of the fields that can be edited, as printed in error messages.
pub const FIELDS: &str = "dst src type swap ip.src ip.dst ip.ttl ip.dscp ip.id sport dport tcp.sport tcp.dport udp.sport udp.dport \
                          vlan.push vlan.pop vlan.id vlan.pcp byte[AT:LEN]";

/// Maximum number of bytes that one `byte` expression sets.
const MAX_BYTES: usize = 64;

/// Error for an invalid expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadExpr {
    text: String,
    /// Number of characters before the error.
    at: usize,
    why: String,
}

impl BadExpr {
    /// Returns two lines: the expression, and a caret below the position of the error.
    pub fn picture(&self) -> String {
        // A format width is limited to 16 bits, so the blanks are built as a string.
        format!("{}\n{}^", self.text, " ".repeat(self.at))
    }
}

impl fmt::Display for BadExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}', column {}: {}", self.text, self.at + 1, self.why)
    }
}

impl std::error::Error for BadExpr {}

/// A part of an expression and its position, for error messages.
#[derive(Clone, Copy)]
struct Part<'a> {
    whole: &'a str,
    at: usize,
    text: &'a str,
}

type Parsed<T> = Result<T, BadExpr>;

impl<'a> Part<'a> {
    fn bad<T>(self, why: impl Into<String>) -> Parsed<T> {
        let at = self.whole.get(..self.at).map_or(0, |before| before.chars().count());
        // Control characters are replaced, because a terminal would interpret them.
        let text = self.whole.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        Err(BadExpr { text, at, why: why.into() })
    }

    /// Splits the part at the first `mark`. Returns the parts before and after it, or `None` if
    /// there is no `mark`.
    fn split(self, mark: &str) -> Option<(Part<'a>, Part<'a>)> {
        let (before, after) = self.text.split_once(mark)?;
        let at = self.at + before.len() + mark.len();
        Some((Part { text: before, ..self }, Part { text: after, at, ..self }))
    }

    /// Parses a number from `least` to `most`: decimal, or hexadecimal after `0x`.
    fn number(self, least: u64, most: u64) -> Parsed<u64> {
        let number = match self.text.strip_prefix("0x") {
            // Excludes signs, which `from_str_radix` accepts.
            Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(digits, 16).ok(),
            None if self.text.bytes().all(|b| b.is_ascii_digit()) => self.text.parse().ok(),
            _ => None,
        };
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(number),
            None => self.bad(format!("expected a number from {least} to {most}")),
        }
    }

    fn number8(self, least: u8, most: u8) -> Parsed<u8> {
        Ok(self.number(least.into(), most.into())? as u8)
    }

    fn number16(self, most: u16) -> Parsed<u16> {
        Ok(self.number(0, most.into())? as u16)
    }

    fn parsed<T: FromStr>(self, what: &str) -> Parsed<T> {
        self.text.parse().or_else(|_| self.bad(format!("expected {what}")))
    }
}

/// Maximum VLAN identifier: 4095 is reserved (IEEE 802.1Q table 9-2).
const MAX_VID: u16 = 4094;

pub fn parse(whole: &str) -> Parsed<Op> {
    let all = Part { whole, at: 0, text: whole };
    if whole == "vlan.pop" {
        return Ok(Op::Pop);
    }
    let Some((field, value)) = all.split("=") else {
        return Part { at: whole.len(), ..all }.bad("expected FIELD=VALUE, as in ip.ttl=64");
    };
    if let Some(name) = field.text.strip_suffix('-') {
        if name != "ip.ttl" {
            return Part { at: name.len(), ..field }.bad("only ip.ttl can be decremented with -=");
        }
        return Ok(Op::TtlLess(value.number8(1, 255)?));
    }
    if field.text.starts_with("byte[") {
        return bytes(field, value);
    }
    Ok(match field.text {
        "dst" => mac(Side::Dst, value)?,
        "src" => mac(Side::Src, value)?,
        "type" => Op::Type(value.number16(u16::MAX)?),
        "swap" => match value.text {
            "mac" => Op::SwapMac,
            "ip" => Op::SwapIp,
            "port" => Op::SwapPort,
            _ => return value.bad("expected mac, ip or port"),
        },
        "ip.src" => address(Side::Src, value)?,
        "ip.dst" => address(Side::Dst, value)?,
        "ip.ttl" => Op::Ttl(value.number8(0, 255)?),
        "ip.dscp" => Op::Dscp(value.number8(0, 63)?),
        "ip.id" => Op::IpId(value.number16(u16::MAX)?),
        "vlan.push" => push(value)?,
        "vlan.pop" => return value.bad("vlan.pop does not have a value"),
        "vlan.id" => match value.split("->") {
            Some((from, to)) => Op::VlanId { from: Some(from.number16(4095)?), to: to.number16(MAX_VID)? },
            None => Op::VlanId { from: None, to: value.number16(MAX_VID)? },
        },
        "vlan.pcp" => Op::Pcp(value.number8(0, 7)?),
        name => match port_field(name) {
            Some((of, side)) => Op::Port { of, side, port: value.number16(u16::MAX)? },
            None => return field.bad(format!("unknown field; fields: {FIELDS}")),
        },
    })
}

fn port_field(name: &str) -> Option<(Option<Upper>, Side)> {
    let (of, name) = match name.split_once('.') {
        None => (None, name),
        Some(("tcp", name)) => (Some(Upper::Tcp), name),
        Some(("udp", name)) => (Some(Upper::Udp), name),
        Some(_) => return None,
    };
    match name {
        "sport" => Some((of, Side::Src)),
        "dport" => Some((of, Side::Dst)),
        _ => None,
    }
}

/// Parses a MAC address `001122334455`, or `00:11:22:33:44:55` in which any byte may be `*`.
fn mac(side: Side, value: Part<'_>) -> Parsed<Op> {
    if let Ok(all) = value.text.parse() {
        return Ok(Op::mac(side, Mac::ZERO, all));
    }
    let (mut keep, mut set) = (Mac::ZERO, Mac::ZERO);
    let mut rest = Some(value);
    for (keep, set) in keep.0.iter_mut().zip(&mut set.0) {
        let Some(part) = rest else {
            return Part { at: value.at + value.text.len(), ..value }
                .bad("expected six bytes, as in 00:11:22:33:44:55");
        };
        let (byte, after) = part.split(":").map_or((part, None), |(byte, after)| (byte, Some(after)));
        let is_byte = byte.text.len() == 2 && byte.text.bytes().all(|b| b.is_ascii_hexdigit());
        match u8::from_str_radix(byte.text, 16) {
            Ok(byte) if is_byte => *set = byte,
            _ if byte.text == "*" => *keep = 0xff,
            _ => return byte.bad("expected two hexadecimal digits, or *"),
        }
        rest = after;
    }
    match rest {
        None => Ok(Op::mac(side, keep, set)),
        Some(more) => more.bad("a MAC address has six bytes"),
    }
}

/// Parses an IP address, or a prefix such as 10.0.0.0/8, which replaces only the network part of an
/// address.
fn address(side: Side, value: Part<'_>) -> Parsed<Op> {
    let (addr, len) = match value.split("/") {
        Some((addr, len)) => (addr, Some(len)),
        None => (value, None),
    };
    let len = |most: u8| len.map_or(Ok(most), |len| len.number8(0, most));
    match addr.parsed("an address or a network, as in 10.0.0.1, 10.0.0.0/8 or fd00::1")? {
        IpAddr::V4(addr) => {
            let host = host_bits(len(32)?, 32) as u32;
            Ok(Op::Ip4 { side, keep: host, set: Ipv4Addr::to_bits(addr) & !host })
        }
        IpAddr::V6(addr) => {
            let host = host_bits(len(128)?, 128);
            Ok(Op::Ip6 { side, keep: host, set: Ipv6Addr::to_bits(addr) & !host })
        }
    }
}

/// Returns a mask of the host bits after a prefix of `len` bits in an address of `of` bits.
fn host_bits(len: u8, of: u8) -> u128 {
    u128::MAX.checked_shr(u32::from(128 - (of - len))).unwrap_or(0)
}

/// Parses the tag `ID[,PCP][,TPID]`, in which a TPID begins with 0x.
fn push(value: Part<'_>) -> Parsed<Op> {
    let (vid, mut rest) = value.split(",").map_or((value, None), |(vid, rest)| (vid, Some(rest)));
    let (mut pcp, mut tpid) = (0, EtherType::VLAN.0);
    let vid = vid.number16(MAX_VID)?;
    if let Some(part) = rest.filter(|part| !part.text.starts_with("0x")) {
        let (first, after) = part.split(",").map_or((part, None), |(first, after)| (first, Some(after)));
        pcp = first.number8(0, 7)?;
        rest = after;
    }
    if let Some(part) = rest {
        match EtherType(part.number16(u16::MAX)?) {
            ethertype if ethertype.is_tag() => tpid = ethertype.0,
            _ => return part.bad("expected 0x8100 or 0x88a8"),
        }
    }
    Ok(Op::Push { tpid, pcp, vid })
}

/// Parses `byte[AT]` or `byte[AT:LEN]`, and a value that fits into one byte or into LEN bytes.
fn bytes(field: Part<'_>, value: Part<'_>) -> Parsed<Op> {
    let Some((_, inside)) = field.split("[") else { return field.bad("expected byte[AT:LEN]") };
    let Some(text) = inside.text.strip_suffix(']') else {
        return Part { at: field.at + field.text.len(), ..field }.bad("expected ]");
    };
    let inside = Part { text, ..inside };
    let (at, len) = inside.split(":").map_or((inside, None), |(at, len)| (at, Some(len)));
    let at = at.number(0, MAX_FRAME as u64 - 1)? as usize;
    let len = len.map_or(Ok(1), |len| len.number(1, MAX_BYTES as u64))? as usize;
    Ok(Op::Bytes { at, bytes: number_of_bytes(value, len)? })
}

/// Parses a number into `len` big-endian bytes. Hexadecimal numbers may fill all bytes; decimal
/// numbers have at most 64 bits.
fn number_of_bytes(value: Part<'_>, len: usize) -> Parsed<Vec<u8>> {
    let Some(digits) = value.text.strip_prefix("0x") else {
        let most = if len < 8 { (1 << (8 * len)) - 1 } else { u64::MAX };
        let number = value.number(0, most)?.to_be_bytes();
        let mut bytes = vec![0; len.saturating_sub(number.len())];
        bytes.extend_from_slice(number.get(number.len().saturating_sub(len)..).unwrap_or_default());
        return Ok(bytes);
    };
    let mut bytes = vec![0; len];
    if digits.is_empty() || digits.len() > 2 * len {
        return value.bad(format!("expected 1 to {} hexadecimal digits after 0x", 2 * len));
    }
    for (at, digit) in digits.chars().rev().enumerate() {
        let Some(digit) = digit.to_digit(16) else { return value.bad("expected hexadecimal digits after 0x") };
        if let Some(byte) = bytes.iter_mut().rev().nth(at / 2) {
            *byte |= (digit as u8) << (4 * (at % 2));
        }
    }
    Ok(bytes)
}
