//! `tcpp`: so many connections, some at a time, each with so many bytes. They count when the far end has seen their end.
//!
//! Its model forks processes (`-p`), each with connections of its own to an L4 port of its own, from the base port (`-r`) on. Here one thread
//! has such sets in turns. `-M` addresses from `-l` on are connected from in turn; `-T` says what the processors did meanwhile.

use super::{Kind, Out, Services, warm_up};
use crate::netperf::session::{Asked, Play, Round};
use crate::netperf::sockets::{PATIENCE, Pace, Setup, Sockets, Waits};
use crate::slots::Limits;
use crate::streams::{Failure, at_port};
use std::net::{IpAddr, SocketAddr};

/// Where the far end listens: tcpp's base port, and those that follow.
const AT: u16 = 10_000;
/// Sets of connections at most: the far end listens at an L4 port for each.
pub const SETS_MAX: u16 = 16;
/// How often other L4 ports are tried, where any will do, if one of so many in a row is taken.
const TRIES: u16 = 64;
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

/// Ticks that all processors spent since the system began: user, nice, system, interrupts, idle.
pub type Cpu = [u64; 5];

/// The tool.
pub struct Tcpp<'o> {
    /// Bytes of each connection.
    pub bytes: u64,
    /// Sets of connections, each to an L4 port of its own; at most [`SETS_MAX`].
    pub sets: u16,
    /// Connections of a set at a time; at most 1024 of all.
    pub at_a_time: usize,
    /// Connections of a set.
    pub conns: u64,
    /// Connected from in turn; none: the system's choice.
    pub from: Vec<IpAddr>,
    /// What the processors have done so far, where that is to be told.
    pub cpu: Option<fn() -> Option<Cpu>>,
    /// What is printed.
    pub figure: Figure,
    /// Where it prints.
    pub out: Out<'o>,
}

impl<'o> Tcpp<'o> {
    /// As its model: one set, 32 connections at a time and in all, 10 MiB each.
    pub fn new(out: Out<'o>) -> Tcpp<'o> {
        let (sets, from, cpu) = (1, Vec::new(), None);
        Tcpp { bytes: 10 << 20, sets, at_a_time: 32, conns: 32, from, cpu, figure: Figure::Gbps, out }
    }
}

impl std::fmt::Debug for Tcpp<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tcpp").field("bytes", &self.bytes).field("conns", &self.conns).finish_non_exhaustive()
    }
}

struct Conn<F> {
    fd: F,
    set: usize,
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
        let sets = usize::from(self.sets);
        let mut open: Vec<Conn<S::Fd>> = Vec::with_capacity(self.at_a_time * sets);
        // Of each set: connections begun, and open.
        let mut each = vec![(0u64, 0usize); sets];
        let (all, mut begun, mut done, mut moved) = (self.conns * sets as u64, 0u64, 0u64, 0u64);
        let mut from = self.from.iter().copied().cycle();
        warm_up(sockets, round, at, &Setup { from: from.next(), ..setup })?;
        let cpu = self.cpu.and_then(|cpu| cpu());
        let start = round(sockets, Pace::Go);
        let mut moved_at = start;
        while done < all && !dispatch::stop_requested() {
            for (set, (started, live)) in each.iter_mut().enumerate() {
                while *started < self.conns && *live < self.at_a_time {
                    let to = at_port(at, at.port().saturating_add(set as u16));
                    let fd = sockets.connect(to, &Setup { from: from.next(), ..setup });
                    let fd =
                        fd.map_err(|why| anyhow::anyhow!("connect to L4 port {}: {why}, after {begun}", to.port()))?;
                    open.push(Conn { fd, set, is_open: false, left: self.bytes.max(1) });
                    (*started, *live, begun) = (*started + 1, *live + 1, begun + 1);
                }
            }
            let before = (done, moved);
            let mut failed = None;
            open.retain_mut(|conn| match conn.turn(sockets, &chunk, &mut moved) {
                Ok(false) | Err(Failure::Again) => true,
                over => {
                    sockets.close(conn.fd);
                    done += 1;
                    if let Some((_, live)) = each.get_mut(conn.set) {
                        *live -= 1;
                    }
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
        let after = self.cpu.and_then(|cpu| cpu());
        cpu.zip(after).map_or(Ok(()), |(before, after)| tell_cpu(self.out, before, after))
    }
}

/// What the processors did between the two, in shares of a hundred.
fn tell_cpu(out: Out<'_>, before: Cpu, after: Cpu) -> anyhow::Result<()> {
    let spent: Vec<u64> = after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect();
    let all = spent.iter().sum::<u64>().max(1);
    let shares: Vec<String> = spent.iter().map(|spent| format!("{:.2}%", *spent as f64 * 100.0 / all as f64)).collect();
    Ok(writeln!(out, "user%\tnice%\tsys%\tintr%\tidle%\n{}", shares.join("\t"))?)
}

/// Who takes tcpp's connections to their end, at [`SETS_MAX`] L4 ports.
#[derive(Debug)]
pub struct TcppServer;

impl Asked for TcppServer {
    type End<S: Sockets> = Services<S>;

    const PORT: u16 = AT;

    const CONNECTIONS: usize = super::services::CONNS_MAX;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Services<S>, u16), Failure> {
        if at.port() != 0 {
            return Services::open_several(sockets, at, Kind::TakeStreams, SETS_MAX - 1, limits);
        }
        // Below those that the system picks: there so many in a row are seldom free, behind others' connections.
        let bases = (0..TRIES).map(|n| AT + n * SETS_MAX);
        let mut tried = bases.map(|base| {
            Services::open_several(sockets, SocketAddr::new(at.ip(), base), Kind::TakeStreams, SETS_MAX - 1, limits)
        });
        tried.find(|opened| !matches!(opened, Err(Failure::InUse))).unwrap_or(Err(Failure::InUse))
    }
}
