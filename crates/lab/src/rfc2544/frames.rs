//! Test frames: their format, and how the tester recognizes its own.
//!
//! ```text
//!  Ethernet | IPv4, TTL 10 | UDP to port 7, no checksum | ident trial number time | 0, 1, 2 ...
//!     14    |      20      |             8              |   4     2     4     8   | up to the size
//!  Ethernet | IPv6, hop limit 10 | UDP to port 7, checksum | the same
//!     14    |         40         |            8            |
//! ```
//! IPv4 frames follow RFC 2544 C.2.6.4, with addresses of 198.18.0.0/15 (RFC 2544 C.2.2). IPv6
//! frames follow RFC 5180, with addresses of 2001:2::/48 (RFC 5180 8). A UDP checksum of 0 is not
//! valid over IPv6 (RFC 8200 8.1), so writing the tag updates the checksum. Sizes include the FCS,
//! although the frames in memory have none. Fields that a device may change (MAC addresses, TTL,
//! the header's checksum) are not compared.

use clock::Instant;
use socket::Domain;
use std::net::{IpAddr, Ipv6Addr};
use wire::checksum::Partial;
use wire::eth::{self, EtherType};
use wire::icmp6::{self, nd};
use wire::{L4Port, Mac, Proto, arp, ip4, ip6, udp};

/// Bytes of an FCS.
pub const FCS: usize = 4;
/// Bytes on the wire per frame, in addition to the frame: preamble, start delimiter, gap.
pub const AROUND: usize = 20;
/// Maximum size, including the FCS: a jumbo frame of 9,000 bytes.
pub const SIZE_MAX: usize = 9018;

const TAG: usize = 18;
/// TTL (RFC 2544 C.2.6.4) or hop limit.
const TTL: u8 = 10;
/// Offset of the checksum in a UDP header, in bytes.
const SUM: usize = 6;
const SRC_PORT: L4Port = L4Port(0xc020);
/// UDP port of the echo service, the destination of test frames.
const DST_PORT: L4Port = L4Port(7);

/// Addresses of the tester behind one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// MAC address of the station.
    pub mac: Mac,
    /// IP address of the station.
    pub addr: IpAddr,
}

/// MAC addresses of the two stations, locally administered.
pub const MACS: [Mac; 2] = [Mac([0x02, 0x25, 0x44, 0, 0, 0x0a]), Mac([0x02, 0x25, 0x44, 0, 0, 0x0b])];

/// Returns the two stations: the tester behind port A and behind port B.
pub fn stations(family: Domain) -> [Station; 2] {
    let addrs: [IpAddr; 2] = match family {
        Domain::Inet => [[198, 18, 1, 2].into(), [198, 19, 1, 2].into()],
        Domain::Inet6 => [1, 2].map(|net| Ipv6Addr::new(0x2001, 2, 0, net, 0, 0, 0, 2).into()),
    };
    let [a, b] = MACS;
    [Station { mac: a, addr: addrs[0] }, Station { mac: b, addr: addrs[1] }]
}

/// Returns the smallest size, including the FCS: all headers and the tag fit exactly.
pub const fn size_min(family: Domain) -> usize {
    match family {
        Domain::Inet => eth::HEADER_LEN + ip4::HEADER_LEN + udp::HEADER_LEN + TAG + FCS,
        Domain::Inet6 => eth::HEADER_LEN + ip6::HEADER_LEN + udp::HEADER_LEN + TAG + FCS,
    }
}

/// Returns the default sizes, including the FCS: those of RFC 2544 9.1 and RFC 5180 5.1 for
/// Ethernet. An IPv6 frame of 64 bytes has no space for the tag, so the smallest possible size
/// replaces 64.
pub const fn sizes(family: Domain) -> [usize; 7] {
    [size_min(family), 128, 256, 512, 1024, 1280, 1518]
}

/// Tag of a test frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Number of the trial.
    pub trial: u16,
    /// Number of the frame in its direction, from 0 on.
    pub number: u32,
    /// Time at which the frame was handed to the port.
    pub at: Instant,
}

/// Returns a frame of `size` bytes (including the FCS, at least [`size_min`]) with an empty tag;
/// `ident` identifies this tester.
pub fn template(ident: u32, from: Station, to: Station, size: usize) -> Vec<u8> {
    let headers = size_min(family_of(from)) - TAG - FCS;
    let payload = size.clamp(headers + TAG + FCS, SIZE_MAX) - FCS - headers;
    let len = (udp::HEADER_LEN + payload) as u16;
    let (mut ether, mut datagram) = ([0; eth::HEADER_LEN], [0; udp::HEADER_LEN]);
    let ethertype = match from.addr {
        IpAddr::V4(_) => EtherType::IPV4,
        IpAddr::V6(_) => EtherType::IPV6,
    };
    eth::Header { dst: to.mac, src: from.mac, ethertype }.emit(&mut ether);
    udp::Header { src: SRC_PORT, dst: DST_PORT, len, checksum: 0 }.emit(&mut datagram);
    let text: Vec<u8> =
        ident.to_be_bytes().into_iter().chain([0; TAG - 4]).chain((TAG..payload).map(|at| at as u8)).collect();
    let packet = match (from.addr, to.addr) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut packet = [0; ip4::HEADER_LEN];
            if let Some(header) = ip4::Header::new(src, dst, Proto::UDP, len.into()) {
                ip4::Header { ttl: TTL, df: false, ..header }.emit(&mut packet);
            }
            packet.to_vec()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let pseudo = Partial::pseudo6(src, dst, Proto::UDP, len.into());
            let sum = pseudo.add(wire::checksum::sum(&datagram)).add(wire::checksum::sum(&text)).finish_nonzero();
            datagram[SUM..].copy_from_slice(&sum.to_be_bytes());
            header6(src, dst, Proto::UDP, TTL, len).to_vec()
        }
        _ => Vec::new(), // both stations have the same family
    };
    [&ether, packet.as_slice(), &datagram, &text].concat()
}

fn family_of(station: Station) -> Domain {
    if station.addr.is_ipv4() { Domain::Inet } else { Domain::Inet6 }
}

fn header6(src: Ipv6Addr, dst: Ipv6Addr, next: Proto, hop_limit: u8, payload_len: u16) -> [u8; ip6::HEADER_LEN] {
    let mut packet = [0; ip6::HEADER_LEN];
    let (traffic_class, flow_label) = (0, 0);
    ip6::Header { traffic_class, flow_label, payload_len, next, hop_limit, src, dst }.emit(&mut packet);
    packet
}

/// Writes the tag into a copy of a template.
#[inline]
pub fn write_tag(frame: &mut [u8], tag: Tag) {
    let is_six = frame.get(eth::HEADER_LEN..).is_some_and(ip6::is_version);
    let ip = if is_six { ip6::HEADER_LEN } else { ip4::HEADER_LEN };
    let Some(room) = frame.get_mut(eth::HEADER_LEN + ip..) else { return };
    let Some(room) = room.first_chunk_mut::<{ udp::HEADER_LEN + TAG }>() else { return };
    let (datagram, tagged) = room.split_at_mut(udp::HEADER_LEN);
    let (_, tagged) = tagged.split_at_mut(4);
    let (trial, rest) = tagged.split_at_mut(2);
    let (number, at) = rest.split_at_mut(4);
    trial.copy_from_slice(&tag.trial.to_be_bytes());
    number.copy_from_slice(&tag.number.to_be_bytes());
    at.copy_from_slice(&tag.at.nanos().to_be_bytes());
    if is_six && let Some(field) = datagram.get_mut(SUM..).and_then(|rest| rest.first_chunk_mut()) {
        // The template's checksum is for a tag of zeros.
        let before = Partial::ZERO.add_u16(!u16::from_be_bytes(*field));
        *field = before.add(wire::checksum::sum(tagged)).finish_nonzero().to_be_bytes();
    }
}

/// Returns the tag of a test frame that this tester sent from `from` to `to`; `None` for any other
/// frame or a damaged one.
#[inline]
pub fn read_tag(frame: &[u8], ident: u32, from: Station, to: Station) -> Option<Tag> {
    let (ether, packet) = frame.split_first_chunk::<{ eth::HEADER_LEN }>()?;
    let ethertype = EtherType(u16::from_be_bytes([ether[12], ether[13]]));
    let (rest, is_ours) = match (from.addr, to.addr) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (head, rest) = packet.split_first_chunk::<{ ip4::HEADER_LEN }>()?;
            let glance = ip4::HeaderView::of(head)?;
            let is_ours = ethertype == EtherType::IPV4
                && glance.ihl_len() == ip4::HEADER_LEN
                && (glance.proto(), glance.src(), glance.dst()) == (Proto::UDP, src, dst)
                && usize::from(glance.total_len()) == packet.len();
            (rest, is_ours)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let (_, rest) = packet.split_first_chunk::<{ ip6::HEADER_LEN }>()?;
            let header = ip6::Header::parse(packet).ok()?;
            let is_ours = ethertype == EtherType::IPV6
                && (header.next, header.src, header.dst) == (Proto::UDP, src, dst)
                && usize::from(header.payload_len) == rest.len();
            (rest, is_ours)
        }
        _ => return None,
    };
    let (datagram, rest) = rest.split_first_chunk()?;
    let (tag, datagram) = (rest.first_chunk::<TAG>()?, udp::Header::read(datagram));
    let ours = is_ours
        && (datagram.src, datagram.dst) == (SRC_PORT, DST_PORT)
        && tag.first_chunk() == Some(&ident.to_be_bytes());
    let trial = u16::from_be_bytes(*tag.get(4..)?.first_chunk()?);
    let number = u32::from_be_bytes(*tag.get(6..)?.first_chunk()?);
    let at = Instant::from_nanos(u64::from_be_bytes(*tag.get(10..)?.first_chunk()?));
    ours.then_some(Tag { trial, number, at })
}

/// Returns the frame from which bridges learn a station's port: a broadcast ARP request for the
/// other station (RFC 2544 C.2.4.1; RFC 2889 3), or a neighbor solicitation for it (RFC 4861
/// 7.2.2).
pub fn learning(from: Station, to: Station) -> Vec<u8> {
    let mut ether = [0; eth::HEADER_LEN];
    let (dst, ethertype, packet) = match (from.addr, to.addr) {
        (IpAddr::V4(spa), IpAddr::V4(tpa)) => {
            let request = arp::Packet { op: arp::Op::Request, sha: from.mac, spa, tha: Mac::ZERO, tpa };
            (Mac::BROADCAST, EtherType::ARP, request.emit().to_vec())
        }
        (IpAddr::V6(src), IpAddr::V6(target)) => {
            let group = ip6::solicited_node(target);
            let mut message = [0; nd::NEIGHBOR_LEN];
            let len = nd::emit_solicit(target, Some(from.mac), (src, group), &mut message).unwrap_or_default();
            let message = message.get(..len).unwrap_or_default();
            let header = header6(src, group, Proto::IPV6_ICMP, ND_HOPS, len as u16);
            (Mac::multicast6(group), EtherType::IPV6, [&header, message].concat())
        }
        _ => (Mac::BROADCAST, EtherType::ARP, Vec::new()), // both stations have the same family
    };
    eth::Header { dst, src: from.mac, ethertype }.emit(&mut ether);
    let mut frame = [&ether, packet.as_slice()].concat();
    frame.resize(frame.len().max(eth::MIN_FRAME_LEN), 0);
    frame
}

/// Hop limit of neighbor discovery (RFC 4861 7.1.1).
const ND_HOPS: u8 = 255;

/// Returns whether `frame` is a frame that [`learning`] builds for the station `from`.
pub fn is_learning(frame: &[u8], from: Station) -> bool {
    let packet = frame.get(eth::HEADER_LEN..).unwrap_or_default();
    let ethertype = frame.get(12..14).and_then(|bytes| bytes.first_chunk()).map(|bytes| u16::from_be_bytes(*bytes));
    match from.addr {
        IpAddr::V4(addr) => {
            ethertype == Some(EtherType::ARP.0)
                && arp::Packet::parse(packet).is_ok_and(|packet| (packet.sha, packet.spa) == (from.mac, addr))
        }
        IpAddr::V6(addr) => {
            let Ok(header) = ip6::Header::parse(packet) else { return false };
            let is_from = header.src == addr && header.next == Proto::IPV6_ICMP && ethertype == Some(EtherType::IPV6.0);
            let message = icmp6::Message::parse(header.payload(packet), header.src, header.dst);
            is_from && matches!(message, Ok(icmp6::Message::Nd(nd::Message::Solicit { .. })))
        }
    }
}

/// Returns the frame rate of a line of `bits` per second with frames of `size` bytes, including the
/// FCS.
pub fn line_rate(bits: u64, size: usize) -> u64 {
    (bits / ((size + AROUND) as u64 * 8)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_frames_have_the_rfcs_format_and_are_recognised() {
        let tag = Tag { trial: 7, number: 1 << 31, at: Instant::from_millis(90_000_000) };
        for family in [Domain::Inet, Domain::Inet6] {
            let [a, b] = stations(family);
            let headers = size_min(family) - TAG - FCS;
            for size in [size_min(family), size_min(family) + 1, 1518, SIZE_MAX] {
                let mut frame = template(0xfeed, a, b, size);
                assert_eq!(frame.len(), size - FCS);
                write_tag(&mut frame, tag);
                assert_eq!(read_tag(&frame, 0xfeed, a, b), Some(tag));
                assert_eq!(read_tag(&frame, 0xfeed, b, a), None, "the other way");
                assert_eq!(read_tag(&frame, 0xfeee, a, b), None, "another tester's");
                assert_eq!(read_tag(&frame[..frame.len() - 1], 0xfeed, a, b), None, "cut short");
                assert!((0..headers + TAG).all(|len| read_tag(&frame[..len], 0xfeed, a, b).is_none()));
                let udp = udp::Header::parse(&frame[headers - 8..]).unwrap();
                assert_eq!((udp.dst, usize::from(udp.len)), (L4Port(7), size - FCS - headers + 8));
                if family == Domain::Inet6 {
                    let ip = ip6::Header::parse(&frame[14..]).unwrap();
                    assert_eq!((ip.hop_limit, IpAddr::V6(ip.src), IpAddr::V6(ip.dst)), (10, a.addr, b.addr));
                    let pseudo = Partial::pseudo6(ip.src, ip.dst, Proto::UDP, ip.payload_len.into());
                    assert!(udp.checksum != 0 && udp::checksum_ok(pseudo, ip.payload(&frame[14..])));
                    continue;
                }
                let ip = ip4::Header::parse(&frame[14..]).unwrap();
                assert_eq!((ip.ttl, ip.src.octets(), ip.dst.octets()), (10, [198, 18, 1, 2], [198, 19, 1, 2]));
                assert!(ip4::header_checksum_ok(&frame[14..], 20) && udp.checksum == 0);
            }
        }
    }

    #[test]
    fn learning_frames_identify_their_station() {
        for family in [Domain::Inet, Domain::Inet6] {
            let [a, b] = stations(family);
            let frame = learning(a, b);
            assert!(frame.len() >= 60 && is_learning(&frame, a) && !is_learning(&frame, b));
            assert!(read_tag(&frame, 1, a, b).is_none() && !is_learning(&template(1, a, b, 128), a));
        }
    }

    #[test]
    fn line_rates_are_the_published_ones() {
        assert_eq!((line_rate(10_000_000, 64), line_rate(10_000_000_000, 64)), (14_880, 14_880_952));
        assert_eq!(line_rate(1_000_000_000, 1518), 81_274);
    }
}
