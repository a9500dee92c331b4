//! Tests of the IPv6 trie, with the same oracle and concurrent readers as the IPv4 tests.

use super::*;
use std::net::Ipv6Addr;

fn prefix6(text: &str) -> Prefix6 {
    text.parse().unwrap()
}

/// Returns addresses close together. They differ in a few bits: in the first 24, on both sides of
/// multiples of 4, and at the end.
fn any_address6() -> impl Strategy<Value = u128> + Clone {
    let masks = vec![
        0x0003_0000_0000_0000_0000_0000_0000_0000,
        0x0000_0180_0000_0000_0000_0000_0000_0000,
        0x0000_1100_1100_0000_0000_0000_0000_0003,
        0x0000_0010_0018_0000_0000_0000_0000_0011,
        0x0000_0000_0000_00ff_0000_0000_0000_0000,
        0x8000_0000_0000_0000_0000_0000_0000_0000,
        u128::MAX,
    ];
    (any::<u128>(), prop::sample::select(masks))
        .prop_map(|(bits, mask)| 0x2001_0db8_0000_0000_0000_0000_0000_0000 ^ (bits & mask))
}

/// Returns prefixes; short ones are rarer, as for IPv4.
fn any_prefix6() -> impl Strategy<Value = Prefix6> + Clone {
    let len = prop_oneof![1 => Just(0u8), 1 => 1u8..8, 8 => 8u8..=22, 30 => 23u8..=64, 14 => 65u8..=128];
    (any_address6(), len).prop_map(|(addr, len)| Prefix6::masked(addr, len))
}

/// Returns the number of groups and jumps in use.
fn in_use(fib: &Fib<u128>) -> usize {
    fib.spare.in_use()
}

/// Returns routes that make a trie with an array at its root.
fn with_array() -> Vec<(Prefix6, NextHopId)> {
    (0..=16).map(|i| (prefix6(&format!("2001:db9:{i:x}::/48")), hop(0))).collect()
}

#[test]
fn a_prefix_reads_as_it_prints_and_drops_host_bits() {
    for text in ["::/0", "8000::/1", "2001:db8::/32", "fe80::/64", "fd00::1/128"] {
        assert_eq!(prefix6(text).to_string(), text);
    }
    assert_eq!(prefix6("2001:db8::1/32"), prefix6("2001:db8::/32"));
    assert!(prefix6("2001:db8::/33").contains("2001:db8:7fff::1".parse().unwrap()));
    assert!(!prefix6("2001:db8::/33").contains("2001:db8:8000::1".parse().unwrap()));
    for (text, why) in [
        ("::", PrefixFault::NoLength),
        ("10.0.0.0/8", PrefixFault::Address),
        ("::/129", PrefixFault::Length),
        ("::/+1", PrefixFault::Length),
        ("::/", PrefixFault::Length),
        ("::/1/2", PrefixFault::Length),
    ] {
        assert_eq!(text.parse::<Prefix6>().map_err(|error| error.fault), Err(why), "{text}");
    }
    let error = "::/129".parse::<Prefix6>().unwrap_err();
    assert_eq!(error.to_string(), "a prefix length from 0 to 128");
}

#[test]
fn any_changes_of_ipv6_routes() {
    any_changes_leave_what_the_oracle_has(150, 0..9u32, any_prefix6(), any_address6());
}

#[test]
fn a_trie_is_read_while_it_changes() {
    let long = || (any_address6(), 28..=64u8).prop_map(|(addr, len)| Prefix6::masked(addr, len));
    live::run(with_array, any_prefix6(), long(), any_address6());
    live::run(Vec::new, any_prefix6(), long(), any_address6());
}

// Inserts nested and neighboring prefixes in every order: of one length, of lengths within one
// step, across steps.
#[test]
fn every_order_of_a_few_prefixes() {
    let few =
        ["2001:db8::/29", "2001:db8::/31", "2001:db8::/32", "2001:dbb::/33", "2001:db8:8000::/34", "2001:db8::/48"];
    let mut order: Vec<usize> = (0..few.len()).collect();
    for _ in 0..720 {
        let (mut fib, mut oracle) = (Fib::<u128>::new(), Oracle::new());
        for &i in &order {
            assert_eq!(
                fib.insert(prefix6(few[i]), hop(i as u32)),
                Ok(oracle.insert(key(prefix6(few[i])), hop(i as u32)))
            );
            assert_same_answers(&fib, &oracle, &telling_addresses(&oracle, &[]));
        }
        for &i in order.iter().rev() {
            assert_eq!(fib.remove(prefix6(few[i])), oracle.remove(&key(prefix6(few[i]))));
            assert_same_answers(&fib, &oracle, &telling_addresses(&oracle, &[prefix6(few[i]).bits()]));
        }
        assert_eq!(in_use(&fib), 0, "{order:?}");
        // Advances to the next permutation in lexicographic order.
        if let Some(at) = (1..order.len()).rev().find(|at| order[at - 1] < order[*at]) {
            let with = (at..order.len()).rev().find(|with| order[*with] > order[at - 1]).unwrap();
            order.swap(at - 1, with);
            order[at..].reverse();
        }
    }
}

// The memory of removed routes is reused, whatever the order of additions and removals. A lone
// route takes one jump.
#[test]
fn removed_words_are_reused() {
    let mut random = Random(7);
    let mut fib = Fib::<u128>::new();
    let array = with_array();
    array.iter().for_each(|(prefix, hop)| assert!(fib.insert(*prefix, *hop).is_ok()));
    let begun = in_use(&fib);
    for _ in 0..20 {
        let mut routes: Vec<Prefix6> = (0..2000)
            .map(|_| {
                let bits = 0x2400 << 112 | u128::from(random.next()) << 80 | u128::from(random.next() & 0xff) << 56;
                Prefix6::masked(bits, 20 + (random.next() % 50) as u8)
            })
            .collect();
        routes.iter().for_each(|prefix| assert!(fib.insert(*prefix, hop(1)).is_ok()));
        assert!(in_use(&fib) - begun <= 3 * 2000, "{}", in_use(&fib));
        for n in (1..routes.len()).rev() {
            routes.swap(n, random.next() as usize % (n + 1));
        }
        for prefix in &routes {
            fib.remove(*prefix);
        }
        assert_eq!((in_use(&fib), fib.len()), (begun, array.len()));
    }
    let lone = Prefix6::host(Ipv6Addr::LOCALHOST);
    assert_eq!((fib.insert(lone, hop(2)), in_use(&fib)), (Ok(None), begun + 1));
    assert_eq!(fib.lookup(Ipv6Addr::LOCALHOST), Some(hop(2)));
}

#[test]
fn a_table_of_220_000_routes_fits() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut fib, mut oracle) = (Fib::new(), Oracle::new());
    while fib.len() < 220_000 {
        let len = [48, 48, 48, 48, 48, 48, 48, 32, 32, 44, 44, 40, 36, 29, 46, 47][random.next() as usize % 16];
        let high = 0x2400_0000 | (random.next() & 0x0a0f_ffff);
        let prefix = Prefix6::masked(u128::from(high) << 96 | u128::from(random.next()) << 64, len);
        let hop = hop(random.next() % 500);
        assert_eq!(fib.insert(prefix, hop), Ok(oracle.insert(key(prefix), hop)));
    }
    let routes: Vec<Prefix6> = fib.iter().map(|(prefix, _)| prefix).collect();
    let mut sample = |fib: &Fib<u128>, oracle: &Oracle<u128>| {
        let in_routes = (0..100_000).map(|_| routes[random.next() as usize % routes.len()].bits() | 1);
        assert_same_answers(fib, oracle, &in_routes.collect::<Vec<_>>());
    };
    sample(&fib, &oracle);
    let beside_array = fib.bytes() - (4 << 24);
    assert!(beside_array <= 220_000 * 110, "{} bytes a route", beside_array / fib.len());
    for prefix in routes.iter().step_by(2) {
        assert_eq!(fib.remove(*prefix), oracle.remove(&key(*prefix)));
    }
    sample(&fib, &oracle);
}
