//! `ifconfig`: members and addresses in if_bridge's words (ifconfig(8)).

use super::super::Switch;
use super::{add, guard, listing, member, tree, vlan};
use crate::words::WordError;
use crate::words::parse::{self, Words};
use bridge::{Entry, Key, Kind, Member, PortNo};
use serde_json::{Value, json};

/// What may be asked of a member, with its flag (net/if_bridgevar.h) and its name in a listing.
const FLAGS: &[(&str, u32, &str, Field)] = &[
    ("learn", 0x1, "LEARNING", |member| &mut member.learn),
    ("discover", 0x2, "DISCOVER", |member| &mut member.discover),
    ("multicast", 0x10_0000, "MULTICAST", |member| &mut member.multicast),
    ("broadcast", 0x20_0000, "BROADCAST", |member| &mut member.broadcast),
    ("span", 0x8, "SPAN", |member| &mut member.span),
    ("sticky", 0x10, "STICKY", |member| &mut member.sticky),
    ("private", 0x800, "PRIVATE", |member| &mut member.private),
];

type Field = fn(&mut Member) -> &mut bool;

const OWN: &[&str] = &["addm", "deletem", "addr", "static", "deladdr", "flush", "flushall", "cluster"];

pub(super) fn run(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, WordError> {
    if let Some(name) = words.take().filter(|name| *name != "-a")
        && name != switch.name
    {
        return Err(WordError::unknown("bridge", name, std::iter::once(switch.name.as_str())));
    }
    if words.peek().is_none() {
        return Ok(listing(json, || bridge_json(switch), || describe(switch)));
    }
    let mut out = String::new();
    while let Some(word) = words.take() {
        out += &change(switch, json, word, &mut words)?;
    }
    Ok(out)
}

fn change(switch: &Switch, json: bool, word: &str, words: &mut Words<'_>) -> Result<String, WordError> {
    match word {
        "addm" => {
            let name = words.next("a port such as tap:tap0")?;
            let lane = match words.skip("loop") {
                true => Some(parse::number("loop", words.next("a number")?, 0, switch.loops() as i64 - 1)? as usize),
                false => None,
            };
            add(switch, name, lane)?;
        }
        "deletem" => {
            let (number, _) = member(switch, words.next("a member")?)?;
            switch.remove(number);
        }
        "addr" => return Ok(addresses(switch, json)),
        "static" => {
            let (number, _) = member(switch, words.next("a member")?)?;
            let key = key(words)?;
            keep(switch, key, number)?;
        }
        "deladdr" => {
            let key = key(words)?;
            forget(switch, key)?;
        }
        "flush" | "flushall" => flush(switch, word == "flushall"),
        "cluster" => {
            let (number, _) = member(switch, words.next("a member")?)?;
            let cluster = parse::number("cluster", words.next("a number")?, 0, i64::from(u16::MAX) - 1)? as u16;
            switch.set_member(number, |member| member.cluster = cluster);
        }
        _ => {
            let (name, on) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
            switched(switch, name, on, words)?;
        }
    }
    Ok(String::new())
}

/// What may be switched on and off, of a member or of the bridge.
fn switched(switch: &Switch, name: &str, on: bool, words: &mut Words<'_>) -> Result<(), WordError> {
    for (known, change) in [
        (tree::WORDS, tree::change as fn(&Switch, &str, bool, &mut Words<'_>) -> Result<(), WordError>),
        (vlan::WORDS, vlan::change),
        (guard::WORDS, guard::change),
    ] {
        if known.contains(&name) {
            return change(switch, name, on, words);
        }
    }
    let flags = FLAGS.iter().map(|(flag, ..)| *flag);
    let all = OWN.iter().chain(tree::WORDS).chain(vlan::WORDS).chain(guard::WORDS).copied().chain(flags);
    let flag = FLAGS.iter().find(|(flag, ..)| *flag == name);
    let (_, _, _, field) = flag.ok_or_else(|| WordError::unknown("word", name, all))?;
    let (number, _) = member(switch, words.next("a member")?)?;
    switch.set_member(number, |member| *field(member) = on);
    Ok(())
}

/// `MAC [vlan N]`.
pub(super) fn key(words: &mut Words<'_>) -> Result<Key, WordError> {
    let mac = parse::mac(words.next("a MAC address")?)?;
    let vid = match words.skip("vlan") {
        true => parse::number("vlan", words.next("a VLAN from 1 to 4094")?, 1, 4094)? as u16,
        false => 0,
    };
    Ok(Key::new(vid, mac))
}

/// From now on the address is there, whoever says otherwise.
pub(super) fn keep(switch: &Switch, key: Key, number: PortNo) -> Result<(), WordError> {
    let mut kept = true;
    switch.each_lane(|lane| {
        let now = lane.now();
        kept &= lane.bridge.fdb_mut().insert_static(key, number, now);
    });
    if kept { Ok(()) } else { Err(WordError::failed("no place for one more static address")) }
}

/// Forgets an address.
pub(super) fn forget(switch: &Switch, key: Key) -> Result<(), WordError> {
    let mut known = false;
    switch.each_lane(|lane| {
        let now = lane.now();
        known |= lane.bridge.forget_address(key, now);
    });
    if known { Ok(()) } else { Err(WordError::failed(format!("{}: no such address", key.mac()))) }
}

fn flush(switch: &Switch, all: bool) {
    switch.each_lane(|lane| {
        let now = lane.now();
        lane.bridge.forget(|entry| all || entry.kind == Kind::Learned, now);
    });
}

/// What is known, each address once, with its member's name; and the seconds until it is forgotten.
pub(super) fn entries(switch: &Switch) -> Vec<(Entry, String, u64)> {
    let members = switch.members();
    let mut all = Vec::new();
    for number in 0..switch.lanes() {
        let Some(lane) = switch.lane(number) else { continue };
        let timeout = lane.bridge.fdb().timeout();
        for entry in lane.bridge.fdb().entries(lane.now()) {
            // The lane of an address's port knows best how old it is.
            let Some((_, info)) = members.iter().find(|(port, info)| *port == entry.port && info.lane == number) else {
                continue;
            };
            all.push((entry, info.name.clone(), timeout.saturating_sub(entry.age).as_secs()));
        }
    }
    all.sort_by_key(|(entry, ..)| (entry.key.vid(), entry.key.mac().0));
    all
}

/// `MAC VlanN IF expire flags<>`, as `ifconfig bridge0 addr` has it.
fn addresses(switch: &Switch, json: bool) -> String {
    let entries = entries(switch);
    let flags = |kind| match kind {
        Kind::Learned => "",
        Kind::Static => "STATIC",
        Kind::Sticky => "STICKY",
        Kind::Local => "LOCAL",
    };
    let expire = |kind, left: u64| if kind == Kind::Learned { left } else { 0 };
    let row = |(entry, name, left): &(Entry, String, u64)| {
        json!({ "mac": entry.key.mac().to_string(), "vlan": entry.key.vid(), "ifname": name,
                "expire": expire(entry.kind, *left), "flags": flags(entry.kind) })
    };
    let line = |(entry, name, left): &(Entry, String, u64)| {
        let (mac, vid) = (entry.key.mac(), entry.key.vid());
        format!("{mac} Vlan{vid} {name} {} flags<{}>\n", expire(entry.kind, *left), flags(entry.kind))
    };
    listing(json, || entries.iter().map(row).collect(), || entries.iter().map(line).collect())
}

/// A member's flags: their bits, their names.
fn flags(member: &Member) -> (u32, Vec<&'static str>) {
    let mut member = *member;
    let on: Vec<_> = FLAGS.iter().filter(|(_, _, _, field)| *field(&mut member)).collect();
    (on.iter().map(|(_, bit, ..)| bit).sum(), on.iter().map(|(_, _, name, _)| *name).collect())
}

fn bridge_json(switch: &Switch) -> Value {
    let Some(lane) = switch.lane(0) else { return Value::Null };
    let member = |(number, info): &(PortNo, super::Info)| {
        let (_, names) = lane.bridge.member(*number).map(flags).unwrap_or_default();
        json!({ "ifname": info.name, "port": info.spec, "number": number, "loop": info.lane, "flags": names })
    };
    let fdb = lane.bridge.fdb();
    json!({ "ifname": switch.name, "address": switch.mac.to_string(), "maxaddr": fdb.most(),
            "timeout": fdb.timeout().as_secs(), "stp": tree::to_json(switch),
            "members": switch.members().iter().map(member).collect::<Value>() })
}

fn describe(switch: &Switch) -> String {
    let members = switch.members();
    let Some(lane) = switch.lane(0) else { return String::new() };
    let fdb = lane.bridge.fdb();
    let mut out = format!("{}: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0\n", switch.name);
    out += &format!("\tether {}\n", switch.mac);
    out += &tree::describe(switch).unwrap_or_default();
    out += &format!("\tmaxaddr {} timeout {}\n", fdb.most(), fdb.timeout().as_secs());
    for (number, info) in &members {
        let Some(member) = lane.bridge.member(*number) else { continue };
        let (bits, names) = flags(member);
        out += &format!("\tmember: {} flags={bits:x}<{}>\n", info.name, names.join(","));
        let limit = fdb.limit(*number).unwrap_or(0);
        out += &format!("\t        ifmaxaddr {limit} port {} loop {} {}\n", number + 1, info.lane, info.spec);
        if member.cluster > 0 {
            out += &format!("\t        cluster {}\n", member.cluster);
        }
        out +=
            &switch.tree(|stp| stp.port(*number)).flatten().map(|port| tree::describe_port(&port)).unwrap_or_default();
        out += &vlan::describe_port(&lane.bridge, *number).unwrap_or_default();
        if lane.bridge.muted(*number).is_some() {
            out += "\t        muted: addresses moved as in a loop\n";
        }
    }
    out
}
