use super::*;
use std::collections::HashSet;

#[test]
fn mac_addresses_differ_by_key_host_and_iface_and_repeat_under_a_seed() {
    let of = |seed| mac_of(Key::seeded(seed), "host", "tap0");
    assert_eq!(of(1), of(1));
    let all = [
        of(1),
        of(2),
        mac_of(Key::seeded(1), "hos", "ttap0"),
        mac_of(Key::seeded(1), "host", "tap1"),
        mac_of(Key::random(), "host", "tap0"),
        mac_of(Key::random(), "host", "tap0"),
    ];
    assert_eq!(HashSet::from(all).len(), all.len());
}

/// In 4,096 draws, a deviation of 160 is 5 standard deviations for a fair bit.
#[test]
fn mac_addresses_are_locally_administered_and_their_other_bits_are_even() {
    let macs = (0..4096).map(|seed| mac_of(Key::seeded(seed), "host", "tap0").0);
    let mut ones = [0i32; 40];
    for [first, rest @ ..] in macs {
        assert_eq!(first, 0xb2);
        let bits = rest.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
        ones.iter_mut().zip(bits).for_each(|(sum, bit)| *sum += i32::from(bit));
    }
    assert!(ones.iter().all(|ones| (ones - 2048).abs() < 160), "{ones:?}");
}
