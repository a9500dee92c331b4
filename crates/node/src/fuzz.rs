//! What must hold for every byte string: the bodies of the fuzz targets, run by the tests too.
//!
//! Each function takes arbitrary bytes and panics only when an invariant of this crate is broken. `cargo xtask fuzz` calls
//! them with the corpora under `fuzz/corpus/node_*`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant is to panic here; built for tests and fuzzing only"
)]

use crate::config::HostConfig;
use crate::control::line;
use crate::{Host, config, words};
use clock::{Clock, SimClock};
use lock::Up;
use port::Pairs;

/// A configuration file.
///
/// Holds: no panic; an error's line is one of the file's; what is accepted passes its own checks and is bounded.
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

/// Lines from a control client: the words are split and run against a host with null, pair and loopback ifaces.
///
/// Holds: no panic; words joined and split again are the same; errors are one line; JSON answers are JSON; the audit
/// stays exact.
pub fn control(data: &[u8]) {
    let pairs = Pairs::new();
    let config = HostConfig { pool_buffers: 32, seed: Some(1), ..HostConfig::default() };
    let host = Host::<Up>::new(&config, Clock::sim(&SimClock::new())).unwrap();
    for setup in ["ifconfig pg0 create inet 1.0.0.1", "ifconfig x create port null:x inet 2.0.0.1/24"] {
        words::run(&host, &pairs, &setup.split(' ').collect::<Vec<_>>(), false).unwrap();
    }
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
        match words::run(&host, &pairs, &words, json) {
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

/// Opens devices or files, or ends the process: not for a fuzzer.
fn touches_the_world(words: &[&str]) -> bool {
    words.first() == Some(&"stop") || words.contains(&"create")
}
