//! Listings of `ip addr` and `ip link`.

use super::syntax::Family;
use crate::host::context::Ctl;
use crate::host::{six, tunnel};
use crate::json::set;
use crate::link::{Link, LinkCounters, Style, one_line};
use inet::iface::{Iface, IfaceKind};
use lock::Locks;
use node::PortInfo;
use serde_json::{Value, json};

/// iproute2's value for an infinite lifetime.
const FOREVER: u32 = u32::MAX;

/// Lists ifaces; with `addrs`, also their addresses of that family.
pub(super) fn list<L: Locks>(ctl: &Ctl<'_, L>, only: Option<&Iface<L>>, addrs: Option<Family>, style: Style) -> String {
    let ports = ctl.host.ports();
    let ifaces = || ctl.host.stack.ifaces().filter(|iface| only.is_none_or(|only| only.id == iface.id));
    let row = |iface| {
        let row = link_of(ctl, iface, &ports).json(style);
        addrs.map_or(row.clone(), |family| with_addrs(ctl, iface, family, row))
    };
    ctl.listing(
        || Value::Array(ifaces().map(row).collect()),
        || {
            let text = |iface| {
                let link = link_of(ctl, iface, &ports);
                let Some(family) = addrs else { return link.text(style) };
                let four = if family == Family::Six { String::new() } else { addr_text(ctl, iface) };
                let six = if family == Family::Four { String::new() } else { six::addr_text(ctl, iface) };
                addrs_text(&link, &(four + &six), style)
            };
            ifaces().map(text).collect()
        },
    )
}

/// Returns an iface with the lines of its addresses, as `ip addr` prints them in the given style.
fn addrs_text(link: &Link, addrs: &str, style: Style) -> String {
    if style.brief {
        let words = addrs.lines().filter_map(|line| line.trim_start().strip_prefix("inet"));
        let own: Vec<&str> =
            words.filter_map(|line| line.split_whitespace().find(|word| word.contains(['.', ':']))).collect();
        return format!("{:<16} {:<14} {} \n", link.name, link.state, own.join(" "));
    }
    if style.oneline {
        // With -o, each address is one line, with a backslash instead of its line break.
        let (head, mut out) = (format!("{}: {}", link.index, link.name), String::new());
        for part in addrs.split("    inet").skip(1) {
            out += &format!("{head}    inet{}", one_line(part));
        }
        return out;
    }
    link.text(style) + addrs
}

/// Returns the data that `ip link` shows for an iface. The counters are the counters of its port,
/// or the iface's own counters if it has no port.
pub(in crate::host) fn link_of<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, ports: &[PortInfo]) -> Link {
    let (kind, own, other) = link_type(ctl, iface);
    let info = tunnel::link_json(ctl, iface.id).map(|info| (tunnel::link_text(ctl, iface.id), info));
    let has_carrier = has_carrier(iface, ports);
    let through = ports.iter().filter(|port| port.iface == iface.id).map(|port| LinkCounters::through(&port.counts));
    let passed = through.reduce(|mut sum, queue| {
        sum.add(queue);
        sum
    });
    Link {
        index: usize::from(iface.id.0) + 1,
        name: iface.name.to_string(),
        flags: flags(iface, has_carrier),
        mtu: iface.mtu(),
        master: None,
        state: operstate(iface, has_carrier),
        kind,
        addresses: Some((own, other)),
        is_tunnel: iface.kind == IfaceKind::Tunnel,
        info,
        passed: passed.unwrap_or_else(|| LinkCounters { rx: (&iface.rx).into(), tx: (&iface.tx).into() }),
    }
}

/// Returns whether the links of all ports of an iface are up.
pub(in crate::host) fn has_carrier<L: Locks>(iface: &Iface<L>, ports: &[PortInfo]) -> bool {
    ports.iter().filter(|port| port.iface == iface.id).all(|port| port.counts.link.is_up())
}

fn flags<L: Locks>(iface: &Iface<L>, has_carrier: bool) -> Vec<&'static str> {
    let loopback = iface.kind == IfaceKind::Loopback;
    let all = [
        ("NO-CARRIER", iface.is_up() && !has_carrier),
        ("LOOPBACK", loopback),
        ("POINTOPOINT", iface.kind == IfaceKind::Tunnel),
        ("BROADCAST", matches!(iface.kind, IfaceKind::Ethernet | IfaceKind::Mirror)),
        ("MULTICAST", !loopback),
        ("UP", iface.is_up()),
        ("LOWER_UP", iface.is_up() && has_carrier),
    ];
    all.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect()
}

/// Returns Linux's name of the operational state (RFC 2863). The state of loopback and tunnels is
/// unknown, because they have no carrier.
fn operstate<L: Locks>(iface: &Iface<L>, has_carrier: bool) -> &'static str {
    match (iface.is_up() && has_carrier, iface.kind) {
        (false, _) => "DOWN",
        (true, IfaceKind::Loopback | IfaceKind::Tunnel) => "UNKNOWN",
        (true, IfaceKind::Ethernet) if iface.tunnel.is_some() => "UNKNOWN",
        (true, IfaceKind::Ethernet | IfaceKind::Mirror) => "UP",
    }
}

/// Returns the type of the link, its address and its broadcast address; for a tunnel, the type and
/// the two outer addresses.
fn link_type<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> (&'static str, String, String) {
    let macs = |kind, broadcast: wire::Mac| (kind, iface.mac.to_string(), broadcast.to_string());
    match (iface.kind, ctl.host.stack.tunnel(ctl.cx, iface.id)) {
        (IfaceKind::Tunnel, Some(ends)) => {
            let kind = match (ends.kind, ends.local.is_ipv6()) {
                (inet::tunnel::Kind::Gre, false) => "gre",
                (inet::tunnel::Kind::Gre, true) => "gre6",
                (_, false) => "ipip",
                (_, true) => "tunnel6",
            };
            (kind, ends.local.to_string(), ends.remote.to_string())
        }
        (IfaceKind::Loopback | IfaceKind::Tunnel, _) => macs("loopback", wire::Mac::ZERO),
        (IfaceKind::Ethernet | IfaceKind::Mirror, _) => macs("ether", wire::Mac::BROADCAST),
    }
}

fn addr_text<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> String {
    let mut out = String::new();
    for addr in iface.addrs(ctl.cx) {
        out += &match ctl.host.stack.peer(ctl.cx, iface.id, addr.addr) {
            Some(peer) => format!("    inet {} peer {peer}/{}", addr.addr, addr.len),
            None => format!("    inet {}/{}", addr.addr, addr.len),
        };
        if let Some(broadcast) = addr.broadcast().filter(|_| iface.kind == IfaceKind::Ethernet) {
            out += &format!(" brd {broadcast}");
        }
        out += &format!(" scope {} {}\n       valid_lft forever preferred_lft forever\n", scope(iface), iface.name);
    }
    out
}

fn scope<L: Locks>(iface: &Iface<L>) -> &'static str {
    if iface.kind == IfaceKind::Loopback { "host" } else { "global" }
}

/// Returns an iface as printed by `ip -j addr`.
pub(in crate::host) fn addr_json<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>) -> Value {
    let row = link_of(ctl, iface, &ctl.host.ports()).json(Style::default());
    with_addrs(ctl, iface, Family::Any, row)
}

/// Returns the JSON object `row` of a link with the iface's addresses of `family` added.
fn with_addrs<L: Locks>(ctl: &Ctl<'_, L>, iface: &Iface<L>, family: Family, mut row: Value) -> Value {
    let infos = iface.addrs(ctl.cx).into_iter().map(|addr| {
        let mut info = json!({ "family": "inet", "local": addr.addr.to_string(), "prefixlen": addr.len });
        if let (Some(broadcast), IfaceKind::Ethernet) = (addr.broadcast(), iface.kind) {
            set(&mut info, "broadcast", broadcast.to_string());
        }
        if let Some(peer) = ctl.host.stack.peer(ctl.cx, iface.id, addr.addr) {
            set(&mut info, "address", peer.to_string());
        }
        set(&mut info, "scope", scope(iface));
        set(&mut info, "label", iface.name.as_str());
        set(&mut info, "valid_life_time", FOREVER);
        set(&mut info, "preferred_life_time", FOREVER);
        info
    });
    let mut infos: Vec<Value> = if family == Family::Six { Vec::new() } else { infos.collect() };
    if family != Family::Four {
        infos.extend(six::addr_infos(ctl, iface));
    }
    set(&mut row, "addr_info", infos);
    row
}
