//! Retransmissions of our sender and of the kernel's over the same impaired TAP device, in a
//! network namespace.
//!
//! By default only a few cells of the matrix run, with limits that a busy machine can meet.
//! `RECOVERY_SEEDS=3` runs the whole matrix with as many seeds and prints its table (docs/results
//! has one).

use crate::common;
use crate::common::{Running, isolated};
use port::os::netlink::Netlink;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Data bytes of a segment with timestamps.
const SEGMENT: u64 = 1448;

/// An impairment in the direction of the sender, and whether it loses frames.
struct Cell {
    impairment: &'static str,
    loses: bool,
}

const fn cell(impairment: &'static str, loses: bool) -> Cell {
    Cell { impairment, loses }
}

const MATRIX: [Cell; 9] = [
    cell("reorder=2%,delay=10ms", false),
    cell("reorder=10%,delay=5ms", false),
    cell("reorder=2%,gap=5,delay=20ms", false),
    cell("dup=5%,delay=5ms", false),
    cell("loss=1%,delay=5ms", true),
    cell("loss=1%,dup=2%,delay=5ms", true),
    cell("reorder=2%,dup=1%,delay=5ms", false),
    cell("loss=0.5%,reorder=2%,dup=1%,delay=5ms", true),
    cell("loss=3%,delay=2ms", true),
];

/// Results of one transfer: the number of retransmitted segments, the time, and for our sender the
/// number of recoveries and of undone recoveries.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    again: u64,
    took: Duration,
    recoveries: u64,
    undone: u64,
}

/// Starts one of our servers with the impairment, and configures the kernel's end of the device.
fn start(kind: &str, impairment: &str, direction: &str, seed: u64) -> Running {
    let port = format!("impair({impairment},limit=20000,dir={direction},seed={seed}):tap:tap0");
    let served = Running::start_as(
        &format!("recovery-{kind}"),
        &["serve", kind, "--port", &port, "--addr", "10.0.0.2/24", "--offload", "rxcsum"],
    );
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("tap0").unwrap();
    netlink.add_addr("tap0", THEIRS, 24).unwrap();
    served
}

/// Transfers from our chargen to the kernel.
fn ours(impairment: &str, seed: u64, bytes: u64) -> Seen {
    let served = start("chargen", impairment, "tx", seed);
    let mut stream = TcpStream::connect((OURS, 19)).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let begin = Instant::now();
    std::io::copy(&mut (&mut stream).take(bytes), &mut std::io::sink()).unwrap();
    let took = begin.elapsed();
    // The counters are read before the stream is closed, since a reset ends the counting.
    let counters = served.json("netstat -s");
    assert!(counters["tcp.out.data"].as_u64() >= Some(bytes / SEGMENT), "{counters}");
    // A counter that is 0 is not listed.
    let count = |name: &str| counters[name].as_u64().unwrap_or(0);
    let seen = Seen {
        again: count("tcp.out.retransmitted"),
        took,
        recoveries: count("tcp.recovery.sack_episodes"),
        undone: count("tcp.recovery.undone_by_dsack")
            + count("tcp.recovery.undone_by_timestamp")
            + count("tcp.recovery.spurious_rtos"),
    };
    drop(stream);
    served.interrupt();
    seen
}

/// Transfers from the kernel to our sink.
fn kernels(impairment: &str, seed: u64, bytes: u64) -> Seen {
    let served = start("sink", impairment, "rx", seed);
    let before = retransmitted();
    let mut stream = TcpStream::connect((OURS, 9)).unwrap();
    // Our sender also uses CUBIC.
    lab::os::set_congestion(stream.as_fd(), "cubic").unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let begin = Instant::now();
    std::io::copy(&mut std::io::repeat(b'x').take(bytes), &mut stream).unwrap();
    stream.flush().unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = stream.read(&mut [0]);
    let took = begin.elapsed();
    served.interrupt();
    Seen { again: retransmitted() - before, took, ..Seen::default() }
}

/// Returns `RetransSegs` of this namespace (RFC 4022, tcpRetransSegs).
fn retransmitted() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|name| name == "RetransSegs").unwrap();
    values.split(' ').nth(place).unwrap().parse().unwrap()
}

#[test]
fn segments_sent_again_beside_the_kernels() {
    isolated("segments_sent_again_beside_the_kernels", || {
        // A transfer must not start with the round trips and thresholds of an earlier one.
        std::fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1").unwrap();
        let seeds: Option<u64> = std::env::var("RECOVERY_SEEDS").ok().map(|seeds| seeds.parse().unwrap());
        let bytes = if seeds.is_some() { 10_000_000 } else { 2_000_000 };
        let cells = MATRIX.iter().enumerate().filter(|(at, _)| seeds.is_some() || [0, 3, 5].contains(at));
        for (_, cell) in cells {
            let mut rows = Vec::new();
            for seed in 1..=seeds.unwrap_or(1) {
                let (mut us, kernel) = (ours(cell.impairment, seed, bytes), kernels(cell.impairment, seed, bytes));
                let most = (kernel.again * 3 / 2).max(bytes / SEGMENT / 4);
                // If a busy machine stops a process for longer than the reordering window (a quarter
                // of the round-trip time), all segments in flight count as lost (RFC 8985 6.2).
                for _ in 0..2 {
                    if seeds.is_none() && us.again > most {
                        us = ours(cell.impairment, seed, bytes);
                    }
                }
                // With loss only, D-SACKs of duplicates undo nothing. With reordering in addition,
                // needless recoveries are undone.
                if cell.loses && !cell.impairment.contains("reorder") {
                    assert_eq!(us.undone, 0, "{}: {us:?}", cell.impairment);
                }
                assert!(us.again <= most, "{} seed {seed}: {us:?}, the kernel's {kernel:?}", cell.impairment);
                rows.push((us, kernel));
            }
            println!("| {} |{}|", cell.impairment, columns(&rows));
            if seeds.is_some() {
                let sum = |of: fn(&(Seen, Seen)) -> u64| rows.iter().map(of).sum::<u64>();
                let (us, kernel) = (sum(|row| row.0.again), sum(|row| row.1.again));
                assert!(us <= kernel * 3 / 2 + 5, "{}: {us} sent again, {kernel} by the kernel", cell.impairment);
            }
        }
    });
}

/// Returns a row of the table in docs/results, with each figure by seed.
fn columns(rows: &[(Seen, Seen)]) -> String {
    let column = |figure: &dyn Fn(&(Seen, Seen)) -> String| {
        format!(" {} ", rows.iter().map(figure).collect::<Vec<_>>().join(" "))
    };
    let seconds = |took: Duration| format!("{:.1}", took.as_secs_f64());
    [
        column(&|row| row.0.again.to_string()),
        column(&|row| row.1.again.to_string()),
        column(&|row| row.0.recoveries.to_string()),
        column(&|row| row.0.undone.to_string()),
        column(&|row| seconds(row.0.took)),
        column(&|row| seconds(row.1.took)),
    ]
    .join("|")
}
