//! Oracle: `prefix-trie`, whose keys are `(address, length)`.

use super::*;
use prefix_trie::PrefixMap;
use proptest::prelude::*;

fn fib(limit: usize) -> Fib6 {
    Fib6::new(Key::seeded(1), limit)
}

fn prefix(text: &str) -> Prefix6 {
    text.parse().unwrap()
}

fn gateway(n: u16) -> Via6 {
    Via6::Gateway(IfaceId(1), Ipv6Addr::from(u128::from(n)))
}

#[test]
fn a_prefix_reads_as_it_prints_and_drops_host_bits() {
    for text in ["::/0", "8000::/1", "2001:db8::/32", "fe80::/64", "fd00::1/128"] {
        assert_eq!(prefix(text).to_string(), text);
    }
    assert_eq!(prefix("2001:db8::1/32"), prefix("2001:db8::/32"));
    assert!(prefix("2001:db8::/33").contains("2001:db8:7fff::1".parse().unwrap()));
    assert!(!prefix("2001:db8::/33").contains("2001:db8:8000::1".parse().unwrap()));
    for (text, why) in [
        ("::", PrefixError6::NoLength),
        ("10.0.0.0/8", PrefixError6::Address),
        ("::/129", PrefixError6::Length),
        ("::/+1", PrefixError6::Length),
        ("::/", PrefixError6::Length),
        ("::/1/2", PrefixError6::Length),
    ] {
        assert_eq!(text.parse::<Prefix6>(), Err(why), "{text}");
    }
}

#[test]
fn the_longest_wins_until_it_is_gone() {
    let mut fib = fib(10);
    let routes = ["::/0", "2001:db8::/32", "2001:db8:1::/48", "2001:db8:1::7/128"];
    for (n, text) in (0..).zip(routes) {
        assert_eq!(fib.insert(prefix(text), gateway(n)), Ok(None));
    }
    let dst = "2001:db8:1::7".parse().unwrap();
    assert_eq!(
        fib.covering(dst).map(|route| route.prefix).collect::<Vec<_>>(),
        routes.map(prefix).into_iter().rev().collect::<Vec<_>>()
    );
    for n in (0..4).rev() {
        assert_eq!(fib.lookup(dst).map(|route| route.via), Some(gateway(n)));
        assert_eq!(fib.remove(prefix(routes[usize::from(n)])), Some(gateway(n)));
    }
    assert_eq!((fib.lookup(dst), fib.lengths.len(), fib.is_empty()), (None, 0, true));
}

#[test]
fn it_is_bounded_and_forgets_an_iface() {
    let mut fib = fib(2);
    fib.insert(prefix("fd00::/64"), Via6::Link(IfaceId(2))).unwrap();
    fib.insert(prefix("fd01::/64"), gateway(1)).unwrap();
    assert_eq!(fib.insert(prefix("fd02::/64"), gateway(1)), Err(Full6));
    assert_eq!(fib.insert(prefix("fd01::/64"), gateway(2)), Ok(Some(gateway(1))), "replaced, not added");
    fib.forget_iface(IfaceId(2));
    assert_eq!(fib.sorted(), [Route6 { prefix: prefix("fd01::/64"), via: gateway(2) }]);
}

/// Prefixes that nest: few bits differ, lengths of all kinds.
fn any_prefix() -> impl Strategy<Value = Prefix6> {
    (any::<u128>(), 0..=128u8, 0..4u8).prop_map(|(bits, len, dense)| {
        let bits = if dense > 0 { bits & 0xf000_0000_0000_0000_f000_0000_0000_000f } else { bits };
        Prefix6::masked(Ipv6Addr::from_bits(bits), len)
    })
}

proptest! {
    #[test]
    fn answers_are_the_oracles(steps in proptest::collection::vec((any_prefix(), any::<Option<u16>>()), 1..200), asked in proptest::collection::vec(any_prefix(), 20)) {
        let (mut fib, mut oracle) = (fib(LIMIT), PrefixMap::<(u128, u8), Via6>::new());
        for (prefix, hop) in &steps {
            let key = (prefix.addr().to_bits(), prefix.len());
            match hop {
                Some(hop) => prop_assert_eq!(fib.insert(*prefix, gateway(*hop)), Ok(oracle.insert(key, gateway(*hop)))),
                None => prop_assert_eq!(fib.remove(*prefix), oracle.remove(&key)),
            }
        }
        let known = steps.iter().map(|(prefix, _)| prefix.addr());
        for dst in asked.iter().map(|prefix| prefix.addr()).chain(known) {
            let expected = oracle.get_lpm(&(dst.to_bits(), 128)).map(|((bits, len), via)| (Prefix6::masked(Ipv6Addr::from_bits(bits), len), *via));
            prop_assert_eq!(fib.lookup(dst).map(|route| (route.prefix, route.via)), expected);
        }
        prop_assert_eq!(fib.len(), oracle.iter().count());
        let ordered: Vec<_> = fib.sorted().iter().map(|route| (route.prefix.addr().to_bits(), route.prefix.len())).collect();
        prop_assert!(ordered.is_sorted());
    }
}
