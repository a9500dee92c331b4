use super::*;
use crate::{Key, Kind, LOCAL};
use buf::{Pool, PoolConfig, PoolLocks};
use proptest::prelude::*;
use stats::DropReason;
use wire::Mac;

mod guards;
mod model;
mod replicas;
mod snooping;
mod vlans;

fn pool(buffers: usize) -> Pool {
    Pool::new(&PoolConfig { buffers, locks: PoolLocks::Owner, ..PoolConfig::default() }).unwrap()
}

fn station(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

const ALL: [u8; 6] = [0xff; 6];

fn bytes(dst: [u8; 6], src: [u8; 6]) -> Vec<u8> {
    [&dst[..], &src, &[0x88, 0xb5], &[0; 46]].concat()
}

struct Lan {
    bridge: Bridge,
    pool: Pool,
    out: Vec<Burst>,
}

impl Lan {
    fn new(members: &[Member], buffers: usize) -> Lan {
        let mut bridge = Bridge::new(BridgeConfig::default());
        members.iter().for_each(|member| assert!(bridge.add(*member).is_some()));
        Lan { bridge, pool: pool(buffers), out: members.iter().map(|_| Burst::new()).collect() }
    }

    fn send(&mut self, from: PortNo, frames: &[Vec<u8>], now: Instant) {
        let mut burst = Burst::new();
        self.pool.get_burst(frames.len(), &mut burst);
        assert_eq!(burst.len(), frames.len(), "the pool of the test is too small");
        burst.as_mut_slice().iter_mut().zip(frames).for_each(|(frame, bytes)| frame.extend(bytes).unwrap());
        self.bridge.input(from, &mut burst, now, &mut self.out);
        assert!(burst.is_empty());
    }

    /// Returns the number of frames added to each port's burst.
    fn left(&mut self) -> Vec<usize> {
        let left = self.out.iter().map(Burst::len).collect();
        self.out.iter_mut().for_each(Burst::clear);
        assert!(self.bridge.audit().holds(), "{:?}", self.bridge.audit());
        left
    }

    fn one(&mut self, from: PortNo, dst: [u8; 6], src: [u8; 6]) -> Vec<usize> {
        self.send(from, &[bytes(dst, src)], Instant::ZERO);
        self.left()
    }

    fn dropped(&self, why: DropReason) -> u64 {
        self.bridge.drops().get(why)
    }
}

#[test]
fn it_learns_forwards_floods_and_filters() {
    let mut lan = Lan::new(&[Member::default(); 3], 16);
    assert_eq!(lan.one(0, station(2), station(1)), [0, 1, 1], "address 2 is unknown");
    assert_eq!(lan.one(1, station(1), station(2)), [1, 0, 0]);
    assert_eq!(lan.one(0, station(2), station(1)), [0, 1, 0]);
    assert_eq!(lan.one(1, station(2), station(3)), [0; 3], "the destination is at the ingress port");
    assert_eq!(lan.one(2, ALL, station(2)), [1, 1, 0], "the address has moved");
    assert_eq!(lan.one(0, station(2), station(1)), [0, 0, 1]);
    assert_eq!((lan.dropped(DropReason::BridgeSamePort), lan.bridge.fdb().counts().moved), (1, 1));
    assert_eq!(lan.one(0, [1, 0x80, 0xc2, 0, 0, 0xf], station(1)), [0; 3]);
    assert_eq!(lan.one(0, [1, 0x80, 0xc2, 0, 0, 0x10], station(1)), [0, 1, 1]);
    assert_eq!(lan.one(0, station(2), ALL), [0; 3]);
    assert_eq!(lan.one(0, station(2), [0; 6]), [0; 3]);
    assert_eq!(lan.one(0, [0; 6], [1, 0, 0, 0, 0, 0]), [0; 3], "a complete header without addresses");
    lan.send(0, &[vec![1; 13]], Instant::ZERO);
    assert_eq!(lan.left(), [0; 3]);
    let dropped = [DropReason::BridgeReserved, DropReason::BridgeBadSource, DropReason::BridgeShort];
    assert_eq!(dropped.map(|why| lan.dropped(why)), [1, 3, 1]);
    let late = Instant::from_millis(300_100);
    lan.send(0, &[bytes(station(2), station(1))], late);
    assert_eq!(lan.left(), [0, 1, 1], "address 2 has expired");
    assert_eq!(lan.pool.stats().live(), 0);
}

#[test]
fn ports_are_isolated_as_configured() {
    let plain = Member::default();
    let private = Member { private: true, ..plain };
    let other = Member { cluster: 1, ..plain };
    let span = Member { span: true, ..plain };
    let mut lan = Lan::new(&[plain, private, private, other, span], 64);
    assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1, 0, 1]);
    assert_eq!(lan.one(1, ALL, station(2)), [1, 0, 0, 0, 1]);
    assert_eq!(lan.one(2, station(2), station(3)), [0, 0, 0, 0, 1]);
    assert_eq!(lan.one(3, ALL, station(4)), [0, 0, 0, 0, 1], "alone in its cluster");
    assert_eq!(lan.one(4, ALL, station(5)), [0; 5]);
    let dropped = [DropReason::BridgeApart, DropReason::BridgeNowhere, DropReason::BridgeSpan];
    assert_eq!(dropped.map(|why| lan.dropped(why)), [1, 1, 1]);
    // Port 1 neither learns nor gets frames for unknown addresses.
    let mut lan = Lan::new(&[plain, Member { learn: false, discover: false, ..plain }, plain], 64);
    assert_eq!(lan.one(1, station(1), station(2)), [1, 0, 1]);
    assert_eq!(lan.one(0, station(2), station(1)), [0, 0, 1]);
    assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1], "group frames are flooded to port 1");
    // Frames from a sticky address are dropped at other ports.
    let mut lan = Lan::new(&[Member { sticky: true, ..plain }, plain, plain], 64);
    lan.bridge.fdb_mut().insert_static(Key::new(0, Mac(station(9))), 1, Instant::ZERO);
    assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1]);
    assert_eq!(lan.one(2, ALL, station(1)), [0; 3]);
    assert_eq!(lan.one(2, ALL, station(9)), [0; 3]);
    assert_eq!(lan.one(2, station(9), station(8)), [0, 1, 0]);
    assert_eq!(lan.dropped(DropReason::BridgeBound), 2);
}

#[test]
fn without_room_or_buffers_drops_are_counted_by_reason() {
    let mut lan = Lan::new(&[Member::default(); 3], 400);
    lan.one(1, ALL, station(2));
    let frames: Vec<Vec<u8>> = vec![bytes(station(2), station(1)); 200];
    (0..2).for_each(|_| lan.send(0, &frames[..150], Instant::ZERO));
    assert_eq!((lan.dropped(DropReason::BridgeOutFull), lan.left()[1]), (44, 256));
    let mut lan = Lan::new(&[Member::default(); 3], 12);
    lan.send(0, &vec![bytes(ALL, station(1)); 10], Instant::ZERO);
    assert_eq!(lan.dropped(DropReason::BridgeNoCopy), 8);
    assert_eq!(lan.left(), [0, 2, 10], "the last port gets the frame itself");
    let mut burst = Burst::of(lan.pool.get().unwrap());
    lan.bridge.input(3, &mut burst, Instant::ZERO, &mut lan.out);
    assert_eq!((burst.len(), lan.left()), (1, vec![0; 3]), "the port does not exist");
}

proptest! {
    /// Checks that a burst gives the same result as its frames one by one, and that every frame is
    /// accounted for.
    #[test]
    fn a_burst_equals_its_single_frames(
        traffic in prop::collection::vec((0..4_u16, prop::collection::vec((0..6_u8, 0..6_u8, 0..8_u8), 1..70)), 1..8),
    ) {
        let frame = |(dst, src, odd): &(u8, u8, u8)| match odd {
            0 => bytes(ALL, station(*src)),
            1 => bytes([1, 0x80, 0xc2, 0, 0, *dst], station(*src)),
            2 => bytes(station(*dst), ALL),
            3 => vec![0; usize::from(*src)],
            _ => bytes(station(*dst), station(*src)),
        };
        let members = [Member::default(), Member::default(), Member { private: true, ..Member::default() }, Member { private: true, ..Member::default() }];
        let (mut together, mut apart) = (Lan::new(&members, 4096), Lan::new(&members, 4096));
        for (from, frames) in traffic {
            let frames: Vec<Vec<u8>> = frames.iter().map(frame).collect();
            together.send(from, &frames, Instant::ZERO);
            frames.iter().for_each(|frame| apart.send(from, std::slice::from_ref(frame), Instant::ZERO));
            let bytes = |lan: &Lan| -> Vec<Vec<Vec<u8>>> {
                lan.out.iter().map(|burst| burst.as_slice().iter().map(|frame| frame.bytes().to_vec()).collect()).collect()
            };
            prop_assert_eq!(bytes(&together), bytes(&apart));
            prop_assert_eq!(together.left(), apart.left());
        }
        prop_assert_eq!(together.bridge.audit(), apart.bridge.audit());
        prop_assert_eq!(together.pool.stats().live(), 0);
    }
}

#[test]
fn removing_a_port_frees_its_entries_and_its_slot() {
    let mut lan = Lan::new(&[Member::default(); 3], 64);
    lan.one(0, station(9), station(1));
    lan.one(1, station(1), station(2));
    lan.bridge.remove(1, Instant::ZERO);
    assert_eq!(lan.one(0, station(2), station(1)), [0, 0, 1], "address 2 is unknown, and its port was removed");
    assert_eq!(lan.one(0, ALL, station(1)), [0, 0, 1]);
    assert!(lan.bridge.join(1, Member::default()) && !lan.bridge.join(MAX_PORTS as PortNo, Member::default()));
    assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1]);
    assert_eq!(lan.bridge.counts_of(1).map(|counts| (counts.received, counts.given)), Some((0, 1)));
    assert!(lan.bridge.audit().holds() && lan.bridge.audit().received == 5);
}

/// Checks that an address of one cluster is not learned into another, where it may belong to
/// another station. The clusters of FreeBSD 4 have separate tables for the same reason.
#[test]
fn a_cluster_has_addresses_of_its_own() {
    for vlans in [false, true] {
        let of = |cluster| Member { cluster, ..Member::default() };
        let mut lan = Lan::new(&[of(0), of(0), of(1), of(1)], 64);
        if vlans {
            lan.bridge.set_vlan_filtering(Some(wire::eth::EtherType::VLAN));
        }
        // The same address at a port of each cluster in turn, then a frame for it in each cluster.
        for _ in 0..20 {
            lan.one(0, ALL, station(1));
            lan.one(2, ALL, station(1));
        }
        assert_eq!(lan.one(1, station(1), station(2)), [1, 0, 0, 0], "VLANs: {vlans}");
        assert_eq!(lan.one(3, station(1), station(3)), [0, 0, 1, 0]);
        let counts = lan.bridge.fdb().counts();
        assert_eq!((counts.learned, counts.moved, lan.bridge.fdb().len()), (4, 0, 4));
        // An address that is known in one cluster only is unknown in the other.
        assert_eq!(lan.one(0, station(3), station(1)), [0, 1, 0, 0]);
        let vid = u16::from(vlans);
        let key = Key::new(vid, Mac(station(1)));
        assert_eq!([0, 1].map(|cluster| lan.bridge.fdb().lookup_in(cluster, key, Instant::ZERO)), [Some(0), Some(2)]);
        // When a port changes its cluster, its learned addresses are flushed and its static
        // addresses move to the new cluster.
        let fixed = Key::new(vid, Mac(station(9)));
        assert!(lan.bridge.fdb_mut().insert_static(fixed, 2, Instant::ZERO));
        assert_eq!(lan.one(0, station(9), station(1)), [0, 1, 0, 0]);
        lan.bridge.set_member(2, of(0));
        assert_eq!(lan.one(0, station(9), station(1)), [0, 0, 1, 0]);
        assert_eq!(lan.one(3, station(1), station(3)), [0, 0, 0, 0], "alone");
        assert_eq!(lan.bridge.fdb().lookup_in(1, key, Instant::ZERO), None);
        // A removed address is unknown in all clusters.
        lan.bridge.set_member(2, of(1));
        lan.one(2, ALL, station(1));
        assert!(lan.bridge.forget_address(key, Instant::ZERO));
        assert_eq!([0, 1].map(|cluster| lan.bridge.fdb().lookup_in(cluster, key, Instant::ZERO)), [None, None]);
        assert_eq!(lan.bridge.fdb().lookup_in(1, fixed, Instant::ZERO), Some(2));
    }
}
