//! Text of a topology file for a configuration.

use super::keys::{self, Item, Key, Unset};
use super::{
    HostConfig, IfaceConfig, MetricsConfig, NeighborConfig, Network, RouteConfig, ServiceConfig, ServiceKind,
    SwitchFile,
};
use crate::sysctl;
use std::fmt::Write;
use wire::L4Port;

/// Returns the text of a file with the metrics, hosts and switches of `network`. Keys that have
/// their default are omitted.
pub fn to_toml(network: &Network) -> String {
    let unset = MetricsConfig::default();
    let has_metrics = network.metrics != unset;
    let metrics = has_metrics.then(|| table("[metrics]", keys::METRICS, &network.metrics, &unset));
    let hosts = network.hosts.iter().map(host);
    let switches = network.switches.iter().map(|of| table("[[switch]]", keys::SWITCH, of, &SwitchFile::default()));
    metrics.into_iter().chain(hosts).chain(switches).collect::<Vec<_>>().join("\n")
}

fn host(host: &HostConfig) -> String {
    let mut out = table("[[host]]", keys::HOST, host, &HostConfig { name: String::new(), ..HostConfig::default() });
    if !host.sysctl.is_empty() {
        out += "\n[host.sysctl]\n";
        for (name, value) in &host.sysctl {
            let value = sysctl::word_of(name, *value).map_or_else(|| value.to_string(), quoted);
            let _ = writeln!(out, "{} = {value}", quoted(name));
        }
    }
    tables(&mut out, "[[host.iface]]", keys::IFACE, &host.ifaces, &IfaceConfig::default());
    tables(&mut out, "[[host.route]]", keys::ROUTE, &host.routes, &RouteConfig::default());
    tables(&mut out, "[[host.neighbor]]", keys::NEIGHBOR, &host.neighbors, &NeighborConfig::default());
    let none = ServiceConfig { kind: ServiceKind::default(), port: L4Port(0) };
    tables(&mut out, "[[host.service]]", keys::SERVICE, &host.services, &none);
    out
}

fn tables<T>(out: &mut String, header: &str, keys: &[Key<T>], all: &[T], default: &T) {
    for one in all {
        out.push('\n');
        *out += &table(header, keys, one, default);
    }
}

fn table<T>(header: &str, keys: &[Key<T>], one: &T, default: &T) -> String {
    let mut out = format!("{header}\n");
    for key in keys {
        let value = (key.get)(one);
        if matches!(key.unset, Unset::Required) || value != (key.get)(default) {
            // Writing to a string does not fail.
            let _ = value.map_or(Ok(()), |value| writeln!(out, "{} = {}", key.name, toml(&value)));
        }
    }
    out
}

/// Returns a value in the syntax of TOML.
fn toml(value: &Item) -> String {
    match value {
        Item::Word(text) | Item::Text(text) => quoted(text),
        Item::Number(n) => n.to_string(),
        Item::Bool(on) => on.to_string(),
        Item::List(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Item::Other(what) => quoted(what), // no key returns one
    }
}

/// Returns a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
