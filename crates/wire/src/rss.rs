//! Receive-side scaling: the receive queue into which a NIC would put a packet (Toeplitz hash,
//! indirection table of 128 entries).
//!
//! The hash and its test vectors are Microsoft's ("Verifying the RSS Hash Calculation"); FreeBSD's
//! rss(4) computes the same hash in software. Unlike [`crate::flow`] it has no secret key, so the
//! queue of a packet can be predicted.

use crate::Proto;
use crate::flow::{Upper, upper4, upper6};

/// The hash key that most drivers use by default.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// Number of entries in the indirection table. The low bits of a hash select an entry, and queues
/// are assigned to the entries in turn.
const BUCKETS: u32 = 128;

/// Returns the Toeplitz hash: for each bit set in `input`, takes the 32 bits of the key that begin
/// at the same bit position, and combines them by XOR.
fn toeplitz(input: impl Iterator<Item = u8>) -> u32 {
    let mut window = KEY.first_chunk().map_or(0, |first| u64::from(u32::from_be_bytes(*first)));
    let mut hash = 0;
    for (byte, next) in input.zip(KEY.iter().skip(4)) {
        window = window << 8 | u64::from(*next);
        for bit in 0..8 {
            if byte >> (7 - bit) & 1 != 0 {
                hash ^= (window >> (8 - bit)) as u32;
            }
        }
    }
    hash
}

/// Returns the hash over the bytes of `packet` in the range `addresses`, followed by the four bytes
/// of the L4 ports if `ports` is their offset.
fn hash(packet: &[u8], addresses: core::ops::Range<usize>, ports: Option<usize>) -> Option<u32> {
    let addresses = packet.get(addresses)?;
    let ports = ports.and_then(|at| packet.get(at..at + 4)).unwrap_or_default();
    Some(toeplitz(addresses.iter().chain(ports).copied()))
}

fn has_ports(proto: u8) -> bool {
    matches!(Proto(proto), Proto::TCP | Proto::UDP)
}

/// Returns the hash of an IPv4 packet without its Ethernet header. For a fragment it covers the
/// addresses only. `None` if the header is incomplete.
pub fn four(packet: &[u8]) -> Option<u32> {
    hash(packet, 12..20, upper4(packet).and_then(ports_at))
}

/// Returns the hash of an IPv6 packet without its Ethernet header. Extension headers are skipped;
/// NICs may or may not do so. `None` if the header is incomplete.
pub fn six(packet: &[u8]) -> Option<u32> {
    hash(packet, 8..40, upper6(packet).and_then(ports_at))
}

fn ports_at(Upper { proto, at, fragment }: Upper) -> Option<usize> {
    (fragment.is_none() && has_ports(proto)).then_some(at)
}

/// Returns the index of the indirection table entry that a hash selects.
pub fn bucket(hash: u32) -> usize {
    (hash % BUCKETS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source and destination with their ports, and both hashes, as listed on Microsoft's page.
    #[test]
    fn the_published_vectors() {
        let four_of = |proto: u8, src: [u8; 4], sport: u16, dst: [u8; 4], dport: u16| {
            let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, proto, 0, 0];
            packet.extend([src, dst].concat());
            packet.extend([sport.to_be_bytes(), dport.to_be_bytes()].concat());
            four(&packet).unwrap()
        };
        for (dst, dport, src, sport, addresses, ports) in [
            ([161, 142, 100, 80], 1766, [66, 9, 149, 187], 2794, 0x323e_8fc2, 0x51cc_c178),
            ([65, 69, 140, 83], 4739, [199, 92, 111, 2], 14230, 0xd718_262a, 0xc626_b0ea),
            ([12, 22, 207, 184], 38024, [24, 19, 198, 95], 12898, 0xd2d0_a5de, 0x5c2b_394a),
        ] {
            assert_eq!(four_of(6, src, sport, dst, dport), ports);
            assert_eq!(four_of(1, src, sport, dst, dport), addresses);
        }
        let (src, dst) = ("3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1");
        let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let mut packet = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
        packet.extend([octets(src), octets(dst)].concat());
        packet.extend([2794u16.to_be_bytes(), 1766u16.to_be_bytes()].concat());
        assert_eq!(six(&packet), Some(0x4020_7d3d));
        packet[6] = 58;
        assert_eq!(six(&packet), Some(0x2cc1_8cd5));
    }

    #[test]
    fn fragments_stay_together_and_short_frames_have_no_hash() {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4];
        let first = four(&packet);
        packet[7] = 9;
        packet[20] = 77;
        assert_eq!(four(&packet), first, "fragments have payload where the ports would be");
        assert!(
            (0..20).all(|len| four(&packet[..len]).is_none())
                && (0..40).all(|len| six(&packet[..len.min(24)]).is_none())
        );
        assert_eq!([0, 127, 128, 1000].map(bucket), [0, 127, 0, 104]);
    }
}
