//! `linerate netrate`: the tools of FreeBSD's tools/tools/netrate, between any two ends.
//!
//! | tool | near end | far end |
//! |---|---|---|
//! | `tcpconnect` | opens and closes connections in turn | `tcpreceive`: accepts, echoes |
//! | `netblast` | sends datagrams as fast as the calls return | `netreceive`: receives them |
//! | `netsend` | sends datagrams at a rate | `netreceive` |
//! | `juggle` | sends messages, awaits echoes | echoes (in one kernel: `lab::native::juggle`) |
//! | `tcpp` | opens many connections, sends a number of bytes on each | receives all bytes |
//! | `http` | fetches one file repeatedly, over many connections | `httpd`: serves it |
//!
//! Each tool prints the same output as the original, with these corrections. netblast prints its
//! error rate as a fraction, not as an integer. netsend compares complete timestamps while it
//! waits; it counts failed sends and prints their number at the end, instead of a line for each
//! failed send. juggle prints its measurements for each kind of channel. tcpconnect's sockets do
//! not block. tcpp and http open one connection before the measured time starts ([`warm_up`]). The
//! far end runs on the same machine, or on another one (`programs::netperf::serve`).

mod blast;
mod connect;
pub mod http;
pub mod juggle;
pub(crate) mod services;
mod tcpp;

pub use blast::{Netblast, Netreceive, Netsend};
pub use connect::{Connected, Tcpconnect, Tcpreceive};
pub use http::{CLIENTS_MAX, Fetch, Httpd, PATH};
pub use juggle::{Juggle, Partner};
pub use services::{Kind, Services};
pub use tcpp::{Cpu, Figure, SETS_MAX, Tcpp, TcppServer};

use crate::netperf::session::Round;
use crate::netperf::sockets::{Setup, Sockets, connect, wait};
use anyhow::Context;
use linerate::stack::Instant;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum payload of a datagram in bytes; the same limit as in netblast and netsend.
pub const PAYLOAD_MAX: usize = 32_768;

/// Opens and closes a connection before the measurement, so that all hosts on the path have
/// resolved their neighbors.
///
/// Without this connection, the first SYNs would have to wait for an ARP reply. At most
/// `net.link.ether.inet.maxhold` (16) of them are queued; further SYNs are dropped and
/// retransmitted a second later. That second would dominate the result: `tcpp -b 1` took 1.0 s.
fn warm_up<S: Sockets>(sockets: &mut S, round: Round<'_, S>, at: SocketAddr, setup: &Setup) -> anyhow::Result<()> {
    let Some(fd) = connect(sockets, round, Instant::NEVER, at, setup)? else { return Ok(()) };
    sockets.shutdown(fd);
    let ended = wait(sockets, round, Instant::NEVER, |sockets| sockets.recv(fd, &mut [0; 1]));
    sockets.close(fd);
    ended.map(drop).context("warm-up connection failed")
}

/// Returns the time of day as the time since 1970, as these tools print it.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn stamp(time: Duration) -> String {
    format!("{}.{:09}", time.as_secs(), time.subsec_nanos())
}

/// Destination of a tool's output.
pub type Out<'o> = &'o mut dyn Write;
