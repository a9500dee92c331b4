//! `bridge`: the commands of iproute2's bridge(8).

use super::context::{Control, DONE, Parameter, member};
use super::ifconfig::{forget, keep, key};
use super::{snoop, tree, vlan};
use bridge::{Entry, Kind, Link, Member, PortNo};
use grammar::{Args, CommandError, Form, Words, parse_all};
use node::switch::Info;
use serde_json::{Value, json};

type Set = fn(&mut Member, bool);

/// Settings of `bridge link set`.
const SETTINGS: &[(&str, Set)] = &[
    ("learning", |member, on| member.learn = on),
    ("flood", |member, on| member.discover = on),
    ("isolated", |member, on| member.private = on),
    ("sticky", |member, on| member.sticky = on),
    ("mcast_flood", |member, on| member.multicast = on),
    ("bcast_flood", |member, on| member.broadcast = on),
];

/// Syntax forms of `bridge`, except the forms of `bridge vlan`.
const FORMS: &[Parameter] = &[
    Form {
        grammar: "link [show,list] [dev IF]",
        about: "List the members with their spanning tree state.",
        run: |of, args| {
            let only = if args.has("IF") { Some(of.member(args)?) } else { None };
            Ok(links(of, only))
        },
    },
    Form {
        grammar: "link set dev IF [learning on|off] [flood on|off] [mcast_flood on|off] [bcast_flood on|off] \
                  [isolated on|off] [sticky on|off] [fastleave on|off] [mcast_router 0,never|1,learned|2,always]",
        about: "Configure a member.",
        run: set,
    },
    Form {
        grammar: "fdb [show,list] [dev IF]",
        about: "List the known addresses.",
        run: |of, args| {
            let only = args.get("IF").map(|name| member(of.switch, name)).transpose()?;
            Ok(show(of, only.as_ref().map(|(_, info)| info.name.as_str())))
        },
    },
    Form {
        grammar: "fdb add,replace,append MAC dev IF [vlan 1-4094] [master] [static,permanent]",
        about: "Add a static address.",
        run: |of, args| keep(of.switch, key(args)?, of.member(args)?),
    },
    Form {
        grammar: "fdb del,delete MAC dev IF [vlan 1-4094] [master] [static,permanent]",
        about: "Remove an address.",
        run: |of, args| {
            let ((_, info), key) = (member(of.switch, args.text("IF"))?, key(args)?);
            if of.switch.addresses().iter().any(|(entry, name, _)| entry.key == key && *name != info.name) {
                return Err(CommandError::failed(format!("{}: not an address of {}", key.mac(), info.name)));
            }
            forget(of.switch, key)
        },
    },
    Form {
        grammar: "mdb [show,list]",
        about: "List multicast listeners and router ports.",
        run: |of, _| Ok(snoop::mdb(of.switch, of.json)),
    },
];

/// Returns all syntax forms of `bridge`.
pub(super) fn forms() -> impl Iterator<Item = &'static Parameter> + Clone {
    FORMS.iter().chain(vlan::BRIDGE)
}

pub(super) fn run(of: &Control<'_>, mut words: Words<'_>) -> Result<String, CommandError> {
    let of = Control { json: words.skip("-j") || of.json, ..*of };
    let (form, args) = parse_all(forms(), words)?;
    (form.run)(&of, &args)
}

fn set(of: &Control<'_>, args: &Args<'_>) -> Result<String, CommandError> {
    let number = of.member(args)?;
    for (name, set) in SETTINGS {
        if let Some(value) = args.get(name) {
            of.switch.set_member(number, |member| set(member, value == "on"));
        }
    }
    if let Some(value) = args.get("fastleave") {
        snoop::fast_leave(of, args, value == "on")?;
    }
    match args.get("mcast_router") {
        Some("0") => snoop::router(of, args, "never"),
        Some("1") => snoop::router(of, args, "learned"),
        Some(_) => snoop::router(of, args, "always"),
        None => DONE,
    }
}

fn links(of: &Control<'_>, only: Option<PortNo>) -> String {
    let switch = of.switch;
    let (members, ports) = (switch.members(), tree::ports(switch));
    let links: Vec<Link> = members.iter().map(|(_, info)| info.link().0).collect();
    let Some(thread) = switch.thread(0) else { return String::new() };
    let state = |number: PortNo| tree::state_of_linux(thread.bridge.state(number).unwrap_or_default());
    let shown = || members.iter().zip(&links).filter(|((number, _), _)| only.is_none_or(|only| only == *number));
    // Without a spanning tree, the values are the defaults of a new tree. iproute2 prints
    // priorities in the six bits of 802.1D-1998.
    let costs = |number: PortNo, link: Link| match ports.get(&number) {
        Some(port) => (port.requested.priority / 16 * 4, port.path_cost),
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
    of.listing(|| shown().map(row).collect(), || shown().map(line).collect())
}

fn show(of: &Control<'_>, only: Option<&str>) -> String {
    let switch = of.switch;
    let entries = switch.addresses();
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
    of.listing(|| shown().map(row).collect(), || shown().map(line).collect())
}
