//! Parses data that is written to a file into frames. A write may contain several lines or records,
//! and the last one may be incomplete.

use crate::{Frames, Time};
use wire::bpkt::{self, Form};
use wire::text::{self, MAX_READ, Next};

/// Format of the frames in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Lines of text, without (F1) or with (F2) a time stamp.
    Text,
    /// Binary records, version 2.
    Binary,
}

/// Result of parsing the data of one write.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fed {
    /// Number of valid frames.
    pub good: u64,
    /// Number of lines or records that are not frames. Parsing stops after a bad record.
    pub bad: u64,
    /// Error in the first bad line or record.
    pub why: Option<String>,
}

impl Fed {
    fn bad(&mut self, why: impl ToString) {
        self.bad += 1;
        self.why.get_or_insert_with(|| why.to_string());
    }
}

/// Parser for the bytes written to one open file.
#[derive(Debug)]
pub struct Lines {
    kind: Kind,
    /// Bytes of a line or record that is still incomplete.
    kept: Vec<u8>,
    /// True while the rest of an over-long line is discarded.
    skipping: bool,
    frames: Frames,
}

impl Lines {
    /// Creates a parser for a file that has just been opened.
    pub fn new(kind: Kind) -> Lines {
        Lines { kind, kept: Vec::new(), skipping: false, frames: Frames::new() }
    }

    /// Returns the number of bytes of the incomplete line or record.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Parses written data. Calls `batch` with each full batch of frames, and with the last one.
    pub fn feed(&mut self, mut data: &[u8], mut batch: impl FnMut(&mut Frames)) -> Fed {
        let mut fed = Fed::default();
        if self.skipping {
            let Some(end) = memchr::memchr(b'\n', data) else { return fed };
            data = data.get(end + 1..).unwrap_or_default();
            self.skipping = false;
        }
        let mut kept = std::mem::take(&mut self.kept);
        // The incomplete line of the previous write is completed first. The rest of the data can
        // then be parsed without copying it.
        while !kept.is_empty() && !data.is_empty() {
            let missing = self.missing(&kept, data).min(data.len());
            let (front, rest) = data.split_at_checked(missing).unwrap_or_default();
            kept.extend_from_slice(front);
            data = rest;
            let used = self.read(&kept, &mut fed, &mut batch);
            kept.drain(..used.min(kept.len()));
            if self.kind == Kind::Binary && fed.bad > 0 {
                kept.clear();
                data = &[];
            }
        }
        if kept.is_empty() {
            let used = self.read(data, &mut fed, &mut batch);
            kept.extend_from_slice(data.get(used..).unwrap_or_default());
        }
        self.kept = kept;
        if !self.frames.is_empty() {
            batch(&mut self.frames);
            self.frames.clear();
        }
        fed
    }

    /// Ends the data when the file is closed. A last line without a newline counts as complete.
    pub fn end(&mut self, batch: impl FnMut(&mut Frames)) -> Fed {
        let mut fed = match self.kind {
            Kind::Text if !self.kept.is_empty() => self.feed(b"\n", batch),
            _ => Fed::default(),
        };
        if !self.kept.is_empty() {
            fed.bad("the written data ends within a record");
            self.kept.clear();
        }
        fed
    }

    /// Returns the maximum number of bytes of `data` that belong to the incomplete line or record
    /// `kept`; at least 1.
    fn missing(&self, kept: &[u8], data: &[u8]) -> usize {
        let header = Form::V2.header();
        match (self.kind, kept.get(2..4)) {
            (Kind::Text, _) => memchr::memchr(b'\n', data).map_or(data.len(), |end| end + 1),
            (Kind::Binary, Some(&[low, high])) if kept.len() >= header => {
                (header + usize::from(u16::from_le_bytes([low, high]))).saturating_sub(kept.len()).max(1)
            }
            (Kind::Binary, _) => header.saturating_sub(kept.len()).max(1),
        }
    }

    /// Parses the complete lines or records at the start of `data`. Returns the number of bytes
    /// consumed.
    fn read(&mut self, data: &[u8], fed: &mut Fed, batch: &mut impl FnMut(&mut Frames)) -> usize {
        let mut from = 0;
        while let Some(rest) = data.get(from..).filter(|rest| !rest.is_empty()) {
            if self.frames.is_full() {
                batch(&mut self.frames);
                self.frames.clear();
            }
            let used = match self.kind {
                Kind::Text => self.line(rest, fed),
                Kind::Binary => self.record(rest, fed),
            };
            if used == 0 {
                break;
            }
            from += used;
        }
        from
    }

    fn line(&mut self, rest: &[u8], fed: &mut Fed) -> usize {
        match text::next(rest, self.frames.room()) {
            Next::Frame { len, stamp, used } => {
                self.frames.commit(len, stamp.map_or(Time::None, Time::Stamp));
                fed.good += 1;
                used
            }
            Next::Blank { used } => used,
            Next::Bad { why, used } => {
                fed.bad(why);
                // `text::next` has consumed the maximum length of an over-long line. The rest of
                // the line is skipped.
                self.skipping = used >= MAX_READ && rest.get(used - 1) != Some(&b'\n');
                match memchr::memchr(b'\n', rest.get(used..).unwrap_or_default()) {
                    Some(end) if self.skipping => {
                        self.skipping = false;
                        used + end + 1
                    }
                    None if self.skipping => rest.len(),
                    _ => used,
                }
            }
            Next::Partial => 0,
        }
    }

    fn record(&mut self, rest: &[u8], fed: &mut Fed) -> usize {
        match bpkt::parse(Form::V2, rest) {
            Ok(Some(record)) => {
                self.frames.push(record.frame, record.stamp.map_or(Time::None, Time::Stamp));
                fed.good += 1;
                record.used
            }
            Ok(None) => 0,
            Err(why) => {
                fed.bad(why);
                rest.len()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::text::Stamp;

    type Came = Vec<(Vec<u8>, Time)>;

    fn feed(lines: &mut Lines, data: &[u8], came: &mut Came) -> Fed {
        lines.feed(data, |frames| came.extend(frames.iter().map(|(bytes, time)| (bytes.to_vec(), time))))
    }

    const LINE: &[u8] = b"FFFFFFFFFFFF 0022CF63967B 8899 23 1E\n";

    #[test]
    fn a_line_can_span_two_writes() {
        let (mut lines, mut came) = (Lines::new(Kind::Text), Vec::new());
        assert_eq!(feed(&mut lines, &LINE[..20], &mut came), Fed::default());
        assert_eq!((came.len(), lines.kept()), (0, 20));
        let two = [&LINE[20..], LINE, &LINE[..5]].concat();
        assert_eq!(feed(&mut lines, &two, &mut came).good, 2);
        assert_eq!((came.len(), lines.kept()), (2, 5));
        assert_eq!(lines.end(|_| ()).bad, 1, "five digits are not a frame");
        assert_eq!(feed(&mut lines, &LINE[..36], &mut came), Fed::default());
        assert_eq!(lines.end(|frames| assert_eq!(frames.len(), 1)).good, 1, "the newline is not needed");
    }

    #[test]
    fn a_bad_line_is_one_line() {
        let (mut lines, mut came) = (Lines::new(Kind::Text), Vec::new());
        let fed = feed(&mut lines, &[b"hello\n\n", LINE, b"xyz\n"].concat(), &mut came);
        assert_eq!((fed.good, fed.bad), (1, 2));
        assert!(fed.why.unwrap().contains("column 1"));
    }

    #[test]
    fn an_endless_line_is_discarded() {
        let (mut lines, mut came) = (Lines::new(Kind::Text), Vec::new());
        let mut bad = 0;
        for _ in 0..10 {
            bad += feed(&mut lines, &vec![b' '; MAX_READ / 9], &mut came).bad;
            assert!(lines.kept() <= MAX_READ);
        }
        assert_eq!(bad, 1);
        assert_eq!(feed(&mut lines, &[b"\n", LINE].concat(), &mut came).good, 1);
    }

    #[test]
    fn parsing_stops_after_a_bad_record() {
        let (mut lines, mut came) = (Lines::new(Kind::Binary), Vec::new());
        let mut data = Vec::new();
        bpkt::emit(Form::V2, &[1; 60], None, &mut data);
        data.extend_from_slice(b"garbage and more");
        let fed = feed(&mut lines, &data, &mut came);
        assert_eq!((fed.good, fed.bad, lines.kept()), (1, 1, 0));
        assert_eq!(feed(&mut lines, &data[..72], &mut came).good, 1, "the next write begins with a new record");
    }

    proptest! {
        /// The frames do not depend on how they are split into writes.
        #[test]
        fn frames_do_not_depend_on_write_sizes(
            frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 14..300), any::<u16>()), 1..8),
            cuts in prop::collection::vec(1..400_usize, 1..12),
            binary: bool,
        ) {
            let mut data = Vec::new();
            let mut expected: Came = Vec::new();
            for (bytes, ticks) in &frames {
                let stamp = Stamp::at(2, false, u64::from(*ticks));
                if binary {
                    bpkt::emit(Form::V2, bytes, Some(stamp), &mut data);
                } else {
                    let mut line = vec![0; text::MAX_LINE];
                    let len = text::encode(bytes, Some(stamp), &mut line).unwrap();
                    data.extend_from_slice(&line[..len]);
                }
                expected.push((bytes.clone(), Time::Stamp(stamp)));
            }
            let mut lines = Lines::new(if binary { Kind::Binary } else { Kind::Text });
            let (mut came, mut rest) = (Vec::new(), &data[..]);
            for cut in cuts {
                let (front, back) = rest.split_at(cut.min(rest.len()));
                prop_assert_eq!(feed(&mut lines, front, &mut came).bad, 0);
                rest = back;
            }
            prop_assert_eq!(feed(&mut lines, rest, &mut came).bad, 0);
            prop_assert_eq!(lines.kept(), 0);
            prop_assert_eq!(came, expected);
        }

        #[test]
        fn parsing_any_bytes_does_not_panic(writes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6), binary: bool) {
            let mut lines = Lines::new(if binary { Kind::Binary } else { Kind::Text });
            for data in writes {
                feed(&mut lines, &data, &mut Vec::new());
            }
            lines.end(|_| ());
            prop_assert_eq!(lines.kept(), 0);
        }
    }
}
