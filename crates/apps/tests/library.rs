//! Applications on hosts of the library: the servers need its public interface only.

use linerate::net::{Net, TcpStream, UdpSocket};
use linerate::{Host, LocalHost};
use linerate_apps::app::App;
use linerate_apps::files::Root;
use linerate_apps::http::{self, Http};
use linerate_apps::serve::Server;
use linerate_apps::small::{self, Kind, Small};
use linerate_apps::streams::net::{NetStreams, Token};
use linerate_apps::streams::{Ends, Failure, StreamOption, Streams};
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TURN: Duration = Duration::from_millis(20);

/// Runs `app` on `host` until `stop` is set.
fn serve<A: App>(host: &Host, app: A, port: u16, stop: &AtomicBool) {
    let start = Instant::now();
    let now = || linerate::stack::Instant::ZERO.after(start.elapsed());
    let mut streams = NetStreams::new(host);
    let at = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let mut server: Server<A, Token> = Server::open(app, &mut streams, &[at], now()).map_err(|why| why.1).unwrap();
    while !stop.load(Ordering::Relaxed) {
        server.turn(&mut streams, now(), TURN);
        assert!(streams.ended().is_none());
    }
}

/// Two hosts with IPv4 and IPv6 addresses, connected by a cable.
fn two(link: &str) -> [Host; 2] {
    [1, 2].map(|n| {
        let (four, six) = (format!("10.0.0.{n}/24"), format!("fd00::{n}/64"));
        Host::builder().name(&format!("h{n}")).port(link).addr(&four).addr(&six).build().unwrap()
    })
}

/// Ends the servers, also if the test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn said(client: &Host, server: &str, words: &[u8]) -> String {
    // Until duplicate address detection ends, and the server listens.
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(client, server) {
            Err(_) if begun.elapsed() < Duration::from_secs(20) => std::thread::sleep(TURN),
            connected => break connected.unwrap(),
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(words).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn servers_run_on_a_host_of_the_library_in_both_families() {
    let [server, client] = two("pair:servers");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&server, Http::new(http::Config::new(Root::empty())), 80, &stop));
        scope.spawn(|| serve(&server, Small::new(small::Config::new(Kind::Echo)), 7, &stop));
        let _stop = Stop(&stop);
        let large = "line\n".repeat(40_000);
        for host in ["10.0.0.1", "[fd00::1]"] {
            let response = said(&client, &format!("{host}:80"), b"GET /none HTTP/1.0\r\n\r\n");
            assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
            assert_eq!(said(&client, &format!("{host}:7"), large.as_bytes()), large);
        }
    });
    for host in [server, client] {
        assert_eq!(host.audit().unaccounted, 0);
    }
}

/// Calls on a host of either kind return what the interface of applications promises.
fn calls<N: Net + Clone>(host: &N) {
    let mut streams = NetStreams::new(host);
    let any = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let listener = streams.listen(any(0), 4).unwrap();
    let at = streams.local(listener).unwrap();
    assert_eq!(streams.listen(at, 4), Err(Failure::InUse));
    assert_eq!(streams.accept(listener), Err(Failure::Again));
    let name = "cubic";
    let options = [
        StreamOption::NoDelay(true),
        StreamOption::Buffers(20_000),
        StreamOption::Congestion(linerate_apps::streams::CongestionName::new(name).unwrap()),
    ];
    let client = streams.connect_with(any(0), at, &options).unwrap();
    // The two become ready in one poll or in two. An accepted connection is no longer reported.
    let (mut ready, mut seen) = (Vec::new(), Vec::new());
    let (mut server, begun) = (None, Instant::now());
    while server.is_none() || streams.connected(client).is_err() || !seen.contains(&client) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        streams.poll(&mut ready, TURN);
        seen.append(&mut ready);
        if seen.contains(&listener) {
            server = server.or(streams.accept(listener).ok());
        }
    }
    let (server, ends) = server.unwrap();
    assert_eq!(streams.connected(client).unwrap(), Ends { local: ends.peer, peer: ends.local });
    assert!(streams.info(client).unwrap().mss > 0 && streams.info(listener).is_none());
    assert_eq!(streams.recv(server, &mut [0; 9]), Err(Failure::Again));
    assert_eq!(streams.send(client, b"text"), Ok(4));
    let (mut text, mut buf) = (Vec::new(), [0; 9]);
    while text.len() < 4 {
        match streams.recv(server, &mut buf) {
            Ok(n) => text.extend_from_slice(&buf[..n]),
            Err(Failure::Again) => streams.poll(&mut ready, TURN),
            Err(why) => panic!("{why}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(text, b"text");
    streams.abort(server);
    assert_eq!(streams.recv(server, &mut buf), Err(Failure::Invalid), "it is closed");
    let end = loop {
        match streams.recv(client, &mut buf) {
            Err(Failure::Again) => streams.poll(&mut ready, TURN),
            end => break end,
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    };
    assert_eq!(end, Err(Failure::Gone), "reset");
    // The reset may arrive before the call returns.
    let end = match streams.connect(any(0), any(1)) {
        Err(why) => Err(why),
        Ok(refused) => loop {
            match streams.connected(refused) {
                Err(Failure::Again) => streams.poll(&mut ready, TURN),
                end => break end.map(drop),
            }
            assert!(begun.elapsed() < Duration::from_secs(20));
        },
    };
    assert_eq!(end, Err(Failure::Refused));
    let datagrams = streams.bind(any(0)).unwrap();
    assert_eq!(streams.bind(streams.local(datagrams).unwrap()), Err(Failure::InUse));
    let sender = UdpSocket::bind(host, any(0)).unwrap();
    sender.send_to(b"datagram", streams.local(datagrams).unwrap()).unwrap();
    let (n, ends) = loop {
        match streams.recv_from(datagrams, &mut buf) {
            Err(Failure::Again) => streams.poll(&mut ready, TURN),
            received => break received.unwrap(),
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    };
    assert_eq!((&buf[..n], ends.peer, ends.local.ip()), (&b"datagram"[..], sender.local_addr().unwrap(), any(0).ip()));
    streams.send_to(datagrams, b"answer", Ends { local: ends.local, peer: ends.peer }).unwrap();
    sender.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(sender.recv(&mut buf).unwrap(), 6);
    assert_eq!(streams.recv(datagrams, &mut buf), Err(Failure::Invalid));
    assert_eq!(streams.send_to(client, b"x", ends), Err(Failure::Invalid));
}

#[test]
fn calls_on_hosts_of_both_kinds() {
    let host = Host::builder().build().unwrap();
    calls(&host);
    let mut streams = NetStreams::new(&host);
    host.shutdown(Duration::from_secs(1)).unwrap();
    streams.poll(&mut Vec::new(), TURN);
    assert_eq!(streams.ended().unwrap().kind(), std::io::ErrorKind::ConnectionAborted);
    let local: LocalHost = Host::builder().build_local().unwrap();
    calls(&local);
}
