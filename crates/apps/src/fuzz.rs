//! What must hold for every conversation: the bodies of the fuzz targets, run by the tests too.
//!
//! An input is a seed for short reads and writes, and records: what happens (low three bits) to which client (the rest), a
//! length, and so many bytes for what is sent. Corpora are under `fuzz/corpus/apps_*`.
//!
//! Holds: no panic; what is to be done is done without being asked twice ([`crate::app`]'s contract); whatever clients
//! did, when they are gone and time has passed nothing is left but the listening descriptor.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken invariant is to panic here; built for tests and fuzzing only"
)]

use crate::app::App;
use crate::files::{Builtin, Root};
use crate::ftp::{self, Ftp};
use crate::http::{self, Http};
use crate::iperf3::{self, Iperf3};
use crate::net::{Far, Net, Rig};
use std::net::SocketAddr;
use std::time::Duration;

/// Records played of one input.
const RECORDS: usize = 200;
/// Clients of one conversation.
const CLIENTS: usize = 16;

fn root() -> Root {
    Root::devices()
        .with("/a", Builtin::Bytes(b"0123456789\n"[..].into()))
        .with("/d/index.html", Builtin::Bytes([b'x'; 20_000][..].into()))
}

/// FTP.
pub fn ftp(data: &[u8]) {
    play(Ftp::new(ftp::Config { sessions_max: 6, sessions_per_peer: 4, ..ftp::Config::new(root()) }), data);
}

/// HTTP.
pub fn http(data: &[u8]) {
    play(
        Http::new(http::Config { conns_max: 6, conns_per_peer: 4, requests_max: 20, ..http::Config::new(root()) }),
        data,
    );
}

/// iperf3.
pub fn iperf3(data: &[u8]) {
    let json = data.first().is_some_and(|byte| byte & 1 == 1);
    play(Iperf3::new(iperf3::Config { json, ..iperf3::Config::default() }), data);
}

fn play<A: App>(app: A, data: &[u8]) {
    let (seed, mut rest) = data.split_first().unwrap_or((&0, &[]));
    let mut net = Net { seed: u64::from(seed / 2), window: 3_000, ..Net::default() };
    net.far_listens.insert(SocketAddr::from(([1, 0, 0, 2], 50_000)));
    let mut rig = Rig::new(app, net);
    let mut clients: Vec<Far> = vec![rig.client()];
    for _ in 0..RECORDS {
        let [what, len, behind @ ..] = rest else { break };
        rest = behind;
        let client = clients[usize::from(what >> 3) % clients.len()];
        match what & 7 {
            0 if clients.len() < CLIENTS => clients.push(rig.client_from([1, 0, 0, 2 + len % 3])),
            1 | 2 => {
                let (bytes, behind) = rest.split_at(rest.len().min(usize::from(*len)));
                rest = behind;
                rig.net.far_send(client, bytes);
            }
            3 => drop(rig.net.far_recv(client, usize::from(*len) * 64)),
            4 if len & 1 == 0 => rig.net.far_shut(client),
            4 => rig.net.far_reset(client),
            5 => rig.pass(Duration::from_millis(u64::from(*len) * 250)),
            6 if clients.len() < CLIENTS => {
                // To a listener of a session, as its owner or as a thief.
                let from = SocketAddr::from(([1, 0, 0, 2 + len % 3], 60_000));
                if let Some(at) = rig.net.listeners().last().copied() {
                    clients.extend(rig.net.connect_from(from, at));
                }
            }
            _ => clients.extend(rig.net.answer_connects()),
        }
        rig.settle();
        rig.server.check(rig.now);
        let most = clients.len() * 2 * 3_000;
        assert!(rig.net.held() <= most + 10 * 6_000, "{} bytes", rig.net.held());
    }
    clients.into_iter().for_each(|client| rig.net.far_reset(client));
    rig.net.answer_connects();
    rig.settle();
    for _ in 0..20 {
        rig.pass(Duration::from_secs(100));
    }
    rig.server.check(rig.now);
    assert_eq!((rig.server.open_chans(), rig.server.lingering(), rig.net.fds()), (0, 0, 1), "something is left");
}

#[cfg(test)]
mod tests;
