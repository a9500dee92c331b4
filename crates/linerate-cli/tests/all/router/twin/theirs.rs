//! The kernel's router in the comparison: the test's namespace forwards between two TAP devices,
//! whose other ends the test holds.

use super::net::{GATEWAYS, LINKS, ROUTES, SECOND, To, mac, neighbors};
use super::ours::received;
use super::{Out, Validation};
use crate::common::{Dir, run};
use buf::{Pool, PoolConfig};
use clock::Instant;
use port::Port;
use port::tap::{self, TapConfig};
use std::fmt::Write;
use std::process::Command;
use std::time::Duration;

/// Maximum time to wait for a packet. Nearly all packets arrive at once.
const PATIENCE: Duration = Duration::from_millis(200);

pub struct Theirs {
    ends: Vec<Port>,
    pool: Pool,
}

impl Theirs {
    pub fn new(validation: Validation) -> Theirs {
        let pool = Pool::new(&PoolConfig { buffers: 256, ..PoolConfig::default() }).unwrap();
        let config = TapConfig { vnet_hdr: false, up: true, ..TapConfig::default() };
        ok("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
        let ends = (0..LINKS.len()).map(|at| tap::open(&format!("t{at}"), &config, &pool).unwrap()).collect();
        set_up(validation);
        let dir = Dir::new("twin-router");
        ok(&format!("ip -batch {}", dir.file("ip", script())));
        let mut theirs = Theirs { ends, pool };
        std::thread::sleep(Duration::from_millis(50));
        theirs.ends.iter_mut().for_each(|end| drop(received(end)));
        theirs
    }

    /// Passes a frame in. Returns the packets that leave, once as many as expected have arrived.
    /// Additional or late packets are found with the next call.
    pub fn pass(&mut self, from: usize, bytes: &[u8], expected: usize) -> Out {
        let mut frame = self.pool.get().unwrap();
        frame.extend(bytes).unwrap();
        assert!(self.ends[from].tx.tx_one(frame, Instant::ZERO).is_ok());
        let begun = std::time::Instant::now();
        let mut all = Out::default();
        loop {
            all.iter_mut().zip(&mut self.ends).for_each(|(all, end)| all.extend(received(end)));
            if all.iter().map(Vec::len).sum::<usize>() >= expected || begun.elapsed() > PATIENCE {
                all.iter_mut().for_each(|all| all.sort());
                return all;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Checks that no further packets arrive.
    pub fn quiet(&mut self) {
        std::thread::sleep(Duration::from_millis(100));
        for end in &mut self.ends {
            assert_eq!(received(end), Vec::<Vec<u8>>::new());
        }
    }
}

/// Configures the kernel as a router that answers every packet that requires it: without limits,
/// and with redirects only to stations that share the gateway's network.
fn set_up(validation: Validation) {
    let filter = match validation {
        Validation::Off => 0,
        Validation::Strict => 1,
        Validation::Loose => 2,
    };
    let all = [
        ("ip_forward", 1),
        ("icmp_ratelimit", 0),
        ("icmp_ratemask", 0),
        ("icmp_msgs_per_sec", 1_000_000),
        ("icmp_msgs_burst", 1_000_000),
        ("conf/all/rp_filter", 0),
        ("conf/all/shared_media", 0),
        ("conf/all/accept_source_route", 0),
        ("conf/all/log_martians", 0),
    ];
    let each = [("rp_filter", filter), ("shared_media", 0), ("accept_source_route", 0), ("send_redirects", 1)];
    for (name, value) in all {
        ok(&format!("echo {value} > /proc/sys/net/ipv4/{name}"));
    }
    for (name, value) in each {
        ok(&format!("for dev in t0 t1; do echo {value} > /proc/sys/net/ipv4/conf/$dev/{name}; done"));
    }
}

/// Returns the addresses, routes and neighbors as commands for `ip -batch`.
fn script() -> String {
    let mut text = String::from("link set lo up\n");
    for (at, link) in LINKS.iter().enumerate() {
        let (addr, len) = (link.addr, link.len);
        _ = writeln!(text, "link set t{at} address {} mtu {} up", link.mac, link.mtu);
        _ = writeln!(text, "addr add {addr}/{len} brd + dev t{at}");
    }
    for (prefix, to) in ROUTES {
        _ = match to {
            To::Gateway(link) => writeln!(text, "route replace {prefix} via {} dev t{link}", GATEWAYS[link]),
            To::Second => writeln!(text, "route replace {prefix} via {SECOND} dev t0"),
            To::Reject => writeln!(text, "route replace unreachable {prefix}"),
            To::Prohibit => writeln!(text, "route replace prohibit {prefix}"),
            To::Blackhole => writeln!(text, "route replace blackhole {prefix}"),
        };
    }
    for (link, addr) in neighbors() {
        _ = writeln!(text, "neigh replace {addr} lladdr {} dev t{link} nud permanent", mac(addr));
    }
    text
}

#[track_caller]
fn ok(line: &str) {
    let output = run(Command::new("sh").args(["-c", line]));
    assert!(output.status.success(), "{line}: {output:?}");
}
