//! Scans of thousands of unused addresses of an attached subnet (RFC 6583), through a router and
//! from a host.
//!
//! Existing neighbors stay reachable, new ones are resolved, and waiting packets occupy a limited
//! part of the pool.

use crate::common::packets::*;
use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::neigh::{RESERVE, SHARE};
use linerate_inet::route::Via;
use lock::Locks;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::arp::Op;
use wire::eth::EtherType;
use wire::icmp6::nd::Advert;
use wire::{Mac, Proto, icmp4};

conversations! {
    a_scan_through_a_router_does_not_disturb_connections
    a_scan_through_an_ipv6_router_does_not_disturb_connections
    a_scan_from_a_host_does_not_disturb_connections
    both_families_together_keep_the_reserve
}

const ADDRESSES: u32 = 8_000;
/// Number of packets per burst; with a burst every 5 ms, 20,000 packets a second.
const BURST: usize = 100;

/// Returns address `n` of the unused part of the far subnet.
fn silent(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from_be_bytes([10, 9, 0, 0]) + n)
}

fn silent6(n: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(FAR6.ip.to_bits() | 0x1_0000_0000 | u128::from(n))
}

/// Returns a neighbor on the far link that has no entry yet.
fn newcomer(n: u8) -> Station {
    Station { mac: Mac([2, 0, 0, 9, 1, n]), ip: Ipv4Addr::new(10, 0, 1, n) }
}

fn newcomer6(n: u8) -> Six {
    let ip = Ipv6Addr::from_bits(FAR6.ip.to_bits() & !0xff | u128::from(n));
    Six { mac: Mac([2, 0, 0, 9, 6, n]), ip, ..FAR6 }
}

/// Returns a segment of a connection between PEER and FAR.
fn segment(text: &[u8]) -> Ip {
    let segment = tcp_segment((PEER.ip, 1000), (FAR.ip, 80), |header| header.flags = wire::tcp::Flags::ACK, text);
    Ip::new(PEER.ip, FAR.ip, Proto::TCP, segment)
}

fn assert_bounded<L: Locks>(h: &Host<L>) {
    let buffers = h.pool.stats().buffers;
    assert!(h.stack.held(h.cx()) as usize <= 2 * (buffers / SHARE), "{}", h.stack.held(h.cx()));
    assert!(h.pool.stats().live() as usize <= buffers - buffers / RESERVE);
    assert_eq!(h.pool.stats().empty, 0);
    h.audit();
}

fn a_scan_through_a_router_does_not_disturb_connections<L: Locks>() {
    let h = Host::<L>::router();
    h.route("10.9.0.0/16", Via::Link(EM1));
    let scan: Vec<_> =
        (0..ADDRESSES).map(|n| Ip::udp((PEER.ip, 5), (silent(n), 6), b"scan").between(PEER, ME)).collect();
    for (round, burst) in scan.chunks(BURST).enumerate() {
        h.inject_all(EM0, burst);
        assert_bounded(&h);
        // An echo request to the router, and a segment of a connection through it.
        h.inject(EM0, ping(PEER, ME.ip, 1, round as u16, b"still there?").between(PEER, ME));
        let answers = h.sent(EM0);
        let echoed = answers.iter().filter(|f| icmp_of(f).0.ty == icmp4::ty::ECHO_REPLY).count();
        assert_eq!(echoed, 1, "round {round}");
        h.sent(EM1);
        h.inject(EM0, segment(b"text").between(PEER, ME));
        assert_eq!(ip_of(&h.sent_one(EM1)).0.dst, FAR.mac, "round {round}");
        // A new neighbor is solicited, a burst of the scan arrives before its answer, and the
        // waiting packet is then sent.
        let new = newcomer(round as u8 % 200 + 20);
        h.inject(EM0, Ip::udp((PEER.ip, 5), (new.ip, 6), b"hello").between(PEER, ME));
        let wait = h.stack.neighbors(h.cx()).iter().any(|n| n.addr == new.ip);
        assert!(wait, "round {round}");
        h.inject_all(EM0, &burst[..32]);
        h.sent(EM1);
        h.inject(EM1, arp(Op::Reply, new, ME2));
        assert_eq!(udp_of(&h.sent_one(EM1)).1, b"hello", "round {round}");
        h.advance(Duration::from_millis(5));
        h.sent(EM1);
    }
    let dropped = h.counter("inet.neigh.share_full") + h.counter("inet.neigh.displaced");
    assert!(dropped > u64::from(ADDRESSES) / 2, "{dropped}");
    assert_eq!(h.counter("inet.neigh.table_full"), 0);
    h.pass(Duration::from_secs(10));
    assert_eq!(h.stack.held(h.cx()), 0, "after the scan, nothing is held");
    h.sent(EM0);
    h.sent(EM1);
}

fn a_scan_through_an_ipv6_router_does_not_disturb_connections<L: Locks>() {
    let h = Host::<L>::router6();
    let udp = udp_datagram((PEER.ip, 5), (FAR.ip, 6), b"scan");
    let scan: Vec<_> =
        (0..ADDRESSES).map(|n| Ip6::new(PEER6.ip, silent6(n), Proto::UDP, &udp[..]).between(PEER6, ME6)).collect();
    for (round, burst) in scan.chunks(BURST).enumerate() {
        h.inject_all(EM0, burst);
        assert_bounded(&h);
        h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"still there?").between(PEER6, ME6));
        let answers = h.sent(EM0);
        let echoed = answers.iter().filter(|f| f.ends_with(b"still there?") && f[54] == 129).count();
        assert_eq!(echoed, 1, "round {round}");
        h.sent(EM1);
        let text = segment(b"text").payload;
        h.inject(EM0, Ip6::new(PEER6.ip, FAR6.ip, Proto::TCP, &text[..]).between(PEER6, ME6));
        assert_eq!(h.sent6_one(EM1).0.dst, FAR6.mac, "round {round}");
        let new = newcomer6(round as u8 % 200 + 20);
        h.inject(EM0, ping6(PEER6.ip, new.ip, b"hello").between(PEER6, ME6));
        h.inject_all(EM0, &burst[..32]);
        h.sent(EM1);
        let answer = Advert { router: false, solicited: true, replaces: true, target: new.ip };
        h.inject(EM1, advert(new.ip, MY6.ip, answer, Some(new.mac)).between(new, MY6));
        let (link, _, payload) = h.sent6_one(EM1);
        assert!(link.dst == new.mac && payload.ends_with(b"hello"), "round {round}");
        h.advance(Duration::from_millis(5));
        h.sent(EM1);
    }
    let dropped = h.counter("inet.neigh.share_full") + h.counter("inet.neigh.displaced");
    assert!(dropped > u64::from(ADDRESSES) / 2, "{dropped}");
    h.pass(Duration::from_secs(10));
    assert_eq!(h.stack.held(h.cx()), 0);
    h.sent(EM0);
    h.sent(EM1);
}

/// A scan by a socket of the host itself.
fn a_scan_from_a_host_does_not_disturb_connections<L: Locks>() {
    let h = Host::<L>::new();
    h.route("10.9.0.0/16", Via::Link(EM0));
    h.knows(EM0, PEER);
    let (scanner, talker) = (h.bound(1000), h.connected(1001, at(PEER, 9)));
    for n in 0..ADDRESSES {
        assert_eq!(h.send(scanner, b"anybody?", at(Station { ip: silent(n), ..PEER }, 9)), Ok(8), "{n}");
        h.sent(EM0);
        if n % 50 == 0 {
            assert_bounded(&h);
            assert_eq!(h.send(talker, b"data", None), Ok(4));
            assert_eq!(udp_of(&h.sent_one(EM0)).1, b"data", "{n}");
            let new = Station { mac: newcomer(1).mac, ip: Ipv4Addr::new(10, 0, 0, (n / 50 % 200) as u8 + 20) };
            assert_eq!(h.send(scanner, b"hello", at(new, 9)), Ok(5));
            h.sent(EM0);
            h.inject(EM0, arp(Op::Reply, new, ME));
            assert_eq!(udp_of(&h.sent_one(EM0)).1, b"hello", "{n}");
            h.advance(Duration::from_millis(3));
            h.sent(EM0);
        }
    }
    h.pass(Duration::from_secs(10));
    h.sent(EM0);
}

/// Packets of IPv4 and of IPv6 wait, and the pool still has buffers for requests and answers.
fn both_families_together_keep_the_reserve<L: Locks>() {
    let h = Host::<L>::router6();
    h.route("10.9.0.0/16", Via::Link(EM1));
    // Other frames hold most of the pool.
    let buffers = h.pool.stats().buffers;
    let others: Vec<_> = (0..buffers * 7 / 8).map(|_| h.pool.get().unwrap()).collect();
    let udp = udp_datagram((PEER.ip, 5), (FAR.ip, 6), b"scan");
    for n in 0..1_000 {
        h.inject(EM0, Ip::udp((PEER.ip, 5), (silent(n), 6), b"scan").between(PEER, ME));
        h.inject(EM0, Ip6::new(PEER6.ip, silent6(n), Proto::UDP, &udp[..]).between(PEER6, ME6));
        h.sent(EM1);
        assert_bounded(&h);
    }
    h.inject(EM0, arp(Op::Request, PEER, ME));
    assert!(h.sent(EM0).iter().any(|frame| frame[12..14] == EtherType::ARP.0.to_be_bytes()));
    drop(others);
    h.pass(Duration::from_secs(10));
    h.sent(EM0);
    h.sent(EM1);
}
