//! Sleep and wake-up of an idle host.
//!
//! A host of one thread sleeps on its ports' descriptors. A shared host also sleeps on an event.
//! Other threads signal this event when their calls make work due before the end of the sleep: a
//! packet to the host itself, a timer, or a frame that a port delays. A shared host holds no lock
//! while it sleeps. Only one thread at a time sleeps on the event; any other waiting thread polls
//! every millisecond.

mod host;

use crate::inputs::Receiver;
use clock::{Duration, Instant};
use inet::Stack;
use lock::{Doorbell, Locks};
use port::os::event::Event;
use std::sync::{Arc, Mutex};

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

/// Wake-up handle of the thread that runs a shared host.
#[derive(Debug)]
pub(crate) struct Sleeper {
    doorbell: Doorbell,
    event: Event,
    /// Locked by the thread that sleeps on the event.
    turn: Mutex<()>,
}

impl Sleeper {
    /// Creates a handle through which `stack` wakes the thread; `None` if no descriptor is
    /// available.
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

/// Returns the maximum time for which a thread that receives from `receivers` may sleep, at most
/// until `until`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_port_is_polled_less_often() {
        let of = |quiet: u64| poll_interval(Duration::from_micros(quiet)).as_micros();
        assert_eq!([0, 800, 1_600, 16_000, 32_000, 10_000_000].map(of), [50, 50, 100, 1_000, 1_000, 1_000]);
    }
}
