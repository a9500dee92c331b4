//! IPv4 routes with IPv6 gateways (RFC 8950): resolution by neighbor discovery, forwarding, errors,
//! and packets of the host itself on links without IPv4 addresses.

use crate::common::packets::*;
use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::route::{Path, Question, Via};
use lock::Locks;
use std::net::Ipv4Addr;
use wire::eth::EtherType;
use wire::icmp4::{ty, unreachable};
use wire::icmp6::nd::Advert;
use wire::{Mac, ip6};

conversations! {
    a_packet_waits_for_the_ipv6_gateway_and_later_ones_do_not
    bursts_take_the_resolved_address
    a_packet_with_options_takes_the_same_gateway
    a_gateway_that_does_not_answer_is_reported_by_icmp
    a_set_avoids_an_ipv6_gateway_that_does_not_answer
    packets_of_the_host_borrow_an_address
    source_validation_knows_ipv6_gateways
    why_shows_the_neighbor
}

const NET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const ROUTE: &str = "198.51.100.0/24";

fn onward(sport: u16) -> Ip {
    Ip::udp((PEER.ip, sport), (NET, 9), b"onward").ttl(9)
}

/// Creates a router with a route to [`ROUTE`] through a gateway of which only the link-local
/// address is known.
fn router<L: Locks>() -> Host<L> {
    let h = Host::<L>::router6();
    h.route(ROUTE, Via::Gateway6(EM1, FAR6.near));
    h.forget_counters();
    h
}

fn answers<L: Locks>(h: &Host<L>, to: Six) {
    let body = Advert { router: true, solicited: true, replaces: true, target: FAR6.near };
    h.inject(EM1, advert(FAR6.near, to.near, body, Some(FAR6.mac)).between(FAR6, to));
}

fn a_packet_waits_for_the_ipv6_gateway_and_later_ones_do_not<L: Locks>() {
    let h = router::<L>();
    h.inject(EM0, onward(1).between(PEER, ME));
    let (link, header, _) = h.sent6_one(EM1);
    let group = ip6::solicited_node(FAR6.near);
    assert_eq!((link.dst, header.src, header.dst), (Mac::multicast6(group), MY6.near, group));
    answers(&h, MY6);
    let expected = |sport| onward(sport).ttl(8).frame(FAR6.mac, ME2.mac);
    let sent = h.sent_one(EM1);
    assert_eq!((&sent[12..14], &sent), (&EtherType::IPV4.0.to_be_bytes()[..], &expected(1)));
    h.assert_counters(
        "in 2, out 2, audit.made 1, ip4.received 1, ip4.forwarded 1, neigh.created 1, neigh.resolved 1, \
         ip6.received 1, ip6.delivered 1, ip6.sent 1, icmp6.received 1, nd.solicits_sent 1, nd.adverts_received 1, \
         nd.in.consumed 1",
    );
    for sport in 2..5 {
        h.inject(EM0, onward(sport).between(PEER, ME));
        assert_eq!(h.sent_one(EM1), expected(sport));
    }
    // The gateway has another card.
    h.stack.set_neighbor6(h.cx(), EM1, FAR6.near, OTHER.mac);
    h.inject(EM0, onward(5).between(PEER, ME));
    assert_eq!(h.sent_one(EM1), onward(5).ttl(8).frame(OTHER.mac, ME2.mac));
}

fn bursts_take_the_resolved_address<L: Locks>() {
    let h = router::<L>();
    h.route("203.0.113.0/24", Via::Gateway6(EM1, FAR6.ip));
    h.stack.set_neighbor6(h.cx(), EM1, FAR6.near, OTHER.mac);
    let to = |n: u16| {
        let dst = if n.is_multiple_of(2) { NET } else { Ipv4Addr::new(203, 0, 113, 1) };
        Ip::udp((PEER.ip, n), (dst, 9), b"burst").ttl(9)
    };
    for _ in 0..3 {
        h.inject_all(EM0, (0..32).map(|n| to(n).between(PEER, ME)));
        let mac = |n: u16| if n.is_multiple_of(2) { OTHER.mac } else { FAR6.mac };
        assert_eq!(h.sent(EM1), (0..32).map(|n| to(n).ttl(8).frame(mac(n), ME2.mac)).collect::<Vec<_>>());
    }
}

fn a_packet_with_options_takes_the_same_gateway<L: Locks>() {
    let h = router::<L>();
    h.stack.set_neighbor6(h.cx(), EM1, FAR6.near, FAR6.mac);
    let packet = onward(1).options(&[148, 4, 0, 0]);
    h.inject(EM0, packet.clone().between(PEER, ME));
    assert_eq!(h.sent_one(EM1), packet.ttl(8).frame(FAR6.mac, ME2.mac));
    // A packet that is fragmented, too.
    h.stack.set_mtu(EM1, 1400);
    h.inject(EM0, Ip::udp((PEER.ip, 1), (NET, 9), &[7; 1450]).between(PEER, ME));
    let sent = h.sent(EM1);
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|frame| ip_of(frame).0.dst == FAR6.mac));
}

fn a_gateway_that_does_not_answer_is_reported_by_icmp<L: Locks>() {
    let h = router::<L>();
    (1..4).for_each(|sport| h.inject(EM0, onward(sport).between(PEER, ME)));
    h.pass(Duration::from_secs(5));
    h.sent(EM1);
    let errors = h.sent(EM0);
    assert_eq!(errors.len(), 3);
    for error in errors {
        let (icmp, quoted) = icmp_of(&error);
        assert_eq!((icmp.ty, icmp.code), (ty::UNREACHABLE, unreachable::HOST));
        assert_eq!(wire::ip4::Header::parse(quoted).unwrap().dst, NET);
    }
    assert_eq!(h.counter("inet.neigh.timeout"), 3);
    assert_eq!(h.stack.held(h.cx()), 0);
}

fn a_set_avoids_an_ipv6_gateway_that_does_not_answer<L: Locks>() {
    let h = Host::<L>::router6();
    let paths = [Via::Gateway6(EM1, FAR6.near), Via::Gateway(EM1, FAR.ip)].map(|via| Path { via, weight: 1 });
    h.stack.add_paths(h.cx(), prefix(ROUTE), &paths).unwrap();
    h.stack.set_neighbor6(h.cx(), EM1, FAR6.near, OTHER.mac);
    let macs = |h: &Host<L>| -> Vec<Mac> {
        h.inject_all(EM0, (0..60).map(|n| onward(n).between(PEER, ME)));
        let sent = h.sent(EM1).into_iter().filter(|frame| frame[12..14] == EtherType::IPV4.0.to_be_bytes());
        sent.map(|frame| ip_of(&frame).0.dst).collect()
    };
    let first = macs(&h);
    assert!(first.len() == 60 && first.contains(&OTHER.mac) && first.contains(&FAR.mac));
    h.stack.remove_neighbor6(h.cx(), EM1, FAR6.near);
    macs(&h);
    h.pass(Duration::from_secs(5));
    h.sent(EM1);
    assert_eq!(macs(&h), [FAR.mac; 60]);
    answers(&h, MY6);
    h.pass(Duration::from_secs(21)); // one packet tries it again
    macs(&h);
    answers(&h, MY6);
    h.sent(EM1);
    let expected: Vec<Mac> = first.iter().map(|mac| if *mac == OTHER.mac { FAR6.mac } else { *mac }).collect();
    assert_eq!(macs(&h), expected);
}

fn packets_of_the_host_borrow_an_address<L: Locks>() {
    let h = router::<L>();
    h.stack.remove_addr(h.cx(), EM1, ME2.ip);
    h.stack.set_neighbor6(h.cx(), EM1, FAR6.near, FAR6.mac);
    let s = h.bound(1000);
    for n in 0..3 {
        h.send(s, &[n], std::net::SocketAddr::from((NET, 9))).unwrap();
        let sent = h.sent_one(EM1);
        let (link, header, _) = ip_of(&sent);
        assert_eq!((link.dst, header.src, header.dst), (FAR6.mac, ME.ip, NET));
    }
    // An address of the loopback iface is preferred (RFC 1812 4.3.2.4).
    let own = linerate_inet::iface::IfaceAddr { addr: Ipv4Addr::new(192, 0, 2, 1), len: 32 };
    h.stack.add_addr(h.cx(), linerate_inet::iface::LOOPBACK, own).unwrap();
    h.send(s, b"x", std::net::SocketAddr::from((NET, 9))).unwrap();
    assert_eq!(ip_of(&h.sent_one(EM1)).1.src, own.addr);
    // ICMP errors to senders behind the gateway have it, too.
    h.inject(EM1, Ip::udp((NET, 9), (Ipv4Addr::new(192, 0, 2, 99), 9), b"x").frame(ME2.mac, FAR6.mac));
    let error = h.sent_one(EM1);
    let (link, header, _) = ip_of(&error);
    assert_eq!((link.dst, header.src, header.dst), (FAR6.mac, own.addr, NET));
    assert_eq!(icmp_of(&error).0.ty, ty::UNREACHABLE);
}

fn source_validation_knows_ipv6_gateways<L: Locks>() {
    let h = router::<L>();
    h.stack.sysctls.source_validation.set(2);
    let back = Ip::udp((NET, 9), (PEER.ip, 1), b"back").ttl(9);
    h.inject(EM1, back.clone().frame(ME2.mac, FAR6.mac));
    assert_eq!(h.sent_one(EM0), back.clone().ttl(8).between(ME, PEER));
    h.inject(EM0, back.frame(ME.mac, OTHER.mac));
    assert_eq!(h.counter("inet.ip4.in.invalid_source"), 1);
}

fn why_shows_the_neighbor<L: Locks>() {
    let h = router::<L>();
    let question = Question { dst: NET, zone: None, from: None, proto: 17, l4_ports: (1, 9) };
    let why = h.stack.why(h.cx(), &question);
    assert_eq!((why.via, why.next), (Some(Via::Gateway6(EM1, FAR6.near)), Some((EM1, FAR6.near.into()))));
    assert!(why.neighbor.is_none() && why.end.is_none());
    h.stack.set_neighbor6(h.cx(), EM1, FAR6.near, FAR6.mac);
    assert_eq!(h.stack.why(h.cx(), &question).neighbor.map(|known| known.mac), Some(FAR6.mac));
}
