//! Conversations through tunnels: gif (RFC 2003), GRE (RFC 2784, RFC 2890), EtherIP (RFC 3378),
//! VXLAN (RFC 7348).
//!
//! The host under test is a router: PEER is on its first link, and FAR, the remote end of the
//! tunnel, is on its second. The tests parse every outer packet byte by byte.

use crate::common::packets::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::iface::{IfaceAddr, IfaceId, Traffic};
use linerate_inet::route::{Path, Via};
use linerate_inet::tunnel::{Config, DontFragment, Kind, Refused};
use linerate_inet::udp::SoError;
use lock::Locks;
use std::net::Ipv4Addr;
use wire::eth::{self, EtherType};
use wire::icmp4::{Problem, unreachable};
use wire::{L4Port, Mac, Proto, ip4, tcp};

conversations! {
    packets_are_encapsulated_and_decapsulated_packets_are_queued
    only_packets_of_the_far_end_are_accepted
    inner_packets_other_than_ip4_are_counted
    the_outer_header_copies_inner_fields
    gre_has_a_key_a_checksum_and_sequence_numbers
    invalid_gre_is_dropped
    etherip_carries_frames_with_arp
    vxlan_carries_frames_in_its_own_network_only
    vxlan_spreads_flows_over_source_ports
    a_packet_too_long_for_the_tunnel_is_reported_with_its_mtu
    an_outer_router_lowers_the_tunnel_mtu_for_ten_minutes
    outer_errors_are_relayed_to_the_inner_sender
    outer_errors_are_reported_to_our_own_socket
    an_outer_port_unreachable_is_not_relayed
    eight_nested_tunnels_work_both_ways
    nine_nested_tunnels_and_loops_are_dropped
    the_queue_is_bounded
    an_unresolved_far_end_gives_host_unreachable
    without_headroom_the_payload_is_moved
    outer_packets_are_fragmented_if_turned_on
    a_large_segment_is_split_before_encapsulation
    a_large_segment_without_buffers_is_counted
    a_removed_tunnel_leaves_no_state
    a_removed_tunnel_is_removed_from_paths
    two_equal_tunnels_are_rejected
    an_inner_packet_with_ttl_zero_is_dropped
    the_far_ends_own_packets_are_not_sent_back_to_it
    forged_errors_are_not_relayed
    our_own_socket_gets_message_too_long
    a_static_neighbor_of_a_tunnel_adds_no_ethernet_header
    an_address_on_two_ifaces_stays_when_removed_from_one
    the_cached_route_to_the_far_end_follows_changes
}

const NEAR_IN: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
const FAR_IN: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 2);
const BEYOND: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 7);
const T_MAC: Mac = Mac([2, 0, 0, 0, 9, 1]);
const FAR_MAC: Mac = Mac([2, 0, 0, 0, 9, 2]);

fn between_us(kind: Kind) -> Config {
    Config { local: ME2.ip.into(), remote: FAR.ip.into(), ..Config::new(kind) }
}

/// Adds a tunnel to FAR with 172.16.0.1/30 as our address.
fn tunnel<L: Locks>(h: &Host<L>, config: Config) -> IfaceId {
    let id = h.stack.add_tunnel(h.cx(), &format!("{}0", config.kind.name()), config.kind, T_MAC).unwrap();
    h.stack.set_tunnel(h.cx(), id, config).unwrap();
    h.stack.add_addr(h.cx(), id, IfaceAddr { addr: NEAR_IN, len: 30 }).unwrap();
    h.sent(EM1);
    h.forget_counters();
    id
}

/// Creates a router with a gif tunnel to FAR, and a route through it.
fn gif<L: Locks>() -> (Host<L>, IfaceId) {
    let h = Host::router();
    let id = tunnel(&h, between_us(Kind::Gif));
    h.route("192.168.7.0/24", Via::Gateway(id, FAR_IN));
    h.forget_counters();
    (h, id)
}

/// Returns header and payload of the outer packet that FAR receives.
fn outer_of<L: Locks>(h: &Host<L>, proto: Proto) -> (ip4::Header, Vec<u8>) {
    let frame = h.sent_one(EM1);
    let (link, ip, payload) = ip_of(&frame);
    assert_eq!((link.dst, ip.src, ip.dst, ip.proto), (FAR.mac, ME2.ip, FAR.ip, proto));
    (ip, payload.to_vec())
}

/// Receives an outer packet with `payload` from FAR.
fn from_far<L: Locks>(h: &Host<L>, proto: Proto, payload: &[u8]) {
    h.inject(EM1, Ip::new(FAR.ip, ME2.ip, proto, payload).between(FAR, ME2));
}

fn gre(flags: u16, words: &[u32], protocol: u16, inner: &[u8]) -> Vec<u8> {
    let mut out = [flags.to_be_bytes(), protocol.to_be_bytes()].concat();
    words.iter().for_each(|word| out.extend(word.to_be_bytes()));
    out.extend(inner);
    out
}

fn vxlan(vni: u32, frame: &[u8]) -> Vec<u8> {
    let header = [0x0800_0000u32.to_be_bytes(), (vni << 8).to_be_bytes()].concat();
    let mut datagram = udp_datagram((FAR.ip, 50_000), (ME2.ip, 4789), &[header, frame.to_vec()].concat());
    datagram[6..8].fill(0);
    datagram
}

/// Returns an inner packet from FAR to the router itself.
fn hello() -> Vec<u8> {
    Ip::udp((FAR_IN, 9), (NEAR_IN, 1000), b"hello").packet()
}

fn packets_are_encapsulated_and_decapsulated_packets_are_queued<L: Locks>() {
    let (h, id) = gif::<L>();
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1480);
    let s = h.bound(1000);
    assert_eq!(h.send(s, b"x", std::net::SocketAddr::from((FAR_IN, 9))), Ok(1));
    let (outer, inner) = outer_of(&h, Proto::IPIP);
    assert_eq!((outer.ttl, outer.df, outer.total_len), (30, false, 20 + 29));
    let header = ip4::Header::parse(&inner).unwrap();
    assert_eq!((header.src, header.dst, header.proto, header.ttl), (NEAR_IN, FAR_IN, Proto::UDP, 64));
    h.assert_counters("audit.made 1, ip4.sent 2, udp.sent 1, tunnel.encapsulated 1, out 1");
    from_far(&h, Proto::IPIP, &hello());
    assert_eq!((h.recv(s), h.stack.held(h.cx())), (None, 1), "never directly");
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, tunnel.decapsulated 1, tunnel.requeued 1");
    h.poll();
    assert_eq!(h.recv(s).unwrap().0, b"hello");
    h.assert_counters("ip4.received 1, ip4.delivered 1, udp.received 1, udp.delivered 1, audit.consumed 1");
    // Forwarding in both directions.
    h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), b"on").between(PEER, ME));
    let (_, inner) = outer_of(&h, Proto::IPIP);
    assert_eq!((ip4::Header::parse(&inner).unwrap().ttl, ip4::header_checksum_ok(&inner, 20)), (63, true));
    from_far(&h, Proto::IPIP, &Ip::udp((BEYOND, 6), (PEER.ip, 5), b"back").packet());
    h.stack.poll_soon(h.cx());
    assert_eq!(udp_of(&h.sent_one(EM0)).1, b"back");
    // The inner packet passes the same checks as one from a wire.
    from_far(&h, Proto::IPIP, &Ip::udp((Ipv4Addr::LOCALHOST, 6), (PEER.ip, 5), b"").packet());
    h.poll();
    assert_eq!(h.counter("inet.ip4.in.martian_source"), 1);
    let iface = h.stack.iface(id).unwrap();
    let counts = |way: &Traffic| (way.packets.get(), way.bytes.get(), way.errors.get());
    assert_eq!(counts(&iface.tx), (2, 29 + 30, 0), "the inner packets");
    assert_eq!(counts(&iface.rx), (3, 33 + 32 + 28, 0));
    h.stack.set_tunnel(h.cx(), id, Config::new(Kind::Gif)).unwrap();
    h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), b"on").between(PEER, ME));
    assert_eq!((counts(&iface.tx), h.counter("inet.tunnel.out.no_ends")), ((3, 29 + 30 + 30, 1), 1));
    from_far(&h, Proto::IPIP, &hello());
    assert_eq!(counts(&iface.rx).0, 3, "nobody's");
}

fn only_packets_of_the_far_end_are_accepted<L: Locks>() {
    let (h, _) = gif::<L>();
    let from_other = Ip::new(FAR_GATEWAY.ip, ME2.ip, Proto::IPIP, hello()).between(FAR_GATEWAY, ME2);
    h.inject(EM1, &from_other);
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, tunnel.in.bad_source 1");
    // If there is no tunnel, the protocol is unknown.
    h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::IPIP, hello()).between(PEER, ME));
    let problem = icmp_of(&h.sent_one(EM0)).0;
    assert_eq!((problem.ty, problem.code), (3, unreachable::PROTOCOL));
    h.poll();
    h.sent_nothing(EM1);
}

fn inner_packets_other_than_ip4_are_counted<L: Locks>() {
    let (h, _) = gif::<L>();
    from_far(&h, Proto::IPV6, &[0x60; 40]);
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, tunnel.in.ip6 1");
    from_far(&h, Proto::IPIP, &[0x45; 7]);
    h.poll();
    h.assert_counters(
        "in 1, ip4.received 2, ip4.delivered 1, tunnel.decapsulated 1, tunnel.requeued 1, ip4.in.malformed 1",
    );
    from_far(&h, Proto::ETHERIP, &[0x30, 0]);
    let problem = icmp_of(&h.sent_one(EM1)).0;
    assert_eq!((problem.ty, problem.code), (3, unreachable::PROTOCOL), "there is a gif tunnel, but no EtherIP tunnel");
}

fn the_outer_header_copies_inner_fields<L: Locks>() {
    let (h, id) = gif::<L>();
    for tos in [0xb8, 0xb9, 0xba, 0xbb] {
        h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), b"x").tos(tos).df().between(PEER, ME));
        let (outer, _) = outer_of(&h, Proto::IPIP);
        assert_eq!((outer.tos, outer.df), (tos, true), "RFC 6040 4.1, RFC 2003 3.1");
    }
    let config = Config { ttl: Some(7), df: DontFragment::Set, ..between_us(Kind::Gif) };
    h.stack.set_tunnel(h.cx(), id, config).unwrap();
    h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), b"x").between(PEER, ME));
    let (outer, _) = outer_of(&h, Proto::IPIP);
    assert_eq!((outer.ttl, outer.df, outer.id), (7, true, 0));
    // A congestion mark set on the path is copied to the inner packet, or the packet is dropped if
    // it is not ECN-capable (RFC 6040 4.2).
    let marked = |inner: u8| {
        let inner = Ip::udp((BEYOND, 6), (PEER.ip, 5), b"back").tos(inner).packet();
        h.inject(EM1, Ip::new(FAR.ip, ME2.ip, Proto::IPIP, inner).tos(3).between(FAR, ME2));
        h.poll();
        h.sent(EM0).first().map(|frame| ip_of(frame).1.tos)
    };
    assert_eq!((marked(0x22), marked(0x21), marked(0x20)), (Some(0x23), Some(0x23), None));
    assert_eq!(h.counter("inet.tunnel.in.congested"), 1);
}

fn gre_has_a_key_a_checksum_and_sequence_numbers<L: Locks>() {
    let h = Host::<L>::router();
    let config = Config { key: Some(0xdead_beef), checksum: true, sequence: true, ..between_us(Kind::Gre) };
    let id = tunnel(&h, config);
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1500 - 20 - 16);
    let s = h.bound(1000);
    for number in 0..3 {
        h.send(s, b"x", std::net::SocketAddr::from((FAR_IN, 9))).unwrap();
        let (_, payload) = outer_of(&h, Proto::GRE);
        assert_eq!(payload[..4], [0xb0, 0, 8, 0]);
        assert_eq!((payload[8..12].to_vec(), payload[15]), (0xdead_beefu32.to_be_bytes().to_vec(), number));
        assert!(wire::checksum::sum(&payload).verifies());
        assert_eq!(ip4::Header::parse(&payload[16..]).unwrap().dst, FAR_IN);
    }
    h.forget_counters();
    let numbered = |number: u32| from_far(&h, Proto::GRE, &gre(0x3000, &[0xdead_beef, number], 0x0800, &hello()));
    [7, 8, 8, 7, 20, 0x8000_0013].into_iter().for_each(numbered);
    h.poll();
    assert_eq!((h.counter("inet.udp.delivered"), h.counter("inet.tunnel.in.late")), (4, 2));
    [20, 0x8000_0014].into_iter().for_each(numbered);
    assert_eq!(h.counter("inet.tunnel.in.late"), 3);
}

fn invalid_gre_is_dropped<L: Locks>() {
    let h = Host::<L>::router();
    tunnel(&h, Config { key: Some(5), ..between_us(Kind::Gre) });
    let good = gre(0x2000, &[5], 0x0800, &hello());
    let cases: [(Vec<u8>, &str); 8] = [
        (good[..7].to_vec(), "malformed"),
        (gre(0x2001, &[5], 0x0800, &hello()), "malformed"),
        (gre(0x6000, &[5], 0x0800, &hello()), "malformed"),
        (gre(0xa000, &[0x1234_0000, 5], 0x0800, &hello()), "bad_checksum"),
        (gre(0x2000, &[6], 0x0800, &hello()), "bad_key"),
        (gre(0, &[], 0x0800, &hello()), "bad_key"),
        (gre(0x2000, &[5], 0x86dd, &[0x60; 40]), "ip6"),
        (gre(0x2000, &[5], 0x6558, &hello()), "unknown_type"),
    ];
    for (payload, word) in &cases {
        from_far(&h, Proto::GRE, payload);
        h.assert_counters(&format!("in 1, ip4.received 1, ip4.delivered 1, tunnel.in.{word} 1"));
    }
    from_far(&h, Proto::GRE, &good);
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, tunnel.decapsulated 1, tunnel.requeued 1");
}

/// Checks ARP and IP inside an Ethernet tunnel, in both directions.
fn speaks_ethernet<L: Locks>(h: &Host<L>, proto: Proto, skip: usize, wrap: impl Fn(&[u8]) -> Vec<u8>) {
    let us = Station { mac: T_MAC, ip: NEAR_IN };
    let them = Station { mac: FAR_MAC, ip: FAR_IN };
    let inner = |payload: Vec<u8>| payload[skip..].to_vec();
    let s = h.bound(1000);
    h.send(s, b"x", std::net::SocketAddr::from((FAR_IN, 9))).unwrap();
    let (link, requested) = arp_of(&inner(outer_of(h, proto).1));
    assert_eq!((link.dst, requested.spa, requested.tpa), (Mac::BROADCAST, NEAR_IN, FAR_IN));
    from_far(h, proto, &wrap(&arp(wire::arp::Op::Reply, them, us)));
    h.sent_nothing(EM1);
    h.poll();
    let frame = inner(outer_of(h, proto).1);
    let (link, ip, _) = ip_of(&frame);
    assert_eq!((link.src, link.dst, ip.dst), (T_MAC, FAR_MAC, FAR_IN));
    for _ in 0..2 {
        from_far(h, proto, &wrap(&Ip::udp((FAR_IN, 9), (NEAR_IN, 1000), b"hello").between(them, us)));
        h.poll();
        assert_eq!(h.recv(s).unwrap().0, b"hello");
        h.send(s, b"again", std::net::SocketAddr::from((FAR_IN, 9))).unwrap();
        assert_eq!(udp_of(&inner(outer_of(h, proto).1)).1, b"again");
    }
    from_far(h, proto, &wrap(&[1, 2, 3]));
    h.poll();
    assert_eq!(h.counter("inet.link.ether.in.short"), 1);
    // A router forwards into it, also in a chunk.
    h.inject_all(EM0, (0..3).map(|_| Ip::udp((PEER.ip, 5), (FAR_IN, 6), b"on").between(PEER, ME)));
    assert_eq!(h.sent(EM1).len(), 3);
    h.audit();
}

fn etherip_carries_frames_with_arp<L: Locks>() {
    let h = Host::<L>::router();
    let id = tunnel(&h, between_us(Kind::EtherIp));
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1500 - 36);
    speaks_ethernet(&h, Proto::ETHERIP, 2, |frame| [&[0x30, 0], frame].concat());
    from_far(&h, Proto::ETHERIP, &[0x31, 0, 0, 0]);
    from_far(&h, Proto::ETHERIP, &[0x03, 0, 0, 0]);
    assert_eq!(h.counter("inet.tunnel.in.malformed"), 2);
}

fn vxlan_carries_frames_in_its_own_network_only<L: Locks>() {
    let h = Host::<L>::router();
    let id = tunnel(&h, Config { vni: 0x12_3456, ..between_us(Kind::Vxlan) });
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1450);
    speaks_ethernet(&h, Proto::UDP, 16, |frame| vxlan(0x12_3456, frame));
    let frame = Ip::udp((FAR_IN, 9), (NEAR_IN, 1000), b"hello").frame(T_MAC, FAR_MAC);
    from_far(&h, Proto::UDP, &vxlan(0x12_3457, &frame));
    assert_eq!(h.counter("inet.tunnel.in.bad_key"), 1);
    let mut no_vni = vxlan(0x12_3456, &frame);
    no_vni[8] = 0;
    from_far(&h, Proto::UDP, &no_vni);
    assert_eq!(h.counter("inet.tunnel.in.malformed"), 1);
    h.inject(EM1, Ip::new(FAR_GATEWAY.ip, ME2.ip, Proto::UDP, vxlan(0x12_3456, &frame)).between(FAR_GATEWAY, ME2));
    assert_eq!(h.counter("inet.tunnel.in.bad_source"), 1);
    h.inject(EM0, udp_frame(PEER, 5, ME, 4789, b"no tunnel at this address"));
    assert_eq!(icmp_of(&h.sent_one(EM0)).0.code, unreachable::PORT);
    assert_eq!(h.stack.tunnel(h.cx(), id).unwrap().l4port, L4Port(4789));
}

fn vxlan_spreads_flows_over_source_ports<L: Locks>() {
    let h = Host::<L>::router();
    let id = tunnel(&h, Config { vni: 1, ..between_us(Kind::Vxlan) });
    h.stack.set_neighbor(h.cx(), id, FAR_IN, FAR_MAC);
    let port = |of: u16| {
        h.inject(EM0, Ip::udp((PEER.ip, of), (FAR_IN, 6), b"on").between(PEER, ME));
        let payload = outer_of(&h, Proto::UDP).1;
        assert_eq!(payload[6..8], [0, 0], "RFC 7348 5: no checksum");
        u16::from_be_bytes([payload[0], payload[1]])
    };
    let ports: std::collections::BTreeSet<u16> = (1000..1050).map(port).collect();
    assert!(ports.len() > 40 && ports.iter().all(|port| *port >= 49_152), "{ports:?}");
    assert_eq!(port(1000), port(1000), "a flow keeps its port");
}

fn a_packet_too_long_for_the_tunnel_is_reported_with_its_mtu<L: Locks>() {
    let (h, id) = gif::<L>();
    let long = |len: usize| Ip::udp((PEER.ip, 5), (BEYOND, 6), &vec![7; len - 28]);
    h.inject(EM0, long(1481).df().between(PEER, ME));
    let reported = h.sent_one(EM0);
    let (icmp, _) = icmp_of(&reported);
    assert_eq!((icmp.ty, icmp.code, icmp.rest), (3, unreachable::FRAG_NEEDED, [0, 0, 0x05, 0xc8]));
    h.inject(EM0, long(1480).df().between(PEER, ME));
    assert_eq!(outer_of(&h, Proto::IPIP).0.total_len, 1500);
    h.inject(EM0, long(1481).between(PEER, ME));
    let sent = h.sent(EM1);
    assert_eq!(sent.len(), 2, "fragments of the inner packet, each in an outer one");
    assert!(sent.iter().all(|frame| !ip_of(frame).1.is_fragment()));
    // The explicit MTU exceeds that of the path, so the router notices only when it sends the
    // packet that the packet is too long.
    h.stack.set_tunnel_mtu(h.cx(), id, 1500);
    h.inject(EM0, long(1481).df().between(PEER, ME));
    assert_eq!(icmp_of(&h.sent_one(EM0)).0.rest, [0, 0, 0x05, 0xc8]);
    assert_eq!((h.counter("inet.tunnel.out.too_big"), h.stack.iface(id).unwrap().mtu()), (1, 1480));
}

/// Returns the beginning of an outer packet that this host sent, as a router on the path quotes it.
fn quoted<L: Locks>(h: &Host<L>, len: usize) -> Vec<u8> {
    let frame = h.sent_one(EM1);
    frame[eth::HEADER_LEN..].iter().copied().take(len).collect()
}

fn an_outer_router_lowers_the_tunnel_mtu_for_ten_minutes<L: Locks>() {
    let (h, id) = gif::<L>();
    let long = Ip::udp((PEER.ip, 5), (BEYOND, 6), &[7; 1400]).df();
    h.inject(EM0, long.between(PEER, ME));
    let quote = quoted(&h, 20 + 28);
    h.forget_counters();
    let narrow = |mtu| Problem::Unreachable { code: unreachable::FRAG_NEEDED, next_mtu: mtu };
    h.inject(EM1, error_frame(FAR_GATEWAY, ME2, narrow(1448), &quote));
    assert_eq!((h.counter("inet.tunnel.narrowed"), h.stack.iface(id).unwrap().mtu()), (0, 1480), "it fitted");
    h.inject(EM1, error_frame(FAR_GATEWAY, ME2, narrow(1300), &quote));
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1280);
    let reported = h.sent_one(EM0);
    let (icmp, body) = icmp_of(&reported);
    assert_eq!((icmp.code, icmp.rest), (unreachable::FRAG_NEEDED, [0, 0, 0x05, 0x00]));
    assert_eq!(body, &quote[20..], "the packet that PEER has sent");
    assert_eq!((h.counter("inet.tunnel.relayed"), h.counter("inet.tunnel.narrowed")), (1, 1));
    h.inject(EM1, error_frame(FAR_GATEWAY, ME2, narrow(68), &quote));
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 552 - 20, "a smaller path MTU is not accepted");
    h.sent(EM0);
    h.advance_secs(599);
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 532);
    h.advance_secs(2);
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1480);
    // Errors about packets of others are ignored.
    let mut strange = quote;
    strange[15] ^= 1;
    h.inject(EM1, error_frame(FAR_GATEWAY, ME2, narrow(1300), &strange));
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1480);
}

fn outer_errors_are_relayed_to_the_inner_sender<L: Locks>() {
    let (h, _) = gif::<L>();
    let problems = [
        Problem::Unreachable { code: unreachable::NET, next_mtu: 0 },
        Problem::Unreachable { code: unreachable::HOST, next_mtu: 0 },
        Problem::Unreachable { code: unreachable::PROTOCOL, next_mtu: 0 },
        Problem::TimeExceeded { code: 0 },
    ];
    for problem in problems {
        h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), b"12345678").between(PEER, ME));
        let quote = quoted(&h, 576);
        h.inject(EM1, error_frame(FAR_GATEWAY, ME2, problem, &quote));
        let reported = h.sent_one(EM0);
        let (icmp, body) = icmp_of(&reported);
        assert_eq!((icmp.ty, icmp.code), (3, unreachable::HOST), "{problem:?}");
        assert_eq!(body, &quote[20..]);
        h.pass(Duration::from_secs(1));
    }
    // The quote is too short to contain the address of the inner sender.
    h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), b"12345678").between(PEER, ME));
    let quote = quoted(&h, 28);
    h.inject(EM1, error_frame(FAR_GATEWAY, ME2, problems[0], &quote));
    h.sent_nothing(EM0);
}

fn outer_errors_are_reported_to_our_own_socket<L: Locks>() {
    for kind in Kind::ALL {
        let h = Host::<L>::router();
        let id = tunnel(&h, Config { vni: 3, key: Some(3), ..between_us(kind) });
        if kind.is_ethernet() {
            h.stack.set_neighbor(h.cx(), id, FAR_IN, FAR_MAC);
        }
        let s = h.connected(1000, std::net::SocketAddr::from((FAR_IN, 9)));
        h.send(s, &[7; 100], None).unwrap();
        let quote = quoted(&h, 576);
        h.inject(EM1, error_frame(FAR_GATEWAY, ME2, Problem::TimeExceeded { code: 0 }, &quote));
        assert_eq!(h.error(s), Some(SoError::HostUnreachable), "{kind:?}");
    }
}

fn an_outer_port_unreachable_is_not_relayed<L: Locks>() {
    let (h, _) = gif::<L>();
    h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), b"12345678").between(PEER, ME));
    let quote = quoted(&h, 576);
    for code in [unreachable::PORT, unreachable::SOURCE_ROUTE] {
        h.inject(EM1, error_frame(FAR_GATEWAY, ME2, Problem::Unreachable { code, next_mtu: 0 }, &quote));
    }
    h.sent_nothing(EM0);
    assert_eq!(h.counter("inet.tunnel.relayed"), 0);
}

/// Creates tunnels of which gif1 leads through gif0, gif2 through gif1, and so on: each remote
/// address is on the link of the previous tunnel.
fn nested<L: Locks>(depth: u8) -> Host<L> {
    let h = Host::router();
    for n in 0..depth {
        let id = h.stack.add_tunnel(h.cx(), &format!("gif{n}"), Kind::Gif, Mac::ZERO).unwrap();
        let ends =
            |host| if n == 0 { [ME2.ip, FAR.ip][usize::from(host - 1)] } else { Ipv4Addr::new(172, 16, n - 1, host) };
        h.stack
            .set_tunnel(h.cx(), id, Config { local: ends(1).into(), remote: ends(2).into(), ..Config::new(Kind::Gif) })
            .unwrap();
        h.stack.add_addr(h.cx(), id, IfaceAddr { addr: Ipv4Addr::new(172, 16, n, 1), len: 30 }).unwrap();
    }
    h.forget_counters();
    h
}

fn eight_nested_tunnels_work_both_ways<L: Locks>() {
    let h = nested::<L>(8);
    let s = h.bound(1000);
    h.send(s, b"deep", std::net::SocketAddr::from(([172, 16, 7, 2], 9))).unwrap();
    let frame = h.sent_one(EM1);
    assert_eq!(frame.len(), eth::HEADER_LEN + 8 * 20 + 28 + 4);
    // The answer has the addresses exchanged at every level.
    let mut answer = frame[eth::HEADER_LEN..].to_vec();
    for at in (0..9).map(|level| level * 20) {
        let (src, dst): ([u8; 4], [u8; 4]) =
            (answer[at + 12..at + 16].try_into().unwrap(), answer[at + 16..at + 20].try_into().unwrap());
        answer[at + 12..at + 16].copy_from_slice(&dst);
        answer[at + 16..at + 20].copy_from_slice(&src);
    }
    let udp = 9 * 20;
    answer.swap(udp, udp + 2);
    answer.swap(udp + 1, udp + 3);
    h.inject(EM1, ether(ME2.mac, FAR.mac, EtherType::IPV4, &answer));
    for level in 1..=8 {
        assert_eq!((h.counter("inet.tunnel.decapsulated"), h.recv(s)), (level, None), "one level a poll: no recursion");
        h.poll();
    }
    assert_eq!(h.recv(s).unwrap().0, b"deep");
    assert_eq!(h.counter("inet.tunnel.requeued"), 8);
}

fn nine_nested_tunnels_and_loops_are_dropped<L: Locks>() {
    let h = nested::<L>(9);
    let s = h.bound(1000);
    h.send(s, b"x", std::net::SocketAddr::from(([172, 16, 8, 2], 9))).unwrap();
    h.sent_nothing(EM1);
    assert_eq!(h.counter("inet.tunnel.out.nested"), 1);
    h.stack.sysctls.tunnel_nesting.set(9);
    h.send(s, b"x", std::net::SocketAddr::from(([172, 16, 8, 2], 9))).unwrap();
    h.sent_one(EM1);
    // First the route to the remote address leads into the tunnel itself, then into a ring of two
    // tunnels.
    let (h, id) = gif::<L>();
    let s = h.bound(1000);
    h.stack.add_route(h.cx(), prefix("10.0.1.2/32"), Via::Link(id)).unwrap();
    h.send(s, b"x", std::net::SocketAddr::from((FAR_IN, 9))).unwrap();
    assert_eq!(h.counter("inet.tunnel.out.nested"), 1);
    let other = h.stack.add_tunnel(h.cx(), "gre0", Kind::Gre, Mac::ZERO).unwrap();
    let far = Ipv4Addr::new(10, 9, 9, 9);
    h.stack.set_tunnel(h.cx(), other, Config { remote: far.into(), ..between_us(Kind::Gre) }).unwrap();
    h.stack.add_route(h.cx(), prefix("10.0.1.2/32"), Via::Link(other)).unwrap();
    h.stack.add_route(h.cx(), prefix("10.9.9.9/32"), Via::Link(id)).unwrap();
    h.send(s, b"x", std::net::SocketAddr::from((FAR_IN, 9))).unwrap();
    h.sent_nothing(EM1);
    assert_eq!(h.counter("inet.tunnel.out.nested"), 2);
    h.audit();
}

fn the_queue_is_bounded<L: Locks>() {
    let (h, id) = gif::<L>();
    h.stack.sysctls.tunnel_queue.set(3);
    h.forget_counters();
    (0..5).for_each(|_| from_far(&h, Proto::IPIP, &hello()));
    assert_eq!((h.stack.held(h.cx()), h.counter("inet.tunnel.in.queue_full")), (3, 2));
    let rx = &h.stack.iface(id).unwrap().rx;
    assert_eq!((rx.packets.get(), rx.errors.get()), (3, 2));
    h.audit();
    let (h, id) = gif::<L>();
    from_far(&h, Proto::IPIP, &hello());
    h.stack.set_up(h.cx(), id, false);
    h.poll();
    assert_eq!(h.counter("inet.link.ether.in.iface_down"), 1);
    from_far(&h, Proto::IPIP, &hello()); // still waits when the host ends; the audit must count it
}

fn an_unresolved_far_end_gives_host_unreachable<L: Locks>() {
    let (h, _) = gif::<L>();
    assert!(h.stack.remove_neighbor(h.cx(), EM1, FAR.ip));
    h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), b"12345678").between(PEER, ME));
    h.pass(Duration::from_secs(10));
    let reported = h.sent_one(EM0);
    let (icmp, body) = icmp_of(&reported);
    assert_eq!((icmp.ty, icmp.code), (3, unreachable::HOST));
    assert_eq!(ip4::HeaderView::of(body).unwrap().dst(), BEYOND);
    // Without a route, there is no neighbor to wait for.
    h.stack.remove_route(h.cx(), prefix("10.0.1.0/24"));
    h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), b"12345678").between(PEER, ME));
    assert_eq!(icmp_of(&h.sent_one(EM0)).0.code, unreachable::HOST);
    assert_eq!(h.counter("inet.tunnel.out.no_route"), 1);
}

fn without_headroom_the_payload_is_moved<L: Locks>() {
    let pool = buf::Pool::new(&buf::PoolConfig {
        buffers: 64,
        headroom: 32,
        locks: buf::PoolLocks::Light,
        ..buf::PoolConfig::default()
    });
    let h = Host::<L>::configured(pool.unwrap(), |_| {});
    h.add_iface("em0", ME, 1500);
    h.add_iface("em1", ME2, 1500);
    h.stack.sysctls.forwarding.set(1);
    h.knows(EM1, FAR);
    let id = tunnel(&h, Config { key: Some(1), ..between_us(Kind::Gre) });
    h.route("192.168.7.0/24", Via::Gateway(id, FAR_IN));
    let s = h.bound(1000);
    h.send(s, b"x", std::net::SocketAddr::from((FAR_IN, 9))).unwrap();
    let (_, payload) = outer_of(&h, Proto::GRE);
    assert_eq!(udp_of(&ether(ME.mac, PEER.mac, EtherType::IPV4, &payload[8..])).1, b"x");
    assert_eq!(h.counter("inet.tunnel.out.moved"), 1);
    h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND, 6), &[9; 1400]).between(PEER, ME));
    assert_eq!(outer_of(&h, Proto::GRE).0.total_len, 1400 + 28 + 28);
    h.audit();
}

fn outer_packets_are_fragmented_if_turned_on<L: Locks>() {
    let (h, id) = gif::<L>();
    h.stack.set_tunnel(h.cx(), id, Config { df: DontFragment::Clear, ..between_us(Kind::Gif) }).unwrap();
    h.stack.set_tunnel_mtu(h.cx(), id, 2000);
    let s = h.bound(1000);
    h.send(s, &[7; 1900], std::net::SocketAddr::from((FAR_IN, 9))).unwrap();
    let sent = h.sent(EM1);
    assert!(sent.len() == 2 && sent.iter().all(|frame| ip_of(frame).1.is_fragment()));
    let long = Ip::udp((FAR_IN, 9), (NEAR_IN, 1000), &[8; 1900]).packet();
    let outer = Ip::new(FAR.ip, ME2.ip, Proto::IPIP, long).id(77);
    h.inject(EM1, outer.fragment(0, 1000).between(FAR, ME2));
    h.inject(EM1, outer.fragment(1000, 928).between(FAR, ME2));
    h.poll();
    assert_eq!(h.recv(s).unwrap().0, [8; 1900]);
    h.audit();
}

/// Creates a router with a tunnel that receives a large segment for BEYOND, of three pieces.
fn large<L: Locks>(kind: Kind, buffers: usize) -> (Host<L>, IfaceId) {
    let h = Host::<L>::roomy_router(buffers);
    let id = tunnel(&h, between_us(kind));
    if kind.is_ethernet() {
        h.knows(id, Station { mac: FAR_MAC, ip: FAR_IN });
    }
    h.route("192.168.7.0/24", Via::Gateway(id, FAR_IN));
    h.forget_counters();
    h.inject_large(&long_segment(BEYOND).df().between(PEER, ME), 1000);
    (h, id)
}

fn a_large_segment_is_split_before_encapsulation<L: Locks>() {
    for (kind, proto, skip) in [(Kind::Gif, Proto::IPIP, 0), (Kind::EtherIp, Proto::ETHERIP, 2 + 14)] {
        let (h, _) = large::<L>(kind, 64);
        let sent = h.sent(EM1);
        assert_eq!(sent.len(), 3, "{kind:?}");
        for (n, frame) in sent.iter().enumerate() {
            let (link, outer, payload) = ip_of(frame);
            assert_eq!((link.dst, outer.dst, outer.proto, outer.df), (FAR.mac, FAR.ip, proto, true));
            assert!(!outer.is_fragment());
            let inner = &payload[skip..];
            let header = ip4::Header::parse(inner).unwrap();
            assert!(header.df && ip4::header_checksum_ok(inner, 20));
            let change = |h: &mut tcp::Header| (h.seq, h.flags) = (1 + 1000 * n as u32, tcp::Flags::ACK);
            assert_eq!(&inner[20..], tcp_segment((PEER.ip, 5), (BEYOND, 6), change, &[7; 1000]), "piece {n}");
        }
        assert_eq!((h.counter("inet.tunnel.out.cut"), h.counter("inet.ip4.out.fragmented")), (1, 0));
        h.audit();
    }
}

fn a_large_segment_without_buffers_is_counted<L: Locks>() {
    // One buffer for the received frame, and one for a piece, which waits on the wire.
    let (h, id) = large::<L>(Kind::Gif, 2);
    let tx = &h.stack.iface(id).unwrap().tx;
    assert_eq!((tx.packets.get(), tx.errors.get()), (1, 1));
    assert_eq!((h.sent(EM1).len(), h.counter("inet.tunnel.out.no_buffer")), (1, 1));
    h.audit();
}

fn a_removed_tunnel_leaves_no_state<L: Locks>() {
    let (h, id) = gif::<L>();
    h.stack.add_peer(h.cx(), id, Ipv4Addr::new(172, 17, 0, 1), Ipv4Addr::new(172, 17, 9, 9)).unwrap();
    assert_eq!(h.stack.peer(h.cx(), id, Ipv4Addr::new(172, 17, 0, 1)), Some(Ipv4Addr::new(172, 17, 9, 9)));
    let s = h.bound(1000);
    h.send(s, b"x", std::net::SocketAddr::from(([172, 17, 9, 9], 9))).unwrap();
    assert_eq!(ip4::Header::parse(&outer_of(&h, Proto::IPIP).1).unwrap().src, Ipv4Addr::new(172, 17, 0, 1));
    from_far(&h, Proto::IPIP, &hello());
    assert!(h.stack.remove_tunnel(h.cx(), id) && !h.stack.remove_tunnel(h.cx(), id));
    h.poll();
    assert_eq!(h.counter("inet.link.ether.in.iface_down"), 1);
    assert!(h.stack.iface_named("gif0").is_none() && h.stack.iface(id).is_none());
    assert!(!h.stack.routes(h.cx()).iter().any(|route| route.via == Via::Link(id)));
    h.send(s, b"x", std::net::SocketAddr::from((FAR_IN, 9))).unwrap_err();
    from_far(&h, Proto::IPIP, &hello());
    assert_eq!(icmp_of(&h.sent_one(EM1)).0.code, unreachable::PROTOCOL);
    // A tunnel can be removed and created again, with the same number, any number of times.
    for _ in 0..1000 {
        let again = h.stack.add_tunnel(h.cx(), "gif0", Kind::Gif, Mac::ZERO).unwrap();
        assert_eq!((again, h.stack.tunnel(h.cx(), again)), (id, Some(Config::new(Kind::Gif))));
        assert!(h.stack.iface(again).unwrap().addrs(h.cx()).is_empty());
        h.stack.remove_tunnel(h.cx(), again);
    }
}

fn a_removed_tunnel_is_removed_from_paths<L: Locks>() {
    let (h, id) = gif::<L>();
    let path = |via| Path { via, weight: 1 };
    let by_tunnel = [Via::Gateway(id, FAR_IN), Via::Link(id)].map(path);
    let by_links = [Via::Gateway(EM1, FAR_GATEWAY.ip), Via::Gateway(EM0, GATEWAY.ip)].map(path);
    let routes = [
        ("198.51.100.0/25", vec![by_tunnel[0], by_links[0], by_links[1]]),
        ("198.51.100.128/25", vec![by_links[0], by_tunnel[0]]),
        ("203.0.113.0/25", by_tunnel.to_vec()),
        ("203.0.113.128/25", by_links.to_vec()),
    ];
    for (net, paths) in &routes {
        h.stack.add_paths(h.cx(), prefix(net), paths).unwrap();
    }
    h.stack.remove_tunnel(h.cx(), id);
    let led = routes.map(|(net, _)| h.stack.route_at(h.cx(), prefix(net)));
    assert_eq!((led[1], led[2]), (Some(by_links[0].via), None));
    for via in [led[0], led[3]] {
        assert_eq!(h.stack.paths(h.cx(), via.unwrap()), by_links);
    }
}

fn two_equal_tunnels_are_rejected<L: Locks>() {
    let (h, id) = gif::<L>();
    let other = h.stack.add_tunnel(h.cx(), "gif1", Kind::Gif, Mac::ZERO).unwrap();
    let set = |config| h.stack.set_tunnel(h.cx(), other, config);
    assert_eq!(set(between_us(Kind::Gif)), Err(Refused::Taken(id)));
    assert_eq!(set(between_us(Kind::Gre)), Err(Refused::NotATunnel));
    let group = Ipv4Addr::new(224, 0, 0, 1);
    assert_eq!(set(Config { remote: group.into(), ..between_us(Kind::Gif) }), Err(Refused::BadEnd(group.into())));
    assert_eq!(set(Config { vni: 1 << 24, ..Config::new(Kind::Gif) }), Err(Refused::BadVni));
    assert_eq!(set(Config { remote: FAR_GATEWAY.ip.into(), ..between_us(Kind::Gif) }), Ok(()));
    h.sent(EM1);
    h.stack.add_addr(h.cx(), other, IfaceAddr { addr: Ipv4Addr::new(172, 18, 0, 1), len: 30 }).unwrap();
    let s = h.bound(1000);
    let config = Config { local: Ipv4Addr::UNSPECIFIED.into(), ..between_us(Kind::Gif) };
    assert_eq!(set(config), Ok(()), "an incomplete configuration conflicts with none");
    h.send(s, b"x", std::net::SocketAddr::from(([172, 18, 0, 2], 9))).unwrap();
    assert_eq!(h.counter("inet.tunnel.out.no_ends"), 1);
}

fn an_inner_packet_with_ttl_zero_is_dropped<L: Locks>() {
    let (h, _) = gif::<L>();
    let s = h.bound(1000);
    from_far(&h, Proto::IPIP, &Ip::udp((FAR_IN, 9), (NEAR_IN, 1000), b"late").ttl(0).packet());
    h.poll();
    assert_eq!((h.recv(s), h.counter("inet.tunnel.decapsulated")), (None, 0));
    assert_eq!(h.counter("inet.ip4.forward.ttl_exceeded"), 1);
}

fn the_far_ends_own_packets_are_not_sent_back_to_it<L: Locks>() {
    let (h, _) = gif::<L>();
    h.inject(EM1, Ip::udp((FAR.ip, 5), (BEYOND, 6), b"round").between(FAR, ME2));
    h.sent_nothing(EM1);
    assert_eq!(h.counter("inet.tunnel.out.nested"), 1);
}

fn forged_errors_are_not_relayed<L: Locks>() {
    let (h, id) = gif::<L>();
    let narrow = Problem::Unreachable { code: unreachable::FRAG_NEEDED, next_mtu: 600 };
    let outer = |inner: &Ip| Ip::new(ME2.ip, FAR.ip, Proto::IPIP, inner.packet());
    // An attacker knows the tunnel's addresses but not a host behind it: a quoted inner packet that
    // would not be routed through the tunnel is ignored.
    let victim = Ipv4Addr::new(1, 2, 3, 4);
    let aside = Ip::udp((victim, 1), (PEER.ip, 2), &[0; 900]);
    h.inject(EM1, error_frame(FAR_GATEWAY, ME2, narrow, &outer(&aside).df().packet()));
    h.sent_nothing(EM0);
    assert_eq!((h.sent(EM1).len(), h.counter("inet.tunnel.relayed")), (0, 0));
    // A packet that may be fragmented was not rejected for its length.
    h.stack.set_tunnel_mtu(h.cx(), id, 1480);
    h.inject(
        EM1,
        error_frame(FAR_GATEWAY, ME2, narrow, &outer(&Ip::udp((PEER.ip, 1), (BEYOND, 2), &[0; 900])).packet()),
    );
    assert_eq!(h.stack.iface(id).unwrap().mtu(), 1480);
    // The path MTU of a socket that communicates with FAR directly is not lowered.
    let s = h.connected(1000, std::net::SocketAddr::from((FAR.ip, 9)));
    h.options(s, |options| options.dont_fragment = true);
    assert_eq!(h.send(s, &[7; 1400], None), Ok(1400));
}

fn our_own_socket_gets_message_too_long<L: Locks>() {
    let (h, id) = gif::<L>();
    h.stack.set_tunnel_mtu(h.cx(), id, 1500); // an explicit MTU, larger than that of the path
    let s = h.connected(1000, std::net::SocketAddr::from((BEYOND, 9)));
    h.options(s, |options| options.dont_fragment = true);
    let _ = h.send(s, &[7; 1470], None); // 1498 bytes with its headers, 1518 in the tunnel
    h.sent_nothing(EM1);
    h.poll();
    assert_eq!(h.error(s), Some(SoError::MessageSize));
}

fn a_static_neighbor_of_a_tunnel_adds_no_ethernet_header<L: Locks>() {
    let (h, id) = gif::<L>();
    h.stack.set_neighbor(h.cx(), id, FAR_IN, FAR_MAC);
    h.inject(EM0, Ip::udp((PEER.ip, 5), (FAR_IN, 6), b"plain").between(PEER, ME));
    let (_, inner) = outer_of(&h, Proto::IPIP);
    assert_eq!(ip4::Header::parse(&inner).unwrap().dst, FAR_IN);
    // Nor of one that leads into another tunnel.
    let h = nested::<L>(2);
    let outer = h.stack.ifaces().find(|iface| iface.name == "gif0").unwrap().id;
    h.stack.set_neighbor(h.cx(), outer, FAR_IN, FAR_MAC);
    let s = h.bound(1000);
    for _ in 0..2 {
        h.send(s, b"deep", std::net::SocketAddr::from(([172, 16, 1, 2], 9))).unwrap();
        let (_, inner) = outer_of(&h, Proto::IPIP);
        assert_eq!(ip4::Header::parse(&inner).map(|ip| (ip.dst, ip.proto)), Ok((FAR_IN, Proto::IPIP)));
    }
}

fn an_address_on_two_ifaces_stays_when_removed_from_one<L: Locks>() {
    let (h, _) = gif::<L>();
    let borrowed = h.stack.add_tunnel(h.cx(), "gif1", Kind::Gif, T_MAC).unwrap();
    h.stack.add_addr(h.cx(), borrowed, IfaceAddr { addr: ME.ip, len: 32 }).unwrap();
    assert!(h.stack.remove_addr(h.cx(), borrowed, ME.ip));
    h.inject(EM0, ping(PEER, ME.ip, 1, 1, b"still?").between(PEER, ME));
    assert_eq!(icmp_of(&h.sent_one(EM0)).0.ty, 0, "echo reply");
}

/// A tunnel caches its route from packet to packet, and finds a new one after each change.
fn the_cached_route_to_the_far_end_follows_changes<L: Locks>() {
    let (h, id) = gif::<L>();
    let s = h.bound(1000);
    let leaves = || {
        assert_eq!(h.send(s, b"x", std::net::SocketAddr::from((FAR_IN, 9))), Ok(1));
        let frame = h.sent_one(EM1);
        let (link, ip, _) = ip_of(&frame);
        (link.dst, ip.dst)
    };
    assert_eq!([leaves(), leaves()], [(FAR.mac, FAR.ip); 2]);
    let (moved, gateway) = (Mac([2, 0, 0, 0, 7, 7]), Mac([2, 0, 0, 0, 7, 8]));
    h.stack.set_neighbor(h.cx(), EM1, FAR.ip, moved);
    assert_eq!([leaves(), leaves()], [(moved, FAR.ip); 2], "the neighbor");
    let [a, b, c, d] = FAR.ip.octets();
    let next = Ipv4Addr::new(a, b, c, d + 1);
    h.stack.set_neighbor(h.cx(), EM1, next, gateway);
    h.route(&format!("{}/32", FAR.ip), Via::Gateway(EM1, next));
    assert_eq!([leaves(), leaves()], [(gateway, FAR.ip); 2], "the route");
    h.stack.set_tunnel(h.cx(), id, Config { remote: next.into(), ..between_us(Kind::Gif) }).unwrap();
    assert_eq!([leaves(), leaves()], [(gateway, next); 2], "the far end");
}
