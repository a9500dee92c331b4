//! Tables and procedures of IEEE 802.1D-2004, one port at a time.

use super::world::{World, address, secs};
use super::*;
use crate::PortState;
use wire::Mac;
use wire::bpdu::{BridgeId, Config, Flags, PortId, SenderRole};

pub const UP: Link = Link::Up { duplex: Duplex::Full, speed_kbps: 1_000_000 };
pub const HALF: Link = Link::Up { duplex: Duplex::Half, speed_kbps: 1_000_000 };
pub const START: Instant = Instant::from_millis(1000);

pub fn config() -> StpConfig {
    StpConfig { address: Mac([2, 0, 0, 0, 0, 9]), ..StpConfig::default() }
}

/// Returns a bridge with ports 0 and 1, both up.
pub fn two_ports(requested: StpPort, link: Link) -> Stp {
    let mut stp = Stp::new(config(), START).unwrap();
    for no in 0..2 {
        stp.add_port(no, requested, START).unwrap();
        stp.set_link(no, link, START);
    }
    stp
}

/// Returns the BPDU that a bridge of this priority sends as root on its port 1.
pub fn said(priority: u16) -> Config {
    let bridge = BridgeId::new(priority, Mac([2, 0, 0, 0, 0, 1]));
    Config {
        flags: Flags::NONE.with_role(SenderRole::Designated),
        root: bridge,
        root_path_cost: 0,
        bridge,
        port: PortId::new(128, 1),
        message_age: 0,
        max_age: 20 << 8,
        hello_time: 2 << 8,
        forward_delay: 15 << 8,
    }
}

pub fn hear(stp: &mut Stp, port: PortNo, bpdu: Bpdu, now: Instant) {
    stp.on_bpdu(port, &bpdu.emit_frame(Mac([2, 0, 0, 0, 0, 1])), now);
}

pub fn effects(stp: &mut Stp) -> Vec<Effect> {
    std::iter::from_fn(|| stp.next_effect()).collect()
}

pub fn sent(stp: &mut Stp, port: PortNo) -> Vec<Bpdu> {
    let of = |effect| match effect {
        Effect::Transmit(no, bpdu) if no == port => Some(bpdu),
        _ => None,
    };
    effects(stp).into_iter().filter_map(of).collect()
}

/// Advances the time second by second.
pub fn wait(stp: &mut Stp, now: &mut Instant, seconds: u64) {
    for _ in 0..seconds {
        *now = now.after(secs(1));
        stp.poll(*now);
    }
}

/// Path costs of 802.1D table 17-3.
#[test]
fn path_costs_by_speed() {
    let table = [
        (100, 200_000_000),
        (1_000, 20_000_000),
        (10_000, 2_000_000),
        (100_000, 200_000),
        (1_000_000, 20_000),
        (10_000_000, 2_000),
        (100_000_000, 200),
        (1_000_000_000, 20),
        (10_000_000_000, 2),
        (1, 200_000_000),
        (u64::MAX, 1),
    ];
    for (speed, cost) in table {
        assert_eq!(path_cost(speed), cost, "{speed} kb/s");
    }
}

/// Tables 17-1 and 17-2 of 802.1D-2004, and the inequality of 17.14.
#[test]
fn values_out_of_range_are_rejected() {
    let new = |config| Stp::new(config, START).map(|_| ());
    assert_eq!(new(config()), Ok(()));
    assert_eq!(new(StpConfig { priority: 4097, ..config() }), Err(StpError::BridgePriority(4097)));
    let range = |what, value, least, most| Err(StpError::Range { what, value, least, most });
    assert_eq!(new(StpConfig { hello_s: 3, ..config() }), range("hello_s", 3, 1, 2));
    assert_eq!(new(StpConfig { hello_s: 3, version: StpVersion::Stp, ..config() }), Ok(()));
    assert_eq!(new(StpConfig { max_age_s: 41, ..config() }), range("max_age_s", 41, 6, 40));
    assert_eq!(new(StpConfig { forward_delay_s: 3, ..config() }), range("forward_delay_s", 3, 4, 30));
    assert_eq!(new(StpConfig { hold_count: 11, ..config() }), range("hold_count", 11, 1, 10));
    assert_eq!(new(StpConfig { rx_limit: 0, ..config() }), range("rx_limit", 0, 1, u16::MAX));
    assert_eq!(new(StpConfig { forward_delay_s: 10, ..config() }), Err(StpError::Relation));
    assert_eq!(new(StpConfig { forward_delay_s: 11, ..config() }), Ok(()));
    assert_eq!(new(StpConfig { max_age_s: 6, hello_s: 2, ..config() }), Ok(()));
    let mut stp = two_ports(StpPort::default(), UP);
    let mut add = |no, requested| stp.add_port(no, requested, START);
    assert_eq!(add(2, StpPort { priority: 8, ..StpPort::default() }), Err(StpError::PortPriority(8)));
    assert_eq!(add(2, StpPort { path_cost: Some(0), ..StpPort::default() }), Err(StpError::PathCost(0)));
    assert_eq!(add(1, StpPort::default()), Err(StpError::Exists(1)));
    assert_eq!(add(1024, StpPort::default()), Err(StpError::TooManyPorts));
    assert_eq!(stp.set_port(7, StpPort::default(), START), Err(StpError::NoPort(7)));
    assert_eq!(stp.set_priority(1, START), Err(StpError::BridgePriority(1)));
}

/// Comparison of priority vectors (802.1D 17.6): the components are compared in order, and
/// information from the designated port itself replaces its earlier information.
#[test]
fn vectors_compare_as_the_standard_says() {
    let v = |root: u64, cost, bridge: u64, port| PriorityVector {
        root: BridgeId(root),
        cost,
        bridge: BridgeId(bridge),
        port: PortId(port),
    };
    let base = v(5, 50, 7, 3);
    for better in [v(4, 99, 9, 9), v(5, 49, 9, 9), v(5, 50, 6, 9), v(5, 50, 7, 2)] {
        assert!(better < base && better.is_superior_to(&base) && !base.is_superior_to(&better));
    }
    assert!(v(9, 99, 7, 3).is_superior_to(&base), "worse information from the same port");
    assert!(v(9, 99, 7 | 0x8000 << 48, 3 | 0x1000).is_superior_to(&base), "with other priorities");
    assert!(!base.is_superior_to(&base));
    assert_eq!(v(1, u32::MAX - 1, 1, 1).plus(200).cost, u32::MAX);
}

/// Classification by `rcvInfo` (17.21.8).
#[test]
fn received_information_is_classified() {
    let mut p = port::Port::new(0, StpPort::default());
    let mut of = |bpdu, info_is| {
        p.info_is = info_is;
        p.port_priority = PriorityVector::of(&said(0x5000));
        p.port_times = Times::of(&said(0x5000));
        p.msg = Some(bpdu);
        procedures::rcv_info(&mut p)
    };
    use self::port::InfoIs::{Mine, Received};
    let role = |config: Config, role| Config { flags: config.flags.with_role(role), ..config };
    let other = Config { bridge: BridgeId::new(0x5000, Mac([2; 6])), ..said(0x5000) };
    assert_eq!(of(Bpdu::Rst(said(0x4000)), Received), RcvdInfo::SuperiorDesignated);
    assert_eq!(of(Bpdu::Config(said(0x4000)), Mine), RcvdInfo::SuperiorDesignated);
    assert_eq!(of(Bpdu::Rst(said(0x6000)), Received), RcvdInfo::SuperiorDesignated, "worse, same port");
    assert_eq!(of(Bpdu::Rst(said(0x5000)), Received), RcvdInfo::RepeatedDesignated);
    assert_eq!(of(Bpdu::Rst(said(0x5000)), Mine), RcvdInfo::InferiorDesignated);
    assert_eq!(of(Bpdu::Rst(Config { max_age: 10 << 8, ..said(0x5000) }), Received), RcvdInfo::SuperiorDesignated);
    assert_eq!(of(Bpdu::Rst(Config { message_age: 100, ..said(0x5000) }), Received), RcvdInfo::RepeatedDesignated);
    assert_eq!(of(Bpdu::Rst(other), Received), RcvdInfo::InferiorDesignated);
    assert_eq!(of(Bpdu::Rst(role(other, SenderRole::Unknown)), Received), RcvdInfo::InferiorDesignated);
    assert_eq!(of(Bpdu::Rst(role(other, SenderRole::Root)), Received), RcvdInfo::InferiorRootAlternate);
    assert_eq!(of(Bpdu::Rst(role(said(0x4000), SenderRole::Root)), Received), RcvdInfo::Other);
    assert_eq!(of(Bpdu::Tcn, Received), RcvdInfo::Other);
}

/// Received times are clamped to the ranges of 802.1D table 17-1.
#[test]
fn received_times_are_clamped_to_their_ranges() {
    let wild = Config { message_age: 0xffff, max_age: 0, hello_time: 0, forward_delay: 0, ..said(0) };
    assert_eq!(Times::of(&wild), Times { message_age: 256, max_age: 6, hello: 1, forward_delay: 4 });
    let wild = Config { message_age: 383, max_age: 0xffff, hello_time: 0xffff, forward_delay: 0xffff, ..said(0) };
    assert_eq!(Times::of(&wild), Times { message_age: 1, max_age: 40, hello: 10, forward_delay: 30 });
}

/// Without neighbors, a port becomes an edge port after three seconds (802.1D 17.25) and forwards
/// at once.
#[test]
fn a_port_without_bridges_becomes_an_edge() {
    let mut stp = two_ports(StpPort::default(), UP);
    let mut now = START;
    wait(&mut stp, &mut now, 2);
    assert_eq!(stp.state(0), PortState::Discarding);
    wait(&mut stp, &mut now, 1);
    assert_eq!(stp.state(0), PortState::Forwarding);
    assert!(stp.port(0).unwrap().edge);
    assert_eq!(stp.view().topology_changes, 0, "an edge port causes no topology change");
    hear(&mut stp, 0, Bpdu::Rst(said(0x9000)), now);
    assert!(!stp.port(0).unwrap().edge);
}

#[test]
fn an_edge_by_configuration_forwards_at_once() {
    let stp = two_ports(StpPort { edge: true, ..StpPort::default() }, UP);
    assert_eq!((stp.state(0), stp.state(1)), (PortState::Forwarding, PortState::Forwarding));
}

/// On a shared segment, a port that was down waits for max age, then for the forward delay.
#[test]
fn without_agreement_the_delays_pass() {
    let mut stp = two_ports(StpPort { auto_edge: false, ..StpPort::default() }, HALF);
    let mut now = START;
    let mut at = [0; 2];
    for second in 1..60 {
        wait(&mut stp, &mut now, 1);
        let state = stp.state(0);
        at[0] = if state == PortState::Discarding { second } else { at[0] };
        at[1] = if state != PortState::Forwarding { second } else { at[1] };
    }
    assert_eq!(at, [19, 34]);
}

/// A proposal is answered with an agreement after the other port has been set to discarding (802.1D
/// figures 17-21, 17-22). The earlier agreement of that port, explicit or implied by its delays,
/// referred to a better root.
#[test]
fn a_proposal_syncs_the_others_and_is_agreed_to() {
    let mut stp = two_ports(StpPort { auto_edge: false, ..StpPort::default() }, UP);
    let mut now = START;
    wait(&mut stp, &mut now, 28);
    hear(&mut stp, 0, Bpdu::Rst(Config { root: BridgeId(5), ..said(0x1000) }), now);
    wait(&mut stp, &mut now, 2);
    assert_eq!((stp.state(1), stp.view().root), (PortState::Forwarding, BridgeId(5)));
    effects(&mut stp);
    let proposal = Config { flags: said(0).flags.with(Flags::PROPOSAL), ..said(0x1000) };
    hear(&mut stp, 0, Bpdu::Rst(proposal), now);
    let effects = effects(&mut stp);
    let at = |wanted: &dyn Fn(&Effect) -> bool| effects.iter().position(wanted).unwrap();
    let discards = at(&|effect| *effect == Effect::State(1, PortState::Discarding));
    let agrees = at(
        &|effect| matches!(effect, Effect::Transmit(0, Bpdu::Rst(config)) if config.flags.contains(Flags::AGREEMENT)),
    );
    assert!(discards < agrees, "{effects:?}");
    assert_eq!((stp.state(0), stp.port(0).unwrap().role), (PortState::Forwarding, PortRole::Root));
    assert_eq!((stp.state(1), stp.port(1).unwrap().role), (PortState::Discarding, PortRole::Designated));
    let view = stp.view();
    assert_eq!((view.root, view.root_cost, view.root_port), (said(0x1000).root, 20_000, Some(0)));
    assert_eq!(view.times, Times { message_age: 1, max_age: 20, hello: 2, forward_delay: 15 });
    // The BPDU of the other port has its message age increased by a second, and contains a
    // proposal.
    let reported = effects.iter().find_map(|effect| match effect {
        Effect::Transmit(1, Bpdu::Rst(config)) => Some(*config),
        _ => None,
    });
    let reported = reported.unwrap();
    assert_eq!((reported.message_age, reported.root_path_cost, reported.root), (256, 20_000, view.root));
    assert!(reported.flags.contains(Flags::PROPOSAL) && reported.flags.role() == SenderRole::Designated);
    // An agreement to this BPDU lets the port forward.
    let agreement =
        Config { flags: Flags::AGREEMENT.with_role(SenderRole::Root), root_path_cost: 40_000, ..said(0x1000) };
    hear(&mut stp, 1, Bpdu::Rst(Config { bridge: BridgeId::new(0xf000, Mac([7; 6])), ..agreement }), now);
    assert_eq!(stp.state(1), PortState::Forwarding);
}

/// Received information expires after three hello times, or at once if it is too old (802.1D
/// 17.21.23).
#[test]
fn received_information_ages_out() {
    let mut stp = two_ports(StpPort::default(), UP);
    let mut now = START;
    hear(&mut stp, 0, Bpdu::Rst(said(0x1000)), now);
    wait(&mut stp, &mut now, 5);
    assert_eq!(stp.view().root_port, Some(0));
    wait(&mut stp, &mut now, 1);
    assert_eq!((stp.view().root_port, stp.view().root), (None, stp.view().bridge));
    let old = Config { message_age: 20 << 8, ..said(0x1000) };
    hear(&mut stp, 0, Bpdu::Config(old), now);
    hear(&mut stp, 0, Bpdu::Rst(old), now);
    assert_eq!(stp.view().root_port, None);
    assert_eq!(stp.port(0).unwrap().counts.old, 2);
    hear(&mut stp, 0, Bpdu::Config(Config { message_age: 19 << 8, ..said(0x1000) }), now);
    assert_eq!(stp.view().root_port, Some(0));
}

/// Port Protocol Migration (802.1D 17.24): after a delay of three seconds the port uses the
/// neighbor's protocol. It returns to RSTP by mcheck or when RST BPDUs arrive.
#[test]
fn the_protocol_version_follows_the_neighbor() {
    let mut stp = two_ports(StpPort::default(), UP);
    let mut now = START;
    let rapid = |stp: &Stp| stp.port(0).unwrap().rapid;
    hear(&mut stp, 0, Bpdu::Config(said(0xf000)), now);
    assert!(rapid(&stp), "not within the first three seconds");
    wait(&mut stp, &mut now, 3);
    hear(&mut stp, 0, Bpdu::Config(said(0xf000)), now);
    assert!(!rapid(&stp));
    effects(&mut stp);
    wait(&mut stp, &mut now, 2);
    assert!(matches!(sent(&mut stp, 0)[..], [Bpdu::Config(_)]));
    wait(&mut stp, &mut now, 1);
    hear(&mut stp, 0, Bpdu::Rst(said(0xf000)), now);
    assert!(rapid(&stp));
    wait(&mut stp, &mut now, 3);
    hear(&mut stp, 0, Bpdu::Tcn, now);
    assert!(!rapid(&stp));
    stp.migrate(0, now);
    assert!(rapid(&stp));
    effects(&mut stp);
    wait(&mut stp, &mut now, 2);
    assert!(matches!(sent(&mut stp, 0)[..], [.., Bpdu::Rst(_)]));
}

/// Sends a BPDU per hello time, and no more than the hold count in a second (802.1D 17.26).
#[test]
fn the_hold_count_limits_transmission() {
    let mut stp = two_ports(StpPort::default(), HALF);
    let mut now = START;
    effects(&mut stp);
    for n in 0..40u16 {
        hear(&mut stp, 1, Bpdu::Rst(Config { root_path_cost: u32::from(n), ..said(0x1000) }), now);
    }
    let left = sent(&mut stp, 0).len();
    assert!((1..=6).contains(&left), "{left}");
    wait(&mut stp, &mut now, 1);
    assert_eq!(sent(&mut stp, 0).len(), 1, "then one per second");
    wait(&mut stp, &mut now, 30);
    effects(&mut stp);
    wait(&mut stp, &mut now, 10);
    assert_eq!(sent(&mut stp, 0).len(), 5);
}

/// Topology change (802.1D 17.31): RSTP bridges inform all others, which flush at once. With STP
/// the root is notified, and addresses expire sooner.
#[test]
fn topology_changes_are_propagated() {
    for version in [StpVersion::Rstp, StpVersion::Stp] {
        let mut world = World::new();
        for n in 0..4 {
            world.bridge(0x1000 * n, version, u64::from(n) * 137);
        }
        for pair in [[0, 1], [1, 2], [2, 3]] {
            world.connect(&pair, Duplex::Full, Duration::from_millis(1));
        }
        let ring = world.connect(&[3, 0], Duplex::Full, Duration::from_millis(1));
        world.start();
        world.run(secs(200));
        assert_eq!(world.spans(), Ok(()));
        let before: u64 = world.bridges.iter().map(|b| b.stp.view().topology_changes).sum();
        world.bridges.iter_mut().for_each(|b| (b.flushes, b.short_ageings) = (0, 0));
        let changed = world.now;
        world.set_carrier(ring, false);
        world.run(secs(120));
        for (n, b) in world.bridges.iter().enumerate() {
            let (flushed, aged) = (b.flushes > 0, b.short_ageings > 0);
            assert_eq!((flushed, aged), (version == StpVersion::Rstp, version == StpVersion::Stp), "{version:?} {n}");
        }
        assert!(world.bridges.iter().map(|b| b.stp.view().topology_changes).sum::<u64>() > before);
        assert!(world.bridges.iter().any(|b| b.stp.view().topology_changed_at > Some(changed)));
        let tcns: u64 = world.bridges.iter().flat_map(|b| b.stp.ports().map(|p| p.counts.tcn_out)).sum();
        assert_eq!(tcns > 0, version == StpVersion::Stp, "{tcns}");
        assert!(world.bridges.iter().all(|b| b.stp.ports().all(|p| p.counts.bad + p.counts.unsent == 0)));
    }
}

/// Proposal and agreement: a ring of RSTP bridges forms one tree within milliseconds, and recovers
/// from the loss of a link within milliseconds.
#[test]
fn rapid_means_milliseconds() {
    let mut world = World::new();
    for n in 0..6 {
        world.bridge(0x1000 * n, StpVersion::Rstp, u64::from(n) * 71);
    }
    let links: Vec<_> =
        (0..6).map(|n| world.connect(&[n, (n + 1) % 6], Duplex::Full, Duration::from_micros(50))).collect();
    world.start();
    let first = world.settles_in(secs(20)).unwrap();
    world.set_carrier(links[0], false);
    let second = world.settles_in(secs(20)).unwrap();
    world.set_carrier(links[0], true);
    let third = world.settles_in(secs(20)).unwrap();
    println!("six rapid bridges in a ring: {first:?}, a link lost {second:?}, and back {third:?}");
    assert!(first.max(second).max(third) <= Duration::from_millis(50));
    assert_eq!(world.loops, []);
    assert_eq!(world.bridges[0].stp.config().address, address(0));
}

/// STP as in 802.1D-1998 8.6: information about the root is relayed at once, and its age includes
/// the time for which it was held.
#[test]
fn stp_passes_on_at_once_and_counts_the_time() {
    let mut stp = Stp::new(StpConfig { version: StpVersion::Stp, ..config() }, START).unwrap();
    for no in 0..2 {
        stp.add_port(no, StpPort::default(), START).unwrap();
        stp.set_link(no, UP, START);
    }
    let mut now = START;
    let ages = |stp: &mut Stp| -> Vec<u16> {
        sent(stp, 1).iter().filter_map(Bpdu::config).map(|config| config.message_age / 256).collect()
    };
    hear(&mut stp, 0, Bpdu::Config(said(0x1000)), now);
    assert_eq!(ages(&mut stp).last(), Some(&1));
    wait(&mut stp, &mut now, 1);
    ages(&mut stp);
    hear(&mut stp, 0, Bpdu::Config(said(0x1000)), now);
    assert_eq!(ages(&mut stp), [1]);
    wait(&mut stp, &mut now, 4);
    assert_eq!(ages(&mut stp), [3, 5]);
}
