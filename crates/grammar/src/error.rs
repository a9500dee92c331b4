//! Errors of commands.

use crate::nearest;
use std::fmt;

/// Maximum number of valid words that a message lists.
const POSSIBLE_MAX: usize = 20;

/// Reason why a command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// A word is not one of the valid words.
    Unknown {
        /// Kind of word that was expected: "word" or "sysctl", for example.
        what: &'static str,
        /// Word that was found.
        found: String,
        /// Most similar valid word; `None` if none is similar.
        nearest: Option<String>,
        /// Valid words; empty if there are too many to list.
        possible: Vec<String>,
    },
    /// The value of a parameter is not valid.
    BadValue {
        /// Name of the parameter.
        what: String,
        /// Value that was found.
        found: String,
        /// Description of a valid value.
        expected: String,
    },
    /// The command ends too early.
    Missing {
        /// Description of the word that must follow.
        expected: String,
        /// Last word of the command, after which the expected word must follow; `None` if the
        /// command is empty.
        after: Option<String>,
    },
    /// The command has words after its end.
    TooMuch {
        /// First extra word.
        found: String,
    },
    /// The command is valid but could not be carried out; contains the reason.
    Failed(String),
}

impl CommandError {
    /// Returns the error for a word `found` that is not one of `names`.
    pub fn unknown<'a>(what: &'static str, found: &str, names: impl Iterator<Item = &'a str>) -> CommandError {
        let names: Vec<&str> = names.collect();
        CommandError::Unknown {
            what,
            found: shown(found),
            nearest: similar(found, &names),
            possible: if names.len() <= POSSIBLE_MAX {
                names.iter().map(|name| name.to_string()).collect()
            } else {
                Vec::new()
            },
        }
    }

    /// Returns the error for the value `found` of the parameter `what`.
    pub fn bad(what: &str, found: &str, expected: impl Into<String>) -> CommandError {
        CommandError::BadValue { what: what.to_string(), found: shown(found), expected: expected.into() }
    }

    /// Returns the error for a command that ends before the word described by `expected`.
    pub fn missing(expected: impl Into<String>) -> CommandError {
        CommandError::Missing { expected: expected.into(), after: None }
    }

    /// Returns the error for an extra word.
    pub fn too_much(found: &str) -> CommandError {
        CommandError::TooMuch { found: shown(found) }
    }

    /// Returns the error for a command that could not be carried out.
    pub fn failed(why: impl fmt::Display) -> CommandError {
        CommandError::Failed(why.to_string())
    }
}

/// Returns the name most similar to `word`, if one is similar. A name `[-]x` stands for `x` and
/// `-x`.
pub(crate) fn similar(word: &str, names: &[&str]) -> Option<String> {
    let each = |name: &&str| match name.strip_prefix("[-]") {
        Some(bare) => vec![bare.to_string(), format!("-{bare}")],
        None => vec![name.to_string()],
    };
    let all: Vec<String> = names.iter().flat_map(each).collect();
    nearest(word, all.iter().map(String::as_str)).map(str::to_string)
}

/// Returns a user's word for use in messages: shortened, and with control characters escaped.
pub(crate) fn shown(word: &str) -> String {
    let mut out: String = word.chars().take(64).flat_map(char::escape_debug).collect();
    if word.chars().nth(64).is_some() {
        out.push_str("...");
    }
    out
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Unknown { what, found, nearest, possible } => {
                write!(f, "unknown {what} '{found}'")?;
                if let Some(nearest) = nearest {
                    write!(f, " (did you mean '{nearest}'?)")?;
                }
                if possible.is_empty() { Ok(()) } else { write!(f, "; possible: {}", possible.join(", ")) }
            }
            CommandError::BadValue { what, found, expected } => write!(f, "{what} '{found}': expected {expected}"),
            CommandError::Missing { expected, after: None } => write!(f, "expected {expected}"),
            CommandError::Missing { expected, after: Some(after) } => write!(f, "expected {expected} after '{after}'"),
            CommandError::TooMuch { found } => write!(f, "unexpected word '{found}'"),
            CommandError::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for CommandError {}
