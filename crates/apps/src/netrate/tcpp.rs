//! `tcpp` opens a given number of connections, a limited number of them at a time, and sends a
//! given number of bytes on each. A connection is complete once the far end has also closed it.
//!
//! The original starts `-p` processes. Each has its own set of connections to its own L4 port; the
//! ports start at the base port (`-r`). Here one thread serves all sets in turn. With `-M N`, the
//! connections use N local addresses in turn, starting at the address given with `-l`. `-T` reports
//! the CPU usage during the run.

use super::{Kind, Out, Services, warm_up};
use crate::netperf::session::{FarEnd, Play, Round};
use crate::netperf::sockets::{PATIENCE, Pace, Setup, Sockets, Waits};
use crate::slots::Limits;
use crate::streams::{Failure, at_port};
use std::net::{IpAddr, SocketAddr};

/// First default L4 port of the far end (tcpp's base port); further sets use the next ports.
const AT: u16 = 10_000;
/// Maximum number of connection sets. The far end listens on one L4 port for each set.
pub const SETS_MAX: u16 = 16;
/// Number of port ranges to try if the caller accepts any free range.
const TRIES: u16 = 64;
/// Number of bytes per send call.
const CHUNK: usize = 256 << 10;
/// Maximum number of send calls per connection and turn.
const QUANTUM: usize = 4;

/// Result that is printed at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Gigabits per second.
    Gbps,
    /// Connections per second (`-C`).
    Cps,
}

/// CPU time of all CPUs since boot, in ticks: user, nice, system, interrupts, idle.
pub type Cpu = [u64; 5];

/// The tool `tcpp`.
pub struct Tcpp<'o> {
    /// Number of bytes to send on each connection.
    pub bytes: u64,
    /// Number of connection sets, each with its own L4 port of the far end; at most [`SETS_MAX`].
    pub sets: u16,
    /// Number of concurrent connections per set; at most 1024 for all sets together.
    pub at_a_time: usize,
    /// Total number of connections to open per set.
    pub conns: u64,
    /// Local addresses that the connections use in turn; empty: selected by the system.
    pub from: Vec<IpAddr>,
    /// Function that reads the CPU usage; `None`: it is not reported.
    pub cpu: Option<fn() -> Option<Cpu>>,
    pub figure: Figure,
    /// Destination of the output.
    pub out: Out<'o>,
}

impl<'o> Tcpp<'o> {
    /// Creates the tool with the original's defaults: one set of 32 connections, all of them
    /// concurrent, with 10 MiB each.
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
    /// Completes connecting, sends, and checks for the close by the far end, as far as this is
    /// possible now; returns `true` once the far end has closed the connection.
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
        // For each set: number of connections started, and number of connections open.
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
                    let fd = fd.map_err(|why| {
                        anyhow::anyhow!("cannot connect to port {}: {why} (after {begun} connections)", to.port())
                    })?;
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
                anyhow::bail!("connection failed: {why} (after {done} complete connections)");
            }
            let went_on = (done, moved) != before;
            let now = round(sockets, if went_on { Pace::Go } else { Pace::Wait });
            if went_on {
                moved_at = now;
            }
            anyhow::ensure!(now.since(moved_at) < PATIENCE, "timeout: no progress for {} seconds", PATIENCE.as_secs());
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
        cpu.zip(after).map_or(Ok(()), |(before, after)| print_cpu(self.out, before, after))
    }
}

/// Prints the percentage of each kind of CPU time between two readings.
fn print_cpu(out: Out<'_>, before: Cpu, after: Cpu) -> anyhow::Result<()> {
    let spent: Vec<u64> = after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect();
    let all = spent.iter().sum::<u64>().max(1);
    let shares: Vec<String> = spent.iter().map(|spent| format!("{:.2}%", *spent as f64 * 100.0 / all as f64)).collect();
    Ok(writeln!(out, "user%\tnice%\tsys%\tintr%\tidle%\n{}", shares.join("\t"))?)
}

/// Far end of tcpp, which listens on [`SETS_MAX`] L4 ports and reads connections to their end.
#[derive(Debug)]
pub struct TcppServer;

impl FarEnd for TcppServer {
    type End<S: Sockets> = Services<S>;

    const PORT: u16 = AT;

    const CONNECTIONS: usize = super::services::CONNS_MAX;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Services<S>, u16), Failure> {
        if at.port() != 0 {
            return Services::open_several(sockets, at, Kind::TakeStreams, SETS_MAX - 1, limits);
        }
        // These ports are below the ephemeral range, in which other connections rarely leave so
        // many adjacent ports free.
        let bases = (0..TRIES).map(|n| AT + n * SETS_MAX);
        let mut tried = bases.map(|base| {
            Services::open_several(sockets, SocketAddr::new(at.ip(), base), Kind::TakeStreams, SETS_MAX - 1, limits)
        });
        tried.find(|opened| !matches!(opened, Err(Failure::InUse))).unwrap_or(Err(Failure::InUse))
    }
}
