//! Relays, bridges, and ports of the user's own.

use linerate::net::{TcpListener, TcpStream, UdpSocket};
use linerate::port::unix::datagrams;
use linerate::port::{FrameSink, FrameSource, Relay, Towards, Verdict, channel};
use linerate::{Bridge, Host};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// A source that ends with an error, and a sink that refuses every frame.
struct Broken;

impl FrameSource for Broken {
    fn recv(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the cable is cut"))
    }
}

impl FrameSink for Broken {
    fn send(&mut self, _: &[u8]) -> io::Result<()> {
        Err(ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn a_port_that_fails_is_reported_and_the_host_goes_on() {
    let (told, warnings) = std::sync::mpsc::channel();
    let report = move |text: &str| drop(told.send(text.to_owned()));
    let host = Host::builder().frames("cut0", Broken, Broken).addr("10.0.0.1/24").on_warning(report).build().unwrap();
    let warning = warnings.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(warning.contains("cut0") && warning.contains("the cable is cut"), "{warning}");
    let socket = UdpSocket::bind(&host, "127.0.0.1:0").unwrap();
    socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    assert_eq!(socket.recv(&mut [0; 4]).unwrap(), 1);
}

/// A port that panics on its first use.
struct Panics;

impl FrameSource for Panics {
    fn recv(&mut self, _: &mut [u8]) -> io::Result<usize> {
        std::panic::resume_unwind(Box::new("a panic of this test")) // prints no message
    }
}

/// The panic ends the host's thread. Waiting calls return an error, and the drop does not wait.
#[test]
fn a_port_that_panics_ends_its_host_but_not_its_owner() {
    let host = Host::builder().frames("bad0", Panics, Broken).addr("10.0.0.1/24").build().unwrap();
    let socket = UdpSocket::bind(&host, "10.0.0.1:9").unwrap();
    assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
    assert_eq!(TcpStream::connect(&host, "10.0.0.2:9").unwrap_err().kind(), ErrorKind::ConnectionAborted);
    drop((socket, host));
}

#[test]
fn a_channel_wakes_an_idle_host() {
    let (end, sender, receiver) = channel(4);
    let _host = Host::builder().channel("chan0", end).addr("10.0.0.1/24").build().unwrap();
    let mut request = vec![0xff; 6];
    request.extend([2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2]);
    request.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    while receiver.recv(Duration::from_millis(300)).is_ok() {} // announcements of the new address
    for _ in 0..20 {
        sender.send(&request).unwrap();
        let reply = receiver.recv(Duration::from_secs(10)).unwrap();
        assert_eq!(reply[20..22], [0, 2]);
    }
}

#[test]
fn a_relay_counts_what_it_drops() {
    let mut relay = Relay::open("pair:left", "pair:right").unwrap();
    let a = Host::builder().port("pair:left").addr("10.0.0.1/24").build_local().unwrap();
    let b = Host::builder().port("pair:right").addr("10.0.0.2/24").build_local().unwrap();
    let (from, to) = (UdpSocket::bind(&a, "10.0.0.1:0").unwrap(), UdpSocket::bind(&b, "10.0.0.2:9").unwrap());
    to.set_nonblocking(true).unwrap();
    let driver = linerate::Driver::new([a, b]);
    let mut received = 0;
    for n in 0..200 {
        from.send_to(&[n; 100], "10.0.0.2:9").unwrap();
        for _ in 0..8 {
            driver.step();
            relay.step(|towards, frame| {
                let is_data = towards == Towards::Right && frame.len() > 100;
                if is_data && frame.last().is_some_and(|last| last % 4 == 0) { Verdict::Drop } else { Verdict::Pass }
            });
        }
        received += std::iter::from_fn(|| to.recv(&mut [0; 200]).ok()).count();
    }
    assert_eq!((received, relay.dropped()), (150, 50));
    assert_eq!(Relay::open("pair:x", "nonsense:y").unwrap_err().to_string().lines().count(), 1);
}

#[test]
fn ports_join_and_leave_a_running_bridge() {
    let bridge = Bridge::builder().port("pair:one").port("pair:two").build().unwrap();
    let a = Host::builder().port("pair:one").addr("10.0.0.1/24").build().unwrap();
    bridge.add_port("pair:three").unwrap();
    let b = Host::builder().port("pair:three").addr("10.0.0.2/24").build().unwrap();
    let (from, to) = (UdpSocket::bind(&a, "10.0.0.1:0").unwrap(), UdpSocket::bind(&b, "10.0.0.2:9").unwrap());
    to.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    from.send_to(b"hello", "10.0.0.2:9").unwrap();
    assert_eq!(to.recv(&mut [0; 16]).unwrap(), 5);
    assert!(bridge.wait_idle(Duration::from_secs(10)));
    assert!(bridge.remove_port("three") && !bridge.remove_port("three"));
    assert_eq!(bridge.ports(), ["one", "two"]);
    assert!(bridge.add_port("nonsense:x").is_err());
    assert!(Bridge::builder().port("pair:only").build().is_err());
}

/// Two hosts transfer bytes over a UNIX socket, and again after the server was replaced.
#[test]
fn hosts_transfer_bytes_over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("linerate-{}-unix", std::process::id())).display().to_string();
    let client = format!("impair(delay=1ms):unix(reconnect=20ms):{path}");
    let host = |n: u64, port: &str| Host::builder().seed(n).port(port).addr(&format!("10.0.0.{n}/24")).build().unwrap();
    let a = host(1, &client);
    for _ in 0..2 {
        // The same seed gives the same MAC address, to which `a` sends.
        let b = host(2, &format!("unix(server=on):{path}"));
        let listener = TcpListener::bind(&b, "10.0.0.2:7").unwrap();
        let sender = std::thread::spawn({
            let a = a.clone();
            move || TcpStream::connect(&a, "10.0.0.2:7")?.write_all(&[7; 1_000_000])
        });
        let mut bytes = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 1_000_000);
        sender.join().unwrap().unwrap();
    }
    assert!(!std::path::Path::new(&path).exists());
}

/// Two hosts exchange IP packets without Ethernet headers.
#[test]
fn hosts_exchange_packets_without_ethernet_headers() {
    let (left, right) = UnixDatagram::pair().unwrap();
    let host = |socket: UnixDatagram, n: u8| {
        let (source, sink) = datagrams(socket).unwrap();
        let host = Host::builder().packets("vpn0", source, sink).addr(&format!("10.0.0.{n}/24"));
        host.addr(&format!("fd00::{n}/64")).build().unwrap()
    };
    let (a, b) = (host(left, 1), host(right, 2));
    for (own, peer) in [("10.0.0.1:0", "10.0.0.2:9"), ("[fd00::1]:0", "[fd00::2]:9")] {
        // An IPv6 address is not usable before duplicate address detection has ended.
        let bind = |host: &Host, addr: &str| {
            let begun = Instant::now();
            loop {
                match UdpSocket::bind(host, addr) {
                    Err(error) if begun.elapsed() > Duration::from_secs(10) => panic!("{addr}: {error}"),
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                    Ok(socket) => return socket,
                }
            }
        };
        let (from, to) = (bind(&a, own), bind(&b, peer));
        let listener = TcpListener::bind(&b, peer).unwrap();
        from.send_to(b"hello", peer).unwrap();
        assert_eq!(to.recv(&mut [0; 16]).unwrap(), 5);
        let mut client = TcpStream::connect(&a, peer).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let sent = std::thread::spawn(move || client.write_all(&[7; 100_000]));
        let mut received = vec![0; 100_000];
        server.read_exact(&mut received).unwrap();
        sent.join().unwrap().unwrap();
        assert!(received.iter().all(|byte| *byte == 7));
    }
}

/// The packets are those of the wire, an answer to address resolution is not among them, and what is
/// no IP packet is dropped and counted.
#[test]
fn packets_begin_with_their_ip_header_and_junk_is_dropped() {
    let (ours, wire) = UnixDatagram::pair().unwrap();
    wire.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (source, sink) = datagrams(ours).unwrap();
    let host = Host::builder().packets("vpn0", source, sink).addr("10.0.0.1/24").build().unwrap();
    let socket = UdpSocket::bind(&host, "10.0.0.1:9").unwrap();
    socket.send_to(b"hello", "10.0.0.2:7").unwrap();
    let mut packet = [0; 2048];
    let len = loop {
        let len = wire.recv(&mut packet).unwrap();
        if packet[9] == 17 && packet[16..20] == [10, 0, 0, 2] {
            break len; // and not a report of a group
        }
    };
    assert_eq!((len, packet[0]), (20 + 8 + 5, 0x45));
    for junk in [&[][..], &[0x45], &[0xff; 60]] {
        wire.send(junk).unwrap();
    }
    // The same packet in the other direction; neither checksum changes.
    let (src, dst) = packet[12..20].split_at_mut(4);
    src.swap_with_slice(dst);
    let (from, to) = packet[20..24].split_at_mut(2);
    from.swap_with_slice(to);
    wire.send(&packet[..len]).unwrap();
    let mut data = [0; 16];
    let (len, from) = socket.recv_from(&mut data).unwrap();
    assert_eq!((&data[..len], from), (&b"hello"[..], "10.0.0.2:7".parse().unwrap()));
}
