//! Readiness for each event that a stream can have: poll(2) reports levels, a Poller reports edges.

use crate::common::*;
use linerate_socket::{Calls, Errno, Events, Fd, PollFd, Poller, SendFlags};
use lock::{Locks, Up};
use std::net::Shutdown;

fn reported<L: Locks>(calls: &Calls<'_, L>, fd: Fd) -> Events {
    let requested = Events { readable: true, writable: true, ..Events::default() };
    let mut fds = [PollFd { fd, requested, reported: Events::default() }];
    calls.poll(&mut fds);
    fds[0].reported
}

/// Returns the readiness of a descriptor as letters, one per flag of poll(2): In, Out, error (X),
/// Hup, Pri, RDHUP (E), Nval.
fn levels<L: Locks>(calls: &Calls<'_, L>, fd: Fd) -> String {
    let t = reported(calls, fd);
    [
        (t.readable, 'I'),
        (t.writable, 'O'),
        (t.error, 'X'),
        (t.hangup, 'H'),
        (t.urgent, 'P'),
        (t.peer_closed, 'E'),
        (t.invalid, 'N'),
    ]
    .into_iter()
    .filter_map(|(on, letter)| on.then_some(letter))
    .collect()
}

#[test]
fn levels_during_a_connection() {
    let w = World::<Up>::new();
    let listener = w.listener(80, 4);
    assert_eq!(levels(&w.b(), listener), "");
    let client = w.a().stream_socket().unwrap();
    nonblocking(&w.a(), client);
    assert_eq!(w.a().connect(client, at(2, 80)), Err(Errno::EINPROGRESS));
    assert_eq!(levels(&w.a(), client), "", "the handshake is in progress");
    w.pass(ms(2));
    assert_eq!(levels(&w.a(), client), "O");
    assert_eq!(levels(&w.b(), listener), "I");
    let (server, _) = w.b().accept(listener).unwrap();
    nonblocking(&w.b(), server);
    assert_eq!(levels(&w.b(), listener), "");
    assert_eq!(levels(&w.b(), server), "O");
    w.a().send(client, b"text").unwrap();
    w.pass(ms(1));
    assert_eq!(levels(&w.b(), server), "IO");
    assert_eq!(levels(&w.b(), server), "IO", "a level is reported again");
    w.b().recv(server, &mut [0; 3]).unwrap();
    assert_eq!(levels(&w.b(), server), "IO", "one byte is still unread");
    w.b().recv(server, &mut [0; 3]).unwrap();
    assert_eq!(levels(&w.b(), server), "O");
    w.a().send_flags(client, b"!", SendFlags { oob: true, ..SendFlags::default() }).unwrap();
    w.pass(ms(1));
    assert_eq!(levels(&w.b(), server), "IOP");
    w.b().recv(server, &mut [0; 3]).unwrap();
    assert_eq!(levels(&w.b(), server), "O");
    fill(&w.a(), client);
    w.pass(secs(2));
    fill(&w.a(), client);
    assert_eq!(levels(&w.a(), client), "");
    let mut buf = vec![0; 10_000];
    while w.b().recv(server, &mut buf).is_ok() {
        w.pass(ms(1));
    }
    assert_eq!(levels(&w.a(), client), "O");
    w.a().shutdown(client, Shutdown::Write).unwrap();
    w.pass(secs(1));
    while w.b().recv(server, &mut buf).unwrap() > 0 {}
    assert_eq!(levels(&w.b(), server), "IOE", "end of file is readable; no hangup, since writing is still possible");
    assert_eq!(levels(&w.a(), client), "O", "a send would not wait, but fail with EPIPE");
    w.b().shutdown(server, Shutdown::Write).unwrap();
    w.pass(ms(1));
    assert_eq!(levels(&w.b(), server), "IOHE");
    assert_eq!(levels(&w.a(), client), "IOHE");
    w.a().close(client).unwrap();
    assert_eq!(levels(&w.a(), client), "N");
}

#[test]
fn levels_of_failures() {
    let w = World::<Up>::new();
    let client = w.a().stream_socket().unwrap();
    nonblocking(&w.a(), client);
    assert_eq!(w.a().connect(client, at(2, 80)), Err(Errno::EINPROGRESS));
    w.pass(ms(2));
    assert_eq!(levels(&w.a(), client), "IOXH", "refused");
    assert_eq!(w.a().take_error(client), Ok(Some(Errno::ECONNREFUSED)));
    assert_eq!(levels(&w.a(), client), "IOH");
    let (client, _, server) = w.connected();
    w.b().set_option(server, linerate_socket::Opt::Linger(Some(ms(0)))).unwrap();
    w.b().close(server).unwrap();
    w.pass(ms(1));
    assert_eq!(levels(&w.a(), client), "IOXHE", "reset");
    assert_eq!(w.a().recv(client, &mut [0; 1]), Err(Errno::ECONNRESET));
    assert_eq!(levels(&w.a(), client), "IOHE");
}

fn edges(poller: &Poller<Up>, calls: &Calls<'_, Up>) -> Vec<usize> {
    let mut ready = Vec::new();
    poller.ready(calls, 100, &mut ready);
    ready
}

#[test]
fn edges_during_a_connection() {
    let w = World::<Up>::new();
    let (of_a, of_b) = (Poller::default(), Poller::default());
    let listener = w.listener(80, 4);
    w.b().watch(&of_b, listener).unwrap();
    let client = w.a().stream_socket().unwrap();
    nonblocking(&w.a(), client);
    w.a().watch(&of_a, client).unwrap();
    let a = || edges(&of_a, &w.a());
    let b = || edges(&of_b, &w.b());
    assert_eq!(w.a().connect(client, at(2, 80)), Err(Errno::EINPROGRESS));
    assert!(a().is_empty() && b().is_empty());
    w.pass(ms(2));
    assert_eq!((a(), b()), (vec![client.0], vec![listener.0]), "connected, and a connection to accept");
    assert!(a().is_empty() && b().is_empty(), "each edge is reported once");
    let (server, _) = w.b().accept(listener).unwrap();
    nonblocking(&w.b(), server);
    w.b().watch(&of_b, server).unwrap();
    assert_eq!(b(), [server.0], "a socket that is writable when it is first watched is reported");
    for _ in 0..3 {
        w.a().send(client, b"text").unwrap();
        w.pass(ms(1));
        assert_eq!(b(), [server.0], "each arrival is reported, as with EPOLLET");
    }
    assert!(b().is_empty());
    w.b().recv(server, &mut [0; 100]).unwrap();
    w.pass(ms(100));
    let _ = a(); // the data was acknowledged, so there is space
    fill(&w.a(), client);
    w.pass(secs(2));
    fill(&w.a(), client);
    let _ = (a(), b());
    w.pass(secs(1));
    assert!(a().is_empty(), "without space, there is no edge");
    let mut buf = vec![0; 10_000];
    while w.b().recv(server, &mut buf).is_ok() {
        w.pass(ms(1));
    }
    assert_eq!(a(), [client.0], "there is space again");
    let _ = b();
    w.a().shutdown(client, Shutdown::Write).unwrap();
    w.pass(secs(1));
    assert_eq!(b(), [server.0], "end of file");
    w.b().set_option(server, linerate_socket::Opt::Linger(Some(ms(0)))).unwrap();
    while w.b().recv(server, &mut buf).unwrap() > 0 {}
    let _ = a();
    w.b().close(server).unwrap();
    w.pass(ms(1));
    assert_eq!(a(), [client.0], "reset");
    w.a().unwatch(client).unwrap();
}

/// A stream is in the ready set at most once, however many events it has. A peer cannot make the
/// set grow.
#[test]
fn a_busy_peer_does_not_fill_the_ready_set() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    let poller = Poller::default();
    w.b().watch(&poller, server).unwrap();
    w.a().set_option(client, linerate_socket::Opt::NoDelay(true)).unwrap();
    for _ in 0..1000 {
        w.a().send(client, b".").unwrap();
        w.pass(ms(1));
    }
    assert_eq!(edges(&poller, &w.b()), [server.0]);
}

/// A datagram socket is in the ready set at most once, even if the program reads the socket without
/// polling the set. A later datagram is reported again.
#[test]
fn a_program_that_does_not_read_the_ready_set_does_not_fill_it() {
    let w = World::<Up>::new();
    let (from, to) = (w.a().socket().unwrap(), w.b().socket().unwrap());
    w.b().bind(to, at(2, 7)).unwrap();
    nonblocking(&w.b(), to);
    let poller = Poller::default();
    w.b().watch(&poller, to).unwrap();
    for round in 0..1000 {
        w.a().send_to(from, b".", &at(2, 7)).unwrap();
        w.pass(ms(1));
        assert_eq!(w.b().recv(to, &mut [0; 8]), Ok(1), "{round}");
    }
    assert_eq!(edges(&poller, &w.b()), [to.0]);
    assert!(edges(&poller, &w.b()).is_empty());
    w.a().send_to(from, b".", &at(2, 7)).unwrap();
    w.pass(ms(1));
    assert_eq!(edges(&poller, &w.b()), [to.0]);
}
