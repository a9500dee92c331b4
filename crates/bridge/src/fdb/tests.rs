use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn key(n: u64) -> Key {
    Key::of((n % 3) as u16, n & 0xff_ffff_ffff)
}

fn table(most: usize, secs: u64) -> Fdb {
    Fdb::new(FdbConfig { most, timeout: Duration::from_secs(secs), key: hash::Key::seeded(7) })
}

fn at(secs: u64) -> Instant {
    Instant::from_millis(secs * 1000)
}

#[test]
fn a_key_is_its_parts() {
    let mac = Mac([2, 0xab, 0, 1, 2, 0xff]);
    let key = Key::new(0xfff, mac);
    assert_eq!((key.mac(), key.vid()), (mac, 0xfff));
    assert_ne!(Key::new(1, mac), Key::new(2, mac));
    assert_eq!(std::mem::size_of::<Bucket>(), 64);
}

#[test]
fn a_long_burst_is_looked_up_to_its_end() {
    let mut fdb = table(1000, 100);
    for n in 0..70 {
        assert_eq!(fdb.learn(key(n), (n % 5) as PortNo, false, at(0)), Learned::New);
    }
    let keys: Vec<Key> = (0..100).map(key).collect();
    let mut out = vec![Some(99); keys.len()];
    fdb.lookup_burst(&keys, at(1), &mut out);
    let expected: Vec<_> = (0..100).map(|n| (n < 70).then_some((n % 5) as PortNo)).collect();
    assert_eq!(out, expected);
}

#[test]
fn a_timeout_of_an_age_does_not_wrap() {
    let mut fdb = table(10, u64::MAX / 1_000_000_000);
    fdb.learn(key(1), 1, false, at(0));
    assert_eq!(fdb.lookup(key(1), at(3 * 365 * 86_400)), Some(1));
}

#[derive(Debug, Clone)]
enum Op {
    Learn(u64, PortNo),
    Static(u64, PortNo),
    Remove(u64),
    Look(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..40_u64;
    let op = prop_oneof![
        4 => (key(), 0..4_u16).prop_map(|(key, port)| Op::Learn(key, port)),
        1 => (key(), 0..4_u16).prop_map(|(key, port)| Op::Static(key, port)),
        1 => key().prop_map(Op::Remove),
        3 => key().prop_map(Op::Look),
    ];
    prop::collection::vec(op, 0..200)
}

proptest! {
    /// Checks that a table with free slots for all addresses behaves as a map in which configured
    /// entries outlast learned ones.
    #[test]
    fn it_behaves_like_a_map(ops in ops()) {
        let (mut fdb, mut model) = (table(1000, 300), HashMap::<u64, (PortNo, bool)>::new());
        for op in ops {
            match op {
                Op::Learn(n, port) => {
                    let expected = match model.get(&n) {
                        None => Learned::New,
                        Some((there, _)) if *there == port => Learned::Known,
                        Some((there, true)) => Learned::Bound(*there),
                        Some((there, false)) => Learned::Moved(*there),
                    };
                    prop_assert_eq!(fdb.learn(key(n), port, false, at(1)), expected);
                    if !matches!(expected, Learned::Bound(_) | Learned::Known) {
                        model.insert(n, (port, false));
                    }
                }
                Op::Static(n, port) => {
                    prop_assert!(fdb.insert_static(key(n), port, at(1)));
                    model.insert(n, (port, true));
                }
                Op::Remove(n) => prop_assert_eq!(fdb.remove(key(n)), model.remove(&n).is_some()),
                Op::Look(n) => {
                    let mut out = [Some(9); 1];
                    fdb.lookup_burst(&[key(n)], at(1), &mut out);
                    prop_assert_eq!(out[0], model.get(&n).map(|(port, _)| *port));
                    prop_assert_eq!(fdb.lookup(key(n), at(1)), out[0]);
                }
            }
            prop_assert_eq!(fdb.len(), model.len());
        }
        let mut all: Vec<_> = fdb.entries(at(1)).map(|entry| (entry.key, entry.port, entry.kind == Kind::Static)).collect();
        let mut expected: Vec<_> = model.iter().map(|(n, (port, bound))| (key(*n), *port, *bound)).collect();
        all.sort();
        expected.sort();
        prop_assert_eq!(all, expected);
    }
}

#[test]
fn unseen_addresses_expire_within_two_timeouts() {
    let mut fdb = table(100_000, 100);
    for n in 0..50_000 {
        fdb.learn(key(n), 1, false, at(0));
    }
    assert!(fdb.insert_static(key(99_999), 2, at(0)));
    assert_eq!(fdb.learn(key(99_998), 3, true, at(0)), Learned::New);
    // Half of the addresses are seen again.
    for n in 0..25_000 {
        assert_eq!(fdb.learn(key(n), 1, false, at(60)), Learned::Known);
    }
    assert_eq!(fdb.lookup(key(30_000), at(99)), Some(1));
    assert_eq!(fdb.lookup(key(30_000), at(101)), None, "expired, whether it was removed or not");
    assert_eq!(fdb.lookup(key(10), at(101)), Some(1));
    let mut now = 101;
    while now < 300 {
        fdb.poll(at(now));
        now += 1;
    }
    assert_eq!((fdb.len(), fdb.counts().aged), (2, 50_000));
    assert_eq!((fdb.lookup(key(99_999), at(now)), fdb.lookup(key(99_998), at(now))), (Some(2), Some(3)));
    let entry = fdb.entries(at(300)).find(|entry| entry.port == 3).unwrap();
    assert!(entry.kind == Kind::Sticky && entry.age.as_secs() >= 299, "{entry:?}");
}

#[test]
fn a_flood_of_addresses_is_bounded_and_active_ones_stay() {
    let mut fdb = table(1000, 300);
    for n in 0..500 {
        assert_eq!(fdb.learn(key(n), 1, false, at(0)), Learned::New);
    }
    // 100,000 unknown addresses in twenty minutes, while the known stations send every second.
    for n in 0..100_000_u64 {
        let now = at(n / 80);
        fdb.learn(key(1_000_000 + n), 2, false, now);
        if n % 80 == 0 {
            (0..500).for_each(|n| assert_eq!(fdb.learn(key(n), 1, false, now), Learned::Known));
        }
        assert!(fdb.len() <= 1000);
    }
    let counts = fdb.counts();
    assert!(counts.evicted > 1000 && counts.full > 1000, "{counts:?}");
    assert_eq!(counts.learned + counts.full, 100_500);
}

#[test]
fn a_table_holds_its_maximum_number_of_addresses() {
    // In a half-full table, both buckets of some addresses are full, so that another entry is
    // moved.
    const ALL: u64 = 1 << 17;
    let mut fdb = table(ALL as usize, 300);
    let learned = (0..ALL).filter(|n| fdb.learn(key(*n), 0, false, at(0)) == Learned::New).count() as u64;
    assert_eq!((learned, fdb.len() as u64), (ALL, ALL));
    assert!((0..ALL).all(|n| fdb.lookup(key(n), at(0)) == Some(0)));
    assert_eq!(fdb.learn(key(ALL), 0, false, at(0)), Learned::Full);
    assert!(!fdb.insert_static(key(ALL + 1), 0, at(0)), "no entry is old enough to be evicted");
    let gone = fdb.flush(|entry| entry.key.vid() == 1, at(0)) as u64;
    assert_eq!((gone, fdb.len() as u64), (ALL / 3 + 1, ALL - ALL / 3 - 1));
}

/// Checks the share of first buckets that the documentation of the module states.
#[test]
fn most_addresses_are_in_their_first_bucket() {
    const N: u64 = 1 << 16;
    let mut fdb = table(N as usize, 300);
    (1..=N).for_each(|n| _ = fdb.learn(key(n), 1, false, at(0)));
    let first = |n: &u64| {
        let hash = fdb.hash(key(*n), 0);
        fdb.find(key(*n), 0, hash).is_some_and(|(at, _)| at == fdb.both(hash)[0])
    };
    let there = (1..=N).filter(first).count() as u64;
    println!("{} in 1000", there * 1000 / N);
    assert!((950..=970).contains(&(there * 1000 / N)), "{there}");
}

#[test]
fn late_announcements_do_not_undo_newer_entries() {
    let mut fdb = table(100, 300);
    fdb.learn(key(1), 1, false, at(100));
    fdb.learn_from_event(key(1), 2, false, at(90), at(101));
    assert_eq!((fdb.lookup(key(1), at(101)), fdb.counts().moved), (Some(1), 0), "the event is older than the frame");
    fdb.learn_from_event(key(1), 1, false, at(90), at(101));
    assert_eq!(fdb.entries(at(110)).next().map(|entry| (entry.age.as_secs(), entry.heard)), Some((9, false)));
    fdb.learn_from_event(key(1), 2, false, at(105), at(106));
    assert_eq!((fdb.lookup(key(1), at(106)), fdb.moves(key(1), 1, at(106))), (Some(2), 1));
    assert!(fdb.entries(at(106)).all(|entry| entry.heard));
    // Of two events about the same address, the later one wins, in whichever order they arrive.
    fdb.learn_from_event(key(1), 3, false, at(104), at(107));
    assert_eq!(fdb.lookup(key(1), at(404)), Some(2));
    assert_eq!(fdb.lookup(key(1), at(406)), None, "the entry expires as if the frame had been received here");
    fdb.learn_from_event(key(2), 1, false, at(100), at(400));
    assert_eq!(fdb.lookup(key(2), at(400)), None, "the event expired before it was applied");
    fdb.learn_from_event(key(3), 1, false, at(500), at(400));
    assert_eq!(fdb.lookup(key(3), at(400)), Some(1), "the clock of another thread may be ahead");
    assert_eq!(fdb.learn(key(3), 1, false, at(401)), Learned::Known);
    assert!(fdb.entries(at(401)).all(|entry| entry.key != key(3) || !entry.heard), "a frame was received here since");
}

#[test]
fn announcements_do_not_change_static_or_sticky_entries() {
    let mut fdb = table(100, 300);
    assert!(fdb.insert_static(key(1), 1, at(0)));
    assert_eq!(fdb.learn(key(2), 1, true, at(0)), Learned::New);
    for n in [1, 2] {
        fdb.learn_from_event(key(n), 2, false, at(50), at(50));
        assert_eq!(fdb.lookup(key(n), at(50)), Some(1));
    }
    assert!(fdb.entries(at(50)).all(|entry| entry.age.as_secs() == 49 || entry.age.as_secs() == 50));
}

#[test]
fn announced_addresses_do_not_evict_active_ones() {
    let mut fdb = table(1, 300);
    fdb.learn(key(1), 1, false, at(200));
    fdb.learn_from_event(key(2), 2, false, at(100), at(200));
    assert_eq!((fdb.lookup(key(1), at(200)), fdb.counts().full), (Some(1), 1));
}
