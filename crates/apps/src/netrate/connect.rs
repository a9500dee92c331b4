//! `tcpconnect`: connections, one after the other, for a time; `tcpreceive`, who accepts them.

use super::{Kind, Out, Services};
use crate::netperf::session::{Asked, Play, Round};
use crate::netperf::sockets::{Pace, Setup, Sockets, Waits, connect};
use crate::slots::Limits;
use crate::span::{Span, Took};
use crate::streams::Failure;
use clock::Duration;
use std::net::SocketAddr;

/// Where tcpreceive listens.
const AT: u16 = 6060;

/// The tool; its model's time is 60 seconds.
pub struct Tcpconnect<'o> {
    /// For so long.
    pub time: Duration,
    /// Where it prints.
    pub out: Out<'o>,
    /// What it came to, when it has run.
    pub done: Option<Connected>,
}

/// What tcpconnect came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Connected {
    /// Connections made.
    pub count: u64,
    /// In how long.
    pub took: Took,
}

impl<'o> Tcpconnect<'o> {
    /// Connections for so long.
    pub fn new(time: Duration, out: Out<'o>) -> Tcpconnect<'o> {
        Tcpconnect { time, out, done: None }
    }
}

impl std::fmt::Debug for Tcpconnect<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tcpconnect").field("time", &self.time).finish_non_exhaustive()
    }
}

impl Play for Tcpconnect<'_> {
    type Far = Tcpreceive;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        let setup = Setup { waits: Waits::Briefly, ..Setup::default() };
        let (span, mut count) = (Span::begin(|| round(sockets, Pace::Go)), 0u64);
        let until = span.start().after(self.time);
        while sockets.latest() < until && !dispatch::stop_requested() {
            let connected = connect(sockets, round, until, at, &setup);
            let Some(fd) = connected.map_err(|why| why.context(format!("connection {}", count + 1)))? else { break };
            sockets.close(fd);
            count += 1;
            // The kernel has connected before its listener was asked: on one thread that one needs its turn.
            round(sockets, Pace::Go);
        }
        let took = span.end(round(sockets, Pace::Go));
        self.done = Some(Connected { count, took });
        writeln!(self.out, "{count} count")?;
        Ok(writeln!(self.out, "{} connections/second", (count as f64 / took.seconds) as u64)?)
    }
}

/// The far end alone: `tcpreceive`.
#[derive(Debug)]
pub struct Tcpreceive;

impl Asked for Tcpreceive {
    type End<S: Sockets> = Services<S>;

    const PORT: u16 = AT;

    const CONNECTIONS: usize = 1;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Services<S>, u16), Failure> {
        Services::open(sockets, at, Kind::EchoOne, limits)
    }
}
