use super::*;
use crate::iface::IfaceId;
use fib::Prefix;
use std::net::{Ipv4Addr, Ipv6Addr};

fn gateway(i: u8) -> Via {
    Via::Gateway(IfaceId(1), Ipv4Addr::new(10, 0, 0, i))
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

#[test]
fn an_unused_next_hop_is_reused_once_no_reader_has_it() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 4);
    let reader = routes.reader();
    routes.insert(prefix("10.1.0.0/16"), gateway(1)).unwrap();
    let id = routes.hop_to(gateway(1)).unwrap();
    let pinned = reader.pins().pin_at(2);
    assert_eq!(routes.insert(prefix("10.1.0.0/16"), gateway(2)), Ok(Some(gateway(1))));
    for i in 3..100 {
        routes.insert(prefix("10.1.0.0/16"), gateway(i)).unwrap();
    }
    assert_eq!(reader.hop(&pinned, id).map(|hop| hop.via), Some(gateway(1)), "a reader may still use the next hop");
    drop(pinned);
    for i in 3..100 {
        routes.insert(prefix("10.1.0.0/16"), gateway(i)).unwrap();
    }
    assert!(routes.uses.len() < 120, "{} numbers were allocated for one next hop at a time", routes.uses.len());
}

#[test]
fn routes_with_the_same_paths_share_a_set_until_the_last_is_removed() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let paths = [1, 2].map(|i| Path { via: gateway(i), weight: 1 });
    routes.insert_paths(prefix("10.1.0.0/16"), &paths).unwrap();
    routes.insert_paths(prefix("10.2.0.0/16"), &paths).unwrap();
    let Some(Via::Paths(id)) = routes.get(prefix("10.2.0.0/16")) else { panic!() };
    assert_eq!((routes.get(prefix("10.1.0.0/16")), routes.paths(id)), (Some(Via::Paths(id)), &paths[..]));
    assert!(routes.ways.has_paths());
    for text in ["10.1.0.0/16", "10.2.0.0/16"] {
        routes.remove(prefix(text));
    }
    routes.look_after();
    routes.look_after();
    assert!(!routes.ways.has_paths() && routes.by_via.is_empty());
    assert_eq!(routes.free.len(), routes.uses.len());
    assert_eq!(routes.insert_paths(prefix("10.1.0.0/16"), &[]), Err(RouteError::BadPaths));
    let nowhere = Path { via: Via::Reject, weight: 1 };
    assert_eq!(routes.insert_paths(prefix("10.1.0.0/16"), &[paths[0], nowhere]), Err(RouteError::BadPaths));
}

#[test]
fn an_adjacency_is_kept_only_for_its_gateway() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let reader = routes.reader();
    routes.insert(prefix("10.1.0.0/16"), gateway(1)).unwrap();
    let (cx, id) = (lock::Cx::enter(lock::How::Register, clock::Instant::ZERO), routes.hop_to(gateway(1)).unwrap());
    reader.remember(cx, id, gateway(2), [7; 14], 5);
    assert_eq!(reader.lookup(cx, Ipv4Addr::new(10, 1, 1, 1)).map(|hop| hop.epoch), Some(0), "wrong gateway");
    let link = std::array::from_fn(|at| at as u8);
    reader.remember(cx, id, gateway(1), link, 5);
    let hop = reader.lookup(cx, Ipv4Addr::new(10, 1, 1, 1)).unwrap();
    assert_eq!((hop.via, hop.adjacency, hop.epoch), (gateway(1), link, 5));
}

#[test]
fn a_dead_path_is_avoided_and_retried_by_one_flow() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let reader = routes.reader();
    let paths = [1, 2].map(|i| Path { via: gateway(i), weight: 1 });
    routes.insert_paths(prefix("10.1.0.0/16"), &paths).unwrap();
    let Some(Via::Paths(id)) = routes.get(prefix("10.1.0.0/16")) else { panic!() };
    let pinned = reader.pins().pin_at(0);
    let ways_at = |seconds: u64| -> Vec<Via> {
        let now = clock::Instant::ZERO.after(clock::Duration::from_secs(seconds));
        (0..512u64)
            .map(|i| reader.choose(&pinned, id, i.wrapping_mul(0x9e37_79b9_7f4a_7c15), now).unwrap().via)
            .collect()
    };
    let before = ways_at(1);
    let count = |vias: &[Via], of: Via| vias.iter().filter(|via| **via == of).count();
    assert!(count(&before, gateway(1)) > 150 && count(&before, gateway(2)) > 150);
    assert_eq!(before, ways_at(2), "a flow keeps its path");
    let dead = routes.hop_to(gateway(1)).unwrap();
    reader.set_dead(dead, Some(clock::Instant::ZERO.after(clock::Duration::from_secs(20))));
    assert_eq!(count(&ways_at(3), gateway(1)), 0);
    assert_eq!(count(&ways_at(21), gateway(1)), 1, "one packet tries the dead gateway again");
    assert_eq!(count(&ways_at(22), gateway(1)), 0);
    reader.set_dead(dead, None);
    assert_eq!(before, ways_at(23));
}

fn engine(generation: u8) -> Origin {
    Origin::engine(Protocol(186), generation, clock::Instant::from_nanos(5_000_000_000))
}

/// Returns the target of the route to `prefix` that is used.
fn used(routes: &Routes, prefix: Prefix) -> Option<Via> {
    routes.at(prefix).map(|route| route.via)
}

fn path(i: u8) -> Path {
    Path { via: gateway(i), weight: 1 }
}

#[test]
fn an_object_moves_all_its_routes_and_is_freed_after_the_last() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let reader = routes.reader();
    let cx = lock::Cx::enter(lock::How::Register, clock::Instant::ZERO);
    let object = routes.new_object(&[path(1)]).unwrap();
    for i in 0..100 {
        let to = Prefix::masked(u32::from_be_bytes([10, i, 0, 0]), 16);
        assert_eq!(routes.learn(to, Target::Object(object), engine(1)), Ok(Learned::Changed));
    }
    let via = |i: u8| reader.lookup(cx, Ipv4Addr::new(10, i, 1, 1)).unwrap().via;
    assert_eq!((via(0), via(99), routes.object_uses(object)), (gateway(1), gateway(1), 100));
    assert_eq!(routes.set_object(object, &[path(1)]), Ok(false), "an equal object is not a change");
    assert_eq!(routes.set_object(object, &[path(2)]), Ok(true));
    assert_eq!((via(0), via(99)), (gateway(2), gateway(2)));
    assert_eq!(used(&routes, prefix("10.7.0.0/16")), Some(gateway(2)));

    // The cached Ethernet header is that of the target, not of the object.
    let hop = reader.lookup(cx, Ipv4Addr::new(10, 3, 1, 1)).unwrap();
    reader.remember(cx, hop.id, gateway(2), [7; 14], 5);
    let pinned = reader.pins().pin_at(0);
    let (mut ids, mut link) = ([None; 2], [0; 14]);
    assert!(reader.lookup_chunk(&pinned, &[0x0a03_0101, 0x0a04_0101], &mut ids).is_some(), "the same target");
    reader.adjacency_to(&pinned, ids[0].unwrap(), IfaceId(1), 5).unwrap().write(&mut link);
    assert_eq!(link, [7; 14]);
    drop(pinned);

    assert_eq!(routes.set_object(object, &[path(2), path(3)]), Ok(true));
    assert!(matches!(via(0), Via::Paths(_)));
    routes.forget_iface(IfaceId(1));
    assert_eq!((via(0), routes.len()), (Via::Reject, 100), "an object without paths rejects");

    routes.remove_object(object);
    assert_eq!((via(0), routes.object_uses(object)), (Via::Reject, 100), "its routes keep it");
    assert_eq!(routes.sweep(1, None, 1000), (100, None));
    (0..4).for_each(|_| routes.look_after());
    assert!(routes.by_via.is_empty() && routes.waiting.is_empty() && !routes.ways.has_paths());
    assert_eq!(routes.free.len(), routes.uses.len());
}

#[test]
fn invalid_objects_are_refused_and_keep_what_they_had() {
    let mut routes: Routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let reject = Path { via: Via::Reject, weight: 1 };
    assert_eq!(routes.new_object(&[path(1), reject]), Err(RouteError::BadPaths));
    let object = routes.new_object(&[path(1), path(2)]).unwrap();
    routes.learn(prefix("10.1.0.0/16"), Target::Object(object), engine(1)).unwrap();
    let set = used(&routes, prefix("10.1.0.0/16"));
    let nested = Path { via: set.unwrap(), weight: 1 };
    assert_eq!(routes.set_object(object, &[nested]), Err(RouteError::BadPaths));
    assert_eq!(used(&routes, prefix("10.1.0.0/16")), set);
    assert_eq!(routes.set_object(object, &[]), Ok(true));
    assert_eq!(used(&routes, prefix("10.1.0.0/16")), Some(Via::Reject));
}

#[test]
fn an_unchanged_route_stores_nothing_and_keeps_its_age() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let to = prefix("10.1.0.0/16");
    let [first, second] = [1, 2].map(|i| routes.new_object(&[path(i)]).unwrap());
    assert_eq!(routes.learn(to, Target::Object(first), engine(1)), Ok(Learned::Changed));
    let later = Origin::engine(Protocol(186), 2, clock::Instant::from_nanos(9_000_000_000));
    assert_eq!(routes.learn(to, Target::Object(first), later), Ok(Learned::Same));
    assert_eq!(routes.at(to).unwrap().origin, Origin { since: 5, ..later });
    assert_eq!([1, 2].map(|generation| routes.learned_by(generation)), [0, 1]);
    assert_eq!(routes.sweep(1, None, 10), (0, None), "the new connection has announced it");
    assert_eq!(routes.learn(to, Target::Object(second), later), Ok(Learned::Changed));
    let ospf = Origin { protocol: Protocol(188), ..later };
    assert_eq!(routes.learn(to, Target::Object(second), ospf), Ok(Learned::Changed));
    assert_eq!(routes.at(to).unwrap().origin, ospf);
    for via in [Via::Blackhole, Via::Reject, Via::Prohibit] {
        assert_eq!(routes.learn(to, Target::Via(via), ospf), Ok(Learned::Changed));
        assert_eq!(routes.learn(to, Target::Via(via), ospf), Ok(Learned::Same));
        assert_eq!(used(&routes, to), Some(via));
    }
}

#[test]
fn an_own_route_is_used_instead_of_the_engines() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let to = prefix("10.1.0.0/16");
    let object = routes.new_object(&[path(1)]).unwrap();
    routes.insert(to, gateway(9)).unwrap();
    assert_eq!(routes.learn(to, Target::Object(object), engine(1)), Ok(Learned::Shadowed));
    assert_eq!((used(&routes, to), routes.shadowed().count()), (Some(gateway(9)), 1));
    assert_eq!(routes.remove(to), Some(gateway(9)));
    assert_eq!((used(&routes, to), routes.shadowed().count()), (Some(gateway(1)), 0));
    // Own again, while the engine's route is used.
    assert_eq!(routes.insert(to, gateway(8)), Ok(Some(gateway(1))));
    assert_eq!((used(&routes, to), routes.shadowed().count()), (Some(gateway(8)), 1));
    assert!(routes.unlearn(to), "the engine removes its route");
    assert!(!routes.unlearn(to));
    assert_eq!((used(&routes, to), routes.object_uses(object)), (Some(gateway(8)), 0));
    // A sweep does not touch own routes, but shadowed ones.
    routes.learn(to, Target::Object(object), engine(1)).unwrap();
    assert_eq!(routes.sweep(1, None, 10), (1, None));
    assert_eq!((used(&routes, to), routes.shadowed().count()), (Some(gateway(8)), 0));
    // Only the engine removes its routes.
    routes.remove(to);
    routes.learn(to, Target::Object(object), engine(2)).unwrap();
    assert_eq!((routes.get(to), routes.remove(to), routes.len()), (None, None, 1));
    assert!(routes.unlearn(to));
    assert_eq!(routes.learned_by_protocol().count(), 0, "every route was counted in and out");
}

#[test]
fn a_sweep_continues_where_it_stopped() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let object = routes.new_object(&[path(1)]).unwrap();
    for i in 0..100u8 {
        let to = Prefix::masked(u32::from_be_bytes([10, i, 0, 0]), 16);
        let generation = if i.is_multiple_of(3) { 2 } else { 1 };
        routes.learn(to, Target::Object(object), engine(generation)).unwrap();
    }
    let (mut removed, mut after, mut steps) = (0, None, 0);
    loop {
        let (of_step, next) = routes.sweep(1, after, 7);
        (removed, after, steps) = (removed + of_step, next, steps + 1);
        if next.is_none() {
            break;
        }
    }
    assert_eq!((removed, routes.len(), routes.learned_by(1), routes.learned_by(2)), (66, 34, 0, 34));
    assert_eq!(routes.learned_by_protocol().collect::<Vec<_>>(), [(Protocol(186), 34)]);
    assert_eq!(steps, 15, "each step looks at 7 routes");
}

/// While one thread changes the target of an object and next hops are reused, a reader sees only
/// targets that the object had.
#[test]
fn readers_see_only_targets_of_the_object() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 2);
    let reader = routes.reader();
    let object = routes.new_object(&[path(1)]).unwrap();
    routes.learn(prefix("10.0.0.0/8"), Target::Object(object), engine(1)).unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                let pinned = reader.pins().pin_at(1);
                let hop = reader.lookup_within(&pinned, 0x0a01_0203).unwrap();
                let target = match hop.via {
                    Via::Paths(set) => reader.choose(&pinned, set, 77, clock::Instant::ZERO).unwrap().via,
                    via => via,
                };
                let Via::Gateway(IfaceId(1), to) = target else { panic!("{target:?}") };
                assert!(to.octets()[3] <= 40, "{to}");
            }
        });
        // Routes that come and go reuse the numbers of the object's former targets.
        for round in 0..20_000u32 {
            let i = (round % 20) as u8;
            let paths = [path(i), path(i + 20)];
            let one = round.is_multiple_of(2);
            routes.set_object(object, if one { &paths[..1] } else { &paths }).unwrap();
            routes.insert(prefix("11.0.0.0/8"), Via::Gateway(IfaceId(2), Ipv4Addr::from(round))).unwrap();
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn sets_avoid_the_paths_of_an_iface_that_is_down() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let reader = routes.reader();
    let other = Via::Gateway(IfaceId(2), Ipv4Addr::new(10, 0, 1, 1));
    let object = routes.new_object(&[path(1), Path { via: other, weight: 1 }]).unwrap();
    routes.learn(prefix("10.1.0.0/16"), Target::Object(object), engine(1)).unwrap();
    let Some(Via::Paths(set)) = used(&routes, prefix("10.1.0.0/16")) else { panic!() };
    let pinned = reader.pins().pin_at(0);
    let late = clock::Instant::from_millis(1 << 40);
    let by_other = |now| {
        let vias = (0..512u64).map(|i| reader.choose(&pinned, set, i.wrapping_mul(0x9e37_79b9_7f4a_7c15), now));
        vias.filter(|hop| hop.unwrap().via == other).count()
    };
    let before = by_other(late);
    assert!((150..362).contains(&before), "{before}");
    routes.set_iface_alive(IfaceId(1), false);
    assert_eq!(by_other(late), 512, "no packet tries a path without a link, at any time");
    routes.set_iface_alive(IfaceId(1), true);
    assert_eq!(by_other(late), before);
    // A path that is new while its iface is down is dead, too; an iface that was removed and is added
    // again is up.
    routes.set_iface_alive(IfaceId(1), false);
    routes.set_object(object, &[path(7), Path { via: other, weight: 1 }]).unwrap();
    let Some(Via::Paths(set)) = used(&routes, prefix("10.1.0.0/16")) else { panic!() };
    let dead = |id| reader.dead_until(routes.hop_to(gateway(id)).unwrap()).is_some();
    assert!(dead(7) && routes.paths(set).len() == 2);
    routes.forget_iface(IfaceId(1));
    assert!(routes.take_forgotten() && !routes.take_forgotten());
    routes.set_object(object, &[path(8), Path { via: other, weight: 1 }]).unwrap();
    assert!(reader.dead_until(routes.hop_to(gateway(8)).unwrap()).is_none());
}

#[test]
fn routes_of_an_engine_stay_its_own_when_an_iface_is_removed() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let other = Path { via: Via::Gateway(IfaceId(2), Ipv4Addr::new(10, 0, 1, 1)), weight: 1 };
    let [both, gone, hidden] = ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"].map(prefix);
    let objects = [&[path(1), other][..], &[path(1)]].map(|paths| routes.new_object(paths).unwrap());
    routes.learn(both, Target::Object(objects[0]), engine(1)).unwrap();
    routes.learn(gone, Target::Object(objects[1]), engine(1)).unwrap();
    routes.insert(hidden, other.via).unwrap();
    routes.learn(hidden, Target::Object(objects[1]), engine(1)).unwrap();
    assert_eq!(routes.learn(both, Target::Via(gateway(1)), engine(1)), Err(RouteError::BadVia));
    routes.forget_iface(IfaceId(1));
    assert_eq!((used(&routes, both), routes.at(both).unwrap().origin), (Some(other.via), engine(1)));
    assert_eq!((used(&routes, gone), routes.shadowed().count()), (Some(Via::Reject), 1));
    assert_eq!((routes.remove(hidden), used(&routes, hidden)), (Some(other.via), Some(Via::Reject)));
    objects.into_iter().for_each(|object| routes.remove_object(object));
    assert_eq!(routes.sweep(1, None, 10), (3, None));
    assert_eq!((routes.len(), routes.learned_by(1), routes.hops_in_use()), (0, 0, 0));
}

#[test]
fn many_objects_are_freed_at_once_without_recursion() {
    let mut routes: Routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let reader = routes.reader();
    let pinned = reader.pins().pin_at(0);
    let objects: Vec<ObjectId> = (0..50_000u32)
        .map(|i| {
            let via = Via::Gateway(IfaceId(1), Ipv4Addr::from(i));
            routes.new_object(&[Path { via, weight: 1 }]).unwrap()
        })
        .collect();
    objects.into_iter().for_each(|object| routes.remove_object(object));
    drop(pinned);
    for i in 0..100 {
        routes.insert(prefix("10.0.0.0/8"), gateway(i)).unwrap();
    }
    assert_eq!(routes.hops_in_use(), 1);
}

#[test]
fn an_ipv6_gateway_of_an_ipv4_route_is_read_whole() {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let reader = routes.reader();
    let via = Via::Gateway6(IfaceId(3), "2001:db8:1:2:3:4:5:6".parse().unwrap());
    routes.insert(prefix("10.1.0.0/16"), via).unwrap();
    routes.insert(prefix("10.2.0.0/16"), gateway(1)).unwrap();
    let (cx, id) = (lock::Cx::enter(lock::How::Register, clock::Instant::ZERO), routes.hop_to(via).unwrap());
    assert_eq!(reader.lookup(cx, Ipv4Addr::new(10, 1, 1, 1)).map(|hop| hop.via), Some(via));
    assert_eq!(reader.lookup(cx, Ipv4Addr::new(10, 2, 1, 1)).map(|hop| hop.via), Some(gateway(1)));
    let link = std::array::from_fn(|at| at as u8);
    reader.remember(cx, id, via, link, 5);
    let pinned = reader.pin(cx);
    assert!(reader.adjacency_to(&pinned, id, IfaceId(3), 5).is_some());
    assert!(reader.adjacency_to(&pinned, id, IfaceId(2), 5).is_none());
    assert!(reader.adjacency_to(&pinned, id, IfaceId(3), 6).is_none());
}

/// A table of a routing engine with three routes of each of two objects.
fn two_objects(first: &[Path], second: &[Path]) -> (Routes, [ObjectId; 2]) {
    let mut routes = Routes::new(fib::DEFAULT_LIMIT, 1);
    let objects = [first, second].map(|paths| routes.new_object(paths).unwrap());
    for (object, i) in objects.iter().flat_map(|object| (0..3).map(move |i| (object, i))) {
        routes.learn(route_of(*object, i), Target::Object(*object), engine(1)).unwrap();
    }
    (routes, objects)
}

fn route_of(ObjectId(id): ObjectId, i: u8) -> Prefix {
    Prefix::masked(u32::from_be_bytes([10, id.index() as u8, i, 0]), 24)
}

#[test]
fn the_first_route_that_leaves_a_dead_next_hop_takes_the_others_along() {
    let dead = Some(clock::Instant::from_nanos(1));
    let (mut routes, [one, two]) = two_objects(&[path(1)], &[path(2)]);
    let via = |routes: &Routes| [0, 1, 2].map(|i| used(routes, route_of(one, i)).unwrap());
    // While its gateway is alive, a route moves alone.
    routes.learn(route_of(one, 0), Target::Object(two), engine(1)).unwrap();
    assert_eq!((via(&routes), routes.diverted()), ([2, 1, 1].map(gateway), 0));
    routes.learn(route_of(one, 0), Target::Object(one), engine(1)).unwrap();
    routes.mark_gateway(gateway(1), dead);
    assert_eq!(via(&routes), [1; 3].map(gateway), "nobody has said where to");
    routes.learn(route_of(one, 0), Target::Object(two), engine(1)).unwrap();
    assert_eq!((via(&routes), routes.diverted()), ([2; 3].map(gateway), 1));
    assert_eq!(routes.object_paths(one), [path(1)], "as the engine announced it");
    // Its gateway answers again.
    routes.mark_gateway(gateway(1), None);
    assert_eq!((via(&routes), routes.diverted()), ([2, 1, 1].map(gateway), 0));
    // The engine changes the next hop itself.
    routes.mark_gateway(gateway(1), dead);
    routes.learn(route_of(one, 1), Target::Object(two), engine(1)).unwrap();
    assert_eq!((via(&routes), routes.diverted()), ([2; 3].map(gateway), 1));
    routes.set_object(one, &[path(3)]).unwrap();
    assert_eq!((via(&routes), routes.diverted()), ([2, 2, 3].map(gateway), 0));
    // The engine has moved all routes, and removes what was diverted.
    routes.mark_gateway(gateway(3), dead);
    for i in 0..3 {
        routes.learn(route_of(one, i), Target::Object(one), engine(1)).unwrap();
    }
    routes.learn(route_of(one, 0), Target::Object(two), engine(1)).unwrap();
    assert_eq!((via(&routes), routes.diverted()), ([2; 3].map(gateway), 1));
    assert_eq!(routes.learn(route_of(one, 1), Target::Object(two), engine(1)), Ok(Learned::Changed));
    routes.unlearn(route_of(one, 2));
    routes.remove_object(one);
    assert_eq!(routes.diverted(), 0);
    routes.remove_object(two);
    routes.sweep(1, None, 1000);
    (0..4).for_each(|_| routes.look_after());
    assert!(routes.by_via.is_empty() && routes.waiting.is_empty() && routes.free.len() == routes.uses.len());
}

#[test]
fn routes_follow_only_to_next_hops_that_may_be_alive() {
    let dead = Some(clock::Instant::from_nanos(1));
    let (mut routes, [one, two]) = two_objects(&[path(1), path(2)], &[path(2), path(3)]);
    let stays = |routes: &mut Routes, to: Target<Ipv4Addr>| {
        let before = used(routes, route_of(one, 1));
        routes.learn(route_of(one, 0), to, engine(1)).unwrap();
        let stays = used(routes, route_of(one, 1)) == before && routes.diverted() == 0;
        routes.learn(route_of(one, 0), Target::Object(one), engine(1)).unwrap();
        stays
    };
    routes.mark_gateway(gateway(1), dead);
    assert!(stays(&mut routes, Target::Object(two)), "one of its paths is alive");
    routes.mark_gateway(gateway(2), dead);
    for via in [Via::Blackhole, Via::Reject, Via::Prohibit] {
        assert!(stays(&mut routes, Target::Via(via)), "{via:?}");
    }
    assert!(!stays(&mut routes, Target::Object(two)), "one path of the other is alive");
    routes.mark_gateway(gateway(2), None);
    routes.mark_gateway(gateway(2), dead);
    routes.mark_gateway(gateway(3), dead);
    assert!(stays(&mut routes, Target::Object(two)), "no path of the other is alive");
    // A link that goes down and up again.
    routes.mark_gateway(gateway(3), None);
    routes.learn(route_of(one, 0), Target::Object(two), engine(1)).unwrap();
    assert_eq!(routes.diverted(), 1);
    routes.set_iface_alive(IfaceId(1), false);
    routes.set_iface_alive(IfaceId(1), true);
    assert_eq!(routes.diverted(), 0);
}

#[test]
fn no_route_is_diverted_to_an_iface_that_was_removed() {
    let other = Path { via: Via::Gateway(IfaceId(2), Ipv4Addr::new(10, 0, 1, 1)), weight: 1 };
    let (mut routes, [one, two]) = two_objects(&[path(1)], &[other]);
    routes.mark_gateway(gateway(1), Some(clock::Instant::from_nanos(1)));
    routes.learn(route_of(one, 0), Target::Object(two), engine(1)).unwrap();
    assert_eq!((used(&routes, route_of(one, 1)), routes.diverted()), (Some(other.via), 1));
    routes.forget_iface(IfaceId(2));
    assert_eq!((used(&routes, route_of(one, 1)), routes.diverted()), (Some(gateway(1)), 0));
    assert_eq!(used(&routes, route_of(one, 0)), Some(Via::Reject));
}

#[test]
fn diverted_routes_follow_what_happens_to_their_target() {
    let dead = Some(clock::Instant::NEVER);
    let (mut routes, [one, two]) = two_objects(&[path(1)], &[path(2)]);
    let three = routes.new_object(&[path(3)]).unwrap();
    let rest = |routes: &Routes, of: ObjectId| used(routes, route_of(of, 2)).unwrap();
    let learn = |routes: &mut Routes, prefix, to| {
        routes.learn(prefix, Target::Object(to), engine(1)).unwrap();
    };
    routes.mark_gateway(gateway(1), dead);
    learn(&mut routes, route_of(one, 0), two);
    // The engine changes the target.
    routes.set_object(two, &[path(4)]).unwrap();
    assert_eq!(rest(&routes, one), gateway(4));
    routes.set_object(two, &[]).unwrap();
    assert_eq!((rest(&routes, one), routes.diverted()), (gateway(1), 0), "the target rejects");
    // The target dies, and the next route leads elsewhere.
    routes.set_object(two, &[path(2)]).unwrap();
    learn(&mut routes, route_of(one, 1), two);
    assert_eq!(rest(&routes, one), gateway(2));
    routes.mark_gateway(gateway(2), dead);
    learn(&mut routes, route_of(one, 0), one);
    learn(&mut routes, route_of(one, 0), three);
    assert_eq!(rest(&routes, one), gateway(3));
    // The target is diverted itself, and comes back.
    learn(&mut routes, route_of(two, 0), three);
    assert_eq!((rest(&routes, two), routes.diverted()), (gateway(3), 2));
    routes.mark_gateway(gateway(2), None);
    assert_eq!((rest(&routes, one), rest(&routes, two), routes.diverted()), (gateway(3), gateway(2), 1));
    // The target ends.
    let rejected = routes.set_object(one, &[path(1), Path { via: Via::Reject, weight: 1 }]);
    assert_eq!((rejected, rest(&routes, one)), (Err(RouteError::BadPaths), gateway(3)), "unchanged");
    routes.sweep(1, None, 1000);
    [one, two, three].into_iter().for_each(|object| routes.remove_object(object));
    (0..4).for_each(|_| routes.look_after());
    assert!(routes.by_via.is_empty() && routes.waiting.is_empty() && routes.free.len() == routes.uses.len());
}

#[test]
fn a_diversion_ends_when_its_gateway_may_be_tried_again() {
    let at = |seconds| clock::Instant::ZERO.after(clock::Duration::from_secs(seconds));
    let (mut routes, [one, two]) = two_objects(&[path(1)], &[path(2)]);
    let reader = routes.reader();
    routes.mark_gateway(gateway(1), Some(at(20)));
    routes.learn(route_of(one, 0), Target::Object(two), engine(1)).unwrap();
    assert!(reader.has_diverted() && routes.poll_diversions(at(19)) == at(20));
    assert_eq!(used(&routes, route_of(one, 1)), Some(gateway(2)));
    assert_eq!(routes.poll_diversions(at(20)), clock::Instant::NEVER);
    assert_eq!((used(&routes, route_of(one, 1)), reader.has_diverted()), (Some(gateway(1)), false));
}

#[test]
fn ipv6_routes_have_ordinary_gateways() {
    let mut routes: Routes<u128> = Routes::new(fib::DEFAULT_LIMIT, 1);
    let via = Via::Gateway6(IfaceId(1), Ipv6Addr::LOCALHOST);
    assert_eq!(routes.insert("2001:db8::/32".parse().unwrap(), via), Err(RouteError::BadVia));
    let paths = [Path { via, weight: 1 }, Path { via: Via::Link(IfaceId(1)), weight: 1 }];
    assert_eq!(routes.insert_paths("2001:db8::/32".parse().unwrap(), &paths), Err(RouteError::BadVia));
    assert_eq!(routes.hops_in_use(), 0);
}
