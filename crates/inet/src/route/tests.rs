use super::*;
use crate::iface::IfaceId;
use fib::Prefix;
use std::net::Ipv4Addr;

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
