//! `linerate netrate`: the tools of FreeBSD's tools/tools/netrate (REPORTS 2.4), between any two ends.
//!
//! | tool | the near end | the far end |
//! |---|---|---|
//! | `tcpconnect` | connects and closes, one after the other | `tcpreceive`: accepts, echoes |
//! | `netblast` | sends datagrams as fast as the calls return | `netreceive`: takes them |
//! | `netsend` | sends them at a rate | `netreceive` |
//! | `juggle` | bounces messages | echoes datagrams and streams; or both are descriptors of one kernel (`lab::native::juggle`) |
//! | `tcpp` | many connections, each with so many bytes | takes them to their end |
//! | `http` | fetches one file again and again, by many connections at a time | `httpd`: gives it away |
//!
//! Each prints what its model prints. What is wrong there is not here: netblast's share of errors is a fraction and not an integer;
//! netsend's wait compares whole times, and its failed sends are counted and told at the end, not each by itself; juggle prints what it
//! measured, for each kind of channel; tcpconnect's sockets do not block. Before tcpp's and http's time starts one connection comes and
//! goes ([`warm_up`]).
//! The far end stands at the same place, or elsewhere as [`crate::netperf::serve`] has it.

mod blast;
mod connect;
pub mod http;
pub mod juggle;
pub(crate) mod services;
mod tcpp;
#[cfg(test)]
mod tests;

pub use blast::{Netblast, Netreceive, Netsend};
pub use connect::{Connected, Tcpconnect, Tcpreceive};
pub use http::{CLIENTS_MAX, Fetch, Httpd, PATH};
pub use juggle::{Juggle, Partner};
pub use services::{Kind, Services};
pub use tcpp::{Cpu, Figure, SETS_MAX, Tcpp, TcppServer};

use crate::netperf::session::Round;
use crate::netperf::sockets::{Setup, Sockets, connect, wait};
use anyhow::Context;
use clock::{Duration, Instant};
use std::io::Write;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest payload of a datagram (netblast's and netsend's limit).
pub const PAYLOAD_MAX: usize = 32_768;

/// A connection that comes and goes before time starts. After it all hosts on the way know their neighbors.
///
/// Without it the first SYNs wait for an answer to ARP: `net.link.ether.inet.maxhold` of them, 16. The others are dropped and sent again a
/// second later, and that second, not the work, was the figure: `tcpp -b 1` took 1.0 s.
fn warm_up<S: Sockets>(sockets: &mut S, round: Round<'_, S>, at: SocketAddr, setup: &Setup) -> anyhow::Result<()> {
    let Some(fd) = connect(sockets, round, Instant::NEVER, at, setup)? else { return Ok(()) };
    sockets.shutdown(fd);
    let ended = wait(sockets, round, Instant::NEVER, |sockets| sockets.recv(fd, &mut [0; 1]));
    sockets.close(fd);
    ended.map(drop).context("a first connection")
}

/// The time of day, as these tools print it.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn stamp(time: Duration) -> String {
    format!("{}.{:09}", time.as_secs(), time.subsec_nanos())
}

/// Where a tool prints.
pub type Out<'o> = &'o mut dyn Write;
