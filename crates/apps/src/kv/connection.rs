//! Commands about the connection: protocol version, login, client names. Transactions are in
//! [`super::transaction`].

use super::Refusal;
use super::command::Call;
use super::roster;
use crate::resp::{Version, integer};

type Done = Result<(), Refusal>;

/// Version of the Redis command reference that the replies follow, reported because clients check
/// it.
pub(super) const REFERENCE: &str = "7.0.0";
/// Name of the only user, which has no password.
const USER: &[u8] = b"default";

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

/// Handles SELECT, for which database 0 is the only valid argument.
pub(super) fn select(call: &mut Call<'_>) -> Done {
    match integer(call.args.get(1)).ok_or(Refusal::NotInteger)? {
        0 => call.out.ok(),
        _ => return Err(Refusal::Database),
    }
    Ok(())
}

/// Handles QUIT: replies OK, after which [`super::conn`] closes the connection.
pub(super) fn quit(call: &mut Call<'_>) -> Done {
    call.out.ok();
    Ok(())
}

pub(super) fn reset(call: &mut Call<'_>) -> Done {
    call.session.discard(call.store);
    set_version(call, Version::Two);
    set_name(call, String::new());
    call.out.line("RESET");
    Ok(())
}

pub(super) fn auth(call: &mut Call<'_>) -> Done {
    match call.args.len() {
        2 => return Err(Refusal::NoPassword),
        3 => log_in(call.args.get(1))?,
        _ => return Err(Refusal::Syntax),
    }
    call.out.ok();
    Ok(())
}

/// Checks the user name. The default user has no password, so any password is accepted.
fn log_in(user: &[u8]) -> Done {
    if user == USER { Ok(()) } else { Err(Refusal::Password) }
}

fn set_version(call: &mut Call<'_>, version: Version) {
    call.out.version = version;
    call.roster.get_mut(call.session.at).into_iter().for_each(|client| client.version = version);
}

fn set_name(call: &mut Call<'_>, name: String) {
    call.roster.get_mut(call.session.at).into_iter().for_each(|client| client.name = name.clone());
}

/// Handles `HELLO [version [AUTH user password] [SETNAME name]]`. If any argument is invalid,
/// nothing is changed.
pub(super) fn hello(call: &mut Call<'_>) -> Done {
    let mut version = call.out.version;
    if call.args.len() > 1 {
        version = match integer(call.args.get(1)).ok_or(Refusal::ProtocolNumber)? {
            2 => Version::Two,
            3 => Version::Three,
            _ => return Err(Refusal::Protocol),
        };
    }
    let (mut words, mut name) = (call.args.from(2).iter(), None);
    while let Some(word) = words.next() {
        let option = || Refusal::HelloOption(word.escape_ascii().to_string());
        match word.to_ascii_uppercase().as_slice() {
            b"AUTH" => {
                let (user, _) = words.next().zip(words.next()).ok_or_else(option)?;
                log_in(user)?;
            }
            b"SETNAME" => {
                let text = words.next().ok_or_else(option)?;
                name = Some(roster::name(text).ok_or(Refusal::Name("Client names"))?);
            }
            _ => return Err(option()),
        }
    }
    if let Some(name) = name {
        set_name(call, name);
    }
    set_version(call, version);
    let id = call.roster.get(call.session.at).map_or(0, |client| client.id);
    let out = &mut *call.out;
    out.map(7);
    let texts = [("server", "linerate"), ("version", REFERENCE)];
    for (name, text) in texts {
        out.bulk(name.as_bytes());
        out.bulk(text.as_bytes());
    }
    out.bulk(b"proto");
    out.integer(if version == Version::Three { 3 } else { 2 });
    out.bulk(b"id");
    out.integer(i64::try_from(id).unwrap_or(i64::MAX));
    for (name, text) in [("mode", "standalone"), ("role", "master")] {
        out.bulk(name.as_bytes());
        out.bulk(text.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
    Ok(())
}

pub(super) fn client(call: &mut Call<'_>) -> Done {
    let (at, len) = (call.session.at, call.args.len());
    let exactly = |n, name| if len == n { Ok(()) } else { Err(Refusal::Arity(name)) };
    match call.args.get(1).to_ascii_uppercase().as_slice() {
        b"ID" => {
            exactly(2, "CLIENT|ID")?;
            let id = call.roster.get(at).map_or(0, |client| client.id);
            call.out.integer(i64::try_from(id).unwrap_or(i64::MAX));
        }
        b"INFO" => {
            exactly(2, "CLIENT|INFO")?;
            call.session.note(call.roster);
            call.out.text(&call.roster.line(at, call.now));
        }
        b"LIST" => {
            exactly(2, "CLIENT|LIST")?;
            call.session.note(call.roster);
            call.out.text(&call.roster.lines(call.now));
        }
        b"GETNAME" => {
            exactly(2, "CLIENT|GETNAME")?;
            match call.roster.get(at).map(|client| client.name.as_str()).filter(|name| !name.is_empty()) {
                Some(name) => call.out.bulk(name.as_bytes()),
                None => call.out.nil(),
            }
        }
        b"SETNAME" => {
            exactly(3, "CLIENT|SETNAME")?;
            let name = roster::name(call.args.get(2)).ok_or(Refusal::Name("Client names"))?;
            set_name(call, name);
            call.out.ok();
        }
        b"SETINFO" => {
            exactly(4, "CLIENT|SETINFO")?;
            set_info(call)?;
        }
        // Accepted without effect: this server does not evict single clients and records no access
        // times of keys.
        word @ (b"NO-EVICT" | b"NO-TOUCH") => {
            exactly(3, if word == b"NO-TOUCH" { "CLIENT|NO-TOUCH" } else { "CLIENT|NO-EVICT" })?;
            match call.args.get(2).to_ascii_uppercase().as_slice() {
                b"ON" | b"OFF" => call.out.ok(),
                _ => return Err(Refusal::Syntax),
            }
        }
        _ => return Err(Refusal::subcommand("CLIENT", call.args.get(1))),
    }
    Ok(())
}

fn set_info(call: &mut Call<'_>) -> Done {
    let (attribute, text) = (call.args.get(2), roster::name(call.args.get(3)));
    let Some(client) = call.roster.get_mut(call.session.at) else { return Ok(()) };
    match attribute.to_ascii_uppercase().as_slice() {
        b"LIB-NAME" => client.library = text.ok_or(Refusal::Name("lib-name"))?,
        b"LIB-VER" => client.library_version = text.ok_or(Refusal::Name("lib-ver"))?,
        _ => return Err(Refusal::Attribute(attribute.escape_ascii().to_string())),
    }
    call.out.ok();
    Ok(())
}
