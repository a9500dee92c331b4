//! `capture`: copies of frames, used by `linerate tcpdump` and `linerate why`. Shared by hosts and
//! bridges, which differ in their locations ([`Watched`]).

use super::parse::number;
use crate::capture::{CAPTURES_MAX, Captures, Place, SNAPLEN, Status, Wants};
use clock::Instant;
use grammar::{CommandError, Words};
use serde_json::{Value, json};
use wire::filter::Filter;

const VERBS: &[&str] = &["open", "read", "close", "dropped", "list"];

/// Grammar for `help`.
pub(crate) const GRAMMAR: &str =
    "open IF|any|dropped|all [snaplen N] [filter EXPR...] | read ID | close ID | dropped [filter EXPR...] | list";
/// Description for `help`.
pub(crate) const ABOUT: &str = "Copies of frames that pass or are dropped: what 'tcpdump' and 'why' read.";

/// A host or bridge with captures.
pub(crate) trait Watched {
    fn captures(&self) -> &Captures;
    /// Returns the frames to be captured at `name`: an iface with a port, a port of a bridge, or a
    /// bridge.
    ///
    /// # Errors
    /// No such name, or an iface without a port.
    fn wants(&self, name: &str) -> Result<Wants, CommandError>;
    /// Returns the name of `place`.
    fn name(&self, place: Place) -> String;
}

/// Runs the command after `capture`.
///
/// # Errors
/// Returns a [`CommandError`] for an unknown word, location or capture, or an invalid filter.
pub(crate) fn run(
    watched: &impl Watched,
    now: Instant,
    json: bool,
    mut words: Words<'_>,
) -> Result<String, CommandError> {
    let captures = watched.captures();
    let id = |words: &mut Words<'_>| -> Result<u32, CommandError> {
        let id = number("capture", words.next("a capture's number")?, 1, u32::MAX.into())? as u32;
        words.end().map(|()| id)
    };
    let unknown =
        |id: u32| CommandError::failed(format!("{id}: no such capture; one that is not read ends after 10 s"));
    let name = |place| watched.name(place);
    match words.next(&VERBS.join(", "))? {
        "open" => {
            let wants = match words.next("an iface, any, dropped or all")? {
                "any" => Wants::Any,
                "dropped" => Wants::Dropped,
                "all" => Wants::All,
                name => watched.wants(name)?,
            };
            let snaplen = match words.skip("snaplen") {
                true => number("snaplen", words.next("a number of bytes")?, 1, SNAPLEN.into())? as u32,
                false => SNAPLEN,
            };
            let id = captures.open(wants, snaplen, filter(&mut words)?, now);
            let full = || CommandError::failed(format!("{CAPTURES_MAX} captures are open already"));
            id.map(|id| format!("{id}\n")).ok_or_else(full)
        }
        "read" => {
            let id = id(&mut words)?;
            captures.read(id, now, name).map(|batch| batch.to_text()).ok_or_else(|| unknown(id))
        }
        "close" => {
            let id = id(&mut words)?;
            if captures.close(id) { Ok(String::new()) } else { Err(unknown(id)) }
        }
        "dropped" => {
            let filter = filter(&mut words)?.map_or_else(|| Filter::compile(""), Ok).map_err(CommandError::failed)?;
            Ok(captures.dropped(&filter, now, name).to_text())
        }
        "list" => words.end().map(|()| list(&captures.list(now), json, name)),
        other => Err(CommandError::unknown("word", other, VERBS.iter().copied())),
    }
}

/// Parses `[filter EXPR...]` up to the end of the line.
fn filter(words: &mut Words<'_>) -> Result<Option<Filter>, CommandError> {
    if !words.skip("filter") {
        return words.end().map(|()| None);
    }
    let mut expression = Vec::new();
    while let Some(word) = words.take() {
        expression.push(word);
    }
    Filter::compile(&expression.join(" ")).map(Some).map_err(CommandError::failed)
}

fn list(captures: &[Status], json: bool, name: impl Fn(Place) -> String) -> String {
    let names = |wants: &Wants| -> Vec<String> {
        match wants {
            Wants::Places(places) => places.iter().map(|place| name(*place)).collect(),
            Wants::Any => vec!["any".into()],
            Wants::Dropped => vec!["dropped".into()],
            Wants::All => vec!["all".into()],
        }
    };
    if json {
        let row = |c: &Status| json!({ "id": c.id, "ifaces": names(&c.wants), "held": c.held, "seen": c.seen, "missed": c.missed });
        return format!("{}\n", Value::Array(captures.iter().map(row).collect()));
    }
    let line = |c: &Status| {
        let names = names(&c.wants).join(",");
        format!("{:<4} {:>10} {:>10} {:>8} {names}\n", c.id, c.seen, c.missed, c.held)
    };
    let head = format!("{:<4} {:>10} {:>10} {:>8} {}\n", "id", "seen", "missed", "held", "ifaces");
    head + &captures.iter().map(line).collect::<String>()
}
