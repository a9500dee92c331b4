//! ICMPv6 errors: subject, destination, length and rate (RFC 4443 2.2, 2.4 c to f, 3), and which
//! received errors are accepted (RFC 8201).

use super::*;
use clock::Duration;

conversations! {
    a_port_without_a_socket_is_unreachable
    an_error_quotes_as_much_as_fits_1280
    no_errors_about_errors_or_redirects
    no_errors_are_sent_to_groups_or_unspecified_addresses
    errors_are_limited_per_sender
    an_error_is_sent_from_the_address_that_was_addressed
    a_lower_path_mtu_is_accepted_for_our_own_packets
    no_path_mtu_below_1280_is_accepted
    errors_do_not_raise_the_path_mtu
    a_lower_path_mtu_expires
    path_mtu_entries_are_bounded
}

fn a_port_without_a_socket_is_unreachable<L: Locks>() {
    let h = host6::<L>();
    assert_error(&h, &udp6((PEER6, 5), (ME6, 9), b"anybody?"), 1, 4, 0);
    assert_error(&h, &udp6((PEER6, 5), (ME6, 9), b"anybody?").options(DEST, &[]), 1, 4, 0);
    h.assert_counters(
        "in 2, ip6.received 2, ip6.delivered 2, udp.received 2, udp.in.no_socket 2, icmp6.errors_sent 2, audit.made 2, \
         ip6.sent 2, out 2",
    );
}

/// RFC 4443 3.1: "as much of invoking packet as possible without the ICMPv6 packet exceeding the
/// minimum IPv6 MTU".
fn an_error_quotes_as_much_as_fits_1280<L: Locks>() {
    let h = host6::<L>();
    for len in [0, 1, 1183, 1184, 1185, 1400] {
        let got = assert_error(&h, &udp6((PEER6, 5), (ME6, 9), &vec![len as u8; len]), 1, 4, 0);
        assert_eq!(40 + got.body.len(), 1280.min(40 + 8 + 40 + 8 + len));
    }
    // Link padding is not quoted.
    let mut padded = udp6((PEER6, 5), (ME6, 9), b"").by_peer();
    padded.resize(200, 0x5a);
    h.inject(EM0, padded);
    assert_eq!(sent6_one(&h, EM0).body.len(), 8 + 48);
}

/// RFC 4443 2.4 e.1, e.2.
fn no_errors_about_errors_or_redirects<L: Locks>() {
    let h = router6::<L>();
    let quoted = udp6((ME6, 9), (PEER6, 9), b"quoted").packet();
    for ty in [0, 1, 2, 3, 4, 5, 100, 127, 137] {
        for dst in [FAR6, "2001:db8:dead::1".parse().unwrap(), ME6] {
            let error = error6(PEER6, dst, ty, 0, 0, &quoted);
            // Packets with an expired hop limit, without a route, with unknown options, and with an
            // unknown header.
            for bad in
                [error.clone().hop(1), error.clone().options(DEST, &[0x9e, 0]), error.clone().options(HBH, &[0x9e, 0])]
            {
                h.inject(EM0, bad.by_peer());
                sent6_nothing(&h, EM0);
            }
        }
        let nowhere = error6(PEER6, "2001:db8:dead::1".parse().unwrap(), ty, 0, 0, &quoted);
        assert_silent(&h, &nowhere);
        h.sent(EM1);
    }
    assert_eq!(h.counter("inet.icmp6.errors_sent"), 0);
    // An error is sent about an echo request.
    assert_error(&h, &echo_from(PEER6, FAR6, b"on").hop(1), 3, 0, 0);
}

/// RFC 4443 2.4 e.3 to e.6.
fn no_errors_are_sent_to_groups_or_unspecified_addresses<L: Locks>() {
    let h = router6::<L>();
    for src in [NOWHERE, ALL_NODES, Ipv6Addr::LOCALHOST, "ff0e::7".parse().unwrap()] {
        for packet in [
            P6::new(src, ME6, 253, *b"????"),
            echo_from(src, FAR6, b"on").hop(1),
            echo_from(src, ALL_NODES, b"").options(DEST, &[0x9e, 0]),
        ] {
            assert_silent(&h, &packet);
        }
    }
    assert_eq!(h.counter("inet.icmp6.errors_sent"), 0);
}

/// RFC 4443 2.4 f: errors are limited by a token bucket. There is one bucket per destination, so
/// that the limit of one reveals nothing about others.
fn errors_are_limited_per_sender<L: Locks>() {
    let h = router6::<L>();
    let flood = |src: Ipv6Addr| P6::new(src, ME6, 253, *b"????").by_peer();
    let attackers = |n: u16| on(0, 0x1000 + n);
    for n in 0..2_000 {
        let src = attackers(n % 500);
        knows6(&h, EM0, src, OTHER.mac);
        h.inject(EM0, flood(src));
    }
    let reported = sent6(&h, EM0).len();
    assert!((1..=100).contains(&reported), "one /64 gets {reported} errors");
    assert_eq!(h.counter("inet.icmp6.errors_limited"), 2_000 - reported as u64);
    // Another network still gets errors.
    h.inject(EM1, P6::new(FAR6, ME26, 253, *b"????").by_far());
    assert!(sent6_one(&h, EM1).is_icmp(4, 1));
    // A second later, errors are sent again. In the long run, their rate does not exceed the limit.
    h.forget_counters();
    let before = h.counter("inet.icmp6.errors_sent");
    for _ in 0..10 {
        h.advance(Duration::from_secs(1));
        (0..500).for_each(|n| h.inject(EM0, flood(attackers(n))));
        h.sent(EM0);
    }
    let sent = h.counter("inet.icmp6.errors_sent") - before;
    assert!((10..=1_100).contains(&sent), "{sent}");
    h.stack.sysctls.icmp6_rate.set(0);
    (0..500).for_each(|n| h.inject(EM0, flood(attackers(n))));
    assert_eq!(sent6(&h, EM0).len(), 500, "no limit");
}

/// RFC 4443 2.2: the error comes from (a) the destination of the packet, or (d) the source address
/// that is selected for the reply.
fn an_error_is_sent_from_the_address_that_was_addressed<L: Locks>() {
    let h = router6::<L>();
    for dst in [ME6, ME26, link_local(ME)] {
        assert_eq!(assert_error(&h, &P6::new(PEER6, dst, 253, *b"????"), 4, 1, 6).src, dst);
    }
    assert_eq!(assert_error(&h, &echo_from(PEER6, FAR6, b"on").hop(1), 3, 0, 0).src, ME6);
    // A sender with a link-local address gets an error from a link-local address.
    assert_eq!(
        assert_error(&h, &P6::new(link_local(PEER), link_local(ME), 253, *b"????"), 4, 1, 6).src,
        link_local(ME)
    );
    assert_eq!(assert_error(&h, &echo_from(link_local(PEER), FAR6, b"on"), 1, 2, 0).src, link_local(ME));
}

/// Sends an echo request of `len` bytes in fragments from PEER; returns the number of packets in
/// the reply, none longer than `mtu`.
fn answers<L: Locks>(h: &Host<L>, len: usize, mtu: usize) -> usize {
    let whole = echo_from(PEER6, ME6, &vec![7; len]);
    (0..whole.body.len()).step_by(1024).for_each(|off| h.inject(EM0, whole.fragment(len as u32, off, 1024).by_peer()));
    let got = sent6(h, EM0);
    assert!(
        got.iter().all(|part| 40 + part.body.len() <= mtu),
        "{:?}",
        got.iter().map(|p| 40 + p.body.len()).collect::<Vec<_>>()
    );
    got.len()
}

fn too_big(mtu: u32, about: &P6) -> P6 {
    error6(OTHER6, ME6, 2, 0, mtu, &about.packet()[..])
}

fn our_echo() -> P6 {
    icmp6(ME6, PEER6, 129, 0, &[7; 1300])
}

/// RFC 8201 4: the reduced size is used from then on.
fn a_lower_path_mtu_is_accepted_for_our_own_packets<L: Locks>() {
    let h = host6::<L>();
    assert_eq!(answers(&h, 1400, 1500), 1);
    // Errors are ignored if the quoted packet is not from us, goes to an unknown destination, or is
    // no reply of ours.
    let strangers = [
        icmp6(OTHER6, PEER6, 129, 0, &[7; 1300]),
        udp6((ME6, 5), (PEER6, 9), &[7; 1300]),
        P6::new(ME6, PEER6, TCP, vec![0; 1300]),
        P6::new(NOWHERE, PEER6, ICMP6, vec![129; 1300]),
    ];
    for about in &strangers {
        assert_silent(&h, &too_big(1300, about));
    }
    assert_eq!((answers(&h, 1400, 1500), h.counter("inet.ip6.paths_narrowed")), (1, 0));
    assert_silent(&h, &too_big(1400, &our_echo()));
    assert_eq!((answers(&h, 1400, 1400), h.counter("inet.ip6.paths_narrowed")), (2, 1));
    assert_eq!(answers(&h, 1352, 1400), 1);
    // The path MTU to other destinations has not changed.
    h.inject(EM0, echo_from(OTHER6, ME6, &[7; 1400]).frame(OTHER.mac, ME.mac));
    assert_eq!(sent6_one(&h, EM0).body.len(), 1408);
}

/// RFC 8201 4: "less than the IPv6 minimum link MTU, it must discard it". RFC 8021: no atomic
/// fragments are created either.
fn no_path_mtu_below_1280_is_accepted<L: Locks>() {
    let h = host6::<L>();
    for mtu in [0, 1, 68, 576, 1279] {
        assert_silent(&h, &too_big(mtu, &our_echo()));
        assert_eq!(answers(&h, 1400, 1500), 1, "the error is discarded, and its MTU is not rounded up");
        let got = assert_answered(&h, &echo_from(PEER6, ME6, b"small"));
        assert_eq!(got.next, ICMP6, "no fragment header");
    }
    assert_eq!(h.counter("inet.ip6.paths_narrowed"), 0);
    assert_silent(&h, &too_big(1280, &our_echo()));
    assert_eq!((answers(&h, 1232, 1280), answers(&h, 1233, 1280)), (1, 2));
}

fn errors_do_not_raise_the_path_mtu<L: Locks>() {
    let h = host6::<L>();
    for mtu in [1500, 1501, 9000, 0xffff, 0x1_0500, u32::MAX] {
        assert_silent(&h, &too_big(mtu, &our_echo()));
        assert_eq!(answers(&h, 3000, 1500), 3);
    }
    assert_eq!(h.counter("inet.ip6.paths_narrowed"), 0);
    assert_silent(&h, &too_big(1300, &our_echo()));
    assert_silent(&h, &too_big(1400, &our_echo()));
    assert_eq!(answers(&h, 1400, 1300), 2, "an error can only lower the path MTU");
}

/// RFC 8201 4: not before 5 minutes, recommended 10.
fn a_lower_path_mtu_expires<L: Locks>() {
    let h = host6::<L>();
    assert_silent(&h, &too_big(1300, &our_echo()));
    h.pass(Duration::from_secs(300));
    assert_eq!(answers(&h, 1400, 1300), 2);
    h.pass(Duration::from_secs(601));
    assert_eq!(answers(&h, 1400, 1500), 1);
}

/// The cache of path MTUs has a limited size.
fn path_mtu_entries_are_bounded<L: Locks>() {
    let h = host6::<L>();
    for n in 0..5_000u32 {
        let dst = Ipv6Addr::from_bits(0x2001_0db8_0000_0099 << 64 | u128::from(n));
        h.inject(EM0, too_big(1300, &icmp6(ME6, dst, 129, 0, &[7; 32])).by_peer());
    }
    let (narrowed, evicted) = (h.counter("inet.ip6.paths_narrowed"), h.counter("inet.ip6.path_mtus_evicted"));
    assert!(narrowed - evicted <= 1_024, "{narrowed} - {evicted}");
    assert_alive(&h);
}
