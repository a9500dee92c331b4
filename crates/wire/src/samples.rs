//! Frames that several tests use: one of each kind that this crate parses, with valid checksums.

use crate::checksum::Partial;
use crate::eth::{self, EtherType, Mac};
use crate::igmp::v3::{NewRecord, RecordKind};
use crate::tcp::{Flags, OptionWriter};
use crate::{L4Port, Proto, arp, bpdu, etherip, gre, icmp4, icmp6, igmp, ip4, ip6, mld, tcp, udp, vlan, vxlan};
use core::net::{Ipv4Addr, Ipv6Addr};

pub(crate) const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub(crate) const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
pub(crate) const A4: Ipv4Addr = Ipv4Addr::new(1, 0, 0, 1);
pub(crate) const B4: Ipv4Addr = Ipv4Addr::new(1, 0, 0, 2);
pub(crate) const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const B6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

/// Puts an Ethernet header before `payload`.
pub(crate) fn ethernet(ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; eth::HEADER_LEN];
    eth::Header { dst: B, src: A, ethertype }.emit(frame.first_chunk_mut().unwrap());
    frame.extend(payload);
    frame
}

/// Puts an IPv4 header before `payload`.
pub(crate) fn packet4(proto: Proto, dst: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ip4::HEADER_LEN];
    let header = ip4::Header::new(A4, dst, proto, payload.len()).unwrap();
    header.emit(packet.first_chunk_mut().unwrap());
    packet.extend(payload);
    packet
}

/// Puts an IPv6 header before `payload`.
pub(crate) fn packet6(next: Proto, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ip6::HEADER_LEN];
    let payload_len = payload.len() as u16;
    ip6::Header { traffic_class: 0, flow_label: 0x12345, payload_len, next, hop_limit: 64, src: A6, dst: B6 }
        .emit(packet.first_chunk_mut().unwrap());
    packet.extend(payload);
    packet
}

pub(crate) fn udp_datagram(pseudo: fn(Proto, u16) -> Partial, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; udp::HEADER_LEN];
    let len = (udp::HEADER_LEN + payload.len()) as u16;
    udp::Header { src: L4Port(12345), dst: L4Port(55443), len, checksum: 0 }
        .with_checksum(pseudo(Proto::UDP, len), payload)
        .emit(datagram.first_chunk_mut().unwrap());
    datagram.extend(payload);
    datagram
}

/// Puts a GRE header before an IPv4 packet: without options, or with a checksum, a key and a
/// sequence number.
pub(crate) fn gre(flow: Option<(u32, u32)>, packet: &[u8]) -> Vec<u8> {
    let (key, sequence) = flow.unzip();
    let header = gre::Header { protocol: EtherType::IPV4, has_checksum: flow.is_some(), key, sequence };
    let mut out = vec![0; header.header_len()];
    out.extend(packet);
    header.emit(&mut out).unwrap();
    out
}

pub(crate) fn vxlan_datagram(vni: u32, frame: &[u8]) -> Vec<u8> {
    let mut out = vec![0; udp::HEADER_LEN + vxlan::HEADER_LEN];
    let len = (out.len() + frame.len()) as u16;
    let (header, rest) = out.split_first_chunk_mut().unwrap();
    udp::Header { src: L4Port(54321), dst: vxlan::PORT, len, checksum: 0 }.emit(header);
    vxlan::Header { vni }.emit(rest.first_chunk_mut().unwrap());
    out.extend(frame);
    out
}

pub(crate) fn pseudo4(proto: Proto, len: u16) -> Partial {
    Partial::pseudo4(A4, B4, proto, len)
}

pub(crate) fn pseudo6(proto: Proto, len: u16) -> Partial {
    Partial::pseudo6(A6, B6, proto, len.into())
}

pub(crate) fn tcp_segment(flags: Flags, options: &OptionWriter, text: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; tcp::HEADER_LEN];
    let header_len = tcp::HEADER_LEN + options.finish().len();
    tcp::Header {
        src: L4Port(40000),
        dst: L4Port(5001),
        seq: 0x01020304,
        ack: if flags.contains(Flags::ACK) { 0x0a0b0c0d } else { 0 },
        header_len,
        flags,
        window: 65535,
        checksum: 0,
        urgent: if flags.contains(Flags::URG) { 1 } else { 0 },
    }
    .emit(segment.first_chunk_mut().unwrap());
    segment.extend(options.finish());
    segment.extend(text);
    let len = segment.len() as u16;
    tcp::fill_checksum(pseudo4(Proto::TCP, len), &mut segment);
    segment
}

/// Returns a UDP frame of 64 bytes: 22 bytes of payload, 8 UDP, 20 IPv4, 14 Ethernet.
pub(crate) fn rump_frame() -> Vec<u8> {
    ethernet(EtherType::IPV4, &packet4(Proto::UDP, B4, &udp_datagram(pseudo4, &[0x5a; 22])))
}

fn icmp(emit: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut message = vec![0; 600];
    let len = emit(&mut message).unwrap();
    message.truncate(len);
    message
}

/// Returns the name and the bytes of one frame of each kind.
pub(crate) fn frames() -> Vec<(&'static str, Vec<u8>)> {
    use icmp4::{Problem, ty};
    let rump = rump_frame();
    let quoted = &rump[14..14 + 28];
    let v4 = |proto, payload: &[u8]| ethernet(EtherType::IPV4, &packet4(proto, B4, payload));
    let v6 = |next, payload: &[u8]| ethernet(EtherType::IPV6, &packet6(next, payload));
    let arp = |op, tha| arp::Packet { op, sha: A, spa: A4, tha, tpa: B4 }.emit();
    let error = |problem| v4(Proto::ICMP, &icmp(|out| icmp4::emit_error(problem, quoted, out)));
    let tag = |ethertype: EtherType, payload: &[u8]| {
        let mut out = vec![0; 4];
        vlan::Tag { pcp: 5, dei: false, vid: 100, ethertype }.emit(out.first_chunk_mut().unwrap());
        out.extend(payload);
        out
    };
    let none = OptionWriter::new();
    let syn = OptionWriter::new().mss(1460).sack_permitted().timestamps(7, 0).nop().window_scale(7);
    let sack = OptionWriter::new().nop().nop().timestamps(8, 7).nop().nop().sack(&[(100, 200), (300, 400)]);
    let multicast = Ipv4Addr::new(224, 1, 2, 3);
    let group = |message: igmp::Message| ethernet(EtherType::IPV4, &packet4(Proto::IGMP, multicast, &message.emit()));
    let mut fragment = packet4(Proto::UDP, B4, &udp_datagram(pseudo4, &[1; 32]));
    fragment[6..8].copy_from_slice(&[0x20, 0x02]);
    ip4::fill_checksum(&mut fragment[..20]);
    let mut optioned = packet4(Proto::UDP, B4, &[&[148, 4, 0, 0][..], &udp_datagram(pseudo4, b"x")].concat());
    optioned[0] = 0x46;
    ip4::fill_checksum(&mut optioned[..24]);
    let mut echo6 = vec![128, 0, 0, 0, 0, 1, 0, 2, 9, 9, 9, 9];
    let sum = pseudo6(Proto::IPV6_ICMP, 12).add(crate::checksum::sum(&echo6)).finish();
    echo6[2..4].copy_from_slice(&sum.to_be_bytes());
    let hop_by_hop = [&[17, 0, 5, 2, 0, 0, 1, 0][..], &udp_datagram(pseudo6, &[3; 5])].concat();
    let first = ip6::Fragment { offset: 0, more: true, id: 77 }.emit(Proto::UDP);
    let fragment6 = [&first[..], &udp_datagram(pseudo6, &[3; 24])].concat();
    let reported = bpdu::Config {
        flags: bpdu::Flags::PROPOSAL.with_role(bpdu::SenderRole::Designated),
        root: bpdu::BridgeId::new(0x8000, A),
        root_path_cost: 20_000,
        bridge: bpdu::BridgeId::new(0x9000, B),
        port: bpdu::PortId::new(128, 3),
        message_age: 256,
        max_age: 20 << 8,
        hello_time: 2 << 8,
        forward_delay: 15 << 8,
    };
    vec![
        ("rump_udp", rump.clone()),
        ("arp_request", ethernet(EtherType::ARP, &arp(arp::Op::Request, Mac::ZERO))),
        ("arp_reply", ethernet(EtherType::ARP, &arp(arp::Op::Reply, B))),
        ("echo_request", v4(Proto::ICMP, &icmp(|out| icmp4::emit_echo(ty::ECHO_REQUEST, 7, 1, &[0; 56], out)))),
        ("echo_reply", v4(Proto::ICMP, &icmp(|out| icmp4::emit_echo(ty::ECHO_REPLY, 7, 1, &[0; 56], out)))),
        ("port_unreachable", error(Problem::Unreachable { code: icmp4::unreachable::PORT, next_mtu: 0 })),
        ("frag_needed", error(Problem::Unreachable { code: icmp4::unreachable::FRAG_NEEDED, next_mtu: 1400 })),
        ("host_unreachable", error(Problem::Unreachable { code: icmp4::unreachable::HOST, next_mtu: 0 })),
        ("net_unreachable", error(Problem::Unreachable { code: icmp4::unreachable::NET, next_mtu: 0 })),
        ("proto_unreachable", error(Problem::Unreachable { code: icmp4::unreachable::PROTOCOL, next_mtu: 0 })),
        ("ttl_exceeded", error(Problem::TimeExceeded { code: icmp4::time_exceeded::TTL })),
        ("redirect", error(Problem::Redirect { code: 1, gateway: Ipv4Addr::new(1, 0, 0, 254) })),
        ("param_problem", error(Problem::ParameterProblem { pointer: 20 })),
        ("igmp_query", group(igmp::Message::Query { max_resp_ds: 100, group: Ipv4Addr::UNSPECIFIED })),
        ("igmp_query_group", group(igmp::Message::Query { max_resp_ds: 10, group: multicast })),
        ("igmp_report", group(igmp::Message::Report { group: multicast })),
        ("igmp_leave", group(igmp::Message::Leave { group: multicast })),
        ("tcp_syn", v4(Proto::TCP, &tcp_segment(Flags::SYN, &syn, b""))),
        ("tcp_ack", v4(Proto::TCP, &tcp_segment(Flags::ACK, &none, b""))),
        ("tcp_sack", v4(Proto::TCP, &tcp_segment(Flags::ACK, &sack, b""))),
        ("tcp_data", v4(Proto::TCP, &tcp_segment(Flags::PSH | Flags::ACK, &none, &[7; 100]))),
        ("tcp_fin", v4(Proto::TCP, &tcp_segment(Flags::FIN | Flags::ACK, &none, b""))),
        ("tcp_rst", v4(Proto::TCP, &tcp_segment(Flags::RST, &none, b""))),
        ("tcp_urg", v4(Proto::TCP, &tcp_segment(Flags::URG | Flags::ACK, &none, b"!"))),
        ("udp_fragment", ethernet(EtherType::IPV4, &fragment)),
        ("udp_options", ethernet(EtherType::IPV4, &optioned)),
        ("vlan_udp", ethernet(EtherType::VLAN, &tag(EtherType::IPV4, &rump[14..]))),
        ("qinq_udp", ethernet(EtherType::QINQ, &tag(EtherType::VLAN, &tag(EtherType::IPV4, &rump[14..])))),
        ("udp6", v6(Proto::UDP, &udp_datagram(pseudo6, &[4; 22]))),
        ("echo6", v6(Proto::IPV6_ICMP, &echo6)),
        ("hop_by_hop6", v6(Proto::HOP_BY_HOP, &hop_by_hop)),
        ("bpdu_rst", bpdu::Bpdu::Rst(reported).emit_frame(A).to_vec()),
        (
            "bpdu_config",
            bpdu::Bpdu::Config(bpdu::Config { flags: bpdu::Flags::NONE, ..reported }).emit_frame(A).to_vec(),
        ),
        ("bpdu_tcn", bpdu::Bpdu::Tcn.emit_frame(A).to_vec()),
        ("fragment6", v6(Proto::FRAGMENT, &fragment6)),
    ]
}

/// Returns the first of [`frames`] encapsulated in each kind of tunnel.
pub(crate) fn tunnels() -> Vec<(&'static str, Vec<u8>)> {
    let rump = rump_frame();
    let v4 = |proto, payload: &[u8]| ethernet(EtherType::IPV4, &packet4(proto, B4, payload));
    vec![
        ("ipip", v4(Proto::IPIP, &rump[14..])),
        ("gre", v4(Proto::GRE, &gre(None, &rump[14..]))),
        ("gre_all", v4(Proto::GRE, &gre(Some((5, 9)), &rump[14..]))),
        ("etherip", v4(Proto::ETHERIP, &[&etherip::HEADER, rump.as_slice()].concat())),
        ("vxlan", v4(Proto::UDP, &vxlan_datagram(42, &rump))),
    ]
}

/// Returns IPv6 control messages.
pub(crate) fn control6() -> Vec<(&'static str, Vec<u8>)> {
    let to_b = (A6, B6);
    let problem = icmp6::Problem::TooBig { mtu: 1280 };
    let too_big6 = icmp(|out| icmp6::emit_error(problem, to_b, &packet6(Proto::UDP, &[0; 16]), out));
    let solicit6 = icmp(|out| icmp6::nd::emit_solicit(B6, Some(A), to_b, out));
    let advert = icmp6::nd::Advert { router: true, solicited: true, replaces: true, target: A6 };
    let advert6 = icmp(|out| icmp6::nd::emit_advert(advert, Some(A), to_b, out));
    let v6 = |message: &[u8]| ethernet(EtherType::IPV6, &packet6(Proto::IPV6_ICMP, message));
    let record = NewRecord { kind: RecordKind::ToExclude, group: ip6::solicited_node(A6).into(), sources: Vec::new() };
    let report = mld::report(A6, &[record]);
    vec![("too_big6", v6(&too_big6)), ("solicit6", v6(&solicit6)), ("advert6", v6(&advert6)), ("report6", v6(&report))]
}

/// Returns all sample frames.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    frames().into_iter().chain(tunnels()).chain(control6()).collect()
}
