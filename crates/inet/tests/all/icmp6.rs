//! Malformed ICMPv6 messages, and packets about which no error may be sent (RFC 4443 2.4).

use crate::common::six::*;
use crate::common::*;
use lock::Locks;
use wire::Proto;
use wire::icmp6::Problem;

conversations! {
    a_quoted_packet_cut_short_is_malformed
    no_error_is_sent_about_errors_or_redirects
    no_error_is_sent_to_the_unspecified_address
    unsolicited_messages_are_ignored
    a_flood_of_echoes_is_bounded
}

fn a_quoted_packet_cut_short_is_malformed<L: Locks>() {
    let h = Host::<L>::six();
    let quoted = ping6(ME6.ip, PEER6.ip, &[7; 40]).packet();
    for len in 0..48 {
        h.inject(EM0, error6(PEER6.ip, ME6.ip, Problem::TooBig { mtu: 1280 }, &quoted[..len]).between(PEER6, ME6));
    }
    h.assert_counters("in 48, ip6.received 48, ip6.delivered 48, icmp6.received 48, icmp6.in.malformed 48");
    for len in 48..quoted.len() {
        h.inject(EM0, error6(PEER6.ip, ME6.ip, Problem::Unreachable { code: 0 }, &quoted[..len]).between(PEER6, ME6));
    }
    let n = quoted.len() - 48;
    h.assert_counters(&format!(
        "in {n}, ip6.received {n}, ip6.delivered {n}, icmp6.received {n}, icmp6.in.consumed {n}"
    ));
}

fn no_error_is_sent_about_errors_or_redirects<L: Locks>() {
    let h = Host::<L>::router6();
    let about = |ip: Ip6| {
        h.inject(EM0, ip.hops(1).between(PEER6, ME6));
        h.assert_counters("in 1, ip6.received 1, icmp6.errors_forbidden 1, ip6.forward.hop_limit_exceeded 1");
    };
    let quoted = ping6(BEYOND6, PEER6.ip, &[7; 40]).packet();
    for problem in
        [Problem::Unreachable { code: 1 }, Problem::TooBig { mtu: 1 }, Problem::Parameter { code: 1, pointer: 6 }]
    {
        about(error6(PEER6.ip, BEYOND6, problem, &quoted));
        about(error6(PEER6.ip, BEYOND6, problem, &quoted).with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]));
    }
    about(Ip6::new(PEER6.ip, BEYOND6, Proto::IPV6_ICMP, [137, 0, 0, 0, 0, 0, 0, 0]));
    about(Ip6::new(PEER6.ip, BEYOND6, Proto::IPV6_ICMP, [99; 8])); // an error type that is not assigned
    // A header chain whose end cannot be found may contain an error.
    about(Ip6::new(PEER6.ip, BEYOND6, Proto::DEST_OPTIONS, [58, 9, 0, 0, 0, 0, 0, 0]));
    // A later fragment cannot be recognized as an error.
    h.inject(EM0, ping6(PEER6.ip, BEYOND6, &[9; 100]).fragment(5, 56, 60).hops(1).between(PEER6, ME6));
    assert_eq!(h.sent6(EM0).len(), 1);
}

fn no_error_is_sent_to_the_unspecified_address<L: Locks>() {
    let h = Host::<L>::six();
    let group = wire::ip6::solicited_node(ME6.ip);
    let mac = wire::Mac::multicast6(group);
    h.inject(EM0, Ip6::new("::".parse().unwrap(), group, Proto(200), [0; 8]).frame(mac, PEER6.mac));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.errors_forbidden 1, ip6.in.unknown_next_header 1");
    h.inject(EM0, ping6("::".parse().unwrap(), group, b"x").frame(mac, PEER6.mac));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.in.ignored 1");
}

fn unsolicited_messages_are_ignored<L: Locks>() {
    let h = Host::<L>::six();
    for ty in [129u8, 139, 140, 200, 255] {
        let mut message = vec![ty, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        wire::icmp6::fill_checksum(PEER6.ip, ME6.ip, &mut message).unwrap();
        h.inject(EM0, Ip6::new(PEER6.ip, ME6.ip, Proto::IPV6_ICMP, message).between(PEER6, ME6));
    }
    h.assert_counters("in 5, ip6.received 5, ip6.delivered 5, icmp6.received 5, icmp6.in.ignored 5");
    for len in 0..8 {
        h.inject(EM0, Ip6::new(PEER6.ip, ME6.ip, Proto::IPV6_ICMP, vec![1; len]).between(PEER6, ME6));
    }
    h.assert_counters("in 8, ip6.received 8, ip6.delivered 8, icmp6.received 8, icmp6.in.malformed 8");
}

fn a_flood_of_echoes_is_bounded<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    h.stack.sysctls.echo_rate.set(10);
    h.forget_counters();
    for _ in 0..30 {
        h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"x").between(PEER6, ME6));
    }
    h.assert_counters(
        "in 30, out 10, ip6.received 30, ip6.delivered 30, icmp6.received 30, icmp6.echoes_answered 10, ip6.sent 10, \
         icmp6.in.rate_limited 20",
    );
}
