//! Tests of IPv6 multicast groups and of the sockets that join them: RFC 3810, RFC 3493 5.2.

use crate::common::six::*;
use crate::common::*;
use buf::{Pool, PoolConfig, PoolLocks};
use clock::Duration;
use linerate_inet::ip6::IfaceAddr6;
use linerate_inet::udp::BindError;
use linerate_inet::zone;
use lock::Locks;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use wire::igmp::v3::RecordKind;
use wire::ip6::ALL_NODES;
use wire::{Mac, Proto, mld};

const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 3);

conversations! {
    a_group_is_joined_received_and_left
    a_datagram_to_a_group_reaches_local_members
    a_packet_with_hop_limit_zero_stays_in_the_host
    reports_fit_small_buffers
}

/// Returns the records of the only report that was sent: kinds and groups.
#[track_caller]
fn report<L: Locks>(h: &Host<L>) -> Vec<(RecordKind, Ipv6Addr)> {
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!((header.hop_limit, header.next), (1, Proto::HOP_BY_HOP));
    match mld::Message::parse(&payload[8..], header.src, header.dst).unwrap() {
        Some(mld::Message::ReportV2(records)) => {
            records.map(|record| (record.kind, Ipv6Addr::from(record.group))).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn a_group_is_joined_received_and_left<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let (one, two, none) = (h.bound6(any6(9)), h.open6(), h.bound6(any6(10)));
    let to_group = || udp6((PEER6.ip, 5), (GROUP6, 9), b"all").frame(Mac::multicast6(GROUP6), PEER6.mac);
    h.inject(EM0, to_group());
    h.assert_counters("in 1, ip6.received 1, ip6.in.not_member 1");
    h.stack.udp_join(h.cx(), one, GROUP6.into(), Some(EM0)).unwrap();
    assert_eq!(report(&h), [(RecordKind::ToExclude, GROUP6)], "from now on");
    assert_eq!(h.stack.udp_join(h.cx(), one, GROUP6.into(), Some(EM0)), Err(BindError::InUse));
    h.options(one, |options| options.reuse_port = true);
    h.options(two, |options| options.reuse_port = true);
    h.stack.udp_bind(h.cx(), two, any6(9)).unwrap();
    h.stack.udp_join(h.cx(), two, GROUP6.into(), None).unwrap();
    h.sent_nothing(EM0);
    h.forget_counters();
    h.inject(EM0, to_group());
    assert_eq!([h.recv(one).unwrap().0, h.recv(two).unwrap().0], [b"all".to_vec(), b"all".to_vec()]);
    assert_eq!(h.recv(none), None);
    // The report is repeated.
    h.advance(Duration::from_millis(1001));
    assert_eq!(report(&h), [(RecordKind::ToExclude, GROUP6)]);
    h.stack.udp_leave(h.cx(), one, GROUP6.into(), None).unwrap();
    h.sent_nothing(EM0);
    h.inject(EM0, to_group());
    assert_eq!((h.recv(one), h.recv(two).unwrap().0), (None, b"all".to_vec()));
    assert!(h.stack.udp_close(h.cx(), two));
    assert_eq!(report(&h), [(RecordKind::ToInclude, GROUP6)], "no more: the last one has gone");
    h.forget_counters();
    h.inject(EM0, to_group());
    h.assert_counters("in 1, ip6.received 1, ip6.in.not_member 1");
    assert_eq!(h.stack.udp_leave(h.cx(), one, GROUP6.into(), None), Err(BindError::NotOurs));
    assert_eq!(h.stack.udp_join(h.cx(), one, ME6.ip.into(), None), Err(BindError::Invalid));
    // Every node is in this group and never reports it.
    h.stack.udp_join(h.cx(), one, ALL_NODES.into(), Some(EM0)).unwrap();
    h.sent_nothing(EM0);
    h.audit();
}

fn a_datagram_to_a_group_reaches_local_members<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let (from, member) = (h.bound6(any6(9)), h.bound6(any6(10)));
    h.stack.udp_join(h.cx(), member, GROUP6.into(), Some(EM0)).unwrap();
    h.sent(EM0);
    assert_eq!(h.send(from, b"all", SocketAddr::from((GROUP6, 10))), Ok(3));
    let (link, header, payload) = h.sent6_one(EM0);
    assert_eq!((link.dst, header.dst, header.hop_limit), (Mac::multicast6(GROUP6), GROUP6, 1));
    udp6_of(&header, &payload);
    h.poll();
    assert_eq!(h.recv(member), Some((b"all".to_vec(), (ME6.ip, 9).into())));
    h.options(from, |options| (options.multicast_loop, options.multicast_ttl) = (false, 7));
    assert_eq!(h.send(from, b"all", SocketAddr::from((GROUP6, 10))), Ok(3));
    assert_eq!(h.sent6_one(EM0).1.hop_limit, 7);
    h.poll();
    assert_eq!(h.recv(member), None);
    // For a link-local group, the scope id determines the link.
    let to = SocketAddrV6::new(ALL_NODES, 10, 0, zone::scope_id(EM0));
    assert_eq!(h.send(from, b"near", SocketAddr::from(to)), Ok(4));
    let (_, header, _) = h.sent6_one(EM0);
    assert_eq!((header.src, header.dst), (ME6.near, ALL_NODES));
    h.audit();
}

/// A packet with a hop limit of 0 is only delivered to members on this host.
fn a_packet_with_hop_limit_zero_stays_in_the_host<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let (from, member) = (h.bound6(any6(9)), h.bound6(any6(10)));
    h.stack.udp_join(h.cx(), member, GROUP6.into(), Some(EM0)).unwrap();
    h.sent(EM0);
    h.options(from, |options| options.multicast_ttl = 0);
    assert_eq!(h.send(from, b"here", SocketAddr::from((GROUP6, 10))), Ok(4));
    h.sent_nothing(EM0);
    assert_eq!(h.counter("inet.ip6.out.hop_limit_zero"), 1);
    h.poll();
    assert_eq!(h.recv(member).unwrap().0, b"here");
    h.audit();
}

/// All 40 groups are reported, in as many reports as buffers of 384 bytes need.
fn reports_fit_small_buffers<L: Locks>() {
    let config = PoolConfig { buffers: 256, data: 384, locks: PoolLocks::Light, ..PoolConfig::default() };
    let h = Host::<L>::configured(Pool::new(&config).unwrap(), |_| {});
    h.add_iface("em0", ME, 1500);
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(ME6.ip, 64)).unwrap();
    let group = |n: u16| Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 2, n);
    for n in 0..40 {
        let id = h.open6();
        h.stack.udp_join(h.cx(), id, group(n).into(), Some(EM0)).unwrap();
    }
    h.advance_secs(2);
    h.sent(EM0);
    let query = mld::query((PEER6.near, ALL_NODES), Ipv6Addr::UNSPECIFIED, 1000, 2, 125);
    let query = Ip6::new(PEER6.near, ALL_NODES, Proto::IPV6_ICMP, query.to_vec()).hops(1);
    let alert = [0, 0, 5, 2, 0, 0, 1, 0];
    h.inject(EM0, query.with(Proto::HOP_BY_HOP, &alert).frame(Mac::multicast6(ALL_NODES), PEER6.mac));
    h.advance_secs(2);
    let mut groups = Vec::new();
    for (_, header, payload) in h.sent6(EM0).iter().filter(|(_, header, _)| header.next == Proto::HOP_BY_HOP) {
        match mld::Message::parse(&payload[8..], header.src, header.dst).unwrap() {
            Some(mld::Message::ReportV2(records)) => groups.extend(records.map(|record| Ipv6Addr::from(record.group))),
            other => panic!("{other:?}"),
        }
    }
    assert!((0..40).all(|n| groups.contains(&group(n))), "{groups:?}");
    h.audit();
}
