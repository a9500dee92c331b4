//! `delay`: delays each frame and keeps the frames in order. [`Delay`] queues each frame until its
//! delay has passed. [`Later`] queues no frames. It adds the delay to their time stamps, and
//! another program sends them at these times.

pub use crate::queue::{Full, Limit};

use crate::queue::Queue;
use crate::stage::{StageError, Timed};
use crate::{Frames, Stage, Time, flow};
use clock::{Duration, Instant};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::text::Stamp;

/// Stage that queues each frame for a delay.
#[derive(Debug)]
pub struct Delay {
    delay: Duration,
    jitter: Duration,
    /// State of the random number generator.
    seed: u64,
    now: Instant,
    /// Due time of the most recently queued frame. No later frame is due earlier, so the order is
    /// kept.
    last: Instant,
    queue: Queue,
}

impl Delay {
    /// Creates a stage that delays each frame by `delay` plus a random value between `-jitter` and
    /// `jitter`, derived from `seed`. `limit` bounds the memory of the queued frames.
    pub fn new(delay: Duration, jitter: Duration, seed: u64, limit: Limit) -> Delay {
        let (now, last) = (Instant::ZERO, Instant::ZERO);
        Delay { delay, jitter, seed, now, last, queue: Queue::new(limit) }
    }

    fn due(&mut self) -> Instant {
        let spread = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX).saturating_mul(2);
        let more = if spread == 0 {
            0
        } else {
            self.seed = flow::scatter(self.seed);
            self.seed % spread.saturating_add(1)
        };
        let late = (self.delay + Duration::from_nanos(more)).saturating_sub(self.jitter);
        self.last = self.last.max(self.now.after(late));
        self.last
    }
}

impl Stage for Delay {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        for index in 0..frames.len() {
            let due = self.due();
            self.queue.push(frames, index, due);
        }
        frames.clear();
        while !frames.is_full() && self.queue.first().is_some_and(|(due, _)| due <= self.now) {
            self.queue.pop(frames);
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Frames) -> Result<(), StageError> {
        self.queue.clear();
        Ok(())
    }

    fn timed(&mut self) -> Option<&mut dyn Timed> {
        Some(self)
    }

    fn report(&self) -> Option<String> {
        self.queue.report("delay")
    }
}

impl Timed for Delay {
    fn at(&mut self, now: Instant) {
        self.now = now;
    }

    fn next_event(&self) -> Option<Instant> {
        self.queue.first().map(|(due, _)| due)
    }

    fn held(&self) -> usize {
        self.queue.len()
    }

    fn is_full(&self) -> bool {
        self.queue.is_full()
    }
}

/// Stage that adds a delay to the time stamps of frames. It queues no frames. The program that
/// sends them waits for the time in the stamp.
#[derive(Debug, Clone)]
pub struct Later {
    delay: Duration,
    tick_ns: u64,
    unstamped: Arc<AtomicU64>,
}

impl Later {
    /// Creates a stage that adds `delay` to stamps with ticks of `tick_ns` nanoseconds.
    pub fn new(delay: Duration, tick_ns: u64) -> Later {
        Later { delay, tick_ns: tick_ns.max(1), unstamped: Arc::default() }
    }
}

impl Stage for Later {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        let ns = u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX);
        let ticks = ns / self.tick_ns;
        let mut unstamped = 0;
        frames.for_each(|frame| match frame.time() {
            // Only the tick count changes, and may wrap. The register number and the reset flag
            // stay the same.
            Time::Stamp(stamp) if !stamp.at_once() => {
                let later = stamp.ticks().wrapping_add(ticks) & Stamp::TICKS;
                frame.set_time(Time::Stamp(Stamp(stamp.0 & !Stamp::TICKS | later)));
            }
            Time::Wall(at) => frame.set_time(Time::Wall(at.saturating_add(ns))),
            Time::Stamp(_) | Time::None => unstamped += 1,
        });
        self.unstamped.fetch_add(unstamped, Relaxed);
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn Stage>> {
        Some(Box::new(self.clone()))
    }

    fn report(&self) -> Option<String> {
        let unstamped = self.unstamped.load(Relaxed);
        (unstamped > 0).then(|| format!("delay: {unstamped} frames without a stamp were not delayed"))
    }
}

#[cfg(test)]
mod tests;
