//! `capture`: what `linerate tcpdump` asks a host for.

use super::parse::{Words, number};
use super::{Ctl, WordError};
use crate::capture::{CAPTURES_MAX, SNAPLEN};
use inet::iface::IfaceId;
use lock::Locks;
use serde_json::{Value, json};

const VERBS: &[&str] = &["open", "read", "close", "list"];

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, WordError> {
    let (captures, now) = (ctl.host.captures(), ctl.cx.now);
    let id = |words: &mut Words<'_>| -> Result<u32, WordError> {
        let id = number("capture", words.next("a capture's number")?, 1, u32::MAX.into())? as u32;
        words.end().map(|()| id)
    };
    let nobody = |id: u32| WordError::failed(format!("{id}: no such capture; one that is not read ends after 10 s"));
    match words.next(&VERBS.join(", "))? {
        "open" => {
            let name = words.next("an iface, or any")?;
            let snaplen = match words.take() {
                Some(word) => number("snaplen", word, 1, SNAPLEN.into())? as u32,
                None => SNAPLEN,
            };
            words.end()?;
            let id = captures.open(ports(ctl, name)?, snaplen, now);
            let full = || WordError::failed(format!("{CAPTURES_MAX} captures are open already"));
            id.map(|id| format!("{id}\n")).ok_or_else(full)
        }
        "read" => {
            let id = id(&mut words)?;
            let batch = captures.read(id, now, |iface| ctl.iface_name(iface).to_string());
            batch.map(|batch| batch.to_text()).ok_or_else(|| nobody(id))
        }
        "close" => {
            let id = id(&mut words)?;
            if captures.close(id) { Ok(String::new()) } else { Err(nobody(id)) }
        }
        "list" => words.end().map(|()| list(ctl)),
        other => Err(WordError::unknown("word", other, VERBS.iter().copied())),
    }
}

/// The iface called `name`, which must have a port; or all that have one.
fn ports<L: Locks>(ctl: &Ctl<'_, L>, name: &str) -> Result<Vec<IfaceId>, WordError> {
    let ports: Vec<IfaceId> = ctl.host.ports().iter().map(|port| port.iface).collect();
    if name == "any" {
        return Ok(ports);
    }
    let id = ctl.iface(name)?.id;
    match ports.contains(&id) {
        true => Ok(vec![id]),
        false => Err(WordError::failed(format!("{name}: has no port: its packets do not leave the host as frames"))),
    }
}

fn list<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let captures = ctl.host.captures().list(ctl.cx.now);
    let names = |ifaces: &[IfaceId]| ifaces.iter().map(|id| ctl.iface_name(*id).to_string()).collect::<Vec<_>>();
    let row = |c: &crate::capture::Status| json!({ "id": c.id, "ifaces": names(&c.ifaces), "held": c.held, "seen": c.seen, "missed": c.missed });
    let line = |c: &crate::capture::Status| {
        let names = names(&c.ifaces).join(",");
        format!("{:<4} {:>10} {:>10} {:>8} {names}\n", c.id, c.seen, c.missed, c.held)
    };
    ctl.listing(
        || Value::Array(captures.iter().map(row).collect()),
        || {
            let head = format!("{:<4} {:>10} {:>10} {:>8} {}\n", "id", "seen", "missed", "held", "ifaces");
            head + &captures.iter().map(line).collect::<String>()
        },
    )
}
