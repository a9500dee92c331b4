//! Times at which tasks are woken.
//!
//! A task that waits for a socket registers with the socket's signal. A task that waits for a point
//! in time, or for a resource that has no signal (buffers of the pool, space in a transmit queue),
//! registers with the [`Alarm`] of its stack.

use clock::Instant;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Identifies a task that a stack wakes at a given time: the time, and a serial number that makes
/// the value unique.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AlarmEntry(Instant, u64);

/// Tasks that wait for a point in time.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Time of the first entry, in nanoseconds.
    next: AtomicU64,
    entries: Mutex<Entries>,
    /// True once the stack has ended. Waiting calls then fail.
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct Entries {
    wakers: BTreeMap<AlarmEntry, Waker>,
    /// Serial number of the next entry.
    number: u64,
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

impl Alarm {
    /// Returns the time of the first entry, or `NEVER`.
    #[inline(always)]
    pub(crate) fn next(&self) -> Instant {
        Instant::from_nanos(self.next.load(Ordering::Acquire))
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store_next(&self, entries: &Entries) {
        let next = entries.wakers.keys().next().map_or(Instant::NEVER, |entry| entry.0);
        self.next.store(next.nanos(), Ordering::Release);
    }

    /// Adds an entry. If the stack has ended, wakes the task at once.
    pub(crate) fn add(&self, at: Instant, waker: &Waker) -> AlarmEntry {
        let mut entries = self.entries();
        let entry = AlarmEntry(at, entries.number);
        entries.number += 1;
        if self.is_stopped() {
            drop(entries);
            waker.wake_by_ref();
            return entry;
        }
        entries.wakers.insert(entry, waker.clone());
        self.store_next(&entries);
        entry
    }

    /// Removes an entry, if it is still there.
    pub(crate) fn remove(&self, entry: AlarmEntry) {
        let mut entries = self.entries();
        let removed = entries.wakers.remove(&entry);
        self.store_next(&entries);
        drop(entries);
        drop(removed); // without the lock, since dropping a waker may run code of the task
    }

    /// Removes the entries that are due at `now` and returns their wakers.
    #[cold]
    pub(crate) fn due(&self, now: Instant) -> Vec<Waker> {
        let mut entries = self.entries();
        let later = entries.wakers.split_off(&AlarmEntry(now, u64::MAX));
        let due = std::mem::replace(&mut entries.wakers, later);
        self.store_next(&entries);
        due.into_values().collect()
    }

    /// Marks the stack as ended. Removes all entries and returns their wakers.
    pub(crate) fn stop(&self) -> Vec<Waker> {
        let mut entries = self.entries();
        self.stopped.store(true, Ordering::SeqCst);
        let all = std::mem::take(&mut entries.wakers);
        self.store_next(&entries);
        all.into_values().collect()
    }

    /// Returns whether the stack has ended.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
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
    fn entries_are_due_in_the_order_of_their_times_and_can_be_removed() {
        let (alarm, waker) = (Alarm::default(), Waker::noop());
        let at = Instant::from_nanos;
        assert_eq!(alarm.next(), Instant::NEVER);
        let entries = [30, 10, 20, 10].map(|time| alarm.add(at(time), waker));
        assert_eq!(alarm.next(), at(10));
        assert_eq!(alarm.due(at(9)).len(), 0);
        assert_eq!(alarm.due(at(10)).len(), 2);
        assert_eq!(alarm.next(), at(20));
        alarm.remove(entries[2]);
        alarm.remove(entries[1]); // it was due already
        assert_eq!(alarm.next(), at(30));
        assert_eq!(alarm.due(at(30)).len(), 1);
        assert_eq!(alarm.next(), Instant::NEVER);
    }

    /// A task that registers after the end is woken at once, so that it sees the end.
    #[test]
    fn the_end_wakes_tasks_that_register_before_and_after_it() {
        let (alarm, count) = (Alarm::default(), Arc::new(Count(AtomicUsize::new(0))));
        let waker = Waker::from(count.clone());
        alarm.add(Instant::NEVER, &waker);
        alarm.stop().into_iter().for_each(Waker::wake);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        alarm.add(Instant::NEVER, &waker);
        assert_eq!((count.0.load(Ordering::Relaxed), alarm.is_stopped()), (2, true));
    }
}
