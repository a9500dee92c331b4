//! IPv6 routes with several paths (RFC 2992): a flow keeps to one, and a gateway that does not answer is avoided.

use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::route::{Path, Via6};
use lock::Locks;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use wire::{Mac, Proto};

conversations! {
    flows_of_ipv6_are_spread_by_weights_and_keep_their_paths
    fragments_of_ipv6_go_where_their_flow_goes
    a_gateway_that_does_not_answer_is_avoided
    packets_of_this_host_take_one_path_for_each_destination
    a_path_goes_with_its_iface
}

/// A gateway on the second link.
fn gateway(n: u8) -> Six {
    let ip = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, u16::from(n));
    Six { mac: Mac([2, 0, 0, 0, 1, n]), ip, ..FAR6 }
}

fn by(n: u8, weight: u16) -> Path<Ipv6Addr> {
    Path { via: Via6::Gateway(EM1, gateway(n).ip), weight }
}

/// A router with a route to 2001:db8::/32 by two gateways that it knows.
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

/// The gateways of as many flows, in bursts.
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
        // By the slow path, which the options ask for.
        h.inject(EM0, flow(n).with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]).between(PEER6, ME6));
        assert_eq!(h.sent6_one(EM1).0.dst.0[5], first[usize::from(n)], "by the slow path");
    }
}

fn fragments_of_ipv6_go_where_their_flow_goes<L: Locks>() {
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
    assert!(ways(&h, 60).iter().all(|way| *way == 11), "it did not answer");
}

fn packets_of_this_host_take_one_path_for_each_destination<L: Locks>() {
    let h = spread::<L>([1, 1]);
    let s = h.bound6(any6(1000));
    let way = |host: u16, port: u16| {
        let to = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, host);
        assert_eq!(h.send(s, b"x", std::net::SocketAddr::from((to, port))), Ok(1));
        let by = h.sent6_one(EM1).0.dst.0[5];
        let said = h.stack.route6_to(h.cx(), to).unwrap();
        assert_eq!(said.via, by_gateway(by), "what `route get` says");
        by
    };
    let by_host: Vec<u8> = (0..20).map(|host| way(host, 9)).collect();
    assert_eq!((0..20).map(|host| way(host, 10)).collect::<Vec<_>>(), by_host);
    assert_eq!(by_host.into_iter().collect::<BTreeSet<_>>().len(), 2);
}

fn by_gateway(n: u8) -> Via6 {
    by(n, 1).via
}

fn a_path_goes_with_its_iface<L: Locks>() {
    let h = spread::<L>([1, 1]);
    let prefix = "2001:db8::/32".parse().unwrap();
    h.stack.add_paths6(h.cx(), prefix, &[by(11, 1), Path { via: Via6::Link(EM0), weight: 1 }]).unwrap();
    h.stack.remove_iface(h.cx(), EM0);
    assert_eq!(h.stack.route6_at(h.cx(), prefix), Some(by_gateway(11)));
    assert_eq!(h.stack.paths6(h.cx(), by_gateway(11)), []);
    assert!(h.stack.add_paths6(h.cx(), prefix, &[]).is_err());
}
