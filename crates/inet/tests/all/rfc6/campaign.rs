//! Random frames, flipped bits and every value of every byte, in IPv6 frames of every kind, to a
//! host and to a router with tunnels. Seeds are fixed. Throughout, echo requests of another station
//! are answered, tables keep their limits, and the audit is exact. At the end, every buffer has
//! been returned.

use super::*;
use crate::common::packets::Ip;
use clock::Duration;
use linerate_inet::tunnel::{Config, Kind};
use wire::Proto;

conversations! {
    a_hundred_thousand_mutated_frames_break_no_invariant
    every_byte_set_to_every_value_breaks_no_invariant
    chains_of_random_headers_break_no_invariant
    random_fragments_break_no_invariant
    random_discovery_breaks_no_invariant
}

const NEIGHBORS: i64 = 64;

/// Creates a router with tunnels of each pair of families, without rate limits for errors, and with
/// a small neighbor table.
fn busy<L: Locks>() -> Host<L> {
    let h = router6_of::<L>(2048);
    h.stack.sysctls.icmp6_rate.set(0);
    h.stack.sysctls.icmp_rate.set(0);
    h.stack.sysctls.neigh6_limit.set(NEIGHBORS);
    for (name, local, remote) in [("gif0", ME.ip.into(), PEER.ip.into()), ("gif1", ME6.into(), OTHER6.into())] {
        let id = h.stack.add_tunnel(h.cx(), name, Kind::Gif, Mac::ZERO).unwrap();
        h.stack.set_tunnel(h.cx(), id, Config { local, remote, ..Config::new(Kind::Gif) }).unwrap();
        let link = 0x20 + id.0;
        h.stack.add_addr6(h.cx(), id, IfaceAddr6::new(on(link, 1), 64)).unwrap();
        route6(&h, &format!("2001:db8:0:{:x}::/64", link + 0x10), Via6::Gateway(id, on(link, 2)));
    }
    route6(&h, "2001:db8:0:a::/64", Via6::Reject);
    route6(&h, "2001:db8:0:b::/64", Via6::Gateway(EM0, OTHER6));
    h.stack.set_mtu(EM1, 1280);
    settle(&h, EM1);
    settle(&h, EM0);
    h
}

/// Returns a valid frame of each kind.
fn kinds() -> Vec<Vec<u8>> {
    let echo = |dst| echo_from(PEER6, dst, &[7; 40]);
    let ours = echo_from(ME6, PEER6, &[7; 40]).packet();
    let long = echo_from(PEER6, ME6, &[7; 600]);
    let inner = udp6((on(0x33, 1), 1), (PEER6, 2), b"inside").packet();
    let mut packets = vec![
        echo(ME6),
        echo(link_local(ME)),
        echo(ALL_NODES),
        echo(ALL_ROUTERS),
        echo(FAR6),
        echo(BEYOND6).hop(1),
        echo(on(1, 0x77)),
        echo(on(0xa, 1)),
        echo(on(0xb, 1)),
        echo(on(0x33, 1)),
        echo(on(0x34, 1)),
        echo_from(PEER6, BEYOND6, &[7; 1400]),
        echo(ME6).options(DEST, &[0x9e, 2, 7, 7]).options(HBH, &[5, 2, 0, 0]),
        echo(ME6).behind(ROUTING, &[0, 0, 1, 0, 0, 0, 0]),
        echo(ME6).fragment_header(9, 0, false).options(DEST, &[]),
        long.fragment(1, 0, 304),
        long.fragment(1, 304, 1000),
        long.fragment(1, 296, 16),
        udp6((PEER6, 5), (ME6, 9), b"nobody"),
        P6::new(PEER6, ME6, TCP, vec![0x50; 40]),
        P6::new(PEER6, ME6, 253, vec![1; 10]),
        P6::new(PEER6, ME6, NONE, vec![]),
        P6::new(OTHER6, ME6, 41, inner.clone()),
        P6::new(OTHER6, ME6, 4, Ip::udp((PEER.ip, 1), (FAR.ip, 2), b"inside").packet()),
        ns(PEER6, solicited(ME6), ME6, &link_option(1, PEER.mac)),
        ns(on(0, 0x55), solicited(ME6), ME6, &link_option(1, OTHER.mac)),
        ns(NOWHERE, solicited(ME6), ME6, &[]),
        na(on(0, 0x55), ME6, on(0, 0x55), "SO", &link_option(2, OTHER.mac)),
        na(PEER6, ALL_NODES, PEER6, "O", &link_option(2, PEER.mac)),
        icmp6(link_local(PEER), ALL_NODES, 134, 0, &[&[0; 12][..], &link_option(1, PEER.mac)].concat()).hop(255),
        icmp6(link_local(PEER), ME6, 137, 0, &[0; 36]).hop(255),
        icmp6(link_local(PEER), ALL_NODES, 130, 0, &[0; 24]).hop(1).options(HBH, &[5, 2, 0, 0]),
        icmp6(
            link_local(PEER),
            "ff02::16".parse().unwrap(),
            143,
            0,
            &[0, 0, 0, 1, 4, 0, 0, 0, 0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5],
        )
        .hop(1),
    ];
    for (ty, code, word) in [(1, 3, 0), (2, 0, 1300), (3, 0, 0), (4, 1, 6)] {
        packets.push(error6(PEER6, ME6, ty, code, word, &ours));
        let tunneled = P6::new(ME6, OTHER6, 41, udp6((PEER6, 1), (on(0x34, 1), 2), b"inside").packet()).packet();
        packets.push(error6(FAR6, ME6, ty, code, word, &tunneled));
    }
    let mut frames: Vec<_> = packets.iter().map(P6::by_peer).collect();
    frames.push(Ip::new(PEER.ip, ME.ip, Proto(41), inner).between(PEER, ME));
    frames
}

/// Recomputes an ICMPv6 checksum, if ICMPv6 is the first header, so that damaged messages pass the
/// first checks.
fn repair(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(14..) else { return };
    if packet.len() < 48 || packet[0] >> 4 != 6 {
        return;
    }
    let len = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
    let (src, dst) = (address(8), address(24));
    let (next, at) = match packet[6] {
        HBH | DEST => (packet[40], 40 + (usize::from(packet[41]) + 1) * 8),
        next => (next, 40),
    };
    if next != ICMP6 || 40 + len > packet.len() || at + 4 > 40 + len {
        return;
    }
    packet[at + 2..at + 4].fill(0);
    let sum = !sum(src, dst, ICMP6, &packet[at..40 + len]);
    packet[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Checks that this host's own packets are valid and that tables keep their limits.
fn look<L: Locks>(h: &Host<L>) {
    for iface in [EM0, EM1] {
        for frame in h.sent(iface) {
            assert!(frame.len() >= 14 && frame[6] & 1 == 0);
            if frame[12..14] == [0x86, 0xdd] {
                assert!(frame.len() >= 54 && frame[21] > 0, "hop limit 0");
                assert!(frame[22] != 0xff, "from a group");
            }
        }
    }
    assert!(h.stack.neighbors6(h.cx()).len() <= NEIGHBORS as usize);
    assert!(h.stack.held(h.cx()) < 1_200);
    h.audit();
}

/// Restores the neighbors that an echo needs, and advances the time.
fn after<L: Locks>(h: &Host<L>) {
    h.pass(Duration::from_secs(70));
    look(h);
    assert_alive(h);
    h.inject(EM0, echo_from(PEER6, FAR6, b"through").by_peer());
    assert!(sent6(h, EM1).iter().any(|got| got.dst == FAR6 && got.body.ends_with(b"through")));
    h.pass(Duration::from_secs(70));
    look(h);
    assert_eq!(h.stack.held(h.cx()), 0);
}

fn a_hundred_thousand_mutated_frames_break_no_invariant<L: Locks>() {
    let h = busy::<L>();
    let kinds = kinds();
    let mut rng = Rng::new(0x6666);
    for n in 0..100_000 {
        let mut frame = kinds[rng.below(kinds.len())].clone();
        for _ in 0..rng.below(4) {
            let at = rng.below(frame.len());
            match rng.below(6) {
                0 => frame.truncate(at),
                1 => frame.extend(vec![rng.next() as u8; rng.below(60)]),
                2 => frame[at] = rng.next() as u8,
                3 => frame[at] = [0, 1, 0xff, 0x80, 8, 44, 60, 58][rng.below(8)],
                _ => frame[at] ^= 1 << rng.below(8),
            }
            if frame.is_empty() {
                break;
            }
        }
        if rng.below(4) > 0 {
            repair(&mut frame);
        }
        h.inject(if rng.below(8) == 0 { EM1 } else { EM0 }, &frame);
        if n % 200 == 0 {
            h.advance(Duration::from_millis(rng.below(400) as u64));
            look(&h);
        }
    }
    after(&h);
}

fn every_byte_set_to_every_value_breaks_no_invariant<L: Locks>() {
    let h = busy::<L>();
    for kind in kinds() {
        for at in 14..kind.len().min(14 + 40 + 64) {
            for value in [0, 1, 2, 4, 6, 8, 17, 41, 43, 44, 50, 51, 58, 59, 60, 0x3f, 0x40, 0x7f, 0x80, 0xfe, 0xff] {
                let mut frame = kind.clone();
                frame[at] = value;
                repair(&mut frame);
                h.inject(EM0, &frame);
            }
        }
        look(&h);
        h.advance(Duration::from_millis(100));
    }
    after(&h);
}

/// Random headers, of any length and in any order, to this host and through it.
fn chains_of_random_headers_break_no_invariant<L: Locks>() {
    let h = busy::<L>();
    let mut rng = Rng::new(0x8200);
    for n in 0..20_000 {
        let dst = [ME6, ME6, FAR6, ALL_NODES, link_local(ME)][rng.below(5)];
        let mut packet = echo_from(PEER6, dst, &[7; 16]);
        for _ in 0..rng.below(11) {
            let proto = [HBH, DEST, DEST, ROUTING, FRAGMENT, 51, 135, 50, NONE][rng.below(9)];
            let mut rest: Vec<u8> = (0..7 + 8 * rng.below(3)).map(|_| rng.next() as u8 & 0x9f).collect();
            if rng.below(3) > 0 {
                rest[0] = (rest.len() / 8) as u8;
            }
            packet = packet.behind(proto, &rest);
        }
        h.inject(EM0, packet.by_peer());
        if n % 100 == 0 {
            h.advance(Duration::from_millis(50));
            look(&h);
        }
    }
    after(&h);
}

/// Random fragments of a few datagrams. Every datagram that is reassembled has the right content.
fn random_fragments_break_no_invariant<L: Locks>() {
    let h = busy::<L>();
    let mut rng = Rng::new(0x5722);
    let whole = echo_from(PEER6, ME6, &(0..1016).map(|i| i as u8).collect::<Vec<_>>());
    let mut echoed = 0;
    for n in 0..50_000u32 {
        let id = n / 24;
        let off = 256 * rng.below(4);
        let packet = match rng.below(40) {
            0 => whole.fragment(id, 8 * rng.below(128), 8 * rng.below(40) + 8),
            1 => P6::new(PEER6, ME6, ICMP6, vec![9; rng.below(100)]).fragment_header(
                id,
                8 * rng.below(8192),
                rng.below(2) == 0,
            ),
            _ => whole.fragment(id, off, 256),
        };
        h.inject(EM0, packet.by_peer());
        for frame in h.sent(EM0) {
            if frame[12..14] == [0x86, 0xdd] && frame[20] == ICMP6 && frame[54] == 129 {
                echoed += 1;
                assert_eq!(frame[58..], whole.body[4..], "seed 0x5722, {n}");
            }
        }
        if n % 500 == 0 {
            h.advance(Duration::from_millis(100));
            look(&h);
        }
    }
    assert!(echoed > 500, "{echoed}");
    after(&h);
}

/// Neighbor discovery messages of every type, with any options, from and to any address. Permanent
/// neighbors do not change, and none of our addresses is removed.
fn random_discovery_breaks_no_invariant<L: Locks>() {
    let h = busy::<L>();
    let mut rng = Rng::new(0x4861);
    let own = h.stack.iface(EM0).unwrap().addrs6(h.cx());
    let addrs = [
        PEER6,
        OTHER6,
        ME6,
        on(0, 0x55),
        FAR6,
        NOWHERE,
        ALL_NODES,
        link_local(PEER),
        link_local(ME),
        solicited(ME6),
        on(0x99, 9),
    ];
    for n in 0..50_000 {
        let mut any = || addrs[rng.below(addrs.len())];
        let (src, dst, target, other) = (any(), any(), any(), any());
        let mut body = vec![rng.next() as u8 & 0xe0, 0, 0, 0];
        body.extend(target.octets());
        if rng.below(4) == 0 {
            body.extend(other.octets());
        }
        for _ in 0..rng.below(4) {
            let units = rng.below(4);
            body.extend([rng.below(6) as u8, units as u8]);
            body.extend((0..(units * 8).saturating_sub(2)).map(|_| rng.next() as u8));
        }
        body.truncate(body.len() - if rng.below(8) == 0 { rng.below(body.len()) } else { 0 });
        let ty = 133 + rng.below(5) as u8;
        let hop = if rng.below(8) == 0 { 64 } else { 255 };
        h.inject(EM0, icmp6(src, dst, ty, u8::from(rng.below(16) == 0), &body).hop(hop).by_peer());
        if n % 100 == 0 {
            h.advance(Duration::from_millis(200));
            look(&h);
        }
    }
    assert_eq!(
        (entry(&h, PEER6), entry(&h, FAR6)),
        (Some((State::Permanent, PEER.mac)), Some((State::Permanent, FAR.mac)))
    );
    assert_eq!(h.stack.iface(EM0).unwrap().addrs6(h.cx()), own);
    after(&h);
}
