//! DNS queries and the answers to them (RFC 1035 4): as much as a name look-up needs.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port of name servers.
pub const PORT: u16 = 53;
/// Bytes of the header.
const HEADER_LEN: usize = 12;
/// Bytes of a name at most, as text.
const NAME_MAX: usize = 255;
/// Bytes of a label at most.
const LABEL_MAX: usize = 63;
/// Pointers followed in one name at most.
const POINTERS_MAX: usize = 16;
/// Records read of an answer at most.
const RECORDS_MAX: usize = 256;

/// Types of records.
pub mod ty {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// Another name of the same.
    pub const CNAME: u16 = 5;
    /// The name of an address.
    pub const PTR: u16 = 12;
    /// An IPv6 address (RFC 3596).
    pub const AAAA: u16 = 28;
}

/// A record of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Name that it is about.
    pub name: String,
    /// Seconds that it is good for.
    pub ttl: u32,
    /// Its data.
    pub data: Data,
}

/// Data of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// An address (A, AAAA).
    Address(IpAddr),
    /// A name (CNAME, PTR).
    Name(String),
    /// Another type, not read.
    Other(u16),
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Response code: 0 no error, 2 server failure, 3 no such name, 5 refused (RFC 1035 4.1.1).
    pub rcode: u8,
    /// The server is an authority for the name.
    pub authoritative: bool,
    /// It did not fit into a datagram.
    pub truncated: bool,
    /// Records of the answer section.
    pub records: Vec<Record>,
}

/// Reason that bytes are no answer to a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadDns {
    /// The message ends too early.
    Short,
    /// Not an answer, or to another query.
    Other,
    /// A name longer than allowed, or whose pointers lead in a circle.
    BadName,
}

impl std::fmt::Display for BadDns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BadDns::Short => "a DNS message that is cut short",
            BadDns::Other => "not an answer to this query",
            BadDns::BadName => "a DNS message with a bad name",
        })
    }
}

impl std::error::Error for BadDns {}

/// Appends a query for records of type `ty` of `name`, with recursion desired. `None`: `name` is no
/// domain name.
pub fn emit_query(id: u16, name: &str, ty: u16, out: &mut Vec<u8>) -> Option<()> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = |label: &str| !label.is_empty() && label.len() <= LABEL_MAX;
    if name.len() > NAME_MAX - 2 || !name.split('.').all(fits) {
        return None;
    }
    out.extend(id.to_be_bytes());
    out.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]); // RD; one question
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend(label.as_bytes());
    }
    out.push(0);
    out.extend(ty.to_be_bytes());
    out.extend([0, 1]); // IN
    Some(())
}

/// The name under which the name of `addr` is found (RFC 1035 3.5, RFC 3596 2.5).
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

/// Reads the answer to query `id`.
///
/// # Errors
/// [`BadDns`].
pub fn parse_answer(message: &[u8], id: u16) -> Result<Answer, BadDns> {
    let header = message.first_chunk::<HEADER_LEN>().ok_or(BadDns::Short)?;
    let [i0, i1, f0, f1, q0, q1, a0, a1, ..] = *header;
    if u16::from_be_bytes([i0, i1]) != id || f0 & 0x80 == 0 {
        return Err(BadDns::Other);
    }
    let mut at = HEADER_LEN;
    for _ in 0..u16::from_be_bytes([q0, q1]) {
        name(message, &mut at)?;
        take::<4>(message, &mut at)?;
    }
    let mut records = Vec::new();
    for _ in 0..usize::from(u16::from_be_bytes([a0, a1])).min(RECORDS_MAX) {
        records.push(record(message, &mut at)?);
    }
    Ok(Answer { rcode: f1 & 15, authoritative: f0 & 4 != 0, truncated: f0 & 2 != 0, records })
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

/// Reads a name, of which a part may stand elsewhere (RFC 1035 4.1.4); `at` moves past it. Bytes that are
/// no graphic characters are written as `\DDD` (RFC 1035 5.1).
fn name(message: &[u8], at: &mut usize) -> Result<String, BadDns> {
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
                if pointers > POINTERS_MAX {
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

    /// A query for www.example.org, and an answer with a CNAME whose names are pointers.
    #[test]
    fn an_answer_is_read_with_its_pointers() {
        let mut query = Vec::new();
        emit_query(0x1234, "www.example.org.", ty::A, &mut query).unwrap();
        assert_eq!(query[..12], [0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(query[12..], *b"\x03www\x07example\x03org\0\0\x01\0\x01");
        let mut answer = query.clone();
        (answer[2], answer[3], answer[7]) = (0x84, 0x80, 2);
        answer.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01h\xc0\x10"); // www CNAME h.example.org
        answer.extend(b"\x01h\xc0\x10\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x07");
        let read = parse_answer(&answer, 0x1234).unwrap();
        assert!(read.authoritative && !read.truncated && read.rcode == 0);
        let names: Vec<&str> = read.records.iter().map(|record| record.name.as_str()).collect();
        assert_eq!(names, ["www.example.org", "h.example.org"]);
        assert_eq!(read.records[0].data, Data::Name("h.example.org".into()));
        assert_eq!(read.records[1].data, Data::Address("10.0.0.7".parse().unwrap()));
        assert_eq!(parse_answer(&answer, 1), Err(BadDns::Other));
        assert_eq!(parse_answer(&query, 0x1234), Err(BadDns::Other));
        for len in 0..answer.len() {
            assert!(parse_answer(&answer[..len], 0x1234).is_err(), "{len}");
        }
    }

    /// Pointers to themselves and reserved labels.
    #[test]
    fn bad_names_end() {
        let mut answer = vec![0, 1, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        answer.extend(b"\xc0\x0c");
        assert_eq!(parse_answer(&answer, 1), Err(BadDns::BadName));
        answer[12] = 0x80;
        assert_eq!(parse_answer(&answer, 1), Err(BadDns::BadName));
        for (last, fits) in [(61, true), (62, false)] {
            let labels = [63, 63, 63, last].map(|len: u8| [&[len][..], &vec![b'a'; len.into()]].concat());
            let tail = b"\0\0\x01\0\x01\0\0\0\0\0\x04\x0a\0\0\x01";
            let long = [&answer[..12], &labels.concat(), tail].concat();
            assert_eq!(parse_answer(&long, 1).is_ok(), fits, "a name of {} octets", 3 * 64 + last + 2);
        }
        let long = "a".repeat(64);
        for name in ["", "a..b", ".", long.as_str()] {
            assert_eq!(emit_query(1, name, ty::A, &mut Vec::new()), None, "{name}");
        }
    }

    #[test]
    fn addresses_have_names() {
        assert_eq!(reverse_name("192.0.2.5".parse().unwrap()), "5.2.0.192.in-addr.arpa");
        let six = reverse_name("2001:db8::1".parse().unwrap());
        assert!(six.starts_with("1.0.0.0.") && six.ends_with(".8.b.d.0.1.0.0.2.ip6.arpa"), "{six}");
    }
}
