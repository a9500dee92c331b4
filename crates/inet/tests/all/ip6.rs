//! IPv6 input, delivery and forwarding of packets from other hosts.

use crate::common::six::*;
use crate::common::*;
use linerate_inet::ip6::IfaceAddr6;
use linerate_inet::route::Via6;
use lock::Locks;
use std::net::Ipv6Addr;
use wire::icmp6::{Problem, parameter, time_exceeded, unreachable};
use wire::ip6::{self, ALL_NODES};
use wire::{Mac, Proto};

conversations! {
    an_iface_without_an_address_sends_no_ip6
    an_echo_is_answered_by_the_frame_it_came_in
    wrong_lengths_and_versions_are_dropped
    martians_are_dropped
    a_group_is_answered_from_our_own_address
    options_are_handled_by_their_type_bits
    hop_by_hop_must_be_the_first_header
    at_most_eight_extension_headers_are_parsed
    a_source_route_is_not_followed
    unknown_next_headers_are_reported
    a_router_forwards_with_a_decremented_hop_limit
    an_expired_hop_limit_is_reported
    packets_do_not_leave_their_scope
    reject_and_blackhole_routes
    a_packet_too_big_for_the_next_link_is_reported
    a_host_forwards_nothing
    loopback_carries_both_families
}

pub fn param(code: u8, pointer: u32) -> Problem {
    Problem::Parameter { code, pointer }
}

fn an_iface_without_an_address_sends_no_ip6<L: Locks>() {
    let h = Host::<L>::new();
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"x").between(PEER6, ME6));
    h.assert_counters("in 1, link.ether.in.unknown_type 1");
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(ME6.ip, 64)).unwrap();
    h.advance_secs(2);
    h.sent(EM0);
    h.stack.remove_addr6(h.cx(), EM0, ME6.ip);
    h.stack.remove_addr6(h.cx(), EM0, ip6::link_local(ME6.mac));
    h.forget_counters();
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"x").between(PEER6, ME6));
    h.assert_counters("in 1, link.ether.in.unknown_type 1");
    assert!(h.stack.routes6(h.cx()).is_empty());
}

fn an_echo_is_answered_by_the_frame_it_came_in<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    h.forget_counters();
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"hello").class(0xb9).between(PEER6, ME6));
    let (link, header, payload) = h.sent6_one(EM0);
    assert_eq!((link.src, link.dst, header.src, header.dst), (ME6.mac, PEER6.mac, ME6.ip, PEER6.ip));
    assert_eq!((header.hop_limit, header.traffic_class, &payload[8..]), (64, 0xb9, &b"hello"[..]));
    h.assert_counters(
        "in 1, out 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.echoes_answered 1, ip6.sent 1",
    );
    let mut broken = ping6(PEER6.ip, ME6.ip, b"hello");
    broken.payload[9] ^= 1;
    h.inject(EM0, broken.between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.in.bad_checksum 1");
    // Link padding is not part of the packet.
    let padded = [ping6(PEER6.ip, ME6.ip, b"").between(PEER6, ME6), vec![0xee; 9]].concat();
    h.inject(EM0, padded);
    assert_eq!(h.sent6_one(EM0).2.len(), 8);
}

fn wrong_lengths_and_versions_are_dropped<L: Locks>() {
    let h = Host::<L>::six();
    let good = ping6(PEER6.ip, ME6.ip, &[7; 100]).between(PEER6, ME6);
    for len in 14..good.len() {
        h.inject(EM0, &good[..len]);
    }
    let n = (good.len() - 14) as u64;
    h.assert_counters(&format!("in {n}, ip6.received {n}, ip6.in.malformed {n}"));
    let mut other = good.clone();
    other[14] = 0x45;
    h.inject(EM0, other);
    h.assert_counters("in 1, ip6.received 1, ip6.in.bad_version 1");
    // In a jumbogram, the payload length is 0, so the Hop-by-Hop header is beyond the end of the
    // packet.
    let mut jumbo =
        Ip6::new(PEER6.ip, ME6.ip, Proto::UDP, [0; 8]).with(Proto::HOP_BY_HOP, &[0, 0, 0xc2, 4, 0, 1, 0, 0]);
    jumbo.header.payload_len = 0;
    h.inject(EM0, jumbo.between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.in.malformed 1");
    h.sent_nothing(EM0);
}

fn martians_are_dropped<L: Locks>() {
    let h = Host::<L>::router6();
    let of = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    for (src, dst, why) in [
        ("ff02::1", "fd00::1", "martian_source"),
        ("::1", "fd00::1", "martian_source"),
        ("::", "fd00::1", "martian_source"),
        ("::ffff:10.0.0.2", "fd00::1", "martian_source"),
        ("fd00::2", "::", "martian_destination"),
        ("fd00::2", "::1", "martian_destination"),
        ("fd00::2", "::ffff:10.0.0.1", "martian_destination"),
        ("fd00::1", "fd00::1", "own_source"),
        ("fd00::1", "2001:db8::7", "own_source"),
        ("fd01::1", "fd00::1", "own_source"),
    ] {
        h.inject(EM0, ping6(of(src), of(dst), b"x").between(PEER6, ME6));
        h.assert_counters(&format!("in 1, ip6.received 1, ip6.in.{why} 1"));
    }
    for (dst, why) in [
        ("ff01::1", "martian_destination"),
        ("ff00::1", "martian_destination"),
        ("ff02::9", "not_member"),
        ("ff0e::1", "not_member"),
    ] {
        let dst = of(dst);
        h.inject(EM0, ping6(PEER6.ip, dst, b"x").frame(Mac::multicast6(dst), PEER6.mac));
        h.assert_counters(&format!("in 1, ip6.received 1, ip6.in.{why} 1"));
    }
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"x").frame(Mac::multicast6(ALL_NODES), PEER6.mac));
    h.assert_counters("in 1, ip6.received 1, ip6.in.link_broadcast 1");
    h.inject(EM0, ping6(PEER6.ip, of("fe80::7"), b"x").between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.in.not_here 1");
    [EM0, EM1].into_iter().for_each(|id| h.sent_nothing(id));
}

fn a_group_is_answered_from_our_own_address<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.near, PEER6.mac);
    h.forget_counters();
    h.inject(EM0, ping6(PEER6.near, ALL_NODES, b"who").frame(Mac::multicast6(ALL_NODES), PEER6.mac));
    let (_, header, _) = h.sent6_one(EM0);
    assert_eq!((header.src, header.dst), (ip6::link_local(ME6.mac), PEER6.near));
    h.assert_counters(
        "in 1, out 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.echoes_answered 1, ip6.sent 1",
    );
    // No error is sent about a packet to a group, except about an option that must be understood
    // (RFC 4443 2.4 e).
    h.inject(EM0, Ip6::new(PEER6.near, ALL_NODES, Proto(200), [0; 8]).frame(Mac::multicast6(ALL_NODES), PEER6.mac));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.errors_forbidden 1, ip6.in.unknown_next_header 1");
    h.inject(EM0, udp6((PEER6.near, 5), (ALL_NODES, 9), b"").frame(Mac::multicast6(ALL_NODES), PEER6.mac));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, udp.received 1, udp.in.no_socket_broadcast 1");
    for (kind, reported) in [(0x85, true), (0xc5, false), (0x45, false)] {
        let options = [0, 0, kind, 4, 0, 0, 0, 0];
        let requested = ping6(PEER6.near, ALL_NODES, b"x").with(Proto::DEST_OPTIONS, &options);
        h.inject(EM0, requested.frame(Mac::multicast6(ALL_NODES), PEER6.mac));
        assert_eq!(h.sent6(EM0).len(), usize::from(reported), "{kind:#x}");
    }
    assert_eq!(h.counter("inet.ip6.in.unknown_option"), 3);
}

fn options_are_handled_by_their_type_bits<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    for proto in [Proto::HOP_BY_HOP, Proto::DEST_OPTIONS] {
        for (kind, answer) in
            [(0x05, Ok(())), (0x1e, Ok(())), (0x5e, Err(None)), (0x9e, Err(Some(45))), (0xde, Err(Some(45)))]
        {
            h.wait_a_second();
            h.forget_counters();
            // Two bytes of padding before the option and one after it.
            let options = [0, 0, 0, 1, 0, kind, 1, 0];
            h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"x").with(proto, &options).between(PEER6, ME6));
            let sent = h.sent6(EM0);
            match answer {
                Ok(()) => assert!(sent.len() == 1 && sent[0].2[0] == 129, "{kind:#x}"),
                Err(pointer) => {
                    let said = sent.first().map(|(_, header, payload)| error_of(header, payload).0);
                    assert_eq!(said, pointer.map(|at| param(parameter::OPTION, at)), "{kind:#x}");
                    assert_eq!(h.counter("inet.ip6.in.unknown_option") % 3, u64::from(kind >> 6) % 3);
                }
            }
        }
        let long = [0, 0, 1, 200, 0, 0, 0, 0];
        h.forget_counters();
        h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"x").with(proto, &long).between(PEER6, ME6));
        h.sent_nothing(EM0);
        assert!(h.counter("inet.ip6.in.malformed") > 0, "{proto}");
    }
}

fn hop_by_hop_must_be_the_first_header<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    h.forget_counters();
    let said = || {
        let (_, header, payload) = h.sent6_one(EM0);
        assert_eq!((header.dst, &payload[..2], &payload[4..8]), (PEER6.ip, &[4, 1][..], &[0, 0, 0, 40][..]));
        h.assert_counters(
            "in 1, out 1, ip6.received 1, ip6.in.bad_extension 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1",
        );
    };
    let pad = [0, 0, 1, 4, 0, 0, 0, 0];
    let late = ping6(PEER6.ip, ME6.ip, b"x").with(Proto::HOP_BY_HOP, &pad).with(Proto::DEST_OPTIONS, &pad);
    h.inject(EM0, late.between(PEER6, ME6));
    said();
    let twice = ping6(PEER6.ip, ME6.ip, b"x").with(Proto::HOP_BY_HOP, &pad).with(Proto::HOP_BY_HOP, &pad);
    h.inject(EM0, twice.between(PEER6, ME6));
    said();
}

fn at_most_eight_extension_headers_are_parsed<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    h.forget_counters();
    let chain =
        |n| (0..n).fold(ping6(PEER6.ip, ME6.ip, b"x"), |ip, _| ip.with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]));
    h.inject(EM0, chain(8).between(PEER6, ME6));
    assert_eq!(h.sent6_one(EM0).2[0], 129);
    h.forget_counters();
    for n in [9, 100] {
        h.inject(EM0, chain(n).between(PEER6, ME6));
        h.assert_counters("in 1, ip6.received 1, ip6.in.bad_extension 1");
    }
    h.sent_nothing(EM0);
}

/// CVE-2007-2242, RFC 5095.
fn a_source_route_is_not_followed<L: Locks>() {
    let h = Host::<L>::router6();
    for ty in [0, 4] {
        let routed = |left| {
            let route = [&[0, 2, ty, left, 0, 0, 0, 0][..], &BEYOND6.octets()].concat();
            ping6(PEER6.ip, ME6.ip, b"x").with(Proto::ROUTING, &route).between(PEER6, ME6)
        };
        h.inject(EM0, routed(1));
        let (_, header, payload) = h.sent6_one(EM0);
        assert_eq!(error_of(&header, &payload).0, param(parameter::FIELD, 42), "{ty}");
        h.sent_nothing(EM1);
        h.assert_counters(
            "in 1, out 1, ip6.received 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1, ip6.in.routing_header 1",
        );
        h.inject(EM0, routed(0));
        assert_eq!(h.sent6_one(EM0).2[0], 129, "no segment is left, so the header is skipped");
        h.forget_counters();
    }
}

fn unknown_next_headers_are_reported<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    h.forget_counters();
    let reported = |ip: Ip6, problem, reason: &str| {
        h.wait_a_second();
        h.inject(EM0, ip.between(PEER6, ME6));
        let (_, header, payload) = h.sent6_one(EM0);
        assert_eq!((header.src, header.dst), (ME6.ip, PEER6.ip));
        assert_eq!(error_of(&header, &payload), (problem, ip.packet()));
        h.assert_counters(&format!(
            "in 1, out 1, ip6.received 1, ip6.delivered 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1, {reason} 1"
        ));
    };
    let unknown = Ip6::new(PEER6.ip, ME6.ip, Proto(200), [1; 20]);
    reported(unknown.clone(), param(parameter::NEXT_HEADER, 6), "ip6.in.unknown_next_header");
    let behind = unknown.with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]);
    reported(behind, param(parameter::NEXT_HEADER, 40), "ip6.in.unknown_next_header");
    for proto in [Proto::IPIP, Proto::IPV6, Proto::GRE, Proto::ESP] {
        reported(
            Ip6::new(PEER6.ip, ME6.ip, proto, [1; 60]),
            param(parameter::NEXT_HEADER, 6),
            "ip6.in.unknown_next_header",
        );
    }
    let port = Problem::Unreachable { code: unreachable::PORT };
    reported(udp6((PEER6.ip, 5), (ME6.ip, 9), b""), port, "udp.received 1, udp.in.no_socket");
    // An authentication header cannot be verified.
    let auth = ping6(PEER6.ip, ME6.ip, b"x")
        .with(Proto::AUTH, &[0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
    h.wait_a_second();
    h.inject(EM0, auth.between(PEER6, ME6));
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(error_of(&header, &payload).0, param(parameter::NEXT_HEADER, 6));
    h.forget_counters();
    // A packet with an invalid checksum is dropped, and a UDP datagram must have a checksum.
    let mut wrong = udp6((PEER6.ip, 5), (ME6.ip, 9), b"");
    wrong.payload[0] ^= 1;
    h.inject(EM0, wrong.between(PEER6, ME6));
    let mut none = udp6((PEER6.ip, 5), (ME6.ip, 9), b"");
    none.payload[6..8].fill(0);
    h.inject(EM0, none.between(PEER6, ME6));
    h.assert_counters("in 2, ip6.received 2, ip6.delivered 2, udp.received 2, udp.in.bad_checksum 2");
    h.inject(EM0, Ip6::new(PEER6.ip, ME6.ip, Proto::NO_NEXT, [9; 5]).between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, ip6.in.no_next_header 1");
}

fn a_router_forwards_with_a_decremented_hop_limit<L: Locks>() {
    let h = Host::<L>::router6();
    h.inject(EM0, ping6(PEER6.ip, BEYOND6, b"on").class(3).between(PEER6, ME6));
    let (link, header, payload) = h.sent6_one(EM1);
    assert_eq!((link.src, link.dst), (MY6.mac, FAR6.mac));
    let sent = ping6(PEER6.ip, BEYOND6, b"on").class(3);
    assert_eq!((header, payload), (ip6::Header { hop_limit: 63, ..sent.header }, sent.payload));
    h.assert_counters("in 1, out 1, ip6.received 1, ip6.forwarded 1");
    // A router ignores the payload and all extension headers but the first.
    let odd = Ip6::new(PEER6.ip, FAR6.ip, Proto(200), [1; 20])
        .with(Proto::ROUTING, &[0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    h.inject(EM0, odd.between(PEER6, ME6));
    assert_eq!(h.sent6(EM1).len(), 1);
    // Unknown neighbors are solicited, and the waiting packets are then sent.
    h.forget_counters();
    let next: Ipv6Addr = "fd01::9".parse().unwrap();
    h.inject(EM0, ping6(PEER6.ip, next, b"1").between(PEER6, ME6));
    let (link, header, _) = h.sent6_one(EM1);
    assert_eq!(
        (link.dst, header.dst, header.hop_limit),
        (Mac::multicast6(ip6::solicited_node(next)), ip6::solicited_node(next), 255)
    );
    h.assert_counters(
        "in 1, out 1, ip6.received 1, ip6.forwarded 1, neigh.created 1, audit.made 1, ip6.sent 1, nd.solicits_sent 1",
    );
    h.pass(clock::Duration::from_secs(5));
    let (_, header, payload) = h.sent6_one(EM0);
    let (problem, quoted) = error_of(&header, &payload);
    assert_eq!((problem, quoted[7]), (Problem::Unreachable { code: unreachable::ADDRESS }, 63));
    assert_eq!((h.sent6(EM1).len(), h.counter("inet.neigh.failed")), (2, 1));
}

fn an_expired_hop_limit_is_reported<L: Locks>() {
    let h = Host::<L>::router6();
    for hops in [0, 1] {
        h.inject(EM0, ping6(PEER6.ip, BEYOND6, b"on").hops(hops).between(PEER6, ME6));
        let (_, header, payload) = h.sent6_one(EM0);
        assert_eq!(error_of(&header, &payload).0, Problem::TimeExceeded { code: time_exceeded::HOP_LIMIT });
        assert_eq!((header.src, header.dst), (ME6.ip, PEER6.ip));
        h.assert_counters(
            "in 1, out 1, ip6.received 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1, ip6.forward.hop_limit_exceeded 1",
        );
    }
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"here").hops(0).between(PEER6, ME6));
    assert_eq!(h.sent6_one(EM0).2[0], 129, "a packet for this host may have any hop limit");
    // The rate never exceeds the limit; one network gets a quarter of it.
    h.forget_counters();
    for _ in 0..100 {
        h.inject(EM0, ping6(PEER6.ip, BEYOND6, b"on").hops(1).between(PEER6, ME6));
    }
    let sent = h.sent6(EM0).len() as u64;
    assert!((20..=35).contains(&sent), "{sent}");
    assert_eq!(h.counter("inet.icmp6.errors_limited"), 100 - sent);
    h.forget_counters();
    let error =
        error6(PEER6.ip, BEYOND6, Problem::TimeExceeded { code: 0 }, &ping6(BEYOND6, PEER6.ip, b"12345678").packet());
    h.inject(EM0, error.hops(1).between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, icmp6.errors_forbidden 1, ip6.forward.hop_limit_exceeded 1");
}

fn packets_do_not_leave_their_scope<L: Locks>() {
    let h = Host::<L>::router6();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.near, PEER6.mac);
    h.forget_counters();
    h.inject(EM0, ping6(PEER6.near, BEYOND6, b"on").between(PEER6, ME6));
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(error_of(&header, &payload).0, Problem::Unreachable { code: unreachable::BEYOND_SCOPE });
    h.assert_counters(
        "in 1, out 1, ip6.received 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1, ip6.forward.beyond_scope 1",
    );
    // Our link-local address is valid only on its own link.
    let (near, far) = (ip6::link_local(ME6.mac), ip6::link_local(MY6.mac));
    h.inject(EM0, ping6(PEER6.near, near, b"here").between(PEER6, ME6));
    assert_eq!(h.sent6_one(EM0).1.src, near);
    h.forget_counters();
    h.inject(EM0, ping6(PEER6.near, far, b"there").between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.in.not_here 1");
}

fn reject_and_blackhole_routes<L: Locks>() {
    let h = Host::<L>::router6();
    let requested = |dst: &str| {
        h.wait_a_second();
        h.inject(EM0, ping6(PEER6.ip, dst.parse().unwrap(), b"on").between(PEER6, ME6));
        let sent = h.sent6(EM0);
        sent.first().map(|(_, header, payload)| error_of(header, payload).0)
    };
    h.route6("2001:db8:1::/48", Via6::Reject);
    h.route6("2001:db8:2::/48", Via6::Prohibit);
    h.route6("2001:db8:3::/48", Via6::Blackhole);
    let code = |code| Some(Problem::Unreachable { code });
    assert_eq!(requested("3fff::1"), code(unreachable::NO_ROUTE));
    assert_eq!(requested("2001:db8:1::1"), code(unreachable::NO_ROUTE));
    assert_eq!(requested("2001:db8:2::1"), code(unreachable::ADMIN_PROHIBITED));
    assert_eq!(requested("2001:db8:3::1"), None);
    let counted = ["no_route", "prohibited"].map(|why| h.counter(&format!("inet.ip6.forward.{why}")));
    assert_eq!(counted, [3, 1]);
    h.sent_nothing(EM1);
}

fn a_packet_too_big_for_the_next_link_is_reported<L: Locks>() {
    let h = Host::<L>::router6();
    h.stack.set_mtu(EM1, 1400);
    h.forget_counters();
    let ping = |len| ping6(PEER6.ip, BEYOND6, &vec![7; len]);
    h.inject(EM0, ping(1400 - 48).between(PEER6, ME6));
    assert_eq!(h.sent6(EM1).len(), 1);
    h.forget_counters();
    h.inject(EM0, ping(1400 - 47).between(PEER6, ME6));
    h.sent_nothing(EM1);
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(error_of(&header, &payload).0, Problem::TooBig { mtu: 1400 });
    assert_eq!(40 + payload.len(), 1280, "as much of the packet as fits");
    h.assert_counters(
        "in 1, out 1, ip6.received 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1, ip6.forward.too_big 1",
    );
}

fn a_host_forwards_nothing<L: Locks>() {
    let h = Host::<L>::router6();
    h.stack.sysctls.forwarding6.set(0);
    h.inject(EM0, ping6(PEER6.ip, BEYOND6, b"on").between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.in.not_forwarding 1");
}

fn loopback_carries_both_families<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.add_addr6(h.cx(), linerate_inet::iface::LOOPBACK, IfaceAddr6::new(Ipv6Addr::LOCALHOST, 128)).unwrap();
    assert_eq!(
        h.stack.route6_to(h.cx(), Ipv6Addr::LOCALHOST).unwrap().via,
        Via6::Local(linerate_inet::iface::LOOPBACK)
    );
    // An error that this host sends to itself about a packet that it did not send is delivered to
    // no socket.
    h.forget_counters();
    h.inject(EM0, Ip6::new(Ipv6Addr::LOCALHOST, ME6.ip, Proto::UDP, [0; 8]).between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.in.martian_source 1");
}
