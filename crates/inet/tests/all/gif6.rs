//! Tunnels with IPv6 inside, outside, or both: each pair of gif's families, GRE, and routers' ICMP
//! errors about outer packets, which are relayed to the inner sender.

use crate::common::packets::{Ip, ip_of, ping};
use crate::common::six::*;
use crate::common::*;
use linerate_inet::iface::IfaceId;
use linerate_inet::ip6::IfaceAddr6;
use linerate_inet::route::Via;
use linerate_inet::route::Via6;
use linerate_inet::tunnel::{Config, Kind, Refused};
use linerate_inet::udp::{Domain, SoError};
use lock::Locks;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::{Mac, Proto, ip4, ip6};

conversations! {
    every_pair_of_families_is_encapsulated_and_decapsulated
    one_gif_carries_both_families
    only_packets_of_the_far_end_are_accepted
    the_inner_version_must_match_the_protocol
    an_iface_without_an_address_accepts_no_ip6
    gre_and_etherip_go_over_ip6
    both_ends_have_the_same_family
    ecn_marks_are_copied_both_ways
    an_offloaded_checksum_is_computed_before_encapsulation
    tunnels_nest_and_loops_are_dropped
    a_removed_tunnel_leaves_no_state
    local_senders_of_both_families_get_an_error_without_a_route_to_the_far_end
    local_senders_of_both_families_get_the_mtu_of_the_tunnel
}

const IN4: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
const THERE4: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 2);
const IN6: Ipv6Addr = Ipv6Addr::new(0xfdaa, 0, 0, 0, 0, 0, 0, 1);
pub const THERE6: Ipv6Addr = Ipv6Addr::new(0xfdaa, 0, 0, 0, 0, 0, 0, 2);
/// An address that is reached through the tunnel.
pub const DEEP4: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 7);
pub const DEEP6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7);

fn ends(six: bool) -> (IpAddr, IpAddr) {
    if six { (MY6.ip.into(), FAR6.ip.into()) } else { (ME2.ip.into(), FAR.ip.into()) }
}

pub fn config(kind: Kind, six: bool) -> Config {
    let (local, remote) = ends(six);
    Config { local, remote, ..Config::new(kind) }
}

/// Creates a router with a tunnel between its address on the second link and FAR, with inner
/// addresses of both families and routes through the tunnel.
pub fn router<L: Locks>(config: Config) -> (Host<L>, IfaceId) {
    let h = Host::<L>::router6();
    let id =
        h.stack.add_tunnel(h.cx(), &format!("{}0", config.kind.name()), config.kind, Mac([2, 0, 0, 0, 9, 1])).unwrap();
    h.stack.set_tunnel(h.cx(), id, config).unwrap();
    h.stack.add_addr(h.cx(), id, linerate_inet::iface::IfaceAddr { addr: IN4, len: 30 }).unwrap();
    h.stack.add_addr6(h.cx(), id, IfaceAddr6::new(IN6, 64)).unwrap();
    h.route("192.168.7.0/24", Via::Gateway(id, THERE4));
    h.route6("2001:db8:7::/48", Via6::Gateway(id, THERE6));
    h.advance_secs(2);
    h.sent(EM1);
    h.forget_counters();
    (h, id)
}

pub fn packets() -> [Vec<u8>; 2] {
    let four = Ip::udp((PEER.ip, 5), (DEEP4, 6), b"four").packet();
    [four, Ip6::new(PEER6.ip, DEEP6, Proto::UDP, [6; 12]).packet()]
}

/// Receives `packet` from PEER, to be forwarded.
pub fn onward<L: Locks>(h: &Host<L>, packet: &[u8]) {
    let ethertype = if ip6::is_version(packet) { wire::eth::EtherType::IPV6 } else { wire::eth::EtherType::IPV4 };
    h.inject(EM0, crate::common::packets::ether(ME.mac, PEER.mac, ethertype, packet));
}

/// Returns the outer packet that FAR receives: protocol, hop limit, traffic class, payload.
#[track_caller]
pub fn outer<L: Locks>(h: &Host<L>, six: bool) -> (Proto, u8, u8, Vec<u8>) {
    let frame = h.sent_one(EM1);
    if six {
        let (link, header, payload) = ip6_of(&frame);
        assert_eq!((link.dst, header.src, header.dst), (FAR6.mac, MY6.ip, FAR6.ip));
        return (header.next, header.hop_limit, header.traffic_class, payload);
    }
    let (link, header, payload) = ip_of(&frame);
    assert_eq!((link.dst, header.src, header.dst), (FAR.mac, ME2.ip, FAR.ip));
    (header.proto, header.ttl, header.tos, payload.to_vec())
}

/// Receives an outer packet with `payload` from FAR.
pub fn from_far<L: Locks>(h: &Host<L>, six: bool, proto: Proto, payload: &[u8]) {
    match six {
        true => h.inject(EM1, Ip6::new(FAR6.ip, MY6.ip, proto, payload).between(FAR6, MY6)),
        false => h.inject(EM1, Ip::new(FAR.ip, ME2.ip, proto, payload).between(FAR, ME2)),
    }
}

/// Returns a packet as it is after being forwarded once.
pub fn one_hop_less(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    match ip6::is_version(&packet) {
        true => drop(ip6::decrement_hop_limit(&mut packet)),
        false => drop(ip4::decrement_ttl(&mut packet)),
    }
    packet
}

pub fn answer(six: bool) -> Vec<u8> {
    match six {
        true => Ip6::new(DEEP6, PEER6.ip, Proto::UDP, [7; 12]).packet(),
        false => Ip::udp((DEEP4, 6), (PEER.ip, 5), b"back").packet(),
    }
}

fn every_pair_of_families_is_encapsulated_and_decapsulated<L: Locks>() {
    for outside in [false, true] {
        let (h, id) = router::<L>(config(Kind::Gif, outside));
        assert_eq!(h.stack.iface(id).unwrap().mtu(), if outside { 1460 } else { 1480 });
        for (inside, packet) in [false, true].into_iter().zip(packets()) {
            let ip = if inside { "ip6" } else { "ip4" };
            let around = if outside { "ip6" } else { "ip4" };
            onward(&h, &packet);
            let (proto, hops, _, payload) = outer(&h, outside);
            assert_eq!((proto, hops), (if inside { Proto::IPV6 } else { Proto::IPIP }, 30));
            assert_eq!(payload, one_hop_less(&packet), "{inside} in {outside}");
            h.assert_counters(&format!(
                "in 1, out 1, {ip}.received 1, {ip}.forwarded 1, {around}.sent 1, tunnel.encapsulated 1"
            ));
            from_far(&h, outside, proto, &answer(inside));
            h.sent_nothing(EM0);
            h.assert_counters(&format!(
                "in 1, {around}.received 1, {around}.delivered 1, tunnel.decapsulated 1, tunnel.requeued 1"
            ));
            h.poll();
            let frame = h.sent_one(EM0);
            assert_eq!(frame[14..], one_hop_less(&answer(inside)));
            h.assert_counters(&format!("out 1, {ip}.received 1, {ip}.forwarded 1"));
        }
    }
}

fn one_gif_carries_both_families<L: Locks>() {
    let (h, id) = router::<L>(config(Kind::Gif, true));
    // Packets of both families in one burst: each family keeps its order.
    for n in 0..4u8 {
        from_far(&h, true, Proto::IPIP, &ping(Station { ip: THERE4, ..FAR }, IN4, 1, n.into(), &[n]).packet());
        from_far(&h, true, Proto::IPV6, &ping6(THERE6, IN6, &[n]).packet());
    }
    h.poll();
    let sent: Vec<_> = h.sent6(EM1).into_iter().map(|(_, header, payload)| (header.next, payload)).collect();
    let of = |proto, at: usize| {
        sent.iter().filter(|(next, _)| *next == proto).map(|(_, payload)| payload[at]).collect::<Vec<_>>()
    };
    assert_eq!((of(Proto::IPIP, 28), of(Proto::IPV6, 48)), (vec![0, 1, 2, 3], vec![0, 1, 2, 3]));
    let addrs = h.stack.iface(id).unwrap().addrs6(h.cx());
    assert!(addrs.len() == 2 && addrs.iter().all(|own| own.state.is_valid()) && ip6::is_link_local(addrs[1].addr));
    // A packet to a group is sent to the remote end, the only other station.
    from_far(&h, true, Proto::IPV6, &ping6("fe80::99".parse().unwrap(), ip6::ALL_NODES, b"who").packet());
    h.poll();
    let (proto, .., payload) = outer(&h, true);
    assert_eq!((proto, payload[40]), (Proto::IPV6, 129));
}

fn only_packets_of_the_far_end_are_accepted<L: Locks>() {
    let (h, _) = router::<L>(config(Kind::Gif, true));
    let inner = ping6(THERE6, IN6, b"x").packet();
    h.inject(EM1, Ip6::new("fd01::9".parse().unwrap(), MY6.ip, Proto::IPV6, inner.clone()).between(FAR6, MY6));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, tunnel.in.bad_source 1");
    // There is no tunnel at another address of ours or of the other family.
    h.inject(EM1, Ip6::new(FAR6.ip, ME6.ip, Proto::IPV6, inner.clone()).between(FAR6, MY6));
    from_far(&h, false, Proto::IPV6, &inner);
    assert_eq!((h.counter("inet.ip6.in.unknown_next_header"), h.counter("inet.ip4.in.unknown_protocol")), (1, 1));
    assert_eq!(h.counter("inet.tunnel.decapsulated"), 0);
    // The inner packet passes the same checks as one from a wire.
    for (src, why) in [("::1", "martian_source"), ("ff02::1", "martian_source"), ("fdaa::1", "own_source")] {
        from_far(&h, true, Proto::IPV6, &ping6(src.parse().unwrap(), PEER6.ip, b"x").packet());
        h.forget_counters();
        h.poll();
        h.assert_counters(&format!("ip6.received 1, ip6.in.{why} 1, out 0"));
        h.sent(EM1);
    }
    // A packet from the remote end's own address is not sent back to it.
    h.forget_counters();
    onward(&h, &Ip6::new(FAR6.ip, DEEP6, Proto::UDP, [0; 8]).packet());
    h.assert_counters("in 1, ip6.received 1, ip6.forwarded 1, tunnel.out.nested 1");
}

fn the_inner_version_must_match_the_protocol<L: Locks>() {
    let (h, _) = router::<L>(config(Kind::Gif, true));
    from_far(&h, true, Proto::IPIP, &answer(true));
    from_far(&h, true, Proto::IPV6, &answer(false));
    from_far(&h, true, Proto::IPV6, &[]);
    h.assert_counters("in 3, ip6.received 3, ip6.delivered 3, tunnel.in.malformed 3");
    let mut spent = answer(true);
    spent[7] = 0;
    from_far(&h, true, Proto::IPV6, &spent);
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, ip6.forward.hop_limit_exceeded 1");
    from_far(&h, true, Proto::IPV6, &answer(true)[..50]);
    h.poll();
    h.assert_counters(
        "in 1, ip6.received 2, ip6.delivered 1, tunnel.decapsulated 1, tunnel.requeued 1, ip6.in.malformed 1",
    );
}

fn an_iface_without_an_address_accepts_no_ip6<L: Locks>() {
    let (h, id) = router::<L>(config(Kind::Gif, false));
    for own in h.stack.iface(id).unwrap().addrs6(h.cx()) {
        h.stack.remove_addr6(h.cx(), id, own.addr);
    }
    h.forget_counters();
    from_far(&h, false, Proto::IPV6, &answer(true));
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, tunnel.in.ip6 1");
    h.stack.add_link_local(h.cx(), id).unwrap();
    from_far(&h, false, Proto::IPV6, &answer(true));
    h.poll();
    assert_eq!(h.sent6_one(EM0).1.dst, PEER6.ip);
}

fn gre_and_etherip_go_over_ip6<L: Locks>() {
    let (h, id) = router::<L>(Config { key: Some(5), checksum: true, sequence: true, ..config(Kind::Gre, true) });
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1500 - 56);
    for (inside, packet) in [false, true].into_iter().zip(packets()) {
        onward(&h, &packet);
        let (proto, _, _, payload) = outer(&h, true);
        let header = wire::gre::Header::parse(&payload).unwrap();
        assert_eq!((proto, header.key, header.protocol.0), (Proto::GRE, Some(5), if inside { 0x86dd } else { 0x0800 }));
        assert!(wire::gre::checksum_ok(&payload));
        assert_eq!(payload[16..], one_hop_less(&packet));
        let mut back = [&[0; 16][..], &answer(inside)].concat();
        wire::gre::Header { sequence: Some(u32::from(inside)), ..header }.emit(&mut back).unwrap();
        from_far(&h, true, Proto::GRE, &back);
        h.poll();
        assert_eq!(h.sent_one(EM0)[14..], one_hop_less(&answer(inside)));
    }
    // Ethernet through IPv6, with neighbor discovery inside.
    let (h, id) = router::<L>(config(Kind::EtherIp, true));
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1500 - 56);
    onward(&h, &packets()[1]);
    let (proto, _, _, payload) = outer(&h, true);
    let (link, header, _) = ip6_of(&payload[2..]);
    assert_eq!(
        (proto, link.dst, header.dst),
        (Proto::ETHERIP, Mac::multicast6(ip6::solicited_node(THERE6)), ip6::solicited_node(THERE6))
    );
    let there = Six { mac: Mac([2, 0, 0, 0, 9, 2]), ip: THERE6, ..FAR6 };
    let advert = wire::icmp6::nd::Advert { router: true, solicited: true, replaces: true, target: THERE6 };
    let answer = advert6(there, IN6, advert).frame(Mac([2, 0, 0, 0, 9, 1]), there.mac);
    from_far(&h, true, Proto::ETHERIP, &[&[0x30, 0][..], &answer].concat());
    h.poll();
    let (.., payload) = outer(&h, true);
    let (link, header, _) = ip6_of(&payload[2..]);
    assert_eq!((link.dst, header.dst, header.hop_limit), (there.mac, DEEP6, 63));
}

fn advert6(from: Six, to: Ipv6Addr, advert: wire::icmp6::nd::Advert) -> Ip6 {
    crate::common::six::advert(from.ip, to, advert, Some(from.mac))
}

fn both_ends_have_the_same_family<L: Locks>() {
    let h = Host::<L>::router6();
    let set = |config: Config| {
        let id = h.stack.add_tunnel(h.cx(), &format!("{}9", config.kind.name()), config.kind, Mac([2, 0, 0, 0, 9, 1]));
        h.stack.set_tunnel(h.cx(), id.unwrap(), config)
    };
    let (local, remote) = (MY6.ip.into(), FAR.ip.into());
    assert_eq!(set(Config { local, remote, ..Config::new(Kind::Gif) }), Err(Refused::BadFamily));
    assert_eq!(set(Config { local, remote, ..Config::new(Kind::Vxlan) }), Err(Refused::BadFamily));
    for bad in ["fe80::1", "ff02::1", "::ffff:10.0.0.1"] {
        let remote = bad.parse().unwrap();
        assert_eq!(set(Config { local, remote, ..Config::new(Kind::Gif) }), Err(Refused::BadEnd(remote)), "{bad}");
    }
    assert_eq!(set(Config { local, ..Config::new(Kind::Gif) }), Ok(()), "the remote address is not set yet");
    h.sent(EM1);
}

/// RFC 6040, for inner and outer headers of either family.
fn ecn_marks_are_copied_both_ways<L: Locks>() {
    for outside in [false, true] {
        let (h, _) = router::<L>(config(Kind::Gif, outside));
        onward(&h, &Ip6::new(PEER6.ip, DEEP6, Proto::UDP, [0; 8]).class(0xb9).packet());
        assert_eq!(outer(&h, outside).2, 0xb9);
        onward(&h, &Ip::udp((PEER.ip, 5), (DEEP4, 6), b"").tos(0x2a).packet());
        assert_eq!(outer(&h, outside).2, 0x2a);
        let marked = |inner: u8| {
            let inner = Ip6::new(DEEP6, PEER6.ip, Proto::UDP, [0; 8]).class(inner).packet();
            match outside {
                true => h.inject(EM1, Ip6::new(FAR6.ip, MY6.ip, Proto::IPV6, inner).class(3).between(FAR6, MY6)),
                false => h.inject(EM1, Ip::new(FAR.ip, ME2.ip, Proto::IPV6, inner).tos(3).between(FAR, ME2)),
            }
            h.poll();
            h.sent6(EM0).first().map(|(_, header, _)| header.traffic_class)
        };
        assert_eq!((marked(0xb8), marked(0xba), marked(0xb9)), (None, Some(0xbb), Some(0xbb)));
        assert_eq!(h.counter("inet.tunnel.in.congested"), 1);
    }
}

fn an_offloaded_checksum_is_computed_before_encapsulation<L: Locks>() {
    let (h, _) = router::<L>(config(Kind::Gif, false));
    for (proto, at, len) in [(Proto::UDP, 6, 13), (Proto::TCP, 16, 25)] {
        let pseudo = wire::checksum::Partial::pseudo6(PEER6.ip, DEEP6, proto, len as u32);
        let mut segment: Vec<u8> = (0..len as u8).collect();
        if proto == Proto::UDP {
            segment[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        }
        segment[at..at + 2].copy_from_slice(&(!pseudo.finish()).to_be_bytes()); // folded, not complemented
        let open = Ip6::new(PEER6.ip, DEEP6, proto, segment);
        h.inject_open(&open.between(PEER6, ME6));
        let (.., payload) = outer(&h, false);
        assert!(pseudo.add(wire::checksum::sum(&payload[40..])).verifies(), "{proto}");
        // The checksum stays open if the port fills it in.
        h.inject_open(&Ip6::new(PEER6.ip, FAR6.ip, proto, open.payload.clone()).between(PEER6, ME6));
        assert_eq!(h.sent6_one(EM1).2, open.payload);
    }
}

fn tunnels_nest_and_loops_are_dropped<L: Locks>() {
    let (h, first) = router::<L>(config(Kind::Gif, false));
    // IPv6 in IPv6 in IPv4: the addresses of the second tunnel are reached through the first.
    let second = h.stack.add_tunnel(h.cx(), "gif1", Kind::Gif, Mac::ZERO).unwrap();
    let (local, remote) = (IN6.into(), THERE6.into());
    h.stack.set_tunnel(h.cx(), second, Config { local, remote, ..Config::new(Kind::Gif) }).unwrap();
    h.stack.add_addr6(h.cx(), second, IfaceAddr6::new("fdbb::1".parse().unwrap(), 64)).unwrap();
    h.route6("2001:db8:7::/48", Via6::Link(second));
    assert_eq!(h.stack.iface(second).unwrap().mtu(), 1440);
    h.forget_counters();
    onward(&h, &packets()[1]);
    let (proto, .., payload) = outer(&h, false);
    let middle = ip6::Header::parse(&payload).unwrap();
    assert_eq!((proto, middle.next, middle.src, middle.dst), (Proto::IPV6, Proto::IPV6, IN6, THERE6));
    assert_eq!(payload[40..], one_hop_less(&packets()[1]));
    h.assert_counters("in 1, out 1, ip6.received 1, ip6.forwarded 1, ip6.sent 1, ip4.sent 1, tunnel.encapsulated 2");
    let back = Ip6::new(THERE6, IN6, Proto::IPV6, answer(true)).packet();
    from_far(&h, false, Proto::IPV6, &back);
    for _ in 0..3 {
        h.poll();
    }
    assert_eq!(h.sent6_one(EM0).1.dst, PEER6.ip);
    // A tunnel whose remote end is reached through the tunnel itself.
    h.route6("fdaa::2/128", Via6::Link(second));
    h.forget_counters();
    onward(&h, &packets()[1]);
    h.sent_nothing(EM1);
    assert_eq!(h.counter("inet.tunnel.out.nested"), 1);
    let _ = first;
}

fn a_removed_tunnel_leaves_no_state<L: Locks>() {
    let (h, id) = router::<L>(config(Kind::Gif, true));
    from_far(&h, true, Proto::IPV6, &answer(true));
    assert!(h.stack.remove_tunnel(h.cx(), id));
    h.poll();
    assert_eq!(h.counter("inet.link.ether.in.iface_down"), 1);
    let through = |via: Via6| via.iface() == Some(id);
    assert!(!h.stack.routes6(h.cx()).iter().any(|route| through(route.via)));
    assert!(h.stack.route6_at(h.cx(), "2001:db8:7::/48".parse().unwrap()).is_none());
    // The tunnel is created again, without a configuration.
    let again = h.stack.add_tunnel(h.cx(), "gif0", Kind::Gif, Mac::ZERO).unwrap();
    assert_eq!((again, h.stack.iface(id).unwrap().addrs6(h.cx()).len()), (id, 0));
}

/// The socket of a sender is locked while its packet enters the tunnel. The error is therefore
/// reported at the next poll.
fn local_senders_of_both_families_get_an_error_without_a_route_to_the_far_end<L: Locks>() {
    let remote = IpAddr::from(Ipv4Addr::new(203, 0, 113, 9));
    for to in [SocketAddr::from((DEEP4, 80)), SocketAddr::from((DEEP6, 80))] {
        let (h, _) = router::<L>(Config { remote, ..config(Kind::Gif, false) });
        let datagrams = h.stack.udp_open(h.cx(), Domain::of(&to)).unwrap();
        h.stack.udp_connect(h.cx(), datagrams, to).unwrap();
        let _ = h.send(datagrams, b"one", None);
        let stream = h.stack.tcp_open(h.cx(), Domain::of(&to)).unwrap();
        h.stack.tcp_connect(h.cx(), stream, to).unwrap();
        h.poll();
        assert_eq!(h.error(datagrams), Some(SoError::HostUnreachable), "{to}");
        assert_eq!(h.counter("inet.tunnel.out.no_route"), 2, "{to}");
        let delivered = ["inet.icmp4", "inet.icmp6"].map(|of| h.counter(&format!("{of}.errors_delivered")));
        assert_eq!(delivered.iter().sum::<u64>(), 2, "{to}");
    }
}

fn local_senders_of_both_families_get_the_mtu_of_the_tunnel<L: Locks>() {
    // Packets of 1498 and 1488 bytes: the link of 1500 has no space for 20 more.
    for (to, len) in [(SocketAddr::from((DEEP4, 80)), 1470), (SocketAddr::from((DEEP6, 80)), 1440)] {
        let (h, id) = router::<L>(config(Kind::Gif, false));
        h.stack.set_tunnel_mtu(h.cx(), id, 1500); // an explicit MTU, larger than that of the path
        let datagrams = h.stack.udp_open(h.cx(), Domain::of(&to)).unwrap();
        h.stack.udp_connect(h.cx(), datagrams, to).unwrap();
        h.options(datagrams, |options| options.dont_fragment = true);
        let _ = h.send(datagrams, &vec![7; len], None);
        h.sent_nothing(EM1);
        h.poll();
        assert_eq!(h.error(datagrams), Some(SoError::MessageSize), "{to}");
    }
}
