//! Mirrors of ports in the kernel: stock programs and FRR's daemons work on them as on the ports.

use crate::common::frr::{Frr, has_frr};
use crate::common::{Dir, Far, Running, has_all, isolated, kernel, linerate, printed, replies, run, until};
use port::os::netns::Namespace;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Makes the device `dev`, and a namespace with its other end, which has the address `addr`.
fn station(dev: &str, addr: &str) -> Far {
    kernel(&format!("link add {dev} type veth peer name {dev}p"));
    kernel(&format!("link set {dev} up"));
    let far = Far::with(&format!("{dev}p"));
    far.ip("link set lo up");
    far.ip(&format!("link set {dev}p up"));
    far.ip(&format!("addr add {addr} dev {dev}p"));
    far
}

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
        assert!(reach(&peer, 7) && !reach(&peer, 179), "the kernel refuses, since nothing listens");
        let mut listener = plane.command("nc").args(["-k", "-l", "179"]).stdout(Stdio::null()).spawn().unwrap();
        until("a connection to the daemon", || reach(&peer, 179));
        listener.kill().unwrap();
        listener.wait().unwrap();
        let lcp = host.json("show lcp");
        let class = |lcp: &Value, name: &str| {
            let all = lcp["classes"].as_array().unwrap();
            let row = all.iter().find(|row| row["class"] == name).unwrap();
            (row["passed"].as_u64().unwrap(), row["policed"].as_u64().unwrap())
        };
        assert!(class(&lcp, "arp").0 > 0 && class(&lcp, "icmp").0 >= 10 && class(&lcp, "bgp").0 > 0, "{lcp}");
        let own = &lcp["mirrors"][0];
        assert_eq!((&own["iface"], &own["mirror"], &own["state"]), (&"v0".into(), &"eth0".into(), &"up".into()));
        // A flood of one class is limited and does not touch others.
        let socket = Namespace::open(peer.path().as_ref()).unwrap();
        let socket = socket.within(|| UdpSocket::bind("10.0.0.2:5000").unwrap()).unwrap();
        (0..200).for_each(|_| drop(socket.send_to(b"flood", "10.0.0.1:5001")));
        until("the limit", || class(&host.json("show lcp"), "local").1 > 100);
        assert_eq!(class(&host.json("show lcp"), "bgp").1, 0);
        // Addresses, MTU and carrier follow; so does the iface when somebody sets the device down.
        host.ok("ip addr add 10.0.5.1/24 dev v0");
        host.ok("ifconfig v0 mtu 1400");
        until("the address and the MTU", || has("10.0.5.1/24") && has("mtu 1400"));
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
        // Without the device, the host goes on by itself.
        plane.ip("link del eth0");
        until("the device is gone", || host.json("show lcp")["mirrors"][0]["state"] == "gone");
        assert!(!reach(&peer, 179) && reach(&peer, 7));
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

/// Returns the configurations of FRR's daemons at router `own`, whose neighbor is router `other`.
fn confs(own: u8, other: u8) -> [(&'static str, String); 6] {
    let ospf = |family: &str, process: &str| {
        let area = format!("{family} {process} area 0\n {family} {process} hello-interval 1\n");
        let core = format!("interface core\n {area} {family} {process} dead-interval 20\n");
        let lan = format!("interface lan\n {family} {process} area 0\n {family} {process} passive\n");
        format!("{core} {family} {process} network point-to-point\n{lan}")
    };
    let isis = " isis network point-to-point\n isis hello-interval 1\n isis hello-multiplier 30\n";
    [
        ("zebra", String::new()),
        ("ospfd", ospf("ip", "ospf") + &format!("router ospf\n ospf router-id 10.0.0.{own}\n")),
        ("ospf6d", ospf("ipv6", "ospf6") + &format!("router ospf6\n ospf6 router-id 10.0.0.{own}\n")),
        (
            "isisd",
            format!(
                "interface core\n ip router isis 1\n{isis}router isis 1\n net 49.0001.0000.0000.000{own}.00\n is-type \
                 level-2-only\n"
            ),
        ),
        (
            "bgpd",
            format!(
                "router bgp 6500{own}\n bgp router-id 10.0.0.{own}\n no bgp ebgp-requires-policy\n no bgp \
                 network import-check\n neighbor 10.0.0.{other} remote-as 6500{other}\n neighbor 10.0.0.{other} \
                 ttl-security hops 1\n neighbor 10.0.0.{other} timers connect 1\n neighbor core interface remote-as \
                 external\n neighbor core timers connect 1\n address-family ipv4 unicast\n  network \
                 10.20{own}.0.0/16\n  no neighbor core activate\n exit-address-family\n address-family ipv6 \
                 unicast\n  neighbor core activate\n  network fd10:{own}::/32\n exit-address-family\n"
            ),
        ),
        ("bfdd", format!("bfd\n peer 10.0.0.{other}\n  detect-multiplier 30\n  receive-interval 100\n")),
    ]
}

/// OSPF, OSPFv3, IS-IS, BGP with TTL security, BGP over link-local addresses, and BFD. Their routes
/// return to the routers, which forward by them while a client floods one of them.
#[test]
fn daemons_of_two_routers_meet_over_mirrors() {
    let test = "daemons_of_two_routers_meet_over_mirrors";
    isolated(test, || {
        if !has_frr(test, &["ip", "vtysh", "nsenter", "ping"]) {
            return;
        }
        kernel("link add core1 type veth peer name core2");
        kernel("link set core1 up");
        kernel("link set core2 up");
        let clients = [1, 2].map(|n| {
            let client = station(&format!("lan{n}"), &format!("10.{n}.0.2/24"));
            client.ip(&format!("route add default via 10.{n}.0.1"));
            client
        });
        let planes = [Far::new(), Far::new()];
        let routers = [1, 2].map(|n: u8| {
            let plane = &planes[usize::from(n) - 1];
            let line = format!(
                "--port packet:core{n} --addr 10.0.0.{n}/24 --addr fd00::{n}/64 --mirror core --port packet:lan{n} \
                 --addr 10.{n}.0.1/24 --addr fd0{n}::1/64 --mirror lan --netns {} --fpm 127.0.0.1:2620 --set \
                 net.inet.ip.forwarding=1 --set net.inet6.ip6.forwarding=1",
                plane.path()
            );
            Running::start(&format!("r{n}"), &line.split_whitespace().collect::<Vec<_>>())
        });
        let frrs = [1, 2].map(|n: u8| {
            let confs = confs(n, 3 - n);
            let confs: Vec<_> = confs.iter().map(|(name, conf)| (*name, conf.as_str())).collect();
            Frr::start_in(Some(&planes[usize::from(n) - 1]), &format!("frr{n}"), &confs)
        });
        let [one, _] = &frrs;
        let state = |command: &str, path: &str| one.json(command).pointer(path).cloned().unwrap_or_default();
        let is = |command: &str, path: &str, value: &str| {
            state(command, path).as_str().is_some_and(|s| s.starts_with(value))
        };
        let bgp = |family: &str, peer: &str| {
            state("show bgp summary json", &format!("/{family}/peers/{peer}/state")) == "Established"
        };
        until("OSPF", || is("show ip ospf neighbor json", "/neighbors/10.0.0.2/0/nbrState", "Full"));
        until("OSPFv3", || is("show ipv6 ospf6 neighbor json", "/neighbors/0/state", "Full"));
        until("IS-IS", || one.vtysh(&["show isis neighbor"]).contains(" Up "));
        until("BGP", || bgp("ipv4Unicast", "10.0.0.2"));
        until("BGP over link-local addresses", || bgp("ipv6Unicast", "core"));
        until("BFD", || state("show bfd peers json", "/0/status") == "up");
        let routes = |words: &str| routers[0].ok(words);
        until("routes", || {
            let (v4, v6) = (routes("ip route"), routes("ip -6 route"));
            v4.contains("10.202.0.0/16 via 10.0.0.2 dev core1 proto bgp")
                && v4.contains("10.2.0.0/24 via 10.0.0.2 dev core1 proto ospf")
                && v6.contains("fd10:2::/32 via fe80::")
                && v6.contains("fd02::/64 via fe80::")
        });
        let dropped =
            || one.json("show bgp summary json")["ipv4Unicast"]["peers"]["10.0.0.2"]["connectionsDropped"].as_u64();
        let before = dropped();
        // Two floods from a client: packets to the router, and packets through it.
        let far = Namespace::open(clients[0].path().as_ref()).unwrap();
        let socket = far.within(|| UdpSocket::bind("10.1.0.2:5000").unwrap()).unwrap();
        let mut ping = clients[0].command("ping");
        ping.args(["-n", "-i", "0.05", "-c", "40", "-w", "60", "10.2.0.2"]).stdout(Stdio::piped());
        let pinging = ping.spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            for to in ["10.1.0.1:5001", "224.0.0.9:520", "10.2.0.2:5001"] {
                let _ = socket.send_to(&[0; 100], to);
            }
        }
        let text = String::from_utf8_lossy(&pinging.wait_with_output().unwrap().stdout).into_owned();
        assert!(replies(&text, 40) > 0, "{text}");
        let lcp = routers[0].json("show lcp");
        let policed = |name: &str| {
            let row = lcp["classes"].as_array().unwrap().iter().find(|row| row["class"] == name);
            row.unwrap()["policed"].as_u64().unwrap()
        };
        assert!(policed("group") > 0, "{lcp}");
        for class in ["bgp", "ospf", "isis", "bfd", "arp", "nd"] {
            assert_eq!(policed(class), 0, "{class}: {lcp}");
        }
        assert!(bgp("ipv4Unicast", "10.0.0.2") && dropped() == before);
        assert!(is("show ip ospf neighbor json", "/neighbors/10.0.0.2/0/nbrState", "Full"));
        drop(frrs);
        for router in routers {
            let (code, audit, _) = router.interrupt();
            assert!(code == Some(0) && audit.contains("imbalance           0"), "{audit}");
        }
    });
}
