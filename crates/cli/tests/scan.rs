//! The kernel scans a silent subnet through a router of ours: pings of a known neighbor and connects of new ones go on.
//!
//! Everything happens in a network namespace of the test's own: the test's binary runs again, inside it.

mod common;

use common::{Running, has, isolated, run};
use port::os::netlink::Netlink;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PINGS: u32 = 60;
const CONNECTS: u8 = 10;

/// Sends a datagram to each address of 10.9.0.0/16 in turn, `rate` a second, until `over`; counts them.
fn scan(rate: u32, over: &AtomicBool, sent: &AtomicU32) {
    let socket = UdpSocket::bind((THEIRS, 0)).unwrap();
    let begin = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * f64::from(rate)) as u32;
        // After a pause of this thread no more than 20 ms of it at once: the device's queue is not what is tested.
        let now = sent.load(Ordering::Relaxed).max(due.saturating_sub(rate / 50));
        for n in now..due {
            let _ = socket.send_to(b"anybody?", (Ipv4Addr::from_bits(0x0a09_0000 | n & 0xffff), 9));
        }
        sent.store(due, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The kernel's pings that were not answered.
fn pings_lost() -> u32 {
    let output = run(Command::new("ping").args(["-c", "60", "-i", "0.02", "-W", "2", "-q", "10.0.0.2"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let received = text.split(", ").find_map(|part| part.strip_suffix(" received")).and_then(|n| n.parse::<u32>().ok());
    PINGS - received.unwrap_or_else(|| panic!("{output:?}"))
}

/// Packets for us that the kernel dropped as the device's queue was full.
fn dropped_by_device() -> u64 {
    let all = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = all.lines().find_map(|line| line.trim_start().strip_prefix("tap0:")).unwrap();
    line.split_whitespace().nth(11).unwrap().parse().unwrap()
}

/// Connects from `from`, which the router has not heard of. A lost SYN-ACK would be sent again after a second.
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

/// RFC 6583: a router with 4,096 buffers. The kernel loses none of these at 10,000 packets a second.
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
        assert_eq!(pings_lost(), 0);
        for (at, rate) in [1_500, 5_000, 20_000].into_iter().enumerate() {
            let (over, sent) = (AtomicBool::new(false), AtomicU32::new(0));
            let begin = Instant::now();
            let (lost, failed) = std::thread::scope(|scope| {
                scope.spawn(|| scan(rate, &over, &sent));
                let ended = End(&over);
                let waiting = (0..500).any(|_| {
                    std::thread::sleep(Duration::from_millis(2));
                    sent.load(Ordering::Relaxed) > 2 * 512
                });
                assert!(waiting, "the scan has begun");
                let lost = pings_lost();
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
            // All that reached the router was answered. On a busy machine the kernel drops some in front of the device,
            // while the router does not run, and some behind it: its queue of what a device received is full.
            assert!(lost <= 2 && failed <= 2, "at {rate} packets/s, {} dropped: {counters}", dropped_by_device());
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

/// Ends the scan, also when the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
