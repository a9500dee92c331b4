//! Measures the cost of dataflow in ticks per frame, in bursts of 32: on one thread (post, then
//! turn), and with one and two workers on threads of their own.
//!
//! Run it with `cargo run --release -p linerate-dispatch --example dataflow_speed`. Frames are
//! taken from one pool and dropped by the work function, with or without 1000 ticks of work for
//! each. The results are medians of 9 rounds. For one thread, the cost of taking and dropping
//! frames is subtracted.

use buf::{Burst, Frame, Pool, PoolConfig, PoolLocks};
use clock::{Clock, Instant, Strategy, tsc};
use linerate_dispatch::dataflow::{Config, Crew, Dataflow, Dispatcher, WorkCounts, dataflow};
use std::error::Error;

const BURSTS: usize = 20_000;
const BURST: usize = 32;
/// Maximum number of frames in flight. The dispatcher waits while there are more, so that no frame
/// is dropped.
const WINDOW: u64 = 2048;

fn work(cost: u64) -> impl FnMut(usize, &mut Burst, Instant) + Send {
    move |_: usize, burst: &mut Burst, _: Instant| {
        for frame in burst.drain() {
            let from = tsc::ticks();
            while cost > 0 && tsc::ticks().wrapping_sub(from) < cost {}
            drop(frame);
        }
    }
}

/// Returns a function that assigns frames to `flows` flows in turn.
fn spread(flows: usize) -> impl FnMut(&Frame) -> usize {
    let mut next = 0;
    move |_| {
        next = (next + 1) % flows;
        next.wrapping_mul(0x9e37_79b1)
    }
}

fn median(mut round: impl FnMut() -> f64) -> f64 {
    let mut all: Vec<f64> = (0..9).map(|_| round()).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn per_frame(ticks: u64) -> f64 {
    ticks as f64 / (BURSTS * BURST) as f64
}

fn done(flow: &Dataflow) -> u64 {
    (0..flow.workers()).map(|number| flow.work(number).done.get()).sum()
}

fn pool() -> Result<Pool, buf::PoolError> {
    Pool::new(&PoolConfig { buffers: 8192, locks: PoolLocks::Light, ..PoolConfig::default() })
}

/// Measures only taking and dropping frames, in ticks per frame.
fn bare(pool: &Pool) -> f64 {
    let mut burst = Burst::new();
    let from = tsc::ticks();
    for _ in 0..BURSTS {
        pool.get_burst(BURST, &mut burst);
        work(0)(0, &mut burst, Instant::ZERO);
    }
    per_frame(tsc::ticks() - from)
}

fn one_thread(pool: &Pool, flows: usize) -> f64 {
    let (mut dispatcher, mut workers) = dataflow(&Config::default(), 1);
    let (mut burst, mut lane_of) = (Burst::new(), spread(flows));
    let from = tsc::ticks();
    for _ in 0..BURSTS {
        pool.get_burst(BURST, &mut burst);
        dispatcher.post(&mut burst, &mut lane_of);
        while workers[0].turn(&mut work(0), || Instant::ZERO) > 0 {}
    }
    per_frame(tsc::ticks() - from)
}

fn post_all(dispatcher: &mut Dispatcher, pool: &Pool, flows: usize) {
    let (mut burst, mut lane_of) = (Burst::new(), spread(flows));
    for _ in 0..BURSTS {
        while dispatcher.flow().posted.posted.get() - done(dispatcher.flow()) > WINDOW {
            std::thread::yield_now();
        }
        pool.get_burst(BURST - burst.len(), &mut burst);
        dispatcher.post(&mut burst, &mut lane_of);
    }
}

fn threads(pool: &Pool, workers: usize, flows: usize, cost: u64) -> Result<(f64, String), Box<dyn Error>> {
    let works: Vec<_> = (0..workers).map(|_| work(cost)).collect();
    let config = Config { room: WINDOW as usize * 2, looks: 50, ..Config::default() };
    let (mut dispatcher, crew) = Crew::spawn("w", &config, works, &Clock::live(Strategy::TscScaled))?;
    let flow = dispatcher.flow().clone();
    let from = tsc::ticks();
    post_all(&mut dispatcher, pool, flows);
    drop(dispatcher);
    crew.join();
    let took = per_frame(tsc::ticks() - from);
    let audit = flow.audit();
    assert!(audit.holds() && audit.dropped == 0, "{audit:?}");
    let bursts = BURSTS as f64;
    let sum =
        |of: fn(&WorkCounts) -> u64| (0..workers).map(|number| of(flow.work(number))).sum::<u64>() as f64 / bursts;
    let wakeups = flow.posted.wakeups.get() as f64 / bursts + sum(|c| c.wakeups.get());
    let note = format!(
        "a burst: {:.2} tasks, {:.2} + {:.2} locks, {wakeups:.3} wakeups, {:.3} sleeps",
        sum(|c| c.tasks.get()),
        flow.posted.locks.get() as f64 / bursts,
        sum(|c| c.locks.get()),
        sum(|c| c.sleeps.get())
    );
    Ok((took, note))
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = pool()?;
    let bare = median(|| bare(&pool));
    println!("take and drop alone: {bare:.1} ticks a frame");
    for flows in [1, 8, 256] {
        let all = median(|| one_thread(&pool, flows));
        println!("one thread, {flows} flows: {:.1} ticks a frame beside that", all - bare);
    }
    for cost in [0, 1000] {
        for workers in [1, 2] {
            for flows in [1, 8, 256] {
                let mut note = String::new();
                let mut round = || threads(&pool, workers, flows, cost).inspect(|(_, last)| note.clone_from(last));
                let ticks = median(|| round().map_or(f64::NAN, |(ticks, _)| ticks));
                println!("{workers} workers, {flows} flows, {cost} ticks of work: {ticks:.1} ticks a frame; {note}");
            }
        }
    }
    Ok(())
}
