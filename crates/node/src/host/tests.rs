use super::*;
use crate::inputs::tests::{endless, host, plug};
use lock::Light;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

/// Adds a mirror with a port as of [`plug`], without a device. Returns its iface and a flag that ends
/// the port.
fn plug_mirror<L: Locks>(host: &Host<L>, of: IfaceId) -> (IfaceId, Arc<AtomicBool>) {
    let mirror = host.stack.add_mirror(of, "mirror").unwrap();
    let (port, gone) = endless(host, "mirror");
    let parts = host.connect(mirror, "mirror", vec![port], host.stack.pool.clone(), None);
    host.serve(parts);
    (mirror, gone)
}

/// A mirror takes no thread's share of the ports, and a host ends with its ports whether its mirrors
/// exist or not.
#[test]
fn mirrors_do_not_count_as_ports() {
    let mut host = host::<Light>();
    host.divide(2);
    let (em0, em0_gone) = plug(&host, 0);
    let (mirror, mirror_gone) = plug_mirror(&host, em0);
    let (_, em1_gone) = plug(&host, 1);
    assert!(host.is_mirror(mirror) && !host.is_mirror(em0));
    assert_eq!([0, 1].map(|part| host.step_part(part).frames), [2, 1], "em0 and its mirror; em1");
    mirror_gone.store(true, Ordering::Relaxed);
    assert!(!host.is_over() && host.gone().len() == 1);
    mirror_gone.store(false, Ordering::Relaxed);
    em0_gone.store(true, Ordering::Relaxed);
    assert!(!host.is_over());
    em1_gone.store(true, Ordering::Relaxed);
    assert!(host.is_over());
    // The mirror is removed with its iface.
    assert!(host.remove_port(em0) && host.stack.iface(em0).is_none());
    assert_eq!(host.stack.iface(mirror).and_then(|mirror| mirror.peer()), None);
}

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
