//! Times at which tasks are woken.
//!
//! A task that waits for a socket registers with the socket's signal. A task that waits for a point
//! in time, or for a resource that has no signal (buffers of the pool, space in a transmit queue),
//! registers with the [`Alarm`] of its stack.

use clock::Instant;
use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// Tasks that wait for a point in time.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Time of the first entry, in nanoseconds.
    next: AtomicU64,
    entries: Mutex<BinaryHeap<Entry>>,
    /// Set when the stack has ended: waiting calls fail.
    pub(crate) stopped: AtomicBool,
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm {
            next: AtomicU64::new(Instant::NEVER.nanos()),
            entries: Mutex::default(),
            stopped: AtomicBool::new(false),
        }
    }
}

/// A task and the time at which it is woken. The entry with the earliest time is the greatest, so
/// that it is the first one of a [`BinaryHeap`].
#[derive(Debug)]
struct Entry {
    at: Instant,
    waker: Waker,
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Order {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.at == other.at
    }
}

impl Eq for Entry {}

impl Alarm {
    /// Returns the time of the first entry, or `NEVER`.
    #[inline(always)]
    pub(crate) fn next(&self) -> Instant {
        Instant::from_nanos(self.next.load(Ordering::Acquire))
    }

    pub(crate) fn add(&self, at: Instant, waker: Waker) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Entry { at, waker });
        self.next.fetch_min(at.nanos(), Ordering::AcqRel);
    }

    /// Removes and returns the tasks whose time has come.
    #[cold]
    pub(crate) fn due(&self, now: Instant) -> Vec<Waker> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        while entries.peek().is_some_and(|entry| entry.at <= now) {
            due.extend(entries.pop().map(|entry| entry.waker));
        }
        let next = entries.peek().map_or(Instant::NEVER, |entry| entry.at);
        self.next.store(next.nanos(), Ordering::Release);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    struct Count(AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn entries_are_due_in_the_order_of_their_times() {
        let (alarm, count) = (Alarm::default(), Arc::new(Count(AtomicUsize::new(0))));
        let waker = Waker::from(count.clone());
        assert_eq!(alarm.next(), Instant::NEVER);
        for at in [30, 10, 20, 10] {
            alarm.add(Instant::from_nanos(at), waker.clone());
        }
        assert_eq!(alarm.next(), Instant::from_nanos(10));
        assert_eq!(alarm.due(Instant::from_nanos(9)).len(), 0);
        assert_eq!(alarm.due(Instant::from_nanos(19)).len(), 2);
        assert_eq!(alarm.next(), Instant::from_nanos(20));
        assert_eq!(alarm.due(Instant::from_nanos(30)).len(), 2);
        assert_eq!(alarm.next(), Instant::NEVER);
    }
}
