//! Commands that configure and display a running host: the grammars of the BSD and iproute2
//! programs.
//!
//! [`run`] runs one command and returns its output. Each program has a file of its own here; shared
//! parts (parsing addresses, finding the iface of a neighbor, finding the nearest word) are in
//! [`parse`] and [`error`].

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
pub(crate) use sysctl::{
    apply as apply_knob, check as check_knob, check_number as check_knob_number, documented as documented_knobs,
    names as knob_names,
};

use crate::Host;
use crate::capture::{Captures, Place, Wants};
use grammar::Words;
use inet::iface::IfaceId;
use lock::{Cx, Locks};
use port::Pairs;
use serde_json::Value;

/// Context of a command.
pub(crate) struct Ctl<'a, L: Locks> {
    pub(crate) host: &'a Host<L>,
    pub(crate) pairs: &'a Pairs,
    pub(crate) cx: Cx,
    pub(crate) json: bool,
}

/// Commands: name, grammar, description. Printed by `help`.
const PROGRAMS: &[(&str, &str, &str)] = &[
    (
        "ifconfig",
        "[-a] | IF [create [port SPEC] | inet A[/LEN] [netmask M] [alias|-alias|delete] | mtu N | up | down | \
         inet6 A[/LEN] [B] [delete] | inet6 auto_linklocal | inet6 [-]accept_rtadv | \
         inet6 [-]advertise [rltime N] [maxinterval N] [vltime N] [pltime N] | inet A B | tunnel A B | -tunnel | grekey N | \
         [-]enable_csum | [-]enable_seq | vxlanid N | vxlanlocal A | vxlanremote B | vxlanremoteport N | vxlanttl N | \
         destroy | [-]ip4csum | [-]udp4csum | [-]rxcsum | [-]tso4 ...]",
        "Ifaces: make, address, switch, list.",
    ),
    (
        "ip",
        "[-j] [-4|-6] [-s] [-br] [-o] addr|link|route|neigh [show|list|add|del|replace|get|set] ...",
        "The same in iproute2's words.",
    ),
    (
        "",
        "ip link add IF type ipip|gre|vxlan|etherip [local A] [remote B] [key N] [id N] [dstport N] ... | del IF",
        "Tunnels.",
    ),
    ("arp", "-a | HOST | -s HOST MAC | -d HOST | -d -a", "Neighbors."),
    (
        "ndp",
        "-a | HOST | -s HOST MAC | -d HOST | -c | -r | -p",
        "Neighbors of IPv6 (HOST may be A%IF), routers, prefixes.",
    ),
    ("route", "[-n] [-6] [show] | add [-net|-host] DST GW... | delete DST | get ADDR [--why]", "Routes."),
    ("sysctl", "[-n|-d] -a | NAME ... | [-w] NAME=VALUE ...", "Knobs."),
    (
        "netstat",
        "[-an] | -s [-s] | -m | -i | -r | -Q   [-p tcp|udp|ip|icmp|igmp|arp|ip6|icmp6]",
        "Connections, counters in sentences, pools, ifaces, routes, netisr.",
    ),
    (
        "ss",
        "[-t|-u] [-l|-a] [-iopemH] [state|exclude STATE] [src|dst A[/LEN][:PORT]] [sport|dport = :PORT] | -s",
        "Sockets; tcp_info, timers, processes, extended, memory; how many.",
    ),
    (
        "show",
        "pools|locks|ports|nic|drops|places|counters|isr|ledger [on|off]|sockets|topology",
        "What the host knows of itself.",
    ),
    ("dhclient", dhclient::GRAMMAR, dhclient::ABOUT),
    ("resolvectl", resolvectl::GRAMMAR, resolvectl::ABOUT),
    ("capture", capture::GRAMMAR, capture::ABOUT),
    ("job", job::GRAMMAR, job::ABOUT),
    ("audit", "", "The balance of frames: in, out, held, dropped."),
    ("stop", "", "Ends the program that runs this host."),
    ("help", "", "This list."),
];

/// Returns the names of the programs that [`run`] accepts.
pub fn programs() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|(name, ..)| *name).filter(|name| !name.is_empty())
}

/// Runs the command `words` on `host` and returns the output: text, or JSON for a listing if `json`
/// is set.
///
/// # Errors
/// Returns a [`CommandError`]: the invalid word or the failure, the expected form, and the nearest
/// valid word.
pub fn run<L: Locks>(host: &Host<L>, pairs: &Pairs, words: &[&str], json: bool) -> Result<String, CommandError> {
    let ctl = Ctl { host, pairs, cx: host.cx(), json };
    let mut words = Words::new(words);
    let program = words.next("a command")?;
    match program {
        "ifconfig" => ifconfig::run(&ctl, words),
        "ip" => ip::run(ctl, words),
        "arp" => arp::run(&ctl, words),
        "ndp" => six::ndp(&ctl, words),
        "route" => route::run(&ctl, words),
        "sysctl" => sysctl::run(&ctl, words),
        "netstat" => netstat::run(&ctl, words),
        "ss" => ss::run(&ctl, words),
        "show" => show::run(&ctl, words),
        "dhclient" => dhclient::run(&ctl, words),
        "resolvectl" => resolvectl::run(&ctl, words),
        "job" => job::run(&ctl, words),
        "capture" => capture::run(&ctl, ctl.cx.now, json, words),
        "audit" => words.end().map(|()| audit::run(&ctl)),
        "stop" => {
            words.end()?;
            dispatch::request_stop();
            Ok(String::new())
        }
        "help" => words.end().map(|()| help_of(PROGRAMS)),
        other => Err(CommandError::unknown("word", other, programs())),
    }
}

/// Columns of [`help_of`].
const COLUMNS: usize = 80;

/// Returns the list of programs, in lines of 80 columns.
pub(crate) fn help_of(programs: &[(&str, &str, &str)]) -> String {
    let mut out = String::new();
    for (name, grammar, about) in programs {
        wrap(&mut out, name, grammar);
        if !about.is_empty() {
            wrap(&mut out, "", about);
        }
    }
    out + "With -j in front, listings are JSON.\n"
}

/// Appends `text` after `name`, wrapped.
fn wrap(out: &mut String, name: &str, text: &str) {
    let mut line = format!("{name:<10}");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            *out += &format!("{}\n", line.trim_end());
            line = " ".repeat(10);
        }
        line += " ";
        line += word;
    }
    *out += &format!("{}\n", line.trim_end());
}

impl<L: Locks> capture::Watched for Ctl<'_, L> {
    fn captures(&self) -> &Captures {
        self.host.captures()
    }

    fn wants(&self, name: &str) -> Result<Wants, CommandError> {
        let id = self.iface(name)?.id;
        let without =
            || CommandError::failed(format!("{name}: has no port: its packets do not leave the host as frames"));
        self.host.ports().iter().any(|port| port.iface == id).then(|| Wants::Places(vec![id.0])).ok_or_else(without)
    }

    fn name(&self, place: Place) -> String {
        self.iface_name(IfaceId(place)).to_string()
    }
}

impl<L: Locks> Ctl<'_, L> {
    /// Returns a listing: `rows` as JSON, or `text`.
    pub(crate) fn listing(&self, rows: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> String {
        if self.json { format!("{}\n", rows()) } else { text() }
    }
}

/// Parses `A/LEN` as an address of the host on a link.
pub(crate) fn own_address(word: &str) -> Result<inet::iface::IfaceAddr, CommandError> {
    parse::on_link(parse::own_addr(parse::addr(word, parse::host_len)?)?)
}
