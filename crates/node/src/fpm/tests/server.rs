//! The server over TCP: connections, pieces of the stream, its end, and the limit of its queue.

use super::*;
use crate::Host;
use crate::config::HostConfig;
use crate::fpm::FpmServer;
use crate::fpm::server::QUEUED_MAX;
use clock::{Clock, Strategy};
use lock::Light;
use std::io::{Read, Write};
use std::net::TcpStream;

fn host(stale: u64) -> Host<Light> {
    let config = HostConfig { locks: "light".to_owned(), ..HostConfig::default() };
    let host = Host::new(&config, Clock::live(Strategy::default())).unwrap();
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let config = FpmConfig { listen, stale: Duration::from_secs(stale), ..FpmConfig::default() };
    host.listen_fpm(config).unwrap().unwrap();
    assert_eq!(host.listen_fpm(config).unwrap(), None, "it listens already");
    host
}

fn connect(server: &FpmServer) -> TcpStream {
    TcpStream::connect(server.address()).unwrap()
}

/// Serves until `is_done`, and returns the notices.
fn serve_until(host: &Host<Light>, is_done: impl Fn() -> bool) -> Vec<String> {
    let mut notices = Vec::new();
    for _ in 0..20_000 {
        host.serve_fpm(Duration::from_millis(1), &mut |text| notices.push(text));
        if is_done() {
            return notices;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    panic!("not done after 10 s: {:?}, {notices:?}", host.fpm_status());
}

fn counter(host: &Host<Light>, name: &str) -> u64 {
    let all = host.fpm().unwrap().counters();
    all.iter().find(|entry| entry.name == format!("node.fpm.{name}")).unwrap().value
}

#[test]
fn frames_arrive_in_pieces_and_a_second_engine_is_refused() {
    let host = host(120);
    let server = host.fpm().unwrap();
    let mut stream = connect(server);
    // Without a device, the routes have their next hops as blackholes.
    let frames: Vec<u8> = (0..500u32)
        .flat_map(|i| frame(&[Wire::route(Prefix::masked(0x0a00_0000 | i << 8, 24), BGP).kind(6)]))
        .collect();
    for part in frames.chunks(777) {
        stream.write_all(part).unwrap();
    }
    let routes = || host.fpm_status().unwrap().routes.iter().map(|(_, [v4, _])| *v4).sum::<u32>();
    let notices = serve_until(&host, || routes() == 500);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].starts_with("host: routing engine connected from 127.0.0.1:"), "{notices:?}");
    let mut second = connect(server);
    assert_eq!(second.read(&mut [0]).unwrap_or(0), 0, "closed");
    assert_eq!((counter(&host, "refused"), counter(&host, "frames")), (1, 500));
    assert_eq!((host.fpm_status().unwrap().queued, host.fpm_status().unwrap().stale), (0, 0));
    drop(stream);
    let notices = serve_until(&host, || host.fpm_status().unwrap().peer.is_none());
    assert_eq!(notices, ["host: routing engine disconnected; its routes stay for 120 s"]);
    assert_eq!((routes(), host.fpm_status().unwrap().stale), (500, 500));
    // The next engine is accepted, and its routes are no longer stale.
    let mut stream = connect(server);
    stream.write_all(&frames[..frames.len() / 2]).unwrap();
    serve_until(&host, || host.fpm_status().unwrap().stale == 250);
    assert_eq!(counter(&host, "unchanged"), 250);
}

#[test]
fn a_stream_that_is_not_fpm_is_closed_with_the_reason() {
    let host = host(0);
    let server = host.fpm().unwrap();
    for (bytes, why) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "FPM version 71 is not supported, only 1"),
        (&[1, 2, 0, 8, 0, 0, 0, 0], "FPM with protobuf is not supported: load dplane_fpm_nl in zebra"),
    ] {
        let before = counter(&host, "not_fpm");
        let mut stream = connect(server);
        let good = frame(&[Wire::route("10.0.0.0/8".parse().unwrap(), BGP).kind(6)]);
        stream.write_all(&[&good, bytes].concat()).unwrap();
        let notices = serve_until(&host, || counter(&host, "not_fpm") > before);
        let expected = format!("host: routing engine disconnected: {why}; its routes stay for 0 s");
        assert_eq!(notices.last(), Some(&expected), "{notices:?}");
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "closed");
        serve_until(&host, || server.due() == Instant::NEVER);
        assert_eq!(host.stack.route_to(host.cx(), [10, 1, 1, 1].into()), None, "swept at once");
    }
}

#[test]
fn a_full_queue_makes_the_engine_wait_and_nothing_is_lost() {
    let host = host(120);
    let server = host.fpm().unwrap();
    let mut stream = connect(server);
    let to = "10.0.0.0/8".parse().unwrap();
    let block: Vec<u8> = (0..2000).flat_map(|_| frame(&[Wire::route(to, BGP).kind(6)])).collect();
    let blocks = 300; // 24 MB, more than the queue and the buffers of the sockets
    let writing = std::thread::spawn(move || (0..blocks).for_each(|_| stream.write_all(&block).unwrap()));
    // The engine stops writing at the limit.
    let queued = || host.fpm_status().unwrap().queued;
    for _ in 0..10_000 {
        if queued() > QUEUED_MAX {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!((QUEUED_MAX..QUEUED_MAX + (1 << 20)).contains(&queued()) && !writing.is_finished(), "{}", queued());
    serve_until(&host, || counter(&host, "frames") == blocks * 2000);
    writing.join().unwrap();
    assert_eq!(counter(&host, "unchanged"), blocks * 2000 - 1);
}

#[test]
fn a_host_ends_while_its_queue_is_full() {
    let host = host(120);
    let mut stream = connect(host.fpm().unwrap());
    let to = "10.0.0.0/8".parse().unwrap();
    let block: Vec<u8> = (0..2000).flat_map(|_| frame(&[Wire::route(to, BGP).kind(6)])).collect();
    let writing = std::thread::spawn(move || while stream.write_all(&block).is_ok() {});
    for _ in 0..10_000 {
        if host.fpm_status().unwrap().queued > QUEUED_MAX {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!writing.is_finished());
    drop(host);
    writing.join().unwrap();
}
