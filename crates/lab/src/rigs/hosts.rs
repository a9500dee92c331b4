//! Several cores: disjoint hosts against one shared host (the report's part 3), and the memory of
//! an idle host.

use super::PAYLOAD;
use crate::os;
use crate::subject::{Reading, Subject};
use crate::tsc;
use anyhow::{Context, anyhow, ensure};
use inet::{Config, Stack};
use lock::{Cx, How, Light, Up};
use rung::{AnyRig, Settings};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::JoinHandle;

const CALLS: u64 = 50_000;

enum Order {
    Send(Arc<Barrier>),
}

struct Worker {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// `n` disjoint hosts, each on a thread and a core of its own, sending at the same time.
pub struct HostsRig {
    id: String,
    workers: Vec<Worker>,
    answers: mpsc::Receiver<Result<(u64, u64, u64), String>>, // start and end in ticks, CPU nanoseconds
}

impl HostsRig {
    /// Creates hosts as configured by the settings line, on the first `n` cores of the process.
    ///
    /// # Errors
    /// A thread could not be created, or the settings line is invalid.
    pub fn new(id: &str, n: usize, settings: &str) -> anyhow::Result<HostsRig> {
        let settings: Settings = settings.parse()?;
        let (answer, answers) = mpsc::channel();
        let mut workers = Vec::new();
        for at in 0..n {
            let (orders, inbox) = mpsc::channel();
            let answer = answer.clone();
            let thread = dispatch::spawn_worker(&format!("host{at}"), Some(dispatch::core_at(at)), move |_| {
                let mut rig = AnyRig::new(&settings); // made here: the pool belongs to the thread that uses it
                for Order::Send(start) in inbox {
                    let told = match &mut rig {
                        Ok(rig) => {
                            start.wait();
                            let (cpu, begin) = (os::thread_cpu_ns(), tsc::now());
                            let sent = rig.send(CALLS, &PAYLOAD);
                            let (end, cpu) = (tsc::now(), os::thread_cpu_ns().saturating_sub(cpu));
                            if sent == CALLS { Ok((begin, end, cpu)) } else { Err(format!("{sent} of {CALLS} sent")) }
                        }
                        Err(why) => {
                            start.wait();
                            Err(why.clone())
                        }
                    };
                    if answer.send(told).is_err() {
                        return;
                    }
                }
            })
            .context("no thread for a host")?;
            workers.push(Worker { orders: Some(orders), thread: Some(thread) });
        }
        Ok(HostsRig { id: id.to_owned(), workers, answers })
    }
}

impl Subject for HostsRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let start = Arc::new(Barrier::new(self.workers.len()));
        let wall = os::monotonic_ns();
        for worker in &self.workers {
            let orders = worker.orders.as_ref().context("worker gone")?;
            orders.send(Order::Send(start.clone())).map_err(|_| anyhow!("worker gone"))?;
        }
        let (mut first, mut last) = (u64::MAX, 0);
        for _ in &self.workers {
            let (begin, end, _cpu) = self.answers.recv()?.map_err(|why| anyhow!("{}: {why}", self.id))?;
            (first, last) = (first.min(begin), last.max(end));
        }
        let wall_ns = os::monotonic_ns() - wall;
        let ops = CALLS * self.workers.len() as u64;
        // The measuring thread sleeps while its workers work, so its own processor time is
        // meaningless here.
        Ok(Reading { ops, ticks: last.saturating_sub(first), wall_ns, cpu_ns: wall_ns })
    }
}

impl Drop for HostsRig {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.orders = None;
        }
        for thread in self.workers.iter_mut().filter_map(|worker| worker.thread.take()) {
            drop(thread.join());
        }
    }
}

/// One `Light` host that `n` threads send through, each with a socket of its own.
pub struct SharedRig {
    id: String,
    rig: Arc<rung::Rig<Light>>,
    threads: usize,
}

impl SharedRig {
    /// Creates a shared host as configured by the settings line.
    ///
    /// # Errors
    /// The host could not be created, or the settings line is invalid or lacks `locks=light`.
    pub fn new(id: &str, threads: usize, settings: &str) -> anyhow::Result<SharedRig> {
        let settings: Settings = settings.parse()?;
        ensure!(settings.locks == rung::LockKind::Light, "a shared host needs locks=light");
        let rig = rung::Rig::new(&settings).map_err(|why| anyhow!(why))?;
        Ok(SharedRig { id: id.to_owned(), rig: Arc::new(rig), threads })
    }
}

impl Subject for SharedRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let start = Arc::new(Barrier::new(self.threads));
        let wall = os::monotonic_ns();
        let mut threads = Vec::new();
        for at in 0..self.threads {
            let (rig, start) = (self.rig.clone(), start.clone());
            threads.push(dispatch::spawn_worker(&format!("sender{at}"), Some(dispatch::core_at(at)), move |_| {
                let sender = rig.sender();
                start.wait();
                let begin = tsc::now();
                let sent = sender.as_ref().map_or(0, |sender| sender.send(CALLS, &PAYLOAD));
                (begin, tsc::now(), sent)
            })?);
        }
        let (mut first, mut last, mut sent) = (u64::MAX, 0, 0);
        for thread in threads {
            let (begin, end, n) = thread.join().map_err(|_| anyhow!("{}: a sender panicked", self.id))?;
            (first, last, sent) = (first.min(begin), last.max(end), sent + n);
        }
        let wall_ns = os::monotonic_ns() - wall;
        let ops = CALLS * self.threads as u64;
        ensure!(sent == ops && self.rig.imbalance() == 0, "{}: {sent} of {ops} sent", self.id);
        Ok(Reading { ops, ticks: last.saturating_sub(first), wall_ns, cpu_ns: wall_ns })
    }
}

/// Returns the bytes of resident memory that one idle host adds, its pool not counted: the mean
/// over 2000 hosts on one pool.
///
/// # Errors
/// The pool could not be created, or /proc is unavailable.
pub fn idle_host_bytes() -> anyhow::Result<f64> {
    const HOSTS: usize = 2000; // more than freed memory could hide
    let pool = buf::Pool::new(&buf::PoolConfig { buffers: 64, ..buf::PoolConfig::default() })?;
    let cx = Cx::enter(How::Register, clock::Instant::ZERO);
    let host = |i: usize| -> Stack<Up> { Stack::new(cx, Config::new(&format!("idle{i}"), pool.clone())) };
    let warm = host(0); // not counted: memory that only the first host adds
    let before = os::resident()?;
    let hosts: Vec<Stack<Up>> = (1..=HOSTS).map(host).collect();
    let after = os::resident()?;
    drop((hosts, warm));
    Ok(after.saturating_sub(before) as f64 / HOSTS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of several hosts makes the calls of a trial; an invalid setting is an error.
    #[test]
    fn disjoint_hosts_make_the_calls_of_each() {
        for n in [1, 2] {
            let mut rig = HostsRig::new("hosts", n, "locks=up").unwrap();
            assert_eq!(rig.workers.len(), n);
            assert_eq!(rig.trial().unwrap().ops, CALLS * n as u64);
        }
        assert!(HostsRig::new("hosts", 1, "locks=no").is_err());
    }

    /// All threads send through one stack.
    #[test]
    fn a_shared_host_sends_for_all_threads() {
        for n in [1, 2] {
            let mut rig = SharedRig::new("shared", n, "locks=light").unwrap();
            let before = rig.rig.stack().counter("inet.udp.sent");
            assert_eq!(rig.trial().unwrap().ops, CALLS * n as u64);
            assert_eq!(rig.rig.stack().counter("inet.udp.sent") - before, CALLS * n as u64, "by this stack");
        }
        assert!(SharedRig::new("shared", 2, "locks=up").is_err());
    }

    /// A thousand bytes at least, and no pool of megabytes.
    #[test]
    fn an_idle_host_takes_some_memory() {
        let bytes = idle_host_bytes().unwrap();
        assert!((1_000.0..1_000_000.0).contains(&bytes), "{bytes}");
    }
}
