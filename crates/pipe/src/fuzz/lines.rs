//! Fuzz bodies for search patterns on lines, and for streams of frames in each format.

use crate::grep::{Lines, Matcher, Selection, Shown, Syntax, Terms, Wanted};
use crate::{About, Encoder, Format, Frames, Input, Time};
use port::pcap::notes;
use std::io::{self, Read};

/// Maximum length of a pattern in bytes. Compile time grows with the length, and longer patterns
/// test nothing new.
const PATTERN: usize = 40;

/// Fuzzes `grep`. The input is a byte of flags, a pattern, and lines. Checks that nothing panics;
/// that all search methods (comparing header columns, searching from match to match, matching line
/// by line) select the same lines as the regular expression applied to each line; and that counting
/// and printing give the same number of lines.
pub fn grep(data: &[u8]) {
    let (&flags, rest) = data.split_first().unwrap_or((&0, &[]));
    let (pattern, lines) = rest.split_at(rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
    let Ok(pattern) = std::str::from_utf8(pattern) else { return };
    if pattern.len() > PATTERN || repeats_often(pattern) {
        return;
    }
    let mut block = lines.get(1..).unwrap_or_default().to_vec();
    if block.last().is_some_and(|last| *last != b'\n') {
        block.push(b'\n');
    }
    if let Ok(terms) = Terms::parse(pattern) {
        for line in block.split(|byte| *byte == b'\n') {
            terms.matches(line, line.len() + usize::from(flags));
        }
    }
    let wanted = Wanted {
        patterns: vec![pattern.to_owned()],
        syntax: [Syntax::Basic, Syntax::Extended, Syntax::Fixed, Syntax::Fixed][usize::from(flags & 3)],
        ignore_case: flags & 4 != 0,
        words: flags & 8 != 0,
        whole_lines: flags & 16 != 0,
        any_field: flags & 32 != 0,
    };
    let Ok(matcher) = Matcher::new(&wanted) else { return };
    let alone = block.split_inclusive(|byte| *byte == b'\n');
    let alone = alone.filter(|line| matcher.is_match(line.strip_suffix(b"\n").unwrap_or(line)));
    let expected: Vec<&[u8]> = alone.collect();
    let mut out = Selection::default();
    let mut search = |shown: Shown| {
        let found = Lines::new(&matcher, shown).search(&block, 0, u64::MAX, &mut out);
        (found.selected, out.to_vec(&block))
    };
    let plain = Shown::default();
    let (selected, shown) = search(plain);
    assert_eq!((selected, &shown), (expected.len() as u64, &expected.concat()), "{wanted:?}");
    assert_eq!(search(Shown { count_only: true, ..plain }), (selected, Vec::new()));
    assert_eq!(search(Shown { numbers: true, ..plain }).0, selected);
    let lines = block.split_inclusive(|byte| *byte == b'\n').count() as u64;
    assert_eq!(search(Shown { invert: true, ..plain }).0, lines - selected);
    search(Shown { only_matching: true, ..plain });
}

/// Returns whether a pattern repeats something more than 99 times, or nests repetitions. Compiling
/// such a pattern takes seconds.
fn repeats_often(pattern: &str) -> bool {
    let digits = pattern.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    pattern.contains('{') && (digits > 2 || pattern.matches('{').count() > 1)
}

/// A stream of the bytes in field 0. Field 1 is the maximum number of bytes per read.
pub(crate) struct Pieces(pub Vec<u8>, pub usize);

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(into.len()).min(self.0.len());
        into[..n].copy_from_slice(&self.0[..n]);
        self.0.drain(..n);
        Ok(n)
    }
}

/// Result of reading a stream: its frames, the number of bad lines, the number of all lines, and
/// the error that ended the stream.
type Read1 = (Vec<(Vec<u8>, Time, About)>, u64, u64, Option<String>);

fn read(data: &[u8], piece: usize, format: Option<Format>, strict: bool) -> Read1 {
    let mut input = Input::new(Pieces(data.to_vec(), piece), format, strict);
    let (mut frames, mut all) = (Frames::new(), Vec::new());
    let error = loop {
        match input.read(&mut frames) {
            Ok(true) => {
                let each = frames.iter().enumerate();
                all.extend(each.map(|(at, (bytes, time))| (bytes.to_vec(), time, frames.about(at).clone())));
            }
            Ok(false) => break None,
            Err(why) => break Some(why.to_string()),
        }
        frames.clear();
    };
    // After an error the counts may include lines that were read in the same block.
    let counts = if error.is_none() { (input.tally().bad, input.tally().lines) } else { (0, 0) };
    (all, counts.0, counts.1, error)
}

/// Fuzzes [`Input`] and [`Encoder`]. The input is a byte that selects the format and the reading
/// options, then a stream of lines, JSON lines, binary records or a capture.
///
/// Checks that nothing panics; that reading ends; that an error message is one line; that a stream
/// read in pieces gives the same result as in one read; and that frames are unchanged after they
/// are written in a format and read again. In JSON lines, comments, directions and original lengths
/// must also be unchanged.
pub fn input(data: &[u8]) {
    let (&flags, data) = data.split_first().unwrap_or((&0, &[]));
    let forms =
        [None, Some(Format::Text), Some(Format::Jsonl), Some(Format::Bin1), Some(Format::Bin2), Some(Format::Pcap)];
    let (format, strict) = (forms[usize::from(flags & 7) % forms.len()], flags & 8 != 0);
    let whole = read(data, usize::MAX, format, strict);
    let pieces = read(data, 1 + usize::from(flags >> 4), format, strict);
    // Without a format, v1 and v2 of the binary records are distinguished by the bytes of the
    // first read.
    let is_guessed = format.is_none() && data.starts_with(&[0x76, 0x37]);
    assert!(
        is_guessed || whole == pieces,
        "in pieces: {:?} {:?}",
        (whole.1, whole.2, whole.3),
        (pieces.1, pieces.2, pieces.3)
    );
    assert!(whole.3.as_ref().is_none_or(|why| !why.contains('\n')), "{:?}", whole.3);
    let mut frames = Frames::new();
    for (bytes, time, about) in &whole.0 {
        // JSON lines cannot represent a packet without an Ethernet header, a comment of more than
        // 65,535 bytes (invalid UTF-8 grows to three times its length), or an original length above
        // 2^32 - 1, which results when an Ethernet header replaces a shorter one.
        let options = if about.options.len() > 20_000 { Vec::new() } else { about.options.clone() };
        let cut = about.cut.min(u32::MAX - bytes.len() as u32);
        let about = About { link: None, options, cut, ..about.clone() };
        if frames.is_full() || !frames.push_about(bytes, *time, &about) {
            break;
        }
    }
    let wanted: Vec<Vec<u8>> = frames.iter().map(|(bytes, _)| bytes.to_vec()).collect();
    let noted: Vec<_> = (0..frames.len()).map(|at| noted_of(frames.about(at))).collect();
    // Captures are left out because they have a file header. `port::fuzz::pcap` reads and writes
    // them.
    for format in [Format::Text, Format::Jsonl, Format::Bin1, Format::Bin2] {
        let mut out = Vec::new();
        // Frames without an Ethernet header, or too long for the format, are refused.
        let Ok(len) = Encoder::new(format, 1).encode(&frames, &mut out) else { continue };
        out.truncate(len);
        if wanted.is_empty() {
            continue;
        }
        let (again, bad, _, error) = read(&out, usize::MAX, Some(format), true);
        assert_eq!((bad, error), (0, None), "{format:?}");
        assert!(again.iter().map(|(bytes, ..)| bytes).eq(&wanted), "{format:?}");
        if format == Format::Jsonl {
            let again = again.iter().map(|(.., about)| noted_of(about));
            assert!(again.eq(noted.iter().cloned()), "comments, directions or original lengths differ");
        }
    }
}

/// Returns the part of a packet's metadata that a JSON line can represent: comments, direction, and
/// number of bytes not captured.
pub(super) fn noted_of(about: &About) -> (Vec<String>, port::pcap::Direction, u32) {
    (notes::comments(&about.options).collect(), notes::direction(&about.options), about.cut)
}
