//! Conversations about a router's policies and route selection: RFC 1812 5.2.7, 5.3.7, 5.3.8,
//! 5.3.13, RFC 3704, RFC 2992.

use crate::common::packets::*;
use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use fib::{Prefix, Prefix6};
use linerate_inet::iface::IfaceId;
use linerate_inet::route::{Path, Question, Via};
use lock::Locks;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use wire::Mac;
use wire::arp::Op;
use wire::icmp4::{ty, unreachable};

conversations! {
    a_route_is_recorded_and_a_time_is_stamped
    an_invalid_option_drops_the_packet
    a_bad_option_is_reported_with_its_offset
    the_route_type_is_checked_before_the_ttl
    an_error_has_internetwork_control_precedence
    martian_sources_and_destinations_are_not_forwarded
    a_source_without_a_route_is_dropped_if_validated
    a_source_on_another_link_is_dropped_if_validated
    a_source_may_come_by_any_of_several_paths
    a_prohibited_destination_is_reported
    flows_are_spread_over_paths_and_keep_their_path
    fragments_take_the_path_of_their_first
    flows_are_spread_by_weight
    a_dead_gateway_is_avoided_until_it_answers
    received_packets_are_counted_by_route
    our_own_packets_take_one_path_per_destination
    adjacencies_are_kept_when_routes_change
    why_explains_every_step
}

const NET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

fn onward(dst: Ipv4Addr, payload: &[u8]) -> Ip {
    Ip::udp((PEER.ip, 1000), (dst, 9), payload)
}

/// RFC 1812 5.3.13.5 and 5.3.13.6.
fn a_route_is_recorded_and_a_time_is_stamped<L: Locks>() {
    let h = Host::<L>::router();
    let options = [7, 11, 8, 9, 9, 9, 9, 0, 0, 0, 0, 1, 68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    h.inject(EM0, onward(FAR.ip, &[3; 8]).options(&options).ttl(9).between(PEER, ME));
    let sent = h.sent_one(EM1);
    let millis = (1u32 << 31 | (h.now().nanos() / 1_000_000) as u32).to_be_bytes();
    let mut expected = vec![7, 11, 12, 9, 9, 9, 9, 10, 0, 1, 1, 1, 68, 12, 13, 1, 10, 0, 1, 1];
    expected.extend(millis);
    assert_eq!(sent[34..58], expected);
    assert_eq!(ip_of(&sent).1.ttl, 8);
    h.assert_counters("in 1, out 1, ip4.received 1, ip4.forwarded 1");
}

fn an_invalid_option_drops_the_packet<L: Locks>() {
    let h = Host::<L>::router();
    h.inject(EM0, onward(FAR.ip, &[3; 8]).options(&[68, 8, 9, 0xf0, 0, 0, 0, 0]).between(PEER, ME));
    h.sent_nothing(EM1);
    let (header, _) = icmp_of(&h.sent_one(EM0));
    assert_eq!((header.ty, header.rest), (ty::PARAMETER_PROBLEM, [23, 0, 0, 0]));
    h.assert_counters(
        "in 1, out 1, audit.made 1, ip4.received 1, ip4.sent 1, ip4.in.bad_options 1, icmp4.errors_sent 1",
    );
}

/// RFC 1812 4.3.3.5. By RFC 1812 4.3.2.7, no error is sent to a martian source, about a packet to a
/// group, or about a packet that is neither for us nor to be forwarded.
fn a_bad_option_is_reported_with_its_offset<L: Locks>() {
    let h = Host::<L>::router();
    let twice = [7, 3, 4, 7, 3, 4, 0, 0];
    h.inject(EM0, onward(FAR.ip, &[3; 8]).options(&twice).ttl(1).between(PEER, ME));
    let (header, _) = icmp_of(&h.sent_one(EM0));
    assert_eq!((header.ty, header.code, header.rest), (ty::PARAMETER_PROBLEM, 0, [23, 0, 0, 0]));
    let group = Ipv4Addr::new(224, 0, 0, 1);
    h.inject(EM0, Ip::udp(([240, 0, 0, 1].into(), 1), (FAR.ip, 9), b"x").options(&twice).between(PEER, ME));
    h.inject(EM0, onward(group, b"x").options(&twice).frame(Mac::multicast4(group), PEER.mac));
    h.stack.sysctls.forwarding.set(0);
    h.inject(EM0, onward(FAR.ip, b"x").options(&twice).between(PEER, ME));
    h.sent_nothing(EM0);
    h.sent_nothing(EM1);
}

/// RFC 1812 5.2.1.2: the TTL is checked after the route is known.
fn the_route_type_is_checked_before_the_ttl<L: Locks>() {
    let h = Host::<L>::router();
    h.route("198.51.100.0/24", Via::Blackhole);
    h.inject(EM0, onward(NET, b"x").ttl(1).between(PEER, ME));
    h.sent_nothing(EM0);
    h.route("198.51.100.0/24", Via::Prohibit);
    h.inject(EM0, onward(NET, b"x").ttl(1).between(PEER, ME));
    assert_eq!(icmp_of(&h.sent_one(EM0)).0.ty, ty::UNREACHABLE);
}

/// RFC 1812 4.3.2.5: an error has the type of service of the packet that caused it, and the
/// precedence of internetwork control.
fn an_error_has_internetwork_control_precedence<L: Locks>() {
    let h = Host::<L>::router();
    for (tos, expected) in [(0, 0xc0), (0xb8, 0xd8), (0x03, 0xc0)] {
        h.inject(EM0, onward(FAR.ip, b"x").ttl(1).tos(tos).between(PEER, ME));
        assert_eq!(ip_of(&h.sent_one(EM0)).1.tos, expected);
    }
}

/// RFC 1812 5.3.7.
fn martian_sources_and_destinations_are_not_forwarded<L: Locks>() {
    let h = Host::<L>::router();
    h.route("0.0.0.0/0", Via::Gateway(EM1, FAR.ip));
    for src in [[0, 0, 0, 1], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255, 255, 255, 255]] {
        h.inject(EM0, Ip::udp((src.into(), 1000), (NET, 9), b"x").between(PEER, ME));
    }
    for dst in [[0, 1, 2, 3], [127, 0, 0, 1], [240, 0, 0, 1]] {
        h.inject(EM0, onward(dst.into(), b"x").between(PEER, ME));
    }
    h.sent_nothing(EM1);
    h.sent_nothing(EM0);
    h.assert_counters("in 8, ip4.received 8, ip4.in.martian_source 5, ip4.in.martian_destination 3");
}

/// RFC 3704 2.4: loose check.
fn a_source_without_a_route_is_dropped_if_validated<L: Locks>() {
    let h = Host::<L>::router();
    h.route("203.0.113.0/24", Via::Gateway(EM1, FAR.ip));
    h.route("192.0.2.0/24", Via::Blackhole);
    let from = |src: [u8; 4]| Ip::udp((src.into(), 1000), (FAR.ip, 9), b"x").between(PEER, ME);
    let all = [[203, 0, 113, 1], [198, 18, 0, 1], [192, 0, 2, 1], [10, 0, 0, 77]];
    h.inject_all(EM0, all.map(from));
    assert_eq!(h.sent(EM1).len(), 4, "off by default");
    h.stack.sysctls.source_validation.set(1);
    h.forget_counters();
    h.inject_all(EM0, all.map(from));
    all.map(from).iter().for_each(|frame| h.inject(EM0, frame));
    assert_eq!(h.sent(EM1).len(), 4);
    h.assert_counters("in 8, out 4, ip4.received 8, ip4.forwarded 4, ip4.in.invalid_source 4");
}

/// RFC 3704 2.2: strict check.
fn a_source_on_another_link_is_dropped_if_validated<L: Locks>() {
    let h = Host::<L>::router();
    h.route("203.0.113.0/24", Via::Gateway(EM1, FAR.ip));
    h.stack.sysctls.source_validation.set(2);
    h.forget_counters();
    let from = |src: [u8; 4]| Ip::udp((src.into(), 1000), (FAR.ip, 9), b"x").between(PEER, ME);
    h.inject_all(EM0, [from([203, 0, 113, 1]), from([10, 0, 0, 2]), from([10, 0, 1, 9])]);
    assert_eq!(ip_of(&h.sent_one(EM1)).1.src, PEER.ip);
    h.assert_counters("in 3, out 1, ip4.received 3, ip4.forwarded 1, ip4.in.invalid_source 2");
}

fn a_source_may_come_by_any_of_several_paths<L: Locks>() {
    let h = Host::<L>::router();
    let paths = [Via::Gateway(EM1, FAR_GATEWAY.ip), Via::Gateway(EM0, GATEWAY.ip)].map(|via| Path { via, weight: 1 });
    h.stack.add_paths(h.cx(), prefix("203.0.113.0/24"), &paths).unwrap();
    h.stack.sysctls.source_validation.set(2);
    h.inject(EM0, Ip::udp(([203, 0, 113, 1].into(), 1000), (FAR.ip, 9), b"x").between(PEER, ME));
    assert_eq!(h.sent(EM1).len(), 1);
}

/// RFC 1812 5.2.7.1: an error with code 13 is sent.
fn a_prohibited_destination_is_reported<L: Locks>() {
    let h = Host::<L>::router();
    h.route("198.51.100.0/24", Via::Prohibit);
    h.forget_counters();
    h.inject(EM0, onward(NET, b"x").between(PEER, ME));
    let (header, _) = icmp_of(&h.sent_one(EM0));
    assert_eq!((header.ty, header.code), (ty::UNREACHABLE, unreachable::ADMIN_PROHIBITED));
    h.assert_counters(
        "in 1, out 1, audit.made 1, ip4.received 1, ip4.sent 1, ip4.forward.prohibited 1, icmp4.errors_sent 1",
    );
}

fn gateway(n: u8) -> Station {
    Station { mac: Mac([2, 0, 0, 0, 1, n]), ip: Ipv4Addr::new(10, 0, 1, n) }
}

fn paths<const N: usize>(weights: [(u8, u16); N]) -> [Path; N] {
    weights.map(|(n, weight)| Path { via: Via::Gateway(EM1, gateway(n).ip), weight })
}

/// Creates a router with a route to 198.51.100.0/24 through gateways that are known neighbors.
fn spread<L: Locks, const N: usize>(weights: [(u8, u16); N]) -> Host<L> {
    let h = Host::<L>::router();
    weights.iter().for_each(|(n, _)| h.knows(EM1, gateway(*n)));
    h.stack.add_paths(h.cx(), prefix("198.51.100.0/24"), &paths(weights)).unwrap();
    h.forget_counters();
    h
}

fn flow(n: u16) -> Ip {
    Ip::udp((PEER.ip, 1000 + n), (NET, 9), b"flow")
}

/// Returns the gateway of each of `flows` flows, by the last octet of its address. The packets are
/// sent in bursts.
fn ways<L: Locks>(h: &Host<L>, flows: u16) -> Vec<u8> {
    let mut ways = Vec::new();
    for first in (0..flows).step_by(32) {
        h.inject_all(EM0, (first..flows.min(first + 32)).map(|n| flow(n).between(PEER, ME)));
        let sent = h.sent(EM1);
        let packets = sent.iter().filter(|frame| frame[12..14] == [8, 0]); // without ARP
        ways.extend(packets.map(|frame| ip_of(frame).0.dst.0[5]));
    }
    ways
}

/// RFC 2992: all packets of a flow take one path.
fn flows_are_spread_over_paths_and_keep_their_path<L: Locks>() {
    let h = spread::<L, 3>([(11, 1), (12, 1), (13, 1)]);
    let first = ways(&h, 300);
    for n in [11, 12, 13] {
        let share = first.iter().filter(|way| **way == n).count();
        assert!((60..=140).contains(&share), "{share} of 300 by gateway {n}");
    }
    assert_eq!(ways(&h, 300), first);
    // The packets of a flow keep their path if they arrive one by one.
    for n in 0..40 {
        h.inject(EM0, flow(n).between(PEER, ME));
        assert_eq!(ip_of(&h.sent_one(EM1)).0.dst.0[5], first[usize::from(n)]);
    }
    // A path is removed: nearly all flows of the other paths stay.
    h.stack.add_paths(h.cx(), prefix("198.51.100.0/24"), &paths([(11, 1), (12, 1)])).unwrap();
    let moved = ways(&h, 300).iter().zip(&first).filter(|(now, then)| **then != 13 && now != then).count();
    assert!(moved <= 40, "{moved} flows moved unnecessarily");
}

fn fragments_take_the_path_of_their_first<L: Locks>() {
    let h = spread::<L, 2>([(11, 1), (12, 1)]);
    for n in 0..30 {
        let whole = Ip::udp((PEER.ip, 1000 + n), (NET, 9), &[7; 56]);
        h.inject_all(EM0, [whole.fragment(0, 32), whole.fragment(32, 32)].map(|part| part.between(PEER, ME)));
        let macs: BTreeSet<_> = h.sent(EM1).iter().map(|frame| ip_of(frame).0.dst.0).collect();
        assert_eq!(macs.len(), 1);
    }
}

fn flows_are_spread_by_weight<L: Locks>() {
    let h = spread::<L, 2>([(11, 3), (12, 1)]);
    let heavy = ways(&h, 400).iter().filter(|way| **way == 11).count();
    assert!((240..=350).contains(&heavy), "{heavy} of 400");
}

fn a_dead_gateway_is_avoided_until_it_answers<L: Locks>() {
    let h = spread::<L, 2>([(11, 1), (12, 1)]);
    let first = ways(&h, 60);
    h.stack.remove_neighbor(h.cx(), EM1, gateway(12).ip);
    let lost = (0..60).find(|n| first[usize::from(*n)] == 12).unwrap();
    h.inject(EM0, flow(lost).between(PEER, ME));
    h.pass(Duration::from_secs(7));
    h.sent(EM1);
    assert!(ways(&h, 60).iter().all(|way| *way == 11), "the other gateway did not answer");
    // The gateway answers again, and its flows return to it.
    h.pass(Duration::from_secs(21));
    // A packet that this router drops is not the one that tries the gateway again.
    h.inject_all(EM0, (0..60).map(|n| flow(n).ttl(1).between(PEER, ME)));
    h.sent(EM0);
    let trying = ways(&h, 60);
    assert!(trying.iter().filter(|way| **way == 11).count() == 59, "one packet tries the gateway again");
    h.inject(EM1, arp(Op::Reply, gateway(12), ME2));
    h.sent(EM1);
    assert_eq!(ways(&h, 60), first);
}

fn our_own_packets_take_one_path_per_destination<L: Locks>() {
    let h = spread::<L, 2>([(11, 1), (12, 1)]);
    let s = h.bound(1000);
    let mut seen = BTreeMap::<u8, BTreeSet<u8>>::new();
    for turn in 0..3 {
        for last in 1..40 {
            h.send(s, &[turn], std::net::SocketAddr::from((Ipv4Addr::new(198, 51, 100, last), 9))).unwrap();
            seen.entry(last).or_default().insert(ip_of(&h.sent_one(EM1)).0.dst.0[5]);
        }
    }
    assert!(seen.values().all(|ways| ways.len() == 1));
    assert_eq!(seen.values().flatten().collect::<BTreeSet<_>>().len(), 2);
}

/// Adding or removing a route keeps the cached headers of gateways: no packet needs the neighbor
/// table for it.
fn adjacencies_are_kept_when_routes_change<L: Locks>() {
    let h = Host::<L>::router();
    h.knows(EM1, FAR_GATEWAY);
    h.route("198.51.100.0/24", Via::Gateway(EM1, FAR_GATEWAY.ip));
    h.inject(EM0, onward(NET, b"x").between(PEER, ME));
    h.sent_one(EM1);
    let used = |part: &str| h.stack.lock_use().iter().find(|of| of.part == part).map(|of| of.acquisitions);
    let (routes, neighbors) = (used("inet.route"), used("inet.neigh"));
    for n in 0..20 {
        h.stack
            .with_routes(h.cx(), |routes| routes.insert(prefix(&format!("203.0.{n}.0/24")), Via::Blackhole))
            .unwrap();
        h.inject_all(EM0, [0, 1, 2].map(|_| onward(NET, b"x").between(PEER, ME)));
        assert_eq!(h.sent(EM1).len(), 3);
    }
    assert_eq!(
        (used("inet.route"), used("inet.neigh")),
        (routes.map(|n| n + 20), neighbors),
        "a lock for each change alone"
    );
}

fn why_explains_every_step<L: Locks>() {
    let h = spread::<L, 2>([(11, 1), (12, 1)]);
    h.route("198.51.0.0/16", Via::Reject);
    h.route("0.0.0.0/0", Via::Gateway(EM1, FAR.ip));
    let requested =
        |from: Option<(IfaceId, Ipv4Addr)>, l4_ports| Question { dst: NET, zone: None, from, proto: 17, l4_ports };
    for n in 0..30 {
        h.inject(EM0, flow(n).between(PEER, ME));
        let mac = ip_of(&h.sent_one(EM1)).0.dst;
        let why = h.stack.why(h.cx(), &requested(Some((EM0, PEER.ip)), (1000 + n, 9)));
        assert_eq!(why.neighbor.map(|known| known.mac), Some(mac), "the path that the flow takes");
        assert_eq!((why.end, why.mtu, why.choice.map(|choice| choice.paths.len())), (None, Some(1500), Some(2)));
    }
    let why = h.stack.why(h.cx(), &requested(None, (0, 0)));
    assert_eq!(why.matched.map(|route| route.prefix), Some(prefix("198.51.100.0/24")));
    assert_eq!(
        why.passed_over.iter().map(|route| route.prefix).collect::<Vec<_>>(),
        [prefix("198.51.0.0/16"), prefix("0.0.0.0/0")]
    );
    assert_eq!(why.source, Some(ME2.ip));
    h.stack.sysctls.source_validation.set(2);
    for (src, word) in [(ME.ip, "own_source"), (FAR.ip, "invalid_source"), (Ipv4Addr::LOCALHOST, "martian_source")] {
        let why = h.stack.why(h.cx(), &requested(Some((EM0, src)), (1, 2)));
        assert_eq!(why.end.map(stats::DropReason::word), Some(word), "{src}");
    }
}

/// Packets of the fast path, one by one and in bursts, and of the slow path, of both families.
fn received_packets_are_counted_by_route<L: Locks>() {
    let h = Host::<L>::router6();
    let (wide, narrow): (Prefix, Prefix) = (prefix("198.51.0.0/16"), prefix("198.51.100.0/24"));
    ["198.51.0.0/16", "198.51.100.0/24"].into_iter().for_each(|to| h.route(to, Via::Gateway(EM1, FAR.ip)));
    let to = |third: u8| Ip::udp((PEER.ip, 1), (Ipv4Addr::new(198, 51, third, 1), 9), &[7; 12]);
    let count = |to: Prefix| {
        let count = h.stack.route_count(h.cx(), to);
        (count.packets, count.bytes)
    };
    h.inject(EM0, to(1).between(PEER, ME));
    assert_eq!(count(wide), (0, 0), "off by default");
    h.stack.sysctls.route_counters.set(1);
    h.inject(EM0, to(1).between(PEER, ME));
    h.inject_all(EM0, [1, 100, 100, 100].map(|third| to(third).between(PEER, ME)));
    h.inject(EM0, to(100).options(&[148, 4, 0, 0]).between(PEER, ME));
    h.inject_all(EM0, [to(100).options(&[148, 4, 0, 0]).between(PEER, ME), to(1).between(PEER, ME)]);
    assert_eq!((count(wide), count(narrow)), ((3, 120), (5, 3 * 40 + 2 * 44)));
    let own = h.stack.route_count(h.cx(), Prefix::host(ME.ip));
    h.inject(EM0, Ip::udp((PEER.ip, 1), (ME.ip, 9), &[7; 12]).between(PEER, ME));
    assert_eq!(h.stack.route_count(h.cx(), Prefix::host(ME.ip)).packets, own.packets + 1, "to this host");
    // IPv6, also with an extension header.
    let beyond = "2001:db8::/32".parse::<Prefix6>().unwrap();
    let plain = udp6((PEER6.ip, 1), (BEYOND6, 9), &[7; 12]);
    let options = plain.clone().with(wire::Proto::HOP_BY_HOP, &[0, 0, 1, 4, 0, 0, 0, 0]);
    h.inject(EM0, plain.clone().between(PEER6, ME6));
    h.inject_all(EM0, [plain.clone(), options, plain].map(|packet| packet.between(PEER6, ME6)));
    let six = h.stack.route_count(h.cx(), beyond);
    assert_eq!((six.packets, six.bytes), (4, 3 * 60 + 68));
    [EM0, EM1].into_iter().for_each(|iface| drop(h.sent(iface)));
    // The counters stay when the route changes.
    h.route("198.51.100.0/24", Via::Blackhole);
    h.inject(EM0, to(100).between(PEER, ME));
    assert_eq!(count(narrow).0, 6);
    h.stack.sysctls.route_counters.set(0);
    h.inject(EM0, to(100).between(PEER, ME));
    assert_eq!(count(narrow).0, 6);
}
