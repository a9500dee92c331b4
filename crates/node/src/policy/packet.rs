//! Parses frames as far as a policy needs it: addresses, ports, and the part of the packet.

use std::net::{IpAddr, SocketAddr};
use wire::eth::{self, EtherType};
use wire::icmp6::is_link_upkeep;
use wire::ip6::{self, Chain};
use wire::{Proto, icmp4, icmp6, ip4, tcp, udp, vlan};

/// Maximum number of VLAN tags parsed.
const TAGS_MAX: usize = 2;

/// A parsed frame.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Parsed {
    /// The frame belongs to the link, and to no flow: it contains ARP, neighbor discovery, MLD,
    /// IGMP, or a protocol other than IP.
    Link,
    /// An IP packet whose addresses and ports cannot be parsed.
    Malformed,
    Packet(Packet),
}

/// Addresses and ports of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    pub proto: Proto,
    /// Address and port of the sender; port 0 if the protocol has no ports, and in later fragments.
    /// For an ICMP error these are the destination of the quoted packet, since the error belongs to
    /// the flow of that packet.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
    pub part: Part,
    /// True for an ICMP error.
    pub is_error: bool,
    pub closes: Closes,
    /// Offset and length of the UDP payload in the frame; (0, 0) for other protocols.
    payload: (usize, usize),
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

/// End of a connection that a TCP segment announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closes {
    Nothing,
    /// The segment has FIN: the sender has sent everything.
    Half,
    /// The segment has RST.
    All,
}

impl Packet {
    /// Returns the UDP payload of the packet. `frame` must be the frame from which it was parsed.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.payload.0..self.payload.0 + self.payload.1).unwrap_or_default()
    }
}

/// Parses a frame.
pub(super) fn parse(frame: &[u8]) -> Parsed {
    let Ok(header) = eth::Header::parse(frame) else { return Parsed::Link };
    let (mut ethertype, mut at) = (header.ethertype, eth::HEADER_LEN);
    for _ in 0..TAGS_MAX {
        if !ethertype.is_tag() {
            break;
        }
        let Ok(tag) = vlan::Tag::parse(frame.get(at..).unwrap_or_default()) else { return Parsed::Malformed };
        (ethertype, at) = (tag.ethertype, at + vlan::TAG_LEN);
    }
    let bytes = frame.get(at..).unwrap_or_default();
    let packet = match ethertype {
        EtherType::IPV4 => four(bytes, at),
        EtherType::IPV6 if is_link_upkeep(bytes) => return Parsed::Link,
        EtherType::IPV6 => six(bytes, at),
        ethertype if ethertype.is_tag() => return Parsed::Malformed,
        _ => return Parsed::Link,
    };
    match packet {
        Some(Packet { proto: Proto::IGMP, .. }) => Parsed::Link,
        Some(packet) => Parsed::Packet(packet),
        None => Parsed::Malformed,
    }
}

fn four(bytes: &[u8], at: usize) -> Option<Packet> {
    let header = ip4::Header::parse(bytes).ok()?;
    let addrs = (header.src.into(), header.dst.into());
    let part = match (header.frag_off, header.mf) {
        (0, false) => Part::Whole,
        (0, true) => Part::First(header.id.into()),
        _ => Part::Later(header.id.into()),
    };
    let upper = header.payload(bytes);
    if header.proto == Proto::ICMP && part == Part::Whole && upper.first().is_some_and(|ty| is_error4(*ty)) {
        let inner = icmp4::Inner::parse(upper.get(icmp4::HEADER_LEN..)?).ok()?;
        return quoted(inner.header.proto, (inner.header.src.into(), inner.header.dst.into()), inner.payload);
    }
    packet(header.proto, addrs, part, upper, at + header.ihl_len)
}

fn six(bytes: &[u8], at: usize) -> Option<Packet> {
    let header = ip6::Header::parse(bytes).ok()?;
    let chain = Chain::walk(&header, bytes).ok()?;
    let addrs = (header.src.into(), header.dst.into());
    let part = match chain.fragment {
        None | Some(ip6::Fragment { offset: 0, more: false, .. }) => Part::Whole,
        Some(ip6::Fragment { offset: 0, id, .. }) => Part::First(id),
        Some(ip6::Fragment { id, .. }) => Part::Later(id),
    };
    let upper = chain.payload(&header, bytes);
    if chain.upper == Proto::IPV6_ICMP && part == Part::Whole && upper.first().is_some_and(|ty| icmp6::is_error(*ty)) {
        let inner = icmp6::Inner::parse(upper.get(icmp6::HEADER_LEN..)?).ok()?;
        return quoted(inner.upper, (inner.header.src.into(), inner.header.dst.into()), inner.payload);
    }
    packet(chain.upper, addrs, part, upper, at + chain.offset)
}

/// Returns whether an ICMP message of this type is an error, which quotes a packet.
const fn is_error4(ty: u8) -> bool {
    use icmp4::ty::{PARAMETER_PROBLEM, REDIRECT, SOURCE_QUENCH, TIME_EXCEEDED, UNREACHABLE};
    matches!(ty, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Returns the packet for an ICMP error about a packet with these addresses, whose payload begins
/// with `upper`. The sender of the error stands for the receiver of that packet.
fn quoted(proto: Proto, addrs: (IpAddr, IpAddr), upper: &[u8]) -> Option<Packet> {
    let quoted = packet(proto, addrs, Part::Whole, upper, 0)?;
    let (source, destination) = (quoted.destination, quoted.source);
    Some(Packet { source, destination, is_error: true, closes: Closes::Nothing, payload: (0, 0), ..quoted })
}

/// Returns the packet with the ports in `upper`, which is the payload at offset `at` of the frame.
fn packet(proto: Proto, addrs: (IpAddr, IpAddr), part: Part, upper: &[u8], at: usize) -> Option<Packet> {
    let has_ports = matches!(proto, Proto::TCP | Proto::UDP | Proto::SCTP) && !matches!(part, Part::Later(_));
    let ports = match has_ports {
        true => {
            upper.first_chunk::<4>().map(|[a, b, c, d]| [u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])])?
        }
        false => [0, 0],
    };
    let closes = match upper.get(13) {
        Some(flags) if proto == Proto::TCP && has_ports => closes(tcp::Flags(*flags)),
        _ => Closes::Nothing,
    };
    let payload = match udp::Header::parse(upper) {
        Ok(header) if proto == Proto::UDP && has_ports => (at + udp::HEADER_LEN, header.payload(upper).len()),
        _ => (0, 0),
    };
    let [source, destination] =
        [(addrs.0, ports[0]), (addrs.1, ports[1])].map(|(addr, port)| SocketAddr::new(addr, port));
    Some(Packet { proto, source, destination, part, is_error: false, closes, payload })
}

fn closes(flags: tcp::Flags) -> Closes {
    match flags {
        flags if flags.contains(tcp::Flags::RST) => Closes::All,
        flags if flags.contains(tcp::Flags::FIN) => Closes::Half,
        _ => Closes::Nothing,
    }
}
