//! Conversations about fragments: RFC 791 3.2, RFC 1122 3.3.2, RFC 815; and datagrams of 64 KiB
//! between two hosts.

use crate::common::packets::*;
use crate::common::*;
use buf::{PoolConfig, PoolLocks};
use clock::Duration;
use linerate_inet::ip4::reass::Limits;
use linerate_inet::udp::SendError;
use lock::Locks;
use std::net::Ipv4Addr;
use wire::Proto;
use wire::icmp4::ty;

conversations! {
    fragments_in_any_order_are_reassembled
    a_datagram_of_65507_bytes_crosses_between_two_hosts
    a_datagram_of_every_awkward_length_crosses_at_every_awkward_mtu
    a_ping_of_60000_bytes_is_answered
    sent_fragments_are_counted
    two_datagrams_interleaved_do_not_mix
    a_reassembly_timeout_is_reported_with_the_first_fragment
    a_reassembly_timeout_is_not_reported_without_the_first_fragment
    the_timeout_starts_with_the_first_arrival
    ping_of_death_is_dropped
    teardrop_is_dropped
    jolt2_is_dropped_one_by_one
    many_incomplete_datagrams_are_bounded_and_others_are_delivered
    a_corrupt_fragment_fails_the_checksum_and_nothing_is_delivered
    fragments_of_a_broadcast_are_reassembled_and_cause_no_error
    no_buffer_for_all_fragments_sends_none
    an_oversized_datagram_is_rejected
}

fn host<L: Locks>() -> Host<L> {
    let h = Host::new();
    h.knows(EM0, PEER);
    h.forget_counters();
    h
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0]).collect()
}

/// Returns a datagram for port 9 in fragments of `size` bytes.
fn fragments(whole: &Ip, size: usize) -> Vec<Vec<u8>> {
    (0..whole.payload.len()).step_by(size).map(|off| whole.fragment(off, size).between(PEER, ME)).collect()
}

fn datagram(len: usize) -> Ip {
    Ip::udp((PEER.ip, 1000), (ME.ip, 9), &payload(len))
}

fn fragments_in_any_order_are_reassembled<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let whole = datagram(1000);
    let parts = fragments(&whole, 256);
    assert_eq!(parts.len(), 4);
    let mut orders = 0;
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| *c != a && *c != b) {
                let d = 6 - a - b - c;
                [a, b, c, d].iter().for_each(|&n| h.inject(EM0, &parts[n]));
                assert_eq!(h.recv(s), Some((payload(1000), at(PEER, 1000))), "{a}{b}{c}{d}");
                orders += 1;
            }
        }
    }
    assert_eq!(orders, 24);
    h.assert_counters(
        "in 96, ip4.received 96, ip4.delivered 24, ip4.fragments_received 96, ip4.reassembled 24, udp.received 24, \
         udp.delivered 24, audit.consumed 24, ip4.reass.merged 72",
    );
}

/// Creates two hosts on one link that have no neighbor entries for each other.
fn two<L: Locks>() -> (Host<L>, Host<L>) {
    let (a, b) = (Host::<L>::new(), Host::<L>::bare(512, 2));
    b.add_iface("em0", PEER, 1500);
    (a, b)
}

fn a_datagram_of_65507_bytes_crosses_between_two_hosts<L: Locks>() {
    let (a, b) = two::<L>();
    let (s, t) = (a.bound(1000), b.bound(9));
    b.stack.with_pcb(b.cx(), t, |pcb| pcb.set_recv_limit(1 << 20)).unwrap();
    let sent = payload(65_507);
    a.stack.sysctls.neigh_queue.set(64); // all fragments wait for ARP
    for _ in 0..3 {
        assert_eq!(a.send(s, &sent, at(PEER, 9)), Ok(65_507));
        pump(&a, &b);
        let (got, from) = b.recv(t).expect("arrived whole");
        assert!(got == sent);
        assert_eq!(from, at(ME, 1000));
    }
    assert_eq!(b.counter("inet.ip4.reassembled"), 3);
    assert_eq!(a.counter("inet.ip4.fragments_sent"), 3 * 45);
    // The answer is sent back in the frame that was received.
    a.stack.with_pcb(a.cx(), s, |pcb| pcb.set_recv_limit(1 << 20)).unwrap();
    assert_eq!(b.send(t, &sent, at(ME, 1000)), Ok(65_507));
    pump(&a, &b);
    assert!(a.recv(s).expect("arrived whole").0 == sent);
}

fn a_datagram_of_every_awkward_length_crosses_at_every_awkward_mtu<L: Locks>() {
    let (a, b) = two::<L>();
    let (s, t) = (a.bound(1000), b.bound(9));
    b.stack.with_pcb(b.cx(), t, |pcb| pcb.set_recv_limit(1 << 20)).unwrap();
    a.stack.sysctls.neigh_queue.set(256);
    for mtu in [68u16, 69, 75, 76, 77, 576, 1006, 1492, 1499, 1500] {
        a.stack.set_mtu(EM0, mtu);
        let room = usize::from(mtu) - 28;
        for len in [0, 1, 7, 8, room - 1, room, room + 1, room + 7, room + 8, room + 9, 2 * room + 3, 3000] {
            assert_eq!(a.send(s, &payload(len), at(PEER, 9)), Ok(len), "{len} at {mtu}");
            for frame in a.sent(EM0) {
                assert!(frame.len() <= 14 + usize::from(mtu));
                b.inject(EM0, frame);
            }
            b.sent(EM0).iter().for_each(|frame| a.inject(EM0, frame));
            a.sent(EM0).iter().for_each(|frame| b.inject(EM0, frame));
            assert_eq!(b.recv(t), Some((payload(len), at(ME, 1000))), "{len} at {mtu}");
        }
    }
}

fn a_ping_of_60000_bytes_is_answered<L: Locks>() {
    let h = host::<L>();
    let request = ping(PEER, ME.ip, 7, 8, &payload(60_000));
    h.inject_all(EM0, fragments(&request, 1480));
    let reply = h.sent(EM0);
    assert_eq!(reply.len(), 41);
    let other = Host::<L>::bare(64, 2);
    other.add_iface("em0", PEER, 1500);
    other.inject_all(EM0, &reply);
    assert_eq!(other.counter("inet.icmp4.in.ignored"), 1, "the reply is complete and its checksum is valid");
    let bytes: usize = reply.iter().map(|frame| ip_of(frame).2.len()).sum();
    assert_eq!(bytes, 60_008);
}

fn sent_fragments_are_counted<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    assert_eq!(h.send(s, &payload(3000), at(PEER, 9)), Ok(3000));
    let sent = h.sent(EM0);
    assert_eq!(sent.len(), 3);
    let ids: Vec<_> = sent.iter().map(|frame| ip_of(frame).1.id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
    h.assert_counters(
        "out 3, audit.made 4, ip4.sent 1, ip4.fragmented 1, ip4.fragments_sent 3, ip4.forward.fragmented 1, udp.sent 1",
    );
    assert_eq!(h.send(s, &payload(3000), at(PEER, 9)), Ok(3000));
    assert_ne!(ip_of(&h.sent(EM0)[0]).1.id, ids[0], "RFC 6864 4.3");
}

fn two_datagrams_interleaved_do_not_mix<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let a = Ip::udp((PEER.ip, 1), (ME.ip, 9), &[0xaa; 600]).id(1);
    let b = Ip::udp((PEER.ip, 2), (ME.ip, 9), &[0xbb; 600]).id(2);
    let c = Ip::udp((OTHER.ip, 3), (ME.ip, 9), &[0xcc; 600]).id(1); // another source with the same identification
    for off in [0, 304] {
        for whole in [&a, &b, &c] {
            h.inject(EM0, whole.fragment(off, 304).between(PEER, ME));
        }
    }
    for byte in [0xaa, 0xbb, 0xcc] {
        assert_eq!(h.recv(s).unwrap().0, [byte; 600]);
    }
}

/// RFC 792, RFC 1122 3.3.2: after 60 to 120 s, reported only if fragment zero has arrived.
fn a_reassembly_timeout_is_reported_with_the_first_fragment<L: Locks>() {
    let h = host::<L>();
    let whole = datagram(1000);
    h.inject(EM0, whole.fragment(512, 256).between(PEER, ME));
    h.inject(EM0, whole.fragment(0, 256).between(PEER, ME));
    assert_eq!(h.stack.held(h.cx()), 2);
    h.pass(Duration::from_secs(59));
    h.sent_nothing(EM0);
    h.pass(Duration::from_secs(61));
    let error = h.sent_one(EM0);
    let (icmp, quoted) = icmp_of(&error);
    assert_eq!((icmp.ty, icmp.code), (ty::TIME_EXCEEDED, 1));
    assert_eq!(quoted, whole.fragment(0, 256).packet());
    h.assert_counters(
        "in 2, out 1, audit.made 1, ip4.received 2, ip4.fragments_received 2, ip4.sent 1, icmp4.errors_sent 1, \
         ip4.reass.timeout 2",
    );
    // The identification may be used again.
    let s = h.bound(9);
    h.inject_all(EM0, fragments(&whole, 512));
    assert_eq!(h.recv(s).unwrap().0, payload(1000));
}

fn a_reassembly_timeout_is_not_reported_without_the_first_fragment<L: Locks>() {
    let h = host::<L>();
    let whole = datagram(1000);
    h.inject(EM0, whole.fragment(512, 256).between(PEER, ME));
    h.inject(EM0, whole.fragment(768, 256).between(PEER, ME));
    h.pass(Duration::from_secs(120));
    h.sent_nothing(EM0);
    h.assert_counters("in 2, ip4.received 2, ip4.fragments_received 2, ip4.reass.timeout 2");
}

fn the_timeout_starts_with_the_first_arrival<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let whole = datagram(1000);
    for n in 0..3 {
        h.inject(EM0, whole.fragment(n * 256, 256).between(PEER, ME));
        h.pass(Duration::from_secs(21));
    }
    h.inject(EM0, whole.fragment(768, 512).between(PEER, ME));
    assert!(h.recv(s).is_none(), "63 s after the first fragment");
}

fn ping_of_death_is_dropped<L: Locks>() {
    let h = host::<L>();
    let mut last = Ip::new(PEER.ip, ME.ip, Proto::ICMP, payload(1000));
    let request = ping(PEER, ME.ip, 1, 1, &payload(65_000));
    h.inject_all(EM0, (0..64_000).step_by(1000).map(|off| request.fragment(off, 1000).between(PEER, ME)));
    last.header.frag_off = 65_528;
    h.inject(EM0, last.between(PEER, ME));
    last.header.frag_off = 65_000;
    h.inject(EM0, last.between(PEER, ME));
    h.sent_nothing(EM0);
    h.assert_counters("in 66, ip4.received 66, ip4.fragments_received 66, ip4.reass.malformed 2");
}

/// Teardrop and its variants: any overlap drops the datagram.
fn teardrop_is_dropped<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let whole = datagram(600);
    let overlaps = [(0, 304, 296, 400), (0, 304, 8, 16), (304, 400, 0, 312), (0, 304, 0, 296), (8, 8, 0, 304)];
    for (n, (off1, len1, off2, len2)) in overlaps.into_iter().enumerate() {
        let whole = whole.clone().id(n as u16);
        h.inject(EM0, whole.fragment(off1, len1).between(PEER, ME));
        h.inject(EM0, whole.fragment(off2, len2).between(PEER, ME));
        h.inject_all(EM0, fragments(&whole, 304)); // the fragments that follow are dropped too
    }
    assert!(h.recv(s).is_none());
    h.assert_counters("in 20, ip4.received 20, ip4.fragments_received 20, ip4.reass.overlap 20");
}

fn jolt2_is_dropped_one_by_one<L: Locks>() {
    let h = host::<L>();
    let mut part = Ip::new(PEER.ip, ME.ip, Proto::ICMP, payload(9));
    part.header.frag_off = 65_520 - 1000 + 8;
    let frame = part.between(PEER, ME);
    for _ in 0..20 {
        h.inject_all(EM0, (0..256).map(|_| &frame));
    }
    assert_eq!(h.stack.held(h.cx()), 1);
    h.assert_counters("in 5120, ip4.received 5120, ip4.fragments_received 5120, ip4.reass.duplicate 5119");
    h.inject(EM0, ping(PEER, ME.ip, 1, 1, b"alive?").between(PEER, ME));
    assert_eq!(icmp_of(&h.sent_one(EM0)).1, b"alive?");
}

/// The Rose attack: datagrams that are never completed, from many sources or from one.
fn many_incomplete_datagrams_are_bounded_and_others_are_delivered<L: Locks>() {
    let h = Host::<L>::configured(pool(2048), |_| {});
    h.add_iface("em0", ME, 1500);
    let s = h.bound(9);
    let mine = datagram(1000);
    h.inject(EM0, mine.fragment(0, 512).between(PEER, ME));
    for n in 0..5_000u32 {
        let rose = Ip::udp((OTHER.ip, 1), (ME.ip, 9), &[0; 100]).id(n as u16);
        h.inject(EM0, rose.fragment(0, 8).between(OTHER, ME));
        assert!(h.stack.held(h.cx()) <= 65, "one source is limited to its share");
    }
    h.inject(EM0, mine.fragment(512, 512).between(PEER, ME));
    assert_eq!(h.recv(s).unwrap().0, payload(1000), "the datagram of another source survived");
    for n in 0..5_000u32 {
        let rose = Ip::udp((Ipv4Addr::from(0x0b00_0000 + n), 1), (ME.ip, 9), &[0; 100]);
        h.inject(EM0, rose.fragment(0, 8).between(OTHER, ME));
        assert!(h.stack.held(h.cx()) <= 256);
    }
    h.inject_all(EM0, fragments(&mine, 512));
    assert_eq!(h.recv(s).unwrap().0, payload(1000), "and a new one comes through");
    h.audit();
}

fn a_corrupt_fragment_fails_the_checksum_and_nothing_is_delivered<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let mut parts = fragments(&datagram(1000), 512);
    let at = parts[1].len() - 1;
    parts[1][at] ^= 0x10;
    h.inject_all(EM0, &parts);
    assert!(h.recv(s).is_none());
    h.assert_counters(
        "in 2, ip4.received 2, ip4.delivered 1, ip4.fragments_received 2, ip4.reassembled 1, udp.received 1, \
         udp.in.bad_checksum 1, ip4.reass.merged 1",
    );
}

fn fragments_of_a_broadcast_are_reassembled_and_cause_no_error<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let whole = Ip::udp((PEER.ip, 1), (Ipv4Addr::BROADCAST, 9), &payload(600));
    for off in [304, 0] {
        h.inject(EM0, whole.fragment(off, 304).frame(wire::Mac::BROADCAST, PEER.mac));
    }
    assert_eq!(h.recv(s), Some((payload(600), at(PEER, 1))));
    h.inject(EM0, whole.fragment(0, 304).frame(wire::Mac::BROADCAST, PEER.mac));
    h.pass(Duration::from_secs(121));
    h.sent_nothing(EM0);
}

fn no_buffer_for_all_fragments_sends_none<L: Locks>() {
    let h = Host::<L>::configured(pool(4), |_| {});
    h.add_iface("em0", ME, 1500);
    h.knows(EM0, PEER);
    h.forget_counters();
    let s = h.bound(1000);
    assert!(h.send(s, &payload(20_000), at(PEER, 9)).is_err());
    h.sent_nothing(EM0);
    h.assert_counters("audit.made 1, ip4.sent 1, ip4.reass.no_buffer 1");
    assert_eq!(h.send(s, b"small", at(PEER, 9)), Ok(5));
    assert_eq!(h.sent(EM0).len(), 1);
}

fn an_oversized_datagram_is_rejected<L: Locks>() {
    let limits = Limits {
        large: PoolConfig { buffers: 1, data: 1 << 16, locks: PoolLocks::Light, ..PoolConfig::default() },
        ..Limits::default()
    };
    let h = Host::<L>::configured(pool(128), |config| config.reassembly = limits);
    h.add_iface("em0", ME, 1500);
    h.knows(EM0, PEER);
    let s = h.bound(1000);
    assert_eq!(h.send(s, &payload(65_508), at(PEER, 9)), Err(SendError::TooLong));
    h.stack.sysctls.udp_maxdgram.set(9000);
    assert_eq!(h.send(s, &payload(9001), at(PEER, 9)), Err(SendError::TooLong));
    assert_eq!(h.send(s, &payload(9000), at(PEER, 9)), Ok(9000));
    assert_eq!(h.send(s, &payload(9000), at(PEER, 9)), Ok(9000), "the only large buffer was returned");
}
