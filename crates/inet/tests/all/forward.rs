//! Conversations about forwarding: RFC 1812 5.2, 5.3, RFC 1624, RFC 1191.

use crate::common::packets::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::route::Via;
use lock::Locks;
use std::net::Ipv4Addr;
use wire::arp::Op;
use wire::icmp4::{ty, unreachable};
use wire::{Mac, ip4};

conversations! {
    bytes_after_a_packet_are_not_forwarded
    a_packet_is_forwarded_with_a_decremented_ttl_and_updated_checksum
    every_ttl_and_checksum_is_updated_correctly
    options_and_fragments_are_forwarded_unchanged
    an_expired_ttl_is_reported_to_the_sender
    time_exceeded_is_limited
    a_packet_too_big_with_df_is_answered_with_the_mtu
    a_large_segment_is_forwarded_whole_if_its_pieces_fit
    a_packet_too_big_is_fragmented_and_reassembled_by_the_receiver
    a_fragment_is_fragmented_again
    a_missing_route_is_reported_to_the_sender
    a_reject_route_is_reported_and_a_blackhole_is_silent
    the_longest_prefix_wins
    a_route_that_changes_takes_effect_at_once
    a_gateways_new_mac_address_takes_effect_at_once
    a_gateway_is_resolved_once_and_packets_wait_for_it
    an_unreachable_neighbor_is_reported_to_the_sender
    broadcasts_and_multicasts_are_not_forwarded
    a_redirect_is_sent_to_a_neighbor_with_a_better_first_hop
    a_redirect_names_the_destination_itself_where_that_is_a_neighbor
    no_redirect_is_sent_to_a_remote_sender_or_if_turned_off
    a_packet_in_a_routing_loop_expires
    a_route_through_an_iface_that_is_down_sends_nothing
}

const NET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

fn a_large_segment_is_forwarded_whole_if_its_pieces_fit<L: Locks>() {
    let h = Host::<L>::roomy_router(64);
    h.set_checked(EM1, Checked::Network);
    let packet = long_segment(FAR.ip).ttl(17).df();
    h.inject_large(&packet.between(PEER, ME), 1460);
    assert_eq!(h.sent_one(EM1), packet.ttl(16).between(ME2, FAR), "its pieces have 1500 bytes");
    h.assert_counters("in 1, out 1, ip4.received 1, ip4.forwarded 1");

    h.inject_large(&long_segment(FAR.ip).df().between(PEER, ME), 1461);
    h.sent_nothing(EM1);
    let error = h.sent_one(EM0);
    let (header, _) = icmp_of(&error);
    assert_eq!((header.ty, header.code), (ty::UNREACHABLE, unreachable::FRAG_NEEDED));

    // Without DF, the packet is a long datagram: it is fragmented, and its checksum is filled in.
    h.inject_large(&long_segment(FAR.ip).between(PEER, ME), 1461);
    assert_eq!(h.sent(EM1).len(), 3);
}

fn onward(dst: Ipv4Addr, payload: &[u8]) -> Ip {
    Ip::udp((PEER.ip, 1000), (dst, 9), payload)
}

fn a_packet_is_forwarded_with_a_decremented_ttl_and_updated_checksum<L: Locks>() {
    let h = Host::<L>::router();
    let packet = onward(FAR.ip, b"onward").ttl(17).tos(0x2e).df().id(0xbeef);
    h.inject(EM0, packet.between(PEER, ME));
    let sent = h.sent_one(EM1);
    assert_eq!(sent, packet.ttl(16).between(ME2, FAR), "all other fields are unchanged");
    h.assert_counters("in 1, out 1, ip4.received 1, ip4.forwarded 1");
}

/// Etherleak: bytes after the end of the packet are not forwarded, whatever the packet is and
/// however it is forwarded.
fn bytes_after_a_packet_are_not_forwarded<L: Locks>() {
    let h = Host::<L>::router();
    let packets = [
        onward(FAR.ip, b"x"),
        onward(FAR.ip, b"x").options(&[148, 4, 0, 0]),
        onward(FAR.ip, &[3; 16]).fragment(8, 8),
        ping(PEER, FAR.ip, 1, 1, b"x"),
    ];
    for packet in packets {
        let mut frame = packet.between(PEER, ME);
        let len = frame.len();
        frame.resize(len + 40, 0xee);
        h.inject(EM0, &frame);
        assert_eq!(h.sent_one(EM1).len(), len);
    }
}

fn every_ttl_and_checksum_is_updated_correctly<L: Locks>() {
    let h = Host::<L>::router();
    h.route("198.51.100.0/24", Via::Gateway(EM1, FAR.ip));
    for dst in [FAR.ip, NET] {
        for ttl in 2..=255 {
            for id in [0, 1, 0xff, 0x100, 0x7fff, 0xfeff, 0xffff] {
                // The wire verifies the checksums of sent frames; this test compares with a
                // checksum computed from scratch.
                h.inject(EM0, onward(dst, b"").ttl(ttl).id(id).between(PEER, ME));
                assert_eq!(h.sent_one(EM1), onward(dst, b"").ttl(ttl - 1).id(id).between(ME2, FAR));
            }
        }
    }
}

fn options_and_fragments_are_forwarded_unchanged<L: Locks>() {
    let h = Host::<L>::router();
    let with_options = onward(FAR.ip, &[3; 40]).options(&[148, 4, 0, 0, 1, 1, 1, 0]);
    let first = onward(FAR.ip, &[3; 40]).fragment(0, 16);
    let last = onward(FAR.ip, &[3; 40]).fragment(16, 64);
    for packet in [with_options, first, last] {
        h.inject(EM0, packet.clone().ttl(9).between(PEER, ME));
        assert_eq!(h.sent_one(EM1), packet.ttl(8).between(ME2, FAR));
    }
}

fn an_expired_ttl_is_reported_to_the_sender<L: Locks>() {
    let h = Host::<L>::router();
    for ttl in [0, 1] {
        let packet = onward(FAR.ip, b"x").ttl(ttl);
        h.inject(EM0, packet.between(PEER, ME));
        let error = h.sent_one(EM0);
        let (_, ip, _) = ip_of(&error);
        let (icmp, quoted) = icmp_of(&error);
        assert_eq!((ip.src, ip.dst), (ME.ip, PEER.ip), "from the address of the iface by which the error is sent");
        assert_eq!((icmp.ty, icmp.code), (ty::TIME_EXCEEDED, 0));
        assert_eq!(quoted, packet.packet(), "as received, including TTL and checksum");
    }
    h.sent_nothing(EM1);
    h.assert_counters(
        "in 2, out 2, audit.made 2, ip4.received 2, ip4.sent 2, icmp4.errors_sent 2, ip4.forward.ttl_exceeded 2",
    );
}

fn time_exceeded_is_limited<L: Locks>() {
    let h = Host::<L>::router();
    (0..500).for_each(|_| h.inject(EM0, onward(FAR.ip, b"x").ttl(1).between(PEER, ME)));
    assert!((40..=75).contains(&h.sent(EM0).len()));
    h.sent_nothing(EM1);
    assert_eq!(h.counter("inet.ip4.forward.ttl_exceeded"), 500);
}

/// RFC 1191 4.
fn a_packet_too_big_with_df_is_answered_with_the_mtu<L: Locks>() {
    let h = Host::<L>::router();
    h.stack.set_mtu(EM1, 1006);
    let packet = onward(FAR.ip, &[7; 979]).df();
    h.inject(EM0, packet.between(PEER, ME));
    let error = h.sent_one(EM0);
    let (icmp, quoted) = icmp_of(&error);
    assert_eq!((icmp.ty, icmp.code, icmp.rest), (ty::UNREACHABLE, unreachable::FRAG_NEEDED, [0, 0, 0x03, 0xee]));
    assert_eq!(quoted, &packet.packet()[..548]);
    h.sent_nothing(EM1);
    h.assert_counters(
        "in 1, out 1, audit.made 1, ip4.received 1, ip4.sent 1, icmp4.errors_sent 1, ip4.forward.too_big 1",
    );
    h.inject(EM0, onward(FAR.ip, &[7; 978]).df().between(PEER, ME));
    assert_eq!(h.sent_one(EM1).len(), 1020, "exactly the MTU");
}

fn a_packet_too_big_is_fragmented_and_reassembled_by_the_receiver<L: Locks>() {
    let h = Host::<L>::router();
    h.stack.set_mtu(EM1, 576);
    let payload: Vec<u8> = (0..1400u32).map(|i| (i * 31) as u8).collect();
    h.inject(EM0, onward(FAR.ip, &payload).ttl(9).between(PEER, ME));
    let fragments = h.sent(EM1);
    assert_eq!(fragments.len(), 3);
    for fragment in &fragments {
        let (link, ip, _) = ip_of(fragment);
        assert_eq!((link.dst, ip.ttl, ip.id), (FAR.mac, 8, 0x1234));
        assert!(fragment.len() <= 590);
    }
    h.assert_counters(
        "in 1, out 3, audit.made 3, ip4.received 1, ip4.forwarded 1, ip4.fragmented 1, ip4.fragments_sent 3, \
         ip4.forward.fragmented 1",
    );
    let receiver = Host::<L>::bare(64, 2);
    receiver.add_iface("em0", FAR, 576);
    let s = receiver.bound(9);
    for n in [2, 0, 1] {
        receiver.inject(EM0, &fragments[n]);
    }
    assert_eq!(receiver.recv(s), Some((payload, at(PEER, 1000))));
}

fn a_fragment_is_fragmented_again<L: Locks>() {
    let h = Host::<L>::router();
    h.stack.set_mtu(EM1, 100);
    let payload: Vec<u8> = (0..400u32).map(|i| (i * 31) as u8).collect();
    let whole = onward(FAR.ip, &payload);
    h.inject(EM0, whole.fragment(0, 200).between(PEER, ME));
    h.inject(EM0, whole.fragment(200, 400).between(PEER, ME));
    let receiver = Host::<L>::bare(64, 2);
    receiver.add_iface("em0", FAR, 576);
    let s = receiver.bound(9);
    let fragments = h.sent(EM1);
    assert_eq!(fragments.iter().filter(|f| !ip_of(f).1.mf).count(), 1, "one last");
    receiver.inject_all(EM0, &fragments);
    assert_eq!(receiver.recv(s), Some((payload, at(PEER, 1000))));
}

fn a_missing_route_is_reported_to_the_sender<L: Locks>() {
    let h = Host::<L>::router();
    h.inject(EM0, onward(NET, b"x").between(PEER, ME));
    let error = h.sent_one(EM0);
    let (icmp, _) = icmp_of(&error);
    assert_eq!((icmp.ty, icmp.code), (ty::UNREACHABLE, unreachable::NET));
    h.assert_counters(
        "in 1, out 1, audit.made 1, ip4.received 1, ip4.sent 1, icmp4.errors_sent 1, ip4.forward.no_route 1",
    );
}

fn a_reject_route_is_reported_and_a_blackhole_is_silent<L: Locks>() {
    let h = Host::<L>::router();
    h.route("198.51.100.0/24", Via::Reject);
    h.route("203.0.113.0/24", Via::Blackhole);
    h.inject(EM0, onward(NET, b"x").between(PEER, ME));
    let error = h.sent_one(EM0);
    assert_eq!((icmp_of(&error).0.ty, icmp_of(&error).0.code), (ty::UNREACHABLE, unreachable::HOST));
    h.inject(EM0, onward(Ipv4Addr::new(203, 0, 113, 1), b"x").between(PEER, ME));
    h.sent_nothing(EM0);
    h.sent_nothing(EM1);
    h.assert_counters(
        "in 2, out 1, audit.made 1, ip4.received 2, ip4.sent 1, icmp4.errors_sent 1, ip4.forward.no_route 2",
    );
    let s = h.bound(1000);
    for dst in [NET, Ipv4Addr::new(203, 0, 113, 1)] {
        assert!(h.send(s, b"x", std::net::SocketAddr::from((dst, 9))).is_err());
    }
}

/// RFC 1812 5.2.4.3 (2).
fn the_longest_prefix_wins<L: Locks>() {
    let h = Host::<L>::router();
    h.knows(EM1, FAR_GATEWAY);
    h.knows(EM0, GATEWAY);
    h.route("0.0.0.0/0", Via::Gateway(EM0, GATEWAY.ip));
    h.route("198.0.0.0/8", Via::Gateway(EM1, FAR.ip));
    h.route("198.51.100.0/24", Via::Gateway(EM1, FAR_GATEWAY.ip));
    h.route("198.51.100.128/25", Via::Blackhole);
    h.route("198.51.100.200/32", Via::Gateway(EM1, FAR.ip));
    h.forget_counters();
    let from_far = |dst: Ipv4Addr| Ip::udp((FAR.ip, 1000), (dst, 9), b"x").between(FAR, ME2);
    for (dst, mac) in [
        ([198, 51, 100, 7], Some(FAR_GATEWAY.mac)),
        ([198, 51, 100, 127], Some(FAR_GATEWAY.mac)),
        ([198, 51, 100, 128], None),
        ([198, 51, 100, 200], Some(FAR.mac)),
        ([198, 51, 101, 1], Some(FAR.mac)),
        ([198, 0, 0, 0], Some(FAR.mac)),
    ] {
        h.inject(EM0, onward(Ipv4Addr::from(dst), b"x").between(PEER, ME));
        let sent = h.sent(EM1);
        assert_eq!(sent.first().map(|frame| ip_of(frame).0.dst), mac, "{dst:?}");
    }
    h.inject(EM1, from_far(Ipv4Addr::new(8, 8, 8, 8)));
    assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, GATEWAY.mac);
    // All of them in one burst, whose destinations are looked up together.
    let dsts: Vec<Ipv4Addr> = (0..=255).map(|n| Ipv4Addr::new(198, 51, 100, n)).collect();
    h.inject_all(EM0, dsts.iter().map(|dst| onward(*dst, b"x").between(PEER, ME)));
    let sent = h.sent(EM1);
    assert_eq!(sent.len(), 129);
    for frame in sent {
        let (link, ip, _) = ip_of(&frame);
        let mac = if ip.dst.octets()[3] == 200 { FAR.mac } else { FAR_GATEWAY.mac };
        assert_eq!(link.dst, mac, "{}", ip.dst);
    }
}

fn a_route_that_changes_takes_effect_at_once<L: Locks>() {
    let h = Host::<L>::router();
    h.knows(EM1, FAR_GATEWAY);
    h.route("198.51.100.0/24", Via::Gateway(EM1, FAR.ip));
    let packet = onward(NET, b"x").between(PEER, ME);
    for _ in 0..3 {
        h.inject(EM0, &packet);
        assert_eq!(ip_of(&h.sent_one(EM1)).0.dst, FAR.mac);
    }
    h.route("198.51.100.0/24", Via::Gateway(EM1, FAR_GATEWAY.ip));
    for _ in 0..3 {
        h.inject(EM0, &packet);
        assert_eq!(ip_of(&h.sent_one(EM1)).0.dst, FAR_GATEWAY.mac);
    }
    assert!(h.stack.remove_route(h.cx(), prefix("198.51.100.0/24")).is_some());
    h.inject(EM0, &packet);
    h.sent_nothing(EM1);
    assert_eq!(icmp_of(&h.sent_one(EM0)).0.code, unreachable::NET);
    h.inject(EM0, onward(FAR.ip, b"x").between(PEER, ME));
    assert_eq!(h.sent(EM1).len(), 1);
    h.stack.set_mtu(EM1, 100);
    h.inject(EM0, onward(FAR.ip, &[0; 200]).between(PEER, ME));
    assert_eq!(h.sent(EM1).len(), 3);
}

fn a_gateways_new_mac_address_takes_effect_at_once<L: Locks>() {
    let h = Host::<L>::router();
    let s = h.bound(1000);
    h.inject(EM1, arp(Op::Request, FAR_GATEWAY, ME2));
    h.route("198.51.100.0/24", Via::Gateway(EM1, FAR_GATEWAY.ip));
    h.sent(EM1);
    let packet = onward(NET, b"x").between(PEER, ME);
    let nine = std::net::SocketAddr::from((NET, 9));
    for mac in [FAR_GATEWAY.mac, Mac([2, 0, 0, 0, 9, 9]), Mac([2, 0, 0, 0, 9, 8])] {
        let now = Station { mac, ..FAR_GATEWAY };
        h.inject(EM1, arp(Op::Request, now, now));
        for _ in 0..3 {
            h.inject(EM0, &packet);
            h.send(s, b"x", nine).unwrap();
            let sent = h.sent(EM1);
            assert_eq!(sent.len(), 2);
            assert!(sent.iter().all(|frame| ip_of(frame).0.dst == mac));
        }
    }
}

fn a_gateway_is_resolved_once_and_packets_wait_for_it<L: Locks>() {
    let h = Host::<L>::router();
    h.route("198.51.100.0/24", Via::Gateway(EM1, FAR_GATEWAY.ip));
    h.forget_counters();
    h.inject_all(EM0, (0..10).map(|n| onward(Ipv4Addr::new(198, 51, 100, n), &[n]).between(PEER, ME)));
    assert_eq!(arp_of(&h.sent_one(EM1)).1.tpa, FAR_GATEWAY.ip);
    h.assert_counters(
        "in 10, out 1, audit.made 1, arp.requests_sent 1, neigh.created 1, ip4.received 10, ip4.forwarded 10",
    );
    h.inject(EM1, arp(Op::Reply, FAR_GATEWAY, ME2));
    let sent = h.sent(EM1);
    assert_eq!(sent.iter().map(|f| udp_of(f).1[0]).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert!(sent.iter().all(|f| ip_of(f).1.ttl == 63));
}

fn an_unreachable_neighbor_is_reported_to_the_sender<L: Locks>() {
    let h = Host::<L>::router();
    let absent = Ipv4Addr::new(10, 0, 1, 99);
    (0..3).for_each(|_| h.inject(EM0, onward(absent, b"x").between(PEER, ME)));
    h.pass(Duration::from_secs(6));
    let errors = h.sent(EM0);
    assert_eq!(errors.len(), 3);
    for error in errors {
        let (icmp, quoted) = icmp_of(&error);
        assert_eq!((icmp.ty, icmp.code), (ty::UNREACHABLE, unreachable::HOST));
        assert_eq!(ip4::Header::parse(quoted).unwrap().dst, absent);
    }
    assert_eq!(h.sent(EM1).len(), 3);
    h.assert_counters(
        "in 3, out 6, audit.made 6, arp.requests_sent 3, neigh.created 1, neigh.failed 1, neigh.timeout 3, \
         ip4.received 3, ip4.forwarded 3, ip4.sent 3, icmp4.errors_sent 3",
    );
}

/// RFC 1812 5.3.4, RFC 2644: directed broadcasts are not forwarded by default.
fn broadcasts_and_multicasts_are_not_forwarded<L: Locks>() {
    let h = Host::<L>::router();
    h.route("0.0.0.0/0", Via::Gateway(EM1, FAR.ip));
    for dst in [
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(10, 0, 0, 255),
        Ipv4Addr::new(10, 0, 1, 255),
        Ipv4Addr::new(10, 0, 1, 0),
        Ipv4Addr::new(224, 0, 0, 1),
        Ipv4Addr::new(239, 1, 2, 3),
    ] {
        h.inject(EM0, onward(dst, b"x").frame(ME.mac, PEER.mac));
        h.inject(EM0, onward(dst, b"x").frame(Mac::BROADCAST, PEER.mac));
    }
    h.sent_nothing(EM1);
    h.sent_nothing(EM0);
}

/// RFC 1812 5.2.7.2.
fn a_redirect_is_sent_to_a_neighbor_with_a_better_first_hop<L: Locks>() {
    let h = Host::<L>::router();
    h.knows(EM0, GATEWAY);
    h.route("198.51.100.0/24", Via::Gateway(EM0, GATEWAY.ip));
    h.forget_counters();
    let packet = onward(NET, b"x");
    h.inject(EM0, packet.between(PEER, ME));
    let mut sent = h.sent(EM0);
    assert_eq!(sent.len(), 2);
    let (onward, redirect) = if ip_of(&sent[0]).0.dst == GATEWAY.mac {
        (sent.remove(0), sent.remove(0))
    } else {
        (sent.remove(1), sent.remove(0))
    };
    assert_eq!(ip_of(&onward).1.ttl, 63, "the packet is also forwarded");
    let (icmp, quoted) = icmp_of(&redirect);
    assert_eq!((icmp.ty, icmp.code, icmp.rest), (ty::REDIRECT, 1, GATEWAY.ip.octets()));
    assert_eq!((ip_of(&redirect).1.src, ip_of(&redirect).1.dst), (ME.ip, PEER.ip));
    assert_eq!(quoted, packet.packet());
    h.assert_counters(
        "in 1, out 2, audit.made 1, ip4.received 1, ip4.forwarded 1, ip4.sent 1, icmp4.errors_sent 1, \
         icmp4.redirects_sent 1",
    );
}

/// The better next hop can be the destination itself (RFC 1812 5.2.7.2).
fn a_redirect_names_the_destination_itself_where_that_is_a_neighbor<L: Locks>() {
    let h = Host::<L>::router();
    h.knows(EM0, OTHER);
    h.inject(EM0, Ip::udp((PEER.ip, 1000), (OTHER.ip, 9), b"x").between(PEER, ME));
    let sent = h.sent(EM0);
    assert!(sent.iter().any(|f| ip_of(f).0.dst == OTHER.mac), "the packet is also forwarded");
    let redirects: Vec<_> = sent.iter().filter(|f| ip_of(f).0.dst == PEER.mac).collect();
    assert_eq!(redirects.len(), 1);
    assert_eq!(icmp_of(redirects[0]).0.rest, OTHER.ip.octets());
}

fn no_redirect_is_sent_to_a_remote_sender_or_if_turned_off<L: Locks>() {
    let h = Host::<L>::router();
    h.knows(EM0, GATEWAY);
    h.route("198.51.100.0/24", Via::Gateway(EM0, GATEWAY.ip));
    // The sender is not on this link, so it could not use that gateway.
    h.inject(EM0, Ip::udp((Ipv4Addr::new(192, 0, 2, 1), 1), (NET, 9), b"x").between(PEER, ME));
    assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, GATEWAY.mac);
    h.stack.sysctls.send_redirects.set(0);
    h.inject(EM0, onward(NET, b"x").between(PEER, ME));
    assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, GATEWAY.mac);
    assert_eq!(h.counter("inet.icmp4.redirects_sent"), 0);
}

fn a_packet_in_a_routing_loop_expires<L: Locks>() {
    let (a, b) = (Host::<L>::new(), Host::<L>::bare(64, 2));
    b.add_iface("em0", PEER, 1500);
    for (host, other) in [(&a, PEER), (&b, ME)] {
        host.stack.sysctls.forwarding.set(1);
        host.knows(EM0, other);
        host.route("198.51.100.0/24", Via::Gateway(EM0, other.ip));
    }
    a.inject(EM0, Ip::udp((Ipv4Addr::new(10, 0, 0, 3), 1), (NET, 9), b"x").between(OTHER, ME));
    let carried = pump(&a, &b);
    assert!((63..=200).contains(&carried), "{carried}");
    let died = a.counter("inet.ip4.forward.ttl_exceeded") + b.counter("inet.ip4.forward.ttl_exceeded");
    assert_eq!(died, 1);
}

fn a_route_through_an_iface_that_is_down_sends_nothing<L: Locks>() {
    let h = Host::<L>::router();
    h.knows(EM1, FAR_GATEWAY);
    h.route("198.51.100.0/24", Via::Gateway(EM1, FAR_GATEWAY.ip));
    h.inject(EM0, onward(NET, b"x").between(PEER, ME));
    assert_eq!(h.sent(EM1).len(), 1);
    h.stack.set_up(h.cx(), EM1, false);
    h.inject(EM0, onward(NET, b"x").between(PEER, ME));
    h.inject(EM0, onward(FAR.ip, b"x").between(PEER, ME));
    h.sent_nothing(EM1);
    h.audit();
}
