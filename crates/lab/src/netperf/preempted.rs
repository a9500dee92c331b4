//! Time that other threads took of the processor during a play on one thread.
//!
//! A trial of hosts lasts longer than a time slice, so on a busy machine it contains slices of other
//! processes. They are measured as CLOCK_MONOTONIC less CLOCK_THREAD_CPUTIME_ID, provided that the
//! thread never blocked: time in which it waited cannot be told apart from time that it lost.

use super::{Ground, Seen};
use crate::os;
use apps::netperf::session::{Play, Round};
use apps::netperf::sockets::Sockets;
use std::net::SocketAddr;

/// Runs `play` on `ground`; returns the counters, and the nanoseconds for which other threads had the
/// processor: 0 unless one thread drives both ends and never blocked.
///
/// # Errors
/// As [`Ground::run_counted`].
pub fn run_preemptible<P: Play>(ground: &impl Ground, play: &mut P) -> anyhow::Result<(Seen, u64)> {
    let mut play = Preemptible { play, preempted_ns: 0 };
    let seen = ground.run_counted(&mut play)?;
    Ok((seen, if ground.is_one_thread() { play.preempted_ns } else { 0 }))
}

struct Preemptible<'a, P> {
    play: &'a mut P,
    preempted_ns: u64,
}

impl<P: Play> Play for Preemptible<'_, P> {
    type Far = P::Far;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        let (waits, wall, cpu) = (os::thread_waits(), os::monotonic_ns(), os::thread_cpu_ns());
        let played = self.play.near(sockets, round, at);
        let (cpu, wall) = (os::thread_cpu_ns() - cpu, os::monotonic_ns() - wall);
        if os::thread_waits() == waits {
            self.preempted_ns = wall.saturating_sub(cpu);
        }
        played
    }
}
