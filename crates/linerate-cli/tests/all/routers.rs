//! Two routers, each with FRR at its side, between two clients: routing protocols over mirrors, a
//! table of BGP through both, and failures while traffic passes.

mod flood;
mod stream;

use crate::common::bgp::{Prefix, Speaker, table};
use crate::common::frr::{Frr, has_frr};
use crate::common::{Far, Running, isolated_within, kernel, run, setting, station, until, until_every};
use buf::{Burst, Pool, PoolConfig};
use flood::flood;
use port::os::netns::Namespace;
use port::packet::PacketConfig;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use stream::{lost, outage};
use wire::control::ControlClass;

/// Pause between two checks of FRR's state, since each starts a vtysh.
const PAUSE: Duration = Duration::from_millis(300);
/// Time limit of a test with the table of the Internet.
const LIMIT: Duration = Duration::from_secs(900);
const TOOLS: &[&str] = &["ip", "vtysh", "nsenter", "ping"];

/// Two routers. The devices of their ports are `core1`, `back1`, `lan1` and `core2`, `back2`,
/// `lan2`, their mirrors `core`, `back` and `lan` in the namespaces `planes`.
struct Routers {
    clients: [Far; 2],
    planes: [Far; 2],
    routers: [Running; 2],
}

impl Routers {
    /// Starts both routers. `core1` and `core2` are connected by a bridge of the kernel, so that
    /// one keeps its carrier when the port of the other is set down; `back1` and `back2` are a
    /// cable.
    fn start(name: &str) -> Routers {
        Routers::with_links(name, |n| {
            format!(
                "--port packet:core{n} --addr 10.0.0.{n}/24 --addr fd00::{n}/64 --mirror core --port packet:back{n} \
                 --addr 10.9.0.{n}/24 --mirror back"
            )
        })
    }

    /// Starts both routers as [`Routers::start`] does; `links` returns the arguments for the ports
    /// between them.
    fn with_links(name: &str, links: fn(usize) -> String) -> Routers {
        kernel("link add br0 type bridge");
        kernel("link set br0 up");
        for n in [1, 2] {
            kernel(&format!("link add core{n} type veth peer name core{n}p"));
            kernel(&format!("link set core{n}p master br0 up"));
        }
        kernel("link add back1 type veth peer name back2");
        for dev in ["core1", "core2", "back1", "back2"] {
            kernel(&format!("link set {dev} up"));
        }
        let clients = [1, 2].map(|n| {
            let client = station(&format!("lan{n}"), &format!("10.{n}.0.2/24"));
            client.ip(&format!("route add default via 10.{n}.0.1"));
            client
        });
        let planes = [Far::new(), Far::new()];
        let routers = [1, 2].map(|n: usize| {
            let line = format!(
                "{} --port packet:lan{n} --addr 10.{n}.0.1/24 --addr fd0{n}::1/64 --mirror lan --netns {} --fpm \
                 127.0.0.1:2620 --set net.inet.ip.forwarding=1 --set net.inet6.ip6.forwarding=1",
                links(n),
                planes[n - 1].path()
            );
            let router = Running::start(&format!("{name}{n}"), &line.split_whitespace().collect::<Vec<_>>());
            router.ok(&format!("ip addr add 10.255.0.{n}/32 dev lo0"));
            router
        });
        Routers { clients, planes, routers }
    }

    fn frr(&self, n: u8, confs: &[(&'static str, String)]) -> Frr<'_> {
        let confs: Vec<_> = confs.iter().map(|(name, conf)| (*name, conf.as_str())).collect();
        Frr::start_in(Some(&self.planes[usize::from(n) - 1]), &format!("frr{n}"), &confs)
    }

    fn client(&self, n: usize) -> Namespace {
        Namespace::open(self.clients[n - 1].path().as_ref()).unwrap()
    }

    /// Returns the numbers of routes of BGP that a router has: IPv4 and IPv6.
    fn bgp_routes(&self, n: usize) -> [u64; 2] {
        let fpm = self.routers[n - 1].json("show fpm");
        let row = fpm["routes"].as_array().unwrap().iter().find(|row| row["protocol"] == "bgp").cloned();
        let count = |family| row.as_ref().and_then(|row| row[family].as_u64()).unwrap_or(0);
        ["ipv4", "ipv6"].map(count)
    }

    /// Returns the number of FRR's routes at router `n` that use a next hop through `dev` alone.
    fn routes_by(&self, n: usize, dev: &str) -> u64 {
        let hops = self.routers[n - 1].json("ip nexthop");
        let by = |hop: &&Value| hop["nexthops"].as_array().is_some_and(|all| all.len() == 1 && all[0]["dev"] == dev);
        hops.as_array().unwrap().iter().filter(by).filter_map(|hop| hop["routes"].as_u64()).sum()
    }

    /// Stops both routers, whose audits are exact.
    fn end(self) {
        self.routers.into_iter().for_each(Running::end);
    }
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
    isolated_within(LIMIT, test, || {
        if !has_frr(test, TOOLS) {
            return;
        }
        let all = Routers::start("meet");
        let (routers, clients) = (&all.routers, &all.clients);
        let frrs = [1, 2].map(|n| all.frr(n, &confs(n, 3 - n)));
        let [one, _] = &frrs;
        let state = |command: &str, path: &str| one.json(command).pointer(path).cloned().unwrap_or_default();
        let is = |command: &str, path: &str, value: &str| {
            state(command, path).as_str().is_some_and(|s| s.starts_with(value))
        };
        let bgp = |family: &str, peer: &str| {
            state("show bgp summary json", &format!("/{family}/peers/{peer}/state")) == "Established"
        };
        until_every(PAUSE, "OSPF", || is("show ip ospf neighbor json", "/neighbors/10.0.0.2/0/nbrState", "Full"));
        until_every(PAUSE, "OSPFv3", || is("show ipv6 ospf6 neighbor json", "/neighbors/0/state", "Full"));
        until_every(PAUSE, "IS-IS", || one.vtysh(&["show isis neighbor"]).contains(" Up "));
        until_every(PAUSE, "BGP", || bgp("ipv4Unicast", "10.0.0.2"));
        until_every(PAUSE, "BGP over link-local addresses", || bgp("ipv6Unicast", "core"));
        until_every(PAUSE, "BFD", || state("show bfd peers json", "/0/status") == "up");
        let routes = |words: &str| routers[0].ok(words);
        until("routes", || {
            let (v4, v6) = (routes("ip route"), routes("ip -6 route"));
            v4.contains("10.202.0.0/16 via 10.0.0.2 dev core1 proto bgp")
                && v4.contains("10.2.0.0/24 via 10.0.0.2 dev core1 proto ospf")
                && v6.contains("fd10:2::/32 via fe80::")
                && v6.contains("fd02::/64 via fe80::")
        });
        let dropped = || {
            let summary = one.json("show bgp summary json");
            summary["ipv4Unicast"]["peers"]["10.0.0.2"]["connectionsDropped"].as_u64()
        };
        until_every(PAUSE, "the summary", || dropped().is_some());
        let before = dropped();
        // A client floods the first router with packets of each class, and with packets to forward.
        // The limits are per iface, so the sessions on the link between the routers stay.
        for class in ControlClass::ALL {
            routers[0].ok(&format!("sysctl net.punt.{}.rate=100", class.name()));
        }
        let mac = routers[0].json("ip link show lan1")[0]["address"].as_str().unwrap().parse().unwrap();
        let pool = Pool::new(&PoolConfig { buffers: 4096, ..PoolConfig::default() }).unwrap();
        let open = || port::packet::open("lan1p", &PacketConfig::default(), &pool).unwrap();
        let mut port = all.client(1).within(open).unwrap();
        let mut policed: BTreeSet<String> = BTreeSet::new();
        until("each class is limited", || {
            for frame in flood(mac).iter().flat_map(|frame| std::iter::repeat_n(frame, 150)) {
                let mut copy = pool.get().unwrap();
                copy.extend(frame).unwrap();
                port.tx.tx_burst(&mut Burst::of(copy), clock::Instant::ZERO);
            }
            let lcp = routers[0].json("show lcp");
            let rows = lcp["classes"].as_array().unwrap().iter().filter(|row| row["policed"].as_u64() > Some(0));
            policed.extend(rows.map(|row| row["class"].as_str().unwrap().to_owned()));
            policed.len() == ControlClass::ALL.len()
        });
        let ping = || run(clients[0].command("ping").args(["-n", "-c", "1", "-w", "2", "10.2.0.2"])).status.success();
        until_every(PAUSE, "packets of others pass", ping);
        until_every(PAUSE, "the summary", || dropped().is_some());
        assert!(bgp("ipv4Unicast", "10.0.0.2") && dropped() == before);
        assert!(is("show ip ospf neighbor json", "/neighbors/10.0.0.2/0/nbrState", "Full"));
        assert!(is("show ipv6 ospf6 neighbor json", "/neighbors/0/state", "Full"));
        assert!(one.vtysh(&["show isis neighbor"]).contains(" Up "));
        assert_eq!(state("show bfd peers counters json", "/0/session-down"), 0);
        drop(frrs);
        all.end();
    });
}

/// BGP between link-local addresses, on a link without IPv4 addresses ("unnumbered"): FRR announces
/// IPv4 routes with IPv6 next hops (RFC 8950), by which the routers forward.
#[test]
fn ipv4_routes_pass_a_link_without_ipv4_addresses() {
    let test = "ipv4_routes_pass_a_link_without_ipv4_addresses";
    isolated_within(LIMIT, test, || {
        if !has_frr(test, TOOLS) {
            return;
        }
        let all =
            Routers::with_links("unnumbered", |n| format!("--port packet:back{n} --addr fd09::{n}/64 --mirror back"));
        let frrs = [1, 2].map(|n: u8| {
            let bgpd = format!(
                "router bgp 6500{n}\n bgp router-id 10.255.0.{n}\n no bgp ebgp-requires-policy\n neighbor back \
                 interface remote-as external\n neighbor back timers connect 1\n address-family ipv4 unicast\n  \
                 network 10.{n}.0.0/24\n  network 10.255.0.{n}/32\n exit-address-family\n"
            );
            all.frr(n, &[("zebra", "interface back\n ipv6 nd ra-interval 1\n".to_owned()), ("bgpd", bgpd)])
        });
        let [one, two] = &all.routers;
        until_every(PAUSE, "routes with IPv6 next hops", || {
            [(one, 2), (two, 1)].into_iter().all(|(router, other)| {
                let (routes, dev) = (router.ok("ip route show proto bgp"), 3 - other);
                routes.contains(&format!("10.{other}.0.0/24 via inet6 fe80::"))
                    && routes.contains(&format!("dev back{dev} proto bgp"))
            })
        });
        let ping = |far: &Far, args: &str| run(far.command("ping").args(args.split_whitespace()));
        until_every(PAUSE, "a ping", || ping(&all.clients[0], "-n -c 1 -w 2 10.2.0.2").status.success());
        let many = ping(&all.clients[0], "-n -c 200 -i 0.005 -w 20 10.2.0.2");
        assert!(many.status.success(), "{}", String::from_utf8_lossy(&many.stdout));
        // The far router reports an expired packet from an address of its loopback iface.
        let expired = ping(&all.clients[0], "-n -c 1 -w 2 -t 2 10.2.0.2");
        let text = String::from_utf8_lossy(&expired.stdout).into_owned();
        assert!(text.contains("From 10.255.0.2") && text.contains("Time to live exceeded"), "{text}");
        let get = one.json("ip route get 10.2.0.2");
        assert_eq!((&get[0]["via"]["family"], &get[0]["prefsrc"]), (&"inet6".into(), &"10.255.0.1".into()));
        drop(frrs);
        // Another mirror takes over the addresses of the router itself.
        let has_own = || {
            let output = run(all.planes[0].command("ip").args(["addr", "show", "dev", "lo"]));
            String::from_utf8_lossy(&output.stdout).contains("10.255.0.1/32")
        };
        assert!(has_own());
        all.planes[0].ip("link del back");
        until("the mirror is gone", || one.json("show lcp")["mirrors"][0]["state"] == "gone");
        until("the address is back", has_own);
        all.end();
    });
}

/// Returns the configurations of FRR's daemons at router `own` of a network with two links, by OSPF
/// and BFD, and with a table of BGP.
fn confs_of_table(own: u8, other: u8) -> [(&'static str, String); 4] {
    let link = |dev: &str, cost: u16| {
        let ospf =
            " ip ospf area 0\n ip ospf hello-interval 1\n ip ospf dead-interval 60\n ip ospf network point-to-point\n";
        format!("interface {dev}\n{ospf} ip ospf bfd\n ip ospf cost {cost}\n")
    };
    let ospfd = link("core", 10)
        + &link("back", 100)
        + "interface lan\n ip ospf area 0\n ip ospf passive\ninterface lo\n ip ospf \
        area 0\nrouter ospf\n timers throttle spf 10 20 100\n";
    let peer = format!("10.255.0.{other}");
    let bgpd = format!(
        "router bgp 65000\n bgp router-id 10.255.0.{own}\n no bgp ebgp-requires-policy\n neighbor {peer} remote-as \
         65000\n neighbor {peer} update-source 10.255.0.{own}\n neighbor {peer} timers connect 1\n neighbor fd00::{other} \
         remote-as 65000\n neighbor fd00::{other} timers connect 1\n neighbor 10.{own}.0.2 remote-as 65100\n neighbor \
         10.{own}.0.2 passive\n bgp graceful-restart\n address-family ipv4 unicast\n  neighbor {peer} next-hop-self\n  no neighbor fd00::{other} \
         activate\n exit-address-family\n address-family ipv6 unicast\n  neighbor fd00::{other} activate\n  neighbor \
         fd00::{other} next-hop-self\n  neighbor 10.{own}.0.2 activate\n exit-address-family\n"
    );
    // On a busy machine, a faster detection would find failures that are none.
    let (multiplier, ms) = (setting("LINERATE_BFD_MULTIPLIER", 20), setting("LINERATE_BFD_MS", 100));
    let bfdd = format!(
        "bfd\n profile fast\n  detect-multiplier {multiplier}\n  transmit-interval {ms}\n  receive-interval {ms}\n peer 10.0.0.{other} \
         interface core\n  profile fast\n peer 10.9.0.{other} interface back\n  profile fast\n"
    );
    [("zebra", String::new()), ("ospfd", ospfd), ("bgpd", bgpd), ("bfdd", bfdd)]
}

/// Time after which a failure must be repaired, on a busy machine and with a detection time of 2 s.
const REPAIRED: Duration = Duration::from_secs(20);

/// `LINERATE_ROUTES` is the number of IPv4 routes, at least 2,000; there are 22 IPv6 routes for 100
/// of them.
#[test]
fn a_table_passes_two_routers_and_failures_are_repaired() {
    let test = "a_table_passes_two_routers_and_failures_are_repaired";
    isolated_within(LIMIT, test, || {
        if !has_frr(test, TOOLS) {
            return;
        }
        let count = setting("LINERATE_ROUTES", 2_000).max(2_000);
        let prefixes: Vec<Prefix> = table(count, count * 22 / 100);
        let counts = [count, prefixes.len() - count].map(|n| n as u64);
        let all = Routers::start("table");
        let ends = [&all.client(2), &all.client(1)];
        let frr1 = all.frr(1, &confs_of_table(1, 2));
        let mut frr2 = all.frr(2, &confs_of_table(2, 1));
        let is_full = |frr: &Frr| {
            let neighbors = frr.json("show ip ospf neighbor json");
            let all =
                neighbors["neighbors"].as_object().into_iter().flatten().filter_map(|(_, of)| of.as_array()).flatten();
            let full = all.filter(|of| of["nbrState"].as_str().is_some_and(|state| state.starts_with("Full"))).count();
            let bfd = frr.json("show bfd peers json").to_string();
            full == 2 && bfd.matches("\"status\":\"up\"").count() >= 2
        };
        until_every(PAUSE, "OSPF and BFD on both links", || is_full(&frr1) && is_full(&frr2));
        let established = |frr: &Frr, peer: &str, family: &str| {
            frr.json("show bgp summary json")[family]["peers"][peer]["state"] == "Established"
        };
        until_every(PAUSE, "BGP", || {
            established(&frr1, "10.255.0.2", "ipv4Unicast") && established(&frr1, "fd00::2", "ipv6Unicast")
        });
        all.clients[0].ip("addr add 10.1.0.3/24 dev lan1p");
        all.clients[0].ip("addr add 11.0.0.1/32 dev lo");
        let (own, near) = (Ipv4Addr::new(10, 1, 0, 2), "fd01::2".parse().unwrap());
        let mut speaker = Speaker::connect(&all.client(1), Ipv4Addr::new(10, 1, 0, 1), 65_100, own);
        let began = Instant::now();
        speaker.announce(&prefixes, own, near);
        for n in [1, 2] {
            until("the table", || all.bgp_routes(n) == counts);
            println!("{counts:?} routes at router {n} after {:.2} s", began.elapsed().as_secs_f64());
        }
        let (table, lan) = ((Ipv4Addr::new(11, 0, 0, 1), 4000), (own, 4001));
        // All daemons of a router are killed and start again.
        let restart = lost(ends, table, || {
            frr2.kill();
            std::thread::sleep(Duration::from_secs(1));
            assert_eq!(all.bgp_routes(2), counts);
            frr2.run();
            until_every(PAUSE, "OSPF again", || is_full(&frr2));
            until("the table is announced again", || {
                let fpm = all.routers[1].json("show fpm");
                all.bgp_routes(2) == counts && fpm["stale"] == 0
            });
        });
        println!("daemons killed and started: {restart:?}");
        // The router knows the other next hop, so that no packet waits for its MAC address.
        let ping = run(all.clients[0].command("ping").args(["-c", "1", "-w", "30", "-I", "10.1.0.3", "10.1.0.1"]));
        assert!(ping.status.success());
        // All IPv4 routes get another next hop. The last thousand, which the stream does not use,
        // are withdrawn and come back.
        let moved = lost(ends, table, || {
            speaker.announce(&prefixes[..count], Ipv4Addr::new(10, 1, 0, 3), near);
            until("the other next hop", || all.routers[0].ok("ip route get 11.0.0.1").contains("via 10.1.0.3"));
            speaker.withdraw(&prefixes[count - 1000..count]);
            until("withdrawn", || all.bgp_routes(2) == [counts[0] - 1000, counts[1]]);
            speaker.announce(&prefixes[count - 1000..count], own, near);
            until("announced", || all.bgp_routes(2) == counts);
        });
        println!("next hop changed: {moved:?}");
        assert_eq!((restart.1, moved.1), (0, 0), "lost");
        // A link dies; the second router keeps its carrier, so that only BFD notices.
        let is_repaired = |dst: &str| all.routers[1].ok(&format!("ip route get {dst}")).contains("dev back2");
        for (what, to) in [("OSPF", lan), ("the table", table)] {
            let broken = lost(ends, to, || {
                kernel("link set core1p down");
                until("the other link", || is_repaired(&to.0.to_string()));
            });
            println!("link down, route of {what}: {broken:?}");
            assert!(outage(broken) < REPAIRED, "{what}: {broken:?}");
            kernel("link set core1p up");
            until_every(PAUSE, "the first link", || is_full(&frr2) && all.routes_by(2, "core2") >= count as u64);
        }
        // With both links in one set, the host itself avoids the dead path as soon as BFD notices.
        // zebra is stopped, so that FRR cannot replace the routes.
        for frr in [&frr1, &frr2] {
            let output = frr.vtysh(&["configure terminal", "interface back", "ip ospf cost 10"]);
            assert!(!output.contains('%'), "{output}");
        }
        let ways = || {
            let way = |n: u8| all.routers[1].ok(&format!("ip route get 11.0.0.{n}")).contains("dev core2");
            (1..=16).map(way).collect::<BTreeSet<bool>>()
        };
        until_every(PAUSE, "both links", || ways().len() == 2);
        frr2.signal_zebra("STOP");
        let broken = lost(ends, table, || {
            kernel("link set core1p down");
            until("the other link", || ways() == [false].into());
        });
        println!("link down, two paths to the table: {broken:?}");
        assert!(outage(broken) < REPAIRED, "{broken:?}");
        kernel("link set core1p up");
        until("both links again", || ways().len() == 2);
        frr2.signal_zebra("CONT");
        drop((frr1, frr2));
        all.end();
    });
}
