//! Commands, and their help.

use crate::pattern::is_name;
use crate::{CommandError, Form, Words};

/// Width of help text in columns.
const COLUMNS: usize = 80;

/// A command: name, description, forms and function.
#[derive(Clone, Copy, Debug)]
pub struct Command<R> {
    /// First word of the command.
    pub name: &'static str,
    /// Description in one line, starting with a verb.
    pub about: &'static str,
    /// Function that returns the command's forms, for its help.
    pub usage: fn() -> Vec<Usage>,
    /// Function that parses the words after the name and carries out the command.
    pub run: R,
}

/// Grammar and description of a form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Elements of the form, as in a manual page: see the crate's documentation.
    pub grammar: String,
    /// Description; may be empty.
    pub about: &'static str,
}

/// Returns the grammars and descriptions of `forms`.
pub fn usage<F>(forms: &[Form<F>]) -> Vec<Usage> {
    forms.iter().map(|form| form.usage("")).collect()
}

impl<F> Form<F> {
    /// Returns the grammar and description of this form, with the words `before` (which may be
    /// empty) in front.
    pub fn usage(&self, before: &str) -> Usage {
        let grammar = format!("{before} {}", self.grammar).trim().to_string();
        Usage { grammar, about: self.about }
    }
}

impl Usage {
    /// Returns the grammar as shown to users: without synonyms, and with ranges replaced by their
    /// names.
    pub fn shown(&self) -> String {
        let (mut out, mut token) = (String::new(), String::new());
        for c in self.grammar.chars().chain([' ']) {
            if matches!(c, ' ' | '[' | ']') {
                out += &shown_token(&token);
                token.clear();
                out.push(c);
            } else {
                token.push(c);
            }
        }
        out.trim_end().to_string()
    }
}

impl Usage {
    /// Returns the limits of the ranges that have a name, as sentences: ` SECONDS: 1 to 100.`
    pub fn ranges(&self) -> String {
        let tokens = self.grammar.split([' ', '[', ']']);
        let named = tokens.filter_map(|token| token.split_once(':').filter(|(name, _)| is_name(name)));
        let ranges = named.filter_map(|(name, domain)| Some((name, domain.split_once('-')?)));
        ranges.map(|(name, (min, max))| format!(" {name}: {min} to {max}.")).collect()
    }
}

fn shown_token(token: &str) -> String {
    let (name, domain) = token.split_once(':').filter(|(name, _)| is_name(name)).unwrap_or(("", token));
    if !name.is_empty() && !domain.contains('|') {
        return name.to_string();
    }
    domain.split('|').map(|word| word.split(',').next().unwrap_or(word)).collect::<Vec<_>>().join("|")
}

/// Returns the list of commands: names and descriptions.
pub fn command_list<R>(commands: &[Command<R>]) -> String {
    let width = commands.iter().map(|command| command.name.len()).max().unwrap_or(0) + 2;
    let mut out = String::new();
    for command in commands {
        wrap(&mut out, &format!("{:<width$}", command.name), width, command.about);
    }
    out + "'help COMMAND' lists the forms of a command. With -j, listings are JSON.\n"
}

/// Returns the description of a command and its forms.
pub fn command_of<R>(command: &Command<R>) -> String {
    format!("{}: {}\n", command.name, command.about) + &forms_of(command)
}

/// Returns the forms of a command with their descriptions.
pub fn forms_of<R>(command: &Command<R>) -> String {
    let mut out = String::new();
    for usage in (command.usage)() {
        wrap(&mut out, &format!("  {} ", command.name), 6, &usage.shown());
        let about = format!("{}{}", usage.about, usage.ranges());
        if !about.is_empty() {
            wrap(&mut out, "      ", 6, &about);
        }
    }
    out
}

/// Appends `head` and `text`, wrapped; continuation lines are indented by `indent` columns.
fn wrap(out: &mut String, head: &str, indent: usize, text: &str) {
    let (mut line, mut is_empty) = (head.to_string(), true);
    for word in text.split_whitespace() {
        let space = usize::from(!is_empty);
        if !is_empty && line.chars().count() + space + word.chars().count() > COLUMNS {
            *out += line.trim_end();
            out.push('\n');
            (line, is_empty) = (" ".repeat(indent), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    *out += line.trim_end();
    out.push('\n');
}

/// Consumes the name of a command and returns the command of that name.
///
/// # Errors
/// There is no word, or the word is not the name of a command.
pub fn command<'c, R>(commands: &'c [Command<R>], words: &mut Words<'_>) -> Result<&'c Command<R>, CommandError> {
    let name = words.next("a command")?;
    let unknown = || CommandError::unknown("command", name, commands.iter().map(|command| command.name));
    commands.iter().find(|command| command.name == name).ok_or_else(unknown)
}
