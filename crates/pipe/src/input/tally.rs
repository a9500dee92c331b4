//! Counts of the lines that were read, and the errors of lines that are not frames.

use super::error::BadInput;
use wire::text::BadLine;

/// Maximum number of bad lines whose errors are stored.
const TOLD: usize = 10;

/// Counts of the lines that were read, and of those that are not frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of lines or records read.
    pub lines: u64,
    /// Number of lines or records that are not frames.
    pub bad: u64,
    /// Line number and error of the first ten lines or records that are not frames.
    pub reported: Vec<(u64, Warned)>,
    /// Number of frames before the first bad line, in the batch that contains this line.
    pub good: usize,
}

/// Error in a line or record that is not a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warned {
    /// Error in a line of hexadecimal digits.
    Line(BadLine),
    /// Error in a line of JSON.
    Json(String),
    /// Error in a record of a capture.
    Record(String),
}

impl std::fmt::Display for Warned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warned::Line(bad) => bad.fmt(f),
            Warned::Json(why) | Warned::Record(why) => f.write_str(why),
        }
    }
}

impl Tally {
    /// Adds the counts `behind` of lines that follow the lines counted so far.
    pub fn append(&mut self, behind: &Tally) {
        for (line, bad) in behind.reported.iter().take(TOLD.saturating_sub(self.reported.len())) {
            self.reported.push((self.lines + line, bad.clone()));
        }
        self.lines += behind.lines;
        self.bad += behind.bad;
    }

    /// Counts the current line as bad, with the error `why`; `good` frames precede it in its batch.
    pub(super) fn warn(&mut self, why: Warned, good: usize) {
        if self.bad == 0 {
            self.good = good;
        }
        self.bad += 1;
        if self.reported.len() < TOLD {
            self.reported.push((self.lines, why));
        }
    }

    /// Returns the error of the first bad line; `None` if no line was bad.
    pub fn first_bad(&self) -> Option<BadInput> {
        let (line, why) = self.reported.first()?;
        Some(match why {
            Warned::Line(why) => BadInput::Line { line: *line, why: *why },
            Warned::Json(why) | Warned::Record(why) => BadInput::Json { line: *line, why: why.clone() },
        })
    }
}
