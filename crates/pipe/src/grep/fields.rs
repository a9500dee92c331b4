//! Search terms that match header fields: `dst=00:11:* type=ip dport=443`.
//!
//! A term is a field, `=` or `!=`, and a value. All terms, separated by blanks, must be true. For a
//! frame without the field, neither `=` nor `!=` is true.
//!
//! | field | value |
//! |---|---|
//! | `dst` `src` `mac` | MAC address, `*` for a byte or the rest: `00:11:*`; `mac` is source or
//! destination |
//! | `type` | EtherType after VLAN tags: `0x0800`, `ip`, `ip6`, `arp`, a range |
//! | `vlan` | VLAN identifier of the outer tag |
//! | `ip.src` `ip.dst` `ip` | IPv4 address, prefix `10.0.0.0/8`, `10.1.*`; IPv6 address or prefix |
//! | `proto` | IPv4 protocol, IPv6 next header: number, `tcp` `udp` `icmp` `igmp` `icmp6` `sctp` |
//! | `ttl` | IPv4 TTL or IPv6 hop limit |
//! | `sport` `dport` `port` | TCP or UDP port, not in later fragments: number or range `1000-2000`;
//! `port` is either |
//! | `len` | length in bytes, without FCS |

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::eth::{self, EtherType};
use wire::text::MAX_FRAME;
use wire::{Proto, ip4, ip6, vlan};

/// Conditions on a frame, all of which must be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: Field,
    not: bool,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Dst,
    Src,
    Mac,
    Type,
    Vlan,
    IpSrc,
    IpDst,
    Ip,
    Proto,
    Ttl,
    Sport,
    Dport,
    Port,
    Len,
}

const FIELDS: [(&str, Field); 14] = [
    ("dst", Field::Dst),
    ("src", Field::Src),
    ("mac", Field::Mac),
    ("type", Field::Type),
    ("vlan", Field::Vlan),
    ("ip.src", Field::IpSrc),
    ("ip.dst", Field::IpDst),
    ("ip", Field::Ip),
    ("proto", Field::Proto),
    ("ttl", Field::Ttl),
    ("sport", Field::Sport),
    ("dport", Field::Dport),
    ("port", Field::Port),
    ("len", Field::Len),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// A MAC or IP address: the bits to compare, the mask that selects them, and whether it is an
    /// IPv6 address. A MAC address is in the low 48 bits, an IPv4 address in the low 32 bits.
    Bits {
        bits: u128,
        mask: u128,
        six: bool,
    },
    Range(u64, u64),
}

/// Error for a string that is not a valid term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTerm {
    text: String,
    at: usize,
    why: String,
}

impl fmt::Display for BadTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A format width is limited to 16 bits, so the blanks are built as a string.
        let blanks = " ".repeat(self.text.get(..self.at).unwrap_or_default().chars().count());
        write!(f, "{}\n  {}\n  {blanks}^", self.why, self.text)
    }
}

impl std::error::Error for BadTerm {}

impl Terms {
    /// Returns whether `text` consists of terms rather than a pattern, that is, whether it begins
    /// with a name and `=` or `!=`. A pattern never needs a `=`, since no line contains one.
    pub fn is_like(text: &str) -> bool {
        let name: String = text.trim_start().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
        let behind = text.trim_start().get(name.len()..).unwrap_or_default();
        !name.is_empty() && (behind.starts_with('=') || behind.starts_with("!="))
    }

    /// Parses a list of terms, separated by blanks.
    ///
    /// # Errors
    /// The term that does not parse, with a caret below it.
    pub fn parse(text: &str) -> Result<Terms, BadTerm> {
        let mut terms = Vec::new();
        let mut at = 0;
        for word in text.split([' ', '\t']) {
            let begin = at;
            at += word.len() + 1;
            if word.is_empty() {
                continue;
            }
            let bad = |at: usize, why: String| BadTerm { text: text.to_owned(), at, why };
            let Some((name, value)) = word.split_once('=') else {
                return Err(bad(begin, "expected FIELD=VALUE or FIELD!=VALUE".to_owned()));
            };
            let not = name.ends_with('!');
            let name = name.trim_end_matches('!');
            let Some((_, field)) = FIELDS.iter().find(|(known, _)| *known == name) else {
                let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
                return Err(bad(begin, format!("unknown field '{name}'; fields: {}", names.join(" "))));
            };
            let place = begin + word.len() - value.len();
            let value = parse_value(*field, value).map_err(|why| bad(place, why.to_owned()))?;
            terms.push(Term { field: *field, not, value });
        }
        if terms.is_empty() {
            return Err(BadTerm { text: text.to_owned(), at: 0, why: "no terms".to_owned() });
        }
        Ok(Terms(terms))
    }

    /// Returns whether all terms are true for `frame`. `wire_len` is its original length in bytes.
    pub fn matches(&self, frame: &[u8], wire_len: usize) -> bool {
        let mut view = None;
        self.0.iter().all(|term| {
            let found = match term.field {
                Field::Dst => Found::one(mac(frame, 0)),
                Field::Src => Found::one(mac(frame, 6)),
                Field::Mac => Found { values: [mac(frame, 0), mac(frame, 6)], six: false },
                Field::Len => Found::one(Some(wire_len as u128)),
                field => view.get_or_insert_with(|| View::of(frame)).get(field),
            };
            term.holds(&found)
        })
    }
}

/// Values of a field in a frame: none, one, or two for a field such as `port`, which means source
/// or destination.
struct Found {
    values: [Option<u128>; 2],
    six: bool,
}

impl Found {
    fn one(value: Option<u128>) -> Found {
        Found { values: [value, None], six: false }
    }
}

impl Term {
    fn holds(&self, found: &Found) -> bool {
        let equal = |value: &u128| match self.value {
            Value::Bits { bits, mask, six } => six == found.six && value & mask == bits,
            Value::Range(low, high) => (u128::from(low)..=u128::from(high)).contains(value),
        };
        let mut there = found.values.iter().flatten();
        // With two values, `!=` requires that neither of them is equal.
        if self.not { found.values[0].is_some() && !there.any(equal) } else { there.any(equal) }
    }
}

fn mac(frame: &[u8], at: usize) -> Option<u128> {
    let bytes = frame.get(at..at + 6)?;
    Some(bytes.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte)))
}

/// Values of the header fields of a frame; `None` for a field that the frame does not have.
#[derive(Default)]
struct View {
    ethertype: Option<u16>,
    vlan: Option<u16>,
    addresses: Option<(u128, u128)>,
    six: bool,
    proto: Option<u8>,
    ttl: Option<u8>,
    ports: Option<(u16, u16)>,
}

impl View {
    fn of(frame: &[u8]) -> View {
        let mut view = View::default();
        let Ok(header) = eth::Header::parse(frame) else { return view };
        let (mut ethertype, mut rest) = (header.ethertype, frame.get(eth::HEADER_LEN..).unwrap_or_default());
        // Skips at most two tags (IEEE 802.1ad). If there is a third tag, `type` is its TPID.
        for _ in 0..2 {
            if !ethertype.is_tag() {
                break;
            }
            let Ok(tag) = vlan::Tag::parse(rest) else { return view };
            view.vlan.get_or_insert(tag.vid);
            (ethertype, rest) = (tag.ethertype, rest.get(vlan::TAG_LEN..).unwrap_or_default());
        }
        view.ethertype = Some(ethertype.0);
        match ethertype {
            EtherType::IPV4 => view.ip4(rest),
            EtherType::IPV6 => view.ip6(rest),
            _ => None,
        };
        view
    }

    fn ip4(&mut self, packet: &[u8]) -> Option<()> {
        let header = ip4::Header::parse(packet).ok()?;
        let bits = |addr: Ipv4Addr| u128::from(addr.to_bits());
        self.addresses = Some((bits(header.src), bits(header.dst)));
        (self.proto, self.ttl) = (Some(header.proto.0), Some(header.ttl));
        if header.frag_off == 0 {
            self.transport(header.proto, header.payload(packet));
        }
        Some(())
    }

    fn ip6(&mut self, packet: &[u8]) -> Option<()> {
        let header = ip6::Header::parse(packet).ok()?;
        self.six = true;
        self.addresses = Some((header.src.to_bits(), header.dst.to_bits()));
        let (chain, _) = ip6::Chain::walk_far(&header, packet);
        (self.proto, self.ttl) = (Some(chain.upper.0), Some(header.hop_limit));
        if chain.fragment.is_none_or(|fragment| fragment.offset == 0) {
            self.transport(chain.upper, chain.payload(&header, packet));
        }
        Some(())
    }

    /// Sets the ports, which are the first four bytes of TCP and UDP headers. A first fragment may
    /// contain little more than these.
    fn transport(&mut self, proto: Proto, segment: &[u8]) {
        if let (Proto::TCP | Proto::UDP, Some([a, b, c, d])) = (proto, segment.first_chunk::<4>()) {
            self.ports = Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
        }
    }

    fn get(&self, field: Field) -> Found {
        let address = |which: fn((u128, u128)) -> [Option<u128>; 2]| Found {
            values: self.addresses.map_or([None; 2], which),
            six: self.six,
        };
        let small = |value: Option<u16>| Found::one(value.map(u128::from));
        match field {
            Field::Type => small(self.ethertype),
            Field::Vlan => small(self.vlan),
            Field::IpSrc => address(|(src, _)| [Some(src), None]),
            Field::IpDst => address(|(_, dst)| [Some(dst), None]),
            Field::Ip => address(|(src, dst)| [Some(src), Some(dst)]),
            Field::Proto => small(self.proto.map(u16::from)),
            Field::Ttl => small(self.ttl.map(u16::from)),
            Field::Sport => small(self.ports.map(|(src, _)| src)),
            Field::Dport => small(self.ports.map(|(_, dst)| dst)),
            Field::Port => {
                let both = self.ports.map_or([None; 2], |(src, dst)| [Some(src), Some(dst)]);
                Found { values: both.map(|port| port.map(u128::from)), six: false }
            }
            Field::Dst | Field::Src | Field::Mac | Field::Len => Found::one(None),
        }
    }
}

fn parse_value(field: Field, text: &str) -> Result<Value, &'static str> {
    match field {
        Field::Dst | Field::Src | Field::Mac => parse_mac(text),
        Field::IpSrc | Field::IpDst | Field::Ip => parse_address(text),
        Field::Type => match text {
            "ip" | "ip4" => Ok(one(EtherType::IPV4.0)),
            "ip6" => Ok(one(EtherType::IPV6.0)),
            "arp" => Ok(one(EtherType::ARP.0)),
            number => range(number, 0xffff).ok_or("expected an EtherType: a number, a range, ip, ip6 or arp"),
        },
        Field::Proto => match text {
            "tcp" => Ok(one(Proto::TCP.0)),
            "udp" => Ok(one(Proto::UDP.0)),
            "icmp" => Ok(one(Proto::ICMP.0)),
            "igmp" => Ok(one(Proto::IGMP.0)),
            "icmp6" => Ok(one(Proto::IPV6_ICMP.0)),
            "sctp" => Ok(one(Proto::SCTP.0)),
            number => {
                range(number, 0xff).ok_or("expected a protocol: a number, a range, tcp, udp, icmp, igmp, icmp6 or sctp")
            }
        },
        Field::Vlan => range(text, 4095).ok_or("expected a VLAN identifier from 0 to 4095, or a range"),
        Field::Ttl => range(text, 255).ok_or("expected a TTL from 0 to 255, or a range"),
        Field::Len => range(text, MAX_FRAME as u64).ok_or("expected a length from 14 to 262144 bytes, or a range"),
        Field::Sport | Field::Dport | Field::Port => {
            range(text, 0xffff).ok_or("expected a port from 0 to 65535, or a range")
        }
    }
}

fn one(value: impl Into<u64>) -> Value {
    let value = value.into();
    Value::Range(value, value)
}

/// Parses `5`, `0x0800` or `5-9`; no value may exceed `most`.
fn range(text: &str, most: u64) -> Option<Value> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => u64::from_str_radix(digits, 16).ok(),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (number(low)?, number(high)?);
    (low <= high && high <= most).then_some(Value::Range(low, high))
}

fn parse_mac(text: &str) -> Result<Value, &'static str> {
    const WHAT: &str = "expected a MAC address, as in 00:11:22:33:44:55; * is any byte, or the rest at the end";
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | '-' | '.')).collect();
    let parts: Vec<&str> = if text.contains([':', '-']) {
        text.split([':', '-']).collect()
    } else {
        // Without separators, as in 001122334455 or 0011*.
        digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or("?")).collect()
    };
    let open = parts.last() == Some(&"*") && parts.len() <= 6;
    if parts.len() > 6 || (parts.len() < 6 && !open) {
        return Err(WHAT);
    }
    let (mut bits, mut mask) = (0_u128, 0_u128);
    for at in 0..6 {
        let (byte, known) = match parts.get(at) {
            None | Some(&"*") => (0, 0),
            Some(part) if part.len() <= 2 && part.bytes().all(|c| c.is_ascii_hexdigit()) => {
                (u8::from_str_radix(part, 16).map_err(|_| WHAT)?, 0xff)
            }
            Some(_) => return Err(WHAT),
        };
        bits = bits << 8 | u128::from(byte);
        mask = mask << 8 | known;
    }
    Ok(Value::Bits { bits, mask, six: false })
}

fn parse_address(text: &str) -> Result<Value, &'static str> {
    const WHAT: &str = "expected an address or a prefix: 10.0.0.1, 10.0.0.0/8, 10.1.*, 2001:db8::/32";
    let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let under = |bits: u128, width: u32| -> Result<Value, &'static str> {
        let len = len.map_or(Ok(width), str::parse).ok().filter(|len| *len <= width).ok_or(WHAT)?;
        let all = if width == 128 { u128::MAX } else { (1 << width) - 1 };
        let mask = all & !(all.checked_shr(len).unwrap_or(0));
        Ok(Value::Bits { bits: bits & mask, mask, six: width == 128 })
    };
    if let Ok(four) = address.parse::<Ipv4Addr>() {
        return under(u128::from(four.to_bits()), 32);
    }
    if let Ok(six) = address.parse::<Ipv6Addr>() {
        return under(six.to_bits(), 128);
    }
    let parts: Vec<&str> = address.split('.').collect();
    let open = parts.last() == Some(&"*");
    if len.is_some() || parts.len() > 4 || (parts.len() < 4 && !open) {
        return Err(WHAT);
    }
    let (mut bits, mut mask) = (0_u128, 0_u128);
    for at in 0..4 {
        let (byte, known) = match parts.get(at) {
            None | Some(&"*") => (0, 0),
            Some(part) => (part.parse::<u8>().map_err(|_| WHAT)?, 0xff),
        };
        bits = bits << 8 | u128::from(byte);
        mask = mask << 8 | known;
    }
    Ok(Value::Bits { bits, mask, six: false })
}
