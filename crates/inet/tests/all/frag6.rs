//! IPv6 fragments, received and sent (RFC 8200 4.5, RFC 5722, RFC 6946), and small path MTUs (RFC
//! 8201).

use crate::common::six::*;
use crate::common::*;
use crate::ip6::param;
use lock::Locks;
use std::collections::HashSet;
use wire::icmp6::{Problem, parameter, time_exceeded};
use wire::{Proto, ip6};

conversations! {
    a_large_echo_is_received_and_answered_in_fragments
    an_overlap_ends_the_whole_datagram
    an_atomic_fragment_is_processed_alone
    nested_fragment_headers_are_dropped
    malformed_fragments_are_answered_or_dropped
    incomplete_datagrams_time_out_and_are_reported
    other_families_do_not_evict_fragments
    identifications_are_unpredictable
    a_lower_path_mtu_is_kept_for_ten_minutes
}

fn a_large_echo_is_received_and_answered_in_fragments<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    h.forget_counters();
    let payload: Vec<u8> = (0..4000u32).map(|n| (n * 7) as u8).collect();
    let ping = ping6(PEER6.ip, ME6.ip, &payload);
    let mut parts: Vec<_> = (0..4008).step_by(1208).map(|off| ping.fragment(77, off, 1208)).collect();
    // Headers that are not fragmented stay in front. The last part arrives first.
    parts = parts.into_iter().map(|part| part.with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0])).rev().collect();
    for part in &parts {
        h.inject(EM0, part.between(PEER6, ME6));
    }
    let sent = h.sent6(EM0);
    let (mut heard, mut ids) = (Vec::new(), HashSet::new());
    for (_, header, part) in &sent {
        let fragment = chain_of(header, part).fragment.unwrap();
        assert_eq!((usize::from(fragment.offset), fragment.more), (heard.len(), heard.len() + part.len() - 8 < 4008));
        ids.insert(fragment.id);
        heard.extend_from_slice(&part[8..]);
    }
    assert_eq!((heard[0], &heard[8..], ids.len(), sent.len()), (129, &payload[..], 1, 3));
    h.assert_counters(
        "in 4, out 3, ip6.received 4, ip6.fragments_received 4, ip6.reassembled 1, ip6.delivered 1, icmp6.received 1, \
         icmp6.echoes_answered 1, ip6.sent 1, ip6.fragmented 1, ip6.fragments_sent 3, audit.made 3, \
         ip4.reass.merged 3, ip6.out.fragmented 1",
    );
}

/// RFC 5722.
fn an_overlap_ends_the_whole_datagram<L: Locks>() {
    let h = Host::<L>::six();
    let ping = ping6(PEER6.ip, ME6.ip, &[1; 100]);
    let other = Ip6 { payload: vec![2; 108], ..ping.clone() };
    let send = |part: Ip6| h.inject(EM0, part.between(PEER6, ME6));
    send(ping.fragment(5, 0, 56));
    send(ping.fragment(5, 0, 56)); // the network may duplicate packets (RFC 8200 4.5)
    h.assert_counters("in 2, ip6.received 2, ip6.fragments_received 2, ip4.reass.duplicate 1");
    send(other.fragment(5, 48, 24));
    h.assert_counters("in 1, ip6.received 1, ip6.fragments_received 1, ip4.reass.overlap 2");
    send(ping.fragment(5, 56, 60));
    h.assert_counters("in 1, ip6.received 1, ip6.fragments_received 1, ip4.reass.overlap 1");
    assert_eq!(h.stack.held(h.cx()), 0);
    send(ping.fragment(6, 0, 56));
    send(ping.fragment(6, 56, 60));
    assert_eq!((h.counter("inet.ip6.reassembled"), h.counter("inet.icmp6.echoes_answered")), (1, 1));
}

/// RFC 6946: a datagram of one fragment is complete, whatever other fragments with its
/// identification are held.
fn an_atomic_fragment_is_processed_alone<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    let ping = ping6(PEER6.ip, ME6.ip, &[1; 100]);
    h.inject(EM0, ping.fragment(5, 0, 56).between(PEER6, ME6));
    h.forget_counters();
    h.inject(EM0, ping6(PEER6.ip, ME6.ip, b"alone").fragment(5, 0, 100).between(PEER6, ME6));
    assert_eq!(&h.sent6_one(EM0).2[8..], b"alone");
    h.assert_counters(
        "in 1, out 1, ip6.received 1, ip6.delivered 1, icmp6.received 1, icmp6.echoes_answered 1, ip6.sent 1",
    );
    h.inject(EM0, ping.fragment(5, 56, 60).between(PEER6, ME6));
    assert_eq!(&h.sent6_one(EM0).2[8..], [1; 100]);
}

/// CVE-2021-24086.
fn nested_fragment_headers_are_dropped<L: Locks>() {
    let h = Host::<L>::six();
    let inner = ping6(PEER6.ip, ME6.ip, &[1; 100]).fragment(9, 0, 56);
    let twice = Ip6 { header: ip6::Header { next: Proto::FRAGMENT, ..inner.header }, payload: inner.payload };
    for part in [twice.fragment(5, 0, 32), twice.fragment(5, 32, 64)] {
        h.inject(EM0, part.between(PEER6, ME6));
    }
    h.sent_nothing(EM0);
    assert_eq!((h.counter("inet.ip6.in.bad_extension"), h.stack.held(h.cx())), (1, 1), "found in the first fragment");
    // The reassembled packet is a fragment again. Its second fragment header was not in the first
    // part.
    let pad = [0, 0, 1, 4, 0, 0, 0, 0];
    let hidden =
        Ip6 { header: ip6::Header { next: Proto::FRAGMENT, ..twice.header }, ..twice }.with(Proto::DEST_OPTIONS, &pad);
    h.inject(EM0, hidden.fragment(6, 0, 8).between(PEER6, ME6));
    assert_eq!(h.counter("inet.ip4.reass.malformed"), 1, "RFC 7112: refused; its sender is being asked for");
}

fn malformed_fragments_are_answered_or_dropped<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    h.forget_counters();
    let ping = ping6(PEER6.ip, ME6.ip, &[1; 100]);
    let mut odd = ping.fragment(5, 0, 50);
    h.inject(EM0, odd.between(PEER6, ME6));
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(error_of(&header, &payload).0, param(parameter::FIELD, 4), "the length is not a multiple of 8");
    h.assert_counters(
        "in 1, out 1, ip6.received 1, ip6.fragments_received 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1, ip4.reass.malformed 1",
    );
    // Ping of Death: an end beyond 65,535.
    odd = ping.fragment(5, 56, 60);
    odd.payload[2..4].copy_from_slice(&0xfff8u16.to_be_bytes());
    h.inject(EM0, odd.between(PEER6, ME6));
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(error_of(&header, &payload).0, param(parameter::FIELD, 42));
    h.assert_counters(
        "in 1, out 1, ip6.received 1, ip6.fragments_received 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1, ip4.reass.malformed 1",
    );
    odd = ping.fragment(5, 56, 60);
    odd.payload.truncate(8); // and no byte at all
    odd.header.payload_len = 8;
    h.inject(EM0, odd.between(PEER6, ME6));
    h.assert_counters("in 1, ip6.received 1, ip6.fragments_received 1, ip4.reass.malformed 1");
    // RFC 7112: the first fragment must contain all headers.
    let long = ping.clone().with(Proto::DEST_OPTIONS, &[[0, 4, 1, 38].as_slice(), &[0; 36]].concat());
    h.inject(EM0, long.fragment(8, 0, 16).between(PEER6, ME6));
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!((header.dst, &payload[..2], &payload[4..8]), (PEER6.ip, &[4, 3][..], &[0; 4][..]));
    h.assert_counters(
        "in 1, out 1, ip6.received 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1, ip4.reass.malformed 1",
    );
    assert_eq!(h.stack.held(h.cx()), 0);
}

fn incomplete_datagrams_time_out_and_are_reported<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    let ping = ping6(PEER6.ip, ME6.ip, &[1; 100]);
    h.inject(EM0, ping.fragment(5, 0, 56).between(PEER6, ME6));
    h.inject(EM0, ping.fragment(6, 56, 24).between(PEER6, ME6));
    h.forget_counters();
    h.pass(clock::Duration::from_secs(61));
    let (_, header, payload) = h.sent6_one(EM0);
    assert_eq!(error_of(&header, &payload).0, Problem::TimeExceeded { code: time_exceeded::REASSEMBLY });
    h.assert_counters("out 1, audit.made 1, icmp6.errors_sent 1, ip6.sent 1, ip4.reass.timeout 2");
}

fn other_families_do_not_evict_fragments<L: Locks>() {
    let h = Host::<L>::six();
    let ping = ping6(PEER6.ip, ME6.ip, &[1; 100]);
    h.inject(EM0, ping.fragment(5, 0, 56).between(PEER6, ME6));
    // A flood from one source gets only the share of one source, in both families together.
    for id in 0..300u32 {
        let flood = ping6(OTHER6.ip, ME6.ip, &[1; 100]).fragment(id, 0, 56);
        h.inject(EM0, flood.between(OTHER6, ME6));
    }
    assert_eq!(h.stack.held(h.cx()), 65);
    h.inject(EM0, ping.fragment(5, 56, 60).between(PEER6, ME6));
    assert_eq!(h.counter("inet.ip6.reassembled"), 1);
}

/// CVE-2021-45485.
fn identifications_are_unpredictable<L: Locks>() {
    let h = Host::<L>::six();
    let id_to = |peer: Six| {
        h.stack.set_neighbor6(h.cx(), EM0, peer.ip, peer.mac);
        let ping = ping6(peer.ip, ME6.ip, &[1; 2000]);
        for off in [0, 1000] {
            h.inject(
                EM0,
                ping.fragment(1 + h.counter("inet.ip6.reassembled") as u32, off, if off == 0 { 1000 } else { 1008 })
                    .between(peer, ME6),
            );
        }
        let sent = h.sent6(EM0);
        chain_of(&sent[0].1, &sent[0].2).fragment.unwrap().id
    };
    let (a, b, c) = (id_to(PEER6), id_to(PEER6), id_to(OTHER6));
    assert!((1..=16).contains(&b.wrapping_sub(a)), "{a} {b}");
    assert!(c.abs_diff(b) > 1000, "{b} {c}");
}

fn a_lower_path_mtu_is_kept_for_ten_minutes<L: Locks>() {
    let h = Host::<L>::six();
    h.stack.set_neighbor6(h.cx(), EM0, PEER6.ip, PEER6.mac);
    h.stack.sysctls.icmp6_rate.set(0);
    h.forget_counters();
    let answers = || {
        h.inject(EM0, ping6(PEER6.ip, ME6.ip, &[1; 1400]).between(PEER6, ME6));
        h.sent6(EM0).iter().map(|(_, header, _)| 40 + usize::from(header.payload_len)).collect::<Vec<_>>()
    };
    assert_eq!(answers(), [1448]);
    let reported = |mtu| {
        let quoted = Ip6::new(ME6.ip, PEER6.ip, Proto::IPV6_ICMP, [129; 1400]).packet();
        h.inject(EM0, error6(OTHER6.ip, ME6.ip, Problem::TooBig { mtu }, &quoted[..1000]).between(OTHER6, ME6));
    };
    reported(1300);
    assert_eq!(answers(), [1296, 208]);
    reported(60); // below the minimum MTU of a link, so discarded (RFC 8201 4)
    assert_eq!(answers(), [1296, 208]);
    reported(1280);
    assert_eq!(answers(), [1280, 224]);
    reported(9000);
    assert_eq!(answers(), [1280, 224]);
    assert_eq!(h.counter("inet.ip6.paths_narrowed"), 2);
    // Errors are accepted only about packets that this host may have sent.
    let foreign = Ip6::new(BEYOND6, PEER6.ip, Proto::IPV6_ICMP, [129; 1400]).packet();
    h.inject(EM0, error6(OTHER6.ip, ME6.ip, Problem::TooBig { mtu: 1280 }, &foreign[..1000]).between(OTHER6, ME6));
    assert_eq!(h.counter("inet.ip6.paths_narrowed"), 2);
    h.advance_secs(601);
    assert_eq!(answers(), [1448]);
}
