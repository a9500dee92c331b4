//! The kernel's `send`, in a child in a network namespace of its own: the parent requests runs, the
//! child executes them.
//!
//! | line | from | meaning |
//! |---|---|---|
//! | `ready <sentence>` | child | set up; the destination of the packets |
//! | `run <count> <size> <burst> <processor>` | parent | a [`Job`], on that processor |
//! | `done <ticks> <wall_ns> <cpu_ns> <errors> <dropped>` | child | cost, drops of the device |

use super::sink::Sink;
use crate::child::{self, Child, numbers, one_line};
use crate::os;
use crate::subject::Reading;
use anyhow::{Context, bail, ensure};
use port::os::netns;

/// Kind of the child; its role is `own <the parent's user namespace>`, or `none <why>`.
pub(crate) const KIND: &str = "send";

/// Maximum payload size in bytes of a datagram with an MTU of 1500.
const LARGEST: usize = 1472;
/// Maximum number of messages in one sendmmsg(2): UIO_MAXIOV.
const MOST_AT_ONCE: usize = 1024;

/// A run requested from the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub count: u64,
    /// Payload size in bytes.
    pub size: usize,
    /// Datagrams per call: 1 uses `send`, more use `sendmmsg`.
    pub burst: usize,
}

impl Job {
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.count >= 1, "count '{}': must be at least 1", self.count);
        ensure!((1..=LARGEST).contains(&self.size), "payload size '{}': must be 1 to {LARGEST} bytes", self.size);
        ensure!((1..=MOST_AT_ONCE).contains(&self.burst), "burst size '{}': must be 1 to {MOST_AT_ONCE}", self.burst);
        Ok(())
    }
}

/// Cost of a run, and the number of packets that the device dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    pub reading: Reading,
    pub dropped: u64,
}

/// The parent's handle of the child.
#[derive(Debug)]
pub(super) struct Sender(Child);

impl Sender {
    pub fn start() -> anyhow::Result<Sender> {
        Sender::start_where(netns::available())
    }

    /// Starts the child in a network namespace of its own. If `available` is an error, starts the
    /// child in the current namespace and passes the reason to it.
    pub fn start_where(available: Result<(), String>) -> anyhow::Result<Sender> {
        let child = match available {
            Ok(()) => Child::start_apart(child::again(KIND, &format!("own {}", user_namespace()))?)?,
            Err(why) => Child::start(child::again(KIND, &format!("none {why}"))?)?,
        };
        Ok(Sender(child))
    }

    /// Returns a sentence on the device that receives the packets.
    pub fn device(&self) -> &str {
        self.0.ready()
    }

    /// Executes a run.
    ///
    /// # Errors
    /// The child failed, the kernel refused a packet, or the device did not count a packet as
    /// dropped.
    pub fn run(&mut self, job: Job) -> anyhow::Result<Done> {
        let Job { count, size, burst } = job;
        let cpu = os::current_cpu().context("cannot determine the current core")?;
        let answer = self.0.ask(&format!("run {count} {size} {burst} {cpu}"))?;
        let [ticks, wall_ns, cpu_ns, errors, dropped] = numbers(&answer)?;
        ensure!(errors == 0, "the kernel refused {errors} of {count} packets: {}", self.device());
        ensure!(dropped >= count, "{dropped} of {count} packets were dropped by the device: {}", self.device());
        Ok(Done { reading: Reading { ops: count, ticks, wall_ns, cpu_ns }, dropped })
    }
}

/// Returns the kernel's name of this process's user namespace; empty if unavailable.
fn user_namespace() -> String {
    std::fs::read_link("/proc/self/ns/user").unwrap_or_default().display().to_string()
}

pub(crate) fn serve(role: &str) -> anyhow::Result<()> {
    let mut pinned = None;
    let begin = || {
        let sink = sink(role)?;
        let device = sink.device.clone();
        Ok((sink, device))
    };
    child::serve(begin, |sink, order| run_command(sink, &mut pinned, order)).map(|_| ())
}

fn sink(role: &str) -> anyhow::Result<Sink> {
    match role.split_once(' ') {
        Some(("own", outer)) => {
            let own = if user_namespace() == outer { "network namespace" } else { "user and network namespace" };
            Sink::tap(own).or_else(|why| Sink::own_loopback(&format!("no TAP ({})", one_line(&why))))
        }
        Some(("none", why)) => Sink::loopback(why),
        _ => bail!("unknown child role '{role}'"),
    }
}

fn run_command(sink: &mut Sink, pinned: &mut Option<(usize, dispatch::Pinned)>, order: &str) -> anyhow::Result<String> {
    let [count, size, burst, cpu] = numbers(order.strip_prefix("run ").context("unknown command: expected 'run'")?)?;
    let job = Job { count, size: size as usize, burst: burst as usize };
    job.check()?;
    stay_on(pinned, cpu as usize)?;
    let before = sink.drops.read()?;
    let (reading, errors) = sink.send(job);
    let dropped = sink.drops.read()?.since(before);
    Ok(format!("{} {} {} {errors} {dropped}", reading.ticks, reading.wall_ns, reading.cpu_ns))
}

fn stay_on(pinned: &mut Option<(usize, dispatch::Pinned)>, cpu: usize) -> anyhow::Result<()> {
    if pinned.as_ref().is_none_or(|(current, _)| *current != cpu) {
        *pinned = None; // first, since dropping it restores the former set
        let pin = dispatch::pinned_to_core(cpu).with_context(|| format!("cannot pin to core {cpu}"))?;
        *pinned = Some((cpu, pin));
    }
    Ok(())
}
