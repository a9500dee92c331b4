//! Runs a test rig, the send path of one host, in a separate process that executes trials on
//! command.
//!
//! | line | direction | meaning |
//! |---|---|---|
//! | `ready` | out | the rig is built |
//! | `trial N` | in | N calls of `sendto` |
//! | `done SENT ARRIVED TICKS WALL_NS CPU_NS` | out | counts and times of the trial |
//! | `failed WHY` | out | instead of `ready` or `done` |
//!
//! Standard input is a socket: commands are read from it, and replies are written to it. The
//! process ends at end of file.

use crate::AnyRig;
use dispatch::thread_cpu_ns;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Payload of every datagram: 22 bytes, as in the report rump2014.
pub const PAYLOAD: [u8; 22] = *b"linerate 22-byte load!";

/// Builds a rig from the line `settings` and executes commands until end of file. If the rig cannot
/// be built, the reply is `failed WHY` instead of `ready`.
///
/// # Errors
/// Errors of the socket.
pub fn serve(settings: &str) -> io::Result<()> {
    let mut socket = BufReader::new(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
    let built = settings.parse().map_err(|bad: crate::BadSettings| bad.to_string()).and_then(|of| AnyRig::new(&of));
    let mut rig = match built {
        Ok(rig) => rig,
        Err(why) => return writeln!(socket.get_mut(), "failed {why}"),
    };
    writeln!(socket.get_mut(), "ready")?;
    let mut line = String::new();
    while socket.read_line(&mut line)? > 0 {
        match line.trim_end().strip_prefix("trial ").and_then(|n| n.parse().ok()) {
            Some(n) => {
                let [sent, arrived, ticks, wall, cpu] = trial(&mut rig, n);
                writeln!(socket.get_mut(), "done {sent} {arrived} {ticks} {wall} {cpu}")?;
            }
            None => writeln!(socket.get_mut(), "failed unknown command '{}'", line.trim_end())?,
        }
        line.clear();
    }
    Ok(())
}

/// Sends `n` datagrams and returns [sent, arrived at the sink, ticks, wall-clock nanoseconds,
/// processor nanoseconds].
fn trial(rig: &mut AnyRig, n: u64) -> [u64; 5] {
    let (before, cpu, wall) = (rig.sunk().0, thread_cpu_ns(), Instant::now());
    let start = clock::tsc::ticks();
    let sent = rig.send(n, &PAYLOAD);
    let ticks = clock::tsc::ticks() - start;
    let wall = u64::try_from(wall.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let cpu = thread_cpu_ns() - cpu;
    [sent, rig.sunk().0 - before, ticks, wall, cpu]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    /// A trial takes a few milliseconds, possibly less than one scheduler tick.
    #[test]
    fn a_trials_processor_time_is_that_of_its_work() {
        let mut rig = AnyRig::new(&Settings::default()).unwrap();
        let shares = (0..20).map(|_| {
            let [sent, arrived, _, wall, cpu] = trial(&mut rig, 5_000);
            assert_eq!((sent, arrived), (5_000, 5_000));
            cpu as f64 / wall as f64
        });
        let best = shares.fold(0.0, f64::max);
        assert!((0.9..1.1).contains(&best), "{best}");
    }
}
