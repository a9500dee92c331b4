//! Tests of the forwarding table. The oracle is the crate `prefix-trie`, with `(address, length)`
//! as keys.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use prefix_trie::PrefixMap;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use super::few::FEW;
use super::*;

mod live;
mod six;

type Oracle<A = u32> = PrefixMap<(A, u8), NextHopId>;

fn key<A: AddrBits>(prefix: IpPrefix<A>) -> (A, u8) {
    (prefix.bits(), prefix.len())
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn hop(index: u32) -> NextHopId {
    NextHopId::new(index).unwrap()
}

fn addr(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// Returns a table with too many routes for a list, none of them in 10.0.0.0/8.
fn beyond_a_list() -> Fib {
    let mut fib = Fib::new();
    for third in 0..=FEW as u8 {
        fib.insert(Prefix::new(Ipv4Addr::new(192, 168, third, 0), 24).unwrap(), hop(0)).unwrap();
    }
    assert!(fib.shown.matcher.table.get().is_some());
    fib
}

/// Checks that every lookup function agrees with the oracle for these addresses.
fn assert_same_answers<A>(fib: &Fib<A>, oracle: &Oracle<A>, addresses: &[A])
where
    A: Matched,
    (A, u8): prefix_trie::Prefix<R = A>,
{
    let mut burst = vec![None; addresses.len()];
    fib.lookup_burst(addresses, &mut burst);
    for (&address, &in_burst) in addresses.iter().zip(&burst) {
        let found = oracle.get_lpm(&(address, A::BITS));
        let expected = found.map(|((addr, len), &hop)| (IpPrefix::masked(addr, len), hop));
        let dst = address.to_addr();
        assert_eq!(fib.lookup_prefix(dst), expected, "lookup_prefix({dst})");
        assert_eq!(fib.lookup(dst), expected.map(|(_, hop)| hop), "lookup({dst})");
        assert_eq!(in_burst, expected.map(|(_, hop)| hop), "lookup_burst({dst})");
    }
}

#[test]
fn a_prefix_reads_as_it_prints_and_drops_host_bits() {
    for text in ["0.0.0.0/0", "128.0.0.0/1", "10.0.0.0/8", "192.0.2.0/24", "192.0.2.1/32"] {
        assert_eq!(prefix(text).to_string(), text);
    }
    assert_eq!(prefix("10.1.2.3/8"), prefix("10.0.0.0/8"));
    assert_eq!(prefix("255.255.255.255/0"), Prefix::DEFAULT);
    assert_eq!(Prefix::host(addr("192.0.2.1")), prefix("192.0.2.1/32"));
    assert_eq!(prefix("10.0.0.0/9").netmask(), addr("255.128.0.0"));
}

#[test]
fn invalid_prefixes_are_rejected_with_the_reason() {
    for (text, why) in [
        ("", PrefixFault::NoLength),
        ("10.0.0.0", PrefixFault::NoLength),
        ("10.0.0/8", PrefixFault::Address),
        ("10.0.0.256/8", PrefixFault::Address),
        (" 10.0.0.0/8", PrefixFault::Address),
        ("10.0.0.0/", PrefixFault::Length),
        ("10.0.0.0/33", PrefixFault::Length),
        ("10.0.0.0/+8", PrefixFault::Length),
        ("10.0.0.0/-1", PrefixFault::Length),
        ("10.0.0.0/999", PrefixFault::Length),
        ("10.0.0.0/8/8", PrefixFault::Length),
    ] {
        assert_eq!(text.parse::<Prefix>().map_err(|error| error.fault), Err(why), "{text:?}");
    }
    assert_eq!(Prefix::new(addr("10.0.0.0"), 33).map_err(|error| error.fault), Err(PrefixFault::Length));
}

#[test]
fn a_prefix_contains_its_first_and_last_address_and_no_neighbor() {
    let block = prefix("10.1.0.0/16");
    assert!(block.contains(addr("10.1.0.0")) && block.contains(addr("10.1.255.255")));
    assert!(!block.contains(addr("10.0.255.255")) && !block.contains(addr("10.2.0.0")));
    assert!(Prefix::DEFAULT.contains(addr("255.255.255.255")));
    assert!(block.covers(block) && block.covers(prefix("10.1.2.0/24")) && !block.covers(prefix("10.0.0.0/15")));
}

#[test]
fn a_next_hop_id_has_23_bits_and_a_niche_for_option() {
    assert_eq!(NextHopId::new(NextHopId::MAX).map(NextHopId::index), Some(NextHopId::MAX as usize));
    assert_eq!(NextHopId::new(NextHopId::MAX + 1), None);
    assert_eq!(NextHopId::new(u32::MAX), None);
    assert_eq!(format!("{:?}", hop(0)), "NextHopId(0)");
    assert_eq!(size_of::<Option<NextHopId>>(), 4);
}

/// A lookup does not depend on notes; a note changes without the next hop, and the next hop without
/// the note being lost.
#[test]
fn a_route_keeps_the_callers_note() {
    let mut fib = Fib::new();
    let to = prefix("10.1.0.0/16");
    let stored = |at: u32, note: u32| Stored { hop: hop(at), note: Note([note, 7]) };
    assert_eq!(fib.insert_stored(to, stored(1, 1)), Ok(None));
    assert_eq!(fib.insert_stored(to, stored(1, 2)), Ok(Some(stored(1, 1))));
    let (found, note) = fib.note_mut(to).unwrap();
    assert_eq!((found, *note), (hop(1), Note([2, 7])));
    note.0[0] = 3;
    assert_eq!((fib.get_stored(to), fib.lookup([10, 1, 2, 3].into())), (Some(stored(1, 3)), Some(hop(1))));
    fib.insert(prefix("10.0.0.0/8"), hop(5)).unwrap();
    let after: Vec<_> = fib.iter_after(Some(prefix("10.0.0.0/8"))).collect();
    assert_eq!(after, [(to, stored(1, 3))]);
    assert_eq!(fib.remove_stored(to), Some(stored(1, 3)));
    assert_eq!(fib.note_mut(to), None);
    assert_eq!(fib.lookup([10, 1, 2, 3].into()), Some(hop(5)));
}

// The longest of nested routes matches; each removal uncovers the next; nothing is left at the end.
fn nested_routes_are_uncovered_one_by_one(mut fib: Fib) {
    let nested = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.0/26", "10.1.2.0/30", "10.1.2.3/32"];
    let dst = addr("10.1.2.3");
    for (i, text) in nested.iter().enumerate() {
        assert_eq!(fib.insert(prefix(text), hop(i as u32)), Ok(None));
        assert_eq!(fib.lookup_prefix(dst), Some((prefix(text), hop(i as u32))));
    }
    // Removing or changing a covering route does not affect longer routes.
    assert_eq!(fib.remove(prefix("10.1.2.0/24")), Some(hop(3)));
    assert_eq!(fib.remove(prefix("10.1.2.0/24")), None);
    assert_eq!(fib.insert(prefix("10.1.2.0/26"), hop(40)), Ok(Some(hop(4))));
    assert_eq!(fib.lookup(dst), Some(hop(6)));
    for (gone, uncovered) in [("10.1.2.3/32", 5), ("10.1.2.0/30", 40), ("10.1.2.0/26", 2), ("10.1.0.0/16", 1)] {
        assert!(fib.remove(prefix(gone)).is_some());
        assert_eq!(fib.lookup(dst), Some(hop(uncovered)), "after {gone}");
    }
    assert_eq!(fib.remove(prefix("10.0.0.0/8")), Some(hop(1)));
    assert_eq!(fib.lookup_prefix(dst), Some((Prefix::DEFAULT, hop(0))));
    assert_eq!(fib.remove(Prefix::DEFAULT), Some(hop(0)));
    assert_eq!(fib.lookup(dst), None);
}

#[test]
fn nested_routes_in_a_list() {
    nested_routes_are_uncovered_one_by_one(Fib::new());
}

#[test]
fn nested_routes_in_a_table() {
    nested_routes_are_uncovered_one_by_one(beyond_a_list());
}

#[test]
fn a_full_table_rejects_a_new_prefix_and_accepts_a_new_next_hop() {
    let mut fib: Fib = Fib::with_limit(1);
    assert_eq!(fib.insert(prefix("10.0.0.0/8"), hop(1)), Ok(None));
    assert_eq!(fib.insert(prefix("11.0.0.0/8"), hop(1)), Err(FibFull { limit: 1 }));
    assert_eq!(fib.insert(prefix("10.0.0.0/8"), hop(2)), Ok(Some(hop(1))));
    assert_eq!((fib.len(), fib.lookup(addr("11.0.0.1"))), (1, None));
    assert_eq!(fib.remove(prefix("10.0.0.0/8")), Some(hop(2)));
    assert_eq!(fib.insert(prefix("11.0.0.0/8"), hop(1)), Ok(None));
}

#[test]
fn routes_are_listed_covers_first() {
    let mut fib = Fib::new();
    let sorted = ["0.0.0.0/0", "0.0.0.0/8", "10.0.0.0/8", "10.0.0.0/32", "10.0.1.0/24", "192.0.2.0/24"];
    for i in [3, 0, 5, 2, 4, 1] {
        fib.insert(prefix(sorted[i]), hop(i as u32)).unwrap();
    }
    assert_eq!(fib.iter().map(|(prefix, _)| prefix.to_string()).collect::<Vec<_>>(), sorted);
    assert_eq!(fib.get(prefix("10.0.0.0/32")), Some(hop(3)));
    assert_eq!(fib.get(prefix("10.0.0.0/31")), None);
}

#[test]
fn an_empty_fib_is_small_and_a_table_is_kept() {
    let idle = [Fib::<u32>::new().bytes(), Fib::<u128>::new().bytes()];
    assert!(idle[0] < 1024 && idle[1] < 2048, "{idle:?}");
    let mut fib = beyond_a_list();
    assert!(fib.bytes() > 1 << 26);
    let all: Vec<Prefix> = fib.iter().map(|(prefix, _)| prefix).collect();
    for &prefix in &all[4..] {
        fib.remove(prefix);
    }
    assert_eq!((fib.len(), fib.shown.matcher.table.get().is_some()), (4, true));
    assert_eq!(fib.lookup(addr("192.168.3.3")), Some(hop(0)));
    assert_eq!(fib.lookup(addr("192.168.8.3")), None);
}

// A free row is reused. With the ninth route, the list becomes a table.
#[test]
fn a_list_holds_eight_routes() {
    let mut fib = Fib::new();
    let host = |i: u32| Prefix::host(Ipv4Addr::from_bits(0x0a00_0000 + i));
    for i in 0..100 {
        assert_eq!(fib.insert(host(i), hop(i)), Ok(None));
        if i >= 8 - 1 {
            assert_eq!(fib.remove(host(i - 7)), Some(hop(i - 7)));
        }
    }
    assert!(fib.shown.matcher.table.get().is_none());
    assert_eq!((fib.lookup(host(99).addr()), fib.lookup(host(92).addr())), (Some(hop(99)), None));
    fib.insert(Prefix::DEFAULT, hop(1)).unwrap();
    fib.insert(prefix("11.0.0.0/8"), hop(2)).unwrap();
    assert!(fib.shown.matcher.table.get().is_some());
}

#[test]
fn removed_groups_are_reused() {
    let mut fib = beyond_a_list();
    let mut fill_and_empty = |second: u8| {
        let hosts = (0..5000u32).map(|i| Prefix::host(Ipv4Addr::new(10, second, (i >> 8) as u8, i as u8)));
        hosts.clone().for_each(|host| assert_eq!(fib.insert(host, hop(1)), Ok(None)));
        let full = fib.bytes();
        hosts.for_each(|host| assert_eq!(fib.remove(host), Some(hop(1))));
        full
    };
    let first = fill_and_empty(1);
    // Groups in the free list are counted as well.
    assert!((2..9).all(|second| fill_and_empty(second) - first < 1024 * 128));
}

// A group with 16 entries of one /28 is freed, even while the /28 stays.
#[test]
fn a_group_ends_with_its_last_longer_route() {
    let mut fib = beyond_a_list();
    let mut round = |second: u8| {
        let hosts = (0..4096u32).map(|i| Ipv4Addr::from_bits(u32::from_be_bytes([10, second, 0, 5]) + (i << 4)));
        for host in hosts.clone() {
            fib.insert(Prefix::new(host, 28).unwrap(), hop(1)).unwrap();
            fib.insert(Prefix::host(host), hop(2)).unwrap();
        }
        hosts.for_each(|host| assert_eq!(fib.remove(Prefix::host(host)), Some(hop(2))));
        fib.bytes() - size_of::<Fib>() - fib.len() * MAP_BYTES_PER_ROUTE
    };
    let (first, second) = (round(1), round(2));
    assert!(second - first < 1024 * 64, "256 groups more, not 4352: {}", (second - first) / 64);
}

#[test]
fn more_than_256_next_hops() {
    let mut fib = beyond_a_list().with_huge_pages();
    let slash24 = |i: u32| Prefix::new(Ipv4Addr::from_bits(0x0a00_0000 + (i << 8)), 24).unwrap();
    for i in 0..600 {
        fib.insert(slash24(i), hop(i)).unwrap();
    }
    fib.insert(Prefix::host(Ipv4Addr::from_bits(0x0a00_0705)), hop(3)).unwrap();
    let check = |fib: &Fib, expected: &dyn Fn(u32) -> Option<NextHopId>| {
        let dst: Vec<u32> = (0..600).map(|i| 0x0a00_0005 + (i << 8)).collect();
        let mut out = vec![None; dst.len()];
        fib.lookup_burst(&dst, &mut out);
        for (i, &found) in (0..).zip(&out) {
            assert_eq!(found, expected(i), "10.{}.{}.5", i >> 8, i & 255);
        }
    };
    check(&fib, &|i| Some(if i == 7 { hop(3) } else { hop(i) }));
    fib.insert(Prefix::DEFAULT, hop(1000)).unwrap();
    for i in (0..600).step_by(2) {
        fib.remove(slash24(i));
    }
    fib.remove(Prefix::host(Ipv4Addr::from_bits(0x0a00_0705)));
    check(&fib, &|i| Some(if i % 2 == 0 { hop(1000) } else { hop(i) }));
}

#[test]
fn bursts_of_any_length() {
    let mut table = beyond_a_list();
    table.insert(prefix("10.0.0.0/30"), hop(7)).unwrap();
    let mut list = Fib::new();
    list.insert(prefix("10.0.0.0/30"), hop(7)).unwrap();
    for len in [0, 1, 31, 32, 33, 63, 64, 65, 256, 257] {
        let dst: Vec<u32> = (0..len).map(|i| 0x0a00_0000 + i % 8).collect();
        let expected: Vec<_> = dst.iter().map(|dst| (dst % 8 < 4).then_some(hop(7))).collect();
        for fib in [&table, &list] {
            let mut out = vec![Some(hop(1)); dst.len()];
            fib.lookup_burst(&dst, &mut out);
            assert_eq!(out, expected);
        }
    }
}

#[test]
#[should_panic(expected = "differ in length")]
fn a_burst_with_a_short_result_slice_panics() {
    Fib::<u32>::new().lookup_burst(&[1, 2], &mut [None]);
}

#[derive(Clone, Debug)]
enum Change<A = u32> {
    Insert(IpPrefix<A>, NextHopId),
    /// Removes an existing route, by its index in the list.
    Remove(prop::sample::Index),
    RemoveAbsent(IpPrefix<A>),
    /// Removes routes until this many are left.
    Shrink(usize),
}

/// Returns addresses close together, so that prefixes nest and overlap. They differ in a few bits
/// at the boundaries between the levels of the table.
fn any_address() -> impl Strategy<Value = u32> + Clone {
    (any::<u32>(), prop::sample::select(vec![0x0000_0103, 0x0103_1133, 0x0000_00ff, 0x8000_0000, 0xffff_ffff]))
        .prop_map(|(bits, mask)| 0x0a00_0000 ^ (bits & mask))
}

/// Returns prefixes; short ones are rarer, since each touches up to 8 M entries.
fn any_prefix() -> impl Strategy<Value = Prefix> + Clone {
    let len = prop_oneof![1 => Just(0u8), 1 => 1u8..8, 8 => 8u8..=22, 24 => 23u8..=32];
    (any_address(), len).prop_map(|(addr, len)| Prefix::masked(addr, len))
}

fn any_change<A: Matched>(
    prefix: impl Strategy<Value = IpPrefix<A>> + Clone,
    hops: impl Strategy<Value = u32>,
) -> impl Strategy<Value = Change<A>> {
    prop_oneof![
        60 => (prefix.clone(), hops).prop_map(|(prefix, index)| Change::Insert(prefix, hop(index))),
        30 => any::<prop::sample::Index>().prop_map(Change::Remove),
        8 => prefix.prop_map(Change::RemoveAbsent),
        1 => (0..2 * FEW).prop_map(Change::Shrink),
    ]
}

fn apply<A>(change: &Change<A>, fib: &mut Fib<A>, oracle: &mut Oracle<A>)
where
    A: Matched,
    (A, u8): prefix_trie::Prefix<R = A>,
{
    match change {
        Change::Insert(prefix, hop) => assert_eq!(fib.insert(*prefix, *hop), Ok(oracle.insert(key(*prefix), *hop))),
        Change::RemoveAbsent(prefix) => assert_eq!(fib.remove(*prefix), oracle.remove(&key(*prefix))),
        Change::Remove(_) if fib.is_empty() => {}
        Change::Remove(place) => {
            let (prefix, hop) = fib.iter().nth(place.index(fib.len())).unwrap();
            assert_eq!(fib.remove(prefix), Some(hop));
            assert_eq!(oracle.remove(&key(prefix)), Some(hop));
        }
        Change::Shrink(to) => {
            let all: Vec<_> = fib.iter().map(|(prefix, _)| prefix).skip(*to).collect();
            all.iter().for_each(|&prefix| assert_eq!(fib.remove(prefix), oracle.remove(&key(prefix))));
        }
    }
}

/// Returns the first and last address of every route, their outer neighbors, and those of `more`.
fn telling_addresses<A>(oracle: &Oracle<A>, more: &[A]) -> Vec<A>
where
    A: Matched,
    (A, u8): prefix_trie::Prefix<R = A>,
{
    let edges = oracle.keys().flat_map(|(addr, len)| {
        let last = addr | (A::mask(A::BITS) ^ A::mask(len));
        let near = |addr: A, by: u128| A::from_wide(addr.to_wide().wrapping_add(by));
        [addr, last, near(addr, u128::MAX), near(last, 1)]
    });
    edges.chain(more.iter().copied()).collect()
}

fn any_changes_leave_what_the_oracle_has<A>(
    cases: u32,
    hops: impl Strategy<Value = u32>,
    prefix: impl Strategy<Value = IpPrefix<A>> + Clone,
    address: impl Strategy<Value = A>,
) where
    A: Matched,
    (A, u8): prefix_trie::Prefix<R = A>,
{
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let changes = prop::collection::vec(any_change(prefix, hops), 1..160);
    let addresses = prop::collection::vec(address, 33);
    runner
        .run(&(changes, addresses), |(changes, addresses)| {
            let (mut fib, mut oracle) = (Fib::new(), Oracle::new());
            for (i, change) in changes.iter().enumerate() {
                apply(change, &mut fib, &mut oracle);
                if i % 8 == 0 || i + 1 == changes.len() {
                    assert_same_answers(&fib, &oracle, &telling_addresses(&oracle, &addresses));
                    assert!(fib.iter().map(|(prefix, hop)| (key(prefix), hop)).eq(oracle.iter().map(|(k, &h)| (k, h))));
                    assert_eq!(fib.len(), oracle.len());
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_changes_of_ipv4_routes() {
    any_changes_leave_what_the_oracle_has(150, 0..9u32, any_prefix(), any_address());
}

/// Uses more next hops than a one-byte code can represent, and more than a two-byte code can.
#[test]
fn any_changes_of_routes_by_many_next_hops() {
    let hops = prop::sample::select(vec![1, 253, 254, 255, 65_533, 65_534, 65_535, NextHopId::MAX]);
    any_changes_leave_what_the_oracle_has(8, hops, any_prefix(), any_address());
}

/// Random number generator xorshift64* with a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}

#[test]
fn a_million_routes_and_then_half_of_them() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut fib, mut oracle) = (Fib::new(), Oracle::new());
    while fib.len() < 1_000_000 {
        let len = [24, 24, 24, 24, 24, 24, 16, 19, 21, 22, 23, 20, 18, 12, 28, 32][random.next() as usize % 16];
        let (prefix, hop) = (Prefix::masked(random.next(), len), hop(random.next() % 500));
        assert_eq!(fib.insert(prefix, hop), Ok(oracle.insert(key(prefix), hop)));
    }
    let routes: Vec<Prefix> = fib.iter().map(|(prefix, _)| prefix).collect();
    assert!(fib.iter().map(|(prefix, hop)| (key(prefix), hop)).eq(oracle.iter().map(|(k, &h)| (k, h))));
    let mut sample = |fib: &Fib, oracle: &Oracle| {
        let anywhere = (0..100_000).map(|_| random.next()).collect::<Vec<_>>();
        assert_same_answers(fib, oracle, &anywhere);
        let first = (0..100_000).map(|_| routes[random.next() as usize % routes.len()].bits()).collect::<Vec<_>>();
        assert_same_answers(fib, oracle, &first);
    };
    sample(&fib, &oracle);
    let gone: HashSet<Prefix> = routes.iter().copied().step_by(2).collect();
    for &prefix in &gone {
        assert_eq!(fib.remove(prefix), oracle.remove(&key(prefix)));
    }
    sample(&fib, &oracle);
}

#[test]
fn a_sparse_host_route_uses_at_most_256_bytes() {
    let mut random = Random(1);
    let mut fib = Fib::new();
    let mut seen = HashSet::new();
    while fib.len() < 1_000_000 {
        let host = random.next();
        if seen.insert(host >> 8) {
            fib.insert(Prefix::host(Ipv4Addr::from_bits(host)), hop(1)).unwrap();
        }
    }
    assert!(fib.bytes() <= 256 * fib.len(), "{} bytes a route", fib.bytes() / fib.len());
}
