//! Tunnels in both grammars, BSD's and iproute2's, their output, and rejected commands.

use super::*;
use serde_json::json;

#[test]
fn bsd_words_make_show_and_destroy() {
    let b = Bench::new();
    b.ok("ifconfig gif0 create tunnel 1.0.0.1 1.0.0.2 inet 172.16.0.1 172.16.0.2 ");
    assert_eq!(
        b.ok("ifconfig gif0"),
        "gif0: flags=8851<UP,POINTOPOINT,RUNNING,SIMPLEX,MULTICAST> mtu 8980\n\ttunnel inet 1.0.0.1 --> 1.0.0.2\n\
         \tinet 172.16.0.1 --> 172.16.0.2 netmask 0xffffffff\n"
            .replace("8980", &b.json("ifconfig gif0")[0]["mtu"].to_string())
    );
    assert!(b.ok("ip route get 172.16.0.2").contains("dev gif0"));
    b.ok("ip route add 192.168.0.0/16 via 172.16.0.2");
    assert!(b.ok("ip route").contains("192.168.0.0/16 via 172.16.0.2 dev gif0"));
    b.ok("ifconfig gif0 mtu 1280");
    assert_eq!(b.json("ip link show gif0")[0]["mtu"], 1280);
    b.ok("ifconfig gre0 create tunnel 1.0.0.1 1.0.0.3 grekey 5 enable_csum enable_seq");
    let text = b.ok("ifconfig gre0");
    assert!(text.contains("\tgrekey: 0x5 (5)\n\toptions=<ENABLE_CSUM,ENABLE_SEQ>\n"), "{text}");
    b.ok("ifconfig gre0 grekey 0 -enable_csum -enable_seq");
    assert!(!b.ok("ifconfig gre0").contains("grekey"));
    b.ok("ifconfig vxlan0 create vxlanid 42 vxlanlocal 1.0.0.1 vxlanremote 1.0.0.4 inet 172.17.0.1/24");
    let text = b.ok("ifconfig vxlan0");
    assert!(text.contains("\tvxlan vni 42 local 1.0.0.1:4789 remote 1.0.0.4:4789\n"), "{text}");
    assert!(text.contains("BROADCAST") && text.contains("\tether b2:"), "{text}");
    b.ok("ifconfig etherip0 create tunnel 1.0.0.1 1.0.0.5");
    assert_eq!(b.ok("ifconfig -l"), "lo0 pg0 gif0 gre0 vxlan0 etherip0\n");
    b.ok("ifconfig etherip0 inet 10.9.0.1/24"); // announced, but no neighbor answers
    let passed = b.json("netstat -i");
    let etherip = passed.as_array().unwrap().iter().find(|iface| iface["ifname"] == "etherip0").unwrap();
    assert_eq!((&etherip["tx"]["packets"], &etherip["tx"]["bytes"]), (&1.into(), &42.into()));
    b.ok("ifconfig gif0 destroy");
    assert!(b.no("ifconfig gif0").contains("unknown iface 'gif0'"));
    assert!(!b.ok("ip route").contains("192.168"));
    b.ok("ifconfig gif0 create");
    assert!(b.json("ip addr show gif0")[0]["addr_info"].as_array().unwrap().is_empty());
}

#[test]
fn iproute2_words_make_show_and_delete() {
    let b = Bench::new();
    b.ok("ip link add t0 type ipip local 1.0.0.1 remote 1.0.0.2 ttl 9 pmtudisc");
    b.ok("ip addr add 172.16.0.1 peer 172.16.0.2 dev t0");
    let link = &b.json("ip -d link show t0")[0];
    assert_eq!(
        (&link["link_type"], &link["address"], &link["broadcast"]),
        (&json!("ipip"), &json!("1.0.0.1"), &json!("1.0.0.2"))
    );
    assert_eq!((&link["link_pointtopoint"], &link["operstate"]), (&json!(true), &json!("UNKNOWN")));
    let data = json!({ "remote": "1.0.0.2", "local": "1.0.0.1", "ttl": 9, "df": "set" });
    assert_eq!(link["linkinfo"], json!({ "info_kind": "ipip", "info_data": data }));
    let addr = &b.json("ip addr show t0")[0]["addr_info"][0];
    assert_eq!(
        (&addr["local"], &addr["address"], &addr["prefixlen"]),
        (&json!("172.16.0.1"), &json!("172.16.0.2"), &json!(32))
    );
    assert!(b.ok("ip addr").contains("    inet 172.16.0.1 peer 172.16.0.2/32 scope global t0\n"));
    b.ok("ip link add g0 mtu 1400 type gre key 77 local 1.0.0.1 remote 1.0.0.2 csum seq");
    let text = b.ok("ip link show g0");
    assert!(
        text.contains(
            "<POINTOPOINT,MULTICAST,UP,LOWER_UP> mtu 1400 state UNKNOWN\n    link/gre 1.0.0.1 peer 1.0.0.2\n"
        ),
        "{text}"
    );
    assert!(text.contains("    gre remote 1.0.0.2 local 1.0.0.1 key 0.0.0.77 csum seq ttl 30 df inherit\n"), "{text}");
    b.ok("ip link add v0 type vxlan id 42 local 1.0.0.1 remote 1.0.0.2 dstport 8472");
    let info = &b.json("ip link show v0")[0]["linkinfo"]["info_data"];
    assert_eq!((&info["id"], &info["port"]), (&json!(42), &json!(8472)));
    assert!(b.ok("ip link show v0").contains("    vxlan id 42 remote 1.0.0.2 local 1.0.0.1 dstport 8472"));
    b.ok("ip link del t0");
    b.ok("ip link delete dev v0");
    assert_eq!(b.ok("ifconfig -l"), "lo0 pg0 g0\n");
}

#[test]
fn what_no_tunnel_can_be_is_said() {
    let b = Bench::new();
    b.ok("ifconfig gif0 create tunnel 1.0.0.1 1.0.0.2");
    b.ok("ifconfig gif1 create");
    b.ok("ifconfig vxlan0 create");
    for (line, says) in [
        ("ifconfig gif2 create tunnel 1.0.0.1", "expected an IP address"),
        ("ifconfig gif0 grekey 5", "gif0: grekey applies only to gre tunnels"),
        ("ifconfig gif0 vxlanid 5", "gif0: vxlanid applies only to vxlan tunnels"),
        ("ifconfig gif0 tunnel 1.0.0.1 224.0.0.1", "224.0.0.1: must be a unicast address"),
        ("ifconfig vxlan0 vxlanlocalport 5000 vxlanremoteport 6000", "must be equal: 5000 and 6000"),
        ("ifconfig pg0 tunnel 1.0.0.1 1.0.0.2", "pg0: not a tunnel"),
        ("ifconfig lo0 destroy", "lo0: cannot be removed"),
        ("ip link del lo0", "lo0: cannot be removed"),
        ("ip link add x type ipip local 1.0.0.1 remote 1.0.0.2", "gif0 has the same outer addresses"),
        ("ip link add x type sitt", "unknown type 'sitt'"),
        ("ifconfig gif1 tunnel 1.0.0.1 fd00::1", "must be of one family"),
        ("ifconfig gif1 tunnel fe80::1 fe80::2", "fe80::1: must be a unicast address"),
        ("ip link add x type vxlan id 16777216", "vni"),
        ("ip link add x type gre key banana", "a 32-bit number"),
        ("ip link add pg0 type ipip", "an interface of this name exists"),
        ("ip addr add 9.9.9.9 peer 9.9.9.8 dev pg0", "pg0 is not a point-to-point iface"),
    ] {
        assert!(b.no(line).contains(says), "{line}: {}", b.no(line));
    }
    assert_eq!(b.ok("ifconfig -l"), "lo0 pg0 gif0 gif1 vxlan0\n");
    b.ok("ifconfig vxlan0 vxlanlocalport 5000 vxlanremoteport 5000 vxlanlocal 1.0.0.1");
    assert!(b.ok("ifconfig vxlan0").contains("local 1.0.0.1:5000"));
    b.ok("ip link add v6 type vxlan id 7 local fd00::1 remote fd00::2");
    assert!(b.ok("ip link show v6").contains("    vxlan id 7 remote fd00::2 local fd00::1 dstport 4789"));
}
