//! Runs a world until a task is complete.

use crate::World;
use crate::tasks::{MAIN, Stalled};
use clock::Duration;
use std::pin::pin;
use std::task::{Context, Poll};

/// Maximum number of polls of the main task at one instant of virtual time. Only tasks that wake
/// themselves or each other endlessly reach this limit.
const POLLS_MAX: usize = 100_000;
/// Virtual time after which [`World::block_on`] gives up.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

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
        self.tasks.wake_main();
        let (mut at, mut polls) = (self.now(), 0);
        loop {
            if self.now() > at {
                (at, polls) = (self.now(), 0);
            }
            polls += 1;
            if polls > POLLS_MAX {
                return Err(Stalled::Busy { at });
            }
            if self.tasks.take_main()
                && let Poll::Ready(done) = future.as_mut().poll(&mut cx)
            {
                return Ok(done);
            }
            let next = self.run_until_idle(&mut []);
            if self.tasks.is_main_woken() {
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
        self.tasks.clear(); // before the hosts are dropped, since tasks own their sockets
    }
}
