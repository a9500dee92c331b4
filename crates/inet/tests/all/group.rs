//! Conversations about broadcast and multicast, with IGMPv2: RFC 919, RFC 1112, RFC 2236, RFC 1122
//! 3.2.1.3, 3.3.6, 3.3.7.

use crate::common::packets::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::udp::{BindError, SendError};
use lock::Locks;
use std::net::{Ipv4Addr, SocketAddr};
use wire::igmp::Message;
use wire::{Mac, Proto};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);

conversations! {
    a_broadcast_reaches_every_socket_on_its_port
    a_broadcast_without_a_receiver_is_dropped_silently
    a_directed_broadcast_reaches_every_socket_for_any_mac_address
    a_broadcast_is_sent_to_all_stations_if_allowed
    a_socket_bound_to_one_address_receives_no_broadcasts
    an_own_broadcast_is_looped_back_to_local_sockets
    a_long_own_broadcast_is_looped_back_whole
    a_multicast_reaches_members_only
    a_multicast_is_accepted_only_on_the_iface_where_it_was_joined
    a_socket_bound_to_the_group_receives_the_group_only
    one_full_buffer_does_not_keep_the_others_from_receiving
    a_multicast_leaves_with_its_own_ttl_and_mac_address
    a_multicast_with_ttl_zero_stays_in_the_host
    an_own_multicast_is_looped_back_to_local_members
    an_own_multicast_is_not_looped_back_if_turned_off
    joining_is_reported_twice_and_leaving_once
    a_group_is_joined_once_for_all_sockets_and_left_with_the_last
    closing_a_socket_leaves_its_groups
    reports_and_leaves_follow_rfc_2236
    a_query_is_answered_within_its_time
    a_query_for_one_group_is_answered_for_that_group
    a_version_1_query_is_answered_within_ten_seconds
    another_members_report_suppresses_ours
    after_another_members_report_no_leave_is_sent
    all_systems_is_never_reported
    malformed_messages_are_dropped
    joining_a_unicast_address_fails
    groups_are_bounded
}

fn host<L: Locks>() -> Host<L> {
    let h = Host::new();
    h.stack.sysctls.igmp_version.set(2);
    h.knows(EM0, PEER);
    h.forget_counters();
    h
}

fn shared<L: Locks>(h: &Host<L>, addr: SocketAddr) -> usize {
    let s = h.open();
    h.options(s, |o| o.reuse_port = true);
    h.stack.udp_bind(h.cx(), s, addr).unwrap();
    s
}

fn to_all(dst: Ipv4Addr, l4port: u16) -> Ip {
    Ip::udp((PEER.ip, 1000), (dst, l4port), b"to all")
}

fn join<L: Locks>(h: &Host<L>, s: usize, group: Ipv4Addr) {
    h.stack.udp_join(h.cx(), s, group.into(), Some(EM0)).unwrap();
}

fn a_broadcast_reaches_every_socket_on_its_port<L: Locks>() {
    let h = host::<L>();
    let sockets = [shared(&h, any(9)), shared(&h, any(9)), shared(&h, any(9))];
    let elsewhere = h.bound(10);
    h.inject(EM0, to_all(Ipv4Addr::BROADCAST, 9).frame(Mac::BROADCAST, PEER.mac));
    for s in sockets {
        assert_eq!(h.recv(s), Some((b"to all".to_vec(), at(PEER, 1000))));
    }
    assert!(h.recv(elsewhere).is_none());
    h.assert_counters(
        "in 1, audit.made 2, audit.consumed 3, ip4.received 1, ip4.delivered 1, udp.received 1, udp.delivered 3",
    );
    // A connected socket receives only broadcasts from its peer.
    let connected = shared(&h, any(9));
    h.stack.udp_connect(h.cx(), connected, at(OTHER, 1000)).unwrap();
    h.inject(EM0, to_all(Ipv4Addr::BROADCAST, 9).frame(Mac::BROADCAST, PEER.mac));
    assert!(h.recv(connected).is_none());
}

fn a_broadcast_without_a_receiver_is_dropped_silently<L: Locks>() {
    let h = host::<L>();
    for dst in [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255), Ipv4Addr::new(10, 0, 0, 0)] {
        h.inject(EM0, to_all(dst, 9).frame(Mac::BROADCAST, PEER.mac));
    }
    h.sent_nothing(EM0);
    h.assert_counters("in 3, ip4.received 3, ip4.delivered 3, udp.received 3, udp.in.no_socket_broadcast 3");
}

/// The destination IP address makes a packet a broadcast. A router sends a directed broadcast to us
/// in a unicast frame.
fn a_directed_broadcast_reaches_every_socket_for_any_mac_address<L: Locks>() {
    let h = host::<L>();
    let sockets = [shared(&h, any(9)), shared(&h, any(9))];
    for mac in [Mac::BROADCAST, ME.mac] {
        h.inject(EM0, to_all(Ipv4Addr::new(10, 0, 0, 255), 9).frame(mac, PEER.mac));
        let got = sockets.iter().filter(|s| h.recv(**s).is_some()).count();
        assert_eq!(got, 2, "in a frame to {mac}");
    }
}

fn a_broadcast_is_sent_to_all_stations_if_allowed<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    for dst in [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255)] {
        let dst = SocketAddr::from((dst, 9));
        h.options(s, |o| o.broadcast = false);
        assert_eq!(h.send(s, b"x", dst), Err(SendError::Broadcast));
        h.options(s, |o| o.broadcast = true);
        assert_eq!(h.send(s, b"x", dst), Ok(1));
        let frame = h.sent_one(EM0);
        let (link, ip, _) = ip_of(&frame);
        assert_eq!((link.dst, ip.src, SocketAddr::from((ip.dst, 9))), (Mac::BROADCAST, ME.ip, dst));
    }
}

/// As in BSD's udp_input and in Linux, the local address of the socket must be unspecified or equal
/// to the destination of the datagram.
fn a_socket_bound_to_one_address_receives_no_broadcasts<L: Locks>() {
    let h = host::<L>();
    let all = Ipv4Addr::new(10, 0, 0, 255);
    let (exact, wide) = (shared(&h, at(ME, 9)), shared(&h, any(9)));
    let [for_all, directed] = [Ipv4Addr::BROADCAST, all].map(|addr| shared(&h, SocketAddr::from((addr, 9))));
    for (dst, bound) in [(Ipv4Addr::BROADCAST, for_all), (all, directed)] {
        h.inject(EM0, to_all(dst, 9).frame(Mac::BROADCAST, PEER.mac));
        let heard = [exact, wide, for_all, directed].map(|s| h.recv(s).is_some());
        assert_eq!(heard, [false, true, bound == for_all, bound == directed], "{dst}");
    }
    h.inject(EM0, to_all(ME.ip, 9).between(PEER, ME));
    assert!(h.recv(exact).is_some() && h.recv(wide).is_none());
}

/// As in BSD's ether_output, a copy of each sent broadcast is received through the loopback queue.
fn an_own_broadcast_is_looped_back_to_local_sockets<L: Locks>() {
    let h = host::<L>();
    let (s, t) = (h.bound(1000), h.bound(9));
    h.options(s, |o| o.broadcast = true);
    for dst in [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255)] {
        for _ in 0..2 {
            h.send(s, b"x", SocketAddr::from((dst, 9))).unwrap();
            assert!(h.recv(t).is_none(), "queued, not direct");
            h.poll();
            assert_eq!(h.recv(t), Some((b"x".to_vec(), at(ME, 1000))), "to {dst}");
            assert_eq!(ip_of(&h.sent_one(EM0)).1.dst, dst, "it is also sent");
            h.assert_counters(
                "out 1, audit.made 2, audit.consumed 1, ip4.sent 1, ip4.received 1, ip4.delivered 1, udp.sent 1, \
                 udp.received 1, udp.delivered 1, link.loopback.queued 1",
            );
        }
    }
    // The sender receives its own broadcast if it has a socket for it; without a socket, no error
    // is sent.
    h.send(s, b"me", SocketAddr::from((Ipv4Addr::BROADCAST, 1000))).unwrap();
    h.send(s, b"nobody", SocketAddr::from((Ipv4Addr::BROADCAST, 10))).unwrap();
    h.poll();
    assert_eq!(h.recv(s), Some((b"me".to_vec(), at(ME, 1000))));
    assert_eq!(h.counter("inet.udp.in.no_socket_broadcast"), 1);
    assert_eq!(h.sent(EM0).len(), 2);
}

fn a_long_own_broadcast_is_looped_back_whole<L: Locks>() {
    let h = host::<L>();
    let (s, t) = (h.bound(1000), h.bound(9));
    h.options(s, |o| o.broadcast = true);
    let payload: Vec<u8> = (0..5000u32).map(|i| (i * 7) as u8).collect();
    h.send(s, &payload, SocketAddr::from((Ipv4Addr::new(10, 0, 0, 255), 9))).unwrap();
    h.poll();
    assert!(h.recv(t).is_some_and(|got| got.0 == payload));
    assert_eq!(h.sent(EM0).len(), 4, "the wire gets fragments");
}

fn a_multicast_reaches_members_only<L: Locks>() {
    let h = host::<L>();
    let (member, stranger) = (shared(&h, any(9)), shared(&h, any(9)));
    h.inject(EM0, to_all(GROUP, 9).frame(Mac::multicast4(GROUP), PEER.mac));
    h.assert_counters("in 1, ip4.received 1, ip4.in.not_member 1");
    join(&h, member, GROUP);
    h.sent(EM0);
    h.forget_counters();
    h.inject(EM0, to_all(GROUP, 9).frame(Mac::multicast4(GROUP), PEER.mac));
    assert_eq!(h.recv(member), Some((b"to all".to_vec(), at(PEER, 1000))));
    assert!(h.recv(stranger).is_none());
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, udp.received 1, udp.delivered 1, audit.consumed 1");
    h.inject(EM0, to_all(GROUP, 10).frame(Mac::multicast4(GROUP), PEER.mac));
    h.sent_nothing(EM0);
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, udp.received 1, udp.in.no_socket_broadcast 1");
    // 239.129.2.3 has the same MAC address.
    h.inject(EM0, to_all(Ipv4Addr::new(239, 129, 2, 3), 9).frame(Mac::multicast4(GROUP), PEER.mac));
    h.assert_counters("in 1, ip4.received 1, ip4.in.not_member 1");
    h.stack.udp_leave(h.cx(), member, GROUP.into(), None).unwrap();
    h.inject(EM0, to_all(GROUP, 9).frame(Mac::multicast4(GROUP), PEER.mac));
    assert!(h.recv(member).is_none());
}

fn a_multicast_is_accepted_only_on_the_iface_where_it_was_joined<L: Locks>() {
    let h = Host::<L>::router();
    let s = h.bound(9);
    h.stack.udp_join(h.cx(), s, GROUP.into(), Some(EM1)).unwrap();
    h.inject(EM0, to_all(GROUP, 9).frame(Mac::multicast4(GROUP), PEER.mac));
    assert!(h.recv(s).is_none());
    h.inject(EM1, Ip::udp((FAR.ip, 1), (GROUP, 9), b"x").frame(Mac::multicast4(GROUP), FAR.mac));
    assert!(h.recv(s).is_some());
}

fn a_socket_bound_to_the_group_receives_the_group_only<L: Locks>() {
    let h = host::<L>();
    let s = h.open();
    h.stack.udp_bind(h.cx(), s, SocketAddr::from((GROUP, 9))).unwrap();
    join(&h, s, GROUP);
    h.inject(EM0, to_all(GROUP, 9).frame(Mac::multicast4(GROUP), PEER.mac));
    assert!(h.recv(s).is_some());
    h.inject(EM0, to_all(ME.ip, 9).between(PEER, ME));
    h.inject(EM0, to_all(Ipv4Addr::BROADCAST, 9).frame(Mac::BROADCAST, PEER.mac));
    assert!(h.recv(s).is_none());
    // The source address of a socket bound to a group is not the group.
    h.sent(EM0);
    h.send(s, b"x", at(PEER, 9)).unwrap();
    assert_eq!(ip_of(&h.sent_one(EM0)).1.src, ME.ip);
}

fn one_full_buffer_does_not_keep_the_others_from_receiving<L: Locks>() {
    let h = host::<L>();
    let sockets = [shared(&h, any(9)), shared(&h, any(9)), shared(&h, any(9))];
    h.stack.with_pcb(h.cx(), sockets[1], |pcb| pcb.set_recv_limit(0)).unwrap();
    h.inject(EM0, to_all(Ipv4Addr::BROADCAST, 9).frame(Mac::BROADCAST, PEER.mac));
    assert!(h.recv(sockets[0]).is_some() && h.recv(sockets[1]).is_none() && h.recv(sockets[2]).is_some());
    h.assert_counters(
        "in 1, audit.made 2, audit.consumed 2, ip4.received 1, ip4.delivered 1, udp.received 1, udp.delivered 2, \
         udp.in.buffer_full 1",
    );
}

/// RFC 1112 6.1, 6.4: time to live and MAC address of multicasts.
fn a_multicast_leaves_with_its_own_ttl_and_mac_address<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    for ttl in [1, 1, 17] {
        h.options(s, |o| o.multicast_ttl = ttl);
        h.send(s, b"x", SocketAddr::from((GROUP, 9))).unwrap();
        let frame = h.sent_one(EM0);
        let (link, ip, _) = ip_of(&frame);
        assert_eq!((link.dst, ip.dst, ip.ttl), (Mac([1, 0, 0x5e, 1, 2, 3]), GROUP, ttl));
    }
}

/// RFC 1112 6.1: a multicast with a TTL of zero does not leave the host. (RFC 1122 3.2.1.7: a
/// packet with a TTL of zero is never sent.)
fn a_multicast_with_ttl_zero_stays_in_the_host<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    h.options(s, |o| o.multicast_ttl = 0);
    let _ = h.send(s, b"x", SocketAddr::from((GROUP, 9)));
    h.sent_nothing(EM0);
}

fn an_own_multicast_is_looped_back_to_local_members<L: Locks>() {
    let h = host::<L>();
    let (s, member) = (h.bound(1000), h.bound(9));
    join(&h, member, GROUP);
    h.sent(EM0);
    h.forget_counters();
    h.send(s, b"x", SocketAddr::from((GROUP, 9))).unwrap();
    assert!(h.recv(member).is_none(), "queued, not direct");
    h.poll();
    assert_eq!(h.recv(member), Some((b"x".to_vec(), at(ME, 1000))));
    assert_eq!(ip_of(&h.sent_one(EM0)).1.dst, GROUP, "it is also sent");
    h.assert_counters(
        "out 1, audit.made 2, audit.consumed 1, ip4.sent 1, ip4.received 1, ip4.delivered 1, udp.sent 1, udp.received 1, \
         udp.delivered 1, link.loopback.queued 1",
    );
}

fn an_own_multicast_is_not_looped_back_if_turned_off<L: Locks>() {
    let h = host::<L>();
    let (s, member) = (h.bound(1000), h.bound(9));
    join(&h, member, GROUP);
    h.options(s, |o| o.multicast_loop = false);
    h.send(s, b"x", SocketAddr::from((GROUP, 9))).unwrap();
    h.poll();
    assert!(h.recv(member).is_none());
}

fn igmps<L: Locks>(h: &Host<L>) -> Vec<Message> {
    h.sent(EM0).iter().map(|frame| igmp_of(frame)).collect()
}

/// RFC 2236 3: the report is sent at once, and again after a short delay. RFC 2236 8.10: this delay
/// is at most ten seconds.
fn joining_is_reported_twice_and_leaving_once<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    join(&h, s, GROUP);
    assert_eq!(igmps(&h), [Message::Report { group: GROUP }]);
    h.assert_counters("out 1, audit.made 1, igmp.reports_sent 1, ip4.sent 1");
    h.pass(Duration::from_millis(10_100));
    assert_eq!(igmps(&h), [Message::Report { group: GROUP }]);
    h.pass(Duration::from_secs(600));
    h.sent_nothing(EM0);
    h.stack.udp_leave(h.cx(), s, GROUP.into(), Some(EM0)).unwrap();
    assert_eq!(igmps(&h), [Message::Leave { group: GROUP }]);
    h.pass(Duration::from_secs(600));
    h.sent_nothing(EM0);
    h.assert_counters("out 2, audit.made 2, igmp.reports_sent 1, igmp.leaves_sent 1, ip4.sent 2");
    assert_eq!(h.stack.udp_leave(h.cx(), s, GROUP.into(), Some(EM0)), Err(BindError::NotOurs));
}

fn a_group_is_joined_once_for_all_sockets_and_left_with_the_last<L: Locks>() {
    let h = host::<L>();
    let (s, t) = (h.bound(9), h.bound(10));
    join(&h, s, GROUP);
    h.pass(Duration::from_secs(11));
    h.sent(EM0);
    join(&h, t, GROUP);
    h.pass(Duration::from_secs(11));
    h.sent_nothing(EM0);
    assert_eq!(h.stack.udp_join(h.cx(), t, GROUP.into(), Some(EM0)), Err(BindError::InUse));
    h.stack.udp_leave(h.cx(), s, GROUP.into(), Some(EM0)).unwrap();
    h.sent_nothing(EM0);
    h.stack.udp_leave(h.cx(), t, GROUP.into(), Some(EM0)).unwrap();
    assert_eq!(igmps(&h), [Message::Leave { group: GROUP }]);
}

fn closing_a_socket_leaves_its_groups<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    join(&h, s, GROUP);
    join(&h, s, Ipv4Addr::new(239, 1, 2, 4));
    h.pass(Duration::from_secs(11));
    h.sent(EM0);
    h.stack.udp_close(h.cx(), s);
    assert_eq!(igmps(&h).len(), 2);
    h.inject(EM0, to_all(GROUP, 9).frame(Mac::multicast4(GROUP), PEER.mac));
    assert_eq!(h.counter("inet.ip4.in.not_member"), 1);
}

/// RFC 2236 2: TTL 1 and the router alert option. RFC 2236 9: a report is sent to the group, a
/// leave to all routers.
fn reports_and_leaves_follow_rfc_2236<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    join(&h, s, GROUP);
    let report = h.sent_one(EM0);
    h.stack.udp_leave(h.cx(), s, GROUP.into(), None).unwrap();
    let leave = h.sent_one(EM0);
    for (frame, dst) in [(report, GROUP), (leave, ALL_ROUTERS)] {
        let (link, ip, _) = ip_of(&frame);
        assert_eq!((link.dst, ip.dst, ip.src, ip.ttl), (Mac::multicast4(dst), dst, ME.ip, 1));
        let options: Vec<_> = ip.options(&frame[14..]).collect();
        assert_eq!(options, [Ok(wire::ip4::Opt::RouterAlert(0))], "{}", line(&frame));
    }
}

fn query(max_resp_ds: u8, group: Ipv4Addr) -> Vec<u8> {
    let dst = if group.is_unspecified() { ALL_HOSTS } else { group };
    igmp_frame(PEER, dst, Message::Query { max_resp_ds, group })
}

fn member<L: Locks>(h: &Host<L>, groups: &[Ipv4Addr]) -> usize {
    let s = h.bound(9);
    groups.iter().for_each(|group| join(h, s, *group));
    h.pass(Duration::from_secs(11));
    h.sent(EM0);
    h.forget_counters();
    s
}

const GROUPS: [Ipv4Addr; 3] = [GROUP, Ipv4Addr::new(239, 1, 2, 4), Ipv4Addr::new(224, 0, 0, 251)];

fn a_query_is_answered_within_its_time<L: Locks>() {
    let h = host::<L>();
    member(&h, &GROUPS);
    h.inject(EM0, query(20, Ipv4Addr::UNSPECIFIED));
    h.sent_nothing(EM0);
    h.pass(Duration::from_millis(2_001));
    let mut reported = igmps(&h);
    reported.sort_by_key(|m| format!("{m:?}"));
    let mut wanted = GROUPS.map(|group| Message::Report { group });
    wanted.sort_by_key(|m| format!("{m:?}"));
    assert_eq!(reported, wanted);
    h.assert_counters(
        "in 1, out 3, audit.made 3, ip4.received 1, ip4.delivered 1, ip4.sent 3, igmp.queries_received 1, \
         igmp.reports_sent 3, igmp.in.consumed 1",
    );
}

fn a_query_for_one_group_is_answered_for_that_group<L: Locks>() {
    let h = host::<L>();
    member(&h, &GROUPS);
    h.inject(EM0, query(10, GROUP));
    h.pass(Duration::from_millis(1_001));
    assert_eq!(igmps(&h), [Message::Report { group: GROUP }]);
    h.inject(EM0, query(10, Ipv4Addr::new(239, 9, 9, 9)));
    h.pass(Duration::from_secs(20));
    h.sent_nothing(EM0);
}

fn a_version_1_query_is_answered_within_ten_seconds<L: Locks>() {
    let h = host::<L>();
    member(&h, &[GROUP]);
    h.inject(EM0, query(0, Ipv4Addr::UNSPECIFIED));
    h.pass(Duration::from_millis(10_001));
    assert_eq!(igmps(&h).len(), 1);
}

fn another_members_report_suppresses_ours<L: Locks>() {
    let h = host::<L>();
    member(&h, &[GROUP]);
    for report in [Message::Report { group: GROUP }, Message::ReportV1 { group: GROUP }] {
        h.inject(EM0, query(100, Ipv4Addr::UNSPECIFIED));
        h.inject(EM0, igmp_frame(PEER, GROUP, report));
        h.pass(Duration::from_secs(20));
        h.sent_nothing(EM0);
    }
    h.assert_counters("in 4, ip4.received 4, ip4.delivered 4, igmp.queries_received 2, igmp.in.consumed 4");
}

fn after_another_members_report_no_leave_is_sent<L: Locks>() {
    let h = host::<L>();
    let s = member(&h, &[GROUP]);
    h.inject(EM0, igmp_frame(PEER, GROUP, Message::Report { group: GROUP }));
    h.stack.udp_leave(h.cx(), s, GROUP.into(), None).unwrap();
    h.sent_nothing(EM0);
}

fn all_systems_is_never_reported<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    join(&h, s, ALL_HOSTS);
    h.inject(EM0, query(10, Ipv4Addr::UNSPECIFIED));
    h.pass(Duration::from_secs(20));
    h.stack.udp_leave(h.cx(), s, ALL_HOSTS.into(), None).unwrap();
    h.sent_nothing(EM0);
}

fn malformed_messages_are_dropped<L: Locks>() {
    let h = host::<L>();
    member(&h, &[GROUP]);
    let good = Message::Query { max_resp_ds: 10, group: Ipv4Addr::UNSPECIFIED }.emit();
    let send = |payload: &[u8]| {
        h.inject(EM0, Ip::new(PEER.ip, ALL_HOSTS, Proto::IGMP, payload).frame(Mac::multicast4(ALL_HOSTS), PEER.mac));
    };
    (0..8).for_each(|len| send(&good[..len]));
    for bit in 0..64 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        send(&bad);
    }
    h.pass(Duration::from_secs(30));
    h.sent_nothing(EM0);
    h.assert_counters("in 72, ip4.received 72, ip4.delivered 72, igmp.in.malformed 72");
    // Every type with a valid checksum: known types are processed, others are ignored, and none is
    // answered at once.
    for ty in 0..=255 {
        let mut message = [ty, 10, 0, 0, 239, 1, 2, 3];
        let sum = wire::checksum::sum(&message).finish();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        send(&message);
    }
    h.sent_nothing(EM0);
    h.assert_counters("in 256, ip4.received 256, ip4.delivered 256, igmp.in.consumed 256, igmp.queries_received 1");
}

fn joining_a_unicast_address_fails<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    for addr in [PEER.ip, Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(240, 0, 0, 1)] {
        assert_eq!(h.stack.udp_join(h.cx(), s, addr.into(), Some(EM0)), Err(BindError::Invalid));
    }
    assert_eq!(h.stack.udp_join(h.cx(), 4711, GROUP.into(), Some(EM0)), Err(BindError::NoSocket));
    h.sent_nothing(EM0);
    h.assert_counters("");
}

fn groups_are_bounded<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let mut joined = 0;
    for n in 0..2000u32 {
        match h.stack.udp_join(h.cx(), s, Ipv4Addr::from(0xef00_0000 + n).into(), Some(EM0)) {
            Ok(()) => joined += 1,
            Err(error) => assert_eq!(error, BindError::NoPorts),
        }
        h.sent(EM0);
    }
    assert_eq!(joined, 1024);
}
