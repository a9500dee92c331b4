//! Conversations about sockets' addresses: BSD's bind rules, RFC 6056, RFC 1122 4.1.3.

use crate::common::packets::*;
use crate::common::*;
use linerate_inet::iface::IfaceAddr;
use linerate_inet::udp::{BindError, SendError};
use lock::Locks;
use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};

conversations! {
    two_sockets_share_a_port_only_if_both_set_the_option
    two_addresses_may_share_a_port_and_the_more_specific_one_receives
    a_closed_socket_frees_its_port
    a_socket_that_is_connected_keeps_its_port
    a_socket_is_bound_once_and_to_an_address_of_ours
    a_socket_that_sends_unbound_is_bound
    a_connected_socket_receives_from_its_peer_only
    several_connections_share_a_port_and_each_gets_its_own
    a_socket_reconnects_and_disconnects
    connecting_without_a_route_fails_and_changes_nothing
    connecting_again_takes_the_source_address_towards_the_new_peer
    a_source_address_is_taken_from_the_link_of_the_destination
    ephemeral_ports_are_in_their_range_and_never_given_twice
    ephemeral_ports_are_unpredictable
    all_ephemeral_ports_can_be_used_until_none_is_left
    many_sockets_are_found_each_by_its_own
}

fn host<L: Locks>() -> Host<L> {
    let h = Host::new();
    h.knows(EM0, PEER);
    h.knows(EM0, OTHER);
    h.forget_counters();
    h
}

fn bind<L: Locks>(h: &Host<L>, addr: SocketAddr, reuse: bool) -> Result<usize, BindError> {
    let id = h.open();
    h.options(id, |o| o.reuse_port = reuse);
    h.stack.udp_bind(h.cx(), id, addr).map(|_| id).inspect_err(|_| {
        h.stack.udp_close(h.cx(), id);
    })
}

fn two_sockets_share_a_port_only_if_both_set_the_option<L: Locks>() {
    let h = host::<L>();
    let on_me = at(ME, 5000);
    for (first, second) in [(any(5000), any(5000)), (any(5000), on_me), (on_me, any(5000)), (on_me, on_me)] {
        for (a, b, works) in [(false, false, false), (true, false, false), (false, true, false), (true, true, true)] {
            let one = bind(&h, first, a).unwrap();
            let two = bind(&h, second, b);
            assert_eq!(two.is_ok(), works, "{first} ({a}), {second} ({b})");
            if !works {
                assert_eq!(two, Err(BindError::InUse));
            }
            h.stack.udp_close(h.cx(), one);
            two.into_iter().for_each(|id| assert!(h.stack.udp_close(h.cx(), id)));
        }
    }
    // The same port at different addresses does not conflict.
    bind(&h, on_me, false).unwrap();
    bind(&h, SocketAddr::from((Ipv4Addr::LOCALHOST, 5000)), false).unwrap();
    bind(&h, at(ME, 5001), false).unwrap();
    h.assert_counters("");
}

fn two_addresses_may_share_a_port_and_the_more_specific_one_receives<L: Locks>() {
    let h = host::<L>();
    let wide = bind(&h, any(5000), true).unwrap();
    let exact = bind(&h, at(ME, 5000), true).unwrap();
    h.inject(EM0, udp_frame(PEER, 1, ME, 5000, b"x"));
    assert!(h.recv(exact).is_some() && h.recv(wide).is_none());
    h.stack.udp_close(h.cx(), exact);
    h.inject(EM0, udp_frame(PEER, 1, ME, 5000, b"x"));
    assert!(h.recv(wide).is_some());
}

fn a_closed_socket_frees_its_port<L: Locks>() {
    let h = host::<L>();
    for _ in 0..1000 {
        let s = bind(&h, any(5000), false).unwrap();
        assert!(h.stack.udp_close(h.cx(), s));
    }
    let s = bind(&h, any(5000), false).unwrap();
    h.stack.udp_connect(h.cx(), s, at(PEER, 9)).unwrap();
    h.stack.udp_close(h.cx(), s);
    bind(&h, any(5000), false).unwrap();
}

/// BSD's in_pcblookup_local and Linux's udp_lib_lport_inuse include connected sockets. Otherwise
/// another program could take over the port that a connected socket uses and keeps when it
/// disconnects.
fn a_socket_that_is_connected_keeps_its_port<L: Locks>() {
    let h = host::<L>();
    let s = bind(&h, any(5000), false).unwrap();
    h.stack.udp_connect(h.cx(), s, at(PEER, 9)).unwrap();
    assert_eq!(bind(&h, any(5000), false), Err(BindError::InUse));
    h.stack.udp_disconnect(h.cx(), s).unwrap();
    assert_eq!(bind(&h, any(5000), false), Err(BindError::InUse));
}

fn a_socket_is_bound_once_and_to_an_address_of_ours<L: Locks>() {
    let h = host::<L>();
    let s = h.open();
    let bind = |addr: SocketAddr| h.stack.udp_bind(h.cx(), s, addr);
    assert_eq!(bind(at(PEER, 5000)), Err(BindError::NotOurs));
    assert_eq!(bind("192.0.2.1:5000".parse().unwrap()), Err(BindError::NotOurs));
    assert_eq!(bind("[::1]:5000".parse().unwrap()), Err(BindError::Family));
    assert_eq!(h.stack.udp_bind(h.cx(), 4711, any(1)), Err(BindError::NoSocket));
    assert_eq!(bind(at(ME, 5000)), Ok(at(ME, 5000)));
    assert_eq!(bind(any(5001)), Err(BindError::AlreadyBound));
    let t = h.open();
    assert_eq!(h.stack.udp_bind(h.cx(), t, "127.0.0.1:5000".parse().unwrap()).map(|a| a.port()), Ok(5000));
}

fn a_socket_that_sends_unbound_is_bound<L: Locks>() {
    let h = host::<L>();
    let s = h.open();
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Ok(1));
    let l4port = udp_of(&h.sent_one(EM0)).0.src.0;
    assert!(l4port >= 49_152);
    h.inject(EM0, udp_frame(PEER, 9, ME, l4port, b"answer"));
    assert_eq!(h.recv(s), Some((b"answer".to_vec(), at(PEER, 9))));
    h.send(s, b"x", at(OTHER, 9)).unwrap();
    assert_eq!(udp_of(&h.sent_one(EM0)).0.src.0, l4port, "and stays so");
}

fn a_connected_socket_receives_from_its_peer_only<L: Locks>() {
    let h = host::<L>();
    let s = h.connected(1000, at(PEER, 9));
    h.inject(EM0, udp_frame(OTHER, 9, ME, 1000, b"not the peer"));
    h.inject(EM0, udp_frame(PEER, 10, ME, 1000, b"not its port"));
    assert!(h.recv(s).is_none());
    assert_eq!(h.sent(EM0).len(), 2, "for other peers, the port is closed");
    h.inject(EM0, udp_frame(PEER, 9, ME, 1000, b"the peer"));
    assert_eq!(h.recv(s), Some((b"the peer".to_vec(), at(PEER, 9))));
}

fn several_connections_share_a_port_and_each_gets_its_own<L: Locks>() {
    let h = host::<L>();
    let wide = bind(&h, any(1000), true).unwrap();
    let mut all = Vec::new();
    for peer_port in 1..=20 {
        let s = bind(&h, any(1000), true).unwrap();
        h.stack.udp_connect(h.cx(), s, at(PEER, peer_port)).unwrap();
        all.push((s, peer_port));
    }
    let again = bind(&h, any(1000), true).unwrap();
    assert_eq!(h.stack.udp_connect(h.cx(), again, at(PEER, 7)), Err(BindError::InUse), "that connection exists");
    h.stack.udp_close(h.cx(), again);
    for (s, peer_port) in &all {
        h.inject(EM0, udp_frame(PEER, *peer_port, ME, 1000, b"x"));
        assert_eq!(h.recv(*s), Some((b"x".to_vec(), at(PEER, *peer_port))));
    }
    h.inject(EM0, udp_frame(PEER, 99, ME, 1000, b"x"));
    assert_eq!(h.recv(wide), Some((b"x".to_vec(), at(PEER, 99))));
}

fn a_socket_reconnects_and_disconnects<L: Locks>() {
    let h = host::<L>();
    let s = h.connected(1000, at(PEER, 9));
    h.send(s, b"x", None).unwrap();
    h.send(s, b"x", None).unwrap();
    h.sent(EM0);
    h.stack.udp_connect(h.cx(), s, at(OTHER, 10)).unwrap();
    h.send(s, b"x", None).unwrap();
    let frame = h.sent_one(EM0);
    assert_eq!((ip_of(&frame).0.dst, ip_of(&frame).1.dst, udp_of(&frame).0.dst.0), (OTHER.mac, OTHER.ip, 10));
    h.inject(EM0, udp_frame(PEER, 9, ME, 1000, b"x"));
    assert!(h.recv(s).is_none());
    h.sent(EM0);
    h.stack.udp_disconnect(h.cx(), s).unwrap();
    assert_eq!(h.stack.udp_disconnect(h.cx(), s), Err(BindError::NotConnected));
    assert_eq!(h.send(s, b"x", None), Err(SendError::NoDestination));
    h.inject(EM0, udp_frame(PEER, 9, ME, 1000, b"from anybody"));
    assert!(h.recv(s).is_some());
    h.send(s, b"x", at(PEER, 9)).unwrap();
    assert_eq!(udp_of(&h.sent_one(EM0)).0.src.0, 1000, "still bound");
}

fn connecting_without_a_route_fails_and_changes_nothing<L: Locks>() {
    let h = host::<L>();
    let s = h.bound(1000);
    let connect = |to: &str| h.stack.udp_connect(h.cx(), s, to.parse().unwrap());
    assert_eq!(connect("10.0.0.2:0"), Err(BindError::Invalid));
    assert_eq!(connect("0.0.0.0:9"), Err(BindError::Invalid));
    assert_eq!(connect("255.255.255.255:9"), Err(BindError::Broadcast));
    assert_eq!(connect("10.0.0.255:9"), Err(BindError::Broadcast));
    assert_eq!(connect("[::1]:9"), Err(BindError::Family));
    assert!(matches!(connect("192.0.2.1:9"), Err(BindError::Output(_))));
    assert_eq!(h.stack.udp_connect(h.cx(), 4711, at(PEER, 9)), Err(BindError::NoSocket));
    h.inject(EM0, udp_frame(PEER, 9, ME, 1000, b"x"));
    assert!(h.recv(s).is_some(), "the socket still receives from all peers");
}

/// A source address that was selected for one peer is selected anew for another peer (as in Linux;
/// RFC 1122 3.3.4.3).
fn connecting_again_takes_the_source_address_towards_the_new_peer<L: Locks>() {
    let h = host::<L>();
    h.add_iface("em1", ME2, 1500);
    h.knows(EM1, FAR);
    let s = h.connected(1000, at(PEER, 9));
    h.stack.udp_connect(h.cx(), s, at(FAR, 9)).unwrap();
    h.send(s, b"x", None).unwrap();
    assert_eq!(ip_of(&h.sent_one(EM1)).1.src, ME2.ip);
}

fn a_source_address_is_taken_from_the_link_of_the_destination<L: Locks>() {
    let h = host::<L>();
    let second = Ipv4Addr::new(172, 16, 0, 1);
    h.stack.add_addr(h.cx(), EM0, IfaceAddr { addr: second, len: 16 }).unwrap();
    h.add_iface("em1", ME2, 1500);
    h.knows(EM1, FAR);
    let neighbor = Station { ip: Ipv4Addr::new(172, 16, 9, 9), ..PEER };
    h.knows(EM0, neighbor);
    h.sent(EM0);
    let s = h.bound(1000);
    for (to, iface, src) in [(PEER, EM0, ME.ip), (neighbor, EM0, second), (FAR, EM1, ME2.ip), (PEER, EM0, ME.ip)] {
        h.send(s, b"x", at(to, 9)).unwrap();
        assert_eq!(ip_of(&h.sent_one(iface)).1.src, src);
    }
}

fn ephemeral<L: Locks>(h: &Host<L>) -> (usize, u16) {
    let s = h.open();
    (s, h.stack.udp_bind(h.cx(), s, any(0)).unwrap().port())
}

fn ephemeral_ports_are_in_their_range_and_never_given_twice<L: Locks>() {
    let h = host::<L>();
    let mut seen = HashSet::new();
    for _ in 0..2000 {
        let (_, l4port) = ephemeral(&h);
        assert!(l4port >= 49_152);
        assert!(seen.insert(l4port));
    }
}

/// RFC 6056 3: over 10^4 tuples, the ports are evenly distributed and not sequential. They differ
/// between hosts.
fn ephemeral_ports_are_unpredictable<L: Locks>() {
    let h = host::<L>();
    let ports = |h: &Host<L>| -> Vec<u16> {
        (0..10_000u32)
            .map(|n| {
                let s = h.open();
                let peer = SocketAddr::from(([10, 0, 0, 2 + (n % 200) as u8], 1 + (n / 200) as u16));
                h.stack.udp_connect(h.cx(), s, peer).unwrap();
                let l4port = h.stack.with_pcb(h.cx(), s, |pcb| pcb.tuple().local_port.0).unwrap();
                h.stack.udp_close(h.cx(), s);
                l4port
            })
            .collect()
    };
    let first = ports(&h);
    // Chi-square over 64 bins of 256 ports: with 63 degrees of freedom, 99.99 % of values are below
    // 116.
    let mut bins = [0f64; 64];
    first.iter().for_each(|l4port| bins[usize::from(l4port - 49_152) / 256] += 1.0);
    let expected = 10_000.0 / 64.0;
    let chi: f64 = bins.iter().map(|n| (n - expected).powi(2) / expected).sum();
    assert!((20.0..116.0).contains(&chi), "chi-square {chi}");
    let follow = first.windows(2).filter(|two| two[1].wrapping_sub(two[0]) <= 8).count();
    assert!(follow < 40, "{follow} of 10,000 ports follow the previous one");
    let mut counts = HashMap::new();
    first.iter().for_each(|l4port| *counts.entry(l4port).or_insert(0) += 1);
    assert!(counts.len() > 7000, "{} different ports", counts.len()); // expected: 16,384 (1 - e^-0.61) = 7,480
    let other = Host::<L>::bare(64, 77);
    other.add_iface("em0", ME, 1500);
    let second = ports(&other);
    let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    assert!(same < 20, "{same} of 10,000 ports are the same on another host");
    // The same tuple gets another port the second time.
    let third = ports(&h);
    let same = first.iter().zip(&third).filter(|(a, b)| a == b).count();
    assert!(same < 20, "{same} of 10,000 ports are the same as before");
}

fn all_ephemeral_ports_can_be_used_until_none_is_left<L: Locks>() {
    let h = host::<L>();
    for _ in 0..16_384 {
        ephemeral(&h);
    }
    let s = h.open();
    assert_eq!(h.stack.udp_bind(h.cx(), s, any(0)), Err(BindError::NoPorts));
    assert_eq!(h.send(s, b"x", at(PEER, 9)), Err(SendError::NoPorts));
}

/// With 10,000 sockets, each datagram is delivered to its own socket.
fn many_sockets_are_found_each_by_its_own<L: Locks>() {
    let h = host::<L>();
    let mut sockets = Vec::new();
    for n in 0..10_000u32 {
        sockets.push(match n % 2 {
            0 => (h.bound(1 + (n / 2) as u16), 7, 1 + (n / 2) as u16),
            _ => {
                let s = h.open();
                h.stack.udp_connect(h.cx(), s, at(PEER, 1 + (n / 2) as u16)).unwrap();
                let own = h.stack.with_pcb(h.cx(), s, |pcb| pcb.tuple().local_port.0).unwrap();
                (s, 1 + (n / 2) as u16, own)
            }
        });
    }
    let mut rng = Rng::new(3);
    for _ in 0..10_000 {
        let (s, from, to) = sockets[rng.below(sockets.len())];
        h.inject(EM0, udp_frame(PEER, from, ME, to, b"x"));
        assert_eq!(h.recv(s), Some((b"x".to_vec(), at(PEER, from))));
    }
}
