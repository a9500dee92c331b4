//! Commands that configure and display a running host, with the grammars of the BSD and iproute2
//! programs.
//!
//! [`run`] runs one command and returns its output. `Table::ALL` lists the commands. Each command
//! has a file of its own in this directory, with the syntax forms of the command. All files import
//! `context`, which provides the host on which a command runs.

mod arp;
mod audit;
pub(crate) mod context;
#[cfg(feature = "dhcp")]
mod dhclient;
mod fpm;
mod iface;
mod ifconfig;
pub(crate) mod ip;
mod ipneigh;
mod iproute;
mod isr;
mod job;
mod lcp;
mod netstat;
mod places;
mod reload;
mod resolvectl;
mod route;
mod show;
mod six;
mod sockets;
mod ss;
#[cfg(test)]
mod tests;
mod topology;
mod tunnel;
mod why;

use crate::{capture, help, sysctl};
use context::{Ctl, DONE, one_of};
use grammar::{Command, CommandError, Words, usage};
use lock::{Locks, Up};
use node::Host;
use port::Pairs;
use std::marker::PhantomData;

/// Function that runs a command; its argument is the list of words after the command's name.
type Run<L> = fn(&Ctl<'_, L>, Words<'_>) -> Result<String, CommandError>;

/// The commands of a host with locks of kind `L`.
struct Table<L>(PhantomData<L>);

impl<L: Locks> Table<L> {
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
        #[cfg(feature = "dhcp")]
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
            name: "reload",
            about: "Read the host's file again and change what is different",
            usage: || usage(reload::ReloadForms::<L>::ALL),
            run: |ctl, words| one_of(reload::ReloadForms::ALL, ctl, words),
        },
        Command {
            name: "commit-confirmed",
            about: "Reload, and go back unless the configuration is confirmed",
            usage: || usage(reload::ConfirmForms::<L>::ALL),
            run: |ctl, words| one_of(reload::ConfirmForms::ALL, ctl, words),
        },
        Command {
            name: "commit",
            about: "Confirm the configuration of 'commit-confirmed'",
            usage: Vec::new,
            run: |ctl, words| words.end().and_then(|()| reload::commit(ctl)),
        },
        Command {
            name: "write",
            about: "Save the running configuration",
            usage: || usage(reload::WriteForms::<L>::ALL),
            run: |ctl, words| one_of(reload::WriteForms::ALL, ctl, words),
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
            usage: help::usage,
            run: |ctl, words| help::run(table::<L>(), ctl.json, words),
        },
    ];
}

/// Returns the table of the commands. It is the only function that names them all, and it is never
/// inlined, so a crate uses the instances in crates below it (decision 42).
#[inline(never)]
fn table<L: Locks>() -> &'static [Command<Run<L>>] {
    Table::<L>::ALL
}

/// Returns the commands that [`run`] accepts, as (name, description, text of the syntax forms).
pub fn catalog() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    table::<Up>().iter().map(|command| (command.name, command.about, grammar::forms_of(command)))
}

/// Runs the command `words` on `host` and returns the output as text. If `json` is set, a listing
/// is returned as JSON.
///
/// # Errors
/// Returns a [`CommandError`] with the invalid word or the failure, the expected form, and the
/// nearest valid word.
#[inline(never)]
pub fn run<L: Locks>(host: &Host<L>, pairs: &Pairs, words: &[&str], json: bool) -> Result<String, CommandError> {
    let ctl = Ctl { host, pairs, cx: host.cx(), json, statistics: false };
    let mut words = Words::new(words);
    let command = grammar::command(table::<L>(), &mut words)?;
    (command.run)(&ctl, words)
}
