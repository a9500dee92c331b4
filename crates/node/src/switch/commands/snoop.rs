//! Multicast snooping (RFC 4541): `snoop`, `querier`, port settings, and the listener table
//! (`bridge mdb`).

use super::super::Switch;
use super::{Info, listing, member, vlan};
use bridge::{Bridge, Leave, Listener, PortNo, Querier, RouterPort, SnoopConfig, SnoopPort, Unknown};
use clock::Duration;
use grammar::{CommandError, Words};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parameters of `ifconfig` handled here.
pub(super) const WORDS: &[&str] = &["snoop", "unknowngroups", "querier", "fastleave", "router"];

/// Query interval of 125 s (RFC 3376 8.2).
const INTERVAL: Duration = Duration::from_secs(125);
const ROUTERS: &[(RouterPort, &str, &str)] =
    &[(RouterPort::Never, "never", "0"), (RouterPort::Learned, "learned", "1"), (RouterPort::Always, "always", "2")];

/// Applies an `ifconfig` parameter, enabled or disabled.
pub(super) fn change(switch: &Switch, name: &str, on: bool, words: &mut Words<'_>) -> Result<(), CommandError> {
    match name {
        "snoop" => begin(switch, on),
        "unknowngroups" => {
            let unknown = match words.next("flood or routers")? {
                "flood" => Unknown::Flood,
                "routers" => Unknown::Routers,
                other => return Err(CommandError::bad(name, other, "flood or routers")),
            };
            begin(switch, true);
            switch.each_lane(|lane| lane.bridge.set_unknown_groups(unknown));
        }
        "querier" => querier(switch, on, words)?,
        "fastleave" => {
            let (number, _) = member(switch, words.next("a member")?)?;
            set_port(switch, number, |port| port.leave = if on { Leave::Fast } else { Leave::Asked });
        }
        _ => {
            let (number, _) = member(switch, words.next("a member")?)?;
            router(switch, number, words.next("learned, always or never")?)?;
        }
    }
    Ok(())
}

/// Sets the router detection of a port, by its name or by iproute2's number for it.
pub(super) fn router(switch: &Switch, number: PortNo, word: &str) -> Result<(), CommandError> {
    let found = ROUTERS.iter().find(|(_, name, figure)| word == *name || word == *figure);
    let (router, ..) = found.ok_or_else(|| CommandError::bad("router", word, "learned, always or never"))?;
    set_port(switch, number, |port| port.router = *router);
    Ok(())
}

pub(super) fn set_port(switch: &Switch, number: PortNo, change: impl Fn(&mut SnoopPort)) {
    switch.each_lane(|lane| {
        let mut port = lane.bridge.snoop_port(number).unwrap_or_default();
        change(&mut port);
        lane.bridge.set_snoop_port(number, port);
    });
}

/// Turns snooping on or off. When it was off before, it starts with an empty table.
fn begin(switch: &Switch, on: bool) {
    switch.each_lane(|lane| {
        let now = lane.now();
        if on != lane.bridge.snooping().is_some() {
            lane.bridge.set_snooping(on.then(SnoopConfig::default), now);
        }
    });
}

fn asked(switch: &Switch) -> Option<Querier> {
    switch.lane(0).and_then(|lane| lane.bridge.snooping()?.querier.clone())
}

/// Runs `querier A`, which sets the querier's address for IPv4 or IPv6 and enables snooping, and
/// `-querier`, which stops the querier.
fn querier(switch: &Switch, on: bool, words: &mut Words<'_>) -> Result<(), CommandError> {
    if !on {
        switch.each_lane(|lane| {
            let now = lane.now();
            lane.bridge.set_querier(None, now);
        });
        return Ok(());
    }
    let expected = "an IPv4 address, or a link-local one of IPv6 such as fe80::1";
    let word = words.next(expected)?;
    let none = Querier { mac: switch.mac, v4: None, v6: None, vids: Vec::new(), interval: INTERVAL };
    let mut querier = asked(switch).unwrap_or(none);
    match word.parse() {
        Ok(IpAddr::V4(address)) => querier.v4 = Some(address),
        // RFC 3810 5.1.14: a query without a link-local source is ignored.
        Ok(IpAddr::V6(address)) if address.is_unicast_link_local() => querier.v6 = Some(address),
        _ => return Err(CommandError::bad("querier", word, expected)),
    }
    begin(switch, true);
    ask(switch, querier);
    Ok(())
}

fn ask(switch: &Switch, querier: Querier) {
    let querier = Querier { vids: vlan::asked_in(switch), ..querier };
    switch.each_lane(|lane| {
        let now = lane.now();
        lane.bridge.set_querier(Some(querier.clone()), now);
    });
}

/// Updates the VLANs of the querier after a change of VLANs or members.
pub(super) fn vlans_changed(switch: &Switch) {
    if let Some(querier) = asked(switch).filter(|querier| querier.vids != vlan::asked_in(switch)) {
        ask(switch, querier);
    }
}

/// Returns ` snoop querier A`, if snooping is enabled.
pub(super) fn describe(bridge: &Bridge) -> String {
    let Some(config) = bridge.snooping() else { return String::new() };
    let unknown = if config.unknown == Unknown::Routers { " unknowngroups routers" } else { "" };
    let querier = config.querier.as_ref();
    let v4 = querier.and_then(|querier| querier.v4).map(|at: Ipv4Addr| format!(" querier {at}"));
    let v6 = querier.and_then(|querier| querier.v6).map(|at: Ipv6Addr| format!(" querier {at}"));
    format!(" snoop{unknown}{}{}", v4.unwrap_or_default(), v6.unwrap_or_default())
}

/// Returns the snooping settings of a member, if not the defaults.
pub(super) fn describe_port(bridge: &Bridge, number: PortNo) -> String {
    let port = bridge.snoop_port(number).unwrap_or_default();
    if port == SnoopPort::default() {
        return String::new();
    }
    let fast = if port.leave == Leave::Fast { " fastleave" } else { "" };
    format!("\t        router {}{fast}\n", router_word(port))
}

fn router_word(port: SnoopPort) -> &'static str {
    ROUTERS.iter().find(|(router, ..)| *router == port.router).map_or("learned", |(_, word, _)| word)
}

pub(super) fn to_json(bridge: &Bridge) -> Value {
    let Some(config) = bridge.snooping() else { return Value::Null };
    let querier = config.querier.as_ref();
    json!({ "unknown": if config.unknown == Unknown::Routers { "routers" } else { "flood" },
            "querier": { "v4": querier.and_then(|querier| querier.v4), "v6": querier.and_then(|querier| querier.v6),
                         "vlans": querier.map(|querier| querier.vids.clone()) } })
}

pub(super) fn port_json(bridge: &Bridge, number: PortNo) -> Value {
    let port = bridge.snoop_port(number).unwrap_or_default();
    json!({ "router": router_word(port), "fastleave": port.leave == Leave::Fast })
}

/// Listeners and routers of all threads: each once, with the longest remaining lifetime.
#[derive(Default)]
struct Known {
    listeners: BTreeMap<(u16, IpAddr, PortNo), Duration>,
    routers: BTreeMap<(u16, PortNo), Duration>,
}

fn known(switch: &Switch) -> Known {
    let mut all = Known::default();
    switch.each_lane(|lane| {
        let now = lane.now();
        let mut after = None;
        loop {
            let page = lane.bridge.mdb(after, 256, now);
            for Listener { vid, group, port, left } in page.listeners {
                let known = all.listeners.entry((vid, group, port)).or_insert(left);
                *known = left.max(*known);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        for (vid, port, left) in lane.bridge.router_ports(now) {
            let known = all.routers.entry((vid, port)).or_insert(left);
            *known = left.max(*known);
        }
    });
    all
}

/// Lists the listeners of groups, and the router ports (`bridge mdb show`).
pub(super) fn mdb(switch: &Switch, json: bool) -> String {
    let members = switch.members();
    let name = |number: PortNo| {
        members.iter().find(|(no, _)| *no == number).map_or("?".into(), |(_, info): &(_, Info)| info.name.clone())
    };
    let known = known(switch);
    let row = |(&(vid, group, port), left): (&(u16, IpAddr, PortNo), &Duration)| {
        let mut row = json!({ "index": 1, "dev": switch.name, "port": name(port), "grp": group.to_string(),
                              "state": "temp", "flags": [], "timer": timer(*left) });
        if let (true, Some(row)) = (vid > 0, row.as_object_mut()) {
            row.insert("vid".into(), vid.into());
        }
        row
    };
    let router = |(&(vid, port), left): (&(u16, PortNo), &Duration)| {
        let mut row = json!({ "port": name(port), "type": "temp", "timer": timer(*left) });
        if let (true, Some(row)) = (vid > 0, row.as_object_mut()) {
            row.insert("vid".into(), vid.into());
        }
        row
    };
    listing(
        json,
        || {
            let mut routers = serde_json::Map::new();
            if !known.routers.is_empty() {
                routers.insert(switch.name.clone(), known.routers.iter().map(router).collect());
            }
            json!([{ "mdb": known.listeners.iter().map(row).collect::<Value>(), "router": routers }])
        },
        || {
            let vid = |vid: u16| if vid > 0 { format!(" vid {vid}") } else { String::new() };
            let line = |(&(of, group, port), left): (&(u16, IpAddr, PortNo), &Duration)| {
                format!("dev {} port {} grp {group} temp{}  {}\n", switch.name, name(port), vid(of), timer(*left))
            };
            let router = |(&(of, port), left): (&(u16, PortNo), &Duration)| {
                format!("router port {}{}  {}\n", name(port), vid(of), timer(*left))
            };
            known.listeners.iter().map(line).collect::<String>() + &known.routers.iter().map(router).collect::<String>()
        },
    )
}

/// Returns seconds with two decimals, as in iproute2.
fn timer(left: Duration) -> String {
    format!("{:.2}", left.as_nanos() as f64 / 1e9)
}
