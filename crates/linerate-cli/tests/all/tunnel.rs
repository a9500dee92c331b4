//! Our tunnels against the kernel's own ipip, GRE and VXLAN devices over a TAP device: ping of
//! every length, and TCP in both directions. Also between two of our hosts, with the kernel as a
//! router between them whose links get smaller MTUs.
//!
//! The kernel does not have EtherIP. It is tested between our hosts only, and with packets from the
//! RFC in inet/tests/tunnel.rs.

use crate::common::driven::{connected, drive, heard, pattern, stream, transfer, word};
use crate::common::{has, isolated, run};
use clock::{Clock, Strategy};
use inet::iface::IfaceAddr;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use port::os::netlink::Netlink;
use socket::Errno;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

fn ours(tap: &str, addr: [u8; 4], kernel: [u8; 4]) -> Host<Up> {
    let config = HostConfig { name: tap.to_string(), pool_buffers: 2048, ..HostConfig::default() };
    let host: Host<Up> = Host::new(&config, Clock::live(Strategy::default())).unwrap();
    let addresses = vec![IfaceAddr { addr: addr.into(), len: 24 }];
    let iface = IfaceConfig { addresses, ..IfaceConfig::on(&format!("tap:{tap}")) };
    host.add_port(&iface, &Pairs::new()).unwrap();
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("lo").unwrap();
    netlink.set_up(tap).unwrap();
    netlink.add_addr(tap, kernel, 24).unwrap();
    host
}

/// Checks that every frame is accounted for, and that none was damaged.
#[track_caller]
fn end(host: &Host<Up>) {
    let audit = host.stack.audit(host.cx());
    assert_eq!(audit.imbalance(), 0, "{audit:?}");
    for name in ["inet.tcp.in.bad_checksum", "inet.ip4.in.bad_checksum", "inet.udp.in.bad_checksum"] {
        assert_eq!(host.stack.counter(name), 0, "{name}");
    }
}

/// Runs `ping` of the kernel, which our host answers.
fn ping(hosts: &[&Host<Up>], to: &str, len: usize, df: &str) {
    let len = len.to_string();
    let words = ["-n", "-c", "3", "-i", "0.05", "-W", "5", "-M", df, "-s", &len, to];
    let mut child = Command::new("ping").args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drive(hosts, &format!("ping {words:?}"), || child.try_wait().unwrap().is_some());
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains(" 3 received") || df == "do" && text.contains(" received"), "{words:?}: {text}");
}

/// Runs `ip`. Returns false and prints a message if the kernel has no such device.
fn kernel(test: &str, line: &str) -> bool {
    let output = run(Command::new("ip").args(line.split_whitespace()));
    let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
    if !output.status.success() {
        println!("not compared: {test}: ip {line}: {why} (this kernel was built without it)");
    }
    output.status.success()
}

#[test]
fn the_kernels_tunnels_and_ours() {
    let test = "the_kernels_tunnels_and_ours";
    isolated(test, || {
        if !has("ip") || !has("ping") {
            return println!("not compared: {test}: no ip or no ping here");
        }
        let between = "local 10.0.0.1 remote 10.0.0.2";
        let kinds = [
            ("gif0", "ifconfig gif0 create tunnel 10.0.0.2 10.0.0.1", format!("type ipip {between}")),
            ("gre0", "ip link add gre0 type gre local 10.0.0.2 remote 10.0.0.1", format!("type gre {between}")),
            (
                "gre1",
                "ip link add gre1 type gre local 10.0.0.2 remote 10.0.0.1 key 77 csum seq",
                format!("type gre {between} key 77 csum seq"),
            ),
            (
                "vxlan0",
                "ifconfig vxlan0 create vxlanid 42 vxlanlocal 10.0.0.2 vxlanremote 10.0.0.1",
                format!("type vxlan id 42 {between} dstport 4789 dev tap0"),
            ),
        ];
        for (name, we, they) in kinds {
            let host = ours("tap0", [10, 0, 0, 2], [10, 0, 0, 1]);
            if kernel(test, &format!("link add k0 {they}")) {
                word(&host, we);
                word(&host, &format!("ip addr add 172.16.0.2/24 dev {name}"));
                assert!(kernel(test, "addr add 172.16.0.1/24 dev k0") && kernel(test, "link set k0 up"));
                for len in [0, 56, 1400, 1423, 4000, 20_000] {
                    ping(&[&host], "172.16.0.2", len, "dont");
                }
                transfer(&[&host], &host, [172, 16, 0, 2], name);
                we_begin(&host, name);
                assert!(host.stack.counter("inet.tunnel.requeued") > 30, "{name}");
                assert!(host.stack.counter("inet.tunnel.encapsulated") > 30, "{name}");
                word(&host, &format!("ifconfig {name} destroy"));
            }
            end(&host);
            drop(host);
        }
    });
}

/// VXLAN over IPv6 between our host and the kernel. First with checksums, which both sides compute
/// by default; then without those of the kernel, which we accept only if configured.
#[test]
fn vxlan_over_ipv6_and_the_kernels() {
    let test = "vxlan_over_ipv6_and_the_kernels";
    isolated(test, || {
        if !has("ip") || !has("ping") {
            return println!("skipped: no ip(8) or ping");
        }
        for (theirs, own, passes) in [
            ("", "", true),
            ("udp6zerocsumtx udp6zerocsumrx", "udp6zerocsumrx", true),
            ("udp6zerocsumtx udp6zerocsumrx", "", false),
        ] {
            let host = ours("tap0", [10, 0, 0, 2], [10, 0, 0, 1]);
            word(&host, "sysctl -w net.inet6.ip6.dad_count=0");
            word(&host, "ip -6 addr add fd00::2/64 dev tap0");
            assert!(kernel(test, "-6 addr add fd00::1/64 dev tap0 nodad"));
            let line =
                format!("link add k0 type vxlan id 42 local fd00::1 remote fd00::2 dstport 4789 dev tap0 {theirs}");
            if !kernel(test, &line) {
                return;
            }
            word(&host, &format!("ip link add v0 type vxlan id 42 local fd00::2 remote fd00::1 {own}"));
            assert_eq!(host.stack.iface_named("v0").unwrap().mtu(), 1430, "70 bytes in front of a packet");
            word(&host, "ip addr add 172.16.0.2/24 dev v0");
            assert!(kernel(test, "addr add 172.16.0.1/24 dev k0") && kernel(test, "link set k0 up"));
            if passes {
                for len in [0, 56, 1401, 4000, 20_000] {
                    ping(&[&host], "172.16.0.2", len, "dont");
                }
                transfer(&[&host], &host, [172, 16, 0, 2], "vxlan over IPv6");
                we_begin(&host, "vxlan over IPv6");
                end(&host);
            } else {
                let words = ["-n", "-c", "1", "-W", "1", "172.16.0.2"];
                let mut child = Command::new("ping").args(words).stdout(Stdio::null()).spawn().unwrap();
                drive(&[&host], "no answer", || child.try_wait().unwrap().is_some());
                assert!(!child.wait().unwrap().success());
                assert!(host.stack.counter("inet.udp.in.bad_checksum") > 0);
                assert_eq!(host.stack.audit(host.cx()).imbalance(), 0);
            }
            word(&host, "ifconfig v0 destroy");
            drop(host);
        }
    });
}

/// Our host opens a connection to the kernel through the tunnel.
fn we_begin(host: &Host<Up>, what: &str) {
    let listener = std::net::TcpListener::bind((Ipv4Addr::new(172, 16, 0, 1), 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let theirs = std::thread::spawn(move || {
        let mut heard = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut heard).unwrap();
        heard
    });
    let fd = stream(host);
    assert_eq!(host.calls().connect(fd, to), Err(Errno::EINPROGRESS));
    let (text, mut sent): (Vec<u8>, usize) = (pattern(), 0);
    drive(&[host], what, || host.calls().peer_addr(fd).is_ok());
    drive(&[host], what, || {
        while let Some(n) = host.calls().send(fd, &text[sent..]).ok().filter(|n| *n > 0) {
            sent += n;
        }
        sent == text.len()
    });
    host.calls().close(fd).unwrap();
    drive(&[host], what, || theirs.is_finished());
    assert!(theirs.join().unwrap() == text, "{what}");
}

/// Two of our hosts with the kernel as a router between them. Its second link has a smaller MTU
/// than the first. Its ICMP messages about that reduce the tunnel's MTU, and TCP inside continues.
#[test]
fn a_router_between_us_gets_narrower() {
    let test = "a_router_between_us_gets_narrower";
    isolated(test, || {
        if !has("ip") {
            return println!("not compared: {test}: no ip here");
        }
        for (name, way, overhead) in [
            ("gif0", "type ipip", 20),
            ("gre0", "type gre key 5 csum seq", 36),
            ("etherip0", "type etherip", 36),
            ("vxlan0", "type vxlan id 7", 50),
        ] {
            let a = ours("tap0", [10, 0, 0, 2], [10, 0, 0, 1]);
            let b = ours("tap1", [10, 0, 1, 2], [10, 0, 1, 1]);
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            word(&a, "route add default 10.0.0.1");
            word(&b, "route add default 10.0.1.1");
            for (host, local, remote, inner) in [(&a, "10.0.0.2", "10.0.1.2", 1), (&b, "10.0.1.2", "10.0.0.2", 2)] {
                word(host, &format!("ip link add {name} {way} local {local} remote {remote}"));
                word(host, &format!("ip addr add 172.16.0.{inner}/24 dev {name}"));
            }
            let ends = connected(&a, &b, SocketAddr::from(([172, 16, 0, 2], 7777)), name);
            let mtu = |host: &Host<Up>| host.stack.iface_named(name).unwrap().mtu();
            assert_eq!((mtu(&a), mtu(&b)), (1500 - overhead, 1500 - overhead));
            // The path MTU is reduced while a connection is open.
            Netlink::open().unwrap().set_mtu("tap1", 1300).unwrap();
            heard(&a, &b, ends, &pattern(), name);
            assert_eq!((mtu(&a), mtu(&b)), (1300 - overhead, 1500 - overhead), "{name}");
            assert_eq!(a.stack.counter("inet.tunnel.narrowed"), 1, "{name}");
            [&a, &b].into_iter().for_each(end);
        }
    });
}
