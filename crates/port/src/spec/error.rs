//! Errors in a port name, and their messages.

use super::{Kind, OptionInfo};
use grammar::nearest;
use std::fmt;

/// Reasons why a text is not a valid port name. Positions are byte offsets into the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpecError {
    /// The text is longer than [`super::MAX_LEN`].
    TooLong {
        /// Length of the text in bytes.
        len: usize,
    },
    /// There are more than [`super::MAX_WRAPPERS`] wrappers.
    TooDeep {
        /// Position of the first excess wrapper.
        at: usize,
    },
    /// The kind of a port is missing.
    NoKind {
        /// Position in bytes where the kind of the port was expected.
        at: usize,
    },
    /// There is no kind with this name.
    UnknownKind {
        /// The word found in the text.
        found: String,
        /// The most similar kind, if any.
        nearest: Option<&'static str>,
        /// Position of the word.
        at: usize,
    },
    /// The kind has no option with this name.
    UnknownOption {
        /// Kind of the port or wrapper.
        kind: Kind,
        /// The word found in the text.
        found: String,
        /// The most similar option, if any.
        nearest: Option<&'static str>,
        /// Position of the word.
        at: usize,
    },
    /// An option has no `=value`.
    NoValue {
        /// Kind of the port or wrapper.
        kind: Kind,
        /// The text found where an option was expected.
        found: String,
        /// Position of that text.
        at: usize,
    },
    /// A value does not have the form that the option requires.
    BadValue {
        /// Kind of the port or wrapper.
        kind: Kind,
        /// Option that has this value.
        option: &'static OptionInfo,
        /// Text of the rejected value.
        found: String,
        /// Position of the value.
        at: usize,
    },
    /// An option is given twice.
    GivenTwice {
        /// Kind of the port or wrapper.
        kind: Kind,
        /// Name of the option.
        option: &'static str,
        /// Position of the second occurrence.
        at: usize,
    },
    /// A required option is missing.
    MissingOption {
        /// Kind of the port or wrapper.
        kind: Kind,
        /// Name of the option.
        option: &'static str,
    },
    /// A parenthesis or quote has no counterpart.
    Unbalanced {
        /// Position of the parenthesis or quote.
        at: usize,
        /// The parenthesis or quote.
        found: &'static str,
    },
    /// The colon after a kind is missing.
    NoColon {
        /// Kind of the port or wrapper.
        kind: Kind,
        /// Position where the colon was expected.
        at: usize,
    },
    /// The kind does not allow this name.
    BadName {
        /// Kind of the port.
        kind: Kind,
        /// Text of the rejected name.
        found: String,
        /// Description of the allowed names.
        expected: &'static str,
    },
}

impl SpecError {
    pub(super) fn unknown_kind(found: &str, at: usize) -> SpecError {
        let names = Kind::ALL.iter().map(|kind| kind.info().name);
        SpecError::UnknownKind { found: found.to_string(), nearest: nearest(found, names), at }
    }

    pub(super) fn unknown_option(kind: Kind, found: &str, at: usize) -> SpecError {
        let names = kind.info().options.iter().map(|option| option.name);
        SpecError::UnknownOption { kind, found: found.to_string(), nearest: nearest(found, names), at }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::TooLong { len } => {
                write!(f, "port name has {len} bytes: at most {} are allowed", super::MAX_LEN)
            }
            SpecError::TooDeep { at } => write!(f, "at byte {at}: more than {} wrappers", super::MAX_WRAPPERS),
            SpecError::NoKind { at } => write!(f, "at byte {at}: expected a kind of port: {}", kinds(", ")),
            SpecError::UnknownKind { found, nearest, at } => {
                write!(f, "at byte {at}: unknown kind '{found}'{}; kinds: {}", Did(nearest), kinds(", "))
            }
            SpecError::UnknownOption { kind, found, nearest, at } => {
                write!(f, "at byte {at}: {kind} has no option '{found}'{}; ", Did(nearest))?;
                let names: Vec<_> = kind.info().options.iter().map(|option| option.name).collect();
                if names.is_empty() { f.write_str("it has none") } else { write!(f, "options: {}", names.join(", ")) }
            }
            SpecError::NoValue { kind, found, at } => {
                write!(f, "at byte {at}: expected option=value for {kind}, found '{found}'")
            }
            SpecError::BadValue { kind, option, found, at } => {
                write!(f, "at byte {at}: {kind} {}='{found}': expected {}", option.name, option.form)
            }
            SpecError::GivenTwice { kind, option, at } => write!(f, "at byte {at}: {kind} {option} is given twice"),
            SpecError::MissingOption { kind, option } => write!(f, "{kind} requires {option}=..."),
            SpecError::Unbalanced { at, found } => write!(f, "at byte {at}: unbalanced '{found}'"),
            SpecError::NoColon { kind, at } => write!(f, "at byte {at}: expected ':' after {kind}, as in {kind}:NAME"),
            SpecError::BadName { kind, found, expected } => {
                write!(f, "{kind} cannot be named '{}': expected {expected}", found.escape_debug())
            }
        }
    }
}

impl std::error::Error for SpecError {}

fn kinds(between: &str) -> String {
    Kind::ALL.map(|kind| kind.info().name).join(between)
}

struct Did<'a>(&'a Option<&'static str>);

impl fmt::Display for Did<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |nearest| write!(f, " (did you mean '{nearest}'?)"))
    }
}
