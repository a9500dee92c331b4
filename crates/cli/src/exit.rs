//! How the program ends: exit codes, error lines, and a closed pipe that is nobody's fault.

use anyhow::Context;
use clap::CommandFactory;
use clap::error::ErrorKind;
use lab::gate::Outcome;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Exit codes, as `--help` documents them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Done.
    Fine,
    /// Could not be done, or the audit found frames unaccounted for.
    Failed,
    /// The command line or a configuration file is wrong.
    Usage,
    /// No host answers at the control socket.
    Nobody,
    /// What a gate came to, with codes of its own.
    Judged(Outcome),
}

impl Exit {
    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Fine => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Nobody => 3,
            Exit::Judged(outcome) => outcome as u8,
        })
    }
}

/// An error with its exit code.
#[derive(Debug)]
pub struct Fault {
    pub exit: Exit,
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// The command line or a configuration file is wrong.
    pub fn usage(what: impl fmt::Display) -> anyhow::Error {
        Fault { exit: Exit::Usage, what: what.to_string() }.into()
    }
}

/// Writes an error's one line, and says how the program ends.
pub fn explain(error: &anyhow::Error) -> Exit {
    if is_closed_pipe(error) {
        return Exit::Fine; // `linerate ... | head -1` has what it wanted
    }
    let text = format!("{error:#}").replace('\n', " ");
    // Nowhere to write to is nothing to write about.
    let _ = writeln!(io::stderr(), "linerate: {text}");
    error.downcast_ref::<Fault>().map_or(Exit::Failed, |fault| fault.exit)
}

/// What clap found wrong with a command line, in our one line: what, what would be right, where to read on.
///
/// Help and version are no errors, and are printed as they are.
pub fn misuse(error: &clap::Error, words: &[String]) -> Exit {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // clap prints into a buffer that is flushed without a check.
        let printed = error.print().and_then(|()| io::stdout().flush());
        return match printed {
            _ if error.use_stderr() => Exit::Usage,
            Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
                notice(&format!("standard output: {why}"));
                Exit::Failed
            }
            _ => Exit::Fine,
        };
    }
    notice(&misused(error, words));
    Exit::Usage
}

/// The line itself.
pub fn misused(error: &clap::Error, words: &[String]) -> String {
    format!("{}; see '{}'", in_one_line(&error.render().to_string()), help_for(words))
}

/// clap's paragraphs up to its usage, joined.
fn in_one_line(text: &str) -> String {
    let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said = said.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let mut out = String::new();
    for line in said {
        let line = line.strip_prefix("error: ").unwrap_or(line);
        match line.strip_prefix("tip: ") {
            Some(tip) => out += &format!("; {tip}"),
            None if out.is_empty() => out += line,
            None => out += &format!(" {line}"),
        }
    }
    out
}

/// The help of the command that `words` begin with, or the program's.
fn help_for(words: &[String]) -> String {
    let command = words.first().filter(|word| crate::args::Cli::command().find_subcommand(word).is_some());
    command.map_or("linerate --help".to_string(), |command| format!("linerate {command} --help"))
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes `text` to standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
    write_out(text).context("standard output")
}

/// Writes `text` to standard output, for callers that name it themselves.
pub fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to standard error, if anybody listens.
pub fn notice(text: &str) {
    let _ = writeln!(io::stderr(), "linerate: {text}");
}
