//! Router advertisements sent by a router (RFC 4861 6.2): content, intervals, replies, limits, and
//! their effect on another host.

use crate::common::six::*;
use crate::common::*;
use buf::{Pool, PoolConfig, PoolLocks};
use clock::Duration;
use linerate_inet::fib::Prefix6;
use linerate_inet::iface::LOOPBACK;
use linerate_inet::ip6::{Advertising, IfaceAddr6, Origin};
use linerate_inet::route::Via6;
use lock::Locks;
use wire::icmp6::nd::{self, Message as Nd, Opt};
use wire::icmp6::{self, Message};
use wire::ip6::{ALL_NODES, ALL_ROUTERS};
use wire::{Mac, Proto};

conversations! {
    an_advertisement_has_prefixes_mtu_and_mac_address
    solicitations_are_answered_within_the_rate_limit
    intervals_are_random_within_bounds
    a_host_that_does_not_forward_sends_none
    another_host_is_configured_until_the_router_ends
    prefixes_are_limited_by_number_and_by_buffer
}

/// A sent advertisement: time in milliseconds, router lifetime, options.
type Sent = (u64, u16, Vec<String>);

/// A router that advertises on `em0`.
fn advertising<L: Locks>(what: Advertising) -> Host<L> {
    let h = Host::<L>::router6();
    h.stack.set_advertising(h.cx(), EM0, Some(what)).unwrap();
    h
}

/// Returns the advertisements sent within `millis`.
fn adverts<L: Locks>(h: &Host<L>, millis: u64) -> Vec<Sent> {
    let begin = h.now();
    let mut all = Vec::new();
    for _ in 0..=millis / 50 {
        h.poll();
        for (_, header, payload) in h.sent6(EM0) {
            if header.next != Proto::IPV6_ICMP || payload.first() != Some(&icmp6::ty::ROUTER_ADVERT) {
                continue;
            }
            assert_eq!((header.dst, header.hop_limit), (ALL_NODES, 255));
            let Ok(Message::Nd(Nd::RouterAdvert { lifetime, options, hop_limit: 64, .. })) =
                Message::parse(&payload, header.src, header.dst)
            else {
                panic!("{payload:x?}")
            };
            let options = options.into_iter().map(|option| match option {
                Opt::SourceLink(mac) => format!("lladdr {mac}"),
                Opt::Mtu(mtu) => format!("mtu {mtu}"),
                Opt::Prefix(of) => {
                    format!("{}/{} {} {} {} {}", of.prefix, of.len, of.on_link, of.autonomous, of.valid, of.preferred)
                }
                other => format!("{other:?}"),
            });
            all.push((h.now().since(begin).as_millis() as u64, lifetime, options.collect()));
        }
        h.advance(Duration::from_millis(50));
    }
    all
}

fn solicit<L: Locks>(h: &Host<L>, from: Six) {
    let emit = |out: &mut [u8]| nd::emit_router_solicit(Some(from.mac), (from.near, ALL_ROUTERS), out);
    h.inject(EM0, icmp6(from.near, ALL_ROUTERS, emit).hops(255).frame(Mac::multicast6(ALL_ROUTERS), from.mac));
}

fn an_advertisement_has_prefixes_mtu_and_mac_address<L: Locks>() {
    let h = advertising::<L>(Advertising { lifetime: 900, max_interval: 300, valid: 5000, preferred: 4000 });
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new("2001:db8:9::1".parse().unwrap(), 56)).unwrap();
    let first = adverts(&h, 2000);
    assert_eq!(first.len(), 1);
    let (_, lifetime, options) = &first[0];
    assert_eq!(*lifetime, 900);
    let mac = h.stack.iface(EM0).unwrap().mac;
    let expected = [
        format!("lladdr {mac}"),
        "mtu 1500".to_string(),
        "2001:db8:9::/56 true false 5000 4000".to_string(),
        "fd00::/64 true true 5000 4000".to_string(),
    ];
    let mut options = options.clone();
    options[2..].sort();
    assert_eq!(options, expected);
    h.audit();
}

fn solicitations_are_answered_within_the_rate_limit<L: Locks>() {
    let h = advertising::<L>(Advertising::default());
    adverts(&h, 60_000); // the first three advertisements
    solicit(&h, PEER6);
    let answer = adverts(&h, 1000);
    assert!(answer.len() == 1 && answer[0].0 <= 550, "{answer:?}");
    for _ in 0..300 {
        solicit(&h, OTHER6);
        h.advance(Duration::from_millis(10));
    }
    let answers = adverts(&h, 1000).len();
    assert!((1..=2).contains(&answers), "{answers} within four seconds");
    // A solicitation from :: contains no link-layer address (RFC 4861 6.1.1).
    h.forget_counters();
    let any = std::net::Ipv6Addr::UNSPECIFIED;
    let emit = |out: &mut [u8]| nd::emit_router_solicit(Some(OTHER6.mac), (any, ALL_ROUTERS), out);
    h.inject(EM0, icmp6(any, ALL_ROUTERS, emit).hops(255).frame(Mac::multicast6(ALL_ROUTERS), OTHER6.mac));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.in.malformed 1");
    h.audit();
}

fn intervals_are_random_within_bounds<L: Locks>() {
    let h = advertising::<L>(Advertising { max_interval: 60, ..Advertising::default() });
    let at: Vec<_> = adverts(&h, 600_000).iter().map(|(at, ..)| at / 1000).collect();
    let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[..2].iter().all(|pause| *pause <= 16), "{pauses:?}");
    assert!(pauses[2..].iter().all(|pause| (19..=61).contains(pause)), "{pauses:?}");
    let mut different = pauses.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 4, "{pauses:?}");
}

fn a_host_that_does_not_forward_sends_none<L: Locks>() {
    let h = advertising::<L>(Advertising::default());
    h.stack.sysctls.forwarding6.set(0);
    assert_eq!(adverts(&h, 30_000), Vec::new());
    h.forget_counters();
    solicit(&h, PEER6);
    h.assert_counters("in 1, ip6.received 1, ip6.in.not_member 1"); // not in the group of routers
    h.stack.sysctls.forwarding6.set(1);
    assert_eq!(adverts(&h, 3000).len(), 1);
    h.stack.set_advertising(h.cx(), EM0, None).unwrap();
    let last = adverts(&h, 60_000);
    assert_eq!(
        last.iter().map(|(_, lifetime, _)| *lifetime).collect::<Vec<_>>(),
        [0],
        "the last one has the lifetime 0"
    );
    h.stack.set_advertising(h.cx(), LOOPBACK, Some(Advertising::default())).unwrap();
    assert_eq!(h.stack.iface(LOOPBACK).unwrap().advertising(h.cx()), None);
}

fn another_host_is_configured_until_the_router_ends<L: Locks>() {
    let router = advertising::<L>(Advertising::default());
    let host = Host::<L>::bare(256, 7);
    host.add_iface("em0", OTHER, 1500);
    host.stack.set_accept_rtadv(host.cx(), EM0, true).unwrap();
    for _ in 0..100 {
        pump(&router, &host);
        router.advance(Duration::from_millis(50));
        host.advance(Duration::from_millis(50));
    }
    let addrs = host.stack.iface(EM0).unwrap().addrs6(host.cx());
    let own = addrs.iter().find(|own| own.origin != Origin::Manual).expect("an address");
    assert!(own.state.is_valid() && own.prefix().to_string() == "fd00::/64", "{own:?}");
    let near = wire::ip6::link_local(router.stack.iface(EM0).unwrap().mac);
    assert_eq!(host.stack.route6_at(host.cx(), Prefix6::DEFAULT), Some(Via6::Gateway(EM0, near)));
    router.stack.end_advertising(router.cx());
    pump(&router, &host);
    assert_eq!(host.stack.route6_at(host.cx(), Prefix6::DEFAULT), None);
    router.audit();
    host.audit();
}

fn prefixes_are_limited_by_number_and_by_buffer<L: Locks>() {
    for (data, expected) in [(2048, 16), (384, 11)] {
        let config = PoolConfig { buffers: 256, data, locks: PoolLocks::Light, ..PoolConfig::default() };
        let h = Host::<L>::configured(Pool::new(&config).unwrap(), |_| {});
        h.add_iface("em0", ME, 1500);
        h.stack.sysctls.forwarding6.set(1);
        for n in 0..20 {
            let addr = format!("2001:db8:{n:x}::1").parse().unwrap();
            h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(addr, 64)).unwrap();
        }
        h.stack.set_advertising(h.cx(), EM0, Some(Advertising::default())).unwrap();
        let sent = adverts(&h, 3000);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].2.len(), 2 + expected, "{data}: {sent:?}");
        h.audit();
    }
}
