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

mod fpm;
mod policy;

pub use fpm::fpm;
pub use policy::policy;

use crate::config;
use crate::control::client::read_answer;
use crate::dhcp::{v4, v6};
use clock::Instant;
use std::io::{self, BufReader, Read};
use wire::Mac;

/// Configuration files.
///
/// Invariants: no panic; the line number of an error is within the file; an accepted configuration
/// passes its own checks and has a limited size.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match config::read_network(text, "fuzz.toml") {
        Ok(config::Network { hosts, switches, .. }) => {
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

#[cfg(test)]
pub(crate) mod tests;
