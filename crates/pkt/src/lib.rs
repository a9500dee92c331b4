//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Scripted packet exchanges. A script contains socket calls, packets to our host, and packets that
//! our host must send, each with its time.
//!
//! ```text
//!  lex, parse     parse a script into events; the syntax is compatible with packetdrill
//!  host           the host under test: one stack with one iface; used by packetdrill, too
//!  play           runs the events in virtual time against one host; while a call blocks, the
//!                 following events run
//!  call, sockopt  execute socket calls by their names, and compare results and errno
//!  value          numbers and symbolic constants
//!  segment, conn  build and compare packets; translate sequence numbers between script and host
//!  settings       flags of the script, such as the IP version and the MTU
//!  icmp           ICMP messages by name, for IPv4 and IPv6
//!  counted        counters that scripts check
//!  code           evaluates assertions on TCP_INFO
//!  shell          evaluates commands in back quotes, which set sysctls
//! ```
//!
//! The `counters` lines are an extension to packetdrill: `counters tcp.in.received +1 ...` states
//! every counter change since the previous such line. It also requires that our host has sent no
//! packet that the script did not expect. `docs/pkt.md` describes the syntax.
#![forbid(unsafe_code)]

mod call;
mod code;
mod conn;
mod counted;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod host;
mod icmp;
mod lex;
mod parse;
mod play;
mod script;
mod segment;
mod settings;
mod shell;
mod sockopt;
mod value;

pub use error::PktError;
pub use parse::parse;
pub use play::{Played, Rules};
pub use script::{IpVersion, Script};

use script::FILE_MAX;
use std::path::Path;

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
    port::os::read_text(path, FILE_MAX).map_err(|why| PktError::at(0, why.to_string()))
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
