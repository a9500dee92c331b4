//! Spanning tree parameters of if_bridge (ifconfig(8)), and the guards.

use super::super::Switch;
use super::show::{counters, object};
use super::{Info, member};
use crate::commands::parse;
use bridge::{
    Guarded, Link, PointToPoint, PortNo, PortRole, PortState, StpConfig, StpPort, StpPortView, StpVersion, path_cost,
};
use clock::Duration;
use grammar::{CommandError, Words};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::Mac;
use wire::bpdu::BridgeId;

/// Parameters of `ifconfig` handled here.
pub(super) const WORDS: &[&str] = &[
    "stp",
    "proto",
    "priority",
    "hellotime",
    "fwddelay",
    "maxage",
    "holdcnt",
    "ifpriority",
    "ifpathcost",
    "edge",
    "autoedge",
    "ptp",
    "autoptp",
    "bpduguard",
    "rootguard",
    "loopguard",
    "bpdufilter",
    "reenable",
    "migrate",
    "rxlimit",
];

type Set = fn(&mut StpPort, bool);

/// On/off settings of a port in a tree.
const SWITCHES: &[(&str, Set)] = &[
    ("edge", |port, on| port.edge = on),
    ("autoedge", |port, on| port.auto_edge = on),
    ("ptp", |port, on| port.point_to_point = if on { PointToPoint::On } else { PointToPoint::Off }),
    ("autoptp", |port, on| port.point_to_point = if on { PointToPoint::Auto } else { PointToPoint::On }),
    ("bpduguard", |port, on| port.bpdu_guard = on),
    ("rootguard", |port, on| port.root_guard = on),
    ("loopguard", |port, on| port.loop_guard = on),
    ("bpdufilter", |port, on| port.bpdu_filter = on),
];

/// Applies the parameter `name`, enabled or disabled.
pub(super) fn change(switch: &Switch, name: &str, on: bool, words: &mut Words<'_>) -> Result<(), CommandError> {
    match name {
        "stp" => {
            let (number, _) = member(switch, words.next("a member")?)?;
            if on {
                return join(switch, number);
            }
            switch.remove_tree_port(number);
            return Ok(());
        }
        "proto" => return proto(switch, words.next("rstp, stp or none")?),
        "priority" | "hellotime" | "fwddelay" | "maxage" | "holdcnt" | "rxlimit" => return times(switch, name, words),
        "reenable" | "migrate" => {
            let (number, info) = member(switch, words.next("a member")?)?;
            asked(switch, number, &info)?;
            switch.change_tree(|stp, now| match name {
                "reenable" => stp.reenable(number, now),
                _ => stp.migrate(number, now),
            });
            return Ok(());
        }
        _ => {}
    }
    let (number, info) = member(switch, words.next("a member")?)?;
    let mut asked = asked(switch, number, &info)?;
    match name {
        "ifpriority" => {
            asked.priority = parse::number(name, words.next("0 to 240 in steps of 16")?, 0, 240)? as u8;
        }
        "ifpathcost" => {
            let cost = parse::number(name, words.next("a cost; 0: by the link's speed")?, 0, 200_000_000)?;
            asked.path_cost = (cost > 0).then_some(cost as u32);
        }
        "bpduguard" if words.peek().is_some_and(|word| word.parse::<u32>().is_ok()) => {
            let seconds = parse::number(name, words.next("seconds")?, 0, 86_400)? as u64;
            asked.bpdu_guard = on;
            asked.guard_recovery = (seconds > 0).then(|| Duration::from_secs(seconds));
        }
        _ => {
            let found = SWITCHES.iter().find(|(known, _)| *known == name);
            let (_, set) = found.ok_or_else(|| CommandError::unknown("word", name, WORDS.iter().copied()))?;
            set(&mut asked, on);
        }
    }
    switch.set_tree_port(number, asked).map_err(CommandError::failed)
}

/// Returns the settings of a port in the tree.
fn asked(switch: &Switch, number: PortNo, info: &Info) -> Result<StpPort, CommandError> {
    let asked = switch.tree(|stp| stp.port(number).map(|port| port.asked)).flatten();
    asked.ok_or_else(|| CommandError::failed(format!("{0} is in no spanning tree: say 'stp {0}' first", info.name)))
}

/// Adds a member to the tree, and starts the tree with the first member.
pub(super) fn join(switch: &Switch, number: PortNo) -> Result<(), CommandError> {
    if switch.tree(|_| ()).is_none() {
        switch.start_tree(StpConfig::default()).map_err(CommandError::failed)?;
    }
    switch.set_tree_port(number, StpPort::default()).map_err(CommandError::failed)
}

fn proto(switch: &Switch, word: &str) -> Result<(), CommandError> {
    let version = match word {
        "rstp" => StpVersion::Rstp,
        "stp" => StpVersion::Stp,
        "none" => {
            switch.stop_tree();
            return Ok(());
        }
        other => return Err(CommandError::bad("proto", other, "rstp, stp or none")),
    };
    let config = switch.tree(|stp| *stp.config()).unwrap_or_default();
    switch.start_tree(StpConfig { version, ..config }).map_err(CommandError::failed)
}

fn times(switch: &Switch, name: &str, words: &mut Words<'_>) -> Result<(), CommandError> {
    let value = parse::number(name, words.next("a number")?, 0, 61_440)? as u16;
    if name == "priority" {
        let set = switch.change_tree(|stp, now| stp.set_priority(value, now));
        if let Some(set) = set {
            return set.map_err(CommandError::failed);
        }
    }
    let mut config = switch.tree(|stp| *stp.config()).unwrap_or_default();
    match name {
        "priority" => config.priority = value,
        "hellotime" => config.hello_s = value,
        "fwddelay" => config.forward_delay_s = value,
        "maxage" => config.max_age_s = value,
        "rxlimit" => config.rx_limit = value.into(),
        _ => config.hold_count = value,
    }
    switch.start_tree(config).map_err(CommandError::failed)
}

/// Returns `id .. priority .. hellotime ..`, as in ifconfig; zeros without a tree. `table` follows
/// the protocol.
pub(super) fn describe(switch: &Switch, table: &str) -> String {
    let (config, view) = switch.tree(|stp| (*stp.config(), Some(stp.view()))).unwrap_or_default();
    let proto = if config.version == StpVersion::Rstp { "rstp" } else { "stp" };
    let id = |id: Option<BridgeId>| id.map_or((Mac::ZERO, config.priority), |id| (id.address(), id.priority()));
    let ((own, priority), (root, root_priority)) = (id(view.map(|view| view.bridge)), id(view.map(|view| view.root)));
    let root_port = view.and_then(|view| view.root_port).map_or(0, |port| port + 1);
    let limit = if config.rx_limit == StpConfig::default().rx_limit {
        String::new()
    } else {
        format!(" rxlimit {}", config.rx_limit)
    };
    format!(
        "\tid {own} priority {priority} hellotime {} fwddelay {}\n\tmaxage {} holdcnt {} proto {proto}{limit} {table}\n\
         \troot id {root} priority {root_priority} ifcost {} port {root_port}\n",
        config.hello_s,
        config.forward_delay_s,
        config.max_age_s,
        config.hold_count,
        view.map_or(0, |view| view.root_cost),
    )
}

/// Returns the tree's ports by number; none without a tree.
pub(super) fn ports(switch: &Switch) -> BTreeMap<PortNo, StpPortView> {
    switch.tree(|stp| stp.ports().map(|port| (port.port, port)).collect()).unwrap_or_default()
}

/// Returns a member's flags from the tree (net/if_bridgevar.h).
pub(super) fn flags(port: &StpPortView) -> impl Iterator<Item = (u32, &'static str)> {
    let auto_ptp = port.asked.point_to_point == PointToPoint::Auto;
    [
        (true, 0x4, "STP"),
        (port.edge, 0x20, "EDGE"),
        (port.asked.auto_edge, 0x40, "AUTOEDGE"),
        (port.point_to_point, 0x80, "PTP"),
        (auto_ptp, 0x100, "AUTOPTP"),
    ]
    .into_iter()
    .filter_map(|(on, bit, name)| on.then_some((bit, name)))
}

/// Returns `role .. state ..` and the guards of a member in the tree.
pub(super) fn describe_port(port: &StpPortView) -> String {
    let asked = [
        (port.asked.bpdu_guard, " bpduguard"),
        (port.asked.root_guard, " rootguard"),
        (port.asked.loop_guard, " loopguard"),
        (port.asked.bpdu_filter, " bpdufilter"),
    ];
    let asked: String = asked.into_iter().filter_map(|(on, word)| on.then_some(word)).collect();
    let guarded = match port.guarded {
        Some(Guarded::Bpdu(_)) => " guard bpdu",
        Some(Guarded::Root) => " guard root",
        Some(Guarded::Loop) => " guard loop",
        None => "",
    };
    format!("\t        role {} state {}{asked}{guarded}\n", role(port.role), state(port.state))
}

/// Returns `priority N path cost N proto rstp`, which follows a member's number; without a tree,
/// the values that it would start with.
pub(super) fn describe_cost(port: Option<&StpPortView>, link: Link) -> String {
    match port {
        Some(port) => {
            let proto = if port.rapid { "rstp" } else { "stp" };
            format!("priority {} path cost {} proto {proto}", port.asked.priority, port.path_cost)
        }
        None => format!("priority {} path cost {}", StpPort::default().priority, cost(link)),
    }
}

/// Returns the path cost of a link.
pub(super) fn cost(link: Link) -> u32 {
    match link {
        Link::Up { speed_kbps, .. } => path_cost(speed_kbps),
        Link::Down => path_cost(0),
    }
}

fn role(role: PortRole) -> &'static str {
    match role {
        PortRole::Disabled => "disabled",
        PortRole::Root => "root",
        PortRole::Designated => "designated",
        PortRole::Alternate => "alternate",
        PortRole::Backup => "backup",
    }
}

/// Returns iproute2's name of a state, which for discarding is that of 802.1D-1998.
pub(super) fn state_of_linux(state: PortState) -> &'static str {
    match state {
        PortState::Discarding => "blocking",
        other => self::state(other),
    }
}

/// Returns the name of a state.
pub(super) fn state(state: PortState) -> &'static str {
    match state {
        PortState::Disabled => "disabled",
        PortState::Discarding => "discarding",
        PortState::Learning => "learning",
        PortState::Forwarding => "forwarding",
    }
}

/// Returns the tree as JSON.
pub(super) fn to_json(switch: &Switch) -> Value {
    let members = switch.members();
    let name = |number: PortNo| members.iter().find(|(no, _)| *no == number).map(|(_, info)| info.name.clone());
    let seen = switch.tree(|stp| {
        let (config, view) = (stp.config(), stp.view());
        let port = |port: StpPortView| {
            json!({ "ifname": name(port.port), "role": role(port.role), "state": state(port.state),
                    "priority": port.asked.priority, "cost": port.path_cost, "edge": port.edge, "ptp": port.point_to_point,
                    "designated_bridge": port.designated.bridge.to_string(),
                    "asked": { "edge": port.asked.edge, "autoedge": port.asked.auto_edge, "bpduguard": port.asked.bpdu_guard,
                               "rootguard": port.asked.root_guard, "loopguard": port.asked.loop_guard,
                               "bpdufilter": port.asked.bpdu_filter },
                    "guarded": port.guarded.map(|guarded| format!("{guarded:?}").to_lowercase()),
                    "counters": object(&counters(&port.counts)) })
        };
        json!({ "id": view.bridge.to_string(), "root": view.root.to_string(), "root_cost": view.root_cost,
                "root_port": view.root_port.and_then(name), "hello": config.hello_s, "fwd_delay": config.forward_delay_s,
                "max_age": config.max_age_s, "hold_count": config.hold_count, "rx_limit": config.rx_limit, "topology_changes": view.topology_changes,
                "ports": stp.ports().map(port).collect::<Vec<_>>() })
    });
    seen.unwrap_or(Value::Null)
}
