//! Links of kernel devices: the host follows them at once, and its routes avoid those that are
//! down.

use crate::common::{Dir, Running, has_all, isolated, kernel, run, until};
use std::collections::BTreeSet;

const TOOLS: &[&str] = &["ip"];

/// A host without control socket has no right to open netlink sockets once it runs, so that it must
/// have opened them before.
#[test]
fn a_confined_host_follows_its_links() {
    isolated("a_confined_host_follows_its_links", || {
        kernel("link add v0 type veth peer name w0");
        kernel("link set v0 up");
        let dir = Dir::new("carrier");
        let line = "linerate host --port packet:v0 --addr 10.0.0.1/24 --log json 2> err & pid=$!; \
                    until grep -q running err; do sleep 0.01; done; ip link set w0 up; \
                    until grep -q link_up err; do sleep 0.01; done; kill -INT $pid; wait $pid";
        let output = run(&mut dir.bash(line));
        let err = dir.read("err");
        assert!(output.status.success() && !err.contains("not allowed"), "{err}");
    });
}

/// Returns the ifaces by which a host reaches 32 destinations behind a route with several paths.
fn ways(host: &Running) -> BTreeSet<String> {
    let way = |n: u32| {
        let text = host.ok(&format!("ip route get 10.9.0.{n}"));
        text.split_whitespace().skip_while(|word| *word != "dev").nth(1).unwrap_or_default().to_string()
    };
    (1..=32).map(way).collect()
}

fn both() -> BTreeSet<String> {
    ["v0", "v1"].map(str::to_string).into()
}

#[test]
fn paths_through_a_device_without_carrier_are_avoided() {
    isolated("paths_through_a_device_without_carrier_are_avoided", || {
        if !has_all("paths_through_a_device_without_carrier_are_avoided", TOOLS) {
            return;
        }
        for (own, far) in [("v0", "w0"), ("v1", "w1")] {
            kernel(&format!("link add {own} type veth peer name {far}"));
            kernel(&format!("link set {own} up"));
            kernel(&format!("link set {far} up"));
        }
        let flags = ["--port", "packet:v0", "--addr", "10.0.0.1/24", "--port", "packet:v1", "--addr", "10.0.1.1/24"];
        let host = Running::start("carrier", &[&flags[..], &["--set", "stay=on"]].concat());
        host.ok("ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:01 dev v0");
        host.ok("ip neigh add 10.0.1.2 lladdr 02:00:00:00:00:02 dev v1");
        host.ok("ip route add 10.9.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.1.2");
        let flags = |dev: &str| host.json(&format!("ip link show {dev}"))[0]["flags"].to_string();
        let is_down = || flags("v0").contains("NO-CARRIER");
        until("carrier", || !is_down() && !flags("v1").contains("NO-CARRIER"));
        until("both paths", || ways(&host) == both());
        // The other end of the cable goes down, which takes the carrier away.
        kernel("link set w0 down");
        until("the other path", || ways(&host) == ["v1".to_string()].into());
        assert!(is_down() && host.ok("show ports").contains("link down"));
        // An iface that is set up does not bring back the path while its device has no carrier.
        host.ok("ip link set v0 down");
        host.ok("ip link set v0 up");
        host.ok("ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:01 dev v0");
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(ways(&host), ["v1".to_string()].into());
        kernel("link set w0 up");
        until("both paths again", || ways(&host) == both());
        assert!(!is_down());
        host.end();
    });
}
