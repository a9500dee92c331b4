//! The fast path and the slow path of IPv6 input have the same results, for every mixture of
//! packets in a burst.
//!
//! Every kind of packet is sent to hosts in the same state: alone, in bursts of both families in
//! random order, and through the slow path alone (with the sysctl that makes the stack process each
//! frame separately). The counters, the frames sent and the datagrams read must be the same.

use crate::common::packets::*;
use crate::common::six::*;
use crate::common::*;
use linerate_inet::iface::Offload;
use linerate_inet::ip6::IfaceAddr6;
use linerate_inet::route::Via6;
use lock::Locks;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use wire::eth::EtherType;
use wire::tcp::Flags;
use wire::{Mac, Proto};

conversations! {
    a_host_processes_a_burst_like_single_frames
    checksums_verified_by_the_port_are_handled_alike_in_a_burst
    a_router_processes_a_burst_like_single_frames
    a_large_segment_is_compared_with_the_mtu_by_its_pieces
}

/// The manner in which frames arrive.
#[derive(Clone, Copy, Debug)]
enum Come {
    Alone,
    Together(u64),
    Slowly,
}

const WAYS: [Come; 7] = [
    Come::Alone,
    Come::Together(1),
    Come::Together(2),
    Come::Together(3),
    Come::Together(4),
    Come::Together(5),
    Come::Slowly,
];

/// An address under duplicate address detection: not usable yet.
const TENTATIVE: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x77);
const NOWHERE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdead, 0, 0, 0, 0, 0, 1);
const HOLE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xb1ac, 0, 0, 0, 0, 0, 1);
const REFUSED: Ipv6Addr = Ipv6Addr::new(0x2001, 0xffff, 0, 0, 0, 0, 0, 1);

/// Returns frames of every kind for `ME6`, and some of IPv4 and of neither family.
fn for_us() -> Vec<Vec<u8>> {
    let (peer, me) = ((PEER6.ip, 5), (ME6.ip, 9));
    let plain = |text: &[u8]| udp6(peer, me, text);
    let from = |src: Ipv6Addr| udp6((src, 5), me, b"from");
    let to = |dst: Ipv6Addr| udp6(peer, (dst, 9), b"to");
    let mut packets = vec![
        plain(b"one"),
        plain(b"two"),
        plain(&[7; 1400]),
        udp6((OTHER6.ip, 6), me, b"three"),
        udp6(peer, (ME6.ip, 10), b"connected"),
        udp6((OTHER6.ip, 5), (ME6.ip, 10), b"not its peer"),
        udp6(peer, (ME6.ip, 77), b"nobody"),
        udp6(peer, (ME6.ip, 0), b"port zero"),
        plain(b"options").with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]),
        plain(b"hops").with(Proto::HOP_BY_HOP, &[0, 0, 1, 4, 0, 0, 0, 0]),
        plain(b"routed").with(Proto::ROUTING, &[0, 0, 0, 1, 0, 0, 0, 0]),
        plain(b"few hops").hops(1),
        plain(b"class").class(0xb9),
        plain(&[3; 100]).fragment(1, 0, 56),
        plain(&[3; 100]).fragment(1, 56, 52),
        ping6(PEER6.ip, ME6.ip, b"ping"),
        ping6(PEER6.ip, ME6.ip, b"ping").with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]),
        tcp6(peer, (ME6.ip, 81), |_| (), &[], b""),
        tcp6(peer, (ME6.ip, 81), |header| header.flags = Flags::ACK, &[], b"text"),
        Ip6::new(PEER6.ip, ME6.ip, Proto(253), b"unknown".to_vec()),
        Ip6::new(PEER6.ip, ME6.ip, Proto::NO_NEXT, Vec::new()),
        udp6((PEER6.near, 5), (ME6.near, 9), b"near"),
        to(TENTATIVE),
        to(NOWHERE),
        to(Ipv6Addr::LOCALHOST),
        to(Ipv6Addr::UNSPECIFIED),
        to("::ffff:10.0.0.1".parse().unwrap()),
        to("ff02::1".parse().unwrap()),
        to("ff02::99".parse().unwrap()),
        from(ME6.ip),
        from(Ipv6Addr::LOCALHOST),
        from(Ipv6Addr::UNSPECIFIED),
        from("::ffff:10.0.0.2".parse().unwrap()),
        from("64:ff9b::1".parse().unwrap()),
        from("ff02::1".parse().unwrap()),
        from("fe80:1::2".parse().unwrap()),
        udp6(me, (ME6.ip, 9), b"to itself"),
        udp6(me, (NOWHERE, 9), b"in our name"),
    ];
    for change in 0..6 {
        let mut packet = plain(b"changed");
        match change {
            0 => packet.payload[6..8].fill(0),
            1 => packet.payload[8] ^= 1,
            2 => packet.payload[5] = 7,
            3 => packet.header.payload_len += 1,
            4 => packet.payload.truncate(5),
            _ => {
                packet.payload.extend(b"behind");
                packet.header.payload_len += 6;
            }
        }
        packets.push(packet);
    }
    let mut bad_tcp = tcp6(peer, (ME6.ip, 81), |_| (), &[], b"bad");
    bad_tcp.payload[20] ^= 1;
    packets.push(bad_tcp);
    let mut frames: Vec<Vec<u8>> = packets.iter().map(|packet| packet.between(PEER6, ME6)).collect();
    let bytes = plain(b"frame").packet();
    let other = Mac([2, 9, 9, 9, 9, 9]);
    for (dst, src, ethertype) in [
        (other, PEER6.mac, EtherType::IPV6),
        (ME6.mac, ME6.mac, EtherType::IPV6),
        (ME6.mac, Mac([1, 0, 0, 0, 0, 1]), EtherType::IPV6),
        (ME6.mac, Mac::ZERO, EtherType::IPV6),
        (Mac([0x33, 0x33, 0, 0, 0, 1]), PEER6.mac, EtherType::IPV6),
        (ME6.mac, PEER6.mac, EtherType::IPV4),
        (ME6.mac, PEER6.mac, EtherType(0x9999)),
    ] {
        frames.push(ether(dst, src, ethertype, &bytes));
    }
    frames.push(plain(b"padded").between(PEER6, ME6).into_iter().chain([0; 20]).collect());
    frames.push(plain(b"x").between(PEER6, ME6)[..50].to_vec());
    frames.push(plain(b"x").between(PEER6, ME6)[..10].to_vec());
    frames.extend((0..6u8).map(|n| udp_frame(PEER, 5, ME, 11, &[n])));
    frames.push(udp_frame(PEER, 5, ME, 77, b"nobody"));
    frames
}

/// Returns frames of every kind that a router forwards, and some that it does not.
fn for_others() -> Vec<Vec<u8>> {
    let peer = (PEER6.ip, 5);
    let to = |dst: Ipv6Addr| udp6(peer, (dst, 9), b"onward");
    let beyond = || to(BEYOND6);
    [
        beyond(),
        beyond().hops(2),
        beyond().hops(1),
        beyond().hops(0),
        beyond().with(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0]),
        beyond().with(Proto::HOP_BY_HOP, &[0, 0, 1, 4, 0, 0, 0, 0]),
        beyond().with(Proto::ROUTING, &[0, 0, 0, 1, 0, 0, 0, 0]),
        udp6(peer, (BEYOND6, 9), &[1; 1452]),
        udp6(peer, (BEYOND6, 9), &[1; 1453]),
        udp6(peer, (BEYOND6, 9), &[1; 1000]).fragment(3, 0, 504),
        udp6((PEER6.near, 5), (BEYOND6, 9), b"from a link"),
        udp6((Ipv6Addr::UNSPECIFIED, 5), (BEYOND6, 9), b"from nobody"),
        tcp6(peer, (BEYOND6, 80), |_| (), &[], b""),
        ping6(PEER6.ip, BEYOND6, b"ping"),
        to(FAR6.ip),
        to("fd01::99".parse().unwrap()),
        to(OTHER6.ip),
        to(NOWHERE),
        to(HOLE),
        to(REFUSED),
        to("fe80::99".parse().unwrap()),
        to("ff0e::1".parse().unwrap()),
        udp6((MY6.ip, 5), (ME6.ip, 9), b"in our name"),
        udp6((ME6.ip, 5), (BEYOND6, 9), b"in our name"),
        udp6(peer, (ME6.ip, 9), b"here"),
        ping6(PEER6.ip, MY6.ip, b"here"),
    ]
    .iter()
    .map(|packet| packet.between(PEER6, ME6))
    .collect()
}

/// Result of a run: counters, frames sent and datagrams read.
type Result = (BTreeMap<String, u64>, Vec<(u16, Vec<u8>)>, Vec<(usize, Vec<u8>)>);

/// Returns a frame without the IPv4 identification, which depends on the order of sending.
fn without_ident(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[12..14] == [8, 0] {
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    frame
}

fn result<L: Locks>(h: &Host<L>, sockets: &[usize], frames: &[Vec<u8>], come: Come) -> Result {
    let mut order: Vec<&Vec<u8>> = frames.iter().collect();
    match come {
        Come::Alone => order.into_iter().for_each(|frame| h.inject(EM0, frame)),
        Come::Slowly => {
            h.stack.sysctls.source_validation.set(1);
            order.chunks(32).for_each(|burst| h.inject_all(EM0, burst));
        }
        Come::Together(seed) => {
            let mut rng = Rng::new(seed);
            (1..order.len()).for_each(|at| order.swap(at, rng.below(at + 1)));
            while !order.is_empty() {
                let n = (3 + rng.below(60)).min(order.len());
                h.inject_all(EM0, order.drain(..n));
            }
        }
    }
    h.stack.sysctls.source_validation.set(0);
    let counted = h.counted();
    h.audit();
    let ifaces: Vec<_> = [EM0, EM1].into_iter().filter(|id| h.stack.iface(*id).is_some()).collect();
    let mut sent: Vec<(u16, Vec<u8>)> =
        ifaces.iter().flat_map(|&id| h.sent(id).into_iter().map(move |frame| (id.0, without_ident(frame)))).collect();
    sent.sort();
    let mut read: Vec<(usize, Vec<u8>)> =
        sockets.iter().flat_map(|&s| std::iter::from_fn(move || Some((s, h.recv(s)?.0)))).collect();
    read.sort();
    (counted, sent, read)
}

fn assert_same<L: Locks>(make: impl Fn() -> (Host<L>, Vec<usize>), frames: &[Vec<u8>]) {
    let results: Vec<Result> = WAYS
        .iter()
        .map(|come| {
            let (h, sockets) = make();
            result(&h, &sockets, frames, *come)
        })
        .collect();
    for (come, (counted, sent, read)) in WAYS.iter().zip(&results).skip(1) {
        assert_eq!(*counted, results[0].0, "{come:?}");
        let first = sent.iter().zip(&results[0].1).find(|pair| pair.0 != pair.1);
        assert_eq!(first, None, "{come:?}");
        assert_eq!(sent.len(), results[0].1.len(), "{come:?}");
        assert_eq!(*read, results[0].2, "{come:?}");
    }
    assert!(results[0].1.len() > 5 && results[0].2.len() > 5, "{results:?}");
}

/// Returns a host with three sockets: for any peer, for `PEER6`, and for IPv4.
fn host_of_three<L: Locks>() -> (Host<L>, Vec<usize>) {
    let h = Host::<L>::six_and_neighbors();
    let (six, connected, four) = (h.bound6(any6(9)), h.bound6(any6(10)), h.bound(11));
    h.stack.udp_connect(h.cx(), connected, (PEER6.ip, 5).into()).unwrap();
    h.stack.set_neighbor6(h.cx(), EM0, OTHER6.ip, OTHER6.mac);
    h.stack.add_addr6(h.cx(), EM0, IfaceAddr6::new(TENTATIVE, 64)).unwrap();
    h.sent(EM0);
    h.forget_counters();
    (h, vec![six, connected, four])
}

fn a_host_processes_a_burst_like_single_frames<L: Locks>() {
    assert_same(host_of_three::<L>, &for_us());
}

// RFC 8200 8.1: a UDP checksum of zero is wrong, whatever the port says.
fn checksums_verified_by_the_port_are_handled_alike_in_a_burst<L: Locks>() {
    let make = || {
        let (h, sockets) = host_of_three::<L>();
        h.stack.set_offload(EM0, Offload { rx: true, ..Offload::default() });
        (h, sockets)
    };
    assert_same(make, &for_us());
}

fn a_router_processes_a_burst_like_single_frames<L: Locks>() {
    let make = || {
        let h = Host::<L>::router6();
        h.stack.set_neighbor6(h.cx(), EM0, OTHER6.ip, OTHER6.mac);
        h.route6("2001:b1ac::/32", Via6::Blackhole);
        h.route6("2001:ffff::/32", Via6::Prohibit);
        let six = h.bound6(any6(9));
        h.forget_counters();
        (h, vec![six])
    };
    let frames: Vec<Vec<u8>> = for_others().into_iter().chain(for_us()).collect();
    assert_same(make, &frames);
}

// RFC 8200 5: the pieces of a large segment fit the link, with or without extension headers before
// the TCP header.
fn a_large_segment_is_compared_with_the_mtu_by_its_pieces<L: Locks>() {
    let options = [0, 0, 1, 4, 0, 0, 0, 0];
    for (size, extended, passes) in [(1440, false, true), (1441, false, false), (1432, true, true), (1433, true, false)]
    {
        // A sequence number whose first nibble is no data offset.
        for seq in [0x1000_0000, 0x8000_0000u32, 0xf000_0000] {
            let h = Host::<L>::roomy_router6();
            h.set_checked(EM1, Checked::Nothing);
            let segment = tcp6((PEER6.ip, 5), (BEYOND6, 80), |header| header.seq = seq, &[], &[7; 3600]);
            let segment = if extended { segment.with(Proto::DEST_OPTIONS, &options) } else { segment };
            h.inject_large(&segment.between(PEER6, ME6), size);
            assert_eq!(h.sent(EM1).len(), usize::from(passes), "{size} {extended} {seq:#x}");
            assert_eq!(h.counter("inet.ip6.forward.too_big"), u64::from(!passes));
            h.sent(EM0);
            h.audit();
        }
    }
}
