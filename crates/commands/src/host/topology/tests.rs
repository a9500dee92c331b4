use super::*;
use node::config::{HostConfig, IfaceConfig};

#[test]
fn the_topology_lists_far_ends() {
    let host = |name: &str, ports: &[(&str, &str)]| {
        let mut host = HostConfig { name: name.to_string(), ..HostConfig::default() };
        for (port, addr) in ports {
            host.ifaces.push(IfaceConfig::on(port));
            if !addr.is_empty() {
                host.set_iface("addresses", addr).unwrap();
            }
        }
        host
    };
    let a = host("a", &[("pair:ab", "10.0.0.1/24"), ("null:n0", "")]);
    let topology = Topology::of(&[a, host("b", &[("pair:ab", "10.0.0.2/24")])]);
    let shown = to_text(&topology, "b");
    let words: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["a"]);
    assert_eq!(words[1], ["ab", "10.0.0.1/24", "pair:ab", "--", "b:ab", "10.0.0.2/24"]);
    assert_eq!(words[2], ["n0", "null:n0"]);
    assert_eq!(words[3], ["b", "(this", "host)"]);
    let json = to_json(&topology, "b");
    assert_eq!((&json[1]["this"], &json[1]["ifaces"][0]["far"]["ifname"]), (&true.into(), &"ab".into()));
}
