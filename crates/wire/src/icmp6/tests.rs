use super::*;
use crate::igmp::v3::{NewRecord, RecordKind};
use crate::samples::{A, A6, B6, packet6, udp_datagram};
use crate::{Mac, mld};
use proptest::prelude::*;

const ENDS: (Ipv6Addr, Ipv6Addr) = (A6, B6);

fn parse(message: &[u8]) -> Result<Message<'_>, Malformed> {
    Message::parse(message, A6, B6)
}

fn written(emit: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut message = vec![0; 1500];
    let len = emit(&mut message).unwrap();
    message.truncate(len);
    message
}

fn quoted() -> Vec<u8> {
    let pseudo = |proto, len| Partial::pseudo6(A6, B6, proto, len as u32);
    packet6(Proto::UDP, &udp_datagram(pseudo, &[7; 40]))
}

#[test]
fn echo_and_its_answer_in_place() {
    let mut message = written(|out| emit_echo(ty::ECHO_REQUEST, (7, 9), ENDS, b"data", out));
    assert_eq!(parse(&message), Ok(Message::EchoRequest { ident: 7, seq: 9, payload: b"data" }));
    assert_eq!(
        Message::parse(&message, A6, A6),
        Err(Malformed::BadChecksum { layer: Layer::Icmp6 }),
        "another pseudo header"
    );
    echo_reply_in_place(&mut message).unwrap();
    // The addresses are swapped, so the sum is the same.
    assert_eq!(Message::parse(&message, B6, A6), Ok(Message::EchoReply { ident: 7, seq: 9, payload: b"data" }));
    assert_eq!((echo_reply_in_place(&mut message), echo_reply_in_place(&mut [128; 7])), (None, None));
}

#[test]
fn every_error_round_trips() {
    let quoted = quoted();
    for problem in [
        Problem::Unreachable { code: unreachable::PORT },
        Problem::TooBig { mtu: 1280 },
        Problem::TimeExceeded { code: time_exceeded::REASSEMBLY },
        Problem::Parameter { code: parameter::NEXT_HEADER, pointer: 6 },
    ] {
        let message = written(|out| emit_error(problem, ENDS, &quoted, out));
        let Ok(Message::Error { problem: read, inner }) = parse(&message) else { panic!("{:?}", parse(&message)) };
        assert_eq!((read, inner.upper, inner.total_len(), inner.is_later), (problem, Proto::UDP, quoted.len(), false));
        assert_eq!(inner.payload, &quoted[40..]);
        assert!(is_error(message[0]) && emit_error(problem, ENDS, &quoted, &mut [0; 20]).is_none());
    }
}

#[test]
fn a_quoted_packet_may_be_cut_but_not_before_its_8_bytes() {
    let quoted = quoted();
    for len in 0..quoted.len() {
        assert_eq!(Inner::parse(&quoted[..len]).is_ok(), len >= 48, "{len}");
        let message = written(|out| emit_error(Problem::TimeExceeded { code: 0 }, ENDS, &quoted[..len], out));
        assert_eq!(parse(&message).is_ok(), len >= 48, "{len}");
    }
    // A payload length beyond the quoted bytes is accepted. If it is shorter, the payload is cut to
    // it.
    let mut liar = quoted.clone();
    liar[4..6].copy_from_slice(&8u16.to_be_bytes());
    assert_eq!(Inner::parse(&liar).unwrap().payload.len(), 8);
    liar[4..6].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(Inner::parse(&liar).unwrap().total_len(), 65_575);
    let fragment = crate::ip6::Fragment { offset: 1232, more: false, id: 1 }.emit(Proto::UDP);
    assert!(Inner::parse(&packet6(Proto::FRAGMENT, &[&fragment[..], &[0; 8]].concat())).unwrap().is_later);
}

#[test]
fn neighbor_messages_round_trip() {
    let target = crate::ip6::link_local(A);
    let ask = written(|out| nd::emit_solicit(target, Some(A), ENDS, out));
    let Ok(Message::Nd(nd::Message::Solicit { target: read, options })) = parse(&ask) else { panic!() };
    assert_eq!(
        (read, options.source_link(), options.target_link(), ask.len()),
        (target, Some(A), None, nd::NEIGHBOR_LEN)
    );
    let probe = written(|out| nd::emit_solicit(target, None, ENDS, out));
    let Ok(Message::Nd(nd::Message::Solicit { options, .. })) = parse(&probe) else { panic!() };
    assert_eq!((options.into_iter().count(), probe.len()), (0, 24));
    for bits in 0..8u8 {
        let [router, solicited, replaces] = [4, 2, 1].map(|bit| bits & bit != 0);
        let advert = nd::Advert { router, solicited, replaces, target };
        let answer = written(|out| nd::emit_advert(advert, Some(A), ENDS, out));
        let Ok(Message::Nd(nd::Message::Advert { advert: read, options })) = parse(&answer) else { panic!() };
        assert_eq!((read, options.target_link()), (advert, Some(A)));
    }
}

fn sealed(mut message: Vec<u8>) -> Vec<u8> {
    fill_checksum(A6, B6, &mut message).unwrap();
    message
}

/// An option with length 0, or one that ends elsewhere, is rejected (CVE-2020-16898,
/// CVE-2010-0239).
#[test]
fn an_option_without_length_ends_the_message() {
    let advert = |options: &[u8]| sealed([&[134, 0, 0, 0, 64, 0, 7, 8][..], &[0; 8], options].concat());
    for (options, kind, len) in
        [(&[1, 0, 0, 0, 0, 0, 0, 0][..], 1, 0), (&[25, 2, 0, 0, 0, 0, 0, 0], 25, 2), (&[3], 3, 0)]
    {
        let bad = Malformed::BadOptionLen { layer: Layer::Icmp6, kind, len };
        assert_eq!(parse(&advert(options)), Err(bad));
    }
    let prefix = [&[3, 4, 64, 0xc0, 0, 0, 1, 0, 0, 0, 0, 9, 0, 0, 0, 0][..], &A6.octets()].concat();
    let good = advert(&[&prefix[..], &[5, 1, 0, 0, 0, 0, 5, 0], &[9, 1, 1, 2, 3, 4, 5, 6]].concat());
    let Ok(Message::Nd(nd::Message::RouterAdvert { hop_limit: 64, lifetime: 0x708, options, .. })) = parse(&good)
    else {
        panic!("{:?}", parse(&good))
    };
    let options: Vec<_> = options.into_iter().collect();
    let (valid, preferred) = (256, 9);
    let info = nd::PrefixInfo { len: 64, on_link: true, autonomous: true, valid, preferred, prefix: A6 };
    let other = nd::Opt::Other { kind: 9, data: &[1, 2, 3, 4, 5, 6] };
    assert_eq!(options, [nd::Opt::Prefix(info), nd::Opt::Mtu(1280), other]);
    // The same message, written by this crate, parses to the same value.
    let link = crate::Mac([2, 0, 0, 0, 0, 1]);
    let ours = nd::RouterAdvert { hop_limit: 64, lifetime: 0x708, link: Some(link), mtu: 1280, prefixes: &[info] };
    let mut out = [0; 64];
    assert_eq!(ours.emit((A6, B6), &mut out), Some(64));
    let Ok(Message::Nd(nd::Message::RouterAdvert { lifetime: 0x708, preference, options, .. })) =
        Message::parse(&out, A6, B6)
    else {
        panic!("{out:x?}")
    };
    assert_eq!(preference, nd::Preference::Medium);
    let options: Vec<_> = options.into_iter().collect();
    assert_eq!(options, [nd::Opt::SourceLink(link), nd::Opt::Mtu(1280), nd::Opt::Prefix(info)]);
    assert_eq!(ours.emit((A6, B6), &mut out[..63]), None);
}

#[test]
fn a_group_is_no_neighbor_and_codes_are_0() {
    let of = |ty: u8, code: u8, target: Ipv6Addr| {
        sealed([&[ty, code, 0, 0, 0, 0, 0, 0][..], &target.octets(), &[0; 16]].concat())
    };
    for ty in [135, 136, 137] {
        assert!(parse(&of(ty, 0, crate::ip6::ALL_NODES)).is_err(), "{ty}");
        assert!(parse(&of(ty, 1, A6)).is_err(), "{ty}");
    }
    assert!(matches!(parse(&of(137, 0, A6)), Ok(Message::Nd(nd::Message::Redirect { target: A6, .. }))));
    assert!(matches!(parse(&of(140, 3, A6)), Ok(Message::Other { ty: 140, code: 3 })));
    for len in 0..24 {
        assert!(parse(&sealed_to(135, len)).is_err(), "{len}");
    }
}

fn sealed_to(ty: u8, len: usize) -> Vec<u8> {
    let mut message = vec![0; len];
    message.iter_mut().take(1).for_each(|first| *first = ty);
    fill_checksum(A6, B6, &mut message);
    message
}

#[test]
fn reports_round_trip() {
    let groups = [crate::ip6::solicited_node(A6), crate::ip6::ALL_ROUTERS];
    let record =
        |group: &Ipv6Addr| NewRecord { kind: RecordKind::ToExclude, group: (*group).into(), sources: vec![A6.into()] };
    let report = mld::report(A6, &groups.each_ref().map(record));
    let read = mld::Message::parse(&report, A6, crate::ip6::ALL_MLD2_ROUTERS);
    let Ok(Some(mld::Message::ReportV2(records))) = read else { panic!("{read:?}") };
    let read: Vec<_> = records.map(|record| (Ipv6Addr::from(record.group), record.listens())).collect();
    assert_eq!(read, groups.map(|group| (group, Some(true))));
}

#[test]
fn address_types_are_recognized() {
    use crate::ip6::*;
    let mac = Mac([0x02, 0, 0, 0xab, 0xcd, 0xef]);
    assert_eq!(link_local(mac).to_string(), "fe80::ff:feab:cdef");
    assert_eq!(solicited_node(link_local(mac)).to_string(), "ff02::1:ffab:cdef");
    assert_eq!(Mac::multicast6(solicited_node(link_local(mac))).to_string(), "33:33:ff:ab:cd:ef");
    let of = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    assert_eq!(["ff01::1", "ff02::1", "ff0e::1", "fe80::1", "::1", "fd00::1"].map(of).map(scope), [1, 2, 14, 2, 2, 14]);
    assert!(is_v4_mapped(of("::ffff:10.0.0.1")) && !is_v4_mapped(of("::10.0.0.1")) && is_link_local(of("febf::1")));
}

proptest! {
    /// For any input, the options that parse can be iterated, and each has at least 8 bytes.
    #[test]
    fn options_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(options) = nd::Options::parse(&bytes) {
            prop_assert!(options.into_iter().count() <= bytes.len() / 8);
        }
    }
}

#[test]
fn link_maintenance_is_distinguished_from_traffic() {
    let solicit = packet6(Proto::IPV6_ICMP, &written(|out| nd::emit_solicit(B6, None, ENDS, out)));
    // MLD's router alert is a hop-by-hop option (RFC 3810 5).
    let record = NewRecord { kind: RecordKind::ToExclude, group: B6.into(), sources: Vec::new() };
    let alert = [&[Proto::IPV6_ICMP.0, 0, 5, 2, 0, 0, 1, 0][..], &mld::report(A6, &[record])].concat();
    let report = packet6(Proto::HOP_BY_HOP, &alert);
    let echo = packet6(Proto::IPV6_ICMP, &written(|out| emit_echo(ty::ECHO_REQUEST, (7, 9), ENDS, b"data", out)));
    let verdicts = [&solicit, &report, &echo, &quoted()].map(|packet| is_link_upkeep(packet));
    assert_eq!(verdicts, [true, true, false, false]);
    assert!(!is_link_upkeep(&[]) && !is_link_upkeep(&solicit[..solicit.len() - 1]));
}
