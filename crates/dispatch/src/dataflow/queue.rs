//! Scheduling of lanes: which are runnable, which worker has them, which workers sleep. All state
//! accessed concurrently is here.
//!
//! ```text
//!              idle        runnable, or with a worker     the same, with NEWS set
//! announce     -> runnable   -> NEWS set                    unchanged
//! begin                      unchanged                      -> NEWS cleared
//! finish                     -> idle                        -> runnable, given back
//! ```
//! The dispatcher puts frames into a lane's ring before it announces them; a worker clears the NEWS
//! flag before it reads the ring. Both change the state by one read-modify-write each, never by a
//! load alone. The later of the two operations sees the effect of the earlier, so the worker either
//! finds a frame in the ring or finds NEWS set when it finishes. (With a load alone each could miss
//! the other, because the store into the ring may still be in progress.) Checked with loom (`cargo
//! xtask loom`).

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

/// The lane is in the queue, or a worker has it.
const BUSY: u8 = 1;
/// Frames were announced since a worker began with the lane.
const NEWS: u8 = 2;

/// Request to the workers to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ending {
    /// Workers do not end.
    Never,
    /// Workers end when nothing is runnable.
    Finish,
    /// Workers end at once.
    Now,
}

#[derive(Debug)]
struct Runnable {
    lanes: VecDeque<u32>,
    /// Sleeping workers that were not woken yet. May include a worker that woke spuriously, which
    /// then gets one needless wakeup.
    sleeping: usize,
    ending: Ending,
}

/// Queue of runnable lanes, each at most once, so bounded by the number of lanes.
#[derive(Debug)]
pub struct Queue {
    states: Box<[AtomicU8]>,
    runnable: Mutex<Runnable>,
    /// Number of runnable lanes, readable without the lock.
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

    /// Announces frames in the lane's ring. If this returns true, the lane was idle and the caller
    /// must [`enqueue`](Queue::enqueue) it.
    #[inline]
    pub fn announce(&self, lane: u32) -> bool {
        self.state(lane).is_some_and(|state| state.fetch_or(BUSY | NEWS, Ordering::AcqRel) & BUSY == 0)
    }

    /// Marks the start of a task on a lane that the caller has taken, before it reads the ring.
    #[inline]
    pub fn begin(&self, lane: u32) {
        if let Some(state) = self.state(lane) {
            state.swap(BUSY, Ordering::AcqRel);
        }
    }

    /// Marks the end of a task on a lane; `more` is whether its ring still had frames. Returns
    /// whether the caller must give the lane back.
    #[inline]
    pub fn finish(&self, lane: u32, more: More) -> bool {
        let idle = |state: &AtomicU8| state.compare_exchange(BUSY, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        more == More::Frames || !self.state(lane).is_some_and(idle)
    }

    /// Adds runnable lanes, and wakes a sleeping worker for each, if any. Returns the number of
    /// workers woken.
    pub fn enqueue(&self, lanes: &[u32]) -> usize {
        let mut runnable = lock(&self.runnable);
        runnable.lanes.extend(lanes);
        self.wake_workers(runnable, lanes.len())
    }

    /// Gives lanes back and takes up to `most` others, leaving a fair share to the other workers.
    /// Returns the number of workers woken.
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

    /// Returns whether a lane seems runnable, without taking the lock.
    pub fn is_promising(&self) -> bool {
        self.level.load(Ordering::Relaxed) > 0
    }

    /// Sleeps until a lane is runnable or the worker must end. Returns which, and whether it slept.
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

    /// Cancels the request to end, for workers that start from now on.
    pub fn resume(&self) {
        lock(&self.runnable).ending = Ending::Never;
    }

    /// Requests all workers to end. A more urgent earlier request stays in force.
    pub fn end(&self, ending: Ending) {
        let mut runnable = lock(&self.runnable);
        runnable.ending = runnable.ending.max(ending);
        runnable.sleeping = 0;
        drop(runnable);
        self.bell.notify_all();
    }
}

/// State of a lane's ring at the end of a task.
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
    /// There is work.
    Work,
    /// There will be no more work: end.
    End,
}

/// Record of a worker's sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slept {
    /// The worker did not sleep.
    No,
    /// The worker slept.
    Yes,
}

/// Consumer ends of all lanes' rings.
pub struct Lanes<T> {
    pub queue: Queue,
    /// Each is locked by the worker that the queue gave the lane to. It is contended only by
    /// counting or discarding.
    rings: Box<[Mutex<Consumer<T>>]>,
}

impl<T> Lanes<T> {
    pub fn new(rings: Vec<Consumer<T>>, workers: usize) -> Lanes<T> {
        Lanes { queue: Queue::new(rings.len(), workers), rings: rings.into_iter().map(Mutex::new).collect() }
    }

    /// Begins a task on a lane: takes up to `most` waiting frames, in order. Returns how many, and
    /// whether there are more.
    #[inline]
    pub fn take(&self, lane: u32, most: usize, into: impl FnMut(T)) -> (usize, More) {
        self.queue.begin(lane);
        let Some(ring) = self.rings.get(lane as usize) else { return (0, More::Nothing) };
        let mut ring = lock(ring);
        let n = ring.pop_into(most, into);
        (n, if ring.ready() > 0 { More::Frames } else { More::Nothing })
    }

    /// Drops the frames waiting in a lane, even if a worker has the lane; that worker may then find
    /// it empty. Returns how many were dropped.
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
