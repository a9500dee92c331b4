//! Limits on what peers can make a host hold: closed windows, closes without an answer,
//! out-of-order data, and applications that do not read.

use crate::common::*;
use linerate_socket::{Errno, Fd, Opt};
use lock::Up;
use std::cell::Cell;
use std::rc::Rc;

fn count(w: &World<Up>, at: usize, what: &str) -> u64 {
    w.nodes[at].stack.counter(&format!("inet.tcp.memory.{what}"))
}

fn sysctl(w: &World<Up>, at: usize, name: &str, value: i64) {
    w.nodes[at].stack.sysctls.set(&format!("net.inet.tcp.{name}"), value).unwrap().unwrap();
}

/// Opens `n` connections from host a to host b; the sockets of host b are non-blocking.
fn connections(w: &World<Up>, n: usize) -> Vec<(Fd, Fd)> {
    let listener = w.listener(80, 64);
    let mut all = Vec::new();
    for _ in 0..n {
        let client = w.a().stream_socket().unwrap();
        w.a().set_option(client, Opt::RecvBuffer(2048)).unwrap();
        w.a().connect(client, at(2, 80)).unwrap();
        let (server, _) = w.b().accept(listener).unwrap();
        nonblocking(&w.b(), server);
        all.push((client, server));
    }
    w.b().close(listener).unwrap();
    all
}

/// Sockstress attack: ten thousand peers keep their windows closed and read nothing. The server
/// writes as much as it can to all of them.
#[test]
fn ten_thousand_zero_windows_keep_memory_bounded() {
    let w = World::<Up>::with_buffers(8192);
    const LIMIT: usize = 8 << 20;
    sysctl(&w, 1, "memlimit", LIMIT as i64);
    let pairs = connections(&w, 10_000);
    let (mut refused, mut most) = (0, 0);
    for round in 0..3 {
        for (_, server) in &pairs {
            match w.b().send(*server, &[1; 4000]) {
                Ok(_) => {}
                Err(Errno::EAGAIN) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            most = most.max(w.nodes[1].stack.tcp_memory());
        }
        w.pass(secs(1 + round));
        most = most.max(w.nodes[1].stack.tcp_memory());
    }
    assert!(most <= LIMIT / 4 * 5 + 16_384, "above the limit by more than a segment per connection: {most}");
    let waited = count(&w, 1, "sends_refused");
    assert!(waited > 10_000 && refused > 10_000, "{waited} {refused}");
    assert!(w.nodes[1].pool.stats().live() < 6500, "buffers are left for others");
    // A datagram from another peer is delivered in the meantime.
    let (from, to) = (w.a().socket().unwrap(), w.b().socket().unwrap());
    w.b().bind(to, at(2, 9)).unwrap();
    w.a().send_to(from, b"undisturbed", &at(2, 9)).unwrap();
    assert_eq!(w.b().recv(to, &mut [0; 20]), Ok(11));
    // Peers have acknowledged no data for two minutes. The connections that have been stalled
    // longest are reset until memory is available again, and their peers receive a reset.
    w.pass(secs(240));
    assert!(count(&w, 1, "stalled") > 0);
    assert!(w.nodes[1].stack.tcp_memory() < LIMIT * 3 / 4 + 16_384, "{}", w.nodes[1].stack.tcp_memory());
    let stalled = pairs.iter().filter(|(_, server)| w.b().take_error(*server) == Ok(Some(Errno::ETIMEDOUT))).count();
    assert_eq!(stalled as u64, count(&w, 1, "stalled"));
    assert!(stalled < pairs.len() * 9 / 10, "more connections were reset than necessary: {stalled}");
    for (client, server) in &pairs {
        w.a().close(*client).unwrap();
        w.b().close(*server).unwrap();
    }
    w.pass(secs(300));
    assert_eq!((w.nodes[1].stack.tcp_memory(), w.nodes[1].stack.tcp_orphans()), (0, 0));
}

/// The server closes the connections to such peers. Although the peers answer every probe, the
/// orphaned connections are dropped after two minutes.
#[test]
fn an_orphan_whose_peer_takes_nothing_is_given_up() {
    let w = World::<Up>::with_buffers(24_576);
    let pairs = connections(&w, 100);
    for (_, server) in &pairs {
        fill(&w.b(), *server);
    }
    w.pass(secs(3));
    for (_, server) in &pairs {
        w.b().close(*server).unwrap();
    }
    assert_eq!(w.nodes[1].stack.tcp_orphans(), 100);
    w.pass(secs(60));
    assert_eq!(w.nodes[1].stack.tcp_orphans(), 100, "a pause of a minute does not drop a connection");
    w.pass(secs(200));
    assert_eq!(w.nodes[1].stack.tcp_orphans(), 0);
    assert_eq!(count(&w, 1, "orphans_stalled"), 100);
    assert_eq!(w.nodes[1].stack.tcp_memory(), 0);
    for (client, _) in &pairs {
        let mut buf = [0; 4096];
        while w.a().recv(*client, &mut buf).is_ok_and(|n| n > 0) {}
        w.a().close(*client).unwrap();
    }
    w.end();
}

/// An orphaned connection is kept if its peer reads slowly.
#[test]
fn an_orphan_whose_peer_is_slow_is_kept() {
    let w = World::<Up>::new();
    let (client, server) = connections(&w, 1)[0];
    let sent = fill(&w.b(), server);
    w.b().close(server).unwrap();
    let (mut got, mut buf) = (0, vec![0; 4000]);
    loop {
        match w.a().recv(client, &mut buf) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) => panic!("{error} after {got}"),
        }
        w.pass(secs(20));
    }
    assert_eq!(got, sent);
    assert_eq!(count(&w, 1, "orphans_stalled"), 0);
}

/// FIN-WAIT attack: peers do not answer our FIN. The number and the duration of these connections
/// are limited.
#[test]
fn closes_that_nobody_answers_have_a_limit_and_a_time() {
    let w = World::<Up>::new();
    sysctl(&w, 1, "max_orphans", 50);
    let pairs = connections(&w, 80);
    w.lose(|from, frame| from == 0 && tcp_flags(frame).is_some());
    for (_, server) in &pairs {
        w.b().close(*server).unwrap();
    }
    assert_eq!(w.nodes[1].stack.tcp_orphans(), 50);
    assert_eq!(count(&w, 1, "orphans_refused"), 30);
    w.pass(ms(10));
    let reset = pairs.iter().filter(|(client, _)| w.a().take_error(*client) == Ok(Some(Errno::ECONNRESET))).count();
    assert_eq!(reset, 30, "30 peers received a reset");
    w.pass(secs(200));
    assert_eq!(w.nodes[1].stack.tcp_orphans(), 0, "FIN-WAIT-1 ends by itself");
    // The peers acknowledge the FIN and then send nothing: FIN-WAIT-2.
    w.lose(|_, _| false);
    let pairs = connections(&w, 10);
    for (_, server) in &pairs {
        w.b().close(*server).unwrap();
    }
    w.pass(secs(59));
    assert_eq!(w.nodes[1].stack.tcp_orphans(), 10);
    w.pass(secs(3));
    assert_eq!(w.nodes[1].stack.tcp_orphans(), 0);
}

/// Out-of-order data is dropped first. In-order data is still accepted, and all data arrives once
/// memory is available.
#[test]
fn out_of_order_data_is_dropped_first() {
    let w = World::<Up>::new();
    let (client, _, server) = w.connected();
    nonblocking(&w.a(), client);
    nonblocking(&w.b(), server);
    // Half of the limit is used by data that the application does not read.
    let (hog, _) = {
        let listener = w.listener(81, 1);
        let fd = w.a().stream_socket().unwrap();
        w.a().connect(fd, at(2, 81)).unwrap();
        (fd, w.b().accept(listener).unwrap().0)
    };
    w.a().send(hog, &[1; 60_000]).unwrap();
    w.pass(secs(1));
    let used = w.nodes[1].stack.tcp_memory();
    assert!(used >= 60_000, "{used}");
    sysctl(&w, 1, "memlimit", used as i64 * 2 - 8192);
    let n = Rc::new(Cell::new(0));
    let seen = n.clone();
    w.lose(move |from, frame| {
        let text = from == 0 && frame.len() > 1000;
        seen.set(seen.get() + u32::from(text));
        text && seen.get() == 1
    });
    let data: Vec<u8> = (0..20_000u32).map(|i| (i * 3) as u8).collect();
    assert_eq!(w.a().send(client, &data), Ok(20_000));
    w.pass(ms(3));
    assert!(count(&w, 1, "out_of_order_refused") > 0);
    assert_eq!(
        w.nodes[1].stack.counter("inet.tcp.in.no_memory"),
        count(&w, 1, "out_of_order_refused"),
        "each was dropped with its own reason"
    );
    let (mut got, mut buf) = (Vec::<u8>::new(), [0; 5000]);
    while got.len() < data.len() {
        match w.b().recv(server, &mut buf) {
            Ok(n) => got.extend(&buf[..n]),
            Err(Errno::EAGAIN) => w.pass(ms(100)),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(got == data);
}

/// The data of an application that does not read is limited by the host's memory limit, not by the
/// sum of all windows. Connections whose data is read are not affected.
#[test]
fn unread_data_is_bounded_and_readers_progress() {
    let w = World::<Up>::with_buffers(16_384);
    const LIMIT: usize = 1 << 20;
    sysctl(&w, 1, "memlimit", LIMIT as i64);
    let listener = w.listener(80, 64);
    let mut servers = Vec::new();
    for _ in 0..40 {
        let client = w.a().stream_socket().unwrap();
        w.a().connect(client, at(2, 80)).unwrap();
        servers.push(w.b().accept(listener).unwrap().0);
        nonblocking(&w.a(), client);
        fill(&w.a(), client);
        w.pass(ms(50));
    }
    let held = w.nodes[1].stack.tcp_memory();
    assert!(held <= LIMIT + 40 * 4600, "above the limit by more than a segment per connection: {held}");
    assert!(count(&w, 1, "text_refused") > 0);
    let reader = w.a().stream_socket().unwrap();
    w.a().connect(reader, at(2, 80)).unwrap();
    let (server, _) = w.b().accept(listener).unwrap();
    for _ in 0..10 {
        w.a().send(reader, &[5; 1000]).unwrap();
        assert_eq!(w.b().recv(server, &mut [0; 2000]), Ok(1000));
    }
}
