//! Conversations of a host whose interface has a mirror: packets for the control plane are passed
//! to the mirror, and its frames leave by the interface.

use crate::common::packets::*;
use crate::common::six::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::iface::IfaceId;
use linerate_inet::punt;
use linerate_inet::route::{Path, Via};
use lock::Locks;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::arp::Op;
use wire::control::ControlClass;
use wire::eth::{self, EtherType};
use wire::icmp4::{self, Problem};
use wire::icmp6::nd::Advert;
use wire::{Mac, Proto};

conversations! {
    packets_without_a_receiver_go_to_the_mirror
    a_segment_without_a_connection_goes_to_the_mirror
    what_this_host_receives_does_not_go_to_the_mirror
    packets_to_groups_of_routing_protocols_go_to_the_mirror
    broadcasts_without_a_socket_go_to_the_mirror
    link_protocols_go_to_the_mirror_unchanged
    an_arp_reply_reaches_the_host_and_the_mirror
    errors_and_replies_for_the_mirror_reach_it
    frames_of_the_mirror_leave_by_the_interface
    each_class_has_a_rate_of_its_own_on_each_interface
    the_rate_of_a_class_is_its_sysctl
    copies_count_against_the_rate_and_lose_nothing
    without_its_mirror_the_host_answers_itself
    a_datagram_in_fragments_reaches_the_mirror_whole
    forwarded_packets_do_not_reach_the_mirror
    ip6_has_the_same_rules
    a_gateway_whose_bfd_session_failed_is_avoided
    an_ipv6_gateway_of_ipv4_routes_is_avoided_as_well
    an_interface_has_one_mirror
}

/// Adds the mirror of `of`.
fn mirror<L: Locks>(h: &Host<L>, of: IfaceId) -> IfaceId {
    let id = h.stack.add_mirror(of, "mirror").unwrap();
    h.connect(id);
    h.set_checked(id, Checked::Nothing);
    h.forget_counters();
    id
}

fn host<L: Locks>() -> (Host<L>, IfaceId) {
    let h = Host::new();
    h.knows(EM0, PEER);
    let id = mirror(&h, EM0);
    (h, id)
}

fn group(proto: Proto, last: u8) -> Vec<u8> {
    let dst = Ipv4Addr::new(224, 0, 0, last);
    Ip::new(PEER.ip, dst, proto, [2, 1, 0, 0, 0, 0, 0, 0]).ttl(1).frame(Mac::multicast4(dst), PEER.mac)
}

/// Checks that a mirror received the packet of `frame`, to the same station or group.
#[track_caller]
fn assert_passed(passed: &[u8], frame: &[u8]) {
    assert_eq!(passed[..6], frame[..6]);
    assert_eq!(passed[6..12], [2, 0, 0, 0, 0, 0]);
    assert_eq!(passed[12..], frame[12..]);
}

fn syn(from: Station, to: Station, dport: u16) -> Vec<u8> {
    let segment = tcp_segment((from.ip, 40_000), (to.ip, dport), |_| {}, &[]);
    Ip::new(from.ip, to.ip, Proto::TCP, segment).between(from, to)
}

fn packets_without_a_receiver_go_to_the_mirror<L: Locks>() {
    let (h, m) = host::<L>();
    let bfd = udp_frame(PEER, 49_152, ME, 3784, b"control");
    let other = udp_frame(PEER, 49_152, ME, 5000, b"data");
    let ospf = Ip::new(PEER.ip, ME.ip, Proto::OSPF, [2, 4, 0, 0]).between(PEER, ME);
    for frame in [&bfd, &other, &ospf] {
        h.inject(EM0, frame);
        assert_passed(&h.sent_one(m), frame);
    }
    h.sent_nothing(EM0);
    h.assert_counters(
        "in 3, out 3, ip4.received 3, ip4.delivered 3, udp.received 2, punt.bfd 1, punt.local 1, punt.ospf 1",
    );
    // In one burst, too.
    h.inject_all(EM0, [&bfd, &other, &ospf]);
    assert_eq!(h.sent(m).len(), 3);
    h.sent_nothing(EM0);
}

fn a_segment_without_a_connection_goes_to_the_mirror<L: Locks>() {
    let (h, m) = host::<L>();
    let frame = syn(PEER, ME, 179);
    h.inject(EM0, &frame);
    assert_passed(&h.sent_one(m), &frame);
    let other = syn(PEER, ME, 22);
    h.inject_all(EM0, [&frame, &other, &frame]);
    let passed = h.sent(m);
    [&frame, &other, &frame].iter().zip(&passed).for_each(|(frame, passed)| assert_passed(passed, frame));
    h.sent_nothing(EM0);
    assert_eq!((h.counter("inet.punt.bgp"), h.counter("inet.punt.local")), (3, 1));
}

fn what_this_host_receives_does_not_go_to_the_mirror<L: Locks>() {
    let (h, m) = host::<L>();
    let s = h.bound(3784);
    h.inject(EM0, udp_frame(PEER, 49_152, ME, 3784, b"control"));
    assert_eq!(h.recv(s), Some((b"control".to_vec(), at(PEER, 49_152))));
    h.inject(EM0, ping(PEER, ME.ip, 1, 1, b"data").between(PEER, ME));
    assert_eq!(icmp_of(&h.sent_one(EM0)).0.ty, icmp4::ty::ECHO_REPLY);
    h.inject(EM0, arp(Op::Request, PEER, ME));
    assert_eq!(arp_of(&h.sent_one(EM0)).1.op, Op::Reply);
    h.sent_nothing(m);
}

fn packets_to_groups_of_routing_protocols_go_to_the_mirror<L: Locks>() {
    let (h, m) = host::<L>();
    let frames = [group(Proto::OSPF, 5), group(Proto::VRRP, 18), group(Proto::PIM, 13)];
    for frame in &frames {
        h.inject(EM0, frame);
        assert_passed(&h.sent_one(m), frame);
    }
    h.assert_counters("in 3, out 3, ip4.received 3, punt.ospf 1, punt.vrrp 1, punt.pim 1");
    let to_group = |dst: Ipv4Addr| Ip::udp((PEER.ip, 520), (dst, 520), b"rip").frame(Mac::multicast4(dst), PEER.mac);
    h.inject(EM0, to_group(Ipv4Addr::new(224, 0, 0, 9)));
    assert_eq!(h.sent(m).len(), 1);
    h.assert_counters("in 1, out 1, ip4.received 1, punt.group 1");
    h.inject(EM0, to_group(Ipv4Addr::new(239, 1, 1, 1)));
    h.sent_nothing(m);
    h.assert_counters("in 1, ip4.received 1, ip4.in.not_member 1");
}

/// A group of which this host is a member, and a broadcast, without a socket for them; for a
/// program such as a DHCP relay.
fn broadcasts_without_a_socket_go_to_the_mirror<L: Locks>() {
    let (h, m) = host::<L>();
    let dhcp = Ip::udp((Ipv4Addr::UNSPECIFIED, 68), (Ipv4Addr::BROADCAST, 67), b"discover");
    let dhcp = dhcp.frame(Mac::BROADCAST, PEER.mac);
    let all = Ipv4Addr::new(224, 0, 0, 1);
    let frames = [dhcp, Ip::udp((PEER.ip, 1), (all, 646), b"hello").frame(Mac::multicast4(all), PEER.mac)];
    for frame in &frames {
        h.inject(EM0, frame);
        assert_passed(&h.sent_one(m), frame);
    }
    h.sent_nothing(EM0);
    let s = h.bound(67);
    h.inject(EM0, &frames[0]);
    assert!(h.recv(s).is_some());
    h.sent_nothing(m);
    assert_eq!((h.counter("inet.punt.local"), h.counter("inet.punt.group")), (1, 1));
}

/// IS-IS uses the source address of a frame as the address of the neighbor.
fn link_protocols_go_to_the_mirror_unchanged<L: Locks>() {
    let (h, m) = host::<L>();
    let frames = [
        ether(Mac([1, 0x80, 0xc2, 0, 0, 0x14]), PEER.mac, EtherType(27), &[0xfe, 0xfe, 3, 0x83, 27]),
        ether(Mac([1, 0x80, 0xc2, 0, 0, 0x14]), PEER.mac, EtherType::VLAN, &[0xe0, 0, 0, 27, 0xfe, 0xfe, 3, 0x83, 27]),
        ether(Mac([1, 0x80, 0xc2, 0, 0, 0x0e]), PEER.mac, EtherType::LLDP, &[2, 7, 4]),
        ether(Mac([1, 0x80, 0xc2, 0, 0, 2]), PEER.mac, EtherType::SLOW, &[1, 1]),
    ];
    for frame in &frames {
        h.inject(EM0, frame);
        assert_eq!(&h.sent_one(m), frame);
    }
    h.assert_counters("in 4, out 4, punt.isis 2, punt.lldp 1, punt.lacp 1");
    h.inject(EM0, ether(Mac([1, 0x80, 0xc2, 0, 0, 0]), PEER.mac, EtherType(38), &[0x42, 0x42, 3]));
    h.inject(EM0, ether(OTHER.mac, PEER.mac, EtherType::LLDP, &[2, 7, 4]));
    h.sent_nothing(m);
    h.assert_counters("in 2, link.ether.in.unknown_type 1, link.ether.in.other_host 1");
}

fn an_arp_reply_reaches_the_host_and_the_mirror<L: Locks>() {
    let (h, m) = host::<L>();
    let s = h.bound(1000);
    h.send(s, b"data", at(OTHER, 9)).unwrap();
    assert_eq!(arp_of(&h.sent_one(EM0)).1.op, Op::Request);
    h.forget_counters();
    let reply = arp(Op::Reply, OTHER, ME);
    h.inject(EM0, &reply);
    assert_eq!(h.sent_one(m), reply);
    assert_eq!(udp_of(&h.sent_one(EM0)).1, b"data");
    assert_eq!(h.counter("inet.punt.arp"), 1);
    h.audit();
}

fn errors_and_replies_for_the_mirror_reach_it<L: Locks>() {
    let (h, m) = host::<L>();
    let reply = Ip::new(PEER.ip, ME.ip, Proto::ICMP, echo(icmp4::ty::ECHO_REPLY, 7, 1, b"data")).between(PEER, ME);
    let quoted = Ip::udp((ME.ip, 33_434), (OTHER.ip, 33_435), b"trace").packet();
    let expired = error_frame(PEER, ME, Problem::TimeExceeded { code: 0 }, &quoted);
    let timestamp = echo(14, 7, 1, &[0; 12]); // a timestamp reply, which has the same form
    let timestamp = Ip::new(PEER.ip, ME.ip, Proto::ICMP, timestamp).between(PEER, ME);
    for frame in [&reply, &expired, &timestamp] {
        h.inject(EM0, frame);
        assert_passed(&h.sent_one(m), frame);
    }
    h.sent_nothing(EM0);
    assert_eq!(h.counter("inet.punt.icmp"), 3);
}

fn frames_of_the_mirror_leave_by_the_interface<L: Locks>() {
    let (h, m) = host::<L>();
    h.set_checked(EM0, Checked::Nothing);
    let frames = [
        group(Proto::OSPF, 5),
        arp(Op::Request, ME, OTHER),
        ether(Mac([1, 0x80, 0xc2, 0, 0, 0x14]), ME.mac, EtherType(27), &[0xfe, 0xfe, 3, 0x83, 27]),
    ];
    h.inject_all(m, &frames);
    assert_eq!(h.sent_at_once(EM0), frames);
    h.sent_nothing(m);
    h.assert_counters("in 3, out 3, mirror.injected 3");
    h.stack.set_up(h.cx(), EM0, false);
    h.inject_all(m, &frames);
    h.sent_nothing(EM0);
    h.assert_counters("in 3, link.ether.in.iface_down 3");
}

fn each_class_has_a_rate_of_its_own_on_each_interface<L: Locks>() {
    let (h, m) = host::<L>();
    h.add_iface("em1", ME2, 1500);
    let other = h.stack.add_mirror(IfaceId(3), "other").unwrap();
    h.connect(other);
    h.set_checked(other, Checked::Nothing);
    h.forget_counters();
    punt::rate(&h.stack.sysctls, ControlClass::Ospf).set(10);
    let (ospf, bgp) = (group(Proto::OSPF, 5), syn(PEER, ME, 179));
    for _ in 0..15 {
        h.inject(EM0, &ospf);
    }
    assert_eq!(h.sent(m).len(), 10);
    h.assert_counters("in 15, out 10, ip4.received 15, punt.ospf 10, punt.policed.ospf 5, punt.policed 5");
    h.inject(EM0, &bgp);
    assert_passed(&h.sent_one(m), &bgp);
    h.inject(IfaceId(3), &ospf);
    assert_passed(&h.sent_one(other), &ospf);
    h.advance(Duration::from_millis(100));
    h.inject_all(EM0, [&ospf, &ospf]);
    assert_eq!(h.sent(m).len(), 1);
    punt::rate(&h.stack.sysctls, ControlClass::Ospf).set(0);
    h.inject_all(EM0, [&ospf; 20]);
    assert_eq!(h.sent(m).len(), 20);
    h.audit();
}

fn the_rate_of_a_class_is_its_sysctl<L: Locks>() {
    let (h, _) = host::<L>();
    for (n, class) in (1..).zip(ControlClass::ALL) {
        let name = format!("net.punt.{}.rate", class.name());
        assert!(h.stack.sysctls.set(&name, n).is_some_and(|set| set.is_ok()), "{name}");
    }
    let rates = ControlClass::ALL.map(|class| punt::rate(&h.stack.sysctls, class).get());
    assert!(rates.into_iter().eq(1..=ControlClass::ALL.len() as i64), "{rates:?}");
}

fn copies_count_against_the_rate_and_lose_nothing<L: Locks>() {
    let (h, m) = host::<L>();
    punt::rate(&h.stack.sysctls, ControlClass::Arp).set(1);
    h.inject_all(EM0, [arp(Op::Reply, OTHER, ME), arp(Op::Reply, PEER, ME)]);
    assert_eq!(h.sent(m).len(), 1);
    h.assert_counters(
        "in 2, out 1, audit.made 1, arp.replies_received 2, arp.in.consumed 2, punt.arp 1, \
         punt.policed.arp 1",
    );
    // Without a free buffer there is no copy, and the host still processes the frame.
    punt::rate(&h.stack.sysctls, ControlClass::Arp).set(0);
    let frame = h.frame(&arp(Op::Reply, OTHER, ME));
    let all: Vec<_> = std::iter::from_fn(|| h.pool.get()).collect();
    h.stack.input(h.cx(), EM0, &mut buf::Burst::of(frame));
    drop(all);
    h.sent_nothing(m);
    h.assert_counters("in 1, arp.replies_received 1, arp.in.consumed 1, mirror.no_buffer 1");
}

fn without_its_mirror_the_host_answers_itself<L: Locks>() {
    let (h, m) = host::<L>();
    let frame = udp_frame(PEER, 49_152, ME, 5000, b"data");
    h.stack.set_up(h.cx(), m, false);
    h.inject(EM0, &frame);
    assert_eq!(icmp_of(&h.sent_one(EM0)).0.ty, icmp4::ty::UNREACHABLE);
    h.stack.set_up(h.cx(), m, true);
    h.inject(EM0, &frame);
    assert_passed(&h.sent_one(m), &frame);
    assert!(h.stack.remove_iface(h.cx(), m));
    h.inject(EM0, &frame);
    assert_eq!(icmp_of(&h.sent_one(EM0)).0.ty, icmp4::ty::UNREACHABLE);
    // Without its interface, a mirror has no one to send for.
    let again = mirror(&h, EM0);
    assert!(h.stack.remove_iface(h.cx(), EM0));
    h.inject(again, group(Proto::OSPF, 5));
    h.assert_counters("in 1, link.ether.in.iface_down 1");
}

fn a_datagram_in_fragments_reaches_the_mirror_whole<L: Locks>() {
    let (h, m) = host::<L>();
    let whole = Ip::udp((PEER.ip, 49_152), (ME.ip, 5000), &[7; 1000]).id(9);
    h.inject(EM0, whole.fragment(0, 512).between(PEER, ME));
    h.sent_nothing(m);
    h.inject(EM0, whole.fragment(512, 496).between(PEER, ME));
    let passed = h.sent_one(m);
    let (header, payload) = udp_of(&passed);
    assert_eq!((header.dst.0, payload), (5000, &[7; 1000][..]));
    assert_eq!(passed[..eth::HEADER_LEN], [&ME.mac.0[..], &[2, 0, 0, 0, 0, 0], &[8, 0]].concat());
    h.sent_nothing(EM0);
}

fn forwarded_packets_do_not_reach_the_mirror<L: Locks>() {
    let h = Host::<L>::router();
    let m = mirror(&h, EM0);
    h.set_checked(EM1, Checked::Network);
    let onward = Ip::udp((PEER.ip, 1), (FAR.ip, 179), b"data").between(PEER, ME);
    let ours = syn(PEER, ME, 179);
    // The address of the other interface is this host's, too.
    let other = Ip::udp((PEER.ip, 1), (ME2.ip, 5000), b"data").between(PEER, ME);
    h.inject_all(EM0, [&onward, &ours, &onward, &other, &onward]);
    assert_eq!(h.sent(EM1).len(), 3);
    assert_eq!(h.sent(m).len(), 2);
    // An interface without a mirror answers.
    h.inject(EM1, udp_frame(FAR, 1, ME2, 5000, b"data"));
    assert_eq!(h.sent(EM1).len(), 1);
    h.sent_nothing(m);
    h.audit();
}

fn ip6_has_the_same_rules<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let m = mirror(&h, EM0);
    let own = ME6.near;
    let all: Ipv6Addr = "ff02::5".parse().unwrap();
    let ospf = Ip6::new(PEER6.near, all, Proto::OSPF, [3, 1, 0, 0]).hops(1).frame(Mac::multicast6(all), PEER.mac);
    let bgp = tcp6((PEER6.near, 40_000), (own, 179), |_| {}, &[], &[]).frame(ME.mac, PEER.mac);
    for (frame, counter) in [(&ospf, "inet.punt.ospf"), (&bgp, "inet.punt.bgp")] {
        h.inject(EM0, frame);
        assert_passed(&h.sent_one(m), frame);
        assert_eq!(h.counter(counter), 1);
    }
    let flags = Advert { router: true, solicited: true, replaces: true, target: PEER6.near };
    let advert = advert(PEER6.near, own, flags, Some(PEER6.mac)).hops(255).frame(ME.mac, PEER.mac);
    h.inject(EM0, &advert);
    assert_passed(&h.sent_one(m), &advert);
    h.sent_nothing(EM0);
    // UDP to a group of which the host is a member, without a socket.
    let routers: Ipv6Addr = "ff02::1".parse().unwrap();
    let hello = udp6((PEER6.near, 646), (routers, 646), b"hello").frame(Mac::multicast6(routers), PEER.mac);
    h.inject(EM0, &hello);
    assert_passed(&h.sent_one(m), &hello);
    let question = solicit(PEER6.near, own, own, Some(PEER6.mac)).hops(255).frame(ME.mac, PEER.mac);
    h.inject(EM0, &question);
    h.sent_nothing(m);
    assert_eq!(h.sent(EM0).len(), 1);
    assert_eq!(h.counter("inet.punt.nd"), 1);
    h.audit();
}

/// Returns the last bytes of the MAC addresses to which 32 flows to 10.9.0.1 are forwarded.
fn ways<L: Locks>(h: &Host<L>) -> BTreeSet<u8> {
    let flow = |n: u16| Ip::udp((PEER.ip, 1000 + n), (Ipv4Addr::new(10, 9, 0, 1), 9), b"flow").between(PEER, ME);
    h.inject_all(EM0, (0..32).map(flow));
    h.sent(EM1).iter().map(|frame| frame[5]).collect()
}

/// A BFD packet of a daemon, with the state and the diagnostic of its session with `to`.
fn bfd(to: Ipv4Addr, state: u8, diagnostic: u8) -> Vec<u8> {
    Ip::udp((ME2.ip, 49_152), (to, 3784), &control(state, diagnostic)).frame(FAR.mac, ME2.mac)
}

fn control(state: u8, diagnostic: u8) -> Vec<u8> {
    let mut control = vec![0; 24];
    (control[0], control[1], control[3]) = (1 << 5 | diagnostic, state << 6, 24);
    control
}

fn a_gateway_whose_bfd_session_failed_is_avoided<L: Locks>() {
    let h = Host::<L>::router();
    let m = mirror(&h, EM1);
    let gateway = |n: u8| Ipv4Addr::new(10, 0, 1, n);
    let by = |n: u8| Path { via: Via::Gateway(EM1, gateway(n)), weight: 1 };
    [11, 12].into_iter().for_each(|n| h.stack.set_neighbor(h.cx(), EM1, gateway(n), Mac([2, 0, 0, 0, 1, n])));
    h.stack.add_paths(h.cx(), prefix("10.9.0.0/16"), &[by(11), by(12)]).unwrap();
    h.set_checked(EM1, Checked::Network);
    let ways = || ways(&h);
    let send = |frame: Vec<u8>| {
        h.inject(m, &frame);
        assert_eq!(h.sent_at_once(EM1), [frame], "the packet itself leaves unchanged");
    };
    assert_eq!(ways(), [11, 12].into());
    send(bfd(gateway(11), 1, 0)); // not up yet
    send(bfd(gateway(11), 0, 7)); // ended by an operator
    send(bfd(gateway(77), 1, 1)); // another neighbor
    assert_eq!(ways(), [11, 12].into());
    send(bfd(gateway(11), 1, 1)); // no packets for the detection time
    assert_eq!(ways(), [12].into());
    send(bfd(gateway(11), 2, 1)); // coming up
    assert_eq!(ways(), [12].into());
    send(bfd(gateway(11), 3, 1)); // up, with the reason of the last failure
    assert_eq!(ways(), [11, 12].into());
    send(bfd(gateway(11), 1, 3));
    assert_eq!(ways(), [12].into());
    // The gateway still answers ARP, so its kernel runs but not its daemon, or the link is bad.
    h.stack.set_neighbor(h.cx(), EM1, gateway(11), Mac([2, 0, 0, 0, 1, 11]));
    assert_eq!(ways(), [12].into());
    send(bfd(gateway(11), 0, 7)); // the operator ends the session, so that nothing is known
    assert_eq!(ways(), [11, 12].into());
    // The routing engine has had time to remove the path; if it has not, it uses the gateway.
    for _ in 0..59 {
        send(bfd(gateway(11), 1, 1));
        h.advance_secs(1);
        assert_eq!(ways(), [12].into());
    }
    h.advance_secs(2);
    send(bfd(gateway(11), 1, 1));
    assert_eq!(ways(), [11, 12].into());
    // The daemon ends without a further packet.
    send(bfd(gateway(11), 3, 0));
    send(bfd(gateway(11), 1, 1));
    assert_eq!(ways(), [12].into());
    h.advance_secs(61);
    assert_eq!(ways(), [11, 12].into());
    // Only the daemon of this router is believed, not a packet that arrives by the link.
    h.inject(EM1, Ip::udp((FAR.ip, 49_152), (ME2.ip, 3784), &bfd(gateway(11), 1, 1)[42..]).between(FAR, ME2));
    assert_eq!(h.sent(m).len(), 1);
    assert_eq!(ways(), [11, 12].into());
    h.audit();
}

fn an_ipv6_gateway_of_ipv4_routes_is_avoided_as_well<L: Locks>() {
    let h = Host::<L>::router6();
    let m = mirror(&h, EM1);
    let gateway = |n: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n);
    let by = |n: u16| Path { via: Via::Gateway6(EM1, gateway(n)), weight: 1 };
    [11, 12].into_iter().for_each(|n| h.stack.set_neighbor6(h.cx(), EM1, gateway(n), Mac([2, 0, 0, 0, 1, n as u8])));
    h.stack.add_paths(h.cx(), prefix("10.9.0.0/16"), &[by(11), by(12)]).unwrap();
    h.set_checked(EM1, Checked::Network);
    let ways = || ways(&h);
    let send = |n: u16, state: u8, diagnostic: u8| {
        let control = control(state, diagnostic);
        h.inject(m, udp6((MY6.near, 49_152), (gateway(n), 3784), &control).hops(255).frame(FAR.mac, ME2.mac));
        assert_eq!(h.sent_at_once(EM1).len(), 1);
    };
    assert_eq!(ways(), [11, 12].into());
    send(77, 1, 1); // another neighbor
    assert_eq!(ways(), [11, 12].into());
    send(12, 1, 1); // no packets for the detection time
    assert_eq!(ways(), [11].into());
    send(12, 3, 0);
    assert_eq!(ways(), [11, 12].into());
    h.audit();
}

fn an_interface_has_one_mirror<L: Locks>() {
    let (h, m) = host::<L>();
    assert_eq!(h.stack.add_mirror(EM0, "another"), None);
    assert_eq!(h.stack.add_mirror(m, "another"), None);
    assert_eq!(h.stack.add_mirror(linerate_inet::iface::LOOPBACK, "another"), None);
    assert_eq!(h.stack.add_mirror(IfaceId(99), "another"), None);
    let (iface, mirror) = (h.stack.iface(EM0).unwrap(), h.stack.iface(m).unwrap());
    assert_eq!((iface.peer(), mirror.peer(), mirror.mac), (Some(m), Some(EM0), iface.mac));
}
