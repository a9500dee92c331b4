//! `ip neigh`: shows, adds, replaces and removes neighbors.

use super::context::Ctl;
use super::ip::syntax::{Family, neighbor_entry, only_dev, verb};
use super::six;
use crate::json::set;
use crate::parse;
use grammar::{CommandError, Words};
use inet::iface::IfaceId;
use inet::neigh::{Neighbor, State};
use lock::Locks;
use serde_json::{Value, json};

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>, family: Family) -> Result<String, CommandError> {
    let verb = verb(&mut words, &["show", "add", "change", "replace", "del"])?;
    if verb == "show" {
        let only = only_dev(ctl, &mut words)?.map(|iface| iface.id);
        return Ok(list(ctl, only, family));
    }
    if family == Family::Six || family == Family::Any && words.peek().is_some_and(|word| word.contains(':')) {
        return six::neigh(ctl, verb, words);
    }
    let addr = parse::ip4("neighbor", words.next("a neighbor's address")?)?;
    let (lladdr, dev) = neighbor_entry(ctl, None, words)?;
    if verb == "del" {
        let gone = ctl.host.stack.remove_neighbor(ctl.cx, dev, addr);
        return if gone { Ok(String::new()) } else { Err(unknown(ctl, dev, addr)) };
    }
    let lladdr = lladdr.ok_or_else(|| CommandError::missing("lladdr MAC"))?;
    let known = ctl.host.stack.neighbors(ctl.cx).iter().any(|n| (n.iface, n.addr) == (dev, addr));
    match (verb, known) {
        ("add", true) => Err(CommandError::failed(format!("{addr}: a neighbor entry exists; use replace"))),
        ("change", false) => Err(unknown(ctl, dev, addr)),
        _ => ctl.host.set_static_neighbor(dev, addr, lladdr).map(|()| String::new()),
    }
}

fn unknown<L: Locks>(ctl: &Ctl<'_, L>, dev: IfaceId, addr: std::net::Ipv4Addr) -> CommandError {
    CommandError::failed(format!("{addr}: no neighbor entry on {}", ctl.iface_name(dev)))
}

/// Lists the neighbor table in the format of `ip neigh`.
fn list<L: Locks>(ctl: &Ctl<'_, L>, only: Option<IfaceId>, family: Family) -> String {
    let mut all = if family == Family::Six { Vec::new() } else { ctl.host.stack.neighbors(ctl.cx) };
    all.retain(|n| only.is_none_or(|id| id == n.iface));
    let six = family != Family::Four;
    ctl.listing(
        || {
            let mut rows: Vec<Value> = all.iter().map(|n| row_json(ctl, n)).collect();
            rows.extend(six.then(|| six::neigh_rows(ctl, only)).into_iter().flatten());
            Value::Array(rows)
        },
        || {
            let text: String = all.iter().map(|n| row_text(ctl, n)).collect();
            if six { text + &six::neigh_text(ctl, only) } else { text }
        },
    )
}

/// Returns Linux's name of the state. As in Linux, an entry that is being revalidated is in state
/// PROBE.
fn state(n: &Neighbor) -> &'static str {
    match n.state {
        State::Incomplete => "INCOMPLETE",
        State::Reachable => "REACHABLE",
        State::Stale => "STALE",
        State::Probe => "PROBE",
        State::Permanent => "PERMANENT",
    }
}

fn row_text<L: Locks>(ctl: &Ctl<'_, L>, n: &Neighbor) -> String {
    let lladdr = if n.state == State::Incomplete { String::new() } else { format!(" lladdr {}", n.mac) };
    format!("{} dev {}{lladdr} {}\n", n.addr, ctl.iface_name(n.iface), state(n))
}

pub(super) fn row_json<L: Locks>(ctl: &Ctl<'_, L>, n: &Neighbor) -> Value {
    let mut row = json!({ "dst": n.addr.to_string(), "dev": ctl.iface_name(n.iface) });
    if n.state != State::Incomplete {
        set(&mut row, "lladdr", n.mac.to_string());
    }
    set(&mut row, "state", vec![state(n)]);
    row
}
