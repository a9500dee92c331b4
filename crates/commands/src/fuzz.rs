//! Invariants that hold for every byte string. These functions are the bodies of the fuzz targets,
//! and the tests run them too.
//!
//! Each function accepts arbitrary bytes and panics only if an invariant of this crate is violated.
//! `cargo xtask fuzz` calls them with the corpora under `fuzz/corpus/commands_*`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant is to panic here; built for tests and fuzzing only"
)]

use crate::{bridge, host};
use ::bridge::FdbConfig;
use clock::{Clock, SimClock};
use lock::Up;
use node::Host;
use node::config::HostConfig;
use node::control::line;
use node::switch::{Switch, SwitchConfig};
use port::Pairs;
use port::pair::pair;

/// Returns a host with null, pktgen and loopback ifaces and three bound UDP sockets.
fn host_with_sockets(pairs: &Pairs) -> Host<Up> {
    let config = HostConfig { pool_buffers: 32, seed: Some(1), ..HostConfig::default() };
    let host = Host::<Up>::new(&config, Clock::sim(&SimClock::new())).unwrap();
    for setup in ["ifconfig pg0 create inet 1.0.0.1", "ifconfig x create port null:x inet 2.0.0.1/24"] {
        host::run(&host, pairs, &setup.split(' ').collect::<Vec<_>>(), false).unwrap();
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
pub fn host(data: &[u8]) {
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
        match host::run(&host, &pairs, &words, json) {
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
pub fn bridge(data: &[u8]) {
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
        match bridge::run(&switch, &words, json) {
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

/// Returns whether a command opens devices or files, or ends the process, and is therefore not
/// fuzzed.
fn touches_the_world(words: &[&str]) -> bool {
    words.first() == Some(&"stop") || words.contains(&"create")
}

#[cfg(test)]
mod tests;
