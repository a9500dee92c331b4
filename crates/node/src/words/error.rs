//! Errors of commands.

use port::spec::nearest;
use std::fmt;

/// A message lists the valid words only if there are no more than this.
const POSSIBLE_MAX: usize = 20;

/// Reason why a command failed, and the expected form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WordError {
    /// A word that is not valid here.
    Unknown {
        /// Kind of word expected: "word", "knob".
        what: &'static str,
        /// Word that was found.
        found: String,
        /// Most similar valid word.
        nearest: Option<String>,
        /// Valid words; empty if there are too many.
        possible: Vec<String>,
    },
    /// A value that is not valid.
    BadValue {
        /// Name of the parameter.
        what: String,
        /// Value that was found.
        found: String,
        /// Form of a valid value.
        expected: String,
    },
    /// The command is incomplete.
    Missing {
        /// Expected next word.
        expected: String,
    },
    /// The command has extra words.
    TooMuch {
        /// First extra word.
        found: String,
    },
    /// A valid command that could not be carried out.
    Failed(String),
}

impl WordError {
    /// Returns the error for a word `found` that is not one of `names`.
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

/// Returns a user's word in a safe form for messages: short, and with control characters escaped.
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
