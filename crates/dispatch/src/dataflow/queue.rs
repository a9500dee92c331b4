//! Scheduling of lanes: which lanes are runnable, which worker has each of them, and which workers
//! sleep. All state that several threads access concurrently is here.
//!
//! ```text
//!              idle        runnable, or with a worker     the same, with NEWS set
//! announce     -> runnable   -> NEWS set                    unchanged
//! begin                      unchanged                      -> NEWS cleared
//! finish                     -> idle                        -> runnable, given back
//! The dispatcher puts frames into a lane's ring before it announces them, and a worker clears the
//! NEWS flag before it reads the ring. Dispatcher and worker each change the lane's state by one
//! read-modify-write, never by a load alone. The later of the two operations therefore reads the
//! effect of the earlier one: the worker either finds a frame in the ring, or finds NEWS set when
//! it finishes. With a load alone, each thread could miss the other's change, because the store
//! into the ring may still be in progress. Checked with loom (`cargo xtask loom`).

use buf::ring::Consumer;
#[cfg(loom)]
use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};
use std::collections::VecDeque;
use std::fmt;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};

/// Flag: the lane is in the queue of runnable lanes, or a worker has it.
const BUSY: u8 = 1;
/// Flag: frames were announced after a worker began to process the lane.
const NEWS: u8 = 2;

/// Request to the workers to end. Variants are ordered by increasing urgency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ending {
    /// No request: the workers continue.
    Never,
    /// The workers end when no lane is runnable.
    Finish,
    /// The workers end after their current task.
    Now,
}

#[derive(Debug)]
struct Runnable {
    lanes: VecDeque<u32>,
    /// Number of sleeping workers that have not been woken yet. It may include a worker that woke
    /// spuriously. That worker then gets one unnecessary wakeup.
    sleeping: usize,
    ending: Ending,
}

/// Queue of runnable lanes. It contains each lane at most once, so its length is bounded by the
/// number of lanes.
#[derive(Debug)]
pub struct Queue {
    states: Box<[AtomicU8]>,
    runnable: Mutex<Runnable>,
    /// Number of runnable lanes, which can be read without the lock.
    level: AtomicUsize,
    bell: Condvar,
    workers: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    pub fn new(lanes: usize, workers: usize) -> Queue {
        let runnable = Runnable { lanes: VecDeque::with_capacity(lanes), sleeping: 0, ending: Ending::Never };
        Queue {
            states: (0..lanes).map(|_| AtomicU8::new(0)).collect(),
            runnable: Mutex::new(runnable),
            level: AtomicUsize::new(0),
            bell: Condvar::new(),
            workers,
        }
    }

    fn state(&self, lane: u32) -> Option<&AtomicU8> {
        self.states.get(lane as usize)
    }

    /// Announces that the lane's ring has new frames. If this returns true, the lane was idle and
    /// the caller must [`enqueue`](Queue::enqueue) it.
    #[inline]
    pub fn announce(&self, lane: u32) -> bool {
        self.state(lane).is_some_and(|state| state.fetch_or(BUSY | NEWS, Ordering::AcqRel) & BUSY == 0)
    }

    /// Marks the start of a task on a lane that the worker has taken. The worker must call it
    /// before it reads the lane's ring.
    #[inline]
    pub fn begin(&self, lane: u32) {
        if let Some(state) = self.state(lane) {
            state.swap(BUSY, Ordering::AcqRel);
        }
    }

    /// Marks the end of a task on a lane. `more` reports whether the lane's ring still has frames.
    /// Returns whether the worker must return the lane to the queue of runnable lanes.
    #[inline]
    pub fn finish(&self, lane: u32, more: More) -> bool {
        let idle = |state: &AtomicU8| state.compare_exchange(BUSY, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        more == More::Frames || !self.state(lane).is_some_and(idle)
    }

    /// Adds runnable lanes, and wakes one sleeping worker per lane, or all of them if there are
    /// fewer than lanes. Returns the number of workers woken.
    pub fn enqueue(&self, lanes: &[u32]) -> usize {
        let mut runnable = lock(&self.runnable);
        runnable.lanes.extend(lanes);
        self.wake_workers(runnable, lanes.len())
    }

    /// Puts the lanes in `back` into the queue and takes up to `most` other lanes into `taken`.
    /// Leaves a fair share to the other workers. Returns the number of workers woken.
    pub fn exchange(&self, back: &mut Vec<u32>, taken: &mut VecDeque<u32>, most: usize) -> usize {
        let mut runnable = lock(&self.runnable);
        let wanted = back.len();
        runnable.lanes.extend(back.drain(..));
        if runnable.ending == Ending::Now {
            return 0;
        }
        let fair = runnable.lanes.len().div_ceil(self.workers).min(most);
        taken.extend(runnable.lanes.drain(..fair));
        let wanted = wanted.min(runnable.lanes.len());
        self.wake_workers(runnable, wanted)
    }

    /// Releases the lock, and wakes up to `wanted` sleeping workers.
    fn wake_workers(&self, mut runnable: MutexGuard<'_, Runnable>, wanted: usize) -> usize {
        let woken = wanted.min(runnable.sleeping);
        runnable.sleeping -= woken;
        self.level.store(runnable.lanes.len(), Ordering::Relaxed);
        drop(runnable);
        (0..woken).for_each(|_| self.bell.notify_one());
        woken
    }

    /// Returns whether a lane is probably runnable, without taking the lock.
    pub fn is_promising(&self) -> bool {
        self.level.load(Ordering::Relaxed) > 0
    }

    /// Sleeps until a lane is runnable or the worker must end. Returns which of these is the case,
    /// and whether the worker slept.
    pub fn sleep(&self) -> (Next, Slept) {
        let (mut runnable, mut slept) = (lock(&self.runnable), Slept::No);
        loop {
            match runnable.ending {
                Ending::Now => return (Next::End, slept),
                _ if !runnable.lanes.is_empty() => return (Next::Work, slept),
                Ending::Finish => return (Next::End, slept),
                Ending::Never => {}
            }
            runnable.sleeping = (runnable.sleeping + 1).min(self.workers);
            slept = Slept::Yes;
            runnable = self.bell.wait(runnable).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Cancels the request to end, so that new workers can start.
    pub fn resume(&self) {
        lock(&self.runnable).ending = Ending::Never;
    }

    /// Requests all workers to end. An earlier, more urgent request remains valid.
    pub fn end(&self, ending: Ending) {
        let mut runnable = lock(&self.runnable);
        runnable.ending = runnable.ending.max(ending);
        runnable.sleeping = 0;
        drop(runnable);
        self.bell.notify_all();
    }
}

/// State of a lane's ring at the end of a task: empty or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum More {
    /// The ring is empty.
    Nothing,
    /// The ring has more frames.
    Frames,
}

/// Next action of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// A lane is runnable. The worker continues.
    Work,
    /// The worker must end.
    End,
}

/// Outcome of a worker's attempt to sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slept {
    /// The worker did not sleep.
    No,
    /// The worker slept.
    Yes,
}

/// Consumer ends of the rings of all lanes. Each ring contains the waiting frames of one lane.
pub struct Lanes<T> {
    pub queue: Queue,
    /// One mutex per lane, locked by the worker that has the lane. It is contended only while
    /// waiting frames are counted or discarded.
    rings: Box<[Mutex<Consumer<T>>]>,
}

impl<T> Lanes<T> {
    pub fn new(rings: Vec<Consumer<T>>, workers: usize) -> Lanes<T> {
        Lanes { queue: Queue::new(rings.len(), workers), rings: rings.into_iter().map(Mutex::new).collect() }
    }

    /// Begins a task on a lane: takes up to `most` waiting frames, in order. Returns the number of
    /// frames taken, and whether more are waiting.
    #[inline]
    pub fn take(&self, lane: u32, most: usize, into: impl FnMut(T)) -> (usize, More) {
        self.queue.begin(lane);
        let Some(ring) = self.rings.get(lane as usize) else { return (0, More::Nothing) };
        let mut ring = lock(ring);
        let n = ring.pop_into(most, into);
        (n, if ring.ready() > 0 { More::Frames } else { More::Nothing })
    }

    /// Drops the frames waiting in a lane, even if a worker has the lane. That worker may then find
    /// the lane empty. Returns the number of frames dropped.
    pub fn discard(&self, lane: usize) -> usize {
        self.rings.get(lane).map_or(0, |ring| lock(ring).pop_into(usize::MAX, drop))
    }

    /// Returns the number of frames waiting in all lanes.
    pub fn held(&self) -> usize {
        self.rings.iter().map(|ring| lock(ring).level()).sum()
    }
}

impl<T> fmt::Debug for Lanes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("lanes", &self.rings.len()).finish_non_exhaustive()
    }
}
