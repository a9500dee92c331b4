//! IPv6 routes with several paths (RFC 2992): all packets of a flow use one path, and a gateway
//! that does not answer is avoided.

use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::iface::IfaceId;
use linerate_inet::route::{Path, Question, Via6};
use lock::Locks;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use wire::{Mac, Proto};

conversations! {
    flows_of_ipv6_are_spread_by_weights_and_keep_their_paths
    fragments_of_ipv6_take_the_path_of_their_flow
    a_gateway_that_does_not_answer_is_avoided
    packets_of_this_host_take_one_path_per_destination
    a_path_is_removed_with_its_iface
    why_explains_every_step_of_ipv6
    why_predicts_the_drop_reason
    why_explains_groups_and_link_local_addresses
}

/// Returns a gateway on the second link.
fn gateway(n: u8) -> Six {
    let ip = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, u16::from(n));
    Six { mac: Mac([2, 0, 0, 0, 1, n]), ip, ..FAR6 }
}

fn by(n: u8, weight: u16) -> Path<Ipv6Addr> {
    Path { via: Via6::Gateway(EM1, gateway(n).ip), weight }
}

/// Creates a router with a route to 2001:db8::/32 through two gateways that are known neighbors.
fn spread<L: Locks>(weights: [u16; 2]) -> Host<L> {
    let h = Host::<L>::router6();
    [11, 12].into_iter().for_each(|n| h.stack.set_neighbor6(h.cx(), EM1, gateway(n).ip, gateway(n).mac));
    let paths = [by(11, weights[0]), by(12, weights[1])];
    h.stack.add_paths6(h.cx(), "2001:db8::/32".parse().unwrap(), &paths).unwrap();
    h.forget_counters();
    h
}

fn flow(n: u16) -> Ip6 {
    udp6((PEER6.ip, 1000 + n), (BEYOND6, 9), b"flow")
}

/// Returns the gateways that `flows` flows use, sent in bursts.
fn ways<L: Locks>(h: &Host<L>, flows: u16) -> Vec<u8> {
    let mut ways = Vec::new();
    for first in (0..flows).step_by(32) {
        h.inject_all(EM0, (first..flows.min(first + 32)).map(|n| flow(n).between(PEER6, ME6)));
        let sent = h.sent6(EM1);
        ways.extend(sent.iter().filter(|(_, ip, _)| ip.dst == BEYOND6).map(|(link, ..)| link.dst.0[5]));
    }
    ways
}

fn flows_of_ipv6_are_spread_by_weights_and_keep_their_paths<L: Locks>() {
    let h = spread::<L>([3, 1]);
    let first = ways(&h, 400);
    let heavy = first.iter().filter(|way| **way == 11).count();
    assert!(first.len() == 400 && (240..=350).contains(&heavy), "{heavy} of {}", first.len());
    assert_eq!(ways(&h, 400), first);
    for n in 0..40 {
        h.inject(EM0, flow(n).between(PEER6, ME6));
        assert_eq!(h.sent6_one(EM1).0.dst.0[5], first[usize::from(n)], "one by one");
        // Through the slow path, which options require.
        h.inject(EM0, flow(n).with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]).between(PEER6, ME6));
        assert_eq!(h.sent6_one(EM1).0.dst.0[5], first[usize::from(n)], "by the slow path");
    }
}

fn fragments_of_ipv6_take_the_path_of_their_flow<L: Locks>() {
    let h = spread::<L>([1, 1]);
    for n in 0..30 {
        let whole = udp6((PEER6.ip, 1000 + n), (BEYOND6, 9), &[7; 56]);
        h.inject_all(EM0, [(0, 32), (32, 32)].map(|(off, len)| whole.fragment(7, off, len).between(PEER6, ME6)));
        let macs: BTreeSet<_> = h.sent6(EM1).iter().map(|(link, ..)| link.dst.0).collect();
        assert_eq!(macs.len(), 1);
    }
}

fn a_gateway_that_does_not_answer_is_avoided<L: Locks>() {
    let h = spread::<L>([1, 1]);
    let first = ways(&h, 60);
    h.stack.remove_neighbor6(h.cx(), EM1, gateway(12).ip);
    let lost = (0..60).find(|n| first[usize::from(*n)] == 12).unwrap();
    h.inject(EM0, flow(lost).between(PEER6, ME6));
    h.pass(Duration::from_secs(7));
    h.sent(EM1);
    assert!(ways(&h, 60).iter().all(|way| *way == 11), "the other gateway did not answer");
}

fn packets_of_this_host_take_one_path_per_destination<L: Locks>() {
    let h = spread::<L>([1, 1]);
    let s = h.bound6(any6(1000));
    let way = |host: u16, port: u16| {
        let to = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, host);
        assert_eq!(h.send(s, b"x", std::net::SocketAddr::from((to, port))), Ok(1));
        let by = h.sent6_one(EM1).0.dst.0[5];
        let said = h.stack.route6_to(h.cx(), to).unwrap();
        assert_eq!(said.via, by_gateway(by), "the output of `route get`");
        by
    };
    let by_host: Vec<u8> = (0..20).map(|host| way(host, 9)).collect();
    assert_eq!((0..20).map(|host| way(host, 10)).collect::<Vec<_>>(), by_host);
    assert_eq!(by_host.into_iter().collect::<BTreeSet<_>>().len(), 2);
}

fn by_gateway(n: u8) -> Via6 {
    by(n, 1).via
}

fn a_path_is_removed_with_its_iface<L: Locks>() {
    let h = spread::<L>([1, 1]);
    let prefix = "2001:db8::/32".parse().unwrap();
    h.stack.add_paths6(h.cx(), prefix, &[by(11, 1), Path { via: Via6::Link(EM0), weight: 1 }]).unwrap();
    h.stack.remove_iface(h.cx(), EM0);
    assert_eq!(h.stack.route6_at(h.cx(), prefix), Some(by_gateway(11)));
    assert_eq!(h.stack.paths6(h.cx(), by_gateway(11)), []);
    assert!(h.stack.add_paths6(h.cx(), prefix, &[]).is_err());
}

fn requested(dst: Ipv6Addr, from: Option<(IfaceId, Ipv6Addr)>, l4_ports: (u16, u16)) -> Question<Ipv6Addr> {
    Question { dst, zone: None, from, proto: Proto::UDP.0, l4_ports }
}

fn why_explains_every_step_of_ipv6<L: Locks>() {
    let h = spread::<L>([1, 1]);
    h.stack.add_route6(h.cx(), "2001::/16".parse().unwrap(), Via6::Reject).unwrap();
    for n in 0..30 {
        h.inject(EM0, flow(n).between(PEER6, ME6));
        let mac = h.sent6_one(EM1).0.dst;
        let why = h.stack.why6(h.cx(), &requested(BEYOND6, Some((EM0, PEER6.ip)), (1000 + n, 9)));
        assert_eq!(why.neighbor.map(|known| known.mac), Some(mac), "the path that the flow takes");
        assert_eq!((why.end, why.mtu, why.choice.map(|choice| choice.paths.len())), (None, Some(1500), Some(2)));
    }
    let why = h.stack.why6(h.cx(), &requested(BEYOND6, None, (0, 0)));
    assert_eq!(why.matched.map(|route| route.prefix), Some("2001:db8::/32".parse().unwrap()));
    assert_eq!(why.passed_over.iter().map(|route| route.via).collect::<Vec<_>>(), [Via6::Reject]);
    assert_eq!((why.source, why.via), (Some(MY6.ip), h.stack.route6_to(h.cx(), BEYOND6).map(|route| route.via)));
}

fn why_predicts_the_drop_reason<L: Locks>() {
    let h = spread::<L>([1, 1]);
    h.stack.add_route6(h.cx(), "2001:db8:1::/48".parse().unwrap(), Via6::Prohibit).unwrap();
    let parse = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    let comes_true = |src: Ipv6Addr, dst: Ipv6Addr, word: &str| {
        let end = h.stack.why6(h.cx(), &requested(dst, Some((EM0, src)), (1, 2))).end.unwrap();
        assert_eq!(end.word(), word, "{src} to {dst}");
        let before = h.counter(end.name());
        h.inject(EM0, udp6((src, 1), (dst, 2), b"x").between(PEER6, ME6));
        assert_eq!(h.counter(end.name()), before + 1, "{src} to {dst}: {}", end.name());
    };
    comes_true(ME6.ip, BEYOND6, "own_source");
    comes_true(parse("::1"), BEYOND6, "martian_source");
    comes_true(PEER6.ip, parse("::"), "martian_destination");
    comes_true(parse("fe80::5"), BEYOND6, "beyond_scope");
    comes_true(PEER6.ip, parse("2001:db8:1::1"), "prohibited");
    comes_true(PEER6.ip, parse("3fff::1"), "no_route");
    comes_true(PEER6.ip, parse("fe80::99"), "not_here");
    h.stack.sysctls.forwarding6.set(0);
    comes_true(PEER6.ip, BEYOND6, "not_forwarding");
    // Packets that this host sends.
    let s = h.bound6(any6(1000));
    for (dst, ends) in [("2001:db8:1::1", true), ("3fff::1", true), ("fe80::99", true), ("2001:db8::7", false)] {
        let end = h.stack.why6(h.cx(), &requested(parse(dst), None, (0, 0))).end;
        assert_eq!(end.map(stats::DropReason::word), ends.then_some("no_route"), "{dst}");
        assert_eq!(h.send(s, b"x", std::net::SocketAddr::from((parse(dst), 9))).is_err(), ends, "{dst}");
    }
}

fn why_explains_groups_and_link_local_addresses<L: Locks>() {
    let h = spread::<L>([1, 1]);
    h.stack.add_route6(h.cx(), "::/0".parse().unwrap(), by_gateway(11)).unwrap();
    let why =
        |dst: &str, zone| h.stack.why6(h.cx(), &Question { zone, ..requested(dst.parse().unwrap(), None, (0, 0)) });
    assert_eq!((why("fe80::9", Some(EM1)).via, why("fe80::9", Some(EM1)).end), (Some(Via6::Link(EM1)), None));
    assert_eq!(why("fe80::9", None).end.map(stats::DropReason::word), Some("no_route"), "no zone");
    assert_eq!(why("ff02::1", Some(EM1)).via, Some(Via6::Broadcast(EM1)));
    assert_eq!(why(&ME6.ip.to_string(), None).via, Some(Via6::Local(EM0)));
}
