use super::*;
use crate::fuzz::Pieces;
use crate::output::Encoder;
use proptest::prelude::*;
use std::fs::File;
use wire::text::Stamp;

const LINE: &str = "FFFFFFFFFFFF 0022CF63967B 8899 23 1E 0A\n";

/// Returns all frames of a stream, the counts of lines, and the format.
fn all(bytes: &[u8], piece: usize, requested: Option<Format>, strict: bool) -> Result<Read1, BadInput> {
    let mut input = Input::new(Pieces(bytes.to_vec(), piece), requested, strict);
    let (mut frames, mut got) = (Frames::new(), Vec::new());
    while input.read(&mut frames)? {
        got.extend(frames.iter().map(|(bytes, time)| (bytes.to_vec(), time)));
        frames.clear();
    }
    let format = input.format()?;
    Ok((got, input.tally().clone(), format))
}

type Read1 = (Vec<(Vec<u8>, Time)>, Tally, Format);

fn written(frames: &[(Vec<u8>, Time)], format: Format) -> Vec<u8> {
    let mut batch = Frames::new();
    frames.iter().for_each(|(bytes, time)| assert!(batch.push(bytes, *time)));
    let mut encoder = Encoder::new(format, 8);
    let mut out = Vec::new();
    let used = encoder.encode(&batch, &mut out).unwrap();
    [&crate::output::header(format, None, None)[..], &out[..used]].concat()
}

#[test]
fn bad_lines_are_counted_reported_and_skipped() {
    let text = format!("{LINE}zz\n\n{LINE}00 11\n{LINE}");
    let (frames, tally, _) = all(text.as_bytes(), 7, None, false).unwrap();
    assert_eq!(frames.len(), 3);
    assert_eq!((tally.lines, tally.bad), (6, 2));
    let reported: Vec<String> = tally.reported.iter().map(|(line, why)| format!("{line}: {why}")).collect();
    assert_eq!(
        reported,
        ["2: column 1: 'z' is not a hexadecimal digit", "5: column 6: frame of 2 bytes: must be at least 14"]
    );
    let error = all(text.as_bytes(), 7, None, true).unwrap_err().to_string();
    assert_eq!(error, "line 2, column 1: 'z' is not a hexadecimal digit");
}

#[test]
fn a_last_line_needs_no_newline() {
    let text = format!("{LINE}{}", LINE.trim_end());
    for piece in [1, 5, 1000] {
        assert_eq!(all(text.as_bytes(), piece, None, true).unwrap().0.len(), 2);
    }
    assert_eq!(all(b"", 1, None, true).unwrap().0.len(), 0);
}

#[test]
fn an_endless_line_is_one_bad_line_in_bounded_memory() {
    let mut text = LINE.as_bytes().to_vec();
    text.extend(std::iter::repeat_n(b'0', 3_000_000));
    text.push(b'\n');
    text.extend(LINE.as_bytes());
    for requested in [None, Some(Format::Jsonl)] {
        let (frames, tally, _) = all(&text, 50_000, requested, false).unwrap();
        let expected = if requested.is_none() { (2, 1) } else { (0, 3) };
        assert_eq!((frames.len(), tally.bad), expected);
        assert_eq!(tally.lines, 3);
    }
    // The same text in blocks, as worker threads receive it.
    let mut input = Input::new(Pieces(text, 50_000), None, false);
    let (mut block, mut frames, mut tally, mut most) = (Vec::new(), Frames::new(), Tally::default(), 0);
    while input.read_lines(&mut block).unwrap() {
        most = most.max(block.len());
        decode_block(&block, None, &mut frames, &mut tally);
    }
    assert_eq!((frames.len(), tally.bad, tally.lines), (2, 1, 3));
    assert!(most <= BLOCK + wire::text::MAX_READ + 2);
}

/// A file on tmpfs is truncated and overwritten while it is read. Reading ends at its new end and
/// returns the bytes that are present at the time of reading.
#[test]
fn a_file_truncated_while_read_ends_at_its_new_end() {
    let path = std::path::Path::new("/dev/shm").join(format!("linerate-cut-tests-{}", std::process::id()));
    if let Err(why) = std::fs::write(&path, LINE.repeat(100_000)) {
        return println!("skipped: /dev/shm: {why}");
    }
    let writer = File::options().write(true).open(&path).unwrap();
    let mut input = Input::new(File::open(&path).unwrap(), None, false);
    let (mut block, mut lines) = (Vec::new(), 0);
    assert!(input.read_lines(&mut block).unwrap());
    lines += block.len() / LINE.len();
    // One more line than was read, and part of another.
    let read = block.len().next_multiple_of(BLOCK.max(LINE.len()));
    let end = (read / LINE.len() + 2) * LINE.len() + 5;
    writer.set_len(end as u64).unwrap();
    let mut rest = Vec::new();
    while input.read_lines(&mut block).unwrap() {
        rest.extend_from_slice(&block);
    }
    lines += rest.len() / LINE.len();
    assert_eq!(lines, end / LINE.len());
    assert_eq!(rest.get(rest.len() - 6..), Some(format!("{}\n", &LINE[..5]).as_bytes()));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn binary_noise_is_counted_as_bad_lines() {
    let noise: Vec<u8> = (0..100_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect();
    let (frames, tally, _) = all(&noise, 4096, Some(Format::Text), false).unwrap();
    assert_eq!((frames.len(), tally.bad), (0, 1));
}

#[test]
fn reading_stops_at_an_invalid_record() {
    let frames = vec![((0..60).collect::<Vec<u8>>(), Time::Stamp(Stamp(5))); 3];
    let mut bytes = written(&frames, Format::Bin2);
    assert_eq!(all(&bytes, 3, None, false).unwrap().0, frames);
    bytes.truncate(bytes.len() - 1);
    assert_eq!(all(&bytes, 100, None, false).unwrap_err().to_string(), "input ends within the record at byte 144");
    bytes.truncate(144);
    bytes.extend(b"garbage");
    let error = all(&bytes, 100, None, false).unwrap_err().to_string();
    assert_eq!(error, "byte 144: record magic is 0x6167, not 0x3776");
}

#[test]
fn a_truncated_capture_is_an_error() {
    let frames = vec![((0..60).collect::<Vec<u8>>(), Time::Wall(1_700_000_000_123_456_789)); 3];
    for format in [Format::Pcap, Format::Pcapng] {
        let bytes = written(&frames, format);
        assert_eq!(
            all(&bytes, 11, None, false).unwrap(),
            (frames.clone(), Tally { lines: 3, ..Tally::default() }, format)
        );
        let cut = all(&bytes[..bytes.len() - 3], 11, None, false);
        assert!(matches!(cut, Err(BadInput::Pcap(_))), "{cut:?}");
    }
}

#[test]
fn json_errors_are_described() {
    let good = r#"{"dst":"ff:ff:ff:ff:ff:ff","src":"00:22:cf:63:96:7b","type":"0x8899","payload":"231E0A"}"#;
    let bad = [
        (r#"{"dst":"#, "EOF while parsing a value at line 1 column 7"),
        (r#"{"src":"00:22:cf:63:96:7b"}"#, "\"dst\" is missing or not a string"),
        (&good.replace("0A\"", "0\""), "\"payload\" has an odd number of digits"),
        (&good.replace("0A\"", "+1\""), "\"payload\" is not hexadecimal digits only"),
    ];
    for (line, why) in bad {
        let (frames, tally, _) = all(format!("{good}\n{line}\n").as_bytes(), 1000, None, false).unwrap();
        assert_eq!(frames.len(), 1);
        assert_eq!(tally.reported[0].1.to_string(), why);
    }
}

proptest! {
    #[test]
    fn every_format_round_trips(
        frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 14..200), any::<u64>()), 0..40),
        piece in 1..5000_usize,
    ) {
        for format in Format::ALL {
            let time = |bits: u64| match format {
                Format::Plain | Format::Bin1 => Time::None,
                Format::Bin2 => Time::Stamp(Stamp::at((bits >> 60) as u8, bits & 1 == 1, bits)),
                Format::Text | Format::Stamped => Time::Stamp(Stamp(bits)),
                Format::Jsonl if bits & 1 == 1 => Time::Stamp(Stamp(bits)),
                _ => Time::Wall(bits % 4_000_000_000_000_000_000),
            };
            let frames: Vec<_> = frames.iter().map(|(bytes, bits)| (bytes.clone(), time(*bits))).collect();
            let bytes = written(&frames, format);
            let (got, tally, reported) = all(&bytes, piece, None, true).unwrap();
            prop_assert_eq!(got, frames);
            prop_assert_eq!(tally.bad, 0);
            if !bytes.is_empty() {
                let expected = if format.is_text() { Format::Text } else { format };
                prop_assert_eq!(reported, expected);
            }
        }
    }

    #[test]
    fn reading_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1..100_usize) {
        for format in Format::ALL.into_iter().map(Some).chain([None]) {
            let _ = all(&bytes, piece, format, false);
        }
    }
}
