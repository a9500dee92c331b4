//! A workstream: a queue for each protocol, and who is at work in it. What threads touch at once.
//!
//! ```text
//!                idle           scheduled      running        dispatching (hybrid)
//!  put           -> scheduled   stays          stays          stays
//!  start                        -> running                    stays: who dispatches will schedule
//!  next, empty                                 -> idle
//!  pause                                       -> idle, or scheduled if something waits
//!  begin         -> dispatching no             no             no
//!  end                                                        -> idle, or scheduled if something waits
//! ```
//! FreeBSD's three flags. All is done under one lock, taken once for what a burst has for this workstream, once for a whole queue that is
//! moved out. Checked with loom (`cargo xtask loom`).

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

/// Who is at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// Nobody, and nothing waits, or its worker has gone.
    Idle,
    /// Nobody yet: its worker is told.
    Scheduled,
    /// Its worker.
    Running,
    /// A caller, in hybrid mode.
    Dispatching,
}

/// Whether workers are to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ending {
    /// They are not.
    Never,
    /// When nothing waits.
    Finish,
    /// At once.
    Now,
}

/// What a worker is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// There is something.
    Work,
    /// There will be nothing any more.
    End,
}

struct Queue<T> {
    items: List<T>,
    level: Level,
}

/// How a queue is, and what it has seen.
#[derive(Clone, Copy, Default, Debug)]
pub struct Level {
    /// Items that wait.
    pub len: usize,
    /// The most that ever waited.
    pub watermark: usize,
    /// Items taken in.
    pub queued: u64,
    /// Items refused.
    pub qdrops: u64,
    /// Items taken out at the end.
    pub drained: u64,
}

struct State<T> {
    queues: Box<[Queue<T>]>,
    /// Protocols with something in their queue, a bit each.
    pending: u32,
    /// Of those, not yet looked at in the worker's round.
    round: u32,
    turn: Turn,
    ending: Ending,
    /// Has a worker.
    claimed: bool,
    /// Its worker sleeps and has not been woken.
    sleeping: bool,
    wakeups: u64,
    sleeps: u64,
    restarts: u64,
}

impl<T> State<T> {
    /// The worker is to come, if nobody is at work; is it to be woken?
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

/// See the module.
pub struct Workstream<T> {
    state: Mutex<State<T>>,
    /// It is scheduled, for a look without the lock.
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

    /// Schedules if there is a reason, lets go of the lock, and wakes the worker if it sleeps.
    fn settle(&self, mut state: MutexGuard<'_, State<T>>) {
        let wake = state.schedule();
        if state.turn == Turn::Scheduled {
            self.scheduled.store(true, Ordering::Relaxed);
        }
        drop(state);
        if wake {
            self.bell.notify_one();
        }
    }

    /// Moves the first of `items` into the queue, as many as `limit` lets wait there; the others stay and are counted.
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
        self.settle(state);
    }

    /// Begins to dispatch in its turn, if nobody is at work and nobody is to be; until the answer is dropped.
    pub fn begin(&self) -> Option<Inline<'_, T>> {
        let mut state = self.state();
        if state.turn != Turn::Idle || state.pending != 0 {
            return None;
        }
        state.turn = Turn::Dispatching;
        Some(Inline(self))
    }

    /// Its worker's, until [`release`](Workstream::release)d.
    pub fn claim(&self) -> bool {
        !std::mem::replace(&mut self.state().claimed, true)
    }

    /// The worker begins a turn; `false`: there is nothing for it, or somebody dispatches.
    pub fn start(&self) -> bool {
        let mut state = self.state();
        if state.turn == Turn::Dispatching || state.pending == 0 {
            return false;
        }
        state.turn = Turn::Running;
        self.scheduled.store(false, Ordering::Relaxed);
        true
    }

    /// Moves out the next queue, all of it: into `local`, which is empty. With none left the turn is over. Rounds go over all protocols
    /// that have something, so that none waits for another one's end.
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

    /// The worker leaves its turn before nothing waits: what does is there for its next one.
    pub fn pause(&self) {
        let mut state = self.state();
        if state.turn == Turn::Running {
            state.turn = Turn::Idle;
        }
        self.settle(state);
    }

    /// The worker has gone, and this it had not begun: `items` of `protocol` go back in front.
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

    /// Is it scheduled, as far as can be seen without the lock?
    pub fn is_promising(&self) -> bool {
        self.scheduled.load(Ordering::Relaxed)
    }

    /// Sleeps until there is something for the worker, or it is to end.
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

    /// Tells the worker to end; what was said more urgently stays.
    pub fn end(&self, ending: Ending) {
        let mut state = self.state();
        state.ending = state.ending.max(ending);
        state.sleeping = false;
        drop(state);
        self.bell.notify_one();
    }

    /// Takes out all of a queue.
    pub fn drain(&self, protocol: usize) -> List<T> {
        let mut state = self.state();
        state.pending &= !(1 << protocol);
        if state.pending == 0 && state.turn == Turn::Scheduled {
            state.turn = Turn::Idle; // a worker that found nothing would leave it as it is
        }
        let Some(queue) = state.queues.get_mut(protocol) else { return List::new() };
        queue.level.drained += queue.items.len() as u64;
        std::mem::take(&mut queue.items)
    }

    /// How a queue is.
    pub fn level(&self, protocol: usize) -> Level {
        let state = self.state();
        state.queues.get(protocol).map(|queue| Level { len: queue.items.len(), ..queue.level }).unwrap_or_default()
    }

    /// Does anything wait?
    pub fn has_waiting(&self) -> bool {
        self.state().pending != 0
    }

    /// Its work is begun again; says how often by now.
    pub fn note_restart(&self) -> u64 {
        let mut state = self.state();
        state.restarts += 1;
        state.restarts
    }

    /// How often it was.
    pub fn restarts(&self) -> u64 {
        self.state().restarts
    }

    /// How often its worker was woken, and slept.
    pub fn switches(&self) -> (u64, u64) {
        let state = self.state();
        (state.wakeups, state.sleeps)
    }
}

/// A caller at work in a workstream's turn.
pub struct Inline<'a, T>(&'a Workstream<T>);

impl<T> Drop for Inline<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.turn = Turn::Idle;
        let ends = state.ending != Ending::Never;
        self.0.settle(state);
        if ends {
            self.0.bell.notify_one(); // it waited for us, to end
        }
    }
}
