//! Values of keys: as the user wrote them, and as a key accepts them.

use super::Takes::Number;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Value of a key as the user wrote it, not yet converted to the type of the key.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// A word from the command line, which each key parses as its own type.
    Word(String),
    /// A string from a file.
    Text(String),
    /// An integer from a file.
    Number(i64),
    /// A boolean from a file.
    Bool(bool),
    /// A list from a file.
    List(Vec<Item>),
    /// A value of another TOML type, with the name of that type. No key accepts it.
    Other(&'static str),
}

impl Item {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Item::Word(text) | Item::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Item::Number(n) => Some(*n),
            Item::Word(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the value as text for an error message, at most 80 characters.
    pub fn shown(&self) -> String {
        let text = match self {
            Item::Word(text) | Item::Text(text) => format!("'{text}'"),
            Item::Number(n) => n.to_string(),
            Item::Bool(b) => b.to_string(),
            Item::List(_) => "a list".to_string(),
            Item::Other(what) => what.to_string(),
        };
        text.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

/// Type and range of a value.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// A name with this maximum length.
    Name(usize),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A number within these bounds.
    Number(i64, i64),
    /// A boolean: true or false.
    Switch,
    /// A string in the described format.
    Text(&'static str),
    /// A list of strings in the described format; a single string is accepted too.
    List(&'static str),
}

impl Takes {
    /// Returns the TOML type.
    pub fn toml_type(self) -> &'static str {
        match self {
            Takes::Name(_) | Takes::Words(_) | Takes::Text(_) => "string",
            Takes::Number(..) => "integer",
            Takes::Switch => "boolean",
            Takes::List(_) => "array of strings",
        }
    }
}

impl Display for Takes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Takes::Name(longest) => write!(f, "a name of 1 to {longest} letters, digits, '.', '_' and '-'"),
            Takes::Words([most @ .., last]) if !most.is_empty() => write!(f, "{} or {last}", most.join(", ")),
            Takes::Words(words) => f.write_str(&words.concat()),
            Takes::Number(min, max) => write!(f, "a number from {min} to {max}"),
            Takes::Switch => f.write_str("true or false"),
            Takes::Text(what) => f.write_str(what),
            Takes::List(what) => write!(f, "a list of {what}"),
        }
    }
}

/// Default of a key.
#[derive(Clone, Copy, Debug)]
pub enum Unset {
    /// Default value, in the form that `--set` accepts.
    Is(&'static str),
    /// Description of the behavior without the key.
    Means(&'static str),
    /// The key is required.
    Required,
}

/// A value given for a key, with the type that the key accepts.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    pub(super) item: &'a Item,
    pub(super) takes: Takes,
}

impl<'a> Given<'a> {
    pub(super) fn expected(self) -> String {
        format!("expected {}", self.takes)
    }

    /// Parses the value from its text.
    pub(super) fn text<T: FromStr>(self) -> Result<T, String> {
        self.item.text().and_then(|text| text.parse().ok()).ok_or_else(|| self.expected())
    }

    /// Parses the value from its text, like [`Given::text`]. An error gives `expected` as the
    /// expected form.
    pub(super) fn text_or<T: FromStr>(self, expected: &str) -> Result<T, String> {
        self.text().map_err(|_| format!("expected {expected}"))
    }

    /// Returns the value if it is one of the words that the key accepts.
    pub(super) fn word(self) -> Result<String, String> {
        let Takes::Words(words) = self.takes else { return Err(self.expected()) };
        let found = self.item.text().filter(|word| words.contains(word)).map(str::to_string);
        found.ok_or_else(|| self.expected())
    }

    pub(super) fn number<T: TryFrom<i64>>(self) -> Result<T, String> {
        let Takes::Number(min, max) = self.takes else { return Err(self.expected()) };
        let n = self.item.number().filter(|n| (min..=max).contains(n)).and_then(|n| T::try_from(n).ok());
        n.ok_or_else(|| self.expected())
    }

    pub(super) fn switch(self) -> Result<bool, String> {
        match self.item {
            Item::Bool(on) => Ok(*on),
            Item::Word(word) if matches!(word.as_str(), "on" | "true" | "1") => Ok(true),
            Item::Word(word) if matches!(word.as_str(), "off" | "false" | "0") => Ok(false),
            _ => Err(self.expected()),
        }
    }

    /// Returns the value if it is a valid name, so that it can be part of file names and messages.
    pub(super) fn name(self) -> Result<String, String> {
        let Takes::Name(longest) = self.takes else { return Err(self.expected()) };
        let good = |name: &&str| {
            (1..=longest).contains(&name.len())
                && !name.starts_with(['.', '-'])
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        self.item.text().filter(good).map(str::to_string).ok_or_else(|| self.expected())
    }

    pub(super) fn path(self) -> Result<std::path::PathBuf, String> {
        let path = self.item.text().filter(|path| !path.is_empty() && !path.contains(char::is_control));
        path.map(Into::into).ok_or_else(|| self.expected())
    }

    /// Returns the items of a list; a single item is returned as a list of one.
    pub(super) fn items(self) -> &'a [Item] {
        if let Item::List(items) = self.item { items.as_slice() } else { std::slice::from_ref(self.item) }
    }

    pub(super) fn list(self) -> Result<Vec<String>, String> {
        let each = self.items().iter().map(|item| item.text().map(str::to_string));
        each.collect::<Option<_>>().ok_or_else(|| self.expected())
    }

    pub(super) fn has_colon(self) -> bool {
        self.item.text().is_some_and(|text| text.contains(':'))
    }
}

/// Returns the value of a key in the form of its text.
pub(super) fn shown(value: impl Display) -> Option<Item> {
    Some(Item::Text(value.to_string()))
}

/// Returns the value of a key that takes a number.
pub(super) fn number(value: impl TryInto<i64>) -> Option<Item> {
    value.try_into().ok().map(Item::Number)
}

/// Returns the value of a key that is true or false.
pub(super) fn switch(value: bool) -> Option<Item> {
    Some(Item::Bool(value))
}

/// Returns the value of a key that takes a list; `None` if it is empty.
pub(super) fn list(values: impl IntoIterator<Item: Display>) -> Option<Item> {
    let items: Vec<_> = values.into_iter().filter_map(shown).collect();
    (!items.is_empty()).then_some(Item::List(items))
}

/// Returns the declared type of a key whose value is a number in `range`.
pub(super) const fn within(range: &RangeInclusive<i64>) -> Takes {
    Number(*range.start(), *range.end())
}
