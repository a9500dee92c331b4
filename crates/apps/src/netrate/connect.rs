//! `tcpconnect` opens and closes connections, one after the other, for some time; `tcpreceive`
//! accepts them.

use super::{Kind, Out, Services};
use crate::netperf::session::{FarEnd, Play, Round};
use crate::netperf::sockets::{Pace, Setup, Sockets, Waits, connect};
use crate::slots::Limits;
use crate::span::{Span, Took};
use crate::streams::Failure;
use std::net::SocketAddr;
use std::time::Duration;

/// Default L4 port of tcpreceive.
const AT: u16 = 6060;

/// The tool `tcpconnect`. The original always runs for 60 seconds.
pub struct Tcpconnect<'o> {
    /// Duration for which connections are opened.
    pub time: Duration,
    /// Destination of the output.
    pub out: Out<'o>,
    /// The result; `None` until the run is complete.
    pub done: Option<Connected>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Connected {
    pub count: u64,
    pub took: Took,
}

impl<'o> Tcpconnect<'o> {
    /// Creates the tool, which will run for `time`.
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
            let Some(fd) = connected.map_err(|why| why.context(format!("connection {} failed", count + 1)))? else {
                break;
            };
            sockets.close(fd);
            count += 1;
            // A connect completes before the listener's application accepts the connection. If a
            // single thread runs both ends, the listener needs its turn here.
            round(sockets, Pace::Go);
        }
        let took = span.end(round(sockets, Pace::Go));
        self.done = Some(Connected { count, took });
        writeln!(self.out, "{count} count")?;
        Ok(writeln!(self.out, "{} connections/second", (count as f64 / took.seconds) as u64)?)
    }
}

/// tcpreceive, the far end of tcpconnect.
#[derive(Debug)]
pub struct Tcpreceive;

impl FarEnd for Tcpreceive {
    type End<S: Sockets> = Services<S>;

    const PORT: u16 = AT;

    const CONNECTIONS: usize = 1;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Services<S>, u16), Failure> {
        Services::open(sockets, at, Kind::EchoOne, limits)
    }
}
