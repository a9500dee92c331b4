//! An IPv6 router (RFC 8200 3, 5, RFC 4291 2.5.2, 2.5.6, RFC 4007 9, RFC 4443 3): which packets are
//! forwarded and how, which are not, and which errors are sent.

use super::*;

conversations! {
    a_forwarded_packet_differs_only_in_its_hop_limit
    an_expired_hop_limit_is_reported
    a_packet_in_a_routing_loop_expires
    a_missing_route_is_reported
    a_link_local_source_does_not_leave_its_link
    a_link_local_destination_does_not_leave_its_link
    groups_are_not_forwarded
    a_packet_too_long_for_the_next_link_is_reported
    a_router_does_not_process_other_extension_headers
    a_router_processes_hop_by_hop_options
    fragments_are_forwarded_unchanged
    reject_prohibit_and_blackhole_routes
    errors_are_forwarded_too
    a_router_is_also_a_host
}

/// Checks that FAR receives what PEER sent: every byte but the hop limit.
#[track_caller]
fn assert_forwarded<L: Locks>(h: &Host<L>, packet: &P6) {
    h.inject(EM0, packet.by_peer());
    let frames = h.sent(EM1);
    assert_eq!(frames.len(), 1);
    let mut expected = packet.packet();
    expected[7] -= 1;
    assert_eq!(frames[0][..14], [&FAR.mac.0[..], &ME2.mac.0, &[0x86, 0xdd]].concat());
    assert_eq!(frames[0][14..], expected);
    sent6_nothing(h, EM0);
    h.audit();
}

fn on_its_way() -> P6 {
    echo_from(PEER6, BEYOND6, b"on its way")
}

fn a_forwarded_packet_differs_only_in_its_hop_limit<L: Locks>() {
    let h = router6::<L>();
    for hop in [2, 64, 255] {
        assert_forwarded(&h, &on_its_way().hop(hop));
    }
    for (class, flow) in [(0xff, 0xf_ffff), (0xb8, 1), (3, 0)] {
        assert_forwarded(&h, &P6 { class, flow, ..on_its_way() });
    }
    assert_forwarded(&h, &echo_from(PEER6, FAR6, &[7; 1452]));
    // Invalid checksums and upper-layer headers are left to the receiver.
    assert_forwarded(&h, &P6::new(PEER6, BEYOND6, ICMP6, vec![128, 0, 1, 2]));
    assert_forwarded(&h, &P6::new(PEER6, BEYOND6, UDP, vec![]));
    assert_forwarded(&h, &P6::new(PEER6, BEYOND6, NONE, vec![]));
    assert_forwarded(&h, &P6::new(PEER6, BEYOND6, 253, vec![1]));
    h.assert_counters("in 11, ip6.received 11, ip6.forwarded 11, out 11");
    // Link padding is not forwarded.
    let mut padded = on_its_way().by_peer();
    padded.extend([0x5a; 300]);
    h.inject(EM0, padded);
    assert_eq!(h.sent_one(EM1).len(), on_its_way().by_peer().len());
}

/// RFC 8200 3: "If the Hop Limit is decremented to zero, the packet is discarded"; RFC 4443 3.3:
/// code 0.
fn an_expired_hop_limit_is_reported<L: Locks>() {
    let h = router6::<L>();
    for hop in [0, 1] {
        assert_error(&h, &on_its_way().hop(hop), 3, 0, 0);
        sent6_nothing(&h, EM1);
    }
    h.assert_counters(
        "in 2, ip6.received 2, ip6.forward.hop_limit_exceeded 2, icmp6.errors_sent 2, audit.made 2, ip6.sent 2, out 2",
    );
    // A packet for the router itself may have an expired hop limit.
    assert_answered(&h, &echo_from(PEER6, ME26, b"mine").hop(1));
}

/// The route leads back to the link from which the packet came. Each time the packet returns, its
/// hop limit is lower by one. The sender receives one error.
fn a_packet_in_a_routing_loop_expires<L: Locks>() {
    let h = router6::<L>();
    route6(&h, "2001:db8:0:8::/64", Via6::Gateway(EM0, OTHER6));
    let lost = echo_from(PEER6, on(8, 8), b"round and round").hop(10);
    h.inject(EM0, lost.by_peer());
    let (mut rounds, mut reported) = (0, 0);
    for _ in 0..50 {
        for got in sent6(&h, EM0) {
            if got.dst == PEER6 {
                reported += usize::from(got.is_icmp(3, 0));
                continue;
            }
            if got.dst != on(8, 8) {
                continue; // may be a redirect
            }
            rounds += 1;
            let back = P6 { hop: got.hop, ..lost.clone() };
            h.inject(EM0, back.frame(OTHER.mac, ME.mac));
        }
    }
    assert_eq!((rounds, reported), (9, 1));
    h.audit();
}

/// RFC 4443 3.1: code 0.
fn a_missing_route_is_reported<L: Locks>() {
    let h = router6::<L>();
    assert_error(&h, &echo_from(PEER6, on(0x99, 1), b"?"), 1, 0, 0);
    h.assert_counters(
        "in 1, ip6.received 1, ip6.forward.no_route 1, icmp6.errors_sent 1, audit.made 1, ip6.sent 1, out 1",
    );
    // Only one error is sent, whatever else is wrong with the packet.
    assert_error(&h, &echo_from(PEER6, on(0x99, 1), &[0; 1400]), 1, 0, 0);
}

/// RFC 4007 9, RFC 4291 2.5.6: discarded, code 2.
fn a_link_local_source_does_not_leave_its_link<L: Locks>() {
    let h = router6::<L>();
    for dst in [FAR6, BEYOND6] {
        assert_error(&h, &echo_from(link_local(PEER), dst, b"?"), 1, 2, 0);
        sent6_nothing(&h, EM1);
    }
    assert_eq!(h.counter("inet.ip6.forward.beyond_scope"), 2);
    // The whole of fe80::/10 is link-local.
    h.inject(EM0, echo_from("febf::1".parse().unwrap(), FAR6, b"?").by_peer());
    sent6_nothing(&h, EM1);
    h.sent(EM0);
    h.pass(clock::Duration::from_secs(4));
    h.sent(EM0);
}

fn a_link_local_destination_does_not_leave_its_link<L: Locks>() {
    let h = router6::<L>();
    route6(&h, "::/0", Via6::Gateway(EM1, FAR6));
    for dst in
        [link_local(FAR), link_local(ME2), link_local(OTHER), "fe80::1234".parse().unwrap(), "febf::1".parse().unwrap()]
    {
        for src in [PEER6, link_local(PEER)] {
            assert_silent(&h, &echo_from(src, dst, b"?"));
            sent6_nothing(&h, EM1);
        }
    }
    h.assert_counters("in 10, ip6.received 10, ip6.in.not_here 10");
}

/// No group is forwarded, of whatever scope, since there is no multicast routing; no error is sent
/// (RFC 4443 2.4 e.3).
fn groups_are_not_forwarded<L: Locks>() {
    let h = router6::<L>();
    route6(&h, "::/0", Via6::Gateway(EM1, FAR6));
    for group in ["ff02::1:2", "ff05::1", "ff08::1", "ff0e::1", "ff3e::1", "ff0f::1"] {
        assert_silent(&h, &echo_from(PEER6, group.parse().unwrap(), b"?"));
        assert_silent(&h, &echo_from(PEER6, group.parse().unwrap(), b"?").hop(1));
        sent6_nothing(&h, EM1);
    }
    h.assert_counters("in 12, ip6.received 12, ip6.in.not_member 12");
    // RFC 4291 2.8: a router is in ff02::2.
    assert_answered(&h, &echo_from(PEER6, ALL_ROUTERS, b"routers"));
}

/// RFC 4443 3.2: the error contains the MTU of the next hop's link; RFC 8200 5: a router does not
/// fragment.
fn a_packet_too_long_for_the_next_link_is_reported<L: Locks>() {
    let h = router6::<L>();
    h.stack.set_mtu(EM1, 1400);
    let got = assert_error(&h, &echo_from(PEER6, BEYOND6, &[7; 1353]), 2, 0, 1400);
    assert_eq!(got.body.len() + 40, 1280);
    h.assert_counters(
        "in 1, ip6.received 1, ip6.forward.too_big 1, icmp6.errors_sent 1, audit.made 1, ip6.sent 1, out 1",
    );
    assert_forwarded(&h, &echo_from(PEER6, BEYOND6, &[7; 1352]));
    h.stack.set_mtu(EM1, 1280);
    assert_error(&h, &echo_from(PEER6, BEYOND6, &[7; 1233]), 2, 0, 1280);
    assert_forwarded(&h, &echo_from(PEER6, BEYOND6, &[7; 1232]));
    // The hop limit is checked first.
    assert_error(&h, &echo_from(PEER6, BEYOND6, &[7; 1300]).hop(1), 3, 0, 0);
    // An error is not reported either: RFC 4443 2.4 e.1 makes no exception for packet too big.
    assert_silent(&h, &error6(PEER6, BEYOND6, 1, 0, 0, &[7; 1300]));
    sent6_nothing(&h, EM1);
}

/// RFC 8200 4: "not processed, inserted, or deleted by any node along a packet's delivery path".
fn a_router_does_not_process_other_extension_headers<L: Locks>() {
    let h = router6::<L>();
    assert_forwarded(&h, &on_its_way().options(DEST, &[0x9e, 0]));
    assert_forwarded(&h, &on_its_way().options(DEST, &[0x5e, 0]).options(HBH, &[]));
    assert_forwarded(&h, &on_its_way().behind(ROUTING, &[0, 0, 5, 0, 0, 0, 0]));
    assert_forwarded(&h, &on_its_way().options(HBH, &[]).options(DEST, &[]));
    assert_forwarded(&h, &(0..20).fold(on_its_way(), |packet, _| packet.options(DEST, &[])));
    assert_forwarded(&h, &P6::new(PEER6, BEYOND6, DEST, vec![DEST, 255, 0, 0]));
    assert_forwarded(&h, &P6::new(PEER6, BEYOND6, FRAGMENT, vec![TCP]));
}

/// RFC 8200 4.2, 4.3: a router may process these options, and this one does.
fn a_router_processes_hop_by_hop_options<L: Locks>() {
    let h = router6::<L>();
    assert_forwarded(&h, &on_its_way().options(HBH, &[0x1e, 0]));
    assert_forwarded(&h, &on_its_way().options(HBH, &[5, 2, 0, 1]));
    assert_silent(&h, &on_its_way().options(HBH, &[0x5e, 0]));
    assert_error(&h, &on_its_way().options(HBH, &[0x9e, 0]), 4, 2, 42);
    assert_error(&h, &on_its_way().options(HBH, &[0, 0xde, 0]), 4, 2, 43);
    for options in [[0x1e, 5, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0x1e]] {
        assert_silent(&h, &on_its_way().behind(HBH, &[&[0], &options[..]].concat()));
    }
    assert_silent(&h, &P6::new(PEER6, BEYOND6, HBH, vec![ICMP6, 9, 0, 0, 0, 0, 0, 0]));
    sent6_nothing(&h, EM1);
}

fn fragments_are_forwarded_unchanged<L: Locks>() {
    let h = router6::<L>();
    let whole = echo_from(PEER6, BEYOND6, &[7; 2000]);
    for fragment in
        [whole.fragment(1, 0, 1024), whole.fragment(1, 1024, 1024), whole.fragment(1, 8, 8), whole.fragment(1, 0, 8)]
    {
        assert_forwarded(&h, &fragment);
    }
    assert_forwarded(&h, &P6::new(PEER6, BEYOND6, TCP, vec![0; 9]).fragment_header(1, 65528, true));
    // RFC 4443 2.4 e: a fragment other than the first cannot be recognized as an error message, so
    // an error is sent about it.
    assert_error(&h, &whole.fragment(1, 1024, 1024).hop(1), 3, 0, 0);
    assert_eq!(h.stack.held(h.cx()), 0);
}

/// RFC 4443 3.1: code 1, prohibited; and routes that drop silently.
fn reject_prohibit_and_blackhole_routes<L: Locks>() {
    let h = router6::<L>();
    route6(&h, "2001:db8:0:a::/64", Via6::Reject);
    route6(&h, "2001:db8:0:b::/64", Via6::Prohibit);
    route6(&h, "2001:db8:0:c::/64", Via6::Blackhole);
    assert_error(&h, &echo_from(PEER6, on(0xa, 1), b"?"), 1, 0, 0);
    assert_error(&h, &echo_from(PEER6, on(0xb, 1), b"?"), 1, 1, 0);
    assert_silent(&h, &echo_from(PEER6, on(0xc, 1), b"?"));
    // The longest prefix decides.
    route6(&h, "2001:db8:0:c::1/128", Via6::Gateway(EM1, FAR6));
    assert_forwarded(&h, &echo_from(PEER6, on(0xc, 1), b"?"));
}

/// Errors, redirects and neighbor discovery messages between other hosts are forwarded like any
/// other packet.
fn errors_are_forwarded_too<L: Locks>() {
    let h = router6::<L>();
    let quoted = on_its_way().packet();
    for ty in [1, 2, 3, 4] {
        assert_forwarded(&h, &error6(PEER6, BEYOND6, ty, 0, 1280, &quoted));
    }
    assert_forwarded(&h, &ns(PEER6, BEYOND6, BEYOND6, &[])); // invalid at the receiver: hop limit 254
}

/// A router answers on any of its addresses, on whichever link.
fn a_router_is_also_a_host<L: Locks>() {
    let h = router6::<L>();
    for dst in [ME6, ME26, link_local(ME)] {
        assert_eq!(assert_answered(&h, &echo_from(PEER6, dst, b"?")).src, dst);
    }
    h.inject(EM1, echo_from(FAR6, ME6, b"?").by_far());
    assert_eq!(sent6_one(&h, EM1).src, ME6);
}
