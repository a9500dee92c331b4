//! Communication of a host with itself: packets are always queued, never processed directly.

use crate::common::packets::*;
use crate::common::*;
use linerate_inet::iface::LOOPBACK;
use linerate_inet::udp::{SendError, SoError};
use lock::Locks;
use std::net::{Ipv4Addr, SocketAddr};

conversations! {
    a_looped_back_datagram_arrives_with_the_next_poll
    two_looped_back_datagrams_do_not_recurse
    an_own_address_is_reached_without_the_wire
    a_closed_local_port_refuses_the_connected_socket
    a_long_looped_back_datagram_is_not_fragmented
    the_queue_is_bounded
    queued_packets_are_dropped_at_shutdown
}

fn here(l4port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, l4port))
}

fn a_looped_back_datagram_arrives_with_the_next_poll<L: Locks>() {
    let h = Host::<L>::new();
    let (s, t) = (h.bound(1000), h.bound(9));
    assert_eq!(h.send(s, b"self", here(9)), Ok(4));
    assert!(h.recv(t).is_none());
    assert_eq!(h.stack.held(h.cx()), 1);
    h.assert_counters("audit.made 1, ip4.sent 1, udp.sent 1, link.loopback.queued 1");
    h.poll();
    assert_eq!(h.recv(t), Some((b"self".to_vec(), here(1000))));
    h.sent_nothing(EM0);
    h.assert_counters("ip4.received 1, ip4.delivered 1, udp.received 1, udp.delivered 1, audit.consumed 1");
}

fn two_looped_back_datagrams_do_not_recurse<L: Locks>() {
    let h = Host::<L>::new();
    let s = h.connected(9, here(9)); // the socket is its own peer
    for n in 0..100u8 {
        assert_eq!(h.send(s, &[n], None), Ok(1));
    }
    h.poll();
    for n in 0..100u8 {
        assert_eq!(h.recv(s), Some((vec![n], here(9))));
    }
    h.poll();
    assert!(h.recv(s).is_none());
}

fn an_own_address_is_reached_without_the_wire<L: Locks>() {
    let h = Host::<L>::new();
    let (s, t) = (h.bound(1000), h.bound(9));
    h.send(s, b"x", at(ME, 9)).unwrap();
    h.poll();
    assert_eq!(h.recv(t), Some((b"x".to_vec(), at(ME, 1000))), "from the address it was sent to");
    h.sent_nothing(EM0);
    assert!(h.stack.neighbors(h.cx()).is_empty());
}

/// RFC 1122 4.1.3.3: the error is reported only to the application that sent the datagram.
fn a_closed_local_port_refuses_the_connected_socket<L: Locks>() {
    let h = Host::<L>::new();
    for peer in [here(9), at(ME, 9)] {
        let s = h.open();
        h.stack.udp_connect(h.cx(), s, peer).unwrap();
        assert_eq!(h.send(s, b"x", None), Ok(1));
        h.poll();
        h.poll();
        assert_eq!(h.send(s, b"x", None), Err(SendError::Earlier(SoError::Refused)));
    }
}

fn a_long_looped_back_datagram_is_not_fragmented<L: Locks>() {
    let h = Host::<L>::new();
    let (s, t) = (h.bound(1000), h.bound(9));
    h.stack.with_pcb(h.cx(), t, |pcb| pcb.set_recv_limit(1 << 20)).unwrap();
    let payload: Vec<u8> = (0..65_507u32).map(|i| (i * 7) as u8).collect();
    assert_eq!(h.send(s, &payload, here(9)), Ok(65_507));
    h.poll();
    assert!(h.recv(t).unwrap().0 == payload);
}

fn the_queue_is_bounded<L: Locks>() {
    let h = Host::<L>::new();
    h.stack.sysctls.loop_queue.set(10);
    let (s, t) = (h.bound(1000), h.bound(9));
    for n in 0..25u8 {
        h.send(s, &[n], here(9)).unwrap();
    }
    h.assert_counters("audit.made 25, ip4.sent 25, udp.sent 25, link.loopback.queued 10, link.loopback.queue_full 15");
    let lo = h.stack.iface(LOOPBACK).unwrap();
    assert_eq!([lo.tx.packets.get(), lo.rx.packets.get(), lo.tx.errors.get()], [10, 10, 15]);
    h.poll();
    assert_eq!(std::iter::from_fn(|| h.recv(t)).map(|got| got.0[0]).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

fn queued_packets_are_dropped_at_shutdown<L: Locks>() {
    let h = Host::<L>::new();
    let (s, t) = (h.bound(1000), h.bound(9));
    h.send(s, b"unread", here(9)).unwrap();
    h.poll();
    h.send(s, b"in the queue", here(9)).unwrap();
    h.set_room(EM0, Some(0));
    h.send(s, b"waits for ARP", at(PEER, 9)).unwrap();
    h.inject(EM0, Ip::udp((PEER.ip, 1), (ME.ip, 9), &[0; 100]).fragment(0, 64).between(PEER, ME));
    h.stack.flush(h.cx());
    assert_eq!(h.stack.held(h.cx()), 5, "with the ARP request");
    h.forget_counters();
    h.stack.shutdown(h.cx());
    h.assert_counters("node.shutdown 5");
    assert!(h.recv(t).is_none());
}
