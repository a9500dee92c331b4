//! Local routes for IPv6 prefixes: packets for all addresses of a prefix are delivered.

use crate::common::six::*;
use crate::common::*;
use linerate_inet::ip6::IfaceAddr6;
use linerate_inet::route::{Question, Via6};
use lock::Locks;
use stats::DropReason;
use std::net::{IpAddr, Ipv6Addr};
use wire::icmp6::{Problem, unreachable};
use wire::{Mac, Proto, ip6};

conversations! {
    packets_for_the_prefix_are_delivered
    special_addresses_match_no_local_route
    a_local_route_answers_no_solicitation
    an_address_under_a_local_route_is_checked_for_duplicates
}

fn packets_for_the_prefix_are_delivered<L: Locks>() {
    let h = Host::<L>::of_all_addresses6();
    let s = h.bound6(any6(9));
    h.inject(EM0, udp6((PEER6.ip, 5), (COVERED6, 9), b"one").between(PEER6, ME6));
    h.inject_all(EM0, [COVERED6, COVERED6_TOO].map(|to| udp6((PEER6.ip, 5), (to, 9), b"two").between(PEER6, ME6)));
    h.assert_counters("in 3, ip6.received 3, ip6.delivered 3, udp.received 3, udp.delivered 3");
    let to = |h: &Host<L>| h.stack.udp_recv(h.cx(), s).unwrap().to;
    assert_eq!([to(&h), to(&h), to(&h)], [COVERED6, COVERED6, COVERED6_TOO].map(IpAddr::from));
    // An answer may have the address of the question as its source.
    h.send_from(s, b"answer", (PEER6.ip, 5).into(), COVERED6.into()).unwrap();
    assert_eq!(h.sent6_one(EM0).1.src, COVERED6);
    // The host also answers echo requests, and datagrams to closed ports, with this source.
    h.inject(EM0, ping6(PEER6.ip, COVERED6, b"ping").between(PEER6, ME6));
    assert_eq!(h.sent6_one(EM0).1.src, COVERED6);
    h.inject(EM0, udp6((PEER6.ip, 5), (COVERED6, 10), b"x").between(PEER6, ME6));
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!((header.src, header.dst), (COVERED6, PEER6.ip));
    assert_eq!(error_of(&header, &payload).0, Problem::Unreachable { code: unreachable::PORT });
    // A source under the local route is an address of this host.
    h.forget_counters();
    h.inject(
        EM0,
        ping6(COVERED6_TOO, COVERED6, b"x").with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]).between(PEER6, ME6),
    );
    h.assert_counters("in 1, ip6.received 1, ip6.in.own_source 1");
    h.stack.remove_route6(h.cx(), "::/0".parse().unwrap());
    h.inject(EM0, ping6(PEER6.ip, COVERED6, b"x").between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.in.not_forwarding 1");
    h.audit();
}

/// Unspecified, IPv4-mapped, link-local and multicast addresses.
fn special_addresses_match_no_local_route<L: Locks>() {
    let h = Host::<L>::of_all_addresses6();
    let mapped: Ipv6Addr = "::ffff:10.0.0.1".parse().unwrap();
    let other = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
    let group: Ipv6Addr = "ff0e::77".parse().unwrap();
    for (dst, why) in [
        (Ipv6Addr::UNSPECIFIED, DropReason::Ip6MartianDestination),
        (mapped, DropReason::Ip6MartianDestination),
        (other, DropReason::Ip6NotHere),
        (group, DropReason::Ip6NotMember),
    ] {
        let datagram = udp6((PEER6.ip, 5), (dst, 9), b"x");
        let mac = if dst.is_multicast() { Mac::multicast6(dst) } else { ME6.mac };
        h.inject(EM0, datagram.frame(mac, PEER6.mac));
        let question = Question { dst, zone: None, from: Some((EM0, PEER6.ip)), proto: Proto::UDP.0, l4_ports: (5, 9) };
        assert_eq!(h.stack.why6(h.cx(), &question).end, Some(why), "{dst}");
    }
    h.assert_counters("in 4, ip6.received 4, ip6.in.martian_destination 2, ip6.in.not_here 1, ip6.in.not_member 1");
    // This host's own packets to these addresses have no route either.
    for dst in [Ipv6Addr::UNSPECIFIED, mapped, other] {
        assert_eq!(h.stack.source6_to(h.cx(), dst), None, "{dst}");
    }
    assert!(h.stack.source6_to(h.cx(), COVERED6).is_some());
    h.audit();
}

/// As with ARP, a host is the neighbor of its stations for the addresses of its interfaces only.
fn a_local_route_answers_no_solicitation<L: Locks>() {
    let h = Host::<L>::of_all_addresses6();
    let on_link = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x77);
    h.route6("fd00::77/128", Via6::Local(EM0));
    h.forget_counters();
    for target in [COVERED6, on_link] {
        h.inject(EM0, solicit(PEER6.ip, ME6.ip, target, Some(PEER6.mac)).between(PEER6, ME6));
        h.sent_nothing(EM0);
        h.inject(EM0, ping6(PEER6.ip, target, b"with a static neighbor entry").between(PEER6, ME6));
        assert_eq!(h.sent6_one(EM0).1.src, target);
    }
    h.audit();
}

fn an_address_under_a_local_route_is_checked_for_duplicates<L: Locks>() {
    let h = Host::<L>::of_all_addresses6();
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(COVERED6, 64)).unwrap();
    h.sent(EM0);
    h.forget_counters();
    // The local route stays usable while an address of its interface is tentative.
    h.route6("3fff::/16", Via6::Local(EM0));
    h.inject_all(EM0, [COVERED6, COVERED6_TOO].map(|to| udp6((PEER6.ip, 5), (to, 9), b"x").between(PEER6, ME6)));
    assert_eq!(h.sent6_one(EM0).1.src, COVERED6_TOO, "port unreachable");
    assert_eq!(h.counter("inet.ip6.in.tentative"), 1);
    // Another station probes for the address, so that this host does not get it.
    let group = ip6::solicited_node(COVERED6);
    h.inject(EM0, solicit(Ipv6Addr::UNSPECIFIED, group, COVERED6, None).frame(Mac::multicast6(group), OTHER6.mac));
    h.advance_secs(3);
    h.sent(EM0);
    h.inject(EM0, udp6((PEER6.ip, 5), (COVERED6, 9), b"x").between(PEER6, ME6));
    h.sent_nothing(EM0);
    assert_eq!(h.counter("inet.ip6.in.tentative"), 2);
    // Without the address, the local route applies.
    h.stack.remove_addr6(h.cx(), EM0, COVERED6);
    h.advance_secs(1);
    h.sent(EM0);
    h.inject(EM0, udp6((PEER6.ip, 5), (COVERED6, 9), b"x").between(PEER6, ME6));
    assert_eq!(h.sent6_one(EM0).1.src, COVERED6);
    h.audit();
}
