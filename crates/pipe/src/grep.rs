//! Selects matching lines or frames, as grep(1) does. A fast path compares only the header columns
//! of a line, that is, destination, source and type.
//!
//! ```text
//! patterns --syntax--> regex            any line, as in grep
//!                  \-> Columns          words of three or more digits: they can match only in the
//!                                       header of a line, so 30 characters decide for a line in
//!                                       standard form; other lines go to the regex
//! ```
//!
//! Blocks of text are searched without decoding the lines. Frames in other formats, or from an
//! earlier command of the same pipeline, are first encoded as a line, which is then matched.

mod any_field;
mod columns;
mod fields;
mod front;
mod lines;
mod syntax;
#[cfg(test)]
mod tests;

pub use fields::{BadTerm, Terms};
pub use front::Front;
pub use lines::{Found, Lines, Selection, Shown};
pub use syntax::{BadPattern, Syntax};

use crate::stage::{BadLink, Stage, StageError};
use crate::{FrameMut, Frames};
use aho_corasick::{AhoCorasick, MatchKind};
use columns::Columns;
use regex::bytes::{Regex, RegexBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::filter::Filter;
use wire::text::{self, Kind, MAX_LINE, MIN_FRAME, SLACK};

/// Search patterns and options.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Patterns. A line that matches any of them is selected. A string may contain several
    /// patterns, one per line.
    pub patterns: Vec<String>,
    /// Syntax of the patterns.
    pub syntax: Syntax,
    /// True to ignore the difference between upper and lower case.
    pub ignore_case: bool,
    /// True to match whole words only.
    pub words: bool,
    /// True to match whole lines only.
    pub whole_lines: bool,
    /// True to ignore the blanks between the words of a line, so that a pattern can match anywhere
    /// in the frame.
    pub any_field: bool,
}

/// Decides whether lines match.
#[derive(Debug, Clone)]
pub struct Matcher {
    columns: Option<Columns>,
    plain: FixedPattern,
}

/// Matcher for all lines, including those to which the fast path does not apply.
#[derive(Debug, Clone)]
enum FixedPattern {
    Words(AhoCorasick),
    Regex(Regex),
}

/// Minimum number of fixed strings for which an Aho-Corasick automaton is used instead of a regular
/// expression.
const MANY: usize = 16;

impl Matcher {
    /// Compiles patterns.
    ///
    /// # Errors
    /// A pattern that does not parse, with the position of the error, or one that needs too much
    /// memory.
    pub fn new(wanted: &Wanted) -> Result<Matcher, BadPattern> {
        let mut patterns: Vec<String> =
            wanted.patterns.iter().flat_map(|text| text.split('\n')).map(str::to_owned).collect();
        if wanted.any_field {
            patterns = patterns.iter().map(|pattern| any_field::spread(pattern, wanted.syntax)).collect();
        }
        let syntax = if wanted.any_field { Syntax::Extended } else { wanted.syntax };
        let plain = !wanted.ignore_case && !wanted.words && !wanted.whole_lines;
        let columns = if plain && !wanted.any_field { Columns::new(&patterns, syntax) } else { None };
        let fixed =
            syntax == Syntax::Fixed && plain && patterns.len() >= MANY && patterns.iter().all(|p| !p.is_empty());
        if fixed {
            let words = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns);
            let words = words.map_err(|error| BadPattern::whole(error.to_string()))?;
            return Ok(Matcher { columns, plain: FixedPattern::Words(words) });
        }
        let parts: Result<Vec<String>, BadPattern> =
            patterns.iter().map(|pattern| syntax::translate(pattern, syntax)).collect();
        let mut regex = parts?.iter().map(|part| format!("(?:{part})")).collect::<Vec<_>>().join("|");
        if wanted.words {
            regex = format!(r"\b{{start-half}}(?:{regex})\b{{end-half}}");
        }
        if wanted.whole_lines {
            regex = format!("^(?:{regex})$");
        }
        let built = RegexBuilder::new(&regex)
            .unicode(false)
            .multi_line(true)
            .case_insensitive(wanted.ignore_case)
            .size_limit(64 << 20)
            .build();
        let regex = built.map_err(|error| BadPattern::whole(syntax::message_of(&error)))?;
        Ok(Matcher { columns, plain: FixedPattern::Regex(regex) })
    }

    /// Returns whether the patterns allow the fast path, which needs only the header of a line in
    /// standard form.
    pub fn has_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// Returns the start and end of the first match in `text` that begins at or after `from`. A
    /// match never spans several lines.
    fn find(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        match &self.plain {
            FixedPattern::Regex(regex) => regex.find_at(text, from).map(|found| (found.start(), found.end())),
            FixedPattern::Words(words) => {
                let found = words.find(aho_corasick::Input::new(text).range(from..))?;
                Some((found.start(), found.end()))
            }
        }
    }

    /// Returns whether `line`, without its newline, matches.
    pub fn is_match(&self, line: &[u8]) -> bool {
        self.find(line, 0).is_some()
    }
}

/// Returns the number of lines in `block`.
pub fn count_lines(block: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', block).count() as u64
}

/// Selection criterion for frames of any format.
#[derive(Debug, Clone)]
pub enum Judge {
    /// Matches the frame's line.
    Line(Arc<Matcher>),
    /// Lists of terms. A frame is selected if its fields fulfill all terms of at least one list.
    Fields(Arc<Vec<Terms>>),
    /// A filter expression in the syntax of tcpdump(1).
    Filter(Arc<Filter>),
}

/// Stage that keeps the frames that a [`Judge`] selects.
#[derive(Debug)]
pub struct Grep {
    judge: Judge,
    invert: bool,
    line: Vec<u8>,
    kind: Kind,
    /// Number of frames selected by all copies of the stage together. `most` is its maximum.
    selected: Arc<AtomicU64>,
    most: Option<u64>,
}

impl Grep {
    /// Creates a stage that keeps the frames that `judge` selects or, with `invert`, the frames
    /// that it does not select. At most `most` frames are kept.
    pub fn new(judge: Judge, invert: bool, most: Option<u64>) -> Grep {
        let line = vec![0; MAX_LINE + SLACK];
        Grep { judge, invert, line, kind: Kind::best(), selected: Arc::default(), most }
    }

    /// Returns the shared counter of selected frames, which is complete after the last batch.
    pub fn selected(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.selected)
    }

    #[inline]
    fn wants(&mut self, frame: &FrameMut<'_>) -> bool {
        let found = match &self.judge {
            Judge::Filter(filter) => {
                filter.matches_captured(frame.bytes(), frame.about().cut as usize + frame.bytes().len())
            }
            Judge::Fields(any) => {
                let wire_len = frame.about().wire_len(frame.bytes().len());
                any.iter().any(|terms| terms.matches(frame.bytes(), wire_len))
            }
            Judge::Line(matcher) => {
                let stamp = if let crate::Time::Stamp(stamp) = frame.time() { Some(stamp) } else { None };
                let bytes = match (frame.bytes(), stamp) {
                    // Only the header is compared, so the rest of the frame is not encoded.
                    (bytes, None) if matcher.has_columns() => bytes.get(..MIN_FRAME).unwrap_or(bytes),
                    (bytes, _) => bytes,
                };
                let len = text::encode_with(self.kind, bytes, stamp, &mut self.line).unwrap_or(0);
                let line = self.line.get(..len).unwrap_or_default();
                lines::matches(matcher, self.kind, line)
            }
        };
        found != self.invert
    }
}

impl Stage for Grep {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        if matches!(self.judge, Judge::Line(_)) {
            BadLink::check(frames, "matched as a line: use -f, or terms such as 'ip.src=10.0.0.1'")
                .map_err(StageError::LinkType)?;
        }
        let mut left = match self.most {
            None => u64::MAX,
            Some(most) => most.saturating_sub(self.selected.load(Relaxed)),
        };
        let before = left;
        frames.retain(|frame| {
            let keep = left > 0 && self.wants(frame);
            left -= u64::from(keep);
            keep
        });
        self.selected.fetch_add(before - left, Relaxed);
        Ok(())
    }

    fn front(&self) -> Option<Front> {
        match &self.judge {
            Judge::Line(matcher) if self.most.is_none() => {
                Some(Front::new(Arc::clone(matcher), self.invert, Arc::clone(&self.selected)))
            }
            _ => None,
        }
    }

    fn fork(&self) -> Option<Box<dyn Stage>> {
        // A maximum selects the first frames in order, so it requires a single thread.
        if self.most.is_some() {
            return None;
        }
        let (judge, selected) = (self.judge.clone(), Arc::clone(&self.selected));
        let line = vec![0; MAX_LINE + SLACK];
        Some(Box::new(Grep { judge, invert: self.invert, line, kind: self.kind, selected, most: None }))
    }
}
