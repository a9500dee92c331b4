//! Conversation hashes: one number for all packets of a conversation, including its fragments and
//! the ICMP errors about it. They are used if several stacks share an address.
//!
//! [`four`](super::four) and [`six`](super::six) only keep the order of packets within a flow. The
//! functions of this module also recognize the conversation of a packet whose L4 ports come after
//! options, are in another fragment, or are in the packet that an ICMP error quotes. This host sent
//! the quoted packet, so its source and destination are reversed.
//!
//! | packet | hash of |
//! |---|---|
//! | TCP, UDP, SCTP | addresses and L4 ports |
//! | first fragment | addresses and L4 ports; stored for the later fragments ([`Fragments`]) |
//! | later fragment | its first fragment if received before, else the addresses (a stray) |
//! | ICMP error | the quoted packet, reversed |
//! | anything else | addresses and protocol |

use super::{Fragment, Upper, has_ports, upper4, upper6, word};
use crate::Proto;
use crate::eth::{self, EtherType};
use crate::hash::Key;
use alloc::boxed::Box;
use alloc::vec;
use core::net::{IpAddr, SocketAddr};

/// Number of datagrams for which the hash of the first fragment is stored. It is enough for the
/// fragmented datagrams in transit at one moment.
const FRAGMENTS: usize = 256;
/// Header fields of a packet that the hash needs, and the offset of its payload.
#[derive(Clone, Copy)]
struct Parts {
    /// Source and destination address, combined in one number.
    pair: u64,
    proto: u8,
    payload: usize,
    fragment: Option<Fragment>,
}

/// Direction of a packet: sent to this host, or sent by it and quoted in an ICMP error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Here,
    There,
}

/// Hashes of first fragments, indexed by a hash of their datagram. The table has a fixed size, and
/// a new entry replaces the old one in its slot.
#[derive(Debug)]
pub struct Fragments {
    slots: Box<[(u64, u64)]>,
    /// Number of later fragments without an entry: the first fragment had not arrived, or its entry
    /// was replaced.
    pub strays: u64,
}

impl Default for Fragments {
    fn default() -> Fragments {
        Fragments { slots: vec![(0, 0); FRAGMENTS].into(), strays: 0 }
    }
}

impl Fragments {
    fn slot(&mut self, datagram: u64) -> Option<&mut (u64, u64)> {
        let at = (datagram >> 32) as usize % self.slots.len().max(1);
        self.slots.get_mut(at)
    }

    /// Returns the hash of a fragment's conversation; `own` is the hash computed from the
    /// fragment's own headers.
    fn of(&mut self, datagram: u64, is_first: bool, own: u64) -> u64 {
        let Some(slot) = self.slot(datagram) else { return own };
        if is_first {
            *slot = (datagram, own);
            return own;
        }
        match *slot {
            (known, first) if known == datagram => first,
            _ => {
                self.strays += 1;
                own
            }
        }
    }
}

/// Returns the hash of the conversation of `packet`; `None` if it is not an IP packet.
pub fn flow(key: Key, packet: &[u8], fragments: &mut Fragments) -> Option<u64> {
    let parts = read(key, packet, Way::Here)?;
    let own = quoted(parts, packet).and_then(|quote| of(key, read(key, quote, Way::There)?, quote, Way::There));
    let own = own.or_else(|| of(key, parts, packet, Way::Here))?;
    let Some(Fragment { id, is_first }) = parts.fragment else { return Some(own) };
    Some(fragments.of(key.hash2(parts.pair, u64::from(id) << 8 | u64::from(parts.proto)), is_first, own))
}

/// Returns the hash of the remote and the local address of a packet. It is the same for all
/// conversations between these addresses.
pub fn peer(key: Key, packet: &[u8]) -> Option<u64> {
    let parts = read(key, packet, Way::Here)?;
    let quote = quoted(parts, packet).and_then(|quote| read(key, quote, Way::There));
    Some(key.hash2(quote.unwrap_or(parts).pair, 0))
}

/// Returns the hash of the conversation between two endpoints. It equals the hash that [`flow`]
/// computes from a packet sent from `from` to `to`.
pub fn of_ends(key: Key, from: SocketAddr, to: SocketAddr, proto: Proto) -> u64 {
    let ports = u64::from(from.port()) << 16 | u64::from(to.port());
    super::of(key, pair_of(key, from.ip(), to.ip()), proto.0, ports)
}

/// Returns the hash of two addresses. It equals the hash that [`peer`] computes from a packet
/// between them.
pub fn of_peer(key: Key, from: IpAddr, to: IpAddr) -> u64 {
    key.hash2(pair_of(key, from, to), 0)
}

/// Combines both addresses in one number, in the same way as [`read`].
fn pair_of(key: Key, from: IpAddr, to: IpAddr) -> u64 {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => u64::from(from.to_bits()) << 32 | u64::from(to.to_bits()),
        (from, to) => {
            let words = |addr: IpAddr| {
                let bits = match addr {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(v6) => v6.to_bits(),
                };
                ((bits >> 64) as u64, bits as u64)
            };
            let ((a, b), (c, d)) = (words(from), words(to));
            key.hash4(a, b, c, d)
        }
    }
}

/// Returns whether every stack that shares the address must receive the frame: ARP, IPv6 neighbor
/// discovery, and group membership (IGMP, MLD).
pub fn is_for_all(frame: &[u8]) -> bool {
    let ethertype = frame.get(12..).and_then(|rest| rest.first_chunk()).map(|two| EtherType(u16::from_be_bytes(*two)));
    let packet = frame.get(eth::HEADER_LEN..).unwrap_or_default();
    match ethertype {
        Some(EtherType::ARP) => true,
        Some(EtherType::IPV4) => packet.get(9) == Some(&Proto::IGMP.0),
        Some(EtherType::IPV6) => upper6(packet).is_some_and(|Upper { proto, at, .. }| {
            let kind = packet.get(at).copied().unwrap_or_default();
            // The four MLD types, and the neighbor discovery types from router solicitation to
            // redirect.
            proto == Proto::IPV6_ICMP.0 && matches!(kind, 130..=137 | 143)
        }),
        _ => false,
    }
}

/// Returns the hash computed from a packet's own headers.
fn of(key: Key, parts: Parts, packet: &[u8], way: Way) -> Option<u64> {
    let is_later = parts.fragment.is_some_and(|fragment| !fragment.is_first);
    let ports = packet.get(parts.payload..).and_then(|payload| payload.first_chunk());
    let ports = ports.filter(|_| has_ports(parts.proto) && !is_later).map_or(0, |ports| u32::from_be_bytes(*ports));
    let ports = if way == Way::There { ports.rotate_left(16) } else { ports };
    Some(super::of(key, parts.pair, parts.proto, ports.into()))
}

fn read(key: Key, packet: &[u8], way: Way) -> Option<Parts> {
    match packet.first()? >> 4 {
        4 => read4(packet, way),
        6 => read6(key, packet, way),
        _ => None,
    }
}

fn read4(packet: &[u8], way: Way) -> Option<Parts> {
    let pair = word(packet, 12)?;
    let Upper { proto, at, fragment } = upper4(packet)?;
    Some(Parts { pair: if way == Way::There { pair.rotate_left(32) } else { pair }, proto, payload: at, fragment })
}

fn read6(key: Key, packet: &[u8], way: Way) -> Option<Parts> {
    let [a, b, c, d] = [word(packet, 8)?, word(packet, 16)?, word(packet, 24)?, word(packet, 32)?];
    let pair = if way == Way::There { key.hash4(c, d, a, b) } else { key.hash4(a, b, c, d) };
    let Upper { proto, at, fragment } = upper6(packet)?;
    Some(Parts { pair, proto, payload: at, fragment })
}

/// Returns the packet quoted by an ICMP error.
fn quoted(parts: Parts, packet: &[u8]) -> Option<&[u8]> {
    let message = packet.get(parts.payload..)?;
    let is_error = match (Proto(parts.proto), message.first()?) {
        (Proto::ICMP, kind) => matches!(kind, 3 | 4 | 5 | 11 | 12),
        (Proto::IPV6_ICMP, kind) => matches!(kind, 1..=4),
        _ => false,
    };
    let is_later = parts.fragment.is_some_and(|fragment| !fragment.is_first);
    if is_error && !is_later { message.get(8..) } else { None }
}

#[cfg(test)]
mod tests;
