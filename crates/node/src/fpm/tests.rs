//! The engine on tables of its own: messages as `zebra` sends them, and what becomes of its routes.

mod server;

use super::engine::Engine;
use super::paths::Links;
use super::tables::Tables;
use super::{FpmConfig, marker};
use clock::{Duration, Instant};
use inet::fib::{DEFAULT_LIMIT, Prefix, Prefix6};
use inet::iface::IfaceId;
use inet::route::{ObjectId, Protocol, Route, Routes, Via};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use wire::fpm::frame;
use wire::rtnetlink::Builder;

const BGP: u8 = 186;
const KERNEL: u8 = 2;

/// Messages with the addresses of these tests.
struct Wire;

impl Wire {
    fn route(to: Prefix, proto: u8) -> Builder {
        Builder::new_route(to.addr().into(), to.len(), proto)
    }

    fn route6(to: Prefix6, proto: u8) -> Builder {
        Builder::new_route(to.addr().into(), to.len(), proto)
    }

    fn del(to: Prefix, proto: u8) -> Builder {
        Builder::del_route(to.addr().into(), to.len(), proto)
    }

    /// A next hop through gateway 192.0.2.`last` on device `oif`.
    fn hop(id: u32, oif: u32, last: u8) -> Builder {
        Builder::new_next_hop(id, oif, [192, 0, 2, last].into())
    }
}

/// Tables with an engine. The devices 3 and 5 are the ifaces 1 and 2.
struct Router {
    v4: Routes,
    v6: Routes<u128>,
    links: Links,
    engine: Engine,
    now: Instant,
}

impl Router {
    fn with(config: FpmConfig, limit: usize) -> Router {
        let (v4, v6) = (Routes::new(limit, 2), Routes::new(limit, 2));
        let links = Links::from([(3, IfaceId(1)), (5, IfaceId(2))]);
        Router { v4, v6, links, engine: Engine::new(config), now: Instant::from_millis(1000) }
    }

    fn new() -> Router {
        Router::with(FpmConfig::default(), DEFAULT_LIMIT)
    }

    fn connected() -> Router {
        let mut router = Router::new();
        router.connect();
        router
    }

    fn do_with<R>(&mut self, f: impl FnOnce(&mut Engine, &mut Tables<'_>) -> R) -> R {
        let Router { v4, v6, links, engine, now } = self;
        f(engine, &mut Tables { v4, v6, links, now: *now })
    }

    fn connect(&mut self) {
        self.do_with(|engine, tables| engine.connect(tables));
    }

    /// Applies frames, and returns whether a route has changed.
    fn apply(&mut self, frames: &[u8]) -> bool {
        let (used, has_changed) = self.do_with(|engine, tables| engine.apply(frames, usize::MAX, tables));
        assert_eq!(used, frames.len());
        has_changed
    }

    fn disconnect(&mut self) {
        let now = self.now;
        self.engine.disconnect(now);
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        for _ in 0..10_000 {
            if !self.do_with(|engine, tables| engine.turn(tables)) {
                return;
            }
        }
        panic!("a sweep does not end");
    }

    fn via(&self, prefix: &str) -> Option<Via> {
        self.v4.at(prefix.parse().unwrap()).map(|route| route.via)
    }

    fn lines(&self) -> Vec<String> {
        let four = self.v4.iter().map(|route| line(route, &|via| self.shown(via)));
        let six = self.v6.iter().map(|Route { prefix, via, origin }| format!("{prefix} {via:?} {}", origin.protocol));
        four.chain(six).collect()
    }

    fn shown(&self, via: Via) -> String {
        match via {
            Via::Paths(set) => {
                let all = self.v4.paths(set).iter().map(|path| format!("{}*{}", self.shown(path.via), path.weight));
                all.collect::<Vec<_>>().join(" ")
            }
            Via::Gateway(IfaceId(iface), gateway) => format!("{gateway}%{iface}"),
            other => format!("{other:?}"),
        }
    }
}

fn line(Route { prefix, via, origin }: Route, shown: &dyn Fn(Via) -> String) -> String {
    format!("{prefix} {} {}", shown(via), origin.protocol)
}

fn gateway(iface: u16, last: u8) -> Via {
    Via::Gateway(IfaceId(iface), Ipv4Addr::new(192, 0, 2, last))
}

/// Returns the frames of `n` routes 10.x.y.0/24 through next hop `id`.
fn many(n: u32, id: u32) -> Vec<u8> {
    let prefix = |i: u32| Prefix::masked(0x0a00_0000 | i << 8, 24);
    (0..n).flat_map(|i| frame(&[Wire::route(prefix(i), BGP).nh_id(id)])).collect()
}

#[test]
fn a_recorded_stream_gives_the_routes_that_zebra_shows() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/wire_fpm/frr-8.4.4-static");
    let mut router = Router::connected();
    let stream = std::fs::read(path).unwrap();
    assert!(router.apply(&stream));
    let expected = [
        "10.1.0.0/16 192.168.1.7%2 zstatic",
        "10.2.0.0/16 192.168.0.2%1 zstatic",
        "10.4.0.0/16 Reject zstatic",
        "10.5.0.0/24 192.168.1.7%2 zstatic",
        "192.168.0.0/24 Link(IfaceId(1)) kernel",
        "192.168.1.0/24 Link(IfaceId(2)) kernel",
        "2001:db8:1::/64 Link(IfaceId(2)) kernel",
        "2001:db8:5::/48 Gateway(IfaceId(2), 2001:db8:1::2) zstatic",
    ];
    assert_eq!(router.lines(), expected);
    let counts = &router.engine.counts;
    assert_eq!((counts.removed.get(), counts.ignored.get(), counts.malformed.get()), (1, 1, 0), "{counts:?}");
}

#[test]
fn a_replacement_in_one_frame_has_no_hole() {
    let mut router = Router::connected();
    router.apply(&[Wire::hop(1, 3, 1), Wire::hop(2, 5, 2)].map(|hop| frame(&[hop])).concat());
    let to: Prefix = "10.0.0.0/8".parse().unwrap();
    router.apply(&frame(&[Wire::route(to, BGP).nh_id(1)]));
    let (reader, is_done) = (router.v4.reader(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut found = 0u64;
            while !is_done.load(Ordering::Relaxed) {
                let pinned = reader.pin(lock::Cx::enter(lock::How::Register, Instant::ZERO));
                assert!(reader.lookup_within(&pinned, 0x0a01_0203).is_some(), "a hole after {found} lookups");
                found += 1;
            }
            found
        });
        for round in 0..5_000 {
            router.apply(&frame(&[Wire::del(to, BGP), Wire::route(to, BGP).nh_id(1 + round % 2)]));
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(looking.join().unwrap() > 0);
    });
    assert_eq!(router.engine.counts.removed.get(), 0);
    // A removal that another prefix follows is one.
    let other: Prefix = "11.0.0.0/8".parse().unwrap();
    assert!(router.apply(&frame(&[Wire::del(to, BGP), Wire::route(other, BGP).nh_id(1)])));
    assert_eq!(router.lines(), ["11.0.0.0/8 192.0.2.1%1 bgp"]);
}

#[test]
fn an_equal_route_changes_nothing() {
    let mut router = Router::connected();
    let stream = [frame(&[Wire::hop(1, 3, 1)]), many(100, 1)].concat();
    assert!(router.apply(&stream));
    assert!(!router.apply(&stream));
    let updates: Vec<u8> = (0..100)
        .flat_map(|i| {
            let to = Prefix::masked(0x0a00_0000 | i << 8, 24);
            frame(&[Wire::del(to, BGP), Wire::route(to, BGP).nh_id(1)])
        })
        .collect();
    assert!(!router.apply(&updates));
    assert_eq!((router.engine.counts.changed.get(), router.engine.counts.unchanged.get()), (100, 200));
}

#[test]
fn a_changed_next_hop_moves_its_routes_and_groups() {
    let mut router = Router::connected();
    let group = Builder::new_group(9, &[(1, 1), (2, 3)]);
    // The group is announced before its members, as zebra does.
    let frames = [group, Wire::hop(1, 3, 1), Wire::hop(2, 5, 2)].map(|hop| frame(&[hop])).concat();
    router.apply(&frames);
    router.apply(&many(50, 9));
    let to: Prefix = "11.0.0.0/8".parse().unwrap();
    router.apply(&frame(&[Wire::route(to, BGP).nh_id(1)]));
    assert_eq!(router.lines()[49], "10.0.49.0/24 192.0.2.1%1*1 192.0.2.2%2*3 bgp");
    assert!(router.apply(&frame(&[Wire::hop(1, 5, 7)])));
    assert_eq!(router.via("11.0.0.0/8"), Some(gateway(2, 7)));
    assert_eq!(router.lines()[49], "10.0.49.0/24 192.0.2.7%2*1 192.0.2.2%2*3 bgp");
    assert!(router.apply(&frame(&[Builder::new_group(9, &[(2, 5)])])));
    assert_eq!(router.lines()[0], "10.0.0.0/24 192.0.2.2%2 bgp");
    assert!(router.apply(&frame(&[Wire::hop(1, 5, 8)])));
    assert_eq!(router.via("11.0.0.0/8"), Some(gateway(2, 8)));
    assert_eq!(router.lines()[0], "10.0.0.0/24 192.0.2.2%2 bgp", "no longer a member");
    // zebra may forget a next hop that routes still use; they keep it.
    router.apply(&[9, 1, 2].map(|id| frame(&[Builder::del_next_hop(id)])).concat());
    assert_eq!((router.engine.next_hops(), router.lines()[0].as_str()), (0, "10.0.0.0/24 192.0.2.2%2 bgp"));
}

#[test]
fn a_route_waits_for_its_next_hop() {
    let mut router = Router::connected();
    let [first, second] = ["10.0.0.0/8", "11.0.0.0/8"].map(|to| to.parse::<Prefix>().unwrap());
    router.apply(&frame(&[Wire::route(first, BGP).nh_id(7)]));
    router.apply(&frame(&[Wire::route(second, BGP).nh_id(7)]));
    assert_eq!((router.engine.waiting(), router.v4.len()), (2, 0));
    router.apply(&frame(&[Wire::del(second, BGP)]));
    assert_eq!(router.engine.waiting(), 1);
    // Through a device of nobody: still no path.
    router.apply(&frame(&[Wire::hop(7, 99, 1)]));
    assert_eq!((router.engine.waiting(), router.v4.len()), (1, 0));
    assert!(router.apply(&frame(&[Wire::hop(7, 3, 1)])));
    assert_eq!((router.engine.waiting(), router.lines()), (0, vec!["10.0.0.0/8 192.0.2.1%1 bgp".to_owned()]));
    // A route that moves to an unknown next hop is not left at the old one.
    assert!(router.apply(&frame(&[Wire::del(first, BGP), Wire::route(first, BGP).nh_id(8)])));
    assert_eq!((router.engine.waiting(), router.v4.len()), (1, 0));
    let counts = &router.engine.counts;
    assert_eq!((counts.unknown_next_hop.get(), counts.no_path.get()), (3, 0));
}

#[test]
fn waiting_routes_are_limited_and_counted() {
    let mut router = Router::connected();
    for part in 0..11 {
        let stream: Vec<u8> = (0..10_000)
            .flat_map(|i| frame(&[Wire::route(Prefix::masked((part * 10_000 + i) << 8, 24), BGP).nh_id(7)]))
            .collect();
        router.apply(&stream);
    }
    let lost = router.engine.counts.waiting_full.get();
    let ignored = router.engine.counts.ignored.get();
    assert_eq!((router.engine.waiting(), lost + ignored), (100_000, 10_000));
    assert!(router.apply(&frame(&[Wire::hop(7, 3, 1)])));
    assert_eq!((router.engine.waiting(), router.v4.len()), (0, 100_000));
}

#[test]
fn routes_outlast_a_connection_until_their_time_is_over() {
    let mut router = Router::connected();
    router.apply(&[frame(&[Wire::hop(1, 3, 1)]), many(1000, 1)].concat());
    router.disconnect();
    router.pass(Duration::from_secs(119));
    assert_eq!((router.v4.len(), router.engine.due().is_some()), (1000, true));
    router.pass(Duration::from_secs(2));
    assert_eq!((router.v4.len(), router.engine.due(), router.engine.next_hops()), (0, None, 0));
    assert_eq!(router.engine.counts.swept.get(), 1000);
    assert_eq!(router.v4.learned_by_protocol().count(), 0);
}

#[test]
fn a_new_connection_with_other_numbers_changes_no_route() {
    let mut router = Router::connected();
    let group = |id, a, b| frame(&[Builder::new_group(id, &[(a, 1), (b, 1)])]);
    let hops = |a, b| [frame(&[Wire::hop(a, 3, 1)]), frame(&[Wire::hop(b, 5, 2)])].concat();
    router.apply(&[hops(1, 2), group(3, 1, 2), many(1000, 3)].concat());
    let before = router.lines();
    router.disconnect();
    router.connect();
    // Number 3 is now a single next hop: stale routes must not move with it.
    let stream = [frame(&[Wire::hop(3, 3, 9)]), hops(11, 12), group(13, 11, 12), many(900, 13)].concat();
    assert!(!router.apply(&stream), "no route has changed");
    assert_eq!(router.lines(), before);
    assert_eq!([1, 2].map(|generation| router.v4.learned_by(generation)), [100, 900]);
    router.pass(Duration::from_secs(121));
    assert_eq!(router.v4.len(), 900);
    assert_eq!(router.lines(), before[..900]);
}

#[test]
fn a_marker_ends_the_time_of_stale_routes() {
    let config = FpmConfig { marker: marker("198.51.100.254/32"), ..FpmConfig::default() };
    let mut router = Router::with(config, DEFAULT_LIMIT);
    router.connect();
    router.apply(&[frame(&[Wire::hop(1, 3, 1)]), many(10, 1)].concat());
    router.disconnect();
    router.connect();
    router.apply(&[frame(&[Wire::hop(1, 3, 1)]), many(4, 1)].concat());
    router.pass(Duration::ZERO);
    assert_eq!(router.v4.len(), 10);
    router.apply(&frame(&[Wire::route("198.51.100.254/32".parse().unwrap(), 196).kind(6)]));
    router.pass(Duration::ZERO);
    assert_eq!((router.v4.len(), router.engine.counts.markers.get()), (5, 1));
}

#[test]
fn numbers_of_connections_are_used_again() {
    let mut router = Router::connected();
    let hop = frame(&[Wire::hop(1, 3, 1)]);
    router.apply(&[hop.clone(), many(10, 1)].concat());
    for _ in 0..600 {
        router.disconnect();
        router.connect();
    }
    assert_eq!(router.v4.len(), 0, "the number of their connection was needed again");
    router.apply(&[hop, many(10, 1)].concat());
    router.pass(Duration::from_secs(121));
    assert_eq!(router.v4.len(), 10);
}

#[test]
fn routes_that_are_not_for_this_host_are_counted() {
    let mut router = Router::connected();
    router.apply(&frame(&[Wire::hop(1, 3, 1)]));
    let to = |text: &str| text.parse::<Prefix>().unwrap();
    let kept: Prefix = to("10.0.0.0/8");
    router.apply(&frame(&[Wire::route(kept, BGP).nh_id(1)]));
    let counted = |router: &Router| {
        let counts = &router.engine.counts;
        [counts.other_table.get(), counts.ignored.get(), counts.no_path.get()]
    };
    for (message, expected) in [
        (Wire::route(kept, BGP).nh_id(1).table(100), [1, 0, 0]),
        (Wire::route(kept, BGP).nh_id(1).table(1000), [2, 0, 0]),
        (Wire::del(kept, BGP).table(1000), [3, 0, 0]),
        (Wire::route(to("0.0.0.0/0"), KERNEL).nh_id(1), [3, 1, 0]),
        (Wire::route(to("127.0.0.0/8"), KERNEL).nh_id(1), [3, 2, 0]),
        (Wire::route(to("224.0.0.0/4"), BGP).nh_id(1), [3, 3, 0]),
        (Wire::route6("fe80::/64".parse().unwrap(), KERNEL).nh_id(1), [3, 4, 0]),
        (Wire::route6("ff00::/8".parse().unwrap(), KERNEL).nh_id(1), [3, 5, 0]),
        (Wire::route(to("12.0.0.0/8"), BGP).kind(5), [3, 5, 1]), // multicast
        (Wire::route(to("12.0.0.0/8"), BGP), [3, 5, 2]),         // no next hop at all
        (Wire::route(to("12.0.0.0/8"), BGP).oif(99), [3, 5, 3]),
    ] {
        assert!(!router.apply(&frame(&[message])));
        assert_eq!(counted(&router), expected);
    }
    assert_eq!(router.lines(), ["10.0.0.0/8 192.0.2.1%1 bgp"]);
    assert!(router.apply(&frame(&[Wire::route(to("0.0.0.0/0"), BGP).nh_id(1)])), "BGP's default route is used");
}

#[test]
fn next_hops_in_the_route_itself_are_used() {
    let mut router = Router::connected();
    let to: Prefix = "10.0.0.0/8".parse().unwrap();
    assert!(router.apply(&frame(&[Wire::route(to, BGP).oif(3)])));
    assert_eq!(router.via("10.0.0.0/8"), Some(Via::Link(IfaceId(1))));
    assert!(router.apply(&frame(&[Wire::route(to, BGP).oif(5).gateway([192, 0, 2, 4].into())])));
    assert_eq!(router.via("10.0.0.0/8"), Some(gateway(2, 4)));
    let multipath = Wire::route(to, BGP).multipath(&[(3, [192, 0, 2, 1].into(), 1), (5, [192, 0, 2, 2].into(), 2)]);
    assert!(router.apply(&frame(std::slice::from_ref(&multipath))));
    assert!(!router.apply(&frame(&[multipath])));
    assert_eq!(router.lines(), ["10.0.0.0/8 192.0.2.1%1*1 192.0.2.2%2*2 bgp"]);
}

#[test]
fn routes_with_next_hops_of_their_own_stay_when_a_port_is_removed() {
    let mut router = Router::connected();
    let (one, both): (Prefix, Prefix) = ("10.0.0.0/8".parse().unwrap(), "11.0.0.0/8".parse().unwrap());
    let multipath = Wire::route(both, BGP).multipath(&[(3, [192, 0, 2, 1].into(), 1), (5, [192, 0, 2, 2].into(), 1)]);
    router.apply(&frame(&[Wire::route(one, BGP).oif(3).gateway([192, 0, 2, 4].into())]));
    router.apply(&frame(&[multipath]));
    let before = router.lines();
    router.links.remove(&3);
    router.v4.forget_iface(IfaceId(1));
    router.do_with(|engine, tables| engine.relink(tables));
    assert_eq!(router.lines(), ["10.0.0.0/8 Reject bgp", "11.0.0.0/8 192.0.2.2%2 bgp"]);
    router.links.insert(3, IfaceId(1));
    assert!(router.do_with(|engine, tables| engine.relink(tables)));
    assert_eq!(router.lines(), before);
    // On a new connection, too; next hops that no route uses are not kept.
    router.disconnect();
    router.connect();
    for i in 0..5000u32 {
        let gateway = Ipv4Addr::from_bits(0xc000_0300 | i).into();
        router.apply(&frame(&[Wire::route(one, BGP).oif(3).gateway(gateway)]));
    }
    assert!(router.v4.hops_in_use() < 2100, "{}", router.v4.hops_in_use());
}

#[test]
fn groups_that_make_no_sense_have_no_path() {
    let mut router = Router::connected();
    let to: Prefix = "10.0.0.0/8".parse().unwrap();
    let frames = [
        Builder::new_group(1, &[(1, 1)]),  // itself
        Builder::new_group(2, &[(1, 1)]),  // a group
        Builder::new_group(3, &[(77, 1)]), // a number that nobody announces
        Builder::new_group(4, &[]),        // nothing
    ];
    for (id, hop) in (1..).zip(frames) {
        router.apply(&frame(&[hop]));
        assert!(!router.apply(&frame(&[Wire::route(to, BGP).nh_id(id)])), "{id}");
    }
    assert_eq!((router.v4.len(), router.engine.waiting()), (0, 1));
    let all: Vec<(u32, u16)> = (1000..1100).map(|id| (id, 1)).collect();
    for id in 1000..1100 {
        router.apply(&frame(&[Wire::hop(id, 3, id as u8)]));
    }
    router.apply(&frame(&[Builder::new_group(6, &all)]));
    assert!(router.apply(&frame(&[Wire::route(to, BGP).nh_id(6)])));
    let Some(Via::Paths(set)) = router.via("10.0.0.0/8") else { panic!() };
    assert_eq!(router.v4.paths(set).len(), inet::route::PATHS_MAX, "the first of 100 paths");
}

// RFC 8950: an IPv4 route may have an IPv6 gateway, an IPv6 route has no IPv4 gateway.
#[test]
fn ipv4_routes_use_ipv6_gateways() {
    let mut router = Router::connected();
    let to: Prefix = "10.0.0.0/8".parse().unwrap();
    let gateway: Ipv6Addr = "fe80::2".parse().unwrap();
    let via = Via::Gateway6(IfaceId(1), gateway);
    router.apply(&frame(&[Builder::new_next_hop(1, 3, gateway.into())]));
    assert!(router.apply(&frame(&[Wire::route(to, BGP).nh_id(1)])));
    assert_eq!(router.via("10.0.0.0/8"), Some(via));
    // A group with members of both families, and the same address for an IPv6 route.
    router.apply(&frame(&[Wire::hop(2, 3, 9)]));
    router.apply(&frame(&[Builder::new_group(3, &[(1, 1), (2, 1)])]));
    assert!(router.apply(&frame(&[Wire::route(to, BGP).nh_id(3)])));
    let Some(Via::Paths(set)) = router.via("10.0.0.0/8") else { panic!() };
    let paths: Vec<Via> = router.v4.paths(set).iter().map(|path| path.via).collect();
    assert!(paths.len() == 2 && paths.contains(&via), "{paths:?}");
    let to6: Prefix6 = "2001:db8::/32".parse().unwrap();
    assert!(router.apply(&frame(&[Wire::route6(to6, BGP).nh_id(3)])));
    assert_eq!(router.v6.at(to6).map(|route| route.via), Some(Via::Gateway(IfaceId(1), gateway)));
}

#[test]
fn a_full_table_is_counted_and_keeps_what_it_has() {
    let mut router = Router::with(FpmConfig::default(), 10);
    router.connect();
    router.apply(&[frame(&[Wire::hop(1, 3, 1)]), many(15, 1)].concat());
    assert_eq!((router.v4.len(), router.engine.counts.table_full.get()), (10, 5));
    assert!(!router.apply(&many(10, 1)), "a known route has its place");
}

#[test]
fn a_malformed_message_ends_its_frame_only() {
    let mut router = Router::connected();
    let mut bad = frame(&[Wire::hop(1, 3, 1), Wire::hop(2, 5, 2)]);
    let second = 4 + u32::from_ne_bytes(bad[4..8].try_into().unwrap()) as usize;
    bad[second..second + 4].copy_from_slice(&1_000u32.to_ne_bytes());
    router.apply(&[bad, many(3, 1)].concat());
    assert_eq!((router.engine.counts.malformed.get(), router.v4.len(), router.engine.next_hops()), (1, 3, 1));
    router.apply(&frame(&[Builder::other(16)]));
    assert_eq!(router.engine.counts.other_messages.get(), 1);
}

#[test]
fn an_own_route_hides_the_engines_until_it_is_removed() {
    let mut router = Router::connected();
    router.v4.insert("10.0.0.0/24".parse().unwrap(), Via::Link(IfaceId(2))).unwrap();
    assert!(router.apply(&[frame(&[Wire::hop(1, 3, 1)]), many(2, 1)].concat()));
    assert_eq!(router.via("10.0.0.0/24"), Some(Via::Link(IfaceId(2))));
    assert_eq!(router.engine.counts.shadowed.get(), 1);
    router.v4.remove("10.0.0.0/24".parse().unwrap());
    assert_eq!(router.lines()[0], "10.0.0.0/24 192.0.2.1%1 bgp");
}

#[test]
fn the_objects_of_next_hops_are_listed() {
    let mut router = Router::connected();
    router.apply(&[frame(&[Wire::hop(1, 3, 1)]), frame(&[Wire::hop(2, 5, 2)]), many(2, 1)].concat());
    let objects: Vec<(u32, Option<ObjectId>)> =
        router.engine.objects().into_iter().map(|(id, of)| (id, of.0)).collect();
    let [(1, Some(object)), (2, None)] = objects[..] else { panic!("{objects:?}") };
    assert_eq!(router.v4.object_uses(object), 2);
    assert_eq!(router.v4.learned_by_protocol().collect::<Vec<_>>(), [(Protocol(BGP), 2)]);
}

#[test]
fn an_ignored_route_takes_the_place_of_the_one_before_it() {
    let mut router = Router::connected();
    router.apply(&frame(&[Wire::hop(1, 3, 1)]));
    let default = "0.0.0.0/0".parse().unwrap();
    router.apply(&frame(&[Wire::route(default, BGP).nh_id(1)]));
    assert!(router.apply(&frame(&[Wire::del(default, BGP), Wire::route(default, KERNEL).nh_id(1)])));
    assert_eq!(router.lines(), [""; 0]);
}

#[test]
fn next_hops_follow_the_ports_of_the_host() {
    let mut router = Router::connected();
    router.apply(&[frame(&[Wire::hop(1, 9, 1)]), many(3, 1)].concat());
    let group = [frame(&[Wire::hop(2, 3, 2)]), frame(&[Builder::new_group(3, &[(1, 1), (2, 1)])])].concat();
    router.apply(&group);
    let to: Prefix = "11.0.0.0/8".parse().unwrap();
    router.apply(&frame(&[Wire::route(to, BGP).nh_id(3)]));
    assert_eq!(router.lines(), ["11.0.0.0/8 192.0.2.2%1 bgp"]);
    assert_eq!(router.engine.waiting(), 3);
    router.links.insert(9, IfaceId(4));
    assert!(router.do_with(|engine, tables| engine.relink(tables)));
    assert_eq!(router.lines()[2..], ["10.0.2.0/24 192.0.2.1%4 bgp", "11.0.0.0/8 192.0.2.1%4*1 192.0.2.2%1*1 bgp"]);
    // The port is removed, and a new one has the same device.
    router.links.remove(&9);
    router.v4.forget_iface(IfaceId(4));
    router.do_with(|engine, tables| engine.relink(tables));
    assert_eq!(router.lines()[2..], ["10.0.2.0/24 Reject bgp", "11.0.0.0/8 192.0.2.2%1 bgp"]);
    router.links.insert(9, IfaceId(5));
    assert!(router.do_with(|engine, tables| engine.relink(tables)));
    assert_eq!(router.lines()[2..], ["10.0.2.0/24 192.0.2.1%5 bgp", "11.0.0.0/8 192.0.2.1%5*1 192.0.2.2%1*1 bgp"]);
    assert!(!router.do_with(|engine, tables| engine.relink(tables)), "nothing has changed");
}

#[test]
fn waiting_routes_of_both_families_are_looked_at() {
    let mut router = Router::connected();
    for i in 0..20 {
        router.apply(&frame(&[Wire::route(Prefix::masked(0x0a00_0000 | i << 8, 24), BGP).nh_id(7)]));
        let six = Prefix6::masked(0x2001_0db8 << 96 | u128::from(i) << 80, 48);
        router.apply(&frame(&[Wire::route6(six, BGP).nh_id(7)]));
    }
    assert_eq!(router.engine.waiting(), 40);
    router.apply(&frame(&[Wire::hop(7, 3, 1)])); // an IPv4 gateway
    assert_eq!((router.v6.len(), router.v4.len(), router.engine.waiting()), (0, 20, 20));
}

#[test]
fn a_sweep_finds_routes_that_are_hidden_meanwhile() {
    let mut router = Router::connected();
    router.apply(&[frame(&[Wire::hop(1, 3, 1)]), many(2000, 1)].concat());
    router.disconnect();
    router.now = router.now.after(Duration::from_secs(121));
    router.do_with(|engine, tables| engine.turn(tables));
    let last = Prefix::masked(0x0a00_0000 | 1999 << 8, 24);
    router.v4.insert(last, Via::Link(IfaceId(2))).unwrap();
    router.pass(Duration::ZERO);
    assert_eq!((router.v4.len(), router.v4.shadowed().count()), (1, 0));
    // A connection that gets the number of one that is being swept finishes the sweep.
    router.connect();
    router.apply(&[frame(&[Wire::hop(1, 3, 1)]), many(2000, 1)].concat());
    let number = router.engine.generation();
    router.disconnect();
    router.now = router.now.after(Duration::from_secs(121));
    router.do_with(|engine, tables| engine.turn(tables));
    for _ in 0..255 {
        router.connect();
        router.disconnect();
    }
    assert_eq!((router.engine.generation(), router.v4.learned_by(number)), (number, 0));
}

#[test]
fn a_next_hop_without_a_path_keeps_its_routes_until_it_has_one_again() {
    let mut router = Router::connected();
    let group = frame(&[Builder::new_group(9, &[(1, 1)])]);
    router.apply(&[frame(&[Wire::hop(1, 3, 1)]), group, many(3, 1)].concat());
    router.apply(&frame(&[Builder::new_next_hop(1, 99, [192, 0, 2, 1].into())]));
    assert_eq!(router.lines()[0], "10.0.0.0/24 Reject bgp");
    router.apply(&frame(&[Builder::del_next_hop(9)]));
    assert!(router.apply(&frame(&[Wire::hop(1, 5, 2)])), "the number still has its object");
    assert_eq!(router.lines()[0], "10.0.0.0/24 192.0.2.2%2 bgp");
}

#[test]
fn numbers_that_were_never_announced_do_not_stay() {
    let mut router = Router::connected();
    for round in 0..100 {
        let members: Vec<(u32, u16)> = (0..50).map(|at| (1000 + round * 50 + at, 1)).collect();
        router.apply(&frame(&[Builder::new_group(1, &members)]));
    }
    assert_eq!(router.engine.next_hops(), 1);
    router.apply(&frame(&[Builder::del_next_hop(1)]));
    assert_eq!((router.engine.next_hops(), router.engine.objects().len()), (0, 0));
}

/// Seeds of the fuzz target: the recorded stream, and streams with groups, waiting routes and own
/// routes. The body runs on each, and on each with some bytes changed.
#[test]
fn streams_leave_nothing_behind() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/wire_fpm/frr-8.4.4-static");
    let recorded = std::fs::read(path).unwrap();
    let own: Prefix = "10.1.0.0/16".parse().unwrap();
    let grouped = [
        frame(&[Builder::new_group(9, &[(1, 1), (2, 3)])]),
        frame(&[Wire::route(own, BGP).nh_id(9)]),
        frame(&[Wire::hop(1, 3, 1), Wire::hop(2, 5, 2)]),
        many(3, 9),
        frame(&[Builder::del_next_hop(1)]),
        frame(&[
            Wire::del(own, BGP),
            Wire::route(own, BGP).multipath(&[(3, [192, 0, 2, 1].into(), 1), (5, [192, 0, 2, 2].into(), 2)]),
        ]),
    ]
    .concat();
    // The first route leaves a next hop, which is dead during the second half.
    let left = [
        frame(&[Wire::hop(1, 3, 1), Wire::hop(2, 5, 2)]),
        many(5, 1),
        frame(&[Wire::route("10.0.0.0/24".parse().unwrap(), BGP).nh_id(2)]),
    ]
    .concat();
    let seeds = [
        ("left", left.repeat(2)),
        ("recorded", recorded.clone()),
        ("twice", recorded.repeat(2)),
        ("grouped", grouped.repeat(2)),
        ("waiting", many(5, 7)),
    ];
    crate::fuzz::tests::hold_bytes("node_fpm", &seeds, crate::fuzz::fpm);
}
