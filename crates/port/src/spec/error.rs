//! What can be wrong with a spec, and what to say about it.

use super::{Kind, OptionInfo, nearest};
use std::fmt;

/// Why a text is not a port's name. Positions are byte offsets into the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpecError {
    /// Longer than [`super::MAX_LEN`].
    TooLong {
        /// Its length.
        len: usize,
    },
    /// More than [`super::MAX_WRAPPERS`] wrappers.
    TooDeep {
        /// Where the first too many stands.
        at: usize,
    },
    /// A kind was expected and nothing stands there.
    NoKind {
        /// Where.
        at: usize,
    },
    /// No kind of that name.
    UnknownKind {
        /// The word.
        found: String,
        /// The kind that is most like it, if any is.
        nearest: Option<&'static str>,
        /// Where.
        at: usize,
    },
    /// The kind has no option of that name.
    UnknownOption {
        /// The kind.
        kind: Kind,
        /// The word.
        found: String,
        /// The option that is most like it, if any is.
        nearest: Option<&'static str>,
        /// Where.
        at: usize,
    },
    /// An option without `=value`.
    NoValue {
        /// The kind.
        kind: Kind,
        /// What stands in the option's place.
        found: String,
        /// Where.
        at: usize,
    },
    /// A value that is not of the option's form.
    BadValue {
        /// The kind.
        kind: Kind,
        /// The option.
        option: &'static OptionInfo,
        /// The text.
        found: String,
        /// Where.
        at: usize,
    },
    /// An option given twice.
    GivenTwice {
        /// The kind.
        kind: Kind,
        /// The option.
        option: &'static str,
        /// Where the second one stands.
        at: usize,
    },
    /// An option that must be given was not.
    MissingOption {
        /// The kind.
        kind: Kind,
        /// The option.
        option: &'static str,
    },
    /// A bracket or quote without its partner.
    Unbalanced {
        /// Where it stands.
        at: usize,
        /// Which it is.
        found: &'static str,
    },
    /// A kind, with or without options, must be followed by a colon.
    NoColon {
        /// The kind.
        kind: Kind,
        /// Where the colon should be.
        at: usize,
    },
    /// The kind cannot have this name.
    BadName {
        /// The kind.
        kind: Kind,
        /// The name.
        found: String,
        /// What names it takes.
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
                write!(f, "a port's name may have {} bytes; this one has {len}", super::MAX_LEN)
            }
            SpecError::TooDeep { at } => write!(f, "at {at}: more than {} wrappers", super::MAX_WRAPPERS),
            SpecError::NoKind { at } => write!(f, "at {at}: expected a kind of port: {}", kinds(", ")),
            SpecError::UnknownKind { found, nearest, at } => {
                write!(f, "at {at}: unknown kind '{found}'{}; kinds: {}", Did(nearest), kinds(", "))
            }
            SpecError::UnknownOption { kind, found, nearest, at } => {
                write!(f, "at {at}: {kind} has no option '{found}'{}; ", Did(nearest))?;
                let names: Vec<_> = kind.info().options.iter().map(|option| option.name).collect();
                if names.is_empty() { f.write_str("it has none") } else { write!(f, "options: {}", names.join(", ")) }
            }
            SpecError::NoValue { kind, found, at } => {
                write!(f, "at {at}: expected option=value for {kind}, found '{found}'")
            }
            SpecError::BadValue { kind, option, found, at } => {
                write!(f, "at {at}: {kind} {}='{found}': expected {}", option.name, option.form)
            }
            SpecError::GivenTwice { kind, option, at } => write!(f, "at {at}: {kind} {option} is given twice"),
            SpecError::MissingOption { kind, option } => write!(f, "{kind} needs {option}=..."),
            SpecError::Unbalanced { at, found } => write!(f, "at {at}: '{found}' without its partner"),
            SpecError::NoColon { kind, at } => write!(f, "at {at}: expected ':' after {kind}, as in {kind}:NAME"),
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
