//! Context in which a command of a bridge runs, and the type of the functions that run commands.

use bridge::{PortNo, Running};
use grammar::{Args, CommandError, Form, Words, parse_all};
use node::switch::{Info, Switch};
use serde_json::Value;

/// The bridge on which a command runs, and the format of the output.
#[derive(Clone, Copy)]
pub(super) struct Control<'a> {
    pub(super) switch: &'a Switch,
    pub(super) json: bool,
}

/// A syntax form of a command, with the function that runs it and returns the output.
pub(super) type Parameter = Form<fn(&Control<'_>, &Args<'_>) -> Result<String, CommandError>>;

/// Result of a command without output.
pub(super) const DONE: Result<String, CommandError> = Ok(String::new());

impl Control<'_> {
    /// Returns the member given as `IF` in a command.
    pub(super) fn member(&self, args: &Args<'_>) -> Result<PortNo, CommandError> {
        member(self.switch, args.text("IF")).map(|(number, _)| number)
    }

    pub(super) fn running(&self, running: Running) -> Result<String, CommandError> {
        self.switch.set_running(running);
        DONE
    }

    /// Returns a listing in the requested format: the JSON value from `rows`, or the text from
    /// `text`.
    pub(super) fn listing(&self, rows: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> String {
        listing(self.json, rows, text)
    }
}

/// Runs the syntax form that matches `words`.
pub(super) fn one_of(forms: &[Parameter], of: &Control<'_>, words: Words<'_>) -> Result<String, CommandError> {
    let (form, args) = parse_all(forms, words)?;
    (form.run)(of, &args)
}

/// Returns a listing: if `json` is set, the JSON value from `rows`, otherwise the text from `text`.
pub(super) fn listing(json: bool, rows: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> String {
    if json { format!("{}\n", rows()) } else { text() }
}

/// Returns the member called `name`.
pub(super) fn member(switch: &Switch, name: &str) -> Result<(PortNo, Info), CommandError> {
    switch.member(name).ok_or_else(|| {
        let members = switch.members();
        CommandError::unknown("member", name, members.iter().map(|(_, info)| info.name.as_str()))
    })
}
