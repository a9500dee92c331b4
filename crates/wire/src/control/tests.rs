use super::ControlClass;
use crate::eth::EtherType;
use crate::ip6::{Fragment, Header as Header6};
use crate::{Mac, Proto, arp, ip4, ip6};
use std::net::{Ipv4Addr, Ipv6Addr};

fn packet4(proto: Proto, dst: [u8; 4], upper: &[u8]) -> Vec<u8> {
    let mut header = ip4::Header::new(Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::from(dst), proto, upper.len()).unwrap();
    header.ttl = 1;
    let mut out = vec![0; ip4::HEADER_LEN];
    header.emit(out.as_mut_slice().try_into().unwrap());
    [out.as_slice(), upper].concat()
}

fn packet6(proto: Proto, dst: &str, upper: &[u8]) -> Vec<u8> {
    let header = Header6 {
        src: "fe80::2".parse().unwrap(),
        dst: dst.parse::<Ipv6Addr>().unwrap(),
        next: proto,
        payload_len: upper.len() as u16,
        hop_limit: 1,
        traffic_class: 0,
        flow_label: 0,
    };
    let mut out = [0; ip6::HEADER_LEN];
    header.emit(&mut out);
    [out.as_slice(), upper].concat()
}

fn ports(src: u16, dst: u16) -> Vec<u8> {
    [src.to_be_bytes(), dst.to_be_bytes(), [0, 8], [0, 0]].concat()
}

#[test]
fn ip_packets_have_the_class_of_their_protocol() {
    let (own, group) = ([10, 0, 0, 1], [224, 0, 0, 5]);
    let cases = [
        (packet4(Proto::OSPF, group, &[2, 1]), ControlClass::Ospf),
        (packet4(Proto::OSPF, own, &[2, 1]), ControlClass::Ospf),
        (packet4(Proto::VRRP, [224, 0, 0, 18], &[]), ControlClass::Vrrp),
        (packet4(Proto::PIM, [224, 0, 0, 13], &[]), ControlClass::Pim),
        (packet4(Proto::IGMP, [224, 0, 0, 22], &[]), ControlClass::Igmp),
        (packet4(Proto::ICMP, own, &[0]), ControlClass::Icmp),
        (packet4(Proto::TCP, own, &ports(40_000, 179)), ControlClass::Bgp),
        (packet4(Proto::TCP, own, &ports(179, 40_000)), ControlClass::Bgp),
        (packet4(Proto::TCP, own, &ports(40_000, 22)), ControlClass::Local),
        (packet4(Proto::UDP, own, &ports(49_152, 3784)), ControlClass::Bfd),
        (packet4(Proto::UDP, own, &ports(49_152, 4784)), ControlClass::Bfd),
        (packet4(Proto::UDP, own, &ports(3784, 40_000)), ControlClass::Local),
        (packet4(Proto::UDP, [224, 0, 0, 9], &ports(520, 520)), ControlClass::Group),
        (packet6(Proto::OSPF, "ff02::5", &[3, 1]), ControlClass::Ospf),
        (packet6(Proto::IPV6_ICMP, "ff02::1", &[134, 0]), ControlClass::Nd),
        (packet6(Proto::IPV6_ICMP, "ff02::16", &[143, 0]), ControlClass::Igmp),
        (packet6(Proto::IPV6_ICMP, "fe80::1", &[129, 0]), ControlClass::Icmp),
        (packet6(Proto::TCP, "fe80::1", &ports(40_000, 179)), ControlClass::Bgp),
        (packet6(Proto::UDP, "ff02::9", &ports(521, 521)), ControlClass::Group),
    ];
    for (packet, class) in cases {
        assert_eq!(ControlClass::of_packet(&packet), Some(class), "{packet:02x?}");
    }
}

#[test]
fn packets_to_wider_groups_and_malformed_ones_have_no_class() {
    let whole = packet4(Proto::UDP, [10, 0, 0, 1], &ports(1, 3784));
    for upper in [ports(1, 2), ports(1, 3784)] {
        assert_eq!(ControlClass::of_packet(&packet4(Proto::UDP, [239, 1, 1, 1], &upper)), None);
    }
    assert_eq!(ControlClass::of_packet(&packet4(Proto::OSPF, [239, 1, 1, 1], &[2, 1])), None);
    assert_eq!(ControlClass::of_packet(&packet4(Proto::IGMP, [239, 1, 1, 1], &[0x16])), Some(ControlClass::Igmp));
    assert_eq!(ControlClass::of_packet(&packet6(Proto::IPV6_ICMP, "ff05::1", &[134, 0])), None);
    assert_eq!(ControlClass::of_packet(&packet6(Proto::UDP, "ff05::1:3", &ports(1, 2))), None);
    assert_eq!(ControlClass::of_packet(&packet6(Proto::IPV6_ICMP, "ff02::1", &[])), None);
    assert_eq!(ControlClass::of_packet(&[]), None);
    assert_eq!(ControlClass::of_packet(&whole[..19]), None);
    // Without its ports, the packet is still one for this host.
    assert_eq!(ControlClass::of_packet(&packet4(Proto::UDP, [10, 0, 0, 1], &[0, 1])), Some(ControlClass::Local));
}

/// A fragment other than the first contains data where ports would be.
#[test]
fn later_fragments_have_no_ports() {
    let mut later = packet4(Proto::TCP, [10, 0, 0, 1], &ports(40_000, 179));
    later[6..8].copy_from_slice(&1u16.to_be_bytes());
    assert_eq!(ControlClass::of_packet(&later), Some(ControlClass::Local));
    let fragment = Fragment { offset: 8, more: false, id: 7 }.emit(Proto::TCP);
    let later = packet6(Proto::FRAGMENT, "fe80::1", &[fragment.as_slice(), &ports(40_000, 179)].concat());
    assert_eq!(ControlClass::of_packet(&later), Some(ControlClass::Local));
}

#[test]
fn link_protocols_have_classes() {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let arp = |op, spa, tpa| arp::Packet { op, sha: Mac([2, 0, 0, 0, 0, 2]), spa, tha: Mac::ZERO, tpa }.emit();
    assert_eq!(ControlClass::of_frame(EtherType::ARP, &arp(arp::Op::Reply, b, a)), Some(ControlClass::Arp));
    assert_eq!(ControlClass::of_frame(EtherType::ARP, &arp(arp::Op::Request, b, b)), Some(ControlClass::Arp));
    assert_eq!(ControlClass::of_frame(EtherType::ARP, &arp(arp::Op::Request, b, a)), None);
    assert_eq!(ControlClass::of_frame(EtherType(1497), &[0xfe, 0xfe, 0x03, 0x83]), Some(ControlClass::Isis));
    assert_eq!(ControlClass::of_frame(EtherType::LONG_LLC, &[0xfe, 0xfe, 0x03, 0x83]), Some(ControlClass::Isis));
    assert_eq!(ControlClass::of_frame(EtherType(38), &[0x42, 0x42, 0x03]), None); // a spanning tree
    assert_eq!(ControlClass::of_frame(EtherType::VLAN, &[0xe0, 0, 0x88, 0xcc, 2]), Some(ControlClass::Lldp));
    assert_eq!(ControlClass::of_frame(EtherType::VLAN, &[0xe0, 7, 0x88, 0xcc, 2]), None);
    assert_eq!(ControlClass::of_frame(EtherType::VLAN, &[0xe0, 0]), None);
    assert_eq!(ControlClass::of_frame(EtherType::LLDP, &[]), Some(ControlClass::Lldp));
    assert_eq!(ControlClass::of_frame(EtherType::SLOW, &[1]), Some(ControlClass::Lacp));
    assert_eq!(ControlClass::of_frame(EtherType(0x88b5), &[]), None);
}

#[test]
fn each_class_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = ControlClass::ALL.iter().map(|class| class.name()).collect();
    assert_eq!(names.len(), ControlClass::ALL.len());
    assert!(ControlClass::ALL.iter().enumerate().all(|(at, class)| *class as usize == at));
}
