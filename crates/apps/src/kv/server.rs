//! Commands that describe the server to clients and monitoring.

use super::Refusal;
use super::command::{self, Arity, COMMANDS, Call, Command, Effect, Keys};
use super::connection::REFERENCE;
use crate::glob::{Fuel, Glob};
use linerate::stack::Instant;

/// Maximum number of steps for matching the pattern of CONFIG GET against the names of parameters.
const FUEL: Fuel = Fuel(1 << 20);

type Done = Result<(), Refusal>;

/// Values of the server that INFO reports in addition to the statistics of the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Number of connected clients.
    pub clients: usize,
    /// Maximum number of clients.
    pub clients_max: usize,
    /// Maximum number of bytes of keys and values.
    pub bytes_max: usize,
    /// Time when the server started.
    pub since: Instant,
    /// Number of requests processed since the start.
    pub requests: u64,
    /// Number of clients refused since the start.
    pub refused: u64,
}

/// Parameters that CONFIG GET returns: those that redis-benchmark reads, and some that other
/// clients read.
const CONFIG: [(&str, &str); 6] = [
    ("appendonly", "no"),
    ("databases", "1"),
    ("io-threads", "1"),
    ("maxmemory-policy", "noeviction"),
    ("save", ""),
    ("timeout", "300"),
];

pub(super) fn config(call: &mut Call<'_>) -> Done {
    match call.args.get(1).to_ascii_uppercase().as_slice() {
        b"GET" if call.args.len() > 2 => {}
        b"GET" => return Err(Refusal::Arity("CONFIG|GET")),
        b"RESETSTAT" => {
            call.out.ok();
            return Ok(());
        }
        _ => return Err(Refusal::subcommand("CONFIG", call.args.get(1))),
    }
    let requested = call.args.from(2);
    let mut fuel = FUEL;
    let mut is_asked = |name: &str| {
        let mut words = requested.iter().map(<[u8]>::to_ascii_lowercase);
        words.any(|word| Glob::of_keys(&word).matches(name.as_bytes(), &mut fuel) == Ok(true))
    };
    let maxmemory = call.facts.bytes_max.to_string();
    let all = CONFIG.into_iter().chain([("maxmemory", maxmemory.as_str())]);
    let found: Vec<_> = all.filter(|(name, _)| is_asked(name)).collect();
    call.out.map(found.len());
    for (name, value) in found {
        call.out.bulk(name.as_bytes());
        call.out.bulk(value.as_bytes());
    }
    Ok(())
}

/// Handles COMMAND and its subcommands COUNT, INFO, DOCS and LIST. redis-cli sends COMMAND DOCS
/// when it starts.
pub(super) fn command(call: &mut Call<'_>) -> Done {
    let named = call.args.from(2);
    match call.args.get(1).to_ascii_uppercase().as_slice() {
        b"" => {
            call.out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(call, command));
        }
        b"COUNT" if named.is_empty() => call.out.count(COMMANDS.len()),
        b"COUNT" => return Err(Refusal::Arity("COMMAND|COUNT")),
        b"LIST" if named.is_empty() => {
            call.out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| call.out.bulk(command.name.to_ascii_lowercase().as_bytes()));
        }
        b"INFO" if named.is_empty() => {
            call.out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(call, command));
        }
        b"INFO" => {
            call.out.array(named.len());
            for name in named.iter() {
                match command::find(name) {
                    Some(command) => describe(call, command),
                    None => call.out.nil_array(),
                }
            }
        }
        b"DOCS" if named.is_empty() => documents(call, &COMMANDS.iter().collect::<Vec<_>>()),
        b"DOCS" => documents(call, &named.iter().filter_map(command::find).collect::<Vec<_>>()),
        _ => return Err(Refusal::subcommand("COMMAND", call.args.get(1))),
    }
    Ok(())
}

/// Writes the reply to COMMAND DOCS: a map from command names to their documentation.
fn documents(call: &mut Call<'_>, commands: &[&Command]) {
    call.out.map(commands.len());
    for command in commands {
        call.out.bulk(command.name.to_ascii_lowercase().as_bytes());
        call.out.map(2);
        for (name, text) in [("summary", command.summary), ("group", command.group)] {
            call.out.bulk(name.as_bytes());
            call.out.bulk(text.as_bytes());
        }
    }
}

/// Writes the description of a command as the reply to COMMAND (redis.io, COMMAND): name, number of
/// arguments (negative for a minimum), flags, positions of the keys (first, last, step), and
/// categories. Tips, key specifications and subcommands are empty.
fn describe(call: &mut Call<'_>, command: &Command) {
    call.out.array(10);
    call.out.bulk(command.name.to_ascii_lowercase().as_bytes());
    let arity = match command.arity {
        Arity::Exactly(n) => n as i64,
        Arity::AtLeast(n) => -(n as i64),
    };
    call.out.integer(arity);
    let flags: &[&str] = match command.effect {
        Effect::Reads => &["readonly"],
        Effect::Writes => &["write"],
        Effect::Adds => &["write", "denyoom"],
    };
    call.out.set(flags.len());
    flags.iter().for_each(|flag| call.out.line(flag));
    let keys = match command.keys {
        Keys::None => [0, 0, 0],
        Keys::First => [1, 1, 1],
        Keys::All => [1, -1, 1],
        Keys::Pairs => [1, -1, 2],
    };
    keys.into_iter().for_each(|place| call.out.integer(place));
    let category = match command.group {
        "generic" => "@keyspace",
        "sorted-set" => "@sortedset",
        "transactions" => "@transaction",
        "server" => "@admin",
        "string" => "@string",
        "hash" => "@hash",
        "list" => "@list",
        "set" => "@set",
        _ => "@connection",
    };
    call.out.set(2);
    call.out.line(if command.effect == Effect::Reads { "@read" } else { "@write" });
    call.out.line(category);
    (0..3).for_each(|_| call.out.array(0));
}

/// A section of INFO: title and fields.
type Section = (&'static str, Vec<(&'static str, String)>);

/// Handles INFO: replies with all sections, or with the sections that the arguments name.
pub(super) fn info(call: &mut Call<'_>) -> Done {
    let requested = call.args.from(1);
    let is_asked = |title: &str| {
        let all = [&b"all"[..], b"default", b"everything"];
        let mut words = requested.iter();
        requested.is_empty()
            || words.any(|word| {
                word.eq_ignore_ascii_case(title.as_bytes()) || all.iter().any(|all| word.eq_ignore_ascii_case(all))
            })
    };
    let mut text = String::new();
    for (title, fields) in sections(call) {
        if !is_asked(title) {
            continue;
        }
        let gap = if text.is_empty() { "" } else { "\r\n" };
        text += &format!("{gap}# {title}\r\n");
        fields.iter().for_each(|(name, value)| text += &format!("{name}:{value}\r\n"));
    }
    call.out.text(&text);
    Ok(())
}

fn sections(call: &Call<'_>) -> [Section; 6] {
    let facts = call.facts;
    let (keys, expires) = (call.store.len(), call.store.deadlines());
    // As in stock Redis, a database without keys has no line.
    let keyspace = (keys > 0).then(|| ("db0", format!("keys={keys},expires={expires},avg_ttl=0")));
    [
        (
            "Server",
            vec![
                ("redis_version", REFERENCE.to_owned()),
                ("server", "linerate".to_owned()),
                ("server_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("uptime_in_seconds", call.now.since(facts.since).as_secs().to_string()),
            ],
        ),
        (
            "Clients",
            vec![
                ("connected_clients", facts.clients.to_string()),
                ("maxclients", facts.clients_max.to_string()),
                ("blocked_clients", "0".to_owned()),
            ],
        ),
        (
            "Memory",
            vec![
                ("used_memory", call.store.bytes().to_string()),
                ("used_memory_human", human(call.store.bytes())),
                ("maxmemory", facts.bytes_max.to_string()),
                ("maxmemory_human", human(facts.bytes_max)),
                ("maxmemory_policy", "noeviction".to_owned()),
            ],
        ),
        (
            "Stats",
            vec![
                ("total_connections_received", call.roster.come().to_string()),
                ("total_commands_processed", facts.requests.to_string()),
                ("rejected_connections", facts.refused.to_string()),
                ("expired_keys", call.store.expired().to_string()),
                ("evicted_keys", "0".to_owned()),
            ],
        ),
        ("Replication", vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        ("Keyspace", keyspace.into_iter().collect()),
    ]
}

/// Formats a number of bytes in powers of 1024, such as `1.50M`.
fn human(bytes: usize) -> String {
    let (mut value, mut unit) = (bytes as f64, 'B');
    for next in ['K', 'M', 'G', 'T'] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == 'B' { format!("{bytes}B") } else { format!("{value:.2}{unit}") }
}
