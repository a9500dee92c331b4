//! Random and bit-flipped frames of every kind. There is no panic, the audit is exact, tables keep
//! their limits, and every buffer is returned.

use crate::common::packets::*;
use crate::common::*;
use clock::Duration;
use linerate_inet::route::Via;
use lock::Locks;
use std::net::{Ipv4Addr, SocketAddr};
use wire::arp::Op;
use wire::eth::EtherType;
use wire::icmp4::Problem;
use wire::igmp::Message;
use wire::{Mac, Proto, ip4};

conversations! {
    two_hundred_thousand_mutated_frames_break_no_invariant
    random_frames_break_no_invariant
    every_byte_set_to_every_value_breaks_no_invariant
    fused_and_separate_link_and_network_input_agree
}

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const NEIGHBORS: i64 = 32;

/// Creates a router with sockets of every kind, without rate limits for ICMP.
fn busy<L: Locks>() -> (Host<L>, Vec<usize>) {
    let h = Host::<L>::configured(pool(1024), |_| {});
    h.add_iface("em0", ME, 1500);
    h.add_iface("em1", ME2, 576);
    [EM0, EM1].iter().for_each(|iface| h.set_checked(*iface, Checked::Network));
    h.stack.sysctls.forwarding.set(1);
    h.stack.sysctls.accept_redirects.set(1);
    h.stack.sysctls.icmp_rate.set(0);
    h.stack.sysctls.neigh_limit.set(NEIGHBORS);
    h.knows(EM0, PEER);
    h.knows(EM1, FAR);
    h.route("198.51.100.0/24", Via::Gateway(EM0, GATEWAY.ip));
    h.route("203.0.113.0/24", Via::Gateway(EM1, FAR_GATEWAY.ip));
    let member = h.bound(11);
    h.stack.udp_join(h.cx(), member, GROUP.into(), Some(EM0)).unwrap();
    let talker = h.bound(12);
    h.options(talker, |o| o.broadcast = true);
    let shared = (0..2).map(|_| {
        let s = h.open();
        h.options(s, |o| o.reuse_port = true);
        h.stack.udp_bind(h.cx(), s, any(13)).unwrap();
        s
    });
    let mut sockets = vec![h.bound(9), h.connected(10, at(PEER, 1000)), member, talker];
    sockets.extend(shared);
    (h, sockets)
}

/// Returns a valid frame of each kind.
fn kinds() -> Vec<Vec<u8>> {
    let to = |l4port| udp_frame(PEER, 1000, ME, l4port, b"a payload of some length");
    let ours = Ip::udp((ME.ip, 10), (PEER.ip, 1000), &[0; 64]).packet();
    let long = Ip::udp((PEER.ip, 1000), (ME.ip, 9), &[7; 600]);
    let group = |dst: Ipv4Addr, mac, l4port| Ip::udp((PEER.ip, 1000), (dst, l4port), b"all").frame(mac, PEER.mac);
    let forward = |dst: [u8; 4], ttl| Ip::udp((PEER.ip, 1), (dst.into(), 9), &[1; 700]).ttl(ttl).between(PEER, ME);
    let mut frames = vec![
        arp(Op::Request, PEER, ME),
        arp(Op::Reply, PEER, ME),
        arp(Op::Request, OTHER, OTHER),
        to(9),
        to(10),
        to(99),
        group(Ipv4Addr::BROADCAST, Mac::BROADCAST, 13),
        group(Ipv4Addr::new(10, 0, 0, 255), Mac::BROADCAST, 13),
        group(GROUP, Mac::multicast4(GROUP), 11),
        ping(PEER, ME.ip, 1, 2, b"ping").between(PEER, ME),
        ping(PEER, ME.ip, 1, 2, b"ping").options(&[148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0]).between(PEER, ME),
        forward([10, 0, 1, 2], 64),
        forward([10, 0, 1, 77], 64),
        forward([10, 0, 1, 2], 1),
        forward([198, 51, 100, 1], 9),
        forward([203, 0, 113, 1], 9),
        forward([8, 8, 8, 8], 9),
        Ip::udp((PEER.ip, 1), (FAR.ip, 9), &[1; 700]).df().between(PEER, ME),
        Ip::new(PEER.ip, ME.ip, Proto::IPIP, ours.clone()).between(PEER, ME),
        Ip::new(PEER.ip, ME.ip, Proto::TCP, vec![0x50; 40]).between(PEER, ME),
        igmp_frame(PEER, Ipv4Addr::new(224, 0, 0, 1), Message::Query { max_resp_ds: 10, group: Ipv4Addr::UNSPECIFIED }),
        igmp_frame(PEER, GROUP, Message::Report { group: GROUP }),
        ether(ME.mac, PEER.mac, EtherType::IPV6, &[0x60; 64]),
        ether(ME.mac, PEER.mac, EtherType::VLAN, &[0; 64]),
    ];
    for problem in [
        Problem::Unreachable { code: 3, next_mtu: 0 },
        Problem::Unreachable { code: 4, next_mtu: 1400 },
        Problem::TimeExceeded { code: 0 },
        Problem::Redirect { code: 1, gateway: OTHER.ip },
        Problem::ParameterProblem { pointer: 1 },
    ] {
        frames.push(error_frame(PEER, ME, problem, &ours));
    }
    frames.extend(
        [(0, 304), (304, 400), (0, 200), (296, 304)].map(|(off, len)| long.fragment(off, len).between(PEER, ME)),
    );
    frames
}

/// Recomputes checksums, so that damaged frames pass the first checks.
fn repair(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(14..) else { return };
    let Ok(header) = ip4::Header::parse(packet) else { return };
    ip4::fill_checksum(&mut packet[..header.ihl_len]);
    let payload = &mut packet[header.ihl_len..usize::from(header.total_len)];
    match header.proto {
        Proto::UDP if payload.len() >= 8 && !header.is_fragment() => payload[6..8].fill(0),
        Proto::ICMP | Proto::IGMP if payload.len() >= 4 && !header.is_fragment() => {
            payload[2..4].fill(0);
            let sum = wire::checksum::sum(payload).finish();
            payload[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
}

fn mutate(rng: &mut Rng, frame: &mut Vec<u8>) {
    for _ in 0..rng.below(4) {
        let at = rng.below(frame.len());
        match rng.below(6) {
            0 | 1 => frame[at] ^= 1 << rng.below(8),
            2 => frame[at] = rng.next() as u8,
            3 => frame[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5)],
            4 => frame.truncate(at.max(1)),
            _ => frame.extend((0..rng.below(64)).map(|n| n as u8)),
        }
    }
    if rng.below(4) > 0 {
        repair(frame);
    }
}

fn assert_bounded<L: Locks>(h: &Host<L>) {
    h.audit();
    assert!(h.stack.neighbors(h.cx()).len() <= NEIGHBORS as usize + 2, "and two permanent entries");
    assert!(h.stack.held(h.cx()) <= 1024);
}

/// Performs application calls on the sockets.
fn use_sockets<L: Locks>(h: &Host<L>, sockets: &[usize], rng: &mut Rng) {
    let s = sockets[rng.below(sockets.len())];
    match rng.below(4) {
        0 => while h.recv(s).is_some() {},
        1 => drop(h.recv(s)),
        _ => {
            let to = [
                [10, 0, 0, 2],
                [10, 0, 0, 9],
                [10, 0, 1, 2],
                [198, 51, 100, 1],
                [239, 1, 2, 3],
                [127, 0, 0, 1],
                [10, 0, 0, 255],
            ];
            let to = SocketAddr::from((to[rng.below(7)], 1 + rng.below(16) as u16));
            let _ = h.send(s, &vec![0; rng.below(2000)], to);
            let _ = h.send(s, b"x", None);
        }
    }
}

fn two_hundred_thousand_mutated_frames_break_no_invariant<L: Locks>() {
    let seed = 0x11ce;
    println!("seed {seed:#x}");
    let (h, sockets) = busy::<L>();
    let mut rng = Rng::new(seed);
    let kinds = kinds();
    let n = if L::SHARED { 20_000 } else { 200_000 };
    let mut done = 0;
    while done < n {
        let burst: Vec<Vec<u8>> = (0..1 + rng.below(40))
            .map(|_| {
                let mut frame = kinds[rng.below(kinds.len())].clone();
                mutate(&mut rng, &mut frame);
                frame.truncate(2048);
                frame
            })
            .collect();
        done += burst.len();
        if h.pool.stats().live() < 900 {
            h.inject_all(if rng.below(8) == 0 { EM1 } else { EM0 }, &burst);
        }
        use_sockets(&h, &sockets, &mut rng);
        if rng.below(8) == 0 {
            let ms = [0, 1, 20, 1000, 30_000][rng.below(5)];
            h.advance(Duration::from_millis(ms));
        }
        if rng.below(64) == 0 {
            assert_bounded(&h);
        }
        h.sent(EM0);
        h.sent(EM1);
    }
    assert_bounded(&h);
    // The host still works.
    h.pass(Duration::from_secs(130));
    h.sent(EM0);
    h.inject(EM0, ping(PEER, ME.ip, 1, 1, b"alive?").between(PEER, ME));
    assert_eq!(icmp_of(&h.sent_one(EM0)).1, b"alive?");
}

fn random_frames_break_no_invariant<L: Locks>() {
    let seed = 0x5eed;
    println!("seed {seed:#x}");
    let (h, _) = busy::<L>();
    let mut rng = Rng::new(seed);
    for n in 0..20_000 {
        let len = rng.below(200);
        let mut frame: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
        // Half of the frames pass the Ethernet checks and reach IPv4 or ARP.
        if n % 2 == 0 && frame.len() >= 15 {
            frame[..12].copy_from_slice(&[ME.mac.0, PEER.mac.0].concat());
            frame[12..14].copy_from_slice(if n % 4 == 0 { &[8, 0] } else { &[8, 6] });
            frame[14] = 0x45;
            repair(&mut frame);
        }
        h.inject(EM0, frame);
        h.sent(EM0);
        h.sent(EM1);
    }
    assert_bounded(&h);
}

fn every_byte_set_to_every_value_breaks_no_invariant<L: Locks>() {
    let (h, sockets) = busy::<L>();
    let values: Vec<u8> = if L::SHARED { vec![0, 1, 0x7f, 0x80, 0xff] } else { (0..=255).collect() };
    for kind in kinds() {
        for at in 0..kind.len().min(80) {
            let frames = values.iter().map(|value| {
                let mut frame = kind.clone();
                frame[at] = *value;
                repair(&mut frame);
                frame
            });
            h.inject_all(EM0, frames);
            sockets.iter().for_each(|s| while h.recv(*s).is_some() {});
            h.sent(EM0);
            h.sent(EM1);
        }
        h.advance_secs(70);
        assert_bounded(&h);
    }
}

/// If sources are validated, the link and the network layer process a chunk one after the other,
/// otherwise in one pass. For packets with valid sources, the results and the counters are the
/// same.
fn fused_and_separate_link_and_network_input_agree<L: Locks>() {
    let seed = 0xfa57;
    println!("seed {seed:#x}");
    let [(together, _), (apart, _)] = [busy::<L>(), busy::<L>()];
    apart.stack.sysctls.source_validation.set(1);
    // With a default route every source is valid.
    [&together, &apart].iter().for_each(|h| h.route("0.0.0.0/0", Via::Gateway(EM1, FAR_GATEWAY.ip)));
    let mut rng = Rng::new(seed);
    let kinds = kinds();
    for _ in 0..2000 {
        // Most packets are to be forwarded, so that a chunk contains few exceptions.
        let burst: Vec<Vec<u8>> = (0..3 + rng.below(60))
            .map(|_| match rng.below(8) {
                0 => {
                    let mut frame = kinds[rng.below(kinds.len())].clone();
                    mutate(&mut rng, &mut frame);
                    frame.truncate(1500);
                    frame
                }
                n => {
                    let dst = [[10, 0, 1, 2], [203, 0, 113, n as u8], [198, 51, 100, 1], [10, 0, 0, 1]][rng.below(4)];
                    let mut frame =
                        Ip::udp((PEER.ip, 1), (dst.into(), 9), &[n as u8; 30]).ttl(1 + n as u8).between(PEER, ME);
                    frame.resize(frame.len() + rng.below(2) * 18, 0); // padded
                    frame
                }
            })
            .collect();
        for h in [&together, &apart] {
            h.inject_all(EM0, &burst);
        }
        for iface in [EM0, EM1] {
            assert_eq!(together.sent(iface), apart.sent(iface));
        }
    }
    let counted = |h: &Host<L>| h.stack.snapshot().into_iter().map(|one| (one.name, one.value)).collect::<Vec<_>>();
    assert_eq!(counted(&together), counted(&apart));
    for name in ["inet.ip4.forwarded", "inet.ip4.delivered", "inet.arp.requests_received", "inet.ip4.in.bad_checksum"] {
        assert!(together.counter(name) > 0, "{name} was not covered");
    }
    assert_bounded(&together);
    assert_bounded(&apart);
}
