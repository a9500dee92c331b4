//! Two sites with a tunnel between their routers, on virtual time. Every kind of tunnel is tested
//! over links that lose, duplicate and reorder packets; nested tunnels are tested too.

use clock::Duration;
use inet::fib::Prefix;
use inet::route::Via;
use inet::tunnel::{Config, Kind};
use linerate_sim::{End, HostId, World};
use lock::Up;
use node::Host;
use socket::{Errno, Fd, Opt};
use std::net::{Ipv4Addr, SocketAddr};

fn end(host: HostId, net: u8, last: u8) -> End {
    End { host, addr: Ipv4Addr::new(10, 0, net, last), len: 24 }
}

fn route(host: &Host<Up>, to: &str, via: Via) {
    host.stack.add_route(host.cx(), to.parse::<Prefix>().unwrap(), via).unwrap();
}

/// Topology a -- r1 == r2 -- b. Each router reaches the other site's network only through the
/// tunnel.
struct Sites {
    world: World,
    ids: [HostId; 4],
}

fn sites(seed: u64, between: &str, kinds: &[Kind]) -> Sites {
    let mut world = World::new(seed);
    let ids = ["a", "r1", "r2", "b"].map(|name| world.add_host(name));
    let [a, r1, r2, b] = ids;
    world.link(end(a, 1, 1), end(r1, 1, 254), "", "").unwrap();
    world.link(end(r1, 2, 1), end(r2, 2, 2), between, "").unwrap();
    world.link(end(r2, 3, 254), end(b, 3, 1), "", "").unwrap();
    for (host, gateway) in [(a, [10, 0, 1, 254]), (b, [10, 0, 3, 254])] {
        let host = world.host(host);
        route(host, "0.0.0.0/0", Via::Gateway(host.ports()[0].iface, gateway.into()));
    }
    for (router, us, them, net) in [(r1, 1, 2, "10.0.3.0/24"), (r2, 2, 1, "10.0.1.0/24")] {
        let host = world.host(router);
        let (stack, cx) = (&host.stack, host.cx());
        stack.sysctls.forwarding.set(1);
        for (n, &kind) in (0u8..).zip(kinds) {
            let outer = |host| if n == 0 { Ipv4Addr::new(10, 0, 2, host) } else { Ipv4Addr::new(172, 16, n - 1, host) };
            let id = host.stack.add_tunnel(cx, &format!("t{n}"), kind, wire::Mac([2, 9, 9, 9, n, us])).unwrap();
            let ends = Config { local: outer(us).into(), remote: outer(them).into(), ..Config::new(kind) };
            stack.set_tunnel(cx, id, Config { key: Some(5), checksum: true, vni: u32::from(n), ..ends }).unwrap();
            let addr = inet::iface::IfaceAddr { addr: Ipv4Addr::new(172, 16, n, us), len: 24 };
            stack.add_addr(cx, id, addr).unwrap();
            if usize::from(n) + 1 == kinds.len() {
                route(host, net, Via::Gateway(id, Ipv4Addr::new(172, 16, n, them)));
            }
        }
    }
    Sites { world, ids }
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

/// Sends `n` datagrams of growing size from a to b; returns the number that arrived unchanged.
fn talk(sites: &mut Sites, n: u32) -> usize {
    let [a, _, _, b] = sites.ids;
    let calls = sites.world.host(b).calls();
    let fd = calls.socket().unwrap();
    calls.bind(fd, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7000))).unwrap();
    calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
    calls.set_option(fd, Opt::RecvBuffer(1 << 20)).unwrap();
    let from = sites.world.host(a).calls().socket().unwrap();
    let to = SocketAddr::from((Ipv4Addr::new(10, 0, 3, 1), 7000));
    for _ in 0..8 {
        sites.world.host(a).calls().send_to(from, b"", &to).unwrap(); // every neighbor on the way is found
        sites.world.run_for(Duration::from_secs(2));
    }
    received(sites.world.host(b), fd);
    let payload =
        |i: u32| -> Vec<u8> { i.to_be_bytes().into_iter().cycle().take(4 + i as usize * 17 % 4000).collect() };
    let mut whole = std::collections::BTreeSet::new();
    for i in 0..n {
        sites.world.host(a).calls().send_to(from, &payload(i), &to).unwrap();
        sites.world.run_for(Duration::from_millis(5));
        for got in received(sites.world.host(b), fd) {
            let i = u32::from_be_bytes(got[..4].try_into().unwrap());
            assert_eq!(got, payload(i));
            whole.insert(i);
        }
    }
    sites.world.run_for(Duration::from_secs(200)); // past every timer: nothing may stay held
    assert_eq!(sites.world.imbalances(), []);
    whole.len()
}

fn counter(sites: &Sites, of: usize, name: &str) -> u64 {
    sites.world.host(sites.ids[of]).stack.counter(name)
}

#[test]
fn every_tunnel_kind_connects_two_sites() {
    for kind in Kind::ALL {
        let mut sites = sites(1, "", &[kind]);
        assert_eq!(talk(&mut sites, 300), 300, "{kind:?}");
        let (out, taken) = (counter(&sites, 1, "inet.tunnel.encapsulated"), counter(&sites, 2, "inet.tunnel.requeued"));
        assert!(out > 300 && taken == out, "{kind:?}: {out} sent, {taken} came out");
        assert_eq!(counter(&sites, 1, "inet.tunnel.out.moved"), 0, "{kind:?}: there is enough headroom");
    }
}

#[test]
fn packets_arrive_intact_over_a_bad_link() {
    for kind in Kind::ALL {
        let mut sites = sites(7, "loss=5%,dup=3%,reorder=10%,delay=3ms,jitter=4ms", &[kind]);
        let arrived = talk(&mut sites, 400);
        assert!((150..400).contains(&arrived), "{kind:?}: {arrived}");
    }
}

#[test]
fn nested_tunnels_work() {
    let mixed: Vec<Kind> = Kind::ALL.into_iter().chain(Kind::ALL).collect();
    for kinds in [vec![Kind::Gif; 8], vec![Kind::Vxlan; 8], mixed] {
        let mut sites = sites(3, "", &kinds);
        assert_eq!(talk(&mut sites, 100), 100, "{kinds:?}");
        assert_eq!(counter(&sites, 1, "inet.tunnel.out.nested"), 0);
    }
}
