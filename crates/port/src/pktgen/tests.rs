use super::*;
use buf::PoolConfig;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use wire::checksum::Partial;
use wire::{ip4, ip6, udp};

fn frames(source: &Source, n: usize) -> Vec<Vec<u8>> {
    let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
    let mut port = open("pg0", Some(source), &pool);
    let mut out = Vec::new();
    while out.len() < n {
        let mut burst = Burst::new();
        if port.rx.rx_burst(&mut burst, (n - out.len()).min(32), Instant::ZERO) == 0 {
            break;
        }
        out.extend(burst.as_slice().iter().map(|f| f.bytes().to_vec()));
    }
    assert_eq!(port.counts.rx.frames.get(), out.len() as u64);
    out
}

fn assert_checksums(frame: &[u8]) {
    if ip6::is_version(&frame[14..]) {
        let header = ip6::Header::parse(&frame[14..]).unwrap();
        let pseudo = Partial::pseudo6(header.src, header.dst, header.next, header.payload_len.into());
        return assert!(udp::checksum_ok(pseudo, &frame[54..]), "{}", wire::dissect::line(frame));
    }
    let header = ip4::Header::parse(&frame[14..]).unwrap();
    assert!(ip4::header_checksum_ok(&frame[14..], 20), "{}", wire::dissect::line(frame));
    let datagram = udp::Header::parse(&frame[34..]).unwrap();
    if datagram.checksum != 0 {
        let pseudo = wire::checksum::Partial::pseudo4(header.src, header.dst, ip4::Proto::UDP, datagram.len);
        assert_eq!(pseudo.add(wire::checksum::sum(&frame[34..])).finish(), 0, "{}", wire::dissect::line(frame));
    }
}

#[test]
fn the_default_payload_makes_the_reports_frame() {
    let made = frames(&Source::default(), 3);
    assert_eq!(made[0].len(), 64, "22 + 8 + 20 + 14, FCS not counted");
    let header = ip4::Header::parse(&made[2][14..]).unwrap();
    assert_eq!((header.src.to_string(), header.dst.to_string(), header.ttl), ("1.0.0.2".into(), "1.0.0.1".into(), 5));
    assert_eq!(header.id, 2, "identifications are incremented");
    made.iter().for_each(|f| assert_checksums(f));
}

#[test]
fn checksums_stay_correct_for_all_varying_fields() {
    for (flows, random_dst, id, udp_csum, size) in [
        (1, false, false, true, 22),
        (70_000, false, true, true, 22),
        (3, true, false, true, 1472),
        (1, true, true, false, 0),
    ] {
        let source = Source { flows, random_dst, id, udp_csum, size, order: Order::Random, ..Source::default() };
        frames(&source, 500).iter().for_each(|f| assert_checksums(f));
    }
}

#[test]
fn flows_rotate_through_all_addresses_and_ports() {
    let source = Source { flows: 120_000, ..Source::default() };
    let seen: HashSet<Vec<u8>> = frames(&source, 120_000).iter().map(|f| [&f[26..30], &f[34..36]].concat()).collect();
    assert_eq!(seen.len(), 120_000);
    assert!(seen.contains(&[&[1, 0, 0, 4][..], &(10_000u16 + 19_999).to_be_bytes()].concat()));
}

#[test]
fn random_destinations_are_never_martians() {
    for frame in frames(&Source { random_dst: true, ..Source::default() }, 20_000) {
        let first = frame[30];
        assert!((1..224).contains(&first) && first != 127, "{first}");
    }
}

#[test]
fn rate_and_count_are_kept() {
    let pool = Pool::new(&PoolConfig { buffers: 256, ..PoolConfig::default() }).unwrap();
    let mut port = open("pg0", Some(&Source { rate: 1000, count: 15, ..Source::default() }), &pool);
    let mut burst = Burst::new();
    assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::from_millis(100)), 1, "the first frame is due at once");
    assert_eq!(port.rx.next_event(), Some(Instant::from_millis(101)));
    assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::from_millis(100)), 0);
    assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::from_millis(110)), 10);
    assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::from_millis(200)), 4);
    assert!(port.rx.is_gone() && port.rx.next_event().is_none());
}

#[test]
fn an_exhausted_pool_is_counted() {
    let pool = Pool::new(&PoolConfig { buffers: 4, ..PoolConfig::default() }).unwrap();
    let mut port = open("pg0", Some(&Source::default()), &pool);
    let mut burst = Burst::new();
    assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 4);
    assert_eq!(port.counts.rx.no_buffer.get(), 1);
}

#[test]
fn a_datagram_above_the_mtu_is_fragmented() {
    let source = Source { size: 20_001, count: 2, udp_csum: true, mtu: Some(1500), ..Source::default() };
    let made = frames(&source, 100);
    assert_eq!(made.len(), 2 * 14, "20,009 bytes of 1480 each, twice");
    for (datagram, frames) in made.chunks(14).enumerate() {
        let mut payload = Vec::new();
        for (n, frame) in frames.iter().enumerate() {
            let header = ip4::Header::parse(&frame[14..]).unwrap();
            assert!(ip4::header_checksum_ok(&frame[14..], 20) && frame.len() <= 1514);
            assert_eq!((header.id, header.mf), (datagram as u16, n < 13));
            assert_eq!(usize::from(header.frag_off), payload.len());
            payload.extend_from_slice(header.payload(&frame[14..]));
        }
        let header = udp::Header::parse(&payload).unwrap();
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (source.src, source.dst) else { panic!("IPv4") };
        let pseudo = Partial::pseudo4(src, dst, ip4::Proto::UDP, header.len);
        assert!(header.len == 20_009 && udp::checksum_ok(pseudo, &payload));
    }
}

#[test]
fn datagrams_within_the_mtu_are_not_fragmented() {
    let source = Source { size: 1472, mtu: Some(1500), ..Source::default() };
    assert_eq!(frames(&source, 2)[1].len(), 1514);
    let source = Source { size: 1473, mtu: Some(1500), ..Source::default() };
    assert_eq!(frames(&source, 2).iter().map(Vec::len).collect::<Vec<_>>(), [1514, 14 + 20 + 1]);
}

fn six() -> Source {
    Source { src: net(Family::V6, 0, 2), dst: net(Family::V6, 0, 1), ..Source::default() }
}

#[test]
fn ipv6_checksums_stay_correct_for_all_varying_fields() {
    let plain = frames(&six(), 2);
    let header = ip6::Header::parse(&plain[1][14..]).unwrap();
    assert_eq!((plain[1].len(), header.hop_limit, header.next), (14 + 40 + 8 + 22, 5, ip6::Proto::UDP));
    assert_eq!((header.src.to_string(), header.dst.to_string()), ("2001:2::2".into(), "2001:2::1".into()));
    let destinations: Arc<[Ipv6Addr]> = (1..=7u128).map(|n| Ipv6Addr::from_bits(n << 64 | 9)).collect();
    for (flows, rotate, list, size) in
        [(1, false, false, 0), (70_000, true, false, 22), (3, false, true, 1400), (1, false, true, 23)]
    {
        let destinations = if list { destinations.clone() } else { Arc::default() };
        let source = Source { flows, rotate, destinations, size, order: Order::Random, ..six() };
        let made = frames(&source, 500);
        made.iter().for_each(|frame| assert_checksums(frame));
        let seen: HashSet<&[u8]> = made.iter().map(|frame| &frame[38..54]).collect();
        assert_eq!(seen.len(), if list { 7 } else { 1 });
    }
    let seen: HashSet<Vec<u8>> = frames(&Source { flows: 60_000, ..six() }, 60_000)
        .iter()
        .map(|frame| [&frame[22..38], &frame[54..56]].concat())
        .collect();
    assert_eq!(seen.len(), 60_000);
}

#[test]
fn an_ipv6_datagram_above_the_mtu_is_fragmented() {
    let source = Source { size: 20_001, count: 2, mtu: Some(1500), ..six() };
    let made = frames(&source, 100);
    assert_eq!(made.len(), 2 * 14, "20,009 bytes of 1448 each, twice");
    for (datagram, frames) in made.chunks(14).enumerate() {
        let mut payload = Vec::new();
        for (n, frame) in frames.iter().enumerate() {
            let header = ip6::Header::parse(&frame[14..]).unwrap();
            assert!(header.next == ip6::Proto::FRAGMENT && frame.len() <= 1514);
            let fragment = ip6::Fragment { offset: payload.len() as u16, more: n < 13, id: datagram as u32 };
            assert_eq!(frame[54..62], fragment.emit(ip6::Proto::UDP));
            payload.extend_from_slice(&frame[62..]);
        }
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (source.src, source.dst) else { panic!("IPv6") };
        let pseudo = Partial::pseudo6(src, dst, ip6::Proto::UDP, payload.len() as u32);
        assert!(payload.len() == 20_009 && udp::checksum_ok(pseudo, &payload));
    }
}
