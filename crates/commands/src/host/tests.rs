mod route;
mod six;
mod tcp;
mod tunnel;

use super::*;
use clock::{Clock, SimClock};
use context::HostForm;
use node::config::HostConfig;
use serde_json::Value;
use std::sync::Arc;

struct Bench(Host<Up>, Arc<Pairs>);

impl Bench {
    fn new() -> Bench {
        let config = HostConfig { name: "h".to_string(), pool_buffers: 64, seed: Some(1), ..HostConfig::default() };
        let bench = Bench(Host::new(&config, Clock::sim(&SimClock::new())).unwrap(), Arc::default());
        bench.ok("ifconfig pg0 create");
        bench.ok("ifconfig pg0 inet 1.0.0.1");
        bench
    }

    fn say(&self, line: &str, json: bool) -> Result<String, String> {
        run(&self.0, &self.1, &line.split_whitespace().collect::<Vec<_>>(), json).map_err(|e| e.to_string())
    }

    #[track_caller]
    fn ok(&self, line: &str) -> String {
        self.say(line, false).unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    #[track_caller]
    fn no(&self, line: &str) -> String {
        self.say(line, false).expect_err(line)
    }

    #[track_caller]
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.say(line, true).unwrap()).unwrap()
    }
}

#[test]
fn ifconfig_makes_addresses_and_switches() {
    let b = Bench::new();
    assert_eq!(b.ok("ifconfig pg0 ip4csum upd4csum mtu 9000 -rxcsum"), "");
    let text = b.ok("ifconfig pg0");
    for line in [
        "pg0: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> mtu 9000",
        "\tenabled=<ip4csum,udp4csum>",
        "\tinet 1.0.0.1 netmask 0xff000000 broadcast 1.255.255.255",
        "\tport pktgen(source=off):pg0",
    ] {
        assert!(text.contains(line), "{line:?} not in {text}");
    }
    b.ok("ifconfig pg0 inet 3.0.0.1 netmask 255.255.0.0 alias");
    assert_eq!(b.json("ifconfig pg0")[0]["addr_info"][1]["prefixlen"], 16);
    b.ok("ifconfig pg0 inet 3.0.0.1 -alias");
    b.ok("ifconfig pg0 inet 4.0.0.1/24"); // without alias: replaces the first one
    assert_eq!(b.json("ip addr show pg0")[0]["addr_info"][0]["local"], "4.0.0.1");
    assert_eq!(b.json("ip addr show pg0")[0]["addr_info"].as_array().unwrap().len(), 1);
    b.ok("ifconfig pg0 down");
    assert!(b.ok("ip link").contains("state DOWN"));
    b.ok("ifconfig x1 create port null:x inet 5.0.0.1/8 up");
    assert!(b.no("ifconfig x1 udp4csum").contains("null:x does not support udp4csum"));
}

#[test]
fn what_is_not_understood_is_named_with_what_was_expected() {
    let b = Bench::new();
    for (line, says) in [
        ("", "expected a command"),
        ("ifconfg", "did you mean 'ifconfig'?"),
        ("zebra", "possible: ifconfig, ip, arp"),
        ("ifconfig pg1", "unknown iface 'pg1' (did you mean 'pg0'?); possible: lo0, pg0"),
        ("ifconfig pg0 uqp", "did you mean 'up'?"),
        ("ifconfig pg0 promisc", "unknown word 'promisc'"),
        ("ifconfig pg0 inet 1.2.3", "address '1.2.3': expected an address such as 10.0.0.1/24"),
        ("ifconfig pg0 inet 1.0.0.1/33", "a number from 0 to 32"),
        ("ifconfig pg0 inet 0.1.2.3/8", "expected a unicast address of a host"),
        ("ifconfig pg0 inet 224.0.0.1/8", "expected a unicast address of a host"),
        ("ifconfig pg0 inet 240.0.0.1/8 alias", "expected a unicast address of a host"),
        ("ifconfig pg0 inet 127.0.0.2/8 alias", "127/8, which is only for lo0"),
        ("ip addr add 127.0.0.2/8 dev pg0", "127/8, which is only for lo0"),
        ("ifconfig pg0 inet 1.0.0.9 netmask 255.0.255.0", "255.255.255.0, 0xffffff00"),
        ("ifconfig pg0 inet 10.0.0.0/24 alias", "not the network"),
        ("ifconfig pg0 mtu 67", "from 68 to"),
        ("ifconfig pg0 create", "an interface of this name exists"),
        ("ifconfig em0 create", "'port SPEC' after 'create'"),
        ("ifconfig em0 create port warp:em0", "unknown kind 'warp'"),
        ("ip adress", "did you mean 'address'?"),
        ("ip route add 9.0.0.0/8", "via GATEWAY or dev IF"),
        ("ip route add 9.0.0.0/8 via 8.8.8.8", "not on the link of an interface"),
        ("ip route get 99.0.0.1", "network is unreachable"),
        ("ip route del 9.0.0.0/8", "no route to 9.0.0.0/8"),
        ("ip neigh add 1.0.0.2 dev pg0", "lladdr MAC"),
        ("ip neigh add 1.0.0.2 lladdr 01:00:5e:00:00:01 dev pg0", "a unicast MAC address"),
        ("arp -s 1.0.0.2 12:23:34:45:56", "six hexadecimal bytes"),
        ("arp -s 9.9.9.9 12:23:34:45:56:00", "not on the link of an interface"),
        ("arp 1.0.0.7", "no entry"),
        ("route add default", "a gateway's address"),
        ("route delete 9.0.0.0/8", "not in table"),
        ("sysctl net.inet.ip.fwd", "unknown sysctl"),
        ("sysctl -w net.inet.ip.ttl=0", "a number from 1 to 255"),
        ("sysctl kern.locks=heavy", "read only"),
        ("netstat -x", "-s, -m, -i, -r"),
        ("netstat -s -p", "a protocol after -p"),
        ("ss -tq", "unknown option '-tq'"),
        ("show poools", "did you mean 'pools'?"),
        ("audit now", "unexpected word 'now'"),
    ] {
        let fault = b.no(line);
        assert!(fault.contains(says) && !fault.contains('\n'), "{line}: {fault}");
    }
}

#[test]
fn iproute2s_words_and_keys() {
    let b = Bench::new();
    b.ok("ip addr add 2.0.0.1/24 dev pg0");
    assert!(b.no("ip a add 2.0.0.1/24 dev pg0").contains("already"));
    b.ok("ip route add default via 1.0.0.2");
    b.ok("ip r add 7.0.0.0/8 dev pg0");
    b.ok("ip route add blackhole 8.0.0.0/8");
    b.ok("ip neigh add 1.0.0.2 lladdr 12:23:34:45:56:00 dev pg0");
    let text = b.ok("ip route");
    assert_eq!(
        text,
        "default via 1.0.0.2 dev pg0\n1.0.0.0/8 dev pg0 proto kernel scope link src 1.0.0.1\n\
         2.0.0.0/24 dev pg0 proto kernel scope link src 2.0.0.1\n7.0.0.0/8 dev pg0 scope link src 1.0.0.1\n\
         blackhole 8.0.0.0/8\n"
    );
    let routes = b.json("ip route");
    assert_eq!((&routes[0]["dst"], &routes[0]["gateway"]), (&"default".into(), &"1.0.0.2".into()));
    assert_eq!(b.ok("ip route get 99.1.1.1"), "99.1.1.1 via 1.0.0.2 dev pg0 src 1.0.0.1\n");
    assert_eq!(b.ok("ip route get 1.0.0.1"), "local 1.0.0.1 dev pg0 src 1.0.0.1\n");
    assert_eq!(b.ok("ip neigh"), "1.0.0.2 dev pg0 lladdr 12:23:34:45:56:00 PERMANENT\n");
    assert_eq!(b.json("ip neigh")[0]["state"][0], "PERMANENT");
    // -j is also accepted after `ip`, as in iproute2.
    let link: Value = serde_json::from_str(&b.ok("ip -j link show pg0")).unwrap();
    assert_eq!((&link[0]["ifname"], &link[0]["operstate"]), (&"pg0".into(), &"UP".into()));
    b.ok("ip route flush");
    assert!(!b.ok("ip route").contains("default"));
}

#[test]
fn bsds_words() {
    let b = Bench::new();
    b.ok("arp -s 1.0.0.2 12:23:34:45:56:00");
    assert_eq!(b.ok("arp -a"), "? (1.0.0.2) at 12:23:34:45:56:00 on pg0 permanent [ethernet]\n");
    assert_eq!(b.ok("route add default 1.0.0.2"), "add net default: gateway 1.0.0.2\n");
    assert_eq!(b.ok("route add -net 5.0.0.0 1.0.0.2"), "add net 5.0.0.0: gateway 1.0.0.2\n");
    assert!(b.no("route add -net 5.0.0.0 1.0.0.2").contains("use 'route change'"));
    assert_eq!(b.ok("route add -host 6.6.6.6 1.0.0.2"), "add host 6.6.6.6: gateway 1.0.0.2\n");
    let table = b.ok("route -n show");
    assert!(table.contains("default            1.0.0.2            UGS      pg0"), "{table}");
    assert!(b.ok("route get 5.5.5.5").contains("gateway: 1.0.0.2"));
    b.ok("route delete default");
    assert_eq!(b.ok("arp -d 1.0.0.2"), "1.0.0.2 (1.0.0.2) deleted\n");
}

#[test]
fn sysctl_reads_and_sets() {
    let b = Bench::new();
    assert_eq!(b.ok("sysctl -w net.inet.ip.forwarding=1"), "net.inet.ip.forwarding: 0 -> 1\n");
    assert_eq!(b.ok("sysctl -n net.inet.ip.forwarding"), "1\n");
    assert_eq!(b.ok("sysctl -w net.inet.udp.sendspace=200000"), "net.inet.udp.sendspace: 65507 -> 200000\n");
    assert_eq!(b.ok("sysctl -n net.inet.udp.sendspace net.inet.udp.maxdgram"), "200000\n65507\n");
    assert_eq!(b.ok("sysctl kern.locks kern.context"), "kern.locks: up\nkern.context: register\n");
    assert_eq!(b.ok("sysctl net.inet.icmp").lines().count(), 4);
    assert!(b.ok("sysctl -d net.inet.ip.ttl").contains("1 to 255, default 64"));
    let all = b.json("sysctl -a");
    assert_eq!((&all["net.inet.ip.ttl"], &all["kern.hostname"]), (&64.into(), &"h".into()));
}

#[test]
fn every_listing_is_json_when_asked_and_the_audit_is_exact() {
    let b = Bench::new();
    b.ok("show ledger on");
    for line in [
        "ifconfig -a",
        "ifconfig -l",
        "ip addr",
        "ip link",
        "ip route",
        "ip neigh",
        "arp -a",
        "route show",
        "sysctl -a",
        "netstat -s",
        "netstat -ss",
        "netstat -m",
        "netstat -i",
        "netstat -r",
        "netstat -an",
        "netstat -s -p tcp",
        "ss",
        "ss -tiepm",
        "ss -s",
        "show pools",
        "show locks",
        "show ports",
        "show drops",
        "show counters",
        "show ledger",
        "show sockets",
        "audit",
    ] {
        b.json(line);
        b.ok(line);
    }
    b.0.step();
    let audit = b.json("audit");
    assert_eq!((&audit["imbalance"], &audit["in"], &audit["out"]), (&0.into(), &1.into(), &1.into()));
    assert!(b.ok("netstat -s").contains("\t1 gratuitous announcement sent"));
    let help = b.ok("help");
    assert!(help.contains("sysctl") && help.lines().all(|line| line.chars().count() <= 80), "{help}");
}

#[test]
fn every_pool_is_shown_once_it_is_there() {
    let b = Bench::new();
    let names = || -> Vec<String> {
        b.json("show pools").as_array().unwrap().iter().map(|pool| pool["name"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(names(), ["h"]);
    let calls = b.0.shared_calls();
    let fd = calls.socket().unwrap();
    // The datagram is longer than a buffer of the pool, so it is sent from a large buffer, and
    // reassembled in another one.
    b.ok("sysctl -w net.inet.udp.recvspace=100000");
    calls.send_to(fd, &[7; 20_000], &"127.0.0.1:9".parse().unwrap()).unwrap();
    b.0.step();
    assert_eq!(names(), ["h", "h.large"]);
    assert_eq!(b.json("show pools")[1]["live"], 0);
    assert!(b.ok("netstat -m").lines().any(|line| line.starts_with("h.large ")), "{}", b.ok("netstat -m"));
}

/// Routes of a transparent proxy: addresses of other hosts, delivered locally.
#[test]
fn routes_of_type_local() {
    let b = Bench::new();
    b.ok("ip route add local 198.51.100.0/24 dev lo0");
    b.ok("ip route add local 203.0.113.7");
    let text = b.ok("ip route show table local");
    assert!(text.contains("local 198.51.100.0/24 dev lo0\n"), "{text}");
    assert!(text.contains("local 203.0.113.7 dev lo0\n"), "{text}");
    assert!(text.contains("local 1.0.0.1 dev pg0 proto kernel\n"), "{text}");
    assert!(b.ok("ip route get 198.51.100.9").starts_with("local 198.51.100.9 dev lo0"));
    assert!(b.no("ip route add local 192.0.2.0/24 via 1.0.0.2").contains("gateway"));
    b.ok("ip route del local 203.0.113.7");
    b.ok("ip route flush");
    let text = b.ok("ip route show table local");
    assert!(!text.contains("198.51.100") && text.contains("local 1.0.0.1"), "{text}");
}

/// Unsupported parameters are rejected. A parameter whose value is the fixed behavior is accepted.
#[test]
fn no_word_is_accepted_and_ignored() {
    let b = Bench::new();
    b.ok("ip addr add 10.1.0.1/24 dev pg0");
    b.ok("ip -6 addr add fd09::1/64 dev pg0");
    b.ok("ip route add 10.2.0.0/16 via 10.1.0.9");
    b.ok("ip -6 route add 2001:db8::/32 via fd09::9");
    for (line, says) in [
        ("ip route add 10.3.0.0/16 via 10.1.0.9 table 100", "table 100: not supported"),
        ("ip route add 10.3.0.0/16 via 10.1.0.9 metric 10", "metric 10: not supported"),
        ("ip route add 10.3.0.0/16 via 10.1.0.9 proto bgp", "proto bgp: not supported"),
        ("ip route add 10.3.0.0/16 via 10.1.0.9 scope link", "scope link: not supported"),
        ("ip route add 10.3.0.0/16 via 10.1.0.9 src 10.1.0.2", "src 10.1.0.2: not supported"),
        ("ip route add 10.3.0.0/16 via 10.1.0.9 onlink", "onlink: needs via GATEWAY and dev IF"),
        ("ip route add 10.3.0.0/16 src 10.1.0.1 nexthop via 10.1.0.9", "src: not supported here"),
        ("ip route add 10.3.0.0/16 dev pg0 nexthop via 10.1.0.9", "dev: not supported here"),
        ("ip route del 10.2.0.0/16 via 10.1.0.8", "there is no route to 10.2.0.0/16"),
        ("ip route del 10.2.0.0/16 table 7", "table 7: not supported"),
        ("ip -6 route add 2001:db9::/32 via fd09::9 metric 1024", "metric 1024: not supported"),
        ("ip -6 route add 2001:db9::/32 via fd09::9 src fd09::1", "src: not supported"),
        ("ip -6 route add 2001:db9::/32 via fd09::9 pref high", "pref high: not supported"),
        ("ip -6 route del 2001:db8::/32 via fd09::8", "there is no route to 2001:db8::/32"),
        ("ip -6 route del 2001:db8::/32 banana", "unknown word 'banana'"),
        ("ip addr add 10.4.0.1/24 brd 10.4.0.254 dev pg0", "broadcast"),
        ("ip addr add 10.4.0.1/24 scope link dev pg0", "scope link: not supported"),
        ("ip addr add 10.4.0.1/24 label pg0:1 dev pg0", "label pg0:1: not supported"),
        ("ip -6 addr add fd08::1/64 label x dev pg0", "unknown word 'label'"),
        ("ifconfig pg0 inet 10.4.0.1/24 broadcast 10.4.0.254 alias", "broadcast 10.4.0.254: not supported"),
        ("route delete 10.2.0.0/16 10.1.0.8", "not in table"),
        ("route -6 delete 2001:db8::/32 fd09::8", "not in table"),
        ("ip link add t9 type ipip local 10.1.0.1 remote 10.1.0.2 dev pg0", "dev: not supported"),
        ("ip link add t9 type ipip local 10.1.0.1 remote 10.1.0.2 tos 16", "tos 16: not supported"),
    ] {
        let said = b.no(line);
        let says = if says == "broadcast" { "brd 10.4.0.254: not supported" } else { says };
        assert!(said.contains(says), "{line}: {said}");
    }
    for line in [
        "ip route add 10.3.0.0/16 via 10.1.0.9 dev pg0 table main metric 0 proto static scope global src 10.1.0.1 onlink",
        "ip route add 10.5.0.0/16 dev pg0 proto boot scope link",
        "ip route del 10.3.0.0/16 via 10.1.0.9",
        "ip route del 10.2.0.0/16 dev pg0",
        "ip route del 10.5.0.0/16 table main",
        "ip -6 route add 2001:db9::/32 via fd09::9 table main metric 0 pref medium",
        "ip -6 route del 2001:db9::/32 via fd09::9",
        "ip -6 route del 2001:db8::/32 dev pg0",
        "ip addr add 10.4.0.1/24 brd + scope global label pg0 dev pg0",
        "ifconfig pg0 inet 10.6.0.1/24 broadcast 10.6.0.255 alias",
    ] {
        b.ok(line);
    }
}

/// Every iface that can be created at run time can be removed, with its addresses and routes, and
/// created again. The audit balances.
#[test]
fn ifaces_with_ports_are_destroyed() {
    let b = Bench::new();
    for round in 0..300 {
        b.ok("ifconfig null7 create inet 10.7.0.1/24 mtu 1400");
        b.ok("ip route add 10.8.0.0/16 via 10.7.0.9");
        if round == 0 {
            b.0.stack.poll(b.0.cx());
        }
        b.ok(if round % 2 == 0 { "ifconfig null7 destroy" } else { "ip link del null7" });
        assert!(!b.ok("ip route").contains("10.8.0.0") && !b.ok("ifconfig").contains("null7"), "{round}");
    }
    assert!(b.no("ifconfig null7").contains("null7"));
    b.ok("ifconfig null7 create");
    assert!(b.ok("ifconfig null7").contains("mtu 1500"), "as new");
    let audit = b.json("audit");
    assert_eq!(
        (&audit["imbalance"], &audit["ports"]["rx_imbalance"], &audit["ports"]["tx_imbalance"]),
        (&0.into(), &0.into(), &0.into()),
        "{audit}"
    );
    b.ok("ifconfig pg0 destroy");
    assert!(b.no("ifconfig pg0").contains("pg0"));
}

/// iproute2's options -br, -o and -s. With -o, each address is one line.
#[test]
fn ip_lists_briefly_in_one_line_and_with_counters() {
    let b = Bench::new();
    let mac = b.json("ip link show pg0")[0]["address"].as_str().unwrap().to_string();
    b.ok("ip addr add 2.0.0.1/24 dev pg0");
    b.ok("ip -6 addr add 2001:db8::1/64 dev pg0");
    assert_eq!(
        b.ok("ip -br link show pg0"),
        format!("{:<16} {:<14} {mac} <BROADCAST,MULTICAST,UP,LOWER_UP> \n", "pg0", "UP")
    );
    let brief = b.ok("ip -br addr show pg0");
    assert!(brief.starts_with(&format!("{:<16} {:<14} 1.0.0.1/8 2.0.0.1/24 ", "pg0", "UP")), "{brief}");
    assert!(brief.contains(" 2001:db8::1/64 ") && brief.lines().count() == 1, "{brief}");
    let link = b.ok("ip -o link show pg0");
    assert!(link.contains(&format!("state UP\\    link/ether {mac} brd ")) && link.lines().count() == 1, "{link}");
    let addrs = b.ok("ip -o -4 addr show pg0");
    assert_eq!(
        addrs.lines().nth(1).unwrap(),
        "2: pg0    inet 2.0.0.1/24 brd 2.0.0.255 scope global pg0\\       valid_lft forever preferred_lft forever"
    );
    assert_eq!(addrs.lines().count(), 2, "{addrs}");
    let counters = b.ok("ip -s link show pg0");
    let lines: Vec<Vec<&str>> = counters.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[2], ["RX:", "bytes", "packets", "errors", "dropped", "missed", "mcast"], "{counters}");
    assert_eq!(lines[5], ["0"; 6], "{counters}");
    assert_eq!(b.json("ip -s link show pg0")[0]["stats64"]["tx"]["packets"], 0);
    assert_eq!(b.ok("route -n"), b.ok("route show"));
}

#[test]
fn ss_filters_by_state_and_ends() {
    let b = Bench::new();
    let calls = b.0.calls();
    for port in [7, 80] {
        let fd = calls.stream_socket().unwrap();
        calls.bind(fd, std::net::SocketAddr::from(([1, 0, 0, 1], port))).unwrap();
        calls.listen(fd, 4).unwrap();
    }
    let fd = calls.socket().unwrap();
    calls.bind(fd, "0.0.0.0:7".parse().unwrap()).unwrap();
    let ports = |line: &str| -> Vec<u64> {
        b.json(line).as_array().unwrap().iter().map(|row| row["local_port"].as_u64().unwrap()).collect()
    };
    let sorted = |line: &str| {
        let mut ports = ports(line);
        ports.sort_unstable();
        ports
    };
    assert_eq!(sorted("ss state listening"), [7, 80]);
    assert_eq!(sorted("ss -u state closed"), [7]);
    assert_eq!(sorted("ss -a sport = :80"), [80]);
    assert_eq!(sorted("ss -ta sport != :80"), [7]);
    assert_eq!(sorted("ss -a src 1.0.0.0/8"), [7, 80]);
    assert_eq!(sorted("ss -a src 1.0.0.1:80 and sport :80"), [80]);
    assert_eq!(sorted("ss -a src :7"), [7, 7]);
    assert_eq!(sorted("ss -ta sport = :7 or sport = :80"), [7, 80]);
    assert_eq!(sorted("ss -ta not sport = :7"), [80]);
    assert_eq!(sorted("ss -ta ! ( sport = :7 || sport = :80 )"), [0; 0]);
    assert_eq!(sorted("ss -ta ( sport = :7 or sport = :80 ) and src 1.0.0.1:80"), [80]);
    assert_eq!(sorted("ss -ta src 9.9.9.9 sport = :7 or sport = :80"), [80]);
    assert_eq!(sorted("ss -ta (sport = :7 or sport = :80) (sport = :7)"), [7]);
    assert_eq!(sorted("ss -ta sport gt :7"), [80]);
    assert_eq!(sorted("ss -ta sport <= :7"), [7]);
    assert_eq!(sorted("ss -u state closed state listening"), [7]);
    assert_eq!(sorted("ss -t state closed state listening"), [7, 80]);
    assert_eq!(sorted("ss -t exclude listening"), [0; 0]);
    let quoted = run(&b.0, &b.1, &["ss", "-a", "sport = :80"], true).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&quoted).unwrap()[0]["local_port"], 80);
    for line in ["ss state established", "ss exclude all", "ss -a dst 9.9.9.9", "ss state connected"] {
        assert_eq!(ports(line), Vec::<u64>::new(), "{line}");
    }
    let asks = calls.stream_socket().unwrap();
    calls.set_option(asks, socket::Opt::NonBlocking(true)).unwrap();
    let _ = calls.connect(asks, std::net::SocketAddr::from(([1, 0, 0, 1], 80)));
    (0..4).for_each(|_| _ = b.0.step());
    assert_eq!(ports("ss dst 1.0.0.1:80").len(), 1);
    assert_eq!(sorted("ss state established src 1.0.0.1:80"), [80]);
    for (line, says) in [
        ("ss state estalished", "did you mean 'established'?"),
        ("ss dst 1.0.0.0/33", "an address such as"),
        ("ss sport = :99999", "0 to 65535"),
        ("ss stat established", "did you mean 'state'?"),
        ("ss sport = :7 or", "a condition such as"),
        ("ss ( sport = :7", "')'"),
        ("ss sport = :7 )", "unexpected word"),
        ("ss and sport = :7", "unknown word 'and'"),
        (&format!("ss {} sport = :7", "not ".repeat(100)), "more than 32 levels deep"),
    ] {
        assert!(b.no(line).contains(says), "{line}: {}", b.no(line));
    }
}

/// A command whose words are valid individually, but not together, changes nothing.
#[test]
fn a_rejected_ifconfig_changes_nothing() {
    let b = Bench::new();
    let before = b.ok("ifconfig pg0");
    for line in [
        "ifconfig pg0 down timout 5",
        "ifconfig pg0 down inet6 acept_rtadv",
        "ifconfig pg0 down inet 1.2.3",
        "ifconfig pg0 mtu 1400 inet 10.0.0.2/24 aliaz",
        "ifconfig pg0 inet 127.0.0.2/8",
        "ifconfig pg0 down create",
        "ifconfig pg0 destroy up",
        "ifconfig null9 create inet 10.0.0.300",
    ] {
        b.no(line);
        assert_eq!(b.ok("ifconfig pg0"), before, "{line}");
    }
    assert_eq!(b.ok("ifconfig -l"), "lo0 pg0\n");
    assert!(b.no("ifconfig pg0 inet 10.0.0.2/24 aliaz").contains("did you mean 'alias'?"));
    assert!(b.no("ifconfig pg0 inet6 acept_rtadv").contains("did you mean 'accept_rtadv'?"));
}

#[test]
fn options_of_arp_ndp_and_route_are_applied_or_rejected() {
    let b = Bench::new();
    b.ok("arp -s 1.0.0.2 12:23:34:45:56:00");
    assert!(b.ok("arp -n 1.0.0.2").contains("12:23:34:45:56:00"));
    assert_eq!(b.ok("arp -n -a"), b.ok("arp -a -n"));
    b.ok("arp -n -d 1.0.0.2");
    assert_eq!(b.no("arp -a x"), "unknown word 'x'; possible: -n");
    assert_eq!(b.no("arp"), "expected a host, -a, -s or -d after 'arp'");
    b.ok("route add 10.1.0.0 -prefixlen 16 1.0.0.2");
    assert!(b.ok("route get 10.1.2.3").contains("gateway: 1.0.0.2"));
    assert!(b.no("route -6 add 2001:db8:: -netmask ffff:: fd00::2").contains("-prefixlen N"));
    b.ok("route add -net 10.9.0.0/16 127.0.0.1 -blackhole");
    assert!(b.no("route add 10.8.0.0/16 -interface pg0 -reject").contains("exclude each other"));
    assert!(b.no("show ledger on off").contains("'off'"));
}

/// Each form of each command is selected when its words are used.
#[test]
fn every_form_can_be_reached() {
    use super::*;
    let all = |forms: &'static [HostForm<Up>]| grammar::unreachable(&forms.iter().collect::<Vec<_>>());
    for forms in [
        arp::Forms::ALL,
        six::NdpForms::ALL,
        route::Forms::ALL,
        show::Forms::ALL,
        dhclient::Forms::ALL,
        resolvectl::Forms::ALL,
        job::Forms::ALL,
    ] {
        assert_eq!(all(forms), [""; 0]);
    }
    assert_eq!(grammar::unreachable(&capture::FORMS.iter().collect::<Vec<_>>()), [""; 0]);
    assert_eq!(ifconfig::unreachable::<Up>(), [""; 0]);
    assert_eq!(crate::bridge::unreachable(), [""; 0]);
}

#[test]
fn every_read_only_sysctl_has_a_value() {
    let b = Bench::new();
    for (name, _) in node::sysctl::FIXED {
        let line = b.ok(&format!("sysctl {name}"));
        assert!(line.starts_with(&format!("{name}: ")) && !line.contains("null"), "{line}");
        assert!(b.no(&format!("sysctl {name}=1")).contains("read only"), "{name}");
    }
}
