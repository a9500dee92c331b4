//! Commands that configure and display a running switch: those of if_bridge's ifconfig, of
//! iproute2's bridge, and of sysctl.

mod bridge;
mod guard;
mod ifconfig;
mod ip;
mod show;
mod snoop;
mod sysctl;
mod tree;
mod vlan;

use super::{Info, Switch, SwitchConfig};
use crate::capture::{Captures, Place, Wants};
use crate::commands::capture;
use crate::commands::sysctl::Variables;
use crate::config::HostConfig;
use ::bridge::PortNo;
use buf::PoolConfig;
use grammar::{CommandError, Words};
use port::Spec;
use serde_json::Value;

pub use show::{lost, remarks, report};

/// Commands: name, grammar, description. Printed by `help`.
const PROGRAMS: &[(&str, &str, &str)] = &[
    (
        "ifconfig",
        "[BRIDGE] [addm PORT [loop N] | deletem IF | addr | static IF MAC [vlan N] | deladdr MAC [vlan N] | flush | flushall",
        "",
    ),
    (
        "",
        "  | [-]learn|discover|multicast|broadcast|sticky|private|span IF | cluster IF N | ifmaxaddr IF N | timeout S",
        "",
    ),
    (
        "",
        "  | proto rstp|stp|none | [-]stp IF | priority|hellotime|fwddelay|maxage|holdcnt N | ifpriority|ifpathcost IF N",
        "",
    ),
    ("", "  | [-]edge|autoedge|ptp|autoptp|bpduguard|rootguard|loopguard|bpdufilter IF | reenable|migrate IF", ""),
    ("", "  | rxlimit N | [-]vlanfilter [qinq] | [-]untagged IF N | [+-]tagged IF LIST | [-]ingress|stacked IF", ""),
    ("", "  | admit IF all|tagged|untagged | [-]snoop | [-]querier A | unknowngroups flood|routers", ""),
    (
        "",
        "  | [-]fastleave IF | router IF learned|always|never | [-]mute MOVES S | maxaddr N | up | down | [-]monitor",
        "",
    ),
    (
        "",
        "  | [-]storm IF broadcast|multicast|unknown RATE [BURST] | [-]rule IF in|out pass|drop EXPR]",
        "Members, addresses, spanning tree, VLANs, guards: if_bridge's words, and ours.",
    ),
    (
        "bridge",
        "link [show] | link set dev IF [learning|flood|mcast_flood|bcast_flood|isolated|sticky|fastleave on|off]",
        "",
    ),
    ("", "  | link set dev IF mcast_router 0|1|2 | mdb [show]", ""),
    ("", "  | fdb [show [dev IF]] | fdb add|del MAC dev IF [vlan N] [static]", ""),
    ("", "  | vlan [show] | vlan add|del dev IF vid N[-M] [pvid] [untagged]", "The same in iproute2's words."),
    (
        "ip",
        "[-j] [-s] [-br] [-o] link [show [dev IF]] | link set dev BRIDGE up|down",
        "The bridge and its ports as links.",
    ),
    ("netstat", "-i", "Packets and errors of each port."),
    ("capture", capture::GRAMMAR, capture::ABOUT),
    ("sysctl", "[-n|-d] -a | NAME ... | [-w] NAME=VALUE ...", "Knobs: kern.polling, and what they came to."),
    (
        "show",
        "bridge|counters|polling|ledger [on|off]|ports|drops|rules|moves|nic|pools",
        "What the switch knows of itself.",
    ),
    ("audit", "", "The balance of frames."),
    ("stop", "", "Ends the program."),
    ("help", "", "This list."),
];

/// Runs the command `words` on `switch` and returns the output: text, or JSON for a listing if
/// `json` is set.
///
/// # Errors
/// Returns a [`CommandError`]: the invalid word or the failure, the expected form, and the nearest
/// valid word.
pub fn run(switch: &Switch, words: &[&str], json: bool) -> Result<String, CommandError> {
    let mut words = Words::new(words);
    match words.next("a command")? {
        "ifconfig" => ifconfig::run(switch, json, words),
        "bridge" => bridge::run(switch, json, words),
        "ip" => ip::run(switch, json, words),
        "netstat" => ip::netstat(switch, json, words),
        "sysctl" => crate::commands::sysctl::obey(switch, json, words),
        "show" => show::run(switch, json, words),
        "capture" => capture::run(switch, switch.clock.now(), json, words),
        "audit" => words.end().map(|()| show::audit(switch, json)),
        "stop" => {
            words.end()?;
            dispatch::request_stop();
            Ok(String::new())
        }
        "help" => words.end().map(|()| crate::commands::help_of(PROGRAMS)),
        other => {
            let programs = PROGRAMS.iter().map(|(name, ..)| *name).filter(|name| !name.is_empty());
            Err(CommandError::unknown("word", other, programs))
        }
    }
}

/// Sets a sysctl.
///
/// # Errors
/// Returns a [`CommandError`] for an unknown name or an invalid value.
pub fn set(switch: &Switch, name: &str, value: &str) -> Result<(), CommandError> {
    Variables::set(switch, name, value)
}

/// Sets a key that is needed before the switch is created: the `pool.` keys of a host. Returns
/// `false` for any other key.
///
/// # Errors
/// Returns a message for an unknown key or an invalid value.
pub fn preset(config: &mut SwitchConfig, name: &str, value: &str) -> Result<bool, String> {
    if !name.starts_with("pool.") {
        return Ok(false);
    }
    let pool = &config.pool;
    let mut host = HostConfig {
        pool_kind: pool.kind,
        pool_buffers: pool.buffers,
        pool_data: pool.data,
        pool_pages: pool.pages,
        pool_stride: Some(pool.stride),
        pool_prefetch: pool.prefetch,
        ..HostConfig::default()
    };
    host.set(name, value)?;
    config.pool = PoolConfig { locks: pool.locks, ..host.pool_config::<lock::Up>() };
    Ok(true)
}

/// Returns a listing: `rows` as JSON, or `text`.
fn listing(json: bool, rows: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> String {
    if json { format!("{}\n", rows()) } else { text() }
}

impl capture::Watched for Switch {
    fn captures(&self) -> &Captures {
        &self.captures
    }

    fn wants(&self, name: &str) -> Result<Wants, CommandError> {
        if name == self.name { Ok(Wants::Any) } else { Ok(Wants::Places(vec![member(self, name)?.0])) }
    }

    fn name(&self, place: Place) -> String {
        self.members().iter().find(|(number, _)| *number == place).map_or("-".into(), |(_, info)| info.name.clone())
    }
}

/// Returns the member called `name`.
fn member(switch: &Switch, name: &str) -> Result<(PortNo, Info), CommandError> {
    switch.member(name).ok_or_else(|| {
        let members = switch.members();
        CommandError::unknown("member", name, members.iter().map(|(_, info)| info.name.as_str()))
    })
}

/// Adds all members to a spanning tree of protocol `proto`.
///
/// # Errors
/// Returns a [`CommandError`] for an unknown protocol.
pub fn span(switch: &Switch, proto: &str) -> Result<(), CommandError> {
    run(switch, &["ifconfig", &switch.name, "proto", proto], false)?;
    switch.members().iter().try_for_each(|(number, _)| tree::join(switch, *number))
}

/// Adds the members outside the spanning tree to it, if there is one.
///
/// # Errors
/// Returns a [`CommandError`] if the tree has no room.
pub fn span_rest(switch: &Switch) -> Result<(), CommandError> {
    let is_outside = |number: PortNo| switch.tree(|stp| stp.port(number).is_none()) == Some(true);
    let members = switch.members();
    members.iter().filter(|(number, _)| is_outside(*number)).try_for_each(|(number, _)| tree::join(switch, *number))
}

/// Adds the port `name` as a member.
fn add(switch: &Switch, name: &str, lane: Option<usize>) -> Result<PortNo, CommandError> {
    let spec = Spec::parse(name).map_err(CommandError::failed)?;
    switch.add(&spec, lane).map_err(CommandError::failed)
}
