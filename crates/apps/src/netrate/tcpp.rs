//! `tcpp`: so many connections, some at a time, each with so many bytes. They count when the far end has seen their end.

use super::{Kind, Out, Services, warm_up};
use crate::netperf::session::{Asked, Play, Round};
use crate::netperf::sockets::{PATIENCE, Pace, Setup, Sockets, Waits};
use crate::streams::Failure;
use std::net::SocketAddr;

/// Where the far end listens: tcpp's base port.
const AT: u16 = 10_000;
/// Bytes of a send call.
const CHUNK: usize = 256 << 10;
/// Sends of a connection's turn.
const QUANTUM: usize = 4;

/// What is printed at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Gigabits a second.
    Gbps,
    /// Connections a second (`-C`).
    Cps,
}

/// The tool; its model has several processes, this has one.
pub struct Tcpp<'o> {
    /// Bytes of each connection.
    pub bytes: u64,
    /// Connections at a time, at most 1024.
    pub at_a_time: usize,
    /// Connections in all.
    pub conns: u64,
    /// What is printed.
    pub figure: Figure,
    /// Where it prints.
    pub out: Out<'o>,
}

impl<'o> Tcpp<'o> {
    /// As its model: 32 connections at a time and in all, 10 MiB each.
    pub fn new(out: Out<'o>) -> Tcpp<'o> {
        Tcpp { bytes: 10 << 20, at_a_time: 32, conns: 32, figure: Figure::Gbps, out }
    }
}

impl std::fmt::Debug for Tcpp<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tcpp").field("bytes", &self.bytes).field("conns", &self.conns).finish_non_exhaustive()
    }
}

struct Conn<F> {
    fd: F,
    is_open: bool,
    left: u64,
}

impl<F: Copy> Conn<F> {
    /// Goes on with it; `true` when the far end has seen its end.
    fn turn<S: Sockets<Fd = F>>(&mut self, sockets: &mut S, chunk: &[u8], moved: &mut u64) -> Result<bool, Failure> {
        if !self.is_open {
            sockets.connected(self.fd)?;
            self.is_open = true;
        }
        for _ in 0..QUANTUM {
            if self.left == 0 {
                return sockets.recv(self.fd, &mut [0; 1]).map(|_| true);
            }
            let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(chunk.len());
            let n = sockets.send(self.fd, chunk.get(..most).unwrap_or_default())? as u64;
            *moved += n;
            self.left -= n.min(self.left);
            if self.left == 0 {
                sockets.shutdown(self.fd);
            }
        }
        Ok(false)
    }
}

impl Play for Tcpp<'_> {
    type Far = TcppServer;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        let setup = Setup { nodelay: true, waits: Waits::Never, ..Setup::default() };
        let chunk = vec![0; CHUNK];
        let mut open: Vec<Conn<S::Fd>> = Vec::with_capacity(self.at_a_time);
        let (mut begun, mut done, mut moved) = (0, 0, 0);
        warm_up(sockets, round, at, &setup)?;
        let start = round(sockets, Pace::Go);
        let mut moved_at = start;
        while done < self.conns && !dispatch::stop_requested() {
            while begun < self.conns && open.len() < self.at_a_time {
                let fd = sockets.connect(at, &setup).map_err(|why| anyhow::anyhow!("connect: {why}, after {begun}"))?;
                open.push(Conn { fd, is_open: false, left: self.bytes.max(1) });
                begun += 1;
            }
            let before = (done, moved);
            let mut failed = None;
            open.retain_mut(|conn| match conn.turn(sockets, &chunk, &mut moved) {
                Ok(false) | Err(Failure::Again) => true,
                over => {
                    sockets.close(conn.fd);
                    done += 1;
                    failed = failed.or(over.err());
                    false
                }
            });
            if let Some(why) = failed {
                open.iter().for_each(|conn| sockets.close(conn.fd));
                anyhow::bail!("a connection: {why}, after {done}");
            }
            let went_on = (done, moved) != before;
            let now = round(sockets, if went_on { Pace::Go } else { Pace::Wait });
            if went_on {
                moved_at = now;
            }
            anyhow::ensure!(now.since(moved_at) < PATIENCE, "nothing moved for {} seconds", PATIENCE.as_secs());
        }
        open.iter().for_each(|conn| sockets.close(conn.fd));
        let took = round(sockets, Pace::Go).since(start);
        let seconds = took.as_secs_f64().max(1e-9);
        writeln!(self.out, "{moved} bytes transferred in {} seconds", super::stamp(took))?;
        match self.figure {
            Figure::Gbps => writeln!(self.out, "{:.6} Gbps", moved as f64 * 8e-9 / seconds)?,
            Figure::Cps => writeln!(self.out, "{:.6} cps", done as f64 / seconds)?,
        }
        Ok(())
    }
}

/// Who takes tcpp's connections to their end.
#[derive(Debug)]
pub struct TcppServer;

impl Asked for TcppServer {
    type End<S: Sockets> = Services<S>;

    const PORT: u16 = AT;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr) -> Result<(Services<S>, u16), Failure> {
        Services::open(sockets, at, Kind::TakeStreams)
    }
}
