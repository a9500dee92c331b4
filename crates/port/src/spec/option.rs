//! Descriptions of options: name, form of the values, default.

use super::value::{Form, Value};

/// One option of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionInfo {
    /// Name of the option, without `=`.
    pub name: &'static str,
    /// Form of the option's values.
    pub form: Form,
    /// Behavior if the option is not given.
    pub fallback: Fallback,
    /// Description in one sentence.
    pub sentence: &'static str,
}

/// Behavior if an option is not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The option has this value, given as text.
    Is(&'static str),
    /// The value is determined when the port is opened, as described for the option.
    Open,
    /// There is no default, because the option is required.
    Required,
}

impl OptionInfo {
    /// Returns the default value; `None` if it is not fixed.
    pub fn default(&self) -> Option<Value> {
        match self.fallback {
            Fallback::Is(text) => self.form.parse(text),
            Fallback::Open | Fallback::Required => None,
        }
    }
}
