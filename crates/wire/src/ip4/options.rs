//! IPv4 options: an iterator that cannot loop, over-read or recurse (RFC 791 3.1, RFC 2113).
//!
//! One item an option; the iterator ends after End of Option List, after the last byte, or after the first
//! malformed option (CVE-2019-12256, CVE-2020-24337: a length of 0 or past the end). Source routes are typed so that `inet` can name
//! and count what it drops.

use crate::{Layer, Malformed};
use std::net::Ipv4Addr;

/// A route being recorded or followed: RFC 791's pointer and the addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route<'a> {
    /// Octet at which the next address is processed, from 4; beyond the option's length: full.
    pub pointer: u8,
    addresses: &'a [[u8; 4]],
}

impl<'a> Route<'a> {
    /// The address slots, in order.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = Ipv4Addr> + 'a {
        self.addresses.iter().map(|&octets| Ipv4Addr::from(octets))
    }
}

/// The Internet Timestamp option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamps<'a> {
    /// Octet at which the next timestamp goes, from 5.
    pub pointer: u8,
    /// Hosts that could not register for lack of space, 0 to 15.
    pub overflow: u8,
    /// 0 timestamps only, 1 with addresses, 3 addresses prespecified.
    pub flag: u8,
    /// The words: timestamps, or address and timestamp in turn.
    pub words: &'a [[u8; 4]],
}

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// End of Option List (0); nothing comes after it.
    End,
    /// No Operation (1).
    Nop,
    /// Record Route (7).
    RecordRoute(Route<'a>),
    /// Loose Source and Record Route (131).
    Lsrr(Route<'a>),
    /// Strict Source and Record Route (137).
    Ssrr(Route<'a>),
    /// Internet Timestamp (68).
    Timestamp(Timestamps<'a>),
    /// Router Alert (148, RFC 2113) and its value; 0 means "examine this packet".
    RouterAlert(u16),
    /// Any other option.
    Unknown {
        /// Option type byte: copied flag, class, number.
        kind: u8,
        /// What follows type and length.
        data: &'a [u8],
    },
}

impl Opt<'_> {
    /// End of Option List.
    pub const END: u8 = 0;
    /// No Operation.
    pub const NOP: u8 = 1;
    /// Record Route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Internet Timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose Source and Record Route.
    pub const LSRR: u8 = 131;
    /// Strict Source and Record Route.
    pub const SSRR: u8 = 137;
    /// Router Alert.
    pub const ROUTER_ALERT: u8 = 148;
}

/// The options of one header. At most 40 items; fused.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Over the bytes after the fixed header.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Options { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, after) = self.rest.split_first()?;
        let item = match kind {
            Opt::END => {
                self.rest = &[];
                return Some(Ok(Opt::End));
            }
            Opt::NOP => {
                self.rest = after;
                return Some(Ok(Opt::Nop));
            }
            _ => take(kind, self.rest).and_then(|(data, rest)| {
                self.rest = rest;
                typed(kind, data)
            }),
        };
        if item.is_err() {
            self.rest = &[];
        }
        Some(item)
    }
}

/// Splits an option with a length byte into its data and what follows it.
fn take(kind: u8, bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let len = bytes.get(1).copied().unwrap_or(0);
    bytes
        .split_at_checked(usize::from(len))
        .and_then(|(option, rest)| Some((option.get(2..)?, rest)))
        .ok_or(Malformed::BadOptionLen { layer: Layer::Ip4, kind, len })
}

fn typed(kind: u8, data: &[u8]) -> Result<Opt<'_>, Malformed> {
    Ok(match kind {
        Opt::RECORD_ROUTE => Opt::RecordRoute(route(kind, data)?),
        Opt::LSRR => Opt::Lsrr(route(kind, data)?),
        Opt::SSRR => Opt::Ssrr(route(kind, data)?),
        Opt::TIMESTAMP => Opt::Timestamp(timestamps(kind, data)?),
        Opt::ROUTER_ALERT => {
            let value = data.try_into().map_err(|_| bad_len(kind, data))?;
            Opt::RouterAlert(u16::from_be_bytes(value))
        }
        _ => Opt::Unknown { kind, data },
    })
}

/// RFC 791: length is 3 and a multiple of 4, the pointer's smallest legal value is 4 and it stands on an address.
fn route(kind: u8, data: &[u8]) -> Result<Route<'_>, Malformed> {
    let (&pointer, addresses) = data.split_first().ok_or(bad_len(kind, data))?;
    let (addresses, odd) = addresses.as_chunks();
    if !odd.is_empty() {
        return Err(bad_len(kind, data));
    }
    if pointer < 4 || pointer % 4 != 0 {
        return Err(Malformed::BadOptionPointer { kind, pointer });
    }
    Ok(Route { pointer, addresses })
}

/// RFC 791: the pointer's smallest legal value is 5; the length is 4 and a multiple of 4.
fn timestamps(kind: u8, data: &[u8]) -> Result<Timestamps<'_>, Malformed> {
    let Some((&[pointer, overflow_flag], words)) = data.split_first_chunk() else {
        return Err(bad_len(kind, data));
    };
    let (words, odd) = words.as_chunks();
    if !odd.is_empty() {
        return Err(bad_len(kind, data));
    }
    if pointer < 5 || pointer % 4 != 1 {
        return Err(Malformed::BadOptionPointer { kind, pointer });
    }
    Ok(Timestamps { pointer, overflow: overflow_flag >> 4, flag: overflow_flag & 0x0f, words })
}

fn bad_len(kind: u8, data: &[u8]) -> Malformed {
    Malformed::BadOptionLen { layer: Layer::Ip4, kind, len: data.len() as u8 + 2 }
}
