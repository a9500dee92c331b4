//! Encodes and decodes packets, and compares them with the packets of a script.
//!
//! Packets from our host are parsed, translated to the script's sequence numbers and compared field
//! by field; the dissector formats both packets for error messages. Packets from a script are
//! translated to the host's sequence numbers and sent with correct checksums.

use crate::icmp::Message;
use crate::script::{Ip, Opt, Tcp};
use std::net::{IpAddr, Ipv6Addr};
use wire::checksum::Partial;
use wire::tcp::{Flags, HEADER_LEN, Header};
use wire::{L4Port, Proto, ip4, ip6};

/// Addresses and L4 ports of a connection, from the point of view of our host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ends {
    pub local: IpAddr,
    pub local_port: u16,
    pub remote: IpAddr,
    pub remote_port: u16,
}

/// Encodes options, padded to a multiple of 4 bytes.
pub(crate) fn encode(options: &[Opt]) -> Vec<u8> {
    let mut out = Vec::new();
    for option in options {
        match option {
            Opt::Eol => out.push(0),
            Opt::Nop => out.push(1),
            Opt::Mss(mss) => out.extend([&[2, 4], &mss.to_be_bytes()[..]].concat()),
            Opt::WindowScale(shift) => out.extend([3, 3, *shift]),
            Opt::SackOk => out.extend([4, 2]),
            Opt::Sack(blocks) => {
                out.extend([5, (2 + 8 * blocks.len()).min(255) as u8]);
                for (left, right) in blocks {
                    out.extend([left.to_be_bytes(), right.to_be_bytes()].concat());
                }
            }
            Opt::Timestamps(val, ecr) => {
                out.extend([8, 10]);
                out.extend([val.to_be_bytes(), ecr.to_be_bytes()].concat());
            }
            Opt::Raw(kind, data) => {
                out.extend([*kind, (2 + data.len()).min(255) as u8]);
                out.extend(data);
            }
            Opt::Bytes(bytes) => out.extend(bytes),
        }
    }
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// Decodes options. Malformed options are omitted, so that the comparison with the script fails.
pub(crate) fn decode(bytes: &[u8]) -> Vec<Opt> {
    let options = wire::tcp::Options::new(bytes).flatten().map(|option| match option {
        wire::tcp::Opt::End => Opt::Eol,
        wire::tcp::Opt::Nop => Opt::Nop,
        wire::tcp::Opt::Mss(mss) => Opt::Mss(mss),
        wire::tcp::Opt::WindowScale(shift) => Opt::WindowScale(shift),
        wire::tcp::Opt::SackPermitted => Opt::SackOk,
        wire::tcp::Opt::Sack(blocks) => Opt::Sack(blocks.iter().collect()),
        wire::tcp::Opt::Timestamps { val, ecr } => Opt::Timestamps(val, ecr),
        wire::tcp::Opt::Unknown { kind, data } => Opt::Raw(kind, data.to_vec()),
    });
    options.collect()
}

/// A complete segment, with the sequence numbers of the script or of our host.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seg {
    pub flags: Flags,
    pub seq: u32,
    pub ack: u32,
    pub win: u16,
    pub urgent: u16,
    pub len: u32,
    pub options: Vec<Opt>,
}

impl Seg {
    /// Encodes the whole packet from `from` to `to`.
    pub fn emit(&self, from: (IpAddr, u16), to: (IpAddr, u16), ip: Ip) -> Vec<u8> {
        let options = encode(&self.options);
        let header_len = HEADER_LEN + options.len();
        let header = Header {
            src: L4Port(from.1),
            dst: L4Port(to.1),
            seq: self.seq,
            ack: self.ack,
            header_len,
            flags: self.flags,
            window: self.win,
            checksum: 0,
            urgent: self.urgent,
        };
        let mut fixed = [0; HEADER_LEN];
        header.emit(&mut fixed);
        let mut segment = [&fixed[..], &options].concat();
        let first = self.seq.wrapping_add(u32::from(self.flags.contains(Flags::SYN)));
        segment.extend((0..self.len).map(|i| text_byte(first.wrapping_add(i))));
        wire::tcp::fill_checksum(pseudo(from.0, to.0, Proto::TCP, segment.len()), &mut segment);
        packet(from.0, to.0, Proto::TCP, ip, &segment)
    }

    /// Formats the segment with the dissector.
    pub fn line(&self, from: (IpAddr, u16), to: (IpAddr, u16)) -> String {
        wire::dissect::packet_line(&self.emit(from, to, Ip::default())).to_string()
    }
}

/// Returns the byte at sequence number `seq`, the same in every stream of a script. Adjacent bytes
/// differ, so that shifted data is detected.
pub(crate) fn text_byte(seq: u32) -> u8 {
    (seq ^ (seq >> 8) ^ (seq >> 16)) as u8
}

/// Returns the checksum of the pseudo header between two addresses of one family.
fn pseudo(src: IpAddr, dst: IpAddr, proto: Proto, len: usize) -> Partial {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Partial::pseudo4(src, dst, proto, len as u16),
        _ => Partial::pseudo6(six(src), six(dst), proto, len as u32),
    }
}

/// Returns the address as an IPv6 address; an IPv4 address becomes an IPv4-mapped one.
pub(crate) fn six(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped(),
        IpAddr::V6(addr) => addr,
    }
}

/// Builds an IP packet of the address family of `src` and `dst`.
fn packet(src: IpAddr, dst: IpAddr, proto: Proto, ip: Ip, payload: &[u8]) -> Vec<u8> {
    let (tos, ttl) = (tos_of(ip), ip.ttl.unwrap_or(64));
    if let (IpAddr::V4(src), IpAddr::V4(dst)) = (src, dst) {
        let mut fixed = [0; ip4::HEADER_LEN];
        if let Some(header) = ip4::Header::new(src, dst, proto, payload.len()) {
            ip4::Header { tos, ttl, ..header }.emit(&mut fixed);
        }
        ip4::fill_checksum(&mut fixed);
        return [&fixed[..], payload].concat();
    }
    let mut fixed = [0; ip6::HEADER_LEN];
    let header = ip6::Header {
        traffic_class: tos,
        flow_label: ip.flow_label.unwrap_or(0),
        payload_len: payload.len() as u16,
        next: proto,
        hop_limit: ttl,
        src: six(src),
        dst: six(dst),
    };
    header.emit(&mut fixed);
    [&fixed[..], payload].concat()
}

/// Builds a packet with a UDP datagram of `len` payload bytes.
pub(crate) fn datagram(from: (IpAddr, u16), to: (IpAddr, u16), len: u16, ip: Ip) -> Vec<u8> {
    let payload: Vec<u8> = (0..u32::from(len)).map(text_byte).collect();
    let header = wire::udp::Header { src: L4Port(from.1), dst: L4Port(to.1), len: len.saturating_add(8), checksum: 0 };
    let pseudo = pseudo(from.0, to.0, Proto::UDP, header.len.into());
    let mut fixed = [0; wire::udp::HEADER_LEN];
    header.with_checksum(pseudo, &payload).emit(&mut fixed);
    packet(from.0, to.0, Proto::UDP, ip, &[&fixed[..], &payload].concat())
}

/// Builds an ICMP error that quotes the IP header and the first 8 bytes after it of `quoted`, a
/// packet of our host.
pub(crate) fn icmp_error(router: IpAddr, icmp: Message, quoted: &[u8], to: IpAddr) -> Vec<u8> {
    let (proto, header_len) = match router {
        IpAddr::V4(_) => (Proto::ICMP, ip4::HEADER_LEN),
        IpAddr::V6(_) => (Proto::IPV6_ICMP, ip6::HEADER_LEN),
    };
    let quoted = quoted.get(..header_len + 8).unwrap_or(quoted);
    let mut message = [&[icmp.ty, icmp.code, 0, 0][..], &icmp.mtu.to_be_bytes(), quoted].concat();
    // The checksum of ICMPv4 does not include a pseudo header.
    let before = if router.is_ipv4() { Partial::ZERO } else { pseudo(router, to, proto, message.len()) };
    let sum = before.add(wire::checksum::sum(&message)).finish().to_be_bytes();
    message.splice(2..4, sum);
    packet(router, to, proto, Ip::default(), &message)
}

/// Returns the TOS of a packet in a script.
pub(crate) fn tos_of(ip: Ip) -> u8 {
    ip.tos.unwrap_or(0) | ip.ecn.unwrap_or(if ip.ect01 { 2 } else { 0 })
}

/// IP header fields of a packet from our host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IpHead {
    src: IpAddr,
    dst: IpAddr,
    tos: u8,
    ttl: u8,
    flow_label: u32,
}

/// A parsed packet from our host.
pub(crate) enum Sent {
    /// A TCP segment, and the offset of its data in the packet.
    Tcp(Ends, IpHead, Seg, usize),
    Udp(Ends, IpHead, u16),
    /// Type and code of an ICMP message.
    Icmp(u8, u8),
}

/// Parses the IP header: returns its fields, the upper-layer protocol, the offset of the payload,
/// and the payload.
fn read_ip(packet: &[u8]) -> Result<(IpHead, Proto, usize, &[u8]), String> {
    if ip6::is_version(packet) {
        let header = ip6::Header::parse(packet).map_err(|why| why.to_string())?;
        let (src, dst) = (header.src.into(), header.dst.into());
        let ip6::Header { traffic_class: tos, hop_limit: ttl, flow_label, .. } = header;
        let head = IpHead { src, dst, tos, ttl, flow_label };
        return Ok((head, header.next, ip6::HEADER_LEN, header.payload(packet)));
    }
    let header = ip4::Header::parse(packet).map_err(|why| why.to_string())?;
    if !ip4::header_checksum_ok(packet, header.ihl_len) {
        return Err("wrong IPv4 checksum".to_owned());
    }
    let (src, dst) = (header.src.into(), header.dst.into());
    let head = IpHead { src, dst, tos: header.tos, ttl: header.ttl, flow_label: 0 };
    Ok((head, header.proto, header.ihl_len, header.payload(packet)))
}

/// Parses a packet from our host; returns an error for a malformed one.
pub(crate) fn read(packet: &[u8]) -> Result<Sent, String> {
    let (head, proto, begins, payload) = read_ip(packet)?;
    let IpHead { src: local, dst: remote, .. } = head;
    let sum = pseudo(local, remote, proto, payload.len());
    let ends = |src: L4Port, dst: L4Port| Ends { local, local_port: src.0, remote, remote_port: dst.0 };
    match proto {
        Proto::TCP => {
            let tcp = Header::parse(payload).map_err(|why| why.to_string())?;
            if !wire::tcp::checksum_ok(sum, payload) {
                return Err("wrong TCP checksum".to_owned());
            }
            let options = decode(payload.get(HEADER_LEN..tcp.header_len).unwrap_or_default());
            let len = (payload.len() - tcp.header_len) as u32;
            let (seq, ack, win, urgent) = (tcp.seq, tcp.ack, tcp.window, tcp.urgent);
            Ok(Sent::Tcp(
                ends(tcp.src, tcp.dst),
                head,
                Seg { flags: tcp.flags, seq, ack, win, urgent, len, options },
                begins + tcp.header_len,
            ))
        }
        Proto::UDP => {
            let udp = wire::udp::Header::parse(payload).map_err(|why| why.to_string())?;
            // RFC 8200 8.1: a UDP checksum is mandatory over IPv6.
            let is_bare = udp.checksum == 0 && local.is_ipv4();
            if !is_bare && !wire::udp::checksum_ok(sum, payload) {
                return Err("wrong UDP checksum".to_owned());
            }
            Ok(Sent::Udp(ends(udp.src, udp.dst), head, udp.len.saturating_sub(8)))
        }
        Proto::ICMP | Proto::IPV6_ICMP => match payload {
            [ty, code, ..] => Ok(Sent::Icmp(*ty, *code)),
            _ => Err("truncated ICMP message".to_owned()),
        },
        other => Err(format!("unsupported protocol {}", other.0)),
    }
}

/// Returns the name of the first field of `seen` that differs from `stated`, or `None`.
pub(crate) fn difference(stated: &Tcp, seen: &Seg) -> Option<&'static str> {
    let options = |stated: &Vec<Opt>| encode(stated) == encode(&seen.options);
    let checks = [
        (stated.flags == seen.flags, "flags"),
        (stated.seq == seen.seq, "sequence number"),
        (stated.len == seen.len, "length"),
        (stated.ack.unwrap_or(0) == seen.ack, "acknowledgment"),
        (stated.win.is_none_or(|win| win == seen.win), "window"),
        (stated.urgent == seen.urgent, "urgent pointer"),
        (stated.options.as_ref().is_none_or(options), "options"),
    ];
    checks.into_iter().find(|(fits, _)| !fits).map(|(_, what)| what)
}

/// Returns the first field of the IP header that differs from the script, with its actual value.
pub(crate) fn ip_difference(stated: Ip, header: &IpHead) -> Option<String> {
    let ecn = header.tos & 3;
    if stated.ecn.is_some_and(|stated| stated != ecn) || stated.ect01 && !matches!(ecn, 1 | 2) {
        return Some(format!("ECN {ecn}"));
    }
    if stated.tos.is_some_and(|tos| tos != header.tos) {
        return Some(format!("TOS {:#x}", header.tos));
    }
    if stated.flow_label.is_some_and(|label| label != header.flow_label) {
        return Some(format!("flow label {:#x}", header.flow_label));
    }
    stated.ttl.filter(|ttl| *ttl != header.ttl).map(|_| format!("TTL {}", header.ttl))
}
