//! Why a command was not done.

use port::spec::nearest;
use std::fmt;

/// More words than this are not listed in a message.
const POSSIBLE_MAX: usize = 20;

/// Why a command was not done, and what would have been right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WordError {
    /// A word that means nothing here.
    Unknown {
        /// What was expected: "word", "knob".
        what: &'static str,
        /// The word.
        found: String,
        /// What was probably meant.
        nearest: Option<String>,
        /// What there is; empty where there is too much.
        possible: Vec<String>,
    },
    /// A value that cannot be.
    BadValue {
        /// Of what.
        what: String,
        /// The value.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The command ends too early.
    Missing {
        /// What was expected.
        expected: String,
    },
    /// The command goes on where it should end.
    TooMuch {
        /// The first word too many.
        found: String,
    },
    /// Understood, but it could not be done.
    Failed(String),
}

impl WordError {
    /// `found` is not one of `names`.
    pub(crate) fn unknown<'a>(what: &'static str, found: &str, names: impl Iterator<Item = &'a str>) -> WordError {
        let names: Vec<&str> = names.collect();
        WordError::Unknown {
            what,
            found: shown(found),
            nearest: nearest(found, names.iter().copied()).map(str::to_string),
            possible: if names.len() <= POSSIBLE_MAX {
                names.iter().map(|name| name.to_string()).collect()
            } else {
                Vec::new()
            },
        }
    }

    pub(crate) fn bad(what: &str, found: &str, expected: impl Into<String>) -> WordError {
        WordError::BadValue { what: what.to_string(), found: shown(found), expected: expected.into() }
    }

    pub(crate) fn missing(expected: impl Into<String>) -> WordError {
        WordError::Missing { expected: expected.into() }
    }

    pub(crate) fn failed(why: impl fmt::Display) -> WordError {
        WordError::Failed(why.to_string())
    }
}

/// A stranger's word, fit for a message: short, and without what a terminal would obey.
fn shown(word: &str) -> String {
    let mut out: String = word.chars().take(64).flat_map(char::escape_debug).collect();
    if word.chars().nth(64).is_some() {
        out.push_str("...");
    }
    out
}

impl fmt::Display for WordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WordError::Unknown { what, found, nearest, possible } => {
                write!(f, "unknown {what} '{found}'")?;
                if let Some(nearest) = nearest {
                    write!(f, " (did you mean '{nearest}'?)")?;
                }
                if possible.is_empty() { Ok(()) } else { write!(f, "; possible: {}", possible.join(", ")) }
            }
            WordError::BadValue { what, found, expected } => write!(f, "{what} '{found}': expected {expected}"),
            WordError::Missing { expected } => write!(f, "something is missing: expected {expected}"),
            WordError::TooMuch { found } => write!(f, "'{found}' is one word too many"),
            WordError::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for WordError {}
