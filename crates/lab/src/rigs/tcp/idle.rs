//! What an idle connection weighs: the growth of a process that does nothing else, so that no memory freed before hides it.
//!
//! The program is started again as a child; it connects two hosts of its own, both ends are counted, and what it takes
//! is divided by the number of ends.

use super::{Link, Two};
use crate::os::{give_back_free_memory, resident};
use anyhow::{Context, bail, ensure};
use socket::{Errno, Fd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Set in the child's environment: how many connections.
const ASKED: &str = "LINERATE_IDLE_CHILD";
/// Connections made before the first look: what the hosts need once is there then.
const WARM: usize = 100;
/// How long the child may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes of resident memory an end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Idle {
    /// Established, and nothing else.
    pub fresh: f64,
    /// After a request and its answer.
    pub used: f64,
    /// The same with what the allocator has free and keeps: connections that were busy within the same 200 ms had queues at one time, and
    /// how many those are depends on the machine.
    pub kept: f64,
}

/// Weighs `connections`, in a child: this program again, whose main calls [`idle_child_if_asked`]. `args` are the child's, for
/// programs (tests) that come to that by them only.
///
/// # Errors
/// No child, or it failed, or its time was up.
pub fn idle_bytes(connections: usize, args: &[&str]) -> anyhow::Result<Idle> {
    let mut command = Command::new("/proc/self/exe"); // also right when the file was replaced meanwhile
    command.args(args).env(ASKED, connections.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
    // A test's thread would have an arena of its own, from whose end glibc gives nothing back.
    command.env("MALLOC_ARENA_MAX", "1");
    let mut child = command.spawn().context("start this program again, to weigh connections")?;
    let until = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > until {
            let _ = child.kill(); // does nothing to one that has ended meanwhile
            let _ = child.wait();
            bail!("{connections} connections took longer than {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let told = text.lines().find_map(|line| line.strip_prefix("idle ")).with_context(|| {
        format!("the child said {text:?}, {}: does main call lab::child_main_if_asked() first?", output.status)
    })?;
    let numbers: Vec<f64> =
        told.split(' ').map(str::parse).collect::<Result<_, _>>().with_context(|| told.to_owned())?;
    let [fresh, used, kept] = numbers.as_slice() else { bail!("{}", told) };
    Ok(Idle { fresh: *fresh, used: *used, kept: *kept })
}

/// Weighs and does not return, if this process was started to do so.
pub fn idle_child_if_asked() {
    let Some(connections) = std::env::var_os(ASKED) else { return };
    let weighed = connections.to_string_lossy().parse().context(ASKED).and_then(weigh);
    match weighed {
        Ok(idle) => println!("idle {} {} {}", idle.fresh, idle.used, idle.kept),
        Err(why) => eprintln!("{why:#}"),
    }
    std::process::exit(0);
}

fn weigh(connections: usize) -> anyhow::Result<Idle> {
    ensure!(connections > 0, "no connections");
    let two = Two::new(Link { mtu: 1500, offload: false }, &[])?;
    let listener = two.listen(5001)?;
    let mut warm = Vec::new();
    for _ in 0..WARM {
        warm.push([two.begin(5001)?, two.accept(listener)?]);
    }
    warm.iter().try_for_each(|ends| exchange(&two, *ends))?;
    quiet(&two);
    let mut ends = vec![[Fd(1); 2]; connections]; // touched before the first look
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
        ensure!(into[..n] == *b"idle?", "{n} bytes came");
    }
    Ok(())
}

/// Longer than the least retransmission timeout and than any delayed ACK.
const QUIET: Duration = Duration::from_millis(300);

/// Until the timers that the last segments set are over: then a connection is idle.
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

    /// Started again by the test below, this test is the child.
    #[test]
    fn the_child() {
        idle_child_if_asked();
    }

    #[test]
    fn a_child_weighs_its_connections() {
        let idle = idle_bytes(30_000, &["rigs::tcp::idle::tests::the_child", "--exact", "--nocapture"]).unwrap();
        assert!(idle.fresh > 100.0 && idle.used >= idle.fresh, "{idle:?}");
        assert!(idle.used <= 1024.0, "an idle connection has grown: {idle:?}");
    }
}
