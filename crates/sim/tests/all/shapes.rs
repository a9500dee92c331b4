//! Runs every file of `topo/` on virtual time. All hosts reach each other with datagrams and
//! streams, the same seed gives the same bytes, every frame is accounted for, and none loops.

use clock::Duration;
use inet::iface::IfaceAddr;
use linerate_sim::shape::{ShapeError, from_hosts, from_toml};
use linerate_sim::{HostId, World};
use node::config::{self, HostConfig, ServiceKind};
use socket::{Errno, Fd, Opt};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::path::PathBuf;

/// Topologies whose links are all pairs, with the number of hosts that run an echo service.
const SHAPES: [(&str, usize); 6] =
    [("chain", 2), ("dumbbell", 6), ("four-port-router", 4), ("host-host", 2), ("host-router-host", 2), ("pair", 1)];

fn shape(name: &str) -> Vec<HostConfig> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../topo")).join(format!("{name}.toml"));
    config::load(&path).unwrap()
}

fn echoes(hosts: &[HostConfig]) -> Vec<&HostConfig> {
    let has_echo = |host: &&HostConfig| host.services.iter().any(|service| service.kind == ServiceKind::Echo);
    hosts.iter().filter(has_echo).collect()
}

fn address(host: &HostConfig) -> Ipv4Addr {
    let IfaceAddr { addr, .. } = host.ifaces[0].addresses[0];
    addr
}

/// Sends a datagram from every host to every echo service. Returns the pairs of hosts without a
/// reply.
fn unanswered(world: &mut World, hosts: &[HostConfig]) -> Vec<String> {
    let mut requested: Vec<(String, HostId, Fd, Vec<u8>)> = Vec::new();
    for from in hosts {
        for to in echoes(hosts).into_iter().filter(|to| to.name != from.name) {
            let id = world.host_named(&from.name).unwrap();
            let calls = world.host(id).calls();
            let fd = calls.socket().unwrap();
            calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
            let payload = format!("{} to {}", from.name, to.name).repeat(40).into_bytes();
            calls.send_to(fd, &payload, &SocketAddr::from((address(to), 7))).unwrap();
            requested.push((format!("{} to {}", from.name, to.name), id, fd, payload));
        }
    }
    world.run_for(Duration::from_secs(2));
    let came = |world: &World, id: HostId, fd: Fd, payload: &[u8]| {
        let mut into = vec![0; 4096];
        let calls = world.host(id).calls();
        let got = calls.recv_from(fd, &mut into).map(|(len, _)| into[..len] == *payload);
        calls.close(fd).unwrap();
        got == Ok(true)
    };
    requested.into_iter().filter(|(_, id, fd, payload)| !came(world, *id, *fd, payload)).map(|(who, ..)| who).collect()
}

/// Sends a stream of `n` bytes from host `from` to host `to`; returns the time it took.
fn stream(world: &mut World, from: &HostConfig, to: &HostConfig, n: usize) -> Duration {
    let (from_id, to_id) = (world.host_named(&from.name).unwrap(), world.host_named(&to.name).unwrap());
    let at = SocketAddr::from((address(to), 8000));
    let calls = world.host(to_id).calls();
    let listener = calls.stream_socket().unwrap();
    calls.bind(listener, at).unwrap();
    calls.listen(listener, 1).unwrap();
    calls.set_option(listener, Opt::NonBlocking(true)).unwrap();
    let calls = world.host(from_id).calls();
    let near = calls.stream_socket().unwrap();
    calls.set_option(near, Opt::NonBlocking(true)).unwrap();
    assert_eq!(calls.connect(near, at), Err(Errno::EINPROGRESS));
    let bytes: Vec<u8> = (0..n).map(|i| (i * 7 + (i >> 8)) as u8).collect();
    let (begin, mut sent, mut got, mut far, mut into) = (world.now(), 0, Vec::new(), None, vec![0; 65_536]);
    while got.len() < n {
        assert!(world.now().since(begin) < Duration::from_secs(120), "{} of {n} bytes", got.len());
        world.run_for(Duration::from_millis(1));
        let calls = world.host(from_id).calls();
        while sent < n
            && let Ok(some) = calls.send(near, &bytes[sent..])
        {
            sent += some;
        }
        let calls = world.host(to_id).calls();
        far = far.or_else(|| calls.accept(listener).ok().map(|(fd, _)| fd));
        if let Some(fd) = far {
            calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
            while let Ok(some @ 1..) = calls.recv(fd, &mut into) {
                got.extend_from_slice(&into[..some]);
            }
        }
    }
    let took = world.now().since(begin);
    assert!(got == bytes, "byte-exact");
    let calls = world.host(from_id).calls();
    calls.shutdown(near, Shutdown::Write).unwrap();
    calls.close(near).unwrap();
    let calls = world.host(to_id).calls();
    far.into_iter().chain([listener]).for_each(|fd| calls.close(fd).unwrap());
    world.run_for(Duration::from_secs(200)); // past TIME-WAIT
    took
}

#[test]
fn all_hosts_reach_each_other_in_every_topology() {
    for (name, serving) in SHAPES {
        let hosts = shape(name);
        assert_eq!(echoes(&hosts).len(), serving, "{name}");
        let mut world = from_hosts(&hosts, 7).unwrap_or_else(|why| panic!("{name}: {why}"));
        let lost = unanswered(&mut world, &hosts);
        assert!(lost.is_empty(), "{name}: no answer {lost:?}");
        let (first, last) = (hosts.first().unwrap(), hosts.last().unwrap());
        let took = stream(&mut world, first, last, 200_000);
        assert_eq!(world.imbalances(), [], "{name}");
        for id in world.hosts() {
            let stack = &world.host(id).stack;
            for loops in ["inet.ip4.forward.ttl_exceeded", "inet.ip4.forward.no_route"] {
                assert_eq!(stack.counter(loops), 0, "{name}: {}: {loops}", stack.name);
            }
        }
        if name == "dumbbell" {
            // The bottleneck link determines the time: 200,000 bytes at 10 Mbit/s take 160 ms, plus
            // a round-trip time of 20 ms.
            assert!(took > Duration::from_millis(160), "{took:?}");
        }
        let outcomes = world.end();
        assert!(outcomes.iter().all(|outcome| outcome.is_balanced()), "{name}: {outcomes:?}");
    }
}

/// Returns a trace of the frames on the bad link of a topology.
fn trace(dir: &std::path::Path, run: &str, seed: u64) -> Vec<u8> {
    let file = dir.join(format!("{run}.pcapng"));
    let mut hosts = shape("dumbbell");
    let narrow = hosts.iter_mut().flat_map(|host| &mut host.ifaces).filter(|iface| iface.port.contains("r1-r2"));
    for (side, iface) in narrow.enumerate() {
        let bad = iface.port.replace("limit=50", "limit=50,loss=3%,jitter=2ms");
        iface.port = if side == 0 { format!("tracer(file=\"{}\"):{bad}", file.display()) } else { bad };
    }
    let mut world = from_hosts(&hosts, seed).unwrap();
    stream(&mut world, hosts.first().unwrap(), hosts.last().unwrap(), 100_000);
    assert_eq!(world.imbalances(), []);
    drop(world);
    std::fs::read(file).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let dir = std::env::temp_dir().join(format!("linerate-shapes-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (first, again, other) = (trace(&dir, "first", 7), trace(&dir, "again", 7), trace(&dir, "other", 8));
    assert!(first.len() > 100_000, "{} bytes traced", first.len());
    assert_eq!(first, again);
    assert_ne!(first, other);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_rated_generator_is_exact_on_virtual_time() {
    let hosts = shape("router");
    let world = from_hosts(&hosts, 1).unwrap();
    world.run_for(Duration::from_secs(2));
    let router = world.host_named("router").unwrap();
    let came = world.host(router).ports()[0].counts.rx.frames.get();
    assert!((2000..=2002).contains(&came), "{came} of 1000 a second");
    assert_eq!(world.imbalances(), []);
}

/// Deferred netisr works on virtual time: the host's own loop processes all queued frames.
#[test]
fn deferred_netisr_works_on_virtual_time() {
    let mut hosts = shape("host-router-host");
    for host in &mut hosts {
        host.set("isr.workstreams", "1").unwrap();
        host.set("net.isr.dispatch", "deferred").unwrap();
    }
    let mut world = from_hosts(&hosts, 7).unwrap();
    assert!(unanswered(&mut world, &hosts).is_empty());
    assert_eq!(world.imbalances(), []);
    for id in world.hosts() {
        let work = world.host(id).isr_seen().unwrap().work;
        let ip = work.iter().find(|row| row.name == "ip").unwrap();
        assert!(ip.queued > 0 && ip.queued == ip.handled && ip.dispatched == 0, "{ip:?}");
    }
    assert_eq!(world.warnings(), [""; 0]);
}

#[test]
fn unsupported_ports_and_unpaired_ends_are_errors() {
    let host = |port: &str| format!("[[host]]\nname = 'a'\n[[host.iface]]\nport = '{port}'\nname = 'eth0'\n");
    let fault = from_hosts(&shape("tap-echo"), 1).map(|_| ()).unwrap_err();
    assert!(matches!(&fault, ShapeError::Port { host, .. } if host == "host echo"), "{fault}");
    assert!(fault.to_string().contains("no tap ports in virtual time; use pair, null or pktgen"), "{fault}");
    let fault = from_toml(&host("pktgen:pg0"), "t.toml", 1).map(|_| ()).unwrap_err();
    assert!(fault.to_string().contains("set a rate, as in rate=1k"), "{fault}");
    let fault = from_toml(&host("pair:x"), "t.toml", 1).map(|_| ()).unwrap_err();
    assert!(
        matches!(&fault, ShapeError::Config(why) if why.line == 4 && why.what.contains("the other end is missing")),
        "{fault}"
    );
}

/// Topology with switches: once the spanning tree blocks a port of the ring, all hosts get replies,
/// and every frame is accounted for.
#[test]
fn the_switched_ring_runs_on_virtual_time() {
    let text = include_str!("../../../../topo/switched-ring.toml");
    let network = config::read_network(text, "switched-ring.toml").unwrap();
    let mut world = from_toml(text, "switched-ring.toml", 3).unwrap();
    world.run_for(Duration::from_secs(6));
    assert_eq!(unanswered(&mut world, &network.hosts), Vec::<String>::new());
    let blocked = |name: &str| {
        world
            .switch_named(name)
            .unwrap()
            .tree(|stp| stp.ports().filter(|port| port.state != bridge::PortState::Forwarding).count())
    };
    assert_eq!(
        ["s1", "s2", "s3"].map(blocked).into_iter().flatten().sum::<usize>(),
        1,
        "one end of one link of the ring"
    );
    assert_eq!(world.imbalances(), []);
    let fault = from_toml(&text.replace("pair:s2s3", "tap:t0"), "t.toml", 1).map(|_| ()).unwrap_err();
    assert!(fault.to_string().contains("switch s2: tap:t0: no tap ports in virtual time"), "{fault}");
}

/// Two routers each have a default route to the other. A looping packet is dropped once, when its
/// TTL expires, and its sender receives an ICMP error.
#[test]
fn a_routing_loop_ends_with_the_ttl() {
    let router = |name: &str, own: &str, other: &str, more: &str| {
        format!(
            "[[host]]\nname = '{name}'\n[host.sysctl]\n\"net.inet.ip.forwarding\" = 1\n\"net.inet.ip.redirect\" = 0\n[[host.iface]]\nport = 'pair:loop'\n\
             addresses = ['{own}/24']\n[[host.route]]\nto = 'default'\nvia = '{other}'\n{more}"
        )
    };
    let here = "[[host.iface]]\nport = 'pair:a'\naddresses = ['10.0.1.254/24']\n";
    let back = "[[host.route]]\nto = '10.0.1.0/24'\nvia = '10.0.0.1'\n";
    let a = "[[host]]\nname = 'a'\n[[host.iface]]\nport = 'pair:a'\naddresses = ['10.0.1.1/24']\n[[host.route]]\nto = 'default'\nvia = '10.0.1.254'\n";
    let text = [a.to_owned(), router("r1", "10.0.0.1", "10.0.0.2", here), router("r2", "10.0.0.2", "10.0.0.1", back)];
    let world = from_toml(&text.concat(), "loop.toml", 7).unwrap();
    let id = world.host_named("a").unwrap();
    let fd = world.host(id).calls().socket().unwrap();
    for n in 0..20u8 {
        world.host(id).calls().send_to(fd, &[n], &"203.0.113.9:9".parse().unwrap()).unwrap();
        world.run_for(Duration::from_millis(50));
    }
    world.run_for(Duration::from_secs(1));
    let count = |name: &str, counter: &str| world.host(world.host_named(name).unwrap()).stack.counter(counter);
    let ended = count("r1", "inet.ip4.forward.ttl_exceeded") + count("r2", "inet.ip4.forward.ttl_exceeded");
    let forwarded = count("r1", "inet.ip4.forwarded") + count("r2", "inet.ip4.forwarded");
    assert_eq!(ended, 20, "each packet is dropped once");
    // A packet arrives at the first router with TTL 64 and is forwarded 63 times; each ICMP error
    // is forwarded once or twice.
    assert!((20 * 63..=20 * 63 + 40).contains(&forwarded), "{forwarded}");
    assert!(count("a", "inet.icmp4.received") > 0, "the sender receives ICMP errors");
    for outcome in world.end() {
        assert!(outcome.is_balanced(), "{}", outcome.audit);
    }
}
