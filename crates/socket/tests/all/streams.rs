//! Tests that stream sockets behave as the manuals of POSIX and BSD describe. Where these leave the
//! behavior open, it is that of Linux.

use crate::common::*;
use linerate_socket::{Errno, Opt, OptKind, RecvFlags, SendFlags};
use lock::{Light, Up};
use std::net::Shutdown;

const RST: u8 = 4;

#[test]
fn connect_accept_and_names() {
    let w = World::<Up>::new();
    let (client, listener, server) = w.connected();
    assert_eq!(w.a().peer_addr(client), Ok(at(2, 80)));
    assert_eq!(w.b().local_addr(server), Ok(at(2, 80)));
    assert_eq!(w.b().peer_addr(server), w.a().local_addr(client));
    assert_eq!(w.b().local_addr(listener), Ok(at(0, 80)));
    assert_eq!(w.b().peer_addr(listener), Err(Errno::ENOTCONN));
    assert_eq!(w.a().connect(client, at(2, 80)), Err(Errno::EISCONN));
    assert_eq!(w.b().connect(listener, at(1, 1)), Err(Errno::EOPNOTSUPP), "POSIX: the socket is listening");
    assert_eq!(w.b().listen(server, 1), Err(Errno::EINVAL), "POSIX: the socket is already connected");
    assert_eq!(w.a().accept(client), Err(Errno::EINVAL));
    for (calls, fd) in [(w.a(), client), (w.b(), server), (w.b(), listener)] {
        calls.close(fd).unwrap();
        assert_eq!(calls.close(fd), Err(Errno::EBADF));
    }
    w.end();
}

#[test]
fn a_nonblocking_connect_turns_writable() {
    let w = World::<Up>::new();
    let listener = w.listener(80, 1);
    let client = w.a().stream_socket().unwrap();
    nonblocking(&w.a(), client);
    assert_eq!(w.a().connect(client, at(2, 80)), Err(Errno::EINPROGRESS));
    assert_eq!(w.a().connect(client, at(2, 80)), Err(Errno::EALREADY));
    assert_eq!(w.a().send(client, b"early"), Err(Errno::EAGAIN));
    assert_eq!(w.a().recv(client, &mut [0; 4]), Err(Errno::EAGAIN));
    assert_eq!(w.a().peer_addr(client), Err(Errno::ENOTCONN));
    w.pass(ms(2));
    assert_eq!(w.a().take_error(client), Ok(None));
    assert_eq!(w.a().connect(client, at(2, 80)), Err(Errno::EISCONN));
    assert_eq!(w.a().send(client, b"now"), Ok(3));
    let (server, _) = w.b().accept(listener).unwrap();
    let mut buf = [0; 8];
    assert_eq!(w.b().recv(server, &mut buf), Ok(3));
    w.a().close(client).unwrap();
    w.b().close(server).unwrap();
    w.b().close(listener).unwrap();
    w.end();
}

#[test]
fn a_refused_connect_is_reported_once_and_can_be_repeated() {
    let w = World::<Up>::new();
    let blocking = w.a().stream_socket().unwrap();
    assert_eq!(w.a().connect(blocking, at(2, 80)), Err(Errno::ECONNREFUSED));
    assert_eq!(w.a().take_error(blocking), Ok(None));
    let fd = w.a().stream_socket().unwrap();
    nonblocking(&w.a(), fd);
    assert_eq!(w.a().connect(fd, at(2, 80)), Err(Errno::EINPROGRESS));
    w.pass(ms(2));
    assert_eq!(w.a().take_error(fd), Ok(Some(Errno::ECONNREFUSED)));
    assert_eq!(w.a().take_error(fd), Ok(None));
    assert_eq!(w.a().send(fd, b"x"), Err(Errno::EPIPE));
    assert_eq!(w.a().recv(fd, &mut [0; 1]), Err(Errno::ENOTCONN));
    // A listener exists now: the same socket can connect (as in Linux; POSIX leaves this open).
    let listener = w.listener(80, 4);
    assert_eq!(w.a().connect(fd, at(2, 80)), Err(Errno::EINPROGRESS));
    w.pass(ms(2));
    assert_eq!(w.a().take_error(fd), Ok(None));
    assert_eq!(w.a().send(fd, b"x"), Ok(1));
    assert_eq!(w.a().connect(blocking, at(2, 80)), Ok(()));
    for fd in [fd, blocking] {
        w.a().close(fd).unwrap();
    }
    w.b().close(listener).unwrap();
    w.end();
}

#[test]
fn a_connect_without_an_answer_times_out() {
    let w = World::<Up>::new();
    w.lose(|_, frame| tcp_flags(frame).is_some());
    let fd = w.a().stream_socket().unwrap();
    let start = w.now();
    assert_eq!(w.a().connect(fd, at(2, 80)), Err(Errno::ETIMEDOUT));
    let took = w.now().since(start);
    assert!(took >= secs(180), "RFC 9293 3.8.3: R2 for SYN is at least three minutes, not {took:?}");
    // SO_SNDTIMEO limits the wait of a connect (as in Linux); the handshake continues in the
    // background.
    let fd2 = w.a().stream_socket().unwrap();
    w.a().set_option(fd2, Opt::SendTimeout(Some(ms(500)))).unwrap();
    let start = w.now();
    assert_eq!(w.a().connect(fd2, at(2, 80)), Err(Errno::EINPROGRESS));
    assert!(w.now().since(start) >= ms(500) && w.now().since(start) < ms(600));
    assert_eq!(w.a().connect(fd2, at(2, 80)), Err(Errno::EALREADY));
    w.a().close(fd).unwrap();
    w.a().close(fd2).unwrap();
    // There is no neighbor: the host is unreachable when ARP gives up, after three requests at
    // intervals of a second (in Linux: mcast_solicit and retrans_time).
    w.lose(|_, _| true);
    let fd = w.a().stream_socket().unwrap();
    let start = w.now();
    assert_eq!(w.a().connect(fd, at(9, 80)), Err(Errno::EHOSTUNREACH));
    let took = w.now().since(start);
    assert!(took >= secs(3) && took < ms(3_200), "{took:?}");
    assert_eq!(w.a().connect(fd, "192.0.2.1:80".parse().unwrap()), Err(Errno::ENETUNREACH));
    assert_eq!(w.a().connect(fd, "[::1]:80".parse().unwrap()), Err(Errno::EAFNOSUPPORT));
    w.a().close(fd).unwrap();
    w.end();
}

#[test]
fn the_backlog_limits_waiting_connections() {
    let w = World::<Up>::new();
    let listener = w.listener(80, 2);
    nonblocking(&w.b(), listener);
    assert_eq!(w.b().accept(listener), Err(Errno::EAGAIN));
    let clients: Vec<_> = (0..5)
        .map(|_| {
            let fd = w.a().stream_socket().unwrap();
            nonblocking(&w.a(), fd);
            assert_eq!(w.a().connect(fd, at(2, 80)), Err(Errno::EINPROGRESS));
            w.pass(ms(5));
            fd
        })
        .collect();
    let connected = || clients.iter().filter(|fd| w.a().peer_addr(**fd).is_ok()).count();
    assert_eq!(connected(), 3, "one more than the backlog, as in Linux");
    assert!(w.nodes[1].stack.counter("inet.tcp.in.accept_queue_full") >= 2);
    let first = w.b().accept(listener).unwrap();
    assert_eq!(Ok(first.1), w.a().local_addr(clients[0]), "in the order of arrival");
    assert_eq!(w.b().option(first.0, OptKind::NonBlocking), Ok(Opt::NonBlocking(false)), "the new socket is blocking");
    w.pass(secs(2));
    assert_eq!(connected(), 4, "the ignored SYN was retransmitted");
    while let Ok((fd, _)) = w.b().accept(listener) {
        w.b().close(fd).unwrap();
        w.pass(secs(8));
    }
    clients.iter().for_each(|fd| w.a().close(*fd).unwrap());
    w.b().close(first.0).unwrap();
    w.b().close(listener).unwrap();
    w.end();
}

#[test]
fn connections_inherit_the_listeners_options() {
    let w = World::<Up>::new();
    let listener = w.listener(80, 2);
    let set = [
        Opt::NoDelay(true),
        Opt::KeepAlive(true),
        Opt::RecvTimeout(Some(ms(70))),
        Opt::Linger(Some(secs(3))),
        Opt::RecvBuffer(30_000),
        Opt::SendBuffer(40_000),
        Opt::Ttl(9),
    ];
    set.iter().for_each(|opt| w.b().set_option(listener, *opt).unwrap());
    let client = w.a().stream_socket().unwrap();
    w.a().connect(client, at(2, 80)).unwrap();
    let (server, _) = w.b().accept(listener).unwrap();
    let kinds = [
        OptKind::NoDelay,
        OptKind::KeepAlive,
        OptKind::RecvTimeout,
        OptKind::Linger,
        OptKind::RecvBuffer,
        OptKind::SendBuffer,
        OptKind::Ttl,
    ];
    for (kind, opt) in kinds.into_iter().zip(set) {
        assert_eq!(w.b().option(server, kind), Ok(opt));
    }
}

#[test]
fn end_of_file_is_read_repeatedly() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    w.a().send(client, b"last words").unwrap();
    w.a().shutdown(client, Shutdown::Write).unwrap();
    let mut buf = [0; 4];
    for want in [&b"last"[..], b" wor", b"ds", b"", b"", b""] {
        let n = w.b().recv(server, &mut buf).unwrap();
        assert_eq!(&buf[..n], want);
    }
    assert_eq!(w.a().send(client, b"more"), Err(Errno::EPIPE));
    assert_eq!(w.a().send(client, b"more"), Err(Errno::EPIPE));
    // The other direction stays open without a time limit.
    w.pass(secs(1000));
    assert_eq!(w.b().send(server, b"answer"), Ok(6));
    assert_eq!(w.a().recv(client, &mut [0; 9]), Ok(6));
    w.b().shutdown(server, Shutdown::Write).unwrap();
    assert_eq!(w.a().recv(client, &mut [0; 9]), Ok(0));
    assert_eq!(w.a().recv(client, &mut [0; 9]), Ok(0));
}

#[test]
fn a_socket_shut_down_for_reading_is_at_end_of_file() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    w.a().send(client, b"unread").unwrap();
    w.pass(ms(1));
    w.b().shutdown(server, Shutdown::Read).unwrap();
    let peek = RecvFlags { peek: true, ..RecvFlags::default() };
    assert_eq!(w.b().recv_from_flags(server, &mut [0; 9], peek).map(|r| r.0), Ok(0));
    assert_eq!(w.b().recv(server, &mut [0; 9]), Ok(0));
    assert_eq!(w.b().send(server, b"still"), Ok(5));
    assert_eq!(w.a().recv(client, &mut [0; 9]), Ok(5));
    let fresh = w.a().stream_socket().unwrap();
    assert_eq!(w.a().shutdown(fresh, Shutdown::Both), Err(Errno::ENOTCONN));
    assert_eq!(w.a().send(fresh, b"x"), Err(Errno::ENOTCONN));
    assert_eq!(w.a().recv(fresh, &mut [0]), Err(Errno::ENOTCONN));
    assert_eq!(w.a().peer_addr(fresh), Err(Errno::ENOTCONN));
}

#[test]
fn a_reset_is_reported_once() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    w.b().send(server, b"before").unwrap();
    w.pass(ms(1));
    w.b().set_option(server, Opt::Linger(Some(ms(0)))).unwrap();
    w.b().close(server).unwrap();
    w.pass(ms(1));
    let mut buf = [0; 9];
    assert_eq!(w.a().recv(client, &mut buf), Ok(6), "data that arrived before the reset is read first");
    assert_eq!(w.a().recv(client, &mut buf), Err(Errno::ECONNRESET));
    assert_eq!(w.a().recv(client, &mut buf), Ok(0));
    assert_eq!(w.a().send(client, b"x"), Err(Errno::EPIPE));
    assert_eq!(w.a().take_error(client), Ok(None));
    assert_eq!(w.a().peer_addr(client), Err(Errno::ENOTCONN));
    assert_eq!(w.a().shutdown(client, Shutdown::Both), Err(Errno::ENOTCONN));
}

#[test]
fn a_writer_gets_econnreset_once_and_then_epipe() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    w.b().set_option(server, Opt::Linger(Some(ms(0)))).unwrap();
    w.b().close(server).unwrap();
    w.pass(ms(1));
    assert_eq!(w.a().send(client, b"x"), Err(Errno::ECONNRESET));
    assert_eq!(w.a().send(client, b"x"), Err(Errno::EPIPE));
    assert_eq!(w.a().recv(client, &mut [0; 1]), Ok(0));
}

/// As in Linux: after end of file, a later reset is not reported to a reader, and a writer receives
/// EPIPE.
#[test]
fn a_reset_after_end_of_file_is_epipe() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    w.b().close(server).unwrap();
    w.pass(ms(1));
    assert_eq!(w.a().send(client, b"to nobody"), Ok(9));
    w.pass(ms(5));
    assert_eq!(w.a().recv(client, &mut [0; 1]), Ok(0));
    assert_eq!(w.a().send(client, b"again"), Err(Errno::EPIPE));
    assert_eq!(w.a().send(client, b"again"), Err(Errno::EPIPE));
}

#[test]
fn closing_with_unread_data_resets_and_does_not_linger() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    w.a().send(client, b"unread").unwrap();
    w.pass(ms(1));
    w.b().set_option(server, Opt::Linger(Some(secs(10)))).unwrap();
    let start = w.now();
    w.b().close(server).unwrap();
    assert_eq!(w.now(), start, "there is nothing to wait for");
    w.pass(ms(1));
    assert_eq!(w.a().recv(client, &mut [0; 1]), Err(Errno::ECONNRESET));
}

#[test]
fn lingering_waits_until_all_is_acknowledged_or_times_out() {
    let w = World::<Up>::new();
    let (client, listener, server) = w.connected();
    w.b().set_option(server, Opt::Linger(Some(secs(10)))).unwrap();
    w.b().send(server, &[1; 50_000]).unwrap();
    let start = w.now();
    w.b().close(server).unwrap();
    assert!(w.now().since(start) < secs(1) && w.now() > start, "{:?}", w.now().since(start));
    let mut buf = vec![0; 60_000];
    let all = RecvFlags { wait_all: true, ..RecvFlags::default() };
    assert_eq!(w.a().recv_from_flags(client, &mut buf, all).map(|r| r.0), Ok(50_000));
    w.a().close(client).unwrap();
    // The peer acknowledges nothing: close returns after ten seconds, and the connection continues
    // to send in the background.
    let client = w.a().stream_socket().unwrap();
    w.a().connect(client, at(2, 80)).unwrap();
    let (server, _) = w.b().accept(listener).unwrap();
    w.lose(|_, frame| tcp_flags(frame).is_some());
    w.b().set_option(server, Opt::Linger(Some(secs(10)))).unwrap();
    w.b().send(server, b"never").unwrap();
    let start = w.now();
    w.b().close(server).unwrap();
    assert_eq!(w.now().since(start), secs(10));
    w.lose(|_, _| false);
    let mut buf = [0; 9];
    assert_eq!(w.a().recv(client, &mut buf), Ok(5), "the data arrives late, but is not lost");
    assert_eq!(w.a().recv(client, &mut buf), Ok(0));
    w.a().close(client).unwrap();
    w.b().close(listener).unwrap();
    w.end();
}

#[test]
fn linger_zero_sends_a_reset_and_no_fin() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    w.a().set_option(client, Opt::Linger(Some(ms(0)))).unwrap();
    w.a().send(client, b"gone").unwrap();
    w.lose(|from, frame| from == 0 && tcp_flags(frame).is_some_and(|flags| flags & RST == 0));
    w.a().close(client).unwrap();
    assert_eq!(w.b().recv(server, &mut [0; 9]), Err(Errno::ECONNRESET));
    assert_eq!(w.nodes[0].stack.tcp_time_wait_count(w.cx()), 0, "no TIME-WAIT");
}

#[test]
fn timeouts_end_waiting() {
    let w = World::<Up>::new();
    let (client, listener, server) = w.connected();
    w.b().set_option(listener, Opt::RecvTimeout(Some(ms(30)))).unwrap();
    w.b().set_option(server, Opt::RecvTimeout(Some(ms(30)))).unwrap();
    w.a().set_option(client, Opt::SendTimeout(Some(ms(30)))).unwrap();
    let start = w.now();
    assert_eq!(w.b().accept(listener), Err(Errno::EAGAIN));
    assert_eq!(w.b().recv(server, &mut [0; 1]), Err(Errno::EAGAIN));
    assert_eq!(w.now().since(start), ms(60));
    // The data that was accepted before the timeout is reported as sent.
    let sent = w.a().send(client, &vec![1; 10 << 20]).unwrap();
    assert!(sent > 100_000 && sent < 10 << 20, "{sent}");
    let rest = std::iter::from_fn(|| w.a().send(client, &[1; 10_000]).ok()).count();
    assert!(rest < 30, "at most the space that was left");
    assert_eq!(w.a().send(client, b"x"), Err(Errno::EAGAIN));
}

#[test]
fn a_blocking_send_accepts_everything() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    nonblocking(&w.b(), server);
    let data: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 + i / 1000) as u8).collect();
    let got = std::cell::RefCell::new(Vec::new());
    // The reader reads while the writer waits for space.
    struct Reader<'w> {
        w: &'w World<Up>,
        server: linerate_socket::Fd,
        got: &'w std::cell::RefCell<Vec<u8>>,
    }
    impl linerate_socket::Drive for Reader<'_> {
        fn drive(&self, until: clock::Instant) -> Option<clock::Instant> {
            let mut buf = [0; 10_000];
            while let Ok(n) = self.w.b().recv(self.server, &mut buf) {
                self.got.borrow_mut().extend(&buf[..n]);
            }
            self.w.drive(until)
        }
    }
    let reader = Reader { w: &w, server, got: &got };
    let calls = linerate_socket::Calls::driving(&w.nodes[0].stack, w.cx(), &reader);
    assert_eq!(calls.send(client, &data), Ok(data.len()));
    while got.borrow().len() < data.len() {
        linerate_socket::Drive::drive(&reader, w.now().after(secs(1)));
    }
    assert!(*got.borrow() == data);
}

#[test]
fn peek_and_wait_all() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    let peek = RecvFlags { peek: true, ..RecvFlags::default() };
    let all = RecvFlags { wait_all: true, ..RecvFlags::default() };
    let dont = RecvFlags { dont_wait: true, ..RecvFlags::default() };
    let mut buf = [0; 10];
    assert_eq!(w.b().recv_from_flags(server, &mut buf, dont), Err(Errno::EAGAIN));
    w.a().send(client, b"01234").unwrap();
    for _ in 0..2 {
        assert_eq!(w.b().recv_from_flags(server, &mut buf, peek).map(|r| r.0), Ok(5));
        assert_eq!(&buf[..5], b"01234");
    }
    w.b().set_option(server, Opt::RecvTimeout(Some(ms(50)))).unwrap();
    assert_eq!(w.b().recv_from_flags(server, &mut buf, all).map(|r| r.0), Ok(5), "the timeout ends the wait");
    w.a().send(client, b"ab").unwrap();
    w.pass(ms(1));
    w.a().send(client, b"cdefghijkl").unwrap();
    assert_eq!(w.b().recv_from_flags(server, &mut buf, all).map(|r| r.0), Ok(10));
    assert_eq!(&buf, b"abcdefghij");
    w.a().shutdown(client, Shutdown::Write).unwrap();
    assert_eq!(w.b().recv_from_flags(server, &mut buf, all).map(|r| r.0), Ok(2), "end of file ends the wait");
    assert_eq!(w.b().recv_from_flags(server, &mut [], dont).map(|r| r.0), Ok(0));
}

/// RFC 6093: urgent data is delivered in order with other data, as with BSD's SO_OOBINLINE. A read
/// stops before the mark.
#[test]
fn urgent_data_is_in_line_with_a_mark() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    let oob = SendFlags { oob: true, ..SendFlags::default() };
    w.a().send(client, b"normal").unwrap();
    assert_eq!(w.a().send_flags(client, b"ab!", oob), Ok(3));
    w.a().send(client, b"after").unwrap();
    w.pass(ms(50));
    let mut buf = [0; 32];
    assert_eq!(w.b().at_mark(server), Ok(false));
    assert_eq!(w.b().recv(server, &mut buf), Ok(8), "the read stops at the mark");
    assert_eq!(&buf[..8], b"normalab");
    assert_eq!(w.b().at_mark(server), Ok(true));
    assert_eq!(w.b().recv(server, &mut buf), Ok(6));
    assert_eq!(&buf[..6], b"!after");
    assert_eq!(w.b().at_mark(server), Ok(false));
    // The mark is at the next byte to read.
    assert_eq!(w.a().send_flags(client, b"!", oob), Ok(1));
    w.pass(ms(50));
    assert_eq!(w.b().at_mark(server), Ok(true));
    assert_eq!(w.b().recv(server, &mut buf), Ok(1));
    let datagram = w.a().socket().unwrap();
    assert_eq!(w.a().at_mark(datagram), Err(Errno::EOPNOTSUPP));
    assert_eq!(w.a().send_flags(datagram, b"!", oob), Err(Errno::EOPNOTSUPP));
}

#[test]
fn calls_of_the_other_kind_of_socket_fail() {
    let w = World::<Up>::new();
    let (client, listener, server) = w.connected();
    let datagram = w.a().socket().unwrap();
    assert_eq!(w.a().listen(datagram, 1), Err(Errno::EOPNOTSUPP));
    assert_eq!(w.a().accept(datagram), Err(Errno::EOPNOTSUPP));
    assert!(matches!(w.a().tcp_info(datagram), Err(Errno::EOPNOTSUPP)));
    assert_eq!(w.a().set_option(datagram, Opt::NoDelay(true)), Err(Errno::ENOPROTOOPT));
    assert_eq!(w.a().send_to(client, b"x", &at(2, 80)), Err(Errno::EISCONN));
    let fresh = w.a().stream_socket().unwrap();
    assert_eq!(w.a().send_to(fresh, b"x", &at(2, 80)), Err(Errno::ENOTCONN));
    assert_eq!(w.a().disconnect(client), Err(Errno::EOPNOTSUPP));
    assert_eq!(w.a().send_burst(client, [&b"x"[..]].into_iter(), None), Err(Errno::EOPNOTSUPP));
    assert!(matches!(w.a().recv_frame(client), Err(Errno::EOPNOTSUPP)));
    assert_eq!(w.a().recv_burst(client, 4, |_, _| ()), Err(Errno::EOPNOTSUPP));
    let frame = w.nodes[0].pool.get().unwrap();
    assert_eq!(w.a().send_frame(client, frame, None), Err(Errno::EOPNOTSUPP));
    assert_eq!(w.a().set_option(client, Opt::MulticastLoop(true)), Err(Errno::ENOPROTOOPT));
    assert_eq!(w.a().option(client, OptKind::DontFragment), Err(Errno::ENOPROTOOPT));
    assert!(matches!(w.b().tcp_info(listener), Err(Errno::ENOTCONN)));
    // recvfrom on a stream acts like recv, and also returns the address of the peer.
    w.a().send(client, b"x").unwrap();
    assert_eq!(w.b().recv_from(server, &mut [0; 4]), Ok((1, w.a().local_addr(client).unwrap())));
    for fd in [linerate_socket::Fd(4711), linerate_socket::Fd(4711 | 1 << 30)] {
        assert_eq!(w.a().recv(fd, &mut [0; 1]), Err(Errno::EBADF));
        assert_eq!(w.a().send(fd, b"x"), Err(Errno::EBADF));
        assert_eq!(w.a().send_to(fd, b"x", &at(2, 1)), Err(Errno::EBADF));
        assert_eq!(w.a().recv_from(fd, &mut [0; 1]), Err(Errno::EBADF));
        assert!(w.a().listen(fd, 1).is_err());
        assert_eq!(w.a().local_addr(fd), Err(Errno::EBADF));
        assert_eq!(w.a().take_error(fd), Err(Errno::EBADF));
        assert_eq!(w.a().close(fd), Err(Errno::EBADF));
    }
}

#[test]
fn stream_options_read_back_and_can_be_cleared() {
    let w = World::<Up>::new();
    let (client, ..) = w.connected();
    let a = w.a();
    for (kind, on, off) in [
        (OptKind::NoDelay, Opt::NoDelay(true), Opt::NoDelay(false)),
        (OptKind::Cork, Opt::Cork(true), Opt::Cork(false)),
        (OptKind::KeepAlive, Opt::KeepAlive(true), Opt::KeepAlive(false)),
        (OptKind::ReuseAddr, Opt::ReuseAddr(true), Opt::ReuseAddr(false)),
        (OptKind::ReusePort, Opt::ReusePort(true), Opt::ReusePort(false)),
        (OptKind::BindAny, Opt::BindAny(true), Opt::BindAny(false)),
        (OptKind::NonBlocking, Opt::NonBlocking(true), Opt::NonBlocking(false)),
        (OptKind::Linger, Opt::Linger(Some(secs(2))), Opt::Linger(None)),
        (OptKind::RecvTimeout, Opt::RecvTimeout(Some(secs(2))), Opt::RecvTimeout(None)),
        (OptKind::SendTimeout, Opt::SendTimeout(Some(secs(2))), Opt::SendTimeout(None)),
        (OptKind::UserTimeout, Opt::UserTimeout(Some(secs(9))), Opt::UserTimeout(None)),
        (OptKind::KeepIdle, Opt::KeepIdle(secs(60)), Opt::KeepIdle(secs(7200))),
        (OptKind::KeepInterval, Opt::KeepInterval(secs(7)), Opt::KeepInterval(secs(75))),
        (OptKind::KeepCount, Opt::KeepCount(3), Opt::KeepCount(9)),
        (OptKind::Ttl, Opt::Ttl(5), Opt::Ttl(64)),
        (OptKind::Tos, Opt::Tos(0x10), Opt::Tos(0)),
        (OptKind::RecvBuffer, Opt::RecvBuffer(20_000), Opt::RecvBuffer(131_072)),
        (OptKind::SendBuffer, Opt::SendBuffer(20_000), Opt::SendBuffer(131_072)),
    ] {
        assert_eq!(a.option(client, kind), Ok(off), "before");
        for opt in [on, off] {
            a.set_option(client, opt).unwrap();
            assert_eq!(a.option(client, kind), Ok(opt));
        }
    }
    for bad in [Opt::Ttl(0), Opt::KeepCount(0), Opt::KeepIdle(ms(0)), Opt::RecvBuffer(1), Opt::MaxSegment(1)] {
        assert_eq!(a.set_option(client, bad), Err(Errno::EINVAL));
    }
}

/// After keepalive was turned off, no probe is sent. After a user timeout was cleared, it drops no
/// connection.
#[test]
fn cleared_options_have_no_effect() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    let a = w.a();
    a.set_option(client, Opt::KeepAlive(true)).unwrap();
    a.set_option(client, Opt::KeepIdle(secs(5))).unwrap();
    w.pass(secs(12));
    let probed = w.a().tcp_info(client).unwrap().segs_out;
    w.a().set_option(client, Opt::KeepAlive(false)).unwrap();
    w.pass(secs(100));
    assert_eq!(w.a().tcp_info(client).unwrap().segs_out, probed);
    w.a().set_option(client, Opt::UserTimeout(Some(secs(2)))).unwrap();
    w.a().set_option(client, Opt::UserTimeout(None)).unwrap();
    w.lose(|_, frame| tcp_flags(frame).is_some());
    w.a().send(client, b"x").unwrap();
    w.pass(secs(20));
    w.lose(|_, _| false);
    assert_eq!(w.b().recv(server, &mut [0; 4]), Ok(1));
}

/// If only TCP_KEEPCNT is set, the two keepalive times are those of the host's sysctls.
#[test]
fn unset_keepalive_times_are_those_of_the_host() {
    let w = World::<Up>::new();
    w.nodes[0].stack.sysctls.set("net.inet.tcp.keepidle", 10_000).unwrap().unwrap();
    w.nodes[0].stack.sysctls.set("net.inet.tcp.keepintvl", 1_000).unwrap().unwrap();
    let (client, ..) = w.connected();
    w.a().set_option(client, Opt::KeepAlive(true)).unwrap();
    w.a().set_option(client, Opt::KeepCount(2)).unwrap();
    w.lose(|_, frame| tcp_flags(frame).is_some());
    let start = w.now();
    assert_eq!(w.a().recv(client, &mut [0; 1]), Err(Errno::ETIMEDOUT));
    let took = w.now().since(start);
    assert!(took >= secs(11) && took <= secs(14), "{took:?}");
}

#[test]
fn tcp_info_is_plausible() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    w.a().send(client, &[1; 20_000]).unwrap();
    let mut buf = vec![0; 20_000];
    let all = RecvFlags { wait_all: true, ..RecvFlags::default() };
    w.b().recv_from_flags(server, &mut buf, all).unwrap();
    w.pass(secs(1));
    let (a, b) = (w.a().tcp_info(client).unwrap(), w.b().tcp_info(server).unwrap());
    assert_eq!((a.state, b.state), (tcp::State::Established, tcp::State::Established));
    assert_eq!((a.bytes_acked, b.bytes_received, a.bytes_retrans), (20_000, 20_000, 0));
    assert_eq!((a.snd_mss, a.advmss, a.pmtu), (1448, 1460, 1500));
    assert_eq!((a.unacked, a.lost, a.retrans, a.notsent_bytes), (0, 0, 0, 0));
    assert!(a.rtt >= clock::Duration::from_micros(200) && a.rtt < ms(50), "{:?}", a.rtt);
    assert!(a.rto >= ms(200) && a.snd_cwnd >= 10 && a.snd_wnd > 20_000 && b.rcv_wnd > 20_000);
    assert_eq!(a.options & 7, 7, "timestamps, SACK, window scaling");
    assert!(a.last_data_sent >= ms(900) && b.last_data_recv >= ms(900));
    assert!(a.data_segs_out >= 14 && b.data_segs_in == a.data_segs_out && a.segs_in > 0);
    assert_eq!(a.congestion, "cubic");
}

#[test]
fn without_a_buffer_a_send_waits_but_never_spins() {
    let w = World::<Light>::with_buffers(256);
    let (client, _, server) = w.connected();
    let held: Vec<_> = std::iter::from_fn(|| w.nodes[0].pool.get()).collect();
    let dont = SendFlags { dont_wait: true, ..SendFlags::default() };
    assert_eq!(w.a().send_flags(client, b"x", dont), Err(Errno::EAGAIN));
    w.a().set_option(client, Opt::SendTimeout(Some(ms(100)))).unwrap();
    let start = w.now();
    assert_eq!(w.a().send(client, b"x"), Err(Errno::EAGAIN));
    assert!(w.now().since(start) >= ms(100));
    drop(held);
    assert_eq!(w.a().send(client, b"x"), Ok(1));
    assert_eq!(w.b().recv(server, &mut [0; 4]), Ok(1));
}
