//! Packets that are too long for a tunnel, and errors about a tunnel's outer packets. They are
//! reported to the inner sender in the family of the inner packet (RFC 2473 7 and 8, RFC 4213 3.2).

use crate::common::packets::{Ip, ip_of};
use crate::common::six::*;
use crate::common::*;
use crate::gif6::*;
use linerate_inet::route::{Path, Via6};
use linerate_inet::tunnel::{Config, DontFragment, Kind};
use lock::Locks;
use std::net::Ipv6Addr;
use wire::icmp6::{Problem, unreachable};
use wire::{Proto, icmp4};

conversations! {
    inner_ip4_with_df_that_is_too_big_is_reported
    inner_ip4_without_df_is_fragmented_outside
    inner_ip6_of_1280_bytes_always_passes
    an_outer_ip6_router_lowers_the_tunnel_mtu
    an_outer_ip4_router_lowers_the_mtu_of_inner_ip6
    outer_errors_are_relayed_to_the_inner_sender
    a_tunnel_among_several_paths_relays_errors
}

fn four(len: usize) -> Ip {
    Ip::new(PEER.ip, DEEP4, Proto::UDP, vec![4; len - 20])
}

fn inner_ip4_with_df_that_is_too_big_is_reported<L: Locks>() {
    let (h, _) = router::<L>(config(Kind::Gif, true));
    onward(&h, &four(1460).df().packet());
    assert_eq!(outer(&h, true).3.len(), 1460);
    h.forget_counters();
    onward(&h, &four(1461).df().packet());
    h.sent_nothing(EM1);
    let frame = h.sent_one(EM0);
    let (_, header, message) = ip_of(&frame);
    let Ok(icmp4::Message::Unreachable { code, next_mtu, .. }) = icmp4::Message::parse(message) else { panic!() };
    assert_eq!((header.dst, code, next_mtu), (PEER.ip, icmp4::unreachable::FRAG_NEEDED, 1460));
    h.assert_counters(
        "in 1, out 1, ip4.received 1, audit.made 1, ip4.sent 1, icmp4.errors_sent 1, ip4.forward.too_big 1",
    );
}

fn inner_ip4_without_df_is_fragmented_outside<L: Locks>() {
    // With the MTU of the tunnel, the router fragments the inner packet. With a larger MTU, this
    // host fragments the outer packet as its source.
    let (h, id) = router::<L>(config(Kind::Gif, true));
    h.stack.set_tunnel_mtu(h.cx(), id, 1500);
    h.forget_counters();
    onward(&h, &four(1500).packet());
    let sent = h.sent6(EM1);
    let parts: Vec<usize> = sent
        .iter()
        .map(|(_, header, payload)| {
            assert!(chain_of(header, payload).fragment.is_some());
            40 + payload.len()
        })
        .collect();
    assert_eq!(parts, [1496, 40 + 8 + 1500 - 1448]);
    let whole: Vec<u8> = sent.iter().flat_map(|(.., payload)| payload[8..].to_vec()).collect();
    assert_eq!(whole, one_hop_less(&four(1500).packet()));
    h.assert_counters(
        "in 1, out 2, ip4.received 1, ip4.forwarded 1, tunnel.encapsulated 1, ip6.sent 1, ip6.fragmented 1, ip6.fragments_sent 2, \
         audit.made 2, ip6.out.fragmented 1",
    );
    // Outer packets that arrive in fragments are reassembled before decapsulation.
    let outer = Ip6::new(FAR6.ip, MY6.ip, Proto::IPV6, answer(true));
    for (off, len) in [(0, 40), (40, 100)] {
        h.inject(EM1, outer.fragment(9, off, len).between(FAR6, MY6));
    }
    h.poll();
    assert_eq!(h.sent6_one(EM0).1.dst, PEER6.ip);
    // If the outer packet must not be fragmented, an error is sent to the sender.
    let (h, id) = router::<L>(Config { df: DontFragment::Set, ..config(Kind::Gif, true) });
    h.stack.set_tunnel_mtu(h.cx(), id, 1500);
    onward(&h, &four(1500).packet());
    assert_eq!((h.sent(EM0).len(), h.sent(EM1).len(), h.counter("inet.tunnel.out.too_big")), (1, 0, 1));
}

/// RFC 2473 7.1, RFC 4213 3.2: every link carries IPv6 packets of 1280 bytes.
fn inner_ip6_of_1280_bytes_always_passes<L: Locks>() {
    let six = |len: usize| Ip6::new(PEER6.ip, DEEP6, Proto::UDP, vec![6; len - 40]);
    for outside in [false, true] {
        let (h, id) = router::<L>(config(Kind::Gif, outside));
        h.stack.set_mtu(EM1, 1280);
        h.stack.set_tunnel(h.cx(), id, config(Kind::Gif, outside)).unwrap(); // updates the path of the tunnel
        assert_eq!(h.stack.iface(id).unwrap().mtu(), if outside { 1240 } else { 1260 });
        h.forget_counters();
        onward(&h, &six(1280).packet());
        assert_eq!((h.sent(EM1).len(), h.sent(EM0).len()), (2, 0), "the packet is sent in two fragments");
        h.forget_counters();
        onward(&h, &six(1281).packet());
        let (_, header, payload) = h.sent6_one(EM0);
        assert_eq!(error_of(&header, &payload).0, Problem::TooBig { mtu: 1280 });
        h.sent_nothing(EM1);
        h.assert_counters(
            "in 1, out 1, ip6.received 1, audit.made 1, ip6.sent 1, icmp6.errors_sent 1, ip6.forward.too_big 1",
        );
    }
}

fn an_outer_ip6_router_lowers_the_tunnel_mtu<L: Locks>() {
    let (h, id) = router::<L>(config(Kind::Gif, true));
    let reported = |h: &Host<L>, quoted: &[u8], mtu| {
        h.inject(
            EM1,
            error6(FAR6.ip, MY6.ip, Problem::TooBig { mtu }, &quoted[..quoted.len().min(1200)]).between(FAR6, MY6),
        );
    };
    onward(&h, &four(1460).df().packet());
    let quoted = h.sent_one(EM1)[14..].to_vec();
    h.forget_counters();
    reported(&h, &quoted, 1400);
    let frame = h.sent_one(EM0);
    let (_, header, message) = ip_of(&frame);
    let Ok(icmp4::Message::Unreachable { code, next_mtu, inner }) = icmp4::Message::parse(message) else { panic!() };
    assert_eq!((header.dst, code, next_mtu, inner.header.dst), (PEER.ip, icmp4::unreachable::FRAG_NEEDED, 1360, DEEP4));
    h.assert_counters(
        "in 1, out 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.in.consumed 1, tunnel.relayed 1, tunnel.narrowed 1, \
         ip6.paths_narrowed 1, audit.made 1, ip4.sent 1, icmp4.errors_sent 1",
    );
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1360);
    // The sender of an inner IPv6 packet receives ICMPv6, now about the tunnel itself.
    let six = Ip6::new(PEER6.ip, DEEP6, Proto::UDP, vec![6; 1361 - 40]);
    onward(&h, &six.packet());
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(error_of(&header, &payload).0, Problem::TooBig { mtu: 1360 });
    // Errors about packets that this host has not sent, and errors with absurd MTUs, change
    // nothing.
    let forged =
        Ip6::new(MY6.ip, FAR6.ip, Proto::IPV6, Ip6::new(PEER6.ip, BEYOND6, Proto::UDP, [0; 1300]).packet()).packet();
    h.forget_counters();
    reported(&h, &forged, 9000);
    assert_eq!((h.stack.iface(id).unwrap().mtu(), h.sent(EM0).len()), (1360, 0));
    reported(&h, &quoted, 60);
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1360, "below 1280, so discarded (RFC 8201 4)");
    reported(&h, &quoted, 1280);
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1240);
    h.sent(EM0);
    h.advance_secs(601);
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1460, "tried again");
}

fn an_outer_ip4_router_lowers_the_mtu_of_inner_ip6<L: Locks>() {
    let (h, id) = router::<L>(config(Kind::Gif, false));
    let six = Ip6::new(PEER6.ip, DEEP6, Proto::UDP, vec![6; 1480 - 40]);
    onward(&h, &six.packet());
    let frame = h.sent_one(EM1);
    assert!(ip_of(&frame).1.df, "RFC 4213 3.2.2");
    h.forget_counters();
    let error = crate::common::packets::error_frame(
        FAR,
        ME2,
        icmp4::Problem::Unreachable { code: 4, next_mtu: 1400 },
        &frame[14..562],
    );
    h.inject(EM1, error);
    let (_, header, payload) = h.sent6_one(EM0);
    let (problem, quoted) = error_of(&header, &payload);
    assert_eq!((problem, header.dst), (Problem::TooBig { mtu: 1380 }, PEER6.ip));
    assert_eq!(quoted[..40], one_hop_less(&six.packet())[..40]);
    assert_eq!((h.stack.iface(id).unwrap().mtu(), h.counter("inet.tunnel.relayed")), (1380, 1));
    // The outer packet of a short inner packet may be fragmented on its path, so DF is clear.
    onward(&h, &Ip6::new(PEER6.ip, DEEP6, Proto::UDP, vec![6; 1240]).packet());
    assert!(!ip_of(&h.sent_one(EM1)).1.df);
}

fn outer_errors_are_relayed_to_the_inner_sender<L: Locks>() {
    let (h, _) = router::<L>(config(Kind::Gif, true));
    let reported = |problem| {
        h.wait_a_second();
        h.sent(EM1);
        let sent: Vec<Vec<u8>> = packets()
            .iter()
            .map(|packet| {
                onward(&h, packet);
                h.sent_one(EM1)[14..].to_vec()
            })
            .collect();
        for quoted in &sent {
            h.inject(EM1, error6(FAR6.ip, MY6.ip, problem, quoted).between(FAR6, MY6));
        }
        h.sent(EM0)
    };
    for problem in [Problem::Unreachable { code: unreachable::NO_ROUTE }, Problem::TimeExceeded { code: 0 }] {
        let sent = reported(problem);
        let Ok(icmp4::Message::Unreachable { code: 1, inner, .. }) = icmp4::Message::parse(ip_of(&sent[0]).2) else {
            panic!()
        };
        assert_eq!((inner.header.src, inner.header.dst), (PEER.ip, DEEP4));
        let (_, header, payload) = ip6_of(&sent[1]);
        assert_eq!(error_of(&header, &payload).0, Problem::Unreachable { code: unreachable::ADDRESS });
        assert_eq!(sent.len(), 2);
    }
    // Errors that concern only the tunnel.
    for problem in [
        Problem::Unreachable { code: unreachable::PORT },
        Problem::TimeExceeded { code: 1 },
        Problem::Parameter { code: 0, pointer: 7 },
    ] {
        assert!(reported(problem).is_empty(), "{problem:?}");
    }
    // A remote address that does not answer is reported to the inner sender as an unreachable host.
    h.stack.remove_neighbor6(h.cx(), EM1, FAR6.ip);
    h.wait_a_second();
    packets().iter().for_each(|packet| onward(&h, packet));
    h.pass(clock::Duration::from_secs(5));
    assert_eq!(h.sent(EM0).len(), 2);
    // There is no route to the remote address.
    h.stack.remove_route6(h.cx(), "fd01::/64".parse().unwrap());
    h.forget_counters();
    packets().iter().for_each(|packet| onward(&h, packet));
    assert_eq!((h.sent(EM0).len(), h.counter("inet.tunnel.out.no_route")), (2, 2));
}

/// A forwarded flow may take another path than this host's own packets to the same destination.
fn a_tunnel_among_several_paths_relays_errors<L: Locks>() {
    let (h, id) = router::<L>(config(Kind::Gif, true));
    let paths = [Via6::Gateway(id, THERE6), Via6::Gateway(EM1, FAR6.ip)].map(|via| Path { via, weight: 1 });
    h.stack.add_paths6(h.cx(), "2001:db8:7::/48".parse().unwrap(), &paths).unwrap();
    let mut reported = 0;
    for n in 0..40u32 {
        h.wait_a_second();
        h.sent(EM1);
        let deep = Ipv6Addr::from_bits(DEEP6.to_bits() + u128::from(n));
        onward(&h, &udp6((PEER6.ip, 1000), (deep, 9), b"flow").packet());
        let frame = h.sent_one(EM1);
        if ip6_of(&frame).1.dst != FAR6.ip {
            continue; // not through the tunnel
        }
        let problem = Problem::Unreachable { code: unreachable::NO_ROUTE };
        h.inject(EM1, error6(FAR6.ip, MY6.ip, problem, &frame[14..]).between(FAR6, MY6));
        let (_, header, payload) = h.sent6_one(EM0);
        assert_eq!(error_of(&header, &payload).0, Problem::Unreachable { code: unreachable::ADDRESS }, "flow {n}");
        reported += 1;
    }
    assert!((5..=35).contains(&reported), "{reported} of 40 flows went through the tunnel");
}
