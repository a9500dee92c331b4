//! ICMPv6 requests and replies (RFC 4443 2.1, 2.2, 2.4 a, b, 4).

use super::*;

conversations! {
    an_echo_is_answered_with_its_data
    an_echo_to_a_group_is_answered_from_an_address_of_ours
    an_echo_reply_has_a_source_of_matching_scope
    echoes_have_their_own_limit
    an_invalid_message_is_dropped
    unknown_messages_are_ignored
    errors_about_unknown_packets_are_ignored
    a_truncated_quote_is_handled
    invalid_queries_are_ignored
    router_messages_and_redirects_are_ignored_by_default
}

/// RFC 4443 4.1, 4.2: the reply contains the identifier, the sequence number and all data of the
/// request, unmodified. It comes from the address to which the request was sent.
fn an_echo_is_answered_with_its_data<L: Locks>() {
    let h = host6::<L>();
    for len in [0, 1, 2, 3, 56, 1000, 1452] {
        let text: Vec<u8> = (0..len).map(|i| i as u8).collect();
        for dst in [ME6, link_local(ME)] {
            let request = echo_from(PEER6, dst, &text);
            let got = assert_answered(&h, &request);
            assert_eq!((got.src, got.hop, &got.body[4..]), (dst, 64, &request.body[4..]));
        }
    }
    h.assert_counters(
        "in 14, ip6.received 14, ip6.delivered 14, icmp6.received 14, icmp6.echoes_answered 14, ip6.sent 14, out 14",
    );
    // RFC 4443 4.1: the code is 0, but a receiver ignores it.
    assert_answered(&h, &icmp6(PEER6, ME6, 128, 0, &[0; 4]));
}

/// RFC 4443 4.2: "the source address of the reply must be a unicast address of the interface on
/// which the Echo Request was received".
fn an_echo_to_a_group_is_answered_from_an_address_of_ours<L: Locks>() {
    let h = host6::<L>();
    assert_eq!(assert_answered(&h, &echo_from(PEER6, ALL_NODES, b"all")).src, ME6);
    assert_eq!(assert_answered(&h, &echo_from(PEER6, solicited(ME6), b"some")).src, ME6);
    assert_eq!(assert_answered(&h, &echo_from(link_local(PEER), ALL_NODES, b"all")).src, link_local(ME));
    // A group that this host has not joined, and one that only routers join.
    for group in [ALL_ROUTERS, solicited(PEER6), "ff02::5".parse().unwrap(), "ff0e::1".parse().unwrap()] {
        assert_silent(&h, &echo_from(PEER6, group, b"others"));
    }
    assert_eq!(h.counter("inet.ip6.in.not_member"), 4);
}

/// RFC 6724 5 rule 2, RFC 4291 2.5.6: packets for another network do not get a link-local source.
fn an_echo_reply_has_a_source_of_matching_scope<L: Locks>() {
    let h = router6::<L>();
    h.inject(EM0, echo_from(FAR6, ALL_NODES, b"from afar").by_peer());
    let got = sent6_one(&h, EM1);
    assert!(got.is_icmp(129, 0) && got.src.segments()[0] != 0xfe80, "{got:?}");
    // The address of the other iface also answers (RFC 1122's weak host model), but its link-local
    // address does not.
    assert_eq!(assert_answered(&h, &echo_from(PEER6, ME26, b"weak")).src, ME26);
    assert_silent(&h, &echo_from(PEER6, link_local(ME2), b"not on this link"));
    assert_silent(&h, &echo_from(link_local(PEER), link_local(ME2), b"not on this link"));
}

fn echoes_have_their_own_limit<L: Locks>() {
    let h = host6::<L>();
    h.stack.sysctls.echo_rate.set(100);
    for _ in 0..1_000 {
        h.inject(EM0, echo_from(PEER6, ME6, b"flood").by_peer());
    }
    let answered = sent6(&h, EM0).len() as u64;
    assert!((1..=101).contains(&answered), "{answered}");
    assert_eq!(h.counter("inet.icmp6.in.rate_limited"), 1_000 - answered);
    // Errors have a separate limit (RFC 4443 2.4 f).
    assert_error(&h, &P6::new(PEER6, ME6, 253, *b"????"), 4, 1, 6);
    h.advance_secs(1);
    assert_alive(&h);
}

fn an_invalid_message_is_dropped<L: Locks>() {
    let h = host6::<L>();
    let good = echo_from(PEER6, ME6, b"text");
    for bit in 0..16 {
        let mut bad = good.clone();
        bad.body[2 + bit / 8] ^= 1 << (bit % 8);
        assert_silent(&h, &bad);
    }
    // The checksum also covers the pseudo header (RFC 4443 2.3). The same message with another
    // source or destination therefore has an invalid checksum.
    assert_silent(&h, &P6 { src: link_local(PEER), ..good.clone() });
    assert_silent(&h, &good.clone().to(link_local(ME)));
    // A checksum without the pseudo header, as in IPv4's ICMP, is invalid.
    h.assert_counters("in 18, ip6.received 18, ip6.delivered 18, icmp6.received 18, icmp6.in.bad_checksum 18");
    // Messages shorter than any valid message.
    for len in 0..8 {
        for ty in [1, 2, 3, 4, 128, 129, 130, 133, 135, 136, 137, 143] {
            let mut short = icmp6(PEER6, ME6, ty, 0, &[0; 4]).hop(255);
            short.body.truncate(len);
            if len >= 4 {
                short = icmp6(PEER6, ME6, ty, 0, &short.body[4..]).hop(255);
            }
            assert_silent(&h, &short);
        }
    }
    assert_eq!(h.counter("inet.icmp6.echoes_answered"), 0);
    assert_alive(&h);
}

/// RFC 4443 2.4 a: an unknown error is passed to the sender of the quoted packet, if there is one.
/// RFC 4443 2.4 b: an unknown informational message is silently dropped.
fn unknown_messages_are_ignored<L: Locks>() {
    let h = host6::<L>();
    for ty in (0..=255).filter(|ty| !(1..=4).contains(ty) && !(128..=137).contains(ty) && *ty != 143) {
        assert_silent(&h, &icmp6(PEER6, ME6, ty, 0, &[0; 100]));
        assert_silent(&h, &icmp6(PEER6, ALL_NODES, ty, 9, &[0; 4]));
    }
    // A reply without a request.
    assert_silent(&h, &icmp6(PEER6, ME6, 129, 0, &[0; 8]));
    assert_eq!(h.counter("inet.icmp6.errors_sent"), 0);
    assert_alive(&h);
}

/// An error about a packet that this host never sent changes nothing and is not answered.
fn errors_about_unknown_packets_are_ignored<L: Locks>() {
    let h = host6::<L>();
    let never = udp6((OTHER6, 9), (PEER6, 9), b"never").packet();
    let ours = udp6((ME6, 9), (PEER6, 9), b"no such socket").packet();
    for quoted in [&never, &ours] {
        for (ty, code) in
            [(1, 0), (1, 1), (1, 3), (1, 4), (1, 6), (2, 0), (3, 0), (3, 1), (4, 0), (4, 1), (4, 2), (1, 255), (4, 255)]
        {
            assert_silent(&h, &error6(PEER6, ME6, ty, code, 1300, quoted));
            assert_silent(&h, &error6(PEER6, ALL_NODES, ty, code, 1300, quoted));
        }
    }
    assert_eq!((h.counter("inet.ip6.paths_narrowed"), h.counter("inet.icmp6.errors_sent")), (0, 0));
    assert_alive(&h);
}

fn a_truncated_quote_is_handled<L: Locks>() {
    let h = host6::<L>();
    let chains = [
        echo_from(ME6, PEER6, b"text").packet(),
        echo_from(ME6, PEER6, b"text").options(DEST, &[]).options(HBH, &[]).packet(),
        echo_from(ME6, PEER6, &[7; 100]).fragment(1, 48, 40).packet(),
        P6::new(ME6, PEER6, DEST, vec![DEST, 255]).packet(),
        P6::new(ME6, PEER6, 41, echo_from(ME6, PEER6, b"in").packet()).packet(),
    ];
    for chain in &chains {
        for len in 0..chain.len() {
            for ty in 1..=4 {
                h.inject(EM0, error6(PEER6, ME6, ty, 0, 1400, &chain[..len]).by_peer());
            }
        }
    }
    sent6_nothing(&h, EM0);
    assert_alive(&h);
}

/// RFC 3810 5: a query must come from a link-local address, with hop limit 1 and a router alert.
/// RFC 3810 5.1.3, 6.
fn invalid_queries_are_ignored<L: Locks>() {
    let h = host6::<L>();
    let query = |src, dst| {
        icmp6(src, dst, 130, 0, &[&[0, 100, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat())
            .hop(1)
            .options(HBH, &[5, 2, 0, 0])
    };
    let reports = |h: &Host<L>| {
        h.advance_secs(1);
        h.advance_secs(10);
        let reports = h.counter("inet.mld.reports_sent");
        h.sent(EM0);
        h.forget_counters();
        reports
    };
    let before = reports(&h);
    let good = query(link_local(PEER), ALL_NODES);
    let alertless = icmp6(link_local(PEER), ALL_NODES, 130, 0, &[0; 24]).hop(1);
    for bad in
        [query(PEER6, ALL_NODES), query(NOWHERE, ALL_NODES), good.clone().hop(64), good.clone().hop(255), alertless]
    {
        h.inject(EM0, bad.by_peer());
        assert_eq!(reports(&h), before, "{bad:?}");
    }
    h.inject(EM0, good.by_peer());
    h.advance_secs(1);
    h.advance_secs(10);
    assert!(h.counter("inet.mld.reports_sent") > before);
    // A report contains the groups. It has a hop limit of 1 and a router alert, and is sent from
    // the link-local address to ff02::16 (RFC 3810 5.2.13, 5.2.14).
    let reports: Vec<_> = h.sent(EM0).into_iter().filter(|frame| frame[20] == HBH).collect();
    assert!(!reports.is_empty());
    for frame in &reports {
        let got = Got::of(Mac(frame[..6].try_into().unwrap()), &frame[14..]);
        assert_eq!((got.hop, got.src, got.dst), (1, link_local(ME), "ff02::16".parse::<Ipv6Addr>().unwrap()));
        assert_eq!(got.body[..8], [ICMP6, 0, 5, 2, 0, 0, 1, 0], "RFC 2711: router alert, value 0");
        assert_eq!(sum(got.src, got.dst, ICMP6, &got.body[8..]), 0xffff);
        let groups: Vec<_> =
            got.body[16..].chunks(20).map(|r| Ipv6Addr::from(<[u8; 16]>::try_from(&r[4..20]).unwrap())).collect();
        assert!(groups.contains(&solicited(ME6)) || groups.contains(&solicited(link_local(ME))), "{groups:?}");
        assert!(!groups.contains(&ALL_NODES), "RFC 3810 6: never reported");
    }
    assert_alive(&h);
}

/// By default, addresses and routes are configured manually, so that a flood of messages fills no
/// table.
fn router_messages_and_redirects_are_ignored_by_default<L: Locks>() {
    let h = host6::<L>();
    let routes = h.stack.routes6(h.cx());
    let addrs = h.stack.iface(EM0).unwrap().addrs6(h.cx());
    let prefix = |n: u16| {
        let mut option = vec![3, 4, 64, 0xc0];
        option.extend([0xff; 8]);
        option.extend([0; 4]);
        option.extend(on(n, 0).octets());
        option
    };
    for n in 0..200 {
        let options = [link_option(1, PEER.mac), prefix(n), vec![5, 1, 0, 0, 0, 0, 5, 0]].concat();
        let advert =
            icmp6(link_local(PEER), ALL_NODES, 134, 0, &[&[1, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0][..], &options].concat());
        assert_silent(&h, &advert.hop(255));
        let redirect = [&[0; 4], &link_local(OTHER).octets()[..], &on(n, 9).octets()].concat();
        assert_silent(&h, &icmp6(link_local(PEER), ME6, 137, 0, &redirect).hop(255));
        assert_silent(&h, &icmp6(link_local(PEER), ALL_ROUTERS, 133, 0, &[0; 4]).hop(255));
    }
    assert_eq!((h.stack.routes6(h.cx()), h.stack.iface(EM0).unwrap().addrs6(h.cx())), (routes, addrs));
    assert_eq!(h.counter("inet.nd.ignored"), 400, "a host does not join ff02::2");
    assert_eq!(
        assert_answered(&h, &echo_from(PEER6, ME6, b"hop limit")).hop,
        64,
        "RFC 8021's kind of trick does nothing"
    );
    // CVE-2020-16898: an option of length 0, or of an even length where it must be odd. The message
    // is malformed and must not cause an endless loop.
    for option in [
        vec![0, 0],
        vec![25, 0, 0, 0, 0, 0, 0, 0],
        vec![3, 0, 64, 0xc0],
        vec![1, 0],
        vec![1, 2, 0, 0, 0, 0, 0, 0],
        vec![25, 255],
    ] {
        let advert = icmp6(link_local(PEER), ALL_NODES, 134, 0, &[&[0; 12][..], &option].concat()).hop(255);
        assert_silent(&h, &advert);
    }
    assert_eq!(h.counter("inet.nd.in.malformed"), 6);
    assert_alive(&h);
}
