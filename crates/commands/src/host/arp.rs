//! `arp`: shows and changes the IPv4 neighbor table, in BSD's format.

use super::context::{Ctl, DONE, HostForm};
use super::ipneigh;
use crate::parse;
use clock::Duration;
use grammar::{Args, CommandError, Form};
use inet::neigh::{Neighbor, State};
use lock::Locks;
use serde_json::Value;
use std::marker::PhantomData;

/// Syntax forms of `arp`. The option `-n` is accepted and has no effect, because names are never
/// looked up.
pub(super) struct Forms<L>(PhantomData<L>);

impl<L: Locks> Forms<L> {
    pub(super) const ALL: &[HostForm<L>] = &[
        Form {
            grammar: "-a,-an,-na [-n]",
            about: "List all neighbors.",
            run: |ctl, _| Ok(show(ctl, ctl.host.stack.neighbors(ctl.cx))),
        },
        Form { grammar: "HOST", about: "Show a neighbor.", run: |ctl, args| Ok(show(ctl, found(ctl, args)?)) },
        Form {
            grammar: "-s,-S HOST MAC",
            about: "Add a permanent neighbor.",
            run: |ctl, args| {
                let (addr, mac) = (parse::ip4("host", args.text("HOST"))?, parse::mac(args.text("MAC"))?);
                ctl.host.set_static_neighbor(ctl.host.link_of(addr)?, addr, mac)?;
                DONE
            },
        },
        Form {
            grammar: "-d -a",
            about: "Remove all neighbors.",
            run: |ctl, _| Ok(delete(ctl, ctl.host.stack.neighbors(ctl.cx))),
        },
        Form { grammar: "-d HOST", about: "Remove a neighbor.", run: |ctl, args| Ok(delete(ctl, found(ctl, args)?)) },
    ];
}

/// Returns the neighbor entries of the address `HOST`; an error if there is none.
fn found<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<Vec<Neighbor>, CommandError> {
    let addr = parse::ip4("host", args.text("HOST"))?;
    let mut found = ctl.host.stack.neighbors(ctl.cx);
    found.retain(|n| n.addr == addr);
    if found.is_empty() { Err(CommandError::failed(format!("{addr} ({addr}) -- no entry"))) } else { Ok(found) }
}

fn delete<L: Locks>(ctl: &Ctl<'_, L>, found: Vec<Neighbor>) -> String {
    let one = |n: Neighbor| {
        ctl.host.stack.remove_neighbor(ctl.cx, n.iface, n.addr);
        format!("{} ({}) deleted\n", n.addr, n.addr)
    };
    found.into_iter().map(one).collect()
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
    let age = Duration::from_secs(ctl.host.stack.sysctls.neigh_max_age.get() as u64);
    let left = age.saturating_sub(ctl.cx.now.since(n.since)).as_secs();
    let life = match n.state {
        State::Permanent => "permanent".to_string(),
        State::Reachable => format!("expires in {left} seconds"),
        State::Stale | State::Probe | State::Incomplete => "expired".to_string(),
    };
    format!("? ({}) at {mac} on {name} {life} [ethernet]\n", n.addr)
}
