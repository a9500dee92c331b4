//! IPv6 in both grammars, BSD's and iproute2's: addresses, routes, neighbors, tunnels, their
//! output, and rejected commands.

use super::*;
use serde_json::json;

/// Returns a host without duplicate address detection, so that addresses are valid at once.
fn bench() -> Bench {
    let b = Bench::new();
    b.ok("sysctl net.inet6.ip6.dad_count=0");
    b
}

fn near(b: &Bench) -> String {
    let text = b.ok("ifconfig pg0");
    let found =
        text.lines().find_map(|line| line.trim().strip_prefix("inet6 fe80")?.split('%').next().map(str::to_string));
    format!("fe80{}", found.unwrap_or_else(|| panic!("{text}")))
}

#[test]
fn ifconfig_gives_addresses_and_a_link_local_one() {
    let b = bench();
    assert!(!b.ok("ifconfig pg0").contains("inet6"));
    b.ok("ifconfig pg0 inet6 fd00::1/64");
    b.ok("ifconfig pg0 inet6 fd01::1 prefixlen 48 alias");
    let text = b.ok("ifconfig pg0");
    for line in ["\tinet6 fd00::1 prefixlen 64\n", "\tinet6 fd01::1 prefixlen 48\n", "%pg0 prefixlen 64 scopeid 0x2\n"]
    {
        assert!(text.contains(line), "{line:?} not in {text}");
    }
    b.ok("ifconfig pg0 inet6 fd01::1 delete");
    assert!(!b.ok("ifconfig pg0").contains("fd01::1"));
    b.ok("ifconfig lo0 inet6 ::1");
    assert!(b.ok("ifconfig lo0").contains("\tinet6 ::1 prefixlen 128\n"));
    let info = &b.json("ip -6 addr show pg0")[0]["addr_info"];
    assert_eq!(
        info[0],
        json!({
            "family": "inet6", "local": "fd00::1", "prefixlen": 64, "scope": "global",
            "valid_life_time": u32::MAX, "preferred_life_time": u32::MAX,
        })
    );
    assert_eq!((&info[1]["scope"], info.as_array().unwrap().len()), (&json!("link"), 2));
    b.ok("ifconfig pg0 inet6 auto_linklocal"); // it has one
    assert_eq!(b.json("ip -6 addr show pg0")[0]["addr_info"].as_array().unwrap().len(), 2);
    // Until duplicate address detection is done, an address is tentative.
    b.ok("sysctl net.inet6.ip6.dad_count=1");
    b.ok("ifconfig pg0 inet6 fd02::1/64");
    assert!(b.ok("ifconfig pg0").contains("fd02::1 prefixlen 64 tentative"));
    assert!(b.ok("ip addr show pg0").contains("inet6 fd02::1/64 scope global tentative"));
}

#[test]
fn router_advertisements_are_turned_on_and_off() {
    let b = bench();
    b.ok("ifconfig pg0 inet6 accept_rtadv");
    let text = b.ok("ifconfig pg0");
    assert!(text.contains("\tnd6 options=<ACCEPT_RTADV>\n") && text.contains("inet6 fe80"), "{text}");
    assert_eq!((b.ok("ndp -r"), b.ok("ndp -p")), (String::new(), String::new()));
    assert_eq!((b.json("ndp -r"), b.json("ndp -p")), (json!([]), json!([])));
    b.ok("ifconfig pg0 inet6 -accept_rtadv");
    assert!(!b.ok("ifconfig pg0").contains("ACCEPT_RTADV"));
    assert!(b.no("ifconfig lo0 inet6 accept_rtadv").contains("need an Ethernet interface"));
    b.ok("ifconfig pg0 inet6 advertise rltime 100 maxinterval 10 vltime 300 pltime 200");
    assert!(b.ok("ifconfig pg0").contains("\tnd6 options=<ADVERTISE>\n"));
    b.ok("ifconfig pg0 inet6 accept_rtadv");
    assert!(b.ok("ifconfig pg0").contains("\tnd6 options=<ACCEPT_RTADV,ADVERTISE>\n"));
    b.ok("ifconfig pg0 inet6 -advertise");
    for (words, says) in [
        ("maxinterval 3", "maxinterval must be from 4 to 1800 seconds"),
        ("rltime 599", "rltime must be 0, or from maxinterval to 9000 seconds"),
        ("vltime 10 pltime 11", "pltime must be at most vltime"),
        ("vltime x", "vltime"),
        ("rltime", "expected a number from 0 to 9000"),
    ] {
        let said = b.no(&format!("ifconfig pg0 inet6 advertise {words}"));
        assert!(said.contains(says), "{words}: {said}");
    }
    assert!(!b.ok("ifconfig pg0").contains(",ADVERTISE"));
}

#[test]
fn iproute2_gives_addresses_and_tells_families_apart() {
    let b = bench();
    b.ok("ip addr add fd00::1/64 dev pg0");
    b.ok("ip -6 addr add fd00::2 dev pg0");
    assert!(b.no("ip addr add fd00::1/64 dev pg0").contains("pg0 already has fd00::1/64"));
    b.ok("ip addr replace fd00::1/56 dev pg0");
    let (all, four, six) = (b.ok("ip addr show pg0"), b.ok("ip -4 addr show pg0"), b.ok("ip -6 addr show pg0"));
    assert!(all.contains("inet 1.0.0.1/8") && all.contains("inet6 fd00::1/56 scope global"), "{all}");
    assert!(four.contains("inet 1.0.0.1/8") && !four.contains("inet6"), "{four}");
    assert!(six.contains("inet6 fd00::2/128") && !six.contains("1.0.0.1"), "{six}");
    b.ok("ip addr del fd00::2 dev pg0");
    assert!(b.no("ip addr del fd00::2 dev pg0").contains("pg0 does not have fd00::2"));
}

/// Routes of a transparent proxy: addresses of other hosts, delivered locally.
#[test]
fn routes_of_type_local() {
    let b = bench();
    b.ok("ifconfig pg0 inet6 fd00::1/64");
    b.ok("ip -6 route add local ::/0 dev lo0");
    b.ok("ip route add local 2001:db8::/32");
    b.ok("ip -6 route replace local fd00::/64 dev pg0");
    let text = b.ok("ip -6 route show table local");
    for line in [
        "local default dev lo0\n",
        "local 2001:db8::/32 dev lo0\n",
        "local fd00::/64 dev pg0\n",
        "local fd00::1 dev pg0 proto kernel\n",
    ] {
        assert!(text.contains(line), "{line:?} not in {text}");
    }
    assert!(!b.ok("ip -6 route").contains("local"));
    let row = &b.json("ip -6 route show 2001:db8::/32 table local")[0];
    assert_eq!((&row["type"], &row["dev"]), (&json!("local"), &json!("lo0")));
    assert!(b.ok("ip -6 route get 3fff::9").starts_with("local 3fff::9 dev lo0"));
    assert!(b.ok("route -6 get 3fff::9").contains("flags: <UP,LOCAL,DONE>"));
    let table = b.ok("netstat -rn");
    assert!(table.lines().any(|line| line.split_whitespace().eq(["2001:db8::/32", "link#1", "Ul", "lo0"])), "{table}");
    for (line, says) in [
        ("ip -6 route add local 3fff::/20 via fd00::2", "a local route accepts no gateway"),
        ("ip -6 route add local 3fff::/20 nexthop via fd00::2", "a type: not supported here"),
        ("ip -6 route add local fe80::/64", "link-local and multicast prefixes cannot be routed"),
        ("ip -6 route add local ff00::/8", "link-local and multicast prefixes cannot be routed"),
        ("ip -6 route add local ::/128", "unspecified and IPv4-mapped addresses cannot be local"),
        ("ip -6 route add local ::ffff:0:0/96", "unspecified and IPv4-mapped addresses cannot be local"),
        ("ip -6 route del local 3fff::/20", "there is no route to 3fff::/20"),
    ] {
        let said = b.no(line);
        assert!(said.contains(says), "{line}: {said}");
    }
    b.ok("ip -6 route del local 2001:db8::/32");
    b.ok("ip -6 route flush");
    let text = b.ok("ip -6 route show table local");
    assert!(!text.contains("default") && text.contains("local fd00::1"), "{text}");
}

#[test]
fn routes_in_both_grammars() {
    let b = bench();
    b.ok("ifconfig pg0 inet6 fd00::1/64");
    assert_eq!(b.ok("route -6 add 2001:db8::/32 fd00::2"), "add net 2001:db8::: gateway fd00::2\n");
    assert_eq!(b.ok("route add -inet6 default fe80::9%pg0"), "add net default: gateway fe80::9%pg0\n");
    b.ok("route -6 add -host 2001:db8::7 -reject");
    b.ok("ip -6 route add blackhole 3fff::/20");
    b.ok("ip route add 2001:db8:1::/48 via fd00::3 dev pg0");
    let show = b.ok("ip -6 route");
    for line in [
        "default via fe80::9 dev pg0\n",
        "2001:db8::/32 via fd00::2 dev pg0\n",
        "unreachable 2001:db8::7\n",
        "blackhole 3fff::/20\n",
        "fd00::/64 dev pg0 proto kernel\n",
    ] {
        assert!(show.contains(line), "{line:?} not in {show}");
    }
    let table = b.ok("netstat -rn");
    let (_, six) = table.split_once("\nInternet6:\n").unwrap_or_else(|| panic!("{table}"));
    let rows: Vec<Vec<&str>> = six.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["Destination", "Gateway", "Flags", "Netif"]);
    for row in [
        ["default", "fe80::9%pg0", "UGS", "pg0"],
        ["2001:db8::7", "-", "UHRS", "-"],
        ["fd00::/64", "link#2", "U", "pg0"],
        ["fd00::1", "link#2", "UHl", "lo0"],
        ["fe80::%pg0/64", "link#2", "U", "pg0"],
    ] {
        assert!(rows.iter().any(|found| found == &row), "{row:?} not in {six}");
    }
    let get = b.ok("route -6 get 2001:db8:5::1");
    assert!(
        get.contains("destination: 2001:db8::\n       mask: ffff:ffff::\n    gateway: fd00::2\n  interface: pg0\n"),
        "{get}"
    );
    assert!(get.contains("flags: <UP,GATEWAY,STATIC,DONE>"), "{get}");
    assert_eq!(b.ok("ip -6 route get 2001:db8:1::9"), "2001:db8:1::9 via fd00::3 dev pg0 src fd00::1\n");
    assert_eq!(b.json("ip -6 route get 2001:db8:1::9")[0]["gateway"], "fd00::3");
    assert_eq!(b.json("ip -6 route show dev pg0").as_array().unwrap().len(), 4);
    b.ok("route -6 change 2001:db8::/32 fd00::4");
    assert_eq!(b.ok("route -6 delete 2001:db8::/32"), "delete net 2001:db8::\n");
    b.ok("ip -6 route del 2001:db8:1::/48");
    b.ok("ip -6 route flush");
    assert_eq!(b.ok("ip -6 route"), "fd00::/64 dev pg0 proto kernel\n");
    assert!(b.no("route -6 get 2001:db8::1").contains("not in table"));
}

#[test]
fn neighbors_in_both_grammars() {
    let b = bench();
    b.ok("ifconfig pg0 inet6 fd00::1/64");
    b.ok("ndp -s fd00::2 02:00:00:00:00:02");
    b.ok("ip neigh add fe80::3 lladdr 02:00:00:00:00:03 dev pg0");
    b.ok("ip neigh add 1.0.0.9 lladdr 02:00:00:00:00:09 dev pg0");
    let text = b.ok("ndp -an");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["Neighbor", "Linklayer", "Address", "Netif", "Expire", "S", "Flags"]);
    assert_eq!(rows[1], ["fd00::2", "02:00:00:00:00:02", "pg0", "permanent", "R"]);
    assert_eq!(rows[2], ["fe80::3%pg0", "02:00:00:00:00:03", "pg0", "permanent", "R"]);
    assert_eq!(b.ok("ip -6 neigh show dev pg0").lines().count(), 2);
    assert_eq!(b.ok("ip neigh").lines().count(), 3);
    assert_eq!(b.ok("ip -4 neigh"), "1.0.0.9 dev pg0 lladdr 02:00:00:00:00:09 PERMANENT\n");
    assert_eq!(
        b.json("ip -6 neigh")[0],
        json!({ "dst": "fd00::2", "dev": "pg0", "lladdr": "02:00:00:00:00:02", "state": ["PERMANENT"] })
    );
    assert!(b.no("ip -6 neigh add fd00::2 lladdr 02:00:00:00:00:05 dev pg0").contains("a neighbor entry exists"));
    assert_eq!(b.ok("ndp -d fe80::3%pg0"), "fe80::3%pg0 (fe80::3%pg0) deleted\n");
    assert!(b.no("ndp fe80::3").contains("no entry"));
    b.ok("ip neigh del fd00::2 dev pg0");
    assert_eq!(b.ok("ndp -c"), "");
}

#[test]
fn tunnels_of_ip6() {
    let b = bench();
    b.ok("ifconfig pg0 inet6 fd00::1/64");
    b.ok("ifconfig gif0 create inet6 tunnel fd00::1 fd00::2");
    b.ok("ifconfig gif0 inet 172.16.0.1 172.16.0.2");
    b.ok("ifconfig gif0 inet6 fdaa::1 fdaa::2");
    let text = b.ok("ifconfig gif0");
    for line in [
        "\ttunnel inet6 fd00::1 --> fd00::2\n",
        "\tinet 172.16.0.1 --> 172.16.0.2",
        "\tinet6 fdaa::1 --> fdaa::2 prefixlen 128\n",
    ] {
        assert!(text.contains(line), "{line:?} not in {text}");
    }
    assert_eq!(b.ok("ip -6 route get fdaa::2"), "fdaa::2 dev gif0 src fdaa::1\n");
    b.ok("ip -6 route add 2001:db8::/32 via fdaa::2");
    b.ok("ip link add gre0 type ip6gre local fd00::1 remote fd00::3 key 7");
    assert!(b.ok("ip -d link show gre0").contains("link/gre6 fd00::1 peer fd00::3"));
    assert_eq!(b.json("ip -d link show gre0")[0]["linkinfo"]["info_data"]["ttl"], 30);
    b.ok("ip link add gif1 type sit local 1.0.0.1 remote 1.0.0.2");
    b.ok("ifconfig gif1 inet6 auto_linklocal");
    assert!(b.ok("ifconfig gif1").contains("inet6 fe80::"));
    b.ok("ifconfig gif0 destroy");
    assert!(!b.ok("ip -6 route").contains("gif0"));
}

#[test]
fn why_is_a_chain_of_sentences_or_of_fields() {
    let b = bench();
    b.ok("ifconfig pg0 inet6 fd00::1/64");
    b.ok("ifconfig pg0 inet6 fd00::1:1/64");
    b.ok("sysctl net.inet6.ip6.forwarding=1");
    b.ok("ip -6 neigh add fd00::2 lladdr 02:00:00:00:00:02 dev pg0");
    b.ok("ip -6 neigh add fd00::3 lladdr 02:00:00:00:00:03 dev pg0");
    b.ok("ip -6 route add default via fd00::4");
    let added = b.ok("route -6 add 2001:db8::/32 fd00::2 fd00::3");
    assert_eq!(added, "add net 2001:db8::: gateway fd00::2: gateway fd00::3\n");
    b.ok("route -6 add 3fff:8000::/20 -reject fd00::2"); // as in route(8), the gateway has no effect
    b.ok("route -6 delete 3fff:8000::/20");
    assert!(b.no("route -6 add 3fff::/20 fd00::2 10.0.0.1").contains("an IPv6 address such as fd00::1"));
    let lines = ["route -6 get 2001:db8::1 --why", "ip -6 route get --why 2001:db8::1 ipproto ipv6-icmp"];
    for text in lines.map(|line| b.ok(line)) {
        for part in [
            "2001:db8::1 matches the route with the longest prefix, 2001:db8::/32: one of 2 paths\n",
            "not used, because its prefix is shorter: ::/0, via fd00::4 dev pg0\n",
            "path: via fd00::3 dev pg0 weight 1\n",
            "selects bucket ",
            "(permanent)\n",
            "packets up to 1500 bytes are sent without fragmentation\n",
            "would have the source address fd00::1\n",
            "no check drops the packet\n",
        ] {
            assert!(text.contains(part), "{part:?} not in {text}");
        }
    }
    let text = b.ok("ip -6 route get 2001:db8::1 from ::1 iif pg0 --why");
    assert!(text.contains("the packet is dropped") && text.contains("inet.ip6.in.martian_source"), "{text}");
    let text = b.ok("ip -6 route get fe80::9%pg0 --why");
    assert!(
        text.starts_with("fe80::9 needs no table lookup: directly to the destination on the link, dev pg0\n"),
        "{text}"
    );
    assert!(text.contains("waits for neighbor discovery\n"), "{text}");
    let json = b.json("route -6 get --why 2001:db8::1");
    assert_eq!(
        (&json["matched"]["dst"], &json["mtu"], &json["end"]),
        (&"2001:db8::/32".into(), &1500.into(), &serde_json::Value::Null)
    );
    assert_eq!(json["paths"].as_array().map(Vec::len), Some(2));
    // Without --why, the selected path.
    let get = b.ok("ip -6 route get 2001:db8::1");
    assert!(get.starts_with("2001:db8::1 via fd00::") && get.lines().count() == 1, "{get}");
    assert!(b.ok("route -6 get 2001:db8::1").contains("    gateway: fd00::"));
    assert!(b.ok("ip -6 route get fe80::9%pg0").starts_with("fe80::9 dev pg0 src fe80::"));
    assert!(b.no("route -6 get 2001:db8::1 --who").contains("--why"));
    assert!(b.no("route -6 get 2001:db8::1 from fd00::2").contains("iif"));
    assert!(b.no("route -6 get 10.0.0.1 --why").contains("an IPv6 address such as fd00::1"));
    // The JSON output also depends on the flow in the command.
    let flow = "2001:db8::1 from fd00::9 iif pg0 ipproto udp sport 1 dport 2";
    let json = b.json(&format!("route -6 get {flow}"));
    assert!(
        b.ok(&format!("route -6 get {flow}")).contains(&format!("gateway: {}\n", json[0]["gateway"].as_str().unwrap()))
    );
    assert!(b.no("route -6 delete 2001:db8::/32 fd00::2").contains("not in table"));
    assert!(b.no("route -6 delete 2001:db8::/32 fd00::2 fd00::4").contains("not in table"));
    b.ok("route -6 change 2001:db8::/32 fd00::4 fd00::3");
    b.ok("route -6 delete 2001:db8::/32 fd00::3 fd00::4");
}

#[test]
fn why_goes_into_tunnels_and_ends_at_ifaces_that_are_down() {
    let b = bench();
    b.ok("ifconfig pg0 inet6 fd00::1/64");
    b.ok("ifconfig gif0 create");
    b.ok("ifconfig gif0 inet6 tunnel fd00::1 fd00::2");
    b.ok("ifconfig gif0 inet6 fdaa::1/64");
    let text = b.ok("route -6 get fdaa::2 --why");
    assert!(text.contains("the packet enters the tunnel gif0\n") && !text.contains("neighbor"), "{text}");
    b.ok("ip -6 route add prohibit 3fff::/20");
    let text = b.ok("route -6 get 3fff::1 --why");
    assert!(text.contains("administratively prohibited") && text.contains("inet.ip6.forward.no_route"), "{text}");
    b.ok("ifconfig pg0 down");
    assert!(b.ok("route -6 get fd00::9 --why").contains("the packet is dropped"));
}

#[test]
fn what_cannot_be_is_said() {
    let b = bench();
    b.ok("ifconfig pg0 inet6 fd00::1/64");
    b.ok("ifconfig x1 create port null:x");
    for (line, says) in [
        ("ifconfig pg0 inet6", "expected an address such as 10.0.0.1/24 or fd00::1/64"),
        ("ifconfig pg0 inet6 10.0.0.1", "an IPv6 address such as fd00::1"),
        ("ifconfig pg0 inet6 fd00::g", "expected an address such as 10.0.0.1/24 or fd00::1/64"),
        ("ifconfig pg0 inet6 fd00::2/129", "a number from 0 to 128"),
        ("ifconfig pg0 inet6 ff02::1", "a unicast address of a host"),
        ("ifconfig pg0 inet6 ::", "a unicast address of a host"),
        ("ifconfig pg0 inet6 ::1", "not an address that a host may have on this interface"),
        ("ifconfig pg0 inet6 ::ffff:1.2.3.4", "a unicast address of a host"),
        ("ifconfig x1 inet6 fd00::1", "pg0 already has fd00::1"),
        ("ifconfig pg0 inet6 fd00::9 delete", "pg0 does not have fd00::9"),
        ("ifconfig pg0 inet6 tunnel fd00::1 fd00::2", "pg0: not a tunnel"),
        ("ip addr add fd00::3/64", "dev IF"),
        ("ip addr add fd00::3/64 dev pg7", "unknown iface 'pg7'"),
        ("ip -6 route add 2001:db8::/32", "via GATEWAY or dev IF"),
        ("ip -6 route add 2001:db8::/32 via 10.0.0.1", "an IPv6 address such as fd00::1"),
        ("ip -6 route add 2001:db8::/32 via fe80::1", "give its interface, as in fe80::1%em0"),
        ("ip -6 route add 2001:db8::/32 via fd09::1", "is not on the link of an interface"),
        ("ip -6 route add 2001:db8::/32 via ff02::1 dev pg0", "a unicast address of a host"),
        ("ip -6 route add fe80::/64 dev pg0", "cannot be routed"),
        ("ip -6 route add blackhole 2001:db8::/32 nexthop via fd00::2", "a type: not supported here"),
        ("ip -6 route add 2001:db8::/32 via fd00::2 nexthop via fd00::2", "via: not supported here"),
        ("ip -6 route add 2001:db8::/32 nexthop weight 2", "via GATEWAY or dev IF"),
        ("ip -6 route add 2001:db8::/32 nexthop via fd00::2 weight 0", "a number from 1 to 256"),
        ("ip -6 route add 2001:db8::/32 nexthop via fe80::1", "give its interface, as in fe80::1%em0"),
        ("ip -6 route add 2001:db8::/32 nexthop via 10.0.0.1", "an IPv6 address such as fd00::1"),
        ("ip -6 route del 3fff::/20", "there is no route to 3fff::/20"),
        ("ip -6 route get 2001:db8::1", "network is unreachable"),
        ("route -6 add 2001:db8::/32", "a gateway's address"),
        ("route -6 add fd00::/64 fd00::2", "a route exists; use 'route change'"),
        ("route -6 delete 3fff::/20", "not in table"),
        ("route -6 frobnicate", "unknown word"),
        ("route -6 add 2001:db8::/130 fd00::2", "a prefix length from 0 to 128"),
        ("ndp -s fd00::2 ff:ff:ff:ff:ff:ff", "a unicast MAC address"),
        ("ndp -x", "unknown option"),
        ("ip -5 route", "possible: -j, -4, -6"),
    ] {
        assert!(b.no(line).contains(says), "{line}: {}", b.no(line));
    }
    b.ok("ifconfig pg0 mtu 1000");
    assert!(b.no("ifconfig pg0 inet6 fd05::1").contains("1280 bytes"));
}

#[test]
fn counters_in_freebsds_sentences() {
    let b = bench();
    let all = b.ok("netstat -s -s -p ip6");
    assert!(all.starts_with("ip6:\n\t0 total packets received\n\t\t0 with data size < data length\n"), "{all}");
    let all = b.ok("netstat -s -s -p icmp6");
    assert!(
        all.contains("icmp6:\n\t0 errors sent\n") && all.contains("inet.nd:\n") && all.contains("inet.mld:\n"),
        "{all}"
    );
    assert_eq!(near_is_made_of_the_mac(&b), "fe80");
}

fn near_is_made_of_the_mac(b: &Bench) -> String {
    b.ok("ifconfig pg0 inet6 auto_linklocal");
    let text = b.ok("ifconfig pg0");
    let mac: wire::Mac = text.lines().find_map(|line| line.trim().strip_prefix("ether ")).unwrap().parse().unwrap();
    assert_eq!(near(b), wire::ip6::link_local(mac).to_string());
    near(b)[..4].to_string()
}

#[test]
fn an_ipv6_route_by_several_gateways_is_listed_with_its_paths() {
    let b = Bench::new();
    b.ok("ifconfig pg0 inet6 fd00::1/64");
    b.ok("ip -6 route add 2001:db8::/32 nexthop via fd00::2 weight 3 nexthop via inet6 fe80::3 dev pg0");
    let text = b.ok("ip -6 route show 2001:db8::/32");
    let paths = "\n\tnexthop via fd00::2 dev pg0 weight 3\n\tnexthop via fe80::3 dev pg0 weight 1\n";
    assert_eq!(text, format!("2001:db8::/32{paths}"));
    let json = b.json("ip -6 route show 2001:db8::/32");
    let hops = &json[0]["nexthops"];
    assert_eq!((&hops[0]["weight"], &hops[1]["gateway"]), (&3.into(), &"fe80::3".into()));
    let taken: std::collections::BTreeSet<String> = (1..40)
        .map(|host| b.ok(&format!("ip -6 route get 2001:db8::{host:x}")))
        .map(|got| got.split(" via ").nth(1).and_then(|via| via.split(' ').next()).unwrap_or(&got).to_owned())
        .collect();
    assert_eq!(taken.into_iter().collect::<Vec<_>>(), ["fd00::2", "fe80::3"]);
    let rows = b.ok("netstat -r");
    assert_eq!(
        rows.lines().filter(|line| line.starts_with("2001:db8::/32") && line.contains("UGS")).count(),
        2,
        "{rows}"
    );
    for wrong in ["nexthop via fd00::2", "nexthop via fd00::2 nexthop via fe80::3 dev pg0", "via fd00::2", "dev pg0"] {
        assert!(b.no(&format!("ip -6 route del 2001:db8::/32 {wrong}")).contains("no route"), "{wrong}");
    }
    let many = " nexthop via fd00::2".repeat(65);
    assert!(
        b.no(&format!("ip -6 route replace 2001:db8::/32{many}"))
            .contains("2001:db8::/32: a route must have 1 to 64 paths")
    );
    b.ok("ip -6 route del 2001:db8::/32 nexthop via fd00::2 weight 3 nexthop via fe80::3 dev pg0");
    assert!(!b.ok("ip -6 route").contains("2001:db8"));
}
