//! gif in all four pairs: IPv4 and IPv6 in IPv4 and in IPv6 (RFC 2003, RFC 2473, RFC 4213, RFC
//! 6040).
//!
//! PEER is on the router's first link, and FAR, the remote end of the tunnel, is on its second.
//! Beyond the tunnel are 192.168.7.0/24 and 2001:db8:0:9::/64.

use super::*;
use crate::common::packets::{self, Ip};
use clock::Duration;
use linerate_inet::iface::IfaceAddr;
use linerate_inet::route::Via;
use linerate_inet::tunnel::{Config, Kind, Refused};
use std::net::{IpAddr, Ipv4Addr};
use wire::Proto;

conversations! {
    each_pair_of_families_is_carried_both_ways
    only_packets_of_the_far_end_are_accepted
    the_inner_version_must_match_the_protocol
    ecn_marks_are_copied_both_ways
    a_tunnel_is_one_hop
    packets_are_not_routed_back_into_a_tunnel
    link_local_and_groups_stay_in_the_tunnel
    invalid_ends_are_rejected
    a_tunnel_into_itself_is_dropped
    eight_nested_tunnels_of_either_family
    outer_headers_and_fragments
    without_an_address_ip6_is_not_accepted
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Four,
    Six,
}
pub use Family::{Four, Six};

pub const PAIRS: [(Family, Family); 4] = [(Four, Four), (Four, Six), (Six, Four), (Six, Six)];
pub const BEYOND4: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 7);
pub const BEYOND9: Ipv6Addr = on(9, 9);
const NEAR_IN4: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
const FAR_IN4: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 2);
const NEAR_IN6: Ipv6Addr = on(8, 1);
const FAR_IN6: Ipv6Addr = on(8, 2);

fn ends(outer: Family) -> Config {
    let (local, remote): (IpAddr, IpAddr) = match outer {
        Four => (ME2.ip.into(), FAR.ip.into()),
        Six => (ME26.into(), FAR6.into()),
    };
    Config { local, remote, ..Config::new(Kind::Gif) }
}

/// Creates a router with a gif tunnel to FAR, whose outer family is `outer` and which carries both
/// families.
pub fn gif<L: Locks>(outer: Family) -> (Host<L>, IfaceId) {
    let h = router6::<L>();
    let id = h.stack.add_tunnel(h.cx(), "gif0", Kind::Gif, Mac::ZERO).unwrap();
    h.stack.set_tunnel(h.cx(), id, ends(outer)).unwrap();
    h.stack.add_addr(h.cx(), id, IfaceAddr { addr: NEAR_IN4, len: 30 }).unwrap();
    h.stack.add_addr6(h.cx(), id, IfaceAddr6::new(NEAR_IN6, 64)).unwrap();
    h.route("192.168.7.0/24", Via::Gateway(id, FAR_IN4));
    route6(&h, "2001:db8:0:9::/64", Via6::Gateway(id, FAR_IN6));
    settle(&h, EM1);
    settle(&h, EM0);
    (h, id)
}

/// Returns a packet from PEER to a destination behind the tunnel.
pub fn on_its_way(inner: Family, class: u8, hops: u8, text: &[u8]) -> Vec<u8> {
    match inner {
        Four => Ip::udp((PEER.ip, 5), (BEYOND4, 6), text).tos(class).ttl(hops).packet(),
        Six => udp6((PEER6, 5), (BEYOND9, 6), text).class(class).hop(hops).packet(),
    }
}

/// Returns a packet in the opposite direction.
fn on_its_way_back(inner: Family, class: u8, hops: u8, text: &[u8]) -> Vec<u8> {
    match inner {
        Four => Ip::udp((BEYOND4, 6), (PEER.ip, 5), text).tos(class).ttl(hops).packet(),
        Six => udp6((BEYOND9, 6), (PEER6, 5), text).class(class).hop(hops).packet(),
    }
}

fn frame(src: Mac, dst: Mac, packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    [&dst.0[..], &src.0, &ethertype, packet].concat()
}

pub fn from_peer<L: Locks>(h: &Host<L>, packet: &[u8]) {
    h.inject(EM0, frame(PEER.mac, ME.mac, packet));
}

/// Outer packet: type of service or traffic class, TTL or hop limit, and the inner packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Outer {
    pub class: u8,
    pub hops: u8,
    pub inner: Vec<u8>,
    pub packet: Vec<u8>,
}

/// Returns the outer packet that FAR receives.
#[track_caller]
pub fn outer_of<L: Locks>(h: &Host<L>, outer: Family, inner: Family) -> Outer {
    let frame = h.sent_one(EM1);
    let packet = frame[14..].to_vec();
    let proto = if inner == Four { 4 } else { 41 };
    match outer {
        Four => {
            packets::assert_network_fit_for_a_wire(&frame);
            let (link, ip, payload) = packets::ip_of(&frame);
            assert_eq!((link.dst, ip.src, ip.dst, ip.proto.0), (FAR.mac, ME2.ip, FAR.ip, proto));
            Outer { class: ip.tos, hops: ip.ttl, inner: payload.to_vec(), packet }
        }
        Six => {
            let got = Got::of(Mac(frame[..6].try_into().unwrap()), &packet);
            assert_eq!((got.to, got.src, got.dst, got.next), (FAR.mac, ME26, FAR6, proto), "{got:?}");
            Outer { class: got.class, hops: got.hop, inner: got.body, packet }
        }
    }
}

fn wrapped(outer: Family, proto: u8, class: u8, inner: &[u8]) -> Vec<u8> {
    match outer {
        Four => Ip::new(FAR.ip, ME2.ip, Proto(proto), inner).tos(class).packet(),
        Six => P6::new(FAR6, ME26, proto, inner).class(class).packet(),
    }
}

/// Receives `inner` in an outer packet from FAR, and advances the time so that packets that wait
/// are processed.
fn from_far<L: Locks>(h: &Host<L>, outer: Family, class: u8, inner: &[u8]) {
    let proto = if inner[0] >> 4 == 6 { 41 } else { 4 };
    h.inject(EM1, frame(FAR.mac, ME2.mac, &wrapped(outer, proto, class, inner)));
    h.stack.poll_soon(h.cx());
}

fn class_and_hops(packet: &[u8]) -> (u8, u8) {
    if packet[0] >> 4 == 6 { (packet[0] << 4 | packet[1] >> 4, packet[7]) } else { (packet[1], packet[8]) }
}

fn each_pair_of_families_is_carried_both_ways<L: Locks>() {
    for (outer, inner) in PAIRS {
        let (h, _) = gif::<L>(outer);
        from_peer(&h, &on_its_way(inner, 0, 64, b"there"));
        let there = outer_of(&h, outer, inner);
        assert_eq!((class_and_hops(&there.inner).1, there.hops), (63, 30), "{outer:?} {inner:?}");
        assert!(there.inner.ends_with(b"there"));
        from_far(&h, outer, 0, &on_its_way_back(inner, 0, 64, b"back"));
        let back = h.sent_one(EM0);
        assert_eq!((class_and_hops(&back[14..]).1, back.ends_with(b"back")), (63, true), "one hop, not two");
        assert_eq!(back[..6], PEER.mac.0);
        h.audit();
        // The inner packet is for the router itself.
        if inner == Six {
            from_far(&h, outer, 0, &echo_from(FAR_IN6, NEAR_IN6, b"inside").packet());
            let answer = outer_of(&h, outer, Six);
            let got = Got::of(FAR.mac, &answer.inner);
            assert!(got.is_icmp(129, 0) && (got.src, got.dst, got.hop) == (NEAR_IN6, FAR_IN6, 64), "{got:?}");
        }
        assert_eq!(h.counter("inet.tunnel.decapsulated"), if inner == Six { 2 } else { 1 });
    }
}

/// RFC 4213 3.6, gif(4): packets are decapsulated only if they come from the remote address of the
/// tunnel and are sent to its local address.
fn only_packets_of_the_far_end_are_accepted<L: Locks>() {
    for (outer, inner) in PAIRS {
        let (h, _) = gif::<L>(outer);
        let proto = if inner == Four { 4 } else { 41 };
        let text = on_its_way_back(inner, 0, 64, b"forged");
        match outer {
            Four => {
                for (src, dst) in [(FAR_GATEWAY.ip, ME2.ip), (BEYOND4, ME2.ip), (FAR.ip, ME.ip)] {
                    h.inject(EM1, Ip::new(src, dst, Proto(proto), text.clone()).frame(ME2.mac, FAR.mac));
                }
            }
            Six => {
                for (src, dst) in [(on(1, 9), ME26), (BEYOND6, ME26), (FAR6, ME6), (link_local(FAR), link_local(ME2))] {
                    h.inject(EM1, P6::new(src, dst, proto, text.clone()).frame(FAR.mac, ME2.mac));
                }
            }
        }
        h.poll();
        h.sent(EM1);
        assert_eq!((h.sent(EM0).len(), h.counter("inet.tunnel.decapsulated")), (0, 0), "{outer:?} {inner:?}");
        h.pass(Duration::from_secs(5));
        h.sent(EM1);
    }
}

/// Protocol 4 is for inner IPv4 packets and 41 for IPv6. The inner packet passes every check of a
/// packet from a wire.
fn the_inner_version_must_match_the_protocol<L: Locks>() {
    for outer in [Four, Six] {
        let (h, _) = gif::<L>(outer);
        for (proto, inner) in [(4, Six), (41, Four)] {
            h.inject(EM1, frame(FAR.mac, ME2.mac, &wrapped(outer, proto, 0, &on_its_way_back(inner, 0, 64, b"wrong"))));
            h.poll();
            assert_eq!(h.sent(EM0).len(), 0, "{outer:?} {proto}");
        }
        let martians =
            [Ipv6Addr::LOCALHOST, ALL_NODES, "::ffff:10.0.0.2".parse().unwrap(), NOWHERE, ME6, link_local(PEER)];
        for src in martians {
            from_far(&h, outer, 0, &udp6((src, 6), (PEER6, 5), b"martian").packet());
            assert_eq!(h.sent(EM0).len(), 0, "{outer:?} {src}");
        }
        for inner in [&[][..], &[0x60], &[0x60; 39], &[0x45; 19], &[0x50; 60], &[0; 100]] {
            for proto in [4, 41] {
                h.inject(EM1, frame(FAR.mac, ME2.mac, &wrapped(outer, proto, 0, inner)));
                h.poll();
            }
        }
        h.sent(EM1);
        assert_eq!(h.sent(EM0).len(), 0);
        h.audit();
    }
}

/// RFC 6040 4.1: on encapsulation, the ECN field is copied. RFC 6040 4.2, figure 4: the result of
/// decapsulation, including dropped packets.
fn ecn_marks_are_copied_both_ways<L: Locks>() {
    // Rows: the inner field, 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. Columns: the outer field.
    let figure = [
        [Some(0), Some(0), Some(0), None],
        [Some(1), Some(1), Some(1), Some(3)],
        [Some(2), Some(1), Some(2), Some(3)],
        [Some(3), Some(3), Some(3), Some(3)],
    ];
    for (outer, inner) in PAIRS {
        let (h, _) = gif::<L>(outer);
        for ecn in 0..4 {
            from_peer(&h, &on_its_way(inner, 0x28 | ecn, 64, b"in"));
            let there = outer_of(&h, outer, inner);
            assert_eq!((there.class & 3, class_and_hops(&there.inner).0), (ecn, 0x28 | ecn), "{outer:?} {inner:?}");
            for mark in 0..4 {
                from_far(&h, outer, 0xb8 | mark, &on_its_way_back(inner, 0x28 | ecn, 64, b"out"));
                let out = h.sent(EM0).first().map(|frame| {
                    assert!(inner == Six || packets::assert_network_fit_for_a_wire(frame).is_some());
                    class_and_hops(&frame[14..]).0
                });
                let expected = figure[usize::from(ecn)][usize::from(mark)].map(|ecn| 0x28 | ecn);
                assert_eq!(out, expected, "{outer:?} {inner:?}: {ecn} in {mark}; the DSCP is the inner one's");
            }
        }
        assert_eq!(h.counter("inet.tunnel.in.congested"), 1);
    }
}

/// RFC 2473 3.1, 4213 3.3: a tunnel is a single hop for the inner packet; the outer hop limit is
/// the tunnel's own.
fn a_tunnel_is_one_hop<L: Locks>() {
    for (outer, inner) in PAIRS {
        let (h, id) = gif::<L>(outer);
        from_peer(&h, &on_its_way(inner, 0, 2, b"last"));
        assert_eq!(class_and_hops(&outer_of(&h, outer, inner).inner).1, 1);
        from_peer(&h, &on_its_way(inner, 0, 1, b"none left"));
        h.sent_nothing(EM1);
        let reported = h.sent_one(EM0);
        match inner {
            Four => assert_eq!(packets::icmp_of(&reported).0.ty, 11),
            Six => assert!(Got::of(PEER.mac, &reported[14..]).is_icmp(3, 0)),
        }
        h.stack.set_tunnel(h.cx(), id, Config { ttl: Some(7), ..ends(outer) }).unwrap();
        from_peer(&h, &on_its_way(inner, 0, 64, b"seven"));
        assert_eq!(outer_of(&h, outer, inner).hops, 7);
    }
}

/// RFC 4443 3.1: a packet from a point-to-point link for an unused address of its subnet "MUST NOT
/// be forwarded back"; code 3.
fn packets_are_not_routed_back_into_a_tunnel<L: Locks>() {
    for outer in [Four, Six] {
        let (h, _) = gif::<L>(outer);
        let ball = udp6((BEYOND9, 1), (on(8, 0x99), 2), b"ping-pong");
        from_far(&h, outer, 0, &ball.packet());
        let got = Got::of(Mac::ZERO, &outer_of(&h, outer, Six).inner);
        assert!(got.is_icmp(1, 3) && (got.src, got.dst) == (NEAR_IN6, BEYOND9), "{got:?}");
        assert_eq!((got.quoted(), h.counter("inet.ip6.forward.goes_back")), (&ball.packet()[..], 1));
        // A packet from another link is sent into the tunnel.
        from_peer(&h, &udp6((PEER6, 1), (on(8, 0x99), 2), b"in").packet());
        assert!(outer_of(&h, outer, Six).inner.ends_with(b"in"));
    }
}

/// RFC 4213 3.7, RFC 4007: a tunnel is a link with a link-local address, and link-local packets
/// stay on it.
fn link_local_and_groups_stay_in_the_tunnel<L: Locks>() {
    for outer in [Four, Six] {
        let (h, id) = gif::<L>(outer);
        let own = h
            .stack
            .iface(id)
            .unwrap()
            .addrs6(h.cx())
            .into_iter()
            .map(|own| own.addr)
            .find(|own| own.segments()[0] == 0xfe80);
        let own = own.expect("RFC 4291 2.1: all interfaces are required to have one");
        let far: Ipv6Addr = "fe80::2".parse().unwrap();
        for dst in [own, ALL_NODES] {
            from_far(&h, outer, 0, &echo_from(far, dst, b"near?").packet());
            let got = Got::of(Mac::ZERO, &outer_of(&h, outer, Six).inner);
            assert!(got.is_icmp(129, 0) && (got.src, got.dst) == (own, far), "{got:?}");
        }
        // Packets from or to a link-local address are not forwarded to PEER.
        for packet in [
            udp6((far, 1), (PEER6, 1), b"on"),
            udp6((far, 1), (link_local(PEER), 1), b"on"),
            udp6((FAR_IN6, 1), (link_local(PEER), 1), b"on"),
        ] {
            from_far(&h, outer, 0, &packet.packet());
            h.sent_nothing(EM0);
        }
        h.sent(EM1);
        // An address of em0's link is not valid on the tunnel.
        from_far(&h, outer, 0, &echo_from(far, link_local(ME), b"?").packet());
        h.sent_nothing(EM1);
        // Neighbor discovery messages of FAR are harmless, and create no neighbor.
        for message in [
            ns(far, solicited(own), own, &[]),
            na(far, ALL_NODES, far, "O", &[]),
            ns(NOWHERE, solicited(own), own, &[]),
        ] {
            from_far(&h, outer, 0, &message.packet());
        }
        h.sent(EM1);
        h.sent_nothing(EM0);
        assert!(h.stack.neighbors6(h.cx()).iter().all(|n| n.addr != far));
        assert_alive(&h);
    }
}

fn invalid_ends_are_rejected<L: Locks>() {
    let (h, id) = gif::<L>(Six);
    let set = |config| h.stack.set_tunnel(h.cx(), id, config);
    for bad in ["ff02::1", "fe80::1", "::ffff:10.0.0.1"] {
        let bad: IpAddr = bad.parse().unwrap();
        assert_eq!(set(Config { remote: bad, ..ends(Six) }), Err(Refused::BadEnd(bad)));
        assert_eq!(set(Config { local: bad, ..ends(Six) }), Err(Refused::BadEnd(bad)));
    }
    assert_eq!(set(Config { remote: FAR.ip.into(), ..ends(Six) }), Err(Refused::BadFamily));
    assert_eq!(set(Config { local: ME2.ip.into(), ..ends(Six) }), Err(Refused::BadFamily));
    // Everything configured before still works.
    from_peer(&h, &on_its_way(Six, 0, 64, b"text"));
    outer_of(&h, Six, Six);
}

/// RFC 2473 4.1.2, 4.1.3: a tunnel whose remote address is routed through itself, and two tunnels
/// that lead into each other.
fn a_tunnel_into_itself_is_dropped<L: Locks>() {
    for outer in [Four, Six] {
        let (h, id) = gif::<L>(outer);
        let other = h.stack.add_tunnel(h.cx(), "gif1", Kind::Gif, Mac::ZERO).unwrap();
        let far: IpAddr = if outer == Four { Ipv4Addr::new(10, 9, 9, 9).into() } else { on(0x99, 9).into() };
        h.stack.set_tunnel(h.cx(), other, Config { remote: far, ..ends(outer) }).unwrap();
        h.stack.add_addr6(h.cx(), other, IfaceAddr6::new(on(0x98, 1), 64)).unwrap();
        let through = |via: IfaceId| {
            h.route("10.0.1.2/32", Via::Link(via));
            route6(&h, "2001:db8:0:1::2/128", Via6::Link(via));
        };
        through(id);
        for inner in [Four, Six] {
            from_peer(&h, &on_its_way(inner, 0, 64, b"into itself"));
            h.sent_nothing(EM1);
        }
        through(other);
        h.route("10.9.9.9/32", Via::Link(id));
        route6(&h, "2001:db8:0:99::9/128", Via6::Link(id));
        for inner in [Four, Six] {
            from_peer(&h, &on_its_way(inner, 0, 64, b"round"));
            h.sent_nothing(EM1);
        }
        assert!(h.counter("inet.tunnel.out.nested") >= 4);
        h.sent(EM0);
        h.audit();
    }
}

/// RFC 2473 4: nested tunnels of alternating families, decapsulated one by one without recursion.
fn eight_nested_tunnels_of_either_family<L: Locks>() {
    let h = router6::<L>();
    let four = |n: u8, host| Ipv4Addr::new(172, 20, n, host);
    let six = |n: u8, host| on(0x200 + u16::from(n), host);
    for n in 0..8u8 {
        let id = h.stack.add_tunnel(h.cx(), &format!("gif{n}"), Kind::Gif, Mac::ZERO).unwrap();
        let (local, remote): (IpAddr, IpAddr) = match n {
            0 => (ME26.into(), FAR6.into()),
            n if n % 2 == 1 => (four(n - 1, 1).into(), four(n - 1, 2).into()),
            n => (six(n - 1, 1).into(), six(n - 1, 2).into()),
        };
        h.stack.set_tunnel(h.cx(), id, Config { local, remote, ..Config::new(Kind::Gif) }).unwrap();
        h.stack.add_addr(h.cx(), id, IfaceAddr { addr: four(n, 1), len: 30 }).unwrap();
        h.stack.add_addr6(h.cx(), id, IfaceAddr6::new(six(n, 1), 64)).unwrap();
    }
    settle(&h, EM1);
    // From the innermost to the outermost.
    let mut packet = echo_from(six(7, 2), six(7, 1), b"deep").packet();
    for n in (0..8u8).rev() {
        let proto = if packet[0] >> 4 == 6 { 41 } else { 4 };
        packet = match n {
            0 => P6::new(FAR6, ME26, proto, packet).packet(),
            n if n % 2 == 1 => Ip::new(four(n - 1, 2), four(n - 1, 1), Proto(proto), packet).packet(),
            n => P6::new(six(n - 1, 2), six(n - 1, 1), proto, packet).packet(),
        };
    }
    h.inject(EM1, frame(FAR.mac, ME2.mac, &packet));
    for _ in 0..10 {
        h.stack.poll_soon(h.cx());
    }
    let mut answer = h.sent_one(EM1)[14..].to_vec();
    for depth in 0..8 {
        let header = if answer[0] >> 4 == 6 { 40 } else { 20 };
        assert_eq!(header == 40, depth % 2 == 0, "{depth}");
        answer.drain(..header);
    }
    let got = Got::of(FAR.mac, &answer);
    assert!(got.is_icmp(129, 0) && got.body.ends_with(b"deep"), "{got:?}");
    assert_eq!((h.counter("inet.tunnel.decapsulated"), h.counter("inet.tunnel.encapsulated")), (8, 8));
}

/// RFC 2473 5.1: the destination option of the tunnel (encapsulation limit, option 4) is skipped,
/// and outer fragments are reassembled.
fn outer_headers_and_fragments<L: Locks>() {
    for inner in [Four, Six] {
        let (h, _) = gif::<L>(Six);
        let proto = if inner == Four { 4 } else { 41 };
        let back = on_its_way_back(inner, 0, 64, &[7; 1000]);
        let outer = P6::new(FAR6, ME26, proto, back);
        let out = |h: &Host<L>| {
            h.stack.poll_soon(h.cx());
            h.sent(EM0).len()
        };
        h.inject(EM1, outer.clone().options(DEST, &[4, 1, 3]).by_far());
        assert_eq!(out(&h), 1);
        for (off, len) in [(512, 4096), (0, 512)] {
            h.inject(EM1, outer.fragment(1, off, len).by_far());
        }
        assert_eq!(out(&h), 1);
        h.inject(EM1, outer.clone().options(DEST, &[0x9e, 0]).by_far());
        assert_eq!(out(&h), 0);
        assert!(sent6_one(&h, EM1).is_icmp(4, 2));
    }
}

fn without_an_address_ip6_is_not_accepted<L: Locks>() {
    for outer in [Four, Six] {
        let h = router6::<L>();
        let id = h.stack.add_tunnel(h.cx(), "gif0", Kind::Gif, Mac::ZERO).unwrap();
        h.stack.set_tunnel(h.cx(), id, ends(outer)).unwrap();
        from_far(&h, outer, 0, &on_its_way_back(Six, 0, 64, b"in"));
        h.poll();
        assert_eq!((h.sent(EM0).len(), h.sent(EM1).len()), (0, 0));
        h.audit();
    }
}
