//! Bodies of the fuzz targets, which check the invariants of each server and client. The unit tests
//! also run them.
//!
//! An input consists of a seed, which selects where reads and writes are cut short, and of records.
//! The first byte of a record selects an event (low three bits) and a client (the other bits); the
//! second byte is a length. For events that send data, that many bytes follow. Event 2 sends a
//! datagram if the server has a UDP socket. Corpora are in `fuzz/corpus/apps_*`.
//!
//! Invariants: Nothing panics. The driver was notified of all pending work of the channels (the
//! contract of [`crate::app`]). Once all clients are gone and all timeouts have expired, only the
//! initial descriptors are open. The number of keys or files, and their total size in bytes, never
//! exceed the configured limits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "broken invariants must panic; built for tests and fuzzing only"
)]

mod sockets;

pub use sockets::netperf;

use crate::app::App;
use crate::filed::{self, Filed};
use crate::files::{Builtin, Root};
use crate::ftp::{self, Ftp};
use crate::http::{self, Http};
use crate::iperf3::{self, Client, Iperf3};
use crate::kv::{self, Kv};
use crate::load::{Fileload, Files, Kvload, Mix, Proportions};
use crate::net::{Far, Net, Rig};
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of records executed per input.
const RECORDS: usize = 200;
/// Maximum number of clients per input.
const CLIENTS: usize = 16;

fn root() -> Root {
    Root::devices()
        .with("/a", Builtin::Bytes(b"0123456789\n"[..].into()))
        .with("/d/index.html", Builtin::Bytes([b'x'; 20_000][..].into()))
}

/// Fuzzes the FTP server.
pub fn ftp(data: &[u8]) {
    let config = ftp::Config { sessions_max: 6, sessions_per_peer: 4, ..ftp::Config::new(root()) };
    play(Ftp::new(config), data, |_| ());
}

/// Fuzzes the HTTP server.
pub fn http(data: &[u8]) {
    let config = http::Config { conns_max: 6, conns_per_peer: 4, requests_max: 20, ..http::Config::new(root()) };
    play(Http::new(config), data, |_| ());
}

/// Fuzzes the key-value server, and parses the same bytes as RESP replies.
pub fn kv(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some((_, len))) = crate::resp::reply::first(rest, 1000) {
        rest = rest.get(len..).expect("a reply is no longer than its bytes");
    }
    let bounds = kv::Bounds { keys: 50, bytes: 30_000 };
    let config = kv::Config {
        bounds,
        limits: crate::resp::Limits { bulk: 10_000, args: 100, line: 500, request: 12_000 },
        clients_max: 6,
        clients_per_peer: 4,
        buffers_max: 300_000,
        replies_max: 200_000,
        key: linerate::wire::hash::Key::seeded(u64::from(data.first().copied().unwrap_or(0))),
        ..kv::Config::default()
    };
    play(Kv::new(config), data, |kv| {
        assert!(kv.keys() <= bounds.keys && kv.bytes() <= bounds.bytes, "{} keys, {} bytes", kv.keys(), kv.bytes());
    });
}

/// Fuzzes the file service.
pub fn filed(data: &[u8]) {
    let bounds = filed::Bounds { nodes: 10, bytes: 20_000, file: 10_000 };
    let config = filed::Config {
        bounds,
        clients_max: 6,
        key: linerate::wire::hash::Key::seeded(u64::from(data.first().copied().unwrap_or(0))),
        ..filed::Config::default()
    };
    play(Filed::new(config), data, |filed| {
        let (nodes, bytes) = (filed.nodes(), filed.bytes());
        assert!(nodes <= bounds.nodes && bytes <= bounds.bytes, "{nodes} nodes, {bytes} bytes");
    });
}

/// Fuzzes the iperf3 server.
pub fn iperf3(data: &[u8]) {
    let json = data.first().is_some_and(|byte| byte & 1 == 1);
    let datagrams_at = Some(SocketAddr::from(([1, 0, 0, 1], 21)));
    play(Iperf3::new(iperf3::Config { json, clients_max: 2, datagrams_at, ..iperf3::Config::default() }), data, |_| ());
}

/// Fuzzes the iperf3 client with arbitrary bytes from the server; also fuzzes the parsers of both
/// sides with the same bytes.
pub fn iperf3_client(data: &[u8]) {
    let (flags, data) = data.split_first().unwrap_or((&0, &[]));
    let _ = iperf3::Params::parse(data);
    let _ = iperf3::Stamp::parse(data, iperf3::Counters::Wide);
    let protocol = if flags & 1 == 1 { iperf3::Protocol::Udp } else { iperf3::Protocol::Tcp };
    let params = iperf3::Params {
        protocol,
        time: Duration::from_secs(2),
        reverse: flags & 2 > 0,
        bidir: flags & 6 == 4,
        wants_output: flags & 8 > 0,
        streams: 2,
        block: 1000,
        // Without a rate limit, the client would send datagrams endlessly in this test.
        rate: u64::from(flags & 1) << 20,
        ..iperf3::Params::default()
    };
    let to = SocketAddr::from(([1, 0, 0, 9], 5201));
    let config = iperf3::ClientConfig::new(params, to, *b"abcdefghijklmnopqrstuvwxyz0123456789\0");
    let latency = flags & 16 > 0;
    let config = iperf3::ClientConfig { json: flags & 32 > 0, latency, ..config };
    let net = Net { seed: u64::from(flags >> 6), window: 3_000, ..Net::default() };
    let mut rig = Rig::client_of(Client::new(config, linerate::stack::Instant::from_millis(1_000)), net);
    rig.net.far_listens.insert(to);
    against(&mut rig, to, data);
    for _ in 0..20 {
        rig.net.answer_connects();
        rig.pass(Duration::from_secs(100));
        rig.net.datagrams.clear();
    }
    assert!(rig.server.app.result().is_some(), "the client did not end");
    assert_eq!((rig.server.open_chans(), rig.net.fds()), (0, 0), "leaked channels or descriptors");
}

/// Fuzzes one of three clients with arbitrary answers: FTP (as a dialogue), RESP or the file
/// service. The first byte of the input selects the client.
///
/// Invariants: an FTP session ends with a result and leaves no open descriptor; a parsed answer is
/// no longer than the input, and the next answer starts after it.
pub fn clients(data: &[u8]) {
    let (&flags, data) = data.split_first().unwrap_or((&0, &[]));
    match flags % 3 {
        0 => ftp_client(flags, data),
        1 => answers(Kvload::new(Proportions { keys: 9, value: 20, gets: 50, skew: 0.5 }), data),
        _ => answers(Fileload::new(Files { count: 3, transfers: 1 }), data),
    }
}

fn ftp_client(flags: u8, data: &[u8]) {
    let to = SocketAddr::from(([1, 0, 0, 9], 21));
    let transfer = match flags & 0x80 {
        0 => ftp::client::Transfer::Down { path: "/a", enough: 1_000 },
        _ => ftp::client::Transfer::Up { path: "/a", bytes: 1_000 },
    };
    let now = linerate::stack::Instant::from_millis(1_000);
    let client = ftp::client::Client::new(to, transfer, Duration::from_secs(10), now);
    let net = Net { seed: u64::from(flags / 3), window: 3_000, ..Net::default() };
    let mut rig = Rig::client_of(client, net);
    rig.net.far_listens.extend([to, SocketAddr::new(to.ip(), 50_000)]);
    against(&mut rig, to, data);
    for _ in 0..20 {
        rig.net.answer_connects();
        rig.pass(Duration::from_secs(100));
    }
    assert!(rig.server.app.outcome().is_some(), "the session did not end");
    assert_eq!((rig.server.open_chans(), rig.net.fds()), (0, 0), "leaked channels or descriptors");
}

fn answers<M: Mix>(mut mix: M, data: &[u8]) {
    let (mut rest, mut requested) = (data, Vec::new());
    for turn in 0..64 {
        requested.clear();
        let kind = match turn < 8 && mix.fill(&mut requested) {
            true => None,
            false => Some(mix.ask(0, &mut requested)),
        };
        assert!(!requested.is_empty());
        let Ok(Some(len)) = mix.on_reply(0, kind, rest) else { break };
        assert!(len > 0);
        rest = rest.get(len..).expect("an answer is no longer than its bytes");
    }
}

/// Executes the records of an input as [`play`] does, but against a client: the bytes are sent to
/// it as if they came from its server.
fn against<A: App>(rig: &mut Rig<A>, to: SocketAddr, data: &[u8]) {
    let mut rest = data;
    let mut conns: Vec<Far> = Vec::new();
    for _ in 0..RECORDS {
        rig.run_until_idle();
        conns.extend(rig.net.answer_connects());
        rig.run_until_idle();
        let ([what, len, behind @ ..], Some(last)) = (rest, conns.len().checked_sub(1)) else { break };
        rest = behind;
        let conn = conns[usize::from(what >> 3).min(last)];
        match what & 7 {
            0 | 1 => {
                let (bytes, behind) = rest.split_at(rest.len().min(usize::from(*len)));
                rest = behind;
                rig.net.far_send(conn, bytes);
            }
            2 => {
                // Sends a datagram to each UDP socket of the client.
                let (bytes, behind) = rest.split_at(rest.len().min(usize::from(*len)));
                rest = behind;
                let ports: Vec<SocketAddr> = rig.net.datagrams.drain(..).map(|(from, ..)| from).collect();
                ports.into_iter().take(9).for_each(|from| rig.net.far_send_datagram(to, from, bytes));
            }
            3 => drop(rig.net.far_recv(conn, usize::from(*len) * 64)),
            4 if len & 1 == 0 => rig.net.far_shut(conn),
            4 => rig.net.far_reset(conn),
            _ => rig.pass(Duration::from_millis(u64::from(*len) * 20)),
        }
        rig.run_until_idle();
        rig.server.check(rig.now);
    }
}

/// Executes the records of an input against a server. After each record, calls `holds` to check the
/// server's limits.
fn play<A: App>(app: A, data: &[u8], holds: impl Fn(&A)) {
    let (seed, mut rest) = data.split_first().unwrap_or((&0, &[]));
    let mut net = Net { seed: u64::from(seed / 2), window: 3_000, datagrams_wait: 20, ..Net::default() };
    net.far_listens.insert(SocketAddr::from(([1, 0, 0, 2], 50_000)));
    let mut rig = Rig::new(app, net);
    rig.run_until_idle();
    // The listener, and the UDP socket if the server has one, stay open until the end.
    let (chans, fds) = (rig.server.open_chans(), rig.net.fds());
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
                if what & 7 == 2 && chans > 0 {
                    // Sends a datagram from one of two hosts and sixteen L4 ports.
                    let from = SocketAddr::from(([1, 0, 0, 2 + (what >> 7)], 61_000 + u16::from(what >> 3 & 15)));
                    rig.net.far_send_datagram(from, SocketAddr::from(([1, 0, 0, 1], 21)), bytes);
                } else {
                    rig.net.far_send(client, bytes);
                }
            }
            3 => {
                drop(rig.net.far_recv(client, usize::from(*len) * 64));
                rig.net.take_datagrams();
            }
            4 if len & 1 == 0 => rig.net.far_shut(client),
            4 => rig.net.far_reset(client),
            5 => rig.pass(Duration::from_millis(u64::from(*len) * 250)),
            6 if clients.len() < CLIENTS => {
                // Connects to a passive listener that a session has opened, from the client's
                // address or from another one.
                let from = SocketAddr::from(([1, 0, 0, 2 + len % 3], 60_000));
                if let Some(at) = rig.net.listeners().last().copied() {
                    clients.extend(rig.net.connect_from(from, at));
                }
            }
            _ => clients.extend(rig.net.answer_connects()),
        }
        rig.run_until_idle();
        rig.server.check(rig.now);
        holds(&rig.server.app);
        let most = clients.len() * 2 * 3_000;
        assert!(rig.net.held() <= most + 10 * 6_000, "{} bytes", rig.net.held());
    }
    clients.into_iter().for_each(|client| rig.net.far_reset(client));
    rig.net.answer_connects();
    rig.run_until_idle();
    for _ in 0..20 {
        rig.pass(Duration::from_secs(100));
    }
    rig.server.check(rig.now);
    let left = (rig.server.open_chans(), rig.server.lingering(), rig.net.fds());
    assert_eq!(left, (chans, 0, fds), "leaked channels or descriptors");
}

#[cfg(test)]
mod tests;
