//! Why an expression was refused, and where.

use std::{error, fmt};

/// An expression that does not compile: where reading stopped, and what was expected there.
///
/// `Display` gives the reason, the expression and a caret below the place, on three lines.
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

    /// The byte of the expression at which the trouble begins; its length when the end came too early.
    pub fn position(&self) -> usize {
        self.at
    }

    /// What was expected, without the expression.
    pub fn reason(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // A width of a format has 16 bits: blanks have as many as there are.
        let blanks = " ".repeat(self.text.char_indices().take_while(|(at, _)| *at < self.at).count());
        write!(f, "{}\n  {line}\n  {blanks}^", self.why)
    }
}

impl error::Error for FilterError {}

/// A reason at a place, before the whole text is put to it.
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
