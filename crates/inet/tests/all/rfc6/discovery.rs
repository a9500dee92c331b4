//! Messages of neighbor discovery (RFC 4861): which are valid (7.1.1, 7.1.2), how they are answered
//! (7.2.3, 7.2.4), and their effect on an entry (7.2.5, appendix C).

use super::*;

conversations! {
    an_invalid_solicitation_is_dropped
    an_invalid_advertisement_is_dropped
    a_solicitation_is_answered
    a_solicitation_for_another_host_is_not_answered
    a_solicitation_from_the_unspecified_address_is_answered_by_multicast
    the_sender_of_a_solicitation_is_cached_as_stale
    an_off_link_sender_of_a_solicitation_is_not_cached
    an_advertisement_creates_no_entry
    an_incomplete_entry_and_an_advertisement
    a_known_entry_and_an_advertisement
    a_permanent_entry_is_not_overwritten
    invalid_mac_addresses_are_ignored
    our_own_address_advertised_by_another_host_is_a_conflict
    a_routers_advertisements_have_the_router_flag
}

const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x99]);
const NEW6: Ipv6Addr = on(0, 0x77);
const NEW_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x77]);

fn from_new(packet: &P6) -> Vec<u8> {
    packet.frame(NEW_MAC, if packet.dst.is_multicast() { group_mac(packet.dst) } else { ME.mac })
}

/// Creates an entry for NEW6 in this state, with NEW_MAC.
fn known<L: Locks>(h: &Host<L>, state: State) {
    h.stack.remove_neighbor6(h.cx(), EM0, NEW6);
    h.sent(EM0);
    h.inject(EM0, from_new(&ns(NEW6, ME6, ME6, &link_option(1, NEW_MAC))));
    let confirm = || h.inject(EM0, from_new(&na(NEW6, ME6, NEW6, "S", &link_option(2, NEW_MAC))));
    confirm();
    if state != State::Reachable {
        h.pass(clock::Duration::from_secs(31));
        assert_eq!(entry(h, NEW6), Some((State::Stale, NEW_MAC)));
    }
    if state == State::Probe {
        h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"used"))); // starts a probe: there is no state DELAY
    }
    assert_eq!(entry(h, NEW6), Some((state, NEW_MAC)));
    h.sent(EM0);
}

/// Checks that the entry is Stale, or in Probe because an answer was sent to the neighbor: the
/// state DELAY is not implemented.
#[track_caller]
fn assert_not_sure<L: Locks>(h: &Host<L>, mac: Mac) {
    let (state, known) = entry(h, NEW6).unwrap();
    assert!(known == mac && matches!(state, State::Stale | State::Probe), "{state:?} {known}");
}

/// RFC 4861 7.1.1, item by item: "MUST silently discard any received Neighbor Solicitation messages
/// that do not satisfy all".
fn an_invalid_solicitation_is_dropped<L: Locks>() {
    let h = stranger6::<L>();
    let mine = link_option(1, PEER.mac);
    let good = ns(PEER6, solicited(ME6), ME6, &mine);
    let probe = ns(NOWHERE, solicited(ME6), ME6, &[]);
    let code = icmp6(PEER6, solicited(ME6), 135, 1, &good.body[4..]).hop(255);
    let short = |len: usize| icmp6(PEER6, solicited(ME6), 135, 0, &good.body[4..len]).hop(255);
    let mut sum = good.clone();
    sum.body[2] ^= 1;
    let bad = [
        ("hop limit 254", good.clone().hop(254)),
        ("hop limit 0", good.clone().hop(0)),
        ("hop limit 64, of a probe", probe.clone().hop(64)),
        ("checksum", sum),
        ("code", code),
        ("8 bytes", short(8)),
        ("23 bytes", short(23)),
        ("target is a group", ns(PEER6, solicited(ME6), solicited(ME6), &mine)),
        ("option of length 0", ns(PEER6, solicited(ME6), ME6, &[1, 0, 2, 0, 0, 0, 0, 2])),
        (
            "second option of length 0",
            ns(PEER6, solicited(ME6), ME6, &[mine.clone(), vec![14, 0, 0, 0, 0, 0, 0, 0]].concat()),
        ),
        ("option past the end", ns(PEER6, solicited(ME6), ME6, &[1, 2, 2, 0, 0, 0, 0, 2])),
        ("half an option", ns(PEER6, solicited(ME6), ME6, &mine[..5])),
        ("from nowhere, not to the target's group", ns(NOWHERE, ALL_NODES, ME6, &[])),
        ("from nowhere, to the target", ns(NOWHERE, ME6, ME6, &[])),
        ("from nowhere, with an address", ns(NOWHERE, solicited(ME6), ME6, &mine)),
    ];
    for (why, message) in &bad {
        h.inject(EM0, message.by_peer());
        assert_eq!(sent6(&h, EM0), [], "{why}");
        assert!(h.stack.neighbors6(h.cx()).is_empty(), "{why}");
    }
    let drops = ["nd.in.malformed", "nd.in.hop_limit", "icmp6.in.bad_checksum", "ip6.in.martian_source"]
        .map(|name| h.counter(&format!("inet.{name}")));
    assert_eq!(drops.iter().sum::<u64>(), bad.len() as u64, "{drops:?}");
    // Reserved bits and unknown options are ignored.
    let mut odd = ns(PEER6, solicited(ME6), ME6, &[vec![14, 1, 1, 2, 3, 4, 5, 6], mine].concat());
    odd = icmp6(PEER6, solicited(ME6), 135, 0, &[&[0xff; 4], &odd.body[8..]].concat()).hop(255);
    h.inject(EM0, odd.by_peer());
    assert!(sent6_one(&h, EM0).is_icmp(136, 0));
}

/// RFC 4861 7.1.2, item by item.
fn an_invalid_advertisement_is_dropped<L: Locks>() {
    let h = stranger6::<L>();
    known(&h, State::Stale);
    let theirs = link_option(2, OTHER_MAC);
    let good = na(NEW6, ME6, NEW6, "SO", &theirs);
    let mut sum = good.clone();
    sum.body[3] ^= 1;
    let short = |len: usize| icmp6(NEW6, ME6, 136, 0, &good.body[4..len]).hop(255);
    let bad = [
        ("hop limit", good.clone().hop(254)),
        ("hop limit", good.clone().hop(1)),
        ("checksum", sum),
        ("code", icmp6(NEW6, ME6, 136, 1, &good.body[4..]).hop(255)),
        ("length", short(23)),
        ("length", short(8)),
        ("target is a group", na(NEW6, ME6, ALL_NODES, "SO", &theirs)),
        ("to a group, and solicited", na(NEW6, ALL_NODES, NEW6, "SO", &theirs)),
        ("option of length 0", na(NEW6, ME6, NEW6, "SO", &[theirs.clone(), vec![9, 0, 0, 0, 0, 0, 0, 0]].concat())),
        ("option past the end", na(NEW6, ME6, NEW6, "SO", &[2, 2, 2, 0, 0, 0, 0, 0x99])),
    ];
    h.forget_counters();
    for (why, message) in &bad {
        h.inject(EM0, from_new(message));
        assert_eq!(sent6(&h, EM0), [], "{why}");
        assert_eq!(entry(&h, NEW6), Some((State::Stale, NEW_MAC)), "{why}");
    }
    h.assert_counters(
        "in 10, ip6.received 10, ip6.delivered 10, icmp6.received 10, nd.adverts_received 1, nd.in.hop_limit 2, \
         icmp6.in.bad_checksum 1, nd.in.malformed 7",
    );
    h.inject(EM0, from_new(&good));
    assert_eq!(entry(&h, NEW6), Some((State::Reachable, OTHER_MAC)));
}

/// RFC 4861 7.2.4: the advertisement is sent to the sender of the solicitation, has the solicited
/// flag, and comes from the target. If the solicitation was sent to a group, it contains the
/// target's link-layer address and the override flag.
fn a_solicitation_is_answered<L: Locks>() {
    let h = host6::<L>();
    for (dst, target) in
        [(solicited(ME6), ME6), (ME6, ME6), (solicited(link_local(ME)), link_local(ME)), (ALL_NODES, ME6)]
    {
        h.inject(EM0, ns(PEER6, dst, target, &link_option(1, PEER.mac)).by_peer());
        let got = sent6_one(&h, EM0);
        assert!(got.is_icmp(136, 0), "{got:?}");
        assert_eq!((got.src, got.dst, got.to, got.hop, got.target()), (target, PEER6, PEER.mac, 255, target));
        assert_eq!(got.word() & 0xe000_0000, 0x6000_0000, "solicited, override, no router");
        assert_eq!(got.body[24..], link_option(2, ME.mac));
    }
    h.assert_counters(
        "in 4, ip6.received 4, ip6.delivered 4, icmp6.received 4, nd.solicits_received 4, nd.in.consumed 4, nd.adverts_sent 4, \
         audit.made 4, ip6.sent 4, out 4",
    );
}

/// RFC 4861 7.2.3: "if the Target Address is not [one of ours], the solicitation is silently
/// discarded".
fn a_solicitation_for_another_host_is_not_answered<L: Locks>() {
    let h = router6::<L>();
    for target in [OTHER6, ME26, FAR6, link_local(ME2), on(0, 0x55), Ipv6Addr::LOCALHOST, NOWHERE] {
        h.inject(EM0, ns(PEER6, ME6, target, &link_option(1, PEER.mac)).by_peer());
        h.inject(EM0, ns(PEER6, ALL_NODES, target, &link_option(1, PEER.mac)).by_peer());
        sent6_nothing(&h, EM0);
        sent6_nothing(&h, EM1);
    }
    // A solicitation of another address creates no entry either.
    h.inject(EM0, ns(NEW6, ALL_NODES, OTHER6, &link_option(1, NEW_MAC)).by_peer());
    assert_eq!(entry(&h, NEW6), None);
}

/// RFC 4861 7.2.4: the advertisement is sent to all nodes, without the solicited flag.
fn a_solicitation_from_the_unspecified_address_is_answered_by_multicast<L: Locks>() {
    let h = stranger6::<L>();
    h.inject(EM0, ns(NOWHERE, solicited(ME6), ME6, &[]).by_peer());
    let got = sent6_one(&h, EM0);
    assert_eq!((got.src, got.dst, got.hop, got.target()), (ME6, ALL_NODES, 255, ME6));
    assert_eq!((got.word() & 0xe000_0000, &got.body[24..]), (0x2000_0000, &link_option(2, ME.mac)[..]));
    assert!(h.stack.neighbors6(h.cx()).is_empty());
    assert_eq!(
        h.stack.iface(EM0).unwrap().addrs6(h.cx()).iter().filter(|own| own.state.is_valid()).count(),
        2,
        "ours still"
    );
}

/// RFC 4861 7.2.3, appendix C: a solicitation with a different or new address makes the entry
/// STALE. One with the same address changes nothing.
fn the_sender_of_a_solicitation_is_cached_as_stale<L: Locks>() {
    let h = stranger6::<L>();
    let ask = |h: &Host<L>, mac| {
        h.inject(EM0, ns(NEW6, solicited(ME6), ME6, &link_option(1, mac)).frame(mac, group_mac(solicited(ME6))));
        let got = sent6(h, EM0);
        assert!(
            got.iter().any(|got| got.is_icmp(136, 0)) && got.iter().all(|got| got.to == mac),
            "the answer goes there"
        );
    };
    ask(&h, NEW_MAC);
    assert_not_sure(&h, NEW_MAC);
    ask(&h, OTHER_MAC);
    assert_not_sure(&h, OTHER_MAC);
    for state in [State::Reachable, State::Probe] {
        known(&h, state);
        ask(&h, NEW_MAC);
        assert_eq!(entry(&h, NEW6), Some((state, NEW_MAC)), "the same: unchanged");
        ask(&h, OTHER_MAC);
        assert_not_sure(&h, OTHER_MAC);
    }
    // While this host solicits the neighbor, a solicitation from the neighbor resolves the entry,
    // and the waiting packet is sent.
    h.stack.remove_neighbor6(h.cx(), EM0, NEW6);
    h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"waits")));
    assert!(sent6_one(&h, EM0).is_icmp(135, 0));
    h.inject(EM0, from_new(&ns(NEW6, solicited(ME6), ME6, &link_option(1, NEW_MAC))));
    let got = sent6(&h, EM0);
    assert!(got.len() == 2 && got.iter().any(|got| got.is_icmp(129, 0)) && got.iter().any(|got| got.is_icmp(136, 0)));
    assert!(got.iter().all(|got| got.to == NEW_MAC));
    assert_eq!(entry(&h, NEW6).unwrap().1, NEW_MAC);
    // Without the option, the solicitation is answered but creates no entry.
    h.stack.remove_neighbor6(h.cx(), EM0, NEW6);
    h.inject(EM0, from_new(&ns(NEW6, ME6, ME6, &[])));
    assert!(h.stack.neighbors6(h.cx()).iter().all(|n| n.addr != NEW6 || n.state == State::Incomplete));
    h.sent(EM0);
}

/// CVE-2008-2476, RFC 5942 4: no entry is created for a sender that is not on the link.
fn an_off_link_sender_of_a_solicitation_is_not_cached<L: Locks>() {
    let h = router6::<L>();
    for src in [FAR6, BEYOND6, on(0x55, 1), "2620::1".parse().unwrap()] {
        h.inject(EM0, ns(src, solicited(ME6), ME6, &link_option(1, NEW_MAC)).by_peer());
        let known = h.stack.neighbors6(h.cx()).into_iter().any(|n| n.addr == src && n.iface == EM0);
        assert!(!known, "{src}");
        sent6_nothing(&h, EM0);
        sent6_nothing(&h, EM1);
    }
    // A route can extend the addresses on the link.
    route6(&h, "2001:db8:0:55::/64", linerate_inet::route::Via6::Link(EM0));
    h.inject(EM0, ns(on(0x55, 1), solicited(ME6), ME6, &link_option(1, NEW_MAC)).by_peer());
    assert!(sent6(&h, EM0).iter().any(|got| got.is_icmp(136, 0) && got.to == NEW_MAC));
    // A packet for FAR is still sent to FAR.
    h.inject(EM0, echo_from(PEER6, FAR6, b"to far").by_peer());
    assert_eq!(sent6_one(&h, EM1).to, FAR.mac);
}

/// RFC 4861 7.2.5: "If no entry exists, the advertisement SHOULD be silently discarded. There is no
/// need to create an entry".
fn an_advertisement_creates_no_entry<L: Locks>() {
    let h = stranger6::<L>();
    for flags in ["", "S", "O", "SO", "R", "RSO"] {
        h.inject(EM0, from_new(&na(NEW6, ME6, NEW6, flags, &link_option(2, NEW_MAC))));
    }
    for flags in ["", "O", "RO"] {
        h.inject(EM0, from_new(&na(NEW6, ALL_NODES, NEW6, flags, &link_option(2, NEW_MAC))));
    }
    sent6_nothing(&h, EM0);
    assert!(h.stack.neighbors6(h.cx()).is_empty());
    h.assert_counters(
        "in 9, ip6.received 9, ip6.delivered 9, icmp6.received 9, nd.adverts_received 9, nd.in.ignored 9",
    );
}

/// RFC 4861 7.2.5: an Incomplete entry ignores an advertisement without a link-layer address. A
/// solicited advertisement makes the entry Reachable, any other makes it Stale. The waiting packets
/// are then sent.
fn an_incomplete_entry_and_an_advertisement<L: Locks>() {
    let h = stranger6::<L>();
    let cases = [
        ("", State::Stale),
        ("O", State::Stale),
        ("S", State::Reachable),
        ("SO", State::Reachable),
        ("RSO", State::Reachable),
    ];
    for (flags, state) in cases {
        h.stack.remove_neighbor6(h.cx(), EM0, NEW6);
        h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"waits")));
        h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"waits too")));
        assert!(sent6_one(&h, EM0).is_icmp(135, 0));
        h.inject(EM0, from_new(&na(NEW6, ME6, NEW6, flags, &[])));
        sent6_nothing(&h, EM0);
        assert_eq!(
            neighbor6(&h, NEW6).map(|n| (n.state, n.pending)),
            Some((State::Incomplete, 2)),
            "{flags}: no address"
        );
        h.inject(EM0, from_new(&na(NEW6, ME6, NEW6, flags, &link_option(2, NEW_MAC))));
        let got = sent6(&h, EM0);
        let echoes: Vec<_> =
            got.iter().filter(|got| got.is_icmp(129, 0)).map(|got| (got.to, got.body[8..].to_vec())).collect();
        assert_eq!(echoes, [(NEW_MAC, b"waits".to_vec()), (NEW_MAC, b"waits too".to_vec())], "{flags}");
        let now = entry(&h, NEW6).unwrap();
        // Packets sent to a Stale neighbor start a probe, so the entry may be in Probe (RFC 4861
        // 7.3.3), but it is not Reachable.
        assert!(
            now.1 == NEW_MAC && (now.0 == state || state == State::Stale && now.0 == State::Probe),
            "{flags}: {now:?}"
        );
    }
}

/// RFC 4861 7.2.5 and appendix C, all combinations of the state, the solicited and override flags,
/// and the same, another, or no link-layer address.
fn a_known_entry_and_an_advertisement<L: Locks>() {
    let h = stranger6::<L>();
    for state in [State::Reachable, State::Stale, State::Probe] {
        for flags in ["", "S", "O", "SO"] {
            for mac in [None, Some(NEW_MAC), Some(OTHER_MAC)] {
                known(&h, state);
                let option = mac.map_or(vec![], |mac| link_option(2, mac));
                h.inject(EM0, from_new(&na(NEW6, ME6, NEW6, flags, &option)));
                let (solicited, replaces) = (flags.contains('S'), flags.contains('O'));
                let other = mac == Some(OTHER_MAC);
                let expected = match (other, replaces) {
                    (true, false) if state == State::Reachable => (State::Stale, NEW_MAC), // RFC 4861 7.2.5 I
                    (true, false) => (state, NEW_MAC),                                     // I.b: ignored
                    _ if solicited => (State::Reachable, mac.unwrap_or(NEW_MAC)),          // II
                    (true, true) => (State::Stale, OTHER_MAC),
                    (false, _) => (state, NEW_MAC),
                };
                assert_eq!(entry(&h, NEW6), Some(expected), "{state:?} {flags} {mac:?}");
                h.sent(EM0);
            }
        }
    }
    h.audit();
}

fn a_permanent_entry_is_not_overwritten<L: Locks>() {
    let h = host6::<L>();
    for flags in ["", "S", "O", "SO", "RSO"] {
        h.inject(EM0, na(PEER6, ME6, PEER6, flags, &link_option(2, OTHER_MAC)).by_peer());
    }
    h.inject(EM0, ns(PEER6, solicited(ME6), ME6, &link_option(1, OTHER_MAC)).by_peer());
    assert_eq!(entry(&h, PEER6), Some((State::Permanent, PEER.mac)));
    h.sent(EM0);
    assert_eq!(h.counter("inet.neigh.moved"), 0);
}

/// Group addresses, zero and our own address are not valid MAC addresses of a neighbor.
fn invalid_mac_addresses_are_ignored<L: Locks>() {
    let h = stranger6::<L>();
    for mac in [Mac::ZERO, Mac::BROADCAST, group_mac(ALL_NODES), Mac([1, 0, 0, 0, 0, 0]), ME.mac] {
        h.inject(EM0, from_new(&ns(NEW6, solicited(ME6), ME6, &link_option(1, mac))));
        assert!(sent6(&h, EM0).iter().all(|got| got.to != mac || got.dst.is_multicast()), "{mac}");
        assert!(entry(&h, NEW6).is_none_or(|(_, known)| known != mac), "{mac}");
        h.stack.remove_neighbor6(h.cx(), EM0, NEW6);
        known(&h, State::Reachable);
        h.inject(EM0, from_new(&na(NEW6, ME6, NEW6, "SO", &link_option(2, mac))));
        assert_eq!(entry(&h, NEW6).unwrap().1, NEW_MAC, "{mac}");
        h.stack.remove_neighbor6(h.cx(), EM0, NEW6);
        h.sent(EM0);
    }
}

/// RFC 4862 5.4.4: if another station advertises one of our valid addresses, the conflict is counted
/// and the address stays valid.
fn our_own_address_advertised_by_another_host_is_a_conflict<L: Locks>() {
    let h = host6::<L>();
    h.inject(EM0, na(PEER6, ALL_NODES, ME6, "O", &link_option(2, PEER.mac)).by_peer());
    assert_eq!(h.counter("inet.nd.conflicts"), 1);
    assert_eq!(entry(&h, ME6), None);
    assert_alive(&h);
}

/// RFC 4861 4.4: the R flag tells hosts when a station is no longer a router (7.2.5, 7.3.3).
fn a_routers_advertisements_have_the_router_flag<L: Locks>() {
    let h = router6::<L>();
    h.inject(EM0, ns(PEER6, solicited(ME6), ME6, &link_option(1, PEER.mac)).by_peer());
    assert_eq!(sent6_one(&h, EM0).word() >> 29, 0b111);
    h.stack.sysctls.forwarding6.set(0);
    h.inject(EM0, ns(PEER6, solicited(ME6), ME6, &link_option(1, PEER.mac)).by_peer());
    assert_eq!(sent6_one(&h, EM0).word() >> 29, 0b011);
}
