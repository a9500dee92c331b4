//! Multicast snooping (RFC 4541): `snoop`, `querier`, port settings, and the listener table
//! (`bridge mdb`).

use super::context::{Control, DONE, Parameter, listing};
use bridge::{Bridge, Leave, Listener, PortNo, Querier, RouterPort, SnoopConfig, SnoopPort, Unknown};
use clock::Duration;
use grammar::{Args, CommandError, Form};
use node::switch::{Info, Switch};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parameters of `ifconfig` in this module.
pub(super) const FORMS: &[Parameter] = &[
    Form {
        grammar: "[-]snoop",
        about: "Turn multicast snooping (RFC 4541) on or off.",
        run: |of, args| begin(of.switch, args.is_on("snoop")),
    },
    Form {
        grammar: "unknowngroups flood|routers",
        about: "Select where frames for multicast groups without listeners are sent: to all members (flood) or only to \
                router ports (routers). Also turns snooping on.",
        run: |of, args| {
            let unknown = if args.get("unknowngroups") == Some("flood") { Unknown::Flood } else { Unknown::Routers };
            begin(of.switch, true)?;
            of.switch.each_thread(|thread| thread.bridge.set_unknown_groups(unknown));
            DONE
        },
    },
    Form {
        grammar: "querier A",
        about: "Send IGMP or MLD queries with the source address A; also turns snooping on.",
        run: querier,
    },
    Form {
        grammar: "-querier",
        about: "Stop sending IGMP and MLD queries.",
        run: |of, _| {
            of.switch.each_thread(|thread| {
                let now = thread.now();
                thread.bridge.set_querier(None, now);
            });
            DONE
        },
    },
    Form {
        grammar: "[-]fastleave IF",
        about: "Remove a listener when it sends a leave message, without a query.",
        run: |of, args| fast_leave(of, args, args.is_on("fastleave")),
    },
    Form {
        grammar: "router IF learned,1|always,2|never,0",
        about: "Set whether the member is treated as connected to a multicast router.",
        run: |of, args| router(of, args, args.text("router")),
    },
];

/// Query interval: 125 s (RFC 3376 8.2).
const INTERVAL: Duration = Duration::from_secs(125);
const ROUTERS: &[(RouterPort, &str)] =
    &[(RouterPort::Never, "never"), (RouterPort::Learned, "learned"), (RouterPort::Always, "always")];

/// Sets the multicast router mode of a member to `word`.
pub(super) fn router(of: &Control<'_>, args: &Args<'_>, word: &str) -> Result<String, CommandError> {
    let found = ROUTERS.iter().find(|(_, name)| word == *name);
    set_port(of, args, |port| port.router = found.map_or(RouterPort::Learned, |(router, _)| *router))
}

/// Sets whether a leave message removes a listener at once, instead of after an unanswered query.
pub(super) fn fast_leave(of: &Control<'_>, args: &Args<'_>, on: bool) -> Result<String, CommandError> {
    set_port(of, args, |port| port.leave = if on { Leave::Fast } else { Leave::Asked })
}

fn set_port(of: &Control<'_>, args: &Args<'_>, change: impl Fn(&mut SnoopPort)) -> Result<String, CommandError> {
    let number = of.member(args)?;
    of.switch.each_thread(|thread| {
        let mut port = thread.bridge.snoop_port(number).unwrap_or_default();
        change(&mut port);
        thread.bridge.set_snoop_port(number, port);
    });
    DONE
}

/// Turns snooping on or off. If it was off before, it starts with an empty table.
fn begin(switch: &Switch, on: bool) -> Result<String, CommandError> {
    switch.each_thread(|thread| {
        let now = thread.now();
        if on != thread.bridge.snooping().is_some() {
            thread.bridge.set_snooping(on.then(SnoopConfig::default), now);
        }
    });
    DONE
}

/// Sets the address from which IGMP queries (IPv4) or MLD queries (IPv6) are sent.
fn querier(of: &Control<'_>, args: &Args<'_>) -> Result<String, CommandError> {
    let (switch, word) = (of.switch, args.text("A"));
    let none = Querier { mac: switch.mac, v4: None, v6: None, vids: Vec::new(), interval: INTERVAL };
    let mut querier = switch.querier().unwrap_or(none);
    match word.parse() {
        Ok(IpAddr::V4(address)) => querier.v4 = Some(address),
        // RFC 3810 5.1.14: listeners ignore a query whose source is not link-local.
        Ok(IpAddr::V6(address)) if address.is_unicast_link_local() => querier.v6 = Some(address),
        _ => {
            return Err(CommandError::bad(
                "querier",
                word,
                "an IPv4 address, or a link-local IPv6 address such as fe80::1",
            ));
        }
    }
    begin(switch, true)?;
    switch.set_querier(querier);
    DONE
}

/// Returns ` snoop querier A`, or an empty string if snooping is off.
pub(super) fn describe(bridge: &Bridge) -> String {
    let Some(config) = bridge.snooping() else { return String::new() };
    let unknown = if config.unknown == Unknown::Routers { " unknowngroups routers" } else { "" };
    let querier = config.querier.as_ref();
    let v4 = querier.and_then(|querier| querier.v4).map(|at: Ipv4Addr| format!(" querier {at}"));
    let v6 = querier.and_then(|querier| querier.v6).map(|at: Ipv6Addr| format!(" querier {at}"));
    format!(" snoop{unknown}{}{}", v4.unwrap_or_default(), v6.unwrap_or_default())
}

/// Returns the snooping settings of a member, or an empty string if they are the defaults.
pub(super) fn describe_port(bridge: &Bridge, number: PortNo) -> String {
    let port = bridge.snoop_port(number).unwrap_or_default();
    if port == SnoopPort::default() {
        return String::new();
    }
    let fast = if port.leave == Leave::Fast { " fastleave" } else { "" };
    format!("\t        router {}{fast}\n", router_word(port))
}

fn router_word(port: SnoopPort) -> &'static str {
    ROUTERS.iter().find(|(router, _)| *router == port.router).map_or("learned", |(_, word)| word)
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

/// Multicast listeners and router ports in the tables of all threads. Each occurs once, with its
/// longest remaining lifetime.
#[derive(Default)]
struct Known {
    listeners: BTreeMap<(u16, IpAddr, PortNo), Duration>,
    routers: BTreeMap<(u16, PortNo), Duration>,
}

fn known(switch: &Switch) -> Known {
    let mut all = Known::default();
    switch.each_thread(|thread| {
        let now = thread.now();
        let mut after = None;
        loop {
            let page = thread.bridge.mdb(after, 256, now);
            for Listener { vid, group, port, left } in page.listeners {
                let known = all.listeners.entry((vid, group, port)).or_insert(left);
                *known = left.max(*known);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        for (vid, port, left) in thread.bridge.router_ports(now) {
            let known = all.routers.entry((vid, port)).or_insert(left);
            *known = left.max(*known);
        }
    });
    all
}

/// Returns the listeners of multicast groups, and the multicast router ports (`bridge mdb show`).
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

/// Returns a time in seconds with two decimals, as in iproute2.
fn timer(left: Duration) -> String {
    format!("{:.2}", left.as_nanos() as f64 / 1e9)
}
