//! Invariants that hold for every byte string. These functions are the bodies of the fuzz targets,
//! and the tests run them too.
//!
//! Each function accepts arbitrary bytes and panics only if an invariant of this crate is violated.
//! `cargo xtask fuzz` calls them with the corpora under `fuzz/corpus/node_*`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant is to panic here; built for tests and fuzzing only"
)]

mod policy;

pub use policy::policy;

use crate::config::HostConfig;
use crate::control::client::read_answer;
use crate::control::line;
use crate::dhcp::{v4, v6};
use crate::switch::{self, Switch, SwitchConfig};
use crate::{Host, commands, config};
use bridge::FdbConfig;
use clock::{Clock, Instant, SimClock};
use lock::Up;
use port::Pairs;
use port::pair::pair;
use std::io::{self, BufReader, Read};
use wire::Mac;

/// Configuration files.
///
/// Invariants: no panic; the line number of an error is within the file; an accepted configuration
/// passes its own checks and has a limited size.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match config::read_network(text, "fuzz.toml") {
        Ok(config::Network { hosts, switches }) => {
            assert!((1..=config::HOSTS_MAX).contains(&(hosts.len() + switches.len())));
            switches.iter().for_each(|switch| assert_eq!(switch.check(), Ok(())));
            for host in &hosts {
                assert_eq!(host.check(), Ok(()));
                assert!(host.locks != "up" || host.threads == 1);
                assert!((1..=256).contains(&host.burst));
            }
        }
        Err(error) => {
            assert!(error.line <= text.split('\n').count());
            assert!(!error.what.contains('\n'), "{error}");
        }
    }
}

/// Answers of DHCP servers: to the discovery and the request of a DHCPv4 client, and to a stateless
/// DHCPv6 client. Each answer gets the transaction identifier of the client's message.
///
/// Invariants: no panic; a lease has a host address, values within their limits, and times in
/// order.
pub fn dhcp(data: &[u8]) {
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
    let now = Instant::from_millis(1000);
    let mut client = v4::Client::new(MAC, "fuzz");
    for _ in 0..2 {
        let xid = match client.poll(now, 7).as_slice() {
            [v4::Action::Send(bytes, _)] => bytes[4..8].to_vec(),
            _ => return,
        };
        let mut answer = data.to_vec();
        answer.resize(answer.len().max(240), 0);
        (answer[0], answer[2]) = (2, 6);
        answer[4..8].copy_from_slice(&xid);
        answer[28..34].copy_from_slice(&MAC.0);
        answer[236..240].copy_from_slice(&dhcproto::v4::MAGIC);
        client.input(&answer, now);
        // Repeats the message as an acknowledgment, if it was an offer.
        if let Some(at) = answer.windows(3).position(|option| option == [53, 1, 2]) {
            answer[at + 2] = 5;
            client.poll(now, 7);
            client.input(&answer, now);
            while client.state() == v4::State::Checking {
                client.poll(client.next(), 7);
            }
        }
        if let Some(lease) = client.lease() {
            let addr = lease.addr.addr;
            assert!(!(addr.is_unspecified() || addr.is_loopback() || addr.is_multicast() || addr.is_broadcast()));
            assert!(lease.addr.len <= 32 && lease.routes.len() <= 32 && lease.mtu.is_none_or(|mtu| mtu >= 576));
            let times = [now, lease.renew_at, lease.rebind_at, lease.until];
            assert!(times.is_sorted() && lease.until > now, "{times:?}");
        }
    }
    let mut client = v6::Client::new(MAC);
    let Some(request) = client.poll(now, 7) else { return };
    let mut reply = data.to_vec();
    if reply.len() >= 4 {
        reply[0] = 7;
        reply[1..4].copy_from_slice(&request[1..4]);
        client.input(&reply, now);
        assert!(client.next() > now);
    }
}

/// Returns a host with null, pktgen and loopback ifaces and three bound UDP sockets.
fn host_with_sockets(pairs: &Pairs) -> Host<Up> {
    let config = HostConfig { pool_buffers: 32, seed: Some(1), ..HostConfig::default() };
    let host = Host::<Up>::new(&config, Clock::sim(&SimClock::new())).unwrap();
    for setup in ["ifconfig pg0 create inet 1.0.0.1", "ifconfig x create port null:x inet 2.0.0.1/24"] {
        commands::run(&host, pairs, &setup.split(' ').collect::<Vec<_>>(), false).unwrap();
    }
    let calls = host.calls();
    for port in [7, 80, 1024] {
        let fd = calls.socket().unwrap();
        calls.bind(fd, (std::net::Ipv4Addr::UNSPECIFIED, port).into()).unwrap();
    }
    host
}

/// Lines from a client of a control socket. Each line is split into words and run as a command on a
/// host with null, pktgen and loopback ifaces and with UDP sockets.
///
/// Invariants: no panic; joining and splitting words gives the same words; an error is one line; a
/// JSON answer is valid JSON; the audit balances.
pub fn control(data: &[u8]) {
    let pairs = Pairs::new();
    let host = host_with_sockets(&pairs);
    for line in data.split(|byte| *byte == b'\n').take(32) {
        let Ok(split) = line::split(line) else { continue };
        assert_eq!(line::split(line::join(&split).as_bytes()), Ok(split.clone()));
        let mut words: Vec<&str> = split.iter().map(String::as_str).collect();
        let json = words.first() == Some(&"-j");
        if json {
            words.remove(0);
        }
        if touches_the_world(&words) {
            continue;
        }
        match commands::run(&host, &pairs, &words, json) {
            Ok(text) if json && text.starts_with(['[', '{']) => {
                drop(serde_json::from_str::<serde_json::Value>(&text).unwrap())
            }
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
        host.step();
    }
    host.stack.shutdown(host.cx());
    assert_eq!(host.stack.audit(host.cx()).imbalance(), 0);
}

/// Lines from a client of the control socket of a switch with three pair ports. Each line is split
/// into words and run.
///
/// Invariants: no panic; an error is one line, or three for a filter expression; a JSON answer is
/// valid JSON; the audit balances.
pub fn switch(data: &[u8]) {
    let mut config = SwitchConfig::default();
    config.pool.buffers = 32;
    config.bridge.fdb = FdbConfig { most: 16, ..FdbConfig::new() };
    let switch = Switch::new(&config, Clock::sim(&SimClock::new())).unwrap();
    let mut ends = Vec::new();
    for name in ["p0", "p1", "p2"] {
        let (ours, theirs) = pair(name, 16, port::Caps::PLAIN);
        switch.attach(ours, None).unwrap();
        ends.push(theirs);
    }
    for line in data.split(|byte| *byte == b'\n').take(32) {
        let Ok(split) = line::split(line) else { continue };
        let mut words: Vec<&str> = split.iter().map(String::as_str).collect();
        let json = words.first() == Some(&"-j");
        if json {
            words.remove(0);
        }
        if words.contains(&"stop") || words.contains(&"addm") {
            continue; // ends the process; opens devices or files
        }
        match switch::commands::run(&switch, &words, json) {
            Ok(text) if json && text.starts_with(['[', '{']) => {
                drop(serde_json::from_str::<serde_json::Value>(&text).unwrap())
            }
            Ok(_) => {}
            // With a filter expression, the error is followed by the expression and a caret below
            // the fault.
            Err(error) => assert!(error.to_string().lines().count() <= 3, "{error}"),
        }
        switch.each_thread(|thread| _ = thread.turn());
        assert!(switch.audit().holds());
    }
}

/// Reader of the byte slice `.0` that returns at most `.1` bytes per call.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (some, rest) = self.0.split_at(self.1.min(into.len()).min(self.0.len()));
        into[..some.len()].copy_from_slice(some);
        self.0 = rest;
        Ok(some.len())
    }
}

/// Answers of a control socket, as a client reads them.
///
/// Invariants: no panic; an answer has the number of bytes that its first line announces, and all
/// of them come from the server; reading in pieces gives the same result.
pub fn answer(data: &[u8]) {
    let whole = read_answer(&mut BufReader::new(data), Ok(())).map_err(|why| why.to_string());
    let pieces = read_answer(&mut BufReader::new(Pieces(data, 3)), Ok(())).map_err(|why| why.to_string());
    assert_eq!(whole, pieces);
    if let Ok(answer) = whole {
        let head = format!("{} {}\n", if answer.ok { "ok" } else { "error" }, answer.text.len());
        let (said, rest) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap() + 1);
        assert!(rest.starts_with(answer.text.as_bytes()));
        // The length in the first line may have leading zeros or a sign.
        assert!(said.len() >= head.len());
    }
}

/// Returns whether a command opens devices or files, or ends the process, and is therefore not
/// fuzzed.
fn touches_the_world(words: &[&str]) -> bool {
    words.first() == Some(&"stop") || words.contains(&"create")
}

#[cfg(test)]
pub(crate) mod tests;
