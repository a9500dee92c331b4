//! `arp`: BSD's view of the neighbor table.

use super::Ctl;
use super::ipneigh;
use super::parse;
use clock::Duration;
use grammar::{CommandError, Words};
use inet::neigh::{Neighbor, State};
use lock::Locks;
use serde_json::Value;

const GRAMMAR: &str = "-a, HOST, -s HOST MAC, -d HOST or -d -a";

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    words.skip("-n"); // names are never looked up
    match words.next(GRAMMAR)? {
        "-a" | "-an" | "-na" => {
            words.end()?;
            Ok(show(ctl, ctl.host.stack.neighbors(ctl.cx)))
        }
        "-s" | "-S" => set(ctl, words),
        "-d" => delete(ctl, words),
        option if option.starts_with('-') => {
            Err(CommandError::unknown("option", option, ["-a", "-s", "-d", "-n"].into_iter()))
        }
        host => {
            let addr = parse::ip4("host", host)?;
            words.end()?;
            let mut found = ctl.host.stack.neighbors(ctl.cx);
            found.retain(|n| n.addr == addr);
            if found.is_empty() { Err(no_entry(addr)) } else { Ok(show(ctl, found)) }
        }
    }
}

fn no_entry(addr: std::net::Ipv4Addr) -> CommandError {
    CommandError::failed(format!("{addr} ({addr}) -- no entry"))
}

/// Runs `-s HOST MAC`; the options `pub`, `temp` and the like are rejected, not ignored.
fn set<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let addr = parse::ip4("host", words.next("a host's address")?)?;
    let mac = parse::mac(words.next("a MAC address")?)?;
    words.end()?;
    ipneigh::set_neighbor(ctl, ctl.link_of(addr)?, addr, mac)?;
    Ok(String::new())
}

fn delete<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let which = words.next("a host's address, or -a")?;
    words.end()?;
    let mut found = ctl.host.stack.neighbors(ctl.cx);
    if which != "-a" {
        let addr = parse::ip4("host", which)?;
        found.retain(|n| n.addr == addr);
        if found.is_empty() {
            return Err(no_entry(addr));
        }
    }
    let mut out = String::new();
    for n in found {
        ctl.host.stack.remove_neighbor(ctl.cx, n.iface, n.addr);
        out += &format!("{} ({}) deleted\n", n.addr, n.addr);
    }
    Ok(out)
}

fn show<L: Locks>(ctl: &Ctl<'_, L>, found: Vec<Neighbor>) -> String {
    ctl.listing(
        || Value::Array(found.iter().map(|n| ipneigh::row_json(ctl, n)).collect()),
        || found.iter().map(|n| row(ctl, n)).collect(),
    )
}

fn row<L: Locks>(ctl: &Ctl<'_, L>, n: &Neighbor) -> String {
    let name = ctl.iface_name(n.iface);
    let mac = if n.state == State::Incomplete { "(incomplete)".to_string() } else { n.mac.to_string() };
    let age = Duration::from_secs(ctl.host.stack.knobs.neigh_max_age.get() as u64);
    let left = age.saturating_sub(ctl.cx.now.since(n.since)).as_secs();
    let life = match n.state {
        State::Permanent => "permanent".to_string(),
        State::Reachable => format!("expires in {left} seconds"),
        State::Stale | State::Probe | State::Incomplete => "expired".to_string(),
    };
    format!("? ({}) at {mac} on {name} {life} [ethernet]\n", n.addr)
}
