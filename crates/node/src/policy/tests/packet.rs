//! Parsing of frames: ports, fragments, tags, extension headers, and damaged headers.

use super::super::packet::{Event, Parsed, Part, parse};
use super::*;

#[test]
fn packets_are_parsed_with_their_ports_and_fragments() {
    let Parsed::Packet(packet) = parse(&up(FAR, 53, b"query")) else { panic!() };
    assert_eq!((packet.source, packet.destination), ((STATION, 1000).into(), (FAR, 53).into()));
    assert_eq!(
        (packet.proto, packet.part, packet.payload(&up(FAR, 53, b"query"))),
        (Proto::UDP, Part::Whole, &b"query"[..])
    );

    let tagged = ethernet([0x81, 0], &[&[0, 5, 8, 0][..], &up(FAR, 53, b"x")[14..]].concat());
    let Parsed::Packet(packet) = parse(&tagged) else { panic!() };
    assert_eq!((packet.destination, packet.payload(&tagged)), ((FAR, 53).into(), &b"x"[..]));

    let tcp = |flags| ethernet([8, 0], &ip(STATION, FAR, Proto::TCP, (0, false), &segment(1, 2, flags)));
    for (flags, event) in [
        (tcp::Flags::SYN, Event::Opens),
        (tcp::Flags::ACK, Event::Nothing),
        (tcp::Flags::FIN, Event::HalfCloses),
        (tcp::Flags::RST, Event::Resets),
    ] {
        let Parsed::Packet(packet) = parse(&tcp(flags)) else { panic!() };
        assert_eq!(packet.event, event);
    }
    for (fragment, part) in [((0, true), Part::First(7)), ((8, true), Part::Later(7)), ((8, false), Part::Later(7))] {
        let frame = ethernet([8, 0], &ip(STATION, FAR, Proto::UDP, fragment, &datagram(1000, 53, &[0; 8])));
        let Parsed::Packet(packet) = parse(&frame) else { panic!() };
        assert_eq!((packet.part, packet.destination.port()), (part, if fragment.0 == 0 { 53 } else { 0 }));
    }
}

#[test]
fn frames_without_ip_and_damaged_ones_are_distinguished() {
    let request = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[0; 20]].concat();
    assert_eq!(parse(&ethernet([8, 6], &request)), Parsed::NotIp);
    assert_eq!(parse(&ethernet([0x88, 0xcc], &[0; 46])), Parsed::NotIp);
    assert_eq!(parse(&[0; 10]), Parsed::NotIp);
    assert_eq!(parse(&ethernet([8, 0], &up(FAR, 53, b"")[14..30])), Parsed::Malformed);
    assert_eq!(parse(&ethernet([0x81, 0], &[0, 5, 0x81, 0, 0, 5, 0x81, 0])), Parsed::Malformed);
    // A first fragment without the ports, which could hide them from the policy.
    let tiny = ip(STATION, FAR, Proto::TCP, (0, true), &[0; 2]);
    assert_eq!(parse(&ethernet([8, 0], &tiny)), Parsed::Malformed);
}

#[test]
fn ipv6_packets_have_ports_behind_extension_headers() {
    let (src, dst): (Ipv6Addr, Ipv6Addr) = ("2001:db8::2".parse().unwrap(), "2001:db8:1::1".parse().unwrap());
    let packet = |next, payload: &[u8]| {
        let header = ip6::Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: payload.len() as u16,
            next,
            hop_limit: 64,
            src,
            dst,
        };
        let mut bytes = [0; ip6::HEADER_LEN];
        header.emit(&mut bytes);
        ethernet([0x86, 0xdd], &[&bytes, payload].concat())
    };
    let options = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &datagram(1000, 53, b"x")].concat();
    let Parsed::Packet(seen) = parse(&packet(Proto::DEST_OPTIONS, &options)) else { panic!() };
    assert_eq!((seen.proto, seen.source, seen.destination), (Proto::UDP, (src, 1000).into(), (dst, 53).into()));
    let later = [&[17, 0, 0, 8, 0, 0, 0, 9][..], &[1; 16]].concat();
    let Parsed::Packet(seen) = parse(&packet(Proto::FRAGMENT, &later)) else { panic!() };
    assert_eq!((seen.part, seen.destination), (Part::Later(9), (dst, 0).into()));
    // Chain of headers that ends in the middle of a header.
    assert_eq!(parse(&packet(Proto::DEST_OPTIONS, &[17, 9, 0, 0])), Parsed::Malformed);
}
