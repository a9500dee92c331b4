//! Commands about the server and the connection: what clients ask before they begin.

use super::Refusal;
use super::command::{Arity, COMMANDS, Call, Effect};
use clock::Instant;

type Done = Result<(), Refusal>;

/// What INFO tells of the server beside its keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Clients connected.
    pub clients: usize,
    /// Clients there may be.
    pub clients_max: usize,
    /// Bytes of keys and values there may be.
    pub bytes_max: usize,
    /// Since when it serves.
    pub since: Instant,
    /// Requests carried out.
    pub requests: u64,
}

pub(super) fn ping(call: &mut Call<'_>) -> Done {
    match call.args.len() {
        1 => call.out.line("PONG"),
        2 => call.out.bulk(call.args.get(1)),
        _ => return Err(Refusal::Arity("PING")),
    }
    Ok(())
}

pub(super) fn echo(call: &mut Call<'_>) -> Done {
    call.out.bulk(call.args.get(1));
    Ok(())
}

/// There is one database.
pub(super) fn select(call: &mut Call<'_>) -> Done {
    match crate::resp::integer(call.args.get(1)).ok_or(Refusal::NotInteger)? {
        0 => call.out.ok(),
        _ => return Err(Refusal::Database),
    }
    Ok(())
}

/// The connection ends behind the reply: [`super::conn`] sees to it.
pub(super) fn quit(call: &mut Call<'_>) -> Done {
    call.out.ok();
    Ok(())
}

/// A client tells its name, which nobody keeps.
pub(super) fn client(call: &mut Call<'_>) -> Done {
    match call.args.get(1).to_ascii_uppercase().as_slice() {
        b"SETNAME" | b"SETINFO" => call.out.ok(),
        b"GETNAME" => call.out.nil(),
        _ => return Err(Refusal::Subcommand("CLIENT")),
    }
    Ok(())
}

/// What redis-benchmark asks, and some that others do.
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
        _ => return Err(Refusal::Subcommand("CONFIG")),
    }
    let asked = call.args.from(2);
    let is_asked = |name: &str| asked.iter().any(|word| word == b"*" || word.eq_ignore_ascii_case(name.as_bytes()));
    let maxmemory = call.facts.bytes_max.to_string();
    let all = CONFIG.into_iter().chain([("maxmemory", maxmemory.as_str())]);
    let found: Vec<_> = all.filter(|(name, _)| is_asked(name)).collect();
    call.out.array(2 * found.len());
    for (name, value) in found {
        call.out.bulk(name.as_bytes());
        call.out.bulk(value.as_bytes());
    }
    Ok(())
}

/// COMMAND, COMMAND COUNT, and COMMAND DOCS without any: redis-cli asks when it begins.
pub(super) fn command(call: &mut Call<'_>) -> Done {
    match call.args.get(1).to_ascii_uppercase().as_slice() {
        b"" => {
            call.out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(call, command));
        }
        b"COUNT" => call.out.count(COMMANDS.len()),
        b"DOCS" => call.out.array(0),
        _ => return Err(Refusal::Subcommand("COMMAND")),
    }
    Ok(())
}

/// Name, arity (negative: at least), flags, and where its keys are: first, last, step.
fn describe(call: &mut Call<'_>, command: &super::command::Command) {
    call.out.array(6);
    call.out.bulk(command.name.to_ascii_lowercase().as_bytes());
    let arity = match command.arity {
        Arity::Exactly(n) => n as i64,
        Arity::AtLeast(n) => -(n as i64),
    };
    call.out.integer(arity);
    let flags: &[&str] = match command.effect {
        Effect::Reads => &["readonly"],
        Effect::Writes => &["write"],
        Effect::Adds(_) => &["write", "denyoom"],
    };
    call.out.array(flags.len());
    flags.iter().for_each(|flag| call.out.line(flag));
    let is_about_keys = !matches!(
        command.name,
        "CLIENT"
            | "COMMAND"
            | "CONFIG"
            | "DBSIZE"
            | "ECHO"
            | "FLUSHALL"
            | "FLUSHDB"
            | "INFO"
            | "PING"
            | "QUIT"
            | "SELECT"
    );
    let keys = match command.name {
        "DEL" | "EXISTS" | "MGET" => [1, -1, 1],
        "MSET" => [1, -1, 2],
        _ if is_about_keys => [1, 1, 1],
        _ => [0, 0, 0],
    };
    keys.into_iter().for_each(|place| call.out.integer(place));
}

pub(super) fn info(call: &mut Call<'_>) -> Done {
    let facts = call.facts;
    let text = format!(
        "# Server\r\nserver:linerate\r\nredis_mode:standalone\r\nuptime_in_seconds:{}\r\n\r\n\
         # Clients\r\nconnected_clients:{}\r\nmaxclients:{}\r\n\r\n\
         # Memory\r\nused_memory:{}\r\nmaxmemory:{}\r\nmaxmemory_policy:noeviction\r\n\r\n\
         # Stats\r\ntotal_commands_processed:{}\r\nexpired_keys:{}\r\n\r\n\
         # Keyspace\r\ndb0:keys={}\r\n",
        call.now.since(facts.since).as_secs(),
        facts.clients,
        facts.clients_max,
        call.store.bytes(),
        facts.bytes_max,
        facts.requests,
        call.store.expired(),
        call.store.len(),
    );
    call.out.bulk(text.as_bytes());
    Ok(())
}
