use super::*;
use clock::Instant;
use lock::{How, Light, Up};
use proptest::prelude::*;
use std::collections::HashMap;

fn cx() -> Cx {
    Cx::enter(How::Register, Instant::ZERO)
}

fn tuple(local: u32, remote: u32, local_port: u16, remote_port: u16) -> Tuple {
    Tuple {
        local: Addr::v4(local.into()),
        remote: Addr::v4(remote.into()),
        local_port: L4Port(local_port),
        remote_port: L4Port(remote_port),
    }
}

#[test]
fn the_most_exact_socket_wins() {
    let demux = Demux::<Up>::new(Key::seeded(1));
    demux.insert(cx(), &tuple(0, 0, 53, 0), 3);
    assert_eq!(demux.lookup(cx(), &tuple(7, 9, 53, 1000)), Some(3));
    demux.insert(cx(), &tuple(7, 0, 53, 0), 2);
    assert_eq!(demux.lookup(cx(), &tuple(7, 9, 53, 1000)), Some(2));
    demux.insert(cx(), &tuple(7, 9, 53, 1000), 1);
    assert_eq!(demux.lookup(cx(), &tuple(7, 9, 53, 1000)), Some(1));
    assert_eq!(demux.lookup(cx(), &tuple(7, 9, 53, 1001)), Some(2));
    assert_eq!(demux.lookup(cx(), &tuple(8, 9, 53, 1000)), Some(3));
    assert_eq!(demux.lookup(cx(), &tuple(8, 9, 54, 1000)), None);
}

#[test]
fn addresses_of_both_families_round_trip() {
    let shown = |addr: Addr| addr.with_port(L4Port(7)).to_string();
    let v4 = Addr::v4(Ipv4Addr::new(10, 1, 2, 3));
    assert_eq!((v4.to_v4(), &*shown(v4)), (Some(Ipv4Addr::new(10, 1, 2, 3)), "10.1.2.3:7"));
    let v6 = Addr(u128::from("2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap()));
    assert_eq!((v6.to_v4(), &*shown(v6)), (None, "[2001:db8::1]:7"));
    let scoped = Addr(zone::embed("fe80::1".parse().unwrap(), Some(crate::iface::IfaceId(2))));
    assert_eq!(shown(scoped), "[fe80::1%3]:7");
    assert_eq!((Addr::v4(Ipv4Addr::UNSPECIFIED), v4.any()), (Addr::ANY4, Addr::ANY4));
    assert!(Addr::ANY4.is_any() && Addr::ANY6.is_any() && !v4.is_any() && v6.any() == Addr::ANY6);
    assert_eq!([Addr::ANY4, Addr::ANY6].map(shown), ["0.0.0.0:7", "[::]:7"]);
}

proptest! {
    #[test]
    fn behaves_like_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..4, 1u32..5, 0u16..6), 1..400)) {
        let demux = Demux::<Light>::new(Key::seeded(7));
        let mut model: HashMap<Tuple, usize> = HashMap::new();
        for (i, (insert, local, remote, port)) in steps.into_iter().enumerate() {
            let key = tuple(local, remote, port, 99);
            if insert && !model.contains_key(&key) {
                demux.insert(cx(), &key, i);
                model.insert(key, i);
            } else if let Some(pcb) = model.remove(&key) {
                demux.remove(cx(), &key, pcb);
            }
            prop_assert_eq!(demux.len(), model.len());
            for (key, pcb) in &model {
                prop_assert_eq!(demux.lookup(cx(), key), Some(*pcb));
            }
        }
    }
}

/// Keys that an attacker chooses without the secret do not collide more often than random keys
/// (algorithmic complexity attack by Crosby and Wallach).
#[test]
fn chosen_keys_do_not_make_long_probes() {
    let demux = Demux::<Up>::new(Key::random());
    for i in 0..50_000u32 {
        demux.insert(cx(), &tuple(0x0a00_0001, 0x0a00_0000 | (i & 0xff) << 16 | i >> 8, 80, 80), i as usize);
    }
    let shard = demux.shards[0].0.lock(cx());
    let mask = shard.slots.len() - 1;
    let longest = (0..shard.slots.len())
        .filter(|&at| shard.slots[at].used != 0)
        .map(|at| at.wrapping_sub(shard.slots[at].hash as usize) & mask)
        .max();
    assert!(longest < Some(64), "{longest:?}");
}
