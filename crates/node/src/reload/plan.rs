//! Difference between two configurations of a host, in the order in which it is applied.

use crate::config::keys::{HOST, IFACE, Item, Key};
use crate::config::{HostConfig, IfaceConfig, NeighborConfig, RouteConfig, ServiceConfig};
use crate::sysctl;
use crate::topology::Link;
use inet::fib::Prefix6;
use inet::iface::IfaceAddr;
use port::Spec;
use std::fmt;
use std::net::IpAddr;

/// Keys of a host that can be changed while it runs.
const LIVE: &[&str] = &["dns", "search"];
/// Keys of an iface that can be changed while it exists. For other keys, it is removed and added.
const LIVE_IFACE: &[&str] = &["mtu", "up", "advertise", "ip4csum", "udp4csum", "tso4", "rxcsum"];

/// A change of a host. Its `Display` is a line: `+` for what is added, `-` for what is removed, `~`
/// for what is changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// Removes a route.
    RemoveRoute(RouteConfig),
    /// Removes a static neighbor entry.
    RemoveNeighbor(NeighborConfig),
    /// Removes an address of an iface.
    RemoveAddr(IfaceAddrOf),
    /// Removes an iface and closes its port.
    RemoveIface(Box<IfaceConfig>),
    /// Changes a key of an iface.
    SetIface {
        /// Name of the iface.
        iface: String,
        /// The key, or `dhcp` or `auto`.
        key: &'static str,
        /// Value before the change; `None` if it was not set.
        from: Option<Item>,
        /// Value after the change; `None` if it is not set.
        to: Option<Item>,
        /// Configuration of the iface after all changes.
        config: Box<IfaceConfig>,
    },
    /// Adds an iface and opens its port.
    AddIface(Box<IfaceConfig>),
    /// Adds an address, or changes the length of its prefix.
    AddAddr(IfaceAddrOf),
    /// Adds a static neighbor entry, or changes its MAC address.
    AddNeighbor(NeighborConfig),
    /// Adds a route, or replaces the route to the same prefix.
    AddRoute {
        /// Route that is replaced; `None` if there is none.
        from: Option<RouteConfig>,
        /// Route that is added.
        to: RouteConfig,
    },
    /// Changes a key of the host.
    Set {
        /// The key.
        key: &'static str,
        /// Value before the change; `None` if it was not set.
        from: Option<Item>,
        /// Value after the change; `None` if it is not set.
        to: Option<Item>,
    },
    /// Changes a sysctl.
    SetSysctl {
        /// Name of the sysctl.
        name: String,
        /// Value before the change.
        from: i64,
        /// Value after the change.
        to: i64,
    },
}

/// Address of an iface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IfaceAddrOf {
    /// Name of the iface.
    pub iface: String,
    /// The address.
    pub addr: IpAddr,
    /// Length of its prefix in bits.
    pub len: u8,
    /// Length that is replaced; `None` if the address is added or removed.
    pub from: Option<u8>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |item: &Option<Item>| item.as_ref().map_or_else(|| "default".to_string(), plain);
        match self {
            Change::RemoveRoute(route) => write!(f, "- route {}", Words(route)),
            Change::RemoveNeighbor(neighbor) => write!(f, "- neighbor {} {}", neighbor.addr, neighbor.mac),
            Change::RemoveAddr(own) => write!(f, "- address {} {}/{}", own.iface, own.addr, own.len),
            Change::RemoveIface(config) => write!(f, "- iface {}", Words(&**config)),
            Change::SetIface { iface, key, from, to, .. } => {
                write!(f, "~ iface {iface} {key}: {} -> {}", value(from), value(to))
            }
            Change::AddIface(config) => write!(f, "+ iface {}", Words(&**config)),
            Change::AddAddr(IfaceAddrOf { iface, addr, len, from: Some(before) }) => {
                write!(f, "~ address {iface} {addr}: /{before} -> /{len}")
            }
            Change::AddAddr(own) => write!(f, "+ address {} {}/{}", own.iface, own.addr, own.len),
            Change::AddNeighbor(neighbor) => write!(f, "+ neighbor {} {}", neighbor.addr, neighbor.mac),
            Change::AddRoute { from: None, to } => write!(f, "+ route {}", Words(to)),
            Change::AddRoute { from: Some(from), to } => write!(f, "~ route {} -> {}", Words(from), Words(to)),
            Change::Set { key, from, to } => write!(f, "~ {key}: {} -> {}", value(from), value(to)),
            Change::SetSysctl { name, from, to } => write!(f, "~ sysctl {name}: {from} -> {to}"),
        }
    }
}

/// Description of a part of a configuration.
struct Words<T>(T);

impl fmt::Display for Words<&RouteConfig> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(route) = self;
        match route.destination6() {
            Some(to) => write!(f, "{to}")?,
            None => write!(f, "{}", route.to)?,
        }
        if let Some(gateway) = gateway(route) {
            write!(f, " via {gateway}")?;
        }
        route.dev.as_ref().map_or(Ok(()), |dev| write!(f, " dev {dev}"))
    }
}

impl fmt::Display for Words<&IfaceConfig> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(config) = self;
        f.write_str(&config.known_name())?;
        let keys = IFACE.iter().filter(|key| key.name != "name");
        let unset = IfaceConfig::default();
        for (key, value) in keys.filter_map(|key| Some((key, (key.get)(config)?))) {
            if (key.get)(&unset).as_ref() != Some(&value) {
                write!(f, " {} {}", key.name, plain(&value))?;
            }
        }
        Ok(())
    }
}

/// Returns a value without quotes.
fn plain(item: &Item) -> String {
    match item {
        Item::Word(text) | Item::Text(text) => text.clone(),
        Item::Number(n) => n.to_string(),
        Item::Bool(on) => on.to_string(),
        Item::List(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        Item::Other(what) => what.to_string(),
    }
}

/// Changes that make one configuration into another.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Changes in their order: what is removed, what is changed, what is added.
    pub changes: Vec<Change>,
    /// Differences that need a restart, each as a sentence.
    pub restart: Vec<String>,
}

impl Plan {
    /// Returns the difference from `from`, a running host, to `to`.
    pub fn new(from: &HostConfig, to: &HostConfig) -> Plan {
        let mut plan = Plan::default();
        plan.own_keys(from, to);
        let replaced = plan.ifaces(from, to);
        plan.routes(from, to, &replaced);
        plan.neighbors(from, to, &replaced);
        plan.sysctls(from, to);
        plan.changes.sort_by_key(order);
        plan
    }

    fn own_keys(&mut self, from: &HostConfig, to: &HostConfig) {
        for (key, before, after) in different(HOST, from, to) {
            match key {
                "control" if to.control.is_none() => {} // the path is in --control-dir
                key if LIVE.contains(&key) => self.changes.push(Change::Set { key, from: before, to: after }),
                key => self.restart.push(changed(key, before.as_ref(), after.as_ref())),
            }
        }
        let shown = |all: &[ServiceConfig]| {
            let all: Vec<_> = all.iter().map(|of| Item::Text(format!("{}:{}", of.kind, of.port.0))).collect();
            Some(Item::List(all)).filter(|list| *list != Item::List(Vec::new()))
        };
        if from.services != to.services {
            self.restart.push(changed("services", shown(&from.services).as_ref(), shown(&to.services).as_ref()));
        }
    }

    /// Returns the names of the ifaces that are removed, possibly to be added again.
    fn ifaces(&mut self, from: &HostConfig, to: &HostConfig) -> Vec<String> {
        let mut gone = Vec::new();
        for before in &from.ifaces {
            let name = before.known_name();
            let after = to.ifaces.iter().find(|after| after.known_name() == name);
            match after {
                Some(after) if can_stay(before, after) => self.iface(&name, before, after),
                // A mirror can be opened at the start only, since that enters its namespace.
                _ if before.mirror.is_some() || after.is_some_and(|after| after.mirror.is_some()) => {
                    self.restart.push(format!(
                        "iface {name}: only addresses and settings of an iface with a mirror can change"
                    ));
                }
                Some(after) if is_link(before) && before.port == after.port => {
                    // The other end of a link closes with this one.
                    let port = &before.port;
                    self.restart.push(format!("iface {name}: only addresses and settings of {port} can change"));
                }
                _ => {
                    self.changes.push(Change::RemoveIface(Box::new(before.clone())));
                    gone.push(name);
                }
            }
        }
        for after in &to.ifaces {
            let name = after.known_name();
            let is_new = from.ifaces.iter().all(|before| before.known_name() != name);
            if is_new && after.mirror.is_some() {
                self.restart.push(format!("iface {name}: an iface with a mirror cannot be added"));
            } else if gone.contains(&name) || is_new {
                self.changes.push(Change::AddIface(Box::new(after.clone())));
            }
        }
        gone
    }

    fn iface(&mut self, name: &str, before: &IfaceConfig, after: &IfaceConfig) {
        let words = [("auto", before.accept_rtadv, after.accept_rtadv), ("dhcp", before.dhcp, after.dhcp)];
        let words = words.into_iter().filter(|(_, before, after)| before != after);
        let words = words.map(|(key, before, after)| (key, Some(Item::Bool(before)), Some(Item::Bool(after))));
        let keys = different(IFACE, before, after).filter(|(key, ..)| LIVE_IFACE.contains(key));
        for (key, from, to) in words.chain(keys) {
            let (iface, config) = (name.to_string(), Box::new(after.clone()));
            self.changes.push(Change::SetIface { iface, key, from, to, config });
        }
        let (before, after) = (addrs(before), addrs(after));
        let at = |addr, len, from| IfaceAddrOf { iface: name.to_string(), addr, len, from };
        for (addr, len) in before.iter().filter(|(addr, _)| after.iter().all(|(other, _)| other != addr)) {
            self.changes.push(Change::RemoveAddr(at(*addr, *len, None)));
        }
        for (addr, len) in after {
            let had = before.iter().find(|(other, _)| *other == addr).map(|(_, len)| *len);
            if had != Some(len) {
                self.changes.push(Change::AddAddr(at(addr, len, had)));
            }
        }
    }

    /// Routes through the ifaces `replaced` end with them.
    fn routes(&mut self, from: &HostConfig, to: &HostConfig, replaced: &[String]) {
        let stays = |route: &&RouteConfig| !route.dev.as_ref().is_some_and(|dev| replaced.contains(dev));
        let dev = |route: &RouteConfig| route.dev.clone().or_else(|| link_of(to, gateway(route)?));
        let before: Vec<_> = from.routes.iter().filter(stays).collect();
        for route in &before {
            if to.routes.iter().all(|other| prefix(other) != prefix(route)) {
                self.changes.push(Change::RemoveRoute((*route).clone()));
            }
        }
        for route in &to.routes {
            let had = before.iter().find(|other| prefix(other) == prefix(route));
            let is_same = |had: &RouteConfig| gateway(had) == gateway(route) && is_same_dev(&had.dev, &dev(route));
            if !had.is_some_and(|had| is_same(had)) {
                let from = had.map(|had| (*had).clone());
                self.changes.push(Change::AddRoute { from, to: route.clone() });
            }
        }
    }

    fn neighbors(&mut self, from: &HostConfig, to: &HostConfig, replaced: &[String]) {
        let dev = |of: &NeighborConfig| of.dev.clone().or_else(|| link_of(to, of.addr));
        let same = |one: &NeighborConfig, other: &NeighborConfig| {
            one.addr == other.addr && is_same_dev(&dev(one), &dev(other))
        };
        // An iface that is set down loses its neighbors, too.
        let ends = |name: &String| {
            let is_down = |of: &HostConfig| of.ifaces.iter().any(|iface| iface.known_name() == *name && iface.down);
            replaced.contains(name) || is_down(to) && !is_down(from)
        };
        let stays = |of: &&NeighborConfig| !of.dev.as_ref().is_some_and(ends);
        let before: Vec<_> = from.neighbors.iter().filter(stays).collect();
        for neighbor in before.iter().filter(|before| to.neighbors.iter().all(|after| !same(before, after))) {
            self.changes.push(Change::RemoveNeighbor((*neighbor).clone()));
        }
        for neighbor in &to.neighbors {
            if !before.iter().any(|before| same(before, neighbor) && before.mac == neighbor.mac) {
                self.changes.push(Change::AddNeighbor(neighbor.clone()));
            }
        }
    }

    fn sysctls(&mut self, from: &HostConfig, to: &HostConfig) {
        let (from, to) = (sysctl::canonical(&from.sysctl), sysctl::canonical(&to.sysctl));
        let names: std::collections::BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for name in names {
            let default = sysctl::default_of(name);
            let value = |of: Option<&i64>| of.copied().or(default);
            let (before, after) = (value(from.get(name)), value(to.get(name)));
            match (before, after) {
                (before, after) if before == after => {}
                (Some(from), Some(to)) if default.is_some() => {
                    self.changes.push(Change::SetSysctl { name: name.clone(), from, to });
                }
                _ => self.restart.push(format!("sysctl {name} is different")),
            }
        }
    }
}

/// Returns the position of a change in the order in which changes are applied.
fn order(change: &Change) -> u8 {
    match change {
        // The end of a link cannot be opened again, so all that may fail comes before.
        Change::RemoveIface(config) if is_link(config) => 10,
        Change::RemoveRoute(_) => 0,
        Change::RemoveNeighbor(_) => 1,
        Change::RemoveAddr(_) => 2,
        Change::RemoveIface(_) => 3,
        // New ifaces and addresses depend on sysctls.
        Change::SetSysctl { .. } => 4,
        Change::SetIface { .. } => 5,
        Change::AddIface(_) => 6,
        Change::AddAddr(_) => 7,
        Change::AddNeighbor(_) => 8,
        Change::AddRoute { .. } | Change::Set { .. } => 9,
    }
}

/// Returns a sentence about a key that cannot change while the process runs.
pub(super) fn changed(key: &str, before: Option<&Item>, after: Option<&Item>) -> String {
    let value = |item: Option<&Item>| item.map_or_else(|| "the default".to_string(), Item::shown);
    let list = |item: Option<&Item>| match item {
        Some(list @ Item::List(_)) => plain(list),
        other => value(other),
    };
    format!("{key} cannot change from {} to {}", list(before), list(after))
}

/// Returns the keys whose values are different, with both values.
pub(super) fn different<'a, T>(
    keys: &'a [Key<T>],
    before: &'a T,
    after: &'a T,
) -> impl Iterator<Item = (&'static str, Option<Item>, Option<Item>)> {
    let values = keys.iter().map(|key| (key.name, (key.get)(before), (key.get)(after)));
    values.filter(|(_, before, after)| before != after)
}

/// Returns whether an iface can be changed without being removed.
fn can_stay(before: &IfaceConfig, after: &IfaceConfig) -> bool {
    let is_tunnel = before.tunnel.is_some();
    let mut fixed = different(IFACE, before, after).filter(|(key, ..)| match *key {
        "name" => false, // the names are equal, but one may be that of the port
        "addresses" => is_tunnel && (before.peer.is_some() || after.peer.is_some()),
        "mtu" if is_tunnel => after.mtu.is_none(),
        key => !LIVE_IFACE.contains(&key),
    });
    fixed.next().is_none()
}

/// Returns whether the port of an iface is one of two ends of a link within the program.
fn is_link(iface: &IfaceConfig) -> bool {
    Spec::parse(&iface.port).is_ok_and(|spec| Link::of(&spec).is_some())
}

/// Returns whether two ifaces may be the same; `None` stands for one that is not known.
fn is_same_dev(one: &Option<String>, other: &Option<String>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Returns the iface on whose link `addr` is, as far as the configuration shows it.
fn link_of(config: &HostConfig, addr: IpAddr) -> Option<String> {
    let mut best: Option<(u8, &IfaceConfig)> = None;
    for iface in &config.ifaces {
        let on_link = |own: IpAddr, len: u8| match (own, addr) {
            (IpAddr::V4(own), IpAddr::V4(addr)) => {
                IfaceAddr { addr: own, len }.contains(addr) || iface.peer == Some(addr)
            }
            (IpAddr::V6(own), IpAddr::V6(addr)) => len < 128 && Prefix6::masked(own.to_bits(), len).contains(addr),
            _ => false,
        };
        let lens = addrs(iface).into_iter().filter(|(own, len)| on_link(*own, *len)).map(|(_, len)| len);
        if let Some(len) = lens.max().filter(|len| best.is_none_or(|(most, _)| *len > most)) {
            best = Some((len, iface));
        }
    }
    best.map(|(_, iface)| iface.known_name())
}

fn addrs(iface: &IfaceConfig) -> Vec<(IpAddr, u8)> {
    let v4 = iface.addresses.iter().map(|own| (IpAddr::V4(own.addr), own.len));
    v4.chain(iface.addresses6.iter().map(|own| (IpAddr::V6(own.addr), own.len))).collect()
}

/// Returns the family and the prefix of a route's destination.
fn prefix(route: &RouteConfig) -> (Option<Prefix6>, inet::fib::Prefix) {
    let to6 = route.destination6();
    (to6, if to6.is_some() { inet::fib::Prefix::DEFAULT } else { route.to })
}

fn gateway(route: &RouteConfig) -> Option<IpAddr> {
    route.via6.map(IpAddr::V6).or(route.via.map(IpAddr::V4))
}
