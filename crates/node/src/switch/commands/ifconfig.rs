//! `ifconfig`: members and addresses, with the parameters of if_bridge (ifconfig(8)).

use super::super::Switch;
use super::{add, guard, listing, member, snoop, tree, vlan};
use crate::commands::parse;
use bridge::{Entry, Key, Kind, LOCAL, Link, Member, PortNo, Running, StpPortView};
use grammar::{CommandError, Words};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Settings of a member, with their flag (net/if_bridgevar.h) and name in a listing.
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

const OWN: &[&str] =
    &["addm", "deletem", "addr", "static", "deladdr", "flush", "flushall", "cluster", "up", "down", "monitor"];

pub(super) fn run(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    if let Some(name) = words.take().filter(|name| *name != "-a")
        && name != switch.name
    {
        return Err(CommandError::unknown("bridge", name, std::iter::once(switch.name.as_str())));
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

fn change(switch: &Switch, json: bool, word: &str, words: &mut Words<'_>) -> Result<String, CommandError> {
    match word {
        "addm" => {
            let name = words.next("a port such as tap:tap0")?;
            let lane = match words.skip("loop") {
                true => Some(parse::number("loop", words.next("a number")?, 0, switch.loops() as i64 - 1)? as usize),
                false => None,
            };
            add(switch, name, lane)?;
            snoop::vlans_changed(switch);
        }
        "deletem" => {
            let (number, _) = member(switch, words.next("a member")?)?;
            switch.remove(number);
            snoop::vlans_changed(switch);
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
        "up" | "-monitor" => switch.set_running(Running::Up),
        "down" => switch.set_running(Running::Down),
        "monitor" => switch.set_running(Running::Monitor),
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

/// Applies a parameter that can be enabled and disabled, of a member or of the bridge.
fn switched(switch: &Switch, name: &str, on: bool, words: &mut Words<'_>) -> Result<(), CommandError> {
    for (known, change) in [
        (tree::WORDS, tree::change as fn(&Switch, &str, bool, &mut Words<'_>) -> Result<(), CommandError>),
        (vlan::WORDS, vlan::change),
        (guard::WORDS, guard::change),
        (snoop::WORDS, snoop::change),
    ] {
        if known.contains(&name) {
            return change(switch, name, on, words);
        }
    }
    let flags = FLAGS.iter().map(|(flag, ..)| *flag);
    let all =
        OWN.iter().chain(tree::WORDS).chain(vlan::WORDS).chain(guard::WORDS).chain(snoop::WORDS).copied().chain(flags);
    let flag = FLAGS.iter().find(|(flag, ..)| *flag == name);
    let (_, _, _, field) = flag.ok_or_else(|| CommandError::unknown("word", name, all))?;
    let (number, _) = member(switch, words.next("a member")?)?;
    switch.set_member(number, |member| *field(member) = on);
    Ok(())
}

/// Parses `MAC [vlan N]`.
pub(super) fn key(words: &mut Words<'_>) -> Result<Key, CommandError> {
    let mac = parse::mac(words.next("a MAC address")?)?;
    let vid = match words.skip("vlan") {
        true => parse::number("vlan", words.next("a VLAN from 1 to 4094")?, 1, 4094)? as u16,
        false => 0,
    };
    Ok(Key::new(vid, mac))
}

/// Adds a static address.
pub(super) fn keep(switch: &Switch, key: Key, number: PortNo) -> Result<(), CommandError> {
    if !key.mac().is_unicast() || key.mac() == switch.mac {
        let what = if key.mac() == switch.mac { "the bridge's own address" } else { "no address of a station" };
        return Err(CommandError::failed(format!("{}: {what}", key.mac())));
    }
    let mut kept = true;
    switch.each_lane(|lane| {
        let now = lane.now();
        kept &= lane.bridge.fdb_mut().insert_static(key, number, now);
    });
    if kept { Ok(()) } else { Err(CommandError::failed("no place for one more static address")) }
}

/// Removes an address.
pub(super) fn forget(switch: &Switch, key: Key) -> Result<(), CommandError> {
    if key.mac() == switch.mac {
        return Err(CommandError::failed(format!("{}: the bridge's own address stays", key.mac())));
    }
    let mut known = false;
    switch.each_lane(|lane| {
        let now = lane.now();
        known |= lane.bridge.forget_address(key, now);
    });
    if known { Ok(()) } else { Err(CommandError::failed(format!("{}: no such address", key.mac()))) }
}

fn flush(switch: &Switch, all: bool) {
    switch.each_lane(|lane| {
        let now = lane.now();
        lane.bridge.forget(|entry| if all { entry.kind != Kind::Local } else { entry.kind == Kind::Learned }, now);
    });
}

/// Returns each known address once, with the name of its member and the seconds until it expires.
/// Of the threads that poll its port, the one with the latest sighting gives the age.
pub(super) fn entries(switch: &Switch) -> Vec<(Entry, String, u64)> {
    let members = switch.members();
    let mut all: BTreeMap<(u16, [u8; 6]), (Entry, String, u64)> = BTreeMap::new();
    for number in 0..switch.lanes() {
        let Some(lane) = switch.lane(number) else { continue };
        let timeout = lane.bridge.fdb().timeout();
        for entry in lane.bridge.fdb().entries(lane.now()) {
            let name = match members.iter().find(|(port, info)| *port == entry.port && info.is_polled_by(number)) {
                Some((_, info)) => info.name.clone(),
                None if entry.port == LOCAL => switch.name.clone(),
                None => continue,
            };
            let left = timeout.saturating_sub(entry.age).as_secs();
            let of = all.entry((entry.key.vid(), entry.key.mac().0)).or_insert_with(|| (entry, name.clone(), left));
            if of.0.heard || entry.age < of.0.age {
                *of = (entry, name, left);
            }
        }
    }
    all.into_values().collect()
}

/// Lists addresses as `MAC VlanN IF expire flags<>`, like `ifconfig bridge0 addr`.
fn addresses(switch: &Switch, json: bool) -> String {
    let all = entries(switch).into_iter();
    // The bridge's own address does not belong to a member.
    let entries: Vec<_> = all.filter(|(entry, ..)| entry.kind != Kind::Local).collect();
    let flags = |kind| match kind {
        Kind::Learned | Kind::Local => "",
        Kind::Static => "STATIC",
        Kind::Sticky => "STICKY",
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

/// Returns the flags of a member: bits and names, with those of the tree.
fn flags(member: &Member, port: Option<&StpPortView>) -> (u32, Vec<&'static str>) {
    let mut member = *member;
    let on = FLAGS.iter().filter(|(_, _, _, field)| *field(&mut member)).map(|(_, bit, name, _)| (*bit, *name));
    let mut on: Vec<(u32, &str)> = on.chain(port.into_iter().flat_map(tree::flags)).collect();
    on.sort_by_key(|(bit, _)| *bit);
    (on.iter().map(|(bit, _)| bit).sum(), on.iter().map(|(_, name)| *name).collect())
}

fn bridge_json(switch: &Switch) -> Value {
    let (members, stp, ports) = (switch.members(), tree::to_json(switch), tree::ports(switch));
    let Some(lane) = switch.lane(0) else { return Value::Null };
    let bridge = &lane.bridge;
    let member = |(number, info): &(PortNo, super::Info)| {
        let member = bridge.member(*number);
        let (_, names) = member.map(|member| flags(member, ports.get(number))).unwrap_or_default();
        let loops: Vec<usize> = info.queues.iter().map(|queue| queue.lane).collect();
        json!({ "ifname": info.name, "port": info.spec(), "number": number, "loop": info.lane(), "loops": loops, "flags": names,
                "cluster": member.map(|member| member.cluster), "guards": guard::port_json(bridge, *number),
                "vlan": vlan::port_json(bridge, *number), "snoop": snoop::port_json(bridge, *number) })
    };
    let fdb = bridge.fdb();
    json!({ "ifname": switch.name, "address": switch.mac.to_string(), "running": running(bridge.running()),
            "maxaddr": fdb.most(), "timeout": fdb.timeout().as_secs(), "addresses": fdb.len(),
            "mute": guard::to_json(bridge), "snoop": snoop::to_json(bridge), "vlanfilter": bridge.vlan_filtering().is_some(),
            "stp": stp, "members": members.iter().map(member).collect::<Value>() })
}

fn running(running: Running) -> &'static str {
    match running {
        Running::Up => "up",
        Running::Monitor => "monitor",
        Running::Down => "down",
    }
}

fn describe(switch: &Switch) -> String {
    let (members, ports) = (switch.members(), tree::ports(switch));
    let links: Vec<Link> = members.iter().map(|(_, info)| info.link().0).collect();
    let table = switch.lane(0).map(|lane| (lane.bridge.fdb().most(), lane.bridge.fdb().timeout().as_secs()));
    let (most, timeout) = table.unwrap_or_default();
    let tree = tree::describe(switch, &format!("maxaddr {most} timeout {timeout}"));
    let Some(lane) = switch.lane(0) else { return String::new() };
    let (bridge, fdb) = (&lane.bridge, lane.bridge.fdb());
    // IFF_UP, IFF_RUNNING, IFF_MONITOR of FreeBSD.
    let (bits, words) = match bridge.running() {
        Running::Up => ("8843", "UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST"),
        Running::Monitor => ("48843", "UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST,MONITOR"),
        Running::Down => ("8802", "BROADCAST,SIMPLEX,MULTICAST"),
    };
    let mtu = members.iter().map(|(_, info)| info.caps.mtu).min().unwrap_or(1500);
    let mut out = format!("{}: flags={bits}<{words}> metric 0 mtu {mtu}\n\tether {}\n", switch.name, switch.mac);
    out += &tree;
    let settings = [guard::describe(bridge), snoop::describe(bridge), vlan::describe(bridge).to_string()].concat();
    if !settings.is_empty() {
        out += &format!("\t{}\n", settings.trim_start());
    }
    for ((number, info), link) in members.iter().zip(links) {
        let Some(member) = bridge.member(*number) else { continue };
        let port = ports.get(number);
        let (bits, names) = flags(member, port);
        out += &format!("\tmember: {} flags={bits:x}<{}>\n", info.name, names.join(","));
        let limit = fdb.limit(*number).unwrap_or(0);
        let cost = tree::describe_cost(port, link);
        out += &format!("\t        ifmaxaddr {limit} port {} {cost}\n", number + 1);
        out += &port.map(tree::describe_port).unwrap_or_default();
        out += &format!("\t        loop {} {}\n", info.loops(), info.spec());
        if member.cluster > 0 {
            out += &format!("\t        cluster {}\n", member.cluster);
        }
        out += &vlan::describe_port(bridge, *number).unwrap_or_default();
        out += &snoop::describe_port(bridge, *number);
        out += &guard::describe_port(bridge, *number);
    }
    out
}
