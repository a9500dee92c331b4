//! The part of a line that describes the network layer: addresses, then the payload.

use super::transport::{self, Checksum, Ends};
use crate::checksum::Partial;
use crate::{Layer, Malformed, Proto};
use crate::{etherip, gre, icmp4, igmp, ip4, ip6};
use core::fmt::{Formatter, Result};
use core::net::IpAddr;

/// Offset of an IPv4 header's checksum (RFC 791 3.1).
const CHECKSUM_AT: usize = 10;
/// Offset of the checksum of ICMP and ICMPv6.
const ICMP_CHECKSUM_AT: usize = 2;

/// Prints an IPv4 packet. `cut` is the number of bytes of the packet that were not captured.
pub(super) fn ip4(f: &mut Formatter<'_>, packet: &[u8], cut: usize, verbose: u8) -> Result {
    // A captured packet may be truncated, like a packet quoted in an ICMP error.
    let header = match ip4::Header::parse_quoted(packet, Layer::Ip4) {
        Ok(header) => header,
        Err(Malformed::Truncated { .. }) => return f.write_str("[|ip]"),
        Err(why) => return write!(f, "[{why}]"),
    };
    let claimed = usize::from(header.total_len);
    if claimed > packet.len() + cut {
        write!(f, "truncated-ip - {} bytes missing! ", claimed - packet.len() - cut)?;
    }
    let payload = packet.get(header.ihl_len..claimed.min(packet.len())).unwrap_or_default();
    let len = claimed.saturating_sub(header.ihl_len);
    let (src, dst) = (IpAddr::V4(header.src), IpAddr::V4(header.dst));
    if header.frag_off != 0 {
        return write!(f, "{src} > {dst}: ip-proto-{}", header.proto.0);
    }
    let addresses = Some((src, dst));
    let verify = addresses.filter(|_| verbose > 0 && !header.mf);
    upper(f, header.proto, Ends { addresses, len, verify, verbose }, payload)
}

/// Prints the fields of an IPv4 header in parentheses, and the line break before the addresses.
pub(super) fn fields4(f: &mut Formatter<'_>, packet: &[u8]) -> Result {
    let Ok(header) = ip4::Header::parse_quoted(packet, Layer::Ip4) else { return Ok(()) };
    let flags = match (header.df, header.mf) {
        (true, true) => "+, DF",
        (true, false) => "DF",
        (false, true) => "+",
        (false, false) => "none",
    };
    let (proto, number) = (header.proto.name().unwrap_or("unknown"), header.proto.0);
    write!(
        f,
        "(tos {:#x}, ttl {}, id {}, offset {}, flags [{flags}], proto {proto} ({number}), length {}",
        header.tos, header.ttl, header.id, header.frag_off, header.total_len
    )?;
    let bytes = packet.get(..header.ihl_len).unwrap_or_default();
    if let Some(sum) = Checksum::of(Partial::ZERO, bytes, CHECKSUM_AT).filter(|sum| !sum.is_right()) {
        write!(f, ", bad cksum {:x} (->{:x})!", sum.found, sum.expected)?;
    }
    f.write_str(")\n    ")
}

/// Prints the fields of an IPv6 header in parentheses.
pub(super) fn fields6(f: &mut Formatter<'_>, packet: &[u8]) -> Result {
    let Ok(header) = ip6::Header::parse(packet) else { return Ok(()) };
    f.write_str("(")?;
    if header.traffic_class != 0 {
        write!(f, "class {:#04x}, ", header.traffic_class)?;
    }
    if header.flow_label != 0 {
        write!(f, "flowlabel {:#07x}, ", header.flow_label)?;
    }
    let (next, number) = (header.next.name().unwrap_or("unknown"), header.next.0);
    write!(f, "hlim {}, next-header {next} ({number}) payload length: {}) ", header.hop_limit, header.payload_len)
}

pub(super) fn ip6(f: &mut Formatter<'_>, packet: &[u8], verbose: u8) -> Result {
    let header = match ip6::Header::parse(packet) {
        Ok(header) => header,
        Err(Malformed::Truncated { .. }) => return f.write_str("[|ip6]"),
        Err(why) => return write!(f, "[{why}]"),
    };
    let (src, dst) = (IpAddr::V6(header.src), IpAddr::V6(header.dst));
    let chain = match ip6::Chain::walk(&header, packet) {
        Ok(chain) => chain,
        Err(Malformed::Truncated { .. }) => return write!(f, "{src} > {dst}: [|ip6]"),
        Err(why) => return write!(f, "{src} > {dst}: [{why}]"),
    };
    let len = chain.payload_len(&header);
    let payload = chain.payload(&header, packet);
    let whole = chain.fragment.is_none_or(|fragment| fragment.offset == 0 && !fragment.more);
    let verify = Some((src, dst)).filter(|_| verbose > 0 && whole);
    if chain.extensions().next().is_none() {
        return upper(f, chain.upper, Ends { addresses: Some((src, dst)), len, verify, verbose }, payload);
    }
    write!(f, "{src} > {dst}: ")?;
    for extension in chain.extensions() {
        match (extension.proto, chain.fragment) {
            (Proto::FRAGMENT, Some(fragment)) => write!(f, "frag ({}|{len}) ", fragment.offset)?,
            (proto, _) => write!(f, "{proto} ")?,
        }
    }
    match chain.fragment {
        Some(fragment) if fragment.offset != 0 => Ok(()),
        _ => upper(f, chain.upper, Ends { addresses: None, len, verify, verbose }, payload),
    }
}

/// Prints the upper layer. `payload` may be shorter than `ends.len`, which comes from the IP
/// header.
fn upper(f: &mut Formatter<'_>, proto: Proto, ends: Ends, payload: &[u8]) -> Result {
    match proto {
        Proto::UDP => return transport::udp(f, ends, payload),
        Proto::TCP => return transport::tcp(f, ends, payload),
        _ => ends.without_ports(f)?,
    }
    match proto {
        Proto::ICMP => icmp(f, payload, ends),
        Proto::IGMP => igmp(f, payload),
        Proto::IPV6_ICMP => icmp6(f, payload, ends),
        Proto::GRE => gre(f, payload, ends.len),
        Proto::ETHERIP => etherip(f, payload, ends.len),
        Proto::NO_NEXT => f.write_str("no next header"),
        Proto(number) => match proto.name() {
            Some(name) => write!(f, "{name}, length {}", ends.len),
            None => write!(f, "ip-proto-{number} {}", ends.len),
        },
    }
}

/// Prints the GRE header. The inner packet is not dissected, because the nesting depth must not
/// depend on the input.
fn gre(f: &mut Formatter<'_>, packet: &[u8], len: usize) -> Result {
    let header = match gre::Header::parse(packet) {
        Ok(header) => header,
        Err(Malformed::Truncated { .. }) => return f.write_str("[|gre]"),
        Err(why) => return write!(f, "[{why}]"),
    };
    f.write_str("GREv0")?;
    if let Some(key) = header.key {
        write!(f, ", key={key:#x}")?;
    }
    if let Some(sequence) = header.sequence {
        write!(f, ", seq {sequence}")?;
    }
    write!(f, ", proto {}, length {len}", header.protocol)
}

fn etherip(f: &mut Formatter<'_>, packet: &[u8], len: usize) -> Result {
    match etherip::check(packet) {
        Ok(()) => write!(f, "EtherIP, length {len}"),
        Err(Malformed::Truncated { .. }) => f.write_str("[|etherip]"),
        Err(why) => write!(f, "[{why}]"),
    }
}

fn lower(f: &mut Formatter<'_>, proto: Proto) -> Result {
    f.write_str(match proto {
        Proto::TCP => "tcp",
        Proto::UDP => "udp",
        Proto::ICMP => "icmp",
        Proto::IGMP => "igmp",
        _ => "ip",
    })
}

fn icmp(f: &mut Formatter<'_>, message: &[u8], ends: Ends) -> Result {
    use icmp4::{time_exceeded, ty};
    let Ok(header) = icmp4::Header::parse(message) else {
        return f.write_str("[|icmp]");
    };
    f.write_str("ICMP ")?;
    let [r0, r1, r2, r3] = header.rest;
    let (first, second) = (u16::from_be_bytes([r0, r1]), u16::from_be_bytes([r2, r3]));
    let body = message.get(icmp4::HEADER_LEN..).unwrap_or_default();
    match (header.ty, header.code) {
        (ty::ECHO_REQUEST, _) => write!(f, "echo request, id {first}, seq {second}")?,
        (ty::ECHO_REPLY, _) => write!(f, "echo reply, id {first}, seq {second}")?,
        (ty::UNREACHABLE, code) => match icmp4::Inner::parse(body) {
            Ok(inner) => unreachable(f, code, second, inner)?,
            Err(_) => f.write_str("unreachable [|icmp]")?,
        },
        (ty::REDIRECT, code) => match icmp4::Inner::parse(body) {
            Ok(inner) => redirect(f, code, header.rest, inner)?,
            Err(_) => f.write_str("redirect [|icmp]")?,
        },
        (ty::TIME_EXCEEDED, time_exceeded::TTL) => f.write_str("time exceeded in-transit")?,
        (ty::TIME_EXCEEDED, time_exceeded::REASSEMBLY) => f.write_str("ip reassembly time exceeded")?,
        (ty::TIME_EXCEEDED, code) => write!(f, "time exceeded-#{code}")?,
        (ty::PARAMETER_PROBLEM, 0) => write!(f, "parameter problem - octet {r0}")?,
        (ty::PARAMETER_PROBLEM, code) => write!(f, "parameter problem - code {code}")?,
        (ty::SOURCE_QUENCH, _) => f.write_str("source quench")?,
        (ty, _) => write!(f, "type-#{ty}")?,
    }
    write!(f, ", length {}", ends.len)?;
    let whole = message.get(..ends.len).filter(|_| ends.verify.is_some());
    match whole.and_then(|whole| Checksum::of(Partial::ZERO, whole, ICMP_CHECKSUM_AT)) {
        Some(sum) if !sum.is_right() => write!(f, " (wrong icmp cksum {:x} (->{:x})!)", sum.found, sum.expected),
        _ => Ok(()),
    }
}

fn unreachable(f: &mut Formatter<'_>, code: u8, next_mtu: u16, inner: icmp4::Inner<'_>) -> Result {
    use icmp4::unreachable as why;
    let dst = inner.header.dst;
    match code {
        why::NET => write!(f, "net {dst} unreachable"),
        why::HOST => write!(f, "host {dst} unreachable"),
        why::PROTOCOL => write!(f, "{dst} protocol {} unreachable", inner.header.proto.0),
        why::PORT => {
            let [p0, p1] = inner.payload.get(2..4).and_then(|port| port.try_into().ok()).unwrap_or_default();
            write!(f, "{dst} ")?;
            lower(f, inner.header.proto)?;
            write!(f, " port {} unreachable", u16::from_be_bytes([p0, p1]))
        }
        why::FRAG_NEEDED if next_mtu == 0 => write!(f, "{dst} unreachable - need to frag"),
        why::FRAG_NEEDED => write!(f, "{dst} unreachable - need to frag (mtu {next_mtu})"),
        why::SOURCE_ROUTE => write!(f, "{dst} unreachable - source route failed"),
        why::ADMIN_PROHIBITED => write!(f, "host {dst} unreachable - admin prohibited filter"),
        code => write!(f, "{dst} unreachable - #{code}"),
    }
}

fn redirect(f: &mut Formatter<'_>, code: u8, gateway: [u8; 4], inner: icmp4::Inner<'_>) -> Result {
    let what = match code {
        0 => "net",
        1 => "host",
        2 => "tos net",
        3 => "tos host",
        _ => "unknown",
    };
    write!(f, "redirect {} to {what} {}", inner.header.dst, core::net::Ipv4Addr::from(gateway))
}

fn igmp(f: &mut Formatter<'_>, message: &[u8]) -> Result {
    match igmp::Message::parse(message) {
        Ok(igmp::Message::Query { max_resp_ds, group }) => {
            f.write_str("igmp query v2")?;
            if max_resp_ds != 100 {
                write!(f, " [max resp time {}]", max_resp_ds)?;
            }
            if group.is_unspecified() { Ok(()) } else { write!(f, " [gaddr {group}]") }
        }
        Ok(igmp::Message::ReportV1 { group }) => write!(f, "igmp v1 report {group}"),
        Ok(igmp::Message::Report { group }) => write!(f, "igmp v2 report {group}"),
        Ok(igmp::Message::Leave { group }) => write!(f, "igmp leave {group}"),
        Ok(igmp::Message::Other { ty }) => write!(f, "igmp-{ty}"),
        Err(Malformed::Truncated { .. }) => f.write_str("[|igmp]"),
        Err(why) => write!(f, "[{why}]"),
    }
}

fn icmp6(f: &mut Formatter<'_>, message: &[u8], ends: Ends) -> Result {
    let Some(&[ty, code, _, _, r0, r1, r2, r3]) = message.first_chunk::<8>() else {
        return f.write_str("[|icmp6]");
    };
    let (first, second) = (u16::from_be_bytes([r0, r1]), u16::from_be_bytes([r2, r3]));
    let target = || {
        let octets = message.get(8..).and_then(|body| body.first_chunk::<16>());
        octets.map_or(core::net::Ipv6Addr::UNSPECIFIED, |&octets| octets.into())
    };
    match ends.checksum(Proto::IPV6_ICMP, message, ICMP_CHECKSUM_AT) {
        Some(sum) if sum.is_right() => f.write_str("[icmp6 sum ok] ")?,
        Some(sum) => write!(f, "[bad icmp6 cksum {:#06x} -> {:#06x}!] ", sum.found, sum.expected)?,
        None => {}
    }
    f.write_str("ICMP6, ")?;
    match (ty, code) {
        (1, code) => write!(f, "destination unreachable, code {code}")?,
        (2, _) => write!(f, "packet too big, mtu {}", u32::from_be_bytes([r0, r1, r2, r3]))?,
        (3, _) => f.write_str("time exceeded")?,
        (4, code) => write!(f, "parameter problem, code {code}")?,
        (128, _) => write!(f, "echo request, id {first}, seq {second}")?,
        (129, _) => write!(f, "echo reply, id {first}, seq {second}")?,
        (133, _) => f.write_str("router solicitation")?,
        (134, _) => f.write_str("router advertisement")?,
        (135, _) => write!(f, "neighbor solicitation, who has {}", target())?,
        (136, _) => write!(f, "neighbor advertisement, tgt is {}", target())?,
        (130, _) => f.write_str("multicast listener query")?,
        (131, _) => write!(f, "multicast listener report {}", target())?,
        (132, _) => write!(f, "multicast listener done {}", target())?,
        (137, _) => write!(f, "redirect, to {}", target())?,
        (143, _) => write!(f, "multicast listener report v2, {second} group record(s)")?,
        (ty, _) => write!(f, "type-#{ty}")?,
    }
    write!(f, ", length {}", ends.len)
}
