//! Frames for a flood of control packets.

use std::net::{Ipv4Addr, Ipv6Addr};
use wire::checksum::Partial;
use wire::eth::{self, EtherType};
use wire::icmp6::nd;
use wire::{L4Port, Mac, Proto, arp, icmp4, ip4, ip6, tcp};

/// Returns a frame of each class of control packets, and one to forward, from the first client to the
/// router with this MAC address.
pub fn flood(router: Mac) -> Vec<Vec<u8>> {
    let (client, own, peer) = (Mac([2, 0, 0, 0, 9, 9]), Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 1, 0, 2));
    let frame = |dst: Mac, ethertype: EtherType, payload: &[u8]| {
        let mut header = [0; eth::HEADER_LEN];
        eth::Header { dst, src: client, ethertype }.emit(&mut header);
        [&header, payload].concat()
    };
    let packet = |dst: Ipv4Addr, proto: Proto, upper: &[u8]| {
        let mut header = [0; ip4::HEADER_LEN];
        ip4::Header::new(peer, dst, proto, upper.len()).unwrap().emit(&mut header);
        let mac = if dst.is_multicast() { Mac::multicast4(dst) } else { router };
        frame(mac, EtherType::IPV4, &[&header, upper].concat())
    };
    let to_port = |port: u16| [5000u16.to_be_bytes(), port.to_be_bytes(), [0, 12], [0, 0], [7; 2], [7; 2]].concat();
    let group = |last: u8| Ipv4Addr::new(224, 0, 0, last);
    let arp = arp::Packet { op: arp::Op::Reply, sha: client, spa: peer, tha: router, tpa: own }.emit();
    let mut syn = [0; tcp::HEADER_LEN];
    let ports = (L4Port(5000), L4Port(179));
    let (seq, ack, header_len, flags, window) = (1, 0, tcp::HEADER_LEN, tcp::Flags::SYN, 1000);
    let (checksum, urgent) = (0, 0);
    tcp::Header { src: ports.0, dst: ports.1, seq, ack, header_len, flags, window, checksum, urgent }.emit(&mut syn);
    tcp::fill_checksum(Partial::pseudo4(peer, own, Proto::TCP, syn.len() as u16), &mut syn);
    let mut echo = [0; icmp4::HEADER_LEN];
    icmp4::emit_echo(icmp4::ty::ECHO_REPLY, 1, 1, &[], &mut echo).unwrap();
    let ends: (Ipv6Addr, Ipv6Addr) = ("fd01::2".parse().unwrap(), "fd01::1".parse().unwrap());
    let mut advert = [0; 32];
    let flags = nd::Advert { router: false, solicited: true, replaces: true, target: ends.0 };
    let len = nd::emit_advert(flags, Some(client), ends, &mut advert).unwrap();
    let mut six = [0; ip6::HEADER_LEN];
    let (next, payload_len) = (Proto::IPV6_ICMP, len as u16);
    ip6::Header { src: ends.0, dst: ends.1, next, payload_len, hop_limit: 255, traffic_class: 0, flow_label: 0 }
        .emit(&mut six);
    vec![
        frame(router, EtherType::ARP, &arp),
        frame(router, EtherType::IPV6, &[&six, &advert[..len]].concat()),
        packet(group(251), Proto::IGMP, &[0x16, 0, 0, 0, 224, 0, 0, 251]),
        packet(own, Proto::TCP, &syn),
        packet(own, Proto::UDP, &to_port(3784)),
        packet(group(5), Proto::OSPF, &[2, 1, 0, 0]),
        frame(Mac([1, 0x80, 0xc2, 0, 0, 0x15]), EtherType(27), &[0xfe, 0xfe, 3, 0x83, 27]),
        packet(group(18), Proto::VRRP, &[0x21, 1]),
        packet(group(13), Proto::PIM, &[0x20, 0]),
        frame(Mac([1, 0x80, 0xc2, 0, 0, 0x0e]), EtherType::LLDP, &[2, 7, 4]),
        frame(Mac([1, 0x80, 0xc2, 0, 0, 2]), EtherType::SLOW, &[1, 1]),
        packet(own, Proto::ICMP, &echo),
        packet(group(9), Proto::UDP, &to_port(520)),
        packet(own, Proto::UDP, &to_port(5001)),
        packet(Ipv4Addr::new(10, 2, 0, 2), Proto::UDP, &to_port(5001)),
    ]
}
