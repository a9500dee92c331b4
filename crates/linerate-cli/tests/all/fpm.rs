//! FRR's zebra and staticd give their routes to a host over FPM: after each change the host has the
//! routes that `vtysh` shows, and traffic passes while zebra is killed.

use crate::common::frr::{Frr, has_frr};
use crate::common::{Far, Running, isolated, kernel, replies, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Stdio;

const TOOLS: &[&str] = &["ip", "vtysh", "nsenter", "ping"];
const FPM: &str = "127.0.0.1:2620";

/// Returns the routes of zebra's FIB: prefix and sorted next hops.
fn routes(frr: &Frr) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for family in ["ip", "ipv6"] {
        let fib = frr.vtysh(&[&format!("show {family} fib json")]);
        let fib: Value = serde_json::from_str(&fib).unwrap_or_default();
        for (prefix, routes) in fib.as_object().into_iter().flatten() {
            let route = routes.as_array().unwrap().iter().find(|route| route["installed"] == true);
            let hops = route.and_then(|route| route["nexthops"].as_array()).into_iter().flatten();
            let used = hops.filter(|hop| hop["fib"] == true).map(|hop| match hop["unreachable"] == true {
                true if hop["blackhole"] == true => "blackhole".to_owned(),
                true => "unreachable".to_owned(),
                false => shown(&hop["ip"], &hop["interfaceName"]),
            });
            let mut used: Vec<String> = used.collect();
            used.sort();
            // Link-local routes and those to this host's own links are not compared.
            if route.is_some_and(|route| route["protocol"] == "static") && !used.is_empty() {
                all.insert(prefix.clone(), used);
            }
        }
    }
    all
}

fn shown(gateway: &Value, dev: &Value) -> String {
    match (gateway.as_str(), dev.as_str()) {
        (Some(gateway), Some(dev)) => format!("{gateway}%{dev}"),
        (None, Some(dev)) => dev.to_owned(),
        _ => "?".to_owned(),
    }
}

/// Returns the routes that the host has from zebra, in the form of [`routes`].
fn routes_of(host: &Running) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for words in ["ip route show proto zstatic", "ip -6 route show proto zstatic"] {
        for route in host.json(words).as_array().unwrap() {
            let mut hops: Vec<String> = match (&route["nexthops"], route["type"].as_str()) {
                (Value::Array(hops), _) => hops.iter().map(|hop| shown(&hop["gateway"], &hop["dev"])).collect(),
                (_, Some(ty)) => vec![ty.to_owned()],
                _ => vec![shown(&route["gateway"], &route["dev"])],
            };
            hops.sort();
            let dst = match route["dst"].as_str().unwrap() {
                "default" => "0.0.0.0/0",
                dst => dst,
            };
            let len = if dst.contains(':') { 128 } else { 32 };
            let dst = if dst.contains('/') { dst.to_owned() } else { format!("{dst}/{len}") };
            all.insert(dst, hops);
        }
    }
    all
}

/// Waits until the host has the routes that zebra shows, `count` of them.
#[track_caller]
fn same(frr: &Frr, host: &Running, count: usize) {
    let mut both = Default::default();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while std::time::Instant::now() < end {
        both = (routes(frr), routes_of(host));
        if both.0 == both.1 && both.0.len() == count {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("expected {count} routes\nzebra: {:?}\nhost:  {:?}\n{}", both.0, both.1, host.ok("show fpm"));
}

/// Creates the devices v0 and v1; their other ends are v0p and v1p.
fn devices() {
    kernel("link set lo up");
    for dev in ["v0", "v1"] {
        kernel(&format!("link add {dev} type veth peer name {dev}p"));
        kernel(&format!("link set {dev} up"));
        kernel(&format!("link set {dev}p up"));
    }
    kernel("addr add 192.168.0.1/24 dev v0");
    kernel("addr add 192.168.1.1/24 dev v1");
}

#[test]
fn a_host_has_the_routes_of_zebra() {
    let test = "a_host_has_the_routes_of_zebra";
    isolated(test, || {
        if !has_frr(test, TOOLS) {
            return;
        }
        devices();
        kernel("-6 addr add 2001:db8:1::1/64 dev v1 nodad");
        let host = Running::start("fpm", &["--port", "packet:v0", "--port", "packet:v1", "--fpm", FPM]);
        let mut frr = Frr::start("frr", "");
        frr.configure(&["ip route 10.1.0.0/16 192.168.0.2", "ip route 10.2.0.0/16 192.168.0.2"]);
        same(&frr, &host, 2);
        frr.configure(&["ip route 10.2.0.0/16 192.168.1.2", "ip route 10.2.0.0/16 192.168.1.3"]); // ECMP grows
        same(&frr, &host, 2);
        frr.configure(&["ip route 10.3.0.0/16 Null0", "ip route 10.4.0.0/16 reject"]);
        same(&frr, &host, 4);
        frr.configure(&["ip route 10.5.0.0/24 10.1.0.9", "ipv6 route 2001:db8:5::/48 2001:db8:1::2"]); // recursive
        same(&frr, &host, 6);
        let why = host.json("ip route get 10.2.1.1 --why");
        let hops = host.json("ip nexthop");
        let hop = hops.as_array().unwrap().iter().find(|hop| hop["id"] == why["nhid"]).unwrap();
        assert_eq!(hop["nexthops"].as_array().unwrap().len(), 3, "{why} {hops}");
        frr.configure(&["ip route 10.1.0.0/16 192.168.1.7", "no ip route 10.1.0.0/16 192.168.0.2"]);
        same(&frr, &host, 6);
        frr.configure(&["no ip route 10.3.0.0/16 Null0", "ip route 10.6.0.0/16 192.168.0.2 table 100"]);
        same(&frr, &host, 5);
        // A link goes down and up again.
        kernel("link set v1 down");
        until("routes through v1 are gone", || routes_of(&host).len() < 5);
        same(&frr, &host, routes(&frr).len());
        kernel("link set v1 up");
        kernel("-6 addr add 2001:db8:1::1/64 dev v1 nodad");
        same(&frr, &host, 5);
        // The other form of the protocol, with next hops in the routes, on a new connection.
        let before = host.json("show fpm")["counters"]["node.fpm.accepted"].as_u64();
        frr.configure(&["no fpm use-next-hop-groups"]);
        let connections = || host.json("show fpm")["counters"]["node.fpm.accepted"].as_u64();
        until("a new connection", || connections() > before);
        same(&frr, &host, 5);
        frr.configure(&["ip route 10.7.0.0/16 192.168.0.2", "ip route 10.7.0.0/16 192.168.1.2"]);
        same(&frr, &host, 6);
        let status = host.json("show fpm");
        let counter = |name: &str| status["counters"][format!("node.fpm.{name}")].as_u64().unwrap();
        assert!(counter("other_table") > 0, "table 100: {status}");
        for lost in ["malformed", "unknown_next_hop", "no_path", "table_full", "no_next_hop_left", "waiting_full"] {
            assert_eq!(counter(lost), 0, "{lost}: {status}");
        }
        let why = host.json("ip route get 10.7.1.1 --why");
        assert_eq!((&why["protocol"], &why["stale"]), (&"zstatic".into(), &false.into()), "{why}");
        frr.kill();
        until("zebra is gone", || host.json("show fpm")["peer"].is_null());
        let why = host.ok("ip route get 10.7.1.1 --why");
        assert!(
            why.contains("the route comes from a routing engine: proto zstatic, ") && why.contains(" s old, stale")
        );
        let status = host.json("show fpm");
        assert!(status["stale"].as_u64() >= Some(6), "{status}");
        assert_eq!(routes_of(&host).len(), 6);
        let (code, audit, _) = host.interrupt();
        assert!(code == Some(0) && audit.contains("imbalance           0"), "{audit}");
    });
}

#[test]
fn traffic_passes_while_zebra_is_killed_and_ends_with_its_stale_routes() {
    let test = "traffic_passes_while_zebra_is_killed_and_ends_with_its_stale_routes";
    isolated(test, || {
        if !has_frr(test, TOOLS) {
            return;
        }
        devices();
        let (left, right) = (Far::with("v0p"), Far::with("v1p"));
        left.ip("link set lo up");
        left.ip("link set v0p up");
        left.ip("addr add 192.168.0.2/24 dev v0p");
        left.ip("route add default via 192.168.0.254");
        right.ip("link set lo up");
        right.ip("link set v1p up");
        right.ip("addr add 192.168.1.2/24 dev v1p");
        right.ip("addr add 10.9.0.1/32 dev lo");
        right.ip("route add default via 192.168.1.254");
        let flags = [
            &["--port", "packet:v0", "--addr", "192.168.0.254/24", "--port", "packet:v1"][..],
            &["--addr", "192.168.1.254/24", "--set", "net.inet.ip.forwarding=1", "--fpm", FPM],
            &["--set", "fpm.stale=6s"],
        ]
        .concat();
        let host = Running::start("fpm", &flags);
        let mut frr = Frr::start("frr2", "ip route 10.9.0.0/16 192.168.1.2\n");
        let has_route = || host.ok("ip route show proto zstatic").contains("10.9.0.0/16 via 192.168.1.2 dev v1");
        frr.configure(&["ip route 10.9.0.0/16 192.168.1.2"]);
        until("the route", has_route);
        const COUNT: usize = 200;
        let mut ping = left.command("ping");
        ping.args(["-n", "-i", "0.02", "-c", &COUNT.to_string(), "-w", "60", "10.9.0.1"]).stdout(Stdio::piped());
        let pinging = ping.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        frr.kill();
        until("zebra is gone", || host.json("show fpm")["peer"].is_null());
        frr.run();
        frr.configure(&["ip route 10.9.0.0/16 192.168.1.2"]);
        until("a new connection", || host.json("show fpm")["counters"]["node.fpm.accepted"].as_u64() >= Some(2));
        until("the route is no longer stale", || host.json("show fpm")["stale"] == 0);
        let output = pinging.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(replies(&text, COUNT), COUNT, "{text}");
        assert!(has_route());
        // Without zebra, the route is removed after its time.
        frr.kill();
        until("the stale route is removed", || !has_route());
        assert!(host.json("show fpm")["counters"]["node.fpm.swept"].as_u64() > Some(0));
        let (code, audit, _) = host.interrupt();
        assert!(code == Some(0) && audit.contains("imbalance           0"), "{audit}");
    });
}
