//! The rows `dataflow.*`: frames passed to workers, on the same thread or on threads of their own.

use crate::run;
use crate::side::Side;
use crate::study::{Entry, Study};
use crate::subject::{Reading, Subject, measure};
use crate::tsc;
use anyhow::{Context, ensure};
use buf::{Burst, Frame, Pool, PoolConfig, PoolLocks};
use clock::{Clock, Instant, Strategy};
use dispatch::dataflow::{Config, Crew, Dataflow, Dispatcher, Worker, dataflow};

const BURST: usize = 32;
const FLOWS: usize = 256;
/// Number of bursts in a trial on one thread.
const BURSTS: usize = 1000;
/// Number of bursts in a trial with worker threads.
const BURSTS_THREADS: usize = 10_000;
/// Maximum number of frames posted and not yet processed. The dispatcher waits at this number, so
/// that no frame is dropped.
const WINDOW: u64 = 2048;
/// Ticks that the work of a frame takes in the rows `*.work`.
const WORK: u64 = 1000;

/// Adds the rows `dataflow.*`.
pub(super) fn rows(study: &mut Study<'_>) {
    let one = vec![
        Entry::new(
            Side::new("dataflow.none", || OneThread::new("dataflow.none", false)),
            "a frame taken from a pool and dropped, without dataflow",
        ),
        Entry::new(
            Side::new("dataflow.one_thread", || OneThread::new("dataflow.one_thread", true)),
            "a frame through dataflow, dispatcher and worker on one thread",
        )
        .against("dataflow.none"),
    ];
    study.compare_entries(one);
    let threads = |id: &'static str, workers: usize, ticks: u64| {
        let plural = if workers == 1 { "" } else { "s" };
        let work = if ticks == 0 { String::new() } else { format!(", {ticks} ticks of work per frame") };
        let title = format!("a frame through dataflow, {workers} worker{plural} on separate threads{work}");
        Entry::new(Side::new(id, move || Threads::new(id, workers, ticks)), title)
    };
    // Neither pinned nor checked for its CPU share: with fewer cores than threads, the dispatcher
    // shares its core with a worker.
    let options = run::Options { cpu: None, ..study.options().waiting() };
    let entries = vec![
        threads("dataflow.worker", 1, 0),
        threads("dataflow.workers", 2, 0),
        threads("dataflow.worker.work", 1, WORK),
        threads("dataflow.workers.work", 2, WORK),
    ];
    study.measure_entries(entries, options);
}

fn pool() -> anyhow::Result<Pool> {
    Ok(Pool::new(&PoolConfig { buffers: 8192, locks: PoolLocks::Light, ..PoolConfig::default() })?)
}

/// Returns a worker's function, which busy-waits `ticks` for each frame and then drops the frame.
fn work(ticks: u64) -> impl FnMut(usize, &mut Burst, Instant) + Send {
    move |_: usize, burst: &mut Burst, _: Instant| {
        for frame in burst.drain() {
            let from = tsc::now();
            while ticks > 0 && tsc::now().wrapping_sub(from) < ticks {}
            drop(frame);
        }
    }
}

/// Returns a function that assigns frames to [`FLOWS`] flows in turn.
fn flows() -> impl FnMut(&Frame) -> usize {
    let mut next = 0;
    move |_| {
        next = (next + 1) % FLOWS;
        next.wrapping_mul(0x9e37_79b1)
    }
}

/// Subject with a dispatcher and a worker on one thread. Its baseline has neither (`flow` is
/// `None`).
struct OneThread {
    id: &'static str,
    pool: Pool,
    flow: Option<(Dispatcher, Worker)>,
}

impl OneThread {
    fn new(id: &'static str, with_dataflow: bool) -> anyhow::Result<OneThread> {
        let build = || {
            let (dispatcher, mut workers) = dataflow(&Config::default(), 1);
            Some((dispatcher, workers.pop()?))
        };
        Ok(OneThread { id, pool: pool()?, flow: if with_dataflow { build() } else { None } })
    }
}

impl Subject for OneThread {
    fn id(&self) -> &str {
        self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let (mut burst, mut flow_of, mut work) = (Burst::new(), flows(), work(0));
        let reading = measure((BURSTS * BURST) as u64, || {
            for _ in 0..BURSTS {
                self.pool.get_burst(BURST, &mut burst);
                match &mut self.flow {
                    Some((dispatcher, worker)) => {
                        dispatcher.post(&mut burst, &mut flow_of);
                        while worker.turn(&mut work, || Instant::ZERO) > 0 {}
                    }
                    None => work(0, &mut burst, Instant::ZERO),
                }
            }
        });
        if let Some((dispatcher, _)) = &self.flow {
            let audit = dispatcher.flow().audit();
            ensure!(audit.holds() && audit.dropped == 0, "{}: {audit:?}", self.id);
        }
        Ok(reading)
    }
}

/// Subject with the dispatcher on the measuring thread and the workers on threads of their own.
struct Threads {
    id: &'static str,
    pool: Pool,
    /// The workers' threads end when it is dropped.
    dispatcher: Option<Dispatcher>,
    /// Waits for the workers' threads.
    join: Option<Box<dyn FnOnce()>>,
}

impl Threads {
    fn new(id: &'static str, workers: usize, ticks: u64) -> anyhow::Result<Threads> {
        let works: Vec<_> = (0..workers).map(|_| work(ticks)).collect();
        let config = Config { room: WINDOW as usize * 2, looks: 50, ..Config::default() };
        let (dispatcher, crew) = Crew::spawn("worker", &config, works, &Clock::live(Strategy::TscScaled))?;
        Ok(Threads { id, pool: pool()?, dispatcher: Some(dispatcher), join: Some(Box::new(|| drop(crew.join()))) })
    }
}

/// Returns the number of frames that are neither processed nor dropped.
fn waiting(flow: &Dataflow) -> u64 {
    let audit = flow.audit();
    audit.offered.saturating_sub(audit.done + audit.dropped)
}

impl Subject for Threads {
    fn id(&self) -> &str {
        self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let dispatcher = self.dispatcher.as_mut().context("the dispatcher has ended")?;
        let (mut burst, mut flow_of) = (Burst::new(), flows());
        let reading = measure((BURSTS_THREADS * BURST) as u64, || {
            for _ in 0..BURSTS_THREADS {
                while waiting(dispatcher.flow()) > WINDOW {
                    std::thread::yield_now();
                }
                self.pool.get_burst(BURST - burst.len(), &mut burst);
                dispatcher.post(&mut burst, &mut flow_of);
            }
            while waiting(dispatcher.flow()) > 0 {
                std::thread::yield_now();
            }
        });
        let audit = dispatcher.flow().audit();
        ensure!(audit.holds() && audit.dropped == 0, "{}: {audit:?}", self.id);
        Ok(reading)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        drop(self.dispatcher.take());
        if let Some(join) = self.join.take() {
            join();
        }
    }
}
