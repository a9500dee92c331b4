//! Conversations about ICMP: RFC 792, RFC 1122 3.2.2, RFC 1812 4.3, RFC 1191, RFC 5927.

use crate::common::packets::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::iface::IfaceAddr;
use linerate_inet::route::Via;
use linerate_inet::udp::{SendError, SoError};
use lock::Locks;
use std::net::Ipv4Addr;
use wire::eth::EtherType;
use wire::icmp4::{Problem, ty, unreachable};
use wire::{Mac, Proto};

conversations! {
    a_ping_is_answered_with_its_data
    pings_of_every_length_are_answered
    a_ping_with_options_is_answered_without_them
    a_recorded_route_and_timestamps_are_returned_with_our_entries
    a_ping_to_a_group_is_not_answered
    a_ping_to_a_group_is_answered_from_our_own_address_if_turned_on
    a_ping_from_an_address_of_ours_is_not_answered
    pings_are_answered_at_their_rate
    a_port_without_a_socket_is_unreachable
    an_unknown_protocol_and_tunnel_packets_are_unreachable
    an_error_has_at_most_576_bytes_and_quotes_received_bytes_only
    no_error_is_sent_in_udp_blackhole_mode
    no_error_is_sent_where_rfc_1122_forbids_it
    errors_to_one_destination_are_limited_and_do_not_use_up_those_to_others
    errors_to_all_destinations_together_are_limited
    the_overall_limit_cannot_be_measured_remotely
    an_error_reaches_only_its_connected_socket
    each_kind_of_error_has_its_errno
    an_error_about_an_unknown_packet_is_ignored
    an_error_about_a_later_fragment_is_ignored
    a_message_cut_anywhere_is_dropped
    a_message_with_any_bit_flipped_is_dropped
    unsolicited_messages_are_ignored
    source_quench_is_ignored
    a_redirect_is_ignored_by_default
    a_redirect_is_accepted_from_the_gateway_in_use_for_a_neighbor_only
    a_redirect_does_not_change_a_configured_route
    routes_made_by_redirects_are_bounded
    a_lower_path_mtu_is_learned_and_expires_after_ten_minutes
    a_lower_path_mtu_is_accepted_only_for_datagrams_of_ours
    no_path_mtu_below_552_is_accepted
    an_error_without_an_mtu_lowers_the_path_mtu_to_the_next_plateau
    a_datagram_with_df_is_limited_by_the_path_mtu
}

fn host<L: Locks>() -> Host<L> {
    let h = Host::new();
    h.knows(EM0, PEER);
    h.knows(EM0, OTHER);
    h.forget_counters();
    h
}

// ---- echo ---------------------------------------------------------------------------------------------------------

fn a_ping_is_answered_with_its_data<L: Locks>() {
    let h = host::<L>();
    h.inject(
        EM0,
        ping(PEER, ME.ip, 0xabcd, 0xfffe, b"thirty-one bytes of some payload").ttl(3).tos(0xb8).between(PEER, ME),
    );
    let reply = h.sent_one(EM0);
    let (link, ip, _) = ip_of(&reply);
    assert_eq!((link.dst, link.src), (PEER.mac, ME.mac));
    assert_eq!((ip.src, ip.dst, ip.tos, ip.ttl), (ME.ip, PEER.ip, 0xb8, 64));
    let (icmp, payload) = icmp_of(&reply);
    assert_eq!((icmp.ty, icmp.code, icmp.rest), (ty::ECHO_REPLY, 0, [0xab, 0xcd, 0xff, 0xfe]));
    assert_eq!(payload, b"thirty-one bytes of some payload");
    h.assert_counters(
        "in 1, out 1, ip4.received 1, ip4.delivered 1, ip4.sent 1, icmp4.received 1, icmp4.echoes_answered 1",
    );
}

fn pings_of_every_length_are_answered<L: Locks>() {
    let h = host::<L>();
    for len in 0..=1472 {
        let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let mut frame = ping(PEER, ME.ip, 1, len as u16, &payload).between(PEER, ME);
        frame.resize(frame.len().max(60), 0xa5); // padding that the reply must not contain
        h.inject(EM0, frame);
        let reply = h.sent_one(EM0);
        assert_eq!(icmp_of(&reply).1, payload);
        assert_eq!(reply.len(), 42 + len, "no reply is longer than the request");
    }
    h.assert_counters(
        "in 1473, out 1473, ip4.received 1473, ip4.delivered 1473, ip4.sent 1473, icmp4.received 1473, \
         icmp4.echoes_answered 1473",
    );
}

fn a_ping_with_options_is_answered_without_them<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, ping(PEER, ME.ip, 1, 1, b"x").options(&[1, 1, 1, 0, 148, 4, 0, 0]).between(PEER, ME));
    let reply = h.sent_one(EM0);
    assert_eq!(icmp_of(&reply).1, b"x");
    assert_eq!(ip_of(&reply).1.ihl_len, 20);
}

/// RFC 1122 3.2.2.6: this host adds two entries, as the Linux kernel does, for input and for
/// output.
fn a_recorded_route_and_timestamps_are_returned_with_our_entries<L: Locks>() {
    let h = host::<L>();
    let reply_to = |options: &[u8]| {
        h.inject(EM0, ping(PEER, ME.ip, 1, 1, b"x").options(options).between(PEER, ME));
        let reply = h.sent_one(EM0);
        assert_eq!(icmp_of(&reply).1, b"x");
        let (_, ip, _) = ip_of(&reply);
        assert!(wire::ip4::header_checksum_ok(&reply[14..], ip.ihl_len));
        assert_eq!(usize::from(ip.total_len), ip.ihl_len + 9);
        reply[34..14 + ip.ihl_len].to_vec()
    };
    let (me, peer) = (ME.ip.octets(), PEER.ip.octets());
    let mut route = vec![1, 7, 15, 8];
    route.extend([peer, [0; 4], [0; 4]].concat());
    let wanted = [&[7, 15, 16][..], &peer, &me, &me, &[0]].concat();
    assert_eq!(reply_to(&route), wanted);
    let mut full = vec![7, 7, 8];
    full.extend([&peer[..], &[0]].concat());
    assert_eq!(reply_to(&full), full, "without space for an entry, the option is returned unchanged");
    let times = reply_to(&[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((&times[..4], times[4] & 0x80, times[8] & 0x80), (&[68, 12, 13, 0][..], 0x80, 0x80));
    let stamped = [&[68, 20, 5, 1][..], &[0; 16]].concat();
    let stamped = reply_to(&stamped);
    // The input entry took the last free space. The output entry is not counted as an overflow.
    assert_eq!(reply_to(&[68, 8, 5, 0, 0, 0, 0, 0])[..4], [68, 8, 9, 0]);
    assert_eq!(reply_to(&[68, 8, 9, 0, 0, 0, 0, 0])[..4], [68, 8, 9, 0x10], "overflow of the input entry");
    assert_eq!((&stamped[..8], &stamped[12..16]), (&[&[68, 20, 21, 1][..], &me].concat()[..], &me[..]));
}

/// Smurf attack: RFC 1122 3.2.2.6 allows the request to be ignored, which is the only safe choice.
fn a_ping_to_a_group_is_not_answered<L: Locks>() {
    let h = host::<L>();
    let everybody =
        [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255), Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(224, 0, 0, 1)];
    for dst in everybody {
        h.inject(EM0, ping(PEER, dst, 1, 1, b"smurf").frame(Mac::BROADCAST, PEER.mac));
        h.inject(EM0, ping(PEER, dst, 1, 1, b"smurf").frame(ME.mac, PEER.mac));
    }
    h.sent_nothing(EM0);
    h.assert_counters("in 8, ip4.received 8, ip4.delivered 8, icmp4.received 8, icmp4.in.broadcast_echo 8");
    h.inject(EM0, ping(PEER, ME.ip, 1, 1, b"smurf").frame(Mac::BROADCAST, PEER.mac));
    h.sent_nothing(EM0);
    h.assert_counters("in 1, ip4.received 1, ip4.in.link_broadcast 1");
}

fn a_ping_to_a_group_is_answered_from_our_own_address_if_turned_on<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.broadcast_echo.set(1);
    for dst in [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255), Ipv4Addr::new(224, 0, 0, 1)] {
        h.inject(EM0, ping(PEER, dst, 1, 1, b"x").frame(Mac::BROADCAST, PEER.mac));
        let (link, ip, _) = {
            let reply = h.sent_one(EM0);
            let (link, ip, _) = ip_of(&reply);
            (link, ip, ())
        };
        assert_eq!((link.dst, ip.src, ip.dst), (PEER.mac, ME.ip, PEER.ip), "a group is not a valid source");
    }
}

fn a_ping_from_an_address_of_ours_is_not_answered<L: Locks>() {
    let h = host::<L>();
    let second = Ipv4Addr::new(10, 0, 0, 77);
    h.stack.add_addr(h.cx(), EM0, IfaceAddr { addr: second, len: 24 }).unwrap();
    h.sent(EM0);
    h.forget_counters();
    for src in [ME.ip, second, Ipv4Addr::new(10, 0, 0, 255)] {
        h.inject(EM0, ping(Station { ip: src, ..PEER }, ME.ip, 1, 1, b"x").between(PEER, ME));
    }
    h.pass(Duration::from_secs(1));
    h.sent_nothing(EM0);
    assert_eq!(h.counter("inet.icmp4.echoes_answered"), 0);
    h.audit();
}

fn pings_are_answered_at_their_rate<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.echo_rate.set(10);
    let request = ping(PEER, ME.ip, 1, 1, b"x").between(PEER, ME);
    (0..100).for_each(|_| h.inject(EM0, &request));
    assert_eq!(h.sent(EM0).len(), 10);
    h.assert_counters(
        "in 100, out 10, ip4.received 100, ip4.delivered 100, ip4.sent 10, icmp4.received 100, \
         icmp4.echoes_answered 10, icmp4.in.rate_limited 90",
    );
    h.advance(Duration::from_millis(500));
    (0..100).for_each(|_| h.inject(EM0, &request));
    assert_eq!(h.sent(EM0).len(), 5);
    h.stack.sysctls.echo_rate.set(0);
    (0..100).for_each(|_| h.inject(EM0, &request));
    assert_eq!(h.sent(EM0).len(), 100);
}

// ---- errors sent --------------------------------------------------------------------------------------------------

fn a_port_without_a_socket_is_unreachable<L: Locks>() {
    let h = host::<L>();
    let datagram = Ip::udp((PEER.ip, 1000), (ME.ip, 9), b"anybody?").tos(0x10);
    h.inject(EM0, datagram.between(PEER, ME));
    let error = h.sent_one(EM0);
    let (link, ip, _) = ip_of(&error);
    assert_eq!((link.dst, ip.src, ip.dst, ip.ttl), (PEER.mac, ME.ip, PEER.ip, 64));
    let (icmp, quoted) = icmp_of(&error);
    assert_eq!((icmp.ty, icmp.code, icmp.rest), (ty::UNREACHABLE, unreachable::PORT, [0; 4]));
    assert_eq!(quoted, datagram.packet(), "quoted as received");
    h.assert_counters(
        "in 1, out 1, audit.made 1, ip4.received 1, ip4.delivered 1, ip4.sent 1, icmp4.errors_sent 1, \
         udp.received 1, udp.in.no_socket 1",
    );
}

/// Without a tunnel, IP-in-IP and GRE are unknown protocols, and the inner packet is ignored.
fn an_unknown_protocol_and_tunnel_packets_are_unreachable<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let inside = Ip::udp((PEER.ip, 1), (ME.ip, 9), b"hidden").packet();
    let gre = [&[0, 0, 8, 0][..], &inside].concat();
    for (proto, payload) in
        [(Proto::IPIP, inside.clone()), (Proto::GRE, gre), (Proto::IPV6, vec![0x60; 48]), (Proto(253), vec![])]
    {
        h.inject(EM0, Ip::new(PEER.ip, ME.ip, proto, payload).between(PEER, ME));
        let error = h.sent_one(EM0);
        let (icmp, _) = icmp_of(&error);
        assert_eq!((icmp.ty, icmp.code), (ty::UNREACHABLE, unreachable::PROTOCOL));
    }
    assert!(h.recv(s).is_none());
    h.assert_counters(
        "in 4, out 4, audit.made 4, ip4.received 4, ip4.delivered 4, ip4.sent 4, icmp4.errors_sent 4, \
         ip4.in.unknown_protocol 4",
    );
}

/// RFC 1812 4.3.2.3: an error quotes as much as fits into 576 bytes. It contains only bytes of the
/// received packet.
fn an_error_has_at_most_576_bytes_and_quotes_received_bytes_only<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.icmp_rate.set(0);
    for len in [0, 1, 2, 17, 18, 519, 520, 521, 1472] {
        let datagram = Ip::udp((PEER.ip, 1000), (ME.ip, 9), &vec![0x5a; len]);
        let mut frame = datagram.between(PEER, ME);
        frame.resize(frame.len().max(60), 0xee);
        h.inject(EM0, frame);
        let error = h.sent_one(EM0);
        let packet = datagram.packet();
        assert_eq!(icmp_of(&error).1, &packet[..packet.len().min(548)], "of {len}");
        assert!(error.len() - 14 <= 576);
    }
    // Options are included in the length.
    let datagram = Ip::udp((PEER.ip, 1000), (ME.ip, 9), &[1; 600]).options(&[1; 40]);
    h.inject(EM0, datagram.between(PEER, ME));
    assert_eq!(icmp_of(&h.sent_one(EM0)).1, &datagram.packet()[..548]);
}

fn no_error_is_sent_in_udp_blackhole_mode<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.udp_blackhole.set(1);
    h.inject(EM0, udp_frame(PEER, 1000, ME, 9, b"anybody?"));
    h.sent_nothing(EM0);
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, udp.received 1, udp.in.no_socket 1");
}

/// RFC 1122 3.2.2: no error is sent about errors, broadcasts, multicasts or later fragments, or to
/// sources that are not a single host.
fn no_error_is_sent_where_rfc_1122_forbids_it<L: Locks>() {
    let h = Host::<L>::router();
    h.stack.sysctls.icmp_rate.set(0);
    let closed = |src: Ipv4Addr, dst: Ipv4Addr| Ip::udp((src, 1000), (dst, 9), b"x");
    let quoted = closed(ME.ip, PEER.ip).packet();
    let nowhere = Ipv4Addr::new(203, 0, 113, 1);
    let unknown = |src: Ipv4Addr, dst: Ipv4Addr| Ip::new(src, dst, Proto(253), *b"12345678");

    // Packets to broadcast and multicast addresses of the IP layer or the link layer.
    for dst in
        [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255), Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(224, 0, 0, 1)]
    {
        for mac in [Mac::BROADCAST, ME.mac] {
            h.inject(EM0, closed(PEER.ip, dst).frame(mac, PEER.mac));
            h.inject(EM0, unknown(PEER.ip, dst).frame(mac, PEER.mac));
        }
    }
    h.inject(EM0, closed(PEER.ip, ME.ip).frame(Mac::BROADCAST, PEER.mac));
    h.inject(EM0, closed(PEER.ip, nowhere).frame(Mac::BROADCAST, PEER.mac));
    // ICMP errors, known and unknown, that cannot be forwarded.
    for problem in [
        Problem::Unreachable { code: 3, next_mtu: 0 },
        Problem::TimeExceeded { code: 0 },
        Problem::Redirect { code: 1, gateway: PEER.ip },
        Problem::ParameterProblem { pointer: 0 },
    ] {
        h.inject(EM0, Ip::new(PEER.ip, nowhere, Proto::ICMP, icmp_error(problem, &quoted)).between(PEER, ME));
        h.inject(EM0, Ip::new(PEER.ip, FAR.ip, Proto::ICMP, icmp_error(problem, &quoted)).ttl(1).between(PEER, ME));
    }
    h.inject(EM0, Ip::new(PEER.ip, nowhere, Proto::ICMP, vec![4, 0, 0, 0, 0, 0, 0, 0]).between(PEER, ME));
    h.inject(EM0, Ip::new(PEER.ip, nowhere, Proto::ICMP, vec![77, 0, 0, 0, 0, 0, 0, 0]).between(PEER, ME));
    h.inject(EM0, Ip::new(PEER.ip, nowhere, Proto::ICMP, vec![]).between(PEER, ME));
    // Fragments other than the first.
    let long = Ip::udp((PEER.ip, 1000), (nowhere, 9), &[7; 64]);
    h.inject(EM0, long.fragment(8, 16).between(PEER, ME));
    h.inject(EM0, long.fragment(64, 16).between(PEER, ME));
    // Sources that are not a single host.
    for src in [
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::BROADCAST,
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::new(224, 0, 0, 1),
        Ipv4Addr::new(240, 0, 0, 1),
        Ipv4Addr::new(0, 1, 2, 3),
        Ipv4Addr::new(10, 0, 0, 255),
        Ipv4Addr::new(10, 0, 1, 255),
    ] {
        h.inject(EM0, closed(src, ME.ip).between(PEER, ME));
        h.inject(EM0, closed(src, nowhere).between(PEER, ME));
    }
    h.pass(Duration::from_secs(1));
    for iface in [EM0, EM1] {
        let sent = h.sent(iface);
        assert!(
            sent.iter().all(|f| wire::eth::Header::parse(f).unwrap().ethertype != EtherType::IPV4),
            "{:?}",
            sent.iter().map(|f| line(f)).collect::<Vec<_>>()
        );
    }
    assert_eq!(h.counter("inet.icmp4.errors_sent"), 0);
    // Errors may be sent about the first fragment and about an echo request.
    h.inject(EM0, long.fragment(0, 16).between(PEER, ME));
    h.inject(EM0, ping(PEER, nowhere, 1, 1, b"x").between(PEER, ME));
    assert_eq!(h.sent(EM0).len(), 2);
    h.audit();
}

fn errors_to_one_destination_are_limited_and_do_not_use_up_those_to_others<L: Locks>() {
    let h = host::<L>();
    let probe = |from: Station| udp_frame(from, 1000, ME, 9, b"x");
    (0..500).for_each(|_| h.inject(EM0, probe(PEER)));
    let n = h.sent(EM0).len();
    assert!((40..=75).contains(&n), "{n} of 200 errors a second; one destination gets a quarter");
    h.assert_counters(&format!(
        "in 500, out {n}, audit.made {n}, ip4.received 500, ip4.delivered 500, ip4.sent {n}, icmp4.errors_sent {n}, \
         icmp4.errors_limited {}, udp.received 500, udp.in.no_socket 500",
        500 - n
    ));
    h.inject(EM0, probe(OTHER));
    assert_eq!(ip_of(&h.sent_one(EM0)).1.dst, OTHER.ip, "another source gets an error");
    h.advance_secs(1);
    h.inject(EM0, probe(PEER));
    assert_eq!(h.sent(EM0).len(), 1, "a second later, the first source gets an error again");
}

/// Sends many packets from different sources at once; returns the number of errors sent.
fn storm<L: Locks>(h: &Host<L>, probes: u32) -> usize {
    h.route("0.0.0.0/0", Via::Gateway(EM0, PEER.ip));
    let mut n = 0;
    for i in 0..probes {
        let from = Ipv4Addr::from(0xc000_0200 + i * 77);
        h.inject(EM0, Ip::udp((from, 1000), (ME.ip, 9), b"x").between(PEER, ME));
        n += h.sent(EM0).len();
    }
    n
}

fn errors_to_all_destinations_together_are_limited<L: Locks>() {
    let h = host::<L>();
    let n = storm(&h, 2000);
    assert!((100..=200).contains(&n), "{n} of at most 200 a second");
    h.stack.sysctls.icmp_rate.set(0);
    assert_eq!(storm(&h, 300), 300, "0 is no limit");
}

/// SAD DNS (CVE-2020-25705): if an attacker could count the errors that the whole host may send, it
/// would learn which of its spoofed probes reached an open port. Therefore the number changes each
/// time.
fn the_overall_limit_cannot_be_measured_remotely<L: Locks>() {
    let h = host::<L>();
    let mut counts = Vec::new();
    for _ in 0..10 {
        h.advance_secs(5);
        counts.push(storm(&h, 600));
    }
    counts.sort_unstable();
    counts.dedup();
    assert!(counts.len() > 2, "always {counts:?}");
}

// ---- errors received ----------------------------------------------------------------------------------------------

const PORT_UNREACHABLE: Problem = Problem::Unreachable { code: unreachable::PORT, next_mtu: 0 };

/// Returns a datagram from our socket at port 1000 to PEER, port 9, as an ICMP error would quote
/// it.
fn own(payload: &[u8]) -> Ip {
    Ip::udp((ME.ip, 1000), (PEER.ip, 9), payload)
}

fn an_error_reaches_only_its_connected_socket<L: Locks>() {
    let h = host::<L>();
    let connected = h.connected(1000, at(PEER, 9));
    let other_peer = h.connected(1001, at(PEER, 9));
    let unconnected = h.bound(1002);
    h.inject(EM0, error_frame(PEER, ME, PORT_UNREACHABLE, &own(b"x").packet()));
    h.assert_counters(
        "in 1, ip4.received 1, ip4.delivered 1, icmp4.received 1, icmp4.errors_delivered 1, icmp4.in.consumed 1",
    );
    assert_eq!(h.error(connected), Some(SoError::Refused));
    assert_eq!(h.error(connected), None, "told once");
    assert_eq!((h.error(other_peer), h.error(unconnected)), (None, None));
    // Errors that do not quote the connection's peer, its port or our port; and an error for an
    // unconnected socket.
    for quoted in [
        Ip::udp((ME.ip, 1000), (OTHER.ip, 9), b"x"),
        Ip::udp((ME.ip, 1000), (PEER.ip, 10), b"x"),
        Ip::udp((ME.ip, 1003), (PEER.ip, 9), b"x"),
        Ip::udp((ME.ip, 1002), (PEER.ip, 9), b"x"),
        Ip::new(ME.ip, PEER.ip, Proto::TCP, own(b"x").payload),
    ] {
        h.inject(EM0, error_frame(PEER, ME, PORT_UNREACHABLE, &quoted.packet()));
    }
    assert_eq!((h.error(connected), h.error(other_peer), h.error(unconnected)), (None, None, None));
    h.assert_counters("in 5, ip4.received 5, ip4.delivered 5, icmp4.received 5, icmp4.in.consumed 5");
    // Eight bytes after the header are enough (RFC 792).
    h.inject(EM0, error_frame(PEER, ME, PORT_UNREACHABLE, &own(b"some more").packet()[..28]));
    assert_eq!(h.send(connected, b"x", None), Err(SendError::Earlier(SoError::Refused)));
    assert_eq!(h.send(connected, b"x", None), Ok(1));
}

fn each_kind_of_error_has_its_errno<L: Locks>() {
    let h = host::<L>();
    let s = h.connected(1000, at(PEER, 9));
    let unreachable = |code| Problem::Unreachable { code, next_mtu: 0 };
    for (problem, error) in [
        (unreachable(unreachable::NET), SoError::NetUnreachable),
        (unreachable(unreachable::HOST), SoError::HostUnreachable),
        (unreachable(unreachable::PROTOCOL), SoError::Refused),
        (unreachable(unreachable::PORT), SoError::Refused),
        (unreachable(unreachable::ADMIN_PROHIBITED), SoError::HostUnreachable),
        (Problem::Unreachable { code: unreachable::FRAG_NEEDED, next_mtu: 1400 }, SoError::MessageSize),
        (Problem::TimeExceeded { code: 0 }, SoError::HostUnreachable),
        (Problem::ParameterProblem { pointer: 20 }, SoError::ProtocolOption),
    ] {
        h.inject(EM0, error_frame(OTHER, ME, problem, &own(b"x").packet()));
        assert_eq!(h.error(s), Some(error), "{problem:?}");
    }
}

/// An error about a datagram that was not sent from one of our addresses is ignored, whatever its
/// ports.
fn an_error_about_an_unknown_packet_is_ignored<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    for src in [OTHER.ip, Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(10, 0, 0, 255)] {
        let quoted = Ip::udp((src, 1000), (PEER.ip, 9), &[0; 1400]).packet();
        h.inject(EM0, error_frame(OTHER, ME, Problem::Unreachable { code: 4, next_mtu: 600 }, &quoted[..28]));
    }
    h.assert_counters("in 3, ip4.received 3, ip4.delivered 3, icmp4.received 3, icmp4.in.consumed 3");
    h.options(s, |o| o.dont_fragment = true);
    assert_eq!(h.send(s, &[0; 1400], at(PEER, 9)), Ok(1400), "a forged error has lowered the path MTU");
}

fn an_error_about_a_later_fragment_is_ignored<L: Locks>() {
    let h = host::<L>();
    let s = h.connected(1000, at(PEER, 9));
    // A later fragment whose payload looks like the ports of a connection.
    let mut quoted = own(b"x");
    quoted.header.frag_off = 1480;
    h.inject(EM0, error_frame(PEER, ME, PORT_UNREACHABLE, &quoted.packet()));
    assert_eq!(h.error(s), None);
}

/// Ripple20 (11910), Nucleus (31344): the quoted packet is truncated.
fn a_message_cut_anywhere_is_dropped<L: Locks>() {
    let h = host::<L>();
    let s = h.connected(1000, at(PEER, 9));
    let problems = [
        PORT_UNREACHABLE,
        Problem::TimeExceeded { code: 0 },
        Problem::Redirect { code: 1, gateway: PEER.ip },
        Problem::ParameterProblem { pointer: 0 },
    ];
    let mut n = 0;
    for problem in problems {
        let quoted = own(b"").packet();
        for len in 0..quoted.len() {
            h.inject(EM0, error_frame(PEER, ME, problem, &quoted[..len]));
            n += 1;
        }
    }
    // The ICMP header alone, truncated, with a checksum that is valid for the rest.
    for len in 0..8 {
        h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::ICMP, vec![0; len]).between(PEER, ME));
        n += 1;
    }
    // Quoted headers with wrong values: the version, an IHL of 0, 16 and 60 bytes, and a total
    // length shorter than the header.
    for (at, value) in [(0, 0x65), (0, 0x40), (0, 0x44), (0, 0x4f), (3, 19)] {
        let mut quoted = own(b"").packet();
        quoted[2] = 0;
        quoted[at] = value;
        h.inject(EM0, error_frame(PEER, ME, PORT_UNREACHABLE, &quoted));
        n += 1;
    }
    assert_eq!(h.error(s), None);
    h.sent_nothing(EM0);
    h.assert_counters(&format!(
        "in {n}, ip4.received {n}, ip4.delivered {n}, icmp4.received {n}, icmp4.in.malformed {n}"
    ));
}

fn a_message_with_any_bit_flipped_is_dropped<L: Locks>() {
    let h = host::<L>();
    let s = h.connected(1000, at(PEER, 9));
    let good = error_frame(PEER, ME, PORT_UNREACHABLE, &own(b"payload").packet());
    let mut n = 0;
    for bit in 34 * 8..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        h.inject(EM0, bad);
        n += 1;
    }
    assert_eq!(h.error(s), None);
    h.assert_counters(&format!(
        "in {n}, ip4.received {n}, ip4.delivered {n}, icmp4.received {n}, icmp4.in.bad_checksum {n}"
    ));
}

fn unsolicited_messages_are_ignored<L: Locks>() {
    let h = host::<L>();
    let mut n = 0;
    // Replies, timestamps, masks, router discovery, and all unassigned types.
    for ty in (0..=255).filter(|ty| !matches!(ty, 3 | 5 | 8 | 11 | 12)) {
        h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::ICMP, echo(ty, 1, 2, b"some data here..")).between(PEER, ME));
        n += 1;
    }
    h.sent_nothing(EM0);
    h.assert_counters(&format!(
        "in {n}, ip4.received {n}, ip4.delivered {n}, icmp4.received {n}, icmp4.in.ignored {n}"
    ));
}

/// RFC 6633.
fn source_quench_is_ignored<L: Locks>() {
    let h = host::<L>();
    let s = h.connected(1000, at(PEER, 9));
    let mut message = icmp_error(PORT_UNREACHABLE, &own(b"x").packet());
    (message[0], message[1], message[2], message[3]) = (ty::SOURCE_QUENCH, 0, 0, 0);
    let sum = wire::checksum::sum(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::ICMP, message).between(PEER, ME));
    assert_eq!(h.error(s), None);
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, icmp4.received 1, icmp4.in.ignored 1");
}

// ---- redirects ----------------------------------------------------------------------------------------------------

const FARAWAY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

fn redirect(from: Station, gateway: Ipv4Addr) -> Vec<u8> {
    let quoted = Ip::udp((ME.ip, 1000), (FARAWAY, 9), b"x").packet();
    error_frame(from, ME, Problem::Redirect { code: 1, gateway }, &quoted)
}

fn a_redirect_is_ignored_by_default<L: Locks>() {
    let h = host::<L>();
    h.route("0.0.0.0/0", Via::Gateway(EM0, PEER.ip));
    h.inject(EM0, redirect(PEER, OTHER.ip));
    assert_eq!(h.stack.route_to(h.cx(), FARAWAY).unwrap().via, Via::Gateway(EM0, PEER.ip));
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, icmp4.received 1, icmp4.in.redirect_ignored 1");
}

/// RFC 1122 3.2.2.2.
fn a_redirect_is_accepted_from_the_gateway_in_use_for_a_neighbor_only<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.accept_redirects.set(1);
    h.route("0.0.0.0/0", Via::Gateway(EM0, PEER.ip));
    let not_ours = Ip::udp((OTHER.ip, 1000), (FARAWAY, 9), b"x").packet();
    for frame in [
        redirect(OTHER, GATEWAY.ip),                  // not the gateway in use
        redirect(PEER, Ipv4Addr::new(10, 9, 9, 9)),   // not on the link
        redirect(PEER, ME.ip),                        // to ourselves
        redirect(PEER, Ipv4Addr::new(10, 0, 0, 255)), // a broadcast address
        redirect(PEER, Ipv4Addr::new(10, 0, 0, 0)),   // to everybody, as BSD once said it
        error_frame(PEER, ME, Problem::Redirect { code: 1, gateway: OTHER.ip }, &not_ours), // quotes a foreign packet
    ] {
        h.inject(EM0, frame);
        assert_eq!(h.stack.route_to(h.cx(), FARAWAY).unwrap().via, Via::Gateway(EM0, PEER.ip));
    }
    h.assert_counters("in 6, ip4.received 6, ip4.delivered 6, icmp4.received 6, icmp4.in.redirect_ignored 6");
    h.inject(EM0, redirect(PEER, OTHER.ip));
    assert_eq!(h.stack.route_to(h.cx(), FARAWAY).unwrap().via, Via::Gateway(EM0, OTHER.ip));
    h.assert_counters(
        "in 1, ip4.received 1, ip4.delivered 1, icmp4.received 1, icmp4.redirects_accepted 1, icmp4.in.consumed 1",
    );
    let s = h.bound(1000);
    h.send(s, b"x", std::net::SocketAddr::from((FARAWAY, 9))).unwrap();
    assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, OTHER.mac);
    // After ten minutes, the old route is used again, and the headers cached in the socket are not.
    h.advance_secs(599);
    h.forget_counters();
    assert_eq!(h.stack.route_to(h.cx(), FARAWAY).unwrap().via, Via::Gateway(EM0, OTHER.ip));
    h.advance_secs(1);
    assert_eq!(h.stack.route_to(h.cx(), FARAWAY).unwrap().via, Via::Gateway(EM0, PEER.ip));
    h.send(s, b"x", std::net::SocketAddr::from((FARAWAY, 9))).unwrap();
    assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, PEER.mac);
    h.assert_counters("out 1, audit.made 1, ip4.sent 1, udp.sent 1, icmp4.redirects_aged 1");
}

fn a_redirect_does_not_change_a_configured_route<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.accept_redirects.set(1);
    h.route("198.51.100.7/32", Via::Gateway(EM0, PEER.ip));
    h.inject(EM0, redirect(PEER, OTHER.ip));
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, icmp4.received 1, icmp4.in.redirect_ignored 1");
    // A route that came from a redirect and was then configured stays after ten minutes.
    h.stack.remove_route(h.cx(), prefix("198.51.100.7/32"));
    h.route("0.0.0.0/0", Via::Gateway(EM0, PEER.ip));
    h.inject(EM0, redirect(PEER, OTHER.ip));
    h.route("198.51.100.7/32", Via::Gateway(EM0, GATEWAY.ip));
    h.advance_secs(3600);
    assert_eq!(h.stack.route_to(h.cx(), FARAWAY).unwrap().via, Via::Gateway(EM0, GATEWAY.ip));
}

/// A gateway, or a station that uses its address, cannot fill the FIB with redirects.
fn routes_made_by_redirects_are_bounded<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.accept_redirects.set(1);
    h.route("0.0.0.0/0", Via::Gateway(EM0, PEER.ip));
    let before = h.stack.routes(h.cx()).len();
    let faraway = |n: u32| Ipv4Addr::from(0xc633_0000 + n);
    for n in 0..1000 {
        let quoted = Ip::udp((ME.ip, 1000), (faraway(n), 9), b"x").packet();
        h.inject(EM0, error_frame(PEER, ME, Problem::Redirect { code: 1, gateway: OTHER.ip }, &quoted));
        h.advance(Duration::from_millis(1));
    }
    assert_eq!(h.stack.routes(h.cx()).len(), before + 256);
    assert_eq!(h.stack.route_to(h.cx(), faraway(743)).unwrap().via, Via::Gateway(EM0, PEER.ip));
    assert_eq!(h.stack.route_to(h.cx(), faraway(744)).unwrap().via, Via::Gateway(EM0, OTHER.ip));
    h.assert_counters(
        "in 1000, ip4.received 1000, ip4.delivered 1000, icmp4.received 1000, icmp4.redirects_accepted 1000, \
         icmp4.redirects_evicted 744, icmp4.in.consumed 1000",
    );
    h.pass(Duration::from_secs(601));
    assert_eq!(h.stack.routes(h.cx()).len(), before);
    h.assert_counters("icmp4.redirects_aged 256");
}

// ---- path MTU -----------------------------------------------------------------------------------------------------

fn too_big(next_mtu: u16) -> Problem {
    Problem::Unreachable { code: unreachable::FRAG_NEEDED, next_mtu }
}

/// Returns the length of the longest packet in which a datagram of `len` bytes is sent.
fn longest<L: Locks>(h: &Host<L>, s: usize, len: usize) -> usize {
    h.send(s, &vec![1; len], at(PEER, 9)).unwrap();
    h.sent(EM0).iter().map(|frame| frame.len() - 14).max().unwrap()
}

fn a_lower_path_mtu_is_learned_and_expires_after_ten_minutes<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    assert_eq!(longest(&h, s, 1472), 1500);
    assert_eq!(longest(&h, s, 1472), 1500);
    h.inject(EM0, error_frame(OTHER, ME, too_big(1000), &own(&[1; 1472]).packet()[..28]));
    assert!(longest(&h, s, 1472) <= 1000);
    assert_eq!(longest(&h, s, 972), 1000);
    h.inject(EM0, error_frame(OTHER, ME, too_big(1400), &own(&[1; 1472]).packet()[..28]));
    assert!(longest(&h, s, 1472) <= 1000, "a larger MTU is not accepted");
    h.advance_secs(599);
    assert!(longest(&h, s, 1472) <= 1000);
    h.advance_secs(2);
    assert_eq!(longest(&h, s, 1472), 1500, "RFC 1191 6.3: tried again");
}

fn a_lower_path_mtu_is_accepted_only_for_datagrams_of_ours<L: Locks>() {
    let h = host::<L>();
    let s = h.connected(1000, at(PEER, 9));
    for quoted in [
        Ip::udp((ME.ip, 1001), (PEER.ip, 9), b"x"),
        Ip::udp((ME.ip, 1000), (PEER.ip, 10), b"x"),
        Ip::udp((OTHER.ip, 1000), (PEER.ip, 9), b"x"),
        Ip::new(ME.ip, PEER.ip, Proto::TCP, own(b"x").payload),
        Ip::new(ME.ip, PEER.ip, Proto::ICMP, echo(8, 1, 1, b"x")),
    ] {
        h.inject(EM0, error_frame(OTHER, ME, too_big(600), &quoted.packet()));
    }
    h.send(s, &[1; 1472], None).unwrap();
    assert_eq!(h.sent_one(EM0).len(), 1514);
}

fn no_path_mtu_below_552_is_accepted<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    for mtu in [68, 1, 67, 551] {
        h.inject(EM0, error_frame(OTHER, ME, too_big(mtu), &own(&[1; 1472]).packet()[..28]));
    }
    assert_eq!(longest(&h, s, 524), 552);
    h.send(s, &[1; 1472], at(PEER, 9)).unwrap();
    assert_eq!(h.sent(EM0).len(), 3, "not crumbs");
}

/// RFC 1191 7.1: without an MTU in the error, the quoted total length determines the next plateau.
fn an_error_without_an_mtu_lowers_the_path_mtu_to_the_next_plateau<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    h.inject(EM0, error_frame(OTHER, ME, too_big(0), &own(&[1; 1472]).packet()[..28]));
    assert_eq!(longest(&h, s, 1464), 1492);
    h.inject(EM0, error_frame(OTHER, ME, too_big(0), &own(&[1; 1464]).packet()[..28]));
    assert_eq!(longest(&h, s, 978), 1006);
    assert!(longest(&h, s, 1464) <= 1006);
}

fn a_datagram_with_df_is_limited_by_the_path_mtu<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    h.options(s, |o| o.dont_fragment = true);
    assert_eq!(h.send(s, &[1; 1472], at(PEER, 9)), Ok(1472));
    assert!(ip_of(&h.sent_one(EM0)).1.df);
    assert!(h.send(s, &[1; 1473], at(PEER, 9)).is_err());
    h.inject(EM0, error_frame(OTHER, ME, too_big(1000), &own(&[1; 1472]).df().packet()[..28]));
    assert!(matches!(h.send(s, &[1; 973], at(PEER, 9)), Err(SendError::Output(_))));
    h.sent_nothing(EM0);
    assert_eq!(h.send(s, &[1; 972], at(PEER, 9)), Ok(972));
    assert_eq!(h.sent_one(EM0).len(), 1014);
}
