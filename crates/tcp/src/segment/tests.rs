use super::*;

#[test]
fn the_usual_layout_and_the_walk_agree() {
    let writer = OptionWriter::new().nop().nop().timestamps(7, 9);
    let (fast, slow) =
        (SegmentOptions::parse_bytes(writer.finish()), SegmentOptions::parse(Options::new(writer.finish())));
    assert_eq!(fast, slow);
    assert_eq!(fast.timestamps, Some(Timestamps { val: 7, ecr: 9 }));
    assert_eq!(OutOptions::timestamps(7, 9), OutOptions::from(&writer));
}

#[test]
fn all_options_are_read_and_bad_ones_are_not_there() {
    let writer = OptionWriter::new().mss(1460).window_scale(7).sack_permitted().sack(&[(1, 2), (3, 4)]);
    let options = SegmentOptions::parse_bytes(writer.finish());
    assert_eq!((options.mss, options.window_scale, options.sack_permitted), (Some(1460), Some(7), true));
    let blocks = [Block { left: SeqNum(1), right: SeqNum(2) }, Block { left: SeqNum(3), right: SeqNum(4) }];
    assert_eq!(options.sack.as_slice(), blocks);
    // MSS of length 3, then a zero length: neither loops nor counts.
    assert_eq!(SegmentOptions::parse_bytes(&[2, 3, 5, 3, 0, 0, 0, 0]), SegmentOptions::default());
}

#[test]
fn syn_and_fin_count_as_one_each() {
    let both = Segment { flags: Flags::SYN | Flags::FIN, len: 10, seq: SeqNum(u32::MAX), ..Segment::default() };
    assert_eq!((both.seq_len(), both.text_seq()), (12, SeqNum(0)));
    assert_eq!(Segment::default().seq_len(), 0);
}
