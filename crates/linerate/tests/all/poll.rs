//! Event loops: `net::Poll` on hosts of all kinds.

use linerate::net::{Net, Poll, TcpListener, TcpStream, UdpSocket};
use linerate::sim::World;
use linerate::{Host, HostBuilder};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

const SECOND: Option<Duration> = Some(Duration::from_secs(1));

fn two(link: &str) -> [HostBuilder; 2] {
    ["10.0.0.1/24", "10.0.0.2/24"].map(|addr| Host::builder().name(addr).port(link).addr(addr))
}

/// Exchanges data between two non-blocking sockets of one host, in one event loop.
fn exchange<N: Net + Clone>(host: &N) {
    let (poll, mut ready) = (Poll::new(host), Vec::new());
    let listener = TcpListener::bind(host, "127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    poll.add(&listener, 0).unwrap();
    let mut client = TcpStream::begin_connect(host, None, listener.local_addr().unwrap(), &[]).unwrap();
    poll.add(&client, 1).unwrap();
    let (mut server, mut sent, mut received, mut echoed) = (None, 0, Vec::new(), 0);
    let data: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let start = Instant::now();
    while echoed < data.len() {
        assert!(start.elapsed() < Duration::from_secs(60), "{sent} sent, {} received, {echoed} echoed", received.len());
        ready.clear();
        poll.wait(&mut ready, SECOND).unwrap();
        if ready.contains(&0)
            && let Ok((stream, peer)) = listener.accept()
        {
            assert_eq!(peer, client.local_addr().unwrap());
            stream.set_nonblocking(true).unwrap();
            poll.add(&stream, 2).unwrap();
            server = Some((stream, 0));
        }
        while let Ok(n) = client.write(&data[sent..]) {
            sent += n;
            if n == 0 {
                break;
            }
        }
        let mut buf = vec![0; 100_000];
        if let Some((stream, returned)) = &mut server {
            while let Ok(n) = stream.read(&mut buf) {
                received.extend_from_slice(&buf[..n]);
            }
            while *returned < received.len()
                && let Ok(n) = stream.write(&received[*returned..])
            {
                *returned += n;
            }
        }
        while let Ok(n) = client.read(&mut buf) {
            assert!(buf[..n] == data[echoed..echoed + n]);
            echoed += n;
        }
    }
    assert!(received == data);
}

#[test]
fn one_loop_serves_both_ends_on_every_kind_of_host() {
    exchange(&Host::builder().build().unwrap());
    exchange(&Host::builder().build_local().unwrap());
}

#[test]
fn a_wait_ends_after_its_timeout_and_with_its_host() {
    let host = Host::builder().build().unwrap();
    let socket = UdpSocket::bind(&host, "127.0.0.1:9").unwrap();
    let (poll, mut ready) = (Poll::new(&host), vec![7]);
    poll.add(&socket, 1).unwrap();
    let start = Instant::now();
    poll.wait(&mut ready, Some(Duration::from_millis(30))).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(ready, [7], "tokens are appended");
    poll.take_ready(&mut ready);
    assert_eq!(ready, [7]);
    // The end of the host is an event of the socket, too.
    let waiter = std::thread::spawn(move || {
        loop {
            if let Err(why) = poll.wait(&mut ready, None) {
                return why.kind();
            }
        }
    });
    std::thread::sleep(Duration::from_millis(30));
    host.shutdown(Duration::from_secs(1)).unwrap();
    assert_eq!(waiter.join().unwrap(), ErrorKind::ConnectionAborted);
    let host = Host::builder().build().unwrap();
    let poll = Poll::new(&host);
    let waiter = std::thread::spawn(move || poll.wait(&mut Vec::new(), None).unwrap_err().kind());
    std::thread::sleep(Duration::from_millis(30));
    host.shutdown(Duration::from_secs(1)).unwrap();
    assert_eq!(waiter.join().unwrap(), ErrorKind::ConnectionAborted, "without a watched socket");
    let local = Host::builder().build_local().unwrap();
    let (poll, mut ready) = (Poll::new(&local), Vec::new());
    poll.wait(&mut ready, Some(Duration::from_millis(30))).unwrap();
    assert!(ready.is_empty());
}

#[test]
fn each_event_is_reported_once_and_not_after_a_removal() {
    let host = Host::builder().build().unwrap();
    let (a, b) = (UdpSocket::bind(&host, "127.0.0.1:1").unwrap(), UdpSocket::bind(&host, "127.0.0.1:2").unwrap());
    let (poll, mut ready) = (Poll::new(&host), Vec::new());
    poll.add(&a, 1).unwrap();
    a.send_to(b"early", "127.0.0.1:2").unwrap();
    b.recv(&mut [0; 9]).unwrap();
    a.send_to(b"early", "127.0.0.1:2").unwrap();
    while b.peek(&mut [0; 9]).is_err() {}
    poll.add(&b, 2).unwrap();
    poll.wait(&mut ready, SECOND).unwrap();
    assert_eq!(ready, [2], "what is ready when it is added is reported");
    ready.clear();
    poll.take_ready(&mut ready);
    assert!(ready.is_empty());
    b.recv(&mut [0; 9]).unwrap();
    poll.add(&b, usize::MAX).unwrap();
    a.send_to(b"late", "127.0.0.1:2").unwrap();
    poll.wait(&mut ready, SECOND).unwrap();
    assert_eq!(ready, [usize::MAX], "a token is replaced");
    b.recv(&mut [0; 9]).unwrap();
    a.send_to(b"late", "127.0.0.1:2").unwrap();
    b.peek(&mut [0; 9]).unwrap();
    poll.remove(&b).unwrap();
    ready.clear();
    let start = Instant::now();
    poll.wait(&mut ready, Some(Duration::from_millis(20))).unwrap();
    assert!(ready.is_empty(), "an event that was not reported yet is not reported after the removal");
    assert!(start.elapsed() >= Duration::from_millis(20), "nor does it end the wait");
}

#[test]
fn a_refused_connection_is_reported_with_its_reason() {
    // Without the delay, the reset may arrive within the call, which then returns its error.
    let [a, b] = two("impair(delay=20ms):pair:refused").map(|host| host.build().unwrap());
    let stream = TcpStream::begin_connect(&a, None, "10.0.0.2:81".parse().unwrap(), &[]).unwrap();
    assert_eq!(stream.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
    let (poll, mut ready) = (Poll::new(&a), Vec::new());
    poll.add(&stream, 5).unwrap();
    while stream.take_error().unwrap().map(|why| why.kind()) != Some(ErrorKind::ConnectionRefused) {
        ready.clear();
        poll.wait(&mut ready, Some(Duration::from_secs(10))).unwrap();
        assert_eq!(ready, [5]);
    }
    // From an address and port of one's own, which must exist.
    let from =
        |local: &str| TcpStream::begin_connect(&a, Some(local.parse().unwrap()), "10.0.0.2:80".parse().unwrap(), &[]);
    assert_eq!(from("10.0.0.9:0").unwrap_err().kind(), ErrorKind::AddrNotAvailable);
    let listener = TcpListener::bind(&b, "10.0.0.2:80").unwrap();
    let _stream = from("10.0.0.1:4000").unwrap();
    assert_eq!(listener.accept().unwrap().1, "10.0.0.1:4000".parse().unwrap());
}

#[test]
fn sockets_of_other_hosts_are_rejected() {
    let [a, b] = two("pair:other").map(|host| host.build().unwrap());
    let (poll, foreign) = (Poll::new(&a), UdpSocket::bind(&b, "10.0.0.2:9").unwrap());
    assert_eq!(poll.add(&foreign, 1).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(poll.remove(&foreign).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_wait_in_a_world_is_an_error() {
    let mut world = World::new(1);
    let host = Host::builder().name("a").port("pair:l").addr("10.0.0.1/24").build_in(&mut world).unwrap();
    let (poll, mut ready) = (Poll::new(&host), Vec::new());
    assert_eq!(poll.wait(&mut ready, SECOND).unwrap_err().kind(), ErrorKind::Deadlock);
    poll.take_ready(&mut ready);
    assert!(ready.is_empty());
}

/// The loop reports the events of thousands of sockets, at most 1024 in one call.
#[test]
fn many_sockets_are_reported_over_several_calls() {
    let host = Host::builder().build_local().unwrap();
    let (poll, sender) = (Poll::new(&host), UdpSocket::bind(&host, "127.0.0.1:1").unwrap());
    let sockets: Vec<_> = (0..2500).map(|n| UdpSocket::bind(&host, ("127.0.0.1", 2000 + n)).unwrap()).collect();
    for (n, socket) in sockets.iter().enumerate() {
        poll.add(socket, n).unwrap();
        sender.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        host.run_for(Duration::ZERO);
    }
    let (mut ready, mut calls) = (Vec::new(), 0);
    while ready.len() < sockets.len() {
        let before = ready.len();
        poll.wait(&mut ready, SECOND).unwrap();
        assert!((1..=1024).contains(&(ready.len() - before)));
        calls += 1;
    }
    assert!(calls >= 3);
    ready.sort_unstable();
    assert!(ready.into_iter().eq(0..sockets.len()));
}
