//! Which frames belong together, as one number: for queues, workers and paths that are to keep the order of each flow.
//!
//! What receive-side scaling hashes: addresses and, where both fragments and options are absent, L4 ports. The key makes it a number that a
//! stranger cannot work out, so that he cannot have all flows meet in one place.

pub mod whose;

use crate::eth::{self, EtherType};
use crate::hash::Key;
use crate::{Proto, ip4, ip6, vlan};

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|eight| u64::from_be_bytes(*eight))
}

fn ports(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|four| u64::from(u32::from_be_bytes(*four)))
}

fn has_ports(proto: u8) -> bool {
    matches!(Proto(proto), Proto::TCP | Proto::UDP | Proto::SCTP)
}

/// An Ethernet frame's flow: of IPv4 and IPv6, behind a VLAN tag as well, addresses, protocol and L4 ports; of others both MAC addresses.
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

/// The flow of an IPv4 packet without its Ethernet header; `None`: there is no whole header.
#[inline]
pub fn four(key: Key, packet: &[u8]) -> Option<u64> {
    let addresses = word(packet, 12)?;
    let [first, _, _, _, _, _, high, low, _, proto, ..] = *packet.first_chunk::<{ ip4::HEADER_LEN }>()?;
    let is_fragment = (high & 0x3f) | low != 0;
    let ports = (first == 0x45 && !is_fragment && has_ports(proto)).then(|| ports(packet, ip4::HEADER_LEN)).flatten();
    Some(of(key, addresses, proto, ports.unwrap_or_default()))
}

/// The same of what is known otherwise: the addresses, source first, in 64 bits, and both L4 ports in 32; 0 where there are none.
#[inline]
pub fn of(key: Key, addresses: u64, proto: u8, ports: u64) -> u64 {
    key.hash2(addresses, ports << 8 | u64::from(proto))
}

/// The flow of an IPv6 packet without its Ethernet header; behind extension headers all of a pair of addresses is one flow.
#[inline]
pub fn six(key: Key, packet: &[u8]) -> Option<u64> {
    let [a, b, c, d] = [word(packet, 8)?, word(packet, 16)?, word(packet, 24)?, word(packet, 32)?];
    let next = *packet.get(6)?;
    let ports = has_ports(next).then(|| ports(packet, ip6::HEADER_LEN)).flatten().unwrap_or_default();
    Some(key.hash2(key.hash4(a, b, c, d), ports << 8 | u64::from(next)))
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
    fn what_tells_flows_apart_is_in_it_and_nothing_else() {
        let of = |frame: &[u8]| hash(Key::seeded(1), frame);
        let same = |mut frame: Vec<u8>, at: usize, value: u8| {
            let before = of(&frame);
            frame[at] = value;
            of(&frame) == before
        };
        assert_ne!(of(&udp4(1, 1)), of(&udp4(2, 1)));
        assert_ne!(of(&udp4(1, 1)), of(&udp4(1, 2)));
        assert!(same(udp4(1, 1), 22, 63), "the TTL is not");
        assert!(same(udp4(1, 1), 50, 1), "the payload is not");
        assert!(same(udp4(1, 1), 0, 4), "where there is IP, MAC addresses are not");
        assert_ne!(of(&six(1)), of(&six(2)));
        assert!(same(six(1), 60, 1));
    }

    #[test]
    fn fragments_of_a_datagram_stay_together_and_a_tag_hides_nothing() {
        let of = |frame: &[u8]| hash(Key::seeded(1), frame);
        let fragment = |offset: u8, l4_src: u8| {
            let mut frame = udp4(1, l4_src);
            frame[20] = 0x20;
            frame[21] = offset;
            of(&frame)
        };
        assert_eq!(fragment(0, 1), fragment(8, 77), "bytes where the ports would be are payload there");
        let mut tagged = udp4(1, 1);
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        assert_eq!(of(&tagged), of(&udp4(1, 1)));
    }

    #[test]
    fn what_is_no_packet_goes_by_its_addresses_and_what_is_short_by_nothing() {
        let of = |frame: &[u8]| hash(Key::seeded(1), frame);
        let mut arp = udp4(1, 1);
        arp[13] = 6;
        let before = of(&arp);
        arp[30] = 7;
        assert_eq!(of(&arp), before);
        arp[11] = 7;
        assert_ne!(of(&arp), before, "the source's last byte");
        for len in 0..60 {
            let _ = of(&udp4(1, 1)[..len]);
            let _ = of(&six(1)[..len]);
        }
        assert_ne!(of(&udp4(1, 1)), hash(Key::seeded(2), &udp4(1, 1)), "the key has its say");
    }
}
