use super::*;
use crate::config::{ConfigFile, HostConfig, read, to_toml};
use clock::{Clock, Duration, SimClock};
use lock::Up;
use port::Pairs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

const FULL: &str = "
[[host]]
name = 'r'
seed = 7
dns = ['9.9.9.9', '2620:fe::fe']
search = ['example.org']
burst = 16
isr = { maxqlimit = 100 }
[host.sysctl]
'net.inet.ip.forwarding' = 1
'net.inet.tcp.cc.algorithm' = 'newreno'
[[host.iface]]
port = 'null:n0'
addresses = ['10.0.0.1/24', '10.0.0.9/24', 'fd00::1/64']
mtu = 1400
[[host.iface]]
name = 'em1'
port = 'null:x'
mac = '02:00:00:00:00:05'
addresses = ['10.1.0.1/24']
up = false
[[host.iface]]
name = 'gre0'
tunnel = 'gre'
local = '10.0.0.1'
remote = '10.0.0.2'
key = 7
mtu = 1300
addresses = ['172.16.0.1/32']
peer = '172.16.0.2'
[[host.route]]
to = 'default'
via = '10.0.0.2'
[[host.route]]
to = '10.7.0.0/16'
dev = 'em1'
[[host.route]]
to = '2001:db8::/32'
via = 'fd00::2'
[[host.route]]
to = 'default'
via = 'fd00::3'
[[host.neighbor]]
addr = '10.0.0.2'
mac = '02:00:00:00:00:09'
[[host.neighbor]]
addr = 'fd00::2'
mac = '02:00:00:00:00:09'
dev = 'n0'
[[host.service]]
kind = 'echo'
";

/// A host on virtual time, with its clock.
struct Bench {
    host: Host<Up>,
    pairs: Pairs,
    clock: SimClock,
}

fn config(text: &str) -> HostConfig {
    read(text, "t.toml").unwrap_or_else(|why| panic!("{why}: {text}")).remove(0)
}

impl Bench {
    fn new(text: &str) -> Bench {
        let (pairs, clock) = (Pairs::new(), SimClock::new());
        let host = crate::build(&config(text), &pairs, Clock::sim(&clock)).unwrap();
        Bench { host, pairs, clock }
    }

    /// Returns the changes to `text`, in text.
    fn plan(&self, text: &str) -> Vec<String> {
        let plan = Plan::new(&self.host.running_config().config, &config(text));
        assert_eq!(plan.restart, [""; 0]);
        plan.changes.iter().map(Change::to_string).collect()
    }

    #[track_caller]
    fn change(&self, text: &str) -> Vec<String> {
        let changes = self.host.change_to(&config(text), &self.pairs).unwrap();
        changes.iter().map(Change::to_string).collect()
    }

    fn iface(&self, name: &str) -> IfaceId {
        self.host.stack.iface_named(name).unwrap().id
    }
}

#[test]
fn a_host_as_built_has_no_difference_to_its_file() {
    let bench = Bench::new(FULL);
    assert_eq!(bench.plan(FULL), [""; 0]);
    let text = bench.host.running_toml();
    assert_eq!(bench.plan(&text), [""; 0], "{text}");
    // A host that is built from the printed text prints the same text.
    assert_eq!(Bench::new(&text).host.running_toml(), text);
    assert_eq!(bench.host.running_config().other, [""; 0]);
}

#[test]
fn the_files_in_topo_are_printed_as_they_are_read() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../topo")).unwrap() {
        let path = entry.unwrap().path();
        let network = crate::config::load_network(&path).unwrap();
        let text = to_toml(&network);
        let again = crate::config::read_network(&text, "again").unwrap_or_else(|why| panic!("{why}\n{text}"));
        assert_eq!(format!("{network:?}"), format!("{again:?}"), "{}", path.display());
    }
}

/// Each kind of change, as (part of the file, its replacement, the changes).
const CHANGES: &[(&str, &str, &[&str])] = &[
    ("via = '10.0.0.2'", "via = '10.0.0.3'", &["~ route 0.0.0.0/0 via 10.0.0.2 dev n0 -> 0.0.0.0/0 via 10.0.0.3"]),
    (
        "[[host.route]]\nto = '10.7.0.0/16'\ndev = 'em1'\n",
        "[[host.route]]\nto = '10.8.0.0/16'\nvia = '10.0.0.4'\n",
        &["- route 10.7.0.0/16 dev em1", "+ route 10.8.0.0/16 via 10.0.0.4"],
    ),
    ("via = 'fd00::3'", "via = 'fd00::4'", &["~ route ::/0 via fd00::3 dev n0 -> ::/0 via fd00::4"]),
    ("[[host.route]]\nto = '2001:db8::/32'\nvia = 'fd00::2'\n", "", &["- route 2001:db8::/32 via fd00::2 dev n0"]),
    (
        "'10.0.0.9/24', 'fd00::1/64'",
        "'10.0.0.8/24', 'fd00::1/48', 'fd00::5/64'",
        &[
            "- address n0 10.0.0.9/24",
            "+ address n0 10.0.0.8/24",
            "~ address n0 fd00::1: /64 -> /48",
            "+ address n0 fd00::5/64",
        ],
    ),
    ("mtu = 1400", "mtu = 1450", &["~ iface n0 mtu: 1400 -> 1450"]),
    ("mtu = 1400", "", &["~ iface n0 mtu: 1400 -> default"]),
    ("mtu = 1300", "mtu = 1290", &["~ iface gre0 mtu: 1300 -> 1290"]),
    ("up = false", "", &["~ iface em1 up: false -> true"]),
    ("mtu = 1400", "mtu = 1400\nadvertise = true", &["~ iface n0 advertise: false -> true"]),
    (
        "'fd00::1/64'",
        "'fd00::1/64', 'auto', 'dhcp'",
        &["~ iface n0 auto: false -> true", "~ iface n0 dhcp: false -> true"],
    ),
    (
        "mac = '02:00:00:00:00:05'",
        "mac = '02:00:00:00:00:06'",
        &[
            "- iface em1 port null:x mac 02:00:00:00:00:05 addresses 10.1.0.1/24 up false",
            "+ iface em1 port null:x mac 02:00:00:00:00:06 addresses 10.1.0.1/24 up false",
            "+ route 10.7.0.0/16 dev em1",
        ],
    ),
    (
        "key = 7",
        "key = 8",
        &[
            "- iface gre0 addresses 172.16.0.1/32 mtu 1300 tunnel gre local 10.0.0.1 remote 10.0.0.2 key 7 peer 172.16.0.2",
            "+ iface gre0 addresses 172.16.0.1/32 mtu 1300 tunnel gre local 10.0.0.1 remote 10.0.0.2 key 8 peer 172.16.0.2",
        ],
    ),
    (
        "[[host.route]]\nto = 'default'\nvia = '10.0.0.2'",
        "[[host.iface]]\nport = 'null:n9'\naddresses = ['10.9.0.1/24']\n[[host.route]]\nto = 'default'\nvia = '10.9.0.2'",
        &[
            "+ iface n9 port null:n9 addresses 10.9.0.1/24",
            "~ route 0.0.0.0/0 via 10.0.0.2 dev n0 -> 0.0.0.0/0 via 10.9.0.2",
        ],
    ),
    (
        "addr = '10.0.0.2'\nmac = '02:00:00:00:00:09'",
        "addr = '10.0.0.2'\nmac = '02:00:00:00:00:0a'",
        &["+ neighbor 10.0.0.2 02:00:00:00:00:0a"],
    ),
    (
        "[[host.neighbor]]\naddr = 'fd00::2'\nmac = '02:00:00:00:00:09'\ndev = 'n0'\n",
        "",
        &["- neighbor fd00::2 02:00:00:00:00:09"],
    ),
    ("dns = ['9.9.9.9', '2620:fe::fe']", "dns = ['1.1.1.1']", &["~ dns: 9.9.9.9,2620:fe::fe -> 1.1.1.1"]),
    ("search = ['example.org']", "", &["~ search: example.org -> default"]),
    ("'net.inet.ip.forwarding' = 1", "", &["~ sysctl net.inet.ip.forwarding: 1 -> 0"]),
    ("'newreno'", "'cubic'", &["~ sysctl net.inet.tcp.cc.cubic: 0 -> 1"]),
];

#[test]
fn each_kind_of_change_is_applied_and_undone() {
    let bench = Bench::new(FULL);
    for (part, other, changes) in CHANGES {
        assert!(FULL.contains(part), "{part}");
        let changed = FULL.replace(part, other);
        assert_eq!(bench.plan(&changed), *changes, "{other}");
        assert_eq!(bench.change(&changed), *changes, "{other}");
        assert_eq!(bench.plan(&changed), [""; 0], "{other}: {}", bench.host.running_toml());
        bench.change(FULL);
        assert_eq!(bench.plan(FULL), [""; 0], "back from {other}");
    }
    assert!(bench.host.audit().imbalance() == 0);
}

#[test]
fn a_failed_change_undoes_all() {
    let bench = Bench::new(FULL);
    let before = bench.host.running_toml();
    for (part, other, why) in [
        ("'null:n0'", "'pcap:/nonexistent/a.pcap'\nname = 'n0'", "No such file"),
        // The gateway is not on any link, which is known only when the changes are applied.
        ("via = '10.0.0.2'", "via = '10.99.0.2'", "10.99.0.2 is not on the link of an interface"),
        ("'10.1.0.1/24'", "'10.0.0.9/24'", "n0 already has 10.0.0.9"),
        ("mtu = 1400", "mtu = 1400\ntso4 = true", "does not support tso4"),
    ] {
        // Changes of every kind come before the one that fails.
        let text = FULL.replace(part, other).replace("'newreno'", "'cubic'").replace("key = 7", "key = 9");
        let text = text
            .replace("to = '10.7.0.0/16'", "to = '10.6.0.0/16'")
            .replace("'10.0.0.9/24', ", "'10.0.0.9/24', '10.0.0.7/24',");
        let error = bench.host.change_to(&config(&text), &bench.pairs).unwrap_err();
        let ReloadError::Change { left, .. } = &error else { panic!("{other}: {error}") };
        assert!(left.is_empty() && error.to_string().contains(why), "{other}: {error}");
        assert_eq!(bench.host.running_toml(), before, "{other}");
    }
}

#[test]
fn what_needs_a_restart_is_named_and_nothing_changes() {
    let bench = Bench::new(FULL);
    let before = bench.host.running_toml();
    for (part, other, why) in [
        ("burst = 16", "burst = 17", "burst cannot change from 16 to 17"),
        ("seed = 7", "", "seed cannot change from 7 to the default"),
        ("seed = 7", "seed = 7\nlocks = 'light'", "locks cannot change from 'up' to 'light'"),
        ("maxqlimit = 100", "maxqlimit = 200", "isr.maxqlimit cannot change from 100 to 200"),
        ("kind = 'echo'", "kind = 'discard'", "services cannot change from echo:7 to discard:9"),
        ("seed = 7", "seed = 7\npool = { buffers = 100 }", "pool.buffers cannot change from 4096 to 100"),
        ("seed = 7", "seed = 7\nfpm = { listen = '127.0.0.1:1' }", "fpm.listen cannot change"),
        (
            "seed = 7",
            "seed = 7\nmirror = { netns = 'other' }",
            "mirror.netns cannot change from 'dataplane' to 'other'",
        ),
        ("mtu = 1400", "mtu = 1400\nmirror = 'm0'", "only addresses and settings of an iface with a mirror can change"),
        (
            "[[host.service]]",
            "[[host.iface]]\nport = 'null:more'\nmirror = 'm0'\n[[host.service]]",
            "iface more: an iface with a mirror cannot be added",
        ),
        ("'newreno'", "'newreno'\n'net.isr.dispatch' = 'direct'", "sysctl net.isr.dispatch is different"),
    ] {
        let text = FULL.replace(part, other).replace("mtu = 1400", "mtu = 1450");
        let error = bench.host.change_to(&config(&text), &bench.pairs).unwrap_err();
        assert!(
            error.to_string().contains(why) && error.to_string().contains("restart the program"),
            "{other}: {error}"
        );
        assert_eq!(bench.host.running_toml(), before, "{other}");
    }
}

/// An IPv4 route with an IPv6 gateway (RFC 8950) is applied, and saved as it was read. A default
/// route through one is IPv6 in a file.
#[test]
fn ipv4_routes_with_ipv6_gateways_are_saved() {
    let text = "[[host]]\nname = \"r\"\n[[host.iface]]\nport = \"null:n0\"\naddresses = [\"10.0.0.1/24\", \"fd00::1/64\"]\n\
                [[host.route]]\nto = \"20.0.0.0/8\"\nvia = \"fe80::2\"\ndev = \"n0\"\n";
    let bench = Bench::new(text);
    let (host, cx) = (&bench.host, bench.host.cx());
    let via = inet::route::Via::Gateway6(bench.iface("n0"), "fe80::2".parse().unwrap());
    assert_eq!(host.stack.route_at(cx, "20.0.0.0/8".parse().unwrap()), Some(via));
    let running = host.running_toml();
    assert!(running.contains("to = \"20.0.0.0/8\"\nvia = \"fe80::2\"\ndev = \"n0\""), "{running}");
    assert_eq!(config(&running).routes, config(text).routes);
    assert!(bench.change(text).is_empty());
    host.stack.add_route(cx, inet::fib::Prefix::DEFAULT, via).unwrap();
    assert_eq!(host.running_config().other, ["ip -4 route add default via inet6 fe80::2 dev n0"]);
    let removed = bench.change(&text[..text.find("[[host.route]]").unwrap()]);
    assert!(removed.contains(&"- route 20.0.0.0/8 via fe80::2 dev n0".to_owned()), "{removed:?}");
    assert_eq!(host.stack.route_at(cx, "20.0.0.0/8".parse().unwrap()), None);
}

/// Changes by commands are part of the running configuration, and what a file has no keys for is
/// listed apart.
#[test]
fn changes_by_commands_are_seen() {
    let bench = Bench::new(FULL);
    let (host, cx) = (&bench.host, bench.host.cx());
    host.add_addr("n0", IpAddr::from([10, 0, 0, 77]), 24).unwrap();
    host.remove_addr("n0", IpAddr::from([10, 0, 0, 9])).unwrap();
    host.stack.set_mtu(bench.iface("n0"), 1280);
    host.stack.set_up(cx, bench.iface("em1"), true);
    let _ = host.stack.sysctls.set("net.inet.ip.ttl", 33);
    host.add_port(&IfaceConfig { name: Some("em9".into()), ..IfaceConfig::on("null:z") }, &bench.pairs).unwrap();
    host.remove_port(bench.iface("em1"));
    host.stack.add_route(cx, "10.5.0.0/16".parse().unwrap(), inet::route::Via::Blackhole).unwrap();
    host.add_addr("lo0", IpAddr::from([10, 255, 0, 1]), 32).unwrap();
    let running = host.running_config();
    assert_eq!(running.other, ["ip addr add 10.255.0.1/32 dev lo0", "ip route add blackhole 10.5.0.0/16"]);
    let text = host.running_toml();
    assert!(text.contains("# not in this file, since it has no keys for it: ip route add blackhole"), "{text}");
    assert_eq!(
        bench.change(FULL),
        [
            "- address n0 10.0.0.77/24",
            "- iface em9 port null:z",
            "~ sysctl net.inet.ip.ttl: 33 -> 64",
            "~ iface n0 mtu: 1280 -> 1400",
            "+ iface em1 port null:x mac 02:00:00:00:00:05 addresses 10.1.0.1/24 up false",
            "+ address n0 10.0.0.9/24",
            "+ route 10.7.0.0/16 dev em1",
        ]
    );
    assert_eq!(bench.plan(FULL), [""; 0]);
    assert_eq!(host.running_config().other, running.other, "a reload leaves these alone");
}

/// A directory with the file of a host.
struct Place(PathBuf);

impl Place {
    fn new(name: &str, text: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("linerate-reload-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("r.toml"), text).unwrap();
        Place(dir)
    }

    fn file(&self) -> PathBuf {
        self.0.join("r.toml")
    }

    fn start(&self) -> Bench {
        let file = ConfigFile::load(&self.file(), &[]).unwrap();
        let (pairs, clock) = (Pairs::new(), SimClock::new());
        let host = crate::build(&file.started().hosts[0], &pairs, Clock::sim(&clock)).unwrap();
        host.set_file(Arc::new(file));
        Bench { host, pairs, clock }
    }

    fn put(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A route or neighbor without `dev` moves with the address of its link.
#[test]
fn routes_without_iface_move_with_the_link() {
    let text = "[[host]]\n[[host.iface]]\nport = 'null:n0'\naddresses = ['10.0.0.1/24']\n[[host.iface]]\nport = 'null:n1'\n\
                addresses = ['10.1.0.1/24']\n[[host.route]]\nto = 'default'\nvia = '10.0.0.2'\n[[host.neighbor]]\n\
                addr = '10.0.0.2'\nmac = '02:00:00:00:00:09'\n";
    let bench = Bench::new(text);
    let moved = text.replace("10.0.0.1/24", "x").replace("10.1.0.1/24", "10.0.0.1/24").replace("'x'", "'10.1.0.1/24'");
    bench.change(&moved);
    let cx = bench.host.cx();
    let n1 = bench.iface("n1");
    assert_eq!(bench.host.stack.route_at(cx, inet::fib::Prefix::DEFAULT).and_then(|via| via.iface()), Some(n1));
    assert_eq!(bench.host.stack.neighbors(cx).iter().map(|of| of.iface).collect::<Vec<_>>(), [n1]);
    assert_eq!(bench.plan(&moved), [""; 0]);
}

/// Neighbors of an iface that is set down are set again, as in a host that is built so.
#[test]
fn an_iface_that_is_set_down_keeps_its_static_neighbors() {
    let bench = Bench::new(FULL);
    let down = FULL.replace("mtu = 1400", "mtu = 1400\nup = false");
    bench.change(&down);
    assert_eq!(bench.plan(&down), [""; 0]);
    assert_eq!(bench.host.running_toml(), Bench::new(&down).host.running_toml());
    bench.change(FULL);
    assert_eq!(bench.plan(FULL), [""; 0]);
}

/// A smaller path MTU of a tunnel and router advertisements that are accepted by the sysctl are no
/// differences to the file.
#[test]
fn what_the_stack_changes_by_itself_is_no_difference() {
    let text =
        FULL.replace("mtu = 1300", "").replace("'net.inet.ip.forwarding' = 1", "'net.inet6.ip6.accept_rtadv' = 1");
    let bench = Bench::new(&text);
    assert_eq!(bench.plan(&text), [""; 0]);
    bench.host.stack.set_mtu(bench.iface("gre0"), 700); // as after a report of a smaller path MTU
    assert_eq!(bench.plan(&text), [""; 0]);
    bench.change(&text);
    assert_eq!(bench.plan(&text), [""; 0]);
    let cx = bench.host.cx();
    bench.host.stack.set_tunnel_mtu(cx, bench.iface("gre0"), 1111);
    assert!(bench.host.running_toml().contains("mtu = 1111"));
}

/// An address that the iface has by other means is no obstacle, and what a failed reload has added
/// is removed.
#[test]
fn addresses_that_exist_are_taken_over() {
    let bench = Bench::new(FULL);
    let cx = bench.host.cx();
    let linked = FULL.replace("'fd00::1/64'", "'fd00::1/64', 'fe80::5/64'");
    let failing = linked.replace("via = '10.0.0.2'", "via = '10.99.0.2'");
    bench.host.change_to(&config(&failing), &bench.pairs).unwrap_err();
    let n0 = bench.host.stack.iface_named("n0").unwrap();
    assert!(!n0.addrs6(cx).iter().any(|own| own.addr == "fe80::5".parse::<std::net::Ipv6Addr>().unwrap()));
    bench.host.add_addr("n0", "fe80::5".parse().unwrap(), 64).unwrap();
    bench.change(&linked);
    assert_eq!(bench.plan(&linked), [""; 0]);
}

#[test]
fn an_end_of_a_link_is_not_replaced() {
    let text = "[[host]]\nname = 'a'\n[[host.iface]]\nport = 'pair:x'\naddresses = ['10.0.0.1/24']\n\
                [[host]]\nname = 'b'\n[[host.iface]]\nport = 'pair:x'\n";
    let bench = Bench::new(text);
    bench.change(&text.replace("10.0.0.1/24", "10.0.0.2/24"));
    let mac = text.replacen("port = 'pair:x'", "port = 'pair:x'\nmac = '02:00:00:00:00:01'", 1);
    let error = bench.host.change_to(&config(&mac), &bench.pairs).unwrap_err().to_string();
    assert!(error.contains("iface x: only addresses and settings of pair:x can change"), "{error}");
    let gone = text.replace("'pair:x'", "'pair:y'").replace("10.0.0.1/24", "10.0.0.9/24");
    let changes = bench.change(&gone);
    assert_eq!(changes, ["+ iface y port pair:y addresses 10.0.0.9/24", "- iface x port pair:x addresses 10.0.0.2/24"]);
}

const TWO: &str = "[[host]]\nname = 'r'\n[[host.iface]]\nport = 'null:n0'\naddresses = ['10.0.0.1/24']\n\
                   [[host]]\nname = 'other'\ncontrol = '/tmp/other.sock'\n[[host.iface]]\nport = 'null:n0'\n";

#[test]
fn a_file_is_reloaded_or_nothing_changes() {
    let place = Place::new("file", TWO);
    let bench = place.start();
    assert!(bench.host.reload(&bench.pairs).unwrap().is_empty());
    place.put(&TWO.replace("'10.0.0.1/24'", "'10.0.0.1/24', '10.0.0.2/24'"));
    assert_eq!(bench.host.planned_reload().unwrap().changes.len(), 1);
    assert_eq!(bench.host.reload(&bench.pairs).unwrap()[0].to_string(), "+ address n0 10.0.0.2/24");
    let running = bench.host.running_toml();
    for (text, why) in [
        // An error in line 900 of a file that would change much.
        (format!("{}{}bust = 0\n", TWO.replace("10.0.0.1/24", "10.0.0.5/16"), "#\n".repeat(889)), "r.toml:900: "),
        (String::new(), "no [[host]] table"),
        (
            TWO.replace("[[host]]\nname = 'other'", "[[host]]\nname = 'third'"),
            "host third was added; host other was removed",
        ),
        (TWO.replace("name = 'r'", "name = 'r'\nlocks = 'light'"), "locks cannot change"),
        ("[[host]\n".to_string(), "invalid TOML"),
    ] {
        place.put(&text);
        let error = bench.host.reload(&bench.pairs).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
        assert_eq!(bench.host.running_toml(), running, "{why}");
    }
    std::fs::remove_file(place.file()).unwrap();
    assert!(bench.host.reload(&bench.pairs).unwrap_err().to_string().contains("No such file"));
    let without = Bench::new(TWO);
    assert_eq!(without.host.reload(&without.pairs).unwrap_err(), ReloadError::NoFile);
}

#[test]
fn the_running_configuration_is_saved() {
    let place = Place::new("save", TWO);
    let bench = place.start();
    bench.host.add_addr("n0", IpAddr::from([10, 0, 0, 2]), 24).unwrap();
    assert_eq!(bench.host.save(None).unwrap(), (place.file(), Vec::new()));
    assert_eq!(place.names(), ["r.toml", "r.toml.1"]);
    assert_eq!(std::fs::read_to_string(place.0.join("r.toml.1")).unwrap(), TWO);
    assert!(bench.host.reload(&bench.pairs).unwrap().is_empty(), "{}", place.text());
    let text = place.text();
    assert!(text.contains("name = \"other\"\ncontrol = \"/tmp/other.sock\"\n"), "{text}");
    assert!(!text.contains("locks") && text.contains("addresses = [\"10.0.0.1/24\", \"10.0.0.2/24\"]"), "{text}");
    let elsewhere = place.0.join("copy");
    bench.host.save(Some(&elsewhere)).unwrap();
    assert_eq!(std::fs::read_to_string(elsewhere).unwrap(), bench.host.running_toml());
    bench.host.save(Some(&place.file())).unwrap();
    assert!(place.text().contains("other.sock"), "the own file keeps its other hosts");
    assert!(bench.host.save(Some(&place.0)).unwrap_err().to_string().contains("not a regular file"));
    // Neither a file that is no longer valid nor one that cannot be written is replaced.
    place.put("[[host]");
    assert!(bench.host.save(None).unwrap_err().to_string().contains("invalid TOML"));
    assert_eq!(place.text(), "[[host]");
    place.put(TWO);
    std::fs::create_dir(place.0.join("r.toml.new")).unwrap();
    let error = bench.host.save(None).unwrap_err().to_string();
    assert!(error.contains("r.toml") && error.ends_with("the file was not changed"), "{error}");
    assert_eq!(place.text(), TWO);
}

/// The metrics are those of the process: they are shown and saved, and a change needs a restart.
#[test]
fn metrics_are_saved_and_cannot_change() {
    let text = format!("[metrics]\nlisten = \"127.0.0.1:9273\"\n\n{TWO}");
    let place = Place::new("metrics", &text);
    let bench = place.start();
    let head = "[metrics]\nlisten = \"127.0.0.1:9273\"\n\n[[host]]\n";
    assert!(bench.host.running_toml().starts_with(head), "{}", bench.host.running_toml());
    bench.host.save(None).unwrap();
    assert!(place.text().starts_with(head), "{}", place.text());
    for (to, why) in [
        (text.replace("9273", "9274"), "metrics.listen cannot change from '127.0.0.1:9273' to '127.0.0.1:9274'"),
        (TWO.to_string(), "metrics.listen cannot change from '127.0.0.1:9273' to the default"),
        (text.replace("9273\"", "9273\"\nseries_max = 5"), "metrics.series_max cannot change from 10000 to 5"),
    ] {
        place.put(&to.replace("10.0.0.1/24", "10.0.0.5/24"));
        let error = bench.host.reload(&bench.pairs).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("restart the program"), "{error}");
    }
    assert!(bench.host.running_toml().contains("10.0.0.1/24"), "nothing was changed");
}

#[test]
fn an_unconfirmed_configuration_goes_back_in_time() {
    let place = Place::new("confirm", TWO);
    let bench = place.start();
    let (host, pairs) = (&bench.host, &bench.pairs);
    assert_eq!(host.commit(), Err(ReloadError::NothingToConfirm));
    assert_eq!(host.commit_confirmed(pairs, Duration::from_secs(60)).unwrap_err(), ReloadError::NothingToChange);
    let before = host.running_toml();
    let changed = TWO.replace("10.0.0.1/24", "10.0.0.1/25");
    place.put(&changed);
    assert_eq!(host.commit_confirmed(pairs, Duration::from_secs(60)).unwrap().len(), 1);
    assert_eq!(host.reload(pairs).unwrap_err(), ReloadError::Unconfirmed);
    bench.clock.advance(Duration::from_millis(59_999));
    assert!(host.revert_unconfirmed(pairs).is_empty());
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(host.revert_unconfirmed(pairs).len(), 2);
    assert_eq!(host.running_toml(), before);
    assert_eq!(host.commit(), Err(ReloadError::NothingToConfirm));
    host.commit_confirmed(pairs, Duration::from_secs(60)).unwrap();
    host.commit().unwrap();
    bench.clock.advance(Duration::from_secs(61));
    assert!(host.revert_unconfirmed(pairs).is_empty() && host.reload(pairs).unwrap().is_empty());
}
