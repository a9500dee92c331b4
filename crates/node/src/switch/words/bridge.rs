//! `bridge`: the same in the words of iproute2's bridge(8).

use super::super::Switch;
use super::ifconfig::{entries, forget, keep};
use super::{Info, guard, listing, member, tree, vlan};
use crate::words::WordError;
use crate::words::parse::{self, Words};
use bridge::{Entry, Key, Kind, Member, PortNo};
use serde_json::{Value, json};

type Set = fn(&mut Member, bool);

/// What `link set` knows.
const SETTINGS: &[(&str, Set)] = &[
    ("learning", |member, on| member.learn = on),
    ("flood", |member, on| member.discover = on),
    ("isolated", |member, on| member.private = on),
    ("sticky", |member, on| member.sticky = on),
    ("mcast_flood", |member, on| member.multicast = on),
    ("bcast_flood", |member, on| member.broadcast = on),
];

pub(super) fn run(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, WordError> {
    let json = words.skip("-j") || json;
    match words.next("link, fdb, vlan or mdb")? {
        "link" => link(switch, json, words),
        "fdb" => fdb(switch, json, words),
        "vlan" => vlan::run(switch, json, words),
        "mdb" => {
            let _ = words.skip("show");
            words.end().map(|()| guard::mdb(switch, json))
        }
        other => Err(WordError::unknown("object", other, ["link", "fdb", "vlan", "mdb"].into_iter())),
    }
}

fn link(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, WordError> {
    if words.skip("set") {
        let (number, _) = dev(switch, &mut words)?;
        while let Some(word) = words.take() {
            let found = SETTINGS.iter().find(|(name, _)| *name == word);
            let known = || WordError::unknown("setting", word, SETTINGS.iter().map(|(name, _)| *name));
            let (_, set) = found.ok_or_else(known)?;
            let on = match words.next("on or off")? {
                "on" => true,
                "off" => false,
                other => return Err(WordError::bad(word, other, "on or off")),
            };
            switch.set_member(number, |member| set(member, on));
        }
        return Ok(String::new());
    }
    let _ = words.skip("show") || words.skip("list");
    let only = if words.peek().is_some() { Some(dev(switch, &mut words)?.0) } else { None };
    words.end()?;
    let members = switch.members();
    let Some(lane) = switch.lane(0) else { return Ok(String::new()) };
    let state = |number: PortNo| tree::state(lane.bridge.state(number).unwrap_or_default());
    let of_tree = |number: PortNo| switch.tree(|stp| stp.port(number)).flatten();
    let shown = || members.iter().filter(|(number, _)| only.is_none_or(|only| only == *number));
    let row = |(number, info): &(PortNo, Info)| {
        let port = of_tree(*number);
        json!({ "ifindex": number + 1, "ifname": info.name, "flags": ["BROADCAST", "MULTICAST", "UP"],
                "mtu": info.caps.mtu, "master": switch.name, "state": state(*number),
                "priority": port.map(|port| port.asked.priority), "cost": port.map(|port| port.path_cost) })
    };
    let line = |(number, info): &(PortNo, Info)| {
        let (name, mtu, master) = (&info.name, info.caps.mtu, &switch.name);
        let more = of_tree(*number).map(|port| format!(" priority {} cost {}", port.asked.priority, port.path_cost));
        let (index, state, more) = (number + 1, state(*number), more.unwrap_or_default());
        format!("{index}: {name}: <BROADCAST,MULTICAST,UP> mtu {mtu} master {master} state {state}{more}\n")
    };
    Ok(listing(json, || shown().map(row).collect(), || shown().map(line).collect()))
}

/// `dev IF`.
pub(super) fn dev(switch: &Switch, words: &mut Words<'_>) -> Result<(PortNo, Info), WordError> {
    match words.next("dev and a member")? {
        "dev" => member(switch, words.next("a member")?),
        other => Err(WordError::unknown("word", other, std::iter::once("dev"))),
    }
}

fn fdb(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, WordError> {
    let verb = words.take().unwrap_or("show");
    match verb {
        "add" | "replace" | "append" => change(switch, words, keep),
        "del" | "delete" => change(switch, words, |switch, key, _| forget(switch, key)),
        "show" | "list" => {
            let only = if words.peek().is_some() { Some(dev(switch, &mut words)?.1.name) } else { None };
            words.end()?;
            Ok(show(switch, json, only.as_deref()))
        }
        other => Err(WordError::unknown("verb", other, ["show", "add", "del"].into_iter())),
    }
}

/// `MAC dev IF [vlan N] [master] [static|permanent]`.
fn change(
    switch: &Switch,
    mut words: Words<'_>,
    change: impl Fn(&Switch, Key, PortNo) -> Result<(), WordError>,
) -> Result<String, WordError> {
    let mac = parse::mac(words.next("a MAC address")?)?;
    let (number, _) = dev(switch, &mut words)?;
    let mut vid = 0;
    while let Some(word) = words.take() {
        match word {
            "vlan" => vid = parse::number("vlan", words.next("a VLAN from 1 to 4094")?, 1, 4094)? as u16,
            "master" | "static" | "permanent" => {}
            other => return Err(WordError::unknown("word", other, ["vlan", "master", "static"].into_iter())),
        }
    }
    change(switch, Key::new(vid, mac), number).map(|()| String::new())
}

fn show(switch: &Switch, json: bool, only: Option<&str>) -> String {
    let entries = entries(switch);
    let shown = || entries.iter().filter(|(_, name, _)| only.is_none_or(|only| only == name));
    let state = |kind| match kind {
        Kind::Static => "static",
        Kind::Local => "permanent",
        Kind::Learned | Kind::Sticky => "",
    };
    let flags = |kind| if kind == Kind::Sticky { vec!["sticky"] } else { vec![] };
    let row = |(entry, name, _): &(Entry, String, u64)| {
        let mut row = json!({ "mac": entry.key.mac().to_string(), "ifname": name, "flags": flags(entry.kind),
                              "master": switch.name, "state": state(entry.kind) });
        if entry.key.vid() > 0
            && let Some(row) = row.as_object_mut()
        {
            row.insert("vlan".into(), Value::from(entry.key.vid()));
        }
        row
    };
    let line = |(entry, name, _): &(Entry, String, u64)| {
        let vlan = if entry.key.vid() > 0 { format!(" vlan {}", entry.key.vid()) } else { String::new() };
        let words = [&flags(entry.kind)[..], &[state(entry.kind)]].concat().join(" ");
        format!("{} dev {name}{vlan} master {} {words}", entry.key.mac(), switch.name).trim_end().to_string() + "\n"
    };
    listing(json, || shown().map(row).collect(), || shown().map(line).collect())
}
