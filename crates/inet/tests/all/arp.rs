//! Conversations about Ethernet and ARP: RFC 826, RFC 5227, RFC 1122 2.3.2.

use crate::common::packets::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::iface::IfaceAddr;
use linerate_inet::neigh::State;
use linerate_inet::route::Via;
use linerate_inet::udp::{SendError, SoError};
use lock::Locks;
use std::net::Ipv4Addr;
use wire::Mac;
use wire::arp::{Op, Packet};
use wire::eth::EtherType;

conversations! {
    a_request_for_our_address_is_answered_and_its_sender_cached
    a_request_from_a_known_neighbor_refreshes_it
    a_probe_is_answered_and_not_cached
    an_unsolicited_reply_creates_nothing
    a_request_for_another_host_creates_nothing
    a_gratuitous_announcement_updates_entries_and_creates_none
    a_sender_from_another_subnet_is_answered_and_not_cached
    an_address_beyond_the_prefixes_is_resolved_over_a_route_through_the_link
    our_address_is_defended_at_most_once_in_ten_seconds
    a_static_entry_is_not_overwritten
    malformed_packets_are_counted_and_nothing_is_learned
    a_sender_other_than_the_frames_source_is_answered_and_cached
    a_priority_tag_is_stripped_and_a_vlan_tag_is_not
    the_waiting_queue_drops_the_oldest_and_is_delivered_in_order
    the_request_for_a_first_datagram_is_sent_at_once
    at_most_one_request_per_second
    a_connected_socket_gets_an_error_after_three_tries
    an_unconnected_socket_gets_no_error_for_an_unreachable_neighbor
    a_stale_neighbor_is_used_at_once_and_probed_by_unicast
    a_stale_neighbor_without_an_answer_is_probed_three_times_and_removed
    packets_follow_a_neighbor_that_moved
    setting_a_static_neighbor_sends_waiting_packets
    removing_a_neighbor_drops_waiting_packets
    an_address_is_announced_when_it_is_added
    a_flood_of_requests_is_bounded_and_leaves_neighbors_in_use_alone
    a_flood_of_requests_does_not_block_new_neighbors
    a_scan_through_a_router_is_bounded_and_leaves_neighbors_alone
    frames_from_impossible_sources_are_dropped
    frames_for_other_stations_and_of_unknown_types_are_dropped
    a_frame_cut_anywhere_in_its_link_header_is_too_short
    an_iface_that_is_down_neither_receives_nor_sends
}

fn host<L: Locks>() -> Host<L> {
    Host::new()
}

fn a_request_for_our_address_is_answered_and_its_sender_cached<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, arp(Op::Request, PEER, ME));
    let (link, reply) = arp_of(&h.sent_one(EM0));
    assert_eq!((link.dst, link.src), (PEER.mac, ME.mac));
    assert_eq!(reply, Packet { op: Op::Reply, sha: ME.mac, spa: ME.ip, tha: PEER.mac, tpa: PEER.ip });
    let entry = h.neighbor(PEER.ip).unwrap();
    assert_eq!((entry.mac, entry.state), (PEER.mac, State::Reachable));
    h.assert_counters(
        "in 1, out 1, audit.made 1, arp.requests_received 1, arp.replies_sent 1, neigh.created 1, arp.in.consumed 1",
    );
}

fn a_request_from_a_known_neighbor_refreshes_it<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, arp(Op::Request, PEER, ME));
    h.advance_secs(600);
    h.inject(EM0, arp(Op::Request, PEER, ME));
    h.sent(EM0);
    h.advance_secs(1199);
    assert_eq!(h.neighbor(PEER.ip).unwrap().state, State::Reachable);
    h.advance_secs(1);
    assert_eq!(h.neighbor(PEER.ip).unwrap().state, State::Stale);
    h.assert_counters(
        "in 2, out 2, audit.made 2, arp.requests_received 2, arp.replies_sent 2, neigh.created 1, arp.in.consumed 2",
    );
}

/// RFC 5227 2.1.1: the sender address of a probe is zero. Storing it would pollute the neighbor
/// table.
fn a_probe_is_answered_and_not_cached<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, arp(Op::Request, Station { ip: Ipv4Addr::UNSPECIFIED, ..PEER }, ME));
    let (link, reply) = arp_of(&h.sent_one(EM0));
    assert_eq!(link.dst, PEER.mac);
    assert_eq!((reply.op, reply.sha, reply.spa), (Op::Reply, ME.mac, ME.ip));
    assert!(h.stack.neighbors(h.cx()).is_empty());
    h.assert_counters("in 1, out 1, audit.made 1, arp.requests_received 1, arp.replies_sent 1, arp.in.consumed 1");
}

fn an_unsolicited_reply_creates_nothing<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, arp(Op::Reply, PEER, ME));
    h.sent_nothing(EM0);
    assert!(h.stack.neighbors(h.cx()).is_empty());
    h.assert_counters("in 1, arp.replies_received 1, arp.in.consumed 1");
}

fn a_request_for_another_host_creates_nothing<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, arp(Op::Request, PEER, OTHER));
    h.sent_nothing(EM0);
    assert!(h.stack.neighbors(h.cx()).is_empty());
    h.assert_counters("in 1, arp.requests_received 1, arp.in.ignored 1");
}

fn a_gratuitous_announcement_updates_entries_and_creates_none<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, arp(Op::Request, OTHER, OTHER));
    assert!(h.stack.neighbors(h.cx()).is_empty());
    h.assert_counters("in 1, arp.requests_received 1, arp.in.ignored 1");

    h.inject(EM0, arp(Op::Request, PEER, ME));
    h.sent(EM0);
    h.forget_counters();
    let moved = Station { mac: OTHER.mac, ..PEER };
    h.inject(EM0, arp(Op::Request, moved, moved));
    h.sent_nothing(EM0);
    assert_eq!(h.neighbor(PEER.ip).unwrap().mac, OTHER.mac);
    h.assert_counters("in 1, arp.requests_received 1, neigh.moved 1, arp.in.consumed 1");
}

fn a_sender_from_another_subnet_is_answered_and_not_cached<L: Locks>() {
    let h = host::<L>();
    let stranger = Station { ip: Ipv4Addr::new(192, 0, 2, 7), ..PEER };
    h.inject(EM0, arp(Op::Request, stranger, ME));
    assert_eq!(arp_of(&h.sent_one(EM0)).1.op, Op::Reply);
    assert!(h.stack.neighbors(h.cx()).is_empty());
    h.assert_counters("in 1, out 1, audit.made 1, arp.requests_received 1, arp.replies_sent 1, arp.in.consumed 1");
}

/// An unrequested reply from beyond the prefixes creates no entry; a requested one completes it.
fn an_address_beyond_the_prefixes_is_resolved_over_a_route_through_the_link<L: Locks>() {
    let h = host::<L>();
    h.route("0.0.0.0/0", Via::Link(EM0));
    let far = Station { ip: Ipv4Addr::new(198, 51, 100, 7), ..PEER };
    h.inject(EM0, arp(Op::Reply, far, ME));
    assert!(h.stack.neighbors(h.cx()).is_empty());
    let s = h.bound(1000);
    assert_eq!(h.send(s, b"x", at(far, 9)), Ok(1));
    assert_eq!(arp_of(&h.sent_one(EM0)).1.tpa, far.ip);
    h.forget_counters();
    h.inject(EM0, arp(Op::Reply, far, ME));
    assert_eq!(udp_of(&h.sent_one(EM0)).1, b"x");
    h.assert_counters("in 1, out 1, arp.replies_received 1, neigh.resolved 1, arp.in.consumed 1");
}

/// RFC 5227 2.4 (b), DEFEND_INTERVAL 10 s.
fn our_address_is_defended_at_most_once_in_ten_seconds<L: Locks>() {
    let h = host::<L>();
    let thief = Station { ip: ME.ip, ..PEER };
    h.inject(EM0, arp(Op::Request, thief, thief));
    let (link, defence) = arp_of(&h.sent_one(EM0));
    assert_eq!(link.dst, Mac::BROADCAST);
    assert_eq!(defence, Packet { op: Op::Request, sha: ME.mac, spa: ME.ip, tha: Mac::ZERO, tpa: ME.ip });
    h.assert_counters("in 1, out 1, audit.made 1, arp.announcements_sent 1, arp.conflicts 1, arp.in.conflict 1");
    for _ in 0..9 {
        h.advance_secs(1);
        h.inject(EM0, arp(Op::Reply, thief, Station { mac: Mac::BROADCAST, ..OTHER }));
    }
    h.sent_nothing(EM0);
    h.assert_counters("in 9, arp.conflicts 9, arp.in.conflict 9");
    h.advance_secs(1);
    h.inject(EM0, arp(Op::Request, thief, OTHER));
    assert_eq!(arp_of(&h.sent_one(EM0)).1.spa, ME.ip);
    assert!(h.stack.neighbors(h.cx()).is_empty(), "a conflict creates no neighbor entry");
    h.assert_counters("in 1, out 1, audit.made 1, arp.announcements_sent 1, arp.conflicts 1, arp.in.conflict 1");
}

fn a_static_entry_is_not_overwritten<L: Locks>() {
    let h = host::<L>();
    h.knows(EM0, PEER);
    let thief = Station { mac: OTHER.mac, ..PEER };
    h.inject(EM0, arp(Op::Request, thief, thief));
    h.inject(EM0, arp(Op::Reply, thief, ME));
    let entry = h.neighbor(PEER.ip).unwrap();
    assert_eq!((entry.mac, entry.state), (PEER.mac, State::Permanent));
    h.assert_counters("in 2, arp.requests_received 1, arp.replies_received 1, arp.in.would_overwrite_static 2");
    h.advance_secs(100_000);
    assert_eq!(h.neighbor(PEER.ip).unwrap().state, State::Permanent);
}

/// Ripple20 (11906, 11914): types and lengths are validated, and nothing beyond the packet is read.
fn malformed_packets_are_counted_and_nothing_is_learned<L: Locks>() {
    let h = host::<L>();
    let good = arp(Op::Request, PEER, ME);
    let mut bad: Vec<Vec<u8>> = (14..good.len()).map(|len| good[..len].to_vec()).collect();
    // Hardware type, protocol type, hlen, plen, operation 0, 3 and 0x0100.
    for (at, value) in [(15, 6), (14, 1), (16, 0x86), (18, 0), (18, 8), (19, 16), (21, 0), (21, 3), (20, 1)] {
        let mut frame = good.clone();
        frame[at] = value;
        bad.push(frame);
    }
    // MAC addresses that no sender can have, and our own; IP addresses that no host can have.
    for sha in [Mac::BROADCAST, Mac([1, 0, 0x5e, 0, 0, 1]), Mac::ZERO, ME.mac] {
        let packet = Packet { op: Op::Request, sha, spa: PEER.ip, tha: Mac::ZERO, tpa: ME.ip };
        bad.push(ether(Mac::BROADCAST, PEER.mac, EtherType::ARP, &packet.emit()));
    }
    for ip in [Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::BROADCAST] {
        bad.push(arp(Op::Request, Station { ip, ..PEER }, ME));
    }
    let n = bad.len();
    bad.iter().for_each(|frame| h.inject(EM0, frame));
    h.sent_nothing(EM0);
    assert!(h.stack.neighbors(h.cx()).is_empty());
    h.assert_counters(&format!("in {n}, arp.in.malformed {n}"));
}

/// RFC 826 does not compare the sender with the source of the frame. The sender may be a proxy, or
/// a bridge with its own address.
fn a_sender_other_than_the_frames_source_is_answered_and_cached<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, ether(Mac::BROADCAST, OTHER.mac, EtherType::ARP, &arp(Op::Request, PEER, ME)[14..]));
    let (link, reply) = arp_of(&h.sent_one(EM0));
    assert_eq!((link.dst, reply.tha), (PEER.mac, PEER.mac));
    assert_eq!(h.neighbor(PEER.ip).unwrap().mac, PEER.mac);
    h.assert_counters(
        "in 1, out 1, audit.made 1, arp.requests_received 1, arp.replies_sent 1, neigh.created 1, arp.in.consumed 1",
    );
}

/// IEEE 802.1Q table 9-2: VLAN 0 only states a priority and is not a VLAN, also inside another such
/// tag.
fn a_priority_tag_is_stripped_and_a_vlan_tag_is_not<L: Locks>() {
    let h = host::<L>();
    let request = arp(Op::Request, PEER, ME);
    let tagged = |frame: &[u8], tags: &[(u16, u16)]| {
        let (mut bytes, rest) = (frame[..12].to_vec(), &frame[12..]);
        tags.iter().for_each(|(tpid, tci)| bytes.extend([tpid.to_be_bytes(), tci.to_be_bytes()].concat()));
        [&bytes, rest].concat()
    };
    for tags in [&[(0x8100, 0xa000)][..], &[(0x88a8, 0)], &[(0x88a8, 0x2000), (0x8100, 0x1000)]] {
        h.inject(EM0, tagged(&request, tags));
        assert_eq!(arp_of(&h.sent_one(EM0)).1.op, Op::Reply, "{tags:x?}");
    }
    h.forget_counters();
    let s = h.bound(9);
    let datagram = udp_frame(PEER, 5, ME, 9, b"text");
    h.inject(EM0, tagged(&datagram, &[(0x8100, 0xe000)]));
    assert_eq!(h.recv(s).unwrap().0, b"text");
    h.assert_counters("in 1, audit.consumed 1, ip4.received 1, ip4.delivered 1, udp.received 1, udp.delivered 1");
    for tags in [&[(0x8100, 1)][..], &[(0x8100, 0x0fff)], &[(0x8100, 0), (0x8100, 7)]] {
        h.inject(EM0, tagged(&request, tags));
    }
    // The frame ends within the tag.
    h.inject(EM0, &tagged(&request, &[(0x8100, 0)])[..16]);
    h.sent_nothing(EM0);
    h.assert_counters("in 4, link.ether.in.unknown_type 4");
}

/// RFC 1122 2.3.2.2: the link layer SHOULD save at least one, the latest, packet.
fn the_waiting_queue_drops_the_oldest_and_is_delivered_in_order<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    for n in 0..20 {
        assert_eq!(h.send(s, &[n], at(PEER, 9)), Ok(1));
    }
    let (link, request) = arp_of(&h.sent_one(EM0));
    assert_eq!(link.dst, Mac::BROADCAST);
    assert_eq!(request, Packet { op: Op::Request, sha: ME.mac, spa: ME.ip, tha: Mac::ZERO, tpa: PEER.ip });
    assert_eq!(h.neighbor(PEER.ip).unwrap().pending, 16);
    h.assert_counters(
        "out 1, audit.made 21, arp.requests_sent 1, neigh.created 1, ip4.sent 20, udp.sent 20, neigh.queue_full 4",
    );
    h.inject(EM0, arp(Op::Reply, PEER, ME));
    let sent: Vec<u8> = h.sent(EM0).iter().map(|frame| udp_of(frame).1[0]).collect();
    assert_eq!(sent, (4..20).collect::<Vec<u8>>());
    assert_eq!(h.neighbor(PEER.ip).unwrap().pending, 0);
    h.assert_counters("in 1, out 16, arp.replies_received 1, neigh.resolved 1, arp.in.consumed 1");
}

/// A program that sends and then waits for the answer does not flush, so the request must leave at
/// once.
fn the_request_for_a_first_datagram_is_sent_at_once<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    assert_eq!(h.sent_at_once(EM0).len(), 1);
}

/// RFC 1122 2.3.2.1: flooding with requests MUST be prevented; the recommended maximum is 1 per
/// second per destination.
fn at_most_one_request_per_second<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    let mut requested = Vec::new();
    for ms in 0..12_000u64 {
        if ms % 3 == 0 {
            let _ = h.send(s, b"?", at(PEER, 9));
        }
        h.advance(Duration::from_millis(1));
        requested.extend(h.sent(EM0).iter().map(|_| ms));
    }
    assert!((10..=12).contains(&requested.len()), "{requested:?}");
    assert!(requested.windows(2).all(|two| two[1] - two[0] >= 999), "{requested:?}");
}

fn a_connected_socket_gets_an_error_after_three_tries<L: Locks>() {
    let h = host::<L>();
    let s = h.connected(1000, at(PEER, 9));
    assert_eq!(h.send(s, b"hello?", None), Ok(6));
    h.pass(Duration::from_millis(2_900));
    let requested = h.sent(EM0);
    assert_eq!(requested.len(), 3);
    assert!(requested.iter().all(|frame| arp_of(frame).0.dst == Mac::BROADCAST));
    assert_eq!(h.error(s), None);
    h.pass(Duration::from_millis(200));
    h.sent_nothing(EM0);
    assert_eq!(h.neighbor(PEER.ip), None);
    h.assert_counters(
        "out 3, audit.made 4, arp.requests_sent 3, neigh.created 1, neigh.failed 1, ip4.sent 1, udp.sent 1, \
         icmp4.errors_delivered 1, neigh.timeout 1",
    );
    assert_eq!(h.send(s, b"hello?", None), Err(SendError::Earlier(SoError::HostUnreachable)));
    h.assert_counters("");
    assert_eq!(h.send(s, b"again", None), Ok(5), "the error is reported once");
    assert_eq!(arp_of(&h.sent_one(EM0)).1.tpa, PEER.ip);
}

fn an_unconnected_socket_gets_no_error_for_an_unreachable_neighbor<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    assert_eq!(h.send(s, b"hello?", at(PEER, 9)), Ok(6));
    h.pass(Duration::from_secs(6));
    assert_eq!(h.error(s), None);
    assert_eq!(h.send(s, b"hello?", at(OTHER, 9)), Ok(6));
}

fn a_stale_neighbor_is_used_at_once_and_probed_by_unicast<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, arp(Op::Request, PEER, ME));
    h.sent(EM0);
    let s = h.bound(1000);
    assert_eq!(h.send(s, b"1", at(PEER, 9)), Ok(1));
    h.advance_secs(1200);
    assert_eq!(h.neighbor(PEER.ip).unwrap().state, State::Stale);
    h.sent(EM0);
    h.forget_counters();

    assert_eq!(h.send(s, b"2", at(PEER, 9)), Ok(1));
    assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, PEER.mac);
    assert_eq!(h.neighbor(PEER.ip).unwrap().state, State::Probe);
    h.poll();
    let (link, request) = arp_of(&h.sent_one(EM0));
    assert_eq!((link.dst, request.op, request.tpa), (PEER.mac, Op::Request, PEER.ip));
    h.inject(EM0, arp(Op::Reply, PEER, ME));
    assert_eq!(h.neighbor(PEER.ip).unwrap().state, State::Reachable);
    h.assert_counters(
        "in 1, out 2, audit.made 2, arp.requests_sent 1, arp.replies_received 1, arp.in.consumed 1, \
         ip4.sent 1, udp.sent 1",
    );
    h.pass(Duration::from_secs(30));
    h.sent_nothing(EM0);
    h.assert_counters("");
}

fn a_stale_neighbor_without_an_answer_is_probed_three_times_and_removed<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, arp(Op::Request, PEER, ME));
    h.advance_secs(1200);
    let s = h.bound(1000);
    assert_eq!(h.send(s, b"2", at(PEER, 9)), Ok(1));
    h.sent(EM0);
    h.forget_counters();
    h.pass(Duration::from_secs(6));
    let requested = h.sent(EM0);
    assert_eq!(requested.len(), 3);
    assert!(requested.iter().all(|frame| arp_of(frame).0.dst == PEER.mac), "unicast, not broadcast");
    assert_eq!(h.neighbor(PEER.ip), None);
    h.assert_counters("out 3, audit.made 3, arp.requests_sent 3, neigh.failed 1");
    assert_eq!(h.send(s, b"3", at(PEER, 9)), Ok(1));
    assert_eq!(arp_of(&h.sent_one(EM0)).0.dst, Mac::BROADCAST, "resolution starts again");
}

/// The headers cached at the socket must not be used after the neighbor's address changed.
fn packets_follow_a_neighbor_that_moved<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, arp(Op::Request, PEER, ME));
    h.sent(EM0);
    let s = h.connected(1000, at(PEER, 9));
    for _ in 0..3 {
        assert_eq!(h.send(s, b"x", None), Ok(1));
        assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, PEER.mac);
    }
    let moved = Station { mac: OTHER.mac, ..PEER };
    h.inject(EM0, arp(Op::Request, moved, moved));
    for _ in 0..3 {
        assert_eq!(h.send(s, b"x", None), Ok(1));
        assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, OTHER.mac);
    }
}

fn setting_a_static_neighbor_sends_waiting_packets<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    h.sent(EM0);
    h.forget_counters();
    h.knows(EM0, PEER);
    assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, PEER.mac);
    h.assert_counters("out 1");
}

fn removing_a_neighbor_drops_waiting_packets<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    h.sent(EM0);
    h.forget_counters();
    assert!(h.stack.remove_neighbor(h.cx(), EM0, PEER.ip));
    assert!(!h.stack.remove_neighbor(h.cx(), EM0, PEER.ip));
    h.assert_counters("neigh.timeout 1");
}

fn an_address_is_announced_when_it_is_added<L: Locks>() {
    let h = host::<L>();
    let second = Ipv4Addr::new(10, 0, 0, 77);
    h.stack.add_addr(h.cx(), EM0, IfaceAddr { addr: second, len: 24 }).unwrap();
    h.stack.flush(h.cx());
    let (link, packet) = arp_of(&h.sent_one(EM0));
    assert_eq!(link.dst, Mac::BROADCAST);
    assert_eq!((packet.op, packet.spa, packet.tpa, packet.tha), (Op::Request, second, second, Mac::ZERO));
    h.assert_counters("out 1, audit.made 1, arp.announcements_sent 1");
    h.inject(EM0, arp(Op::Request, PEER, Station { ip: second, ..ME }));
    assert_eq!(arp_of(&h.sent_one(EM0)).1.spa, second);
    assert!(h.stack.remove_addr(h.cx(), EM0, second));
    h.inject(EM0, arp(Op::Request, PEER, Station { ip: second, ..ME }));
    h.sent_nothing(EM0);
}

/// Returns a host on a /16 with space for 64 neighbors.
fn crowded<L: Locks>() -> Host<L> {
    let h = Host::<L>::bare(512, 1);
    h.add_iface("em0", ME, 1500);
    h.stack.add_addr(h.cx(), EM0, IfaceAddr { addr: ME.ip, len: 16 }).unwrap();
    h.stack.sysctls.neigh_limit.set(64);
    h.stack.flush(h.cx());
    h.sent(EM0);
    h
}

fn stranger(n: u32) -> Station {
    let [_, _, c, d] = n.to_be_bytes();
    Station { mac: Mac([2, 0, 1, 0, c, d]), ip: Ipv4Addr::new(10, 0, 16 + c, d) }
}

/// The size of the table is limited, and entries in use are not evicted.
fn a_flood_of_requests_is_bounded_and_leaves_neighbors_in_use_alone<L: Locks>() {
    let h = crowded::<L>();
    h.inject(EM0, arp(Op::Request, PEER, ME));
    let s = h.connected(1000, at(PEER, 9));
    h.sent(EM0);
    for n in 0..10_000 {
        h.inject(EM0, arp(Op::Request, stranger(n), ME));
        if n % 100 == 0 {
            h.advance(Duration::from_millis(10));
            h.sent(EM0);
            assert!(h.stack.neighbors(h.cx()).len() <= 64);
            assert_eq!(h.send(s, b"still there?", None), Ok(12));
            assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, PEER.mac, "after {n}");
        }
    }
    h.audit();
}

/// The table evicts the entry that has been unused for the longest time, so that 64 unknown
/// stations do not block it for twenty minutes.
fn a_flood_of_requests_does_not_block_new_neighbors<L: Locks>() {
    let h = crowded::<L>();
    for n in 0..1_000 {
        h.inject(EM0, arp(Op::Request, stranger(n), ME));
    }
    h.advance_secs(10);
    h.sent(EM0);
    let s = h.bound(1000);
    assert_eq!(h.send(s, b"hello", at(PEER, 9)), Ok(5));
    assert_eq!(arp_of(&h.sent_one(EM0)).1.tpa, PEER.ip, "the newcomer is not resolved");
    h.inject(EM0, arp(Op::Reply, PEER, ME));
    assert_eq!(udp_of(&h.sent_one(EM0)).1, b"hello");
    assert!(h.stack.neighbors(h.cx()).len() <= 64);
    h.poll();
    assert!(h.counter("inet.neigh.evicted") >= 1_000 - 64, "each evicted entry is counted");
}

/// Exhaustion of the neighbor table (RFC 6583, with ARP): a scan of an attached subnet fills the
/// table with unresolved entries.
fn a_scan_through_a_router_is_bounded_and_leaves_neighbors_alone<L: Locks>() {
    let h = Host::<L>::router();
    h.stack.sysctls.neigh_limit.set(64);
    h.stack.sysctls.icmp_rate.set(0);
    h.inject(EM1, arp(Op::Request, station_on_1(3), ME2));
    h.sent(EM1);
    let far = |n: u8| Ip::udp((PEER.ip, 5), (Ipv4Addr::new(10, 0, 1, n), 6), b"scan").between(PEER, ME);
    for n in 10..=250 {
        h.inject(EM0, far(n));
        assert!(h.stack.neighbors(h.cx()).len() <= 64);
    }
    assert!(h.stack.held(h.cx()) <= 64 * 16);
    h.sent(EM1);
    h.inject(EM0, far(3));
    assert_eq!(ip_of(&h.sent_one(EM1)).0.dst, station_on_1(3).mac, "packets to a known neighbor are still forwarded");
    h.pass(Duration::from_secs(10));
    h.sent(EM1);
    assert!(h.stack.neighbors(h.cx()).iter().all(|n| n.state != State::Incomplete), "unresolved entries are removed");
    h.inject(EM0, far(9));
    assert_eq!(arp_of(&h.sent_one(EM1)).1.tpa, Ipv4Addr::new(10, 0, 1, 9), "the table has space again");
}

fn station_on_1(host: u8) -> Station {
    Station { mac: Mac([2, 0, 0, 0, 1, host]), ip: Ipv4Addr::new(10, 0, 1, host) }
}

/// Multicast addresses, zero and our own address are not valid sources.
fn frames_from_impossible_sources_are_dropped<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    for mac in [Mac::BROADCAST, Mac([1, 0, 0x5e, 0, 0, 1]), Mac::ZERO, ME.mac] {
        let liar = Station { mac, ..PEER };
        h.inject(EM0, udp_frame(liar, 1, ME, 9, b"x"));
        h.inject(EM0, arp(Op::Request, liar, ME));
    }
    h.sent_nothing(EM0);
    assert!(h.recv(s).is_none());
    assert!(h.stack.neighbors(h.cx()).is_empty());
    h.assert_counters("in 8, link.ether.in.bad_source 6, link.ether.in.own_source 2");
}

fn frames_for_other_stations_and_of_unknown_types_are_dropped<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    h.inject(EM0, Ip::udp((PEER.ip, 1), (ME.ip, 9), b"x").frame(OTHER.mac, PEER.mac));
    h.inject(EM0, ether(OTHER.mac, PEER.mac, EtherType::ARP, &arp(Op::Request, PEER, ME)[14..]));
    h.assert_counters("in 2, link.ether.in.other_host 2");
    for ethertype in [EtherType::IPV6, EtherType::VLAN, EtherType::QINQ, EtherType(0x05dc), EtherType(0x88cc)] {
        h.inject(EM0, ether(ME.mac, PEER.mac, ethertype, &[0; 46]));
        h.inject(EM0, ether(Mac::BROADCAST, PEER.mac, ethertype, &[]));
    }
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    h.assert_counters("in 10, link.ether.in.unknown_type 10");
}

fn a_frame_cut_anywhere_in_its_link_header_is_too_short<L: Locks>() {
    let h = host::<L>();
    let frame = udp_frame(PEER, 1, ME, 9, b"x");
    (0..14).for_each(|len| h.inject(EM0, &frame[..len]));
    h.assert_counters("in 14, link.ether.in.short 14");
}

fn an_iface_that_is_down_neither_receives_nor_sends<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    h.inject(EM0, arp(Op::Request, PEER, ME));
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    assert_eq!(h.send(s, b"waits", at(OTHER, 9)), Ok(5));
    h.sent(EM0);
    h.forget_counters();
    h.stack.set_up(h.cx(), EM0, false);
    h.assert_counters("link.ether.out.no_port 1");
    h.inject(EM0, udp_frame(PEER, 1, ME, 9, b"x"));
    h.inject(EM0, arp(Op::Request, PEER, ME));
    h.assert_counters("in 2, link.ether.in.iface_down 2");
    assert!(h.send(s, b"x", at(PEER, 9)).is_err());
    h.sent_nothing(EM0);
    h.assert_counters("audit.made 1, link.ether.out.no_port 1");

    h.stack.set_up(h.cx(), EM0, true);
    h.inject(EM0, udp_frame(PEER, 1, ME, 9, b"x"));
    assert_eq!(h.recv(s), Some((b"x".to_vec(), at(PEER, 1))));
    // An interface that does not exist.
    h.inject(linerate_inet::iface::IfaceId(77), udp_frame(PEER, 1, ME, 9, b"x"));
    assert!(h.recv(s).is_none());
    assert_eq!(h.counter("inet.link.ether.in.iface_down"), 3);
}
