//! The life of a host: start, changes while it runs, shutdown, and drop.

use linerate::net::{TcpListener, TcpStream, UdpSocket};
use linerate::{Driver, Error, Host};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

fn two(link: &str) -> (Host, Host) {
    let host = |name: &str, addr: &str| Host::builder().name(name).port(link).addr(addr).build().unwrap();
    (host("a", "10.0.0.1/24"), host("b", "10.0.0.2/24"))
}

#[test]
fn shutdown_sends_what_was_written_and_ends_all_waits() {
    let (a, b) = two("pair:shutdown");
    let listener = TcpListener::bind(&b, "10.0.0.2:7").unwrap();
    let mut client = TcpStream::connect(&a, "10.0.0.2:7").unwrap();
    let mut server = listener.accept().unwrap().0;
    client.write_all(&[7; 50_000]).unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        server.read_to_end(&mut all).map(|_| all.len())
    });
    let waiting = UdpSocket::bind(&a, "10.0.0.1:9").unwrap();
    let waiter = std::thread::spawn(move || waiting.recv(&mut [0]).unwrap_err().kind());
    a.shutdown(Duration::from_secs(5)).unwrap();
    assert_eq!(reader.join().unwrap().unwrap(), 50_000);
    assert_eq!(waiter.join().unwrap(), ErrorKind::ConnectionAborted);
    assert!(a.is_stopped());
    a.shutdown(Duration::from_secs(5)).unwrap(); // the second one does nothing
    let late = UdpSocket::bind(&a, "10.0.0.1:10").unwrap();
    assert_eq!(late.recv(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
}

#[test]
fn shutdown_reports_connections_whose_peers_do_not_acknowledge() {
    let (a, b) = two("pair:silent");
    let _listener = TcpListener::bind(&b, "10.0.0.2:7").unwrap();
    let mut client = TcpStream::connect(&a, "10.0.0.2:7").unwrap();
    b.remove_port("silent");
    client.write_all(&[7; 1000]).unwrap();
    let unfinished = a.shutdown(Duration::from_millis(200)).unwrap_err();
    assert_eq!((unfinished.connections.len(), unfinished.bytes()), (1, 1000));
}

/// Data that was written before the last handle is dropped reaches the peer.
#[test]
fn dropping_the_last_handle_sends_what_was_written() {
    let (a, b) = two("pair:dropped");
    let listener = TcpListener::bind(&b, "10.0.0.2:7").unwrap();
    let mut client = TcpStream::connect(&a, "10.0.0.2:7").unwrap();
    let mut server = listener.accept().unwrap().0;
    client.write_all(&[7; 30_000]).unwrap();
    drop(a);
    drop(client);
    let mut all = Vec::new();
    server.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 30_000);
}

/// A dropped `LocalHost` waits for acknowledgments as long as the path needs.
#[test]
fn a_dropped_local_host_waits_for_a_slow_path() {
    let slow = "impair(delay=80ms):pair:slow";
    let b = Host::builder().name("b").port(slow).addr("10.0.0.2/24").build().unwrap();
    let a = Host::builder().name("a").port("pair:slow").addr("10.0.0.1/24").build_local().unwrap();
    let listener = TcpListener::bind(&b, "10.0.0.2:7").unwrap();
    let mut client = TcpStream::connect(&a, "10.0.0.2:7").unwrap();
    let mut server = listener.accept().unwrap().0;
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client.write_all(&[7; 30_000]).unwrap(); // more than the initial window
    drop((client, a));
    let mut all = Vec::new();
    server.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 30_000);
}

/// A panic of the owner drops its hosts as usual: what was written arrives, and nothing panics
/// twice, which would abort the process.
#[test]
fn hosts_are_dropped_while_their_owner_unwinds() {
    let (a, b) = two("pair:unwinds");
    let listener = TcpListener::bind(&b, "10.0.0.2:7").unwrap();
    let owner = std::thread::spawn(move || {
        let mut client = TcpStream::connect(&a, "10.0.0.2:7").unwrap();
        client.write_all(&[7; 30_000]).unwrap();
        let _local = Host::builder().port("null:n0").addr("10.1.0.1/24").build_local().unwrap();
        std::panic::resume_unwind(Box::new("a panic of this test")); // prints no message
    });
    let mut all = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 30_000);
    assert!(owner.join().is_err());
}

/// The last handle of a host may be dropped in the host's own thread, which then ends.
#[test]
fn the_last_handle_is_dropped_by_the_hosts_own_thread() {
    let last = std::sync::Arc::new(std::sync::Mutex::new(None::<Host>));
    let (dropped, drops) = std::sync::mpsc::channel();
    let own = last.clone();
    let on_warning = move |_: &str| dropped.send(own.lock().unwrap().take().is_some()).unwrap();
    let (end, sender, receiver) = linerate::port::channel(4);
    let host = Host::builder().channel("chan0", end).addr("10.0.0.1/24").on_warning(on_warning).build().unwrap();
    *last.lock().unwrap() = Some(host);
    drop((sender, receiver)); // the port closes, of which the host warns
    assert!(drops.recv_timeout(Duration::from_secs(10)).unwrap());
    let ended = drops.recv_timeout(Duration::from_secs(10)).unwrap_err();
    assert_eq!(ended, std::sync::mpsc::RecvTimeoutError::Disconnected, "the thread has dropped its closure");
}

#[test]
fn ports_addresses_and_routes_change_while_the_host_runs() {
    let (a, b) = two("pair:change");
    a.add_port("pair:second", &["10.1.0.1/24"]).unwrap();
    b.add_port("pair:second", &["10.1.0.2/24", "fd00::2/64"]).unwrap();
    a.add_addr("second", "10.1.0.3/24").unwrap();
    let has = |host: &Host, addr: &str| host.addrs().iter().any(|(_, own, _)| own.to_string() == addr);
    assert!(has(&a, "10.1.0.3") && has(&b, "fd00::2"));
    a.add_route("198.51.100.0/24", "10.1.0.2").unwrap();
    b.add_addr("lo0", "198.51.100.1/32").unwrap();
    let (from, to) = (UdpSocket::bind(&a, "10.1.0.3:0").unwrap(), UdpSocket::bind(&b, "198.51.100.1:9").unwrap());
    to.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    from.send_to(b"routed", "198.51.100.1:9").unwrap();
    assert_eq!(to.recv_from(&mut [0; 16]).unwrap().1.ip().to_string(), "10.1.0.3");

    a.remove_route("198.51.100.0/24", "10.1.0.2").unwrap();
    assert_eq!(from.send_to(b"x", "198.51.100.1:9").unwrap_err().kind(), ErrorKind::NetworkUnreachable);
    a.remove_addr("second", "10.1.0.3/24").unwrap();
    assert!(!has(&a, "10.1.0.3"));
    assert!(a.remove_port("second") && !a.remove_port("second") && !a.remove_port("lo0"));
    for refused in [
        a.add_port("pair:third", &["10.2.0.1"]),
        a.add_port("nonsense:x", &[]),
        a.add_addr("none", "10.2.0.1/24"),
        a.add_route("10.9.0.0/16", "fd00::1"),
        a.add_route("10.9.0.0/16", "192.0.2.1"),
    ] {
        refused.unwrap_err();
    }
}

#[test]
fn values_that_cannot_be_honoured_are_errors() {
    let text = |built: Result<Host, Error>| built.unwrap_err().to_string();
    assert!(text(Host::builder().addr("10.0.0.1/24").build()).contains("call port() before"));
    assert!(text(Host::builder().port("pair:bad").addr("10.0.0.1/33").build()).contains("'10.0.0.1/33'"));
    assert!(text(Host::builder().port("tab:x").build()).contains("tap"), "the nearest kind");
    assert!(text(Host::builder().gateway("x").build()).contains("gateway 'x'"));
    assert!(text(Host::builder().sysctl("net.inet.ip.tll", 1).build()).contains("net.inet.ip.ttl"));
    let no_number = text(Host::builder().sysctl("net.inet.ip.ttl", "long").build());
    assert!(no_number.contains("'long'"), "{no_number}");
    let algorithm = |name: &str| Host::builder().sysctl("net.inet.tcp.cc.algorithm", name).build();
    assert!(text(algorithm("cubit")).contains("newreno or cubic"));
    assert!(text(Host::builder().local("10.0.0.0/40").build()).contains("10.0.0.0/40"));
    let warned = Host::builder().on_warning(|_| ()).build_local().unwrap_err().to_string();
    assert!(warned.contains("on_warning"), "{warned}");
}

#[test]
fn state_is_reported_as_values() {
    let (a, b) = two("pair:state");
    let _listener = TcpListener::bind(&b, "10.0.0.2:7").unwrap();
    let client = TcpStream::connect(&a, "10.0.0.2:7").unwrap();
    let all = a.connections();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].local, all[0].peer), (client.local_addr().unwrap(), client.peer_addr().unwrap()));
    assert_eq!(all[0].state, Some(linerate::State::Established));
    assert!(a.counter("inet.ip4.sent").unwrap() > 0 && a.counter("no.such.counter").is_none());
    UdpSocket::bind(&a, "10.0.0.1:0").unwrap().send_to(b"x", "10.0.0.2:99").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !b.drops().iter().any(|drop| drop.name == "inet.udp.in.no_socket" && drop.value == 1) {
        assert!(Instant::now() < deadline, "{:?}", b.drops());
        std::thread::yield_now();
    }
    b.shutdown(Duration::from_secs(1)).unwrap();
    assert_eq!(b.audit().unaccounted, 0);
}

/// A hundred hosts, each in its own thread, in one process.
#[test]
fn a_hundred_hosts_run_at_once() {
    let hosts: Vec<Host> = (0..100).map(|_| Host::builder().buffers(64).build().unwrap()).collect();
    for host in &hosts {
        let socket = UdpSocket::bind(host, "127.0.0.1:0").unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert_eq!(socket.recv(&mut [0; 4]).unwrap(), 1);
    }
}

#[test]
fn a_driver_runs_local_hosts_and_blocking_calls_run_one() {
    let a = Host::builder().port("pair:local").addr("10.0.0.1/24").build_local().unwrap();
    let b = Host::builder().port("pair:local").addr("10.0.0.2/24").build().unwrap();
    let echo = UdpSocket::bind(&b, "10.0.0.2:7").unwrap();
    std::thread::spawn(move || {
        let mut buf = [0; 16];
        while let Ok((len, from)) = echo.recv_from(&mut buf) {
            echo.send_to(&buf[..len], from).unwrap();
        }
    });
    let socket = UdpSocket::bind(&a, "10.0.0.1:0").unwrap();
    socket.send_to(b"hello", "10.0.0.2:7").unwrap();
    assert_eq!(socket.recv(&mut [0; 16]).unwrap(), 5, "a blocking call runs the host");
    socket.set_nonblocking(true).unwrap();
    socket.send_to(b"again", "10.0.0.2:7").unwrap();
    let driver = Driver::new([a.clone()]);
    let received = driver.run_until(Duration::from_secs(10), || socket.recv(&mut [0; 16]).ok());
    assert_eq!(received, Some(5));
    assert_eq!(driver.run_until(Duration::from_millis(20), || None::<()>), None);
    a.shutdown(Duration::from_secs(1)).unwrap();
}
