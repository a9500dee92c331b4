//! Fragments (RFC 8200 4.5, RFC 5722, RFC 6946, RFC 7112).

use super::*;
use clock::Duration;

conversations! {
    fragments_in_any_order_are_reassembled
    only_the_first_fragments_headers_count
    a_fragment_length_that_is_not_a_multiple_of_eight_is_reported
    a_fragment_ending_beyond_65535_is_reported
    a_first_fragment_must_hold_the_whole_header_chain
    an_overlap_ends_the_datagram_in_any_order
    after_an_overlap_later_fragments_are_dropped_silently
    contradicting_ends_are_an_overlap
    an_exact_duplicate_is_harmless
    an_atomic_fragment_is_processed_alone
    a_fragment_in_a_fragment_is_dropped
    a_timeout_after_sixty_seconds_is_reported
    without_the_first_fragment_the_timeout_is_not_reported
    a_timeout_of_a_group_datagram_is_not_reported
    datagrams_do_not_mix
    a_flood_of_incomplete_datagrams_is_bounded
    empty_and_malformed_fragments
    fragmented_discovery_is_dropped
    a_reply_too_long_for_the_link_is_fragmented
    the_longest_datagram
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 256) as u8).collect()
}

fn big(len: usize) -> P6 {
    echo_from(PEER6, ME6, &text(len))
}

/// Returns the fragments of a packet, `size` bytes each.
fn cut(whole: &P6, id: u32, size: usize) -> Vec<P6> {
    (0..whole.body.len()).step_by(size).map(|off| whole.fragment(id, off, size)).collect()
}

fn inject<'a, L: Locks>(h: &Host<L>, fragments: impl IntoIterator<Item = &'a P6>) {
    fragments.into_iter().for_each(|fragment| h.inject(EM0, fragment.by_peer()));
}

/// Checks that the echo reply with this text was sent in one packet.
#[track_caller]
fn assert_echoed<L: Locks>(h: &Host<L>, len: usize) {
    let got = sent6_one(h, EM0);
    assert!(got.is_icmp(129, 0), "{got:?}");
    assert_eq!(&got.body[8..], &text(len));
    h.audit();
}

fn orders<T: Clone>(of: &[T]) -> Vec<Vec<T>> {
    if of.len() < 2 {
        return vec![of.to_vec()];
    }
    let mut all = Vec::new();
    for first in 0..of.len() {
        let mut rest = of.to_vec();
        let head = rest.remove(first);
        all.extend(orders(&rest).into_iter().map(|tail| [vec![head.clone()], tail].concat()));
    }
    all
}

fn fragments_in_any_order_are_reassembled<L: Locks>() {
    let h = host6::<L>();
    let four = cut(&big(1000), 7, 256);
    assert_eq!(four.len(), 4);
    for (n, order) in orders(&four).into_iter().enumerate() {
        inject(&h, &order);
        assert_echoed(&h, 1000);
        assert_eq!(h.counter("inet.ip6.reassembled"), n as u64 + 1);
    }
    // Every fragment is 8 bytes long.
    inject(&h, &cut(&big(240), 8, 8));
    assert_echoed(&h, 240);
    assert_eq!((h.counter("inet.ip6.fragments_received"), h.stack.held(h.cx())), (4 * 24 + 31, 0));
}

/// RFC 8200 4.5: the headers in front of the Fragment header, and the Next Header value, are those
/// of the fragment with offset 0. Reserved bits are ignored.
fn only_the_first_fragments_headers_count<L: Locks>() {
    let h = host6::<L>();
    let parts = cut(&big(500), 9, 256);
    let [first, last] = &parts[..] else { panic!() };
    let mut odd = P6 { next: FRAGMENT, ..last.clone() };
    odd.body[0] = TCP;
    odd.body[1] = 0xff;
    odd.body[3] |= 6;
    for order in orders(&[first.clone().options(DEST, &[]).options(HBH, &[]), odd.options(DEST, &[])]) {
        inject(&h, &order);
        assert_echoed(&h, 500);
    }
}

/// RFC 8200 4.5: the fragment is discarded, with code 0 and a pointer to the Payload Length field.
fn a_fragment_length_that_is_not_a_multiple_of_eight_is_reported<L: Locks>() {
    let h = host6::<L>();
    for len in [1, 7, 9, 255] {
        let odd = P6::new(PEER6, ME6, ICMP6, vec![0; len]).fragment_header(3, 64, true);
        assert_error(&h, &odd, 4, 0, 4);
        h.advance_secs(1);
    }
    assert_eq!(
        (h.counter("inet.ip6.reass.malformed") + h.counter("inet.ip4.reass.malformed"), h.stack.held(h.cx())),
        (4, 0)
    );
    // Hop-by-Hop options in front do not change the pointer.
    assert_error(&h, &echo_from(PEER6, ME6, b"1234").fragment_header(3, 0, true).options(HBH, &[]), 4, 0, 4);
}

/// RFC 8200 4.5: Ping of Death fragments are discarded, with code 0 and a pointer to the Fragment
/// Offset field.
fn a_fragment_ending_beyond_65535_is_reported<L: Locks>() {
    let h = host6::<L>();
    for (off, len, more) in
        [(65528, 8, false), (65528, 8, true), (65528, 1200, false), (65000, 600, true), (64800, 736, false)]
    {
        let over = P6::new(PEER6, ME6, ICMP6, vec![0; len]).fragment_header(3, off, more);
        assert_error(&h, &over, 4, 0, 42);
        assert_error(&h, &over.options(DEST, &[]), 4, 0, 50);
        h.advance_secs(1);
    }
    assert_eq!(h.stack.held(h.cx()), 0);
    assert_alive(&h);
}

/// RFC 8200 4.5, RFC 7112 5: the fragment is discarded, with code 3 and pointer 0.
fn a_first_fragment_must_hold_the_whole_header_chain<L: Locks>() {
    let h = host6::<L>();
    // A fragment that ends after the destination options, after two of them, within them, within
    // the TCP header, or within the ICMP header.
    let options = big(100).options(DEST, &[]);
    let cut_short = [options.fragment(1, 0, 8), options.options(DEST, &[0x1e, 30]).fragment(2, 0, 8)];
    let long = big(100).options(DEST, &[&[0x1e, 60][..], &[0; 60]].concat()).fragment(3, 0, 32);
    let tcp = P6::new(PEER6, ME6, TCP, vec![0x50; 100]);
    for first in [&cut_short[0], &cut_short[1], &long, &tcp.fragment(4, 0, 8), &tcp.fragment(5, 0, 16)] {
        assert_error(&h, first, 4, 3, 0);
        h.advance_secs(1);
    }
    assert_eq!(h.stack.held(h.cx()), 0, "discarded");
    // A first fragment that includes the whole chain is accepted: 8 bytes of UDP or echo, or the
    // options and 8 more bytes.
    let first = big(100).options(DEST, &[]).fragment(6, 0, 16);
    let rest = big(100).options(DEST, &[]).fragment(6, 16, 1000);
    inject(&h, [&first, &rest]);
    assert_echoed(&h, 100);
    // No error is sent about a fragment other than the first, since it contains no header chain.
    assert_silent(&h, &P6::new(PEER6, ME6, TCP, vec![0; 8]).fragment_header(7, 8, true));
}

/// RFC 8200 4.5, RFC 5722 4: the whole datagram is dropped, and no error is sent.
fn an_overlap_ends_the_datagram_in_any_order<L: Locks>() {
    let h = host6::<L>();
    let whole = big(56); // 64 bytes of payload
    let cases: [&[(usize, usize)]; 6] = [
        &[(0, 32), (24, 16), (40, 100)],
        &[(0, 32), (32, 32), (16, 24)],
        &[(0, 56), (8, 8), (56, 8)],
        &[(0, 16), (8, 100), (16, 16)],
        &[(0, 24), (24, 24), (40, 100)],
        &[(0, 8), (0, 16), (16, 100)],
    ];
    let mut id = 100;
    for case in cases {
        for order in orders(case) {
            id += 1;
            let before = h.counter("inet.ip6.reassembled");
            let fragments: Vec<P6> = order.iter().map(|(off, len)| whole.fragment(id, *off, *len)).collect();
            inject(&h, &fragments);
            // A datagram may be complete before the overlapping fragment arrives. That fragment
            // then begins another datagram, which is never completed.
            let answers = sent6(&h, EM0);
            let whole_before = h.counter("inet.ip6.reassembled") - before;
            assert!(
                answers.iter().all(|got| got.is_icmp(129, 0) && got.body[8..] == text(56)),
                "{order:?}: {answers:?}"
            );
            assert_eq!(answers.len() as u64, whole_before, "{order:?}");
            let could_be_whole = order.len() > 2 && joins(&order[..2]) || joins(&order[..1]);
            assert_eq!(whole_before == 1, could_be_whole, "{order:?}");
        }
    }
    h.forget_counters();
    h.pass(Duration::from_secs(130));
    // Dropped datagrams time out without an error.
    assert_eq!(h.stack.held(h.cx()), 0);
    h.sent(EM0);
    assert_alive(&h);
}

/// Returns whether these parts cover the 64 bytes without an overlap.
fn joins(parts: &[(usize, usize)]) -> bool {
    let mut parts = parts.to_vec();
    parts.sort();
    let end = parts.iter().try_fold(0, |end, (off, len)| (*off == end).then_some(off + len));
    end.is_some_and(|end| end >= 64)
}

/// RFC 5722 4: "the entire datagram (and any constituent fragments, including those not yet
/// received) MUST be silently discarded".
fn after_an_overlap_later_fragments_are_dropped_silently<L: Locks>() {
    let h = host6::<L>();
    let whole = big(56);
    let part = |off, len| whole.fragment(55, off, len);
    inject(&h, [&part(0, 32), &part(24, 16)]);
    // All fragments arrive again, correctly: they are "those not yet received".
    inject(&h, [&part(0, 32), &part(32, 100)]);
    inject(&h, [&part(32, 100), &part(0, 32)]);
    sent6_nothing(&h, EM0);
    assert_eq!((h.counter("inet.ip6.reassembled"), h.counter("inet.icmp6.errors_sent")), (0, 0));
    assert_eq!(h.stack.held(h.cx()), 0, "nothing is kept of it");
    // Another datagram of the same sender is not affected.
    inject(&h, &cut(&big(56), 56, 32));
    assert_echoed(&h, 56);
    // No error is sent when the dropped datagram times out; afterwards the identification can be
    // used again.
    h.pass(Duration::from_secs(61));
    sent6_nothing(&h, EM0);
    inject(&h, &cut(&big(56), 55, 32));
    assert_echoed(&h, 56);
}

fn contradicting_ends_are_an_overlap<L: Locks>() {
    let h = host6::<L>();
    let part = |id, off, len, more| P6::new(PEER6, ME6, ICMP6, vec![0; len]).fragment_header(id, off, more);
    // Two last fragments; data after the last fragment; a last fragment that ends before held data.
    let cases = [
        [part(1, 64, 8, false), part(1, 72, 8, false)],
        [part(2, 64, 8, false), part(2, 128, 8, true)],
        [part(3, 128, 8, true), part(3, 64, 8, false)],
        [part(4, 64, 16, false), part(4, 64, 8, false)],
        [part(5, 64, 8, true), part(5, 64, 8, false)],
    ];
    for (n, [a, b]) in cases.iter().enumerate() {
        inject(&h, [a, b]);
        assert_eq!((h.stack.held(h.cx()), sent6(&h, EM0).len()), (0, 0), "case {}", n + 1);
    }
}

/// RFC 8200 4.5 permits this: "an implementation may choose to detect this case and drop exact
/// duplicate fragments while keeping the others".
fn an_exact_duplicate_is_harmless<L: Locks>() {
    let h = host6::<L>();
    let parts = cut(&big(1000), 7, 256);
    inject(&h, [&parts[0], &parts[0], &parts[1], &parts[0], &parts[3], &parts[3], &parts[1], &parts[2]]);
    assert_echoed(&h, 1000);
    assert_eq!(h.stack.held(h.cx()), 0);
    // jolt2: the same fragment repeatedly.
    (0..10_000).for_each(|_| h.inject(EM0, parts[2].by_peer()));
    assert!(h.stack.held(h.cx()) <= 2);
    assert_alive(&h);
}

/// RFC 6946 4: processed in isolation from any other fragments, even of the same set of source,
/// destination and identification.
fn an_atomic_fragment_is_processed_alone<L: Locks>() {
    let h = host6::<L>();
    let parts = cut(&big(500), 77, 256);
    inject(&h, [&parts[0]]);
    inject(&h, [&echo_from(PEER6, ME6, &text(20)).fragment_header(77, 0, false)]);
    assert_echoed(&h, 20);
    inject(&h, [&parts[1]]);
    assert_echoed(&h, 500);
    // Two atomic fragments with one identification do not affect each other either.
    let atomic = echo_from(PEER6, ME6, &text(21)).fragment_header(77, 0, false);
    inject(&h, [&atomic, &atomic]);
    assert_eq!(sent6(&h, EM0).len(), 2);
    assert_eq!(h.stack.held(h.cx()), 0);
}

/// CVE-2021-24086: reassembly must not be recursive.
fn a_fragment_in_a_fragment_is_dropped<L: Locks>() {
    let h = host6::<L>();
    for nested in [
        big(40).fragment_header(1, 0, false).fragment_header(2, 0, false),
        big(40).fragment(1, 0, 24).fragment_header(2, 0, false),
        big(40).fragment(1, 24, 24).fragment_header(2, 0, true),
        (0..7).fold(big(40), |packet, id| packet.fragment_header(id, 0, false)),
    ] {
        h.inject(EM0, nested.by_peer());
        assert!(sent6(&h, EM0).iter().all(|got| got.body[0] < 128));
    }
    // A nested fragment header that is visible only after reassembly.
    let inner = big(40).fragment_header(5, 0, false).options(DEST, &[]);
    inject(&h, &cut(&inner, 6, 24));
    assert!(sent6(&h, EM0).iter().all(|got| got.body[0] < 128));
    assert_eq!((h.counter("inet.icmp6.echoes_answered"), h.stack.held(h.cx())), (0, 2), "the first was dropped");
    h.pass(Duration::from_secs(61));
    sent6_nothing(&h, EM0);
    assert_eq!(h.stack.held(h.cx()), 0);
}

/// RFC 8200 4.5: 60 seconds after the first fragment that arrived. RFC 4443 3.3: code 1, if the
/// fragment with offset 0 was received.
fn a_timeout_after_sixty_seconds_is_reported<L: Locks>() {
    let h = host6::<L>();
    let parts = cut(&big(1000), 7, 256);
    inject(&h, [&parts[1]]);
    h.pass(Duration::from_secs(30));
    inject(&h, [&parts[0]]); // does not restart the timeout
    h.pass(Duration::from_millis(29_000));
    sent6_nothing(&h, EM0);
    assert_eq!(h.stack.held(h.cx()), 2);
    h.pass(Duration::from_secs(2));
    let got = sent6_one(&h, EM0);
    assert_eq!((got.is_icmp(3, 1), got.word(), got.src, got.dst), (true, 0, ME6, PEER6));
    assert_eq!(got.quoted(), parts[0].packet(), "the first fragment");
    assert_eq!(h.stack.held(h.cx()), 0);
    inject(&h, [&parts[2], &parts[3]]);
    sent6_nothing(&h, EM0);
}

fn without_the_first_fragment_the_timeout_is_not_reported<L: Locks>() {
    let h = host6::<L>();
    let parts = cut(&big(1000), 7, 256);
    inject(&h, &parts[1..]);
    h.pass(Duration::from_secs(61));
    sent6_nothing(&h, EM0);
    assert_eq!((h.stack.held(h.cx()), h.counter("inet.icmp6.errors_sent")), (0, 0));
}

fn a_timeout_of_a_group_datagram_is_not_reported<L: Locks>() {
    let h = host6::<L>();
    let first = echo_from(PEER6, ALL_NODES, &text(100)).fragment(9, 0, 64);
    h.inject(EM0, first.by_peer());
    h.pass(Duration::from_secs(61));
    sent6_nothing(&h, EM0);
    let odd = P6::new(PEER6, ALL_NODES, ICMP6, vec![0; 9]).fragment_header(3, 64, true);
    assert_silent(&h, &odd);
    assert_silent(&h, &P6::new(PEER6, ALL_NODES, ICMP6, vec![0; 800]).fragment_header(3, 65528, false));
    assert_silent(&h, &P6::new(PEER6, ALL_NODES, TCP, vec![0; 8]).fragment_header(4, 0, true));
}

fn datagrams_do_not_mix<L: Locks>() {
    let h = host6::<L>();
    let mine = cut(&echo_from(PEER6, ME6, &text(300)), 7, 160);
    let others = cut(&echo_from(OTHER6, ME6, &[9; 300]), 7, 160);
    let here = cut(&echo_from(PEER6, link_local(ME), &[8; 300]), 7, 160);
    let later = cut(&echo_from(PEER6, ME6, &[7; 300]), 0x1_0007, 160);
    for n in 0..2 {
        inject(&h, [&mine[n], &others[n], &here[n], &later[n]]);
    }
    let got = sent6(&h, EM0);
    let texts: Vec<_> = got.iter().map(|got| (got.dst, got.body[8])).collect();
    assert_eq!(texts, [(PEER6, text(1)[0]), (OTHER6, 9), (PEER6, 8), (PEER6, 7)]);
}

/// The Rose attack, from one source and from many: memory is limited, and one source does not evict
/// datagrams of others.
fn a_flood_of_incomplete_datagrams_is_bounded<L: Locks>() {
    let h = host6_of::<L>(4096);
    let mine = cut(&big(500), 7, 256);
    inject(&h, &mine[..1]);
    for id in 0..5_000 {
        h.inject(EM0, echo_from(OTHER6, ME6, &[0; 100]).fragment(id, 0, 48).frame(OTHER.mac, ME.mac));
    }
    assert!(h.stack.held(h.cx()) < 1_000, "{}", h.stack.held(h.cx()));
    inject(&h, &mine[1..]);
    assert_echoed(&h, 500);
    for id in 0..5_000u32 {
        let src = Ipv6Addr::from_bits(ME6.to_bits() >> 64 << 64 | 0x1_0000 | u128::from(id));
        h.inject(EM0, echo_from(src, ME6, &[0; 100]).fragment(id, 0, 48).frame(OTHER.mac, ME.mac));
    }
    assert!(h.stack.held(h.cx()) < 2_000, "{}", h.stack.held(h.cx()));
    inject(&h, &cut(&big(500), 8, 256));
    assert_echoed(&h, 500);
    // A sender with a /64 can use all its addresses. It gets at most half of the table, and earlier
    // datagrams stay.
    let afar = |n: u32, off| {
        let src = Ipv6Addr::from_bits(on(0x66, 0).to_bits() | 0x1_0000 | u128::from(n));
        h.inject(EM0, echo_from(src, ME6, &[0; 100]).fragment(n, off, 48).frame(OTHER.mac, ME.mac));
    };
    inject(&h, &cut(&big(500), 9, 256)[..1]);
    (0..5_000).for_each(|n| afar(n, 0));
    inject(&h, &cut(&big(500), 9, 256)[1..]);
    assert_echoed(&h, 500);
    // After the timeout, errors are sent within the rate limit, and nothing is held.
    h.pass(Duration::from_secs(61));
    assert_eq!(h.stack.held(h.cx()) as usize, h.stack.neighbors6(h.cx()).iter().map(|n| n.pending).sum::<usize>());
    assert!(h.counter("inet.icmp6.errors_sent") <= 200, "{}", h.counter("inet.icmp6.errors_sent"));
    assert_alive(&h);
}

fn empty_and_malformed_fragments<L: Locks>() {
    let h = host6::<L>();
    for off in [0, 8, 1024, 65528] {
        for more in [false, true] {
            h.inject(EM0, P6::new(PEER6, ME6, ICMP6, vec![]).fragment_header(off as u32, off, more).by_peer());
            h.audit();
        }
    }
    h.sent(EM0);
    // The payload length in the header is 0, although the frame contains bytes.
    let lying = big(100).fragment(3, 0, 64);
    assert_silent(&h, &P6 { len: Some(0), ..lying.clone() });
    h.inject(EM0, P6 { len: Some(8), ..lying.clone() }.by_peer());
    assert!(sent6_one(&h, EM0).is_icmp(4, 3), "the chain has no upper-layer header");
    assert_silent(&h, &P6 { len: Some(lying.body.len() as u16 + 1), ..lying });
    h.pass(Duration::from_secs(61));
    assert_eq!(h.stack.held(h.cx()), 0);
    h.sent(EM0);
    assert_alive(&h);
}

/// RFC 6980 5: solicitations, advertisements and redirects in fragments are dropped, atomic ones
/// too.
fn fragmented_discovery_is_dropped<L: Locks>() {
    let h = stranger6::<L>();
    let ask = ns(PEER6, ME6, ME6, &link_option(1, PEER.mac));
    let tell = na(PEER6, ME6, PEER6, "SO", &link_option(2, PEER.mac));
    for message in [ask, tell] {
        h.inject(EM0, message.clone().fragment_header(1, 0, false).by_peer());
        for part in [message.fragment(2, 0, 16), message.fragment(2, 16, 100)] {
            h.inject(EM0, part.by_peer());
        }
    }
    assert!(h.stack.neighbors6(h.cx()).is_empty());
    assert_eq!((sent6(&h, EM0).len(), h.counter("inet.nd.in.malformed")), (0, 4));
}

/// RFC 8200 4.5, 5: the source fragments in multiples of 8 bytes. Each fragment fits the link, and
/// the reassembled reply is the expected one.
fn a_reply_too_long_for_the_link_is_fragmented<L: Locks>() {
    let h = host6::<L>();
    for len in [1445, 1452, 2000, 8000] {
        inject(&h, &cut(&big(len), len as u32, 1024));
        let got = sent6(&h, EM0);
        assert!(got.len() > 1 || len <= 1452, "{len}: {}", got.len());
        let mut whole = Vec::new();
        for (n, part) in got.iter().enumerate() {
            if got.len() == 1 {
                whole = part.body.clone();
                break;
            }
            assert_eq!((part.next, part.body[0], part.body[1]), (FRAGMENT, ICMP6, 0));
            assert!(part.body.len() <= 1460, "fits the link");
            let word = u16::from_be_bytes([part.body[2], part.body[3]]);
            assert_eq!((usize::from(word & 0xfff8), word & 6), (whole.len(), 0), "in order");
            assert_eq!(word & 1 == 1, n + 1 < got.len());
            assert!(n + 1 == got.len() || part.body.len() % 8 == 0);
            assert_eq!(part.body[4..8], got[0].body[4..8], "one identification");
            whole.extend(&part.body[8..]);
        }
        assert_eq!((sum(ME6, PEER6, ICMP6, &whole), &whole[8..]), (0xffff, &text(len)[..]));
    }
}

/// RFC 8200 4.5: the reassembled payload may have up to 65,535 bytes. The memory for the reply is
/// limited, and no buffer is lost.
fn the_longest_datagram<L: Locks>() {
    let h = host6::<L>();
    inject(&h, &cut(&big(65_535 - 8), 1, 1448));
    h.sent(EM0);
    h.audit();
    inject(&h, &cut(&big(60_000), 2, 1448));
    let got = sent6(&h, EM0);
    let bytes: usize = got.iter().map(|part| part.body.len() - 8).sum();
    assert_eq!(bytes, 60_008);
    assert_alive(&h);
}
