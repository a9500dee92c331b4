//! Tasks on virtual time: futures that use the sockets of simulated hosts ([`socket::net::tasks`]).
//!
//! One thread runs all tasks. In each round, the hosts run first, and then the tasks that were
//! woken, in the order of their numbers. The number of an ended task is reused. The same seed
//! therefore gives the same order of events.

use clock::{Duration, Instant};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Reason why a task cannot complete.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Stalled {
    /// No event is left that could wake the task.
    NoEvent {
        /// Virtual time of the end of the simulation.
        at: Instant,
    },
    /// Tasks wake themselves or each other endlessly at one instant.
    Busy {
        /// The instant.
        at: Instant,
    },
    /// The limit of virtual time has passed.
    TimedOut {
        /// The limit.
        limit: Duration,
    },
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stalled::NoEvent { at } => {
                write!(f, "the task waits at {at:?} of virtual time, and no event is left that could wake it")
            }
            Stalled::Busy { at } => write!(
                f,
                "the task is woken without end at {at:?} of virtual time; wait for an event or for time instead"
            ),
            Stalled::TimedOut { limit } => write!(f, "the task is not complete after {limit:?} of virtual time"),
        }
    }
}

impl std::error::Error for Stalled {}

/// Tasks of a world.
#[derive(Default)]
pub(crate) struct Tasks {
    /// Futures by number; `None` for a task that is running or has ended.
    futures: RefCell<Vec<Option<Task>>>,
    /// Numbers of ended tasks, which are reused.
    free: RefCell<Vec<usize>>,
    woken: Arc<Woken>,
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Numbers of the tasks to be run.
#[derive(Default)]
struct Woken(Mutex<BTreeSet<usize>>);

impl Woken {
    fn add(&self, number: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
    }

    fn take(&self) -> BTreeSet<usize> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Number of the task of `World::block_on`, which runs after the others.
pub(crate) const MAIN: usize = usize::MAX;

struct TaskWaker {
    number: usize,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken.add(self.number);
    }
}

impl Tasks {
    pub(crate) fn waker(&self, number: usize) -> Waker {
        Waker::from(Arc::new(TaskWaker { number, woken: self.woken.clone() }))
    }

    pub(crate) fn spawn(&self, future: Task) {
        let mut futures = self.futures.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            futures.push(None);
            futures.len() - 1
        });
        futures[number] = Some(future);
        self.woken.add(number);
    }

    /// Runs each woken task once, except the task of `World::block_on`. Returns the number of tasks
    /// run.
    pub(crate) fn run(&self) -> usize {
        let mut ran = 0;
        for number in self.woken.take() {
            // A running task may spawn tasks, so `futures` is not borrowed while it runs.
            let Some(mut task) = self.futures.borrow_mut().get_mut(number).and_then(Option::take) else {
                if number == MAIN {
                    self.woken.add(MAIN);
                }
                continue;
            };
            ran += 1;
            match task.as_mut().poll(&mut Context::from_waker(&self.waker(number))) {
                Poll::Pending => self.futures.borrow_mut()[number] = Some(task),
                Poll::Ready(()) => self.free.borrow_mut().push(number),
            }
        }
        ran
    }

    /// Returns whether the task of `World::block_on` was woken, and clears this mark.
    pub(crate) fn take_main(&self) -> bool {
        self.woken.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&MAIN)
    }

    /// Wakes the task of `World::block_on`.
    pub(crate) fn wake_main(&self) {
        self.woken.add(MAIN);
    }

    /// Returns whether the task of `World::block_on` was woken.
    pub(crate) fn is_main_woken(&self) -> bool {
        self.woken.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&MAIN)
    }

    /// Drops all tasks, and thereby their sockets.
    pub(crate) fn clear(&self) {
        let futures = std::mem::take(&mut *self.futures.borrow_mut());
        drop(futures);
    }
}
