use super::*;

/// Returns a frame with tags in front of its EtherType.
fn tagged(dst: [u8; 6], src: [u8; 6], tags: &[(u16, u16)]) -> Vec<u8> {
    let mut frame = [dst, src].concat();
    for (kind, control) in tags {
        frame.extend(kind.to_be_bytes());
        frame.extend(control.to_be_bytes());
    }
    frame.extend([0x88, 0xb5]);
    frame.resize(frame.len() + 46, 7);
    frame
}

fn set(text: &str) -> VlanSet {
    text.parse().unwrap()
}

/// Returns a bridge with four ports: 0 access 10, 1 access 20, 2 trunk of 10 and 20, 3 trunk of 10
/// and 20 with 10 untagged.
fn lan() -> Lan {
    let mut lan = Lan::new(&[Member::default(); 4], 64);
    lan.bridge.set_vlan_filtering(Some(EtherType::VLAN));
    let hybrid = PortVlan { pvid: 10, untagged: set("10"), admit: Admit::All, ..PortVlan::trunk(set("10,20")) };
    let ports = [PortVlan::access(10), PortVlan::access(20), PortVlan::trunk(set("10,20")), hybrid];
    (0..).zip(ports).for_each(|(port, vlan)| lan.bridge.set_port_vlan(port, vlan));
    lan
}

fn sent(lan: &mut Lan, from: PortNo, frame: Vec<u8>) -> Vec<Vec<Vec<u8>>> {
    lan.send(from, &[frame], Instant::ZERO);
    let out =
        lan.out.iter().map(|burst| burst.as_slice().iter().map(|frame| frame.bytes().to_vec()).collect()).collect();
    lan.left();
    out
}

#[test]
fn tags_are_added_and_removed_per_port() {
    let mut lan = lan();
    let (bare, ten) = (tagged(ALL, station(1), &[]), tagged(ALL, station(1), &[(0x8100, 10)]));
    assert_eq!(sent(&mut lan, 0, bare.clone()), [vec![], vec![], vec![ten], vec![bare.clone()]]);
    // The priority is kept, also that of a priority tag.
    let urgent = tagged(ALL, station(2), &[(0x8100, 0xb000 | 20)]);
    let plain = tagged(ALL, station(2), &[]);
    assert_eq!(sent(&mut lan, 2, urgent.clone()), [vec![], vec![plain], vec![], vec![urgent]]);
    let (zero, ten) = (tagged(ALL, station(3), &[(0x8100, 0xf000)]), tagged(ALL, station(3), &[(0x8100, 0xf000 | 10)]));
    let bare = tagged(ALL, station(3), &[]);
    assert_eq!(sent(&mut lan, 0, zero.clone()), [vec![], vec![], vec![ten], vec![bare.clone()]]);
    // A learned address is known only in its VLAN.
    assert_eq!(
        sent(&mut lan, 3, tagged(station(3), station(4), &[])),
        [vec![tagged(station(3), station(4), &[])], vec![], vec![], vec![]]
    );
    let other = sent(&mut lan, 1, tagged(station(3), station(5), &[]));
    assert_eq!(other.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 1, 1], "the address is unknown in VLAN 20");
    let known = lan.bridge.fdb().page(Default::default(), 99, |entry| entry.key.vid() == 20, Instant::ZERO);
    assert_eq!((known.entries.len(), lan.bridge.fdb().len()), (2, 5));
}

#[test]
fn frames_that_are_not_admitted_are_dropped() {
    let mut lan = lan();
    let trunk = PortVlan { admit: Admit::Untagged, ..PortVlan::access(10) };
    lan.bridge.set_port_vlan(3, trunk);
    let s = station(1);
    let refused = [
        (0, tagged(ALL, s, &[(0x8100, 20)]), DropReason::BridgeVlanIn),
        (2, tagged(ALL, s, &[(0x8100, 30)]), DropReason::BridgeVlanIn),
        (2, tagged(ALL, s, &[]), DropReason::BridgeNotAdmitted),
        (2, tagged(ALL, s, &[(0x8100, 0)]), DropReason::BridgeNotAdmitted),
        (3, tagged(ALL, s, &[(0x8100, 10)]), DropReason::BridgeNotAdmitted),
        (2, tagged(ALL, s, &[(0x8100, 0xfff)]), DropReason::BridgeBadVid),
        (0, tagged(ALL, s, &[(0x8100, 10), (0x8100, 20)]), DropReason::BridgeDoubleTag),
        (0, tagged(ALL, s, &[(0x88a8, 10), (0x8100, 20)]), DropReason::BridgeDoubleTag),
        (2, [&ALL[..], &s, &[0x81, 0, 0, 10, 8]].concat(), DropReason::BridgeTagShort),
    ];
    for (port, frame, why) in refused {
        let before = lan.dropped(why);
        assert_eq!(sent(&mut lan, port, frame), vec![Vec::<Vec<u8>>::new(); 4]);
        assert_eq!(lan.dropped(why), before + 1, "{why:?}");
    }
    assert!(lan.bridge.fdb().is_empty(), "nothing is learned from dropped frames");
    // A known address at a port that has left the VLAN.
    sent(&mut lan, 2, tagged(ALL, station(5), &[(0x8100, 10)]));
    lan.bridge.set_port_vlan(2, PortVlan::trunk(set("20")));
    assert_eq!(sent(&mut lan, 0, tagged(station(5), s, &[])), vec![Vec::<Vec<u8>>::new(); 4]);
    assert_eq!(lan.dropped(DropReason::BridgeVlanOut), 1);
    let open = PortVlan { ingress_filter: false, ..PortVlan::access(10) };
    lan.bridge.set_port_vlan(0, open);
    assert_eq!(sent(&mut lan, 0, tagged(ALL, s, &[(0x8100, 20)])).iter().map(Vec::len).sum::<usize>(), 2);
}

#[test]
fn of_two_tags_the_outer_one_counts() {
    let mut lan = lan();
    lan.bridge.set_vlan_filtering(Some(EtherType::QINQ));
    for port in 0..4 {
        let vlan = PortVlan { stacked: Stacked::Pass, ..lan.bridge.port_vlan(port).unwrap().clone() };
        lan.bridge.set_port_vlan(port, vlan);
    }
    let (inner, both) =
        (tagged(ALL, station(1), &[(0x8100, 20)]), tagged(ALL, station(1), &[(0x88a8, 10), (0x8100, 20)]));
    // A customer's inner tag is not changed.
    assert_eq!(sent(&mut lan, 0, inner.clone()), [vec![], vec![], vec![both.clone()], vec![inner.clone()]]);
    assert_eq!(sent(&mut lan, 2, both), [vec![inner.clone()], vec![], vec![], vec![inner]]);
}

#[test]
fn without_headroom_a_tag_is_not_pushed() {
    let mut lan = lan();
    let mut frame = lan.pool.get().unwrap();
    let room = frame.headroom() - 2;
    frame.push_n(room).unwrap().fill(0);
    let len = frame.len();
    frame.bytes_mut()[..len.min(14)].copy_from_slice(&bytes(ALL, station(1))[..14]);
    lan.bridge.input(0, &mut Burst::of(frame), Instant::ZERO, &mut lan.out);
    assert_eq!((lan.dropped(DropReason::BridgeNoTagRoom), lan.left()), (1, vec![0, 0, 0, 1]));
}

#[test]
fn vlan_sets_round_trip() {
    for text in ["", "1", "1,3-4,4094", "10-20"] {
        assert_eq!(set(text).to_string(), text);
    }
    assert_eq!((set("all").to_string(), set("5,4,4-6").to_string()), ("1-4094".into(), "4-6".into()));
    for text in ["0", "4095", "3-1", ",", "1,", "x", "-3", "1-"] {
        assert_eq!(text.parse::<VlanSet>(), Err(BadVlans), "{text}");
    }
    let mut some = set("1-3");
    some.remove(2);
    assert_eq!((some.to_string(), some.contains(4096), some.is_empty()), ("1,3".into(), false, false));
}

#[test]
fn output_rules_see_the_tag() {
    let mut lan = lan();
    let rule = Rule::new("vlan 10", Action::Drop).unwrap();
    for port in [2, 3] {
        lan.bridge.set_rules(port, Direction::Out, Rules::new(vec![rule.clone()], Action::Pass));
    }
    let reached: Vec<usize> = sent(&mut lan, 0, tagged(ALL, station(1), &[])).iter().map(Vec::len).collect();
    assert_eq!((reached, lan.dropped(DropReason::BridgeRuleOut)), (vec![0, 0, 0, 1], 1));
}

/// Checks that shared data is not modified: the frame gets a buffer of its own.
#[test]
fn a_frame_on_loan_is_copied_before_its_tag_changes() {
    let mut lan = lan();
    lan.bridge.set_port_vlan(3, PortVlan::access(20));
    let mut frame = lan.pool.get().unwrap();
    let text = tagged(ALL, station(1), &[]);
    frame.extend(&text[14..]).unwrap();
    let mut held = buf::Held::new(frame).unwrap();
    let mut loan = held.lend().unwrap();
    loan.push_n(14).unwrap().copy_from_slice(&text[..14]);
    lan.bridge.input(0, &mut Burst::of(loan), Instant::ZERO, &mut lan.out);
    assert_eq!(lan.out[2].as_slice()[0].bytes(), tagged(ALL, station(1), &[(0x8100, 10)]));
    assert_eq!((lan.left(), held.is_lent(), held.bytes()), (vec![0, 0, 1, 0], false, &text[14..]));
}
