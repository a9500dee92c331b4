//! Which lanes are runnable, who has them, who sleeps: what two threads touch at once.
//!
//! ```text
//!                idle        runnable, or with a worker     the same, and news came
//!  announce      -> runnable   -> news                        stays
//!  begin                       stays                          -> with a worker
//!  finish                      -> idle                        -> runnable, given back
//! ```
//! The poster puts frames into a lane's ring before it announces them; a worker clears the news before it looks into the ring. Both change the
//! state by one read-modify-write each, never by a look alone: whichever comes second sees what the other did before, so that a frame
//! is either seen by the worker or is news to it when it finishes. (With a look alone both could miss each other: the store into the
//! ring may still be under way.) Checked with loom (`cargo xtask loom`).

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

/// The lane is in the queue, or with a worker.
const BUSY: u8 = 1;
/// Frames were announced since a worker began.
const NEWS: u8 = 2;

/// Whether workers are to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ending {
    /// They are not.
    Never,
    /// When nothing is runnable.
    Finish,
    /// At once.
    Now,
}

#[derive(Debug)]
struct Runnable {
    lanes: VecDeque<u32>,
    /// Workers that sleep and have not been woken. A worker that woke by itself may be among them: it is woken once in vain.
    sleeping: usize,
    ending: Ending,
}

/// Runnable lanes, each once: so it is bounded by their number.
#[derive(Debug)]
pub struct Queue {
    states: Box<[AtomicU8]>,
    runnable: Mutex<Runnable>,
    /// How many are runnable, for a look without the lock.
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

    /// There are frames in the lane's ring. If it was idle the caller is to [`enqueue`](Queue::enqueue) it.
    #[inline]
    pub fn announce(&self, lane: u32) -> bool {
        self.state(lane).is_some_and(|state| state.fetch_or(BUSY | NEWS, Ordering::AcqRel) & BUSY == 0)
    }

    /// The caller, who has taken the lane, will look into its ring.
    #[inline]
    pub fn begin(&self, lane: u32) {
        if let Some(state) = self.state(lane) {
            state.swap(BUSY, Ordering::AcqRel);
        }
    }

    /// The caller is done with the lane, for now; there is `more` in its ring, as far as it has seen. Is it to give the lane back?
    #[inline]
    pub fn finish(&self, lane: u32, more: More) -> bool {
        let idle = |state: &AtomicU8| state.compare_exchange(BUSY, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        more == More::Frames || !self.state(lane).is_some_and(idle)
    }

    /// Adds runnable lanes, and wakes a worker for each as far as some sleep; says how many it woke.
    pub fn enqueue(&self, lanes: &[u32]) -> usize {
        let mut runnable = lock(&self.runnable);
        runnable.lanes.extend(lanes);
        self.settle(runnable, lanes.len())
    }

    /// Gives lanes back, and takes up to `most` others: as many as leave the other workers theirs. Says how many workers it woke.
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
        self.settle(runnable, wanted)
    }

    /// Lets go of the lock, and wakes `wanted` workers if so many sleep.
    fn settle(&self, mut runnable: MutexGuard<'_, Runnable>, wanted: usize) -> usize {
        let woken = wanted.min(runnable.sleeping);
        runnable.sleeping -= woken;
        self.level.store(runnable.lanes.len(), Ordering::Relaxed);
        drop(runnable);
        (0..woken).for_each(|_| self.bell.notify_one());
        woken
    }

    /// Is something runnable, as far as can be seen without the lock?
    pub fn is_promising(&self) -> bool {
        self.level.load(Ordering::Relaxed) > 0
    }

    /// Sleeps until something is runnable, or it is time to end; says which, and whether it has slept.
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

    /// Workers that begin from now on do not end.
    pub fn resume(&self) {
        lock(&self.runnable).ending = Ending::Never;
    }

    /// Tells all workers to end; what was said more urgently stays.
    pub fn end(&self, ending: Ending) {
        let mut runnable = lock(&self.runnable);
        runnable.ending = runnable.ending.max(ending);
        runnable.sleeping = 0;
        drop(runnable);
        self.bell.notify_all();
    }
}

/// What a worker has seen in the ring of a lane it is done with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum More {
    /// Nothing.
    Nothing,
    /// Frames.
    Frames,
}

/// What a worker is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// There is something.
    Work,
    /// There will be nothing any more.
    End,
}

/// Has a worker slept?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slept {
    /// It has not.
    No,
    /// It has.
    Yes,
}

/// The reading ends of all lanes.
pub struct Lanes<T> {
    pub queue: Queue,
    /// Each is locked by whom the queue gave the lane: nobody ever waits, but for who counts or discards.
    rings: Box<[Mutex<Consumer<T>>]>,
}

impl<T> Lanes<T> {
    pub fn new(rings: Vec<Consumer<T>>, workers: usize) -> Lanes<T> {
        Lanes { queue: Queue::new(rings.len(), workers), rings: rings.into_iter().map(Mutex::new).collect() }
    }

    /// Begins with a lane that was taken: up to `most` of what waits in it, in order. Says how many, and whether there is more.
    #[inline]
    pub fn take(&self, lane: u32, most: usize, into: impl FnMut(T)) -> (usize, More) {
        self.queue.begin(lane);
        let Some(ring) = self.rings.get(lane as usize) else { return (0, More::Nothing) };
        let mut ring = lock(ring);
        let n = ring.pop_into(most, into);
        (n, if ring.ready() > 0 { More::Frames } else { More::Nothing })
    }

    /// Drops what waits in a lane, whoever has it; says how many those were. A worker that has taken the lane may find nothing in it.
    pub fn discard(&self, lane: usize) -> usize {
        self.rings.get(lane).map_or(0, |ring| lock(ring).pop_into(usize::MAX, drop))
    }

    /// How many wait in all lanes.
    pub fn held(&self) -> usize {
        self.rings.iter().map(|ring| lock(ring).level()).sum()
    }
}

impl<T> fmt::Debug for Lanes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("lanes", &self.rings.len()).finish_non_exhaustive()
    }
}
