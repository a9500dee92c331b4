//! Neighbor discovery: which neighbors get entries, which are solicited, and address conflicts.

use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::ip6::{AddrState, IfaceAddr6, Refused6};
use linerate_inet::neigh::State;
use lock::Locks;
use std::net::Ipv6Addr;
use wire::icmp6::nd::{Advert, Message as Nd};
use wire::icmp6::{self, Message};
use wire::ip6::{self, ALL_MLD2_ROUTERS, ALL_NODES};
use wire::{Mac, Proto, mld};

conversations! {
    an_address_is_probed_before_use
    an_address_used_by_another_host_is_a_duplicate
    two_hosts_probing_the_same_address_both_fail
    a_solicitation_is_answered_and_its_sender_cached
    an_unsolicited_advertisement_creates_no_entry
    messages_with_hop_limits_below_255_are_dropped
    an_option_of_length_zero_drops_the_message
    a_neighbor_is_resolved
    an_advertisement_changes_a_neighbors_mac_address
    a_stale_neighbor_is_probed_by_unicast
    a_scan_does_not_evict_neighbors
    router_messages_and_redirects_are_ignored_by_default
    a_static_neighbor_stays
    groups_are_reported_and_queried
    addresses_that_no_host_can_have_are_rejected
    an_iface_that_goes_down_drops_waiting_packets
}

fn message_of(header: &ip6::Header, payload: &[u8]) -> String {
    format!("{:?}", Message::parse(payload, header.src, header.dst).unwrap())
}

fn solicited(target: Ipv6Addr) -> Advert {
    Advert { router: false, solicited: true, replaces: true, target }
}

fn state<L: Locks>(h: &Host<L>, addr: Ipv6Addr) -> Option<(State, Mac)> {
    h.stack.neighbors6(h.cx()).into_iter().find(|n| n.addr == addr).map(|n| (n.state, n.mac))
}

fn states<L: Locks>(h: &Host<L>) -> Vec<(Ipv6Addr, bool)> {
    h.stack.iface(EM0).unwrap().addrs6(h.cx()).iter().map(|own| (own.addr, own.state == AddrState::Valid)).collect()
}

fn an_address_is_probed_before_use<L: Locks>() {
    let h = Host::<L>::new();
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(ME6.ip, 64)).unwrap();
    let near = ip6::link_local(ME6.mac);
    let sent = h.sent6(EM0);
    let probes: Vec<_> = sent.iter().filter(|(_, header, _)| header.next == Proto::IPV6_ICMP).collect();
    for ((link, header, payload), target) in probes.iter().zip([ME6.ip, near]) {
        let group = ip6::solicited_node(target);
        assert_eq!(
            (link.dst, header.src, header.dst, header.hop_limit),
            (Mac::multicast6(group), Ipv6Addr::UNSPECIFIED, group, 255)
        );
        assert!(
            matches!(Message::parse(payload, header.src, header.dst), Ok(Message::Nd(Nd::Solicit { target: requested, options })) if requested == target && options.source_link().is_none())
        );
    }
    assert_eq!((probes.len(), sent.len(), states(&h)), (2, 4, vec![(ME6.ip, false), (near, false)]));
    // The address is not valid yet: packets for it are dropped, and solicitations for it are not
    // answered.
    h.forget_counters();
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"x").between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.in.tentative 1");
    h.inject(EM0, asks(PEER6, ME6.ip));
    h.assert_counters(
        "in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.solicits_received 1, nd.in.ignored 1",
    );
    assert_eq!(h.poll().map(|next| next.since(h.now())), Some(Duration::from_secs(1)));
    h.advance(Duration::from_millis(1001));
    assert_eq!(states(&h), [(ME6.ip, true), (near, true)]);
    h.sent(EM0);
    h.inject(EM0, asks(PEER6, ME6.ip));
    assert_eq!(h.sent6_one(EM0).1.dst, PEER6.ip);
    // No probes are sent if duplicate address detection is turned off.
    h.stack.sysctls.dad_count.set(0);
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(OTHER6.ip, 64)).unwrap();
    assert_eq!(states(&h)[2], (OTHER6.ip, true));
}

fn an_address_used_by_another_host_is_a_duplicate<L: Locks>() {
    let h = Host::<L>::new();
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(ME6.ip, 64)).unwrap();
    h.sent(EM0);
    h.forget_counters();
    let theirs = Advert { solicited: false, ..solicited(ME6.ip) };
    h.inject(EM0, advert(ME6.ip, ALL_NODES, theirs, Some(OTHER6.mac)).frame(Mac::multicast6(ALL_NODES), OTHER6.mac));
    h.assert_counters(
        "in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.adverts_received 1, nd.duplicates 1, nd.in.conflict 1",
    );
    h.advance_secs(5);
    h.sent(EM0);
    let own = h.stack.iface(EM0).unwrap().addrs6(h.cx());
    assert_eq!((own[0].state, own[1].state), (AddrState::Duplicated, AddrState::Valid));
    h.forget_counters();
    h.inject(EM0, asks(PEER6, ME6.ip));
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"x").between(PEER6, ME6));
    assert_eq!((h.counter("inet.ip6.in.tentative"), h.sent6(EM0).len()), (1, 0));
    // A valid address stays valid; a conflict is counted.
    let near = ip6::link_local(ME6.mac);
    h.forget_counters();
    let theirs = Advert { target: near, ..theirs };
    h.inject(
        EM0,
        advert(OTHER6.near, ALL_NODES, theirs, Some(OTHER6.mac)).frame(Mac::multicast6(ALL_NODES), OTHER6.mac),
    );
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.adverts_received 1, nd.conflicts 1, nd.in.conflict 1");
    assert!(h.stack.iface(EM0).unwrap().addrs6(h.cx())[1].state.is_valid());
}

fn two_hosts_probing_the_same_address_both_fail<L: Locks>() {
    let h = Host::<L>::new();
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(ME6.ip, 64)).unwrap();
    h.sent(EM0);
    h.forget_counters();
    let group = ip6::solicited_node(ME6.ip);
    h.inject(EM0, solicit(Ipv6Addr::UNSPECIFIED, group, ME6.ip, None).frame(Mac::multicast6(group), OTHER6.mac));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.solicits_received 1, nd.duplicates 1, nd.in.conflict 1");
    // A probe for one of our valid addresses is answered to all nodes.
    let near = ip6::link_local(ME6.mac);
    h.advance_secs(2);
    h.sent(EM0);
    let group = ip6::solicited_node(near);
    h.inject(EM0, solicit(Ipv6Addr::UNSPECIFIED, group, near, None).frame(Mac::multicast6(group), OTHER6.mac));
    let (link, header, payload) = h.sent6_one(EM0);
    assert_eq!((link.dst, header.dst), (Mac::multicast6(ALL_NODES), ALL_NODES));
    assert!(message_of(&header, &payload).contains("solicited: false, replaces: true"));
}

fn a_solicitation_is_answered_and_its_sender_cached<L: Locks>() {
    let h = Host::<L>::six();
    h.inject(EM0, asks(PEER6, ME6.ip));
    let (link, header, payload) = h.sent6_one(EM0);
    assert_eq!((link.dst, header.src, header.dst, header.hop_limit), (PEER6.mac, ME6.ip, PEER6.ip, 255));
    let Ok(Message::Nd(Nd::Advert { advert, options })) = Message::parse(&payload, header.src, header.dst) else {
        panic!()
    };
    assert_eq!((advert, options.target_link()), (solicited(ME6.ip), Some(ME6.mac)));
    h.assert_counters(
        "in 1, out 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.solicits_received 1, nd.adverts_sent 1, \
         neigh.created 1, audit.made 1, ip6.sent 1, nd.in.consumed 1",
    );
    // The entry was used for the answer, so the neighbor is being probed.
    assert_eq!(state(&h, PEER6.ip), Some((State::Probe, PEER6.mac)));
    // No entry is created for a sender that is not on the link, or that solicits another address.
    let stranger = Six { ip: BEYOND6, ..OTHER6 };
    h.inject(EM0, asks(stranger, ME6.ip));
    assert_eq!(state(&h, BEYOND6), None);
    h.sent(EM0);
    h.forget_counters();
    h.inject(EM0, solicit(OTHER6.ip, ME6.ip, PEER6.ip, Some(OTHER6.mac)).between(OTHER6, ME6));
    h.assert_counters(
        "in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.solicits_received 1, nd.in.ignored 1",
    );
    h.stack.sysctls.forwarding6.set(1);
    h.inject(EM0, asks(PEER6, ME6.ip));
    let (_, header, payload) = h.sent6_one(EM0);
    assert!(message_of(&header, &payload).contains("router: true"));
}

fn an_unsolicited_advertisement_creates_no_entry<L: Locks>() {
    let h = Host::<L>::six();
    for advert in [solicited(PEER6.ip), Advert { solicited: false, ..solicited(PEER6.ip) }] {
        h.inject(EM0, self::advert(PEER6.ip, ME6.ip, advert, Some(PEER6.mac)).between(PEER6, ME6));
        h.assert_counters(
            "in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.adverts_received 1, nd.in.ignored 1",
        );
    }
    assert!(h.stack.neighbors6(h.cx()).is_empty());
    // A solicited advertisement to a group is invalid (RFC 4861 7.1.2).
    h.inject(
        EM0,
        advert(PEER6.ip, ALL_NODES, solicited(PEER6.ip), Some(PEER6.mac)).frame(Mac::multicast6(ALL_NODES), PEER6.mac),
    );
    h.assert_counters(
        "in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.adverts_received 1, nd.in.malformed 1",
    );
}

fn messages_with_hop_limits_below_255_are_dropped<L: Locks>() {
    let h = Host::<L>::six();
    for hops in [0, 1, 64, 254] {
        h.inject(EM0, solicit(PEER6.ip, ME6.ip, ME6.ip, Some(PEER6.mac)).hops(hops).between(PEER6, ME6));
        h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.in.hop_limit 1");
    }
    // Fragmented messages are dropped (RFC 6980).
    let mut whole = solicit(PEER6.ip, ME6.ip, ME6.ip, Some(PEER6.mac)).fragment(3, 0, 100);
    whole.header.hop_limit = 255;
    h.inject(EM0, whole.between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.in.malformed 1");
    assert!(h.stack.neighbors6(h.cx()).is_empty());
    h.sent_nothing(EM0);
}

/// CVE-2020-16898, CVE-2010-0239.
fn an_option_of_length_zero_drops_the_message<L: Locks>() {
    let h = Host::<L>::six();
    for (ty, fixed) in [(133, 0), (134, 8), (135, 16), (136, 16), (137, 32)] {
        for option in [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[25, 3, 0, 0, 0, 0, 0, 0], &[1]] {
            let mut body = vec![0; fixed];
            if fixed >= 16 {
                body[..16].copy_from_slice(&ME6.ip.octets());
            }
            let mut message = [&[ty, 0, 0, 0, 0, 0, 0, 0][..], &body, option].concat();
            icmp6::fill_checksum(PEER6.near, ME6.ip, &mut message).unwrap();
            h.inject(EM0, Ip6::new(PEER6.near, ME6.ip, Proto::IPV6_ICMP, message).hops(255).between(PEER6, ME6));
        }
    }
    h.assert_counters("in 15, ip6.received 15, ip6.delivered 15, icmp6.received 15, nd.in.malformed 15");
    // The link-layer address is a group address.
    h.inject(EM0, solicit(PEER6.ip, ME6.ip, ME6.ip, Some(Mac::BROADCAST)).between(PEER6, ME6));
    assert_eq!(h.counter("inet.nd.in.malformed"), 16);
    assert!(h.stack.neighbors6(h.cx()).is_empty());
}

fn a_neighbor_is_resolved<L: Locks>() {
    let h = Host::<L>::six();
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"1").between(PEER6, ME6));
    let (link, header, payload) = h.sent6_one(EM0);
    let group = ip6::solicited_node(PEER6.ip);
    assert_eq!((link.dst, header.src, header.dst), (Mac::multicast6(group), ME6.ip, group));
    assert!(message_of(&header, &payload).contains("Solicit { target: fd00::2"));
    h.assert_counters(
        "in 1, out 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.echoes_answered 1, ip6.sent 2, \
         neigh.created 1, nd.solicits_sent 1, audit.made 1",
    );
    h.inject(EM0, advert(PEER6.ip, ME6.ip, solicited(PEER6.ip), None).between(PEER6, ME6));
    assert_eq!(state(&h, PEER6.ip).unwrap().0, State::Incomplete, "the advertisement contains no MAC address");
    h.forget_counters();
    h.inject(EM0, advert(PEER6.ip, ME6.ip, solicited(PEER6.ip), Some(PEER6.mac)).between(PEER6, ME6));
    assert_eq!(&h.sent6_one(EM0).2[8..], b"1");
    h.assert_counters("in 1, out 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.adverts_received 1, neigh.resolved 1, nd.in.consumed 1");
    assert_eq!(state(&h, PEER6.ip), Some((State::Reachable, PEER6.mac)));
    // A neighbor that never answers is solicited three times; then its packets are dropped. At most
    // 16 packets wait.
    h.forget_counters();
    for n in 0..20 {
        h.inject(EM0, ping6(OTHER6.ip, ME6.ip, &[n]).between(OTHER6, ME6));
    }
    h.pass(Duration::from_secs(4));
    let counts = ["nd.solicits_sent", "neigh.queue_full", "neigh.timeout", "neigh.failed"]
        .map(|name| h.counter(&format!("inet.{name}")));
    assert_eq!(counts, [1 + 3, 4, 16, 1]);
    assert_eq!(h.stack.held(h.cx()), 0);
}

fn an_advertisement_changes_a_neighbors_mac_address<L: Locks>() {
    let h = Host::<L>::six();
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"1").between(PEER6, ME6));
    h.inject(EM0, advert(PEER6.ip, ME6.ip, solicited(PEER6.ip), Some(PEER6.mac)).between(PEER6, ME6));
    let says = |advert, mac| h.inject(EM0, self::advert(PEER6.ip, ME6.ip, advert, Some(mac)).between(PEER6, ME6));
    // Another station may also have the address. The entry stays and is probed (RFC 4861 7.2.5 I).
    says(Advert { replaces: false, solicited: false, ..solicited(PEER6.ip) }, OTHER6.mac);
    assert_eq!(state(&h, PEER6.ip), Some((State::Stale, PEER6.mac)));
    says(Advert { replaces: false, ..solicited(PEER6.ip) }, OTHER6.mac);
    assert_eq!(state(&h, PEER6.ip), Some((State::Stale, PEER6.mac)));
    says(solicited(PEER6.ip), PEER6.mac);
    assert_eq!(state(&h, PEER6.ip), Some((State::Reachable, PEER6.mac)));
    // An unsolicited advertisement of a new MAC address is accepted, but the entry is not
    // Reachable.
    says(Advert { solicited: false, ..solicited(PEER6.ip) }, OTHER6.mac);
    assert_eq!((state(&h, PEER6.ip), h.counter("inet.neigh.moved")), (Some((State::Stale, OTHER6.mac)), 1));
    says(solicited(PEER6.ip), PEER6.mac);
    assert_eq!((state(&h, PEER6.ip), h.counter("inet.neigh.moved")), (Some((State::Reachable, PEER6.mac)), 2));
}

fn a_stale_neighbor_is_probed_by_unicast<L: Locks>() {
    let h = Host::<L>::six();
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"1").between(PEER6, ME6));
    h.inject(EM0, advert(PEER6.ip, ME6.ip, solicited(PEER6.ip), Some(PEER6.mac)).between(PEER6, ME6));
    h.sent(EM0);
    h.pass(Duration::from_secs(31));
    assert_eq!(state(&h, PEER6.ip).unwrap().0, State::Stale);
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"2").between(PEER6, ME6));
    assert_eq!((h.sent6(EM0).len(), state(&h, PEER6.ip).unwrap().0), (1, State::Probe), "sent to all the same");
    h.poll();
    let (link, header, _) = h.sent6_one(EM0);
    assert_eq!((link.dst, header.dst), (PEER6.mac, PEER6.ip));
    h.inject(EM0, advert(PEER6.ip, ME6.ip, solicited(PEER6.ip), None).between(PEER6, ME6));
    assert_eq!(state(&h, PEER6.ip), Some((State::Reachable, PEER6.mac)));
    h.pass(Duration::from_secs(31));
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"3").between(PEER6, ME6));
    h.pass(Duration::from_secs(10));
    assert_eq!(state(&h, PEER6.ip), None, "the entry was removed");
}

/// RFC 6583.
fn a_scan_does_not_evict_neighbors<L: Locks>() {
    let h = Host::<L>::router6();
    h.stack.sysctls.neigh6_limit.set(64);
    h.stack.remove_neighbor6(h.cx(), EM1, FAR6.ip);
    h.inject(EM0, ping6(PEER6.ip, FAR6.ip, b"1").between(PEER6, ME6));
    h.inject(EM1, advert(FAR6.ip, MY6.ip, solicited(FAR6.ip), Some(FAR6.mac)).between(FAR6, MY6));
    assert_eq!(h.sent6(EM1).len(), 2);
    h.forget_counters();
    for n in 0..300u16 {
        let nobody = Ipv6Addr::new(0xfd01, 0, 0, 0, 7, 7, 7, n);
        h.inject(EM0, ping6(PEER6.ip, nobody, b"?").between(PEER6, ME6));
    }
    assert_eq!((h.counter("inet.neigh.displaced"), h.stack.held(h.cx())), (300 - 32, 32), "at most half of the table");
    h.sent(EM1);
    h.inject(EM0, ping6(PEER6.ip, FAR6.ip, b"2").between(PEER6, ME6));
    assert_eq!(h.sent6_one(EM1).0.dst, FAR6.mac, "who was there is still");
    // A flood of solicitations, each of which creates an entry, neither grows the table nor evicts
    // entries in use.
    for n in 0..300u16 {
        let asker = Six { ip: Ipv6Addr::new(0xfd01, 0, 0, 0, 8, 8, 8, n), ..FAR6 };
        h.inject(EM1, asks(asker, MY6.ip));
    }
    assert!(h.stack.neighbors6(h.cx()).len() <= 64);
    assert!(state(&h, FAR6.ip).is_some() && state(&h, PEER6.ip).is_some());
}

/// CVE-2010-4669, CVE-2011-2393: such messages create neither routes nor addresses.
fn router_messages_and_redirects_are_ignored_by_default<L: Locks>() {
    let h = Host::<L>::six();
    let (addrs, routes) = (states(&h), h.stack.routes6(h.cx()));
    for n in 0..50u8 {
        let prefix = [
            &[3, 4, 64, 0xc0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0][..],
            &[0x20, 1, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let mut message = [&[134, 0, 0, 0, 64, 0, 7, 8][..], &[0; 8], &prefix].concat();
        icmp6::fill_checksum(OTHER6.near, ALL_NODES, &mut message).unwrap();
        let advert = Ip6::new(OTHER6.near, ALL_NODES, Proto::IPV6_ICMP, message).hops(255);
        h.inject(EM0, advert.frame(Mac::multicast6(ALL_NODES), OTHER6.mac));
    }
    h.assert_counters("in 50, ip6.received 50, ip6.delivered 50, icmp6.received 50, nd.ignored 50, nd.in.ignored 50");
    let mut redirect = [&[137, 0, 0, 0, 0, 0, 0, 0][..], &OTHER6.near.octets(), &BEYOND6.octets()].concat();
    icmp6::fill_checksum(OTHER6.near, ME6.ip, &mut redirect).unwrap();
    h.inject(EM0, Ip6::new(OTHER6.near, ME6.ip, Proto::IPV6_ICMP, redirect).hops(255).between(OTHER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.ignored 1, nd.in.ignored 1");
    assert_eq!((states(&h), h.stack.routes6(h.cx())), (addrs, routes));
    assert!(h.stack.neighbors6(h.cx()).is_empty());
}

fn a_static_neighbor_stays<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    h.forget_counters();
    h.inject(EM0, advert(PEER6.ip, ME6.ip, solicited(PEER6.ip), Some(OTHER6.mac)).between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.adverts_received 1, nd.in.would_overwrite_static 1");
    h.inject(EM0, asks(Six { mac: OTHER6.mac, ..PEER6 }, ME6.ip));
    h.sent(EM0);
    assert_eq!(state(&h, PEER6.ip), Some((State::Permanent, PEER6.mac)));
    assert_eq!(h.counter("inet.nd.in.would_overwrite_static"), 2);
}

fn groups_are_reported_and_queried<L: Locks>() {
    let h = Host::<L>::new();
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(ME6.ip, 64)).unwrap();
    let reports = |h: &Host<L>| {
        let sent = h.sent6(EM0);
        let reports = sent.iter().filter(|(_, header, _)| header.next == Proto::HOP_BY_HOP);
        let read = reports.map(|(_, header, payload)| {
            assert_eq!(
                (header.dst, header.hop_limit, &payload[..8]),
                (ALL_MLD2_ROUTERS, 1, &[58, 0, 5, 2, 0, 0, 1, 0][..])
            );
            let Ok(Some(mld::Message::ReportV2(records))) = mld::Message::parse(&payload[8..], header.src, header.dst)
            else {
                panic!()
            };
            (header.src, records.map(|record| Ipv6Addr::from(record.group)).collect::<Vec<_>>())
        });
        read.collect::<Vec<_>>()
    };
    let near = ip6::link_local(ME6.mac);
    let groups = [ip6::solicited_node(ME6.ip), ip6::solicited_node(near)];
    let nobody = Ipv6Addr::UNSPECIFIED;
    assert_eq!(reports(&h), [(nobody, vec![groups[0]]), (nobody, vec![groups[1]])]);
    h.advance_secs(2);
    assert_eq!(reports(&h), [(near, vec![groups[0]])], "reported again, since there is now a valid address (RFC 3590)");
    h.forget_counters();
    let query = |src: Ipv6Addr, hops| {
        let message = mld::query((src, ALL_NODES), nobody, 1000, 2, 125);
        let query = Ip6::new(src, ALL_NODES, Proto::IPV6_ICMP, message).hops(hops);
        query.with(Proto::HOP_BY_HOP, &[0, 0, 5, 2, 0, 0, 1, 0]).frame(Mac::multicast6(ALL_NODES), PEER6.mac)
    };
    for (src, hops) in [(PEER6.ip, 1), (PEER6.near, 255)] {
        h.inject(EM0, query(src, hops));
        h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, mld.in.malformed 1");
    }
    for _ in 0..100 {
        h.inject(EM0, query(PEER6.near, 1));
    }
    h.assert_counters("in 100, ip6.received 100, ip6.delivered 100, icmp6.received 100, mld.queries_received 100, mld.in.consumed 100");
    h.pass(Duration::from_millis(1100));
    let mut sorted = groups.to_vec();
    sorted.sort_unstable();
    sorted.dedup(); // both groups have the same last bytes
    assert_eq!(reports(&h), [(near, sorted)], "one answer to all queries");
}

fn addresses_that_no_host_can_have_are_rejected<L: Locks>() {
    let h = Host::<L>::new();
    let add = |text: &str| h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(text.parse().unwrap(), 64));
    for text in ["ff02::1", "::", "::1", "::ffff:10.0.0.1"] {
        assert_eq!(add(text), Err(Refused6::NotAHost), "{text}");
    }
    h.stack.set_mtu(EM0, 1279);
    assert_eq!(add("fd00::1"), Err(Refused6::MtuTooSmall));
    h.stack.set_mtu(EM0, 1500);
    let added = (1..200u16).filter(|n| add(&format!("fd00::{n}")).is_ok()).count();
    assert_eq!(added, 63, "and the link-local one");
    h.sent(EM0);
    h.audit();
}

fn an_iface_that_goes_down_drops_waiting_packets<L: Locks>() {
    let h = Host::<L>::six();
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"1").between(PEER6, ME6));
    h.sent(EM0);
    assert_eq!(h.stack.held(h.cx()), 1);
    h.forget_counters();
    h.stack.set_up(h.cx(), EM0, false);
    h.assert_counters("link.ether.out.no_port 1");
}
