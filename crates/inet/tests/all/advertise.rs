//! A router that advertises itself (RFC 4861 6.2): what it says, when, to whom it answers, and that hosts of ours believe it.

use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::fib6::{Prefix6, Via6};
use linerate_inet::iface::LOOPBACK;
use linerate_inet::ip6::{Advertising, IfaceAddr6, Origin};
use lock::Locks;
use wire::icmp6::nd::{self, Message as Nd, Opt};
use wire::icmp6::{self, Message};
use wire::ip6::{ALL_NODES, ALL_ROUTERS};
use wire::{Mac, Proto};

conversations! {
    it_says_what_hosts_need
    it_answers_and_is_not_flooded
    it_goes_on_at_random_times
    who_is_no_router_says_nothing
    a_host_of_ours_believes_it_until_it_ends
}

/// An advertisement as it was sent: time in milliseconds, lifetime, options.
type Said = (u64, u16, Vec<String>);

/// A router that advertises on `em0`.
fn advertising<L: Locks>(what: Advertising) -> Host<L> {
    let h = Host::<L>::router6();
    h.stack.set_advertising(h.cx(), EM0, Some(what)).unwrap();
    h
}

/// Every advertisement that leaves within `millis`.
fn said<L: Locks>(h: &Host<L>, millis: u64) -> Vec<Said> {
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

fn it_says_what_hosts_need<L: Locks>() {
    let h = advertising::<L>(Advertising { lifetime: 900, max_interval: 300, valid: 5000, preferred: 4000 });
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new("2001:db8:9::1".parse().unwrap(), 56)).unwrap();
    let first = said(&h, 2000);
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

fn it_answers_and_is_not_flooded<L: Locks>() {
    let h = advertising::<L>(Advertising::default());
    said(&h, 60_000); // the first three
    solicit(&h, PEER6);
    let answer = said(&h, 1000);
    assert!(answer.len() == 1 && answer[0].0 <= 550, "{answer:?}");
    for _ in 0..300 {
        solicit(&h, OTHER6);
        h.advance(Duration::from_millis(10));
    }
    let answers = said(&h, 1000).len();
    assert!((1..=2).contains(&answers), "{answers} within four seconds");
    // From nobody, it has no link-layer address (6.1.1).
    h.forget_counters();
    let any = std::net::Ipv6Addr::UNSPECIFIED;
    let emit = |out: &mut [u8]| nd::emit_router_solicit(Some(OTHER6.mac), (any, ALL_ROUTERS), out);
    h.inject(EM0, icmp6(any, ALL_ROUTERS, emit).hops(255).frame(Mac::multicast6(ALL_ROUTERS), OTHER6.mac));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.in.malformed 1");
    h.audit();
}

fn it_goes_on_at_random_times<L: Locks>() {
    let h = advertising::<L>(Advertising { max_interval: 60, ..Advertising::default() });
    let at: Vec<_> = said(&h, 600_000).iter().map(|(at, ..)| at / 1000).collect();
    let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[..2].iter().all(|pause| *pause <= 16), "{pauses:?}");
    assert!(pauses[2..].iter().all(|pause| (19..=61).contains(pause)), "{pauses:?}");
    let mut different = pauses.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 4, "{pauses:?}");
}

fn who_is_no_router_says_nothing<L: Locks>() {
    let h = advertising::<L>(Advertising::default());
    h.stack.knobs.forwarding6.set(0);
    assert_eq!(said(&h, 30_000), Vec::new());
    h.forget_counters();
    solicit(&h, PEER6);
    h.assert_counters("in 1, ip6.received 1, ip6.in.not_member 1"); // no member of the routers' group
    h.stack.knobs.forwarding6.set(1);
    assert_eq!(said(&h, 3000).len(), 1);
    h.stack.set_advertising(h.cx(), EM0, None).unwrap();
    let last = said(&h, 60_000);
    assert_eq!(last.iter().map(|(_, lifetime, _)| *lifetime).collect::<Vec<_>>(), [0], "it says that it ends");
    h.stack.set_advertising(h.cx(), LOOPBACK, Some(Advertising::default())).unwrap();
    assert_eq!(h.stack.iface(LOOPBACK).unwrap().advertising(h.cx()), None);
}

fn a_host_of_ours_believes_it_until_it_ends<L: Locks>() {
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
