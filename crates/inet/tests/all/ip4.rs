//! Conversations about IPv4 input: RFC 791, RFC 1122 3.2.1, RFC 1812 5.2.

use crate::common::packets::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::iface::IfaceAddr;
use linerate_inet::route::Question;
use linerate_inet::udp::{Ancillary, PacketInfo};
use lock::Locks;
use stats::DropReason;
use std::net::{Ipv4Addr, SocketAddr};
use wire::eth::EtherType;
use wire::icmp4::ty;
use wire::{Mac, Proto, ip4};

conversations! {
    a_datagram_for_us_is_delivered_and_its_padding_is_not
    a_frame_cut_anywhere_is_not_delivered
    headers_with_wrong_lengths_are_dropped
    a_header_with_any_bit_flipped_is_not_delivered
    a_packet_of_another_version_is_dropped
    martian_sources_are_dropped
    a_station_without_an_address_may_ask_for_one
    a_station_without_an_address_is_not_checked_for_its_route
    a_broadcast_leaves_through_the_interface_that_it_names
    martian_destinations_are_dropped
    land_is_not_answered
    la_tierra_with_another_of_our_addresses_is_dropped
    a_broadcast_address_of_ours_is_not_a_valid_source
    source_routes_are_dropped_and_not_followed
    harmless_options_are_passed_over
    malformed_options_drop_the_packet
    a_unicast_packet_in_a_link_broadcast_is_dropped
    packets_for_others_are_dropped_when_forwarding_is_off
    a_packet_with_ttl_zero_or_one_is_delivered
    packets_for_another_ifaces_address_are_accepted
    a_mixed_burst_is_dispatched
    addresses_of_one_prefix_share_its_route
}

fn host<L: Locks>() -> Host<L> {
    let h = Host::new();
    h.knows(EM0, PEER);
    h.forget_counters();
    h
}

fn a_datagram_for_us_is_delivered_and_its_padding_is_not<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let mut frame = udp_frame(PEER, 1000, ME, 9, b"tiny");
    frame.resize(60, 0xee);
    h.inject(EM0, frame);
    assert_eq!(h.recv(s), Some((b"tiny".to_vec(), at(PEER, 1000))));
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, udp.received 1, udp.delivered 1, audit.consumed 1");
}

fn a_frame_cut_anywhere_is_not_delivered<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let frame = udp_frame(PEER, 1000, ME, 9, b"a whole datagram");
    (14..frame.len()).for_each(|len| h.inject(EM0, &frame[..len]));
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    let n = frame.len() - 14;
    h.assert_counters(&format!("in {n}, ip4.received {n}, ip4.in.malformed {n}"));
}

/// Returns the frame after `change`, with a valid header checksum.
fn changed(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = udp_frame(PEER, 1000, ME, 9, b"a whole datagram");
    change(&mut frame[14..]);
    let ihl_len = usize::from(frame[14] & 0xf) * 4;
    let end = (14 + ihl_len).min(frame.len());
    ip4::fill_checksum(&mut frame[14..end]);
    frame
}

/// Ripple20 (11898): a header with wrong lengths is dropped.
fn headers_with_wrong_lengths_are_dropped<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let whole = 20 + 8 + 16;
    let mut frames = Vec::new();
    for ihl in 0..5 {
        frames.push(changed(|p| p[0] = 0x40 | ihl));
    }
    frames.push(changed(|p| p[0] = 0x4f)); // a header of 60 bytes in a packet of 44
    for total in (0..20).chain([whole + 1, whole + 2, 1500, 0x7fff, 0x8000, 0xffff]) {
        frames.push(changed(|p| p[2..4].copy_from_slice(&(total as u16).to_be_bytes())));
    }
    let n = frames.len();
    frames.iter().for_each(|frame| h.inject(EM0, frame));
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    h.assert_counters(&format!("in {n}, ip4.received {n}, ip4.in.malformed {n}"));
    // The total length truncates the datagram, which is valid for IP but not for UDP.
    let short: Vec<_> =
        (20..whole).map(|total| changed(|p| p[2..4].copy_from_slice(&(total as u16).to_be_bytes()))).collect();
    let n = short.len();
    short.iter().for_each(|frame| h.inject(EM0, frame));
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    h.assert_counters(&format!("in {n}, ip4.received {n}, ip4.delivered {n}, udp.received {n}, udp.in.bad_length {n}"));
}

fn a_header_with_any_bit_flipped_is_not_delivered<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let good = udp_frame(PEER, 1000, ME, 9, b"a whole datagram");
    for bit in 14 * 8..34 * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        h.inject(EM0, bad);
    }
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    // Of the 160 flipped bits, four are in the version. Some cause a wrong IHL (13, 7, 1 or 4) or a
    // total length beyond the frame; the checksum detects the others.
    let [version, malformed] = ["inet.ip4.in.bad_version", "inet.ip4.in.malformed"].map(|name| h.counter(name));
    let checksum = h.counter("inet.ip4.in.bad_checksum");
    assert_eq!(version, 4);
    assert_eq!(version + malformed + checksum, 160);
    assert!(checksum >= 16 * 8, "{checksum}");
    h.audit();
}

fn a_packet_of_another_version_is_dropped<L: Locks>() {
    let h = host::<L>();
    for version in (0..16).filter(|v| *v != 4) {
        h.inject(EM0, changed(|p| p[0] = version << 4 | 5));
    }
    h.assert_counters("in 15, ip4.received 15, ip4.in.bad_version 15");
}

/// RFC 1812 5.3.7.
fn martian_sources_are_dropped<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let martians = [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.255.255.255",
        "224.0.0.1",
        "239.1.2.3",
        "240.0.0.1",
        "255.255.255.255",
    ];
    for src in martians {
        h.inject(EM0, udp_frame(Station { ip: src.parse().unwrap(), ..PEER }, 1000, ME, 9, b"x"));
    }
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    h.assert_counters("in 8, ip4.received 8, ip4.in.martian_source 8");
}

/// RFC 1122 3.2.1.3, RFC 2131 4.1: a station without an address asks a DHCP server for one. Other
/// packets from 0.0.0.0 are martians. A reply to 0.0.0.0 is not sent.
fn a_station_without_an_address_may_ask_for_one<L: Locks>() {
    let h = Host::<L>::router();
    h.route("0.0.0.0/0", linerate_inet::route::Via::Gateway(EM1, FAR.ip));
    let s = h.bound(67);
    let nobody = Station { ip: Ipv4Addr::UNSPECIFIED, ..PEER };
    let all = Station { ip: Ipv4Addr::BROADCAST, ..ME };
    h.inject(EM0, udp_frame(nobody, 68, all, 67, b"discover"));
    assert_eq!(h.recv(s).map(|(bytes, from)| (bytes, from.ip())), Some((b"discover".to_vec(), nobody.ip.into())));
    h.sent_nothing(EM0);
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, udp.received 1, udp.delivered 1, audit.consumed 1");
    assert!(h.send(s, b"offer", at(nobody, 68)).is_err());
    h.inject(EM0, udp_frame(nobody, 68, all, 69, b"no socket"));
    h.inject(EM0, ping(nobody, all.ip, 1, 1, b"x").between(nobody, all));
    h.inject(EM0, udp_frame(Station { ip: Ipv4Addr::new(0, 0, 0, 1), ..PEER }, 68, all, 67, b"martian"));
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    h.sent_nothing(EM1);
    h.audit();
}

/// A DHCP server with several interfaces replies through the one on which the request arrived.
fn a_broadcast_leaves_through_the_interface_that_it_names<L: Locks>() {
    let h = Host::<L>::router();
    h.route("0.0.0.0/0", linerate_inet::route::Via::Gateway(EM1, FAR.ip));
    let s = h.bound(67);
    h.options(s, |o| o.broadcast = true);
    let to = SocketAddr::from((Ipv4Addr::BROADCAST, 68));
    for iface in [EM0, EM1] {
        let info = Some(PacketInfo { addr: Ipv4Addr::UNSPECIFIED.into(), iface: Some(iface) });
        let ancillary = Ancillary { info, ..Ancillary::default() };
        assert_eq!(h.stack.udp_send_msg(h.cx(), s, b"offer", Some(&to), &ancillary), Ok(5));
        assert_eq!((h.sent(EM0).len(), h.sent(EM1).len()), (usize::from(iface == EM0), usize::from(iface == EM1)));
    }
    h.audit();
}

/// Source validation and local routes do not apply to 0.0.0.0.
fn a_station_without_an_address_is_not_checked_for_its_route<L: Locks>() {
    let h = Host::<L>::router();
    h.route("0.0.0.0/0", linerate_inet::route::Via::Local(EM0));
    // An address for which the filter of own addresses also reports 0.0.0.0.
    h.stack.add_addr(h.cx(), EM1, IfaceAddr { addr: Ipv4Addr::new(192, 168, 96, 1), len: 24 }).unwrap();
    let s = h.bound(67);
    let nobody = Station { ip: Ipv4Addr::UNSPECIFIED, ..PEER };
    let all = Station { ip: Ipv4Addr::BROADCAST, mac: Mac::BROADCAST };
    for validation in [0, 1, 2] {
        h.stack.sysctls.source_validation.set(validation);
        for iface in [EM0, EM1] {
            h.inject(iface, udp_frame(nobody, 68, all, 67, b"discover"));
            assert!(h.recv(s).is_some(), "{validation} {iface:?}");
            // The explanation of a route agrees.
            let from = Some((iface, nobody.ip));
            let question =
                |proto: Proto| Question { dst: all.ip, zone: None, from, proto: proto.0, l4_ports: (68, 67) };
            for proto in [Proto::UDP, Proto(0)] {
                assert_eq!(h.stack.why(h.cx(), &question(proto)).end, None, "{validation} {iface:?} {proto:?}");
            }
            let icmp = h.stack.why(h.cx(), &question(Proto::ICMP)).end;
            assert_eq!(icmp, Some(DropReason::Ip4MartianSource), "{validation} {iface:?}");
        }
    }
    h.sent_nothing(EM0);
    h.audit();
}

fn martian_destinations_are_dropped<L: Locks>() {
    let h = Host::<L>::router();
    let s = h.bound(9);
    h.route("0.0.0.0/0", linerate_inet::route::Via::Gateway(EM1, FAR.ip));
    for dst in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "127.1.2.3", "240.0.0.1", "255.255.255.254"] {
        let to = Station { ip: dst.parse().unwrap(), ..ME };
        h.inject(EM0, udp_frame(PEER, 1000, to, 9, b"x"));
    }
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    h.sent_nothing(EM1);
    h.assert_counters("in 6, ip4.received 6, ip4.in.martian_destination 6");
}

/// The Land attack: source and destination are the same address of ours.
fn land_is_not_answered<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let land = Station { ip: ME.ip, ..PEER };
    h.inject(EM0, udp_frame(land, 9, ME, 9, b"x"));
    h.inject(EM0, udp_frame(land, 10, ME, 10, b"x"));
    h.inject(EM0, ping(land, ME.ip, 1, 1, b"x").between(land, ME));
    h.pass(Duration::from_secs(1));
    h.sent_nothing(EM0);
    assert!(h.recv(s).is_none());
    h.assert_counters("in 3, ip4.received 3, ip4.in.own_source 3");
}

/// The La Tierra attack: source and destination are different addresses of this host. An echo service
/// would answer itself through the loopback queue forever. This host never sends such a packet on a
/// wire.
fn la_tierra_with_another_of_our_addresses_is_dropped<L: Locks>() {
    let h = host::<L>();
    let second = Ipv4Addr::new(10, 0, 0, 77);
    h.stack.add_addr(h.cx(), EM0, IfaceAddr { addr: second, len: 24 }).unwrap();
    h.add_iface("em1", ME2, 1500);
    let s = h.bound(7);
    for own in [second, ME2.ip] {
        let liar = Station { ip: own, ..PEER };
        h.inject(EM0, udp_frame(liar, 7, ME, 7, b"loop"));
        assert_eq!(h.recv(s), None, "from {own}");
        h.inject(EM0, udp_frame(liar, 7, ME, 8, b"loop"));
    }
    h.pass(Duration::from_secs(1));
    assert!(h.recv(s).is_none());
    h.sent(EM0);
    assert_eq!(h.counter("inet.ip4.in.own_source"), 4);
}

/// RFC 1122 3.2.1.3: a broadcast address MUST NOT be a source; 3.2.1.3 (f): such a datagram is
/// silently discarded.
fn a_broadcast_address_of_ours_is_not_a_valid_source<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(7);
    for src in [Ipv4Addr::new(10, 0, 0, 255), Ipv4Addr::new(10, 0, 0, 0)] {
        h.inject(EM0, udp_frame(Station { ip: src, ..PEER }, 7, ME, 7, b"fraggle"));
        assert_eq!(h.recv(s), None, "from {src}");
    }
    h.sent_nothing(EM0);
}

/// RFC 7126 4.3, 4.4.
fn source_routes_are_dropped_and_not_followed<L: Locks>() {
    let h = Host::<L>::router();
    let s = h.bound(9);
    let [a, b, c, d] = FAR.ip.octets();
    let mut n = 0;
    for kind in [131, 137] {
        for options in [
            vec![kind, 7, 4, a, b, c, d, 0],
            vec![1, kind, 7, 8, a, b, c, d],
            vec![kind, 11, 4, a, b, c, d, 1, 2, 3, 4, 0],
            vec![kind, 3, 4, 0],
        ] {
            h.inject(EM0, Ip::udp((PEER.ip, 1), (ME.ip, 9), b"x").options(&options).between(PEER, ME));
            h.inject(EM0, Ip::udp((PEER.ip, 1), (FAR.ip, 9), b"x").options(&options).between(PEER, ME));
            n += 2;
        }
    }
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    h.sent_nothing(EM1);
    h.assert_counters(&format!("in {n}, ip4.received {n}, ip4.in.source_route {n}"));
}

/// RFC 1122 3.2.1.8: options that are not understood are ignored.
fn harmless_options_are_passed_over<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let all: [&[u8]; 7] = [
        &[1, 1, 1, 1],
        &[0, 0, 0, 0],
        &[0, 131, 3, 4],                         // behind the end of the list: not an option
        &[148, 4, 0, 0],                         // router alert
        &[7, 7, 4, 0, 0, 0, 0, 0],               // record route
        &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0], // timestamp
        &[30, 4, 1, 2, 222, 2, 1, 1],            // nobody knows
    ];
    for options in all {
        h.inject(EM0, Ip::udp((PEER.ip, 1), (ME.ip, 9), b"x").options(options).between(PEER, ME));
        assert_eq!(h.recv(s), Some((b"x".to_vec(), at(PEER, 1))), "{options:?}");
    }
    h.inject(EM0, Ip::udp((PEER.ip, 1), (ME.ip, 9), b"x").options(&[1; 40]).between(PEER, ME));
    assert_eq!(h.recv(s), Some((b"x".to_vec(), at(PEER, 1))));
    h.assert_counters("in 8, ip4.received 8, ip4.delivered 8, udp.received 8, udp.delivered 8, audit.consumed 8");
}

/// RFC 1122 3.2.2.5: the error reports the position of the invalid option to the sender.
fn malformed_options_drop_the_packet<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let all: [(&[u8], u8); 9] = [
        (&[131, 0, 4, 0], 21), // length 0, which could cause an endless loop
        (&[7, 0, 4, 0], 21),
        (&[30, 1, 0, 0], 21),
        (&[30, 5, 0, 0], 21), // beyond the header
        (&[1, 1, 1, 7], 23),  // no room for a length
        (&[7, 39, 4, 0], 21),
        (&[131, 6, 4, 1, 2, 3, 0, 0], 21), // part of an address
        (&[7, 7, 3, 0, 0, 0, 0, 0], 22),   // a pointer into the option's head
        (&[68, 255, 5, 0], 21),
    ];
    for (options, octet) in all {
        let packet = Ip::udp((PEER.ip, 1), (ME.ip, 9), b"x").options(options);
        h.inject(EM0, packet.between(PEER, ME));
        let error = h.sent_one(EM0);
        let (header, quoted) = icmp_of(&error);
        assert_eq!((header.ty, header.code, header.rest), (ty::PARAMETER_PROBLEM, 0, [octet, 0, 0, 0]), "{options:?}");
        assert_eq!(quoted, packet.packet());
    }
    assert!(h.recv(s).is_none());
    h.assert_counters(
        "in 9, out 9, audit.made 9, ip4.received 9, ip4.sent 9, ip4.in.bad_options 9, icmp4.errors_sent 9",
    );
}

/// RFC 1122 3.3.6: a host SHOULD silently discard such a packet; a router must not forward it.
fn a_unicast_packet_in_a_link_broadcast_is_dropped<L: Locks>() {
    let h = Host::<L>::router();
    let s = h.bound(9);
    for mac in [Mac::BROADCAST, Mac::multicast4(Ipv4Addr::new(224, 0, 0, 1))] {
        h.inject(EM0, Ip::udp((PEER.ip, 1), (ME.ip, 9), b"x").frame(mac, PEER.mac));
        h.inject(EM0, Ip::udp((PEER.ip, 1), (FAR.ip, 9), b"x").frame(mac, PEER.mac));
    }
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM1);
    h.assert_counters("in 4, ip4.received 4, ip4.in.link_broadcast 4");
}

fn packets_for_others_are_dropped_when_forwarding_is_off<L: Locks>() {
    let h = Host::<L>::router();
    h.stack.sysctls.forwarding.set(0);
    h.inject(EM0, Ip::udp((PEER.ip, 1), (FAR.ip, 9), b"x").between(PEER, ME));
    h.inject(EM0, Ip::udp((PEER.ip, 1), (Ipv4Addr::new(192, 0, 2, 1), 9), b"x").between(PEER, ME));
    h.sent_nothing(EM0);
    h.sent_nothing(EM1);
    h.assert_counters("in 2, ip4.received 2, ip4.in.not_forwarding 2");
}

/// RFC 1122 3.2.1.7: a host MUST NOT discard a datagram just because it came with a TTL below 2.
fn a_packet_with_ttl_zero_or_one_is_delivered<L: Locks>() {
    let h = Host::<L>::router();
    let s = h.bound(9);
    for ttl in [0, 1, 255] {
        h.inject(EM0, Ip::udp((PEER.ip, 1), (ME.ip, 9), b"x").ttl(ttl).between(PEER, ME));
        assert!(h.recv(s).is_some());
    }
    h.inject(EM0, ping(PEER, ME.ip, 1, 1, b"x").ttl(1).between(PEER, ME));
    assert_eq!(ip_of(&h.sent_one(EM0)).1.ttl, 64);
}

fn packets_for_another_ifaces_address_are_accepted<L: Locks>() {
    let h = Host::<L>::router();
    let s = h.bound(9);
    h.inject(EM0, Ip::udp((PEER.ip, 1), (ME2.ip, 9), b"x").between(PEER, ME));
    assert_eq!(h.recv(s), Some((b"x".to_vec(), at(PEER, 1))));
}

fn a_mixed_burst_is_dispatched<L: Locks>() {
    let h = Host::<L>::router();
    let (s, t) = (h.bound(9), h.bound(10));
    h.forget_counters();
    let kinds = [
        udp_frame(PEER, 1000, ME, 9, b"nine"),
        arp(wire::arp::Op::Request, OTHER, ME),
        Ip::udp((PEER.ip, 1), (FAR.ip, 9), b"onward").between(PEER, ME),
        ping(PEER, ME.ip, 1, 1, b"x").between(PEER, ME),
        udp_frame(PEER, 1000, ME, 10, b"ten"),
        ether(ME.mac, PEER.mac, EtherType::IPV6, &[0; 40]),
        Ip::udp((PEER.ip, 1), (Ipv4Addr::BROADCAST, 9), b"all").frame(Mac::BROADCAST, PEER.mac),
        vec![0; 3],
    ];
    h.inject_all(EM0, (0..256).map(|n| &kinds[n % 8]));
    let got: Vec<_> = (0..64).map(|_| h.recv(s).unwrap().0).collect();
    assert_eq!(got.iter().filter(|payload| *payload == b"nine").count(), 32);
    assert_eq!(got.iter().filter(|payload| *payload == b"all").count(), 32);
    (0..32).for_each(|_| assert_eq!(h.recv(t).unwrap().0, b"ten"));
    assert_eq!(h.sent(EM0).len(), 64, "32 ARP replies and 32 pongs");
    assert_eq!(h.sent(EM1).len(), 32);
    h.assert_counters(
        "in 256, out 96, audit.made 32, audit.consumed 96, arp.requests_received 32, arp.replies_sent 32, neigh.created 1, \
         arp.in.consumed 32, ip4.received 160, ip4.delivered 128, ip4.forwarded 32, ip4.sent 32, icmp4.received 32, \
         icmp4.echoes_answered 32, udp.received 96, udp.delivered 96, link.ether.in.unknown_type 32, \
         link.ether.in.short 32",
    );
}

/// If an address is removed, another address of the same prefix keeps the routes; they are removed
/// with the last address.
fn addresses_of_one_prefix_share_its_route<L: Locks>() {
    let h = host::<L>();
    let (before, second) = (h.stack.routes(h.cx()), Ipv4Addr::new(10, 0, 0, 77));
    h.stack.add_addr(h.cx(), EM0, IfaceAddr { addr: second, len: 24 }).unwrap();
    assert_eq!(h.stack.routes(h.cx()).len(), before.len() + 1, "the second address itself");
    assert!(h.stack.remove_addr(h.cx(), EM0, second));
    assert_eq!(h.stack.routes(h.cx()), before);
    h.stack.add_addr(h.cx(), EM0, IfaceAddr { addr: second, len: 24 }).unwrap();
    assert!(h.stack.remove_addr(h.cx(), EM0, ME.ip) && h.stack.remove_addr(h.cx(), EM0, second));
    let left = h.stack.routes(h.cx()).into_iter().filter(|route| !route.prefix.addr().is_loopback());
    assert_eq!(left.count(), 0);
    h.sent(EM0); // announcements
}
