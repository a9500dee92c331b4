//! Frames as bytes. They are built with the emitters of `wire` and parsed with its parsers.

use super::{PEER, Station};
use std::net::Ipv4Addr;
use wire::arp::{Op, Packet};
use wire::checksum::{self, Partial};
use wire::eth::{self, EtherType};
use wire::icmp4::{self, Problem};
use wire::igmp;
use wire::{L4Port, Mac, Proto, icmp6, ip4, ip6, tcp, udp};

pub fn ether(dst: Mac, src: Mac, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; eth::HEADER_LEN];
    eth::Header { dst, src, ethertype }.emit(frame.first_chunk_mut().unwrap());
    frame.extend_from_slice(payload);
    frame
}

/// Returns an ARP frame as its sender sends it: a request by broadcast, a reply to the target.
pub fn arp(op: Op, from: Station, target: Station) -> Vec<u8> {
    let tha = if op == Op::Request { Mac::ZERO } else { target.mac };
    let packet = Packet { op, sha: from.mac, spa: from.ip, tha, tpa: target.ip };
    let dst = if op == Op::Request { Mac::BROADCAST } else { target.mac };
    ether(dst, from.mac, EtherType::ARP, &packet.emit())
}

pub fn arp_of(frame: &[u8]) -> (eth::Header, Packet) {
    let header = eth::Header::parse(frame).unwrap();
    assert_eq!(header.ethertype, EtherType::ARP, "{}", line(frame));
    (header, Packet::parse(&frame[eth::HEADER_LEN..]).unwrap())
}

/// Builder of an IPv4 packet: set the fields that matter, then call [`Ip::packet`] or
/// [`Ip::frame`].
#[derive(Clone, Debug)]
pub struct Ip {
    pub header: ip4::Header,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Ip {
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, proto: Proto, payload: impl Into<Vec<u8>>) -> Ip {
        let payload = payload.into();
        let header = ip4::Header { df: false, id: 0x1234, ..ip4::Header::new(src, dst, proto, 0).unwrap() };
        Ip { header, options: Vec::new(), payload }
    }

    pub fn udp(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8]) -> Ip {
        Ip::new(src.0, dst.0, Proto::UDP, udp_datagram(src, dst, payload))
    }

    pub fn ttl(mut self, ttl: u8) -> Ip {
        self.header.ttl = ttl;
        self
    }

    pub fn df(mut self) -> Ip {
        self.header.df = true;
        self
    }

    pub fn tos(mut self, tos: u8) -> Ip {
        self.header.tos = tos;
        self
    }

    pub fn id(mut self, id: u16) -> Ip {
        self.header.id = id;
        self
    }

    pub fn options(mut self, options: &[u8]) -> Ip {
        assert_eq!(options.len() % 4, 0, "whole words");
        self.options = options.to_vec();
        self
    }

    /// Returns bytes `off..off+len` of the payload as a fragment.
    pub fn fragment(&self, off: usize, len: usize) -> Ip {
        let end = (off + len).min(self.payload.len());
        let mut part = Ip { payload: self.payload[off..end].to_vec(), ..self.clone() };
        part.header.frag_off = off as u16;
        part.header.mf = end < self.payload.len();
        part
    }

    pub fn packet(&self) -> Vec<u8> {
        let ihl_len = ip4::HEADER_LEN + self.options.len();
        let mut out = vec![0; ip4::HEADER_LEN];
        let header = ip4::Header { ihl_len, total_len: (ihl_len + self.payload.len()) as u16, ..self.header };
        header.emit(out.first_chunk_mut().unwrap());
        out.extend_from_slice(&self.options);
        ip4::fill_checksum(&mut out);
        out.extend_from_slice(&self.payload);
        out
    }

    pub fn frame(&self, dst: Mac, src: Mac) -> Vec<u8> {
        ether(dst, src, EtherType::IPV4, &self.packet())
    }

    /// Returns the frame from one station to another on their link.
    pub fn between(&self, from: Station, to: Station) -> Vec<u8> {
        self.frame(to.mac, from.mac)
    }
}

pub fn udp_datagram(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() + udp::HEADER_LEN) as u16;
    let header = udp::Header { src: L4Port(src.1), dst: L4Port(dst.1), len, checksum: 0 };
    let header = header.with_checksum(Partial::pseudo4(src.0, dst.0, Proto::UDP, len), payload);
    let mut out = vec![0; udp::HEADER_LEN];
    header.emit(out.first_chunk_mut().unwrap());
    out.extend_from_slice(payload);
    out
}

/// Returns a TCP segment with data `text` and a valid checksum: a SYN with sequence number 1000,
/// modified by `change`.
pub fn tcp_segment(
    src: (Ipv4Addr, u16),
    dst: (Ipv4Addr, u16),
    change: impl FnOnce(&mut tcp::Header),
    text: &[u8],
) -> Vec<u8> {
    let mut header = tcp::Header {
        src: L4Port(src.1),
        dst: L4Port(dst.1),
        seq: 1000,
        ack: 0,
        header_len: tcp::HEADER_LEN,
        flags: tcp::Flags::SYN,
        window: 1000,
        checksum: 0,
        urgent: 0,
    };
    change(&mut header);
    let mut out = vec![0; tcp::HEADER_LEN];
    header.emit(out.first_chunk_mut().unwrap());
    out.extend_from_slice(text);
    mend_tcp(src.0, dst.0, &mut out);
    out
}

/// Fills in the checksum of a TCP segment.
pub fn mend_tcp(src: Ipv4Addr, dst: Ipv4Addr, segment: &mut [u8]) {
    tcp::fill_checksum(Partial::pseudo4(src, dst, Proto::TCP, segment.len() as u16), segment);
}

/// Returns one segment with 3000 bytes of data from [`PEER`] to `dst`, with its checksum left to
/// the port.
pub fn long_segment(dst: Ipv4Addr) -> Ip {
    let mut segment = tcp_segment((PEER.ip, 5), (dst, 6), |h| (h.seq, h.flags) = (1, tcp::Flags::ACK), &[7; 3000]);
    segment[16..18].fill(0);
    Ip::new(PEER.ip, dst, Proto::TCP, segment)
}

/// Returns a UDP datagram in a frame.
pub fn udp_frame(from: Station, sport: u16, to: Station, dport: u16, payload: &[u8]) -> Vec<u8> {
    Ip::udp((from.ip, sport), (to.ip, dport), payload).between(from, to)
}

pub fn echo(ty: u8, ident: u16, seq: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; icmp4::HEADER_LEN + payload.len()];
    icmp4::emit_echo(ty, ident, seq, payload, &mut out).unwrap();
    out
}

pub fn ping(from: Station, to: Ipv4Addr, ident: u16, seq: u16, payload: &[u8]) -> Ip {
    Ip::new(from.ip, to, Proto::ICMP, echo(icmp4::ty::ECHO_REQUEST, ident, seq, payload))
}

pub fn icmp_error(problem: Problem, quoted: &[u8]) -> Vec<u8> {
    let mut out = vec![0; icmp4::HEADER_LEN + quoted.len()];
    icmp4::emit_error(problem, quoted, &mut out).unwrap();
    out
}

/// Returns an ICMP error from `from` to `to` that quotes all of `quoted`.
pub fn error_frame(from: Station, to: Station, problem: Problem, quoted: &[u8]) -> Vec<u8> {
    Ip::new(from.ip, to.ip, Proto::ICMP, icmp_error(problem, quoted)).between(from, to)
}

pub fn igmp_frame(from: Station, dst: Ipv4Addr, message: igmp::Message) -> Vec<u8> {
    Ip::new(from.ip, dst, Proto::IGMP, message.emit()).ttl(1).frame(Mac::multicast4(dst), from.mac)
}

/// Parses the IPv4 packet in a frame.
pub fn ip_of(frame: &[u8]) -> (eth::Header, ip4::Header, &[u8]) {
    let link = eth::Header::parse(frame).unwrap();
    assert_eq!(link.ethertype, EtherType::IPV4, "{}", line(frame));
    let packet = &frame[eth::HEADER_LEN..];
    let header = ip4::Header::parse(packet).unwrap();
    (link, header, header.payload(packet))
}

/// Parses the UDP datagram in a frame: header and payload.
pub fn udp_of(frame: &[u8]) -> (udp::Header, &[u8]) {
    let (_, ip, segment) = ip_of(frame);
    assert_eq!(ip.proto, Proto::UDP, "{}", line(frame));
    let header = udp::Header::parse(segment).unwrap();
    (header, header.payload(segment))
}

/// Parses the ICMP message in a frame.
pub fn icmp_of(frame: &[u8]) -> (icmp4::Header, &[u8]) {
    let (_, ip, message) = ip_of(frame);
    assert_eq!(ip.proto, Proto::ICMP, "{}", line(frame));
    (icmp4::Header::parse(message).unwrap(), &message[icmp4::HEADER_LEN..])
}

pub fn igmp_of(frame: &[u8]) -> igmp::Message {
    let (_, ip, message) = ip_of(frame);
    assert_eq!(ip.proto, Proto::IGMP, "{}", line(frame));
    igmp::Message::parse(message).unwrap()
}

pub fn line(frame: &[u8]) -> String {
    wire::dissect::line(frame).to_string()
}

/// Checks what must be true of every sent frame, forwarded or created by this host: lengths, header
/// checksum, TTL, and valid addresses. Returns the packet if it is IPv4.
pub fn assert_network_fit_for_a_wire(frame: &[u8]) -> Option<(ip4::Header, &[u8])> {
    let header = eth::Header::parse(frame).expect("a link header");
    assert!(header.src.is_unicast() && header.src != Mac::ZERO, "{}", line(frame));
    if header.ethertype == EtherType::IPV6 {
        assert_fit_for_a_wire6(frame);
        return None;
    }
    if header.ethertype != EtherType::IPV4 {
        assert_eq!(header.ethertype, EtherType::ARP, "{}", line(frame));
        return None;
    }
    let packet = &frame[eth::HEADER_LEN..];
    let ip = ip4::Header::parse(packet).expect("a whole packet");
    assert_eq!(packet.len(), usize::from(ip.total_len), "{}", line(frame));
    assert!(ip4::header_checksum_ok(packet, ip.ihl_len), "header checksum: {}", line(frame));
    assert_ne!(ip.ttl, 0, "TTL 0: {}", line(frame));
    let first = ip.src.octets()[0];
    let is_dhcp = ip.src.is_unspecified() && ip.dst.is_broadcast(); // RFC 1122 3.2.1.3 a
    assert!(is_dhcp || first != 0 && first != 127 && first < 224, "martian source: {}", line(frame));
    assert!(!ip.dst.is_loopback() && !ip.dst.is_unspecified(), "martian destination: {}", line(frame));
    Some((ip, ip.payload(packet)))
}

/// Checks what must be true of every sent IPv6 packet. An ICMPv6 message must have a valid
/// checksum, unless it is a fragment.
fn assert_fit_for_a_wire6(frame: &[u8]) {
    let packet = &frame[eth::HEADER_LEN..];
    let ip = ip6::Header::parse(packet).expect("a whole packet");
    assert_eq!(packet.len(), ip6::HEADER_LEN + usize::from(ip.payload_len), "{}", line(frame));
    assert!(ip.hop_limit != 0 && !ip.src.is_multicast() && !ip.src.is_loopback(), "{}", line(frame));
    assert!(!ip.dst.is_unspecified() && !ip.dst.is_loopback(), "{}", line(frame));
    let group = Mac(frame[..6].try_into().unwrap()).is_multicast();
    assert_eq!(group, ip.dst.is_multicast(), "{}", line(frame));
    let Ok(chain) = ip6::Chain::walk(&ip, packet) else { return }; // a forwarded packet may have any payload
    if let Some(fragment) = chain.fragment {
        assert!(!fragment.more || chain.payload_len(&ip) % 8 == 0, "{}", line(frame));
    }
}

/// Checks what must also be true of frames that this host created: transport lengths and checksums.
pub fn assert_fit_for_a_wire(frame: &[u8]) {
    if let Some(packet) = frame.get(eth::HEADER_LEN..).filter(|packet| ip6::is_version(packet)) {
        let header = ip6::Header::parse(packet).expect("a whole packet");
        let chain = ip6::Chain::walk(&header, packet).expect("a chain that ends");
        if chain.upper == Proto::IPV6_ICMP && chain.fragment.is_none() {
            let sum = icmp6::checksum_of(header.src, header.dst, chain.payload(&header, packet));
            assert!(matches!(sum, 0 | 0xffff), "ICMPv6 checksum: {}", line(frame));
        }
    }
    let Some((ip, payload)) = assert_network_fit_for_a_wire(frame) else { return };
    if ip.is_fragment() {
        assert!(!ip.mf || payload.len() % 8 == 0, "a fragment that is no multiple of 8: {}", line(frame));
        return;
    }
    match ip.proto {
        Proto::UDP => {
            let udp = udp::Header::parse(payload).expect("a whole datagram");
            assert_eq!(usize::from(udp.len), payload.len(), "{}", line(frame));
            let pseudo = Partial::pseudo4(ip.src, ip.dst, Proto::UDP, udp.len);
            assert!(udp.checksum == 0 || udp::checksum_ok(pseudo, payload), "UDP checksum: {}", line(frame));
        }
        Proto::ICMP => assert!(checksum::sum(payload).verifies(), "ICMP checksum: {}", line(frame)),
        Proto::IGMP => assert!(checksum::sum(payload).verifies(), "IGMP checksum: {}", line(frame)),
        _ => {}
    }
}
