//! `grep` as the first command of a pipeline. It is applied to lines before they are decoded.
//!
//! A pipeline behaves like the same commands connected by pipes. grep receives the lines as they
//! arrived, and later commands receive only the selected lines, whether or not these are frames.

use super::lines;
use super::matcher::Matcher;
use crate::Frames;
use crate::input::{Tally, decode_line};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::text::{self, Kind, MAX_READ};

/// Filter on lines of text. Only the selected lines are decoded to frames.
#[derive(Debug, Clone)]
pub struct Front {
    matcher: Arc<Matcher>,
    invert: bool,
    kind: Kind,
    selected: Arc<AtomicU64>,
}

impl Front {
    /// Creates a filter that selects the lines that `matcher` matches or, with `invert`, the lines
    /// that it does not match. Selected lines are counted in `selected`.
    pub(super) fn new(matcher: Arc<Matcher>, invert: bool, selected: Arc<AtomicU64>) -> Front {
        Front { matcher, invert, kind: Kind::best(), selected }
    }

    /// Decodes the selected lines at the start of `text`, until `frames` is full or the next line
    /// is incomplete. Returns the number of bytes of all lines consumed.
    pub(crate) fn decode(&self, text: &[u8], frames: &mut Frames, tally: &mut Tally) -> usize {
        let (mut from, mut selected) = (0, 0);
        while let Some(rest) = text.get(from..)
            && !rest.is_empty()
            && !frames.is_full()
        {
            let used = match self.by_columns(rest, frames, tally, &mut selected) {
                0 => self.one(rest, frames, tally, &mut selected),
                used => used,
            };
            if used == 0 {
                break;
            }
            from += used;
        }
        self.selected.fetch_add(selected, Relaxed);
        from
    }

    /// Processes lines in standard form with the fast path, up to the first line in another form.
    /// Returns the number of bytes consumed.
    #[inline]
    fn by_columns(&self, text: &[u8], frames: &mut Frames, tally: &mut Tally, selected: &mut u64) -> usize {
        let Some(columns) = &self.matcher.columns else { return 0 };
        text::each_line(self.kind, text, |at, len, header| {
            if frames.is_full() {
                return false;
            }
            if columns.matches(header) == self.invert {
                tally.lines += 1;
                return true;
            }
            *selected += 1;
            decode_line(self.kind, text.get(at..at + len).unwrap_or_default(), frames, tally);
            true
        })
    }

    /// Processes one line of any form. Returns the number of bytes consumed, or 0 if the line is
    /// incomplete.
    fn one(&self, text: &[u8], frames: &mut Frames, tally: &mut Tally, selected: &mut u64) -> usize {
        let Some(end) = memchr::memchr(b'\n', text) else {
            // After `MAX_READ` bytes without a newline, the line is too long for a frame, wherever
            // it ends.
            return if text.len() > MAX_READ { decode_line(self.kind, text, frames, tally) } else { 0 };
        };
        let line = text.get(..=end).unwrap_or(text);
        if lines::matches(&self.matcher, self.kind, line) == self.invert {
            tally.lines += 1;
            return line.len();
        }
        *selected += 1;
        decode_line(self.kind, line, frames, tally);
        line.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grep::{Grep, Judge, Syntax, Wanted};
    use crate::stage::Stage;
    use crate::{Format, Input};
    use proptest::prelude::*;

    fn word(of: &'static str, len: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = String> + Clone {
        let of: Vec<char> = of.chars().collect();
        prop::collection::vec(prop::sample::select(of), len).prop_map(String::from_iter)
    }

    fn line() -> impl Strategy<Value = String> {
        let pairs = prop::collection::vec(word("0123456789ABCDEF", 2), 0..30);
        let frame = (word("012", 12), word("012", 12), word("08", 4), pairs)
            .prop_map(|(dst, src, kind, rest)| [vec![dst, src, kind], rest].concat().join(" "));
        prop_oneof![
            8 => frame.clone(),
            1 => frame.clone().prop_map(|line| line.to_lowercase()),
            1 => frame.clone().prop_map(|line| format!("0000000000000111 {line}")),
            1 => frame.clone().prop_map(|line| line.replace(' ', "  ")),
            1 => frame.prop_map(|line| line.replacen('0', "g", 1)),
            1 => word(" 01g", 0..40),
        ]
    }

    /// Generates patterns to which the fast path by columns applies, and others.
    fn pattern() -> impl Strategy<Value = String> {
        let wildcard = (word("012", 3), word("012", 3)).prop_map(|(front, behind)| format!("{front}.*{behind}"));
        prop_oneof![word("012", 2..4), word("012", 12), wildcard]
    }

    proptest! {
        /// A pipeline gives the same result as two commands connected by a pipe.
        #[test]
        fn selected_lines_match_a_separate_grep(
            lines in prop::collection::vec(line(), 0..40),
            pattern in pattern(),
            invert: bool,
        ) {
            let wanted = Wanted { patterns: vec![pattern], syntax: Syntax::Extended, ..Wanted::default() };
            let matcher = Arc::new(Matcher::new(&wanted).unwrap());
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let passed: String =
                lines.iter().filter(|line| matcher.is_match(line.as_bytes()) != invert).map(|line| format!("{line}\n")).collect();
            let grep = Grep::new(Judge::Line(matcher), invert, None);
            let read = |text: String, front: Option<Front>| {
                let mut input = Input::new(std::io::Cursor::new(text), Some(Format::Text), false);
                front.into_iter().for_each(|front| input.select(front));
                let mut frames = Frames::new();
                while input.read(&mut frames).unwrap() {}
                let list: Vec<_> = frames.iter().map(|(bytes, time)| (bytes.to_vec(), time)).collect();
                (list, input.tally().bad, input.tally().lines)
            };
            let (got, bad, seen) = read(text, grep.front());
            let (expected, expected_bad, _) = read(passed.clone(), None);
            prop_assert_eq!(got, expected);
            prop_assert_eq!((bad, seen), (expected_bad, lines.len() as u64));
            prop_assert_eq!(grep.selected().load(Relaxed), passed.lines().count() as u64);
        }
    }

    #[test]
    fn a_line_without_end_is_one_bad_line() {
        let matcher =
            Arc::new(Matcher::new(&Wanted { patterns: vec!["001111111111".into()], ..Wanted::default() }).unwrap());
        let good = format!("001111111111 {} 0800\n", "2".repeat(12));
        let text = format!("{good}{}\n{good}", "1".repeat(MAX_READ * 5));
        let mut input = Input::new(std::io::Cursor::new(text), Some(Format::Text), false);
        input.select(Grep::new(Judge::Line(matcher), false, None).front().unwrap());
        let mut frames = Frames::new();
        while input.read(&mut frames).unwrap() {}
        assert_eq!((frames.len(), input.tally().lines, input.tally().bad), (2, 3, 1));
    }
}
