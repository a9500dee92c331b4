//! Extension headers and their options (RFC 8200 4), routing headers (RFC 5095).

use super::*;

conversations! {
    headers_in_any_order_and_any_number
    hop_by_hop_must_be_the_first_header
    a_chain_has_at_most_eight_headers
    an_unknown_next_header_is_reported_with_a_pointer
    unknown_headers_to_a_group_are_not_reported
    an_unknown_option_is_handled_by_its_type_bits
    options_to_a_group_are_reported_for_one_type_only
    padding_of_every_kind
    options_that_exceed_their_header
    headers_that_exceed_the_packet
    a_source_route_is_not_followed
    a_finished_source_route_is_skipped
    ah_and_esp_are_unknown_headers
}

fn ping() -> P6 {
    echo_from(PEER6, ME6, b"through")
}

/// Adds a routing header of this type with `left` segments left and one address: this host's own.
fn route(packet: P6, ty: u8, left: u8) -> P6 {
    let mut rest = vec![2, ty, left, 0, 0, 0, 0];
    rest.extend(ME6.octets());
    packet.behind(ROUTING, &rest)
}

/// RFC 8200 4.1: "must accept and attempt to process extension headers in any order and occurring
/// any number of times".
fn headers_in_any_order_and_any_number<L: Locks>() {
    let h = host6::<L>();
    assert_answered(&h, &ping().options(DEST, &[]));
    assert_answered(&h, &ping().options(HBH, &[]));
    assert_answered(&h, &ping().options(DEST, &[]).options(DEST, &[]).options(DEST, &[]));
    assert_answered(&h, &ping().options(DEST, &[]).fragment_header(1, 0, false).options(DEST, &[]).options(HBH, &[]));
    assert_answered(&h, &route(ping().options(DEST, &[]), 253, 0).options(DEST, &[]).options(HBH, &[]));
    assert_answered(&h, &route(ping(), 253, 0).options(DEST, &[]));
    assert_eq!(h.counter("inet.icmp6.echoes_answered"), 6);
    // The longest possible header has 8 + 255 * 8 bytes, too long for a frame. A header of 1400
    // bytes is accepted.
    assert_answered(&h, &ping().options(DEST, &[&[0x1e, 255][..], &[7; 255]].concat().repeat(5)));
}

/// RFC 8200 4: a Next Header value of zero is recognized only in the IPv6 header. Elsewhere an
/// error with code 1 is sent, with a pointer to the value.
fn hop_by_hop_must_be_the_first_header<L: Locks>() {
    let h = host6::<L>();
    assert_error(&h, &ping().options(HBH, &[]).options(DEST, &[]), 4, 1, 40);
    assert_error(&h, &ping().options(HBH, &[]).options(HBH, &[]), 4, 1, 40);
    assert_error(&h, &ping().options(HBH, &[]).options(DEST, &[]).options(DEST, &[]), 4, 1, 48);
    assert_eq!(h.counter("inet.ip6.in.bad_extension"), 3);
}

/// A chain of eight headers is processed, and one of nine is dropped. A chain of 180 headers costs
/// no more.
fn a_chain_has_at_most_eight_headers<L: Locks>() {
    let h = host6::<L>();
    let chain = |n| (0..n).fold(ping(), |packet, _| packet.options(DEST, &[]));
    assert_answered(&h, &chain(8));
    for n in [9, 10, 64, 180] {
        h.inject(EM0, chain(n).by_peer());
        assert!(sent6(&h, EM0).iter().all(|got| got.body[0] < 128), "no echo");
    }
    assert_eq!(h.counter("inet.ip6.in.bad_extension"), 4);
    assert_alive(&h);
}

/// RFC 8200 4, RFC 4443 3.4: code 1, with a pointer to the unrecognized value.
fn an_unknown_next_header_is_reported_with_a_pointer<L: Locks>() {
    let h = host6::<L>();
    let unknown = P6::new(PEER6, ME6, 253, *b"what is it");
    let got = assert_error(&h, &unknown, 4, 1, 6);
    assert_eq!(got.src, ME6, "RFC 4443 2.2 a");
    h.assert_counters(
        "in 1, ip6.received 1, ip6.delivered 1, ip6.in.unknown_next_header 1, icmp6.errors_sent 1, audit.made 1, ip6.sent 1, \
         out 1",
    );
    assert_error(&h, &unknown.clone().options(DEST, &[]), 4, 1, 40);
    assert_error(&h, &unknown.clone().options(DEST, &[0x1e, 8, 0, 0, 0, 0, 0, 0, 0, 0]).options(HBH, &[]), 4, 1, 48);
    assert_error(&h, &unknown.fragment_header(1, 0, false), 4, 1, 40);
    // Protocols that exist for IPv4 only (ICMP, IGMP) are unknown here, and so is 4 without a
    // tunnel.
    for next in [1, 2, 4, 41, 47, 97, 132, 135, 139, 140, 255] {
        assert_error(&h, &P6::new(PEER6, ME6, next, vec![0; 40]), 4, 1, 6);
        h.advance_secs(1);
    }
}

/// RFC 4443 2.4 e.3: for packets to a group, only packet too big and a parameter problem of code 2
/// are reported.
fn unknown_headers_to_a_group_are_not_reported<L: Locks>() {
    let h = host6::<L>();
    for dst in [ALL_NODES, solicited(ME6)] {
        assert_silent(&h, &P6::new(PEER6, dst, 253, *b"what is it"));
        assert_silent(&h, &ping().options(HBH, &[]).options(DEST, &[]).to(dst));
        assert_silent(&h, &route(ping(), 0, 1).to(dst));
        assert_silent(&h, &udp6((PEER6, 5), (dst, 9), b"anybody?"));
    }
    h.assert_counters(
        "in 8, ip6.received 8, ip6.in.unknown_next_header 2, ip6.in.bad_extension 2, ip6.in.routing_header 2, \
                       udp.received 2, udp.in.no_socket_broadcast 2, ip6.delivered 4, icmp6.errors_forbidden 6",
    );
}

/// RFC 8200 4.2: type bits 00 skip the option. 01 discards the packet. 10 and 11 discard it and
/// send an error with code 2 and a pointer to the option type.
fn an_unknown_option_is_handled_by_its_type_bits<L: Locks>() {
    let h = host6::<L>();
    for header in [DEST, HBH] {
        let with = |kind: u8| ping().options(header, &[0, kind, 2, 7, 7]);
        assert_answered(&h, &with(0x1e));
        assert_answered(&h, &with(0x3e));
        assert_silent(&h, &with(0x5e));
        assert_error(&h, &with(0x9e), 4, 2, 43);
        assert_error(&h, &with(0xde), 4, 2, 43);
        // The third highest bit states whether the option may change en route. It is part of the
        // option number and determines no action.
        assert_error(&h, &with(0xfe), 4, 2, 43);
        assert_silent(&h, &with(0x7e));
        // An option without data, and the second of two headers.
        assert_error(&h, &ping().options(header, &[0x9e, 0]), 4, 2, 42);
        // The first option that is not skipped determines the action.
        assert_silent(&h, &ping().options(header, &[0x1e, 0, 0x5e, 0, 0x9e, 0]));
        assert_error(&h, &ping().options(header, &[0x1e, 0, 0x9e, 0, 0x5e, 0]), 4, 2, 44);
        h.advance_secs(1);
    }
    assert_error(&h, &ping().options(DEST, &[0x9e, 0]).options(DEST, &[]), 4, 2, 50);
    assert_eq!(h.counter("inet.ip6.in.unknown_option"), 2 * 8 + 1);
    assert_alive(&h);
}

/// RFC 8200 4.2, RFC 4443 2.4 e.3: type bits 10 cause an error for any destination, 11 only for a
/// unicast destination. The error is sent from one of our addresses (RFC 4443 2.2).
fn options_to_a_group_are_reported_for_one_type_only<L: Locks>() {
    let h = host6::<L>();
    for header in [DEST, HBH] {
        let with = |kind: u8| echo_from(PEER6, ALL_NODES, b"all").options(header, &[kind, 0]);
        let got = assert_error(&h, &with(0x80), 4, 2, 42);
        assert_eq!(got.src, ME6);
        assert_silent(&h, &with(0xc1));
        assert_silent(&h, &with(0x41));
        let here = echo_from(link_local(PEER), ALL_NODES, b"all").options(header, &[0x80, 0]);
        assert_eq!(assert_error(&h, &here, 4, 2, 42).src, link_local(ME));
    }
    assert_eq!(h.counter("inet.icmp6.errors_sent"), 4);
}

/// RFC 8200 4.2: Pad1, and PadN of every length; the content of the padding is ignored.
fn padding_of_every_kind<L: Locks>() {
    let h = host6::<L>();
    for header in [DEST, HBH] {
        assert_answered(&h, &ping().options(header, &[0; 6]));
        assert_answered(&h, &ping().options(header, &[1, 4, 0, 0, 0, 0]));
        assert_answered(&h, &ping().options(header, &[1, 0, 1, 0, 1, 0]));
        assert_answered(&h, &ping().options(header, &[0, 1, 3, 0, 0, 0]));
        assert_answered(&h, &ping().options(header, &[1, 4, 0xff, 0xff, 0xff, 0xff]));
        // Router alert (RFC 2711) with every value: a host ignores it.
        for value in [0, 1, 0xffff_u16] {
            let [a, b] = value.to_be_bytes();
            assert_answered(&h, &ping().options(header, &[5, 2, a, b]));
        }
    }
}

fn options_that_exceed_their_header<L: Locks>() {
    let h = host6::<L>();
    for header in [DEST, HBH] {
        for options in [
            [0x1e, 5, 0, 0, 0, 0],
            [0x1e, 255, 0, 0, 0, 0],
            [1, 5, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0x1e],
            [1, 3, 0, 0, 0, 1],
        ] {
            h.inject(EM0, ping().behind(header, &[&[0], &options[..]].concat()).by_peer());
            assert!(sent6(&h, EM0).iter().all(|got| got.body[0] < 128), "{options:?}");
        }
    }
    h.audit();
    assert_eq!(h.counter("inet.icmp6.echoes_answered"), 0);
    assert_alive(&h);
}

fn headers_that_exceed_the_packet<L: Locks>() {
    let h = host6::<L>();
    for proto in [HBH, DEST, ROUTING, 51] {
        for units in [1, 2, 50, 255] {
            h.inject(EM0, P6::new(PEER6, ME6, proto, vec![ICMP6, units, 0, 0, 0, 0, 0, 0]).by_peer());
        }
        for len in 0..8 {
            h.inject(EM0, P6::new(PEER6, ME6, proto, vec![0; len]).by_peer());
        }
    }
    for len in 0..8 {
        h.inject(EM0, P6::new(PEER6, ME6, FRAGMENT, vec![0; len]).by_peer());
    }
    assert_eq!((h.counter("inet.ip6.in.malformed"), h.counter("inet.icmp6.received")), (4 * 12 + 8, 0));
    assert!(sent6(&h, EM0).is_empty());
    assert_alive(&h);
}

/// RFC 5095 3: routing header type 0 is treated as an unknown type. RFC 8200 4.4: with segments
/// left, an error with code 0 and a pointer to the type is sent.
fn a_source_route_is_not_followed<L: Locks>() {
    for h in [host6::<L>(), router6::<L>()] {
        for ty in [0, 1, 2, 3, 4, 253, 255] {
            for left in [1, 2, 255] {
                assert_error(&h, &route(ping(), ty, left), 4, 0, 42);
                h.advance_secs(1);
            }
        }
        // After other headers, the pointer is still that to the routing type. Such a packet is
        // never forwarded.
        assert_error(&h, &route(ping(), 0, 1).options(DEST, &[]), 4, 0, 50);
        assert_error(&h, &route(ping(), 0, 94).options(HBH, &[]), 4, 0, 50);
        assert_eq!((h.counter("inet.ip6.in.routing_header"), h.counter("inet.ip6.forwarded")), (23, 0));
        assert_alive(&h);
    }
}

/// RFC 8200 4.4: "If Segments Left is zero, the node must ignore the Routing header and proceed".
fn a_finished_source_route_is_skipped<L: Locks>() {
    let h = host6::<L>();
    for ty in [0, 2, 4, 253] {
        assert_answered(&h, &route(ping(), ty, 0));
    }
    // A second routing header is checked like the first.
    assert_error(&h, &route(route(ping(), 0, 1), 253, 0), 4, 0, 42 + 24);
}

/// RFC 8200 4: AH and ESP are treated as unrecognized headers, since there are no keys.
fn ah_and_esp_are_unknown_headers<L: Locks>() {
    let h = host6::<L>();
    assert_error(
        &h,
        &ping().behind(51, &[4, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]),
        4,
        1,
        6,
    );
    assert_error(&h, &P6::new(PEER6, ME6, 50, vec![9; 64]), 4, 1, 6);
    assert_error(&h, &P6::new(PEER6, ME6, 50, vec![9; 64]).options(DEST, &[]), 4, 1, 40);
}
