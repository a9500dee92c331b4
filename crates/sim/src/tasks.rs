//! Tasks on virtual time: futures that use the sockets of simulated hosts ([`socket::net::tasks`]).
//!
//! One thread runs all tasks. In each round, after the hosts, the tasks that were woken run in the
//! order in which they were spawned. The same seed therefore gives the same order of events.

use crate::World;
use clock::{Duration, Instant};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Virtual time after which [`World::block_on`] gives up.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Reason why a task cannot complete.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stalled {
    /// No event is left that could wake the task.
    #[error("the task waits at {at:?} of virtual time, and no event is left that could wake it")]
    NoEvent {
        /// Virtual time of the end of the simulation.
        at: Instant,
    },
    /// The limit of virtual time has passed.
    #[error("the task is not complete after {limit:?} of virtual time")]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
}

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

/// Number of the task of [`World::block_on`], which runs after the others.
const MAIN: usize = usize::MAX;

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
    fn waker(&self, number: usize) -> Waker {
        Waker::from(Arc::new(TaskWaker { number, woken: self.woken.clone() }))
    }

    fn spawn(&self, future: Task) {
        let mut futures = self.futures.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            futures.push(None);
            futures.len() - 1
        });
        futures[number] = Some(future);
        self.woken.add(number);
    }

    /// Runs each woken task once, except that of [`World::block_on`]. Returns their number.
    pub(crate) fn run(&self) -> usize {
        let mut ran = 0;
        for number in self.woken.take() {
            // A task may spawn others while it runs.
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

    /// Returns whether the task of [`World::block_on`] was woken.
    fn take_main(&self) -> bool {
        self.woken.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&MAIN)
    }

    /// Drops all tasks, and thereby their sockets.
    pub(crate) fn clear(&self) {
        let futures = std::mem::take(&mut *self.futures.borrow_mut());
        drop(futures);
    }
}

impl World {
    /// Starts a task, which runs while the world runs.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.tasks.spawn(Box::pin(future));
    }

    /// Runs the world until `future` is complete, and returns its result. Virtual time advances
    /// from event to event. Gives up after a day of virtual time.
    ///
    /// # Errors
    /// Returns [`Stalled`] if the future waits for an event that cannot occur.
    ///
    /// # Panics
    /// Panics as [`World::run_for`] does.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Stalled> {
        self.block_on_within(LIMIT, future)
    }

    /// Runs the world as [`World::block_on`] does, but gives up after `limit` of virtual time.
    ///
    /// # Errors
    /// Returns [`Stalled`].
    ///
    /// # Panics
    /// Panics as [`World::run_for`] does.
    pub fn block_on_within<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Stalled> {
        let (end, waker) = (self.now().after(limit), self.tasks.waker(MAIN));
        let (mut cx, mut future) = (Context::from_waker(&waker), pin!(future));
        self.tasks.woken.add(MAIN);
        loop {
            while self.tasks.take_main() {
                if let Poll::Ready(done) = future.as_mut().poll(&mut cx) {
                    return Ok(done);
                }
            }
            let next = self.run_until_idle(&mut []);
            if self.tasks.woken.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&MAIN) {
                continue;
            }
            match next {
                None => return Err(Stalled::NoEvent { at: self.now() }),
                Some(next) if next > end => return Err(Stalled::TimedOut { limit }),
                Some(next) => self.clock.advance_to(next.max(self.now().after(Duration::from_nanos(1)))),
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.clear(); // before the hosts: the tasks own sockets
    }
}
