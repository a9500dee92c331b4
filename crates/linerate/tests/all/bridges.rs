//! Bridges: VLANs, known addresses and the spanning tree.

use linerate::net::UdpSocket;
use linerate::{Bridge, BridgeBuilder, Error, Host};
use std::time::{Duration, Instant};

fn host(port: &str, addr: &str) -> Host {
    Host::builder().name(port).port(&format!("pair:{port}")).addr(addr).build().unwrap()
}

/// Sends a datagram, and returns whether it arrives within `wait`.
fn arrives(from: &Host, to: &Host, addr: &str, wait: Duration) -> bool {
    let (from, to) = (UdpSocket::bind(from, "0.0.0.0:0").unwrap(), UdpSocket::bind(to, addr).unwrap());
    to.set_read_timeout(Some(wait)).unwrap();
    from.send_to(b"hello", addr).unwrap();
    to.recv(&mut [0; 16]).is_ok()
}

/// A trunk of two bridges carries the tagged frames of VLANs 10 and 20, but not of VLAN 30.
#[test]
fn a_trunk_carries_its_vlans() {
    let lan = |side: &str| -> BridgeBuilder {
        let ports = ["10", "20", "30"].map(|vlan| format!("{side}{vlan}"));
        let bridge = ports.iter().fold(Bridge::builder(), |bridge, port| bridge.port(&format!("pair:{port}")));
        let bridge = bridge.port("pair:trunk").vlan_filtering().tagged("trunk", "10,20");
        ports.iter().zip([10, 20, 30]).fold(bridge, |bridge, (port, vlan)| bridge.untagged(port, vlan))
    };
    let (left, right) = (lan("l").build().unwrap(), lan("r").build().unwrap());
    let mut hosts = Vec::new(); // a bridge forgets the addresses of a port whose link goes down
    for (vlan, crosses) in [(10, true), (20, true), (30, false)] {
        let near = host(&format!("l{vlan}"), &format!("10.0.{vlan}.1/24"));
        let far = host(&format!("r{vlan}"), &format!("10.0.{vlan}.2/24"));
        let wait = Duration::from_millis(if crosses { 10_000 } else { 300 });
        assert_eq!(arrives(&near, &far, &format!("10.0.{vlan}.2:9"), wait), crosses, "VLAN {vlan}");
        hosts.push([near, far]);
    }
    let known: Vec<(u16, String)> = right.addrs().into_iter().map(|addr| (addr.vlan, addr.port)).collect();
    for (vlan, port) in [(10, "r10"), (10, "trunk"), (20, "r20"), (20, "trunk")] {
        assert!(known.contains(&(vlan, port.to_owned())), "{known:?}");
    }
    assert!(!known.contains(&(30, "trunk".to_owned())), "{known:?}");
    assert!(left.wait_idle(Duration::from_secs(10)) && right.wait_idle(Duration::from_secs(10)));
}

/// Without the tree, the two links between the bridges would be a loop.
#[test]
fn rstp_breaks_a_loop() {
    let lan = |host: &str| Bridge::builder().port(&format!("pair:{host}")).port("pair:loop1").port("pair:loop2").rstp();
    let (left, right) = (lan("tree1").build().unwrap(), lan("tree2").build().unwrap());
    let (a, b) = (host("tree1", "10.0.0.1/24"), host("tree2", "10.0.0.2/24"));
    let end = Instant::now() + Duration::from_secs(60);
    while !arrives(&a, &b, "10.0.0.2:9", Duration::from_millis(500)) {
        assert!(Instant::now() < end, "the tree forwards after the forward delay");
    }
    // A loop would multiply the broadcast ARP requests without end.
    assert!(left.wait_idle(Duration::from_secs(10)) && right.wait_idle(Duration::from_secs(10)));
    for bridge in [left, right] {
        let counter = |name: &str| bridge.counters().into_iter().find(|counter| counter.name == name).unwrap().value;
        assert!(counter("bridge.forwarded") < 5_000 && counter("bridge.local") > 0, "BPDUs are for the bridge itself");
    }
}

#[test]
fn invalid_values_name_the_valid_ones() {
    let fault = |change: fn(BridgeBuilder) -> BridgeBuilder| {
        change(Bridge::builder().port("pair:w1").port("pair:w2")).build().unwrap_err()
    };
    let port = fault(|bridge| bridge.untagged("w3", 10));
    assert!(matches!(&port, Error::Value { what: "port", expected, .. } if expected == "one of w1, w2"), "{port}");
    assert!(Bridge::builder().port("pair:w4").port("pair:w5").untagged("pair:w4", 10).build().is_ok());
    assert!(matches!(fault(|bridge| bridge.untagged("w1", 4095)), Error::Value { what: "VLAN", .. }));
    assert!(matches!(fault(|bridge| bridge.tagged("w1", "10-")), Error::Value { what: "VLANs", .. }));
    assert!(matches!(fault(|bridge| bridge.port("nonsense:x")), Error::Bridge(_)));
}
