//! Routes with several paths, and the explanations of route lookups (--why).

use super::*;

fn router() -> Bench {
    let b = Bench::new();
    b.ok("ifconfig pg0 inet 10.0.0.1/24");
    for last in 2..5 {
        b.ok(&format!("ip neigh add 10.0.0.{last} lladdr 02:00:00:00:00:0{last} dev pg0"));
    }
    b
}

#[test]
fn a_route_by_several_gateways_is_listed_with_its_paths() {
    let b = router();
    assert_eq!(
        b.ok("route add -net 20.0.0.0/8 10.0.0.2 10.0.0.3"),
        "add net 20.0.0.0: gateway 10.0.0.2: gateway 10.0.0.3\n"
    );
    b.ok("ip route add 30.0.0.0/8 nexthop via 10.0.0.2 weight 3 nexthop via 10.0.0.3 dev pg0");
    let text = b.ok("ip route show 30.0.0.0/8");
    assert_eq!(text, "30.0.0.0/8\n\tnexthop via 10.0.0.2 dev pg0 weight 3\n\tnexthop via 10.0.0.3 dev pg0 weight 1\n");
    let json = b.json("ip route show 30.0.0.0/8");
    assert_eq!(
        (&json[0]["nexthops"][0]["weight"], &json[0]["nexthops"][1]["gateway"]),
        (&3.into(), &"10.0.0.3".into())
    );
    let rows = b.ok("netstat -r");
    assert_eq!(rows.lines().filter(|line| line.starts_with("20.0.0.0/8") && line.contains("UGS")).count(), 2, "{rows}");
    let get = b.ok("ip route get 20.1.1.1");
    assert!(get.starts_with("20.1.1.1 via 10.0.0."), "{get}");
    assert!(b.no("ip route add 40.0.0.0/8 nexthop weight 3").contains("via GATEWAY"));
    assert!(b.no("ip route add 40.0.0.0/8 nexthop via 10.0.0.2 weight 0").contains("1 to 256"));
    assert!(b.no("route add 40.0.0.0/8").contains("gateway"));
    b.ok("route delete -net 20.0.0.0/8");
    assert!(!b.ok("netstat -r").contains("20.0.0.0"));
    for wrong in ["nexthop via 10.0.0.2", "nexthop via 10.0.0.2 nexthop via 10.0.0.3 dev pg0", "via 10.0.0.2"] {
        assert!(b.no(&format!("ip route del 30.0.0.0/8 {wrong}")).contains("no route"), "{wrong}");
    }
    b.ok("ip route del 30.0.0.0/8 nexthop via 10.0.0.2 weight 3 nexthop via 10.0.0.3 dev pg0");
    b.ok("ip route add 60.0.0.0/8 via 10.0.0.2");
    for wrong in ["via 10.0.0.3", "nexthop via 10.0.0.2 nexthop via 10.0.0.3"] {
        assert!(b.no(&format!("ip route del 60.0.0.0/8 {wrong}")).contains("no route"), "{wrong}");
    }
    b.ok("ip route del 60.0.0.0/8 dev pg0");
}

#[test]
fn a_prohibited_route_is_one_of_its_own() {
    let b = router();
    b.ok("ip route add prohibit 50.0.0.0/8");
    b.ok("route add -net 51.0.0.0/8 -prohibit");
    assert!(b.ok("ip route").contains("prohibit 50.0.0.0/8\n"));
    assert!(b.ok("route get 51.1.1.1 --why").contains("administratively prohibited"));
}

#[test]
fn why_is_a_chain_of_sentences_or_of_fields() {
    let b = router();
    b.ok("ip route add default via 10.0.0.4");
    b.ok("ip route add 20.0.0.0/8 nexthop via 10.0.0.2 nexthop via 10.0.0.3");
    let text = b.ok("route get 20.1.2.3 --why");
    for part in [
        "20.1.2.3 matches the route with the longest prefix, 20.0.0.0/8: one of 2 paths\n",
        "not used, because its prefix is shorter: 0.0.0.0/0, via 10.0.0.4 dev pg0\n",
        "path: via 10.0.0.3 dev pg0 weight 1\n",
        "selects bucket ",
        "(permanent)\n",
        "packets up to 1500 bytes are sent without fragmentation\n",
        "would have the source address 10.0.0.1\n",
        "no check drops the packet\n",
    ] {
        assert!(text.contains(part), "{part:?} not in {text}");
    }
    let calls = b.0.calls();
    let fd = calls.socket().unwrap();
    calls.send_to(fd, b"x", &std::net::SocketAddr::from(([10, 0, 0, 9], 7))).unwrap();
    assert!(b.ok("ip route get 10.0.0.9 --why").contains("10.0.0.9 on pg0 is being resolved, 1 packets wait\n"));
    let text = b.ok("ip route get 20.1.2.3 from 127.0.0.1 iif pg0 --why");
    assert!(text.contains("the packet is dropped") && text.contains("inet.ip4.in.martian_source"), "{text}");
    let json = b.json("route get --why 20.1.2.3");
    assert_eq!(
        (&json["matched"]["dst"], &json["mtu"], &json["end"]),
        (&"20.0.0.0/8".into(), &1500.into(), &Value::Null)
    );
    assert_eq!(json["paths"].as_array().map(Vec::len), Some(2));
    assert!(b.no("route get 20.1.2.3 --who").contains("--why"));
    assert!(b.no("route get 20.1.2.3 from 1.1.1.1").contains("iif"));
}

#[test]
fn packets_for_everybody_are_looked_up_in_no_table() {
    let b = router();
    assert_eq!(b.ok("ip route get 224.0.0.1"), "broadcast 224.0.0.1 dev pg0 src 10.0.0.1\n");
    assert!(b.ok("route get 255.255.255.255 --why").ends_with("no check drops the packet\n"));
    b.ok("ip route add default via 10.0.0.4");
    for dst in ["224.0.0.1", "255.255.255.255"] {
        let text = b.ok(&format!("ip route get {dst} from 10.0.0.2 iif pg0"));
        assert_eq!(text, format!("broadcast {dst} dev pg0 src 10.0.0.1\n"));
        let text = b.ok(&format!("route get {dst} from 10.0.0.2 iif pg0 --why"));
        assert!(text.contains("needs no table lookup: to all hosts on the link (dev pg0)\n"), "{text}");
    }
    b.ok("route add -net 20.0.0.0/8 10.0.0.2 10.0.0.3");
    assert!(b.no("route delete -net 20.0.0.0/8 10.0.0.2").contains("not in table"));
    b.ok("route delete -net 20.0.0.0/8 10.0.0.3 10.0.0.2");
}

#[test]
fn an_ipv4_route_may_have_an_ipv6_gateway() {
    let b = router();
    b.ok("ip route add 20.0.0.0/8 via inet6 fe80::2 dev pg0");
    assert_eq!(b.ok("ip route show 20.0.0.0/8"), "20.0.0.0/8 via inet6 fe80::2 dev pg0\n");
    let via = b.json("ip route show 20.0.0.0/8")[0]["via"].clone();
    assert_eq!((&via["family"], &via["host"]), (&"inet6".into(), &"fe80::2".into()));
    assert_eq!(b.ok("ip route get 20.1.1.1"), "20.1.1.1 via inet6 fe80::2 dev pg0 src 10.0.0.1\n");
    let why = b.ok("route get 20.1.1.1 --why");
    assert!(why.contains("via inet6 fe80::2 dev pg0") && why.contains("waits for neighbor discovery"), "{why}");
    assert!(b.ok("route get 20.1.1.1").contains("gateway: fe80::2"));
    assert!(b.ok("netstat -r").contains("fe80::2"));
    b.ok("ip route replace 20.0.0.0/8 nexthop via inet6 fe80::2 dev pg0 nexthop via 10.0.0.3 weight 2");
    let text = b.ok("ip route show 20.0.0.0/8");
    assert_eq!(
        text,
        "20.0.0.0/8\n\tnexthop via inet6 fe80::2 dev pg0 weight 1\n\tnexthop via 10.0.0.3 dev pg0 weight 2\n"
    );
    for (wrong, why) in [
        ("via inet6 fe80::2", "link-local"),
        ("via inet6 ff02::1 dev pg0", "gateway"),
        ("via inet6 fd00::99", "fd00::99"),
        ("via inet6 10.0.0", "10.0.0"),
    ] {
        let line = format!("ip route add 30.0.0.0/8 {wrong}");
        assert!(b.no(&line).contains(why), "{line}: {}", b.no(&line));
    }
    b.ok("ip route del 20.0.0.0/8");
}

#[test]
fn routes_are_listed_with_their_counters() {
    let b = router();
    b.ok("ip route add 20.0.0.0/8 via 10.0.0.2");
    assert_eq!(b.ok("ip -s route show 20.0.0.0/8"), "20.0.0.0/8 via 10.0.0.2 dev pg0 packets 0 bytes 0\n");
    assert!(!b.ok("ip route show 20.0.0.0/8").contains("packets"));
    assert_eq!(b.json("ip -s route show 20.0.0.0/8")[0]["bytes"], 0);
    assert!(b.ok("ip -6 -s route show table all").lines().all(|line| line.contains(" packets 0 bytes 0")));
}
