//! IPv6 source address validation (RFC 3704).

use crate::common::packets::Ip;
use crate::common::six::*;
use crate::common::*;
use linerate_inet::route::{Path, Question, Via6};
use lock::Locks;
use stats::DropReason;
use std::net::Ipv6Addr;
use wire::{Mac, Proto, ip6};

conversations! {
    a_source_without_a_route_is_dropped_by_the_loose_check
    a_source_on_another_link_is_dropped_by_the_strict_check
    a_source_may_arrive_by_each_of_its_paths
    packets_of_link_local_neighbors_are_accepted
    a_burst_of_both_families_is_validated_packet_by_packet
    why_names_the_invalid_source
}

const ELSEWHERE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 1);
const NOWHERE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, 1);
const UNROUTED: Ipv6Addr = Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 1);

/// Creates a router with a route to `ELSEWHERE` through its second link and a blackhole route for
/// `NOWHERE`.
fn router<L: Locks>(validation: i64) -> Host<L> {
    let h = Host::<L>::router6();
    h.stack.add_route6(h.cx(), "2001:db8:77::/48".parse().unwrap(), Via6::Gateway(EM1, FAR6.ip)).unwrap();
    h.stack.add_route6(h.cx(), "2001:db8:bad::/48".parse().unwrap(), Via6::Blackhole).unwrap();
    h.stack.sysctls.source_validation6.set(validation);
    h.forget_counters();
    h
}

fn from(src: Ipv6Addr) -> Vec<u8> {
    udp6((src, 1000), (FAR6.ip, 9), b"x").between(PEER6, ME6)
}

/// RFC 3704 2.4.
fn a_source_without_a_route_is_dropped_by_the_loose_check<L: Locks>() {
    let all = [ELSEWHERE, UNROUTED, NOWHERE, PEER6.ip].map(from);
    let h = router::<L>(0);
    h.inject_all(EM0, all.clone());
    assert_eq!(h.sent6(EM1).len(), 4, "off by default");
    let h = router::<L>(1);
    h.inject_all(EM0, all.clone());
    all.iter().for_each(|frame| h.inject(EM0, frame));
    assert_eq!(h.sent6(EM1).len(), 4);
    h.assert_counters("in 8, out 4, ip6.received 8, ip6.forwarded 4, ip6.in.invalid_source 4");
}

/// RFC 3704 2.2.
fn a_source_on_another_link_is_dropped_by_the_strict_check<L: Locks>() {
    let h = router::<L>(2);
    h.inject_all(EM0, [from(ELSEWHERE), from(PEER6.ip), from(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 99))]);
    h.inject(EM0, udp6((ELSEWHERE, 1), (ME6.ip, 9), b"x").between(PEER6, ME6));
    // Through the slow path, which the options require.
    let options = [0, 0, 1, 4, 0, 0, 0, 0];
    h.inject(EM0, udp6((ELSEWHERE, 1), (FAR6.ip, 9), b"x").with(Proto::DEST_OPTIONS, &options).between(PEER6, ME6));
    assert_eq!(h.sent6_one(EM1).1.src, PEER6.ip);
    h.assert_counters("in 5, out 1, ip6.received 5, ip6.forwarded 1, ip6.in.invalid_source 4");
}

/// RFC 3704 2.3.
fn a_source_may_arrive_by_each_of_its_paths<L: Locks>() {
    let h = router::<L>(2);
    let paths = [(EM1, FAR6.ip), (EM0, PEER6.ip)].map(|(iface, to)| Path { via: Via6::Gateway(iface, to), weight: 1 });
    h.stack.add_paths6(h.cx(), "3fff::/32".parse().unwrap(), &paths).unwrap();
    h.inject(EM0, from(UNROUTED));
    assert_eq!(h.sent6(EM1).len(), 1);
}

/// Link-local sources and the unspecified address have no routes.
fn packets_of_link_local_neighbors_are_accepted<L: Locks>() {
    let h = router::<L>(2);
    let near = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
    for (src, link) in [(near, Some(PEER6.mac)), (Ipv6Addr::UNSPECIFIED, None)] {
        let group = ip6::solicited_node(ME6.ip);
        h.inject(EM0, solicit(src, group, ME6.ip, link).frame(Mac::multicast6(group), PEER6.mac));
        assert!(!h.sent6(EM0).is_empty(), "no answer to {src}");
    }
    assert_eq!(h.counter("inet.ip6.in.invalid_source"), 0);
}

fn a_burst_of_both_families_is_validated_packet_by_packet<L: Locks>() {
    for (four, six) in [(0, 1), (1, 0), (1, 1)] {
        for six_first in [false, true] {
            let h = router::<L>(six);
            h.stack.sysctls.source_validation.set(four);
            let ip4 = |src: [u8; 4]| Ip::udp((src.into(), 1000), (ME.ip, 9), b"x").between(PEER, ME);
            let mut burst = vec![ip4([198, 18, 0, 1]), ip4([10, 0, 0, 77]), from(UNROUTED), from(PEER6.ip)];
            if six_first {
                burst.reverse();
            }
            h.inject_all(EM0, burst);
            assert_eq!(h.sent6(EM1).len(), 2 - six as usize, "{four} {six} {six_first}");
            let dropped = (h.counter("inet.ip4.in.invalid_source"), h.counter("inet.ip6.in.invalid_source"));
            assert_eq!(dropped, (four as u64, six as u64), "{four} {six} {six_first}");
        }
    }
}

fn why_names_the_invalid_source<L: Locks>() {
    let h = router::<L>(2);
    let requested = |src| Question { dst: FAR6.ip, zone: None, from: Some((EM0, src)), proto: 17, l4_ports: (1, 2) };
    assert_eq!(h.stack.why6(h.cx(), &requested(PEER6.ip)).end, None);
    let why = h.stack.why6(h.cx(), &requested(ELSEWHERE));
    assert_eq!(why.end, Some(DropReason::Ip6InvalidSource));
}
