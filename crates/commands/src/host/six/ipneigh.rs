//! `ip -6 neigh`, with iproute2's text and JSON key names.

use super::zone::zoned;
use crate::host::context::Ctl;
use crate::host::ip::syntax::neighbor_entry;
use crate::json::set;
use grammar::{CommandError, Words};
use inet::neigh::{Neighbor, State};
use lock::Locks;
use serde_json::{Value, json};
use std::net::Ipv6Addr;

/// Runs `ip -6 neigh add|change|replace|del A ...`; the verb has already been parsed.
pub(in super::super) fn neigh<L: Locks>(
    ctl: &Ctl<'_, L>,
    verb: &str,
    mut words: Words<'_>,
) -> Result<String, CommandError> {
    let (addr, zone) = zoned(ctl, "neighbor", words.next("a neighbor's address")?)?;
    let (lladdr, dev) = neighbor_entry(ctl, zone, words)?;
    let unknown = || CommandError::failed(format!("{addr}: no neighbor entry on {}", ctl.iface_name(dev)));
    if verb == "del" {
        let gone = ctl.host.stack.remove_neighbor6(ctl.cx, dev, addr);
        return if gone { Ok(String::new()) } else { Err(unknown()) };
    }
    let lladdr = lladdr.ok_or_else(|| CommandError::missing("lladdr MAC"))?;
    let known = ctl.host.stack.neighbors6(ctl.cx).iter().any(|n| (n.iface, n.addr) == (dev, addr));
    match (verb, known) {
        ("add", true) => Err(CommandError::failed(format!("{addr}: a neighbor entry exists; use replace"))),
        ("change", false) => Err(unknown()),
        _ => ctl.host.set_static_neighbor6(dev, addr, lladdr).map(|()| String::new()),
    }
}

/// Returns Linux's name of the state of a neighbor entry.
fn state(n: &Neighbor<Ipv6Addr>) -> &'static str {
    match n.state {
        State::Incomplete => "INCOMPLETE",
        State::Reachable => "REACHABLE",
        State::Stale => "STALE",
        State::Probe => "PROBE",
        State::Permanent => "PERMANENT",
    }
}

/// Lists neighbors in the format of `ip neigh`.
pub(in super::super) fn neigh_text<L: Locks>(ctl: &Ctl<'_, L>, only: Option<inet::iface::IfaceId>) -> String {
    let row = |n: &Neighbor<Ipv6Addr>| {
        let lladdr = if n.state == State::Incomplete { String::new() } else { format!(" lladdr {}", n.mac) };
        format!("{} dev {}{lladdr} {}\n", n.addr, ctl.iface_name(n.iface), state(n))
    };
    let all = ctl.host.stack.neighbors6(ctl.cx);
    all.iter().filter(|n| only.is_none_or(|id| id == n.iface)).map(row).collect()
}

/// Returns the JSON objects of the neighbors in `ip -j neigh`.
pub(in super::super) fn neigh_rows<L: Locks>(ctl: &Ctl<'_, L>, only: Option<inet::iface::IfaceId>) -> Vec<Value> {
    let row = |n: &Neighbor<Ipv6Addr>| {
        let mut row = json!({ "dst": n.addr.to_string(), "dev": ctl.iface_name(n.iface) });
        if n.state != State::Incomplete {
            set(&mut row, "lladdr", n.mac.to_string());
        }
        set(&mut row, "state", vec![state(n)]);
        row
    };
    let all = ctl.host.stack.neighbors6(ctl.cx);
    all.iter().filter(|n| only.is_none_or(|id| id == n.iface)).map(row).collect()
}
