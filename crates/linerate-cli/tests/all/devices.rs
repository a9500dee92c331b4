//! Ports of each kind on the kernel's devices: ping, UDP and TCP with default settings. On devices
//! with an MTU of 9,000 bytes, a host, `cat` and `put` use this MTU, with buffers that fit its
//! frames.
//!
//! The tests run in their own network namespace, which contains the kernel's side of the device.

use crate::common;
use crate::common::{Running, has, isolated, linerate, replies, run, until};
use std::io::Write;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Kinds of ports on devices of the kernel.
const KINDS: [&str; 4] = ["tap", "tun", "packet", "xdp"];
/// Maximum frame length of the devices in bytes.
const LONGEST: usize = 9014;
/// Maximum packet length of the devices in bytes.
const LONGEST_PACKET: usize = 9000;

#[track_caller]
fn sh(line: &str) -> String {
    let output = run(Command::new("sh").args(["-c", line]));
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Creates the device `p0` for our port with this MTU. Returns the name of the kernel's end, which
/// has 10.0.0.1.
fn device(kind: &str, mtu: u16) -> &'static str {
    sh("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; ip link set lo up");
    let kernel = if ["tap", "tun"].contains(&kind) {
        sh(&format!("ip tuntap add p0 mode {kind}"));
        "p0"
    } else {
        sh(&format!("ip link add p0 mtu {mtu} type veth peer name k0 mtu {mtu}"));
        "k0"
    };
    sh(&format!("ip link set p0 mtu {mtu} up; ip link set {kernel} up; ip addr add 10.0.0.1/24 dev {kernel}"));
    kernel
}

/// Starts a host at p0 with a UDP echo service on port 7 and an iperf3 service.
fn host(kind: &str) -> Running {
    let port = format!("{kind}:p0");
    let flags = ["--port", &port, "--addr", "10.0.0.2/24", "--service", "echo:7", "--service", "iperf3"];
    Running::start(kind, &flags)
}

/// Ends the host by Ctrl-C and checks that every frame is accounted for.
fn end(host: Running, kind: &str) {
    let (code, out, err) = host.interrupt();
    assert_eq!(code, Some(0), "{kind}: {out}{err}");
    assert!(out.contains("imbalance           0\n"), "{kind}: {out}");
}

#[test]
fn ping_udp_and_tcp_work_with_default_settings_at_each_kind_of_port() {
    if !["ping", "iperf3"].iter().all(|tool| has(tool)) {
        return println!("skipped: ping and iperf3 are not both installed");
    }
    isolated("ping_udp_and_tcp_work_with_default_settings_at_each_kind_of_port", || {
        for kind in KINDS {
            device(kind, 1500);
            let host = host(kind);
            for size in [56, 4000] {
                let pinged = sh(&format!("ping -n -c 5 -i 0.1 -w 10 -s {size} 10.0.0.2"));
                assert_eq!(replies(&pinged, 5), 5, "{kind}: {pinged}");
            }
            let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            for len in [1, 100, 1472, 8000] {
                let sent = vec![len as u8; len];
                socket.send_to(&sent, "10.0.0.2:7").unwrap();
                let mut got = vec![0; 10_000];
                let n = socket.recv(&mut got).unwrap_or_else(|why| panic!("{kind}: UDP of {len} bytes: {why}"));
                assert!(got[..n] == sent, "{kind}: {n} of {len} bytes");
            }
            for flags in ["-t 1", "-t 1 -R", "-u -b 5M -l 1000 -t 1", "-u -b 5M -l 1000 -t 1 -R"] {
                let reported = sh(&format!("iperf3 -J --connect-timeout 5000 -c 10.0.0.2 {flags}"));
                let reported: serde_json::Value = serde_json::from_str(&reported).unwrap();
                let sum = if flags.contains("-u") { &reported["end"]["sum"] } else { &reported["end"]["sum_received"] };
                assert!(sum["bytes"].as_u64() > Some(300_000), "{kind} {flags}: {reported}");
            }
            // No frame was rejected as damaged.
            let counters = host.json("netstat -s");
            for sum in ["inet.udp.in.bad_checksum", "inet.tcp.in.bad_checksum"] {
                assert_eq!(counters.get(sum), None, "{kind}");
            }
            end(host, kind);
            sh("ip link del p0");
        }
    });
}

/// tcpdump of the SYN segments at the kernel's end.
struct Syns(Child);

impl Syns {
    fn capture(device: &str) -> Syns {
        let mut tcpdump = Command::new("tcpdump");
        tcpdump.args(["-n", "-l", "-i", device, "--immediate-mode", "-Z", "root", "tcp[tcpflags] & tcp-syn != 0"]);
        let mut child = tcpdump.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut printed = std::io::BufReader::new(child.stderr.as_mut().unwrap());
        while !line.contains("istening on") {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut printed, &mut line).unwrap() > 0, "tcpdump ended");
        }
        Syns(child)
    }

    /// Returns the MSS options that tcpdump captured.
    fn end(mut self) -> Vec<String> {
        std::thread::sleep(Duration::from_millis(300));
        assert!(Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap().success());
        let mut text = String::new();
        std::io::Read::read_to_string(self.0.stdout.as_mut().unwrap(), &mut text).unwrap();
        common::wait(&mut self.0);
        let mss = |line: &str| line.split_once("mss ").map(|(_, rest)| rest.split(',').next().unwrap().to_string());
        text.lines().filter_map(mss).collect()
    }
}

/// RFC 9293 3.7.1: the advertised MSS is the MTU of the link minus 40 bytes, in both directions.
#[test]
fn a_host_takes_the_mtu_of_its_device() {
    if !["ping", "iperf3", "tcpdump"].iter().all(|tool| has(tool)) {
        return println!("skipped: ping, iperf3 and tcpdump are not all installed");
    }
    isolated("a_host_takes_the_mtu_of_its_device", || {
        for kind in KINDS {
            let kernel = device(kind, 9000);
            let host = host(kind);
            assert!(host.ok("ifconfig p0").contains("mtu 9000"), "{kind}");
            let syns = Syns::capture(kernel);
            // A packet of 9,000 bytes has 8,972 bytes of ICMP payload.
            for size in [8000, 8972] {
                let pinged = sh(&format!("ping -n -c 3 -i 0.1 -w 10 -s {size} -M do 10.0.0.2"));
                assert_eq!(replies(&pinged, 3), 3, "{kind}: {pinged}");
            }
            for flags in ["-t 1", "-t 1 -R"] {
                let reported = sh(&format!("iperf3 -J --connect-timeout 5000 -c 10.0.0.2 {flags}"));
                let reported: serde_json::Value = serde_json::from_str(&reported).unwrap();
                assert!(
                    reported["end"]["sum_received"]["bytes"].as_u64() > Some(5_000_000),
                    "{kind} {flags}: {reported}"
                );
            }
            let offered = syns.end();
            assert!(offered.len() >= 8 && offered.iter().all(|mss| mss == "8960"), "{kind}: {offered:?}");
            end(host, kind);
            sh("ip link del p0");
        }
    });
}

/// Hosts on two TUN devices reach the kernel and, through it, each other, over IPv4 and IPv6.
#[test]
fn hosts_on_tun_devices_reach_each_other_through_the_kernel() {
    if !has("ping") {
        return println!("skipped: ping is not installed");
    }
    isolated("hosts_on_tun_devices_reach_each_other_through_the_kernel", || {
        sh(
            "ip link set lo up; echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
        );
        let hosts = [0, 1].map(|n| {
            sh(&format!("ip tuntap add p{n} mode tun; ip link set p{n} up"));
            sh(&format!("ip addr add 10.0.{n}.1/24 dev p{n}; ip addr add fd0{n}::1/64 dev p{n} nodad"));
            let [port, addr, addr6] = [format!("tun:p{n}"), format!("10.0.{n}.2/24"), format!("fd0{n}::2/64")];
            let [route, route6] = [format!("default,10.0.{n}.1"), format!("default,fd0{n}::1")];
            let flags = ["--port", &port, "--addr", &addr, "--addr", &addr6, "--route", &route, "--route", &route6];
            Running::start(&format!("tun{n}"), &flags)
        });
        for host in &hosts {
            until("duplicate address detection ends", || !host.ok("ip -6 addr").contains("tentative"));
        }
        for to in ["10.0.0.2", "10.0.1.2", "fd00::2", "fd01::2"] {
            let pinged = sh(&format!("ping -n -c 3 -i 0.1 -w 10 {to}"));
            assert_eq!(replies(&pinged, 3), 3, "{pinged}");
        }
        for to in ["10.0.1.1", "10.0.1.2", "fd01::1", "fd01::2"] {
            let output = run(&mut linerate(&["ping", "--url", &hosts[0].url(), "-c", "3", "-i", "0.1", to]));
            let pinged = String::from_utf8_lossy(&output.stdout);
            assert!(pinged.contains("3 packets transmitted, 3 received"), "{pinged}");
        }
        let neighbors = hosts[0].ok("arp -an") + &hosts[0].ok("ndp -an");
        assert_eq!(neighbors.matches("02:00:74:75:6e:00").count(), 2, "{neighbors}");
        hosts.into_iter().for_each(|host| end(host, "tun"));
    });
}

/// A host with a single address and a route through the device, as in a VPN, reaches any address.
#[test]
fn a_route_through_a_device_leads_beyond_the_prefixes_of_its_addresses() {
    if !has("ping") {
        return println!("skipped: ping is not installed");
    }
    isolated("a_route_through_a_device_leads_beyond_the_prefixes_of_its_addresses", || {
        for kind in ["tun", "tap"] {
            sh(&format!("ip link set lo up; ip tuntap add p0 mode {kind}; ip link set p0 up"));
            sh("ip addr add 192.0.2.9/32 dev p0; ip route add 10.8.0.2 dev p0");
            let host =
                Running::start(&format!("beyond-{kind}"), &["--port", &format!("{kind}:p0"), "--addr", "10.8.0.2/32"]);
            host.ok("ip route add default dev p0");
            let output = run(&mut linerate(&["ping", "--url", &host.url(), "-c", "3", "-i", "0.1", "192.0.2.9"]));
            let pinged = String::from_utf8_lossy(&output.stdout);
            assert!(pinged.contains("3 packets transmitted, 3 received"), "{kind}: {pinged}");
            let pinged = sh("ping -n -c 3 -i 0.1 -w 10 10.8.0.2");
            assert_eq!(replies(&pinged, 3), 3, "{kind}: {pinged}");
            end(host, kind);
            sh("ip link del p0");
        }
    });
}

#[test]
fn a_tun_device_is_no_port_of_a_bridge() {
    let output = run(&mut linerate(&["bridge", "tun:p0", "pair:x"]));
    let said = String::from_utf8_lossy(&output.stderr);
    let why = "tun:p0: a TUN device has no Ethernet addresses and cannot be in a bridge; use tap:NAME";
    assert!(!output.status.success() && said.contains(why), "{said}");
}

/// A configured MTU is kept, and a port that is added later has buffers for its device.
#[test]
fn a_configured_mtu_stays_and_a_later_port_has_long_buffers() {
    isolated("a_configured_mtu_stays_and_a_later_port_has_long_buffers", || {
        device("tap", 9000);
        let host = Running::start("mtu-set", &["--port", "tap:p0", "--addr", "10.0.0.2/24", "--mtu", "1400"]);
        assert!(host.ok("ifconfig p0").contains("mtu 1400"));
        sh("ip tuntap add p1 mode tap; ip link set p1 mtu 9000 up; ip addr add 10.0.1.1/24 dev p1");
        // Without large segments, the port has only buffers of the MTU.
        host.ok("ifconfig p1 create port tap(lro=off):p1 inet 10.0.1.2/24 up");
        assert!(host.ok("ifconfig p1").contains("mtu 9000"));
        let pinged = sh("ping -n -c 3 -i 0.1 -w 10 -s 8972 -M do 10.0.1.2");
        assert_eq!(replies(&pinged, 3), 3, "{pinged}");
        let (code, out, err) = host.interrupt();
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    });
}

/// A bridge between two devices with an MTU of 9,000 bytes and without large segments forwards
/// frames of that length.
#[test]
fn a_bridge_passes_frames_of_its_devices_mtu() {
    isolated("a_bridge_passes_frames_of_its_devices_mtu", || {
        sh("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; ip link set lo up");
        for n in [0, 1] {
            sh(&format!("ip tuntap add p{n} mode tap; ip link set p{n} mtu 9000 up"));
        }
        let bridge = Running::start_as("mtu-bridge", &["bridge", "tap(lro=off):p0", "tap(lro=off):p1"]);
        sh("ip addr add 10.0.0.1/24 dev p0; ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev p0");
        sh("ping -n -c 3 -i 0.1 -W 1 -s 8972 -M do 10.0.0.2 || true");
        let rows: serde_json::Value = serde_json::from_str(&sh("ip -s -j link show dev p1")).unwrap();
        let stats = &rows[0]["stats64"]["rx"];
        assert!(stats["packets"].as_u64() >= Some(3) && stats["bytes"].as_u64() >= Some(3 * LONGEST as u64), "{stats}");
        let (code, out, err) = bridge.interrupt();
        assert_eq!(code, Some(0), "{out}{err}");
    });
}

#[test]
fn cat_and_put_pass_frames_of_the_devices_mtu() {
    if !has("ping") {
        return println!("skipped: ping is not installed");
    }
    isolated("cat_and_put_pass_frames_of_the_devices_mtu", || {
        for kind in KINDS {
            let kernel = device(kind, 9000);
            let port = format!("{kind}:p0");
            let mut cat = linerate(&["cat", "-c", "3", &port]);
            let cat = cat.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            if kind != "tun" {
                sh(&format!("ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev {kernel}"));
            }
            let begun = Instant::now();
            let mut cat = Some(cat);
            let read = std::thread::spawn(move || cat.take().unwrap().wait_with_output().unwrap());
            while !read.is_finished() && begun.elapsed() < Duration::from_secs(20) {
                sh("ping -n -c 1 -W 0.1 -s 8972 -M do 10.0.0.2 || true");
            }
            let output = read.join().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            // An AF_XDP port without zero copy reports a warning.
            let reported =
                |stderr: &[u8]| String::from_utf8_lossy(stderr).lines().any(|line| !line.contains("copies each"));
            assert!(output.status.success() && !reported(&output.stderr), "{kind}: {:?}", output.stderr);
            assert_eq!(text.lines().count(), 3, "{kind}");
            let digits = |line: &str| line.bytes().filter(u8::is_ascii_hexdigit).count();
            assert!(text.lines().all(|line| digits(line) >= 2 * LONGEST), "{kind}: {}", digits(&text) / 3);

            let received = || {
                let rows: serde_json::Value =
                    serde_json::from_str(&sh(&format!("ip -s -j link show dev {kernel}"))).unwrap();
                rows[0]["stats64"]["rx"]["bytes"].as_u64().unwrap()
            };
            let before = received();
            let mut put = linerate(&["put", &port]);
            let mut put = put.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            put.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            let output = put.wait_with_output().unwrap();
            assert!(output.status.success() && !reported(&output.stderr), "{kind}: {output:?}");
            assert!(received() >= before + 3 * LONGEST_PACKET as u64, "{kind}");
            sh("ip link del p0");
        }
    });
}
