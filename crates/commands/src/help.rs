//! `help`: the list of commands, and the syntax forms of a command. Hosts and bridges share this
//! command.

use grammar::{Command, CommandError, Usage, Words};
use serde_json::{Value, json};

/// Returns the usage of `help`.
pub(crate) fn usage() -> Vec<Usage> {
    vec![Usage { grammar: "[COMMAND]".to_string(), about: "" }]
}

/// Runs `help [COMMAND]`. Returns the list of commands, or the syntax forms of one command. As
/// JSON, the list includes the forms of all commands.
pub(crate) fn run<R>(commands: &[Command<R>], json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    let only = if words.peek().is_some() { Some(grammar::command(commands, &mut words)?) } else { None };
    words.end()?;
    if json {
        let row = |command: &Command<R>| {
            let form = |usage: &Usage| json!({ "grammar": usage.shown(), "about": format!("{}{}", usage.about, usage.ranges()) });
            let forms: Vec<Value> = (command.usage)().iter().map(form).collect();
            json!({ "command": command.name, "about": command.about, "forms": forms })
        };
        let rows: Vec<Value> = only.map_or_else(|| commands.iter().map(row).collect(), |command| vec![row(command)]);
        return Ok(format!("{}\n", Value::Array(rows)));
    }
    Ok(only.map_or_else(|| grammar::command_list(commands), grammar::command_of))
}
