//! Conversations about ICMP sockets, the same in both families: Linux's icmp(7).

use super::*;

conversations! {
    an_echo_is_answered
    replies_reach_the_socket_with_their_identifier
    an_icmp_socket_sends_echo_requests_only
    identifiers_are_bound_like_ports
    errors_about_echo_requests_reach_their_socket
    this_host_pings_itself
}

fn an_echo_is_answered<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.icmp(kin);
        assert_eq!(h.send(s, &request(kin, 1, b"data"), end(kin.peer())), Ok(12));
        let (sent, ident) = (h.sent_packet(), h.ident(s));
        let [i0, i1] = ident.to_be_bytes();
        assert_eq!((sent.src, sent.dst, sent.proto, sent.ttl), (kin.me(), kin.peer(), kin.icmp(), 64));
        assert_eq!(
            (&sent.payload[..2], &sent.payload[4..]),
            (&[kin.request(), 0][..], &[i0, i1, 0, 1, b'd', b'a', b't', b'a'][..])
        );
        h.forget_counters();
        let reply = kin.answer(ident, 1, b"data");
        h.receives(&reply);
        let (ip, icmp) = (ip(kin), kin.pick("icmp4", "icmp6"));
        h.assert_counters(&format!("in 1, {ip}.received 1, {ip}.delivered 1, {icmp}.received 1, raw.delivered 1"));
        assert_eq!(h.recv(s), Some((reply.payload, end(kin.peer()))));
        h.close([s]);
    }
}

fn replies_reach_the_socket_with_their_identifier<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (one, two, unbound) = (h.icmp(kin), h.icmp(kin), h.icmp(kin));
        for (s, ident) in [(one, 7), (two, 8)] {
            assert_eq!(h.stack.udp_bind(h.cx(), s, SocketAddr::new(kin.any(), ident)).map(|at| at.port()), Ok(ident));
        }
        h.stack.udp_connect(h.cx(), two, end(kin.peer())).unwrap();
        h.receives(&kin.answer(8, 1, b"data"));
        assert_eq!((h.recv(one), h.recv(two).is_some()), (None, true));
        h.forget_counters();
        for ident in [0, 9] {
            h.receives(&kin.answer(ident, 1, b"data"));
        }
        let [i0, i1] = 8u16.to_be_bytes();
        h.receives(&kin.message(kin.other(), kin.reply(), 0, [i0, i1, 0, 1], b"not the peer"));
        let mut wrong = kin.answer(7, 1, b"data");
        wrong.payload[8] ^= 1;
        h.receives(&wrong);
        let (ip, icmp) = (ip(kin), kin.pick("icmp4", "icmp6"));
        h.assert_counters(&format!(
            "in 4, {ip}.received 4, {ip}.delivered 4, {icmp}.received 4, {icmp}.in.ignored 3, {icmp}.in.bad_checksum 1"
        ));
        // The stack answers echo requests, even those with the identifier of a socket.
        h.receives(&kin.message(kin.peer(), kin.request(), 0, [0, 7, 0, 1], b"data"));
        assert_eq!(h.sent_packet().payload[0], kin.reply());
        for s in [one, two, unbound] {
            assert_eq!(h.recv(s), None);
            h.close([s]);
        }
    }
}

fn an_icmp_socket_sends_echo_requests_only<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let s = h.icmp(kin);
        for ty in (0..=255).filter(|ty| *ty != kin.request()) {
            assert_eq!(h.send(s, &[ty, 0, 0, 0, 0, 0, 0, 0], end(kin.peer())), Err(SendError::Invalid), "{ty}");
        }
        let message = request(kin, 1, b"");
        for len in 0..8 {
            assert_eq!(h.send(s, &message[..len], end(kin.peer())), Err(SendError::Invalid), "{len}");
        }
        let coded = [&[kin.request(), 1], &message[2..]].concat();
        assert_eq!(h.send(s, &coded, end(kin.peer())), Err(SendError::Invalid));
        h.sent_nothing(EM0);
        assert_eq!(h.ident(s), 0, "the socket is not bound");
        assert_eq!(h.send(s, &request(kin, 1, &vec![7; 65_507]), end(kin.peer())), Ok(65_515));
        assert!(h.sent(EM0).len() > 40);
        assert_eq!(h.send(s, &request(kin, 1, &vec![7; 65_508]), end(kin.peer())), Err(SendError::TooLong));
        h.close([s]);
    }
}

fn identifiers_are_bound_like_ports<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (one, two) = (h.icmp(kin), h.icmp(kin));
        let bind = |id, ip, ident| h.stack.udp_bind(h.cx(), id, SocketAddr::new(ip, ident)).map(|at| at.port());
        assert_eq!(bind(one, kin.other(), 7), Err(BindError::NotOurs));
        assert_eq!(bind(one, kin.pick(Kin::Six, Kin::Four).any(), 7), Err(BindError::Family));
        assert_eq!((bind(one, kin.me(), 7), bind(one, kin.me(), 8)), (Ok(7), Err(BindError::AlreadyBound)));
        assert_eq!(bind(two, kin.any(), 7), Err(BindError::InUse));
        let chosen = bind(two, kin.any(), 0).unwrap();
        assert!(chosen != 0 && chosen != 7);
        h.close([one]);
        let three = h.icmp(kin);
        assert_eq!(bind(three, kin.any(), 7), Ok(7), "free again");
        // If a host binds a large number of sockets, each gets a different identifier.
        let mut all: Vec<u16> = (0..300).map(|_| bind(h.icmp(kin), kin.any(), 0).unwrap()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 300);
    }
}

fn errors_about_echo_requests_reach_their_socket<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (s, other) = (h.icmp(kin), h.icmp(kin));
        h.stack.udp_bind(h.cx(), other, SocketAddr::new(kin.any(), 0)).unwrap();
        assert_eq!(h.send(s, &request(kin, 1, b"data"), end(kin.peer())), Ok(12));
        let quoted = h.sent_one(EM0)[14..].to_vec();
        let exceeded = kin.pick(icmp4::ty::TIME_EXCEEDED, icmp6::ty::TIME_EXCEEDED);
        let unreachable = kin.pick(icmp4::ty::UNREACHABLE, icmp6::ty::UNREACHABLE);
        for (ty, code, expected) in [
            (exceeded, 0, SoError::HostUnreachable),
            (unreachable, 0, SoError::NetUnreachable),
            (unreachable, kin.pick(1, 3), SoError::HostUnreachable),
        ] {
            h.forget_counters();
            h.receives(&error(kin, ty, code, [0; 4], &quoted));
            assert_eq!((h.error(s), h.error(other)), (Some(expected), None), "{kin:?} {ty} {code}");
            let (ip, icmp) = (ip(kin), kin.pick("icmp4", "icmp6"));
            h.assert_counters(&format!(
                "in 1, {ip}.received 1, {ip}.delivered 1, {icmp}.received 1, {icmp}.errors_delivered 1, {icmp}.in.consumed 1"
            ));
        }
        // A path MTU that is too small is an error; the next message is fragmented.
        let (ty, code) = kin.pick((unreachable, 4), (icmp6::ty::TOO_BIG, 0));
        h.receives(&error(kin, ty, code, [0, 0, 1300u16.to_be_bytes()[0], 1300u16.to_be_bytes()[1]], &quoted));
        assert_eq!(
            h.send(s, &request(kin, 2, &[7; 1400]), end(kin.peer())),
            Err(SendError::Earlier(SoError::MessageSize))
        );
        assert_eq!(h.send(s, &request(kin, 2, &[7; 1400]), end(kin.peer())), Ok(1408));
        assert_eq!(h.sent(EM0).len(), 2);
        // Messages that are not for the socket: another identifier, a reply, from an address that
        // is not ours, truncated.
        let changed = |at: usize, byte: u8| {
            let mut quoted = quoted.clone();
            quoted[kin.pick(20, 40) + at] ^= byte;
            quoted
        };
        for quoted in [changed(4, 1), changed(0, 1), changed(1, 1)] {
            h.receives(&error(kin, exceeded, 0, [0; 4], &quoted));
        }
        let mut foreign = quoted.clone();
        foreign[kin.pick(15, 23)] = 99;
        h.receives(&error(kin, exceeded, 0, [0; 4], &foreign));
        for len in 0..quoted.len().min(kin.pick(28, 48)) {
            h.receives(&error(kin, exceeded, 0, [0; 4], &quoted[..len]));
        }
        assert_eq!((h.error(s), h.error(other)), (None, None));
        // A connected socket gets only errors about its peer.
        h.stack.udp_connect(h.cx(), s, end(kin.other())).unwrap();
        h.receives(&error(kin, exceeded, 0, [0; 4], &quoted));
        assert_eq!(h.error(s), None);
        h.close([s, other]);
    }
}

fn this_host_pings_itself<L: Locks>() {
    let h = Host::<L>::six_and_neighbors();
    for kin in BOTH {
        let (s, raw) = (h.icmp(kin), h.raw(kin, kin.icmp()));
        assert_eq!(h.send(s, &request(kin, 1, b"data"), end(kin.me())), Ok(12));
        for _ in 0..3 {
            h.poll();
        }
        let (reply, from) = h.recv(s).unwrap();
        assert_eq!((reply[0], &reply[8..], from), (kin.reply(), &b"data"[..], end(kin.me())));
        let at = kin.pick(20, 0);
        assert_eq!(h.all_from(raw).iter().map(|m| m[at]).collect::<Vec<_>>(), [kin.request(), kin.reply()]);
        h.close([s, raw]);
    }
}
