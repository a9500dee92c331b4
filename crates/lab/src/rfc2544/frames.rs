//! Test frames: what the tester sends, and how it knows its own again.
//!
//! ```text
//!  Ethernet | IPv4, TTL 10 | UDP to port 7, no checksum | ident trial number time | 0, 1, 2 ...
//!     14    |      20      |             8              |   4     2     4     8   | up to the size
//! ```
//! RFC 2544 C.2.6.4, with addresses of C.2.2: 198.18.0.0/15 is for this and nothing else. A size counts the FCS, a frame here does not
//! have one. What a device between may change (MAC addresses, TTL, the header's checksum) is not looked at.

use clock::Instant;
use std::net::Ipv4Addr;
use wire::eth::{self, EtherType};
use wire::{L4Port, Mac, Proto, arp, ip4, udp};

/// Bytes of an FCS.
pub const FCS: usize = 4;
/// Bytes that a frame takes on a wire beside its own: preamble, start delimiter, gap.
pub const AROUND: usize = 20;
/// The smallest size, FCS counted: all headers and the tag fit in exactly.
pub const SIZE_MIN: usize = 64;
/// The largest, FCS counted: a jumbo frame of 9,000 bytes.
pub const SIZE_MAX: usize = 9018;

const HEADERS: usize = eth::HEADER_LEN + ip4::HEADER_LEN + udp::HEADER_LEN;
const TAG: usize = 18;
/// RFC 2544 C.2.6.4.
const TTL: u8 = 10;
const SRC_PORT: L4Port = L4Port(0xc020);
/// Echo.
const DST_PORT: L4Port = L4Port(7);

/// Who the tester is behind one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// Its MAC address.
    pub mac: Mac,
    /// Its address.
    pub addr: Ipv4Addr,
}

/// The two of them. The MAC addresses are locally administered.
pub const STATIONS: [Station; 2] = [
    Station { mac: Mac([0x02, 0x25, 0x44, 0, 0, 0x0a]), addr: Ipv4Addr::new(198, 18, 1, 2) },
    Station { mac: Mac([0x02, 0x25, 0x44, 0, 0, 0x0b]), addr: Ipv4Addr::new(198, 19, 1, 2) },
];

/// What tells test frames apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Which trial.
    pub trial: u16,
    /// Which of its frames that way, from 0 on.
    pub number: u32,
    /// When it was handed to the port.
    pub at: Instant,
}

/// A frame of `size` (FCS counted, at least [`SIZE_MIN`]) whose tag is to be written; `ident` tells this tester from others.
pub fn template(ident: u32, from: Station, to: Station, size: usize) -> Vec<u8> {
    let payload = size.clamp(SIZE_MIN, SIZE_MAX) - FCS - HEADERS;
    let mut frame = vec![0; HEADERS];
    let (ether, rest) = frame.split_at_mut(eth::HEADER_LEN);
    let (packet, datagram) = rest.split_at_mut(ip4::HEADER_LEN);
    if let (Some(ether), Some(packet), Some(datagram)) =
        (ether.first_chunk_mut(), packet.first_chunk_mut(), datagram.first_chunk_mut())
    {
        eth::Header { dst: to.mac, src: from.mac, ethertype: EtherType::IPV4 }.emit(ether);
        if let Some(header) = ip4::Header::new(from.addr, to.addr, Proto::UDP, udp::HEADER_LEN + payload) {
            ip4::Header { ttl: TTL, df: false, ..header }.emit(packet);
        }
        let len = (udp::HEADER_LEN + payload) as u16;
        udp::Header { src: SRC_PORT, dst: DST_PORT, len, checksum: 0 }.emit(datagram);
    }
    frame.extend(ident.to_be_bytes());
    frame.extend((4..payload).map(|at| at as u8));
    frame
}

/// Writes a frame's tag.
#[inline]
pub fn write_tag(frame: &mut [u8], tag: Tag) {
    let Some(room) = frame.get_mut(HEADERS + 4..).and_then(|room| room.first_chunk_mut::<{ TAG - 4 }>()) else {
        return;
    };
    let (trial, rest) = room.split_at_mut(2);
    let (number, at) = rest.split_at_mut(4);
    trial.copy_from_slice(&tag.trial.to_be_bytes());
    number.copy_from_slice(&tag.number.to_be_bytes());
    at.copy_from_slice(&tag.at.nanos().to_be_bytes());
}

/// The tag of a test frame of this tester's that went that way; `None`: it is somebody else's, or was damaged.
#[inline]
pub fn read_tag(frame: &[u8], ident: u32, from: Station, to: Station) -> Option<Tag> {
    let head = frame.first_chunk::<{ HEADERS + TAG }>()?;
    let (headers, tag) = head.split_at(HEADERS);
    let (ether, rest) = headers.split_at(eth::HEADER_LEN);
    let (packet, datagram) = rest.split_at(ip4::HEADER_LEN);
    let glance = ip4::Glance::of(packet)?;
    let datagram = udp::Header::read(datagram.first_chunk()?);
    let ours = ether.get(12..) == Some(&EtherType::IPV4.0.to_be_bytes())
        && glance.ihl_len() == ip4::HEADER_LEN
        && (glance.proto(), glance.src(), glance.dst()) == (Proto::UDP, from.addr, to.addr)
        && (datagram.src, datagram.dst) == (SRC_PORT, DST_PORT)
        && usize::from(glance.total_len()) + eth::HEADER_LEN == frame.len()
        && tag.first_chunk() == Some(&ident.to_be_bytes());
    let trial = u16::from_be_bytes(*tag.get(4..)?.first_chunk()?);
    let number = u32::from_be_bytes(*tag.get(6..)?.first_chunk()?);
    let at = Instant::from_nanos(u64::from_be_bytes(*tag.get(10..)?.first_chunk()?));
    ours.then_some(Tag { trial, number, at })
}

/// What tells bridges where a station is: it asks by ARP for the other one, by broadcast (RFC 2544 C.2.4.1; RFC 2889 3).
pub fn learning(from: Station, to: Station) -> Vec<u8> {
    let mut frame = vec![0; eth::HEADER_LEN];
    if let Some(ether) = frame.first_chunk_mut() {
        eth::Header { dst: Mac::BROADCAST, src: from.mac, ethertype: EtherType::ARP }.emit(ether);
    }
    let (op, tha) = (arp::Op::Request, Mac::ZERO);
    frame.extend(arp::Packet { op, sha: from.mac, spa: from.addr, tha, tpa: to.addr }.emit());
    frame.resize(eth::MIN_FRAME_LEN, 0);
    frame
}

/// Is it such a frame, sent by `from`?
pub fn is_learning(frame: &[u8], from: Station) -> bool {
    let is_arp = frame.get(12..14) == Some(&EtherType::ARP.0.to_be_bytes());
    let packet = frame.get(eth::HEADER_LEN..).unwrap_or_default();
    is_arp && arp::Packet::parse(packet).is_ok_and(|packet| (packet.sha, packet.spa) == (from.mac, from.addr))
}

/// Frames a second that a line of `bits` a second carries, when each has `size` bytes, FCS counted.
pub fn line_rate(bits: u64, size: usize) -> u64 {
    (bits / ((size + AROUND) as u64 * 8)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_the_rfc_says_and_is_known_again() {
        let [a, b] = STATIONS;
        let tag = Tag { trial: 7, number: 1 << 31, at: Instant::from_millis(90_000_000) };
        for size in [64, 65, 1518, SIZE_MAX] {
            let mut frame = template(0xfeed, a, b, size);
            assert_eq!(frame.len(), size - FCS);
            write_tag(&mut frame, tag);
            assert_eq!(read_tag(&frame, 0xfeed, a, b), Some(tag));
            assert_eq!(read_tag(&frame, 0xfeed, b, a), None, "the other way");
            assert_eq!(read_tag(&frame, 0xfeee, a, b), None, "another tester's");
            assert_eq!(read_tag(&frame[..frame.len() - 1], 0xfeed, a, b), None, "cut short");
            assert!((0..60).all(|len| read_tag(&frame[..len], 0xfeed, a, b).is_none()));
            let ip = ip4::Header::parse(&frame[14..]).unwrap();
            assert_eq!((ip.ttl, ip.src.octets(), ip.dst.octets()), (10, [198, 18, 1, 2], [198, 19, 1, 2]));
            assert!(ip4::header_checksum_ok(&frame[14..], 20));
            let udp = udp::Header::parse(ip.payload(&frame[14..])).unwrap();
            assert_eq!((udp.dst, udp.checksum, usize::from(udp.len)), (L4Port(7), 0, size - 4 - 34));
        }
    }

    #[test]
    fn learning_frames_say_who_is_there() {
        let [a, b] = STATIONS;
        let frame = learning(a, b);
        assert!(frame.len() == 60 && is_learning(&frame, a) && !is_learning(&frame, b));
        assert!(read_tag(&frame, 1, a, b).is_none() && !is_learning(&template(1, a, b, 64), a));
    }

    #[test]
    fn a_line_carries_what_everybody_knows() {
        assert_eq!((line_rate(10_000_000, 64), line_rate(10_000_000_000, 64)), (14_880, 14_880_952));
        assert_eq!(line_rate(1_000_000_000, 1518), 81_274);
    }
}
