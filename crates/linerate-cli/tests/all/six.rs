//! IPv6 against the kernel's own over TAP devices: pings of every length in both directions,
//! traffic through our router between two networks of the kernel, and gif with each family in IPv6
//! against the kernel's segment routing. Segment routing encapsulates packets in plain IPv6 headers
//! and decapsulates them (`encap.red` with one segment, End.DX4, End.DT6), since this kernel has
//! neither sit nor ip6tnl.

use crate::common;
use crate::common::driven::{connected, drive, heard, pattern, transfer, word};
use crate::common::{Far, has, isolated, kernel, replies, run};
use clock::{Clock, Strategy};
use inet::iface::IfaceAddr;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use port::os::netlink::Netlink;
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// Creates a host on the TAP devices `taps`. Their other ends are up and have no addresses yet.
pub fn ours(taps: &[&str]) -> Host<Up> {
    let config = HostConfig { name: taps.join("-"), pool_buffers: 2048, ..HostConfig::default() };
    let host: Host<Up> = Host::new(&config, Clock::live(Strategy::default())).unwrap();
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("lo").unwrap();
    for (n, tap) in (0..).zip(taps) {
        let addresses = vec![IfaceAddr { addr: [10, 0, n, 2].into(), len: 24 }];
        let iface = IfaceConfig { addresses, ..IfaceConfig::on(&format!("tap:{tap}")) };
        host.add_port(&iface, &Pairs::new()).unwrap();
        netlink.set_up(tap).unwrap();
        netlink.add_addr(tap, [10, 0, n, 1], 24).unwrap();
    }
    host
}

/// Steps the hosts until none of their addresses is tentative.
pub fn settle(hosts: &[&Host<Up>]) {
    drive(hosts, "addresses", || hosts.iter().all(|host| !word(host, "ip -6 addr").contains("tentative")));
}

/// Runs a command while the hosts are stepped. Returns its output if it succeeded.
pub fn printed(hosts: &[&Host<Up>], line: &str) -> Result<String, String> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let mut child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drive(hosts, line, || child.try_wait().unwrap().is_some());
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    if child.wait().unwrap().success() { Ok(out) } else { Err(format!("{line}: {out}{err}")) }
}

#[track_caller]
pub fn ping(hosts: &[&Host<Up>], words: &str) {
    let text = printed(hosts, &format!("ping -n -c 3 -i 0.05 -w 10 {words}")).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(replies(&text, 3), 3, "{text}");
}

pub fn sysctl(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{name}"), value).unwrap_or_else(|why| panic!("{name}: {why}"));
}

/// Checks that every frame is accounted for, and that none was damaged.
#[track_caller]
pub fn end(host: &Host<Up>) {
    let audit = host.stack.audit(host.cx());
    assert_eq!(audit.imbalance(), 0, "{audit:?}");
    for name in
        ["inet.icmp6.in.bad_checksum", "inet.ip4.in.bad_checksum", "inet.ip6.in.malformed", "inet.nd.in.malformed"]
    {
        assert_eq!(host.stack.counter(name), 0, "{name}");
    }
}

/// Returns whether this machine has what the test needs.
pub fn ready(test: &str) -> bool {
    let tools = has("ip") && has("ping");
    let speaks = std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/disable_ipv6").is_ok_and(|off| off.trim() == "0");
    if !tools || !speaks {
        println!("skipped: {test}: no ip, no ping, or a kernel without IPv6");
    }
    tools && speaks
}

#[test]
fn the_kernel_pings_our_host() {
    let test = "the_kernel_pings_our_host";
    isolated(test, || {
        if !ready(test) {
            return;
        }
        let host = ours(&["tap0"]);
        kernel("-6 addr add fd00::1/64 dev tap0 nodad");
        word(&host, "ifconfig tap0 inet6 fd00::2/64");
        assert!(word(&host, "ifconfig tap0").contains("inet6 fd00::2 prefixlen 64 tentative"));
        settle(&[&host]);
        for len in [0, 1, 56, 1000, 1452, 1453, 4000, 20_000] {
            ping(&[&host], &format!("-s {len} fd00::2"));
        }
        let near = word(&host, "ifconfig tap0").lines().find_map(|line| {
            line.trim()
                .strip_prefix("inet6 ")
                .and_then(|rest| rest.split('%').next())
                .filter(|a| a.starts_with("fe80"))
                .map(str::to_string)
        });
        let near = near.unwrap();
        ping(&[&host], &format!("{near}%tap0"));
        // All nodes includes our host. The kernel sends from fd00::1 while it still checks its
        // link-local address.
        let text = printed(&[&host], "ping -n -c 2 -i 0.05 -W 5 -I tap0 ff02::1").unwrap_or_else(|why| panic!("{why}"));
        let ours = [format!("bytes from {near}"), "bytes from fd00::2".to_owned()];
        assert!(ours.iter().any(|answer| text.contains(answer)), "{text}");
        assert!(word(&host, "ndp -an").contains("fd00::1 "), "{}", word(&host, "ndp -an"));
        assert!(word(&host, "ip -6 neigh").contains("fd00::1 dev tap0 lladdr"));
        // Each side finds the other again after the kernel has forgotten our host.
        kernel("-6 neigh flush dev tap0");
        ping(&[&host], "fd00::2");
        let errors = printed(&[&host], "ping -n -c 1 -W 2 -t 1 -I fd00::1 2001:db8::1");
        assert!(errors.is_err(), "nobody is there");
        end(&host);
    });
}

/// The kernel already has the address, so our host detects the duplicate and does not use it.
#[test]
fn an_address_that_the_kernel_has_is_not_ours() {
    let test = "an_address_that_the_kernel_has_is_not_ours";
    isolated(test, || {
        if !ready(test) {
            return;
        }
        let host = ours(&["tap0"]);
        kernel("-6 addr add fd00::1/64 dev tap0 nodad");
        // The kernel answers probes once it has detected the carrier, which takes up to a second.
        common::until("the kernel's IPv6 on tap0", || {
            let routes = ["-6", "route", "show", "table", "local", "type", "multicast", "dev", "tap0"];
            let (_, out, _) = common::printed(&run(Command::new("ip").args(routes)));
            !out.is_empty() && !out.contains("linkdown")
        });
        // On a busy machine the kernel may still miss the single probe of an attempt.
        let state = || word(&host, "ifconfig tap0").lines().find(|line| line.contains("fd00::1 ")).unwrap().to_owned();
        for _ in 0..10 {
            word(&host, "ifconfig tap0 inet6 fd00::1/64");
            drive(&[&host], "a probe", || !state().contains("tentative"));
            if state().contains("duplicated") {
                break;
            }
            println!("no answer to the probe: {}", state());
            word(&host, "ifconfig tap0 inet6 fd00::1/64 delete");
        }
        assert!(state().contains("fd00::1 prefixlen 64 duplicated"), "{}", state());
        assert_eq!(host.stack.counter("inet.nd.duplicates"), 1);
        end(&host);
    });
}

/// One of our routers between two networks of the kernel: traffic in both directions, hop limits, a
/// link with a smaller MTU, no route.
#[test]
fn we_are_the_router_between_two_networks() {
    let test = "we_are_the_router_between_two_networks";
    isolated(test, || {
        if !ready(test) {
            return;
        }
        let host = ours(&["tap0", "tap1"]);
        // The second network is in another namespace, so that the kernel does not forward directly.
        let far = Far::with("tap1");
        kernel("-6 addr add fd00::1/64 dev tap0 nodad");
        far.ip("-6 addr add fd01::1/64 dev tap1 nodad");
        far.ip("link set tap1 up");
        far.ip("-6 route add default via fd01::2");
        kernel("-6 route add default via fd00::2");
        word(&host, "sysctl net.inet6.ip6.forwarding=1");
        word(&host, "ifconfig tap0 inet6 fd00::2/64");
        word(&host, "ifconfig tap1 inet6 fd01::2/64");
        settle(&[&host]);
        for len in [56, 1452, 3000] {
            ping(&[&host], &format!("-s {len} fd01::1"));
        }
        let text = printed(&[&host], "ping -n -c 1 -W 5 -t 1 fd01::1").unwrap_err();
        assert!(text.contains("From fd00::2 icmp_seq=1 Time exceeded"), "{text}");
        let text = printed(&[&host], "ping -n -c 1 -W 5 2001:db8::1").unwrap_err();
        assert!(text.contains("From fd00::2 icmp_seq=1 Destination unreachable: No route"), "{text}");
        word(&host, "route add -inet6 2001:db8::/32 -prohibit");
        let text = printed(&[&host], "ping -n -c 1 -W 5 2001:db8::1").unwrap_err();
        assert!(text.contains("Administratively prohibited"), "{text}");
        let text = printed(&[&host], "ping -n -c 1 -W 8 fd01::77").unwrap_err();
        assert!(text.contains("Address unreachable"), "{text}");
        stream(&[&host], &far);
        word(&host, "ifconfig tap1 mtu 1300");
        let text = printed(&[&host], "ping -n -c 2 -i 0.2 -W 5 -M do -s 1400 fd01::1").unwrap_err();
        assert!(text.contains("Packet too big: mtu=1300"), "{text}");
        ping(&[&host], "-s 1400 fd01::1"); // in fragments of what it has learned
        assert!(host.stack.counter("inet.ip6.forwarded") > 20);
        end(&host);
    });
}

/// TCP of the kernel through our router, from one namespace to the other. On both devices,
/// checksums are left to the device.
fn stream(hosts: &[&Host<Up>], far: &Far) {
    if !has("nc") {
        return println!("skipped: TCP through the router: no nc");
    }
    let dir = common::Dir::new("six");
    let text: String = (0..40_000).map(|n| format!("{n}\n")).collect();
    let (from, into) = (dir.file("from", &text), dir.path("into"));
    let mut there = far.command("sh").args(["-c", &format!("nc -6 -l 7777 > {into}")]).spawn().unwrap();
    let line =
        format!("for i in 1 2 3 4 5 6 7 8 9; do nc -6 -N fd01::1 7777 < {from} && exit 0; sleep 0.2; done; exit 1");
    let mut here = Command::new("sh").args(["-c", &line]).spawn().unwrap();
    drive(hosts, "TCP through the router", || here.try_wait().unwrap().is_some());
    drive(hosts, "TCP through the router", || there.try_wait().unwrap().is_some());
    assert_eq!(std::fs::read_to_string(into).unwrap(), text);
}

/// gif against the kernel's segment routing: IPv4 and IPv6 in IPv6, in both directions, with every
/// length; TCP in IPv4 in IPv6, in both directions.
#[test]
fn gif_and_the_kernels_segment_routing() {
    let test = "gif_and_the_kernels_segment_routing";
    isolated(test, || {
        if !ready(test) {
            return;
        }
        let host = ours(&["tap0"]);
        kernel("-6 addr add fd00::1/64 dev tap0 nodad");
        sysctl("ipv6/conf/all/forwarding", "1");
        word(&host, "ifconfig tap0 inet6 fd00::2/64");
        settle(&[&host]);
        word(&host, "route -6 add fdcc::/64 fd00::1"); // where the kernel's segments are
        kernel("addr add 172.16.0.1/32 dev lo");
        kernel("-6 addr add fdaa::1/128 dev lo nodad");
        for (gif, far, action) in [("gif0", "fdcc::4", "End.DX4 nh4 0.0.0.0"), ("gif1", "fdcc::6", "End.DT6 table 255")]
        {
            let seg6 = run(Command::new("ip")
                .args(format!("-6 route add {far}/128 encap seg6local action {action} dev tap0").split_whitespace()));
            if !seg6.status.success() {
                return println!("not compared: {test}: {}", String::from_utf8_lossy(&seg6.stderr).trim());
            }
            word(&host, &format!("ifconfig {gif} create tunnel fd00::2 {far}"));
        }
        word(&host, "ifconfig gif0 inet 172.16.0.2 172.16.0.1");
        word(&host, "ifconfig gif1 inet6 fdaa::2 fdaa::1");
        kernel("route add 172.16.0.2/32 encap seg6 mode encap.red segs fd00::2 dev tap0 src 172.16.0.1");
        kernel("-6 route add fdaa::2/128 encap seg6 mode encap.red segs fd00::2 dev tap0 src fdaa::1");
        for (far, to, from) in [("fdcc::4", "172.16.0.2", "172.16.0.1"), ("fdcc::6", "fdaa::2", "fdaa::1")] {
            kernel(&format!("sr tunsrc set {far}"));
            let before =
                ["encapsulated", "decapsulated"].map(|name| host.stack.counter(&format!("inet.tunnel.{name}")));
            for len in [0, 56, 1000, 1300, 4000] {
                ping(&[&host], &format!("-I {from} -s {len} {to}"));
            }
            let after = ["encapsulated", "decapsulated"].map(|name| host.stack.counter(&format!("inet.tunnel.{name}")));
            assert!(after[0] >= before[0] + 15 && after[1] >= before[1] + 15, "{to}: {before:?} {after:?}");
        }
        kernel("sr tunsrc set fdcc::4");
        transfer(&[&host], &host, [172, 16, 0, 2], "IPv4 in IPv6");
        // A segment that is not from the far end of the tunnel must be dropped.
        kernel("sr tunsrc set fdcc::9");
        assert!(printed(&[&host], "ping -n -c 1 -W 1 -I 172.16.0.1 172.16.0.2").is_err());
        assert!(host.stack.counter("inet.tunnel.in.bad_source") >= 1);
        end(&host);
    });
}

/// Two of our hosts with a gif over IPv6, and the kernel as a router between them. When the MTU of
/// its second link is reduced, it reports this in ICMPv6. TCP over IPv4 inside the tunnel learns of
/// it and continues.
#[test]
fn a_router_of_ip6_between_us_gets_narrower() {
    let test = "a_router_of_ip6_between_us_gets_narrower";
    isolated(test, || {
        if !ready(test) {
            return;
        }
        for (name, way, overhead) in [("gif0", "type ip6tnl", 40), ("gre0", "type ip6gre key 5 csum seq", 56)] {
            let (a, b) = (ours(&["tap0"]), ours(&["tap1"]));
            sysctl("ipv6/conf/all/forwarding", "1");
            for (host, n, local, remote) in [(&a, 0, "fd00::2", "fd01::2"), (&b, 1, "fd01::2", "fd00::2")] {
                kernel(&format!("-6 addr add fd0{n}::1/64 dev tap{n} nodad"));
                word(host, &format!("ifconfig tap{n} inet6 {local}/64"));
                word(host, &format!("route -6 add default fd0{n}::1"));
                word(host, &format!("ip link add {name} {way} local {local} remote {remote}"));
                word(host, &format!("ip addr add 172.16.0.{}/24 dev {name}", n + 1));
            }
            settle(&[&a, &b]);
            let mtu = |host: &Host<Up>| host.stack.iface_named(name).unwrap().mtu();
            assert_eq!((mtu(&a), mtu(&b)), (1500 - overhead, 1500 - overhead));
            Netlink::open().unwrap().set_mtu("tap1", 1300).unwrap();
            let ends = connected(&a, &b, SocketAddr::from(([172, 16, 0, 2], 7777)), name);
            heard(&a, &b, ends, &pattern(), name);
            assert_eq!((mtu(&a), mtu(&b)), (1300 - overhead, 1500 - overhead), "{name}");
            assert_eq!(a.stack.counter("inet.tunnel.narrowed"), 1, "{name}");
            [&a, &b].into_iter().for_each(end);
        }
    });
}
