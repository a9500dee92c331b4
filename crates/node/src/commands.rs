//! Commands that configure and display a running host, with the grammars of the BSD and iproute2
//! programs.
//!
//! [`run`] runs one command and returns its output. The commands are the entries of
//! `Commands::ALL`. Each command has a file of its own in this directory, with its forms. [`parse`]
//! parses values that several commands have in common.

mod arp;
mod audit;
pub(crate) mod capture;
pub(crate) mod cards;
mod dhclient;
mod ifconfig;
pub(crate) mod ip;
mod ipneigh;
mod iproute;
pub(crate) mod isr;
mod job;
pub(crate) mod link;
mod netstat;
pub(crate) mod parse;
mod places;
mod resolvectl;
mod route;
mod show;
pub(crate) mod six;
mod sockets;
mod ss;
pub(crate) mod statement;
pub(crate) mod sysctl;
#[cfg(test)]
mod tests;
pub(crate) mod tunnel;
mod why;

pub(crate) use audit::{of as audit_of, port_imbalance, to_text as audit_text};
pub use grammar::CommandError;
use grammar::{Args, Command, Form, Usage, Words, parse_all, usage};
pub(crate) use sysctl::{
    apply as apply_sysctl, check as check_sysctl, check_number as check_sysctl_number,
    documented as documented_sysctls, names as sysctl_names,
};

use crate::Host;
use crate::capture::{Captures, Place, Wants};
use inet::iface::IfaceId;
use lock::{Cx, Locks, Up};
use port::Pairs;
use serde_json::{Value, json};
use std::marker::PhantomData;

/// Context of a command.
#[derive(Clone, Copy)]
pub(crate) struct Ctl<'a, L: Locks> {
    pub(crate) host: &'a Host<L>,
    pub(crate) pairs: &'a Pairs,
    pub(crate) cx: Cx,
    pub(crate) json: bool,
}

/// Function that runs a command; its argument is the list of words after the command's name.
type Run<L> = fn(&Ctl<'_, L>, Words<'_>) -> Result<String, CommandError>;

/// A form of a command, with the function that runs it and returns the output.
type HostForm<L> = Form<fn(&Ctl<'_, L>, &Args<'_>) -> Result<String, CommandError>>;

/// Result of a command without output.
const DONE: Result<String, CommandError> = Ok(String::new());

/// The commands of a host with locks of kind `L`.
struct Commands<L>(PhantomData<L>);

impl<L: Locks> Commands<L> {
    const ALL: &[Command<Run<L>>] = &[
        Command {
            name: "ifconfig",
            about: "Show and configure interfaces, in BSD's syntax",
            usage: ifconfig::usage::<L>,
            run: ifconfig::run,
        },
        Command {
            name: "ip",
            about: "Show and configure addresses, links, routes, neighbors, in iproute2's syntax",
            usage: ip::usage,
            run: ip::run,
        },
        Command {
            name: "arp",
            about: "Show and configure IPv4 neighbors",
            usage: || arp::Forms::<L>::ALL.iter().map(|form| form.usage("[-n]")).collect(),
            run: |ctl, mut words| {
                words.skip("-n"); // names are never looked up
                one_of(arp::Forms::ALL, ctl, words)
            },
        },
        Command {
            name: "ndp",
            about: "Show and configure IPv6 neighbors; show default routers and prefixes",
            usage: || six::NdpForms::<L>::ALL.iter().map(|form| form.usage("[-n]")).collect(),
            run: |ctl, mut words| {
                words.skip("-n"); // names are never looked up
                one_of(six::NdpForms::ALL, ctl, words)
            },
        },
        Command {
            name: "route",
            about: "Show and configure routes, in BSD's syntax",
            usage: || usage(route::Forms::<L>::ALL),
            run: route::run,
        },
        Command {
            name: "sysctl",
            about: "Show and set sysctls",
            usage: || usage(sysctl::FORMS),
            run: |ctl, words| sysctl::run(ctl, ctl.json, words),
        },
        Command {
            name: "netstat",
            about: "Show connections, counters, pools, interfaces, routes, netisr",
            usage: netstat::usage,
            run: netstat::run,
        },
        Command { name: "ss", about: "Show sockets, in iproute2's syntax", usage: ss::usage, run: ss::run },
        Command {
            name: "show",
            about: "Show pools, locks, ports, drops, counters, costs, sockets, topology",
            usage: || usage(show::Forms::<L>::ALL),
            run: |ctl, words| one_of(show::Forms::ALL, ctl, words),
        },
        Command {
            name: "dhclient",
            about: "Show, request, extend and release DHCP leases",
            usage: || usage(dhclient::Forms::<L>::ALL),
            run: |ctl, words| one_of(dhclient::Forms::ALL, ctl, words),
        },
        Command {
            name: "resolvectl",
            about: "Show and set name servers and search domains",
            usage: || usage(resolvectl::Forms::<L>::ALL),
            run: |ctl, words| one_of(resolvectl::Forms::ALL, ctl, words),
        },
        Command {
            name: "capture",
            about: capture::ABOUT,
            usage: || usage(capture::FORMS),
            run: |ctl, words| capture::run(ctl, ctl.cx.now, ctl.json, words),
        },
        Command {
            name: "job",
            about: "Control jobs, on which 'ping', 'traceroute', 'nc', 'http' and 'iperf3' are based",
            usage: || usage(job::Forms::<L>::ALL),
            run: |ctl, words| one_of(job::Forms::ALL, ctl, words),
        },
        Command {
            name: "audit",
            about: "Account for every frame: received, sent, held or dropped",
            usage: Vec::new,
            run: |ctl, words| words.end().map(|()| audit::run(ctl)),
        },
        Command {
            name: "stop",
            about: "End the program that runs the host",
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
            usage: help_usage,
            run: |ctl, words| help(Commands::<L>::ALL, ctl.json, words),
        },
    ];
}

/// Returns the commands that [`run`] accepts, as (name, description, text of the forms).
pub fn catalog() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    Commands::<Up>::ALL.iter().map(|command| (command.name, command.about, grammar::forms_of(command)))
}

/// Runs the command `words` on `host` and returns the output as text. If `json` is set, a listing
/// is returned as JSON.
///
/// # Errors
/// Returns a [`CommandError`] with the invalid word or the failure, the expected form, and the
/// nearest valid word.
pub fn run<L: Locks>(host: &Host<L>, pairs: &Pairs, words: &[&str], json: bool) -> Result<String, CommandError> {
    let ctl = Ctl { host, pairs, cx: host.cx(), json };
    let mut words = Words::new(words);
    let command = grammar::command(Commands::<L>::ALL, &mut words)?;
    (command.run)(&ctl, words)
}

/// Runs the form of the command that matches `words`.
fn one_of<L: Locks>(forms: &[HostForm<L>], ctl: &Ctl<'_, L>, words: Words<'_>) -> Result<String, CommandError> {
    let (form, args) = parse_all(forms, words)?;
    (form.run)(ctl, &args)
}

/// Returns the usage of `help`.
pub(crate) fn help_usage() -> Vec<Usage> {
    vec![Usage { grammar: "[COMMAND]".to_string(), about: "" }]
}

/// Runs `help [COMMAND]`. Returns the list of commands, or the forms of one command; as JSON, the
/// forms of all commands or of one command.
pub(crate) fn help<R>(commands: &[Command<R>], json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    let only = if words.peek().is_some() { Some(grammar::command(commands, &mut words)?) } else { None };
    words.end()?;
    if json {
        let row = |command: &Command<R>| {
            let form = |usage: &Usage| json!({ "grammar": usage.shown(), "about": format!("{}{}", usage.about, usage.ranges()) });
            let forms: Vec<Value> = (command.usage)().iter().map(form).collect();
            json!({ "command": command.name, "about": command.about, "forms": forms })
        };
        let rows: Vec<Value> = only.map_or_else(|| commands.iter().map(row).collect(), |command| vec![row(command)]);
        return Ok(format!("{}\n", Value::Array(rows)));
    }
    Ok(only.map_or_else(|| grammar::command_list(commands), grammar::command_of))
}

impl<L: Locks> capture::Watched for Ctl<'_, L> {
    fn captures(&self) -> &Captures {
        self.host.captures()
    }

    fn wants(&self, name: &str) -> Result<Wants, CommandError> {
        let id = self.iface(name)?.id;
        let without = || CommandError::failed(format!("{name}: cannot be captured: the interface has no port"));
        self.host.ports().iter().any(|port| port.iface == id).then(|| Wants::Places(vec![id.0])).ok_or_else(without)
    }

    fn name(&self, place: Place) -> String {
        self.iface_name(IfaceId(place)).to_string()
    }
}

impl<L: Locks> Ctl<'_, L> {
    /// Returns a listing, as JSON with `rows` or as `text`, depending on the requested format.
    pub(crate) fn listing(&self, rows: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> String {
        if self.json { format!("{}\n", rows()) } else { text() }
    }
}

/// Parses `A/LEN` as an address that a host may have on a link.
pub(crate) fn own_address(word: &str) -> Result<inet::iface::IfaceAddr, CommandError> {
    parse::on_link(parse::own_addr(parse::addr(word, parse::host_len)?)?)
}
