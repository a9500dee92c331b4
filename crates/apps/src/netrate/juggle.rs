//! `juggle` bounces messages of 128 bytes between two ends and prints the times as CSV. It performs
//! ten runs of 1024 cycles for each number of messages in flight from 0 to 4.
//!
//! The original bounces messages between two descriptors of one kernel (pipes, UDP sockets and
//! socket pairs) on one thread, two threads and two processes; `lab::native::juggle` does the same.
//! Here the two descriptors belong to two hosts and use UDP and TCP. The first of eleven runs is
//! not printed. Each printed time is divided by the number of messages in flight.

use super::{Kind, Out, Services};
use crate::netperf::session::{FarEnd, Play, Round};
use crate::netperf::sockets::{PATIENCE, Pace, Setup, Sockets, Waits, connect, wait};
use crate::slots::Limits;
use crate::streams::{Failure, any_towards};
use anyhow::Context;
use linerate::stack::Instant;
use std::net::SocketAddr;
use std::time::Duration;

/// Length of a message in bytes.
pub const MESSAGE: usize = 128;
/// Number of cycles per run; in a cycle, each message in flight is sent and its echo is received.
pub const CYCLES: usize = 1024;
const LOOPS: usize = 10;
/// Maximum number of messages in flight.
pub const PIPELINE_MAX: u32 = 4;
/// Default L4 port of the far end, which echoes the messages.
const AT: u16 = 2020;

/// The tool `juggle`.
pub struct Juggle<'o> {
    /// Test name printed in each line: `juggle` if one thread runs both ends, `thread_juggle` if
    /// two threads do.
    pub name: &'static str,
    /// Number of cycles per run; 1024 in the original.
    pub cycles: usize,
    /// Destination of the output.
    pub out: Out<'o>,
}

impl<'o> Juggle<'o> {
    /// Creates the tool with the original's number of cycles.
    pub fn new(name: &'static str, out: Out<'o>) -> Juggle<'o> {
        Juggle { name, cycles: CYCLES, out }
    }
}

/// Prints the parameters and the title line, which precede the results.
///
/// # Errors
/// Errors of writing to `out`.
pub fn head(out: Out<'_>, cycles: usize) -> std::io::Result<()> {
    write!(out, "MESSAGELEN, {MESSAGE}\nNUMCYCLES, {cycles}\nLOOPS, {LOOPS}\nPIPELINE_MAX, {PIPELINE_MAX}\n\n\n")?;
    write!(out, "ipctype, test, pipeline_depth")?;
    (0..LOOPS).try_for_each(|at| write!(out, ", data{at}"))?;
    writeln!(out)
}

/// Measures one channel with `depth` messages in flight and prints the line of its results. Returns
/// `false` if `run` was stopped.
///
/// # Errors
/// Errors of `run`, and of writing to `out`.
pub fn line(
    out: Out<'_>,
    [channel, test]: [&str; 2],
    depth: u32,
    mut run: impl FnMut() -> anyhow::Result<Option<Duration>>,
) -> anyhow::Result<bool> {
    let mut line = format!("{channel}, {test}, {depth}");
    for at in 0..=LOOPS {
        let took = run().with_context(|| format!("{channel} with {depth} messages in flight failed"))?;
        let Some(took) = took else { return Ok(false) };
        if at > 0 {
            line += &format!(", {}", super::stamp(took / depth.max(1)));
        }
    }
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(true)
}

impl std::fmt::Debug for Juggle<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Juggle").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Performs one run: sends `depth` messages and receives their echoes, `cycles` times.
fn run<S: Sockets>(
    sockets: &mut S,
    round: Round<'_, S>,
    fd: S::Fd,
    depth: u32,
    cycles: usize,
) -> anyhow::Result<Option<Duration>> {
    let (message, mut into) = ([0; MESSAGE], [0; MESSAGE]);
    let until = Instant::NEVER;
    let start = sockets.now();
    for _ in 0..cycles {
        for _ in 0..depth {
            let Some(_) = wait(sockets, round, until, |sockets| sockets.send(fd, &message)).context("send")? else {
                return Ok(None);
            };
        }
        let mut left = MESSAGE * depth as usize;
        while left > 0 {
            let space = into.len().min(left);
            let recv = |sockets: &mut S| sockets.recv(fd, into.get_mut(..space).unwrap_or_default());
            match wait(sockets, round, until, recv).context("receive: a message may be lost")? {
                None => return Ok(None),
                Some(0) => anyhow::bail!("connection closed by the far end"),
                Some(n) => left -= n.min(left),
            }
        }
    }
    Ok(Some(sockets.now().since(start)))
}

impl Play for Juggle<'_> {
    type Far = Partner;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        head(self.out, self.cycles)?;
        let setup = Setup { nodelay: true, waits: Waits::Briefly, ..Setup::default() };
        let soon = sockets.now().after(PATIENCE);
        let stream = connect(sockets, round, soon, at, &setup)?.context("connect: connection timed out")?;
        let datagrams = sockets.datagrams(any_towards(at), Some(at), &setup).context("cannot open a UDP socket")?;
        'all: for depth in 0..=PIPELINE_MAX {
            for (name, fd) in [("udp", datagrams), ("tcp", stream)] {
                let run = || run(sockets, round, fd, depth, self.cycles);
                if !line(self.out, [name, self.name], depth, run)? {
                    break 'all;
                }
            }
        }
        sockets.close(datagrams);
        sockets.close(stream);
        round(sockets, Pace::Go);
        Ok(())
    }
}

/// The far end of juggle, which echoes messages.
#[derive(Debug)]
pub struct Partner;

impl FarEnd for Partner {
    type End<S: Sockets> = Services<S>;

    const PORT: u16 = AT;

    const CONNECTIONS: usize = super::services::CONNS_MAX;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Services<S>, u16), Failure> {
        Services::open(sockets, at, Kind::EchoAll, limits)
    }
}
