//! IPv4 options: an iterator that cannot loop, over-read or recurse (RFC 791 3.1, RFC 2113).
//!
//! The iterator yields one item per option. It ends after End of Option List, after the last byte,
//! or after the first malformed option (CVE-2019-12256, CVE-2020-24337: a length of 0 or past the
//! end). Source routes have types of their own, so that `inet` can count the packets that it drops
//! because of them.

use crate::{Layer, Malformed};
use core::net::Ipv4Addr;

/// Contents of a Record Route or source route option: RFC 791's pointer and the addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route<'a> {
    /// Octet number of the next free address slot, counted from 1, at least 4. It is beyond the
    /// option's length if all slots are used.
    pub pointer: u8,
    addresses: &'a [[u8; 4]],
}

impl<'a> Route<'a> {
    /// Returns the address slots, in order.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = Ipv4Addr> + 'a {
        self.addresses.iter().map(|&octets| Ipv4Addr::from(octets))
    }
}

/// Contents of the Internet Timestamp option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamps<'a> {
    /// Octet number of the next free timestamp slot, counted from 1, at least 5.
    pub pointer: u8,
    /// Number of hosts that could not add a timestamp for lack of space, 0 to 15.
    pub overflow: u8,
    /// Kind of entries. 0: timestamps only; 1: addresses and timestamps; 3: timestamps of hosts
    /// whose addresses the sender has specified.
    pub flag: u8,
    /// Timestamps, or addresses and timestamps alternately.
    pub words: &'a [[u8; 4]],
}

impl Timestamps<'_> {
    /// Returns the length of the option in octets.
    fn len(&self) -> usize {
        4 + 4 * self.words.len()
    }

    /// Returns whether the option has space for an address, but not for its timestamp too.
    pub(super) fn is_short(&self) -> bool {
        let pointer = usize::from(self.pointer);
        matches!(self.flag, 1 | 3) && (pointer..pointer + 7).contains(&self.len())
    }

    /// Returns whether the option is full and its overflow counter has the maximum value, so that
    /// no further host can be counted. With prespecified addresses (flag 3), space for each
    /// timestamp is reserved, so no host lacks space.
    pub(super) fn is_overflowing(&self) -> bool {
        self.flag != 3 && usize::from(self.pointer) > self.len() && self.overflow == 15
    }
}

/// An IPv4 option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt<'a> {
    /// End of Option List (0); nothing comes after it.
    End,
    /// No Operation option (1).
    Nop,
    /// Record Route option (7).
    RecordRoute(Route<'a>),
    /// Loose Source and Record Route (131).
    Lsrr(Route<'a>),
    /// Strict Source and Record Route (137).
    Ssrr(Route<'a>),
    /// Internet Timestamp option (68).
    Timestamp(Timestamps<'a>),
    /// Router Alert (148, RFC 2113) and its value; 0 means "examine this packet".
    RouterAlert(u16),
    /// Any other option.
    Unknown {
        /// Option type byte: copied flag, class, number.
        kind: u8,
        /// Bytes after type and length.
        data: &'a [u8],
    },
}

impl Opt<'_> {
    /// Type of End of Option List.
    pub const END: u8 = 0;
    /// Type of No Operation.
    pub const NOP: u8 = 1;
    /// Type of Record Route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Type of Internet Timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Type of Loose Source and Record Route.
    pub const LSRR: u8 = 131;
    /// Type of Strict Source and Record Route.
    pub const SSRR: u8 = 137;
    /// Type of Router Alert.
    pub const ROUTER_ALERT: u8 = 148;
}

/// Iterator over the options of one header. At most 40 items; fused.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Iterates over `bytes`, the part of the header after its first 20 bytes.
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

/// Splits off an option with a length byte; returns its data and the bytes after it.
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

/// Parses a route. The length must be 3 plus a multiple of 4, and the pointer must be at least 4
/// and point to the start of an address (RFC 791 3.1).
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

/// Parses timestamps. The pointer must be at least 5, the length 4 plus a multiple of 4 (RFC 791
/// 3.1).
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
