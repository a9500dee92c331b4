//! `ip link` and `netstat -i` of a bridge. They list the bridge and its ports in the same format as
//! the ifaces of a host.

use super::context::{Control, Parameter};
use crate::host::ip::Options;
use crate::link::{Link, LinkCounters, Style};
use bridge::{Carrier, Running};
use grammar::{Args, CommandError, Form, Words, parse_all};
use node::switch::Switch;
use serde_json::Value;

/// Syntax forms of `ip`, without the options that precede the object.
pub(super) const FORMS: &[Form<Run>] = &[
    Form { grammar: "link,l,li,lin [dev IF] [IF]", about: "List the bridge and its ports as links.", run: list },
    Form {
        grammar: "link,l,li,lin show,list,ls,sh,s [dev IF] [IF]",
        about: "List the bridge and its ports as links.",
        run: list,
    },
    Form {
        grammar: "link,l,li,lin set [dev] IF STATE:up|down",
        about: "Start or stop forwarding; IF must be the bridge.",
        run: |of, _, args| {
            let name = args.text("IF");
            if name != of.switch.name {
                let why = format!(
                    "{name}: only the bridge can be set up or down here; set a port's device with the system's ip"
                );
                return Err(CommandError::failed(why));
            }
            of.running(if args.get("STATE") == Some("up") { Running::Up } else { Running::Down })
        },
    },
];

fn list(of: &Control<'_>, style: Style, args: &Args<'_>) -> Result<String, CommandError> {
    let mut links = links(of.switch);
    if let Some(name) = args.get("IF") {
        if !links.iter().any(|link| link.name == name) {
            let names = links.iter().map(|link| link.name.as_str());
            return Err(CommandError::unknown("link", name, names));
        }
        links.retain(|link| link.name == name);
    }
    let text = || links.iter().map(|link| link.text(style)).collect();
    Ok(of.listing(|| Value::Array(links.iter().map(|link| link.json(style)).collect()), text))
}

/// Function that runs a syntax form of `ip`.
type Run = fn(&Control<'_>, Style, &Args<'_>) -> Result<String, CommandError>;

pub(super) fn run(of: &Control<'_>, mut words: Words<'_>) -> Result<String, CommandError> {
    let options = Options::take(&mut words)?;
    let of = Control { json: of.json || options.json, ..*of };
    if let Some(object @ ("addr" | "address" | "a" | "route" | "r" | "neigh" | "n")) = words.peek() {
        let why = format!("{object}: a bridge has no IP addresses; use 'ip link', 'bridge link' or 'bridge fdb'");
        return Err(CommandError::failed(why));
    }
    let (form, args) = parse_all(FORMS, words)?;
    (form.run)(&of, options.style, &args)
}

/// Syntax forms of `netstat`.
pub(super) const NETSTAT: &[Parameter] = &[Form {
    grammar: "[-i,-in,-ni] [-n]",
    about: "List the packet and error counts of the bridge and its ports.",
    run: |of, _| {
        let links = links(of.switch);
        let rows = || Value::Array(links.iter().map(|link| link.netstat_json(&[])).collect());
        Ok(of.listing(rows, || Link::netstat_head() + &links.iter().map(Link::netstat).collect::<String>()))
    },
}];

/// Returns the links: first the bridge, then its ports.
fn links(switch: &Switch) -> Vec<Link> {
    let members = switch.members();
    let is_up = switch.thread(0).is_some_and(|thread| thread.bridge.running() != Running::Down);
    let mtu = members.iter().map(|(_, info)| info.caps.mtu).min().unwrap_or(1500);
    let mut all = LinkCounters::default();
    let ports: Vec<Link> = members
        .iter()
        .map(|(number, info)| {
            let mut passed = LinkCounters::default();
            info.queues.iter().for_each(|queue| passed.add(LinkCounters::through(&queue.counts)));
            all.add(passed);
            let (flags, state) = match info.link().1 {
                Carrier::Up => (vec!["BROADCAST", "MULTICAST", "UP", "LOWER_UP"], "UP"),
                Carrier::None => (vec!["NO-CARRIER", "BROADCAST", "MULTICAST", "UP"], "DOWN"),
                Carrier::Down | Carrier::Gone => (vec!["BROADCAST", "MULTICAST"], "DOWN"),
            };
            Link {
                index: usize::from(*number) + 2,
                name: info.name.clone(),
                flags,
                mtu: info.caps.mtu.into(),
                master: Some(switch.name.clone()),
                state,
                kind: "ether",
                addresses: None,
                is_tunnel: false,
                info: None,
                passed,
            }
        })
        .collect();
    let (flags, state) = match is_up {
        true => (vec!["BROADCAST", "MULTICAST", "UP", "LOWER_UP"], "UP"),
        false => (vec!["BROADCAST", "MULTICAST"], "DOWN"),
    };
    let bridge = Link {
        index: 1,
        name: switch.name.clone(),
        flags,
        mtu: mtu.into(),
        master: None,
        state,
        kind: "ether",
        addresses: Some((switch.mac.to_string(), wire::Mac::BROADCAST.to_string())),
        is_tunnel: false,
        info: None,
        passed: all,
    };
    std::iter::once(bridge).chain(ports).collect()
}
