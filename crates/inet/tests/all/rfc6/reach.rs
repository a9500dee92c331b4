//! Address resolution and neighbor unreachability detection (RFC 4861 7.2.2, 7.3), duplicate
//! address detection (RFC 4862 5.4, RFC 7527), and the effect of a scan on them (RFC 6583).

use super::*;
use clock::Duration;
use linerate_inet::ip6::AddrState;

conversations! {
    a_neighbor_is_solicited_three_times
    each_packet_to_an_unresolved_neighbor_is_reported
    waiting_packets_are_bounded_and_the_oldest_is_dropped
    a_stale_neighbor_is_probed_again
    an_unreachable_neighbor_is_removed
    a_link_local_neighbor_is_solicited_from_a_link_local_address
    an_address_is_probed_before_use
    a_tentative_address_does_not_answer
    a_probe_by_another_host_makes_the_address_a_duplicate
    an_advertised_address_is_a_duplicate
    our_own_looped_back_probe_is_ignored
    a_scan_leaves_room_for_neighbors
    a_flood_of_solicitations_is_bounded
}

const NEW6: Ipv6Addr = on(0, 0x77);
const NEW_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x77]);

fn from_new(packet: &P6) -> Vec<u8> {
    packet.frame(NEW_MAC, if packet.dst.is_multicast() { group_mac(packet.dst) } else { ME.mac })
}

/// Creates a host that has resolved NEW6.
fn acquainted<L: Locks>() -> Host<L> {
    let h = stranger6::<L>();
    h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"?")));
    assert!(sent6_one(&h, EM0).is_icmp(135, 0));
    h.inject(EM0, from_new(&na(NEW6, ME6, NEW6, "SO", &link_option(2, NEW_MAC))));
    assert!(sent6_one(&h, EM0).is_icmp(129, 0));
    assert_eq!(entry(&h, NEW6), Some((State::Reachable, NEW_MAC)));
    h.forget_counters();
    h
}

/// RFC 4861 7.2.2, 10: solicitations go to the solicited-node group and contain our link-layer
/// address. RETRANS_TIMER is 1 s and MAX_MULTICAST_SOLICIT is 3. Then an error with code 3 is sent.
fn a_neighbor_is_solicited_three_times<L: Locks>() {
    let h = router6::<L>();
    let target = on(1, 0x1234);
    h.inject(EM0, echo_from(PEER6, target, b"anybody?").by_peer());
    for ask in 1..=3 {
        let got = sent6_one(&h, EM1);
        assert!(got.is_icmp(135, 0), "{got:?}");
        assert_eq!((got.dst, got.target(), got.hop), (solicited(target), target, 255), "ask {ask}");
        assert!(got.src == ME26 || got.src == link_local(ME2), "an address of the iface");
        assert_eq!(got.body[24..], link_option(1, ME2.mac), "7.2.2: must");
        h.pass(Duration::from_millis(997));
        sent6_nothing(&h, EM1);
        sent6_nothing(&h, EM0);
        h.pass(Duration::from_millis(3));
    }
    sent6_nothing(&h, EM1);
    let reported = sent6_one(&h, EM0);
    assert!(reported.is_icmp(1, 3) && reported.dst == PEER6, "{reported:?}");
    assert_eq!(entry(&h, target), None);
    h.assert_counters(
        "in 1, ip6.received 1, ip6.forwarded 1, neigh.created 1, neigh.failed 1, neigh.timeout 1, nd.solicits_sent 3, audit.made 4, \
         icmp6.errors_sent 1, ip6.sent 4, out 4",
    );
}

/// RFC 4861 7.2.2: "for each packet queued awaiting address resolution".
fn each_packet_to_an_unresolved_neighbor_is_reported<L: Locks>() {
    let h = router6::<L>();
    for n in 0..5 {
        h.inject(EM0, echo_from(PEER6, on(1, 0x99), &[n]).by_peer());
    }
    assert_eq!(sent6(&h, EM1).len(), 1);
    h.pass(Duration::from_secs(4));
    let reported = sent6(&h, EM0);
    assert_eq!(
        reported.iter().map(|got| (got.body[1], *got.body.last().unwrap())).collect::<Vec<_>>(),
        (0..5).map(|n| (3, n)).collect::<Vec<_>>()
    );
    assert!(reported.iter().all(|got| got.quoted()[7] == 63), "as the packet would have been forwarded");
    assert_eq!(h.stack.held(h.cx()), 0);
}

/// RFC 4861 7.2.2: "MUST retain a small queue … when a queue overflows, the new arrival SHOULD
/// replace the oldest entry".
fn waiting_packets_are_bounded_and_the_oldest_is_dropped<L: Locks>() {
    let h = router6::<L>();
    for n in 0..100 {
        h.inject(EM0, echo_from(PEER6, on(1, 0x99), &[n]).by_peer());
        assert!(h.stack.held(h.cx()) <= 16);
    }
    let mac = Mac([2, 0, 0, 0, 1, 0x99]);
    assert_eq!(sent6(&h, EM1).len(), 1);
    h.inject(EM1, na(on(1, 0x99), ME26, on(1, 0x99), "SO", &link_option(2, mac)).frame(mac, ME2.mac));
    let last: Vec<u8> = sent6(&h, EM1).iter().map(|got| *got.body.last().unwrap()).collect();
    assert_eq!(last, (84..100).collect::<Vec<u8>>());
    assert_eq!(h.counter("inet.neigh.queue_full"), 84);
}

/// RFC 4861 7.3.3, 10: after 30 s without confirmation, the next use starts a unicast probe. The
/// entry is used in the meantime, and an answer confirms it for another 30 s. The probe starts at
/// once, without the 5 seconds of the state DELAY.
fn a_stale_neighbor_is_probed_again<L: Locks>() {
    let h = acquainted::<L>();
    h.pass(Duration::from_secs(20));
    h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"still good")));
    assert!(sent6_one(&h, EM0).is_icmp(129, 0), "no solicitation is sent");
    h.pass(Duration::from_secs(30));
    h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"not so sure")));
    h.pass(Duration::from_secs(6));
    let got = sent6(&h, EM0);
    assert!(got[0].is_icmp(129, 0) && got[0].to == NEW_MAC, "sent at once");
    let asks: Vec<_> = got.iter().filter(|got| got.is_icmp(135, 0)).collect();
    assert!((1..=3).contains(&asks.len()));
    for ask in asks {
        assert_eq!((ask.to, ask.dst, ask.target()), (NEW_MAC, NEW6, NEW6), "to itself, and not to the group");
    }
}

/// RFC 4861 7.3.3: MAX_UNICAST_SOLICIT is 3, a second apart. Then the entry is deleted, and the
/// next packet causes a solicitation to the group.
fn an_unreachable_neighbor_is_removed<L: Locks>() {
    let h = acquainted::<L>();
    h.pass(Duration::from_secs(40));
    h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"gone?")));
    h.pass(Duration::from_secs(9));
    let got = sent6(&h, EM0);
    assert_eq!(got.iter().filter(|got| got.is_icmp(135, 0) && got.to == NEW_MAC).count(), 3, "{got:?}");
    assert_eq!(entry(&h, NEW6), None);
    h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"again")));
    assert_eq!(sent6_one(&h, EM0).dst, solicited(NEW6));
    h.pass(Duration::from_secs(4));
    h.sent(EM0);
    // If the neighbor answers while it is probed, the entry stays.
    let h = acquainted::<L>();
    h.pass(Duration::from_secs(40));
    h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"gone?")));
    h.pass(Duration::from_secs(7));
    h.inject(EM0, from_new(&na(NEW6, ME6, NEW6, "S", &[])));
    let answered_in_time = entry(&h, NEW6).is_some();
    if answered_in_time {
        assert_eq!(entry(&h, NEW6), Some((State::Reachable, NEW_MAC)));
    }
    h.sent(EM0);
}

fn a_link_local_neighbor_is_solicited_from_a_link_local_address<L: Locks>() {
    let h = stranger6::<L>();
    let new = "fe80::77".parse().unwrap();
    h.inject(EM0, from_new(&echo_from(new, link_local(ME), b"?")));
    let got = sent6_one(&h, EM0);
    assert_eq!((got.src, got.dst, got.target()), (link_local(ME), solicited(new), new));
    h.inject(EM0, from_new(&na(new, link_local(ME), new, "SO", &link_option(2, NEW_MAC))));
    assert_eq!((sent6_one(&h, EM0).to, entry(&h, new)), (NEW_MAC, Some((State::Reachable, NEW_MAC))));
}

/// Creates a host that performs duplicate address detection with `times` probes, and that has just
/// got an address.
fn asking<L: Locks>(times: i64) -> Host<L> {
    let h = Host::new();
    h.set_checked(EM0, Checked::Nothing);
    h.stack.sysctls.dad_count.set(times);
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(ME6, 64)).unwrap();
    h
}

fn state<L: Locks>(h: &Host<L>, addr: Ipv6Addr) -> AddrState {
    h.stack.iface(EM0).unwrap().addrs6(h.cx()).into_iter().find(|own| own.addr == addr).unwrap().state
}

/// RFC 4862 5.4.2: probes are sent from :: to the solicited-node group (joined before), without a
/// source link-layer address and with hop limit 255. There are DupAddrDetectTransmits of them,
/// RETRANS_TIMER apart, followed by one more such interval.
fn an_address_is_probed_before_use<L: Locks>() {
    let h = asking::<L>(3);
    let mut probes = Vec::new();
    // The group is reported before the first probe, so that snooping switches forward messages to
    // it (RFC 4862 5.4.2). The report is sent from ::, since there is no valid address yet (RFC
    // 3810 5.2.13).
    let mut early = h.sent(EM0);
    let first = Got::of(group_mac("ff02::16".parse().unwrap()), &early.remove(0)[14..]);
    assert_eq!((first.src, first.next, first.hop, first.body[8]), (NOWHERE, HBH, 1, 143));
    assert!(first.body.ends_with(&solicited(ME6).octets()), "{first:?}");
    for _ in 0..60 {
        let mut heard: Vec<Got> =
            early.drain(..).map(|frame| Got::of(Mac(frame[..6].try_into().unwrap()), &frame[14..])).collect();
        heard.extend(sent6(&h, EM0));
        for got in heard.into_iter().filter(|got| got.next == ICMP6 && got.target() == ME6) {
            assert!(got.is_icmp(135, 0), "{got:?}");
            assert_eq!((got.src, got.dst, got.hop), (NOWHERE, solicited(ME6), 255));
            // RFC 7527 permits a nonce (option 14); RFC 4862 permits no source link-layer address.
            assert!(got.body[24..].chunks(8).all(|option| option[0] == 14), "{got:?}");
            probes.push(h.now());
        }
        let done = state(&h, ME6).is_valid();
        assert!(!done || probes.len() == 3 && h.now().since(probes[2]) >= Duration::from_secs(1), "{probes:?}");
        h.pass(Duration::from_millis(100));
    }
    assert_eq!(probes.len(), 3);
    assert!(probes.windows(2).all(|two| two[1].since(two[0]) >= Duration::from_secs(1)), "{probes:?}");
    assert!(state(&h, ME6).is_valid() && state(&h, link_local(ME)).is_valid());
    assert_eq!(h.counter("inet.nd.probes_sent"), 6, "of the link-local address as well");
}

/// RFC 4862 5.4: a tentative address receives only neighbor discovery, which is not answered
/// (5.4.3: silently discarded).
fn a_tentative_address_does_not_answer<L: Locks>() {
    let h = asking::<L>(1);
    h.pass(Duration::from_millis(500));
    sent6(&h, EM0);
    h.inject(EM0, ns(PEER6, solicited(ME6), ME6, &link_option(1, PEER.mac)).by_peer());
    h.inject(EM0, ns(PEER6, ME6, ME6, &link_option(1, PEER.mac)).by_peer());
    h.inject(EM0, echo_from(PEER6, ME6, b"are you there?").by_peer());
    h.inject(EM0, P6::new(PEER6, ME6, 253, *b"????").by_peer());
    sent6_nothing(&h, EM0);
    assert_eq!(h.counter("inet.ip6.in.tentative"), 3);
    assert!(
        matches!(state(&h, ME6), AddrState::Tentative(..)),
        "who asks with an address of its own asks for ours and has not it"
    );
    // Nothing is sent from the address either.
    h.inject(EM0, echo_from(link_local(PEER), ALL_NODES, b"all").by_peer());
    assert!(sent6(&h, EM0).iter().all(|got| got.src != ME6 && got.src != link_local(ME)));
    h.pass(Duration::from_secs(3));
    assert!(state(&h, ME6).is_valid());
    h.sent(EM0);
    knows6(&h, EM0, PEER6, PEER.mac);
    assert_alive(&h);
}

/// RFC 4862 5.4.3: a solicitation from :: for a tentative address means that another host wants the
/// address too. Neither may use it.
fn a_probe_by_another_host_makes_the_address_a_duplicate<L: Locks>() {
    let h = asking::<L>(1);
    h.pass(Duration::from_millis(500));
    h.inject(EM0, ns(NOWHERE, solicited(ME6), ME6, &[]).by_peer());
    assert_eq!((state(&h, ME6), h.counter("inet.nd.duplicates")), (AddrState::Duplicated, 1));
    h.pass(Duration::from_secs(100));
    assert_eq!(state(&h, ME6), AddrState::Duplicated);
    h.sent(EM0);
    // The address is not used (RFC 4862 5.4.5): solicitations for it are not answered, and packets
    // are not sent from it.
    h.inject(EM0, ns(PEER6, solicited(ME6), ME6, &link_option(1, PEER.mac)).by_peer());
    h.inject(EM0, echo_from(PEER6, ME6, b"?").by_peer());
    h.inject(EM0, ns(NOWHERE, solicited(ME6), ME6, &[]).by_peer());
    sent6_nothing(&h, EM0);
    h.inject(EM0, echo_from(PEER6, link_local(ME), b"the other one is").by_peer());
    assert!(sent6(&h, EM0).iter().all(|got| got.src != ME6));
}

/// RFC 4862 5.4.4: any advertisement for a tentative address makes it a duplicate, solicited or
/// not.
fn an_advertised_address_is_a_duplicate<L: Locks>() {
    for (dst, flags) in [(ALL_NODES, "O"), (ALL_NODES, ""), (ALL_NODES, "R")] {
        let h = asking::<L>(1);
        h.pass(Duration::from_millis(500));
        h.inject(EM0, na(ME6, dst, ME6, flags, &link_option(2, PEER.mac)).by_peer());
        assert_eq!((state(&h, ME6), h.counter("inet.nd.duplicates")), (AddrState::Duplicated, 1), "{flags}");
        // A malformed advertisement, or one from outside the link, has no effect.
        let h = asking::<L>(1);
        h.pass(Duration::from_millis(500));
        h.inject(EM0, na(ME6, dst, ME6, flags, &[]).hop(64).by_peer());
        h.inject(EM0, na(ME6, dst, ME6, flags, &[2, 0]).by_peer());
        assert!(matches!(state(&h, ME6), AddrState::Tentative(..)));
        h.pass(Duration::from_secs(2));
        assert!(state(&h, ME6).is_valid());
    }
}

/// RFC 4862 appendix A, RFC 7527: a loop in the link returns our own probe.
fn our_own_looped_back_probe_is_ignored<L: Locks>() {
    let h = asking::<L>(2);
    let mut looped = 0;
    for _ in 0..30 {
        for frame in h.sent(EM0) {
            looped += usize::from(frame[12..14] == [0x86, 0xdd] && frame[20] == ICMP6);
            h.inject(EM0, frame);
        }
        h.pass(Duration::from_millis(100));
    }
    assert!(looped >= 4);
    assert!(state(&h, ME6).is_valid() && state(&h, link_local(ME)).is_valid());
}

/// RFC 6583 6.1, 7: the number of Incomplete entries is limited, and existing and new neighbors can
/// still be reached.
fn a_scan_leaves_room_for_neighbors<L: Locks>() {
    let h = router6_of::<L>(4096);
    h.stack.sysctls.neigh6_limit.set(256);
    let resolved = |h: &Host<L>, n: u16| {
        let (addr, mac) = (on(1, n), Mac([2, 0, 0, 0, 1, n as u8]));
        h.inject(EM0, echo_from(PEER6, addr, b"hello").by_peer());
        h.sent(EM1);
        h.inject(EM1, na(addr, ME26, addr, "SO", &link_option(2, mac)).frame(mac, ME2.mac));
        sent6(h, EM1).iter().any(|got| got.to == mac && got.body.ends_with(b"hello"))
    };
    assert!((0x20..0x30).all(|n| resolved(&h, n)));
    let mut requested = 0;
    for n in 0..20_000u32 {
        let dst = Ipv6Addr::from_bits(on(1, 0).to_bits() | 0x1_0000_0000 | u128::from(n));
        h.inject(EM0, echo_from(PEER6, dst, b"scan").by_peer());
        if n % 100 == 0 {
            requested += sent6(&h, EM1).len();
            let all = h.stack.neighbors6(h.cx());
            let incomplete = all.iter().filter(|n| n.state == State::Incomplete).count();
            assert!(all.len() <= 256 && incomplete <= 128, "{} and {incomplete}", all.len());
            // Known neighbors are reached at once, throughout the scan.
            for known in [0x20, 0x2f] {
                h.inject(EM0, echo_from(PEER6, on(1, known), b"known").by_peer());
                assert!(
                    sent6(&h, EM1).iter().any(|got| got.to.0[5] == known as u8 && got.body.ends_with(b"known")),
                    "{known} at {n}"
                );
            }
            h.advance(Duration::from_millis(20));
        }
    }
    assert!(requested <= 21_000, "one solicitation for an address, and few repeated: {requested}");
    assert!(h.counter("inet.neigh.displaced") + h.counter("inet.neigh.share_full") > 10_000);
    h.sent(EM0);
    // The errors about the scan are within their limit. After the scan, the state is as before.
    h.pass(Duration::from_secs(5));
    assert!(h.counter("inet.icmp6.errors_sent") <= 600, "{}", h.counter("inet.icmp6.errors_sent"));
    assert!(resolved(&h, 0x40));
    h.sent(EM0);
    assert_alive(&h);
}

/// A solicitation sent to us creates an entry. A flood of them cannot exceed the limit and does not
/// evict a neighbor in use.
fn a_flood_of_solicitations_is_bounded<L: Locks>() {
    let h = acquainted::<L>();
    h.stack.sysctls.neigh6_limit.set(64);
    for n in 0..10_000u32 {
        let src = Ipv6Addr::from_bits(on(0, 0).to_bits() | 0x1_0000_0000 | u128::from(n));
        let mac = Mac([2, 7, 7, 7, (n >> 8) as u8, n as u8]);
        h.inject(EM0, ns(src, solicited(ME6), ME6, &link_option(1, mac)).frame(mac, group_mac(solicited(ME6))));
        if n % 256 == 0 {
            h.sent(EM0);
            assert!(h.stack.neighbors6(h.cx()).len() <= 64);
        }
    }
    h.sent(EM0);
    assert_eq!(entry(&h, NEW6), Some((State::Reachable, NEW_MAC)));
    h.inject(EM0, from_new(&echo_from(NEW6, ME6, b"still")));
    assert!(sent6_one(&h, EM0).is_icmp(129, 0));
    h.audit();
}
