use super::*;
use crate::samples::packet6;
use proptest::prelude::*;

fn walk(next: Proto, payload: &[u8]) -> Result<Chain, Malformed> {
    let packet = packet6(next, payload);
    Chain::walk(&Header::parse(&packet).unwrap(), &packet)
}

/// Returns an extension header of 8 bytes, filled with PadN, with `next` as Next Header.
const fn filler(next: Proto) -> [u8; 8] {
    [next.0, 0, 1, 4, 0, 0, 0, 0]
}

#[test]
fn wrong_lengths_are_rejected() {
    let packet = packet6(Proto::UDP, &[0; 8]);
    for len in 0..packet.len() {
        let need = if len < 40 { 40 } else { 48 };
        assert_eq!(
            Header::parse(&packet[..len]),
            Err(Malformed::Truncated { layer: Layer::Ip6, need, have: len as u16 })
        );
    }
    let padded = [&packet[..], &[0; 9]].concat();
    assert_eq!(Header::parse(&padded).unwrap().payload(&padded).len(), 8);
    let mut other = packet.clone();
    other[0] = 0x45;
    assert_eq!(Header::parse(&other), Err(Malformed::BadVersion { layer: Layer::Ip6, found: 4 }));
}

#[test]
fn a_plain_packet_has_no_chain() {
    let chain = walk(Proto::UDP, &[0; 8]).unwrap();
    assert_eq!((chain.upper, chain.offset, chain.next_at), (Proto::UDP, 40, 6));
    assert_eq!(chain.extensions().count(), 0);
}

#[test]
fn a_chain_in_the_rfcs_order() {
    let payload = [
        &filler(Proto::DEST_OPTIONS)[..],
        &filler(Proto::ROUTING),
        &[Proto::FRAGMENT.0, 2, 4, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8],
        &Fragment { offset: 0, more: false, id: 0xdead }.emit(Proto::AUTH),
        &[Proto::TCP.0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        b"upper",
    ]
    .concat();
    let packet = packet6(Proto::HOP_BY_HOP, &payload);
    let header = Header::parse(&packet).unwrap();
    let chain = Chain::walk(&header, &packet).unwrap();
    let seen: Vec<_> = chain.extensions().map(|extension| (extension.proto, extension.len)).collect();
    let expected = [
        (Proto::HOP_BY_HOP, 8),
        (Proto::DEST_OPTIONS, 8),
        (Proto::ROUTING, 24),
        (Proto::FRAGMENT, 8),
        (Proto::AUTH, 24),
    ];
    assert_eq!(seen, expected);
    assert_eq!((chain.upper, chain.payload(&header, &packet)), (Proto::TCP, &b"upper"[..]));
    assert_eq!(chain.routing, Some(Routing { ty: 4, segments_left: 1 }));
    assert!(chain.fragment.unwrap().is_atomic() && chain.fragment.unwrap().id == 0xdead);
    assert_eq!(packet[chain.next_at], Proto::TCP.0);
    let first = chain.extensions().next().unwrap();
    assert_eq!(first.options(&packet).unwrap().collect::<Vec<_>>(), [Ok(Opt::PadN(4))]);
    assert!(chain.extensions().nth(2).unwrap().options(&packet).is_none());
}

/// The bytes after a later fragment's header are not a header (RFC 8200 4.5).
#[test]
fn later_fragments_are_not_parsed() {
    let fragment = Fragment { offset: 1448, more: true, id: 1 };
    let payload = [&fragment.emit(Proto::DEST_OPTIONS)[..], &[0xff; 16]].concat();
    let chain = walk(Proto::FRAGMENT, &payload).unwrap();
    assert_eq!((chain.upper, chain.offset, chain.fragment), (Proto::DEST_OPTIONS, 48, Some(fragment)));
}

#[test]
fn malicious_header_chains_are_rejected() {
    let nested = [Fragment { offset: 0, more: true, id: 1 }.emit(Proto::FRAGMENT), [0; 8]].concat();
    assert_eq!(walk(Proto::FRAGMENT, &nested), Err(Malformed::BadExtensionOrder(Proto::FRAGMENT.0)));
    let late = [filler(Proto::HOP_BY_HOP), filler(Proto::UDP)].concat();
    assert_eq!(walk(Proto::DEST_OPTIONS, &late), Err(Malformed::BadExtensionOrder(Proto::HOP_BY_HOP.0)));
    let long = [filler(Proto::DEST_OPTIONS); 9].concat();
    assert_eq!(walk(Proto::DEST_OPTIONS, &long), Err(Malformed::TooManyExtensions));
    let mut eight = [filler(Proto::DEST_OPTIONS); 8];
    eight[7] = filler(Proto::UDP);
    assert_eq!(walk(Proto::DEST_OPTIONS, &eight.concat()).unwrap().upper, Proto::UDP);
    let past = [Proto::UDP.0, 1, 1, 4, 0, 0, 0, 0];
    assert_eq!(walk(Proto::ROUTING, &past), Err(Malformed::Truncated { layer: Layer::Ip6, need: 16, have: 8 }));
    assert_eq!(
        walk(Proto::AUTH, &[Proto::UDP.0, 0, 0, 0, 0, 0, 0, 0]),
        Err(Malformed::BadHeaderLen { layer: Layer::Ip6, len: 8 })
    );
    assert_eq!(walk(Proto::ROUTING, &[]), Err(Malformed::Truncated { layer: Layer::Ip6, need: 8, have: 0 }));
}

#[test]
fn options_and_their_ends() {
    let all = |bytes| Options::new(bytes).collect::<Vec<_>>();
    let bytes = [0, 1, 0, 5, 2, 0, 0, 0xc3, 1, 9];
    let expected =
        [Ok(Opt::Pad1), Ok(Opt::PadN(0)), Ok(Opt::RouterAlert(0)), Ok(Opt::Other { kind: 0xc3, data: &[9] })];
    assert_eq!(all(&bytes), expected);
    assert_eq!(Opt::unknown_action(0xc3), 3);
    let bad = |kind, len| vec![Err(Malformed::BadOptionLen { layer: Layer::Ip6, kind, len })];
    assert_eq!(all(&[1]), bad(1, 0));
    assert_eq!(all(&[1, 5, 0, 0]), bad(1, 5));
}

proptest! {
    #[test]
    fn round_trip(traffic_class: u8, flow_label in 0..0x10_0000u32, payload_len in 0..500u16, next: u8, hop_limit: u8, src: [u8; 16], dst: [u8; 16]) {
        let header = Header { traffic_class, flow_label, payload_len, next: Proto(next), hop_limit, src: src.into(), dst: dst.into() };
        let mut packet = vec![0; 40 + usize::from(payload_len)];
        header.emit(packet.first_chunk_mut().unwrap());
        prop_assert_eq!(Header::parse(&packet), Ok(header));
    }

    #[test]
    fn etherparse_agrees(head: [u8; 40], len in 0..70usize, version in 5..8u8) {
        let mut packet = head.to_vec();
        packet.resize(70, 0);
        packet[0] = packet[0] & 0x0f | version << 4;
        packet[4] = 0;
        packet[5] %= 32;
        let packet = &packet[..len];
        let ours = Header::parse(packet);
        let theirs = etherparse::Ipv6HeaderSlice::from_slice(packet);
        if let (Ok(ours), Ok(h)) = (&ours, &theirs) {
            prop_assert_eq!((ours.traffic_class, ours.flow_label, ours.payload_len), (h.traffic_class(), h.flow_label().value(), h.payload_length()));
            prop_assert_eq!((ours.next.0, ours.hop_limit, ours.src, ours.dst), (h.next_header().0, h.hop_limit(), h.source_addr(), h.destination_addr()));
        } else {
            let short = matches!(ours, Err(Malformed::Truncated { need, .. }) if need > 40);
            prop_assert!(short || ours.is_err() == theirs.is_err(), "{:?} {:?}", ours, theirs);
        }
    }
}
