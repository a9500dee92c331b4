//! Tests of several ports on one interface, and of large segments.

use super::*;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Returns the UDP source ports of received frames.
fn sources(port: &mut Port, most: usize) -> HashSet<u16> {
    receive(port, most, is_udp).iter().map(|(frame, _)| u16::from_be_bytes([frame[34], frame[35]])).collect()
}

#[test]
fn two_ports_of_a_fanout_group_share_the_flows() {
    let name = "packet::tests::flows::two_ports_of_a_fanout_group_share_the_flows";
    in_a_namespace(name, || {
        let (_netlink, _socket) = wire_up();
        let pool = pool();
        let config = PacketConfig { fanout: Some((5, FanoutMode::Hash)), ..PacketConfig::default() };
        let mut ports = [(); 2].map(|()| crate::packet::open("ours", &config, &pool).unwrap());
        let sockets: Vec<_> = (0..40).map(|_| UdpSocket::bind((KERNEL, 0)).unwrap()).collect();
        for _ in 0..5 {
            for socket in &sockets {
                socket.send_to(b"flow", (US, 9)).unwrap();
            }
        }
        let [a, b] = &mut ports;
        let (first, second) = (sources(a, 500), sources(b, 500));
        assert!(first.is_disjoint(&second), "each flow arrives on one port");
        assert_eq!(first.len() + second.len(), 40);
        assert!(first.len() > 5 && second.len() > 5, "{} and {}", first.len(), second.len());
        assert_eq!(a.counts.rx.frames.get() + b.counts.rx.frames.get(), 200);
        // The group does not receive frames that this end sends.
        send(a, &pool, &udp_to_kernel(b"out", false), Flags::default());
        assert_eq!((receive(a, 1, |_| true).len(), receive(b, 1, |_| true).len()), (0, 0));

        let config = PacketConfig { fanout: Some((6, FanoutMode::Lb)), ..PacketConfig::default() };
        let mut ports = [(); 2].map(|()| crate::packet::open("ours", &config, &pool).unwrap());
        (0..100).for_each(|_| assert_eq!(sockets[0].send_to(b"flow", (US, 9)).unwrap(), 4));
        assert_eq!(ports.each_mut().map(|port| receive(port, 200, is_udp).len()), [50, 50]);
        drop(ports);
        drop(sockets);
    });
}

const PEER: &str = "LINERATE_PEER";
const LEN: usize = 8 << 20;
/// Maximum number of frames that may fail because they are sent before the peer's end is up: ARP
/// requests and initial IPv6 packets of about two seconds. ARP and TCP retransmit all frames that
/// are needed.
const TX_ERRORS_MAX: u64 = 8;

fn text() -> Vec<u8> {
    (0..LEN).map(|n| ((n * 7) >> 3) as u8).collect()
}

/// Runs the peer process in its own namespace. It waits for its end of the wire and for a
/// connection, reads all data and acknowledges it.
fn be_the_peer() {
    let mut netlink = Netlink::open().unwrap();
    let came = (0..500).any(|_| {
        sleep(Time::from_millis(10));
        netlink.ifindex("right").is_ok()
    });
    assert!(came, "the wire did not appear");
    netlink.set_up("right").unwrap();
    netlink.add_addr("right", Ipv4Addr::new(10, 3, 0, 2), 24).unwrap();
    let (mut stream, _) = TcpListener::bind("10.3.0.2:5001").unwrap().accept().unwrap();
    stream.set_read_timeout(Some(Time::from_secs(20))).unwrap();
    let mut got = vec![0; LEN];
    stream.read_exact(&mut got).unwrap();
    assert!(got == text());
    stream.write_all(b"thanks").unwrap();
}

fn send_to_peer() -> io::Result<()> {
    let address = std::net::SocketAddr::from(([10, 3, 0, 2], 5001));
    let connected = (0..100).find_map(|_| {
        sleep(Time::from_millis(50));
        TcpStream::connect_timeout(&address, Time::from_secs(1)).ok()
    });
    let mut stream = connected.ok_or(io::ErrorKind::NotConnected)?;
    stream.set_read_timeout(Some(Time::from_secs(20)))?;
    stream.set_write_timeout(Some(Time::from_secs(20)))?;
    stream.write_all(&text())?;
    stream.read_exact(&mut [0; 6])
}

/// Forwards all frames received on each of two ports to the other port.
fn cross(ports: &mut [Port; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut burst = Burst::new();
        ports[from].rx.rx_burst(&mut burst, 64, Instant::ZERO);
        for _ in 0..1000 {
            ports[to].tx.tx_burst(&mut burst, Instant::ZERO);
            if burst.is_empty() {
                break;
            }
        }
    }
}

/// Runs the kernel's TCP between two namespaces through two ports. Returns the number of frames
/// that contained the data, and the number of their bytes. Returns `None` if the test cannot run.
fn through(test: &str, config: &PacketConfig) -> Option<(u64, u64)> {
    if std::env::var_os(PEER).is_some() {
        be_the_peer();
        return None;
    }
    let mut netlink = Netlink::open().unwrap();
    netlink.add_veth("in1", "left").unwrap();
    netlink.add_veth("in2", "right").unwrap();
    for end in ["in1", "in2", "left"] {
        netlink.set_up(end).unwrap();
    }
    netlink.add_addr("left", Ipv4Addr::new(10, 3, 0, 1), 24).unwrap();
    let mut peer = std::process::Command::new(std::env::current_exe().unwrap());
    peer.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(PEER, "1");
    let mut peer = crate::os::netns::command(&mut peer).spawn().unwrap();
    let moved = format!("link set right netns {}", peer.id());
    if !std::process::Command::new("ip").args(moved.split(' ')).status().is_ok_and(|status| status.success()) {
        println!("skipped: {test}: no ip(8) to move an interface");
        peer.kill().unwrap();
        peer.wait().unwrap();
        return None;
    }
    let pool = pool();
    let mut ports = ["in1", "in2"].map(|name| crate::packet::open(name, config, &pool).unwrap());
    let client = std::thread::spawn(send_to_peer);
    while !client.is_finished() {
        cross(&mut ports);
    }
    let sent = client.join().unwrap();
    for port in &ports {
        println!("{:?} {:?} {:?}", port.counts.rx, port.counts.tx, port.rx.warnings());
    }
    sent.unwrap();
    assert!(peer.wait().unwrap().success());
    let rx = &ports[0].counts.rx;
    let tx = &ports[1].counts.tx;
    assert_eq!((rx.malformed.get(), tx.dropped() - tx.errors.get()), (0, 0));
    assert!(tx.errors.get() <= TX_ERRORS_MAX, "{} of {} frames not sent", tx.errors.get(), tx.from_host());
    let figures = (rx.frames.get(), rx.bytes.get());
    drop(ports);
    assert_eq!(pool.stats().live(), 0);
    assert!(figures.1 > LEN as u64);
    Some(figures)
}

#[test]
fn large_tcp_segments_pass_unsplit_with_open_checksums() {
    let name = "packet::tests::flows::large_tcp_segments_pass_unsplit_with_open_checksums";
    in_a_namespace(name, || {
        if let Some((frames, bytes)) = through(name, &PacketConfig::default()) {
            assert!(bytes / frames > 3000, "{frames} frames, {bytes} bytes");
        }
    });
}

#[test]
fn without_lro_large_segments_are_split_and_nothing_is_lost() {
    let name = "packet::tests::flows::without_lro_large_segments_are_split_and_nothing_is_lost";
    in_a_namespace(name, || {
        let config = PacketConfig { lro: false, tso: false, rx_csum: RxCsum::Complete, ..PacketConfig::default() };
        if let Some((frames, bytes)) = through(name, &config) {
            assert!(bytes / frames <= 1514 && frames > 2800, "{frames} frames, {bytes} bytes");
        }
    });
}
