//! Whose a packet is, of several that share its address: what all packets of one conversation have in common, whatever shape they come in.
//!
//! Beside [`four`](super::four) and [`six`](super::six), which ask order and no more, this finds a conversation again where its L4 ports stand
//! behind options, in another fragment, or in what an ICMP error quotes (a packet that we sent: its ends are the other way round).
//!
//! | what comes | its number is that of |
//! |---|---|
//! | TCP, UDP, SCTP | addresses and L4 ports |
//! | a first fragment | the same, and it is remembered for those that follow ([`Fragments`]) |
//! | a later fragment | its first, if that came before; else addresses: with whom it is a stray |
//! | an ICMP error | the packet it quotes, turned round |
//! | anything else | addresses and protocol |

use super::{Fragment, Upper, has_ports, upper4, upper6, word};
use crate::Proto;
use crate::eth::{self, EtherType};
use crate::hash::Key;
use std::net::{IpAddr, SocketAddr};

/// Datagrams whose first fragment is remembered: as many as are under way at one moment, not a second.
const FRAGMENTS: usize = 256;
/// What two addresses and a protocol say of a packet, and where its payload begins.
#[derive(Clone, Copy)]
struct Parts {
    /// The addresses, as one number.
    pair: u64,
    proto: u8,
    payload: usize,
    fragment: Option<Fragment>,
}

/// Was the packet sent to us, or by us (an error quotes it)?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Here,
    There,
}

/// First fragments, by what their others are known by: a table of fixed size, in which a new one pushes out who has its place.
#[derive(Debug)]
pub struct Fragments {
    slots: Box<[(u64, u64)]>,
    /// Later fragments whose first had not come, or had been pushed out.
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

    /// The number of a fragment's conversation; `own` is what it says itself.
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

/// The number of the conversation that `packet` is of; `None`: it is no IP packet.
pub fn flow(key: Key, packet: &[u8], fragments: &mut Fragments) -> Option<u64> {
    let parts = read(key, packet, Way::Here)?;
    let own = quoted(parts, packet).and_then(|quote| of(key, read(key, quote, Way::There)?, quote, Way::There));
    let own = own.or_else(|| of(key, parts, packet, Way::Here))?;
    let Some(Fragment { id, is_first }) = parts.fragment else { return Some(own) };
    Some(fragments.of(key.hash2(parts.pair, u64::from(id) << 8 | u64::from(parts.proto)), is_first, own))
}

/// The number of who is at the other end, and of the address that he talks to: the same for all his conversations.
pub fn peer(key: Key, packet: &[u8]) -> Option<u64> {
    let parts = read(key, packet, Way::Here)?;
    let quote = quoted(parts, packet).and_then(|quote| read(key, quote, Way::There));
    Some(key.hash2(quote.unwrap_or(parts).pair, 0))
}

/// The number of the conversation whose packets come from one of these ends to the other, as [`flow`] finds it of them.
pub fn of_ends(key: Key, from: SocketAddr, to: SocketAddr, proto: Proto) -> u64 {
    let ports = u64::from(from.port()) << 16 | u64::from(to.port());
    super::of(key, pair_of(key, from.ip(), to.ip()), proto.0, ports)
}

/// The same as [`peer`] finds it.
pub fn of_peer(key: Key, from: IpAddr, to: IpAddr) -> u64 {
    key.hash2(pair_of(key, from, to), 0)
}

/// Both addresses in a word, as [`read`] has them of a packet.
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

/// Is a frame nobody's alone: ARP, the neighbor discovery of IPv6, and who asks for groups (IGMP, MLD)?
pub fn is_for_all(frame: &[u8]) -> bool {
    let ethertype = frame.get(12..).and_then(|rest| rest.first_chunk()).map(|two| EtherType(u16::from_be_bytes(*two)));
    let packet = frame.get(eth::HEADER_LEN..).unwrap_or_default();
    match ethertype {
        Some(EtherType::ARP) => true,
        Some(EtherType::IPV4) => packet.get(9) == Some(&Proto::IGMP.0),
        Some(EtherType::IPV6) => upper6(packet).is_some_and(|Upper { proto, at, .. }| {
            let kind = packet.get(at).copied().unwrap_or_default();
            // MLD's four, and from router solicitation to redirect.
            proto == Proto::IPV6_ICMP.0 && matches!(kind, 130..=137 | 143)
        }),
        _ => false,
    }
}

/// The number of a packet by what it says itself.
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

/// The packet that an ICMP error is about.
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
