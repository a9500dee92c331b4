//! Dataflow: one loop finds the work and posts it, workers take it (bridge2004's wish: "one processor that quickly determines the tasks
//! that need work and then posts the results so that other processors can grab one task each").
//!
//! ```text
//!  Dispatcher::post    a burst: each frame into the ring of its lane, by the hash of its flow; full: dropped, counted
//!    announce          idle lanes become runnable, all of them under one lock; who sleeps is woken
//!  Worker::turn        runnable lanes, the oldest first, and what is to go on is given back: one lock
//!    Work::run         a task: up to `burst` frames of one lane, in order
//!    finish            nothing came meanwhile: idle; else runnable once more, behind the others
//! ```
//! A lane is with one worker at a time, and its ring keeps order: so does each flow. Any worker takes any lane. What two threads touch at once
//! is [`queue`]; loom has seen it. What a worker passes on to others it passes on before the next worker has the lane: order is kept beyond a
//! task if that place keeps the order in which it is called (a lock does, one ring for each worker does not).
//!
//! A worker that panics loses the frames it had in hand, counted; its lanes go to the others ([`Crew::join`] says who it was). The
//! shipped program aborts on a panic and gets no further.

mod crew;
mod queue;
#[cfg(test)]
mod tests;
mod work;

pub use crew::{Crew, Panicked};
pub use work::{Work, Worker};

use buf::ring::{Producer, ring};
use buf::{BURST_MAX, Burst, Frame};
use queue::{Ending, Lanes, Next, Slept};
use stats::Shards;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most lanes there can be.
pub const LANES_MAX: usize = 1 << 16;

/// Sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Lanes, rounded up to a power of two: many more than workers, so that flows that share one seldom matter.
    pub lanes: usize,
    /// Frames that may wait in a lane, rounded up to a power of two; more are dropped.
    pub room: usize,
    /// Frames of a task at most, 256 at most.
    pub burst: usize,
    /// Lanes that a worker takes at a time, at most, and only as many as leave the other workers theirs: a lock for all of them.
    pub take: usize,
    /// How often a worker looks again, giving others the processor, before it sleeps.
    pub looks: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { lanes: 256, room: 256, burst: 32, take: 8, looks: 0 }
    }
}

stats::counters! {
    /// What a dispatcher did.
    pub struct PostCounts at "dataflow.post" {
        /// Frames that were to be posted.
        offered,
        /// Frames posted.
        posted,
        /// Dropped: as many frames wait in its lane as may.
        lane_full,
        /// Dropped: no worker is left.
        no_worker,
        /// Dropped: the dispatcher took them back from their lane.
        discarded,
        /// Bursts posted.
        bursts,
        /// Times the lock of the runnable lanes was taken: once for a burst, or not at all if its lanes were runnable already.
        locks,
        /// Workers woken.
        wakeups,
    }
}

stats::counters! {
    /// What a worker did.
    pub struct WorkCounts at "dataflow.work" {
        /// Bursts of one lane that were worked on.
        tasks,
        /// Frames taken from lanes.
        taken,
        /// Frames that the work was done with.
        done,
        /// Dropped: the work left them in the burst.
        unfinished,
        /// Dropped: in hand when the worker panicked.
        lost,
        /// Times that a lane had more, or got more meanwhile, and was given back.
        again,
        /// Locks taken: of the runnable lanes, once a turn; of a lane, once a task and never contended.
        locks,
        /// Other workers woken, for lanes given back.
        wakeups,
        /// Sleeps.
        sleeps,
    }
}

/// Frames in and what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Were to be posted.
    pub offered: u64,
    /// Worked on to the end.
    pub done: u64,
    /// Dropped, for all reasons.
    pub dropped: u64,
    /// Wait in lanes.
    pub held: u64,
}

impl Audit {
    /// Does it add up? At any moment at which no worker has a task in hand.
    pub fn holds(&self) -> bool {
        self.offered == self.done + self.dropped + self.held
    }
}

/// What dispatcher, workers and those who look at them share.
#[derive(Debug)]
pub struct Dataflow {
    lanes: Lanes<Frame>,
    config: Config,
    /// The dispatcher's counters.
    pub posted: PostCounts,
    worked: Shards<WorkCounts>,
    workers: usize,
    alive: AtomicUsize,
}

impl Dataflow {
    /// The counters of worker `number`.
    pub fn work(&self, number: usize) -> &WorkCounts {
        self.worked.at(number)
    }

    /// Workers there were at the start.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Workers that have not ended.
    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::Acquire)
    }

    /// Lanes.
    pub fn lanes(&self) -> usize {
        self.config.lanes
    }

    /// The counters of all workers together, by name.
    pub fn worked(&self) -> Vec<stats::Entry> {
        self.worked.snapshot()
    }

    /// Adds up what was offered and what became of it.
    pub fn audit(&self) -> Audit {
        let post = &self.posted;
        let mut all = Audit {
            offered: post.offered.get(),
            dropped: post.lane_full.get() + post.no_worker.get() + post.discarded.get(),
            held: self.lanes.held() as u64,
            done: 0,
        };
        for work in self.worked.iter() {
            all.done += work.done.get();
            all.dropped += work.unfinished.get() + work.lost.get();
        }
        all
    }

    /// Tells the workers to end when nothing is left to do. Nobody is to post any more.
    pub fn finish(&self) {
        self.lanes.queue.end(Ending::Finish);
    }

    /// Takes that back, for workers that begin again.
    pub fn resume(&self) {
        self.lanes.queue.resume();
    }

    /// Lets worker `number` sleep until there is something to do; `false`: there will be nothing any more. [`Worker::sleep`] for who does
    /// not have the worker at hand.
    pub fn rest(&self, number: usize) -> bool {
        let queue = &self.lanes.queue;
        for _ in 0..self.config.looks {
            if queue.is_promising() {
                break;
            }
            std::thread::yield_now();
        }
        let (next, slept) = queue.sleep();
        self.work(number).sleeps.add(u64::from(slept == Slept::Yes));
        next == Next::Work
    }

    /// Tells the workers to end after the task in hand; what waits goes on waiting, and is dropped with this.
    pub fn stop(&self) {
        self.lanes.queue.end(Ending::Now);
    }
}

/// A dispatcher and its workers. Lanes, and the frames in each, are bounded by `config`.
pub fn dataflow(config: &Config, workers: usize) -> (Dispatcher, Vec<Worker>) {
    let workers = workers.max(1);
    let lanes = config.lanes.clamp(1, LANES_MAX).next_power_of_two();
    let config = Config { lanes, burst: config.burst.clamp(1, BURST_MAX), take: config.take.max(1), ..*config };
    let (ends, rings) = (0..lanes).map(|_| ring(config.room)).unzip();
    let flow = Arc::new(Dataflow {
        lanes: Lanes::new(rings, workers),
        config,
        posted: PostCounts::default(),
        worked: Shards::new(workers),
        workers,
        alive: AtomicUsize::new(workers),
    });
    let all = (0..workers).map(|number| Worker::new(number, flow.clone())).collect();
    (Dispatcher::new(flow, ends), all)
}

/// Who finds the work. Its end is the workers', once they have done what is left.
#[derive(Debug)]
pub struct Dispatcher {
    flow: Arc<Dataflow>,
    ends: Vec<Producer<Frame>>,
    /// Lanes of the burst in hand, each once.
    touched: Vec<u32>,
    /// For each lane, the burst that touched it last.
    marks: Vec<u64>,
    burst: u64,
}

impl Dispatcher {
    fn new(flow: Arc<Dataflow>, ends: Vec<Producer<Frame>>) -> Dispatcher {
        let (touched, marks) = (Vec::with_capacity(BURST_MAX), vec![0; ends.len()]);
        Dispatcher { flow, ends, touched, marks, burst: 0 }
    }

    /// What it shares with its workers.
    pub fn flow(&self) -> &Arc<Dataflow> {
        &self.flow
    }

    /// Posts all frames of `burst`, each to the lane that `lane_of` says, modulo the number of lanes: the hash of its flow. Says how many
    /// were posted; the others are dropped, and counted.
    pub fn post(&mut self, burst: &mut Burst, mut lane_of: impl FnMut(&Frame) -> usize) -> usize {
        let offered = burst.len();
        self.flow.posted.offered.add(offered as u64);
        if self.flow.alive() == 0 {
            self.flow.posted.no_worker.add(offered as u64);
            burst.clear();
            return 0;
        }
        self.burst += 1;
        let posted = burst.drain().filter_map(|frame| self.put(lane_of(&frame), frame)).count();
        self.flow.posted.posted.add(posted as u64);
        self.flow.posted.lane_full.add((offered - posted) as u64);
        self.flow.posted.bursts.bump();
        self.announce();
        posted
    }

    #[inline]
    fn put(&mut self, hash: usize, frame: Frame) -> Option<()> {
        let lane = hash & (self.ends.len() - 1);
        self.ends.get_mut(lane)?.push(frame).ok()?;
        let mark = self.marks.get_mut(lane)?;
        if *mark != self.burst {
            *mark = self.burst;
            self.touched.push(lane as u32);
        }
        Some(())
    }

    /// Drops what waits in `lane`, counted. What a worker has in hand of it is that worker's.
    pub fn discard(&mut self, lane: usize) {
        self.flow.posted.discarded.add(self.flow.lanes.discard(lane) as u64);
    }

    /// Makes the lanes runnable that were idle.
    fn announce(&mut self) {
        let queue = &self.flow.lanes.queue;
        self.touched.retain(|lane| queue.announce(*lane));
        if !self.touched.is_empty() {
            self.flow.posted.locks.bump();
            self.flow.posted.wakeups.add(queue.enqueue(&self.touched) as u64);
            self.touched.clear();
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.flow.finish();
    }
}
