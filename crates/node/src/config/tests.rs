use super::*;
use crate::fuzz;
use bridge::StpVersion;
use wire::L4Port;

fn fault(text: &str) -> String {
    read(text, "t.toml").unwrap_err().to_string()
}

fn one(body: &str) -> HostConfig {
    read(&format!("[[host]]\n{body}"), "t.toml").unwrap().remove(0)
}

#[test]
fn the_examples_in_topo_are_valid() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topo");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        load_network(&path).unwrap_or_else(|error| panic!("{error}"));
        seen += 1;
    }
    assert!(seen >= 3);
}

#[test]
fn a_tunnel_is_an_iface_without_a_port() {
    let text = "[[host.iface]]\nport = 'null:pg0'\naddresses = ['1.0.0.1/24']\n[[host.iface]]\nname = 'gre0'\n\
                tunnel = 'gre'\nlocal = '1.0.0.1'\nremote = '1.0.0.2'\nkey = 7\nsequence = true\nmtu = 1400\n\
                addresses = ['172.16.0.1/32']\npeer = '172.16.0.2'\n[[host.iface]]\nname = 'v0'\ntunnel = 'vxlan'\n\
                vni = 42\nlocal = '1.0.0.1'\nremote = '1.0.0.2'\nttl = 9\naddresses = ['172.17.0.1/24']\n";
    let config = one(text);
    let clock = clock::Clock::sim(&clock::SimClock::new());
    let host: crate::Host<lock::Up> = crate::build(&config, &port::Pairs::new(), clock).unwrap();
    let (stack, cx) = (&host.stack, host.cx());
    let (gre, vxlan) = (stack.iface_named("gre0").unwrap(), stack.iface_named("v0").unwrap());
    let set = stack.tunnel(cx, gre.id).unwrap();
    assert_eq!((set.key, set.sequence, set.is_whole(), gre.mtu()), (Some(7), true, true, 1400));
    assert_eq!(stack.peer(cx, gre.id, Ipv4Addr::new(172, 16, 0, 1)), Some(Ipv4Addr::new(172, 16, 0, 2)));
    let set = stack.tunnel(cx, vxlan.id).unwrap();
    assert_eq!((set.vni, set.ttl, vxlan.mtu()), (42, Some(9), 1450));
    for (body, says) in [
        ("[[host.iface]]\ntunnel = 'gif'\n", "a tunnel needs a name"),
        ("[[host.iface]]\nname = 'a'\n", "an iface has no port and no tunnel"),
        ("[[host.iface]]\nname = 'a'\ntunnel = 'gif'\nport = 'null:x'\n", "an iface has both port and tunnel"),
        ("[[host.iface]]\nname = 'a'\ntunnel = 'sit'\n", "expected gif, gre, etherip or vxlan"),
        ("[[host.iface]]\nname = 'a'\ntunnel = 'vxlan'\nvni = 16777216\n", "expected a number from 0 to 16777215"),
    ] {
        assert!(fault(&format!("[[host]]\n{body}")).contains(says), "{}", fault(&format!("[[host]]\n{body}")));
    }
}

#[test]
fn every_key_sets_its_field() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../topo/router.toml")).unwrap();
    let host = read(&text, "router.toml").unwrap().remove(0);
    assert_eq!((host.name.as_str(), host.burst, host.seed, host.pool_buffers), ("router", 32, Some(1), 8192));
    assert_eq!((host.context, host.clock, host.pool_kind), (How::Register, Strategy::TscScaled, Kind::Stack));
    let iface = &host.ifaces[0];
    assert_eq!(iface.addresses, [IfaceAddr { addr: Ipv4Addr::new(1, 0, 0, 1), len: 8 }]);
    assert_eq!((iface.mtu, iface.ip4csum, iface.udp4csum, iface.rxcsum), (Some(9000), true, Some(true), Some(true)));
    assert_eq!(host.ifaces[1].mac, Some("b2:00:00:00:00:01".parse().unwrap()));
    let via = Some(Ipv4Addr::new(2, 0, 0, 2));
    assert_eq!(host.routes, [RouteConfig { via, ..RouteConfig::default() }]);
    assert_eq!(host.neighbors[0].dev.as_deref(), Some("pg1"));
    assert_eq!(host.sysctl["net.inet.ip.forwarding"], 1);
}

#[test]
fn static_neighbors_have_addresses_of_both_families() {
    let neighbors = |addr: &str, dev: &str| {
        let iface = "[[host.iface]]\nport = 'null:n0'\naddresses = ['10.0.0.1/24', 'fd00::1/64']\n";
        let neighbor = format!("[[host.neighbor]]\naddr = '{addr}'\nmac = '02:00:00:00:00:09'\n{dev}\n");
        let hosts = read(&format!("[[host]]\n{iface}{neighbor}"), "host.toml").map_err(|why| why.to_string())?;
        let host = crate::build::<lock::Up>(&hosts[0], &port::Pairs::new(), clock::Clock::live(Strategy::TscScaled));
        let host = host.map_err(|why| why.to_string())?;
        Ok::<_, String>((host.stack.neighbors(host.cx()).len(), host.stack.neighbors6(host.cx()).len()))
    };
    assert_eq!([neighbors("10.0.0.9", ""), neighbors("fd00::9", "dev = 'n0'")], [Ok((1, 0)), Ok((0, 1))]);
    let why = neighbors("fd00::9", "").unwrap_err();
    assert!(why.contains("neighbor fd00::9") && why.contains("'dev'"), "{why}");
    for addr in ["ff02::1", "224.0.0.1", "255.255.255.255", "::", "fd00::9/64", "em9"] {
        let why = neighbors(addr, "dev = 'n0'").unwrap_err();
        assert!(why.contains("host.toml:") && why.contains("addr"), "{addr}: {why}");
    }
}

#[test]
fn sysctls_may_be_written_without_quotes() {
    assert_eq!(one("[host.sysctl]\nnet.inet.ip.ttl = 32\n").sysctl["net.inet.ip.ttl"], 32);
    assert_eq!(one("[host.sysctl]\n\"net.inet.ip.forwarding\" = true\n").sysctl["net.inet.ip.forwarding"], 1);
}

#[test]
fn services_have_default_ports() {
    let host = one("[[host.service]]\nkind = \"discard\"\n");
    assert_eq!(host.services, [ServiceConfig { kind: ServiceKind::Discard, port: L4Port(9) }]);
    assert_eq!("echo:7007".parse(), Ok(ServiceConfig { kind: ServiceKind::Echo, port: L4Port(7007) }));
    assert!("echo:0".parse::<ServiceConfig>().is_err());
    assert!("chargen".parse::<ServiceConfig>().unwrap_err().contains("one of echo, discard, "));
}

#[test]
fn errors_give_file_line_and_nearest_key() {
    for (text, starts, says) in [
        ("[[host]]\nname = \"a\"\nlokcs = \"up\"\n", "t.toml:3: ", "did you mean 'locks'?"),
        ("[[hots]]\n", "t.toml:1: ", "did you mean 'host'?"),
        ("[[host]]\nlocks = \"none\"\n", "t.toml:2: ", "expected up, light or heavy"),
        ("[[host]]\nburst = 257\n", "t.toml:2: ", "expected a number from 1 to 256"),
        ("[[host]]\nburst = \"32\"\n", "t.toml:2: ", "expected a number from 1 to 256"),
        ("[[host]]\npool = { knid = \"zone\" }\n", "t.toml:2: ", "did you mean 'pool.kind'?"),
        ("[[host]]\n[[host.iface]]\nport = \"tpa:x\"\n", "t.toml:3: ", "did you mean 'tap'?"),
        ("[[host]]\n[[host.iface]]\nprot = \"tap:x\"\n", "t.toml:3: ", "did you mean 'port'?"),
        ("[[host]]\n[[host.iface]]\nport = \"null:x\"\naddresses = [\"1.2.3.4\"]\n", "t.toml:4: ", "10.0.0.1/24"),
        (
            "[[host]]\n[[host.iface]]\nport = \"null:x\"\naddresses = [\"224.0.0.1/8\"]\n",
            "t.toml:4: ",
            "a unicast address of a host",
        ),
        ("[[host]]\n[host.sysctl]\n\"net.inet.ip.fowarding\" = 1\n", "t.toml:3: ", "net.inet.ip.forwarding"),
        ("[[host]]\n[host.sysctl]\n\"net.inet.ip.ttl\" = 256\n", "t.toml:3: ", "a number from 1 to 255"),
        ("[[host]]\n[[host.route]]\nto = \"default\"\n", "t.toml:2: ", "needs 'to', and 'via' or 'dev'"),
        ("[[host]]\n[[host.service]]\nport = 7\n", "t.toml:2: ", "needs 'kind'"),
        ("[[host]]\nname = \"a\"\n[[host]]\nname = \"a\"\n", "t.toml:3: ", "two hosts called 'a'"),
        ("[[host]]\nname = \"../a\"\n", "t.toml:2: ", "expected a name"),
        (
            "[[host]]\n[[host.iface]]\nport = \"null:x\"\n[[host.iface]]\nport = \"null:x\"\n",
            "t.toml:1: ",
            "two ifaces",
        ),
        ("[[host]\n", "t.toml:1: ", "invalid TOML"),
        ("host = 3\n", "t.toml:1: ", "expected [[host]] tables"),
        ("", "t.toml: ", "no [[host]]"),
    ] {
        let fault = fault(text);
        assert!(fault.starts_with(starts) && fault.contains(says), "{text:?} gave {fault:?}");
        assert!(!fault.contains('\n'));
    }
}

#[test]
fn up_locks_reject_a_second_thread() {
    let fault = fault("[[host]]\nname = \"a\"\nlocks = \"up\"\nthreads = 2\n");
    assert!(fault.contains("threads = 2 needs locks = 'light' or 'heavy'"), "{fault}");
    assert_eq!(one("locks = \"light\"\nthreads = 2\n").threads, 2);
}

#[test]
fn up_locks_reject_a_context_without_effect() {
    for context in ["inline", "call"] {
        let fault = fault(&format!("[[host]]\nname = \"a\"\ncontext = \"{context}\"\n"));
        let says = format!("host a: context = '{context}' has no effect with locks = 'up'");
        assert!(fault.contains(&says) && fault.contains("choose locks = 'light' or 'heavy'"), "{fault}");
        for locks in ["light", "heavy"] {
            assert_eq!(one(&format!("locks = \"{locks}\"\ncontext = \"{context}\"\n")).context.to_string(), context);
        }
    }
    assert_eq!(one("locks = \"up\"\ncontext = \"register\"\n").context, How::Register);
}

#[test]
fn flags_and_file_configure_the_same() {
    let mut flags = HostConfig { name: "host0".to_string(), ..HostConfig::default() };
    flags.ifaces.push(IfaceConfig::default());
    flags.set_iface("port", "null:x").unwrap();
    flags.set_iface("addresses", "10.0.0.1/24").unwrap();
    flags.set("pool.kind", "zone").unwrap();
    flags.set("net.inet.ip.forwarding", "1").unwrap();
    flags.set_route("default,10.0.0.2").unwrap();
    let file = one("pool = { kind = \"zone\" }\n[[host.iface]]\nport = \"null:x\"\naddresses = [\"10.0.0.1/24\"]\n\
         [[host.route]]\nto = \"default\"\nvia = \"10.0.0.2\"\n[host.sysctl]\n\"net.inet.ip.forwarding\" = 1\n");
    assert_eq!(format!("{flags:?}"), format!("{file:?}"));
    assert!(flags.set("pool.knid", "zone").unwrap_err().contains("did you mean 'pool.kind'?"));
    assert!(flags.set("net.inet.ip.tll", "3").unwrap_err().contains("net.inet.ip.ttl"));
    assert!(HostConfig::default().set_iface("mtu", "1500").unwrap_err().contains("give --port first"));
}

#[test]
fn the_corpus_holds() {
    let dir = format!("{}/../../fuzz/corpus/node_config", env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(dir).unwrap() {
        let seed = std::fs::read(entry.unwrap().path()).unwrap();
        fuzz::config(&seed);
        for cut in (0..seed.len()).step_by(7) {
            fuzz::config(&seed[..cut]);
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 64, ..Default::default() })]
    #[test]
    fn arbitrary_text_is_no_configuration_and_no_panic(text in "\\PC{0,200}") {
        fuzz::config(text.as_bytes());
    }
}

#[test]
fn switches_are_parsed_and_their_errors_reported() {
    let host = "[[host]]\nname = 'a'\n[[host.iface]]\nport = 'pair:a'\nname = 'eth0'\n";
    let of = |switch: &str| read_network(&format!("{host}[[switch]]\nname = 's'\n{switch}"), "t.toml");
    let good =
        of("ports = ['pair:a', 'null:n']\nstp = 'rstp'\npriority = 4096\ncommands = ['ifconfig s edge a']\nmac = '02:00:00:00:00:01'")
            .unwrap();
    let switch = &good.switches[0];
    assert_eq!((switch.ports.len(), switch.stp), (2, Some(StpVersion::Rstp)));
    assert_eq!((&switch.commands[..], switch.priority), (&["ifconfig s edge a".to_string()][..], Some(4096)));
    for (switch, line, what) in [
        ("ports = ['pair:a']", 6, "switch s: ports: at least 2"),
        ("ports = ['pair:a', 'pair:b']", 8, "host s: b: pair:b: the other end is missing"),
        ("ports = ['pair:a', 'null:a']", 6, "two ports called 'a'"),
        ("ports = ['pair:a', 'tapp:b']", 6, "switch s: "),
        ("ports = ['pair:a', 'null:n']\npriority = 65536", 9, "expected a number from 0 to 61440"),
        ("ports = ['pair:a', 7]", 8, "expected a list of ports"),
        ("ports = ['pair:a', 'null:n']\nstp = 'mstp'", 9, "expected rstp or stp"),
        ("ports = ['pair:a', 'null:n']\nmac = '01:00:00:00:00:01'", 9, "expected a unicast MAC address"),
        ("port = ['pair:a', 'null:n']", 8, "unknown key 'port'"),
    ] {
        let fault = of(switch).unwrap_err();
        assert!(fault.what.contains(what), "{switch}: {fault}");
        assert_eq!(fault.line, line, "{switch}: {fault}");
    }
    let two = format!("{host}[[switch]]\nname = 'a'\nports = ['pair:a', 'null:n']\n");
    assert!(read_network(&two, "t.toml").unwrap_err().what.contains("there are two nodes called 'a'"));
    let fault = read(&format!("{host}[[switch]]\nname = 's'\nports = ['pair:a', 'null:n']\n"), "t.toml").unwrap_err();
    assert!(fault.what.contains("switches are not supported here; use 'linerate up'"), "{fault}");
}

#[test]
fn ip6_addresses_and_routes_are_parsed() {
    let body = "[[host.iface]]\nport = 'null:x'\naddresses = ['10.0.0.1/24', 'fd00::1/64', 'fd01::1/56']\n\
                [[host.iface]]\nname = 'gif0'\ntunnel = 'gif'\nlocal = 'fd00::1'\nremote = 'fd00::2'\naddresses = 'fdaa::1/64'\n\
                [[host.route]]\nto = '2001:db8::/32'\nvia = 'fd00::2'\n[[host.route]]\nto = 'default'\nvia = 'fd00::3'\n\
                [[host.route]]\nto = 'default'\nvia = '10.0.0.2'\n";
    let host = one(body);
    assert_eq!((host.ifaces[0].addresses.len(), host.ifaces[0].addresses6.len()), (1, 2));
    assert_eq!(host.ifaces[1].ends.remote, "fd00::2".parse::<std::net::IpAddr>().unwrap());
    let routes: Vec<_> =
        host.routes.iter().map(|route| (route.to6.is_some(), route.via6.is_some(), route.via.is_some())).collect();
    assert_eq!(routes, [(true, true, false), (false, true, false), (false, false, true)]);
    for (body, says) in [
        ("[[host.iface]]\nport = 'null:x'\naddresses = ['fd00::1']\n", "an IPv6 address with its prefix length"),
        ("[[host.iface]]\nport = 'null:x'\naddresses = ['automatic']\n", "10.0.0.1/24"),
        ("stacks = 2\n[[host.iface]]\nport = 'null:x'\naddresses = ['auto']\n", "needs stacks = 1"),
        ("stacks = 2\n[[host.iface]]\nport = 'null:x'\nadvertise = true\n", "needs stacks = 1"),
        (
            "[[host.iface]]\nname = 'gif0'\ntunnel = 'gif'\nlocal = 'fd00::1'\nremote = 'fd00::2'\naddresses = 'auto'\n",
            "'addresses = auto' has no effect on a tunnel",
        ),
        ("[[host.iface]]\nport = 'null:x'\naddresses = ['ff02::1/64']\n", "a unicast address of a host"),
        ("[[host.iface]]\nport = 'null:x'\naddresses = ['fd00::1/129']\n", "a number from 0 to 128"),
        ("[[host.route]]\nto = 'fd00::/200'\nvia = 'fd00::2'\n", "a prefix such as 2001:db8::/32"),
    ] {
        assert!(fault(&format!("[[host]]\n{body}")).contains(says), "{}", fault(&format!("[[host]]\n{body}")));
    }
    let auto = one("[[host.iface]]\nport = 'null:x'\naddresses = ['10.0.0.1/24', 'auto']\n");
    assert!(auto.ifaces[0].accept_rtadv && auto.ifaces[0].addresses.len() == 1 && !host.ifaces[0].accept_rtadv);
    let mut flags = crate::config::HostConfig { ifaces: vec![Default::default()], ..Default::default() };
    for addr in ["10.0.0.1/24", "fd00::1/64", "10.0.1.1/24", "fd01::1/64"] {
        flags.set_iface("addresses", addr).unwrap();
    }
    assert_eq!((flags.ifaces[0].addresses.len(), flags.ifaces[0].addresses6.len()), (2, 2));
    flags.set_iface("addresses", "auto").unwrap();
    assert!(flags.ifaces[0].accept_rtadv);
    assert!(flags.set_iface("addresses", "fd00::1").unwrap_err().contains("with its prefix length"));
    assert_eq!(flags.set_route("2001:db8::/32,fd00::2"), Ok(()));
    // The host can also be built from the configuration.
    let config = crate::config::HostConfig { pool_buffers: 64, ..host };
    let host = crate::run::build::<lock::Up>(&config, &port::Pairs::new(), clock::Clock::sim(&clock::SimClock::new()))
        .unwrap();
    let routes: Vec<String> = host.stack.routes6(host.cx()).iter().map(|route| route.prefix.to_string()).collect();
    for prefix in ["::/0", "2001:db8::/32", "fd00::/64", "fd00::1/128", "fdaa::/64"] {
        assert!(routes.iter().any(|route| route == prefix), "{prefix} not in {routes:?}");
    }
}

/// A key without effect, or an invalid value, is an error in a file.
#[test]
fn keys_without_effect_are_rejected() {
    for (body, says) in [
        ("[[host.iface]]\nport = 'null:x'\naddresses = ['10.0.0.1/33']\n", "a number from 0 to 32"),
        ("[[host.iface]]\nport = 'null:x'\nmtu = 0\n", "expected a number from 68 to 65535"),
        (
            "[[host.iface]]\nport = 'null:x'\nlocal = '10.0.0.1'\n",
            "host0: x: 'local' has no effect on an iface with a port",
        ),
        ("[[host.iface]]\nport = 'null:x'\nvni = 7\n", "'vni' has no effect on an iface with a port"),
        ("[[host.iface]]\nport = 'null:x'\npeer = '10.0.0.2'\n", "'peer' has no effect on an iface with a port"),
        ("[[host.iface]]\nname = 'g'\ntunnel = 'gif'\nkey = 7\n", "'key' has no effect on a tunnel of this kind"),
        ("[[host.iface]]\nname = 'g'\ntunnel = 'gre'\ndstport = 7\n", "'dstport' has no effect"),
        ("[[host.iface]]\nname = 'g'\ntunnel = 'gif'\ntso4 = false\n", "'tso4' has no effect"),
        ("[[host.iface]]\nname = 'g'\ntunnel = 'gif'\nmac = '02:00:00:00:00:01'\n", "'mac' has no effect"),
        ("[[host.iface]]\nname = 'g'\ntunnel = 'vxlan'\npeer = '10.0.0.2'\n", "'peer' has no effect"),
    ] {
        assert!(fault(&format!("[[host]]\n{body}")).contains(says), "{}", fault(&format!("[[host]]\n{body}")));
    }
}

/// The constructors also reject configurations with values that cannot be written in a file, which
/// only a program can build.
#[test]
fn invalid_configurations_of_programs_are_rejected() {
    let clock = || clock::Clock::sim(&clock::SimClock::new());
    let sysctl = |name: &str, value| HostConfig { sysctl: [(name.to_string(), value)].into(), ..HostConfig::default() };
    let iface = || IfaceConfig::on("null:x");
    let of = |ifaces: Vec<IfaceConfig>| HostConfig { ifaces, ..HostConfig::default() };
    let len = |len| vec![IfaceAddr { addr: [10, 0, 0, 1].into(), len }];
    for (config, says) in [
        (sysctl("net.inet.ip.fowarding", 1), "net.inet.ip.forwarding"),
        (sysctl("net.inet.ip.ttl", 256), "a number from 1 to 255"),
        (HostConfig { burst: 0, ..HostConfig::default() }, "burst = 0: expected a number from 1 to 256"),
        (HostConfig { pool_buffers: 0, ..HostConfig::default() }, "pool.buffers = 0"),
        (HostConfig { locks: "none".to_string(), ..HostConfig::default() }, "expected up, light or heavy"),
        (of(vec![IfaceConfig { addresses: len(33), ..iface() }]), "10.0.0.1/33"),
        (of(vec![IfaceConfig { mtu: Some(0), ..iface() }]), "mtu = 0: expected a number from 68 to 65535"),
        (
            of(vec![IfaceConfig { peer: Some([10, 0, 0, 2].into()), ..iface() }]),
            "'peer' has no effect on an iface with a port",
        ),
    ] {
        let why = crate::build::<lock::Up>(&config, &port::Pairs::new(), clock()).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
        let bare = crate::Host::<lock::Up>::new(&config, clock()).unwrap_err().to_string();
        assert!(bare.contains(if config.ifaces.is_empty() { says } else { "ifaces have no effect" }), "{bare}");
    }
    // A host without ports of its own has neither netisr nor several stacks.
    let isr = HostConfig { isr: IsrConfig { workstreams: 2, ..Default::default() }, ..HostConfig::default() };
    for (config, says) in [
        (HostConfig { stacks: 2, ..HostConfig::default() }, "stacks have no effect"),
        (isr, "isr.workstreams have no effect"),
        (sysctl("net.isr.proto.ip.qlimit", 100), "sysctl net.isr have no effect"),
    ] {
        let why = crate::Host::<lock::Up>::new(&config, clock()).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    }
    let host = crate::Host::<lock::Up>::new(&HostConfig::default(), clock()).unwrap();
    for (config, says) in [
        (IfaceConfig { addresses: len(33), ..iface() }, "10.0.0.1/33"),
        (IfaceConfig { mtu: Some(0), ..iface() }, "mtu = 0"),
        (IfaceConfig { peer: Some([10, 0, 0, 2].into()), ..iface() }, "'peer' has no effect on an iface with a port"),
    ] {
        let why = host.add_port(&config, &port::Pairs::new()).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    }
    assert_eq!(host.ports().len(), 0);
    let lo = inet::iface::LOOPBACK;
    assert!(host.stack.add_addr(host.cx(), lo, len(33)[0]).is_err());
}

#[test]
fn a_routing_engine_is_configured_in_its_own_table() {
    let of = |keys: &str| read(&format!("[[host]]\nname = \"r\"\n[host.fpm]\n{keys}\n"), "fpm.toml");
    let config = of("listen = \"[::1]:2620\"\nstale = \"90s\"\ntable = 100\nmarker = \"2001:db8::1/128\"").unwrap();
    let fpm = config[0].fpm;
    assert_eq!((fpm.listen, fpm.table), (Some("[::1]:2620".parse().unwrap()), 100));
    assert_eq!((fpm.stale.as_secs(), fpm.marker), (90, Some(("2001:db8::1".parse().unwrap(), 128))));
    for (keys, expected) in [
        ("listen = \"10.0.0.1:2620\"", "expected a loopback address with a port such as 127.0.0.1:2620"),
        ("listen = \"2620\"", "expected a loopback address with a port such as 127.0.0.1:2620"),
        ("stale = \"2h\"", "expected a time from 0s to 86400s such as 120s"),
        ("stale = \"86401s\"", "expected a time from 0s to 86400s such as 120s"),
        ("table = 0", "expected a number from 1 to 4294967295"),
        ("marker = \"10.0.0.1\"", "expected a prefix such as 192.0.2.254/32"),
    ] {
        let why = of(keys).unwrap_err().what;
        assert!(why.contains(expected), "{keys}: {why}");
    }
    let split = read("[[host]]\nname = \"r\"\nstacks = 2\nfpm.listen = \"127.0.0.1:2620\"\n", "fpm.toml");
    let why = split.unwrap_err().what;
    assert!(why.contains("fpm.listen = '127.0.0.1:2620' needs stacks = 1"), "{why}");
}

#[test]
fn mirrors_are_configured_by_iface() {
    let of = |keys: &str| read(&format!("[[host]]\nname = \"r\"\n{keys}\n"), "mirror.toml");
    let iface = "[[host.iface]]\nport = \"null:a\"\nmirror = \"eth0\"\n";
    let config = of(&format!("[host.mirror]\nnetns = \"plane\"\n{iface}")).unwrap();
    assert_eq!((config[0].netns.as_str(), config[0].ifaces[0].mirror.as_deref()), ("plane", Some("eth0")));
    assert_eq!(of(iface).unwrap()[0].netns, "dataplane");
    for (keys, expected) in [
        (format!("[host.mirror]\nnetns = \"\"\n{iface}"), "expected a network namespace"),
        (format!("[host.mirror]\nnetns = \"..\"\n{iface}"), "expected a network namespace"),
        (iface.replace("eth0", "a-name-of-16-byte"), "expected a name of 1 to 15"),
        (format!("{iface}[[host.iface]]\nport = \"null:b\"\nmirror = \"eth0\"\n"), "two ifaces have the mirror 'eth0'"),
        (format!("{iface}[[host.iface]]\nport = \"null:a-mirror\"\n"), "two ifaces called 'a-mirror'"),
        (format!("stacks = 2\n{iface}"), "mirror needs stacks = 1"),
        (
            "[[host.iface]]\ntunnel = \"gif\"\nname = \"g\"\nmirror = \"eth0\"\n".into(),
            "'mirror' has no effect on a tunnel",
        ),
    ] {
        let why = of(&keys).unwrap_err().what;
        assert!(why.contains(expected), "{keys}: {why}");
    }
}

#[test]
fn metrics_are_configured_for_the_process() {
    let of = |keys: &str| read_network(&format!("[[host]]\nname = \"r\"\n[metrics]\n{keys}\n"), "m.toml");
    let metrics = of("listen = \"[::1]:9273\"\nseries_max = 100").unwrap().metrics;
    assert_eq!((metrics.listen, metrics.series_max), (Some("[::1]:9273".parse().unwrap()), 100));
    let socket = of("listen = \"unix:/run/m.sock\"").unwrap();
    assert_eq!(socket.metrics.listen.as_ref().map(ToString::to_string).as_deref(), Some("unix:/run/m.sock"));
    assert_eq!(socket.metrics.series_max, SERIES_MAX);
    let text = to_toml(&socket);
    assert!(text.starts_with("[metrics]\nlisten = \"unix:/run/m.sock\"\n\n[[host]]\n"), "{text}");
    assert_eq!(read_network(&text, "again").unwrap().metrics, socket.metrics);
    assert_eq!(read_network("[[host]]\n", "none").unwrap().metrics, MetricsConfig::default());
    // Programs that run hosts only accept a file with metrics.
    assert_eq!(read("[metrics]\nlisten = \"127.0.0.1:1\"\n[[host]]\n", "hosts.toml").unwrap().len(), 1);
    for (keys, says) in [
        ("listen = \"9273\"", "m.toml:4: listen = '9273': expected an address with a port such as 127.0.0.1:9273"),
        ("listen = \"unix:\"", "m.toml:4: listen = 'unix:': expected an address"),
        ("listen = 9273", "m.toml:4: listen = 9273: expected an address"),
        ("series_max = 0", "m.toml:4: series_max = 0: expected a number from 1 to 100000"),
        ("series_max = \"all\"", "m.toml:4: series_max = 'all': expected a number from 1 to 100000"),
        ("\nseries_mx = 1", "m.toml:5: unknown key 'series_mx'"),
    ] {
        let why = of(keys).unwrap_err().to_string();
        assert!(why.starts_with(says), "{why}");
    }
    let list = read_network("[[host]]\n[[metrics]]\nseries_max = 1\n", "m.toml").unwrap_err().to_string();
    assert_eq!(list, "m.toml:2: metrics: expected a table");
}
