use super::*;
use crate::samples::{self, pseudo4, udp_datagram};
use crate::{Proto, ip4};
use proptest::prelude::*;

/// 22 + 8 + 20 + 14 bytes; the header checksum was computed by hand.
#[test]
fn the_reports_frame() {
    let frame = samples::rump_frame();
    assert_eq!(frame.len(), 64);
    #[rustfmt::skip]
    let golden = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
        0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 17, 0x38, 0xb9, 1, 0, 0, 1, 1, 0, 0, 2,
        0x30, 0x39, 0xd8, 0x93, 0, 30,
    ];
    assert_eq!(&frame[..40], &golden);
    let packet = &frame[14..];
    let ip = ip4::Header::parse(packet).unwrap();
    assert!(ip4::header_checksum_ok(packet, ip.ihl_len));
    let header = Header::parse(ip.payload(packet)).unwrap();
    assert_eq!((header.src, header.dst, header.len), (L4Port(12345), L4Port(55443), 30));
    assert_eq!(header.payload(ip.payload(packet)), [0x5a; 22]);
    assert!(checksum_ok(pseudo4(Proto::UDP, 30), ip.payload(packet)));
}

#[test]
fn wrong_lengths_are_rejected() {
    let datagram = udp_datagram(pseudo4, b"hello");
    let with_len = |len: u16| {
        let mut bytes = datagram.clone();
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        Header::parse(&bytes)
    };
    for len in 0..8 {
        assert_eq!(with_len(len), Err(Malformed::BadTotalLen { layer: Layer::Udp, len }));
    }
    assert!((8..=13).all(|len| with_len(len).is_ok()));
    assert_eq!(with_len(14), Err(Malformed::Truncated { layer: Layer::Udp, need: 14, have: 13 }));
    assert_eq!(Header::parse(&datagram[..7]), Err(Malformed::Truncated { layer: Layer::Udp, need: 8, have: 7 }));
}

/// A sum of all ones is sent as 0xffff, because 0 means "none" (RFC 768).
#[test]
fn zero_is_sent_as_all_ones() {
    let header = Header { src: L4Port(0), dst: L4Port(0), len: 10, checksum: 0 };
    let rest = Partial::ZERO.add_u16(10);
    let payload = (!rest.finish()).wrapping_neg().wrapping_sub(1).to_be_bytes();
    let sealed = header.with_checksum(Partial::ZERO, &payload);
    assert_eq!(sealed.checksum, 0xffff);
    let mut bytes = [0; HEADER_LEN];
    sealed.emit(&mut bytes);
    assert!(checksum_ok(Partial::ZERO, &[&bytes[..], &payload].concat()));
}

proptest! {
    #[test]
    fn round_trip(src: u16, dst: u16, payload in prop::collection::vec(any::<u8>(), 0..100), checksum: u16) {
        let header = Header { src: L4Port(src), dst: L4Port(dst), len: 8 + payload.len() as u16, checksum };
        let mut bytes = vec![0; HEADER_LEN];
        header.emit(bytes.first_chunk_mut().unwrap());
        bytes.extend(&payload);
        prop_assert_eq!(Header::parse(&bytes), Ok(header));
        prop_assert_eq!(header.payload(&bytes), &payload[..]);
    }

    #[test]
    fn etherparse_agrees(bytes in prop::collection::vec(any::<u8>(), 0..40), small: bool) {
        let mut bytes = bytes;
        if small && bytes.len() > 5 {
            bytes[4] = 0;
            bytes[5] %= 48;
        }
        let oracle = etherparse::UdpSlice::from_slice(&bytes);
        match (Header::parse(&bytes), &oracle) {
            // etherparse treats a length of 0 as "as long as the slice" (jumbograms); we do not.
            (Err(Malformed::BadTotalLen { len: 0, .. }), Ok(_)) => {}
            (Ok(ours), Ok(theirs)) => {
                prop_assert_eq!((ours.src.0, ours.dst.0, ours.len, ours.checksum), (theirs.source_port(), theirs.destination_port(), theirs.length(), theirs.checksum()));
                prop_assert_eq!(ours.payload(&bytes), theirs.payload());
            }
            (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs),
        }
    }

    #[test]
    fn etherparse_computes_the_same(payload in prop::collection::vec(any::<u8>(), 0..300)) {
        let datagram = udp_datagram(pseudo4, &payload);
        let oracle = etherparse::UdpHeader::with_ipv4_checksum(12345, 55443, &etherparse::Ipv4Header::new(8 + payload.len() as u16, 64, etherparse::IpNumber::UDP, [1, 0, 0, 1], [1, 0, 0, 2]).unwrap(), &payload).unwrap();
        prop_assert_eq!(Header::parse(&datagram).unwrap().checksum, oracle.checksum);
    }
}
