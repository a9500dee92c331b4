//! `ndp`: IPv6 neighbors, default routers and advertised prefixes, in BSD's format.

use super::super::context::{Ctl, DONE, HostForm};
use super::ipneigh::neigh_rows;
use super::zone::{with_zone, zoned};
use crate::parse;
use clock::Duration;
use grammar::{CommandError, Form};
use inet::iface::IfaceId;
use inet::ip6::{AdvertisedPrefix, DefaultRouter};
use inet::neigh::{Neighbor, State};
use lock::Locks;
use serde_json::{Value, json};
use std::marker::PhantomData;
use std::net::Ipv6Addr;
use wire::icmp6::nd::Preference;

/// Syntax forms of `ndp`. The option `-n` is accepted and has no effect, because names are never
/// looked up.
pub(in super::super) struct NdpForms<L>(PhantomData<L>);

impl<L: Locks> NdpForms<L> {
    pub(in super::super) const ALL: &[HostForm<L>] = &[
        Form {
            grammar: "-a,-an,-na [-n]",
            about: "List all neighbors.",
            run: |ctl, _| {
                let all = ctl.host.stack.neighbors6(ctl.cx);
                Ok(ctl.listing(|| Value::Array(neigh_rows(ctl, None)), || show(ctl, &all)))
            },
        },
        Form {
            grammar: "HOST",
            about: "Show a neighbor. HOST is an address, with %IF if it is link-local.",
            run: |ctl, args| Ok(show(ctl, &known(ctl, args.text("HOST"))?)),
        },
        Form {
            grammar: "-s HOST MAC",
            about: "Add a permanent neighbor.",
            run: |ctl, args| {
                let (addr, dev) = found_at(ctl, args.text("HOST"))?;
                ctl.host.set_static_neighbor6(dev, addr, parse::mac(args.text("MAC"))?).and(DONE)
            },
        },
        Form {
            grammar: "-d HOST",
            about: "Remove a neighbor.",
            run: |ctl, args| Ok(known(ctl, args.text("HOST"))?.iter().map(|n| delete(ctl, n)).collect()),
        },
        Form {
            grammar: "-c",
            about: "Remove all neighbors.",
            run: |ctl, _| Ok(ctl.host.stack.neighbors6(ctl.cx).iter().map(|n| delete(ctl, n)).collect()),
        },
        Form {
            grammar: "-r",
            about: "List the default routers.",
            run: |ctl, _| Ok(ctl.listing(|| Value::Array(routers(ctl)), || show_routers(ctl))),
        },
        Form {
            grammar: "-p",
            about: "List the advertised on-link prefixes.",
            run: |ctl, _| Ok(ctl.listing(|| Value::Array(prefixes(ctl)), || show_prefixes(ctl))),
        },
    ];
}

fn preference(of: &DefaultRouter) -> &'static str {
    match of.preference {
        Preference::Low => "low",
        Preference::Medium => "medium",
        Preference::High => "high",
    }
}

/// Returns the default routers of all interfaces, from router advertisements.
fn default_routers<L: Locks>(ctl: &Ctl<'_, L>) -> Vec<(IfaceId, DefaultRouter)> {
    let ifaces = ctl.host.stack.ifaces();
    ifaces.flat_map(|iface| iface.default_routers(ctl.cx).into_iter().map(|of| (iface.id, of))).collect()
}

fn routers<L: Locks>(ctl: &Ctl<'_, L>) -> Vec<Value> {
    let row = |(id, of): (IfaceId, DefaultRouter)| {
        json!({
            "router": of.addr.to_string(), "dev": ctl.iface_name(id), "preference": preference(&of),
            "expire": ctl.seconds_left(of.until), "unreachable": of.is_unreachable,
        })
    };
    default_routers(ctl).into_iter().map(row).collect()
}

fn show_routers<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let line = |(id, of): (IfaceId, DefaultRouter)| {
        let (addr, name) = (with_zone(ctl, of.addr, id), ctl.iface_name(id));
        let unreachable = if of.is_unreachable { ", unreachable" } else { "" };
        let left = ctl.seconds_left(of.until).unwrap_or_default();
        format!("{addr} if={name}, pref={}, expire={left}s{unreachable}\n", preference(&of))
    };
    default_routers(ctl).into_iter().map(line).collect()
}

/// Returns the on-link prefixes of all interfaces, from router advertisements.
fn on_link_prefixes<L: Locks>(ctl: &Ctl<'_, L>) -> Vec<(IfaceId, AdvertisedPrefix)> {
    let ifaces = ctl.host.stack.ifaces();
    ifaces.flat_map(|iface| iface.advertised_prefixes(ctl.cx).into_iter().map(|of| (iface.id, of))).collect()
}

fn prefixes<L: Locks>(ctl: &Ctl<'_, L>) -> Vec<Value> {
    let row = |(id, of): (IfaceId, AdvertisedPrefix)| {
        json!({
            "prefix": of.prefix.to_string(), "dev": ctl.iface_name(id), "expire": ctl.seconds_left(of.until),
        })
    };
    on_link_prefixes(ctl).into_iter().map(row).collect()
}

fn show_prefixes<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let line = |(id, of): (IfaceId, AdvertisedPrefix)| {
        let left = ctl.seconds_left(of.until).map_or("never".to_string(), |left| format!("{left}s"));
        format!("{} if={}, expire={left}\n", of.prefix, ctl.iface_name(id))
    };
    on_link_prefixes(ctl).into_iter().map(line).collect()
}

fn found_at<L: Locks>(ctl: &Ctl<'_, L>, word: &str) -> Result<(Ipv6Addr, IfaceId), CommandError> {
    let (addr, zone) = zoned(ctl, "host", word)?;
    Ok((addr, zone.map_or_else(|| ctl.host.link_of6(addr), Ok)?))
}

fn known<L: Locks>(ctl: &Ctl<'_, L>, word: &str) -> Result<Vec<Neighbor<Ipv6Addr>>, CommandError> {
    let (addr, zone) = zoned(ctl, "host", word)?;
    let mut found = ctl.host.stack.neighbors6(ctl.cx);
    found.retain(|n| n.addr == addr && zone.is_none_or(|zone| zone == n.iface));
    if found.is_empty() { Err(CommandError::failed(format!("{addr} ({addr}) -- no entry"))) } else { Ok(found) }
}

fn delete<L: Locks>(ctl: &Ctl<'_, L>, n: &Neighbor<Ipv6Addr>) -> String {
    ctl.host.stack.remove_neighbor6(ctl.cx, n.iface, n.addr);
    let addr = with_zone(ctl, n.addr, n.iface);
    format!("{addr} ({addr}) deleted\n")
}

fn show<L: Locks>(ctl: &Ctl<'_, L>, found: &[Neighbor<Ipv6Addr>]) -> String {
    let head =
        format!("{:<36} {:<18} {:>5} {:<9} {} {}\n", "Neighbor", "Linklayer Address", "Netif", "Expire", "S", "Flags");
    head + &found.iter().map(|n| row(ctl, n)).collect::<String>()
}

fn row<L: Locks>(ctl: &Ctl<'_, L>, n: &Neighbor<Ipv6Addr>) -> String {
    let mac = if n.state == State::Incomplete { "(incomplete)".to_string() } else { n.mac.to_string() };
    let age = Duration::from_secs(ctl.host.stack.sysctls.neigh6_reachable.get() as u64);
    let left = age.saturating_sub(ctl.cx.now.since(n.since)).as_secs();
    let (expire, letter) = match n.state {
        State::Permanent => ("permanent".to_string(), "R"),
        State::Reachable => (format!("{left}s"), "R"),
        State::Stale => ("expired".to_string(), "S"),
        State::Probe => ("expired".to_string(), "P"),
        State::Incomplete => ("expired".to_string(), "I"),
    };
    let (addr, name) = (with_zone(ctl, n.addr, n.iface), ctl.iface_name(n.iface));
    format!("{addr:<36} {mac:<18} {name:>5} {expire:<9} {letter}\n")
}
