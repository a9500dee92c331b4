//! The spanning tree in if_bridge's words (ifconfig(8)), and the guards.

use super::super::Switch;
use super::{Info, member};
use crate::words::WordError;
use crate::words::parse::{self, Words};
use bridge::{Guarded, PointToPoint, PortNo, PortRole, PortState, StpConfig, StpPort, StpPortView, StpVersion};
use clock::Duration;
use serde_json::{Value, json};

/// What `ifconfig` knows of it.
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
];

type Set = fn(&mut StpPort, bool);

/// What may be switched at a port of a tree.
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

/// Does what `name` says, switched on or off.
pub(super) fn change(switch: &Switch, name: &str, on: bool, words: &mut Words<'_>) -> Result<(), WordError> {
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
        "priority" | "hellotime" | "fwddelay" | "maxage" | "holdcnt" => return times(switch, name, words),
        "reenable" => {
            let (number, _) = member(switch, words.next("a member")?)?;
            switch.change_tree(|stp, now| stp.reenable(number, now));
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
            let (_, set) = found.ok_or_else(|| WordError::unknown("word", name, WORDS.iter().copied()))?;
            set(&mut asked, on);
        }
    }
    switch.set_tree_port(number, asked).map_err(WordError::failed)
}

/// What is asked of a port that is in the tree.
fn asked(switch: &Switch, number: PortNo, info: &Info) -> Result<StpPort, WordError> {
    let asked = switch.tree(|stp| stp.port(number).map(|port| port.asked)).flatten();
    asked.ok_or_else(|| WordError::failed(format!("{0} is in no spanning tree: say 'stp {0}' first", info.name)))
}

/// Makes a member part of the tree, which begins with its first.
pub(super) fn join(switch: &Switch, number: PortNo) -> Result<(), WordError> {
    if switch.tree(|_| ()).is_none() {
        switch.start_tree(StpConfig::default()).map_err(WordError::failed)?;
    }
    switch.set_tree_port(number, StpPort::default()).map_err(WordError::failed)
}

fn proto(switch: &Switch, word: &str) -> Result<(), WordError> {
    let version = match word {
        "rstp" => StpVersion::Rstp,
        "stp" => StpVersion::Stp,
        "none" => {
            switch.stop_tree();
            return Ok(());
        }
        other => return Err(WordError::bad("proto", other, "rstp, stp or none")),
    };
    let config = switch.tree(|stp| *stp.config()).unwrap_or_default();
    switch.start_tree(StpConfig { version, ..config }).map_err(WordError::failed)
}

fn times(switch: &Switch, name: &str, words: &mut Words<'_>) -> Result<(), WordError> {
    let value = parse::number(name, words.next("a number")?, 0, 61_440)? as u16;
    if name == "priority" {
        let set = switch.change_tree(|stp, now| stp.set_priority(value, now));
        if let Some(set) = set {
            return set.map_err(WordError::failed);
        }
    }
    let mut config = switch.tree(|stp| *stp.config()).unwrap_or_default();
    match name {
        "priority" => config.priority = value,
        "hellotime" => config.hello_s = value,
        "fwddelay" => config.forward_delay_s = value,
        "maxage" => config.max_age_s = value,
        _ => config.hold_count = value,
    }
    switch.start_tree(config).map_err(WordError::failed)
}

/// `id .. priority .. hellotime ..`, as ifconfig has it.
pub(super) fn describe(switch: &Switch) -> Option<String> {
    switch.tree(|stp| {
        let (config, view) = (stp.config(), stp.view());
        let proto = if config.version == StpVersion::Rstp { "rstp" } else { "stp" };
        let (id, root) = (view.bridge, view.root);
        format!(
            "\tid {} priority {} hellotime {} fwddelay {}\n\tmaxage {} holdcnt {} proto {proto}\n\
             \troot id {} priority {} ifcost {} port {}\n",
            id.address(),
            id.priority(),
            config.hello_s,
            config.forward_delay_s,
            config.max_age_s,
            config.hold_count,
            root.address(),
            root.priority(),
            view.root_cost,
            view.root_port.map_or(0, |port| port + 1)
        )
    })
}

/// `role .. state .. path cost ..`, for a member that is in the tree.
pub(super) fn describe_port(port: &StpPortView) -> String {
    let proto = if port.rapid { "rstp" } else { "stp" };
    let guarded = match port.guarded {
        Some(Guarded::Bpdu(_)) => " guard bpdu",
        Some(Guarded::Root) => " guard root",
        Some(Guarded::Loop) => " guard loop",
        None => "",
    };
    format!(
        "\t        priority {} path cost {} proto {proto}\n\t        role {} state {}{guarded}\n",
        port.asked.priority,
        port.path_cost,
        role(port.role),
        state(port.state)
    )
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

/// A state by its word.
pub(super) fn state(state: PortState) -> &'static str {
    match state {
        PortState::Disabled => "disabled",
        PortState::Discarding => "discarding",
        PortState::Learning => "learning",
        PortState::Forwarding => "forwarding",
    }
}

/// The tree, for machines.
pub(super) fn to_json(switch: &Switch) -> Value {
    let members = switch.members();
    let name = |number: PortNo| members.iter().find(|(no, _)| *no == number).map(|(_, info)| info.name.clone());
    let seen = switch.tree(|stp| {
        let (config, view) = (stp.config(), stp.view());
        let port = |port: StpPortView| {
            json!({ "ifname": name(port.port), "role": role(port.role), "state": state(port.state),
                    "priority": port.asked.priority, "cost": port.path_cost, "edge": port.edge, "ptp": port.point_to_point,
                    "designated_bridge": port.designated.bridge.to_string(),
                    "guarded": port.guarded.map(|guarded| format!("{guarded:?}").to_lowercase()) })
        };
        json!({ "id": view.bridge.to_string(), "root": view.root.to_string(), "root_cost": view.root_cost,
                "root_port": view.root_port.and_then(name), "hello": config.hello_s, "fwd_delay": config.forward_delay_s,
                "max_age": config.max_age_s, "topology_changes": view.topology_changes,
                "ports": stp.ports().map(port).collect::<Vec<_>>() })
    });
    seen.unwrap_or(Value::Null)
}
