//! Wake-ups of tasks at a given time, and the end of a stack.

use super::Stack;
use crate::alarm::AlarmEntry;
use clock::Instant;
use lock::{Cx, Locks};
use std::task::Waker;

impl<L: Locks> Stack<L> {
    /// Wakes the task of `waker` at the first [`Stack::poll`] at or after the time `at`, or
    /// immediately if the host has been stopped. Each call adds an entry, which remains until that
    /// time or until [`Stack::forget_alarm`].
    pub fn wake_at(&self, at: Instant, waker: &Waker) -> AlarmEntry {
        let entry = self.alarm.add(at, waker);
        self.due(at);
        entry
    }

    /// Removes an entry that [`Stack::wake_at`] has added, without waking its task.
    pub fn forget_alarm(&self, entry: AlarmEntry) {
        self.alarm.remove(entry);
    }

    /// Wakes the tasks whose time has come. Returns the time of the next one.
    #[inline]
    pub(super) fn poll_alarm(&self, cx: Cx) -> Instant {
        self.poll_udp_held(cx);
        if self.alarm.next() <= cx.now {
            self.alarm.due(cx.now).into_iter().for_each(Waker::wake);
        }
        self.alarm.next()
    }

    /// Ends all waiting calls with `EINTR`, now and in the future, because no thread runs the host
    /// any more.
    pub fn stop(&self, cx: Cx) {
        self.alarm.stop().into_iter().for_each(Waker::wake);
        self.pcbs.for_each(cx, |id, pcb| pcb.wake(cx, id));
        self.tcp_wake_all(cx);
        self.udp_held.lock(cx).iter_mut().for_each(|(_, held)| held.raise());
    }

    /// Returns whether the host has been stopped.
    pub fn is_stopped(&self) -> bool {
        self.alarm.is_stopped()
    }
}
