//! `show topology`: the hosts of a file, their ports, and the other end of each port's link.

#[cfg(test)]
mod tests;

use node::topology::{End, Link, Topology};
use serde_json::{Value, json};

/// Returns the topology as text. `this` is the name of the host that runs the command, which is
/// marked.
pub(super) fn to_text(topology: &Topology, this: &str) -> String {
    let host = |name: &String| {
        let mark = if name == this { "  (this host)" } else { "" };
        let ends = topology.ends().iter().filter(|end| end.host == *name);
        format!("{name}{mark}\n") + &ends.map(|end| line(topology, end)).collect::<String>()
    };
    topology.hosts().iter().map(host).collect()
}

fn line(topology: &Topology, end: &End) -> String {
    let far = match (topology.far(end), &end.link) {
        (Some(far), _) => format!("-- {}:{}  {}", far.host, far.iface, addresses(far).join(" ")),
        (None, Some(_)) => "-- not connected".to_string(),
        (None, None) => String::new(),
    };
    let own = addresses(end).join(" ");
    format!("\t{:<10} {own:<18} {} {far}", end.iface, end.port).trim_end().to_string() + "\n"
}

/// Returns the same data as [`to_text`], as JSON.
pub(super) fn to_json(topology: &Topology, this: &str) -> Value {
    let row = |end: &End| {
        let far = topology.far(end);
        json!({
            "ifname": end.iface, "port": end.port, "addresses": addresses(end),
            "link": end.link.as_ref().map(Link::to_string),
            "far": far.map(|far| json!({ "host": far.host, "ifname": far.iface, "addresses": addresses(far) })),
        })
    };
    let host = |name: &String| {
        let ends = topology.ends().iter().filter(|end| end.host == *name);
        json!({ "host": name, "this": name == this, "ifaces": ends.map(row).collect::<Vec<_>>() })
    };
    Value::Array(topology.hosts().iter().map(host).collect())
}

fn addresses(end: &End) -> Vec<String> {
    end.addresses.iter().map(|addr| format!("{}/{}", addr.addr, addr.len)).collect()
}
