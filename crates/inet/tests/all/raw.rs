//! Conversations about raw sockets, the same in both families: RFC 3542 3, Linux's raw(7). Those
//! about ICMP sockets are in the module [`icmp`].

mod icmp;

use crate::common::kin::*;
use crate::common::*;
use linerate_inet::iface::LOOPBACK;
use linerate_inet::ip4::OutputError;
use linerate_inet::raw::{IcmpFilter, RawKind, RawState, SEND_ONLY, SOCKETS_MAX};
use linerate_inet::udp::{Ancillary, AncillaryKind, BindError, PacketInfo, SendError, SoError};
use lock::Locks;
use std::net::{IpAddr, SocketAddr};
use wire::{Proto, icmp4, icmp6};

conversations! {
    a_raw_socket_receives_its_protocol
    bound_and_connected_addresses_filter_packets
    the_stack_also_processes_packets_copied_to_raw_sockets
    fast_paths_also_copy_to_raw_sockets
    a_protocol_with_a_raw_socket_is_not_unreachable
    raw_packets_are_sent_with_a_header_of_the_stack
    a_program_writes_its_own_header
    an_invalid_included_header_is_rejected
    a_checksum_is_filled_in_and_verified
    a_filter_passes_types
    a_flood_is_limited_by_the_receive_buffer
    without_buffers_there_are_no_copies
    raw_sockets_receive_reassembled_packets
    errors_about_raw_packets_reach_connected_sockets
    ancillary_data_of_raw_packets
    sockets_are_bounded
    malformed_packets_break_no_invariant
}

const TEST: Proto = Proto(253); // RFC 3692

impl<L: Locks> Host<L> {
    fn raw(&self, kin: Kin, proto: Proto) -> usize {
        self.stack.raw_open(self.cx(), kin.domain(), RawKind::Raw(proto)).unwrap()
    }

    fn icmp(&self, kin: Kin) -> usize {
        self.stack.raw_open(self.cx(), kin.domain(), RawKind::Icmp).unwrap()
    }

    fn close(&self, ids: impl IntoIterator<Item = usize>) {
        ids.into_iter().for_each(|id| assert!(self.stack.udp_close(self.cx(), id)));
    }

    fn ident(&self, id: usize) -> u16 {
        self.stack.with_pcb(self.cx(), id, |pcb| pcb.local_addr().port()).unwrap()
    }

    fn with_raw(&self, id: usize, change: impl FnOnce(&mut RawState)) {
        self.stack.with_pcb(self.cx(), id, |pcb| change(pcb.raw_mut().unwrap())).unwrap();
    }

    fn all_from(&self, id: usize) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.recv(id)).map(|(bytes, _)| bytes).collect()
    }
}

fn end(ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, 0)
}

/// Returns the bytes that a raw socket reads for a packet.
fn read(kin: Kin, packet: &Pkt) -> Vec<u8> {
    kin.pick(packet.bytes(), packet.payload.clone())
}

/// Returns an echo request as a program writes it; the socket fills in identifier and checksum.
fn request(kin: Kin, seq: u8, data: &[u8]) -> Vec<u8> {
    [&[kin.request(), 0, 0xde, 0xad, 0xbe, 0xef, 0, seq], data].concat()
}

/// Returns the name of the IP counters: `ip4` or `ip6`.
fn ip(kin: Kin) -> &'static str {
    kin.pick("ip4", "ip6")
}

fn a_raw_socket_receives_its_protocol<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (s, other) = (h.raw(kin, TEST), h.raw(kin, Proto(252)));
        let alien = h.raw(kin.pick(Kin::Six, Kin::Four), TEST);
        let packet = kin.packet(TEST, *b"text");
        h.forget_counters();
        h.receives(&packet);
        let ip = ip(kin);
        h.assert_counters(&format!(
            "in 1, {ip}.received 1, {ip}.delivered 1, audit.made 1, raw.delivered 1, raw.in.consumed 1"
        ));
        assert_eq!(h.recv(s), Some((read(kin, &packet), end(kin.peer()))));
        h.assert_counters("audit.consumed 1");
        assert_eq!((h.recv(other), h.recv(alien)), (None, None));
        h.sent_nothing(EM0);
        h.close([s, other, alien]);
        h.forget_counters();
    }
}

fn bound_and_connected_addresses_filter_packets<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let all: Vec<usize> = (0..4).map(|_| h.raw(kin, TEST)).collect();
        let [any, bound, connected, elsewhere] = all[..] else { unreachable!() };
        h.stack.udp_bind(h.cx(), bound, end(kin.me())).unwrap();
        h.stack.udp_connect(h.cx(), connected, end(kin.peer())).unwrap();
        h.stack.udp_connect(h.cx(), elsewhere, end(kin.other())).unwrap();
        assert_eq!(h.stack.udp_bind(h.cx(), any, end(kin.other())), Err(BindError::NotOurs));
        let taken = || -> Vec<usize> { all.iter().filter(|id| !h.all_from(**id).is_empty()).copied().collect() };
        h.receives(&kin.packet(TEST, *b"text"));
        assert_eq!(taken(), [any, bound, connected]);
        h.receives(&Pkt { src: kin.other(), ..kin.packet(TEST, *b"text") });
        assert_eq!(taken(), [any, bound, elsewhere]);
        // A raw socket can be bound repeatedly. After a disconnect it receives from all peers.
        h.stack.udp_bind(h.cx(), bound, end(kin.any())).unwrap();
        h.stack.udp_disconnect(h.cx(), elsewhere).unwrap();
        h.receives(&kin.packet(TEST, *b"text"));
        assert_eq!(taken(), all);
        let peer = h.stack.with_pcb(h.cx(), connected, |pcb| (pcb.local_addr(), pcb.peer_addr())).unwrap();
        assert_eq!(peer, (end(kin.me()), Some(end(kin.peer()))));
        h.stack.udp_shutdown(h.cx(), connected, true, false).unwrap();
        h.receives(&kin.packet(TEST, *b"text"));
        assert_eq!(h.recv(connected), None);
        h.close(all);
        // Unread packets are dropped with their socket.
        assert!(h.counter("inet.raw.in.closed") >= 3);
    }
}

fn the_stack_also_processes_packets_copied_to_raw_sockets<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let sockets = [h.raw(kin, kin.icmp()), h.raw(kin, kin.icmp())];
        let echo = kin.message(kin.peer(), kin.request(), 0, [0, 7, 0, 1], b"data");
        h.forget_counters();
        h.receives(&echo);
        let (ip, icmp) = (ip(kin), kin.pick("icmp4", "icmp6"));
        h.assert_counters(&format!(
            "in 1, out 1, {ip}.received 1, {ip}.delivered 1, {ip}.sent 1, {icmp}.received 1, {icmp}.echoes_answered 1, \
             audit.made 2, raw.delivered 2"
        ));
        assert_eq!(h.sent_packet().payload[..2], [kin.reply(), 0]);
        for s in sockets {
            assert_eq!(h.recv(s), Some((read(kin, &echo), end(kin.peer()))));
            h.close([s]);
        }
        // Without raw sockets, the result is the same as before.
        h.forget_counters();
        h.receives(&echo);
        h.assert_counters(&format!(
            "in 1, out 1, {ip}.received 1, {ip}.delivered 1, {ip}.sent 1, {icmp}.received 1, {icmp}.echoes_answered 1"
        ));
        h.sent(EM0);
    }
}

fn fast_paths_also_copy_to_raw_sockets<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (raw, udp) = (h.raw(kin, Proto::UDP), h.bound_of(kin, 9));
        let packet = kin.udp(5, 9, b"text");
        for n in [1, 40] {
            h.inject_all(EM0, (0..n).map(|_| packet.frame()));
            assert_eq!((h.all_from(raw), h.all_from(udp).len()), (vec![read(kin, &packet); n], n));
        }
        // A segment for no connection is reset as before.
        let tcp = h.raw(kin, Proto::TCP);
        let mut segment = vec![0, 5, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 9, 0, 0, 0, 0];
        let pseudo = pseudo(kin.peer(), kin.me(), Proto::TCP, 20);
        let sum = pseudo.add(wire::checksum::sum(&segment)).finish();
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        let packet = kin.packet(Proto::TCP, segment);
        h.receives(&packet);
        assert_eq!(h.all_from(tcp), [read(kin, &packet)]);
        assert_eq!(h.sent_packet().proto, Proto::TCP);
        h.close([raw, udp, tcp]);
    }
}

fn a_protocol_with_a_raw_socket_is_not_unreachable<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        for proto in [TEST, Proto::GRE] {
            h.receives(&kin.packet(proto, vec![0; 8]));
            assert_eq!(h.sent_packet().proto, kin.icmp(), "unreachable");
            let s = h.raw(kin, proto);
            h.receives(&kin.packet(proto, vec![0; 8]));
            h.sent_nothing(EM0);
            assert!(h.recv(s).is_some());
            h.close([s]);
            h.wait_a_second();
            h.receives(&kin.packet(proto, vec![0; 8]));
            assert_eq!(h.sent_packet().proto, kin.icmp(), "unreachable again");
        }
        // A socket of IPPROTO_RAW receives nothing.
        let s = h.raw(kin, SEND_ONLY);
        h.wait_a_second();
        h.receives(&kin.packet(SEND_ONLY, vec![0; 8]));
        assert_eq!((h.recv(s), h.sent_packet().proto), (None, kin.icmp()));
        h.close([s]);
    }
}

fn raw_packets_are_sent_with_a_header_of_the_stack<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.raw(kin, TEST);
        h.forget_counters();
        assert_eq!(h.send(s, b"text", end(kin.peer())), Ok(4));
        let expected = Pkt { src: kin.me(), dst: kin.peer(), ..kin.packet(TEST, *b"text") };
        assert_eq!(h.sent_packet(), expected);
        h.assert_counters(&format!("out 1, audit.made 1, {}.sent 1, raw.sent 1", ip(kin)));
        h.options(s, |options| (options.ttl, options.tos) = (Some(3), 0x48));
        let ancillary = Ancillary { ttl: Some(2), ..Ancillary::default() };
        assert_eq!(h.stack.udp_send_msg(h.cx(), s, b"text", Some(&end(kin.peer())), &ancillary), Ok(4));
        assert_eq!(h.sent_packet(), Pkt { ttl: 2, tos: 0x48, ..expected.clone() });
        assert_eq!(h.send(s, b"text", None), Err(SendError::NoDestination));
        h.stack.udp_connect(h.cx(), s, end(kin.peer())).unwrap();
        assert_eq!(h.send(s, b"", None), Ok(0));
        assert_eq!(h.sent_packet(), Pkt { ttl: 3, tos: 0x48, payload: vec![], ..expected });
        assert_eq!(h.send(s, &vec![0; 65_600], None), Err(SendError::TooLong));
        assert_eq!(h.send(s, &vec![7; 3000], None), Ok(3000));
        assert_eq!(h.sent(EM0).len(), 3, "in fragments");
        h.options(s, |options| options.dont_fragment = true);
        assert_eq!(h.send(s, &vec![7; 3000], None), Err(SendError::Output(OutputError::TooBig(1500))));
        let alien = kin.pick(Kin::Six, Kin::Four).peer();
        h.stack.udp_disconnect(h.cx(), s).unwrap();
        assert_eq!(h.send(s, b"text", end(alien)), Err(SendError::BadDestination));
        h.close([s]);
    }
}

fn a_program_writes_its_own_header<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.raw(Kin::Four, TEST);
    h.with_raw(s, |raw| raw.header_included = true);
    let send_only = h.raw(Kin::Four, SEND_ONLY);
    for s in [s, send_only] {
        // The stack fills in the total length, an identification or source that is 0, and the
        // checksum; other fields stay.
        let mut packet = packets::Ip::new([0, 0, 0, 0].into(), PEER.ip, Proto::SCTP, *b"text").id(0).ttl(5).tos(0x20);
        packet.header.df = true;
        let mut bytes = packet.packet();
        bytes[2..4].fill(0xff);
        bytes[10..12].fill(0);
        assert_eq!(h.send(s, &bytes, at(PEER, 0)), Ok(24));
        let frame = h.sent_one(EM0);
        let (link, ip, payload) = packets::ip_of(&frame);
        assert_eq!((link.dst, ip.src, ip.dst, ip.total_len), (PEER.mac, ME.ip, PEER.ip, 24));
        assert_eq!((ip.proto, ip.ttl, ip.tos, ip.df, payload), (Proto::SCTP, 5, 0x20, true, &b"text"[..]));
        assert_ne!(ip.id, 0);
        // Other fields stay as the program wrote them: a foreign source, an identification, a
        // fragment offset, options. The destination of the call determines the route.
        let packet = packets::Ip::new(FAR.ip, FAR.ip, TEST, vec![7; 64]).options(&[1; 4]).fragment(16, 32);
        assert_eq!(h.send(s, &packet.packet(), at(PEER, 0)), Ok(56));
        let frame = h.sent_one(EM0);
        let ip = packets::ip_of(&frame).1;
        assert_eq!((ip.src, ip.dst, ip.id, ip.frag_off, ip.mf), (FAR.ip, FAR.ip, 0x1234, 16, true));
        assert_eq!(frame[14..], packet.packet());
    }
    h.forget_counters();
    assert_eq!(h.send(s, &packets::Ip::new(ME.ip, ME.ip, TEST, *b"here").packet(), at(ME, 0)), Ok(24));
    h.poll();
    assert_eq!(h.recv(s).map(|(bytes, from)| (bytes[20..].to_vec(), from)), Some((b"here".to_vec(), at(ME, 0))));
}

fn an_invalid_included_header_is_rejected<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.raw(Kin::Four, SEND_ONLY);
    let sound = packets::Ip::new(ME.ip, PEER.ip, TEST, *b"text").packet();
    let changed = |at: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        h.send(s, &bytes, at_peer())
    };
    assert_eq!(changed(0, 0x65), Err(SendError::Invalid), "version 6");
    assert_eq!(changed(0, 0x44), Err(SendError::Invalid), "the header has only 16 bytes");
    assert_eq!(changed(0, 0x47), Err(SendError::Invalid), "the header is longer than the packet");
    assert_eq!(changed(8, 0), Err(SendError::Invalid), "TTL 0");
    assert_eq!(changed(12, 127), Err(SendError::Output(OutputError::NoRoute)), "a loopback source on a link");
    for len in 0..20 {
        assert_eq!(h.send(s, &sound[..len], at_peer()), Err(SendError::Invalid), "{len}");
    }
    let long = packets::Ip::new(ME.ip, PEER.ip, TEST, vec![7; 1481]).packet();
    assert_eq!(h.send(s, &long, at_peer()), Err(SendError::Output(OutputError::TooBig(1500))));
    assert_eq!(h.send(s, &long[..1500], at_peer()), Ok(1500));
    assert_eq!(h.sent(EM0).len(), 1);
    h.audit();
}

fn at_peer() -> SocketAddr {
    at(PEER, 0)
}

fn a_checksum_is_filled_in_and_verified<L: Locks>() {
    let (h, kin) = (Host::<L>::six_and_neighbors(), Kin::Six);
    let s = h.raw(kin, TEST);
    h.with_raw(s, |raw| raw.checksum_at = Some(4));
    assert_eq!(h.send(s, b"text##more", end(kin.peer())), Ok(10));
    let sent = h.sent_packet();
    let pseudo = pseudo(kin.me(), kin.peer(), TEST, 10);
    assert!(pseudo.add(wire::checksum::sum(&sent.payload)).verifies());
    assert_eq!((&sent.payload[..4], &sent.payload[6..]), (&b"text"[..], &b"more"[..]));
    assert_eq!(h.send(s, b"short", end(kin.peer())), Err(SendError::Invalid));
    // A packet that the socket has sent may return from the peer: the checksum does not depend on
    // the direction.
    h.forget_counters();
    h.receives(&kin.packet(TEST, sent.payload.clone()));
    assert_eq!(h.recv(s), Some((sent.payload.clone(), end(kin.peer()))));
    for wrong in [[&sent.payload[..9], b"?"].concat(), sent.payload[..5].to_vec(), vec![]] {
        h.receives(&kin.packet(TEST, wrong));
        assert_eq!(h.recv(s), None);
    }
    assert_eq!(h.counter("inet.raw.in.bad_checksum"), 3);
    // For ICMPv6, the checksum is always verified.
    let s = h.raw(kin, kin.icmp());
    assert_eq!(h.send(s, &request(kin, 1, b"data"), end(kin.peer())), Ok(12), "the wire verifies it");
    assert_eq!(h.sent_packet().payload[4..6], [0xbe, 0xef]);
    let mut echo = kin.answer(7, 1, b"data");
    h.receives(&echo);
    assert!(h.recv(s).is_some());
    echo.payload[9] ^= 1;
    h.receives(&echo);
    assert_eq!(h.recv(s), None);
}

fn a_filter_passes_types<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.raw(kin, kin.icmp());
        let types = |filter| {
            h.with_raw(s, |raw| raw.filter = filter);
            for ty in [kin.reply(), 200, 255] {
                h.receives(&kin.message(kin.peer(), ty, 0, [0; 4], b""));
            }
            let type_at = kin.pick(20, 0);
            h.all_from(s).into_iter().map(|bytes| bytes[type_at]).collect::<Vec<u8>>()
        };
        assert_eq!(types(IcmpFilter::PASS_ALL), [kin.reply(), 200, 255]);
        assert_eq!(types(IcmpFilter::BLOCK_ALL), []);
        assert_eq!(types(IcmpFilter::BLOCK_ALL.pass(255)), [255]);
        assert_eq!(types(IcmpFilter::PASS_ALL.block(200)), [kin.reply(), 255]);
        h.close([s]);
    }
}

fn a_flood_is_limited_by_the_receive_buffer<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (raw, icmp) = (h.raw(kin, kin.icmp()), h.icmp(kin));
        for s in [raw, icmp] {
            h.stack.with_pcb(h.cx(), s, |pcb| pcb.set_recv_limit(2000)).unwrap();
        }
        h.stack.udp_bind(h.cx(), icmp, SocketAddr::new(kin.any(), 7)).unwrap();
        h.forget_counters();
        for n in 0..200 {
            h.receives(&kin.answer(7, n, &[3; 100]));
        }
        let (got, replies) = (h.all_from(raw), h.all_from(icmp));
        assert!((5..20).contains(&got.len()) && (5..20).contains(&replies.len()), "{} {}", got.len(), replies.len());
        assert_eq!(got[0], read(kin, &kin.answer(7, 0, &[3; 100])), "the first packets are kept");
        let (kept, lost) = (got.len() + replies.len(), 400 - got.len() - replies.len());
        let (ip, icmp_) = (ip(kin), kin.pick("icmp4", "icmp6"));
        h.assert_counters(&format!(
            "in 200, {ip}.received 200, {ip}.delivered 200, {icmp_}.received 200, audit.made 200, raw.delivered {kept}, \
             raw.in.buffer_full {lost}, audit.consumed {kept}"
        ));
        h.close([raw, icmp]);
    }
}

fn without_buffers_there_are_no_copies<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.raw(kin, TEST);
        let frame = h.frame(&kin.packet(TEST, *b"text").frame());
        let others: Vec<_> = std::iter::from_fn(|| h.pool.get()).collect();
        h.forget_counters();
        h.stack.input(h.cx(), EM0, &mut buf::Burst::of(frame));
        let ip = ip(kin);
        h.assert_counters(&format!(
            "in 1, {ip}.received 1, {ip}.delivered 1, audit.made 1, raw.in.no_copy 1, raw.in.consumed 1"
        ));
        drop(others);
        h.close([s]);
    }
}

fn raw_sockets_receive_reassembled_packets<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let text: Vec<u8> = (0..600u16).map(|n| n as u8).collect();
    let (four, six) = (h.raw(Kin::Four, TEST), h.raw(Kin::Six, TEST));
    let packet = packets::Ip::new(PEER.ip, ME.ip, TEST, text.clone());
    for off in [0, 400] {
        h.inject(EM0, packet.fragment(off, 400).between(PEER, ME));
    }
    assert_eq!(h.recv(four), Some((packet.packet(), at_peer())));
    let optioned = packet.options(&[1; 8]);
    h.inject(EM0, optioned.between(PEER, ME));
    assert_eq!(h.recv(four), Some((optioned.packet(), at_peer())), "with its options");
    let packet = six::Ip6::new(six::PEER6.ip, six::ME6.ip, TEST, text.clone());
    let many = packet.clone().with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]);
    for off in [0, 400] {
        h.inject(EM0, many.fragment(1, off, 400).between(six::PEER6, six::ME6));
    }
    assert_eq!(h.recv(six), Some((text, end(Kin::Six.peer()))));
    // The header of an ICMP socket's message has no options in front of it.
    let icmp = h.icmp(Kin::Four);
    h.stack.udp_bind(h.cx(), icmp, any(7)).unwrap();
    let echo = packets::echo(icmp4::ty::ECHO_REPLY, 7, 1, b"data");
    for options in [0, 4, 8, 40] {
        let reply = packets::Ip::new(PEER.ip, ME.ip, Proto::ICMP, echo.clone()).options(&vec![1; options]).ttl(9);
        h.inject(EM0, reply.between(PEER, ME));
        let got = h.stack.udp_recv(h.cx(), icmp).unwrap();
        assert_eq!((got.frame.bytes(), got.from, got.to, got.ttl), (&echo[..], at_peer(), ME.ip.into(), 9));
    }
}

/// Returns an ICMP error from a router that quotes a sent packet.
fn error(kin: Kin, ty: u8, code: u8, rest: [u8; 4], quoted: &[u8]) -> Pkt {
    kin.message(kin.other(), ty, code, rest, quoted)
}

fn errors_about_raw_packets_reach_connected_sockets<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (connected, any) = (h.raw(kin, TEST), h.raw(kin, TEST));
        h.stack.udp_connect(h.cx(), connected, end(kin.peer())).unwrap();
        assert_eq!(h.send(connected, b"longer than 8 bytes", None), Ok(19));
        let quoted = h.sent_one(EM0)[14..].to_vec();
        let unreachable = kin.pick(icmp4::ty::UNREACHABLE, icmp6::ty::UNREACHABLE);
        h.receives(&error(kin, unreachable, kin.pick(2, 4), [0; 4], &quoted));
        assert_eq!((h.error(connected), h.error(any)), (Some(SoError::Refused), None));
        h.close([connected, any]);
    }
}

fn ancillary_data_of_raw_packets<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (raw, icmp) = (h.raw(kin, kin.icmp()), h.icmp(kin));
        h.stack.udp_bind(h.cx(), icmp, SocketAddr::new(kin.any(), 7)).unwrap();
        for s in [raw, icmp] {
            h.receives(&Pkt { ttl: 9, tos: 0x20, ..kin.answer(7, 0, b"before") });
            for kind in [AncillaryKind::PacketInfo, AncillaryKind::Ttl, AncillaryKind::Tos] {
                h.stack.with_pcb(h.cx(), s, |pcb| pcb.set_receives(kind, true)).unwrap();
            }
            h.all_from(raw).into_iter().for_each(|bytes| assert_eq!(bytes[0], kin.pick(0x45, kin.reply())));
            h.all_from(icmp).into_iter().for_each(|bytes| assert_eq!(bytes[0], kin.reply()));
            let sent = Pkt { ttl: 9, tos: 0x20, ..kin.answer(7, 1, b"after") };
            h.receives(&sent);
            let got = h.stack.udp_recv(h.cx(), s).unwrap();
            let info = Some(PacketInfo { addr: kin.me(), iface: Some(EM0) });
            assert_eq!(got.ancillary(), Ancillary { info, ttl: Some(9), tos: Some(0x20) });
            let bytes = if s == raw { read(kin, &sent) } else { sent.payload };
            assert_eq!(got.frame.bytes(), bytes);
            h.all_from(raw);
            h.all_from(icmp);
        }
        assert_eq!(h.send(icmp, &request(kin, 1, b""), end(kin.me())), Ok(8));
        for _ in 0..3 {
            h.poll();
        }
        let got = h.stack.udp_recv(h.cx(), icmp).unwrap();
        assert_eq!(got.ancillary().info.unwrap().iface, Some(LOOPBACK));
        h.close([raw, icmp]);
    }
}

fn sockets_are_bounded<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let open = |kin: Kin| h.stack.raw_open(h.cx(), kin.domain(), RawKind::Raw(TEST));
    let all: Vec<usize> = (0..SOCKETS_MAX).map(|n| open(BOTH[n % 2]).unwrap()).collect();
    assert_eq!(open(Kin::Four), None);
    h.close([all[7]]);
    assert_eq!(open(Kin::Four), Some(all[7]));
}

/// Random bytes as packets of the protocols of raw and ICMP sockets.
fn malformed_packets_break_no_invariant<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let sockets: Vec<usize> = BOTH
        .into_iter()
        .flat_map(|kin| {
            let icmp = h.icmp(kin);
            h.stack.udp_bind(h.cx(), icmp, SocketAddr::new(kin.any(), 7)).unwrap();
            let checked = h.raw(kin, TEST);
            h.with_raw(checked, |raw| raw.checksum_at = Some(6));
            [icmp, checked, h.raw(kin, kin.icmp()), h.raw(kin, Proto::UDP), h.raw(kin, Proto::TCP)]
        })
        .collect();
    let mut rng = Rng::new(7);
    for n in 0..3000 {
        let kin = BOTH[n % 2];
        let proto = [kin.icmp(), TEST, Proto::UDP, Proto::TCP][rng.below(4)];
        let mut payload: Vec<u8> = (0..rng.below(64)).map(|_| rng.next() as u8).collect();
        if proto == kin.icmp() && n % 3 == 0 && payload.len() >= 8 {
            payload[0] = [kin.reply(), kin.request(), kin.pick(3, 1), kin.pick(11, 3)][rng.below(4)];
            payload[4..6].copy_from_slice(&[0, 7]);
            let rest = payload[4..8].try_into().unwrap();
            payload = kin.message(kin.peer(), payload[0], 0, rest, &payload[8..]).payload;
        }
        h.receives(&kin.packet(proto, payload));
        h.sent(EM0);
        if n % 50 == 0 {
            sockets.iter().for_each(|s| drop(h.all_from(*s)));
        }
    }
    h.audit();
}
