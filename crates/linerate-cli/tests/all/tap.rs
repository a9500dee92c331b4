//! One of our hosts on a TAP device against the kernel: ping, UDP in both directions, fragments,
//! errors, a device that is removed.
//!
//! The tests run in their own network namespace: the test's binary runs again inside it.

use crate::common;
use crate::common::{Running, has, isolated, replies, run};
use port::os;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Starts a host on tap0 with echo on port 7, and configures the kernel's side.
fn start(flags: &[&str]) -> (Running, os::netlink::Netlink) {
    let mut all = vec!["--port", "tap:tap0", "--addr", "10.0.0.2/24", "--service", "echo:7", "--service", "discard:9"];
    all.extend(flags);
    let host = Running::start("tap", &all);
    let mut netlink = os::netlink::Netlink::open().unwrap();
    netlink.set_up("lo").unwrap();
    netlink.set_up("tap0").unwrap();
    netlink.add_addr("tap0", THEIRS, 24).unwrap();
    (host, netlink)
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((THEIRS, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

fn echoes(socket: &UdpSocket, len: usize) {
    let sent: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
    let mut got = vec![0; 65_536];
    socket.send_to(&sent, (OURS, 7)).unwrap();
    let (n, from) = socket.recv_from(&mut got).unwrap_or_else(|error| panic!("{len} bytes: {error}"));
    assert_eq!((n, from), (len, (OURS, 7).into()));
    assert_eq!(&got[..n], sent, "{len} bytes");
}

/// Ends the host and checks that every frame is accounted for.
fn end(host: Running) -> String {
    let (code, out, err) = host.interrupt();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("imbalance           0\n"), "{out}");
    err
}

#[test]
fn echo_works_with_the_kernel_over_tap() {
    isolated("echo_works_with_the_kernel_over_tap", || {
        let (host, _netlink) = start(&[]);
        let capture = Capture::start();
        ping(&host);
        let socket = socket();
        for len in [1, 1000, 1472, 8000, 0] {
            echoes(&socket, len);
        }
        let neighbor = &host.json("ip neigh")[0];
        assert_eq!((&neighbor["dst"], &neighbor["state"][0]), (&"10.0.0.1".into(), &"REACHABLE".into()));
        let kernels = std::fs::read_to_string("/proc/net/arp").unwrap();
        assert!(kernels.contains("10.0.0.2 "), "{kernels}");
        refused();
        let counters = host.json("netstat -s");
        assert!(counters["inet.ip4.reassembled"].as_u64() >= Some(1), "{counters}");
        assert!(counters["inet.ip4.fragments_sent"].as_u64() >= Some(6), "{counters}");
        assert_eq!(counters.get("inet.udp.in.bad_checksum"), None);
        let audit = host.json("audit");
        assert_eq!((&audit["imbalance"], &audit["ports"]["rx_imbalance"]), (&0.into(), &0.into()), "{audit}");
        capture.check(false); // left to the kernel: on the device they are not made yet
        assert_eq!(end(host), "");
    });
}

/// The same test with all checksums computed and verified in software.
#[test]
fn echo_works_without_offloads() {
    isolated("echo_works_without_offloads", || {
        let host =
            Running::start("soft", &["--port", "tap(vnet_hdr=off):tap0", "--addr", "10.0.0.2/24", "--service", "echo"]);
        let mut netlink = os::netlink::Netlink::open().unwrap();
        netlink.set_up("tap0").unwrap();
        netlink.add_addr("tap0", THEIRS, 24).unwrap();
        let capture = Capture::start();
        ping(&host);
        let socket = socket();
        for len in [1, 1000, 1472, 8000] {
            echoes(&socket, len);
        }
        refused();
        capture.check(true);
        end(host);
    });
}

#[test]
fn a_closed_port_refuses_connections_in_both_directions() {
    isolated("a_closed_port_refuses_connections_in_both_directions", || {
        let (host, _netlink) = start(&["--offload", "udp4csum"]);
        refused();
        // From our host to the kernel: an echo to a closed socket causes a port unreachable of the
        // kernel. (If the echo arrives before the close, the socket is still open, and the test is
        // repeated.)
        until(|| {
            let gone = socket();
            gone.send_to(b"y", (OURS, 7)).unwrap();
            drop(gone);
            host.json("netstat -s")["inet.icmp4.received"].as_u64() >= Some(1)
        });
        echoes(&socket(), 100);
        end(host);
    });
}

#[test]
fn a_host_with_stay_survives_a_removed_device() {
    isolated("a_host_with_stay_survives_a_removed_device", || {
        let (host, mut netlink) = start(&["--set", "stay=on"]);
        echoes(&socket(), 10);
        netlink.delete_link("tap0").unwrap();
        until(|| host.json("show ports")[0]["gone"] == true);
        assert!(host.ok("ifconfig tap0").contains("status: gone"));
        host.ok("ifconfig pg0 create inet 1.0.0.1 up");
        assert!(host.ok("ip addr").contains("1.0.0.1/8"));
        let err = end(host);
        assert!(err.contains("tap0: port closed") && err.contains("the host keeps running"), "{err}");
        assert_eq!(err.lines().count(), 1, "told once: {err}");
    });
}

/// Without a port no frame can arrive any more. The host reports this, prints its audit and ends.
#[test]
fn a_host_ends_when_its_device_is_removed() {
    isolated("a_host_ends_when_its_device_is_removed", || {
        let (host, mut netlink) = start(&[]);
        echoes(&socket(), 10);
        netlink.delete_link("tap0").unwrap();
        let (code, out, err) = host.wait();
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(err.contains("tap0: port closed: ") && err.ends_with("no port is left, so the host ends\n"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(out.contains("imbalance           0\n"), "{out}");
    });
}

/// Our host sends first: an ARP request, which the kernel answers. No static neighbor is needed.
#[test]
fn we_can_send_first() {
    isolated("we_can_send_first", || {
        let (host, mut netlink) = start(&["--route", "default,10.0.0.1"]);
        // The kernel gets a static neighbor, so that it sends no ARP request, and our host must
        // send one.
        let mac = host.json("ip link show tap0")[0]["address"].as_str().unwrap().parse().unwrap();
        netlink.add_neighbor("tap0", OURS, mac).unwrap();
        echoes(&socket(), 22);
        let counters = host.json("netstat -ss");
        assert!(counters["inet.arp.requests_sent"].as_u64() >= Some(1), "{counters}");
        assert!(counters["inet.arp.replies_received"].as_u64() >= Some(1), "{counters}");
        end(host);
    });
}

/// Runs the kernel's ping, if it is installed, to test ICMP as well.
fn ping(host: &Running) {
    if !has("ping") {
        return println!("skipped: ping is not installed");
    }
    let output = run(Command::new("ping").args(["-c", "3", "-i", "0.2", "-W", "5", "10.0.0.2"]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(" 3 received"), "{output:?}");
    assert_eq!(host.json("netstat -s")["inet.icmp4.echoes_answered"], 3);
}

/// A connected socket of the kernel gets an error because our port 99 has no socket.
fn refused() {
    let socket = socket();
    socket.connect((OURS, 99)).unwrap();
    socket.send(b"anybody?").unwrap();
    assert_eq!(socket.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// tcpdump on the kernel's side; `None` if it is not installed.
struct Capture(Option<(Child, std::path::PathBuf)>);

impl Capture {
    fn start() -> Capture {
        if !has("tcpdump") {
            println!("skipped: tcpdump is not installed");
            return Capture(None);
        }
        let file = std::env::temp_dir().join(format!("lr-tap-{}.pcap", std::process::id()));
        let mut tcpdump = Command::new("tcpdump");
        tcpdump.args(["-i", "tap0", "--immediate-mode", "-U", "-Q", "in", "-Z", "root", "-w"]).arg(&file);
        let mut child = tcpdump.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut printed = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut printed, &mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        std::thread::spawn(move || std::io::copy(&mut printed, &mut std::io::sink()));
        Capture(Some((child, file)))
    }

    /// Checks our frames as tcpdump decodes them; with `sums`, also their checksums.
    fn check(self, sums: bool) {
        let Some((mut child, file)) = self.0 else { return };
        std::thread::sleep(Duration::from_millis(300));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        common::wait(&mut child);
        let read = run(Command::new("tcpdump").args(["-n", "-vv", "-Z", "root", "-r"]).arg(&file));
        let text = String::from_utf8_lossy(&read.stdout);
        std::fs::remove_file(&file).unwrap();
        assert!(text.contains("10.0.0.2.7 > 10.0.0.1."), "{read:?}");
        assert!(text.contains("ICMP echo reply") && text.contains("udp port 99 unreachable"), "{read:?}");
        assert!(!text.contains("bad cksum") && !text.contains("wrong icmp"), "{text}");
        if sums {
            assert!(!text.contains("bad udp cksum") && text.contains("udp sum ok"), "{text}");
        }
    }
}

/// Starts two hosts with `flags`. The kernel's bridge br0 (10.9.30.1) connects their TAP devices.
fn two_hosts(flags: &[&str]) -> [Running; 2] {
    run_ok(&["ip", "link", "add", "br0", "type", "bridge"]);
    let start = |name: &str, addr: &str| {
        let port = format!("tap:{name}");
        let host = Running::start(name, &[&["--port", &port, "--addr", addr], flags].concat());
        run_ok(&["ip", "link", "set", name, "master", "br0", "up"]);
        host
    };
    let hosts = [start("x0", "10.9.30.2/24"), start("y0", "10.9.30.3/24")];
    run_ok(&["ip", "addr", "add", "10.9.30.1/24", "dev", "br0"]);
    run_ok(&["ip", "link", "set", "br0", "up"]);
    hosts
}

#[track_caller]
fn run_ok(words: &[&str]) {
    let output = run(Command::new(words[0]).args(&words[1..]));
    assert!(output.status.success(), "{words:?}: {output:?}");
}

#[test]
fn two_hosts_with_default_settings_answer_on_one_bridge() {
    if !has("ping") {
        return println!("skipped: ping is not installed");
    }
    isolated("two_hosts_with_default_settings_answer_on_one_bridge", || {
        let hosts = two_hosts(&[]);
        let pings = ["10.9.30.2", "10.9.30.3"].map(|to| {
            let mut ping = Command::new("ping");
            ping.args(["-c", "40", "-i", "0.05", "-w", "20", to]).stdout(Stdio::piped()).spawn().unwrap()
        });
        for ping in pings {
            let output = ping.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(replies(&text, 40), 40, "{text}");
        }
        let macs = hosts.map(|host| {
            let mac = host.json("ip link")[1]["address"].clone();
            assert_eq!(end(host), "");
            mac
        });
        assert_ne!(macs[0], macs[1]);
    });
}

#[test]
fn a_mac_address_that_another_host_has_is_reported_once() {
    isolated("a_mac_address_that_another_host_has_is_reported_once", || {
        let [x, y] = two_hosts(&["--mac", "02:00:00:00:00:07"]);
        until(|| {
            y.ok("ifconfig y0 inet 10.9.30.4/24 alias"); // announces the address
            y.ok("ifconfig y0 inet 10.9.30.4 -alias");
            x.json("netstat -s")["inet.link.ether.in.own_source"].as_u64() >= Some(2)
        });
        let err = end(x);
        let expected = "x0: another station uses the MAC address 02:00:00:00:00:07, or the link has a loop; set --mac";
        assert_eq!(err.trim_end(), format!("linerate: host: {expected}"));
        end(y);
    });
}

/// RFC 1122 4.1.3.5: a connected socket of the kernel accepts no reply from another address than
/// that of the request.
#[test]
fn an_alias_answers_with_its_own_address() {
    isolated("an_alias_answers_with_its_own_address", || {
        let (host, _netlink) = start(&[]);
        host.ok("ifconfig tap0 inet 10.0.0.3/24 alias");
        for requested in [Ipv4Addr::new(10, 0, 0, 3), OURS] {
            let socket = socket();
            socket.connect((requested, 7)).unwrap();
            for text in [&b"one"[..], b"two"] {
                socket.send(text).unwrap();
                let mut got = [0; 9];
                let n = socket.recv(&mut got).unwrap_or_else(|why| panic!("no answer from {requested}: {why}"));
                assert_eq!(&got[..n], text);
            }
        }
        end(host);
    });
}

/// The recorded route equals that of the kernel over a veth pair: the address of each interface on
/// the way out and back.
#[test]
fn a_ping_records_its_route() {
    if !has("ping") {
        return println!("skipped: ping is not installed");
    }
    isolated("a_ping_records_its_route", || {
        let (host, _netlink) = start(&[]);
        let output = run(Command::new("ping").args(["-c", "1", "-n", "-R", "-W", "5", "10.0.0.2"]));
        let text = String::from_utf8_lossy(&output.stdout);
        let route: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("RR:")).collect();
        let route = route.join(" ").replace("RR:", "");
        let route: Vec<&str> = route.split_whitespace().take(4).collect();
        assert_eq!(route, ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.1"], "{text}");
        end(host);
    });
}
