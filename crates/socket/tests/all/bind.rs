//! Rules for sharing addresses and ports: bind(2), SO_REUSEADDR, SO_REUSEPORT, IP_BINDANY,
//! TIME-WAIT.

use crate::common::*;
use inet::route::Via;
use linerate_socket::{Calls, Errno, Fd, Opt};
use lock::Up;
use std::net::SocketAddr;

fn socket(calls: &Calls<'_, Up>, set: &[Opt]) -> Fd {
    let fd = calls.stream_socket().unwrap();
    set.iter().for_each(|opt| calls.set_option(fd, *opt).unwrap());
    fd
}

const ADDR: Opt = Opt::ReuseAddr(true);
const PORT: Opt = Opt::ReusePort(true);
const ANY: Opt = Opt::BindAny(true);

#[test]
fn bind_checks_the_address() {
    let w = World::<Up>::new();
    let a = w.a();
    let fd = socket(&a, &[]);
    let foreign: SocketAddr = "192.0.2.7:80".parse().unwrap();
    assert_eq!(a.bind(fd, foreign), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(a.bind(fd, at(2, 80)), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(a.bind(fd, "255.255.255.255:80".parse().unwrap()), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(a.bind(fd, "224.0.0.1:80".parse().unwrap()), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(a.bind(fd, "[::]:80".parse().unwrap()), Err(Errno::EAFNOSUPPORT));
    assert_eq!(a.bind(fd, at(1, 80)), Ok(at(1, 80)), "the failed call has changed nothing");
    assert_eq!(a.bind(fd, at(1, 81)), Err(Errno::EINVAL), "bound already");
    a.set_option(fd, ANY).unwrap();
    let free = socket(&a, &[ANY]);
    assert_eq!(a.bind(free, foreign), Ok(foreign));
}

#[test]
fn port_zero_binds_a_different_port_each_time() {
    let w = World::<Up>::new();
    let a = w.a();
    let mut ports = std::collections::HashSet::new();
    for _ in 0..500 {
        let fd = socket(&a, &[]);
        let got = a.bind(fd, at(1, 0)).unwrap();
        assert_eq!(a.local_addr(fd), Ok(got));
        assert!(got.port() >= 1024 && ports.insert(got.port()), "{got} twice");
    }
    // Listening without a preceding bind is permitted, too.
    let fd = socket(&a, &[]);
    a.listen(fd, 1).unwrap();
    let got = a.local_addr(fd).unwrap();
    assert!(got.ip().is_unspecified() && ports.insert(got.port()));
}

#[test]
fn sockets_without_options_exclude_each_other() {
    let w = World::<Up>::new();
    let a = w.a();
    let first = socket(&a, &[]);
    a.bind(first, at(1, 80)).unwrap();
    let other = socket(&a, &[]);
    assert_eq!(a.bind(other, at(1, 80)), Err(Errno::EADDRINUSE));
    assert_eq!(a.bind(other, at(0, 80)), Err(Errno::EADDRINUSE), "the unspecified address includes it");
    assert_eq!(a.bind(other, "127.0.0.1:80".parse().unwrap()).map(|at| at.port()), Ok(80), "another address");
    let third = socket(&a, &[ADDR]);
    assert_eq!(a.bind(third, at(1, 80)), Err(Errno::EADDRINUSE), "both sockets must set SO_REUSEADDR");
    a.close(first).unwrap();
    assert_eq!(a.bind(third, at(1, 80)), Ok(at(1, 80)));
}

#[test]
fn reuse_addr_shares_with_all_but_listeners() {
    let w = World::<Up>::new();
    let a = w.a();
    let (one, two) = (socket(&a, &[ADDR]), socket(&a, &[ADDR]));
    a.bind(one, at(1, 80)).unwrap();
    assert_eq!(a.bind(two, at(1, 80)), Ok(at(1, 80)));
    a.listen(one, 1).unwrap();
    assert_eq!(a.listen(two, 1), Err(Errno::EADDRINUSE), "two sockets are bound, and one listens");
    let three = socket(&a, &[ADDR]);
    assert_eq!(a.bind(three, at(0, 80)), Err(Errno::EADDRINUSE), "another socket listens on the port");
    let four = socket(&a, &[ADDR, PORT]);
    assert_eq!(a.bind(four, at(1, 80)), Err(Errno::EADDRINUSE), "the listener does not share its port");
}

#[test]
fn reuse_port_shares_listeners_and_spreads_connections() {
    let w = World::<Up>::new();
    let listeners: Vec<Fd> = (0..3)
        .map(|_| {
            let fd = socket(&w.b(), &[PORT]);
            w.b().bind(fd, at(0, 80)).unwrap();
            w.b().listen(fd, 200).unwrap();
            nonblocking(&w.b(), fd);
            fd
        })
        .collect();
    let only_addr = socket(&w.b(), &[ADDR]);
    assert_eq!(w.b().bind(only_addr, at(0, 80)), Err(Errno::EADDRINUSE));
    for _ in 0..150 {
        let fd = socket(&w.a(), &[]);
        w.a().connect(fd, at(2, 80)).unwrap();
    }
    w.pass(ms(5));
    let each = listeners.iter().map(|fd| std::iter::from_fn(|| w.b().accept(*fd).ok()).count());
    let each: Vec<usize> = each.collect();
    assert_eq!(each.iter().sum::<usize>(), 150);
    assert!(each.iter().all(|n| *n > 20), "{each:?}");
    // When one listener is closed, the others still accept connections on the port.
    w.b().close(listeners[0]).unwrap();
    for _ in 0..20 {
        let fd = socket(&w.a(), &[]);
        w.a().connect(fd, at(2, 80)).unwrap();
    }
}

#[test]
fn connections_keep_the_port_of_a_closed_listener() {
    let w = World::<Up>::new();
    let (client, listener, server) = w.connected();
    w.b().close(listener).unwrap();
    let again = socket(&w.b(), &[]);
    assert_eq!(w.b().bind(again, at(0, 80)), Err(Errno::EADDRINUSE), "an earlier connection still exists");
    let reuse = socket(&w.b(), &[ADDR]);
    assert_eq!(w.b().bind(reuse, at(0, 80)), Err(Errno::EADDRINUSE), "its listener had not set SO_REUSEADDR");
    w.b().close(server).unwrap();
    w.pass(ms(1));
    assert_eq!(w.b().bind(again, at(0, 80)), Err(Errno::EADDRINUSE), "FIN-WAIT-2");
    w.a().close(client).unwrap();
    w.pass(ms(1));
    assert_eq!(w.nodes[1].stack.tcp_time_wait_count(w.cx()), 1);
    assert_eq!(w.b().bind(again, at(0, 80)), Err(Errno::EADDRINUSE), "TIME-WAIT");
    assert_eq!(w.b().bind(reuse, at(0, 80)), Ok(at(0, 80)), "SO_REUSEADDR permits this");
    w.b().close(reuse).unwrap();
    w.pass(secs(61));
    assert_eq!(w.b().bind(again, at(0, 80)), Ok(at(0, 80)));
}

#[test]
fn a_server_with_reuse_addr_restarts_at_once() {
    let w = World::<Up>::new();
    let listen = || {
        let fd = socket(&w.b(), &[ADDR]);
        w.b().bind(fd, at(0, 80)).unwrap();
        w.b().listen(fd, 5).unwrap();
        fd
    };
    let first = listen();
    let client = socket(&w.a(), &[]);
    w.a().connect(client, at(2, 80)).unwrap();
    let (server, _) = w.b().accept(first).unwrap();
    w.b().close(first).unwrap();
    let second = listen();
    w.b().send(server, b"old").unwrap();
    assert_eq!(w.a().recv(client, &mut [0; 9]), Ok(3), "the old connection still works");
    let other = socket(&w.a(), &[]);
    w.a().connect(other, at(2, 80)).unwrap();
    assert!(w.b().accept(second).is_ok());
}

#[test]
fn an_outgoing_connection_keeps_its_port() {
    let w = World::<Up>::new();
    let (client, ..) = w.connected();
    let port = w.a().local_addr(client).unwrap().port();
    let fd = socket(&w.a(), &[]);
    assert_eq!(w.a().bind(fd, at(0, port)), Err(Errno::EADDRINUSE));
    // Two sockets are bound to the same port and connect to different peers.
    let (one, two) = (socket(&w.a(), &[ADDR]), socket(&w.a(), &[ADDR]));
    w.listener(81, 1);
    for (fd, to) in [(one, 80), (two, 81)] {
        w.a().bind(fd, at(1, 5000)).unwrap();
        w.a().connect(fd, at(2, to)).unwrap();
        assert_eq!(w.a().local_addr(fd), Ok(at(1, 5000)));
    }
    let three = socket(&w.a(), &[ADDR]);
    w.a().bind(three, at(1, 5000)).unwrap();
    assert_eq!(w.a().connect(three, at(2, 80)), Err(Errno::EADDRINUSE), "such a connection exists");
}

/// A transparent proxy: a single listener accepts connections to every address that is routed to
/// the host, and to every port.
#[test]
fn a_listener_for_any_address_and_port() {
    let w = World::<Up>::new();
    let foreign = "198.51.100.0/24".parse().unwrap();
    w.nodes[0].stack.add_route(w.cx(), foreign, Via::Gateway(EM0, std::net::Ipv4Addr::new(10, 0, 0, 2))).unwrap();
    w.nodes[1].stack.add_route(w.cx(), foreign, Via::Local(inet::iface::IfaceId(0))).unwrap();
    let listener = socket(&w.b(), &[ANY]);
    assert_eq!(w.b().bind(listener, at(0, 0)), Ok(at(0, 0)), "port 0 stays any with IP_BINDANY and no address");
    w.b().listen(listener, 16).unwrap();
    let own = w.listener(80, 4);
    for to in ["198.51.100.7:443", "198.51.100.200:80", "198.51.100.9:65535"] {
        let to: SocketAddr = to.parse().unwrap();
        let client = socket(&w.a(), &[]);
        let taken = if to.port() == 80 { own } else { listener };
        w.a().connect(client, to).unwrap();
        let (server, peer) = w.b().accept(taken).unwrap();
        assert_eq!(w.b().local_addr(server), Ok(to), "the original destination");
        assert_eq!(Ok(peer), w.a().local_addr(client));
        w.b().send(server, b"proxied").unwrap();
        assert_eq!(w.a().recv(client, &mut [0; 9]), Ok(7));
        w.a().send(client, b"to the proxy").unwrap();
        assert_eq!(w.b().recv(server, &mut [0; 20]), Ok(12));
        w.a().close(client).unwrap();
        w.b().close(server).unwrap();
    }
    let second = socket(&w.b(), &[ANY]);
    w.b().bind(second, at(0, 0)).unwrap();
    assert_eq!(w.b().listen(second, 1), Err(Errno::EADDRINUSE));
    // The proxy binds to the client's address, which is foreign, with a port of its own, and uses
    // it as the source towards the server.
    let upstream = socket(&w.b(), &[ANY]);
    let got = w.b().bind(upstream, "198.51.100.7:0".parse().unwrap()).unwrap();
    assert_ne!(got.port(), 0);
    let target = socket(&w.a(), &[]);
    w.a().bind(target, at(1, 7)).unwrap();
    w.a().listen(target, 1).unwrap();
    w.b().connect(upstream, at(1, 7)).unwrap();
    let (server, peer) = w.a().accept(target).unwrap();
    assert_eq!((peer, w.a().peer_addr(server)), (got, Ok(got)));
    // Without the listener, connections to that address are refused.
    w.b().close(listener).unwrap();
    let client = socket(&w.a(), &[]);
    assert_eq!(w.a().connect(client, "198.51.100.7:444".parse().unwrap()), Err(Errno::ECONNREFUSED));
    for (calls, fd) in
        [(w.a(), client), (w.a(), target), (w.a(), server), (w.b(), upstream), (w.b(), second), (w.b(), own)]
    {
        calls.close(fd).unwrap();
    }
    w.end();
}
