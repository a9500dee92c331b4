//! Datagrams that wait for a decision of the application, of both families.

use crate::common::packets::*;
use crate::common::six::*;
use crate::common::*;
use linerate_inet::prefixes::AnyPrefix::{self, All};
use linerate_inet::requests::Decision;
use linerate_inet::udp::BindError;
use lock::Locks;
use std::net::{Ipv6Addr, SocketAddr};
use wire::Proto;
use wire::icmp6::{Problem, unreachable};

conversations! {
    held_datagrams_are_delivered_or_refused
    extension_headers_and_fragments_are_held
    link_local_requests_have_a_zone
    each_prefix_has_its_own_requests
}

fn held_datagrams_are_delivered_or_refused<L: Locks>() {
    let h = Host::<L>::of_all_addresses6();
    assert!(h.stack.udp_hold(h.cx(), All) && !h.stack.udp_hold(h.cx(), All));
    h.inject_all(EM0, [9, 10, 9, 11].map(|port| udp6((PEER6.ip, 5), (COVERED6, port), b"asks").between(PEER6, ME6)));
    h.inject(EM0, udp_frame(PEER, 5, ME, 9, b"four"));
    h.assert_counters("in 5, ip6.received 4, ip6.delivered 4, ip4.received 1, ip4.delivered 1, udp.received 5");
    h.sent_nothing(EM0);
    let keys: Vec<_> = std::iter::from_fn(|| h.stack.udp_next_request(h.cx(), All)).collect();
    let addrs = |at: usize| (keys[at].tuple.local_addr(), keys[at].tuple.remote_addr());
    let from = SocketAddr::from((PEER6.ip, 5));
    assert_eq!([addrs(0), addrs(1), addrs(2)], [9, 10, 11].map(|port| ((COVERED6, port).into(), from)));
    assert_eq!((addrs(3), keys.len()), ((at(ME, 9), at(PEER, 5)), 4));
    let decide = |at: usize, decision| h.stack.udp_decide(h.cx(), &keys[at], decision);
    let s = decide(0, Decision::Accept).unwrap().unwrap();
    assert_eq!(
        (h.recv(s), h.recv(s), h.recv(s)),
        (Some((b"asks".to_vec(), from)), Some((b"asks".to_vec(), from)), None)
    );
    assert_eq!(decide(0, Decision::Accept), Err(BindError::NotConnected), "it was decided");
    h.send(s, b"answers", None).unwrap();
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!((header.src, udp6_of(&header, &payload).0.src.0), (COVERED6, 9));
    // An error quotes the datagram as it was received.
    assert_eq!(decide(1, Decision::Refuse), Ok(None));
    let (_, header, payload) = h.sent6_one(EM0);
    let (problem, quoted) = error_of(&header, &payload);
    assert_eq!((header.src, problem), (COVERED6, Problem::Unreachable { code: unreachable::PORT }));
    assert_eq!(quoted, udp6((PEER6.ip, 5), (COVERED6, 10), b"asks").packet());
    h.forget_counters();
    assert_eq!(decide(2, Decision::Ignore), Ok(None));
    h.assert_counters("udp.in.no_socket 1");
    // Refusals are subject to the rate limit of errors.
    let limit = h.stack.sysctls.icmp6_rate.get() as u16;
    h.wait_a_second();
    h.forget_counters();
    for port in 0..limit + 20 {
        h.inject(EM0, udp6((PEER6.ip, 5), (COVERED6_TOO, 1000 + port), b"x").between(PEER6, ME6));
        let key = h.stack.udp_next_request(h.cx(), All).unwrap();
        h.stack.udp_decide(h.cx(), &key, Decision::Refuse).unwrap();
    }
    assert!(h.counter("inet.icmp6.errors_limited") >= 20, "{}", h.counter("inet.icmp6.errors_limited"));
    assert!(h.sent(EM0).len() <= usize::from(limit));
    h.stack.udp_release(h.cx(), All);
    h.audit();
}

fn extension_headers_and_fragments_are_held<L: Locks>() {
    let h = Host::<L>::of_all_addresses6();
    h.stack.udp_hold(h.cx(), All);
    let options = [0, 0, 1, 4, 0, 0, 0, 0];
    let datagram = |port, text: &[u8]| udp6((PEER6.ip, 5), (COVERED6, port), text);
    let long = vec![7; 3000];
    h.inject(EM0, datagram(9, b"options").with(Proto::DEST_OPTIONS, &options).between(PEER6, ME6));
    h.inject(EM0, datagram(9, b"hops").with(Proto::HOP_BY_HOP, &options).between(PEER6, ME6));
    let parts = [0, 1208, 2416].map(|off| datagram(9, &long).fragment(77, off, 1208).between(PEER6, ME6));
    h.inject_all(EM0, parts);
    h.inject(EM0, datagram(9, b"atomic").fragment(78, 0, 1000).between(PEER6, ME6));
    h.inject(EM0, datagram(10, b"refused").with(Proto::DEST_OPTIONS, &options).between(PEER6, ME6));
    let key = h.stack.udp_next_request(h.cx(), All).unwrap();
    let s = h.stack.udp_decide(h.cx(), &key, Decision::Accept).unwrap().unwrap();
    let texts: Vec<_> = std::iter::from_fn(|| h.recv(s)).map(|(text, _)| text).collect();
    assert_eq!(texts, [&b"options"[..], b"hops", &long, b"atomic"]);
    let key = h.stack.udp_next_request(h.cx(), All).unwrap();
    h.stack.udp_decide(h.cx(), &key, Decision::Refuse).unwrap();
    let (_, header, payload) = h.sent6_one(EM0);
    let (problem, quoted) = error_of(&header, &payload);
    assert_eq!(problem, Problem::Unreachable { code: unreachable::PORT });
    assert_eq!(quoted, datagram(10, b"refused").with(Proto::DEST_OPTIONS, &options).packet());
    h.audit();
}

/// A datagram to or from a link-local address belongs to the link on which it arrived.
fn link_local_requests_have_a_zone<L: Locks>() {
    let h = Host::<L>::of_all_addresses6();
    h.stack.udp_hold(h.cx(), All);
    h.inject(EM0, udp6((PEER6.near, 5), (ME6.near, 9), b"near").between(PEER6, ME6));
    h.inject(EM0, udp6((PEER6.near, 5), (COVERED6, 9), b"far").between(PEER6, ME6));
    for (local, text) in [(near(ME6.near, 9), b"near".to_vec()), ((COVERED6, 9).into(), b"far".to_vec())] {
        let key = h.stack.udp_next_request(h.cx(), All).unwrap();
        assert_eq!((key.tuple.local_addr(), key.tuple.remote_addr()), (local, near(PEER6.near, 5)));
        let s = h.stack.udp_decide(h.cx(), &key, Decision::Accept).unwrap().unwrap();
        assert_eq!(h.recv(s), Some((text, near(PEER6.near, 5))));
        h.send(s, b"answer", None).unwrap();
        let (link, header, _) = h.sent6_one(EM0);
        assert_eq!((link.dst, header.src, header.dst), (PEER6.mac, ip_of_addr(local), PEER6.near));
    }
    h.audit();
}

fn ip_of_addr(addr: SocketAddr) -> Ipv6Addr {
    match addr {
        SocketAddr::V6(v6) => *v6.ip(),
        SocketAddr::V4(v4) => panic!("{v4}"),
    }
}

/// The limit of held datagrams is common to all prefixes.
fn each_prefix_has_its_own_requests<L: Locks>() {
    let h = Host::<L>::of_all_addresses6();
    let [near, far] = ["2001:db8::/32", "3fff::/20"].map(|text| AnyPrefix::parse(text).unwrap());
    assert!(h.stack.udp_hold(h.cx(), near) && h.stack.udp_hold(h.cx(), far) && !h.stack.udp_hold(h.cx(), near));
    let datagram = |to, port| udp6((PEER6.ip, 5), (to, port), b"x").between(PEER6, ME6);
    h.inject(EM0, datagram(ME6.ip, 9));
    assert_eq!(h.sent(EM0).len(), 1, "port unreachable: no prefix contains the address");
    let before = h.counter("inet.udp.in.no_socket");
    for port in 1..3000 {
        h.inject(EM0, datagram(if port % 2 == 0 { COVERED6 } else { COVERED6_TOO }, port));
    }
    let held = h.stack.held(h.cx());
    assert_eq!(h.counter("inet.udp.in.no_socket") - before, 2999 - held);
    assert!(held > 2);
    h.sent_nothing(EM0);
    let key = h.stack.udp_next_request(h.cx(), far).unwrap();
    assert_eq!(key.tuple.local_addr(), (COVERED6_TOO, 1).into());
    h.stack.udp_decide(h.cx(), &key, Decision::Ignore).unwrap();
    assert_eq!(h.stack.udp_next_request(h.cx(), near).unwrap().tuple.local_addr(), (COVERED6, 2).into());
    h.stack.udp_release(h.cx(), far);
    assert!(h.stack.is_holding_udp() && h.stack.udp_next_request(h.cx(), far).is_none());
    assert_eq!(h.stack.held(h.cx()), held / 2);
    h.stack.udp_release(h.cx(), near);
    assert!(!h.stack.is_holding_udp());
    assert_eq!(h.stack.held(h.cx()), 0);
    h.audit();
}
