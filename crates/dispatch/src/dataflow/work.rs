//! A worker of a dataflow: takes runnable lanes, processes a burst of frames from each, and returns
//! lanes that still have frames.

use super::Dataflow;
use super::queue::Ending;
use buf::Burst;
use clock::Instant;
use std::collections::VecDeque;
use std::sync::Arc;

/// Function by which a worker processes frames.
pub trait Work {
    /// Processes one task, which is a burst of frames of one lane, oldest first, at time `now`. It
    /// must take the frames out of the burst. Frames left in it are dropped and counted.
    fn run(&mut self, lane: usize, burst: &mut Burst, now: Instant);
}

impl<F: FnMut(usize, &mut Burst, Instant)> Work for F {
    fn run(&mut self, lane: usize, burst: &mut Burst, now: Instant) {
        self(lane, burst, now);
    }
}

/// A worker. When it is dropped, even by a panic, other workers can take its lanes.
#[derive(Debug)]
pub struct Worker {
    number: usize,
    flow: Arc<Dataflow>,
    /// Lanes that the worker has taken but not yet processed.
    taken: VecDeque<u32>,
    /// Lanes that the worker returns to the queue in its next turn.
    back: Vec<u32>,
    /// The lane of the current task, and its number of frames.
    task: Option<(u32, usize)>,
    burst: Burst,
}

impl Worker {
    pub(super) fn new(number: usize, flow: Arc<Dataflow>) -> Worker {
        let (taken, back) = (VecDeque::with_capacity(flow.config.take), Vec::with_capacity(flow.config.take + 1));
        Worker { number, flow, taken, back, task: None, burst: Burst::new() }
    }

    /// Returns the worker's number, counted from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the state shared with the dispatcher and other workers.
    pub fn flow(&self) -> &Arc<Dataflow> {
        &self.flow
    }

    /// Runs one turn: takes a share of the runnable lanes, and processes a burst of each. Returns
    /// the number of lanes processed. Never sleeps.
    pub fn turn(&mut self, work: &mut impl Work, clock: impl Fn() -> Instant) -> usize {
        let counts = self.flow.work(self.number);
        let woken = self.flow.lanes.queue.exchange(&mut self.back, &mut self.taken, self.flow.config.take);
        counts.locks.bump();
        counts.wakeups.add(woken as u64);
        let tasks = self.taken.len();
        while let Some(lane) = self.taken.pop_front() {
            self.task(lane, work, clock());
        }
        tasks
    }

    fn task(&mut self, lane: u32, work: &mut impl Work, now: Instant) {
        let (lanes, counts, burst) = (&self.flow.lanes, self.flow.work(self.number), &mut self.burst);
        self.task = Some((lane, 0));
        let (n, more) = lanes.take(lane, self.flow.config.burst, |frame| burst.put(frame, || counts.lost.bump())); // the burst was empty
        self.task = Some((lane, n));
        counts.taken.add(n as u64);
        counts.locks.bump();
        counts.tasks.bump();
        work.run(lane as usize, &mut self.burst, now);
        self.task = None;
        let left = self.burst.len();
        counts.done.add(n.saturating_sub(left) as u64);
        counts.unfinished.add(left as u64);
        self.burst.clear();
        if lanes.queue.finish(lane, more) {
            counts.again.bump();
            self.back.push(lane);
        }
    }

    /// Sleeps until a lane is runnable. Returns `false` if the worker must end.
    pub fn sleep(&mut self) -> bool {
        self.flow.rest(self.number)
    }

    /// Runs turns and sleeps between them, until the dispatcher is dropped and no frames are left,
    /// or until [`Dataflow::stop`].
    pub fn run(&mut self, work: &mut impl Work, clock: impl Fn() -> Instant) {
        while self.turn(work, &clock) > 0 || self.sleep() {}
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some((lane, n)) = self.task.take() {
            self.flow.work(self.number).lost.add(n as u64);
            self.back.push(lane);
        }
        self.back.extend(self.taken.drain(..));
        let left = self.flow.alive.fetch_sub(1, std::sync::atomic::Ordering::AcqRel) - 1;
        self.flow.lanes.queue.enqueue(&self.back);
        if left == 0 {
            self.flow.lanes.queue.end(Ending::Now);
        }
    }
}
