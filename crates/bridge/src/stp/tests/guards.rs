//! Tests of the guards, of the limits, and of hostile BPDUs.

use super::table::{HALF, START, UP, config, effects, hear, said, sent, two_ports, wait};
use super::world::{World, secs};
use super::*;
use crate::PortState;
use wire::Mac;
use wire::bpdu::{BridgeId, Config, Flags};

#[test]
fn bpdu_guard_disables_and_recovers() {
    let recovery = Some(Duration::from_secs(30));
    let mut stp =
        two_ports(StpPort { edge: true, bpdu_guard: true, guard_recovery: recovery, ..StpPort::default() }, UP);
    let mut now = START;
    assert_eq!(stp.state(0), PortState::Forwarding);
    hear(&mut stp, 0, Bpdu::Tcn, now);
    assert_eq!(stp.state(0), PortState::Discarding);
    let port = stp.port(0).unwrap();
    assert_eq!((port.role, port.counts.guarded), (PortRole::Disabled, 1));
    assert_eq!(port.guarded, Some(Guarded::Bpdu(START.after(secs(30)))));
    stp.set_link(0, Link::Down, now);
    stp.set_link(0, UP, now);
    hear(&mut stp, 0, Bpdu::Tcn, now);
    assert_eq!((stp.state(0), stp.port(0).unwrap().counts.while_down), (PortState::Discarding, 1));
    wait(&mut stp, &mut now, 31);
    assert_eq!((stp.state(0), stp.port(0).unwrap().guarded), (PortState::Forwarding, None));
    hear(&mut stp, 0, Bpdu::Tcn, now);
    stp.reenable(0, now);
    assert_eq!(stp.state(0), PortState::Forwarding);
}

/// Checks that a bridge behind root guard that claims to be root is ignored, and that the port
/// discards as long as it does so.
#[test]
fn root_guard_discards_while_superior_bpdus_arrive() {
    let mut stp = two_ports(StpPort { root_guard: true, ..StpPort::default() }, UP);
    let mut now = START;
    wait(&mut stp, &mut now, 4);
    assert_eq!(stp.state(0), PortState::Forwarding);
    for _ in 0..5 {
        hear(&mut stp, 0, Bpdu::Rst(said(0)), now);
        wait(&mut stp, &mut now, 2);
        assert_eq!(stp.view().root, stp.view().bridge);
        assert_eq!((stp.state(0), stp.state(1)), (PortState::Discarding, PortState::Forwarding));
        assert_eq!(stp.port(0).unwrap().guarded, Some(Guarded::Root));
    }
    assert_eq!(stp.port(0).unwrap().counts.root_guarded, 1);
    hear(&mut stp, 0, Bpdu::Rst(said(0xf000)), now);
    wait(&mut stp, &mut now, 20);
    assert_eq!(stp.port(0).unwrap().guarded, None);
    assert_eq!(stp.state(0), PortState::Forwarding);
}

#[test]
fn bpdu_filter_neither_receives_nor_sends() {
    let mut stp = two_ports(StpPort { bpdu_filter: true, ..StpPort::default() }, UP);
    let mut now = START;
    hear(&mut stp, 0, Bpdu::Rst(said(0)), now);
    wait(&mut stp, &mut now, 10);
    assert_eq!(stp.view().root_port, None);
    assert!(sent(&mut stp, 0).is_empty());
    assert!(stp.port(0).unwrap().counts.filtered > 1);
}

/// In a ring, one link fails in one direction. The port that no longer receives BPDUs would create
/// a loop. With loop guard it discards.
#[test]
fn loop_guard_prevents_a_loop_on_a_unidirectional_link() {
    let mut looped = Vec::new();
    for loop_guard in [false, true] {
        let mut world = World::new();
        for n in 0..3 {
            world.bridge(0x1000 * n, StpVersion::Stp, 0);
        }
        let requested = StpPort { loop_guard, ..StpPort::default() };
        world.connect_as(&[0, 1], Duplex::Full, Duration::from_millis(1), requested);
        world.connect_as(&[0, 2], Duplex::Full, Duration::from_millis(1), requested);
        let blocked = world.connect_as(&[1, 2], Duplex::Full, Duration::from_millis(1), requested);
        world.start();
        world.run(secs(100));
        assert_eq!((world.spans(), world.bridges[2].stp.state(1)), (Ok(()), PortState::Discarding));
        world.segments[blocked].deaf_to = Some(1);
        world.run(secs(100));
        looped.push(!world.loops.is_empty());
        if loop_guard {
            let port = world.bridges[2].stp.port(1).unwrap();
            assert_eq!((port.guarded, port.counts.loop_guarded), (Some(Guarded::Loop), 1));
            world.segments[blocked].deaf_to = None;
            world.run(secs(100));
            assert_eq!(world.bridges[2].stp.port(1).unwrap().guarded, None);
            assert_eq!(world.spans(), Ok(()));
        }
    }
    assert_eq!(looped, [true, false], "without and with loop guard");
}

/// The same failure without loop guard, between RSTP bridges: the dispute of 802.1D 17.21.10 stops
/// the loop within a hello time.
#[test]
fn rapid_bridges_dispute_a_unidirectional_link() {
    let mut world = World::new();
    for n in 0..3 {
        world.bridge(0x1000 * n, StpVersion::Rstp, 0);
    }
    for pair in [[0, 1], [0, 2], [1, 2]] {
        world.connect(&pair, Duplex::Full, Duration::from_millis(1));
    }
    world.start();
    world.run(secs(20));
    world.segments[2].deaf_to = Some(1);
    world.run(secs(60));
    assert_eq!(world.loops, []);
    assert!(world.bridges[1].stp.port(1).unwrap().counts.disputes > 0);
}

/// Connects a port to itself by a cable, or to a hub that returns its frames.
#[test]
fn looped_back_bpdus_keep_the_port_designated() {
    let mut stp = two_ports(StpPort::default(), HALF);
    let mut now = START;
    for _ in 0..100 {
        wait(&mut stp, &mut now, 1);
        for bpdu in sent(&mut stp, 0) {
            hear(&mut stp, 0, bpdu, now);
        }
        assert_ne!(stp.state(0), PortState::Forwarding);
    }
    let port = stp.port(0).unwrap();
    assert!(port.counts.own > 10);
    assert_eq!(port.role, PortRole::Designated);
}

/// Two ports of one bridge on one segment: the better one is designated, the other its backup.
#[test]
fn two_ports_on_one_segment() {
    let mut world = World::new();
    let bridge = world.bridge(0, StpVersion::Rstp, 0);
    world.connect(&[bridge, bridge], Duplex::Half, Duration::from_millis(1));
    world.start();
    world.run(secs(60));
    let roles: Vec<_> = world.bridges[0].stp.ports().map(|port| (port.role, port.state)).collect();
    assert_eq!(roles, [(PortRole::Designated, PortState::Forwarding), (PortRole::Backup, PortState::Discarding)]);
    assert_eq!(world.loops, []);
}

/// Checks that a flood of ever better roots costs no more than the limit, and that BPDUs that
/// repeat the known bridge still refresh its information.
#[test]
fn a_flood_is_limited() {
    let mut stp = Stp::new(StpConfig { rx_limit: 20, ..config() }, START).unwrap();
    for no in 0..2 {
        stp.add_port(no, StpPort::default(), START).unwrap();
        stp.set_link(no, UP, START);
    }
    let mut now = START;
    hear(&mut stp, 0, Bpdu::Rst(said(0x1000)), now);
    for _ in 0..20 {
        for n in 0..1000 {
            let flood = Config { bridge: BridgeId(u64::MAX - n), root: BridgeId(u64::MAX - n), ..said(0) };
            hear(&mut stp, 0, Bpdu::Rst(flood), now);
        }
        hear(&mut stp, 0, Bpdu::Rst(said(0x1000)), now);
        assert!(effects(&mut stp).len() < 40);
        wait(&mut stp, &mut now, 2);
        assert_eq!(stp.view().root_port, Some(0));
    }
    assert!(stp.port(0).unwrap().counts.limited >= 20 * 980);
}

/// Checks that effects that are not fetched are bounded.
#[test]
fn pending_effects_are_bounded() {
    let mut stp = two_ports(StpPort::default(), HALF);
    let mut now = START;
    wait(&mut stp, &mut now, 10_000);
    let effects = effects(&mut stp);
    assert!(effects.len() <= MAX_UNSENT + 6, "{}", effects.len());
    assert!(stp.port(0).unwrap().counts.unsent > 0);
}

#[test]
fn junk_is_counted() {
    let mut stp = two_ports(StpPort::default(), UP);
    let frame = Bpdu::Rst(said(0)).emit_frame(Mac::ZERO);
    for len in 0..14 + 3 + 36 {
        stp.on_bpdu(0, &frame[..len], START);
    }
    stp.on_bpdu(7, &frame, START);
    assert_eq!(stp.port(0).unwrap().counts.bad, 14 + 3 + 36);
    assert_eq!((stp.view().root_port, stp.view().unsettled), (None, 0));
    stp.on_bpdu(0, &frame[14..], START);
    assert_eq!(stp.view().root_port, Some(0), "BPDU without its Ethernet header");
}

/// Checks that a forged root whose information never ages is accepted while its BPDUs arrive, and
/// then expires.
#[test]
fn a_forged_root_is_forgotten() {
    let mut stp = two_ports(StpPort::default(), UP);
    let mut now = START;
    let forged = Config { flags: Flags(0xff).with_role(wire::bpdu::SenderRole::Designated), ..said(0) };
    for _ in 0..10 {
        hear(&mut stp, 0, Bpdu::Rst(forged), now);
        wait(&mut stp, &mut now, 2);
    }
    assert_eq!(stp.view().root, forged.root);
    wait(&mut stp, &mut now, 6);
    assert_eq!(stp.view().root, stp.view().bridge);
}

/// Checks that a process that was stopped for an hour catches up in one call.
#[test]
fn time_may_jump() {
    let mut stp = two_ports(StpPort::default(), UP);
    hear(&mut stp, 0, Bpdu::Rst(said(0)), START);
    effects(&mut stp);
    let later = START.after(secs(3600));
    let next = stp.poll(later).unwrap();
    assert!(next > later && next <= later.after(secs(1)));
    assert_eq!(stp.view().root_port, None);
    assert!(effects(&mut stp).len() < 20);
    stp.set_link(0, Link::Down, later);
    stp.set_link(1, Link::Down, later);
    assert_eq!(stp.poll(later), None, "no timer runs");
}

#[test]
fn a_port_may_leave() {
    let mut stp = two_ports(StpPort::default(), UP);
    hear(&mut stp, 0, Bpdu::Rst(said(0)), START);
    stp.remove_port(0, START);
    assert_eq!((stp.view().root_port, stp.ports().count()), (None, 1));
    assert!(effects(&mut stp).iter().all(|effect| !matches!(effect, Effect::State(0, _) | Effect::Transmit(0, _))));
    stp.add_port(0, StpPort::default(), START).unwrap();
    assert_eq!(effects(&mut stp)[0], Effect::State(0, PortState::Discarding));
}
