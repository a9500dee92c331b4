//! A workstream: a queue for each protocol, and the turn, which is the right to process the
//! workstream's items. Only one thread at a time can have the turn. All state that several threads
//! access concurrently is here.
//!
//! ```text
//!               idle            scheduled   running        dispatching (hybrid)
//! put           -> scheduled    unchanged   unchanged      unchanged
//! start                         -> running                 unchanged: the caller schedules later
//! next, empty                               -> idle
//! pause                                     -> idle, or scheduled if an item waits
//! begin         -> dispatching  refused     refused        refused
//! end                                                      -> idle, or scheduled if an item waits
//! ```
//! This is equivalent to FreeBSD's three flags. All changes are made under one lock. A caller
//! acquires the lock once for those items of a burst that go to this workstream, and the worker
//! once for a whole queue. Checked with loom (`cargo xtask loom`).

use super::{List, not_registered};
#[cfg(loom)]
use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};
use std::collections::VecDeque;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};

/// Thread that has the turn to process items of the workstream, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// No thread has the turn, and either no item waits or there is no worker.
    Idle,
    /// No thread has the turn yet, but the worker has been notified.
    Scheduled,
    /// The worker has the turn.
    Running,
    /// A caller has the turn, in hybrid mode.
    Dispatching,
}

/// Request to a worker to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ending {
    /// No request: the worker continues.
    Never,
    /// The worker ends when no item waits.
    Finish,
    /// The worker ends after the queue that it is processing.
    Now,
}

/// Next action of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Items wait. The worker continues.
    Work,
    /// The worker must end.
    End,
}

struct Queue<T> {
    items: List<T>,
    level: Level,
}

/// Length and counters of a queue.
#[derive(Clone, Copy, Default, Debug)]
pub struct Level {
    /// Number of items waiting.
    pub len: usize,
    /// Maximum number of items that have waited at one time.
    pub watermark: usize,
    /// Number of items put into the queue.
    pub queued: u64,
    /// Number of items refused because the queue was full.
    pub qdrops: u64,
    /// Number of items removed when the host ended.
    pub drained: u64,
}

struct State<T> {
    queues: Box<[Queue<T>]>,
    /// Mask of the protocols whose queue has items, one bit each.
    pending: u32,
    /// Mask of those protocols in `pending` that the worker has not yet visited in its round.
    round: u32,
    turn: Turn,
    ending: Ending,
    /// True if the workstream has a worker.
    claimed: bool,
    /// True if the worker sleeps and has not been woken yet.
    sleeping: bool,
    wakeups: u64,
    sleeps: u64,
    restarts: u64,
}

impl<T> State<T> {
    /// Schedules the worker unless a thread has the turn. Returns whether the worker must be woken.
    fn schedule(&mut self) -> bool {
        if self.turn != Turn::Idle || self.pending == 0 {
            return false;
        }
        self.turn = Turn::Scheduled;
        let wake = std::mem::take(&mut self.sleeping);
        self.wakeups += u64::from(wake);
        wake
    }
}

/// Queues of a workstream, and its turn. See the module documentation.
pub struct Workstream<T> {
    state: Mutex<State<T>>,
    /// True while the worker is scheduled. It can be read without the lock.
    scheduled: AtomicBool,
    bell: Condvar,
}

impl<T> Workstream<T> {
    pub fn new(protocols: usize) -> Workstream<T> {
        let queue = |_| Queue { items: VecDeque::new(), level: Level::default() };
        let state = State {
            queues: (0..protocols).map(queue).collect(),
            pending: 0,
            round: 0,
            turn: Turn::Idle,
            ending: Ending::Never,
            claimed: false,
            sleeping: false,
            wakeups: 0,
            sleeps: 0,
            restarts: 0,
        };
        Workstream { state: Mutex::new(state), scheduled: AtomicBool::new(false), bell: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Schedules the worker if necessary, releases the lock, and wakes the worker if it sleeps.
    fn finish_change(&self, mut state: MutexGuard<'_, State<T>>) {
        let wake = state.schedule();
        if state.turn == Turn::Scheduled {
            self.scheduled.store(true, Ordering::Relaxed);
        }
        drop(state);
        if wake {
            self.bell.notify_one();
        }
    }

    /// Moves items from the front of `items` into the queue, until `limit` items wait in it. The
    /// other items stay in `items` and are counted as refused.
    pub fn put(&self, protocol: usize, items: &mut List<T>, limit: usize) {
        let mut state = self.state();
        let Some(queue) = state.queues.get_mut(protocol) else { return not_registered() };
        let n = limit.saturating_sub(queue.items.len()).min(items.len());
        if n == items.len() {
            queue.items.append(items);
        } else {
            queue.items.extend(items.drain(..n));
        }
        queue.level.queued += n as u64;
        queue.level.qdrops += items.len() as u64;
        queue.level.watermark = queue.level.watermark.max(queue.items.len());
        if !queue.items.is_empty() {
            state.pending |= 1 << protocol;
        }
        self.finish_change(state);
    }

    /// Takes the turn for a caller, unless another thread has it or the worker is scheduled. The
    /// turn lasts until the returned value is dropped.
    pub fn begin(&self) -> Option<Inline<'_, T>> {
        let mut state = self.state();
        if state.turn != Turn::Idle || state.pending != 0 {
            return None;
        }
        state.turn = Turn::Dispatching;
        Some(Inline(self))
    }

    /// Claims the workstream for a worker, until [`release`](Workstream::release). Returns `false`
    /// if it already has a worker.
    pub fn claim(&self) -> bool {
        !std::mem::replace(&mut self.state().claimed, true)
    }

    /// Starts a turn of the worker. Returns `false` if no item waits, or a caller has the turn.
    pub fn start(&self) -> bool {
        let mut state = self.state();
        if state.turn == Turn::Dispatching || state.pending == 0 {
            return false;
        }
        state.turn = Turn::Running;
        self.scheduled.store(false, Ordering::Relaxed);
        true
    }

    /// Moves all items of the next queue into `local`, which must be empty. If no queue has items,
    /// the turn ends. A round visits each protocol with items once, so that a protocol need not
    /// wait until the queue of another is empty.
    pub fn next(&self, local: &mut List<T>) -> Option<usize> {
        let mut state = self.state();
        if state.round & state.pending == 0 {
            state.round = state.pending;
        }
        let bits = state.round & state.pending;
        if bits == 0 || state.ending == Ending::Now {
            state.turn = Turn::Idle;
            return None;
        }
        let protocol = bits.trailing_zeros() as usize;
        state.round &= !(1 << protocol);
        state.pending &= !(1 << protocol);
        std::mem::swap(&mut state.queues.get_mut(protocol)?.items, local);
        Some(protocol)
    }

    /// Ends the worker's turn although items may still wait. The worker's next turn takes them.
    pub fn pause(&self) {
        let mut state = self.state();
        if state.turn == Turn::Running {
            state.turn = Turn::Idle;
        }
        self.finish_change(state);
    }

    /// Releases the claim of a worker that ends. Puts `items` of `protocol`, which the worker has
    /// not begun, back to the front of their queue.
    pub fn release(&self, protocol: usize, items: &mut List<T>) {
        let mut state = self.state();
        state.claimed = false;
        if state.turn == Turn::Running {
            state.turn = Turn::Idle;
        }
        if items.is_empty() {
            return;
        }
        let Some(queue) = state.queues.get_mut(protocol) else { return not_registered() };
        items.append(&mut queue.items);
        std::mem::swap(&mut queue.items, items);
        state.pending |= 1 << protocol;
    }

    /// Returns whether the worker is probably scheduled, without taking the lock.
    pub fn is_promising(&self) -> bool {
        self.scheduled.load(Ordering::Relaxed)
    }

    /// Sleeps until an item waits for the worker, or the worker must end.
    pub fn sleep(&self) -> Next {
        let mut state = self.state();
        loop {
            let has_work = state.pending != 0 && state.turn != Turn::Dispatching;
            match state.ending {
                Ending::Now => return Next::End,
                _ if has_work => return Next::Work,
                Ending::Finish if state.turn != Turn::Dispatching => return Next::End,
                _ => {}
            }
            state.sleeping = true;
            state.sleeps += 1;
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping = false;
        }
    }

    /// Requests the worker to end. An earlier, more urgent request remains valid.
    pub fn end(&self, ending: Ending) {
        let mut state = self.state();
        state.ending = state.ending.max(ending);
        state.sleeping = false;
        drop(state);
        self.bell.notify_one();
    }

    /// Removes and returns all items of a queue.
    pub fn drain(&self, protocol: usize) -> List<T> {
        let mut state = self.state();
        state.pending &= !(1 << protocol);
        if state.pending == 0 && state.turn == Turn::Scheduled {
            state.turn = Turn::Idle; // `start` does not reset the turn if no item waits
        }
        let Some(queue) = state.queues.get_mut(protocol) else { return List::new() };
        queue.level.drained += queue.items.len() as u64;
        std::mem::take(&mut queue.items)
    }

    /// Returns the length and counters of a queue.
    pub fn level(&self, protocol: usize) -> Level {
        let state = self.state();
        state.queues.get(protocol).map(|queue| Level { len: queue.items.len(), ..queue.level }).unwrap_or_default()
    }

    /// Returns whether any item waits.
    pub fn has_waiting(&self) -> bool {
        self.state().pending != 0
    }

    /// Records a restart of the worker. Returns the number of restarts so far.
    pub fn note_restart(&self) -> u64 {
        let mut state = self.state();
        state.restarts += 1;
        state.restarts
    }

    /// Returns the number of restarts of the worker.
    pub fn restarts(&self) -> u64 {
        self.state().restarts
    }

    /// Returns the number of times that the worker was woken, and that it slept.
    pub fn switches(&self) -> (u64, u64) {
        let state = self.state();
        (state.wakeups, state.sleeps)
    }
}

/// The turn of a workstream while a caller has it.
pub struct Inline<'a, T>(&'a Workstream<T>);

impl<T> Drop for Inline<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.turn = Turn::Idle;
        let ends = state.ending != Ending::Never;
        self.0.finish_change(state);
        if ends {
            self.0.bell.notify_one(); // the worker may be waiting for this turn to end
        }
    }
}
