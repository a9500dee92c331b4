//! Simulated networks: hosts on impaired links, on virtual time.

use clock::Duration;
use inet::route::Via;
use linerate_sim::{End, HostId, World};
use lock::Up;
use node::Host;
use socket::{Errno, Fd, Opt};
use std::net::{Ipv4Addr, SocketAddr};

fn end(host: HostId, net: u8, last: u8) -> End {
    End { host, addr: Ipv4Addr::new(10, 0, net, last), len: 24 }
}

fn default_via(host: &Host<Up>, gateway: Ipv4Addr) {
    let cx = host.cx();
    let iface = host.ports()[0].iface;
    host.stack.add_route(cx, inet::fib::Prefix::DEFAULT, Via::Gateway(iface, gateway)).unwrap();
}

fn listener(host: &Host<Up>, port: u16) -> Fd {
    let calls = host.calls();
    let fd = calls.socket().unwrap();
    calls.bind(fd, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).unwrap();
    calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
    calls.set_option(fd, Opt::RecvBuffer(1 << 20)).unwrap();
    fd
}

fn received(host: &Host<Up>, fd: Fd) -> Vec<Vec<u8>> {
    let (calls, mut into, mut out) = (host.calls(), vec![0; 65_536], Vec::new());
    loop {
        match calls.recv_from(fd, &mut into) {
            Ok((n, _)) => out.push(into[..n].to_vec()),
            Err(Errno::EAGAIN) => return out,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Topology a -- r1 -- r2 -- b with an impairment on every link.
struct Chain {
    world: World,
    hosts: [HostId; 4],
    a: HostId,
    b: HostId,
}

fn chain(seed: u64, impairment: &str, wrapper: &str) -> Chain {
    let mut world = World::new(seed);
    let [a, r1, r2, b] = ["a", "r1", "r2", "b"].map(|name| world.add_host(name));
    world.link(end(a, 1, 1), end(r1, 1, 254), impairment, wrapper).unwrap();
    world.link(end(r1, 2, 1), end(r2, 2, 2), impairment, "").unwrap();
    world.link(end(r2, 3, 254), end(b, 3, 1), impairment, "").unwrap();
    for router in [r1, r2] {
        world.host(router).stack.sysctls.forwarding.set(1);
    }
    default_via(world.host(a), Ipv4Addr::new(10, 0, 1, 254));
    default_via(world.host(b), Ipv4Addr::new(10, 0, 3, 254));
    let route = |host: HostId, net: u8, port: usize, gateway: Ipv4Addr| {
        let host = world.host(host);
        let prefix = inet::fib::Prefix::new(Ipv4Addr::new(10, 0, net, 0), 24).unwrap();
        host.stack.add_route(host.cx(), prefix, Via::Gateway(host.ports()[port].iface, gateway)).unwrap();
    };
    route(r1, 3, 1, Ipv4Addr::new(10, 0, 2, 2));
    route(r2, 1, 0, Ipv4Addr::new(10, 0, 2, 1));
    Chain { world, hosts: [a, r1, r2, b], a, b }
}

/// Sends `n` datagrams of growing size from a to b, 5 ms apart; returns the datagrams received.
fn talk(chain: &mut Chain, n: u32) -> Vec<Vec<u8>> {
    let fd = listener(chain.world.host(chain.b), 7000);
    let from = chain.world.host(chain.a).calls().socket().unwrap();
    let to = SocketAddr::from((Ipv4Addr::new(10, 0, 3, 1), 7000));
    // The neighbors are resolved first. A lost ARP request is repeated only after a second, and
    // most of the 200 datagrams sent meanwhile would be dropped at a full queue.
    for _ in 0..8 {
        chain.world.host(chain.a).calls().send_to(from, b"", &to).unwrap();
        chain.world.run_for(Duration::from_secs(2));
    }
    received(chain.world.host(chain.b), fd);
    let mut got = Vec::new();
    for i in 0..n {
        let payload: Vec<u8> = i.to_be_bytes().into_iter().cycle().take(4 + i as usize * 7 % 3000).collect();
        chain.world.host(chain.a).calls().send_to(from, &payload, &to).unwrap();
        chain.world.run_for(Duration::from_millis(5));
        got.extend(received(chain.world.host(chain.b), fd));
    }
    chain.world.run_for(Duration::from_secs(200)); // past every timer: nothing may stay held
    got.extend(received(chain.world.host(chain.b), fd));
    assert_eq!(chain.world.imbalances(), []);
    for payload in &got {
        let i = u32::from_be_bytes(payload[..4].try_into().unwrap());
        assert_eq!(payload.len(), 4 + i as usize * 7 % 3000, "a datagram arrives unchanged or not at all");
        assert!(payload.chunks(4).all(|c| c == &i.to_be_bytes()[..c.len()]));
    }
    got
}

#[test]
fn a_perfect_path_delivers_everything_once_and_in_order() {
    let got = talk(&mut chain(1, "", ""), 400);
    let order: Vec<u32> = got.iter().map(|p| u32::from_be_bytes(p[..4].try_into().unwrap())).collect();
    assert_eq!(order, (0..400).collect::<Vec<_>>());
}

#[test]
fn a_bad_path_delivers_most_datagrams_intact() {
    for seed in 0..8 {
        let mut chain = chain(seed, "loss=5%,dup=3%,reorder=10%,delay=3ms,jitter=4ms", "");
        let got = talk(&mut chain, 300).len();
        // The path has three lossy links, and a fragmented datagram is lost more often. A few
        // duplicates are received.
        assert!((200..330).contains(&got), "seed {seed}: {got} of 300");
    }
}

/// ARP has no checksum, and these links have no FCS, so an address corrupted in an ARP reply would
/// be used for twenty minutes. The neighbors are therefore static, and only IPv4 and UDP are
/// corrupted.
#[test]
fn corrupted_packets_are_dropped_and_counted() {
    let mut chain = chain(5, "corrupt=10%", "");
    let hosts: Vec<HostId> = chain.hosts.to_vec();
    for pair in hosts.windows(2) {
        for (near, far) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let (near, far) = (chain.world.host(near), chain.world.host(far));
            for mine in near.stack.ifaces() {
                for theirs in far.stack.ifaces() {
                    for addr in theirs.addrs(far.cx()) {
                        if mine.addrs(near.cx()).iter().any(|a| a.len == 24 && a.contains(addr.addr)) {
                            near.stack.set_neighbor(near.cx(), mine.id, addr.addr, theirs.mac);
                        }
                    }
                }
            }
        }
    }
    let got = talk(&mut chain, 300).len();
    assert!((150..300).contains(&got), "{got} of 300");
    let dropped: u64 = hosts
        .iter()
        .map(|&host| {
            ["inet.ip4.in.bad_checksum", "inet.udp.in.bad_checksum"]
                .map(|name| chain.world.host(host).stack.counter(name))
        })
        .map(|[ip, udp]| ip + udp)
        .sum();
    assert!(dropped > 20, "{dropped}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let dir = std::env::temp_dir().join(format!("linerate-sim-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let trace = |run: &str, seed: u64| {
        let file = dir.join(format!("{run}.pcapng"));
        let mut chain = chain(seed, "loss=5%,delay=3ms,jitter=4ms", &format!("tracer(file=\"{}\")", file.display()));
        talk(&mut chain, 100);
        drop(chain);
        std::fs::read(file).unwrap()
    };
    let (first, again, other) = (trace("first", 7), trace("again", 7), trace("other", 8));
    assert!(first.len() > 10_000, "{} bytes traced", first.len());
    assert_eq!(first, again);
    assert_ne!(first, other);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_silent_neighbor_ends_in_host_unreachable_not_in_a_held_packet() {
    let chain = chain(3, "", "");
    let calls = chain.world.host(chain.a).calls();
    let fd = calls.socket().unwrap();
    calls.connect(fd, "10.0.3.77:9".parse().unwrap()).unwrap();
    calls.send(fd, b"anybody?").unwrap();
    chain.world.run_for(Duration::from_secs(60));
    assert_eq!(chain.world.host(chain.a).calls().send(fd, b"again"), Err(Errno::EHOSTUNREACH));
    assert_eq!(chain.world.imbalances(), []);
}

/// Linux ends a connect with EHOSTUNREACH when its neighbor entry fails, after three ARP requests
/// at intervals of one second. RFC 1122 2.3.2.2 and RFC 9293 3.9.2.2 leave this choice to the host.
#[test]
fn a_connect_to_a_silent_neighbor_ends_after_three_seconds() {
    // A destination on the link, and one behind a gateway that does not exist.
    for to in ["10.0.1.77:80", "192.0.2.9:80"] {
        connects_end_after_three_seconds(to.parse().unwrap());
    }
}

fn connects_end_after_three_seconds(to: SocketAddr) {
    let chain = chain(3, "", "");
    let host = chain.world.host(chain.a);
    let (cx, iface) = (host.cx(), host.ports()[0].iface);
    let prefix = inet::fib::Prefix::new(Ipv4Addr::new(192, 0, 2, 0), 24).unwrap();
    host.stack.add_route(cx, prefix, Via::Gateway(iface, Ipv4Addr::new(10, 0, 1, 88))).unwrap();
    // Of 24 SYNs, 16 wait for the neighbor (net.link.ether.inet.maxhold), among them the last SYN
    // of each connection.
    let fds: Vec<Fd> = {
        let calls = host.calls();
        let fds: Vec<Fd> = (0..12).map(|_| calls.stream_socket().unwrap()).collect();
        for &fd in &fds {
            calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
            assert_eq!(calls.connect(fd, to), Err(Errno::EINPROGRESS));
        }
        fds
    };
    let errors = |chain: &Chain| {
        let calls = chain.world.host(chain.a).calls();
        fds.iter().map(|&fd| calls.take_error(fd).unwrap()).collect::<Vec<_>>()
    };
    chain.world.run_for(Duration::from_millis(2_900));
    assert_eq!(errors(&chain), [None; 12]);
    chain.world.run_for(Duration::from_millis(200));
    assert_eq!(errors(&chain), [Some(Errno::EHOSTUNREACH); 12]);
    assert_eq!(chain.world.host(chain.a).stack.counter("inet.icmp4.errors_delivered"), 12);
    assert_eq!(chain.world.imbalances(), []);
}

#[test]
fn two_hundred_hosts_on_one_clock() {
    let mut world = World::new(11);
    let hub = world.add_host("hub");
    let hosts: Vec<HostId> = (0..200).map(|i| world.add_host(&format!("h{i}"))).collect();
    for (i, &host) in hosts.iter().enumerate() {
        world.link(end(hub, i as u8, 254), end(host, i as u8, 1), "delay=1ms", "").unwrap();
        default_via(world.host(host), Ipv4Addr::new(10, 0, i as u8, 254));
    }
    world.host(hub).stack.sysctls.forwarding.set(1);
    let sockets: Vec<Fd> = hosts.iter().map(|&host| listener(world.host(host), 7000)).collect();
    for (i, &host) in hosts.iter().enumerate() {
        let to = SocketAddr::from((Ipv4Addr::new(10, 0, ((i + 1) % 200) as u8, 1), 7000));
        world.host(host).calls().send_to(sockets[i], &(i as u32).to_be_bytes(), &to).unwrap();
    }
    world.run_for(Duration::from_secs(1));
    for (i, &host) in hosts.iter().enumerate() {
        let from = (i + 199) % 200;
        assert_eq!(received(world.host(host), sockets[i]), [(from as u32).to_be_bytes().to_vec()], "at h{i}");
    }
    assert_eq!(world.imbalances(), []);
}
