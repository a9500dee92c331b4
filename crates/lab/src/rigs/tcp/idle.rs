//! Memory of an idle connection: the growth of a process that does nothing else, so that memory
//! freed before does not hide it.
//!
//! The program is started again as a child, which connects two hosts of its own. Both ends count:
//! the growth is divided by the number of ends.

use super::{Domain, Link, Two};
use crate::child::{self, Child};
use crate::os::{give_back_free_memory, resident};
use anyhow::{Context, bail, ensure};
use socket::{Errno, Fd};
use std::time::{Duration, Instant};

/// Kind of the child; its role is the number of connections.
pub(crate) const KIND: &str = "idle";
/// Number of connections established before the first measurement, so that memory that a host needs
/// only once is already allocated.
const WARM: usize = 100;

/// Resident memory that an idle connection takes, in bytes per end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Idle {
    /// Bytes of an established connection that has carried no data.
    pub fresh: f64,
    /// Bytes of a connection that has carried a request and its answer.
    pub used: f64,
    /// Bytes as in `used`, plus the free memory that the allocator keeps. That memory contained
    /// queues of the connections that were busy within the same 200 ms. Their number depends on the
    /// machine.
    pub kept: f64,
}

/// Measures the memory of `connections` idle connections in a child process (see [`crate::child`]).
///
/// # Errors
/// The child did not start, failed, or timed out.
pub fn idle_bytes(connections: usize) -> anyhow::Result<Idle> {
    let mut command = child::again(KIND, &connections.to_string())?;
    // One arena: in a test, the allocating thread would have its own arena, from which glibc
    // returns no memory to the system.
    command.env("MALLOC_ARENA_MAX", "1");
    let child = Child::start(command).context("cannot measure the memory of connections")?;
    let reported = child.ready();
    let numbers: Vec<f64> =
        reported.split(' ').map(str::parse).collect::<Result<_, _>>().with_context(|| reported.to_owned())?;
    let [fresh, used, kept] = numbers[..] else { bail!("{}", reported) };
    Ok(Idle { fresh, used, kept })
}

pub(crate) fn serve(role: &str) -> anyhow::Result<()> {
    let begin = || {
        let idle = weigh(role.parse().with_context(|| format!("invalid number of connections {role:?}"))?)?;
        Ok(((), format!("{} {} {}", idle.fresh, idle.used, idle.kept)))
    };
    child::serve(begin, |(), order| bail!("unknown command {order:?}"))
}

fn weigh(connections: usize) -> anyhow::Result<Idle> {
    ensure!(connections > 0, "number of connections: must be at least 1");
    let two = Two::new(Link::plain(Domain::Inet), &[])?;
    let listener = two.listen(5001)?;
    let mut warm = Vec::new();
    for _ in 0..WARM {
        warm.push([two.begin(5001)?, two.accept(listener)?]);
    }
    warm.iter().try_for_each(|ends| exchange(&two, *ends))?;
    quiet(&two);
    let mut ends = vec![[Fd(1); 2]; connections]; // touched before the first measurement
    let of_each = |before: u64| anyhow::Ok((resident()?.saturating_sub(before)) as f64 / (2 * connections) as f64);
    give_back_free_memory();
    let before = resident()?;
    two.connect_many(&mut ends)?;
    quiet(&two);
    give_back_free_memory();
    let fresh = of_each(before)?;
    ends.iter().try_for_each(|ends| exchange(&two, *ends))?;
    quiet(&two);
    let kept = of_each(before)?;
    give_back_free_memory();
    let used = of_each(before)?;
    two.balanced("idle")?;
    Ok(Idle { fresh, used, kept })
}

fn exchange(two: &Two, ends: [Fd; 2]) -> anyhow::Result<()> {
    for (from, to) in [(0, 1), (1, 0)] {
        two.calls(from).send(ends[from], b"idle?")?;
        let mut into = [0; 16];
        let mut rounds = 0;
        let n = loop {
            two.step();
            match two.calls(to).recv(ends[to], &mut into) {
                Ok(n) => break n,
                Err(Errno::EAGAIN) if rounds < 10_000 => rounds += 1,
                Err(error) => return Err(error.into()),
            }
        };
        ensure!(into[..n] == *b"idle?", "received {n} unexpected bytes");
    }
    Ok(())
}

/// Longer than the minimum retransmission timeout and than any delayed ACK.
const QUIET: Duration = Duration::from_millis(300);

/// Steps until the timers set by the last segments have expired, so that the connections are idle.
fn quiet(two: &Two) {
    let mut since = Instant::now();
    while since.elapsed() < QUIET {
        if two.step() > 0 {
            since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_measures_the_memory_of_connections() {
        let idle = idle_bytes(30_000).unwrap();
        assert!(idle.fresh > 100.0 && idle.used >= idle.fresh, "{idle:?}");
        assert!(idle.used <= 1024.0, "an idle connection has grown: {idle:?}");
    }
}
