//! Shutdown of a host: written data arrives and is followed by a FIN, or its loss is reported (RFC
//! 9293 3.10.4, 3.10.5).

use clock::{Clock, Strategy};
use inet::iface::IfaceAddr;
use linerate_node as node;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::{Caps, Port};
use socket::net::{TcpListener, TcpStream};
use std::io::{ErrorKind, Read, Write};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use wire::Mac;

const CONNECTIONS: usize = 64;
/// Bytes per connection: more than the initial window, and less than the send buffer.
const BYTES: usize = 60_000;

fn host(name: &str, last: u8, port: Port) -> Host<Up> {
    let config = HostConfig { name: name.to_string(), ..HostConfig::default() };
    let host = Host::new(&config, Clock::live(Strategy::default())).unwrap();
    let addr = IfaceAddr { addr: [10, 9, 0, last].into(), len: 24 };
    let iface = IfaceConfig { addresses: vec![addr], ..IfaceConfig::default() };
    host.attach("em0", Mac([2, 0, 0, 0, 9, last]), port, &iface).unwrap();
    host
}

fn byte(connection: usize, at: usize) -> u8 {
    (connection * 7 + at * 31 + (at >> 8)) as u8
}

/// Opens 64 connections, and writes to each as many bytes as the host accepts without blocking.
/// Returns the streams and the number of bytes written to each.
fn write_to_all(host: &Host<Up>) -> Vec<(TcpStream<&Host<Up>>, usize)> {
    let connect = |n| {
        let mut stream = TcpStream::connect(&host, "10.9.0.2:7").unwrap();
        stream.set_nonblocking(true).unwrap();
        let text: Vec<u8> = (0..BYTES).map(|at| byte(n, at)).collect();
        let mut sent = 0;
        while sent < BYTES {
            match stream.write(&text[sent..]) {
                Ok(n) => sent += n,
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) => panic!("{why}"),
            }
        }
        (stream, sent)
    };
    (0..CONNECTIONS).map(connect).collect()
}

/// Accepts 64 connections, then reads each to its end. Returns the number of bytes read from each.
fn read_all(host: &Host<Up>, accepted: &Barrier) -> Vec<usize> {
    let listener = TcpListener::bind(&host, "0.0.0.0:7").unwrap();
    accepted.wait();
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| listener.accept().unwrap().0).collect();
    let read = |(n, stream): (usize, &mut TcpStream<&Host<Up>>)| {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        assert!(text.iter().enumerate().all(|(at, found)| *found == byte(n, at)), "connection {n}");
        text.len()
    };
    streams.iter_mut().enumerate().map(read).collect()
}

/// Runs `end` on a host with unsent bytes in 64 connections, and checks that all bytes arrive,
/// followed by the FINs.
fn all_arrives(end: impl FnOnce(Host<Up>) + Send) {
    let (here, there) = port::pair::pair("ab", 4096, Caps::PLAIN);
    let ready = Barrier::new(2);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_all(&host("reader", 2, there), &ready));
        let host = host("writer", 1, here);
        ready.wait();
        let streams = write_to_all(&host);
        let sent: Vec<usize> = streams.iter().map(|(_, sent)| *sent).collect();
        assert!(sent.iter().all(|sent| *sent > 0));
        drop(streams);
        end(host);
        assert_eq!(reader.join().unwrap(), sent);
    });
}

#[test]
fn written_data_arrives_after_a_shutdown() {
    all_arrives(|host| {
        assert_eq!(host.shutdown(Duration::from_secs(20)), []);
        assert!(!host.stack.tcp_has_unacknowledged(host.cx()));
        // A second shutdown finds no data to wait for.
        let start = Instant::now();
        assert_eq!(host.shutdown(Duration::from_secs(20)), []);
        assert!(start.elapsed() < Duration::from_secs(10));
    });
}

/// Connections that the program has not closed are shut down too.
#[test]
fn a_shutdown_ends_connections_that_are_open() {
    let (here, there) = port::pair::pair("ab", 4096, Caps::PLAIN);
    let ready = Barrier::new(2);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_all(&host("reader", 2, there), &ready));
        let host = host("writer", 1, here);
        ready.wait();
        let mut streams = write_to_all(&host);
        assert_eq!(host.shutdown(Duration::from_secs(20)), []);
        assert_eq!(streams[0].0.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(reader.join().unwrap(), streams.iter().map(|(_, sent)| *sent).collect::<Vec<_>>());
    });
}

/// A peer acknowledges nothing. The shutdown ends in time and reports each connection.
#[test]
fn a_silent_peer_ends_a_shutdown_at_its_timeout() {
    let (here, there) = port::pair::pair("ab", 4096, Caps::PLAIN);
    let (silent, writer) = (host("silent", 2, there), host("writer", 1, here));
    let listener = TcpListener::bind(&&silent, "0.0.0.0:7").unwrap();
    // This thread runs both hosts in turn until the connection is established.
    let calls = writer.shared_calls();
    let fd = calls.stream_socket().unwrap();
    calls.set_option(fd, socket::Opt::NonBlocking(true)).unwrap();
    let at = "10.9.0.2:7".parse().unwrap();
    assert_eq!(calls.connect(fd, at).unwrap_err(), socket::Errno::EINPROGRESS);
    let deadline = Instant::now() + Duration::from_secs(20);
    while calls.send(fd, &[7; 5_000]) != Ok(5_000) {
        assert!(Instant::now() < deadline);
        writer.step();
        silent.step();
        calls.set_now(writer.clock.now());
    }
    let start = Instant::now();
    let left = writer.shutdown(Duration::from_millis(300));
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(left.iter().map(|left| (left.bytes, left.ends.remote_port.0)).collect::<Vec<_>>(), [(5_000, 7)]);
    assert!(!writer.stack.tcp_has_unacknowledged(writer.cx()), "it was reset");
    drop(listener);
}

/// Dropping a host sends queued data and then a FIN (RFC 9293 3.10.4), for at most 500 ms.
#[test]
fn a_dropped_host_sends_written_data_and_fin() {
    let (here, there) = port::pair::pair("ab", 4096, Caps::PLAIN);
    let ready = Barrier::new(2);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let host = host("reader", 2, there);
            let listener = TcpListener::bind(&&host, "0.0.0.0:7").unwrap();
            ready.wait();
            let mut text = Vec::new();
            let mut stream = listener.accept().unwrap().0;
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.read_to_end(&mut text).map(|_| text.len())
        });
        let host = host("writer", 1, here);
        ready.wait();
        let mut stream = TcpStream::connect(&&host, "10.9.0.2:7").unwrap();
        stream.write_all(&[1; BYTES]).unwrap();
        drop(stream);
        drop(host);
        assert_eq!(reader.join().unwrap().unwrap(), BYTES);
    });
}
