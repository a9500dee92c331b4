//! `netstat`: connections, counters with descriptions, pools, ifaces, routes, netisr.

mod sentences;

use super::context::Ctl;
use super::ip::list::link_of;
use super::sockets::{self, Netid, SockState, Socket};
use super::{iproute, isr, route, show};
use crate::link::Link;
use grammar::{CommandError, Usage, Words};
use lock::Locks;
use serde_json::{Map, Value, json};
use stats::{DropReason, End, Entry};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Protocols of option `-p`, with the prefixes of their counters.
const PROTOCOLS: &[(&str, &[&str])] = &[
    ("tcp", &["tcp.", "inet.tcp."]),
    ("udp", &["inet.udp."]),
    ("ip", &["inet.ip4."]),
    ("icmp", &["inet.icmp4."]),
    ("igmp", &["inet.igmp."]),
    ("ip6", &["inet.ip6."]),
    ("icmp6", &["inet.icmp6.", "inet.nd.", "inet.mld."]),
    ("arp", &["inet.arp.", "inet.neigh."]),
];

type Protocol = (&'static str, &'static [&'static str]);

/// Returns the usage of `netstat`.
pub(super) fn usage() -> Vec<Usage> {
    let of = |grammar: &str, about| Usage { grammar: grammar.to_string(), about };
    vec![
        of("[-an] [-p PROTOCOL]", "List connections; -a adds listening sockets."),
        of("-s [-s] [-p PROTOCOL]", "List nonzero counters with descriptions; -s -s lists all counters."),
        of("-m", "List the buffer pools."),
        of("-i", "List the interfaces with their packet and error counts."),
        of("-r", "List the routes."),
        of("-Q", "Show the workstreams of netisr. PROTOCOL is tcp, udp, ip, icmp, igmp, arp, ip6 or icmp6."),
    ]
}

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let (mut letters, mut protocol) = (String::new(), None);
    while let Some(word) = words.take() {
        match word.strip_prefix('-') {
            Some(given) if !given.is_empty() && given.chars().all(|c| "smirnapQ".contains(c)) => letters += given,
            _ => {
                let known = ["-a", "-n", "-p", "-s", "-m", "-i", "-r", "-Q"];
                return Err(CommandError::unknown("option", word, known.into_iter()));
            }
        }
        if word.ends_with('p') {
            protocol = Some(named(words.next("a protocol after -p: tcp, udp, ip, icmp, igmp, arp, ip6 or icmp6")?)?);
        }
    }
    let has = |letter| letters.contains(letter);
    if has('p') && protocol.is_none() {
        return Err(CommandError::missing("a protocol after -p: give -p last, as in -sp tcp"));
    }
    match () {
        () if has('s') => Ok(sentences(ctl, letters.matches('s').count() > 1, protocol)),
        () if has('Q') => Ok(isr::table(ctl)),
        () if has('m') => Ok(show::pools(ctl)),
        () if has('i') => Ok(ifaces(ctl)),
        () if has('r') && ctl.json => iproute::run(ctl, Words::new(&["show"])),
        () if has('r') => Ok(route::show(ctl)),
        () => Ok(connections(ctl, has('a'), protocol)),
    }
}

fn named(name: &str) -> Result<Protocol, CommandError> {
    let found = PROTOCOLS.iter().find(|(known, _)| *known == name).copied();
    found.ok_or_else(|| CommandError::unknown("protocol", name, PROTOCOLS.iter().map(|(known, _)| *known)))
}

/// Returns the nonzero counters with their descriptions; with `all`, every counter.
fn sentences<L: Locks>(ctl: &Ctl<'_, L>, all: bool, protocol: Option<Protocol>) -> String {
    let mut entries = ctl.host.stack.snapshot();
    let wanted = |entry: &Entry| protocol.is_none_or(|(_, begins)| begins.iter().any(|b| entry.name.starts_with(b)));
    entries.retain(|entry| (all || entry.value > 0) && wanted(entry));
    let json = || Value::Object(entries.iter().map(|e| (e.name.clone(), e.value.into())).collect::<Map<_, _>>());
    let states = || match protocol {
        Some(("tcp", _)) => sentences::by_state(&sockets::all(ctl)),
        _ => String::new(),
    };
    ctl.listing(json, || grouped(&entries, all) + &states())
}

/// Returns the counters and drop reasons as text, with one paragraph per module, such as
/// `inet.ip4`. The paragraphs of TCP, UDP, IPv6 and ICMPv6 begin with FreeBSD's sentences.
fn grouped(entries: &[Entry], all: bool) -> String {
    let mut groups: BTreeMap<&str, String> = BTreeMap::new();
    let mut said: BTreeSet<&str> = BTreeSet::new();
    for (module, sentences) in
        [("tcp", sentences::TCP), ("udp", sentences::UDP), ("ip6", sentences::IP6), ("icmp6", sentences::ICMP6)]
    {
        if entries.iter().any(|entry| paragraph(&entry.name) == module) {
            let (text, names) = sentences::paragraph(sentences, entries, all);
            groups.insert(module, text);
            said.extend(names);
        }
    }
    for entry in entries.iter().filter(|entry| !said.contains(entry.name.as_str())) {
        let end = DropReason::ALL.iter().find(|why| why.name() == entry.name).map(|why| why.end());
        let mut sentence = in_a_row(entry.sentence);
        if entry.value == 1 && end.is_none() {
            sentence = sentences::about_one(&sentence);
        }
        let line = match end {
            None => sentence,
            Some(End::Lost) => format!("dropped: {sentence}"),
            Some(End::Consumed) => format!("used: {sentence}"),
        };
        *groups.entry(paragraph(&entry.name)).or_default() += &format!("\t{} {line}\n", entry.value);
    }
    groups.iter().map(|(module, lines)| format!("{module}:\n{lines}")).collect()
}

/// Returns the name of the paragraph that contains the counter `name`.
fn paragraph(name: &str) -> &str {
    if name.starts_with("tcp.") || name.starts_with("inet.tcp.") {
        return "tcp";
    }
    for (begin, module) in [("inet.udp.", "udp"), ("inet.ip6.", "ip6"), ("inet.icmp6.", "icmp6")] {
        if name.starts_with(begin) {
            return module;
        }
    }
    let module = name.rsplit_once('.').map_or("", |(module, _)| module);
    module.strip_suffix(".in").or(module.strip_suffix(".out")).unwrap_or(module)
}

/// Returns the connections in BSD's format; with `servers`, also sockets without a peer, such as
/// listeners.
fn connections<L: Locks>(ctl: &Ctl<'_, L>, servers: bool, protocol: Option<Protocol>) -> String {
    let wanted = |socket: &Socket| {
        let requested = protocol.is_none_or(|(name, _)| name == proto(socket).trim_end_matches(['4', '6']));
        requested && (servers || !socket.state.is_waiting())
    };
    let mut sockets = sockets::all(ctl);
    sockets.retain(wanted);
    sockets.sort_by_key(|socket| std::cmp::Reverse(socket.netid)); // tcp first
    let state = |socket: &Socket| if socket.netid == Netid::Tcp { socket.state.bsd() } else { "" };
    let row = |socket: &Socket| {
        json!({
            "protocol": proto(socket), "receive-bytes-waiting": socket.memory.recv,
            "send-bytes-waiting": socket.memory.send, "local": dotted(ctl, socket.local),
            "remote": dotted(ctl, socket.peer), "tcp-state": state(socket),
        })
    };
    let line = |socket: &Socket| {
        let (recv, send) = match socket.state {
            SockState::Listen => (0, 0), // shown by netstat -L instead
            _ => (socket.recv_q, socket.send_q),
        };
        let (local, peer) = (dotted(ctl, socket.local), dotted(ctl, socket.peer));
        let line = format!("{:<5} {recv:>6} {send:>6} {local:<22} {peer:<22} {}", proto(socket), state(socket));
        format!("{}\n", line.trim_end())
    };
    ctl.listing(
        || Value::Array(sockets.iter().map(row).collect()),
        || {
            let which = if servers { " (including servers)" } else { "" };
            let head = format!(
                "{:<5} {:>6} {:>6} {:<22} {:<22} {}\n",
                "Proto", "Recv-Q", "Send-Q", "Local Address", "Foreign Address", "(state)"
            );
            format!("Active Internet connections{which}\n{head}") + &sockets.iter().map(line).collect::<String>()
        },
    )
}

fn proto(socket: &Socket) -> &'static str {
    match (socket.netid, socket.local.is_ipv6()) {
        (Netid::Tcp, false) => "tcp4",
        (Netid::Tcp, true) => "tcp6",
        (Netid::Udp, false) => "udp4",
        (Netid::Udp, true) => "udp6",
        (Netid::Icmp, false) => "icmp4",
        (Netid::Icmp, true) => "icmp6",
        (Netid::Raw, false) => "raw4",
        (Netid::Raw, true) => "raw6",
    }
}

/// Returns an address and port in BSD's format, such as `10.0.0.1.80`, `fe80::1%em0.80`, or `*` for
/// any.
fn dotted<L: Locks>(ctl: &Ctl<'_, L>, end: SocketAddr) -> String {
    let addr = if end.ip().is_unspecified() { "*".to_string() } else { ctl.host.ip_text(end) };
    if end.port() == 0 { format!("{addr}.*") } else { format!("{addr}.{}", end.port()) }
}

/// Returns a sentence without its final full stop, and with a lower-case first letter unless it
/// begins with an abbreviation.
fn in_a_row(sentence: &str) -> String {
    let sentence = sentence.strip_suffix('.').unwrap_or(sentence);
    let mut chars = sentence.chars();
    let (first, second) = (chars.next(), chars.next());
    match (first, second) {
        (Some(first), Some(second)) if !second.is_uppercase() && !second.is_numeric() => {
            first.to_lowercase().chain(sentence.chars().skip(1)).collect()
        }
        _ => sentence.to_string(),
    }
}

fn ifaces<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let ports = ctl.host.ports();
    let rows = || ctl.host.stack.ifaces().map(|iface| (iface, link_of(ctl, iface, &ports)));
    let row_json = || {
        let row = rows().map(|(iface, link)| {
            let own = iface.addrs(ctl.cx);
            link.netstat_json(&own.iter().map(|a| format!("{}/{}", a.addr, a.len)).collect::<Vec<_>>())
        });
        Value::Array(row.collect())
    };
    let text = || {
        let mut out = Link::netstat_head();
        for (iface, link) in rows() {
            out += &link.netstat();
            for addr in iface.addrs(ctl.cx) {
                let network = inet::fib::Prefix::new(addr.addr, addr.len).map(|p| p.to_string()).unwrap_or_default();
                out += &format!("{:<8} {:>6} {network:<18} {}\n", iface.name, "-", addr.addr);
            }
        }
        out
    };
    ctl.listing(row_json, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consumed frames are listed as used, not as dropped.
    #[test]
    fn frames_that_were_used_are_not_dropped() {
        let entry = |why: DropReason| Entry { name: why.name().to_string(), sentence: why.sentence(), value: 2 };
        let text = grouped(&[DropReason::ArpConsumed, DropReason::FragOverlap].map(entry), false);
        assert!(text.contains("\t2 used: ") && text.contains("\t2 dropped: "), "{text}");
        assert_eq!(text.matches("dropped: ").count(), 1, "{text}");
    }
}
