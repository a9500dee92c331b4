use super::*;
use buf::{Pool, PoolConfig};

const STATION: Mac = Mac([2, 0, 0, 0, 0, 7]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 8]);
const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 8, ..PoolConfig::default() }).unwrap()
}

/// Returns a link whose device is never readable.
fn link() -> (IpLink, Event) {
    let device = Event::new().unwrap();
    let link = IpLink::new(STATION, Some(device.fd())).unwrap();
    (link, device)
}

fn framed(src: Mac, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    let mut bytes = [0; eth::HEADER_LEN];
    eth::Header { dst: PEER, src, ethertype }.emit(&mut bytes);
    [&bytes, packet].concat()
}

fn request(spa: Ipv4Addr, tpa: Ipv4Addr) -> Vec<u8> {
    let request = arp::Packet { op: arp::Op::Request, sha: STATION, spa, tha: Mac::ZERO, tpa };
    framed(STATION, EtherType::ARP, &request.emit())
}

fn packet6(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let mut front = [0; ip6::HEADER_LEN];
    let payload_len = message.len() as u16;
    let next = Proto::IPV6_ICMP;
    ip6::Header { traffic_class: 0, flow_label: 0, payload_len, next, hop_limit: 255, src, dst }.emit(&mut front);
    [&front, message].concat()
}

fn solicit(src: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let mut message = [0; nd::NEIGHBOR_LEN];
    let link = (!src.is_unspecified()).then_some(STATION);
    let len = nd::emit_solicit(target, link, (src, target), &mut message).unwrap();
    framed(STATION, EtherType::IPV6, &packet6(src, target, &message[..len]))
}

fn is_ready(link: &IpLink) -> bool {
    crate::os::is_readable(link.fd().unwrap())
}

#[test]
fn an_arp_request_is_answered_and_wakes_the_receiver() {
    let (link, _device) = link();
    assert!(!is_ready(&link) && link.take_answer().is_none());
    assert_eq!(link.send(&request(A, B)), Outgoing::Handled);
    assert!(is_ready(&link));
    let answer = link.take_answer().unwrap();
    let header = eth::Header::parse(&answer).unwrap();
    assert_eq!(header, eth::Header { dst: STATION, src: PEER, ethertype: EtherType::ARP });
    let reply = arp::Packet::parse(&answer[eth::HEADER_LEN..]).unwrap();
    assert_eq!(reply, arp::Packet { op: arp::Op::Reply, sha: PEER, spa: B, tha: STATION, tpa: A });
    assert!(!is_ready(&link) && link.take_answer().is_none());
}

#[test]
fn a_solicitation_is_answered_by_a_valid_advertisement() {
    let (link, _device) = link();
    assert_eq!(link.send(&solicit(A6, B6)), Outgoing::Handled);
    let answer = link.take_answer().unwrap();
    let packet = &answer[eth::HEADER_LEN..];
    let header = ip6::Header::parse(packet).unwrap();
    assert_eq!((header.src, header.dst, header.hop_limit), (B6, A6, 255));
    let Ok(Message::Nd(nd::Message::Advert { advert, options })) =
        Message::parse(header.payload(packet), header.src, header.dst)
    else {
        panic!("{packet:?}")
    };
    assert!(advert.solicited && advert.replaces && advert.router && advert.target == B6);
    assert!(options.into_iter().any(|option| option == nd::Opt::TargetLink(PEER)));
}

#[test]
fn probes_announcements_replies_and_damaged_frames_get_no_answer() {
    let (link, _device) = link();
    let reply = arp::Packet { op: arp::Op::Reply, sha: STATION, spa: A, tha: PEER, tpa: B };
    for frame in [
        request(Ipv4Addr::UNSPECIFIED, A),
        request(A, A),
        framed(STATION, EtherType::ARP, &reply.emit()),
        framed(STATION, EtherType::ARP, &[1, 2, 3]),
    ] {
        assert_eq!(link.send(&frame), Outgoing::Handled);
    }
    // A probe for duplicate addresses, and a solicitation with a wrong checksum, go to the device.
    let mut damaged = solicit(A6, B6);
    *damaged.last_mut().unwrap() ^= 1;
    for frame in [solicit(Ipv6Addr::UNSPECIFIED, A6), damaged] {
        assert_eq!(link.send(&frame), Outgoing::Packet);
    }
    assert!(link.take_answer().is_none());
    assert_eq!(link.send(&framed(STATION, EtherType(0x88cc), &[0; 46])), Outgoing::Rejected);
    assert_eq!(link.send(&[0; 13]), Outgoing::Rejected);
}

#[test]
fn answers_are_bounded() {
    let (link, _device) = link();
    let sent: Vec<Outgoing> = (0..2 * ANSWERS_MAX).map(|_| link.send(&request(A, B))).collect();
    let (handled, rejected) = sent.split_at(ANSWERS_MAX);
    assert!(handled.iter().all(|it| *it == Outgoing::Handled) && rejected.iter().all(|it| *it == Outgoing::Rejected));
    assert_eq!(std::iter::from_fn(|| link.take_answer()).count(), ANSWERS_MAX);
    assert!(!is_ready(&link));
}

#[test]
fn received_packets_get_the_hosts_address_or_that_of_their_group() {
    let ((link, _device), pool) = (link(), pool());
    let add = |packet: &[u8]| {
        let mut frame = pool.get().unwrap();
        frame.extend(packet).unwrap();
        link.add_header(&mut frame).then(|| eth::Header::parse(frame.bytes()).unwrap())
    };
    let packet4 = |dst: Ipv4Addr| {
        let mut packet = [0; 28];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&dst.octets());
        packet
    };
    let mdns = Ipv4Addr::new(224, 0, 0, 251);
    for (dst, mac) in [(A, STATION), (mdns, Mac::multicast4(mdns)), (Ipv4Addr::BROADCAST, Mac::BROADCAST)] {
        assert_eq!(add(&packet4(dst)), Some(eth::Header { dst: mac, src: PEER, ethertype: EtherType::IPV4 }));
    }
    let nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    for (dst, mac) in [(A6, STATION), (nodes, Mac::multicast6(nodes))] {
        assert_eq!(add(&packet6(B6, dst, &[])), Some(eth::Header { dst: mac, src: PEER, ethertype: EtherType::IPV6 }));
    }
    for junk in [&[][..], &[0x45; 19], &[0x60; 39], &[0x55; 60]] {
        assert_eq!(add(junk), None);
    }
    // The host's address is that of its last frame.
    link.send(&framed(OTHER, EtherType::IPV4, &packet4(B)));
    assert_eq!(add(&packet4(A)).map(|header| header.dst), Some(OTHER));
}
