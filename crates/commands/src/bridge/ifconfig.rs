//! `ifconfig`: members and addresses, with the parameters of if_bridge (ifconfig(8)).

use super::context::{Control, DONE, Parameter, listing};
use super::{guard, snoop, tree, vlan};
use crate::parse;
use bridge::{Entry, Key, Kind, Link, Member, PortNo, Running, StpPortView};
use grammar::{Args, CommandError, Form, Usage, Words, parse_sequence};
use node::switch::Switch;
use port::Spec;
use serde_json::{Value, json};

/// Settings of a member, each with its flag (net/if_bridgevar.h) and its name in listings.
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

/// Syntax forms of the parameters for members and addresses.
const FORMS: &[Parameter] = &[
    Form {
        grammar: "addm PORT [loop N]",
        about: "Add a port as a member. N is the number of the loop that polls it.",
        run: |of, args| {
            let last = of.switch.loops() as i64 - 1;
            let thread = args.get("N").map(|n| parse::number("loop", n, 0, last)).transpose()?.map(|n| n as usize);
            add(of.switch, args.text("PORT"), thread)?;
            of.switch.update_querier();
            DONE
        },
    },
    Form {
        grammar: "deletem IF",
        about: "Remove a member.",
        run: |of, args| {
            of.switch.remove(of.member(args)?);
            of.switch.update_querier();
            DONE
        },
    },
    Form { grammar: "addr", about: "List the known addresses.", run: |of, _| Ok(addresses(of.switch, of.json)) },
    Form {
        grammar: "static IF MAC [vlan 1-4094]",
        about: "Add a static address.",
        run: |of, args| keep(of.switch, key(args)?, of.member(args)?),
    },
    Form {
        grammar: "deladdr MAC [vlan 1-4094]",
        about: "Remove an address.",
        run: |of, args| forget(of.switch, key(args)?),
    },
    Form { grammar: "flush", about: "Remove all learned addresses.", run: |of, _| flush(of.switch, Flush::Learned) },
    Form {
        grammar: "flushall",
        about: "Remove all learned and static addresses.",
        run: |of, _| flush(of.switch, Flush::All),
    },
    Form { grammar: "up", about: "Start forwarding.", run: |of, _| of.running(Running::Up) },
    Form { grammar: "down", about: "Stop forwarding.", run: |of, _| of.running(Running::Down) },
    Form {
        grammar: "[-]monitor",
        about: "Learn addresses from received frames and copy the frames to span ports, but forward none.",
        run: |of, args| of.running(if args.is_on("monitor") { Running::Monitor } else { Running::Up }),
    },
    Form {
        grammar: "cluster IF 0-65534",
        about: "Forward the frames of a member only to members of the same cluster.",
        run: |of, args| {
            let cluster = args.int::<u16>("cluster");
            of.switch.set_member(of.member(args)?, |member| member.cluster = cluster);
            DONE
        },
    },
    Form {
        grammar: "[-]learn IF",
        about: "Learn source addresses at the member.",
        run: |of, args| flag(of, args, "learn"),
    },
    Form {
        grammar: "[-]discover IF",
        about: "Send frames for unknown addresses to the member.",
        run: |of, args| flag(of, args, "discover"),
    },
    Form {
        grammar: "[-]multicast IF",
        about: "Send multicast frames to the member.",
        run: |of, args| flag(of, args, "multicast"),
    },
    Form {
        grammar: "[-]broadcast IF",
        about: "Send broadcast frames to the member.",
        run: |of, args| flag(of, args, "broadcast"),
    },
    Form {
        grammar: "[-]span IF",
        about: "Make the member a span port, which receives a copy of every frame.",
        run: |of, args| flag(of, args, "span"),
    },
    Form {
        grammar: "[-]sticky IF",
        about: "Make addresses learned at the member sticky; they neither age nor move.",
        run: |of, args| flag(of, args, "sticky"),
    },
    Form {
        grammar: "[-]private IF",
        about: "Block frames between this member and other private members.",
        run: |of, args| flag(of, args, "private"),
    },
];

/// Returns all parameters of `ifconfig`.
pub(super) fn forms() -> impl Iterator<Item = &'static Parameter> + Clone {
    [FORMS, guard::FORMS, tree::FORMS, vlan::FORMS, snoop::FORMS].into_iter().flatten()
}

/// Returns the usage of `ifconfig`.
pub(super) fn usage() -> Vec<Usage> {
    let list = Usage { grammar: "[BRIDGE]".to_string(), about: "Show the bridge and its members." };
    std::iter::once(list).chain(forms().map(|form| form.usage("BRIDGE"))).collect()
}

pub(super) fn run(of: &Control<'_>, mut words: Words<'_>) -> Result<String, CommandError> {
    let switch = of.switch;
    if let Some(name) = words.take().filter(|name| *name != "-a")
        && name != switch.name
    {
        return Err(CommandError::unknown("bridge", name, std::iter::once(switch.name.as_str())));
    }
    if words.peek().is_none() {
        return Ok(of.listing(|| bridge_json(switch), || describe(switch)));
    }
    let parameters = parse_sequence(forms(), words)?;
    parameters.into_iter().map(|(form, args)| (form.run)(of, &args)).collect()
}

/// Opens the port `name` and adds it as a member.
fn add(switch: &Switch, name: &str, thread: Option<usize>) -> Result<PortNo, CommandError> {
    let spec = Spec::parse(name).map_err(CommandError::failed)?;
    switch.add(&spec, thread).map_err(CommandError::failed)
}

/// Sets or clears the flag `name` of a member.
fn flag(of: &Control<'_>, args: &Args<'_>, name: &str) -> Result<String, CommandError> {
    let (number, on) = (of.member(args)?, args.is_on(name));
    if let Some((_, _, _, field)) = FLAGS.iter().find(|(flag, ..)| *flag == name) {
        of.switch.set_member(number, |member| *field(member) = on);
    }
    DONE
}

/// Returns the forwarding table's key for `MAC [vlan N]`.
pub(super) fn key(args: &Args<'_>) -> Result<Key, CommandError> {
    Ok(Key::new(args.int::<u16>("vlan"), parse::mac(args.text("MAC"))?))
}

/// Adds a static address to the forwarding table.
pub(super) fn keep(switch: &Switch, key: Key, number: PortNo) -> Result<String, CommandError> {
    if !key.mac().is_unicast() || key.mac() == switch.mac {
        let what = if key.mac() == switch.mac { "is the bridge's own address" } else { "is not a unicast address" };
        return Err(CommandError::failed(format!("{} {what}", key.mac())));
    }
    let mut kept = true;
    switch.each_thread(|thread| {
        let now = thread.now();
        kept &= thread.bridge.fdb_mut().insert_static(key, number, now);
    });
    if kept { DONE } else { Err(CommandError::failed("cannot add the address: the table is full")) }
}

/// Removes an address from the forwarding table.
pub(super) fn forget(switch: &Switch, key: Key) -> Result<String, CommandError> {
    if key.mac() == switch.mac {
        return Err(CommandError::failed(format!("{} is the bridge's own address and cannot be removed", key.mac())));
    }
    let mut known = false;
    switch.each_thread(|thread| {
        let now = thread.now();
        known |= thread.bridge.forget_address(key, now);
    });
    if known { DONE } else { Err(CommandError::failed(format!("{}: no such address", key.mac()))) }
}

/// Kinds of addresses to remove.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    Learned,
    All,
}

fn flush(switch: &Switch, what: Flush) -> Result<String, CommandError> {
    switch.each_thread(|thread| {
        let now = thread.now();
        let goes = |kind| if what == Flush::All { kind != Kind::Local } else { kind == Kind::Learned };
        thread.bridge.forget(|entry| goes(entry.kind), now);
    });
    DONE
}

/// Returns the addresses as lines `MAC VlanN IF expire flags<>`, like `ifconfig bridge0 addr`.
fn addresses(switch: &Switch, json: bool) -> String {
    let all = switch.addresses().into_iter();
    // The bridge's own address is not listed, because it does not belong to a member.
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

/// Returns the flags of a member as bits and as names, including the spanning tree flags.
fn flags(member: &Member, port: Option<&StpPortView>) -> (u32, Vec<&'static str>) {
    let mut member = *member;
    let on = FLAGS.iter().filter(|(_, _, _, field)| *field(&mut member)).map(|(_, bit, name, _)| (*bit, *name));
    let mut on: Vec<(u32, &str)> = on.chain(port.into_iter().flat_map(tree::flags)).collect();
    on.sort_by_key(|(bit, _)| *bit);
    (on.iter().map(|(bit, _)| bit).sum(), on.iter().map(|(_, name)| *name).collect())
}

fn bridge_json(switch: &Switch) -> Value {
    let (members, stp, ports) = (switch.members(), tree::to_json(switch), tree::ports(switch));
    let Some(thread) = switch.thread(0) else { return Value::Null };
    let bridge = &thread.bridge;
    let member = |(number, info): &(PortNo, node::switch::Info)| {
        let member = bridge.member(*number);
        let (_, names) = member.map(|member| flags(member, ports.get(number))).unwrap_or_default();
        let loops: Vec<usize> = info.queues.iter().map(|queue| queue.thread).collect();
        json!({ "ifname": info.name, "port": info.spec(), "number": number, "loop": info.thread(), "loops": loops, "flags": names,
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
    let table = switch.thread(0).map(|thread| (thread.bridge.fdb().most(), thread.bridge.fdb().timeout().as_secs()));
    let (most, timeout) = table.unwrap_or_default();
    let tree = tree::describe(switch, &format!("maxaddr {most} timeout {timeout}"));
    let Some(thread) = switch.thread(0) else { return String::new() };
    let (bridge, fdb) = (&thread.bridge, thread.bridge.fdb());
    // The bits are IFF_UP, IFF_RUNNING and IFF_MONITOR of FreeBSD.
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
