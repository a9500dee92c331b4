//! Errors of scripts.

use std::fmt;

/// Error in a script, or in the behavior of our host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PktError {
    /// File name; empty if the script was not read from a file.
    pub file: String,
    /// Line number, from 1; 0 if the error concerns the whole file.
    pub line: usize,
    /// Description; expected and actual values are on separate lines.
    pub what: String,
    /// True if the script was parsed and then failed while running.
    pub ran: bool,
}

impl PktError {
    pub(crate) fn at(line: usize, what: String) -> PktError {
        PktError { file: String::new(), line, what, ran: false }
    }

    pub(crate) fn ran(line: usize, what: String) -> PktError {
        PktError { ran: true, ..PktError::at(line, what) }
    }

    /// Returns the file and the line, as `FILE:LINE`, or the file alone.
    pub fn place(&self) -> String {
        let PktError { file, line, .. } = self;
        if *line == 0 { file.clone() } else { format!("{file}:{line}") }
    }
}

impl fmt::Display for PktError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.what)
    }
}

impl std::error::Error for PktError {}
