//! Flow hashes: one number for all frames of a flow. Queues, workers and paths are selected by it,
//! so that the frames of each flow stay in order.
//!
//! As in receive-side scaling, the hash covers the addresses and, except for fragments, the L4
//! ports. Options and extension headers in front of the ports are skipped, so a segment with such
//! headers belongs to the same flow as a segment without them. The hash has a secret key: an
//! attacker cannot compute it, and so cannot direct all flows to one queue.

mod upper;
pub mod whose;

pub(crate) use upper::{Fragment, Upper, upper4, upper6};

use crate::eth::{self, EtherType};
use crate::hash::Key;
use crate::{Proto, vlan};

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|eight| u64::from_be_bytes(*eight))
}

fn ports(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|four| u64::from(u32::from_be_bytes(*four)))
}

fn has_ports(proto: u8) -> bool {
    matches!(Proto(proto), Proto::TCP | Proto::UDP | Proto::SCTP)
}

/// Returns the flow hash of an Ethernet frame. For IPv4 and IPv6, also after a VLAN tag, it covers
/// addresses, protocol and L4 ports; for other frames, both MAC addresses.
#[inline]
pub fn hash(key: Key, frame: &[u8]) -> u64 {
    let ethertype = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk()).map(|two| u16::from_be_bytes(*two));
    let (mut at, mut kind) = (eth::HEADER_LEN, ethertype(12));
    if kind == Some(EtherType::VLAN.0) {
        at += vlan::TAG_LEN;
        kind = ethertype(at - 2);
    }
    let packet = frame.get(at..).unwrap_or_default();
    let inner = match kind.map(EtherType) {
        Some(EtherType::IPV4) => four(key, packet),
        Some(EtherType::IPV6) => six(key, packet),
        _ => None,
    };
    inner.unwrap_or_else(|| key.hash2(word(frame, 0).unwrap_or_default(), word(frame, 6).unwrap_or_default() >> 16))
}

/// Returns the flow hash of an IPv4 packet without its Ethernet header; `None` if the header is
/// incomplete.
#[inline]
pub fn four(key: Key, packet: &[u8]) -> Option<u64> {
    let addresses = word(packet, 12)?;
    let Upper { proto, at, fragment } = upper4(packet)?;
    let ports = (fragment.is_none() && has_ports(proto)).then(|| ports(packet, at)).flatten();
    Some(of(key, addresses, proto, ports.unwrap_or_default()))
}

/// Returns the same hash as [`four`], computed from the fields: the addresses in 64 bits, source
/// first, and both L4 ports in 32 bits (0 if there are none).
#[inline]
pub fn of(key: Key, addresses: u64, proto: u8, ports: u64) -> u64 {
    key.hash2(addresses, ports << 8 | u64::from(proto))
}

/// Returns the flow hash of an IPv6 packet without its Ethernet header. For fragments it covers the
/// addresses only, because only the first fragment has ports.
#[inline]
pub fn six(key: Key, packet: &[u8]) -> Option<u64> {
    let [a, b, c, d] = [word(packet, 8)?, word(packet, 16)?, word(packet, 24)?, word(packet, 32)?];
    let Upper { proto, at, fragment } = upper6(packet)?;
    let (proto, ports) = match fragment {
        Some(_) => (Proto::FRAGMENT.0, None),
        None => (proto, has_ports(proto).then(|| ports(packet, at)).flatten()),
    };
    Some(key.hash2(key.hash4(a, b, c, d), ports.unwrap_or_default() << 8 | u64::from(proto)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp4(src: u8, l4_src: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[5] = 2;
        frame[11] = 1;
        frame[12] = 8;
        frame[14] = 0x45;
        frame[23] = 17;
        frame[29] = src;
        frame[33] = 9;
        frame[35] = l4_src;
        frame
    }

    fn six(l4_src: u8) -> Vec<u8> {
        let mut frame = vec![0; 80];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60;
        frame[20] = 6;
        frame[37] = 1;
        frame[55] = l4_src;
        frame
    }

    #[test]
    fn the_hash_covers_exactly_the_flow_key() {
        let of = |frame: &[u8]| hash(Key::seeded(1), frame);
        let same = |mut frame: Vec<u8>, at: usize, value: u8| {
            let before = of(&frame);
            frame[at] = value;
            of(&frame) == before
        };
        assert_ne!(of(&udp4(1, 1)), of(&udp4(2, 1)));
        assert_ne!(of(&udp4(1, 1)), of(&udp4(1, 2)));
        assert!(same(udp4(1, 1), 22, 63), "the hash does not cover the TTL");
        assert!(same(udp4(1, 1), 50, 1), "the hash does not cover the payload");
        assert!(same(udp4(1, 1), 0, 4), "the hash of an IP packet does not cover MAC addresses");
        assert_ne!(of(&six(1)), of(&six(2)));
        assert!(same(six(1), 60, 1));
    }

    #[test]
    fn fragments_stay_together_and_tags_are_skipped() {
        let of = |frame: &[u8]| hash(Key::seeded(1), frame);
        let fragment = |offset: u8, l4_src: u8| {
            let mut frame = udp4(1, l4_src);
            frame[20] = 0x20;
            frame[21] = offset;
            of(&frame)
        };
        assert_eq!(fragment(0, 1), fragment(8, 77), "fragments have payload where the ports would be");
        let mut tagged = udp4(1, 1);
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(of(&tagged), of(&udp4(1, 1)));
    }

    #[test]
    fn other_frames_hash_by_mac_addresses_and_short_ones_are_handled() {
        let of = |frame: &[u8]| hash(Key::seeded(1), frame);
        let mut arp = udp4(1, 1);
        arp[13] = 6;
        let before = of(&arp);
        arp[30] = 7;
        assert_eq!(of(&arp), before);
        arp[11] = 7;
        assert_ne!(of(&arp), before, "the last byte of the source address");
        for len in 0..60 {
            let _ = of(&udp4(1, 1)[..len]);
            let _ = of(&six(1)[..len]);
        }
        assert_ne!(of(&udp4(1, 1)), hash(Key::seeded(2), &udp4(1, 1)), "the hash depends on the key");
    }

    /// Builds an IPv6 packet with these extension headers before the upper layer `upper`.
    fn behind(extensions: &[(Proto, Vec<u8>)], upper: Proto, segment: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, extensions.first().map_or(upper, |first| first.0).0, 64];
        packet.extend([[0xfd; 16], [0xfe; 16]].concat());
        for (at, (_, header)) in extensions.iter().enumerate() {
            packet.push(extensions.get(at + 1).map_or(upper, |next| next.0).0);
            packet.extend(header);
        }
        packet.extend(segment);
        packet
    }

    /// RFC 8200 4.3 to 4.6, RFC 4302 2.2, RFC 6946: the hash of a flow does not depend on the
    /// headers before its ports.
    #[test]
    fn extension_headers_and_options_do_not_hide_ports() {
        let key = Key::seeded(3);
        let segment = [0x1f, 0x90, 0xc3, 0x50, 1, 2, 3, 4];
        let plain = behind(&[], Proto::TCP, &segment);
        let numbers = |packet: &[u8]| {
            let whose = whose::flow(key, packet, &mut whose::Fragments::default());
            (super::six(key, packet), crate::rss::six(packet), whose)
        };
        let options = |words: u8| [vec![words], vec![0; 6 + 8 * usize::from(words)]].concat();
        let hop = (Proto::HOP_BY_HOP, options(0));
        let dest = (Proto::DEST_OPTIONS, options(3));
        let routing = (Proto::ROUTING, options(2));
        let auth = (Proto::AUTH, [vec![4], vec![0; 22]].concat()); // six words of four bytes
        let fragment = |word: u16| (Proto::FRAGMENT, [vec![0], word.to_be_bytes().to_vec(), vec![0, 0, 0, 7]].concat());
        let others = [Proto::MOBILITY, Proto::HIP, Proto::SHIM6].map(|proto| (proto, options(2)));
        let all = [&[hop.clone(), dest.clone(), routing.clone(), auth.clone(), fragment(0)], &others[..]].concat();
        for one in &all {
            let packet = behind(std::slice::from_ref(one), Proto::TCP, &segment);
            assert_eq!(numbers(&packet), numbers(&plain), "{:?}", one.0);
            assert_ne!(numbers(&packet), numbers(&behind(&[], Proto::TCP, &[1; 8])), "{:?}: by its ports", one.0);
        }
        assert_eq!(numbers(&behind(&all, Proto::TCP, &segment)), numbers(&plain));
        assert_ne!(numbers(&behind(&all, Proto::TCP, &[9; 8])), numbers(&plain), "the hash depends on the ports");
        // Fragments, including the first one, are hashed by their addresses alone. Headers before
        // the Fragment header do not matter.
        let first = behind(&[hop.clone(), fragment(1)], Proto::UDP, &segment);
        let later = behind(&[hop, fragment(8 << 3)], Proto::UDP, &[7; 8]);
        let bare = behind(&[fragment(16 << 3)], Proto::TCP, &[8; 8]);
        let both = |packet: &[u8]| (super::six(key, packet), crate::rss::six(packet));
        assert_eq!(both(&first), both(&later));
        assert_eq!(both(&first), both(&bare));
        assert_ne!(both(&first), both(&plain));
        // IPv4 options do not hide the ports either (RFC 791 3.1).
        let four = |options: usize, port: u8| {
            let mut packet = vec![0x45 + options as u8, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            packet.extend([vec![1; options * 4], vec![0, port, 0, 80]].concat());
            (super::four(key, &packet), crate::rss::four(&packet))
        };
        assert_eq!(four(3, 1), four(0, 1));
        assert_ne!(four(3, 1), four(3, 2));
        // A chain that is truncated, or does not end, is hashed as well.
        let long = vec![(Proto::DEST_OPTIONS, options(0)); 20];
        let packet = behind(&long, Proto::TCP, &segment);
        assert_eq!(numbers(&packet), numbers(&plain), "more headers than a host accepts");
        assert!((40..packet.len()).all(|len| super::six(key, &packet[..len]).is_some()));
    }
}
