use super::*;
use crate::samples::{pseudo4, tcp_segment};
use crate::{L4Port, Layer, Proto};
use proptest::prelude::*;

fn items(bytes: &[u8]) -> Vec<Result<Opt<'_>, Malformed>> {
    Options::new(bytes).collect()
}

fn bad(kind: u8, len: u8) -> Result<Opt<'static>, Malformed> {
    Err(Malformed::BadOptionLen { layer: Layer::Tcp, kind, len })
}

#[test]
fn wrong_data_offsets_are_rejected() {
    let segment = tcp_segment(Flags::SYN, &OptionWriter::new().mss(1460), b"text");
    let with = |words: u8| {
        let mut segment = segment.clone();
        segment[12] = words << 4;
        Header::parse(&segment)
    };
    for words in 0..5 {
        assert_eq!(with(words), Err(Malformed::BadHeaderLen { layer: Layer::Tcp, len: u16::from(words) * 4 }));
    }
    assert!((5..=7).all(|words| with(words).is_ok()));
    for words in 8..16 {
        let need = u16::from(words) * 4;
        assert_eq!(with(words), Err(Malformed::Truncated { layer: Layer::Tcp, need, have: 28 }));
    }
    assert_eq!(Header::parse(&segment[..19]), Err(Malformed::Truncated { layer: Layer::Tcp, need: 20, have: 19 }));
    assert_eq!(Header::parse(&segment).unwrap().payload(&segment), b"text");
}

proptest! {
    #[test]
    fn the_four_word_form_agrees_with_the_parser(src: u16, dst: u16, seq: u32, ack: u32, flags: u8, window: u16, val: u32, ecr: u32) {
        let (src, dst, flags) = (L4Port(src), L4Port(dst), Flags(flags));
        let short = Timestamped { src, dst, seq, ack, flags, window, val, ecr };
        let mut segment = [0; Timestamped::LEN];
        let pseudo = pseudo4(Proto::TCP, 32);
        short.emit(&mut segment, |sum| pseudo.add(sum).finish());
        prop_assert!(checksum_ok(pseudo, &segment));
        prop_assert_eq!(Timestamped::parse(&segment), Some(short));
        let header = Header::parse(&segment).unwrap();
        let long = Header { src, dst, seq, ack, header_len: 32, flags, window, checksum: header.checksum, urgent: 0 };
        prop_assert_eq!(header, long);
        let options: Vec<_> = header.options(&segment).flatten().collect();
        prop_assert_eq!(options, [Opt::Nop, Opt::Nop, Opt::Timestamps { val, ecr }]);
    }
}

#[test]
fn flags_have_letters() {
    assert_eq!((Flags::SYN | Flags::ACK).to_string(), "S.");
    assert_eq!(Flags(0xff).to_string(), "FSRP.UEW");
    assert_eq!(Flags(0).to_string(), "none");
    assert!((Flags::SYN | Flags::ACK).contains(Flags::SYN) && !Flags::SYN.contains(Flags::SYN | Flags::ACK));
    assert!(Flags::SYN.intersects(Flags::SYN | Flags::ACK));
}

#[test]
fn options_of_every_kind() {
    let writer = OptionWriter::new().mss(1460).sack_permitted().timestamps(7, 8).nop().window_scale(14);
    let expected = [
        Ok(Opt::Mss(1460)),
        Ok(Opt::SackPermitted),
        Ok(Opt::Timestamps { val: 7, ecr: 8 }),
        Ok(Opt::Nop),
        Ok(Opt::WindowScale(14)),
    ];
    assert_eq!((writer.finish().len(), items(writer.finish())), (20, expected.to_vec()));
    let writer = OptionWriter::new().sack(&[(1, 2), (u32::MAX, 3)]);
    let [Ok(Opt::Sack(blocks)), Ok(Opt::End)] = items(writer.finish())[..] else { panic!() };
    assert_eq!(blocks.iter().collect::<Vec<_>>(), [(1, 2), (u32::MAX, 3)]);
    assert_eq!(items(&[254, 4, 1, 2, 0, 9]), [Ok(Opt::Unknown { kind: 254, data: &[1, 2] }), Ok(Opt::End)]);
}

/// Options with a wrong length are skipped if possible, otherwise the iteration ends (RFC 9293
/// MUST-7).
#[test]
fn bad_lengths_are_survived() {
    assert_eq!(items(&[2, 3, 9, 3, 3, 7]), [bad(2, 3), Ok(Opt::WindowScale(7))]);
    assert_eq!(items(&[5, 2, 1]), [bad(5, 2), Ok(Opt::Nop)]);
    assert_eq!(items(&[5, 9, 0, 0, 0, 0, 0, 0, 0, 1]), [bad(5, 9), Ok(Opt::Nop)]);
    assert_eq!(items(&[8, 0, 1, 1]), [bad(8, 0)]);
    assert_eq!(items(&[8, 1, 1, 1]), [bad(8, 1)]);
    assert_eq!(items(&[8, 10, 1, 1]), [bad(8, 10)]);
    assert_eq!(items(&[99, 255, 1, 1]), [bad(99, 255)]);
    assert_eq!(items(&[1, 2]), [Ok(Opt::Nop), bad(2, 0)]);
}

#[test]
fn a_full_writer_takes_no_more() {
    let blocks = [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10)];
    assert_eq!(OptionWriter::new().sack(&blocks).finish().len(), 36);
    let writer = OptionWriter::new().nop().nop().timestamps(1, 2).nop().nop().sack(&blocks);
    assert_eq!((writer.finish().len(), writer.room()), (40, 0));
    assert_eq!(writer.clone().mss(9).nop().sack(&blocks).finish(), writer.finish());
    assert!(OptionWriter::new().sack(&[]).finish().is_empty());
}

#[test]
fn checksums() {
    let segment = tcp_segment(Flags::ACK, &OptionWriter::new(), b"odd");
    let pseudo = pseudo4(Proto::TCP, 23);
    assert!(checksum_ok(pseudo, &segment));
    for at in 0..segment.len() {
        let mut segment = segment.clone();
        segment[at] ^= 0x40;
        assert!(!checksum_ok(pseudo, &segment), "{at}");
    }
}

proptest! {
    #[test]
    fn round_trip(ports: (u16, u16), numbers: (u32, u32), words in 5..16usize, flags: u8, tail: (u16, u16, u16)) {
        let header = Header {
            src: L4Port(ports.0), dst: L4Port(ports.1), seq: numbers.0, ack: numbers.1, header_len: words * 4,
            flags: Flags(flags), window: tail.0, checksum: tail.1, urgent: tail.2,
        };
        let mut segment = vec![0; words * 4];
        header.emit(segment.first_chunk_mut().unwrap());
        prop_assert_eq!(Header::parse(&segment), Ok(header));
    }

    #[test]
    fn etherparse_agrees(bytes: [u8; 32], len in 0..70usize) {
        let mut segment = bytes.to_vec();
        segment.resize(70, 0);
        let segment = &segment[..len];
        match (Header::parse(segment), etherparse::TcpSlice::from_slice(segment)) {
            (Ok(ours), Ok(h)) => {
                prop_assert_eq!((ours.src.0, ours.dst.0, ours.seq, ours.ack), (h.source_port(), h.destination_port(), h.sequence_number(), h.acknowledgment_number()));
                prop_assert_eq!((ours.window, ours.checksum, ours.urgent), (h.window_size(), h.checksum(), h.urgent_pointer()));
                let theirs = [h.fin(), h.syn(), h.rst(), h.psh(), h.ack(), h.urg(), h.ece(), h.cwr()];
                prop_assert_eq!(ours.flags.0, theirs.iter().rev().fold(0, |flags, &flag| flags << 1 | u8::from(flag)));
                prop_assert_eq!(ours.payload(segment), h.payload());
            }
            (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs),
        }
    }

    /// Our parser returns the same options as etherparse, up to the first one that etherparse
    /// rejects.
    #[test]
    fn etherparse_agrees_on_options(kinds in prop::collection::vec((0..10u8, 0..12u8, any::<[u8; 8]>()), 0..5)) {
        use etherparse::TcpOptionElement as Theirs;
        let mut bytes: Vec<u8> = kinds.iter().flat_map(|(kind, len, data)| {
            let len = usize::from(*len).saturating_sub(2).min(8);
            [&[*kind, len as u8 + 2][..], &data[..len]].concat()
        }).collect();
        bytes.truncate(40);
        let theirs = etherparse::TcpOptionsIterator::from_slice(&bytes);
        for (ours, theirs) in Options::new(&bytes).zip(theirs) {
            match (ours, theirs) {
                (Ok(Opt::Nop), Ok(Theirs::Noop)) | (Ok(Opt::SackPermitted), Ok(Theirs::SelectiveAcknowledgementPermitted)) => {}
                (Ok(Opt::Mss(ours)), Ok(Theirs::MaximumSegmentSize(theirs))) => prop_assert_eq!(ours, theirs),
                (Ok(Opt::WindowScale(ours)), Ok(Theirs::WindowScale(theirs))) => prop_assert_eq!(ours, theirs),
                (Ok(Opt::Timestamps { val, ecr }), Ok(Theirs::Timestamp(v, e))) => prop_assert_eq!((val, ecr), (v, e)),
                (Ok(Opt::Sack(blocks)), Ok(Theirs::SelectiveAcknowledgement(first, _))) => prop_assert_eq!(blocks.iter().next(), Some(first)),
                (Ok(Opt::Unknown { .. }) | Err(_) | Ok(Opt::End), Err(_)) => break,
                (ours, theirs) => prop_assert!(false, "{ours:?} {theirs:?}"),
            }
        }
    }
}
