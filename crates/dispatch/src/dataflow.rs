//! Dataflow: one loop dispatches bursts of frames, and workers process them. The report bridge2004
//! requested this: "one processor that quickly determines the tasks that need work and then posts
//! the results so that other processors can grab one task each".
//!
//! ```text
//! Dispatcher::post    puts each frame of a burst into a lane's ring, by the hash of its flow;
//!                     if the ring is full, drops and counts it
//!   announce          makes idle lanes runnable, all under one lock; wakes sleeping workers
//! Worker::turn        takes runnable lanes, oldest first, and gives back unfinished ones: one lock
//!   Work::run         a task: up to `burst` frames of one lane, in order
//!   finish            marks the lane idle, or runnable again (last) if frames arrived meanwhile
//! ```
//! A lane is a queue of frames, shared by all flows whose hash selects it. Only one worker at a
//! time processes a lane, and the lane's ring keeps the order of frames, so each flow stays in
//! order. Any worker may take any lane. The state that two threads access concurrently is in
//! [`queue`], which is checked with loom. A worker passes its output on before another worker gets
//! the lane. The next stage therefore also receives each flow in order if it processes the calls of
//! all workers in sequence, for example under a lock. It does not if each worker passes frames to
//! it through a ring of its own.
//!
//! A worker that panics loses the frames of its current task, which are counted. The other workers
//! take over its lanes ([`Crew::join`] reports the panic). The released program aborts on a panic,
//! so this does not apply to it.

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

/// Maximum number of lanes.
pub const LANES_MAX: usize = 1 << 16;

/// Configuration of a dataflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Number of lanes, rounded up to a power of two. It should be much larger than the number of
    /// workers, so that flows seldom share a lane.
    pub lanes: usize,
    /// Maximum number of frames waiting in a lane, rounded up to a power of two. Frames beyond it
    /// are dropped.
    pub room: usize,
    /// Maximum number of frames that a worker processes in one task, at most 256.
    pub burst: usize,
    /// Maximum number of lanes that a worker takes each time it locks the list of runnable lanes.
    /// It takes fewer if too few would remain for the other workers.
    pub take: usize,
    /// Number of times that an idle worker checks for a runnable lane before it sleeps. It yields
    /// the processor each time.
    pub looks: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { lanes: 256, room: 256, burst: 32, take: 8, looks: 0 }
    }
}

stats::counters! {
    /// Counters of the dispatcher of a dataflow.
    pub struct PostCounts at "dataflow.post" {
        /// Frames passed to the dispatcher.
        offered,
        /// Frames put into lanes, the queues from which workers take them.
        posted,
        /// Dropped: the frame's lane was full.
        lane_full,
        /// Dropped: all workers have ended.
        no_worker,
        /// Dropped: the frame waited in a lane that the dispatcher emptied.
        discarded,
        /// Bursts dispatched.
        bursts,
        /// Acquisitions of the lock of the list of runnable lanes: one per burst, or none if all
        /// lanes of the burst were runnable already.
        locks,
        /// Times that a sleeping worker was woken.
        wakeups,
    }
}

stats::counters! {
    /// Counters of one worker of a dataflow.
    pub struct WorkCounts at "dataflow.work" {
        /// Tasks run. A task is a burst of frames from one lane.
        tasks,
        /// Frames taken from lanes.
        taken,
        /// Frames processed completely.
        done,
        /// Dropped: the work function left the frame in the burst.
        unfinished,
        /// Dropped: the worker panicked during the task.
        lost,
        /// Times that a lane was returned to the list of runnable lanes, because it still had
        /// frames or had received more.
        again,
        /// Lock acquisitions: one per turn for the list of runnable lanes, and one per task for the
        /// ring of a lane, which is not contended.
        locks,
        /// Times that another worker was woken for a lane that this worker returned.
        wakeups,
        /// Times that the worker slept.
        sleeps,
    }
}

/// Totals of frames offered, processed, dropped and waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Frames passed to the dispatcher.
    pub offered: u64,
    /// Frames processed completely.
    pub done: u64,
    /// Frames dropped, for any reason.
    pub dropped: u64,
    /// Frames waiting in lanes.
    pub held: u64,
}

impl Audit {
    /// Returns whether the totals balance. They always do while no worker is running a task.
    pub fn holds(&self) -> bool {
        self.offered == self.done + self.dropped + self.held
    }
}

/// State shared by the dispatcher, the workers and observers.
#[derive(Debug)]
pub struct Dataflow {
    lanes: Lanes<Frame>,
    config: Config,
    /// Counters of the dispatcher's work.
    pub posted: PostCounts,
    worked: Shards<WorkCounts>,
    workers: usize,
    alive: AtomicUsize,
}

impl Dataflow {
    /// Returns the counters of worker `number`.
    pub fn work(&self, number: usize) -> &WorkCounts {
        self.worked.at(number)
    }

    /// Returns the number of workers that were created, including those that have ended.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the number of workers that have not ended.
    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::Acquire)
    }

    /// Returns the number of lanes.
    pub fn lanes(&self) -> usize {
        self.config.lanes
    }

    /// Returns the sum of each counter over all workers, by name.
    pub fn worked(&self) -> Vec<stats::Entry> {
        self.worked.snapshot()
    }

    /// Returns the totals of frames offered, processed, dropped and waiting.
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

    /// Makes the workers end when no lane is runnable. The caller must not post frames afterwards.
    pub fn finish(&self) {
        self.lanes.queue.end(Ending::Finish);
    }

    /// Cancels [`Dataflow::finish`] and [`Dataflow::stop`], so that workers can be started again.
    pub fn resume(&self) {
        self.lanes.queue.resume();
    }

    /// Blocks worker `number` until a lane is runnable. Returns `false` if the worker must end.
    /// Equivalent to [`Worker::sleep`], for callers without access to the worker.
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

    /// Makes the workers end after their current task. Waiting frames stay in their lanes, and are
    /// dropped together with this value.
    pub fn stop(&self) {
        self.lanes.queue.end(Ending::Now);
    }
}

/// Creates a dispatcher and `workers` workers. `config` specifies the number of lanes and the
/// maximum number of frames in each.
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

/// The dispatching side of a dataflow. When it is dropped, the workers process the remaining frames
/// and end.
#[derive(Debug)]
pub struct Dispatcher {
    flow: Arc<Dataflow>,
    ends: Vec<Producer<Frame>>,
    /// Lanes that received frames of the current burst, each listed once.
    touched: Vec<u32>,
    /// For each lane, the number of the last burst with frames for it.
    marks: Vec<u64>,
    burst: u64,
}

impl Dispatcher {
    fn new(flow: Arc<Dataflow>, ends: Vec<Producer<Frame>>) -> Dispatcher {
        let (touched, marks) = (Vec::with_capacity(BURST_MAX), vec![0; ends.len()]);
        Dispatcher { flow, ends, touched, marks, burst: 0 }
    }

    /// Returns the state shared with the workers.
    pub fn flow(&self) -> &Arc<Dataflow> {
        &self.flow
    }

    /// Dispatches all frames of `burst`. Each frame goes to the lane with the number that `lane_of`
    /// returns (the hash of its flow), modulo the number of lanes. Returns the number of frames put
    /// into lanes. All others are dropped and counted.
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

    /// Drops and counts the frames waiting in `lane`. Frames that a worker has already taken out
    /// are not affected.
    pub fn discard(&mut self, lane: usize) {
        self.flow.posted.discarded.add(self.flow.lanes.discard(lane) as u64);
    }

    /// Makes those lanes runnable that received frames of the current burst and were idle.
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
