//! Tests with concurrent readers while the table changes. Every result of a lookup must have been
//! correct at some moment during the call.
//!
//! One thread steps through versions of a set of routes, one change at a time, and publishes the
//! version number before and after each. Readers record the version around a lookup; the result
//! must equal that of a naive longest-prefix match over one of these versions.

use super::*;
use crate::few::FEW;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// All routes of one version.
type Version<A = u32> = Vec<(IpPrefix<A>, NextHopId)>;

/// Longest prefix match (RFC 1812 5.2.4.3 (2)) by linear search.
fn naive<A: Matched>(version: &Version<A>, dst: A) -> Option<NextHopId> {
    let covers = version.iter().filter(|(prefix, _)| prefix.contains(dst.to_addr()));
    covers.max_by_key(|(prefix, _)| prefix.len()).map(|(_, hop)| *hop)
}

fn step<A: Matched>(change: &Change<A>, version: &Version<A>) -> Version<A> {
    let mut next = version.clone();
    match change {
        Change::Insert(prefix, hop) => {
            next.retain(|(other, _)| other != prefix);
            next.push((*prefix, *hop));
        }
        Change::Remove(at) if !next.is_empty() => drop(next.swap_remove(at.index(next.len()))),
        Change::Remove(_) => {}
        Change::RemoveAbsent(prefix) => next.retain(|(other, _)| other != prefix),
        Change::Shrink(to) => next.truncate(*to),
    }
    next
}

/// Changes the table from one version to the next, which differ by one route.
fn advance<A: Matched>(fib: &mut Fib<A>, from: &Version<A>, to: &Version<A>) {
    for (prefix, hop) in to.iter().filter(|route| !from.contains(route)) {
        fib.insert(*prefix, *hop).unwrap();
    }
    for (prefix, _) in from.iter().filter(|(prefix, _)| !to.iter().any(|(other, _)| other == prefix)) {
        fib.remove(*prefix);
    }
}

/// Looks up addresses until the writer has ended. Panics if a result was not correct at any moment
/// of the lookup.
fn read<A: Matched>(
    reader: &Reader<A>,
    thread: usize,
    versions: &[Version<A>],
    at: &AtomicUsize,
    ended: &AtomicBool,
    ask: &[A],
) -> u64 {
    let (mut out, mut requested, mut last) = (vec![None; ask.len()], 0, false);
    while !last {
        last = ended.load(Ordering::SeqCst);
        let pinned = reader.pins().pin_at(thread);
        let before = at.load(Ordering::SeqCst);
        if requested % 2 == 0 {
            reader.lookup_burst(&pinned, ask, &mut out);
        } else {
            ask.iter().zip(&mut out).for_each(|(dst, out)| *out = reader.lookup(&pinned, *dst));
        }
        // The change after the published version may be under way.
        let after = (at.load(Ordering::SeqCst) + 1).min(versions.len() - 1);
        drop(pinned);
        requested += 1;
        for (&dst, &answer) in ask.iter().zip(&out) {
            let mut true_ones = versions[before..=after].iter().map(|version| naive(version, dst));
            assert!(true_ones.any(|it| it == answer), "{}: {answer:?} at {before}..={after}", dst.to_addr());
        }
    }
    requested
}

pub(super) fn readers_see_what_was_true<A: Matched + Sync>(changes: &[Change<A>], first: Version<A>, ask: &[A]) {
    let mut versions = vec![first];
    for change in changes.iter().filter(|change| !matches!(change, Change::Shrink(_))) {
        versions.push(step(change, &versions[versions.len() - 1]));
    }
    let mut fib = Fib::new();
    versions[0].iter().for_each(|(prefix, hop)| assert!(fib.insert(*prefix, *hop).is_ok()));
    let (at, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (reader, begun) = (fib.reader(), std::sync::Barrier::new(3));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (reader, versions, at, ended, begun) = (&reader, &versions, &at, &ended, &begun);
            scope.spawn(move || {
                begun.wait();
                read(reader, thread, versions, at, ended, ask)
            });
        }
        begun.wait();
        for (i, pair) in versions.windows(2).enumerate() {
            advance(&mut fib, &pair[0], &pair[1]);
            at.store(i + 1, Ordering::SeqCst);
        }
        ended.store(true, Ordering::SeqCst);
    });
}

/// Changes routes with long and short prefixes and the default route under two readers.
pub(super) fn run<A: Matched + Sync>(
    first: impl Fn() -> Version<A>,
    prefix: impl Strategy<Value = IpPrefix<A>>,
    long: impl Strategy<Value = IpPrefix<A>>,
    address: impl Strategy<Value = A>,
) {
    let config =
        ProptestConfig { cases: 60, failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let near = (prefix, 0..9u32).prop_map(|(prefix, index)| Change::Insert(prefix, hop(index)));
    let long = (long, 0..9u32).prop_map(|(prefix, index)| Change::Insert(prefix, hop(index)));
    let default = (0..9u32).prop_map(|index| Change::Insert(IpPrefix::masked(A::default(), 0), hop(index)));
    let change =
        prop_oneof![2 => near, 4 => long, 3 => default, 8 => any::<prop::sample::Index>().prop_map(Change::Remove)];
    let changes = prop::collection::vec(change, 200..400);
    let ask = prop::collection::vec(address, 40);
    runner
        .run(&(changes, ask), |(changes, ask)| {
            readers_see_what_was_true(&changes, first(), &ask);
            Ok(())
        })
        .unwrap();
}

fn run_four(first: impl Fn() -> Version) {
    let long = (any_address(), 22..=32u8).prop_map(|(addr, len)| Prefix::masked(addr, len));
    run(first, any_prefix(), long, any_address());
}

#[test]
fn a_table_is_read_while_it_changes() {
    run_four(|| (0..=FEW as u8).map(|i| (prefix(&format!("192.168.{i}.0/24")), hop(0))).collect());
}

// Routes are added and removed, and the list becomes a table while it is read.
#[test]
fn a_list_is_read_while_it_changes() {
    run_four(Vec::new);
}

// Groups are removed and reused while readers use them. Each address has one of two next hops at
// any time.
#[test]
fn groups_are_added_and_removed_under_readers() {
    let mut fib = beyond_a_list();
    fib.insert(prefix("10.0.0.0/8"), hop(1)).unwrap();
    let (reader, ended, begun) = (fib.reader(), AtomicBool::new(false), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut out, mut seen) = ([None; 64], 0);
            begun.wait();
            while seen == 0 || !ended.load(Ordering::Relaxed) {
                let ask: [u32; 64] = std::array::from_fn(|i| 0x0a00_0005 + ((i as u32) << 8));
                let pinned = reader.pins().pin_at(3);
                reader.lookup_burst(&pinned, &ask, &mut out);
                drop(pinned);
                for (i, answer) in out.iter().enumerate() {
                    let own = hop(2 + i as u32);
                    assert!(*answer == Some(hop(1)) || *answer == Some(own), "10.0.{i}.5: {answer:?}");
                    seen += 1;
                }
            }
        });
        begun.wait();
        for round in 0..3000u32 {
            let i = round % 64;
            let host = Prefix::host(Ipv4Addr::from_bits(0x0a00_0005 + (i << 8)));
            fib.insert(host, hop(2 + i)).unwrap();
            if round >= 20 {
                let i = (round - 20) % 64;
                assert!(fib.remove(Prefix::host(Ipv4Addr::from_bits(0x0a00_0005 + (i << 8)))).is_some());
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    // There are no readers any more, so every group allocated from here on is a reused one.
    let made = fib.spare.made;
    for round in 0..200u32 {
        let host = Prefix::host(Ipv4Addr::from_bits(0x0a01_0005 + (round << 8)));
        fib.insert(host, hop(2)).unwrap();
        assert!(fib.remove(host).is_some());
    }
    assert_eq!(fib.spare.made, made);
}

// The first next hop that does not fit into a one-byte code switches readers to two-byte codes.
// Each result remains one of the two expected ones.
#[test]
fn codes_grow_under_a_reader() {
    let mut fib = beyond_a_list();
    let route = |i: u32| Prefix::new(Ipv4Addr::from_bits(0x0a00_0000 + (i << 8)), 24).unwrap();
    (0..64).for_each(|i| assert!(fib.insert(route(i), hop(i)).is_ok()));
    let (reader, ended, begun) = (fib.reader(), AtomicBool::new(false), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut out = [None; 64];
            let ask: [u32; 64] = std::array::from_fn(|i| 0x0a00_0005 + ((i as u32) << 8));
            begun.wait();
            let mut last = false;
            while !last {
                last = ended.load(Ordering::Acquire);
                let pinned = reader.pins().pin_at(3);
                reader.lookup_burst(&pinned, &ask, &mut out);
                drop(pinned);
                for (i, answer) in (0..).zip(out) {
                    assert!([Some(hop(i)), Some(hop(1000 + i))].contains(&answer), "10.0.{i}.5: {answer:?}");
                }
            }
            out
        });
        begun.wait();
        for (i, by) in (0..64).flat_map(|i| [(i, 1000 + i), (i, i), (i, 1000 + i)]) {
            fib.insert(route(i), hop(by)).unwrap();
        }
        ended.store(true, Ordering::Release);
        let out = reading.join().unwrap();
        assert!((0..).zip(out).all(|(i, answer)| answer == Some(hop(1000 + i))), "{out:?}");
    });
}
