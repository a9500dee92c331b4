//! Hostile input and failures, each with one loop, with two loops, and with workers. At the end,
//! every frame is accounted for, and every buffer is free.

use super::*;
use ::bridge::Guarded;
use wire::Mac;
use wire::bpdu::{BRIDGE_GROUP, Bpdu, BridgeId, Config, Flags, PortId, SenderRole};

const STRANGER: Mac = Mac([2, 0, 0, 0, 0, 0x66]);
/// Capacity of the table in these tests.
const TABLE: usize = 64;

/// Numbers of (loops, workers).
const KINDS: [(usize, usize); 3] = [(1, 0), (2, 0), (1, 2)];

fn bytes_of(dst: Mac, src: Mac, rest: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = [&dst.0[..], &src.0, rest].concat();
    bytes.resize(len, 0);
    bytes
}

fn station(n: u32) -> Mac {
    let [a, b, c, d] = n.to_be_bytes();
    Mac([2, 1, a, b, c, d])
}

/// Returns a frame with a configuration BPDU of a root that no bridge can beat.
fn forged(priority: u16) -> Vec<u8> {
    let bridge = BridgeId::new(priority, STRANGER);
    let config = Config {
        flags: Flags(0xff).with_role(SenderRole::Designated),
        root: bridge,
        root_path_cost: 0,
        bridge,
        port: PortId::new(128, 1),
        message_age: 0,
        max_age: 20 << 8,
        hello_time: 2 << 8,
        forward_delay: 15 << 8,
    };
    Bpdu::Rst(config).emit_frame(STRANGER).to_vec()
}

struct Case {
    lan: Lan,
    clock: SimClock,
}

impl Case {
    fn new((loops, workers): (usize, usize)) -> Case {
        let clock = SimClock::new();
        clock.advance(Duration::from_secs(1));
        let mut config = SwitchConfig { loops, workers, ..SwitchConfig::default() };
        config.bridge.fdb.most = TABLE;
        let switch = Switch::new(&config, Clock::sim(&clock)).unwrap();
        let pool = Pool::new(&PoolConfig { locks: PoolLocks::Light, ..PoolConfig::default() }).unwrap();
        let mut lan = Lan { switch, ends: Vec::new(), pool };
        (0..3).for_each(|at| lan.plug(&format!("p{at}")));
        Case { lan, clock }
    }

    fn turn(&mut self) {
        self.lan.turn();
        self.lan.switch.tend();
        self.lan.turn();
    }

    /// Sends a single frame and returns the ports through which it left.
    fn pass(&mut self, from: usize, bytes: &[u8]) -> Vec<usize> {
        self.lan.send(from, bytes);
        self.turn();
        let came = self.lan.received();
        (0..came.len()).filter(|at| came[*at] > 0).collect()
    }

    fn dropped(&self, reason: &str) -> u64 {
        let drops = self.lan.json("show drops");
        let row = drops.as_array().unwrap().iter().find(|row| row["name"] == reason);
        row.map_or(0, |row| row["value"].as_u64().unwrap())
    }

    /// Ends a case: removes the ports and the hosts connected to them, and checks that every frame
    /// and buffer is accounted for.
    fn ends_clean(mut self, what: &str) {
        self.turn();
        self.lan.received();
        let audit = self.lan.switch.audit();
        assert!(audit.holds(), "{what}: {audit:?}");
        for (number, _) in self.lan.switch.members() {
            self.lan.switch.remove(number);
        }
        self.lan.ends.clear();
        let audit = self.lan.switch.audit();
        assert!(audit.holds() && audit.held == 0, "{what}: {audit:?}");
        for (whose, pool) in [("hosts", &self.lan.pool), ("switch", self.lan.switch.pool())] {
            let stats = pool.stats();
            assert_eq!(stats.gets, stats.puts, "{what}: the {whose}' pool: {stats:?}");
        }
    }
}

#[test]
fn an_address_flood_keeps_active_stations() {
    for kind in KINDS {
        let mut case = Case::new(kind);
        let (a, b) = (station(1 << 20), station(2 << 20));
        for n in 0..20 * TABLE as u32 {
            if n % 8 == 0 {
                case.pass(1, &bytes_of(b, a, &[0x88, 0xb5], 60));
                case.pass(2, &bytes_of(a, b, &[0x88, 0xb5], 60));
            }
            case.pass(0, &bytes_of(station(9 << 20), station(n), &[0x88, 0xb5], 60));
        }
        assert_eq!(case.pass(1, &bytes_of(b, a, &[0x88, 0xb5], 60)), [2], "{kind:?}: not flooded");
        let known = case.lan.json("bridge fdb show").as_array().unwrap().len();
        assert!(known <= TABLE + 1, "{kind:?}: {known}, its own among them");
        case.ends_clean("addresses");
    }
}

#[test]
fn bridge_group_frames_are_not_forwarded_and_invalid_sources_are_dropped() {
    for kind in KINDS {
        let mut case = Case::new(kind);
        for n in 0..16 {
            let to = Mac([1, 0x80, 0xc2, 0, 0, n]);
            assert_eq!(case.pass(0, &bytes_of(to, STRANGER, &[0x88, 0xb5], 60)), [0; 0], "{kind:?}: {to}");
        }
        assert_eq!(
            case.pass(1, &bytes_of(STRANGER, station(1), &[0x88, 0xb5], 60)),
            [0, 2],
            "the address was not learned"
        );
        let own = case.lan.switch.mac;
        for src in [BRIDGE_GROUP, Mac([0xff; 6]), Mac([1, 0, 0x5e, 0, 0, 1]), Mac::ZERO, own] {
            assert_eq!(case.pass(0, &bytes_of(Mac([0xff; 6]), src, &[0x88, 0xb5], 60)), [0; 0], "{kind:?}: from {src}");
        }
        case.ends_clean("groups");
    }
}

/// Valid and forged BPDUs, and frames that resemble them. BPDU guard disables the port at the first
/// BPDU. Without it, a rate limit applies, and this bridge becomes the root again after the forged
/// BPDUs stop.
#[test]
fn bpdu_floods_and_forged_bpdus_do_not_take_over() {
    for kind in KINDS {
        let mut case = Case::new(kind);
        case.lan
            .say("ifconfig bridge0 proto rstp stp p0 stp p1 stp p2 edge p0 bpduguard p0 rootguard p1 rootguard p2 rxlimit 10")
            .unwrap();
        case.lan.switch.tend();
        for n in 0..500u16 {
            case.lan.send(0, &forged(0));
            case.lan.send(1, &forged(0x1000));
            let mut broken = forged(0);
            broken.truncate(14 + usize::from(n) % 40);
            broken.resize(60, n as u8);
            case.lan.send(2, &broken);
            if n % 50 == 49 {
                case.turn();
                case.lan.received();
            }
        }
        let tree = |case: &Case| {
            let stp = case.lan.switch.tree(|stp| {
                let guarded = [0, 1].map(|port| stp.port(port).unwrap().guarded);
                (stp.view().root == stp.view().bridge, guarded)
            });
            stp.unwrap()
        };
        let (ours, [first, second]) = tree(&case);
        assert!(ours, "{kind:?}: the root is still ours");
        assert!(matches!(first, Some(Guarded::Bpdu(_))) && second == Some(Guarded::Root), "{first:?} {second:?}");
        // No frame passes a port that a guard has disabled.
        assert_eq!(case.pass(0, &bytes_of(Mac([0xff; 6]), STRANGER, &[0x88, 0xb5], 60)), [0; 0]);
        case.lan.say("ifconfig bridge0 -rootguard p1 -bpduguard p0 reenable p0").unwrap();
        case.lan.send(1, &forged(0));
        case.turn();
        assert!(!tree(&case).0, "{kind:?}: believed while he speaks, as nothing guards");
        for _ in 0..10 {
            case.clock.advance(Duration::from_secs(1));
            case.turn();
        }
        assert!(tree(&case).0, "{kind:?}: forgotten");
        case.ends_clean("BPDUs");
    }
}

#[test]
fn double_tags_reach_no_other_vlan() {
    for kind in KINDS {
        let mut case = Case::new(kind);
        case.lan.say("ifconfig bridge0 vlanfilter untagged p0 1 untagged p1 20 tagged p2 1,20").unwrap();
        for outer in [[0x81, 0], [0x88, 0xa8], [0x91, 0]] {
            let tags = [&outer[..], &[0, 1, 0x81, 0, 0, 20, 0x88, 0xb5]].concat();
            let reached = case.pass(0, &bytes_of(Mac([0xff; 6]), STRANGER, &tags, 64));
            assert!(!reached.contains(&1), "{kind:?}: hopped to VLAN 20 behind {outer:?}");
        }
        assert!(case.dropped("bridge.in.double_tag") > 0, "{}", case.lan.json("show drops"));
        case.ends_clean("double tags");
    }
}

/// Lengths from an empty frame to one byte less than a header, and up to the size of a buffer,
/// which is far above any MTU.
#[test]
fn runts_and_giants_are_dropped_or_passed_on_whole() {
    for kind in KINDS {
        let mut case = Case::new(kind);
        let most = case.lan.pool.size() - case.lan.pool.headroom();
        for len in 1..14 {
            assert_eq!(case.pass(0, &vec![0xff; len]), [0; 0], "{kind:?}: {len} bytes");
        }
        case.lan.say("ifconfig bridge0 vlanfilter").unwrap();
        for len in 14..18 {
            // The frame has a truncated tag.
            case.pass(0, &bytes_of(Mac([0xff; 6]), STRANGER, &[0x81, 0, 0, 1], len));
        }
        case.lan.say("ifconfig bridge0 -vlanfilter").unwrap();
        for len in [14, 59, 1514, 1515, most - 1, most] {
            let giant = bytes_of(Mac([0xff; 6]), STRANGER, &[0x88, 0xb5], len);
            case.lan.send(0, &giant);
            case.turn();
            assert_eq!(case.lan.receive(1), std::slice::from_ref(&giant), "{kind:?}: {len} bytes");
            case.lan.received();
        }
        let audit = case.lan.switch.audit();
        assert!(audit.bridge.dropped >= 13, "{audit:?}");
        case.ends_clean("runts and giants");
    }
}

/// The host of a port is removed while its ring is full, more frames for it wait in the switch, and
/// further frames arrive.
#[test]
fn a_port_whose_peer_dies_in_the_middle_of_a_burst_keeps_no_buffer() {
    for kind in KINDS {
        let mut case = Case::new(kind);
        let everybody = bytes_of(Mac([0xff; 6]), STRANGER, &[0x88, 0xb5], 60);
        for _ in 0..3 {
            (0..200).for_each(|_| case.lan.send(0, &everybody));
            case.turn();
            case.lan.receive(2);
        }
        let held = case.lan.switch.audit();
        assert!(held.holds() && held.held + held.late + held.failed + held.bridge.dropped > 0, "{kind:?}: {held:?}");
        (0..100).for_each(|_| case.lan.send(0, &everybody));
        let dead = case.lan.ends.remove(1);
        drop(dead);
        case.turn();
        (0..100).for_each(|_| case.lan.send(0, &everybody));
        case.turn();
        let audit = case.lan.switch.audit();
        assert!(audit.holds(), "{kind:?}: {audit:?}");
        case.ends_clean("a dead peer");
    }
}
