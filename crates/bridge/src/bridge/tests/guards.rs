//! Port states, the bridge's own addresses, muting, storm control, limits and rules.

use super::*;

const BPDU: [u8; 6] = [1, 0x80, 0xc2, 0, 0, 0];

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn group(n: u8) -> [u8; 6] {
    [1, 0, 0x5e, 1, 1, n]
}

#[test]
fn ports_follow_their_stp_state() {
    let mut lan = Lan::new(&[Member::default(); 3], 16);
    lan.bridge.set_state(1, PortState::Discarding);
    assert_eq!(lan.one(1, ALL, station(1)), [0; 3]);
    assert_eq!(lan.one(0, station(1), station(9)), [0, 0, 1], "nothing is learned at or sent to a discarding port");
    lan.bridge.set_state(1, PortState::Learning);
    assert_eq!(lan.one(1, ALL, station(1)), [0; 3]);
    assert_eq!(lan.one(0, station(1), station(9)), [0; 3], "the address is known, but its port does not forward");
    lan.bridge.set_state(1, PortState::Forwarding);
    assert_eq!(lan.one(0, station(1), station(9)), [0, 1, 0]);
    lan.bridge.set_state(1, PortState::Disabled);
    assert_eq!(lan.one(1, ALL, station(1)), [0; 3]);
    let why = [DropReason::BridgeDiscarding, DropReason::BridgeLearning, DropReason::BridgeNotForwarding];
    assert_eq!(why.map(|why| lan.dropped(why)), [2, 1, 1]);
    assert_eq!((lan.bridge.state(1), lan.bridge.state(3)), (Some(PortState::Disabled), None));
}

#[test]
fn reserved_groups_are_delivered_locally_if_configured() {
    let mut lan = Lan::new(&[Member::default(); 2], 512);
    assert_eq!(lan.one(0, BPDU, station(1)), [0, 0]);
    assert!(lan.bridge.take_local().is_none());
    lan.bridge.set_reserved(Reserved::Local);
    for (state, reads) in [
        (PortState::Forwarding, true),
        (PortState::Discarding, true),
        (PortState::Learning, true),
        (PortState::Disabled, false),
    ] {
        lan.bridge.set_state(0, state);
        for last in [0, 0xe] {
            assert_eq!(lan.one(0, [1, 0x80, 0xc2, 0, 0, last], station(1)), [0, 0]);
            let local = lan.bridge.take_local();
            assert_eq!(
                local.map(|local| (local.from, local.frame.bytes()[5])),
                reads.then_some((0, last)),
                "{state:?}"
            );
        }
    }
    assert!(lan.bridge.fdb().is_empty(), "nothing is learned from reserved frames");
    lan.bridge.set_state(0, PortState::Forwarding);
    for _ in 0..2 {
        lan.send(0, &vec![bytes(BPDU, station(1)); 200], Instant::ZERO);
    }
    assert_eq!((lan.dropped(DropReason::BridgeLocalFull), lan.left()), (144, vec![0, 0]));
    assert_eq!(std::iter::from_fn(|| lan.bridge.take_local()).count(), 256);
    // A BPDU with a group address as source is dropped before delivery.
    assert_eq!(lan.one(0, BPDU, BPDU), [0, 0]);
    assert_eq!((lan.dropped(DropReason::BridgeBadSource), lan.bridge.take_local().is_none()), (1, true));
    assert_eq!(lan.pool.stats().live(), 0);
}

#[test]
fn the_bridges_address_is_local_and_rejected_as_a_source() {
    for state in [PortState::Forwarding, PortState::Learning] {
        let mut lan = Lan::new(&[Member::default(); 3], 16);
        lan.bridge.set_state(2, state);
        assert!(lan.bridge.fdb_mut().insert_local(Key::new(0, Mac(station(7))), Instant::ZERO));
        assert_eq!(lan.one(0, station(7), station(1)), [0; 3]);
        let local = lan.bridge.take_local().unwrap();
        assert_eq!((local.from, local.vid, local.frame.len()), (0, 0, 60));
        assert_eq!(lan.one(1, station(1), station(7)), [0; 3]);
        assert_eq!((lan.dropped(DropReason::BridgeOwnSource), lan.bridge.counts().next().unwrap().local), (1, 1));
        let entry = lan.bridge.fdb().entries(Instant::ZERO).find(|entry| entry.kind == Kind::Local).unwrap();
        assert_eq!((entry.port, entry.key.mac()), (LOCAL, Mac(station(7))));
    }
}

#[test]
fn frames_sent_by_the_bridge_are_counted() {
    let mut lan = Lan::new(&[Member::default(), Member::default(), Member { span: true, ..Member::default() }], 16);
    lan.bridge.set_state(1, PortState::Discarding);
    let frame = |lan: &Lan| {
        let mut frame = lan.pool.get().unwrap();
        frame.extend(&bytes(ALL, station(9))).unwrap();
        frame
    };
    let (bpdu, query) = (frame(&lan), frame(&lan));
    assert!(lan.bridge.send(bpdu, 1, &mut lan.out));
    lan.bridge.send_all(query, 0, &mut lan.out);
    assert_eq!((lan.bridge.audit().made, lan.left()), (2, vec![1, 1, 0]));
    lan.bridge.set_state(0, PortState::Discarding);
    let query = frame(&lan);
    lan.bridge.send_all(query, 0, &mut lan.out);
    assert_eq!((lan.dropped(DropReason::BridgeNowhere), lan.left()), (1, vec![0; 3]));
}

#[test]
fn a_loop_mutes_the_port_behind_it_for_a_time() {
    let mut lan = Lan::new(&[Member::default(); 3], 64);
    assert_eq!(lan.bridge.mute(), Some(Mute::default()));
    // The address is learned from the first frame; ten moves are tolerated.
    for n in 0..11 {
        lan.send(n % 2, &[bytes(ALL, station(1))], at(1000));
        assert_eq!(lan.left()[2], 1);
    }
    assert_eq!((lan.bridge.muted(0), lan.bridge.muted(1)), (None, None));
    lan.send(1, &[bytes(ALL, station(1))], at(1000));
    assert_eq!(lan.bridge.muted(0), Some(at(11_000)), "the port before the eleventh move");
    assert_eq!(lan.left(), [1, 0, 1], "frames already in the bursts are sent");
    lan.send(0, &[bytes(ALL, station(1))], at(1001));
    lan.send(2, &[bytes(ALL, station(3))], at(1001));
    assert_eq!((lan.dropped(DropReason::BridgeMuted), lan.left()), (1, vec![0, 1, 0]));
    lan.bridge.poll(at(10_999));
    assert!(lan.bridge.muted(0).is_some());
    lan.bridge.poll(at(11_000));
    lan.send(0, &[bytes(ALL, station(4))], at(11_000));
    assert_eq!((lan.bridge.muted(0), lan.left(), lan.bridge.mutings()), (None, vec![0, 1, 1], 1));
    let moves: Vec<Move> = std::iter::from_fn(|| lan.bridge.take_move()).collect();
    assert_eq!((moves.len(), moves[0].times, moves[10].times, moves[10].muted), (11, 1, 11, true));
    assert_eq!((moves[10].from, moves[10].to, moves[10].key.mac()), (0, 1, Mac(station(1))));
}

#[test]
fn rare_moves_or_disabled_muting_do_not_mute() {
    let mut lan = Lan::new(&[Member::default(); 3], 512);
    for n in 0..100_u16 {
        lan.send(n % 2, &[bytes(ALL, station(1))], at(2000 * u64::from(n)));
    }
    lan.bridge.set_mute(None);
    for n in 0..100 {
        lan.send(n % 2, &[bytes(ALL, station(2))], at(200_000));
        lan.left();
    }
    assert_eq!((lan.bridge.mutings(), lan.bridge.moves_lost()), (0, 2 * 99 - 64));
    assert_eq!(lan.bridge.fdb().moves(Key::new(0, Mac(station(2))), 0, at(200_000)), 99);
    assert_eq!(lan.bridge.fdb().moves(Key::new(0, Mac(station(2))), 0, at(210_000)), 0);
}

#[test]
fn a_storm_is_cut_to_its_rate() {
    let rate = |per_second, burst| Some(Rate { per_second, burst });
    let mut lan = Lan::new(&[Member::default(); 2], 512);
    let storm = Storm { broadcast: rate(100, 3), multicast: rate(0, 9), unknown: rate(10, 1) };
    lan.bridge.set_storm(0, storm);
    assert_eq!(lan.bridge.storm_control(0), Some(storm));
    lan.send(0, &vec![bytes(ALL, station(1)); 5], at(1000));
    assert_eq!(lan.left(), [0, 3]);
    for ms in 1001..2001 {
        lan.send(0, &[bytes(ALL, station(1))], at(ms));
    }
    assert_eq!(lan.left(), [0, 100]);
    lan.send(0, &vec![bytes(group(1), station(1)); 5], at(2001));
    lan.send(0, &vec![bytes(station(9), station(1)); 5], at(2001));
    assert_eq!(lan.left(), [0, 1]);
    lan.send(1, &vec![bytes(group(1), station(2)); 5], at(2001));
    lan.send(0, &vec![bytes(station(2), station(1)); 5], at(2001));
    assert_eq!(lan.left(), [5, 5], "another port, and a known station");
    let why = [DropReason::BridgeBroadcastStorm, DropReason::BridgeMulticastStorm, DropReason::BridgeUnknownStorm];
    assert_eq!(why.map(|why| lan.dropped(why)), [902, 5, 4]);
}

#[test]
fn flood_flags_control_flooding_per_port() {
    let plain = Member::default();
    let members = [
        plain,
        Member { discover: false, ..plain },
        Member { multicast: false, ..plain },
        Member { broadcast: false, ..plain },
    ];
    let mut lan = Lan::new(&members, 16);
    assert_eq!(lan.one(0, station(9), station(1)), [0, 0, 1, 1]);
    assert_eq!(lan.one(0, group(1), station(1)), [0, 1, 0, 1]);
    assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1, 0]);
}

#[test]
fn a_port_learns_as_many_addresses_as_it_may() {
    let mut lan = Lan::new(&[Member::default(); 3], 16);
    lan.bridge.fdb_mut().set_limit(0, Some(2));
    assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1]);
    assert_eq!(lan.one(0, ALL, station(2)), [0, 1, 1]);
    assert_eq!(lan.one(0, ALL, station(3)), [0; 3]);
    assert_eq!(lan.one(1, ALL, station(4)), [1, 0, 1]);
    assert_eq!(lan.one(0, ALL, station(4)), [0; 3], "a known address cannot move to a full port");
    assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1], "known addresses are kept");
    assert_eq!((lan.dropped(DropReason::BridgePortFull), lan.bridge.fdb().counts().port_full), (2, 2));
    assert_eq!(lan.one(1, ALL, station(1)), [1, 0, 1], "an address moves away");
    assert_eq!(
        (lan.bridge.fdb().addresses(0), lan.bridge.fdb().addresses(1), lan.bridge.fdb().limit(0)),
        (1, 2, Some(2))
    );
    assert_eq!(lan.one(0, ALL, station(3)), [0, 1, 1]);
    let fdb = lan.bridge.fdb_mut();
    assert!(fdb.insert_static(Key::new(0, Mac(station(8))), 0, Instant::ZERO), "static entries are not counted");
    assert_eq!(
        (fdb.addresses(0), fdb.flush(|entry| entry.port == 0 && entry.kind == Kind::Learned, Instant::ZERO)),
        (2, 2)
    );
    assert_eq!((fdb.addresses(0), fdb.len()), (0, 3));
}

fn rule(text: &str, action: Action) -> Rule {
    Rule::new(text, action).unwrap()
}

#[test]
fn rules_are_evaluated_in_order() {
    let mut lan = Lan::new(&[Member::default(); 3], 16);
    let within = Rules::new(
        vec![rule("ether src 02:00:00:00:00:01", Action::Pass), rule("broadcast", Action::Drop)],
        Action::Pass,
    );
    lan.bridge.set_rules(0, Direction::In, within);
    lan.bridge.set_rules(2, Direction::Out, Rules::new(vec![rule("broadcast", Action::Pass)], Action::Drop));
    assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1]);
    assert_eq!(lan.one(0, ALL, station(2)), [0; 3]);
    assert_eq!(lan.one(0, station(9), station(3)), [0, 1, 0]);
    assert_eq!(lan.one(1, station(2), station(4)), [1, 0, 0], "address 2 was not learned");
    assert_eq!(lan.one(2, ALL, station(5)), [1, 1, 0]);
    assert_eq!(lan.one(0, station(5), station(1)), [0; 3]);
    assert_eq!((lan.dropped(DropReason::BridgeRuleIn), lan.dropped(DropReason::BridgeRuleOut)), (1, 3));
    let rules = lan.bridge.rules(0, Direction::In).unwrap();
    assert_eq!(rules.rules().map(|(_, matched)| matched).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((rules.counts(), rules.otherwise()), (RuleCounts { passed: 3, dropped: 1 }, Action::Pass));
    lan.bridge.set_rules(2, Direction::Out, None);
    assert_eq!(lan.one(0, station(5), station(1)), [0, 0, 1]);
    assert!(Rules::new(vec![rule("ip", Action::Drop); MAX_RULES + 1], Action::Pass).is_none());
}

/// Checks that a port without carrier gets neither floods nor copies nor unicasts, with VLANs and
/// without (br_port_carrier_check in Linux's bridge).
#[test]
fn nothing_is_sent_to_a_port_without_carrier() {
    for checked in [false, true] {
        let mut lan = Lan::new(&[Member::default(); 4], 64);
        if checked {
            lan.bridge.set_state(3, PortState::Discarding);
        }
        let others = usize::from(!checked);
        lan.one(1, ALL, station(2));
        for (carrier, why) in [
            (Carrier::None, DropReason::BridgeNoCarrier),
            (Carrier::Down, DropReason::BridgePortDown),
            (Carrier::Gone, DropReason::BridgePortGone),
        ] {
            lan.bridge.set_carrier(1, carrier);
            assert_eq!(lan.bridge.carrier(1), Some(carrier));
            assert_eq!(lan.one(0, station(2), station(1)), [0, 0, 0, 0]);
            assert_eq!(lan.bridge.drops().get(why), 1, "{why:?}");
            assert_eq!(lan.one(0, ALL, station(1)), [0, 0, 1, others]);
        }
        lan.bridge.set_carrier(1, Carrier::Up);
        assert_eq!(lan.one(0, station(2), station(1)), [0, 1, 0, 0]);
        assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1, others]);
        lan.bridge.set_carrier(1, Carrier::None);
        lan.bridge.remove(1, Instant::ZERO);
        lan.bridge.join(1, Member::default());
        assert_eq!(lan.one(0, ALL, station(1)), [0, 1, 1, others], "another port");
    }
}
