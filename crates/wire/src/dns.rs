//! DNS queries and responses (RFC 1035 4), as far as a name lookup needs them.

use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Port of name servers, for UDP and TCP.
pub const PORT: u16 = 53;
/// Length of the header in bytes.
const HEADER_LEN: usize = 12;
/// Maximum length of a name as text, in bytes.
const NAME_MAX: usize = 255;
/// Maximum length of a label in bytes.
const LABEL_MAX: usize = 63;
/// Maximum number of compression pointers followed in one name.
const POINTERS_MAX: usize = 16;
/// Maximum length of a chain of CNAME records.
const ALIASES_MAX: usize = 16;
/// Maximum number of records read from a response.
const RECORDS_MAX: usize = 256;

/// DNS record types (RFC 1035 3.2.2).
pub mod ty {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// Canonical name of an alias.
    pub const CNAME: u16 = 5;
    /// Domain name of an address.
    pub const PTR: u16 = 12;
    /// An IPv6 address (RFC 3596).
    pub const AAAA: u16 = 28;
}

/// A resource record of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Domain name to which the record belongs.
    pub name: String,
    /// Time to live in seconds.
    pub ttl: u32,
    /// Data of the record.
    pub data: Data,
}

/// Data of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// An address (A, AAAA).
    Address(IpAddr),
    /// A domain name (CNAME, PTR).
    Name(String),
    /// Number of any other record type, whose data is not parsed.
    Other(u16),
}

/// A parsed DNS response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Response code: 0 no error, 2 server failure, 3 no such name, 5 refused (RFC 1035 4.1.1).
    pub rcode: u8,
    /// True if the server is an authority for the name.
    pub authoritative: bool,
    /// True if the response did not fit into a datagram and was truncated.
    pub truncated: bool,
    /// Records of the answer section.
    pub records: Vec<Record>,
}

/// Reason why a message is not a valid response to a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadDns {
    /// The message ends too early.
    Short,
    /// Not a response, or a response to another query.
    Other,
    /// A name is too long, or its compression pointers form a loop.
    BadName,
}

impl core::fmt::Display for BadDns {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            BadDns::Short => "DNS message is truncated",
            BadDns::Other => "not a response to this query",
            BadDns::BadName => "DNS message has an invalid name",
        })
    }
}

impl core::error::Error for BadDns {}

/// A query for records of one type, with recursion desired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// Identification, repeated in the response. It should be unpredictable, so that forged
    /// responses are not accepted (RFC 5452).
    pub id: u16,
    /// Domain name, without the dot at the end.
    pub name: String,
    /// Record type, see [`ty`].
    pub ty: u16,
}

/// Returns whether `name` is a domain name (RFC 1035 2.3.4): labels of 1 to 63 bytes, 255 bytes at
/// most. A dot at the end is accepted.
pub fn is_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = |label: &str| !label.is_empty() && label.len() <= LABEL_MAX;
    name.len() <= NAME_MAX - 2 && name.split('.').all(fits)
}

/// Returns whether `name` is a domain name of letters, digits, hyphens and underscores (RFC 952).
/// Other characters are not valid in a host name, and a terminal might interpret them.
pub fn is_host_name(name: &str) -> bool {
    is_name(name) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

impl Query {
    /// Appends the query to `out`. Returns `None` if the name is not a domain name ([`is_name`]).
    pub fn emit(&self, out: &mut Vec<u8>) -> Option<()> {
        let question = self.question()?;
        out.extend(self.id.to_be_bytes());
        out.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]); // RD; one question
        out.extend(question);
        Some(())
    }

    /// Returns the query that a message contains or answers, which is its first question. Returns
    /// `None` if it has no valid question.
    pub fn of_message(message: &[u8]) -> Option<Query> {
        let [i0, i1] = *message.first_chunk::<2>()?;
        let mut at = HEADER_LEN;
        let name = name(message, &mut at).ok()?;
        let [t0, t1] = take::<2>(message, &mut at).ok()?;
        Some(Query { id: u16::from_be_bytes([i0, i1]), name, ty: u16::from_be_bytes([t0, t1]) })
    }

    /// Returns the question section.
    fn question(&self) -> Option<Vec<u8>> {
        if !is_name(&self.name) {
            return None;
        }
        let mut out = Vec::with_capacity(self.name.len() + 6);
        for label in self.name.strip_suffix('.').unwrap_or(&self.name).split('.') {
            out.push(label.len() as u8);
            out.extend(label.as_bytes());
        }
        out.push(0);
        out.extend(self.ty.to_be_bytes());
        out.extend([0, 1]); // IN
        Some(out)
    }

    /// Parses the response to this query. A response repeats identification and question (RFC 5452
    /// 9.1); the case of letters may differ.
    ///
    /// # Errors
    /// [`BadDns`]; [`BadDns::Other`] for a response to another query.
    pub fn parse_answer(&self, message: &[u8]) -> Result<Answer, BadDns> {
        let header = message.first_chunk::<HEADER_LEN>().ok_or(BadDns::Short)?;
        let [i0, i1, f0, f1, q0, q1, a0, a1, ..] = *header;
        let question = self.question().ok_or(BadDns::BadName)?;
        let is_response = f0 & 0x80 != 0 && (f0 >> 3) & 15 == 0;
        if u16::from_be_bytes([i0, i1]) != self.id || !is_response || [q0, q1] != [0, 1] {
            return Err(BadDns::Other);
        }
        let mut at = HEADER_LEN + question.len();
        let repeated = message.get(HEADER_LEN..at).ok_or(BadDns::Short)?;
        if !repeated.eq_ignore_ascii_case(&question) {
            return Err(BadDns::Other);
        }
        let mut answer =
            Answer { rcode: f1 & 15, authoritative: f0 & 4 != 0, truncated: f0 & 2 != 0, records: Vec::new() };
        for _ in 0..usize::from(u16::from_be_bytes([a0, a1])).min(RECORDS_MAX) {
            match record(message, &mut at) {
                Ok(record) => answer.records.push(record),
                // In a truncated response the last record may be incomplete.
                Err(BadDns::Short) if answer.truncated => break,
                Err(why) => return Err(why),
            }
        }
        Ok(answer)
    }
}

impl Answer {
    /// Returns the addresses of `name` and the name that owns them, which is the end of the chain
    /// of CNAME records that starts at `name`. Records of other names are ignored.
    pub fn addresses(&self, name: &str) -> (Vec<IpAddr>, String) {
        let mut name = name.strip_suffix('.').unwrap_or(name).to_string();
        for _ in 0..ALIASES_MAX {
            let of_name = self.records.iter().filter(|record| record.name.eq_ignore_ascii_case(&name));
            let alias = of_name.clone().find_map(|record| match &record.data {
                Data::Name(other) if !other.eq_ignore_ascii_case(&name) => Some(other.clone()),
                _ => None,
            });
            match alias {
                Some(other) => name = other,
                None => {
                    let addr = |record: &Record| match record.data {
                        Data::Address(addr) => Some(addr),
                        _ => None,
                    };
                    return (of_name.filter_map(addr).collect(), name);
                }
            }
        }
        (Vec::new(), name)
    }
}

/// Returns the mnemonic of a response code (RFC 1035 4.1.1).
pub fn rcode_name(rcode: u8) -> String {
    match rcode {
        0 => "No answer".to_string(),
        1 => "FORMERR".to_string(),
        2 => "SERVFAIL".to_string(),
        3 => "NXDOMAIN".to_string(),
        4 => "NOTIMP".to_string(),
        5 => "REFUSED".to_string(),
        code => format!("response code {code}"),
    }
}

/// Returns the name that is queried for the PTR record of `addr` (RFC 1035 3.5, RFC 3596 2.5).
pub fn reverse_name(addr: IpAddr) -> String {
    match addr {
        IpAddr::V4(addr) => {
            let [a, b, c, d] = addr.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(addr) => {
            let nibbles = addr.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            let mut out = String::new();
            // Writing to a String cannot fail.
            nibbles.for_each(|nibble| _ = write!(out, "{nibble:x}."));
            out + "ip6.arpa"
        }
    }
}

/// Parses consecutive names without compression pointers (RFC 8106 5.2; RFC 3397 after
/// decompression). Stops at an empty name, which is padding, or at the first malformed one.
pub fn names(bytes: &[u8]) -> Vec<String> {
    let (mut out, mut at) = (Vec::new(), 0);
    while bytes.get(at).is_some_and(|len| (1..=LABEL_MAX).contains(&usize::from(*len))) {
        match name_within(bytes, &mut at, 0) {
            Ok(name) if is_name(&name) => out.push(name),
            _ => break,
        }
    }
    out
}

fn take<const N: usize>(message: &[u8], at: &mut usize) -> Result<[u8; N], BadDns> {
    let bytes = message.get(*at..).and_then(|rest| rest.first_chunk::<N>()).ok_or(BadDns::Short)?;
    *at += N;
    Ok(*bytes)
}

fn record(message: &[u8], at: &mut usize) -> Result<Record, BadDns> {
    let name_of_it = name(message, at)?;
    let [t0, t1, _, _, l0, l1, l2, l3, d0, d1] = take::<10>(message, at)?;
    let (ty, len) = (u16::from_be_bytes([t0, t1]), usize::from(u16::from_be_bytes([d0, d1])));
    let begin = *at;
    let data = message.get(begin..begin + len).ok_or(BadDns::Short)?;
    *at += len;
    let data = match ty {
        ty::A => Data::Address(Ipv4Addr::from(*data.first_chunk::<4>().ok_or(BadDns::Short)?).into()),
        ty::AAAA => Data::Address(Ipv6Addr::from(*data.first_chunk::<16>().ok_or(BadDns::Short)?).into()),
        ty::CNAME | ty::PTR => {
            let mut inside = begin;
            Data::Name(name(message, &mut inside)?)
        }
        other => Data::Other(other),
    };
    Ok(Record { name: name_of_it, ttl: u32::from_be_bytes([l0, l1, l2, l3]), data })
}

/// Parses a name, following compression pointers (RFC 1035 4.1.4), and moves `at` past it. Bytes
/// that are not graphic characters are written as `\DDD` (RFC 1035 5.1).
fn name(message: &[u8], at: &mut usize) -> Result<String, BadDns> {
    name_within(message, at, POINTERS_MAX)
}

/// Parses a name as [`name`] does, but follows at most `pointers_max` pointers.
fn name_within(message: &[u8], at: &mut usize, pointers_max: usize) -> Result<String, BadDns> {
    let (mut out, mut here, mut pointers, mut octets) = (String::new(), *at, 0, 1);
    loop {
        let [len] = take::<1>(message, &mut here)?;
        match len >> 6 {
            0 if len == 0 => break,
            0 => {
                let label = message.get(here..here + usize::from(len)).ok_or(BadDns::Short)?;
                here += label.len();
                octets += 1 + label.len();
                if octets > NAME_MAX {
                    return Err(BadDns::BadName);
                }
                if !out.is_empty() {
                    out.push('.');
                }
                for byte in label {
                    match byte {
                        b'.' | b'\\' => out.extend(['\\', char::from(*byte)]),
                        byte if byte.is_ascii_graphic() => out.push(char::from(*byte)),
                        byte => _ = write!(out, "\\{byte:03}"),
                    }
                }
            }
            3 => {
                let [low] = take::<1>(message, &mut here)?;
                if pointers == 0 {
                    *at = here;
                }
                pointers += 1;
                if pointers > pointers_max {
                    return Err(BadDns::BadName);
                }
                here = usize::from(len & 0x3f) << 8 | usize::from(low);
            }
            _ => return Err(BadDns::BadName),
        }
    }
    if pointers == 0 {
        *at = here;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query for www.example.org, and a response with a CNAME and compressed names.
    #[test]
    fn a_response_with_pointers_is_parsed() {
        let requested = Query { id: 0x1234, name: "www.example.org.".into(), ty: ty::A };
        let mut query = Vec::new();
        requested.emit(&mut query).unwrap();
        assert_eq!(query[..12], [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(query[12..], *b"\x03www\x07example\x03org\0\0\x01\0\x01");
        let mut answer = query.clone();
        (answer[2], answer[3], answer[7]) = (0x84, 0x80, 2);
        answer.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01h\xc0\x10"); // www CNAME h.example.org
        answer.extend(b"\x01h\xc0\x10\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x07");
        let read = requested.parse_answer(&answer).unwrap();
        assert!(read.authoritative && !read.truncated && read.rcode == 0);
        let names: Vec<&str> = read.records.iter().map(|record| record.name.as_str()).collect();
        assert_eq!(names, ["www.example.org", "h.example.org"]);
        assert_eq!(read.records[0].data, Data::Name("h.example.org".into()));
        assert_eq!(read.records[1].data, Data::Address("10.0.0.7".parse().unwrap()));
        assert_eq!(read.addresses("WWW.example.org"), (vec!["10.0.0.7".parse().unwrap()], "h.example.org".into()));
        assert_eq!(read.addresses("example.org"), (vec![], "example.org".into()));
        for other in [Query { id: 1, ..requested.clone() }, Query { ty: ty::AAAA, ..requested.clone() }] {
            assert_eq!(other.parse_answer(&answer), Err(BadDns::Other));
        }
        let other = Query { name: "wwx.example.org".into(), ..requested.clone() };
        assert_eq!(other.parse_answer(&answer), Err(BadDns::Other));
        let upper = Query { name: "WWW.EXAMPLE.org".into(), ..requested.clone() };
        assert_eq!(upper.parse_answer(&answer), Ok(read));
        assert_eq!(requested.parse_answer(&query), Err(BadDns::Other));
        for len in 0..answer.len() {
            assert!(requested.parse_answer(&answer[..len]).is_err(), "{len}");
        }
        answer[2] |= 2; // truncated: the records so far
        let cut = requested.parse_answer(&answer[..answer.len() - 1]).unwrap();
        assert!(cut.truncated && cut.records.len() == 1);
    }

    /// Aliases that form a loop, and aliases of other names.
    #[test]
    fn alias_loops_end() {
        let alias = |name: &str, to: &str| Record { name: name.into(), ttl: 1, data: Data::Name(to.into()) };
        let addr = |name: &str| Record { name: name.into(), ttl: 1, data: Data::Address([10, 0, 0, 1].into()) };
        let of = |records| Answer { rcode: 0, authoritative: false, truncated: false, records };
        let circle = of(vec![alias("a", "b"), alias("b", "a"), addr("a"), addr("b")]);
        assert!(circle.addresses("a").0.is_empty());
        assert_eq!(of(vec![alias("a", "b"), addr("c")]).addresses("a"), (vec![], "b".into()));
        let chain = (0..15).map(|n| alias(&format!("n{n}"), &format!("n{}", n + 1))).chain([addr("n15")]);
        assert_eq!(of(chain.collect()).addresses("n0").0.len(), 1);
    }

    /// Pointers to themselves and reserved labels.
    #[test]
    fn invalid_names_are_rejected() {
        let requested = Query { id: 1, name: "a".into(), ty: ty::A };
        let mut answer = Vec::new();
        requested.emit(&mut answer).unwrap();
        (answer[2], answer[7]) = (0x80, 1);
        let begin = answer.len();
        answer.extend([0xc0, begin as u8]);
        assert_eq!(requested.parse_answer(&answer), Err(BadDns::BadName));
        answer[begin] = 0x80;
        assert_eq!(requested.parse_answer(&answer), Err(BadDns::BadName));
        for (last, fits) in [(61, true), (62, false)] {
            let labels = [63, 63, 63, last].map(|len: u8| [&[len][..], &vec![b'a'; len.into()]].concat());
            let tail = b"\0\0\x01\0\x01\0\0\0\0\0\x04\x0a\0\0\x01";
            let long = [&answer[..begin], &labels.concat(), tail].concat();
            assert_eq!(requested.parse_answer(&long).is_ok(), fits, "a name of {} octets", 3 * 64 + last + 2);
        }
        let long = "a".repeat(64);
        for name in ["", "a..b", ".", long.as_str()] {
            let query = Query { id: 1, name: name.into(), ty: ty::A };
            assert_eq!((query.emit(&mut Vec::new()), is_name(name)), (None, false), "{name}");
        }
        assert!(is_host_name("a-b.c_d") && is_name("a b") && !is_host_name("a b") && !is_host_name("\x1b[2J"));
    }

    #[test]
    fn names_in_a_row_end_at_padding_and_at_pointers() {
        assert_eq!(names(b"\x01a\x01b\0\x01c\0\0\0"), ["a.b", "c"]);
        assert_eq!(names(b"\x01a\0\x01b\xc0\0"), ["a"]);
        assert_eq!(names(b"\x01a\0\x05b"), ["a"]);
        assert!(names(b"").is_empty() && names(b"\xc0\0").is_empty());
    }

    #[test]
    fn addresses_have_names() {
        assert_eq!(reverse_name("192.0.2.5".parse().unwrap()), "5.2.0.192.in-addr.arpa");
        let six = reverse_name("2001:db8::1".parse().unwrap());
        assert!(six.starts_with("1.0.0.0.") && six.ends_with(".8.b.d.0.1.0.0.2.ip6.arpa"), "{six}");
    }
}
