use super::*;

#[test]
fn the_fast_and_the_general_option_parser_agree() {
    let writer = OptionWriter::new().nop().nop().timestamps(7, 9);
    let (fast, slow) =
        (SegmentOptions::parse_bytes(writer.finish()), SegmentOptions::parse(Options::new(writer.finish())));
    assert_eq!(fast, slow);
    assert_eq!(fast.timestamps, Some(Timestamps { val: 7, ecr: 9 }));
    assert_eq!(OutOptions::timestamps(7, 9), OutOptions::from(&writer));
}

/// Each of the eight combinations of SYN options is encoded as by `OptionWriter` and parsed as by
/// the option loop.
#[test]
fn options_of_a_syn_equal_those_of_the_general_writer_and_parser() {
    for n in 0..8 {
        let (sack, timestamps, shift) = (n & 1 != 0, (n & 2 != 0).then_some((7, 9)), (n & 4 != 0).then_some(11));
        let mut writer = OptionWriter::new().mss(1460);
        match (sack, timestamps) {
            (true, Some((val, ecr))) => writer = writer.sack_permitted().timestamps(val, ecr),
            (false, Some((val, ecr))) => writer = writer.nop().nop().timestamps(val, ecr),
            (true, None) => writer = writer.nop().nop().sack_permitted(),
            (false, None) => {}
        }
        if let Some(shift) = shift {
            writer = writer.nop().window_scale(shift);
        }
        assert_eq!(OutOptions::of_syn(1460, sack, timestamps, shift), OutOptions::from(&writer), "{n}");
        let (fast, slow) =
            (SegmentOptions::parse_bytes(writer.finish()), SegmentOptions::parse(Options::new(writer.finish())));
        assert_eq!(fast, slow, "{n}");
        assert_eq!((fast.mss, fast.sack_permitted, fast.window_scale), (Some(1460), sack, shift));
        assert_eq!(fast.timestamps.map(|ts| (ts.val, ts.ecr)), timestamps);
    }
}

/// With one byte changed, a segment no longer matches the common layout.
#[test]
fn unusual_options_of_a_syn_use_the_general_parser() {
    let usual = OptionWriter::new().mss(1460).sack_permitted().timestamps(7, 9).nop().window_scale(7);
    let usual = usual.finish();
    for at in 0..usual.len() {
        for bit in 0..8 {
            let mut bytes = usual.to_vec();
            bytes[at] ^= 1 << bit;
            assert_eq!(SegmentOptions::parse_bytes(&bytes), SegmentOptions::parse(Options::new(&bytes)), "{bytes:?}");
        }
    }
}

#[test]
fn all_options_are_parsed_and_invalid_ones_ignored() {
    let writer = OptionWriter::new().mss(1460).window_scale(7).sack_permitted().sack(&[(1, 2), (3, 4)]);
    let options = SegmentOptions::parse_bytes(writer.finish());
    assert_eq!((options.mss, options.window_scale, options.sack_permitted), (Some(1460), Some(7), true));
    let blocks = [Block { left: SeqNum(1), right: SeqNum(2) }, Block { left: SeqNum(3), right: SeqNum(4) }];
    assert_eq!(options.sack.as_slice(), blocks);
    // An MSS option of length 3, followed by an option of length zero: the parser neither loops nor
    // accepts them.
    assert_eq!(SegmentOptions::parse_bytes(&[2, 3, 5, 3, 0, 0, 0, 0]), SegmentOptions::default());
}

#[test]
fn syn_and_fin_count_as_one_each() {
    let both = Segment { flags: Flags::SYN | Flags::FIN, len: 10, seq: SeqNum(u32::MAX), ..Segment::default() };
    assert_eq!((both.seq_len(), both.text_seq()), (12, SeqNum(0)));
    assert_eq!(Segment::default().seq_len(), 0);
}
