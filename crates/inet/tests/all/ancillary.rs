//! Conversations about ancillary data of datagrams, the same in both families: RFC 3542 6, Linux's
//! ip(7) and ipv6(7).

use crate::common::kin::*;
use crate::common::*;
use linerate_inet::iface::{IfaceId, LOOPBACK};
use linerate_inet::ip4::OutputError;
use linerate_inet::udp::{Ancillary, AncillaryKind, PacketInfo, SendError};
use lock::Locks;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

conversations! {
    a_socket_receives_what_it_requests
    the_iface_is_that_of_arrival
    datagrams_queued_before_the_request_have_no_iface
    every_datagram_of_a_burst_has_ancillary_data
    ancillary_data_applies_to_one_datagram
    invalid_ancillary_data_is_rejected
    a_given_iface_must_match_the_route
    options_and_fragments_change_nothing
}

const ALL: [AncillaryKind; 3] = [AncillaryKind::PacketInfo, AncillaryKind::Ttl, AncillaryKind::Tos];

impl<L: Locks> Host<L> {
    fn requests(&self, id: usize, kinds: &[AncillaryKind], on: bool) {
        self.stack.with_pcb(self.cx(), id, |pcb| kinds.iter().for_each(|kind| pcb.set_receives(*kind, on))).unwrap();
    }

    fn ancillary(&self, id: usize) -> Option<Ancillary> {
        self.stack.udp_recv(self.cx(), id).map(|got| got.ancillary())
    }

    fn send_msg(&self, id: usize, to: SocketAddr, ancillary: Ancillary) -> Result<usize, SendError> {
        self.stack.udp_send_msg(self.cx(), id, b"text", Some(&to), &ancillary)
    }
}

fn info(addr: IpAddr, iface: impl Into<Option<IfaceId>>) -> Option<PacketInfo> {
    Some(PacketInfo { addr, iface: iface.into() })
}

fn a_socket_receives_what_it_requests<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        let arrives = || h.receives(&Pkt { ttl: 7, tos: 0xb8, ..kin.udp(5, 9, b"text") });
        arrives();
        assert_eq!(h.ancillary(s), Some(Ancillary::default()), "requests nothing");
        for (n, kind) in ALL.into_iter().enumerate() {
            h.requests(s, &ALL[..=n], true);
            arrives();
            let (ttl, tos) = ((n > 0).then_some(7), (n > 1).then_some(0xb8));
            assert_eq!(h.ancillary(s), Some(Ancillary { info: info(kin.me(), EM0), ttl, tos }), "{kind:?}");
        }
        h.requests(s, &ALL, false);
        arrives();
        assert_eq!(h.ancillary(s), Some(Ancillary::default()));
        h.stack.udp_close(h.cx(), s);
    }
}

fn the_iface_is_that_of_arrival<L: Locks>() {
    let h = Host::<L>::router6();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        h.requests(s, &ALL, true);
        for (iface, src) in [(EM0, kin.peer()), (EM1, kin.pick(FAR.ip.into(), six::FAR6.ip.into()))] {
            let pkt = Pkt { src, ..kin.udp(5, 9, b"text") };
            let pseudo = pseudo(src, kin.me(), pkt.proto, pkt.payload.len() as u32);
            let mut pkt = pkt;
            pkt.payload[6..8].fill(0);
            let sum = pseudo.add(wire::checksum::sum(&pkt.payload)).finish();
            pkt.payload[6..8].copy_from_slice(&sum.to_be_bytes());
            let mut frame = pkt.frame();
            if iface == EM1 {
                frame[..6].copy_from_slice(&ME2.mac.0);
            }
            h.inject(iface, frame);
            assert_eq!(h.ancillary(s).unwrap().info, info(kin.me(), iface));
        }
        let here = SocketAddr::from((kin.me(), 9));
        assert_eq!(h.send(s, b"to itself", here), Ok(9));
        h.poll();
        assert_eq!(h.ancillary(s).unwrap().info, info(kin.me(), LOOPBACK));
        h.stack.udp_close(h.cx(), s);
    }
}

/// IPv4 headers have no field for the interface. Only datagrams that arrive after the option was
/// set contain it.
fn datagrams_queued_before_the_request_have_no_iface<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        (0..3).for_each(|_| h.receives(&kin.udp(5, 9, b"before")));
        h.requests(s, &ALL, true);
        h.receives(&kin.udp(5, 9, b"after"));
        let before = info(kin.me(), kin.pick(None, Some(EM0)));
        for expected in [before, before, before, info(kin.me(), EM0)] {
            let got = h.stack.udp_recv(h.cx(), s).unwrap();
            assert_eq!((got.ancillary().info, got.from), (expected, SocketAddr::from((kin.peer(), 5))));
        }
        h.stack.udp_close(h.cx(), s);
    }
}

fn every_datagram_of_a_burst_has_ancillary_data<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        h.requests(s, &ALL, true);
        h.inject_all(EM0, (1..=40).map(|n| Pkt { ttl: n, ..kin.udp(5, 9, b"text") }.frame()));
        for n in 1..=40 {
            assert_eq!(h.ancillary(s), Some(Ancillary { info: info(kin.me(), EM0), ttl: Some(n), tos: Some(0) }));
        }
        h.stack.udp_close(h.cx(), s);
    }
}

fn ancillary_data_applies_to_one_datagram<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let alias4 = Ipv4Addr::new(10, 0, 0, 77);
    h.stack.add_addr(h.cx(), EM0, linerate_inet::iface::IfaceAddr { addr: alias4, len: 24 }).unwrap();
    let alias6: Ipv6Addr = "fd00::77".parse().unwrap();
    h.stack.add_addr6(h.cx(), EM0, linerate_inet::ip6::IfaceAddr6::new(alias6, 64)).unwrap();
    h.advance_secs(2);
    h.sent(EM0);
    for kin in BOTH {
        let (s, to) = (h.bound_of(kin, 9), SocketAddr::from((kin.peer(), 5)));
        let alias: IpAddr = kin.pick(alias4.into(), alias6.into());
        h.options(s, |options| (options.ttl, options.tos) = (Some(33), 0x10));
        for _ in 0..2 {
            // The cached headers are the same before and after.
            assert_eq!(h.send(s, b"text", to), Ok(4));
            let usual = h.sent_packet();
            assert_eq!((usual.src, usual.ttl, usual.tos), (kin.me(), 33, 0x10));
            for (ancillary, expected) in [
                (Ancillary { ttl: Some(1), ..Ancillary::default() }, (kin.me(), 1, 0x10)),
                (Ancillary { tos: Some(0xb8), ..Ancillary::default() }, (kin.me(), 33, 0xb8)),
                (Ancillary { info: info(kin.any(), EM0), ..Ancillary::default() }, (kin.me(), 33, 0x10)),
                (Ancillary::source(alias), (alias, 33, 0x10)),
                (Ancillary { info: info(alias, EM0), ttl: Some(255), tos: Some(0) }, (alias, 255, 0)),
            ] {
                assert_eq!(h.send_msg(s, to, ancillary), Ok(4));
                let sent = h.sent_packet();
                assert_eq!((sent.src, sent.ttl, sent.tos), expected, "{ancillary:?}");
            }
        }
        // For a multicast group, the ancillary data also sets time to live and interface of this
        // datagram.
        let group: IpAddr = kin.pick("224.0.0.99".parse().unwrap(), "ff02::99".parse().unwrap());
        let ancillary = Ancillary { info: info(kin.any(), EM0), ttl: Some(9), tos: None };
        assert_eq!(h.send_msg(s, (group, 5).into(), ancillary), Ok(4));
        assert_eq!((h.sent_packet().ttl, h.send(s, b"text", SocketAddr::from((group, 5)))), (9, Ok(4)));
        assert_eq!(h.sent_packet().ttl, 1);
        h.stack.udp_close(h.cx(), s);
    }
}

fn invalid_ancillary_data_is_rejected<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (s, to) = (h.bound_of(kin, 9), SocketAddr::from((kin.peer(), 5)));
        let from = |info| h.send_msg(s, to, Ancillary { info, ..Ancillary::default() });
        assert_eq!(from(info(kin.other(), None)), Err(SendError::BadSource), "not ours");
        let alien = kin.pick(Kin::Six, Kin::Four).me();
        assert_eq!(from(info(alien, None)), Err(SendError::BadSource), "the source is of the other family");
        assert_eq!(from(info(kin.any(), IfaceId(77))), Err(SendError::NoIface));
        // A hop limit of 0 keeps an IPv6 packet in the host; IPv4 has no such option.
        let none = Ancillary { ttl: Some(0), ..Ancillary::default() };
        assert_eq!(h.send_msg(s, to, none), kin.pick(Err(SendError::Invalid), Ok(4)));
        h.sent_nothing(EM0);
        h.stack.udp_close(h.cx(), s);
    }
    assert_eq!(h.counter("inet.ip6.out.hop_limit_zero"), 1);
    let near = six::near(six::PEER6.near, 5);
    let s = h.bound_of(Kin::Six, 9);
    let by = |iface| h.send_msg(s, near, Ancillary { info: info(Kin::Six.any(), iface), ..Ancillary::default() });
    assert_eq!((by(LOOPBACK), by(EM0)), (Err(SendError::Invalid), Ok(4)), "a link-local address has its own iface");
}

fn a_given_iface_must_match_the_route<L: Locks>() {
    let h = Host::<L>::router6();
    for kin in BOTH {
        let s = h.bound_of(kin, 9);
        for (iface, to, is_its) in [
            (EM0, kin.peer(), true),
            (EM1, kin.peer(), false),
            (EM1, kin.pick(FAR.ip.into(), six::FAR6.ip.into()), true),
        ] {
            let ancillary = Ancillary { info: info(kin.any(), iface), ..Ancillary::default() };
            let expected = if is_its { Ok(4) } else { Err(SendError::Output(OutputError::NoRoute)) };
            assert_eq!(h.send_msg(s, (to, 5).into(), ancillary), expected);
        }
        h.stack.udp_close(h.cx(), s);
    }
}

fn options_and_fragments_change_nothing<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    let s = h.bound_of(Kin::Four, 9);
    h.requests(s, &ALL, true);
    let plain = packets::Ip::udp((PEER.ip, 5), (ME.ip, 9), &[3; 600]).ttl(9).tos(4);
    let expected = Some(Ancillary { info: info(ME.ip.into(), EM0), ttl: Some(9), tos: Some(4) });
    h.inject(EM0, plain.clone().options(&[1; 8]).between(PEER, ME));
    assert_eq!(h.ancillary(s), expected);
    for off in [0, 400] {
        h.inject(EM0, plain.fragment(off, 400).between(PEER, ME));
    }
    assert_eq!(h.ancillary(s), expected);
}
