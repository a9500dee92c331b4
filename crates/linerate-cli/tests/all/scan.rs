//! The kernel scans a silent subnet through one of our routers, over IPv4 and IPv6. Pings to a
//! known neighbor must continue to work, and so must connects and pings to new ones.
//!
//! The tests run in their own network namespace: the test's binary runs again inside it.

use crate::common::{Running, has, isolated, kernel, run};
use port::os::netlink::Netlink;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PINGS: u32 = 60;
const CONNECTS: u8 = 10;

/// Sends a datagram from `from` to each address that `silent` returns, `rate` per second, until
/// `over`. Counts them in `sent`.
fn scan(from: IpAddr, silent: impl Fn(u32) -> IpAddr, rate: u32, over: &AtomicBool, sent: &AtomicU32) {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    let begin = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * f64::from(rate)) as u32;
        // After a pause of this thread, at most 20 ms of datagrams are sent at once, since the
        // device's queue is not the subject of the test.
        let now = sent.load(Ordering::Relaxed).max(due.saturating_sub(rate / 50));
        for n in now..due {
            let _ = socket.send_to(b"anybody?", (silent(n), 9));
        }
        sent.store(due, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns an address of 10.9.0.0/16.
fn silent4(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a09_0000 | n & 0xffff).into()
}

/// Returns an address of fd09::/64 that is not below fd09::1:0:0:0.
fn silent6(n: u32) -> IpAddr {
    Ipv6Addr::from_bits(0xfd09_u128 << 112 | 1 << 48 | u128::from(n)).into()
}

/// Returns the number of the kernel's pings without a reply.
fn pings_lost(to: &str) -> u32 {
    let output = run(Command::new("ping").args(["-c", "60", "-i", "0.02", "-W", "2", "-q", to]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let received = text.split(", ").find_map(|part| part.strip_suffix(" received")).and_then(|n| n.parse::<u32>().ok());
    PINGS - received.unwrap_or_else(|| panic!("{output:?}"))
}

/// Returns the number of packets to us that the kernel dropped because the device's queue was full.
fn dropped_by_device() -> u64 {
    let all = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = all.lines().find_map(|line| line.trim_start().strip_prefix("tap0:")).unwrap();
    line.split_whitespace().nth(11).unwrap().parse().unwrap()
}

/// Returns the number of packets that the kernel dropped, because its queue to the device or its
/// queue of received packets was full.
fn dropped_by_kernel() -> u64 {
    let all = std::fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let counts = all.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap());
    dropped_by_device() + counts.sum::<u64>()
}

/// Connects from `from`, which the router does not know yet. A lost SYN-ACK would be sent again
/// after a second.
fn connects(netlink: &mut Netlink, from: Ipv4Addr) -> bool {
    netlink.add_addr("tap0", from, 24).unwrap();
    let words = ["route", "replace", "10.0.0.2/32", "dev", "tap0", "src", &from.to_string()];
    assert!(run(Command::new("ip").args(words)).status.success());
    let begin = Instant::now();
    let Ok(mut stream) = TcpStream::connect_timeout(&SocketAddr::from((OURS, 4000)), Duration::from_secs(5)) else {
        return false;
    };
    assert_eq!(stream.local_addr().unwrap().ip(), from);
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut [0; 5]).is_ok() && begin.elapsed() < Duration::from_millis(950)
}

/// RFC 6583: a router with 4,096 buffers. At 10,000 packets per second, the kernel loses none of
/// these.
#[test]
fn a_scan_leaves_neighbors_alone() {
    isolated("a_scan_leaves_neighbors_alone", || {
        if !has("ip") || !has("ping") {
            return println!("skipped: ip or ping is not installed");
        }
        let flags = ["--port", "tap:tap0", "--addr", "10.0.0.2/24", "--set", "net.inet.ip.forwarding=1"];
        let quiet = ["--set", "net.inet.ip.redirect=0", "--set", "pool.buffers=4096"];
        let host = Running::start_as("scan", &[&["serve", "echo", "-p", "4000"], &flags[..], &quiet[..]].concat());
        let mut netlink = Netlink::open().unwrap();
        netlink.set_up("lo").unwrap();
        netlink.set_up("tap0").unwrap();
        netlink.add_addr("tap0", THEIRS, 24).unwrap();
        netlink.add_route(Ipv4Addr::new(10, 9, 0, 0), 16, Some(OURS), "tap0").unwrap();
        host.ok("ip route add 10.9.0.0/16 dev tap0");
        assert_eq!(pings_lost("10.0.0.2"), 0);
        for (at, rate) in [1_500, 5_000, 20_000].into_iter().enumerate() {
            let before = dropped_by_kernel();
            let (over, sent) = (AtomicBool::new(false), AtomicU32::new(0));
            let begin = Instant::now();
            let (lost, failed) = std::thread::scope(|scope| {
                scope.spawn(|| scan(THEIRS.into(), silent4, rate, &over, &sent));
                let ended = End(&over);
                let waiting = (0..500).any(|_| {
                    std::thread::sleep(Duration::from_millis(2));
                    sent.load(Ordering::Relaxed) > 2 * 512
                });
                assert!(waiting, "the scan has begun");
                let lost = pings_lost("10.0.0.2");
                let new = |n: &u8| !connects(&mut netlink, Ipv4Addr::new(10, 0, 0, 100 + at as u8 * 20 + n));
                let failed = (0..CONNECTS).filter(new).count();
                drop(ended);
                (lost, failed)
            });
            let scanned = f64::from(sent.into_inner()) / begin.elapsed().as_secs_f64();
            println!(
                "{rate}: {scanned:.0} packets/s, {lost} of {PINGS} pings and {failed} of {CONNECTS} connects lost"
            );
            let counters = host.json("netstat -s");
            assert_eq!(counters["inet.icmp4.received"], counters["inet.icmp4.echoes_answered"], "{counters}");
            // Every packet that reached the router was answered. On a busy machine, the kernel
            // drops some before the device, while the router does not run, and some after it, when
            // its queue of received packets is full.
            let dropped = dropped_by_kernel() - before;
            assert!(dropped > 0 || lost <= 2 && failed <= 2, "at {rate} packets/s: {counters}");
            let live = host.json("show pools")[0]["live"].as_u64();
            assert!(live <= Some(4096 / 8 + 256), "{live:?} buffers wait");
        }
        let counters = host.json("netstat -s");
        assert!(counters["inet.neigh.share_full"].as_u64() > Some(1_000), "{counters}");
        assert_eq!(counters.get("inet.neigh.table_full"), None, "{counters}");
        let (code, out, err) = host.interrupt();
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert!(out.contains("imbalance           0\n"), "{out}");
    });
}

/// Pings from `from`, a new address of the kernel that the router must resolve. Returns whether one
/// of five pings is answered, since the first replies may be dropped with others that wait for
/// neighbors.
fn pings_from(from: &str) -> bool {
    kernel(&format!("-6 addr add {from}/64 dev tap0 nodad"));
    let words = ["-6", "-c", "1", "-W", "1", "-q", "-I", from, "fd00::2"];
    (0..5).any(|_| run(Command::new("ping").args(words)).status.success())
}

/// RFC 6583, for an attached /64: the router has enough neighbor entries for known and new
/// neighbors, and does not run out of its 4,096 buffers.
#[test]
fn a_scan_of_ipv6_leaves_neighbors_alone() {
    isolated("a_scan_of_ipv6_leaves_neighbors_alone", || {
        let off = std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/disable_ipv6");
        if !has("ip") || !has("ping") || !off.is_ok_and(|off| off.trim() == "0") {
            return println!("skipped: ip or ping is not installed, or the kernel has no IPv6");
        }
        let flags = ["--port", "tap:tap0", "--addr", "10.0.0.2/24", "--set", "net.inet6.ip6.forwarding=1"];
        let host = Running::start("scan6", &[&flags[..], &["--set", "pool.buffers=4096"]].concat());
        let mut netlink = Netlink::open().unwrap();
        netlink.set_up("lo").unwrap();
        netlink.set_up("tap0").unwrap();
        kernel("-6 addr add fd00::1/64 dev tap0 nodad");
        kernel("-6 route add fd09::/64 via fd00::2 dev tap0");
        host.ok("ifconfig tap0 inet6 fd00::2/64");
        host.ok("ifconfig tap0 inet6 fd09::2/64 alias");
        let settled = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            !host.ok("ip -6 addr").contains("tentative")
        });
        assert!(settled, "duplicate address detection ends");
        assert_eq!(pings_lost("fd00::2"), 0);
        for (at, rate) in [1_500, 5_000, 20_000].into_iter().enumerate() {
            let before = dropped_by_kernel();
            let (over, sent) = (AtomicBool::new(false), AtomicU32::new(0));
            let begin = Instant::now();
            let (lost, failed) = std::thread::scope(|scope| {
                let from = "fd00::1".parse().unwrap();
                // Each rate uses other addresses, so that none has been given up already.
                let silent = move |n| silent6((at as u32) << 28 | n);
                scope.spawn({
                    let (over, sent) = (&over, &sent);
                    move || scan(from, silent, rate, over, sent)
                });
                let ended = End(&over);
                let waiting = (0..500).any(|_| {
                    std::thread::sleep(Duration::from_millis(2));
                    sent.load(Ordering::Relaxed) > 2 * 512
                });
                assert!(waiting, "the scan has begun");
                let lost = pings_lost("fd00::2");
                let failed = (0..CONNECTS).filter(|n| !pings_from(&format!("fd00::{}:{:x}", at + 1, n + 1))).count();
                drop(ended);
                (lost, failed)
            });
            let scanned = f64::from(sent.into_inner()) / begin.elapsed().as_secs_f64();
            let dropped = dropped_by_kernel() - before;
            println!(
                "{rate}: {scanned:.0} packets/s, {lost} of {PINGS} pings and {failed} of {CONNECTS} new neighbors lost; \
                 the kernel dropped {dropped}"
            );
            let counters = host.json("netstat -s");
            let count = |name: &str| counters[name].as_u64().unwrap_or_default();
            let discovery = count("inet.nd.in.consumed") + count("inet.nd.in.ignored");
            assert_eq!(count("inet.icmp6.received"), count("inet.icmp6.echoes_answered") + discovery, "{counters}");
            // If packets are dropped, the rate exceeds what this machine can process, and the
            // kernel loses pings as well as the scan.
            assert!(dropped > 0 || lost <= 2 && failed <= 2, "at {rate} packets/s: {counters}");
            let live = host.json("show pools")[0]["live"].as_u64();
            assert!(live <= Some(4096 / 8 + 256), "{live:?} buffers wait");
        }
        assert!(pings_lost("fd00::2") <= 2, "the scan is over");
        let counters = host.json("netstat -s");
        assert!(counters["inet.neigh.created"].as_u64() > Some(1_000), "the scan made entries: {counters}");
        assert!(counters["inet.neigh.share_full"].as_u64() > Some(1_000), "{counters}");
        assert_eq!(counters.get("inet.neigh.table_full"), None, "{counters}");
        let (code, out, err) = host.interrupt();
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert!(out.contains("imbalance           0\n"), "{out}");
    });
}

/// Ends the scan, even if the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
