//! Exit codes, error lines, and closed pipes, which are not errors.

use crate::log;
use anyhow::Context;
use clap::error::ErrorKind;
use lab::gate::Outcome;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Exit codes, as documented in `--help`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Success.
    Fine,
    /// Failure, or the audit found frames unaccounted for.
    Failed,
    /// Error in the command line or a configuration file.
    Usage,
    /// No host replies at the control socket.
    Nobody,
    /// Outcome of `gate`, which has its own exit codes.
    Judged(Outcome),
    /// Exit code of the program that `run` has run.
    Program(u8),
}

impl Exit {
    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Fine => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Nobody => 3,
            Exit::Judged(outcome) => outcome as u8,
            Exit::Program(code) => code,
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
    /// Creates an error of the command line or of a configuration file.
    pub fn usage(what: impl fmt::Display) -> anyhow::Error {
        Fault { exit: Exit::Usage, what: what.to_string() }.into()
    }
}

/// Prints an error as one line, and returns the exit code.
pub fn report(error: &anyhow::Error) -> Exit {
    if is_closed_pipe(error) {
        return Exit::Fine; // the reader closed the pipe, as in `linerate ... | head -1`
    }
    let text = chain(error).replace('\n', " ");
    log::error(&text);
    error.downcast_ref::<Fault>().map_or(Exit::Failed, |fault| fault.exit)
}

/// Returns the error and its sources, without those whose text the preceding ones contain.
fn chain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |all, text| match all.as_str() {
        "" => text,
        all if all.contains(&text) => all.to_owned(),
        all => format!("{all}: {text}"),
    })
}

/// Prints clap's error as one line: the error, the valid values, and the command for help.
///
/// Help and version are printed unchanged.
pub fn misuse(error: &clap::Error, words: &[String]) -> Exit {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // clap's buffer is flushed without checking for errors.
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

/// Returns the line that [`misuse`] prints.
pub fn misused(error: &clap::Error, words: &[String]) -> String {
    format!("{}; see '{}'", in_one_line(&error.render().to_string()), help_for(error, words))
}

/// Joins clap's paragraphs before the usage into one line.
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

/// Returns the help command for the command in `words`, or for the program if it has no such
/// command.
fn help_for(error: &clap::Error, words: &[String]) -> String {
    let is_known = error.kind() != ErrorKind::InvalidSubcommand;
    let command = words.first().filter(|word| is_known && !word.starts_with('-'));
    command.map_or("linerate --help".to_string(), |command| format!("linerate {command} --help"))
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes `text` to standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
    write_out(text).context("standard output")
}

/// Writes `text` to standard output, for callers that add their own context to the error.
pub fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to standard error, or a message to the log; errors are ignored.
pub fn notice(text: &str) {
    log::message(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_the_error_contains_is_printed_once() {
        let error = anyhow::anyhow!("no such device").context("port packet:x: no such device").context("--port");
        assert_eq!(chain(&error), "--port: port packet:x: no such device");
    }
}
