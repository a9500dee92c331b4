use super::*;
use crate::config;

fn file(ports: &[(&str, &str)]) -> String {
    let host = |(name, port): &(&str, &str)| {
        format!("[[host]]\nname = '{name}'\n[[host.iface]]\nport = '{port}'\nname = 'eth0'\n")
    };
    ports.iter().map(host).collect()
}

fn topology(ports: &[(&str, &str)]) -> Result<Topology, config::ConfigError> {
    config::read(&file(ports), "t.toml").map(|hosts| Topology::of(&hosts))
}

#[test]
fn a_link_with_one_end_is_reported_with_line_and_remedy() {
    let fault = topology(&[("a", "pair:ab"), ("b", "pair:ab"), ("c", "impair(loss=1%):pair:cd")]).unwrap_err();
    assert_eq!(fault.line, 14, "the error has the line of the port: {fault}");
    assert_eq!(
        fault.what,
        "host c: eth0: impair(loss=1%):pair:cd: the other end is missing; give a second iface the port pair:cd, or use \
         a port without another end, such as null:"
    );
    let fault = topology(&[("a", "nic(wire=w):em0"), ("b", "pair:w"), ("c", "pair:w")]).unwrap_err();
    assert!(
        fault.what.contains("give a second iface the port nic(wire=w)"),
        "the message is about a wire, not a pair: {fault}"
    );
}

#[test]
fn a_third_end_of_a_link_is_rejected() {
    let fault = topology(&[("a", "pair:ab"), ("b", "pair:ab"), ("c", "pair:ab")]).unwrap_err();
    assert_eq!(fault.line, 14, "{fault}");
    assert!(
        fault.what.starts_with("host c: eth0: pair:ab: pair:ab already has two ends, a:eth0 and b:eth0; "),
        "{fault}"
    );
    let same = file(&[("a", "pair:aa")]) + "[[host.iface]]\nport = 'pair:aa'\nname = 'eth1'\n";
    config::read(&same, "t.toml").unwrap(); // a host may be linked to itself
}

#[test]
fn errors_have_their_types() {
    let mut hosts = config::read(&file(&[("a", "pair:ab"), ("b", "pair:ab")]), "t.toml").unwrap();
    assert_eq!(Topology::of(&hosts).check(), Ok(()));
    let b = hosts.pop().unwrap();
    let fault = Topology::of(&hosts).check().unwrap_err();
    assert!(matches!(&fault, LinkError::Dangling { host, .. } if host == "a"), "{fault:?}");
    hosts.extend([b.clone(), HostConfig { name: "c".to_string(), ..b }]);
    let fault = Topology::of(&hosts).check().unwrap_err();
    assert!(matches!(&fault, LinkError::Crowded { host, .. } if host == "c"), "{fault:?}");
    assert_eq!(fault.place(), ("c", "pair:ab"));
}

#[test]
fn the_topology_lists_far_ends() {
    let text = "[[host]]\nname='a'\n[[host.iface]]\nport='pair:ab'\nname='eth0'\naddresses=['10.0.0.1/24']\n\
                [[host.iface]]\nport='null:n0'\n[[host]]\nname='b'\n[[host.iface]]\nport='pair:ab'\naddresses=['10.0.0.2/24']\n";
    let topology = Topology::of(&config::read(text, "t.toml").unwrap());
    let [first, null, last] = topology.ends() else { panic!("{topology:?}") };
    assert_eq!(topology.far(first).unwrap().host, "b");
    assert_eq!(topology.far(last).unwrap().iface, "eth0");
    assert!(topology.far(null).is_none());
}
