//! Errors reported to inner senders: about packets that exceed the tunnel's MTU, and about outer
//! packets, in all four pairs of families (RFC 2473 7, 8, RFC 4213 3.2, RFC 2003 4, 5).

use super::gif::*;
use super::*;
use crate::common::packets::{self, Ip};
use wire::Proto;

conversations! {
    a_packet_too_long_for_the_tunnel_is_reported_with_its_mtu
    packets_of_1280_bytes_always_pass
    outer_errors_are_relayed_to_the_inner_sender
    a_lower_outer_path_mtu_is_relayed_to_the_inner_sender
    forged_errors_about_outer_packets_are_ignored
}

/// RFC 2473 7.1, RFC 4213 3.2, RFC 2003 5.1.
fn a_packet_too_long_for_the_tunnel_is_reported_with_its_mtu<L: Locks>() {
    for (outer, inner) in PAIRS {
        let (h, _) = gif::<L>(outer);
        let mtu: usize = if outer == Four { 1480 } else { 1460 };
        let header = if inner == Four { 28 } else { 48 };
        match inner {
            Six => {
                let got = assert_error(&h, &udp6((PEER6, 5), (BEYOND9, 6), &vec![7; mtu - 47]), 2, 0, mtu as u32);
                assert_eq!(got.src, ME6);
            }
            Four => {
                h.inject(EM0, Ip::udp((PEER.ip, 5), (BEYOND4, 6), &vec![7; mtu - 27]).df().between(PEER, ME));
                let problem = packets::icmp_of(&h.sent_one(EM0)).0;
                assert_eq!((problem.ty, problem.code, u32::from_be_bytes(problem.rest)), (3, 4, mtu as u32));
            }
        }
        h.sent(EM1);
        from_peer(&h, &on_its_way(inner, 0, 64, &vec![7; mtu - header]));
        assert_eq!(outer_of(&h, outer, inner).packet.len(), 1500);
    }
}

/// RFC 2473 7.1 b, RFC 4213 3.2.1: a tunnel always carries inner IPv6 packets of 1280 bytes. If the
/// outer path does not, the outer packet is fragmented.
fn packets_of_1280_bytes_always_pass<L: Locks>() {
    for outer in [Four, Six] {
        let (h, _) = gif::<L>(outer);
        h.stack.set_mtu(EM1, 1280);
        h.poll();
        h.sent(EM1);
        let packet = on_its_way(Six, 0, 64, &[7; 1280 - 48]);
        from_peer(&h, &packet);
        sent6_nothing(&h, EM0);
        let sent = h.sent(EM1);
        assert_eq!(sent.len(), 2, "{outer:?}");
        let mut inner: Vec<u8> = Vec::new();
        for frame in &sent {
            assert!(frame.len() <= 14 + 1280);
            match outer {
                Four => inner.extend(packets::ip_of(frame).2),
                Six => inner.extend(&Got::of(FAR.mac, &frame[14..]).body[8..]),
            }
        }
        let mut expected = packet.clone();
        expected[7] -= 1;
        assert_eq!(inner, expected);
        // A packet of one byte more is reported, with an MTU of 1280.
        from_peer(&h, &on_its_way(Six, 0, 64, &[7; 1281 - 48]));
        let reported = sent6_one(&h, EM0);
        assert!(reported.is_icmp(2, 0) && reported.word() == 1280, "{reported:?}");
        h.sent_nothing(EM1);
    }
}

/// Receives an error from a router about one of our outer packets.
fn about_outer(
    outer: Family,
    (ty4, code4, rest4): (u8, u8, u32),
    (ty6, code6, word6): (u8, u8, u32),
    packet: &[u8],
) -> Vec<u8> {
    match outer {
        Four => {
            let mut message = [&[ty4, code4, 0, 0], &rest4.to_be_bytes()[..], packet].concat();
            let sum = wire::checksum::sum(&message).finish();
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            Ip::new(FAR_GATEWAY.ip, ME2.ip, Proto::ICMP, message).frame(ME2.mac, FAR_GATEWAY.mac)
        }
        Six => error6(on(1, 0xfe), ME26, ty6, code6, word6, packet).frame(FAR_GATEWAY.mac, ME2.mac),
    }
}

/// RFC 2473 8.2, 8.3, RFC 2003 4: unreachable and time exceeded on the outer path become host
/// unreachable for the inner packet.
fn outer_errors_are_relayed_to_the_inner_sender<L: Locks>() {
    let troubles = [((3, 0, 0), (1, 0, 0)), ((3, 1, 0), (1, 3, 0)), ((11, 0, 0), (3, 0, 0))];
    for (outer, inner) in PAIRS {
        for (four, six) in troubles {
            let (h, _) = gif::<L>(outer);
            from_peer(&h, &on_its_way(inner, 0, 64, b"lost on its way"));
            let there = outer_of(&h, outer, inner);
            h.inject(EM1, about_outer(outer, four, six, &there.packet));
            let reported = h.sent_one(EM0);
            match inner {
                Four => {
                    let (problem, quoted) = packets::icmp_of(&reported);
                    assert_eq!((problem.ty, problem.code), (3, 1), "{outer:?} {inner:?}");
                    assert_eq!((&quoted[..8], &quoted[12..28]), (&there.inner[..8], &there.inner[12..28]));
                }
                Six => {
                    let got = Got::of(PEER.mac, &reported[14..]);
                    assert!(got.is_icmp(1, 3) && got.dst == PEER6, "{outer:?}: {got:?}");
                    assert_eq!(got.quoted(), there.inner);
                }
            }
            h.sent(EM1);
            h.audit();
        }
    }
}

/// RFC 2473 8.2 c, 8.4, RFC 2003 4.1, RFC 4213 3.2.2.
fn a_lower_outer_path_mtu_is_relayed_to_the_inner_sender<L: Locks>() {
    for (outer, inner) in PAIRS {
        let (h, id) = gif::<L>(outer);
        let packet = match inner {
            Four => Ip::udp((PEER.ip, 5), (BEYOND4, 6), &[7; 1400]).df().packet(),
            Six => on_its_way(Six, 0, 64, &[7; 1380]),
        };
        from_peer(&h, &packet);
        let there = outer_of(&h, outer, inner);
        h.inject(EM1, about_outer(outer, (3, 4, 1400), (2, 0, 1400), &there.packet[..there.packet.len().min(1232)]));
        let inside = if outer == Four { 1380 } else { 1360 };
        assert_eq!(usize::from(h.stack.iface(id).unwrap().mtu() as u16), inside, "{outer:?} {inner:?}");
        h.sent(EM0); // the error may be sent at once
        h.sent(EM1);
        // A further packet of that length is reported with the new MTU.
        from_peer(&h, &packet);
        let reported = h.sent_one(EM0);
        match inner {
            Four => assert_eq!(u32::from_be_bytes(packets::icmp_of(&reported).0.rest), inside as u32),
            Six => assert_eq!(Got::of(PEER.mac, &reported[14..]).word(), inside as u32),
        }
        h.sent_nothing(EM1);
        // RFC 8201 4, RFC 1191: a forged error does not lower the MTU for inner IPv6 packets below
        // 1280.
        h.inject(EM1, about_outer(outer, (3, 4, 68), (2, 0, 68), &there.packet[..there.packet.len().min(1232)]));
        h.sent(EM0);
        h.sent(EM1);
        if outer == Six {
            assert_eq!(h.stack.iface(id).unwrap().mtu(), inside, "discarded");
        }
        from_peer(&h, &on_its_way(Six, 0, 64, &[7; 1280 - 48]));
        sent6_nothing(&h, EM0);
        assert!(!h.sent(EM1).is_empty());
    }
}

/// Errors about packets that none of our tunnels sent, truncated quotes, and impossible inner senders
/// are ignored.
fn forged_errors_about_outer_packets_are_ignored<L: Locks>() {
    for (outer, inner) in PAIRS {
        let (h, id) = gif::<L>(outer);
        from_peer(&h, &on_its_way(inner, 0, 64, b"text"));
        let there = outer_of(&h, outer, inner).packet;
        let header = if outer == Four { 20 } else { 40 };
        for len in 0..header + if inner == Four { 20 } else { 40 } {
            h.inject(EM1, about_outer(outer, (3, 1, 0), (1, 3, 0), &there[..len]));
        }
        // Outer addresses that are not the tunnel's.
        for at in if outer == Four { [15, 19] } else { [23, 39] } {
            let mut other = there.clone();
            other[at] ^= 0x40;
            h.inject(EM1, about_outer(outer, (3, 1, 0), (1, 3, 0), &other));
            h.inject(EM1, about_outer(outer, (3, 4, 1300), (2, 0, 1300), &other));
        }
        // Inner senders that are not hosts, or this host itself, which has not sent such a packet.
        let nobodies: [Ipv6Addr; 4] = [NOWHERE, ALL_NODES, Ipv6Addr::LOCALHOST, ME6];
        for src in nobodies {
            let lie = P6 { src, ..udp6((PEER6, 5), (BEYOND9, 6), b"lie") }.packet();
            let lie = match outer {
                Four => Ip::new(ME2.ip, FAR.ip, Proto(41), lie).packet(),
                Six => P6::new(ME26, FAR6, 41, lie).packet(),
            };
            h.inject(EM1, about_outer(outer, (3, 1, 0), (1, 3, 0), &lie));
        }
        assert_eq!(h.sent(EM0).len(), 0, "{outer:?} {inner:?}");
        h.sent(EM1);
        assert_eq!(h.stack.iface(id).unwrap().mtu(), if outer == Four { 1480 } else { 1460 });
        assert_alive(&h);
    }
}
