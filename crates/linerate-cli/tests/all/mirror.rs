//! Mirrors of ports in the kernel: stock programs work on them as on the ports.

use crate::common::{Daemon, Dir, Far, Running, has_all, isolated, linerate, printed, replies, run, station, until};
use port::os::netns::Namespace;
use std::net::UdpSocket;

/// Runs a program in a namespace, and returns its output.
fn output_of(far: &Far, program: &str, words: &str) -> String {
    String::from_utf8_lossy(&run(far.command(program).args(words.split_whitespace())).stdout).into_owned()
}

#[test]
fn programs_use_a_mirror_as_the_port() {
    let test = "programs_use_a_mirror_as_the_port";
    isolated(test, || {
        if !has_all(test, &["ip", "ping", "nc", "nsenter"]) {
            return;
        }
        let (peer, plane) = (station("v0", "10.0.0.2/24"), Far::new());
        peer.ip("addr add fd00::2/64 dev v0p nodad");
        let (path, flags) = (plane.path(), ["--port", "packet:v0", "--addr", "10.0.0.1/24", "--addr", "fd00::1/64"]);
        let more = ["--mirror", "eth0", "--netns", &path, "--service", "iperf3:7", "--set", "net.punt.local.rate=3"];
        let host = Running::start("mirror", &[&flags[..], &more].concat());
        let has = |text: &str| output_of(&plane, "ip", "addr show eth0").contains(text);
        // The IPv6 address is on the mirror once it is known to be no duplicate.
        until("addresses", || has("10.0.0.1/24") && has("fd00::1/64") && has("fe80::") && has("LOWER_UP"));
        let mac = host.json("ip link show v0")[0]["address"].as_str().unwrap().to_string();
        assert!(has(&mac) && has("mtu 1500"));
        // The kernel resolves neighbors and has answers to its own packets.
        for addr in ["10.0.0.2", "fd00::2"] {
            let text = output_of(&plane, "ping", &format!("-n -i 0.1 -c 5 -w 30 {addr}"));
            assert_eq!(replies(&text, 5), 5, "{text}");
        }
        // The host itself answers echo requests and has its own service; all else is the kernel's.
        let text = output_of(&peer, "ping", "-n -i 0.1 -c 3 -w 30 10.0.0.1");
        assert_eq!(replies(&text, 3), 3, "{text}");
        let reach = |far: &Far, port: u16| {
            let mut nc = far.command("nc");
            run(nc.args(["-z", "-w", "10", "10.0.0.1", &port.to_string()])).status.success()
        };
        let class = |name: &str| {
            let lcp = host.json("show lcp");
            let row = lcp["classes"].as_array().unwrap().iter().find(|row| row["class"] == name).unwrap();
            (row["passed"].as_u64().unwrap(), row["policed"].as_u64().unwrap())
        };
        let is_refused = || {
            let output = run(peer.command("nc").args(["-v", "-z", "-w", "10", "10.0.0.1", "179"]));
            String::from_utf8_lossy(&output.stderr).contains("refused")
        };
        assert!(reach(&peer, 7) && class("bgp").0 == 0);
        assert!(is_refused() && class("bgp").0 > 0, "the kernel refuses, since nothing listens");
        let listener = Daemon::start(plane.command("nc").args(["-k", "-l", "179"]));
        until("a connection to the daemon", || reach(&peer, 179));
        let lcp = host.json("show lcp");
        assert!(class("arp").0 > 0 && class("icmp").0 >= 10, "{lcp}");
        let own = &lcp["mirrors"][0];
        assert_eq!((&own["iface"], &own["mirror"], &own["state"]), (&"v0".into(), &"eth0".into(), &"up".into()));
        // A flood of one class is limited and does not touch others.
        let socket = Namespace::open(peer.path().as_ref()).unwrap();
        let socket = socket.within(|| UdpSocket::bind("10.0.0.2:5000").unwrap()).unwrap();
        until("the limit", || {
            (0..200).for_each(|_| drop(socket.send_to(b"flood", "10.0.0.1:5001")));
            class("local").1 > 100
        });
        assert!(reach(&peer, 179) && class("bgp").1 == 0);
        drop(listener);
        // Addresses, MTU and carrier follow; so does the iface when the device is set down.
        host.ok("ip addr add 10.0.5.1/24 dev v0");
        host.ok("ifconfig v0 mtu 1400");
        until("the address and the MTU", || has("10.0.5.1/24") && has("mtu 1400"));
        // A change that fails is shown, and tried again.
        let ip6 = |on: u8| {
            let line = format!("echo {} > /proc/sys/net/ipv6/conf/eth0/disable_ipv6", 1 - on);
            assert!(run(plane.command("sh").args(["-c", &line])).status.success());
        };
        ip6(0);
        host.ok("ip addr add fd00:5::1/64 dev v0");
        until("the failure", || host.json("show lcp")["mirrors"][0]["fault"].is_string());
        ip6(1);
        until("the second attempt", || has("fd00:5::1") && host.json("show lcp")["mirrors"][0]["fault"].is_null());
        host.ok("ip addr del 10.0.5.1/24 dev v0");
        until("the address is removed", || !has("10.0.5.1"));
        assert!(host.no("ip addr add 10.7.0.1/24 dev v0-mirror").contains("v0-mirror is the mirror of v0: use v0"));
        assert!(host.no("ip route add 10.8.0.0/16 dev v0-mirror").contains("use v0"));
        peer.ip("link set v0p down");
        until("no carrier", || !has("LOWER_UP") && host.json("show lcp")["mirrors"][0]["state"] == "no-carrier");
        peer.ip("link set v0p up");
        until("carrier", || has("LOWER_UP"));
        let is_up = || host.json("ip link show v0")[0]["operstate"] == "UP";
        plane.ip("link set eth0 down");
        until("the iface is down", || !is_up());
        plane.ip("link set eth0 up");
        until("the iface is up", is_up);
        until("all addresses are there again", || has("10.0.0.1/24") && has("fd00::1/64") && has("fe80::"));
        host.ok("ip addr add 192.0.2.255/32 dev lo0");
        let has_own = || output_of(&plane, "ip", "addr show lo").contains("192.0.2.255/32");
        until("the router's own address", has_own);
        // A reply in fragments, which the host puts together.
        let text = output_of(&plane, "ping", "-n -i 0.1 -c 3 -w 30 -s 3000 10.0.0.2");
        assert_eq!(replies(&text, 3), 3, "{text}");
        // Without the device, the host goes on by itself.
        plane.ip("link del eth0");
        until("the device is gone", || host.json("show lcp")["mirrors"][0]["state"] == "gone");
        let before = class("bgp").0;
        assert!(is_refused() && reach(&peer, 7) && class("bgp").0 == before, "the host refuses");
        until("the router's own address is removed", || !has_own());
        let (code, audit, err) = host.interrupt();
        assert!(code == Some(0) && audit.contains("imbalance           0"), "{audit}");
        assert!(!err.contains("not allowed"), "{err}");
    });
}

#[test]
fn mirrors_that_cannot_be_opened_have_a_reason() {
    let test = "mirrors_that_cannot_be_opened_have_a_reason";
    isolated(test, || {
        let plane = Far::new();
        let with = |netns: &str, more: &[&str]| {
            let words = [&["host", "--port", "tap:t0", "--addr", "10.0.0.1/24", "--mirror", "eth0"], more].concat();
            printed(&run(linerate(&words).args(["--netns", netns])))
        };
        let (code, _, err) = with("no-such", &[]);
        assert!(code == Some(1) && err.contains("create it with `ip netns add no-such`"), "{code:?} {err}");
        let (code, out, _) = with("no-such", &["--check"]);
        assert!(code == Some(0) && out.contains("mirrors eth0 in no-such"), "{code:?} {out}");
        plane.ip("link add eth0 type veth peer name other");
        let (code, _, err) = with(&plane.path(), &[]);
        assert!(code == Some(1) && err.contains("a device 'eth0' exists"), "{code:?} {err}");
        let (code, _, err) = with(&plane.path(), &["--port", "tap:t1", "--mirror", "eth0"]);
        assert!(code == Some(2) && err.contains("two ifaces have the mirror 'eth0'"), "{code:?} {err}");
        let dir = Dir::new("mirror");
        let file = dir.file(
            "split.toml",
            "[[host]]\nname = \"r\"\nstacks = 2\n[[host.iface]]\nport = \"tap:t0\"\nmirror = \"eth0\"\n",
        );
        let (code, _, err) = printed(&run(&mut linerate(&["up", "--check", &file])));
        assert!(code == Some(2) && err.contains("mirror needs stacks = 1"), "{code:?} {err}");
    });
}
