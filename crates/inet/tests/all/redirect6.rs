//! ICMPv6 redirects (RFC 4861 8): accepted by a host, sent by a router.

use crate::common::six::*;
use crate::common::*;
use linerate_inet::fib::Prefix6;
use linerate_inet::neigh::State;
use linerate_inet::route::Via6;
use lock::Locks;
use std::net::{Ipv6Addr, SocketAddr};
use wire::icmp6::nd::{Message as Nd, Opt};
use wire::icmp6::{self, Message};
use wire::{Mac, Proto};

conversations! {
    a_host_uses_the_better_first_hop
    a_destination_on_the_link_is_reached_directly
    forged_redirects_are_ignored
    configured_routes_stay_and_a_flood_is_bounded
    a_router_redirects_its_neighbors
    a_router_sends_no_other_redirects
}

/// Builder of a redirect of packets to `dst`.
#[derive(Clone, Copy)]
struct Redirect {
    from: Six,
    src: Ipv6Addr,
    target: Ipv6Addr,
    dst: Ipv6Addr,
    link: Mac,
    hops: u8,
}

/// A redirect from PEER6, the default router, to OTHER6.
const USUAL: Redirect =
    Redirect { from: PEER6, src: PEER6.near, target: OTHER6.near, dst: BEYOND6, link: OTHER6.mac, hops: 255 };

impl Redirect {
    fn received_by<L: Locks>(self, h: &Host<L>) {
        let link = [&[2, 1][..], &self.link.0].concat();
        let mut message = [&[137, 0, 0, 0, 0, 0, 0, 0][..], &self.target.octets(), &self.dst.octets(), &link].concat();
        icmp6::fill_checksum(self.src, ME6.ip, &mut message).unwrap();
        let packet = Ip6::new(self.src, ME6.ip, Proto::IPV6_ICMP, message).hops(self.hops);
        h.inject(EM0, packet.between(self.from, ME6));
    }
}

/// Creates a host with the default router PEER6 that accepts redirects.
fn accepting<L: Locks>() -> Host<L> {
    let h = Host::<L>::six();
    h.stack.sysctls.accept_redirects6.set(1);
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.near, PEER6.mac);
    h.route6("::/0", Via6::Gateway(EM0, PEER6.near));
    h.forget_counters();
    h
}

fn route_to<L: Locks>(h: &Host<L>, dst: Ipv6Addr) -> Option<Via6> {
    h.stack.route6_to(h.cx(), dst).map(|route| route.via)
}

fn a_host_uses_the_better_first_hop<L: Locks>() {
    let h = accepting::<L>();
    let socket = h.open6();
    h.send(socket, b"1", SocketAddr::from((BEYOND6, 7))).unwrap();
    assert_eq!(h.sent6_one(EM0).0.dst, PEER6.mac);
    USUAL.received_by(&h);
    assert_eq!(h.counter("inet.nd.redirects_accepted"), 1);
    h.send(socket, b"2", SocketAddr::from((BEYOND6, 7))).unwrap();
    assert_eq!(h.sent6_one(EM0).0.dst, OTHER6.mac, "without a solicitation: the redirect contains the MAC address");
    let neighbor = h.stack.neighbors6(h.cx()).into_iter().find(|n| n.addr == OTHER6.near).unwrap();
    assert_ne!(neighbor.state, State::Permanent);
    // A redirect by the new first hop leads back to the old one; redirects by others are ignored.
    Redirect { from: OTHER6, src: OTHER6.near, target: PEER6.near, link: PEER6.mac, ..USUAL }.received_by(&h);
    assert_eq!(route_to(&h, BEYOND6), Some(Via6::Gateway(EM0, PEER6.near)));
    h.advance_secs(601);
    assert_eq!(h.counter("inet.nd.redirects_aged"), 1);
    assert_eq!(h.stack.route6_at(h.cx(), format!("{BEYOND6}/128").parse::<Prefix6>().unwrap()), None);
    h.sent(EM0);
    h.audit();
}

fn a_destination_on_the_link_is_reached_directly<L: Locks>() {
    let h = accepting::<L>();
    Redirect { target: BEYOND6, ..USUAL }.received_by(&h);
    assert_eq!(route_to(&h, BEYOND6), Some(Via6::Link(EM0)));
    let socket = h.open6();
    h.send(socket, b"?", SocketAddr::from((BEYOND6, 7))).unwrap();
    assert_eq!(h.sent6_one(EM0).0.dst, OTHER6.mac);
    h.audit();
}

fn forged_redirects_are_ignored<L: Locks>() {
    let group: Ipv6Addr = "ff0e::1".parse().unwrap();
    let cases = [
        ("by another station than the first hop", Redirect { from: OTHER6, src: OTHER6.near, ..USUAL }),
        ("by a router's global address", Redirect { src: PEER6.ip, ..USUAL }),
        ("from beyond the link", Redirect { hops: 254, ..USUAL }),
        ("to a global address of another station", Redirect { target: OTHER6.ip, ..USUAL }),
        ("of a group", Redirect { dst: group, ..USUAL }),
        ("to a group", Redirect { target: group, ..USUAL }),
        ("to this host", Redirect { target: ME6.near, ..USUAL }),
        ("with this host's link-layer address", Redirect { link: ME6.mac, ..USUAL }),
        ("with the link-layer address of a group", Redirect { link: Mac::multicast6(group), ..USUAL }),
        ("of a link-local destination", Redirect { dst: OTHER6.near, ..USUAL }),
        ("of a destination without a first hop", Redirect { dst: OTHER6.ip, ..USUAL }),
    ];
    let h = accepting::<L>();
    let routes = h.stack.routes6(h.cx());
    for (what, forged) in cases {
        forged.received_by(&h);
        assert_eq!((h.stack.routes6(h.cx()), h.counter("inet.nd.redirects_accepted")), (routes.clone(), 0), "{what}");
    }
    for setting in ["router", "off"] {
        h.stack.sysctls.forwarding6.set(i64::from(setting == "router"));
        h.stack.sysctls.accept_redirects6.set(i64::from(setting != "off"));
        USUAL.received_by(&h);
        assert_eq!(h.stack.routes6(h.cx()), routes, "{setting}");
    }
    h.sent(EM0);
    h.audit();
}

fn configured_routes_stay_and_a_flood_is_bounded<L: Locks>() {
    let h = accepting::<L>();
    let configured = Via6::Gateway(EM0, PEER6.near);
    h.route6(&format!("{BEYOND6}/128"), configured);
    USUAL.received_by(&h);
    assert_eq!(route_to(&h, BEYOND6), Some(configured));
    let routes = h.stack.routes6(h.cx()).len();
    for n in 1..=300u16 {
        Redirect { dst: Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, n), ..USUAL }.received_by(&h);
    }
    assert_eq!(h.stack.routes6(h.cx()).len(), routes + 256);
    assert_eq!(h.counter("inet.nd.redirects_evicted"), 44);
    h.sent(EM0);
    h.audit();
}

/// Creates a router with `em0` and `em1`, known neighbors PEER6 and OTHER6 on `em0`, and networks
/// behind OTHER6.
fn router<L: Locks>() -> Host<L> {
    let h = Host::<L>::router6();
    for addr in [OTHER6.ip, OTHER6.near] {
        h.stack.set_neighbor6(h.cx(), EM0, addr, OTHER6.mac);
    }
    h.route6("2001:db8:1::/48", Via6::Gateway(EM0, OTHER6.near));
    h.route6("2001:db8:2::/48", Via6::Gateway(EM0, OTHER6.ip));
    h.forget_counters();
    h
}

fn a_router_redirects_its_neighbors<L: Locks>() {
    let h = router::<L>();
    let far: Ipv6Addr = "2001:db8:1::7".parse().unwrap();
    let pinged = ping6(PEER6.ip, far, &[7; 1400]);
    h.inject(EM0, pinged.between(PEER6, ME6));
    let sent = h.sent6(EM0);
    let (onward, redirects): (Vec<_>, Vec<_>) = sent.into_iter().partition(|(link, ..)| link.dst == OTHER6.mac);
    assert_eq!((onward.len(), redirects.len()), (1, 1));
    let (link, header, message) = &redirects[0];
    assert_eq!((link.dst, header.dst, header.hop_limit), (PEER6.mac, PEER6.ip, 255));
    assert!(wire::ip6::is_link_local(header.src) && message.len() <= 1240 && message.len() > 1200, "{}", message.len());
    let Ok(Message::Nd(Nd::Redirect { target, dst, options })) = Message::parse(message, header.src, header.dst) else {
        panic!("{message:x?}")
    };
    assert_eq!((target, dst, options.target_link()), (OTHER6.near, far, Some(OTHER6.mac)));
    let quoted = options.into_iter().find_map(|option| match option {
        Opt::Other { kind: 4, data } => Some(data[6..].to_vec()),
        _ => None,
    });
    let quoted = quoted.unwrap();
    assert_eq!(wire::ip6::Header::parse_quoted(&quoted).unwrap().dst, far);
    // The destination is on the link itself, but the sender sent it to the router.
    h.inject(EM0, ping6(PEER6.ip, OTHER6.ip, b"?").between(PEER6, ME6));
    let redirects: Vec<_> = h.sent6(EM0).into_iter().filter(|(link, ..)| link.dst == PEER6.mac).collect();
    let (_, header, message) = &redirects[0];
    let Ok(Message::Nd(Nd::Redirect { target, dst, .. })) = Message::parse(message, header.src, header.dst) else {
        panic!("{message:x?}")
    };
    assert_eq!((target, dst), (OTHER6.ip, OTHER6.ip));
    assert_eq!(h.counter("inet.nd.redirects_sent"), 2);
    h.audit();
}

fn a_router_sends_no_other_redirects<L: Locks>() {
    let h = router::<L>();
    let far: Ipv6Addr = "2001:db8:1::7".parse().unwrap();
    // No redirect is sent if the gateway is known only by a global address, if the sender is not on
    // the link, or if the packet leaves by another interface.
    let behind: Ipv6Addr = "2001:db8:2::7".parse().unwrap();
    h.inject(EM0, ping6(PEER6.ip, behind, b"?").between(PEER6, ME6));
    h.inject(EM0, ping6(BEYOND6, far, b"?").between(PEER6, ME6));
    h.inject(EM0, ping6(PEER6.ip, FAR6.ip, b"?").between(PEER6, ME6));
    h.stack.sysctls.send_redirects6.set(0);
    h.inject(EM0, ping6(PEER6.ip, far, b"?").between(PEER6, ME6));
    assert_eq!((h.counter("inet.nd.redirects_sent"), h.counter("inet.ip6.forwarded")), (0, 4));
    // The rate limit of errors applies to redirects.
    h.stack.sysctls.send_redirects6.set(1);
    for _ in 0..1000 {
        h.inject(EM0, ping6(PEER6.ip, far, b"?").between(PEER6, ME6));
    }
    let (sent, limited) = (h.counter("inet.nd.redirects_sent"), h.counter("inet.icmp6.errors_limited"));
    assert!((1..200).contains(&sent) && sent + limited == 1000, "{sent} {limited}");
    h.sent(EM0);
    h.sent(EM1);
    h.audit();
}
