use super::*;
use proptest::prelude::*;

/// Example line of ethpipe (the report ethpipe2013, "AA"): a frame of 64 bytes on the wire.
const LINE: &str = "FFFFFFFFFFFF 0022CF63967B 8899 23 1E 0A CF E5 3A DF 00 22 CF 63 96 7B 00 20 00 00 00 00 00 00 00 00 00 00 00 00 00 \
                    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 20\n";

fn write(kind: Kind, frame: &[u8], stamp: Option<Stamp>) -> Vec<u8> {
    let mut out = vec![0; MAX_LINE + SLACK];
    let len = encode_with(kind, frame, stamp, &mut out).unwrap();
    out.truncate(len);
    out
}

fn read(kind: Kind, text: &[u8]) -> (Next, Vec<u8>) {
    let mut frame = vec![0xee; MAX_FRAME + SLACK];
    let next = next_with(kind, text, &mut frame);
    let len = if let Next::Frame { len, .. } = next { len } else { 0 };
    frame.truncate(len);
    (next, frame)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 37 + at / 251 + 11) as u8).collect()
}

#[test]
fn line_lengths_are_those_of_the_report() {
    assert_eq!((len(60), len(1514)), (169, 4531));
    assert_eq!(LINE.len(), 169);
}

#[test]
fn the_reports_line_round_trips() {
    for kind in Kind::available() {
        let (next, frame) = read(kind, LINE.as_bytes());
        assert_eq!(next, Next::Frame { len: 60, stamp: None, used: 169 }, "{kind:?}");
        assert_eq!(
            frame[..16],
            [255, 255, 255, 255, 255, 255, 0, 0x22, 0xcf, 0x63, 0x96, 0x7b, 0x88, 0x99, 0x23, 0x1e]
        );
        assert_eq!(write(kind, &frame, None), LINE.as_bytes(), "{kind:?}");
    }
}

#[test]
fn every_length_round_trips_with_every_kind() {
    for kind in Kind::available() {
        for len in (MIN_FRAME..400).chain([1514, 4096, 9014, MAX_FRAME - 1, MAX_FRAME]) {
            let frame = bytes(len);
            let text = write(kind, &frame, None);
            assert_eq!(text.len(), super::len(len));
            assert_eq!(text, write(Kind::Portable, &frame, None), "{kind:?} {len}");
            assert_eq!(read(kind, &text), (Next::Frame { len, stamp: None, used: text.len() }, frame.clone()));
            let lower = text.to_ascii_lowercase();
            assert_eq!(read(kind, &lower).1, frame, "{kind:?} {len}");
        }
        // One byte too long, one byte too short.
        let mut out = vec![0; 2 * MAX_LINE];
        assert_eq!(encode_with(kind, &bytes(MAX_FRAME + 1), None, &mut out), None);
        assert_eq!(encode_with(kind, &bytes(MIN_FRAME - 1), None, &mut out), None);
    }
}

#[test]
fn a_line_needs_exactly_its_length() {
    let frame = bytes(60);
    for kind in Kind::available() {
        let mut exact = [0; 169];
        assert_eq!(encode_with(kind, &frame, None, &mut exact), Some(169));
        assert_eq!(encode_with(kind, &frame, None, &mut exact[..168]), None);
        assert_eq!(exact[..], write(kind, &frame, None));
        let mut room = [0; 60];
        assert_eq!(next_with(kind, &exact, &mut room), Next::Frame { len: 60, stamp: None, used: 169 }, "{kind:?}");
        assert_eq!(room[..], frame);
        let why = BadLine { column: 168, why: Why::TooLong };
        assert_eq!(next_with(kind, &exact, &mut room[..59]), Next::Bad { why, used: 169 }, "{kind:?}");
    }
}

#[test]
fn a_stamp_precedes_the_line_in_ethpipes_format() {
    let stamp = Stamp(0x1100_0000_0773_5940);
    assert_eq!((stamp.reset(), stamp.register(), stamp.ticks()), (true, 1, 125_000_000));
    assert_eq!(Stamp::at(1, true, 125_000_000), stamp);
    assert_eq!(Stamp::arrival(u64::MAX), Stamp((1 << 48) - 1));
    for kind in Kind::available() {
        let text = write(kind, &bytes(60), Some(stamp));
        assert_eq!(text[..17], *b"1100000007735940 ");
        assert_eq!(read(kind, &text), (Next::Frame { len: 60, stamp: Some(stamp), used: 186 }, bytes(60)));
    }
    // F0, with eight more digits, and F2 written by hand.
    let early = format!("0000000000000001 00000000 {LINE}");
    let by_hand = format!("  0000000000000001  {LINE}");
    for text in [early, by_hand] {
        let (next, frame) = read(Kind::best(), text.as_bytes());
        assert_eq!(next, Next::Frame { len: 60, stamp: Some(Stamp(1)), used: text.len() });
        assert_eq!(frame, read(Kind::best(), LINE.as_bytes()).1);
    }
}

#[test]
fn blanks_are_optional_everywhere() {
    let frame = read(Kind::best(), LINE.as_bytes()).1;
    let tight: String = LINE.chars().filter(|c| *c != ' ').collect();
    let wide: String = LINE.trim_end().chars().flat_map(|c| [' ', c, '\t']).chain("\r\n".chars()).collect();
    for text in [tight, wide] {
        let (next, read) = read(Kind::best(), text.as_bytes());
        assert_eq!(next, Next::Frame { len: 60, stamp: None, used: text.len() });
        assert_eq!(read, frame);
    }
    for text in ["\n", "   \n", "\r\n"] {
        assert_eq!(read(Kind::best(), text.as_bytes()).0, Next::Blank { used: text.len() });
    }
}

#[test]
fn errors_name_cause_and_column() {
    let reported = |text: &str| match read(Kind::best(), text.as_bytes()).0 {
        Next::Bad { why, used } => {
            assert_eq!(used, text.len());
            why.to_string()
        }
        other => format!("{other:?}"),
    };
    let bad_at = |at: usize, c: char| {
        let mut text: Vec<char> = LINE.chars().collect();
        text[at] = c;
        text.into_iter().collect::<String>()
    };
    assert_eq!(reported(&bad_at(31, 'G')), "column 32: 'G' is not a hexadecimal digit");
    assert_eq!(reported(&bad_at(167, '\0')), "column 168: byte 0x00 is not a hexadecimal digit");
    assert_eq!(reported(&LINE.replace(" 20\n", " 2\n")), "column 168: odd number of hexadecimal digits");
    assert_eq!(reported("0022CF63967B 8899\n"), "column 18: frame of 8 bytes: must be at least 14");
    assert_eq!(reported("0000000000000000\n"), "column 17: frame of 0 bytes: must be at least 14");
    let long = "00".repeat(MAX_FRAME + 1) + "\n";
    assert_eq!(reported(&long), "column 524290: frame is longer than 262144 bytes");
    let endless = " ".repeat(MAX_READ + 1);
    assert_eq!(reported(&endless), "column 1048577: no newline within 1048576 bytes");
}

#[test]
fn without_its_newline_a_line_is_partial_at_every_length() {
    for kind in Kind::available() {
        for cut in 0..169 {
            assert_eq!(read(kind, &LINE.as_bytes()[..cut]).0, Next::Partial, "{kind:?} {cut}");
        }
    }
}

/// Text from an untrusted source: mostly lines, some damaged.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let line = (prop::collection::vec(any::<u8>(), 14..120), any::<Option<u64>>())
        .prop_map(|(frame, stamp)| write(Kind::Portable, &frame, stamp.map(Stamp)));
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..3);
    (line, damage).prop_map(|(mut line, damage)| {
        for (at, byte, insert) in damage {
            let (at, byte) =
                (at.index(line.len()), if byte & 1 == 0 { b" \n0aG\r"[usize::from(byte) % 6] } else { byte });
            if insert { line.insert(at, byte) } else { line[at] = byte }
        }
        line
    })
}

proptest! {
    #[test]
    fn all_kinds_read_the_same(text in text()) {
        let by = |kind| read(kind, &text);
        for kind in Kind::available() {
            prop_assert_eq!(by(kind), by(Kind::Portable));
            // The result is also the same as that of the slow path, which has no shortcuts.
            let mut frame = vec![0; MAX_FRAME];
            prop_assert_eq!(by(kind).0, slow::next(&text, &mut frame));
        }
    }

    #[test]
    fn frames_round_trip(frame in prop::collection::vec(any::<u8>(), MIN_FRAME..2000), stamp in any::<Option<u64>>()) {
        for kind in Kind::available() {
            let stamp = stamp.map(Stamp);
            let text = write(kind, &frame, stamp);
            prop_assert_eq!(read(kind, &text), (Next::Frame { len: frame.len(), stamp, used: text.len() }, frame.clone()));
        }
    }
}

/// Returns the end of the first line, by a plain search and comparison.
fn plain_shape(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let expected = |at: usize| if at < HEADER { at == 12 || at == 25 } else { (at - HEADER).is_multiple_of(3) };
    let good = end >= HEADER && (end - HEADER).is_multiple_of(3);
    (good && text[..end].iter().enumerate().all(|(at, byte)| (*byte == b' ') == expected(at))).then_some(end + 1)
}

proptest! {
    #[test]
    fn the_shape_is_where_the_spaces_are(text in text(), cut in 0..200_usize) {
        let text = &text[..text.len().saturating_sub(cut % 5)];
        for kind in Kind::available() {
            prop_assert_eq!(shape(kind, text), plain_shape(text), "{:?}", kind);
        }
    }

    #[test]
    fn lines_of_the_fixed_shape_are_skipped(lines in prop::collection::vec(text(), 0..30), pick in prop::collection::vec(0..30_usize, 0..60), damage in any::<bool>()) {
        // Lines are repeated, so that a line often has the same length as the previous one.
        let pool: Vec<&Vec<u8>> = lines.iter().filter(|line| damage || plain_shape(line) == Some(line.len())).collect();
        let text: Vec<u8> = pick.iter().filter_map(|at| pool.get(*at)).flat_map(|line| line.iter().copied()).collect();
        let mut expected = Vec::new();
        let mut at = 0;
        while let Some(len) = plain_shape(&text[at..]) {
            expected.push((at, len));
            at += len;
        }
        for kind in Kind::available() {
            let mut got = Vec::new();
            let end = each_line(kind, &text, |at, len, header| {
                assert_eq!(header, text[at..].first_chunk().unwrap());
                got.push((at, len));
                true
            });
            prop_assert_eq!((&got, end), (&expected, at), "{:?}", kind);
        }
    }

    #[test]
    fn positions_equal_those_of_a_search(header in "[0-3]{12} [0-3]{12} [0-3]{4}", at in 0..HEADER, len in 1..13_usize, other in "[0-3 ]{1,13}") {
        let header: [u8; HEADER] = header.as_bytes().try_into().unwrap();
        let there = &header[at..HEADER.min(at + len)];
        for word in [there, other.as_bytes(), &header] {
            let expected: u32 = header.windows(word.len()).enumerate().map(|(at, w)| u32::from(w == word) << at).sum();
            prop_assert_eq!(Needle::new(word).unwrap().places(&header), expected);
        }
    }
}

/// Checks the limits of the ranges in the vector code: each byte at each position of lines whose
/// last step is full or partial.
#[test]
fn vector_code_agrees_with_scalar_code_for_every_byte() {
    for len in [14, 24, 44, 60] {
        let frame: Vec<u8> = (0..len).map(|at| (at * 37) as u8).collect();
        let mut line = vec![0; super::len(len) + SLACK];
        assert_eq!(encode(&frame, None, &mut line), Some(super::len(len)));
        let rest = b"001122334455 001122334455 0800 00\n";
        line[super::len(len)..][..rest.len()].copy_from_slice(rest);
        for (at, byte) in (0..super::len(len) + 2).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
            let before = std::mem::replace(&mut line[at], byte);
            let read = |kind: Kind| {
                let mut out = [0; 128];
                let used = canonical(kind, &line, &mut out);
                (used, used.map(|(_, len)| out[..len].to_vec()))
            };
            let expected = read(Kind::Portable);
            for kind in Kind::available() {
                assert_eq!(read(kind), expected, "{kind:?} {byte:#x} at {at} of {len}");
            }
            line[at] = before;
        }
    }
}

#[test]
fn needles_are_header_words() {
    assert!(Needle::new(b"").is_none() && Needle::new(&[b'0'; HEADER + 1]).is_none());
    assert_eq!(Needle::new(b"0022").unwrap().word(), b"0022");
}

/// Runs the body of the fuzz target on its corpus, and on the output of the strategy above.
#[test]
fn the_corpus_passes() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wire_text");
    let mut seen = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        crate::fuzz::text(&std::fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen >= 4);
}
