//! Commands that configure and display a running switch: `ifconfig` with the parameters of BSD's
//! if_bridge, iproute2's `bridge`, and `sysctl`.

mod context;
mod counters;
mod guard;
mod ifconfig;
mod ip;
mod iproute;
mod show;
mod snoop;
mod sysctl;
#[cfg(test)]
mod tests;
mod tree;
mod vlan;

use crate::capture;
use crate::sysctl as sysctl_command;
use crate::sysctl::Variables;
use buf::PoolConfig;
use context::{Control, DONE, member, one_of};
use grammar::{Command, CommandError, Words, usage};
use node::capture::{Captures, Place, Wants};
use node::config::HostConfig;
use node::switch::{Switch, SwitchConfig};

pub use show::{lost, report, warnings};

/// Function that runs a command; its argument is the list of words after the command's name.
type Run = fn(&Control<'_>, Words<'_>) -> Result<String, CommandError>;

/// The commands of a bridge.
const COMMANDS: &[Command<Run>] = &[
    Command {
        name: "ifconfig",
        about: "Show and configure members, addresses, spanning tree, VLANs and guards",
        usage: ifconfig::usage,
        run: ifconfig::run,
    },
    Command {
        name: "bridge",
        about: "Show and configure members, addresses and VLANs, in iproute2's syntax",
        usage: || iproute::forms().map(|form| form.usage("")).collect(),
        run: iproute::run,
    },
    Command {
        name: "ip",
        about: "Show the bridge and its ports as links, in iproute2's syntax",
        usage: || ip::FORMS.iter().map(|form| form.usage("[-s] [-br] [-o]")).collect(),
        run: ip::run,
    },
    Command {
        name: "netstat",
        about: "Show the packet and error counts of each port",
        usage: || usage(ip::NETSTAT),
        run: |of, words| one_of(ip::NETSTAT, of, words),
    },
    Command {
        name: "sysctl",
        about: "Show and set sysctls of polling, forwarding and nic ports",
        usage: || usage(sysctl_command::FORMS),
        run: |of, words| sysctl_command::run(of.switch, of.json, words),
    },
    Command {
        name: "show",
        about: "Show counters, polling, costs, ports, drops, rules, address moves, pools",
        usage: || usage(show::FORMS),
        run: |of, words| one_of(show::FORMS, of, words),
    },
    Command {
        name: "capture",
        about: capture::ABOUT,
        usage: || usage(capture::FORMS),
        run: |of, words| capture::run(of.switch, of.switch.clock.now(), of.json, words),
    },
    Command {
        name: "audit",
        about: "Account for every frame: received, sent, held or dropped",
        usage: Vec::new,
        run: |of, words| words.end().map(|()| show::audit(of.switch, of.json)),
    },
    Command {
        name: "stop",
        about: "End the program that runs the bridge",
        usage: Vec::new,
        run: |_, words| {
            words.end()?;
            dispatch::request_stop();
            DONE
        },
    },
    Command {
        name: "help",
        about: "List the commands, or the forms of a command",
        usage: crate::help::usage,
        run: |of, words| crate::help::run(COMMANDS, of.json, words),
    },
];

/// Returns the commands that [`run`] accepts, as (name, description, text of the syntax forms).
pub fn catalog() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    COMMANDS.iter().map(|command| (command.name, command.about, grammar::forms_of(command)))
}

/// Runs the command `words` on `switch` and returns the output as text. If `json` is set, a listing
/// is returned as JSON.
///
/// # Errors
/// Returns a [`CommandError`] with the invalid word or the failure, the expected form, and the
/// nearest valid word.
pub fn run(switch: &Switch, words: &[&str], json: bool) -> Result<String, CommandError> {
    let mut words = Words::new(words);
    let command = grammar::command(COMMANDS, &mut words)?;
    (command.run)(&Control { switch, json }, words)
}

#[cfg(test)]
pub(crate) fn unreachable() -> Vec<&'static str> {
    let tables = [
        grammar::unreachable(&ifconfig::forms().collect::<Vec<_>>()),
        grammar::unreachable(&iproute::forms().collect::<Vec<_>>()),
        grammar::unreachable(&ip::FORMS.iter().collect::<Vec<_>>()),
        grammar::unreachable(&ip::NETSTAT.iter().collect::<Vec<_>>()),
        grammar::unreachable(&show::FORMS.iter().collect::<Vec<_>>()),
    ];
    tables.concat()
}

/// Sets a sysctl.
///
/// # Errors
/// Returns a [`CommandError`] for an unknown name or an invalid value.
pub fn set(switch: &Switch, name: &str, value: &str) -> Result<(), CommandError> {
    Variables::set(switch, name, value)
}

/// Sets a key that must be set before the switch is created. These are the `pool.` keys, which a
/// host has too. Returns `false` for any other key.
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

impl capture::Watched for Switch {
    fn captures(&self) -> &Captures {
        Switch::captures(self)
    }

    fn wants(&self, name: &str) -> Result<Wants, CommandError> {
        if name == self.name { Ok(Wants::Any) } else { Ok(Wants::Places(vec![member(self, name)?.0])) }
    }

    fn name(&self, place: Place) -> String {
        self.members().iter().find(|(number, _)| *number == place).map_or("-".into(), |(_, info)| info.name.clone())
    }
}
