//! Streams of a routing engine.

use crate::fpm::{Engine, FpmConfig, Links, Tables};
use clock::{Duration, Instant};
use inet::iface::IfaceId;
use inet::route::{Route, Routes, Via};
use wire::fpm::whole_frames;

/// Applies the halves of `data` as the streams of two connections to tables with an own route. An
/// iface is down during the second.
///
/// Invariants: no panic; the tables have as many routes of the engine as were counted; the own route
/// stays; nothing is left of the engine after its last connection has ended and its time is over.
pub fn fpm(data: &[u8]) {
    let (mut v4, mut v6) = (Routes::new(64, 1), Routes::new(64, 1));
    let own = "10.1.0.0/16".parse().unwrap();
    v4.insert(own, Via::Link(IfaceId(2))).unwrap();
    let links = Links::from([(3, IfaceId(1)), (5, IfaceId(2))]);
    let mut engine = Engine::new(FpmConfig::default());
    let mut now = Instant::from_millis(1);
    let (first, second) = data.split_at(data.len() / 2);
    for (stream, is_alive) in [(first, true), (second, false)] {
        v4.set_iface_alive(IfaceId(1), is_alive);
        v6.set_iface_alive(IfaceId(1), is_alive);
        let mut tables = Tables { v4: &mut v4, v6: &mut v6, links: &links, now };
        engine.connect(&mut tables);
        let whole = whole_frames(stream).unwrap_or_else(|(whole, _)| whole);
        let (used, _) = engine.apply(&stream[..whole], usize::MAX, &mut tables);
        assert_eq!(used, whole);
        let learned = v4.iter().filter(|route| !route.origin.is_own()).count() + v4.shadowed().count();
        assert_eq!(learned, v4.learned_by_protocol().map(|(_, count)| count as usize).sum());
        let learned6 = v6.iter().count() + v6.shadowed().count();
        assert_eq!(learned6, v6.learned_by_protocol().map(|(_, count)| count as usize).sum());
        assert_eq!(v4.get(own), Some(Via::Link(IfaceId(2))));
        engine.disconnect(now);
        now = now.after(Duration::from_secs(1));
    }
    v4.set_iface_alive(IfaceId(1), true);
    v6.set_iface_alive(IfaceId(1), true);
    assert_eq!((v4.diverted(), v6.diverted()), (0, 0), "the iface is up again");
    now = now.after(Duration::from_secs(121));
    let mut tables = Tables { v4: &mut v4, v6: &mut v6, links: &links, now };
    while engine.turn(&mut tables) {}
    assert_eq!((engine.next_hops(), engine.waiting(), engine.due()), (0, 0, None));
    assert_eq!(v4.iter().collect::<Vec<_>>(), [Route::own(own, Via::Link(IfaceId(2)))]);
    assert_eq!((v4.shadowed().count(), v6.len()), (0, 0));
    assert_eq!(v4.hops_in_use() + v6.hops_in_use(), 1, "next hops that nobody uses are left");
}
