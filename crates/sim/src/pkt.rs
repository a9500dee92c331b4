//! Conversations as scripts: calls on a socket of ours, packets for our host, packets that it must send, and when.
//!
//! ```text
//!  lex, parse   text to events, in packetdrill's syntax where it fits: scripts nobody here wrote can be read
//!  play         the events on virtual time against one host; calls block by running the rest of the script
//!  call, sockopt  socket::Calls by their names; symbolic constants; errno
//!  segment, conn  packets between the script's numbers and the host's; comparing
//!  settings, icmp what is other over IPv6
//!  counted, code, shell  counters; TCP_INFO's assertions; knobs
//! ```
//!
//! An addition of ours: `counters tcp.in.received +1 ...` states every change of a counter since the line before of this
//! kind, and that no packet waits which nobody has expected. `docs/pkt.md` has the syntax.

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

/// What is wrong with a script, or with what our host did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PktError {
    /// The file, where there is one.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong; what was expected and what came stand on lines of their own.
    pub what: String,
    /// The script could be read, and did not hold.
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

/// What a script that held has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Played {
    /// Its events.
    pub events: usize,
    /// Virtual time that passed.
    pub time: clock::Duration,
    /// The `counters` lines that [`Rules::any_counters`] let pass: the line's number, and what it would have to state.
    pub counters: Vec<(usize, String)>,
}

/// Rules by which scripts are played.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// In this version of IP, whatever the script names; `None`: in the script's own, or IPv4.
    pub ip_version: Option<IpVersion>,
    /// PSH may stand anywhere: RFC 9293 3.9.1.2 leaves most of it to the sender, and scripts from elsewhere know another one.
    pub any_psh: bool,
    /// `counters` lines may state anything: [`Played::counters`] has what came instead.
    pub any_counters: bool,
}

/// Bytes of a script.
const SCRIPT_MAX: u64 = 16 << 20;

/// Reads the script in `path` and plays it.
///
/// # Errors
/// [`PktError`]: it cannot be read, or did not hold.
pub fn run_file(path: &Path, rules: Rules) -> Result<Played, PktError> {
    let played = read(path).and_then(|text| run_text(&text, path.parent(), rules));
    played.map_err(|error| PktError { file: path.display().to_string(), ..error })
}

/// Returns the versions of IP in which the script in `path` holds.
///
/// # Errors
/// [`PktError`]: it cannot be read.
pub fn versions_of(path: &Path) -> Result<&'static [IpVersion], PktError> {
    let script = read(path).and_then(|text| parse(&text));
    script
        .and_then(|script| script.ip_versions())
        .map_err(|error| PktError { file: path.display().to_string(), ..error })
}

fn read(path: &Path) -> Result<String, PktError> {
    port::os::read_text(path, SCRIPT_MAX).map_err(|why| PktError::at(0, why.to_string()))
}

/// Plays the script `text`; files it names are looked for beside `dir`, if at all.
///
/// # Errors
/// [`PktError`] without a file.
pub fn run_text(text: &str, dir: Option<&Path>, rules: Rules) -> Result<Played, PktError> {
    let script = parse(text)?;
    play::play(&script, dir, rules)
}
