//! Scripted packet exchanges. A script contains socket calls, packets to our host, and packets that
//! our host must send, each with its time.
//!
//! ```text
//!  lex, parse     text to events, in packetdrill's syntax where applicable, to read its scripts
//!  play           runs the events in virtual time against one host; while a call blocks, the
//!                 rest of the script runs
//!  call, sockopt  socket::Calls by name; symbolic constants; errno
//!  segment, conn  packets in the script's and in the host's numbers; comparison
//!  settings, icmp differences over IPv6
//!  counted, code, shell  counters; assertions on TCP_INFO; sysctls
//! ```
//!
//! The `counters` lines are an extension to packetdrill: `counters tcp.in.received +1 ...` states
//! every counter change since the previous such line. It also requires that our host has sent no
//! packet that the script did not expect. `docs/pkt.md` describes the syntax.

mod call;
mod code;
mod conn;
mod counted;
mod icmp;
mod lex;
mod parse;
mod play;
mod script;
mod segment;
mod settings;
mod shell;
mod sockopt;

pub use parse::parse;
pub use script::{IpVersion, Script};
use std::fmt;
use std::path::Path;

/// Error in a script, or in the behavior of our host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PktError {
    /// File name; empty if the script was not read from a file.
    pub file: String,
    /// Line number, from 1; 0 if the error concerns the whole file.
    pub line: usize,
    /// Description; expected and actual values are on separate lines.
    pub what: String,
    /// Set if the script was parsed and then failed while running.
    pub ran: bool,
}

impl PktError {
    fn at(line: usize, what: String) -> PktError {
        PktError { file: String::new(), line, what, ran: false }
    }

    fn ran(line: usize, what: String) -> PktError {
        PktError { ran: true, ..PktError::at(line, what) }
    }
}

impl fmt::Display for PktError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

impl std::error::Error for PktError {}

/// Result of a successful script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Played {
    /// Number of events that were run.
    pub events: usize,
    /// Virtual time from start to end of the script.
    pub time: clock::Duration,
    /// The `counters` lines that [`Rules::any_counters`] accepted: line number, and the correct
    /// content.
    pub counters: Vec<(usize, String)>,
}

/// Rules for running scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// IP version to use regardless of the script. With `None`, the version that the script sets,
    /// or IPv4.
    pub ip_version: Option<IpVersion>,
    /// Accepts PSH on any segment. RFC 9293 3.9.1.2 leaves the use of PSH mostly to the sender, and
    /// scripts for other stacks expect different rules.
    pub any_psh: bool,
    /// Accepts any `counters` line; [`Played::counters`] then has the correct content.
    pub any_counters: bool,
}

/// Maximum size of a script in bytes.
const SCRIPT_MAX: u64 = 16 << 20;

/// Reads the script in `path` and runs it.
///
/// # Errors
/// Returns a [`PktError`] if the script cannot be read, or failed.
pub fn run_file(path: &Path, rules: Rules) -> Result<Played, PktError> {
    let played = read(path).and_then(|text| run_text(&text, path.parent(), rules));
    played.map_err(|error| PktError { file: path.display().to_string(), ..error })
}

/// Returns the IP versions for which the script in `path` is written.
///
/// # Errors
/// Returns a [`PktError`] if the script cannot be read or parsed.
pub fn versions_of(path: &Path) -> Result<&'static [IpVersion], PktError> {
    let script = read(path).and_then(|text| parse(&text));
    script
        .and_then(|script| script.ip_versions())
        .map_err(|error| PktError { file: path.display().to_string(), ..error })
}

fn read(path: &Path) -> Result<String, PktError> {
    port::os::read_text(path, SCRIPT_MAX).map_err(|why| PktError::at(0, why.to_string()))
}

/// Runs the script `text`. Files that it refers to are relative to `dir`. If `dir` is `None`, it
/// cannot use files.
///
/// # Errors
/// Returns a [`PktError`] without a file name.
pub fn run_text(text: &str, dir: Option<&Path>, rules: Rules) -> Result<Played, PktError> {
    let script = parse(text)?;
    play::play(&script, dir, rules)
}
