use super::*;
use proptest::prelude::*;

#[test]
fn macs_read_and_print() {
    let mac: Mac = "02:00:00:aB:cd:Ef".parse().unwrap();
    assert_eq!(mac.to_string(), "02:00:00:ab:cd:ef");
    for bad in [
        "",
        "02",
        "02:00:00:00:00",
        "02:00:00:00:00:01:02",
        "02:00:00:00:00:+1",
        "2:0:0:0:0:1",
        "02-00-00-00-00-01",
        "02:00:00:00:00:0g",
        "02:00:00:00:00:é",
    ] {
        assert_eq!(bad.parse::<Mac>(), Err(BadMac), "{bad}");
    }
}

#[test]
fn kinds_of_address() {
    assert!(Mac::BROADCAST.is_broadcast() && Mac::BROADCAST.is_multicast() && !Mac::BROADCAST.is_unicast());
    assert!(Mac::ZERO.is_unicast() && !Mac::ZERO.is_multicast());
    let group = Mac::multicast4(Ipv4Addr::new(224, 129, 2, 3));
    assert_eq!(group.to_string(), "01:00:5e:01:02:03");
    assert!(group.is_multicast() && !group.is_broadcast() && !group.is_link_local_group());
    let stp: Mac = "01:80:c2:00:00:00".parse().unwrap();
    assert!(stp.is_link_local_group() && !"01:80:c2:00:00:10".parse::<Mac>().unwrap().is_link_local_group());
}

#[test]
fn ethertypes() {
    assert_eq!(EtherType::IPV4.to_string(), "IPv4 (0x0800)");
    assert_eq!(EtherType(0x1234).to_string(), "Unknown (0x1234)");
    assert!(EtherType(0x05ff).is_length() && !EtherType(0x0600).is_length());
    assert!(EtherType::VLAN.is_tag() && EtherType::QINQ.is_tag() && !EtherType::ARP.is_tag());
}

#[test]
fn short_frames() {
    for len in 0..HEADER_LEN {
        let why = Header::parse(&[0; HEADER_LEN][..len]);
        assert_eq!(why, Err(Malformed::Truncated { layer: Layer::Eth, need: 14, have: len as u16 }));
    }
}

proptest! {
    #[test]
    fn round_trip(dst: [u8; 6], src: [u8; 6], ethertype: u16) {
        let header = Header { dst: Mac(dst), src: Mac(src), ethertype: EtherType(ethertype) };
        let mut bytes = [0; HEADER_LEN];
        header.emit(&mut bytes);
        prop_assert_eq!(Header::parse(&bytes), Ok(header));
        prop_assert_eq!(header.dst.to_string().parse(), Ok(header.dst));
    }
}
