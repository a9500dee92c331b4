//! Parses the parts of a frame that a policy needs: addresses, ports, and whether the packet is a
//! fragment.

use std::net::{IpAddr, SocketAddr};
use wire::eth::{self, EtherType};
use wire::icmp6::is_link_upkeep;
use wire::ip6::{self, Chain};
use wire::{Mac, Proto, icmp4, icmp6, ip4, tcp, udp, vlan};

/// Maximum number of VLAN tags parsed.
const TAGS_MAX: usize = 2;

/// A parsed frame.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Parsed {
    /// The frame contains ARP or another protocol that is not IP. The stack does not forward it.
    NotIp,
    /// An IP packet whose addresses and ports cannot be parsed.
    Malformed,
    Packet(Packet),
}

/// Addresses and ports of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    pub kind: Kind,
    pub proto: Proto,
    /// MAC addresses of the frame.
    pub macs: Macs,
    /// Address and port of the sender; port 0 if the protocol has no ports, and in fragments other
    /// than the first. For an ICMP error, this is the destination of the quoted packet, since the
    /// error belongs to the flow of that packet.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
    pub part: Part,
    pub event: Event,
    /// Offset and length of the UDP payload in the frame; (0, 0) for other protocols.
    payload: (usize, usize),
}

/// Source and destination MAC address of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Macs {
    pub source: Mac,
    pub destination: Mac,
}

/// Purpose of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The packet belongs to a flow of its own.
    Data,
    /// An ICMP error about a packet of a flow.
    Error,
    /// Neighbor discovery, MLD or IGMP. Such a packet concerns only the link, unless it is
    /// forwarded.
    Upkeep,
}

/// Part of an IP packet that a frame contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Whole,
    /// The first fragment of the packet with this identification.
    First(u32),
    /// Another fragment of the packet with this identification.
    Later(u32),
}

/// Change of a connection that a TCP segment announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Nothing,
    /// The segment has SYN, without ACK: a connection begins.
    Opens,
    /// The segment has FIN: the sender has sent everything.
    HalfCloses,
    /// The segment has RST.
    Resets,
}

impl Packet {
    /// Returns the UDP payload of the packet. `frame` must be the frame from which it was parsed.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.payload.0..self.payload.0 + self.payload.1).unwrap_or_default()
    }
}

/// Parses a frame.
pub(super) fn parse(frame: &[u8]) -> Parsed {
    let (Ok(header), Some((ethertype, at))) = (eth::Header::parse(frame), network(frame)) else {
        return if frame.len() < eth::HEADER_LEN { Parsed::NotIp } else { Parsed::Malformed };
    };
    let bytes = frame.get(at..).unwrap_or_default();
    let packet = match ethertype {
        EtherType::IPV4 => four(bytes),
        EtherType::IPV6 => six(bytes),
        _ => return Parsed::NotIp,
    };
    let Some(mut packet) = packet else { return Parsed::Malformed };
    packet.macs = Macs { source: header.src, destination: header.dst };
    packet.payload.0 += at;
    Parsed::Packet(packet)
}

/// Returns the destination of an IP packet whose other parts may be malformed.
pub(super) fn destination(frame: &[u8]) -> Option<IpAddr> {
    let (ethertype, at) = network(frame)?;
    let bytes = frame.get(at..)?;
    match ethertype {
        EtherType::IPV4 => ip4::Header::parse(bytes).ok().map(|header| header.dst.into()),
        EtherType::IPV6 => ip6::Header::parse(bytes).ok().map(|header| header.dst.into()),
        _ => None,
    }
}

/// Returns the EtherType of a frame's payload and the offset of the payload, after all VLAN tags.
/// Returns `None` if the frame is too short or has too many tags.
fn network(frame: &[u8]) -> Option<(EtherType, usize)> {
    let (mut ethertype, mut at) = (eth::Header::parse(frame).ok()?.ethertype, eth::HEADER_LEN);
    for _ in 0..TAGS_MAX {
        if !ethertype.is_tag() {
            break;
        }
        ethertype = vlan::Tag::parse(frame.get(at..)?).ok()?.ethertype;
        at += vlan::TAG_LEN;
    }
    (!ethertype.is_tag()).then_some((ethertype, at))
}

fn four(bytes: &[u8]) -> Option<Packet> {
    let header = ip4::Header::parse(bytes).ok()?;
    let part = match (header.frag_off, header.mf) {
        (0, false) => Part::Whole,
        (0, true) => Part::First(header.id.into()),
        _ => Part::Later(header.id.into()),
    };
    let upper = header.payload(bytes);
    let is_later = matches!(part, Part::Later(_));
    if header.proto == Proto::ICMP && !is_later && upper.first().is_some_and(|ty| is_error4(*ty)) {
        let inner = icmp4::Inner::parse(upper.get(icmp4::HEADER_LEN..)?).ok()?;
        // An ICMP error must be addressed to the sender of the packet that it quotes.
        let is_for_sender = inner.header.src == header.dst && inner.header.frag_off == 0 && part == Part::Whole;
        let addrs = (inner.header.src.into(), inner.header.dst.into());
        return if is_for_sender { quoted(inner.header.proto, addrs, inner.payload) } else { None };
    }
    let packet = packet(header.proto, (header.src.into(), header.dst.into()), part, upper, header.ihl_len)?;
    let is_upkeep = header.proto == Proto::IGMP && part == Part::Whole && header.dst.is_multicast();
    Some(Packet { kind: if is_upkeep { Kind::Upkeep } else { Kind::Data }, ..packet })
}

fn six(bytes: &[u8]) -> Option<Packet> {
    let header = ip6::Header::parse(bytes).ok()?;
    let chain = Chain::walk(&header, bytes).ok()?;
    let part = match chain.fragment {
        None | Some(ip6::Fragment { offset: 0, more: false, .. }) => Part::Whole,
        Some(ip6::Fragment { offset: 0, id, .. }) => Part::First(id),
        Some(ip6::Fragment { id, .. }) => Part::Later(id),
    };
    let upper = chain.payload(&header, bytes);
    let is_icmp = chain.upper == Proto::IPV6_ICMP && !matches!(part, Part::Later(_));
    if is_icmp && upper.first().is_some_and(|ty| icmp6::is_error(*ty)) {
        let inner = icmp6::Inner::parse(upper.get(icmp6::HEADER_LEN..)?).ok()?;
        let addrs = (inner.header.src.into(), inner.header.dst.into());
        let is_for_sender = inner.header.src == header.dst && !inner.is_later && part == Part::Whole;
        return if is_for_sender { quoted(inner.upper, addrs, inner.payload) } else { None };
    }
    let packet = packet(chain.upper, (header.src.into(), header.dst.into()), part, upper, chain.offset)?;
    // Each of these properties shows that no router has forwarded the packet (RFC 4861 7.1, RFC
    // 3810 5, RFC 4291 2.5.2).
    let is_near = header.hop_limit == 255 || header.src.is_unicast_link_local() || header.src.is_unspecified();
    let is_upkeep = is_icmp && part == Part::Whole && is_near && is_link_upkeep(bytes);
    Some(Packet { kind: if is_upkeep { Kind::Upkeep } else { Kind::Data }, ..packet })
}
/// Returns whether an ICMP message of this type is an error, which quotes a packet.
const fn is_error4(ty: u8) -> bool {
    use icmp4::ty::{PARAMETER_PROBLEM, REDIRECT, SOURCE_QUENCH, TIME_EXCEEDED, UNREACHABLE};
    matches!(ty, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Returns the parsed form of an ICMP error that quotes a packet with these addresses and with the
/// payload `upper`. The error is treated as sent by the receiver of the quoted packet, even if a
/// router sent it.
fn quoted(proto: Proto, addrs: (IpAddr, IpAddr), upper: &[u8]) -> Option<Packet> {
    let quoted = packet(proto, addrs, Part::Whole, upper, 0)?;
    let (source, destination) = (quoted.destination, quoted.source);
    Some(Packet { source, destination, kind: Kind::Error, event: Event::Nothing, payload: (0, 0), ..quoted })
}

/// Returns the parsed packet. The ports are read from `upper`, the payload at offset `at` of the
/// packet. The MAC addresses are not filled in.
fn packet(proto: Proto, addrs: (IpAddr, IpAddr), part: Part, upper: &[u8], at: usize) -> Option<Packet> {
    let has_ports = matches!(proto, Proto::TCP | Proto::UDP | Proto::SCTP) && !matches!(part, Part::Later(_));
    let ports = match has_ports {
        true => {
            upper.first_chunk::<4>().map(|[a, b, c, d]| [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])])?
        }
        false => [0, 0],
    };
    let event = match upper.get(13) {
        Some(flags) if proto == Proto::TCP && has_ports => event(tcp::Flags(*flags)),
        _ => Event::Nothing,
    };
    let payload = match udp::Header::parse(upper) {
        Ok(header) if proto == Proto::UDP && has_ports => (at + udp::HEADER_LEN, header.payload(upper).len()),
        _ => (0, 0),
    };
    let [source, destination] =
        [(addrs.0, ports[0]), (addrs.1, ports[1])].map(|(addr, port)| SocketAddr::new(addr, port));
    let macs = Macs { source: Mac::ZERO, destination: Mac::ZERO };
    Some(Packet { kind: Kind::Data, proto, macs, source, destination, part, event, payload })
}

fn event(flags: tcp::Flags) -> Event {
    match flags {
        flags if flags.contains(tcp::Flags::RST) => Event::Resets,
        flags if flags.contains(tcp::Flags::SYN) && !flags.contains(tcp::Flags::ACK) => Event::Opens,
        flags if flags.contains(tcp::Flags::FIN) => Event::HalfCloses,
        _ => Event::Nothing,
    }
}
