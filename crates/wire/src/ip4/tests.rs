use super::*;
use crate::samples::{A4, B4, packet4};
use proptest::prelude::*;

/// The common textbook example of a header checksum.
const TEXTBOOK: [u8; 20] = [
    0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00,
    0xc7,
];

fn arbitrary() -> impl Strategy<Value = Header> {
    let flags = (any::<bool>(), any::<bool>(), 0..0x2000u16);
    let bytes = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u16>());
    (20..1000u16, flags, bytes, any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(
        |(total_len, (df, mf, units), (tos, ttl, proto, id), src, dst)| Header {
            ihl_len: HEADER_LEN,
            tos,
            total_len,
            id,
            df,
            mf,
            frag_off: units * 8,
            ttl,
            proto: Proto(proto),
            checksum: 0,
            src: src.into(),
            dst: dst.into(),
        },
    )
}

#[test]
fn the_textbook_header() {
    let packet = [&TEXTBOOK[..], &[0; 0x73 - 20 + 7]].concat();
    let header = Header::parse(&packet).unwrap();
    assert_eq!((header.total_len, header.df, header.ttl, header.proto), (0x73, true, 64, Proto::UDP));
    assert_eq!((header.src, header.dst), (Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 168, 0, 199)));
    assert!(header_checksum_ok(&packet, 20) && !header_checksum_ok(&packet[..19], 20));
    assert_eq!(header.payload(&packet).len(), 0x73 - 20);
    let mut again = [0; 20];
    header.emit(&mut again);
    assert_eq!(again, TEXTBOOK);
}

#[test]
fn wrong_lengths_are_rejected() {
    let packet = packet4(Proto::UDP, B4, &[0; 8]);
    let with = |at: usize, value: u8| {
        let mut packet = packet.clone();
        packet[at] = value;
        Header::parse(&packet).unwrap_err()
    };
    let layer = Layer::Ip4;
    assert_eq!(with(0, 0x65), Malformed::BadVersion { layer, found: 6 });
    assert_eq!(with(0, 0x44), Malformed::BadHeaderLen { layer, len: 16 });
    assert_eq!(with(0, 0x4f), Malformed::Truncated { layer, need: 60, have: 28 });
    assert_eq!(with(3, 19), Malformed::BadTotalLen { layer, len: 19 });
    assert_eq!(with(3, 29), Malformed::Truncated { layer, need: 29, have: 28 });
    assert_eq!(with(0, 0x48), Malformed::Truncated { layer, need: 32, have: 28 });
    for len in 0..20 {
        assert_eq!(Header::parse(&packet[..len]), Err(Malformed::Truncated { layer, need: 20, have: len as u16 }));
    }
}

#[test]
fn packets_beyond_the_maximum_length_are_rejected() {
    assert!(Header::new(A4, B4, Proto::UDP, 65515).is_some());
    assert!(Header::new(A4, B4, Proto::UDP, 65516).is_none());
    assert!(Header::new(A4, B4, Proto::UDP, usize::MAX).is_none());
}

#[test]
fn ttl_stops_at_zero() {
    let mut packet = packet4(Proto::UDP, B4, &[]);
    for ttl in (0..64).rev() {
        assert_eq!(decrement_ttl(&mut packet), Some(ttl));
        assert!(header_checksum_ok(&packet, 20), "ttl {ttl}");
    }
    let before = packet.clone();
    assert_eq!(decrement_ttl(&mut packet), None);
    assert_eq!(decrement_ttl(&mut packet[..19]), None);
    assert_eq!(packet, before);
}

#[test]
fn ttl_is_decremented_only_above_one() {
    let mut header = [0x45, 0, 0, 20, 0, 0, 0, 0, 3, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum = crate::checksum::sum(&header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    for left in [2, 1] {
        assert!(take_hop(&mut header) && header_checksum_ok(&header, 20));
        assert_eq!(header[8], left);
    }
    let before = header;
    assert!(!take_hop(&mut header));
    header[8] = 0;
    assert!(!take_hop(&mut header));
    assert_eq!(header[9..], before[9..]);
}

fn items(bytes: &[u8]) -> Vec<Result<Opt<'_>, Malformed>> {
    Options::new(bytes).collect()
}

#[test]
fn options_of_every_kind() {
    #[rustfmt::skip]
    let bytes = [
        1,
        7, 7, 4, 1, 2, 3, 4,
        131, 3, 4,
        137, 7, 8, 5, 6, 7, 8,
        68, 8, 5, 0x31, 0, 0, 0, 9,
        148, 4, 0, 0,
        0x9e, 2,
        0, 7, 7,
    ];
    let seen: Vec<_> = Options::new(&bytes).map(Result::unwrap).collect();
    let [Opt::Nop, Opt::RecordRoute(rr), Opt::Lsrr(lsrr), Opt::Ssrr(ssrr), Opt::Timestamp(ts), rest @ ..] = &seen[..]
    else {
        panic!("{seen:?}");
    };
    assert_eq!((rr.pointer, rr.addresses().collect::<Vec<_>>()), (4, vec![Ipv4Addr::new(1, 2, 3, 4)]));
    assert_eq!((lsrr.pointer, lsrr.addresses().len()), (4, 0));
    assert_eq!((ssrr.pointer, ssrr.addresses().next()), (8, Some(Ipv4Addr::new(5, 6, 7, 8))));
    assert_eq!((ts.pointer, ts.overflow, ts.flag, ts.words), (5, 3, 1, &[[0, 0, 0, 9]][..]));
    assert_eq!(rest, [Opt::RouterAlert(0), Opt::Unknown { kind: 0x9e, data: &[] }, Opt::End]);
}

#[test]
fn options_with_bad_lengths_end_the_walk() {
    let bad_len = |kind, len| vec![Err(Malformed::BadOptionLen { layer: Layer::Ip4, kind, len })];
    assert_eq!(items(&[7, 0, 1, 1]), bad_len(7, 0));
    assert_eq!(items(&[7, 1, 1, 1]), bad_len(7, 1));
    assert_eq!(items(&[7, 2, 1, 1]), bad_len(7, 2));
    assert_eq!(items(&[7]), bad_len(7, 0));
    assert_eq!(items(&[131, 8, 4, 1, 2, 3, 4, 5]), bad_len(131, 8));
    assert_eq!(items(&[131, 11, 4, 1]), bad_len(131, 11));
    assert_eq!(items(&[68, 3, 5]), bad_len(68, 3));
    assert_eq!(items(&[148, 3, 0, 1]), bad_len(148, 3));
    let bad_pointer = |kind, pointer| vec![Err(Malformed::BadOptionPointer { kind, pointer })];
    assert_eq!(items(&[137, 7, 3, 1, 2, 3, 4]), bad_pointer(137, 3));
    assert_eq!(items(&[137, 7, 5, 1, 2, 3, 4]), bad_pointer(137, 5));
    assert_eq!(items(&[68, 8, 4, 0, 1, 2, 3, 4]), bad_pointer(68, 4));
}

/// The pointer identifies the octet with the error; 20 is the type of the first option (RFC 792).
#[test]
fn errors_point_at_the_wrong_octet() {
    let fault = |options: &[u8]| {
        let header = [&[0; HEADER_LEN], options].concat();
        check_options(&header).err().map(|fault| fault.octet)
    };
    let sound: [&[u8]; 6] = [
        &[],
        &[7, 7, 4, 0, 0, 0, 0, 1, 68, 8, 5, 0, 0, 0, 0, 0],
        &[7, 7, 8, 0, 0, 0, 0, 0],
        &[68, 8, 9, 0xe0, 0, 0, 0, 0],
        &[68, 12, 13, 0xf3, 0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 1, 0, 7, 0, 7, 0],
    ];
    sound.iter().for_each(|options| assert_eq!(fault(options), None, "{options:?}"));
    assert_eq!(fault(&[1, 1, 7, 0]), Some(23), "the length");
    assert_eq!(fault(&[1, 1, 1, 7]), Some(23), "the type: there is no length");
    assert_eq!(fault(&[1, 7, 7, 3, 0, 0, 0, 0]), Some(23), "the pointer");
    assert_eq!(fault(&[7, 7, 4, 0, 0, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0, 0]), Some(27), "a second one");
    assert_eq!(fault(&[131, 3, 4, 137, 3, 4, 0, 0]), Some(23), "a second source route");
    assert_eq!(fault(&[68, 8, 5, 1, 0, 0, 0, 0]), Some(22), "room for an address without its time");
    assert_eq!(fault(&[68, 8, 9, 0xf0, 0, 0, 0, 0]), Some(23), "one too many without room");
}

proptest! {
    #[test]
    fn round_trip(header in arbitrary()) {
        let mut packet = vec![0; usize::from(header.total_len)];
        header.emit(packet.first_chunk_mut().unwrap());
        prop_assert!(header_checksum_ok(&packet, 20));
        let parsed = Header::parse(&packet).unwrap();
        prop_assert_eq!(Header { checksum: 0, ..parsed }, header);
    }

    /// Our parser accepts and rejects the same packets as etherparse, with the same values.
    #[test]
    fn etherparse_agrees(header in arbitrary(), first: u8, edits in prop::collection::vec((0..28usize, any::<u8>()), 0..3), len in 0..80usize) {
        let mut packet = vec![0; usize::from(header.total_len)];
        header.emit(packet.first_chunk_mut().unwrap());
        packet.resize(80, 1);
        packet[0] = if first < 128 { 0x40 | first & 0x0f } else { packet[0] };
        packet[2] = 0;
        packet[3] %= 90;
        for (at, value) in edits {
            packet[at] = value;
        }
        let packet = &packet[..len];
        let ours = Header::parse(packet);
        let theirs = etherparse::Ipv4Slice::from_slice(packet);
        if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
            let h = theirs.header();
            prop_assert_eq!(ours.ihl_len, usize::from(h.ihl()) * 4);
            prop_assert_eq!((ours.total_len, ours.id, ours.ttl, ours.checksum), (h.total_len(), h.identification(), h.ttl(), h.header_checksum()));
            prop_assert_eq!((ours.df, ours.mf, ours.frag_off), (h.dont_fragment(), h.more_fragments(), h.fragments_offset().value() * 8));
            prop_assert_eq!((ours.proto.0, ours.src, ours.dst), (h.protocol().0, h.source_addr(), h.destination_addr()));
            prop_assert_eq!(header_checksum_ok(packet, ours.ihl_len), h.to_header().calc_header_checksum() == h.header_checksum());
            if ours.proto != Proto::AUTH {
                prop_assert_eq!(ours.payload(packet), theirs.payload().payload);
            }
        } else {
            let auth = packet.get(9) == Some(&Proto::AUTH.0);
            prop_assert!(ours.is_ok() == theirs.is_ok() || auth, "{:?} {:?}", ours, theirs);
        }
    }

    #[test]
    fn options_never_loop(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert!(Options::new(&bytes).count() <= 40);
        let header = [&[0; HEADER_LEN], &bytes[..]].concat();
        if let Err(fault) = check_options(&header) {
            prop_assert!((HEADER_LEN..header.len()).contains(&usize::from(fault.octet)));
        }
    }
}
