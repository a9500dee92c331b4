//! `capture`: copies of frames, used by `linerate tcpdump` and `linerate why`. Hosts and bridges
//! share this command; [`Watched`] hides the difference between their capture points.

#[cfg(test)]
mod tests;

use crate::host::context::Ctl;
use clock::Instant;
use grammar::{Args, CommandError, Form, Words, parse_all};
use inet::iface::IfaceId;
use lock::Locks;
use node::capture::{CAPTURES_MAX, Captures, Place, SNAPLEN, Status, Wants};
use serde_json::{Value, json};
use wire::filter::Filter;

/// Description of the command.
pub(crate) const ABOUT: &str = "Copy passing or dropped frames, for 'tcpdump' and 'why'";

/// Type of a syntax form of `capture`.
type CaptureForm = Form<fn(&Around<'_>, &Args<'_>) -> Result<String, CommandError>>;

/// Syntax forms of `capture`.
pub(crate) const FORMS: &[CaptureForm] = &[
    Form {
        grammar: "open PLACE [snaplen BYTES:1-262144] [filter [FILTER...]]",
        about: "Start copying frames, and print the number of the capture. PLACE is an interface, any (all interfaces), \
                dropped (dropped frames) or all (both). FILTER selects frames.",
        run: |of, args| {
            let wants = match args.text("PLACE") {
                "any" => Wants::Any,
                "dropped" => Wants::Dropped,
                "all" => Wants::All,
                name => of.watched.wants(name)?,
            };
            let snaplen = args.number("BYTES").map_or(SNAPLEN, |bytes| bytes as u32);
            let filter = if args.has("filter") { Some(filter(args)?) } else { None };
            let id = of.watched.captures().open(wants, snaplen, filter, of.now);
            let full = || CommandError::failed(format!("cannot open a capture: {CAPTURES_MAX} are open"));
            id.map(|id| format!("{id}\n")).ok_or_else(full)
        },
    },
    Form {
        grammar: "read ID:1-4294967295",
        about: "Print and remove the frames copied so far.",
        run: |of, args| {
            let batch = of.watched.captures().read(id(args), of.now, |place| of.watched.name(place));
            batch.map(|batch| batch.to_text()).ok_or_else(|| unknown(args))
        },
    },
    Form {
        grammar: "close ID:1-4294967295",
        about: "End a capture.",
        run: |of, args| {
            if of.watched.captures().close(id(args)) { Ok(String::new()) } else { Err(unknown(args)) }
        },
    },
    Form {
        grammar: "dropped [filter [FILTER...]]",
        about: "Print recently dropped frames, with their reasons.",
        run: |of, args| {
            let dropped = of.watched.captures().dropped(&filter(args)?, of.now, |place| of.watched.name(place));
            Ok(dropped.to_text())
        },
    },
    Form {
        grammar: "list",
        about: "List the captures.",
        run: |of, _| Ok(list(&of.watched.captures().list(of.now), of.json, |place| of.watched.name(place))),
    },
];

/// Context of the command: the host or bridge, the time, and the output format.
pub(crate) struct Around<'a> {
    watched: &'a dyn Watched,
    now: Instant,
    json: bool,
}

/// A host or bridge with captures.
pub(crate) trait Watched {
    fn captures(&self) -> &Captures;
    /// Returns the selection of the frames at `name`, which is an iface with a port, a port of a
    /// bridge, or a bridge.
    ///
    /// # Errors
    /// Returns an error if nothing is called `name`, or if it is an iface without a port.
    fn wants(&self, name: &str) -> Result<Wants, CommandError>;
    /// Returns the name of the capture point `place`.
    fn name(&self, place: Place) -> String;
}

impl<L: Locks> Watched for Ctl<'_, L> {
    fn captures(&self) -> &Captures {
        self.host.captures()
    }

    fn wants(&self, name: &str) -> Result<Wants, CommandError> {
        let id = self.host.iface(name)?.id;
        let without = || CommandError::failed(format!("{name}: cannot be captured: the interface has no port"));
        self.host.ports().iter().any(|port| port.iface == id).then(|| Wants::Places(vec![id.0])).ok_or_else(without)
    }

    fn name(&self, place: Place) -> String {
        self.iface_name(IfaceId(place)).to_string()
    }
}

/// Runs `capture`.
///
/// # Errors
/// Returns a [`CommandError`] for an unknown word, capture point or capture, or an invalid filter.
pub(crate) fn run(watched: &dyn Watched, now: Instant, json: bool, words: Words<'_>) -> Result<String, CommandError> {
    let (form, args) = parse_all(FORMS, words)?;
    (form.run)(&Around { watched, now, json }, &args)
}

fn id(args: &Args<'_>) -> u32 {
    args.int::<u32>("ID")
}

fn unknown(args: &Args<'_>) -> CommandError {
    CommandError::failed(format!("capture {}: does not exist; an unread capture ends after 10 s", args.text("ID")))
}

/// Compiles `filter FILTER...`. Without a filter, every frame matches.
fn filter(args: &Args<'_>) -> Result<Filter, CommandError> {
    Filter::compile(&args.rest().join(" ")).map_err(CommandError::failed)
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
