//! Parameters of the spanning tree, as in if_bridge (ifconfig(8)), and its guards (BPDU guard, root
//! guard, loop guard).

use super::context::{Control, DONE, Parameter};
use super::counters::object;
use bridge::{
    Guarded, Link, PointToPoint, PortNo, PortRole, PortState, StpConfig, StpPort, StpPortView, StpVersion, path_cost,
};
use clock::Duration;
use grammar::{Args, CommandError, Form};
use node::switch::Switch;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::Mac;
use wire::bpdu::BridgeId;

/// Parameters of `ifconfig` in this module.
pub(super) const FORMS: &[Parameter] = &[
    Form {
        grammar: "[-]stp IF",
        about: "Add the member to the spanning tree, which the first member starts.",
        run: |of, args| {
            let number = of.member(args)?;
            if args.is_on("stp") {
                return of.switch.join_tree(number).map_err(CommandError::failed).and(DONE);
            }
            of.switch.remove_tree_port(number);
            DONE
        },
    },
    Form { grammar: "proto rstp|stp|none", about: "Select the protocol; none stops the tree.", run: proto },
    Form {
        grammar: "priority 0-61440",
        about: "Set the bridge priority, in steps of 4096.",
        run: |of, args| {
            let priority = args.int::<u16>("priority");
            match of.switch.change_tree(|stp, now| stp.set_priority(priority, now)) {
                Some(set) => set.map_err(CommandError::failed).and(DONE),
                None => configure(of, |config| config.priority = priority),
            }
        },
    },
    Form {
        grammar: "hellotime SECONDS:0-61440",
        about: "Set the hello time: 1 or 2 s with rstp, 1 to 10 s with stp.",
        run: |of, args| configure(of, |config| config.hello_s = seconds(args)),
    },
    Form {
        grammar: "fwddelay SECONDS:0-61440",
        about: "Set the forward delay, 4 to 30 s.",
        run: |of, args| configure(of, |config| config.forward_delay_s = seconds(args)),
    },
    Form {
        grammar: "maxage SECONDS:0-61440",
        about: "Set the maximum age of received information, 6 to 40 s.",
        run: |of, args| configure(of, |config| config.max_age_s = seconds(args)),
    },
    Form {
        grammar: "holdcnt 0-61440",
        about: "Limit the number of BPDUs sent per second and port, 1 to 10.",
        run: |of, args| configure(of, |config| config.hold_count = args.int::<u16>("holdcnt")),
    },
    Form {
        grammar: "rxlimit 0-61440",
        about: "Limit the number of BPDUs accepted per second and port.",
        run: |of, args| configure(of, |config| config.rx_limit = args.int::<u32>("rxlimit")),
    },
    Form {
        grammar: "ifpriority IF 0-240",
        about: "Set the port priority of a member, in steps of 16.",
        run: |of, args| set_port(of, args, |port| port.priority = args.int::<u8>("ifpriority")),
    },
    Form {
        grammar: "ifpathcost IF 0-200000000",
        about: "Set the path cost of a member; 0 derives it from the speed of its link.",
        run: |of, args| {
            let cost = args.number("ifpathcost").filter(|cost| *cost > 0).map(|cost| cost as u32);
            set_port(of, args, |port| port.path_cost = cost)
        },
    },
    Form {
        grammar: "[-]edge IF",
        about: "Declare that no bridge is connected to the member, so that it forwards at once.",
        run: |of, args| set_port(of, args, |port| port.edge = args.is_on("edge")),
    },
    Form {
        grammar: "[-]autoedge IF",
        about: "Detect whether a bridge is connected to the member.",
        run: |of, args| set_port(of, args, |port| port.auto_edge = args.is_on("autoedge")),
    },
    Form {
        grammar: "[-]ptp IF",
        about: "Declare that the link of the member is point-to-point; -ptp: shared.",
        run: |of, args| {
            let ptp = if args.is_on("ptp") { PointToPoint::On } else { PointToPoint::Off };
            set_port(of, args, |port| port.point_to_point = ptp)
        },
    },
    Form {
        grammar: "[-]autoptp IF",
        about: "Detect from the duplex mode whether the link of the member is point-to-point.",
        run: |of, args| {
            let ptp = if args.is_on("autoptp") { PointToPoint::Auto } else { PointToPoint::On };
            set_port(of, args, |port| port.point_to_point = ptp)
        },
    },
    Form {
        grammar: "[-]bpduguard IF [SECONDS:0-86400]",
        about: "Disable the member when it receives a BPDU, for SECONDS; 0 disables it permanently.",
        run: |of, args| {
            let recovery = args.number("SECONDS").map(|s| (s > 0).then(|| Duration::from_secs(s as u64)));
            set_port(of, args, |port| {
                port.bpdu_guard = args.is_on("bpduguard");
                port.guard_recovery = recovery.unwrap_or(port.guard_recovery);
            })
        },
    },
    Form {
        grammar: "[-]rootguard IF",
        about: "Block the member while it receives BPDUs that are superior to those of the root.",
        run: |of, args| set_port(of, args, |port| port.root_guard = args.is_on("rootguard")),
    },
    Form {
        grammar: "[-]loopguard IF",
        about: "Block the member when it stops receiving BPDUs.",
        run: |of, args| set_port(of, args, |port| port.loop_guard = args.is_on("loopguard")),
    },
    Form {
        grammar: "[-]bpdufilter IF",
        about: "Neither send nor accept BPDUs at the member.",
        run: |of, args| set_port(of, args, |port| port.bpdu_filter = args.is_on("bpdufilter")),
    },
    Form {
        grammar: "reenable IF",
        about: "Enable a member that a guard has disabled.",
        run: |of, args| {
            let (number, _) = tree_port(of, args)?;
            of.switch.change_tree(|stp, now| stp.reenable(number, now));
            DONE
        },
    },
    Form {
        grammar: "migrate IF",
        about: "Try RSTP again at a member that has fallen back to STP.",
        run: |of, args| {
            let (number, _) = tree_port(of, args)?;
            of.switch.change_tree(|stp, now| stp.migrate(number, now));
            DONE
        },
    },
];

fn seconds(args: &Args<'_>) -> u16 {
    args.int::<u16>("SECONDS")
}

/// Returns the member given in a command, with its settings in the spanning tree.
fn tree_port(of: &Control<'_>, args: &Args<'_>) -> Result<(PortNo, StpPort), CommandError> {
    let number = of.member(args)?;
    let requested = of.switch.tree(|stp| stp.port(number).map(|port| port.requested)).flatten();
    let name = args.text("IF");
    let outside = || {
        CommandError::failed(format!(
            "{name} is not in the spanning tree: add it with 'ifconfig {} stp {name}'",
            of.switch.name
        ))
    };
    Ok((number, requested.ok_or_else(outside)?))
}

/// Changes the spanning tree settings of a member.
fn set_port(of: &Control<'_>, args: &Args<'_>, change: impl FnOnce(&mut StpPort)) -> Result<String, CommandError> {
    let (number, mut port) = tree_port(of, args)?;
    change(&mut port);
    of.switch.set_tree_port(number, port).map_err(CommandError::failed).and(DONE)
}

/// Changes the configuration of the spanning tree. If there is no tree, starts one with this
/// configuration.
fn configure(of: &Control<'_>, change: impl FnOnce(&mut StpConfig)) -> Result<String, CommandError> {
    let mut config = of.switch.tree(|stp| *stp.config()).unwrap_or_default();
    change(&mut config);
    of.switch.start_tree(config).map_err(CommandError::failed).and(DONE)
}

fn proto(of: &Control<'_>, args: &Args<'_>) -> Result<String, CommandError> {
    let Some(version) = StpVersion::named(args.text("proto")) else {
        of.switch.stop_tree();
        return DONE;
    };
    configure(of, |config| config.version = version)
}

/// Returns `id .. priority .. hellotime ..`, as in ifconfig; the values are 0 without a spanning
/// tree. The text `table` is inserted after the protocol.
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

/// Returns the ports of the spanning tree by number; empty without a tree.
pub(super) fn ports(switch: &Switch) -> BTreeMap<PortNo, StpPortView> {
    switch.tree(|stp| stp.ports().map(|port| (port.port, port)).collect()).unwrap_or_default()
}

/// Returns the flags of a member that depend on the spanning tree (net/if_bridgevar.h).
pub(super) fn flags(port: &StpPortView) -> impl Iterator<Item = (u32, &'static str)> {
    let auto_ptp = port.requested.point_to_point == PointToPoint::Auto;
    [
        (true, 0x4, "STP"),
        (port.edge, 0x20, "EDGE"),
        (port.requested.auto_edge, 0x40, "AUTOEDGE"),
        (port.point_to_point, 0x80, "PTP"),
        (auto_ptp, 0x100, "AUTOPTP"),
    ]
    .into_iter()
    .filter_map(|(on, bit, name)| on.then_some((bit, name)))
}

/// Returns `role .. state ..` and the active guard of a member in the spanning tree.
pub(super) fn describe_port(port: &StpPortView) -> String {
    let requested = [
        (port.requested.bpdu_guard, " bpduguard"),
        (port.requested.root_guard, " rootguard"),
        (port.requested.loop_guard, " loopguard"),
        (port.requested.bpdu_filter, " bpdufilter"),
    ];
    let requested: String = requested.into_iter().filter_map(|(on, word)| on.then_some(word)).collect();
    let guarded = match port.guarded {
        Some(Guarded::Bpdu(_)) => " guard bpdu",
        Some(Guarded::Root) => " guard root",
        Some(Guarded::Loop) => " guard loop",
        None => "",
    };
    format!("\t        role {} state {}{requested}{guarded}\n", role(port.role), state(port.state))
}

/// Returns `priority N path cost N proto rstp`, which follows a member's number. Without a spanning
/// tree, the values are the defaults of a new tree.
pub(super) fn describe_cost(port: Option<&StpPortView>, link: Link) -> String {
    match port {
        Some(port) => {
            let proto = if port.rapid { "rstp" } else { "stp" };
            format!("priority {} path cost {} proto {proto}", port.requested.priority, port.path_cost)
        }
        None => format!("priority {} path cost {}", StpPort::default().priority, cost(link)),
    }
}

/// Returns the default path cost for a link.
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

/// Returns iproute2's name of a port state. For the discarding state, this is the state's name in
/// 802.1D-1998.
pub(super) fn state_of_linux(state: PortState) -> &'static str {
    match state {
        PortState::Discarding => "blocking",
        other => self::state(other),
    }
}

/// Returns the name of a port state.
pub(super) fn state(state: PortState) -> &'static str {
    match state {
        PortState::Disabled => "disabled",
        PortState::Discarding => "discarding",
        PortState::Learning => "learning",
        PortState::Forwarding => "forwarding",
    }
}

/// Returns the spanning tree as JSON.
pub(super) fn to_json(switch: &Switch) -> Value {
    let members = switch.members();
    let name = |number: PortNo| members.iter().find(|(no, _)| *no == number).map(|(_, info)| info.name.clone());
    let seen = switch.tree(|stp| {
        let (config, view) = (stp.config(), stp.view());
        let port = |port: StpPortView| {
            json!({ "ifname": name(port.port), "role": role(port.role), "state": state(port.state),
                    "priority": port.requested.priority, "cost": port.path_cost, "edge": port.edge, "ptp": port.point_to_point,
                    "designated_bridge": port.designated.bridge.to_string(),
                    "asked": { "edge": port.requested.edge, "autoedge": port.requested.auto_edge, "bpduguard": port.requested.bpdu_guard,
                               "rootguard": port.requested.root_guard, "loopguard": port.requested.loop_guard,
                               "bpdufilter": port.requested.bpdu_filter },
                    "guarded": port.guarded.map(|guarded| format!("{guarded:?}").to_lowercase()),
                    "counters": object(&stats::entries(&port.counts)) })
        };
        json!({ "id": view.bridge.to_string(), "root": view.root.to_string(), "root_cost": view.root_cost,
                "root_port": view.root_port.and_then(name), "hello": config.hello_s, "fwd_delay": config.forward_delay_s,
                "max_age": config.max_age_s, "hold_count": config.hold_count, "rx_limit": config.rx_limit, "topology_changes": view.topology_changes,
                "ports": stp.ports().map(port).collect::<Vec<_>>() })
    });
    seen.unwrap_or(Value::Null)
}
