//! `bridge`: the commands of iproute2's bridge(8).

use super::super::Switch;
use super::ifconfig::{entries, forget, keep};
use super::{Info, listing, member, snoop, tree, vlan};
use crate::commands::parse;
use bridge::{Entry, Key, Kind, Leave, Link, Member, PortNo};
use grammar::{CommandError, Words};
use serde_json::{Value, json};

type Set = fn(&mut Member, bool);

/// Settings of `link set`.
const SETTINGS: &[(&str, Set)] = &[
    ("learning", |member, on| member.learn = on),
    ("flood", |member, on| member.discover = on),
    ("isolated", |member, on| member.private = on),
    ("sticky", |member, on| member.sticky = on),
    ("mcast_flood", |member, on| member.multicast = on),
    ("bcast_flood", |member, on| member.broadcast = on),
];

pub(super) fn run(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    let json = words.skip("-j") || json;
    match words.next("link, fdb, vlan or mdb")? {
        "link" => link(switch, json, words),
        "fdb" => fdb(switch, json, words),
        "vlan" => vlan::run(switch, json, words),
        "mdb" => {
            let _ = words.skip("show");
            words.end().map(|()| snoop::mdb(switch, json))
        }
        other => Err(CommandError::unknown("object", other, ["link", "fdb", "vlan", "mdb"].into_iter())),
    }
}

fn link(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    if words.skip("set") {
        let (number, _) = dev(switch, &mut words)?;
        while let Some(word) = words.take() {
            if word == "mcast_router" {
                snoop::router(switch, number, words.next("0 never, 1 learned, 2 always")?)?;
                continue;
            }
            let found = SETTINGS.iter().find(|(name, _)| *name == word);
            let names = SETTINGS.iter().map(|(name, _)| *name).chain(["fastleave", "mcast_router"]);
            if found.is_none() && word != "fastleave" {
                return Err(CommandError::unknown("setting", word, names));
            }
            let on = match words.next("on or off")? {
                "on" => true,
                "off" => false,
                other => return Err(CommandError::bad(word, other, "on or off")),
            };
            match found {
                Some((_, set)) => switch.set_member(number, |member| set(member, on)),
                None => {
                    let leave = if on { Leave::Fast } else { Leave::Asked };
                    snoop::set_port(switch, number, |port| port.leave = leave);
                }
            }
        }
        return Ok(String::new());
    }
    let _ = words.skip("show") || words.skip("list");
    let only = if words.peek().is_some() { Some(dev(switch, &mut words)?.0) } else { None };
    words.end()?;
    let (members, ports) = (switch.members(), tree::ports(switch));
    let links: Vec<Link> = members.iter().map(|(_, info)| info.link().0).collect();
    let Some(lane) = switch.lane(0) else { return Ok(String::new()) };
    let state = |number: PortNo| tree::state_of_linux(lane.bridge.state(number).unwrap_or_default());
    let shown = || members.iter().zip(&links).filter(|((number, _), _)| only.is_none_or(|only| only == *number));
    // Without a tree, the values that it would start with. iproute2 shows priorities in the six
    // bits of 802.1D-1998.
    let costs = |number: PortNo, link: Link| match ports.get(&number) {
        Some(port) => (port.asked.priority / 16 * 4, port.path_cost),
        None => (32, tree::cost(link)),
    };
    let flags = |link: Link| match link {
        Link::Up { .. } => vec!["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
        Link::Down => vec!["NO-CARRIER", "BROADCAST", "MULTICAST", "UP"],
    };
    let row = |((number, info), link): (&(PortNo, Info), &Link)| {
        let (priority, cost) = costs(*number, *link);
        json!({ "ifindex": number + 1, "ifname": info.name, "flags": flags(*link),
                "mtu": info.caps.mtu, "master": switch.name, "state": state(*number),
                "priority": priority, "cost": cost })
    };
    let line = |((number, info), link): (&(PortNo, Info), &Link)| {
        let (name, mtu, master) = (&info.name, info.caps.mtu, &switch.name);
        let (index, state, (priority, cost)) = (number + 1, state(*number), costs(*number, *link));
        let flags = flags(*link).join(",");
        format!("{index}: {name}: <{flags}> mtu {mtu} master {master} state {state} priority {priority} cost {cost} \n")
    };
    Ok(listing(json, || shown().map(row).collect(), || shown().map(line).collect()))
}

/// Parses `dev IF`.
pub(super) fn dev(switch: &Switch, words: &mut Words<'_>) -> Result<(PortNo, Info), CommandError> {
    match words.next("dev and a member")? {
        "dev" => member(switch, words.next("a member")?),
        other => Err(CommandError::unknown("word", other, std::iter::once("dev"))),
    }
}

fn fdb(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    let verb = words.take().unwrap_or("show");
    match verb {
        "add" | "replace" | "append" => change(switch, words, keep),
        "del" | "delete" => change(switch, words, |switch, key, _| forget(switch, key)),
        "show" | "list" => {
            let only = if words.peek().is_some() { Some(dev(switch, &mut words)?.1.name) } else { None };
            words.end()?;
            Ok(show(switch, json, only.as_deref()))
        }
        other => Err(CommandError::unknown("verb", other, ["show", "add", "del"].into_iter())),
    }
}

/// Parses `MAC dev IF [vlan N] [master] [static|permanent]` and calls `change` with the result.
fn change(
    switch: &Switch,
    mut words: Words<'_>,
    change: impl Fn(&Switch, Key, PortNo) -> Result<(), CommandError>,
) -> Result<String, CommandError> {
    let mac = parse::mac(words.next("a MAC address")?)?;
    let (number, _) = dev(switch, &mut words)?;
    let mut vid = 0;
    while let Some(word) = words.take() {
        match word {
            "vlan" => vid = parse::number("vlan", words.next("a VLAN from 1 to 4094")?, 1, 4094)? as u16,
            "master" | "static" | "permanent" => {}
            other => return Err(CommandError::unknown("word", other, ["vlan", "master", "static"].into_iter())),
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
