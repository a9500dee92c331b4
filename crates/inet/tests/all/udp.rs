//! Conversations about UDP: RFC 768, RFC 1122 4.1, RFC 8085.

use crate::common::packets::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::iface::{IfaceAddr, Offload};
use linerate_inet::route::Via;
use linerate_inet::udp::{Ancillary, PacketInfo, ReadySet, SendError};
use lock::Locks;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::{Mac, Proto};

conversations! {
    a_datagram_is_sent_with_correct_headers
    a_reply_is_sent_from_the_address_that_was_addressed
    payloads_of_every_length_are_sent_with_and_without_cached_headers
    a_checksum_of_zero_is_accepted_and_a_wrong_one_is_not
    a_checksum_of_zero_is_sent_as_all_ones
    checksums_can_be_switched_off_at_once
    wrong_lengths_are_dropped
    bytes_beyond_the_length_are_not_delivered
    any_bit_flipped_is_not_delivered
    port_zero_is_not_a_valid_destination
    two_hosts_exchange_datagrams_with_empty_tables
    a_full_receive_buffer_drops_and_counts_and_recovers
    tiny_datagrams_cannot_use_the_whole_pool
    empty_datagrams_arrive
    a_socket_shut_for_reading_drops_and_one_shut_for_writing_fails
    a_closed_socket_drops_unread_datagrams
    a_watched_socket_is_reported_once_when_it_becomes_readable
    a_peeked_datagram_stays
    a_burst_is_sent_in_order_up_to_the_first_error
    a_failed_send_returns_its_reason_and_leaks_nothing
    an_empty_pool_is_a_temporary_error
    a_full_port_queues_frames_and_then_drops_them
    options_changed_between_two_datagrams_apply_to_the_second
    sysctls_changed_between_two_datagrams_apply_to_the_second
    the_broadcast_option_can_be_cleared
    identifications_to_one_destination_do_not_reveal_those_to_another
    identifications_of_consecutive_datagrams_differ
    a_datagram_with_df_has_no_identification
    no_loopback_address_leaves_the_host
    an_iface_without_an_address_sends_broadcasts_only_if_selected
    offloaded_checksums_hold_the_pseudo_header_sum
    a_checksum_verified_by_the_port_is_trusted_only_with_rx_offload
    a_broadcast_copy_without_a_buffer_is_counted_and_the_audit_balances
}

fn host<L: Locks>() -> Host<L> {
    let h = Host::new();
    h.knows(EM0, PEER);
    h.knows(EM0, OTHER);
    h.forget_counters();
    h
}

fn a_datagram_is_sent_with_correct_headers<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    for n in 0..3 {
        assert_eq!(h.send(s, b"hello", at(PEER, 9)), Ok(5));
        let frame = h.sent_one(EM0);
        let (link, ip, _) = ip_of(&frame);
        let (udp, payload) = udp_of(&frame);
        assert_eq!((link.dst, link.src), (PEER.mac, ME.mac));
        assert_eq!((ip.src, ip.dst, ip.ttl, ip.tos, ip.df), (ME.ip, PEER.ip, 64, 0, false));
        assert_eq!((udp.src.0, udp.dst.0, payload), (1000, 9, &b"hello"[..]));
        assert_ne!(udp.checksum, 0);
        let cached = u64::from(n > 0);
        h.assert_counters(&format!("out 1, audit.made 1, ip4.sent 1, udp.sent 1, udp.header_cached {cached}"));
    }
}

/// RFC 1122 4.1.3.5: the destination address is returned to the application, and the answer is sent
/// from it.
fn a_reply_is_sent_from_the_address_that_was_addressed<L: Locks>() {
    let h = host::<L>();
    let alias = Ipv4Addr::new(10, 0, 0, 77);
    h.stack.add_addr(h.cx(), EM0, IfaceAddr { addr: alias, len: 24 }).unwrap();
    h.sent(EM0); // the announcement
    let s = h.bound(1000);
    let mut cached = 0;
    for _ in 0..2 {
        for requested in [ME.ip, alias, alias] {
            h.inject(EM0, Ip::udp((PEER.ip, 9), (requested, 1000), b"?").frame(ME.mac, PEER.mac));
            let got = h.stack.udp_recv(h.cx(), s).unwrap();
            assert_eq!((got.from, got.to), (at(PEER, 9), requested.into()));
            let before = h.counter("inet.udp.header_cached");
            assert_eq!(h.send_from(s, b"!", got.from, got.to), Ok(1));
            cached += h.counter("inet.udp.header_cached") - before;
            let frame = h.sent_one(EM0);
            assert_eq!((ip_of(&frame).1.src, udp_of(&frame).1), (requested, &b"!"[..]));
        }
    }
    assert_eq!(cached, 2, "headers are cached for each selected source");
    // Headers cached for one source address are not used for another.
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    assert_eq!(ip_of(&h.sent_one(EM0)).1.src, ME.ip);
    let send_from = |src: Ipv4Addr| h.send_from(s, b"x", at(PEER, 9), src.into());
    assert_eq!(send_from(OTHER.ip), Err(SendError::BadSource));
    // The answer to a broadcast is sent from an address of the interface.
    for src in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 255), Ipv4Addr::new(224, 0, 0, 9)] {
        assert_eq!(send_from(src), Ok(1));
        assert_eq!(ip_of(&h.sent_one(EM0)).1.src, ME.ip, "{src}");
    }
    // RFC 1122 3.2.1.3 (g).
    assert!(send_from(Ipv4Addr::LOCALHOST).is_err());
    h.sent_nothing(EM0);
}

fn payloads_of_every_length_are_sent_with_and_without_cached_headers<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    for cache in [0, 1] {
        h.stack.sysctls.header_cache.set(cache);
        for len in 0..=1472usize {
            let payload: Vec<u8> = (0..len).map(|i| (i * 5 + len) as u8).collect();
            assert_eq!(h.send(s, &payload, at(PEER, 9)), Ok(len));
            assert_eq!(udp_of(&h.sent_one(EM0)).1, payload); // the wire has verified the checksums
        }
    }
}

/// Returns the frame with this UDP checksum, which is 6 bytes into the datagram.
fn with_checksum(frame: &[u8], checksum: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[40..42].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// RFC 768, RFC 1122 4.1.3.4.
fn a_checksum_of_zero_is_accepted_and_a_wrong_one_is_not<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let good = udp_frame(PEER, 1000, ME, 9, b"summed");
    h.inject(EM0, with_checksum(&good, 0));
    assert_eq!(h.recv(s), Some((b"summed".to_vec(), at(PEER, 1000))));
    h.assert_counters(
        "in 1, ip4.received 1, ip4.delivered 1, udp.received 1, udp.delivered 1, udp.no_checksum 1, audit.consumed 1",
    );
    let right = u16::from_be_bytes([good[40], good[41]]);
    let mut n = 0;
    for wrong in (1..=u16::MAX).step_by(257).chain([1, 0xffff, !right]).filter(|sum| *sum != right) {
        h.inject(EM0, with_checksum(&good, wrong));
        n += 1;
    }
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    h.assert_counters(&format!(
        "in {n}, ip4.received {n}, ip4.delivered {n}, udp.received {n}, udp.in.bad_checksum {n}"
    ));
}

/// RFC 768: "an all zero transmitted checksum value means that the transmitter generated no
/// checksum".
fn a_checksum_of_zero_is_sent_as_all_ones<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    let mut seen = [false; 2];
    for cache in [0, 1] {
        h.stack.sysctls.header_cache.set(cache);
        for word in 0..=u16::MAX {
            h.send(s, &word.to_be_bytes(), at(PEER, 9)).unwrap();
            if udp_of(&h.sent_one(EM0)).0.checksum == 0xffff {
                seen[cache as usize] = true;
            }
        }
    }
    assert_eq!(seen, [true, true]);
}

fn checksums_can_be_switched_off_at_once<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.udp_checksum.set(0);
    let s = h.bound(1000);
    for _ in 0..2 {
        h.send(s, b"x", at(PEER, 9)).unwrap();
        assert_eq!(udp_of(&h.sent_one(EM0)).0.checksum, 0);
    }
}

fn wrong_lengths_are_dropped<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let whole = 8 + 16u16;
    let mut n = 0;
    for len in (0..8).chain([whole + 1, whole + 100, 0x7fff, 0x8000, 0xffff]) {
        for checksum in [0, 0x1234] {
            let mut datagram = udp_datagram((PEER.ip, 1000), (ME.ip, 9), b"a whole datagram");
            datagram[4..6].copy_from_slice(&len.to_be_bytes());
            datagram[6..8].copy_from_slice(&u16::to_be_bytes(checksum));
            h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::UDP, datagram).between(PEER, ME));
            n += 1;
        }
    }
    for len in 0..8 {
        h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::UDP, vec![0; len]).between(PEER, ME));
        n += 1;
    }
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    let without = 2 * 13 - 13 + 8;
    let no_checksum = h.counter("inet.udp.no_checksum");
    assert!(no_checksum <= without);
    h.assert_counters(&format!(
        "in {n}, ip4.received {n}, ip4.delivered {n}, udp.received {n}, udp.in.bad_length {n}, \
         udp.no_checksum {no_checksum}"
    ));
}

fn bytes_beyond_the_length_are_not_delivered<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let mut datagram = udp_datagram((PEER.ip, 1000), (ME.ip, 9), b"mine");
    datagram.extend_from_slice(b"not mine");
    h.inject(EM0, Ip::new(PEER.ip, ME.ip, Proto::UDP, datagram).between(PEER, ME));
    assert_eq!(h.recv(s), Some((b"mine".to_vec(), at(PEER, 1000))));
}

fn any_bit_flipped_is_not_delivered<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let good = udp_frame(PEER, 1000, ME, 9, b"some payload");
    let flip = |bit: usize| {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        bad
    };
    let bits = 34 * 8..good.len() * 8;
    let n = bits.len();
    bits.for_each(|bit| h.inject(EM0, flip(bit)));
    assert!(h.recv(s).is_none());
    h.sent_nothing(EM0);
    let (length, checksum) = (h.counter("inet.udp.in.bad_length"), h.counter("inet.udp.in.bad_checksum"));
    assert_eq!(length + checksum, n as u64);
    h.audit();
}

fn port_zero_is_not_a_valid_destination<L: Locks>() {
    let h = host::<L>();
    h.inject(EM0, udp_frame(PEER, 1000, ME, 0, b"x"));
    h.sent_nothing(EM0);
    h.assert_counters("in 1, ip4.received 1, ip4.delivered 1, udp.received 1, udp.in.port_zero 1");
    let s = h.bound(9);
    assert_eq!(h.send(s, b"x", at(PEER, 0)), Err(SendError::BadDestination));
    // A source port of 0 means that no answer is wanted (RFC 768).
    h.inject(EM0, udp_frame(PEER, 0, ME, 9, b"x"));
    assert_eq!(h.recv(s), Some((b"x".to_vec(), at(PEER, 0))));
}

fn two_hosts_exchange_datagrams_with_empty_tables<L: Locks>() {
    let (a, b) = (Host::<L>::new(), Host::<L>::bare(512, 2));
    b.add_iface("em0", PEER, 1500);
    a.forget_counters();
    let (s, t) = (a.connected(1000, at(PEER, 9)), b.bound(9));
    assert_eq!(a.send(s, b"question", None), Ok(8));
    pump(&a, &b);
    assert_eq!(b.recv(t), Some((b"question".to_vec(), at(ME, 1000))));
    assert_eq!(b.send(t, b"answer", at(ME, 1000)), Ok(6));
    pump(&a, &b);
    assert_eq!(a.recv(s), Some((b"answer".to_vec(), at(PEER, 9))));
    a.assert_counters(
        "in 2, out 2, audit.made 2, audit.consumed 1, arp.requests_sent 1, arp.replies_received 1, neigh.created 1, \
         neigh.resolved 1, arp.in.consumed 1, ip4.sent 1, ip4.received 1, ip4.delivered 1, udp.sent 1, udp.received 1, \
         udp.delivered 1",
    );
    b.assert_counters(
        "in 2, out 2, audit.made 2, audit.consumed 1, arp.requests_received 1, arp.replies_sent 1, neigh.created 1, \
         arp.in.consumed 1, ip4.sent 1, ip4.received 1, ip4.delivered 1, udp.sent 1, udp.received 1, udp.delivered 1",
    );
    // A datagram to a closed port; the error is returned.
    b.stack.udp_close(b.cx(), t);
    assert_eq!(a.send(s, b"still there?", None), Ok(12));
    pump(&a, &b);
    assert_eq!(a.error(s), Some(linerate_inet::udp::SoError::Refused));
    // An hour of traffic, in which entries age and are probed.
    let t = b.bound(9);
    for n in 0..3600u32 {
        a.send(s, &n.to_be_bytes(), None).unwrap();
        pump(&a, &b);
        assert_eq!(b.recv(t).unwrap().0, n.to_be_bytes(), "after {n} s");
        a.advance_secs(1);
        b.advance_secs(1);
        pump(&a, &b);
    }
}

fn a_full_receive_buffer_drops_and_counts_and_recovers<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    h.stack.with_pcb(h.cx(), s, |pcb| pcb.set_recv_limit(4 * (1000 + 16))).unwrap();
    let frame = udp_frame(PEER, 1000, ME, 9, &[1; 1000]);
    (0..10).for_each(|_| h.inject(EM0, &frame));
    h.assert_counters(
        "in 10, ip4.received 10, ip4.delivered 10, udp.received 10, udp.delivered 4, udp.in.buffer_full 6",
    );
    assert_eq!(
        h.stack.with_pcb(h.cx(), s, |pcb| (pcb.queued(), pcb.queued_bytes(), pcb.next_len())),
        Some((4, 4000, Some(1000)))
    );
    assert!(h.recv(s).is_some());
    h.inject(EM0, &frame);
    h.inject(EM0, &frame);
    h.assert_counters(
        "in 2, ip4.received 2, ip4.delivered 2, udp.received 2, udp.delivered 1, udp.in.buffer_full 1, audit.consumed 1",
    );
    assert_eq!(std::iter::from_fn(|| h.recv(s)).count(), 4);
}

/// A datagram of one byte occupies a whole buffer: the buffers that a socket's queue occupies are
/// limited, not only its bytes.
fn tiny_datagrams_cannot_use_the_whole_pool<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let frame = udp_frame(PEER, 1000, ME, 9, b"x");
    for _ in 0..4 {
        h.inject_all(EM0, (0..256).map(|_| &frame));
    }
    let queued = h.stack.with_pcb(h.cx(), s, |pcb| pcb.queued()).unwrap();
    assert!((100..=200).contains(&queued), "{queued}");
}

fn empty_datagrams_arrive<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    h.inject(EM0, udp_frame(PEER, 1000, ME, 9, b""));
    assert_eq!(h.stack.with_pcb(h.cx(), s, |pcb| pcb.is_readable()), Some(true));
    assert_eq!(h.recv(s), Some((vec![], at(PEER, 1000))));
    assert_eq!(h.send(s, b"", at(PEER, 9)), Ok(0));
    assert_eq!(udp_of(&h.sent_one(EM0)).0.len, 8);
}

fn a_socket_shut_for_reading_drops_and_one_shut_for_writing_fails<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    h.inject(EM0, udp_frame(PEER, 1000, ME, 9, b"before"));
    h.stack.udp_shutdown(h.cx(), s, true, false).unwrap();
    h.inject(EM0, udp_frame(PEER, 1000, ME, 9, b"after"));
    h.assert_counters("in 2, ip4.received 2, ip4.delivered 2, udp.received 2, udp.delivered 1, udp.in.closed 1");
    assert_eq!(h.recv(s).unwrap().0, b"before");
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    h.stack.udp_shutdown(h.cx(), s, false, true).unwrap();
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Err(SendError::Shut));
}

fn a_closed_socket_drops_unread_datagrams<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    (0..3).for_each(|_| h.inject(EM0, udp_frame(PEER, 1000, ME, 9, b"x")));
    h.forget_counters();
    assert!(h.stack.udp_close(h.cx(), s));
    h.assert_counters("udp.in.closed 3");
    assert!(!h.stack.udp_close(h.cx(), s));
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Err(SendError::NoSocket));
    h.inject(EM0, udp_frame(PEER, 1000, ME, 9, b"x"));
    assert_eq!(h.sent(EM0).len(), 1, "port unreachable");
    assert_eq!(h.bound(9), s, "the lowest free number, as descriptors");
}

/// Readiness is never reported without a datagram.
fn a_watched_socket_is_reported_once_when_it_becomes_readable<L: Locks>() {
    let h = host::<L>();
    let (s, t) = (h.bound(9), h.bound(10));
    let set = Arc::new(ReadySet::<L>::default());
    for id in [s, t] {
        h.stack.udp_watch(h.cx(), id, Some(Arc::clone(&set))).unwrap();
    }
    assert_eq!(set.pop(h.cx()), None);
    let bad = with_checksum(&udp_frame(PEER, 1000, ME, 9, b"x"), 0x1234);
    h.inject(EM0, &bad);
    assert_eq!(set.pop(h.cx()), None, "a wrong checksum makes no socket ready");
    (0..3).for_each(|_| h.inject(EM0, udp_frame(PEER, 1000, ME, 10, b"x")));
    assert_eq!(set.pop(h.cx()), Some(t));
    assert_eq!(set.pop(h.cx()), None);
    while h.recv(t).is_some() {}
    h.inject(EM0, udp_frame(PEER, 1000, ME, 10, b"x"));
    assert_eq!(set.pop(h.cx()), Some(t));
}

fn a_peeked_datagram_stays<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    h.inject(EM0, udp_frame(PEER, 1000, ME, 9, b"look"));
    let mut two = [0; 2];
    assert_eq!(h.stack.udp_peek(h.cx(), s, &mut two), Some((2, 4, at(PEER, 1000))));
    assert_eq!(&two, b"lo");
    assert_eq!(h.recv(s).unwrap().0, b"look");
    assert_eq!(h.stack.udp_peek(h.cx(), s, &mut two), None);
}

fn a_burst_is_sent_in_order_up_to_the_first_error<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    let payloads: Vec<Vec<u8>> = (0..300u16).map(|n| n.to_be_bytes().to_vec()).collect();
    let to = at(PEER, 9);
    let sent = h.stack.udp_send_burst(h.cx(), s, payloads.iter().map(Vec::as_slice), Some(&to));
    assert_eq!(sent, Ok(300));
    let got: Vec<Vec<u8>> = h.sent(EM0).iter().map(|f| udp_of(f).1.to_vec()).collect();
    assert_eq!(got, payloads);
    h.assert_counters("out 300, audit.made 300, ip4.sent 300, udp.sent 300, udp.header_cached 299");
    let long = vec![0; 65_508];
    let some = [&b"a"[..], &long, b"b"];
    assert_eq!(h.stack.udp_send_burst(h.cx(), s, some.into_iter(), Some(&to)), Ok(1));
    assert_eq!(h.stack.udp_send_burst(h.cx(), s, [&long[..]].into_iter(), Some(&to)), Err(SendError::TooLong));
    let mixed: Vec<Vec<u8>> = [10, 2000, 20, 1472, 1473, 30].iter().map(|len| vec![1; *len]).collect();
    assert_eq!(h.stack.udp_send_burst(h.cx(), s, mixed.iter().map(Vec::as_slice), Some(&to)), Ok(6));
}

fn a_failed_send_returns_its_reason_and_leaks_nothing<L: Locks>() {
    let h = host::<L>();
    let s = h.open();
    assert_eq!(h.send(s, b"x", None), Err(SendError::NoDestination));
    assert_eq!(h.send(s, b"x", at(PEER, 0)), Err(SendError::BadDestination));
    assert_eq!(h.send(s, b"x", "[::1]:9".parse::<SocketAddr>().unwrap()), Err(SendError::BadDestination));
    assert!(matches!(h.send(s, b"x", SocketAddr::from(([192, 0, 2, 1], 9))), Err(SendError::Output(_))));
    assert_eq!(h.send(s, b"x", SocketAddr::from(([255; 4], 9))), Err(SendError::Broadcast));
    assert_eq!(h.send(s, b"x", SocketAddr::from(([10, 0, 0, 255], 9))), Err(SendError::Broadcast));
    assert_eq!(h.send(4711, b"x", at(PEER, 9)), Err(SendError::NoSocket));
    let c = h.connected(1000, at(PEER, 9));
    assert_eq!(h.send(c, b"x", at(OTHER, 9)), Err(SendError::Connected));
    h.sent_nothing(EM0);
    h.assert_counters("");
    let frame = h.frame(b"payload");
    assert!(h.stack.udp_send_frame(h.cx(), c, frame, Some(&at(OTHER, 9))).is_err());
    h.assert_counters("audit.made 1, udp.in.closed 1");
    let frame = h.frame(b"payload");
    assert_eq!(h.stack.udp_send_frame(h.cx(), c, frame, None), Ok(7));
    assert_eq!(udp_of(&h.sent_one(EM0)).1, b"payload");
    h.assert_counters("out 1, audit.made 1, ip4.sent 1, udp.sent 1");
}

fn an_empty_pool_is_a_temporary_error<L: Locks>() {
    let h = Host::<L>::configured(pool(8), |_| {});
    h.add_iface("em0", ME, 1500);
    h.knows(EM0, PEER);
    h.forget_counters();
    let s = h.bound(1000);
    h.send(s, b"x", at(PEER, 9)).unwrap();
    h.sent(EM0);
    let hoard: Vec<_> = std::iter::from_fn(|| h.pool.get()).collect();
    h.forget_counters();
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Err(SendError::NoBuffer));
    assert_eq!(h.send(s, b"x", at(OTHER, 9)), Err(SendError::NoBuffer));
    h.pass(Duration::from_secs(2));
    h.assert_counters("");
    let payloads = [&b"a"[..], b"b"];
    assert!(h.stack.udp_send_burst(h.cx(), s, payloads.into_iter(), Some(&at(PEER, 9))).is_err());
    drop(hoard);
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    assert_eq!(h.sent(EM0).len(), 1);
}

fn a_full_port_queues_frames_and_then_drops_them<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.tx_queue.set(10);
    let s = h.bound(1000);
    h.set_room(EM0, Some(2));
    for n in 0..20u8 {
        assert_eq!(h.send(s, &[n], at(PEER, 9)), Ok(1));
    }
    assert_eq!(h.stack.iface(EM0).unwrap().staged(h.cx()), 10);
    h.assert_counters(
        "out 2, audit.made 20, ip4.sent 20, udp.sent 20, udp.header_cached 19, link.ether.out.queue_full 8",
    );
    h.set_room(EM0, None);
    h.poll();
    let got: Vec<u8> = h.sent(EM0).iter().map(|f| udp_of(f).1[0]).collect();
    assert_eq!(got, (0..12).collect::<Vec<u8>>());
    h.set_room(EM0, Some(0));
    h.send(s, b"x", at(PEER, 9)).unwrap();
    h.forget_counters();
    h.stack.set_up(h.cx(), EM0, false);
    h.assert_counters("link.ether.out.no_port 1");
}

fn options_changed_between_two_datagrams_apply_to_the_second<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    h.send(s, b"x", at(PEER, 9)).unwrap();
    h.send(s, b"x", at(PEER, 9)).unwrap();
    h.sent(EM0);
    h.options(s, |o| o.ttl = Some(7));
    h.send(s, b"x", at(PEER, 9)).unwrap();
    assert_eq!(ip_of(&h.sent_one(EM0)).1.ttl, 7);
    h.options(s, |o| o.tos = 0xb8);
    h.send(s, b"x", at(PEER, 9)).unwrap();
    assert_eq!(ip_of(&h.sent_one(EM0)).1.tos, 0xb8);
    h.options(s, |o| o.dont_fragment = true);
    h.send(s, b"x", at(PEER, 9)).unwrap();
    assert!(ip_of(&h.sent_one(EM0)).1.df);
}

/// Sysctls may change while the stack runs.
fn sysctls_changed_between_two_datagrams_apply_to_the_second<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    let frame = |_: &str| {
        h.send(s, b"x", at(PEER, 9)).unwrap();
        h.sent_one(EM0)
    };
    frame("first");
    frame("with kept headers");
    h.stack.sysctls.set("net.inet.ip.ttl", 9).unwrap().unwrap();
    assert_eq!(ip_of(&frame("ttl")).1.ttl, 9);
    h.stack.sysctls.set("net.inet.udp.checksum", 0).unwrap().unwrap();
    assert_eq!(udp_of(&frame("checksum")).0.checksum, 0);
    h.stack.sysctls.set("net.inet.udp.checksum", 1).unwrap().unwrap();
    frame("again");
    h.stack.sysctls.set("net.inet.udp.header_cache", 0).unwrap().unwrap();
    let before = h.counter("inet.udp.header_cached");
    frame("not cached");
    assert_eq!(h.counter("inet.udp.header_cached"), before);
    h.stack.sysctls.set("net.inet.udp.header_cache", 1).unwrap().unwrap();
    frame("kept again");
    for limit in ["net.inet.udp.maxdgram", "net.inet.udp.sendspace"] {
        h.stack.sysctls.set(limit, 512).unwrap().unwrap();
        for _ in 0..2 {
            assert_eq!(h.send(s, &[0; 513], at(PEER, 9)), Err(SendError::TooLong), "{limit}");
            assert_eq!(h.send(s, &[0; 512], at(PEER, 9)), Ok(512), "cached headers do not lift the limit");
        }
        h.stack.sysctls.set(limit, 65_507).unwrap().unwrap();
    }
    h.sent(EM0);
}

fn the_broadcast_option_can_be_cleared<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    let all = SocketAddr::from(([10, 0, 0, 255], 9));
    h.options(s, |o| o.broadcast = true);
    for _ in 0..2 {
        assert_eq!(h.send(s, b"x", all), Ok(1));
        assert_eq!(ip_of(&h.sent_one(EM0)).0.dst, Mac::BROADCAST);
    }
    h.options(s, |o| o.broadcast = false);
    assert_eq!(h.send(s, b"x", all), Err(SendError::Broadcast));
}

/// Idle scan (CVE-2020-36516): the identifications of each pair of addresses start at a separate
/// number.
fn identifications_to_one_destination_do_not_reveal_those_to_another<L: Locks>() {
    let h = host::<L>();
    h.route("0.0.0.0/0", Via::Gateway(EM0, PEER.ip));
    h.stack.sysctls.header_cache.set(0);
    let s = h.bound(1000);
    let id_to = |n: u32| {
        h.send(s, b"x", SocketAddr::from((Ipv4Addr::from(0xc000_0200 + n), 9))).unwrap();
        ip_of(&h.sent_one(EM0)).1.id
    };
    let ids: Vec<u16> = (0..2000).map(id_to).collect();
    let distinct: HashSet<_> = ids.iter().collect();
    assert!(distinct.len() > 1900, "{} of 2000", distinct.len());
    let near = ids.windows(2).filter(|two| two[1].wrapping_sub(two[0]) < 256).count();
    assert!(near < 30, "{near} of 2000 follow the one before: a global counter shows through");
    // Another host has other numbers.
    let other = Host::<L>::bare(64, 99);
    other.add_iface("em0", ME, 1500);
    other.knows(EM0, PEER);
    let t = other.bound(1000);
    let theirs: Vec<u16> = (0..20)
        .map(|_| {
            other.send(t, b"x", at(PEER, 9)).unwrap();
            ip_of(&other.sent_one(EM0)).1.id
        })
        .collect();
    let ours: Vec<u16> = (0..20)
        .map(|_| {
            h.send(s, b"x", at(PEER, 9)).unwrap();
            ip_of(&h.sent_one(EM0)).1.id
        })
        .collect();
    assert_ne!(ours, theirs);
}

/// RFC 6864 4.1: an atomic datagram needs no identification, so this host sends 0. The header cache
/// is off, since datagrams with cached headers continue to count from a start of their own.
fn a_datagram_with_df_has_no_identification<L: Locks>() {
    let h = host::<L>();
    h.stack.sysctls.header_cache.set(0);
    let s = h.bound(1000);
    h.options(s, |o| o.dont_fragment = true);
    for _ in 0..3 {
        h.send(s, b"x", at(PEER, 9)).unwrap();
        assert_eq!(ip_of(&h.sent_one(EM0)).1.id, 0);
    }
}

fn identifications_of_consecutive_datagrams_differ<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    for cache in [0, 1] {
        h.stack.sysctls.header_cache.set(cache);
        h.send(s, b"x", at(PEER, 9)).unwrap(); // through the layers: cached headers have their own numbers
        h.sent(EM0);
        let ids: HashSet<u16> = (0..5000)
            .map(|_| {
                h.send(s, b"x", at(PEER, 9)).unwrap();
                ip_of(&h.sent_one(EM0)).1.id
            })
            .collect();
        assert_eq!(ids.len(), 5000);
    }
}

/// RFC 1122 3.2.1.3 (g): 127/8 MUST NOT appear outside a host.
fn no_loopback_address_leaves_the_host<L: Locks>() {
    let h = host::<L>();
    h.route("0.0.0.0/0", Via::Gateway(EM0, PEER.ip));
    let s = h.open();
    h.stack.udp_bind(h.cx(), s, SocketAddr::from((Ipv4Addr::LOCALHOST, 1000))).unwrap();
    let _ = h.send(s, b"x", at(PEER, 9)); // the wire checks that this source is never sent
    let t = h.bound(1001);
    let _ = h.send(t, b"x", SocketAddr::from(([127, 5, 6, 7], 9)));
    let _ = h.send(t, b"x", SocketAddr::from(([0, 0, 0, 0], 9)));
    h.sent_nothing(EM0);
}

fn an_iface_without_an_address_sends_broadcasts_only_if_selected<L: Locks>() {
    let h = host::<L>();
    assert!(h.stack.remove_addr(h.cx(), EM0, ME.ip));
    let s = h.bound(1000);
    h.options(s, |o| o.broadcast = true);
    assert!(h.send(s, b"x", at(PEER, 9)).is_err());
    assert!(h.send(s, b"x", SocketAddr::from(([255; 4], 9))).is_err());
    h.sent_nothing(EM0);
    h.inject(EM0, udp_frame(PEER, 1, ME, 1000, b"x"));
    assert!(h.recv(s).is_none());
    // The ancillary data selects the interface, as a DHCP client does. The answer is a broadcast.
    let info = PacketInfo { addr: Ipv4Addr::UNSPECIFIED.into(), iface: Some(EM0) };
    let by_em0 = Ancillary { info: Some(info), ..Ancillary::default() };
    let send = |to: SocketAddr| h.stack.udp_send_msg(h.cx(), s, b"x", Some(&to), &by_em0);
    send(SocketAddr::from(([255; 4], 9))).unwrap();
    let frame = h.sent_one(EM0);
    let (link, ip, _) = ip_of(&frame);
    assert_eq!((link.dst, ip.src, ip.dst), (Mac::BROADCAST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
    assert!(send(at(PEER, 9)).is_err());
    let everybody = Station { ip: Ipv4Addr::BROADCAST, mac: Mac::BROADCAST };
    h.inject(EM0, udp_frame(PEER, 1, everybody, 1000, b"y"));
    assert!(h.recv(s).is_some());
}

/// Convention of virtio and BSD: the checksum field contains the sum of the pseudo header without
/// the final complement, and the port adds the rest.
fn offloaded_checksums_hold_the_pseudo_header_sum<L: Locks>() {
    let h = host::<L>();
    h.set_checked(EM0, Checked::Nothing);
    let on = Offload { tx_ip: true, tx_l4: true, ..Offload::default() };
    assert_eq!(h.stack.set_offload(EM0, on), Some(on));
    let s = h.bound(1000);
    for _ in 0..2 {
        h.send(s, b"some payload", at(PEER, 9)).unwrap();
        let mut frame = h.sent_one(EM0);
        let (_, _, segment) = ip_of(&frame);
        let field = wire::checksum::sum(segment).finish();
        frame[40..42].copy_from_slice(&field.to_be_bytes());
        wire::ip4::fill_checksum(&mut frame[14..34]);
        assert_fit_for_a_wire(&frame);
    }
    // This host computes the checksums of fragments, since a port has only a part of the datagram.
    h.send(s, &[5; 3000], at(PEER, 9)).unwrap();
    let other = Host::<L>::bare(64, 2);
    other.add_iface("em0", PEER, 1500);
    let t = other.bound(9);
    for mut frame in h.sent(EM0) {
        wire::ip4::fill_checksum(&mut frame[14..34]);
        other.inject(EM0, frame);
    }
    assert_eq!(other.recv(t).unwrap().0, [5; 3000]);
}

fn a_checksum_verified_by_the_port_is_trusted_only_with_rx_offload<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(9);
    let bad = with_checksum(&udp_frame(PEER, 1000, ME, 9, b"x"), 0x1234);
    let inject = || {
        let mut frame = h.frame(&bad);
        frame.set_flags(buf::Flags::RX_IP_OK.with(buf::Flags::RX_L4_OK));
        h.stack.input(h.cx(), EM0, &mut buf::Burst::of(frame));
    };
    inject();
    assert!(h.recv(s).is_none());
    h.stack.set_offload(EM0, Offload { rx: true, ..Offload::default() });
    inject();
    assert!(h.recv(s).is_some());
}

fn a_broadcast_copy_without_a_buffer_is_counted_and_the_audit_balances<L: Locks>() {
    let h = Host::<L>::configured(pool(4), |_| {});
    h.add_iface("em0", ME, 1500);
    h.forget_counters();
    let sockets: Vec<usize> = (0..3)
        .map(|_| {
            let s = h.open();
            h.options(s, |o| o.reuse_port = true);
            h.stack.udp_bind(h.cx(), s, any(9)).unwrap();
            s
        })
        .collect();
    let hoard: Vec<_> = (0..2).map(|_| h.pool.get().unwrap()).collect();
    h.inject(EM0, Ip::udp((PEER.ip, 1), (Ipv4Addr::BROADCAST, 9), b"x").frame(Mac::BROADCAST, PEER.mac));
    drop(hoard);
    let got = sockets.iter().filter(|s| h.recv(**s).is_some()).count();
    assert_eq!(got, 2, "one in the frame that came, one in the only copy");
    assert_eq!(h.counter("inet.udp.in.no_copy"), 1);
    h.audit();
}
