//! Sleep of a host, for hosts of one thread and for shared hosts.

use super::{RESTLESS, most};
use crate::Host;
use crate::inputs::{Inputs, Part};
use clock::{Duration, Instant};
use lock::Locks;
use port::os::event::Event;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::TryLockError;
use std::sync::atomic::Ordering;

impl<L: Locks> Host<L> {
    /// Sleeps until a port or `also` is readable, or until `until`, but at most 100 ms, and at most
    /// 1 ms if a port has no descriptor. Returns whether `also` is readable.
    pub fn wait(&self, until: Instant, also: Option<BorrowedFd<'_>>) -> bool {
        self.wait_for_any(until, also.as_slice())
    }

    /// Sleeps like [`Host::wait`], with several descriptors `also` in addition to the ports.
    /// Returns whether one of `also` is readable.
    pub fn wait_for_any(&self, until: Instant, also: &[BorrowedFd<'_>]) -> bool {
        match L::SHARED {
            true => self.wait_unlocked(until, also),
            false => self.wait_alone(until, also),
        }
    }

    /// Sleeps until a port of a part is readable, or the ports of the part change.
    pub(crate) fn wait_part(&self, part: &Part<L>) {
        let (timeout, ports) = self.sleep_on(std::iter::once(part), Instant::NEVER);
        let mut fds: Vec<BorrowedFd<'_>> = ports.iter().map(AsFd::as_fd).collect();
        fds.extend(part.event().map(Event::fd));
        // A failed poll costs one round, as in [`Host::wait_alone`].
        let ready = dispatch::wait_readable(&fds, Some(timeout)).unwrap_or_default();
        if ready.len() > ports.len() && ready.last().is_some_and(|woken| *woken) {
            part.event().map(Event::clear);
        }
    }

    /// Returns the maximum sleep that the ports of `parts` permit, and duplicates of the ports'
    /// descriptors, because a port may be removed during the sleep.
    fn sleep_on<'a>(&self, parts: impl Iterator<Item = &'a Part<L>>, until: Instant) -> (Duration, Vec<OwnedFd>) {
        let (cx, mut ports) = (self.cx(), Vec::new());
        let mut timeout = most(&[], until, cx.now);
        for part in parts {
            let inputs = part.lock(cx);
            timeout = timeout.min(most(&inputs.receivers, until, cx.now));
            let live = inputs.receivers.iter().filter(|r| !r.half.is_gone());
            ports.extend(live.filter_map(|r| r.half.wait_fd()?.try_clone_to_owned().ok()));
        }
        (timeout, ports)
    }

    /// Returns duplicates of the descriptors of the ports, for a caller that sleeps on several
    /// hosts of one thread. A descriptor is readable when its port may have frames.
    pub fn port_fds(&self) -> Vec<OwnedFd> {
        self.sleep_on(std::iter::once(&self.inputs.first), Instant::NEVER).1
    }

    /// Prepares a sleep of the caller: passes the descriptor of each port to `each`, and returns
    /// the time until which the caller may sleep on them, at most `until`. This time is earlier if
    /// a port has no descriptor or delays frames.
    pub fn prepare_sleep(&self, until: Instant, each: &mut dyn FnMut(BorrowedFd<'_>)) -> Instant {
        let cx = self.cx();
        let inputs = self.inputs.first.lock(cx);
        let live = inputs.receivers.iter().filter(|r| !r.half.is_gone());
        live.filter_map(|r| r.half.wait_fd()).for_each(each);
        cx.now.after(most(&inputs.receivers, until, cx.now))
    }

    /// On a shared host, wakes the thread that sleeps in [`Host::wait`].
    pub fn wake(&self) {
        if let Some(sleeper) = &self.sleeper {
            sleeper.wake(Instant::ZERO);
        }
    }

    /// Sleeps in a host of one thread, holding the lock of its ports.
    fn wait_alone(&self, until: Instant, also: &[BorrowedFd<'_>]) -> bool {
        let cx = self.cx();
        let inputs = self.inputs.first.lock(cx);
        let Inputs { receivers, shard, .. } = &*inputs;
        let timeout = most(receivers, until, cx.now);
        let mut fds = also.to_vec();
        fds.extend(receivers.iter().filter(|r| !r.half.is_gone()).filter_map(|r| r.half.wait_fd()));
        // A failed poll (a bad descriptor) costs one round. The port itself reports that it has
        // ended.
        let sleep = || dispatch::wait_readable(&fds, Some(timeout)).unwrap_or_default();
        let ready = match shard {
            None => sleep(),
            Some(shard) => shard.sleep(sleep).unwrap_or_default(),
        };
        ready.into_iter().take(also.len()).any(|ready| ready)
    }

    /// Sleeps in a shared host. Meanwhile, other threads may call the host and receive from its
    /// ports.
    fn wait_unlocked(&self, until: Instant, also: &[BorrowedFd<'_>]) -> bool {
        let now = self.clock.now();
        let turn = self.sleeper.as_ref().map(|sleeper| (sleeper, sleeper.turn.try_lock()));
        let turn = match turn {
            Some((sleeper, Ok(turn))) => Some((sleeper, turn)),
            Some((sleeper, Err(TryLockError::Poisoned(turn)))) => Some((sleeper, turn.into_inner())),
            Some((_, Err(TryLockError::WouldBlock))) | None => None,
        };
        let (timeout, ports) = self.sleep_on(self.inputs.unclaimed(), until);
        let mut fds: Vec<BorrowedFd<'_>> = also.to_vec();
        fds.extend(ports.iter().map(AsFd::as_fd));
        let ready = match &turn {
            None => dispatch::wait_readable(&fds, Some(timeout.min(RESTLESS))).unwrap_or_default(),
            Some((sleeper, _)) => {
                fds.push(sleeper.event.fd());
                let end = now.after(timeout);
                let seen = self.seen.at(self.cx().current()).load(Ordering::Relaxed);
                let stay = || self.stack.is_due_before(self.cx(), end) || self.inputs.rounds() != seen;
                let sleep = || dispatch::wait_readable(&fds, Some(timeout)).unwrap_or_default();
                let ready = sleeper.doorbell.sleep(end.nanos(), stay, sleep, || ()).unwrap_or_default();
                if ready.last().is_some_and(|rung| *rung) {
                    sleeper.event.clear();
                }
                ready
            }
        };
        ready.into_iter().take(also.len()).any(|ready| ready)
    }
}
