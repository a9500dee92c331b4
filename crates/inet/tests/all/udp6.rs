//! Conversations about UDP over IPv6: RFC 8200 8.1, RFC 3493, RFC 4443, RFC 8201.

use crate::common::packets::*;
use crate::common::six::*;
use crate::common::*;
use linerate_inet::iface::Offload;
use linerate_inet::ip4::OutputError;
use linerate_inet::udp::{BindError, SendError, SoError};
use lock::Locks;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::Proto;
use wire::checksum::Partial;
use wire::icmp6::{Problem, unreachable};

conversations! {
    a_datagram_is_received_and_answered
    a_socket_of_any_address_receives_both_families
    a_socket_of_ipv6_alone_leaves_ipv4_to_others
    bound_addresses_of_the_families_are_independent
    a_connected_socket_receives_from_its_peer_only
    errors_reach_the_connected_socket
    a_reply_is_sent_from_the_address_that_was_addressed
    a_lower_path_mtu_is_an_error_and_then_fragments
    a_checksum_is_present_and_correct
    an_offloaded_checksum_is_computed_in_fragments
    chunks_of_both_families_are_delivered_in_order
    an_error_quotes_the_datagram_as_received
    extension_headers_and_fragments_do_not_hide_the_sender
    cached_headers_equal_the_first_ones
    options_set_the_header_fields
    two_hosts_exchange_datagrams_with_empty_tables
    this_host_sends_to_itself
    invalid_bind_addresses_are_rejected
}

fn a_datagram_is_received_and_answered<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    h.inject(EM0, udp6((PEER6.ip, 5), (ME6.ip, 9), b"question").between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.delivered 1, udp.received 1, udp.delivered 1");
    let got = h.stack.udp_recv(h.cx(), s).unwrap();
    assert_eq!((got.frame.bytes(), got.from, got.to), (&b"question"[..], (PEER6.ip, 5).into(), ME6.ip.into()));
    assert_eq!((got.iface, got.more), (Some(EM0), false));
    h.forget_counters();
    assert_eq!(h.send(s, b"answer", got.from), Ok(6));
    let (link, header, payload) = h.sent6_one(EM0);
    assert_eq!((link.dst, header.src, header.dst, header.hop_limit), (PEER6.mac, ME6.ip, PEER6.ip, 64));
    assert_ne!(header.flow_label, 0);
    let (datagram, text) = udp6_of(&header, &payload);
    assert_eq!((datagram.src.0, datagram.dst.0, text), (9, 5, b"answer".to_vec()));
    h.audit();
}

fn a_socket_of_any_address_receives_both_families<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    h.inject(EM0, udp6((PEER6.ip, 5), (ME6.ip, 9), b"six").between(PEER6, ME6));
    h.inject(EM0, udp_frame(PEER, 5, ME, 9, b"four"));
    let mapped = SocketAddr::from((PEER.ip.to_ipv6_mapped(), 5));
    assert_eq!(h.recv(s), Some((b"six".to_vec(), (PEER6.ip, 5).into())));
    assert_eq!(h.recv(s), Some((b"four".to_vec(), mapped)));
    assert_eq!(h.send(s, b"back", mapped), Ok(4));
    let frame = h.sent_one(EM0);
    assert_eq!((udp_of(&frame).0.src.0, ip_of(&frame).1.dst), (9, PEER.ip), "by IPv4");
    // The port is taken for a socket of either family.
    let four = h.open();
    assert_eq!(h.stack.udp_bind(h.cx(), four, any(9)), Err(BindError::InUse));
    let again = h.open6();
    assert_eq!(h.stack.udp_bind(h.cx(), again, any6(9)), Err(BindError::InUse));
    // After the close, the port is free in both families.
    assert!(h.stack.udp_close(h.cx(), s));
    assert!(h.stack.udp_bind(h.cx(), four, any(9)).is_ok());
    h.inject(EM0, udp_frame(PEER, 5, ME, 9, b"four"));
    assert_eq!(h.recv(four), Some((b"four".to_vec(), at(PEER, 5))));
    h.audit();
}

fn a_socket_of_ipv6_alone_leaves_ipv4_to_others<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let (six, four) = (h.open6(), h.open());
    h.options(six, |options| options.v6only = true);
    h.stack.udp_bind(h.cx(), six, any6(9)).unwrap();
    h.stack.udp_bind(h.cx(), four, any(9)).unwrap();
    h.inject(EM0, udp6((PEER6.ip, 5), (ME6.ip, 9), b"six").between(PEER6, ME6));
    h.inject(EM0, udp_frame(PEER, 5, ME, 9, b"four"));
    assert_eq!((h.recv(six).unwrap().0, h.recv(six)), (b"six".to_vec(), None));
    assert_eq!((h.recv(four).unwrap().0, h.recv(four)), (b"four".to_vec(), None));
    let mapped = SocketAddr::from((PEER.ip.to_ipv6_mapped(), 5));
    assert_eq!(h.send(six, b"x", mapped), Err(SendError::BadDestination));
    assert_eq!(h.stack.udp_connect(h.cx(), six, mapped), Err(BindError::Invalid));
    let other = h.open6();
    h.options(other, |options| options.v6only = true);
    assert_eq!(h.stack.udp_bind(h.cx(), other, any6(9)), Err(BindError::InUse));
    h.stack.sysctls.v6only.set(1);
    let by_sysctl = h.bound6(any6(10));
    h.forget_counters();
    h.inject(EM0, udp_frame(PEER, 5, ME, 10, b"four"));
    assert_eq!(h.recv(by_sysctl), None);
    h.sent(EM0);
    h.audit();
}

fn bound_addresses_of_the_families_are_independent<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let six = h.bound6((ME6.ip, 9));
    let mapped = h.bound6((ME.ip.to_ipv6_mapped(), 9));
    let four = h.open();
    assert_eq!(h.stack.udp_bind(h.cx(), four, at(ME, 9)), Err(BindError::InUse), "the mapped address is in use");
    h.inject(EM0, udp6((PEER6.ip, 5), (ME6.ip, 9), b"six").between(PEER6, ME6));
    h.inject(EM0, udp_frame(PEER, 5, ME, 9, b"four"));
    assert_eq!((h.recv(six).unwrap().0, h.recv(six)), (b"six".to_vec(), None));
    assert_eq!(h.recv(mapped), Some((b"four".to_vec(), (PEER.ip.to_ipv6_mapped(), 5).into())));
    assert_eq!(h.send(six, b"x", SocketAddr::from((PEER.ip.to_ipv6_mapped(), 5))), Err(SendError::BadDestination));
    assert_eq!(h.send(mapped, b"x", SocketAddr::from((PEER6.ip, 5))), Err(SendError::BadDestination));
    assert_eq!(h.stack.udp_connect(h.cx(), six, (PEER.ip.to_ipv6_mapped(), 5).into()), Err(BindError::Family));
    assert_eq!(h.send(four, b"x", SocketAddr::from((PEER6.ip, 5))), Err(SendError::BadDestination));
    assert_eq!(h.send(six, b"x", at(PEER, 5)), Err(SendError::BadDestination));
    assert_eq!(h.send(mapped, b"x", at(PEER, 5)), Ok(1), "an IPv4 address need not be mapped, as in Linux");
    assert_eq!(ip_of(&h.sent_one(EM0)).1.dst, PEER.ip);
    h.audit();
}

fn a_connected_socket_receives_from_its_peer_only<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    h.stack.udp_connect(h.cx(), s, (PEER6.ip, 5).into()).unwrap();
    let (local, peer) = h.stack.with_pcb(h.cx(), s, |pcb| (pcb.local_addr(), pcb.peer_addr())).unwrap();
    assert_eq!((local, peer), ((ME6.ip, 9).into(), Some((PEER6.ip, 5).into())));
    h.inject(EM0, udp6((PEER6.ip, 6), (ME6.ip, 9), b"another port").between(PEER6, ME6));
    h.inject(EM0, udp6((OTHER6.ip, 5), (ME6.ip, 9), b"another host").between(OTHER6, ME6));
    h.inject(EM0, udp_frame(PEER, 5, ME, 9, b"another family"));
    h.inject(EM0, udp6((PEER6.ip, 5), (ME6.ip, 9), b"this one").between(PEER6, ME6));
    assert_eq!((h.recv(s), h.recv(s)), (Some((b"this one".to_vec(), (PEER6.ip, 5).into())), None));
    h.sent(EM0);
    assert_eq!(h.send(s, b"x", None), Ok(1));
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!((header.dst, udp6_of(&header, &payload).0.dst.0), (PEER6.ip, 5));
    // Connect to the other family, then disconnect.
    h.stack.udp_disconnect(h.cx(), s).unwrap();
    h.stack.udp_connect(h.cx(), s, (PEER.ip.to_ipv6_mapped(), 7).into()).unwrap();
    let (local, peer) = h.stack.with_pcb(h.cx(), s, |pcb| (pcb.local_addr(), pcb.peer_addr())).unwrap();
    assert_eq!(local, (ME.ip.to_ipv6_mapped(), 9).into());
    assert_eq!(peer, Some((PEER.ip.to_ipv6_mapped(), 7).into()));
    h.inject(EM0, udp_frame(PEER, 7, ME, 9, b"four"));
    assert_eq!(h.recv(s).unwrap().0, b"four");
    h.stack.udp_disconnect(h.cx(), s).unwrap();
    h.inject(EM0, udp6((OTHER6.ip, 5), (ME6.ip, 9), b"six").between(OTHER6, ME6));
    h.inject(EM0, udp_frame(OTHER, 5, ME, 9, b"four"));
    assert_eq!([h.recv(s).unwrap().0, h.recv(s).unwrap().0], [b"six".to_vec(), b"four".to_vec()]);
    h.audit();
}

fn errors_reach_the_connected_socket<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    h.stack.udp_connect(h.cx(), s, (PEER6.ip, 5).into()).unwrap();
    for (problem, error) in [
        (Problem::Unreachable { code: unreachable::PORT }, SoError::Refused),
        (Problem::Unreachable { code: unreachable::NO_ROUTE }, SoError::NetUnreachable),
        (Problem::Unreachable { code: unreachable::ADDRESS }, SoError::HostUnreachable),
        (Problem::TimeExceeded { code: 0 }, SoError::HostUnreachable),
        (Problem::Parameter { code: 1, pointer: 6 }, SoError::ProtocolOption),
    ] {
        assert_eq!(h.send(s, b"x", None), Ok(1));
        let frame = h.sent_one(EM0);
        h.forget_counters();
        h.inject(EM0, error6(PEER6.ip, ME6.ip, problem, &frame[14..]).between(PEER6, ME6));
        assert_eq!(h.error(s), Some(error), "{problem:?}");
        h.assert_counters(
            "in 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.errors_delivered 1, icmp6.in.consumed 1",
        );
        // An error about a datagram that was not sent from these ports is ignored (RFC 5927).
        let mut other = frame[14..].to_vec();
        other[41] ^= 1;
        h.inject(EM0, error6(PEER6.ip, ME6.ip, problem, &other).between(PEER6, ME6));
        assert_eq!(h.error(s), None);
    }
    // An unconnected socket gets no error, since it could not identify the datagram.
    let free = h.bound6(any6(10));
    assert_eq!(h.send(free, b"x", SocketAddr::from((PEER6.ip, 5))), Ok(1));
    let frame = h.sent_one(EM0);
    let port = Problem::Unreachable { code: unreachable::PORT };
    h.inject(EM0, error6(PEER6.ip, ME6.ip, port, &frame[14..]).between(PEER6, ME6));
    assert_eq!(h.error(free), None);
    h.audit();
}

fn a_reply_is_sent_from_the_address_that_was_addressed<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let alias: Ipv6Addr = "fd00::a".parse().unwrap();
    h.stack.add_addr6(h.cx(), EM0, linerate_inet::ip6::IfaceAddr6::new(alias, 64)).unwrap();
    h.advance_secs(2);
    h.sent(EM0);
    let s = h.bound6(any6(9));
    for requested in [alias, ME6.ip] {
        h.inject(EM0, udp6((PEER6.ip, 5), (requested, 9), b"?").between(PEER6, ME6));
        let got = h.stack.udp_recv(h.cx(), s).unwrap();
        assert_eq!(got.to, IpAddr::from(requested));
        assert_eq!(h.send_from(s, b"!", got.from, got.to), Ok(1));
        assert_eq!(h.sent6_one(EM0).1.src, requested);
    }
    let from = |src: IpAddr| h.send_from(s, b"!", (PEER6.ip, 5).into(), src);
    assert_eq!(from(OTHER6.ip.into()), Err(SendError::BadSource));
    assert_eq!(from(ME.ip.into()), Err(SendError::BadSource), "the source is of the other family");
    assert_eq!(from(Ipv6Addr::UNSPECIFIED.into()), Ok(1));
    // IPv4 on the same socket: the answer comes from the mapped address to which the request was
    // sent.
    h.sent(EM0);
    h.inject(EM0, udp_frame(PEER, 5, ME, 9, b"?"));
    let got = h.stack.udp_recv(h.cx(), s).unwrap();
    assert_eq!(got.to, IpAddr::from(ME.ip));
    for src in [got.to, IpAddr::from(ME.ip.to_ipv6_mapped())] {
        assert_eq!(h.send_from(s, b"!", got.from, src), Ok(1));
        assert_eq!(ip_of(&h.sent_one(EM0)).1.src, ME.ip);
    }
    h.audit();
}

fn a_lower_path_mtu_is_an_error_and_then_fragments<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    h.stack.udp_connect(h.cx(), s, (PEER6.ip, 5).into()).unwrap();
    let long = vec![7; 1400];
    assert_eq!(h.send(s, &long, None), Ok(1400));
    let frame = h.sent_one(EM0);
    h.inject(EM0, error6(PEER6.ip, ME6.ip, Problem::TooBig { mtu: 1300 }, &frame[14..]).between(PEER6, ME6));
    assert_eq!(h.send(s, &long, None), Err(SendError::Earlier(SoError::MessageSize)));
    assert_eq!(h.send(s, &long, None), Ok(1400));
    let sent = h.sent6(EM0);
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|(_, header, payload)| header.next == Proto::FRAGMENT && payload.len() + 40 <= 1300));
    // An MTU below the minimum of IPv6 links is not accepted (RFC 8201 4), and no error is
    // reported.
    h.inject(EM0, error6(PEER6.ip, ME6.ip, Problem::TooBig { mtu: 1279 }, &frame[14..]).between(PEER6, ME6));
    assert_eq!(h.error(s), None);
    h.options(s, |options| options.dont_fragment = true);
    assert_eq!(h.send(s, &long, None), Err(SendError::Output(OutputError::TooBig(1300))));
    assert_eq!(h.send(s, &long[..1252], None), Ok(1252), "as much as the path MTU permits");
    h.sent_one(EM0);
    h.audit();
}

fn a_checksum_is_present_and_correct<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    let mut none = udp6((PEER6.ip, 5), (ME6.ip, 9), b"none");
    none.payload[6..8].fill(0);
    let mut wrong = udp6((PEER6.ip, 5), (ME6.ip, 9), b"wrong");
    wrong.payload[8] ^= 1;
    let mut short = udp6((PEER6.ip, 5), (ME6.ip, 9), b"short");
    short.payload[5] = 7;
    let mut long = udp6((PEER6.ip, 5), (ME6.ip, 9), b"long");
    long.payload[5] += 1;
    for (packet, why) in [
        (none, "bad_checksum"),
        (wrong, "bad_checksum"),
        (short, "bad_length"),
        (long, "bad_length"),
        (udp6((PEER6.ip, 5), (ME6.ip, 0), b"zero"), "port_zero"),
    ] {
        h.forget_counters();
        h.inject(EM0, packet.between(PEER6, ME6));
        h.assert_counters(&format!("in 1, ip6.received 1, ip6.delivered 1, udp.received 1, udp.in.{why} 1"));
        assert_eq!(h.recv(s), None);
    }
    // Bytes after the end of the datagram are not delivered.
    let mut padded = udp6((PEER6.ip, 5), (ME6.ip, 9), b"text");
    padded.payload.extend(b"more");
    padded.header.payload_len += 4;
    h.inject(EM0, padded.between(PEER6, ME6));
    assert_eq!(h.recv(s).unwrap().0, b"text");
    h.audit();
}

fn an_offloaded_checksum_is_computed_in_fragments<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    h.stack.udp_connect(h.cx(), s, (PEER6.ip, 5).into()).unwrap();
    h.set_checked(EM0, Checked::Nothing);
    let on = Offload { tx_l4: true, ..Offload::default() };
    assert_eq!(h.stack.set_offload(EM0, on), Some(on));
    let is_good = |segment: &[u8]| {
        let pseudo = Partial::pseudo6(ME6.ip, PEER6.ip, Proto::UDP, segment.len() as u32);
        wire::udp::checksum_ok(pseudo, segment)
    };
    let long = vec![7; 1400];
    // First through the layers, then with cached headers: the checksum field contains the sum of
    // the pseudo header.
    for _ in 0..2 {
        assert_eq!(h.send(s, &long, None), Ok(1400));
        let (_, _, mut segment) = h.sent6_one(EM0);
        assert!(!is_good(&segment));
        let field = wire::checksum::sum(&segment).finish();
        segment[6..8].copy_from_slice(&field.to_be_bytes());
        assert!(is_good(&segment));
    }
    assert_eq!(h.send(s, &long, None), Ok(1400));
    let frame = h.sent_one(EM0);
    h.inject(EM0, error6(PEER6.ip, ME6.ip, Problem::TooBig { mtu: 1300 }, &frame[14..]).between(PEER6, ME6));
    assert_eq!(h.send(s, &long, None), Err(SendError::Earlier(SoError::MessageSize)));
    assert_eq!(h.send(s, &long, None), Ok(1400));
    let sent = h.sent6(EM0);
    assert!(sent.len() == 2 && sent.iter().all(|(_, header, _)| header.next == Proto::FRAGMENT));
    let whole: Vec<u8> = sent.iter().flat_map(|(_, _, payload)| payload[8..].to_vec()).collect();
    assert!(whole.len() == 1408 && is_good(&whole));
    h.audit();
}

// A burst of both families that includes packets for the slow paths. Every datagram is delivered,
// in the order of its family.
fn chunks_of_both_families_are_delivered_in_order<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let (six, four) = (h.bound6(any6(9)), h.open());
    h.stack.udp_bind(h.cx(), four, any(10)).unwrap();
    for first_is_six in [true, false] {
        h.forget_counters();
        let frames: Vec<Vec<u8>> = (0..30u8)
            .map(|n| {
                let packet = udp6((PEER6.ip, 5), (ME6.ip, 9), &[n]);
                match n % 5 {
                    _ if (n % 2 == 0) != first_is_six => udp_frame(PEER, 5, ME, 10, &[n]),
                    // An extension header requires the slow path, which is outside the order of a
                    // chunk.
                    3 => packet.with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]).between(PEER6, ME6),
                    _ => packet.between(PEER6, ME6),
                }
            })
            .collect();
        h.inject_all(EM0, &frames);
        let all = |socket: usize| std::iter::from_fn(|| h.recv(socket)).map(|(text, ..)| text[0]).collect::<Vec<u8>>();
        let (sixes, fours) = (all(six), all(four));
        assert_eq!(sixes.len() + fours.len(), 30);
        assert!(fours.is_sorted(), "{fours:?}");
        let plain: Vec<u8> = sixes.iter().copied().filter(|n| n % 5 != 3).collect();
        assert!(plain.is_sorted(), "{plain:?}");
        h.assert_counters(&format!(
            "in 30, audit.consumed 30, ip6.received {0}, ip6.delivered {0}, ip4.received {1}, ip4.delivered {1}, udp.received 30, \
             udp.delivered 30",
            sixes.len(),
            fours.len()
        ));
    }
    h.audit();
}

fn an_error_quotes_the_datagram_as_received<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let plain = udp6((PEER6.ip, 5), (ME6.ip, 77), b"nobody");
    let mut longer = udp6((PEER6.ip, 5), (ME6.ip, 77), b"nobody");
    longer.payload.extend(b"more");
    longer.header.payload_len += 4;
    for packet in [plain, longer] {
        let frame = packet.between(PEER6, ME6);
        h.inject(EM0, frame.clone());
        let (_, header, payload) = h.sent6_one(EM0);
        assert_eq!((header.next, &payload[..2]), (Proto::IPV6_ICMP, &[1, 4][..]), "port unreachable");
        assert_eq!(payload[8..], frame[14..], "RFC 4443 3.1");
    }
    h.audit();
}

fn extension_headers_and_fragments_do_not_hide_the_sender<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    let plain = udp6((PEER6.ip, 5), (ME6.ip, 9), &[3; 600]);
    let options = plain.clone().with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]);
    // More than the 127 bytes that a frame can record as pulled from its front.
    let many = (0..4)
        .fold(plain.clone(), |packet, _| packet.with(Proto::DEST_OPTIONS, &[&[0, 4, 1, 36][..], &[0; 36]].concat()));
    for packet in [options, many] {
        h.inject(EM0, packet.between(PEER6, ME6));
        let got = h.stack.udp_recv(h.cx(), s).unwrap();
        assert_eq!((got.frame.bytes(), got.from, got.to), (&[3; 600][..], (PEER6.ip, 5).into(), ME6.ip.into()));
    }
    for (off, len) in [(0, 400), (400, 400)] {
        h.inject(EM0, plain.fragment(1, off, len).between(PEER6, ME6));
    }
    let got = h.stack.udp_recv(h.cx(), s).unwrap();
    assert_eq!((got.frame.bytes(), got.from), (&[3; 600][..], (PEER6.ip, 5).into()));
    // An error about a datagram without a socket quotes it as it arrived.
    let stray = udp6((PEER6.ip, 5), (ME6.ip, 99), b"?").with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]);
    h.inject(EM0, stray.between(PEER6, ME6));
    let (_, header, payload) = h.sent6_one(EM0);
    let port = Problem::Unreachable { code: unreachable::PORT };
    assert_eq!(error_of(&header, &payload), (port, stray.packet()));
    h.audit();
}

fn cached_headers_equal_the_first_ones<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    let to = SocketAddr::from((PEER6.ip, 5));
    let mut sent = Vec::new();
    for len in [8, 0, 1, 22, 1452] {
        h.forget_counters();
        assert_eq!(h.send(s, &vec![len as u8; len], to), Ok(len));
        let (link, header, payload) = h.sent6_one(EM0);
        assert_eq!(udp6_of(&header, &payload).1, vec![len as u8; len]);
        let cached = if sent.is_empty() { "" } else { ", udp.header_cached 1" };
        h.assert_counters(&format!("out 1, audit.made 1, ip6.sent 1, udp.sent 1{cached}"));
        sent.push((link, but_length(header)));
    }
    assert!(sent.windows(2).all(|two| two[0] == two[1]));
    // One byte more needs fragments, and another neighbor's address needs the slow path.
    assert_eq!(h.send(s, &[0; 1453], to), Ok(1453));
    assert_eq!(h.sent6(EM0).len(), 2);
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, OTHER6.mac);
    assert_eq!(h.send(s, b"x", to), Ok(1));
    assert_eq!(h.sent6_one(EM0).0.dst, OTHER6.mac);
    // A burst that begins without cached headers.
    h.options(s, |_| ());
    let many = [&b"one"[..], b"two", b"three"];
    assert_eq!(h.stack.udp_send_burst(h.cx(), s, many.into_iter(), Some(&to)), Ok(3));
    let texts: Vec<_> = h.sent6(EM0).iter().map(|(_, header, payload)| udp6_of(header, payload).1).collect();
    assert_eq!(texts, many);
    h.audit();
}

/// Returns a header with its length set to 0.
fn but_length(header: wire::ip6::Header) -> wire::ip6::Header {
    wire::ip6::Header { payload_len: 0, ..header }
}

fn options_set_the_header_fields<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound6(any6(9));
    let to = SocketAddr::from((PEER6.ip, 5));
    h.send(s, b"x", to).unwrap();
    h.sent(EM0);
    h.options(s, |options| (options.ttl, options.tos) = (Some(3), 0xb8));
    for _ in 0..2 {
        h.send(s, b"x", to).unwrap();
        let (_, header, _) = h.sent6_one(EM0);
        assert_eq!((header.hop_limit, header.traffic_class), (3, 0xb8));
    }
    h.options(s, |options| options.ttl = None);
    h.stack.sysctls.hop_limit6.set(9);
    h.stack.sysctls.auto_flowlabel.set(0);
    h.send(s, b"x", to).unwrap();
    let (_, header, _) = h.sent6_one(EM0);
    assert_eq!((header.hop_limit, header.flow_label), (9, 0));
    h.audit();
}

fn two_hosts_exchange_datagrams_with_empty_tables<L: Locks>() {
    let (a, b) = (Host::<L>::six(), Host::<L>::bare(64, 2));
    let em0 = b.add_iface("em0", PEER, 1500);
    b.stack.add_addr6(b.cx(), em0, linerate_inet::ip6::IfaceAddr6::new(PEER6.ip, 64)).unwrap();
    b.advance_secs(2);
    b.sent(em0);
    let (client, server) = (a.open6(), b.bound6(any6(9)));
    assert_eq!(a.send(client, b"hello", SocketAddr::from((PEER6.ip, 9))), Ok(5));
    pump(&a, &b);
    let (text, from) = b.recv(server).unwrap();
    assert_eq!((text, from.ip()), (b"hello".to_vec(), IpAddr::from(ME6.ip)));
    assert!(from.port() >= 49_152);
    assert_eq!(b.send(server, b"back", from), Ok(4));
    pump(&a, &b);
    assert_eq!(a.recv(client), Some((b"back".to_vec(), (PEER6.ip, 9).into())));
    a.audit();
    b.audit();
}

fn this_host_sends_to_itself<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let (from, to) = (h.bound6(any6(9)), h.bound6(any6(10)));
    for addr in [SocketAddr::from((ME6.ip, 10)), near(ME6.near, 10)] {
        assert_eq!(h.send(from, b"me", addr), Ok(2));
        h.poll();
        let mut source = addr;
        source.set_port(9);
        assert_eq!(h.recv(to), Some((b"me".to_vec(), source)));
    }
    let c = h.open6();
    h.stack.udp_connect(h.cx(), c, near(ME6.near, 11)).unwrap();
    assert_eq!(h.send(c, b"?", None), Ok(1));
    h.poll();
    assert_eq!(h.error(c), Some(SoError::Refused), "the port has no socket");
    h.sent_nothing(EM0);
    h.audit();
}

fn invalid_bind_addresses_are_rejected<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.open6();
    let bind = |addr: SocketAddr| h.stack.udp_bind(h.cx(), s, addr);
    assert_eq!(bind((PEER6.ip, 9).into()), Err(BindError::NotOurs));
    assert_eq!(bind((PEER.ip.to_ipv6_mapped(), 9).into()), Err(BindError::NotOurs));
    assert_eq!(bind((Ipv4Addr::UNSPECIFIED, 9).into()), Err(BindError::Family));
    assert_eq!(h.stack.udp_bind(h.cx(), h.open(), any6(9)), Err(BindError::Family));
    let connect = |addr: SocketAddr| h.stack.udp_connect(h.cx(), s, addr);
    assert_eq!(connect(any6(9)), Err(BindError::Invalid));
    assert_eq!(connect((PEER6.ip, 0).into()), Err(BindError::Invalid));
    assert_eq!(connect((PEER6.near, 9).into()), Err(BindError::Output(OutputError::NoRoute)));
    let unknown: Ipv6Addr = "2001:db8::9".parse().unwrap();
    assert_eq!(connect((unknown, 9).into()), Err(BindError::Output(OutputError::NoRoute)));
    let bound = bind(any6(0)).unwrap();
    assert!(bound.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED) && bound.port() >= 49_152);
    assert_eq!(bind(any6(9)), Err(BindError::AlreadyBound));
    // A tentative address is not assigned yet (RFC 4862 5.4).
    let tentative: Ipv6Addr = "fd00::77".parse().unwrap();
    h.stack.add_addr6(h.cx(), EM0, linerate_inet::ip6::IfaceAddr6::new(tentative, 64)).unwrap();
    let t = h.open6();
    assert_eq!(h.stack.udp_bind(h.cx(), t, (tentative, 9).into()), Err(BindError::NotOurs));
    h.advance_secs(2);
    assert!(h.stack.udp_bind(h.cx(), t, (tentative, 9).into()).is_ok());
    h.sent(EM0);
    h.audit();
}
