//! Sleep and wake-up of an idle host.
//!
//! A host of one thread sleeps on its ports' descriptors. A shared host also sleeps on an event.
//! Other threads signal this event when their calls make work due before the end of the sleep: a
//! packet to the host itself, a timer, or a frame that a port delays. A shared host holds no lock
//! while it sleeps. Only one thread at a time sleeps on the event; any other waiting thread polls
//! every millisecond.
//! millisecond.

use crate::Host;
use crate::inputs::{Inputs, Part, Receiver};
use clock::{Duration, Instant};
use inet::Stack;
use lock::{Doorbell, Locks};
use port::os::event::Event;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, TryLockError};

/// Poll interval of a port without a descriptor, while frames arrive.
const POLLED: Duration = Duration::from_micros(50);
/// Poll interval of a port without a descriptor, after 16 ms without a frame. Polling at this
/// interval uses 3 % of a CPU core.
const POLLED_IDLE: Duration = Duration::from_millis(1);
/// Maximum sleep of a host.
const IDLE: Duration = Duration::from_millis(100);
/// Maximum sleep of a second waiting thread of a shared host, because the event wakes only the
/// first one.
const RESTLESS: Duration = Duration::from_millis(1);

/// Wakes the thread that runs a shared host.
#[derive(Debug)]
pub(crate) struct Sleeper {
    doorbell: Doorbell,
    event: Event,
    /// Locked by the thread that sleeps on the event.
    turn: Mutex<()>,
}

impl Sleeper {
    /// Creates a sleeper that `stack` wakes; `None` if no descriptor is available.
    pub(crate) fn new<L: Locks>(stack: &Stack<L>) -> Option<Arc<Sleeper>> {
        let event = Event::new().ok()?;
        let sleeper = Arc::new(Sleeper { doorbell: Doorbell::default(), event, turn: Mutex::new(()) });
        let there = sleeper.clone();
        stack.set_doorbell(move |at| there.wake(at));
        Some(sleeper)
    }

    /// Wakes the thread if it would sleep beyond time `at`.
    #[inline]
    fn wake(&self, at: Instant) {
        self.doorbell.wake(at.nanos(), || self.event.raise());
    }
}

/// Returns the maximum time that a thread may sleep until `until`, given its ports.
fn most(receivers: &[Receiver], until: Instant, now: Instant) -> Duration {
    let polled = receivers.iter().filter(|r| r.half.wait_fd().is_none() && !r.half.is_gone() && !r.half.is_silent());
    let longest = polled.map(|r| poll_interval(now.since(r.gave))).min().unwrap_or(IDLE);
    let event = receivers.iter().filter_map(|r| r.half.next_event()).min().unwrap_or(Instant::NEVER);
    until.min(event).since(now).min(longest)
}

/// Returns the poll interval of a port that has delivered no frame for the time `quiet`: a
/// sixteenth of that time, within limits.
fn poll_interval(quiet: Duration) -> Duration {
    (quiet / 16).clamp(POLLED, POLLED_IDLE)
}

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

    /// Returns the maximum sleep that the ports of some parts permit, and duplicates of their
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

    /// Wakes the thread that sleeps in [`Host::wait`], for a shared host.
    pub(crate) fn wake(&self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_port_is_polled_less_often() {
        let of = |quiet: u64| poll_interval(Duration::from_micros(quiet)).as_micros();
        assert_eq!([0, 800, 1_600, 16_000, 32_000, 10_000_000].map(of), [50, 50, 100, 1_000, 1_000, 1_000]);
    }
}
