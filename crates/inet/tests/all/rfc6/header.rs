//! The fixed header (RFC 8200 3), addresses that are invalid on a wire (RFC 4291 2), and link
//! padding.

use super::*;

conversations! {
    an_invalid_header_is_dropped
    bytes_beyond_the_payload_length_are_ignored
    a_packet_for_us_may_have_hop_limit_zero
    traffic_class_and_flow_label_are_ignored_by_a_host
    no_next_header_ends_the_packet
    invalid_sources_are_dropped
    invalid_destinations_are_dropped
    land_is_not_answered
    a_host_does_not_forward
    a_link_broadcast_is_not_answered_with_an_error
    received_padding_is_not_sent_back
    an_iface_without_an_address_sends_nothing
}

fn an_invalid_header_is_dropped<L: Locks>() {
    let h = host6::<L>();
    let good = echo_from(PEER6, ME6, b"echo").by_peer();
    for version in [0, 1, 4, 5, 7, 15] {
        let mut frame = good.clone();
        frame[14] = version << 4;
        h.inject(EM0, frame);
        h.assert_counters("in 1, ip6.received 1, ip6.in.bad_version 1");
    }
    for len in 0..40 {
        h.inject(EM0, &good[..14 + len]);
        h.audit();
    }
    assert_eq!(h.counter("inet.ip6.in.malformed") + h.counter("inet.ip6.in.bad_version"), 6 + 40);
    h.forget_counters();
    // A payload length that exceeds the frame, by one byte up to the maximum (Ripple20, picoTCP
    // CVE-2020-17441).
    let true_len = good.len() as u16 - 54;
    for len in [true_len + 1, true_len + 8, 1500, 0x8000, 0xffff] {
        assert_silent(&h, &P6 { len: Some(len), ..echo_from(PEER6, ME6, b"echo") });
        h.assert_counters("in 1, ip6.received 1, ip6.in.malformed 1");
    }
    // RFC 2675's jumbograms are not supported: a payload length of 0 truncates the packet before
    // its Hop-by-Hop header.
    let jumbo = echo_from(PEER6, ME6, b"echo").options(HBH, &[0xc2, 4, 0, 1, 0, 0]);
    assert_silent(&h, &P6 { len: Some(0), ..jumbo });
    h.assert_counters("in 1, ip6.received 1, ip6.in.malformed 1");
    assert_alive(&h);
}

fn bytes_beyond_the_payload_length_are_ignored<L: Locks>() {
    let h = host6::<L>();
    // The payload length includes 4 bytes of echo data, and 100 bytes follow. The reply contains
    // the 4 bytes, so it is not longer than its request.
    let mut frame = echo_from(PEER6, ME6, b"echo").by_peer();
    frame.extend([0xaa; 100]);
    h.inject(EM0, frame);
    let got = sent6_one(&h, EM0);
    assert_eq!(&got.body[4..], b"\x12\x34\0\x07echo");
    h.assert_counters(
        "in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.echoes_answered 1, ip6.sent 1, out 1",
    );
    // The checksum covers bytes beyond the payload length, so it is invalid for the bytes within
    // it.
    let longer = echo_from(PEER6, ME6, b"echo and more");
    assert_silent(&h, &P6 { len: Some(longer.body.len() as u16 - 2), ..longer });
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.in.bad_checksum 1");
}

/// RFC 8200 3: "a node that is the destination of a packet should not discard a packet with a Hop
/// Limit equal to zero".
fn a_packet_for_us_may_have_hop_limit_zero<L: Locks>() {
    let h = host6::<L>();
    for hop in [0, 1, 255] {
        let got = assert_answered(&h, &echo_from(PEER6, ME6, b"echo").hop(hop));
        assert_eq!((got.hop, got.src, got.dst), (64, ME6, PEER6));
    }
}

fn traffic_class_and_flow_label_are_ignored_by_a_host<L: Locks>() {
    let h = host6::<L>();
    for (class, flow) in [(0xff, 0), (0, 0xf_ffff), (0xb9, 0x1_2345)] {
        assert_answered(&h, &P6 { class, flow, ..echo_from(PEER6, ME6, b"echo") });
    }
}

/// RFC 8200 4.7: nothing follows this header; bytes that follow nevertheless are ignored.
fn no_next_header_ends_the_packet<L: Locks>() {
    let h = host6::<L>();
    for body in [&b""[..], b"octets past the end"] {
        assert_silent(&h, &P6::new(PEER6, ME6, NONE, body));
        h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, ip6.in.no_next_header 1");
        assert_silent(&h, &P6::new(PEER6, ME6, NONE, body).options(DEST, &[]));
        h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, ip6.in.no_next_header 1");
    }
}

/// RFC 4291 2.5.2, 2.5.3, 2.5.5.2, 2.7: "must not be used as the source".
fn invalid_sources_are_dropped<L: Locks>() {
    let h = router6::<L>();
    let disguised = "::ffff:10.0.0.2".parse().unwrap();
    for src in [ALL_NODES, "ff0e::1".parse().unwrap(), Ipv6Addr::LOCALHOST, disguised] {
        for dst in [ME6, FAR6, link_local(ME), ALL_NODES] {
            assert_silent(&h, &echo_from(src, dst, b"echo"));
            sent6_nothing(&h, EM1);
            h.assert_counters("in 1, ip6.received 1, ip6.in.martian_source 1");
            // No error is sent, whatever else is wrong with the packet.
            assert_silent(&h, &P6::new(src, dst, 253, *b"????"));
            h.assert_counters("in 1, ip6.received 1, ip6.in.martian_source 1");
        }
    }
    // The unspecified address is never forwarded (RFC 4291 2.5.2), and never answered with an echo
    // reply or an error.
    for dst in [ME6, FAR6, BEYOND6, ALL_NODES] {
        assert_silent(&h, &echo_from(NOWHERE, dst, b"echo"));
        assert_silent(&h, &P6::new(NOWHERE, dst, 253, *b"????"));
        assert_silent(&h, &echo_from(NOWHERE, dst, b"echo").hop(1));
        sent6_nothing(&h, EM1);
    }
    assert_alive(&h);
}

/// RFC 4291 2.5.2, 2.5.3, 2.7: ::, ::1 from a link, groups of scope 0 and of an interface.
fn invalid_destinations_are_dropped<L: Locks>() {
    let h = router6::<L>();
    route6(&h, "::/0", Via6::Gateway(EM1, FAR6));
    for dst in [NOWHERE, Ipv6Addr::LOCALHOST, "::ffff:10.0.0.1".parse().unwrap()] {
        h.inject(EM0, echo_from(PEER6, dst, b"echo").by_peer());
        sent6_nothing(&h, EM0);
        sent6_nothing(&h, EM1);
        h.assert_counters("in 1, ip6.received 1, ip6.in.martian_destination 1");
    }
    // RFC 4291 2.7: a packet to scope 0 "must be silently dropped". A packet to interface-local
    // scope cannot come from a link.
    for dst in ["ff00::1", "ff01::1", "ff10::1", "ff11::1"] {
        h.inject(EM0, echo_from(PEER6, dst.parse().unwrap(), b"echo").by_peer());
        sent6_nothing(&h, EM0);
        sent6_nothing(&h, EM1);
        h.assert_counters("in 1, ip6.received 1, ip6.in.martian_destination 1");
    }
}

/// The Land attack: this host answers no packet from one of its own addresses, whichever address
/// and whatever the request.
fn land_is_not_answered<L: Locks>() {
    let h = router6::<L>();
    for (src, dst) in
        [(ME6, ME6), (link_local(ME), link_local(ME)), (ME26, ME6), (ME6, ALL_NODES), (ME26, ME26), (ME6, FAR6)]
    {
        for packet in
            [echo_from(src, dst, b"land"), udp6((src, 7), (dst, 7), b"land"), P6::new(src, dst, 253, *b"land")]
        {
            assert_silent(&h, &packet);
            sent6_nothing(&h, EM1);
            h.poll();
            sent6_nothing(&h, EM0);
            h.assert_counters("in 1, ip6.received 1, ip6.in.own_source 1");
        }
    }
    assert_alive(&h);
}

fn a_host_does_not_forward<L: Locks>() {
    let h = host6::<L>();
    for dst in [OTHER6, FAR6, "2001:db8:ffff::1".parse().unwrap()] {
        assert_silent(&h, &echo_from(PEER6, dst, b"echo"));
        h.assert_counters("in 1, ip6.received 1, ip6.in.not_forwarding 1");
    }
    // No error is sent about packets for others either: Hop-by-Hop options are for nodes on the
    // path (RFC 8200 4.3).
    for kind in [0x9e, 0xde, 0x5e] {
        assert_silent(&h, &echo_from(PEER6, OTHER6, b"echo").options(HBH, &[kind, 0]));
    }
    assert_silent(&h, &echo_from(PEER6, OTHER6, b"echo").hop(1));
    h.forget_counters();
    // A link-local address of another station is not delivered, on a host or on a router.
    assert_silent(&h, &echo_from(PEER6, link_local(OTHER), b"echo"));
    h.assert_counters("in 1, ip6.received 1, ip6.in.not_here 1");
}

/// RFC 4443 2.4 e.4: no error is sent about a packet that arrived in a link-layer multicast or
/// broadcast.
fn a_link_broadcast_is_not_answered_with_an_error<L: Locks>() {
    let h = router6::<L>();
    let far = echo_from(PEER6, FAR6, b"on").hop(1);
    for packet in
        [P6::new(PEER6, ME6, 253, *b"????"), echo_from(PEER6, ME6, b"smurf"), far, udp6((PEER6, 1), (ME6, 9), b"")]
    {
        for dst in [Mac::BROADCAST, group_mac(ALL_NODES)] {
            h.inject(EM0, packet.frame(PEER.mac, dst));
            sent6_nothing(&h, EM0);
            sent6_nothing(&h, EM1);
            h.assert_counters("in 1, ip6.received 1, ip6.in.link_broadcast 1");
        }
    }
}

/// The padding of the request is not sent back. The padding of the answer is zero or absent.
fn received_padding_is_not_sent_back<L: Locks>() {
    let h = host6::<L>();
    for text in [&b""[..], b"a"] {
        let mut frame = echo_from(PEER6, ME6, text).by_peer();
        frame.resize(frame.len() + 40, 0x5a);
        h.inject(EM0, frame);
        let sent = h.sent_one(EM0);
        assert!(!sent.contains(&0x5a), "{sent:02x?}");
        assert_eq!(Got::of(PEER.mac, &sent[14..]).body.len(), 8 + text.len());
    }
}

fn an_iface_without_an_address_sends_nothing<L: Locks>() {
    let h = Host::<L>::new();
    h.inject(EM0, echo_from(PEER6, ME6, b"echo").by_peer());
    h.sent_nothing(EM0);
    h.assert_counters("in 1, link.ether.in.unknown_type 1");
    h.inject(EM0, ns(PEER6, solicited(ME6), ME6, &link_option(1, PEER.mac)).by_peer());
    h.sent_nothing(EM0);
    assert!(h.stack.neighbors6(h.cx()).is_empty());
}
