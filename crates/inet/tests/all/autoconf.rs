//! Autoconfiguration by router advertisements: addresses, default routers, on-link prefixes, and
//! limits against forged advertisements (RFC 4861 6, 4862 5.5, 4191, 7217, 7559; RFC 6104, 6980).

use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::fib::Prefix6;
use linerate_inet::ip6::{AddrState, IfaceAddr6, Origin};
use linerate_inet::route::Via6;
use lock::Locks;
use std::net::Ipv6Addr;
use wire::icmp6::nd::{Advert, Message as Nd, Preference};
use wire::icmp6::{self, Message};
use wire::ip6::{ALL_NODES, ALL_ROUTERS};
use wire::{Mac, Proto};

conversations! {
    a_host_solicits_and_is_configured
    solicitation_intervals_double
    invalid_advertisements_are_dropped
    addresses_are_deprecated_and_expire
    lifetimes_are_not_cut_below_two_hours
    a_duplicate_address_is_replaced
    a_prefix_without_an_address_is_on_link_and_an_address_alone_is_not
    the_preferred_reachable_router_is_used
    a_former_router_is_removed
    a_configured_route_is_kept
    the_advertised_mtu_applies_within_bounds
    floods_are_bounded
    a_forwarding_host_ignores_advertisements
    turning_accept_rtadv_off_removes_everything_learned
    two_interfaces_with_one_prefix_share_its_route
    a_forged_advertisement_does_not_remove_a_static_router
    an_advertisement_in_a_fragment_is_dropped
    advertised_resolvers_have_lifetimes_and_are_bounded
}

const DAY: u32 = 86_400;

/// Builder of a router advertisement.
#[derive(Clone)]
struct Ra {
    from: Six,
    lifetime: u16,
    flags: u8,
    options: Vec<u8>,
}

impl Ra {
    fn of(from: Six) -> Ra {
        let link = [&[1, 1][..], &from.mac.0].concat();
        Ra { from, lifetime: 1800, flags: 0, options: link }
    }

    /// Adds a prefix. Bits of `flags`: 0x80 on-link, 0x40 autonomous.
    fn prefix(mut self, text: &str, flags: u8, valid: u32, preferred: u32) -> Ra {
        let prefix: Prefix6 = text.parse().unwrap();
        self.options.extend([3, 4, prefix.len(), flags]);
        self.options.extend([valid.to_be_bytes(), preferred.to_be_bytes(), [0; 4]].concat());
        self.options.extend(prefix.addr().octets());
        self
    }

    fn mtu(mut self, mtu: u32) -> Ra {
        self.options.extend([5, 1, 0, 0]);
        self.options.extend(mtu.to_be_bytes());
        self
    }

    /// Adds name servers (RFC 8106 5.1).
    fn rdnss(mut self, lifetime: u32, servers: &[&str]) -> Ra {
        self.options.extend([25, 1 + 2 * servers.len() as u8, 0, 0]);
        self.options.extend(lifetime.to_be_bytes());
        self.options.extend(servers.iter().flat_map(|addr| addr.parse::<Ipv6Addr>().unwrap().octets()));
        self
    }

    /// Adds search domains in encoded form (RFC 8106 5.2).
    fn dnssl(mut self, lifetime: u32, domains: &[u8]) -> Ra {
        let padded = domains.len().next_multiple_of(8);
        self.options.extend([31, 1 + (padded / 8) as u8, 0, 0]);
        self.options.extend(lifetime.to_be_bytes());
        self.options.extend(domains);
        self.options.resize(self.options.len() + padded - domains.len(), 0);
        self
    }

    fn lifetime(mut self, seconds: u16) -> Ra {
        self.lifetime = seconds;
        self
    }

    fn packet(&self, src: Ipv6Addr) -> Ip6 {
        let [high, low] = self.lifetime.to_be_bytes();
        let mut message = [&[134, 0, 0, 0, 64, self.flags, high, low][..], &[0; 8], &self.options].concat();
        icmp6::fill_checksum(src, ALL_NODES, &mut message).unwrap();
        Ip6::new(src, ALL_NODES, Proto::IPV6_ICMP, message).hops(255)
    }

    fn received_by<L: Locks>(&self, h: &Host<L>) {
        h.inject(EM0, self.packet(self.from.near).frame(Mac::multicast6(ALL_NODES), self.from.mac));
    }
}

/// An advertisement of an on-link, autonomous prefix with a valid lifetime of a day.
fn usual(from: Six, prefix: &str) -> Ra {
    Ra::of(from).prefix(prefix, 0xc0, DAY, DAY / 2)
}

/// A host whose `em0` accepts router advertisements and has a valid link-local address.
fn accepting<L: Locks>() -> Host<L> {
    let h = Host::<L>::new();
    h.stack.set_accept_rtadv(h.cx(), EM0, true).unwrap();
    h.advance_secs(2);
    h.sent(EM0);
    h.forget_counters();
    h
}

/// Returns the autoconfigured addresses.
fn advertised<L: Locks>(h: &Host<L>) -> Vec<IfaceAddr6> {
    let all = h.stack.iface(EM0).unwrap().addrs6(h.cx());
    all.into_iter().filter(|own| own.origin != Origin::Manual).collect()
}

fn default_route<L: Locks>(h: &Host<L>) -> Option<Via6> {
    h.stack.route6_at(h.cx(), Prefix6::DEFAULT)
}

fn by(router: Six) -> Option<Via6> {
    Some(Via6::Gateway(EM0, router.near))
}

/// Returns the times of router solicitations within `seconds`, in tenths of a second.
fn solicitations<L: Locks>(h: &Host<L>, seconds: u64) -> Vec<u64> {
    let mut at = Vec::new();
    for tenth in 0..seconds * 10 {
        h.advance(Duration::from_millis(100));
        let is_solicitation = |(_, header, payload): &(_, wire::ip6::Header, Vec<u8>)| {
            header.next == Proto::IPV6_ICMP && payload.first() == Some(&icmp6::ty::ROUTER_SOLICIT)
        };
        at.extend(h.sent6(EM0).iter().filter(|sent| is_solicitation(sent)).map(|_| tenth));
    }
    at
}

fn a_host_solicits_and_is_configured<L: Locks>() {
    let h = Host::<L>::new();
    h.stack.set_accept_rtadv(h.cx(), EM0, true).unwrap();
    assert!(h.stack.has_tentative(h.cx()));
    h.advance_secs(1);
    h.advance_secs(1);
    let sent = h.sent6(EM0);
    let requested = sent.iter().find(|(_, header, _)| header.dst == ALL_ROUTERS).expect("a solicitation");
    let near = wire::ip6::link_local(ME.mac);
    assert_eq!((requested.1.src, requested.1.hop_limit, requested.0.dst), (near, 255, Mac::multicast6(ALL_ROUTERS)));
    match Message::parse(&requested.2, near, ALL_ROUTERS).unwrap() {
        Message::Nd(Nd::RouterSolicit { options }) => assert_eq!(options.source_link(), Some(ME.mac)),
        other => panic!("{other:?}"),
    }
    assert!(h.stack.has_tentative(h.cx()), "an advertisement is still awaited");
    h.forget_counters();
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    let own = advertised(&h)[0];
    assert!(matches!(own.state, AddrState::Tentative(..)) && own.len == 64, "{own:?}");
    assert_ne!(own.addr.to_bits() as u64, near.to_bits() as u64, "not derived from the MAC address");
    assert_eq!(default_route(&h), by(PEER6));
    h.advance_secs(2);
    h.sent(EM0);
    assert!(advertised(&h)[0].state == AddrState::Valid && !h.stack.has_tentative(h.cx()));
    assert_eq!(h.counter("inet.nd.router_adverts_received"), 1);
    // Output uses that address and the router's MAC address from the advertisement.
    let id = h.bound6(any6(5000));
    h.send(id, b"out", Some((BEYOND6, 7).into())).unwrap();
    let (link, header, _) = h.sent6_one(EM0);
    assert_eq!((link.dst, header.src), (PEER6.mac, own.addr));
    // Each prefix has its own interface identifier, which is the same each time.
    usual(PEER6, "2001:db8:1::/64").prefix("2001:db8:2::/64", 0xc0, DAY, DAY).received_by(&h);
    let all = advertised(&h);
    assert_eq!((all.len(), all[0].addr), (2, own.addr));
    assert_ne!(all[0].addr.to_bits() as u64, all[1].addr.to_bits() as u64);
    assert_eq!(solicitations(&h, 60), Vec::<u64>::new(), "a router is known");
    h.audit();
}

fn solicitation_intervals_double<L: Locks>() {
    let h = Host::<L>::new();
    h.stack.set_accept_rtadv(h.cx(), EM0, true).unwrap();
    let at = solicitations(&h, 300);
    let pauses: Vec<_> = at.windows(2).map(|pair| (pair[1] - pair[0]) / 10).collect();
    assert_eq!(pauses, [4, 8, 16, 32, 64, 128], "{at:?}");
    assert!(!h.stack.has_tentative(h.cx()), "programs stop waiting");
    // After down and up, autoconfiguration starts again, since the interface may be on another
    // link.
    h.stack.set_up(h.cx(), EM0, false);
    h.stack.set_up(h.cx(), EM0, true);
    assert_eq!(solicitations(&h, 5).len(), 2);
}

fn invalid_advertisements_are_dropped<L: Locks>() {
    let h = accepting::<L>();
    let routes = h.stack.routes6(h.cx());
    let ra = usual(PEER6, "2001:db8:1::/64");
    let from_far = ra.packet(PEER6.near).hops(254);
    let to_all = |packet: &Ip6| packet.frame(Mac::multicast6(ALL_NODES), PEER6.mac);
    h.inject(EM0, to_all(&from_far));
    h.inject(EM0, to_all(&ra.packet(PEER6.ip))); // not a link-local address
    h.inject(EM0, to_all(&Ra { options: [&[1, 1][..], &ME.mac.0].concat(), ..ra.clone() }.packet(PEER6.near)));
    h.inject(EM0, to_all(&Ra { options: vec![3, 0, 64, 0xc0, 0, 0, 0, 1], ..ra.clone() }.packet(PEER6.near)));
    h.assert_counters("in 4, ip6.received 4, ip6.delivered 4, icmp6.received 4, nd.in.hop_limit 1, nd.in.malformed 3");
    assert_eq!((h.stack.routes6(h.cx()), advertised(&h)), (routes.clone(), Vec::new()));
    // Prefixes that are link-local, multicast, not of 64 bits, too long, or with a preferred
    // lifetime longer than the valid lifetime.
    let odd = Ra::of(PEER6).lifetime(0).prefix("fe80::/64", 0xc0, DAY, DAY).prefix("ff02::/64", 0xc0, DAY, DAY);
    let odd = odd.prefix("2001:db8:1::/65", 0x40, DAY, DAY).prefix("2001:db8:1::/48", 0x40, DAY, DAY);
    let mut odd = odd.prefix("2001:db8:1::/64", 0xc0, 10, 11).prefix("2001:db8:1::/64", 0xc0, 0, 0);
    odd.options.extend([3, 4, 200, 0xc0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    odd.options.extend([0x20; 16]);
    odd.received_by(&h);
    assert_eq!((h.stack.routes6(h.cx()), advertised(&h)), (routes, Vec::new()));
    assert_eq!(h.counter("inet.nd.router_adverts_received"), 1);
    h.audit();
}

fn addresses_are_deprecated_and_expire<L: Locks>() {
    let h = accepting::<L>();
    Ra::of(PEER6).prefix("2001:db8:1::/64", 0xc0, 100, 50).received_by(&h);
    Ra::of(PEER6).prefix("2001:db8:2::/64", 0xc0, u32::MAX, u32::MAX).received_by(&h);
    h.advance_secs(2);
    let [old, new] = [0, 1].map(|at| advertised(&h)[at].addr);
    let to_first: Ipv6Addr = "2001:db8:1:ff::1".parse().unwrap();
    assert_eq!(h.stack.source6_to(h.cx(), to_first), Some(old), "the source has the longer common prefix");
    h.advance_secs(50);
    assert_eq!(h.stack.source6_to(h.cx(), to_first), Some(new), "deprecated");
    assert!(advertised(&h)[0].is_deprecated(h.now()) && !advertised(&h)[1].is_deprecated(h.now()));
    h.advance_secs(50);
    assert_eq!(advertised(&h).iter().map(|own| own.addr).collect::<Vec<_>>(), [new]);
    assert_eq!(h.stack.route6_at(h.cx(), "2001:db8:1::/64".parse().unwrap()), None);
    assert_eq!(default_route(&h), by(PEER6));
    h.advance_secs(1800);
    assert_eq!(default_route(&h), None, "end of the router lifetime");
    h.sent(EM0);
    assert!(!solicitations(&h, 10).is_empty(), "it solicits again");
    h.audit();
}

fn lifetimes_are_not_cut_below_two_hours<L: Locks>() {
    let h = accepting::<L>();
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    h.advance_secs(2);
    let left = |h: &Host<L>| match advertised(h)[0].origin {
        Origin::Advertised { valid_until, .. } => valid_until.since(h.now()).as_secs(),
        Origin::Manual => 0,
    };
    Ra::of(PEER6).prefix("2001:db8:1::/64", 0xc0, 0, 0).received_by(&h);
    assert_eq!(left(&h), 7200, "two hours remain");
    assert!(advertised(&h)[0].is_deprecated(h.now()), "deprecated at once");
    h.advance_secs(3600);
    Ra::of(PEER6).prefix("2001:db8:1::/64", 0xc0, 60, 60).received_by(&h);
    assert_eq!(left(&h), 3600, "a shorter remaining lifetime stays");
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    assert_eq!(left(&h), u64::from(DAY));
}

fn a_duplicate_address_is_replaced<L: Locks>() {
    let h = accepting::<L>();
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let own = advertised(&h)[0];
        seen.push(own.addr);
        let advert = Advert { router: false, solicited: false, replaces: true, target: own.addr };
        let emit = |out: &mut [u8]| icmp6::nd::emit_advert(advert, Some(OTHER6.mac), (own.addr, ALL_NODES), out);
        let message = icmp6(own.addr, ALL_NODES, emit).hops(255);
        h.inject(EM0, message.frame(Mac::multicast6(ALL_NODES), OTHER6.mac));
    }
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
    let left = advertised(&h);
    assert_eq!((left.len(), left[0].state), (1, AddrState::Duplicated), "no more than three retries");
    assert_eq!(h.counter("inet.nd.duplicates"), 4);
    h.audit();
}

fn a_prefix_without_an_address_is_on_link_and_an_address_alone_is_not<L: Locks>() {
    let h = accepting::<L>();
    Ra::of(PEER6).prefix("2001:db8:1::/64", 0x80, DAY, DAY).prefix("2001:db8:2::/64", 0x40, DAY, DAY).received_by(&h);
    h.advance_secs(2);
    let prefixes: Vec<_> = advertised(&h).iter().map(|own| own.prefix().to_string()).collect();
    assert_eq!(prefixes, ["2001:db8:2::/64"]);
    let via = |text: &str| h.stack.route6_to(h.cx(), text.parse().unwrap()).map(|route| route.via);
    assert_eq!((via("2001:db8:1::7"), via("2001:db8:2::7")), (Some(Via6::Link(EM0)), by(PEER6)));
    // A valid lifetime of 0 removes the prefix.
    Ra::of(PEER6).prefix("2001:db8:1::/64", 0x80, 0, 0).received_by(&h);
    assert_eq!(via("2001:db8:1::7"), by(PEER6));
}

fn the_preferred_reachable_router_is_used<L: Locks>() {
    let h = accepting::<L>();
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    Ra { flags: 0x08, ..Ra::of(OTHER6) }.received_by(&h);
    assert_eq!(default_route(&h), by(OTHER6), "more preferred");
    Ra { flags: 0x18, ..Ra::of(OTHER6) }.received_by(&h);
    assert_eq!(default_route(&h), by(PEER6), "less");
    Ra { flags: 0x10, ..Ra::of(OTHER6) }.received_by(&h);
    assert_eq!(default_route(&h), by(PEER6), "the reserved value is medium, and the current router stays");
    let preferences: Vec<_> =
        h.stack.iface(EM0).unwrap().default_routers(h.cx()).iter().map(|of| of.preference).collect();
    assert_eq!(preferences, [Preference::Medium, Preference::Medium]);
    // The router does not answer neighbor solicitations.
    let id = h.bound6(any6(5000));
    for _ in 0..60 {
        let _ = h.send(id, b"out", Some((BEYOND6, 7).into()));
        h.advance_secs(1);
    }
    h.sent(EM0);
    assert_eq!(default_route(&h), by(OTHER6));
    let unreachable: Vec<_> =
        h.stack.iface(EM0).unwrap().default_routers(h.cx()).iter().map(|of| of.is_unreachable).collect();
    assert!(unreachable.contains(&true), "{unreachable:?}");
    // An advertisement makes the router reachable again.
    Ra { flags: 0x08, ..Ra::of(PEER6) }.received_by(&h);
    assert_eq!(default_route(&h), by(PEER6));
    h.audit();
}

fn a_former_router_is_removed<L: Locks>() {
    let h = accepting::<L>();
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    Ra::of(OTHER6).received_by(&h);
    assert_eq!(default_route(&h), by(PEER6));
    Ra::of(PEER6).lifetime(0).received_by(&h);
    assert_eq!(default_route(&h), by(OTHER6));
    // A neighbor advertisement without the router flag removes the router as well (RFC 4861 7.2.5).
    let advert = Advert { router: false, solicited: false, replaces: true, target: OTHER6.near };
    let emit = |out: &mut [u8]| icmp6::nd::emit_advert(advert, Some(OTHER6.mac), (OTHER6.near, ALL_NODES), out);
    h.inject(EM0, icmp6(OTHER6.near, ALL_NODES, emit).hops(255).frame(Mac::multicast6(ALL_NODES), OTHER6.mac));
    assert_eq!(default_route(&h), None);
    assert_eq!(advertised(&h).len(), 1, "addresses have their own lifetimes");
}

fn a_configured_route_is_kept<L: Locks>() {
    let h = accepting::<L>();
    let by_hand = Via6::Gateway(EM0, FAR6.near);
    h.route6("::/0", by_hand);
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    assert_eq!(default_route(&h), Some(by_hand));
    h.stack.remove_route6(h.cx(), Prefix6::DEFAULT);
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    assert_eq!(default_route(&h), by(PEER6));
    // A configured address keeps the route of its prefix when the advertised prefix ends.
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new("2001:db8:1::77".parse().unwrap(), 64)).unwrap();
    Ra::of(PEER6).prefix("2001:db8:1::/64", 0x80, 0, 0).received_by(&h);
    assert_eq!(h.stack.route6_at(h.cx(), "2001:db8:1::/64".parse().unwrap()), Some(Via6::Link(EM0)));
}

fn the_advertised_mtu_applies_within_bounds<L: Locks>() {
    let h = accepting::<L>();
    let mtu = |h: &Host<L>| h.stack.iface(EM0).unwrap().mtu6();
    for (said, expected) in [(1279, 1500), (1501, 1500), (1280, 1280), (0, 1280), (1400, 1400)] {
        usual(PEER6, "2001:db8:1::/64").mtu(said).received_by(&h);
        assert_eq!(mtu(&h), expected, "{said}");
    }
    h.stack.set_accept_rtadv(h.cx(), EM0, false).unwrap();
    assert_eq!(mtu(&h), 1500);
}

/// RFC 6104: one station sends advertisements of many routers and prefixes.
fn floods_are_bounded<L: Locks>() {
    let h = accepting::<L>();
    usual(PEER6, "2001:db8:ffff::/64").received_by(&h);
    for n in 0..200u16 {
        let near = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, n);
        let stranger = Six { mac: Mac([2, 0, 0, 1, (n >> 8) as u8, n as u8]), ip: near, near };
        usual(stranger, &format!("2001:db8:{n:x}::/64")).received_by(&h);
    }
    h.sent(EM0);
    let iface = h.stack.iface(EM0).unwrap();
    let (routers, prefixes) = (iface.default_routers(h.cx()), iface.advertised_prefixes(h.cx()));
    assert_eq!((routers.len(), prefixes.len(), advertised(&h).len()), (16, 16, 16));
    assert_eq!(default_route(&h), by(PEER6), "the first router stays");
    assert_eq!(h.counter("inet.nd.table_full"), 185);
    h.advance_secs(2);
    h.audit();
}

fn a_forwarding_host_ignores_advertisements<L: Locks>() {
    let h = accepting::<L>();
    h.stack.sysctls.forwarding6.set(1);
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, nd.ignored 1, nd.in.ignored 1");
    assert_eq!((default_route(&h), advertised(&h)), (None, Vec::new()));
    assert_eq!(solicitations(&h, 20), Vec::<u64>::new());
}

fn turning_accept_rtadv_off_removes_everything_learned<L: Locks>() {
    let h = accepting::<L>();
    let routes = h.stack.routes6(h.cx());
    usual(PEER6, "2001:db8:1::/64").mtu(1400).received_by(&h);
    assert!(h.stack.routes6(h.cx()).len() == routes.len() + 3 && h.stack.iface(EM0).unwrap().accepts_rtadv(h.cx()));
    h.stack.set_accept_rtadv(h.cx(), EM0, false).unwrap();
    assert_eq!((h.stack.routes6(h.cx()), advertised(&h)), (routes, Vec::new()));
    assert!(!h.stack.iface(EM0).unwrap().accepts_rtadv(h.cx()));
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    assert_eq!((default_route(&h), advertised(&h)), (None, Vec::new()));
    h.stack.set_accept_rtadv(h.cx(), EM0, true).unwrap();
    usual(PEER6, "2001:db8:1::/64").received_by(&h);
    // Removing the interface removes all its addresses and routes.
    h.stack.remove_iface(h.cx(), EM0);
    assert_eq!(default_route(&h), None);
}

/// When the entry of the first interface ends, the route of the prefix moves to the other
/// interface.
fn two_interfaces_with_one_prefix_share_its_route<L: Locks>() {
    let h = accepting::<L>();
    h.add_iface("em1", ME2, 1500);
    h.stack.set_accept_rtadv(h.cx(), EM1, true).unwrap();
    h.advance_secs(2);
    let route = |h: &Host<L>| h.stack.route6_at(h.cx(), "2001:db8:1::/64".parse().unwrap());
    let ra = usual(PEER6, "2001:db8:1::/64");
    ra.received_by(&h);
    h.inject(EM1, ra.packet(PEER6.near).frame(Mac::multicast6(ALL_NODES), PEER6.mac));
    assert_eq!(route(&h), Some(Via6::Link(EM0)));
    Ra::of(PEER6).prefix("2001:db8:1::/64", 0x80, 0, 0).received_by(&h);
    assert_eq!(route(&h), Some(Via6::Link(EM1)));
    h.audit();
}

/// With a static neighbor entry for the router, another MAC address cannot revoke it.
fn a_forged_advertisement_does_not_remove_a_static_router<L: Locks>() {
    let h = accepting::<L>();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.near, PEER6.mac);
    Ra::of(PEER6).received_by(&h);
    let advert = Advert { router: false, solicited: false, replaces: true, target: PEER6.near };
    let emit = |out: &mut [u8]| icmp6::nd::emit_advert(advert, Some(OTHER6.mac), (PEER6.near, ALL_NODES), out);
    h.inject(EM0, icmp6(PEER6.near, ALL_NODES, emit).hops(255).frame(Mac::multicast6(ALL_NODES), OTHER6.mac));
    assert_eq!(default_route(&h), by(PEER6));
    assert_eq!(h.counter("inet.nd.in.would_overwrite_static"), 1);
}

/// RFC 6980 5: fragments would bypass filters of advertisements in switches (RFC 7113).
fn an_advertisement_in_a_fragment_is_dropped<L: Locks>() {
    let h = accepting::<L>();
    let whole = usual(PEER6, "2001:db8:1::/64").packet(PEER6.near);
    for (off, len) in [(0, 24), (24, 2000)] {
        h.inject(EM0, whole.fragment(7, off, len).hops(255).frame(Mac::multicast6(ALL_NODES), PEER6.mac));
    }
    assert_eq!((default_route(&h), advertised(&h)), (None, Vec::new()));
    assert_eq!(h.counter("inet.nd.in.malformed"), 1);
    h.audit();
}

fn advertised_resolvers_have_lifetimes_and_are_bounded<L: Locks>() {
    let h = accepting::<L>();
    let resolvers = || {
        let all = h.stack.resolvers(h.cx());
        let servers: Vec<_> = all.servers.iter().map(|entry| entry.value.to_string()).collect();
        let domains: Vec<_> = all.domains.into_iter().map(|entry| entry.value).collect();
        (servers.join(" "), domains.join(" "))
    };
    let ra = || Ra::of(PEER6);
    ra().rdnss(60, &["2001:db8::53", "fe80::53"]).dnssl(30, b"\x03Lab\x04test\0\x04test\0").received_by(&h);
    assert_eq!(resolvers(), ("[2001:db8::53]:53 [fe80::53%2]:53".into(), "lab.test test".into()));
    h.advance_secs(31);
    assert_eq!(resolvers(), ("[2001:db8::53]:53 [fe80::53%2]:53".into(), "".into()));
    // A lifetime of 0 ends the use of one server; the lifetime of another is extended.
    ra().rdnss(0, &["2001:db8::53"]).rdnss(60, &["fe80::53"]).received_by(&h);
    assert_eq!(resolvers().0, "[fe80::53%2]:53");
    h.advance_secs(59);
    assert_eq!(resolvers().0, "[fe80::53%2]:53");
    h.advance_secs(2);
    assert_eq!(resolvers().0, "");
    // Options that do not contain lists of addresses or names, and addresses that no server can
    // have.
    let bad = |kind: u8, units: u8, data: &[u8]| {
        let mut ra = ra();
        ra.options.extend([&[kind, units, 0, 0, 0, 0, 0, 60], data].concat());
        ra.received_by(&h);
    };
    bad(25, 1, &[]);
    bad(25, 2, &[0; 8]);
    bad(25, 4, &[1; 24]);
    bad(31, 1, &[]);
    bad(31, 2, &[0xc0, 0, 0xc0, 0, 0, 0, 0, 0]);
    bad(31, 2, b"\x07.......");
    bad(31, 2, &[63; 8]);
    bad(31, 2, b"\x04\x1b[2J\0\0\0");
    ra().rdnss(60, &["::", "ff02::1", "::1"]).received_by(&h);
    assert_eq!(resolvers(), ("".into(), "".into()));
    // After a flood, eight entries remain, and configured ones have not been replaced.
    let configured = ["192.0.2.53:0".parse().unwrap()];
    let source = linerate_inet::resolvers::ResolverSource::Configured;
    let domains = ["home.test".into(), "\x1b[2J".into(), "a b".into()];
    h.stack.set_resolvers(h.cx(), source, &configured, &domains, clock::Instant::NEVER);
    for n in 0..100 {
        ra().rdnss(60 + n, &[&format!("2001:db8::{n:x}")])
            .dnssl(60, format!("\x03n{n:02}\0").as_bytes())
            .received_by(&h);
    }
    let all = h.stack.resolvers(h.cx());
    assert_eq!((all.servers.len(), all.domains.len()), (9, 9));
    assert_eq!((resolvers().0.split(' ').next(), all.domains[0].value.as_str()), (Some("192.0.2.53:53"), "home.test"));
    h.stack.set_accept_rtadv(h.cx(), EM0, false).unwrap();
    assert_eq!(resolvers(), ("192.0.2.53:53".into(), "home.test".into()));
    h.audit();
}
