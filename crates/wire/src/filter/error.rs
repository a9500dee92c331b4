//! Reason and position of a rejected expression.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::{error, fmt};

/// Error of an expression that does not compile: the position at which parsing stopped, and what
/// the parser expected at this position.
///
/// `Display` prints the reason, the expression, and a caret below the position, on three lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterError {
    text: String,
    at: usize,
    why: String,
}

impl FilterError {
    pub(super) fn new(text: &str, at: usize, why: String) -> FilterError {
        FilterError { text: text.to_owned(), at: at.min(text.len()), why }
    }

    /// Returns the byte offset of the error in the expression. If the expression ends too early,
    /// this is its length.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the reason, without the text of the expression and the caret.
    pub fn reason(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // A format width is limited to 16 bits, so the blanks are built as a string.
        let blanks = " ".repeat(self.text.char_indices().take_while(|(at, _)| *at < self.at).count());
        write!(f, "{}\n  {line}\n  {blanks}^", self.why)
    }
}

impl error::Error for FilterError {}

/// Reason and position of an error, before the text of the expression is added.
#[derive(Debug)]
pub(super) struct Refusal {
    pub at: usize,
    pub why: String,
}

impl Refusal {
    pub fn new(at: usize, why: impl Into<String>) -> Refusal {
        Refusal { at, why: why.into() }
    }
}
