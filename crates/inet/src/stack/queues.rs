//! The two queues of packets that a stack sends to itself: loopback, and decapsulated packets. One
//! thread at a time processes them.
//!
//! Any thread in a stack may poll it after its own burst. If two threads processed the queues at
//! once, each could hold packets of the same flow and reorder them. So only one thread processes
//! the queues at a time. Other threads leave their packets to it, and it checks the queues again at
//! the end ([`Stack::poll`] reports that it is due at once, [`Stack::poll_soon`] that packets are
//! queued).

use super::Stack;
use clock::Instant;
use lock::{Cx, Locks};
use std::sync::atomic::{AtomicBool, Ordering};

/// A thread's exclusive turn, until dropped. It begins and ends with a swap: a refused thread wrote
/// before, so the thread that checks after its turn sees the packets queued by the refused one.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn begin(taken: &'a AtomicBool) -> Option<Turn<'a>> {
        (!taken.swap(true, Ordering::AcqRel)).then(|| Turn(taken))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

impl<L: Locks> Stack<L> {
    /// Returns whether any packets wait in either queue.
    #[inline(always)]
    pub(super) fn has_waiting(&self) -> bool {
        self.loopback_len.load(Ordering::Relaxed) > 0 || self.requeued.has_some()
    }

    /// Processes the packets queued now in both queues, without those that result; `false`: another
    /// thread is doing so.
    #[inline(always)]
    pub(super) fn poll_queues(&self, cx: Cx) -> bool {
        if L::SHARED {
            return self.poll_queues_in_turn(cx);
        }
        self.poll_loopback(cx);
        self.poll_requeued(cx);
        true
    }

    fn poll_queues_in_turn(&self, cx: Cx) -> bool {
        let Some(_turn) = Turn::begin(&self.draining) else { return false };
        self.poll_loopback(cx);
        self.poll_requeued(cx);
        self.flush(cx); // before the next thread's turn, which may send by another queue
        true
    }

    /// Notifies the thread that polls a shared stack, which may sleep, of an event due at `at`.
    #[inline(always)]
    pub(crate) fn due(&self, at: Instant) {
        if L::SHARED
            && let Some(doorbell) = self.doorbell.get()
        {
            doorbell(at);
        }
    }

    /// Sets the function that is called with the time of each new event. Only the first call has an
    /// effect.
    pub fn set_doorbell(&self, doorbell: impl Fn(Instant) + Send + Sync + 'static) {
        let _ = self.doorbell.set(Box::new(doorbell));
    }

    /// Returns whether calls have created work due before `at` that is not done yet: a queued
    /// packet, a timer of a connection, memory that a writer waits for, a frame that a port holds
    /// back. Deadlines of neighbors, groups and fragments are not checked.
    pub fn is_due_before(&self, cx: Cx, at: Instant) -> bool {
        self.has_waiting() || self.tcp_next_timer(cx) < at || self.tcp_may_wake() || self.held_until() < at
    }

    /// Updates the peak after `len` packets were queued in one of the two queues, each of which has
    /// its own lock.
    pub(crate) fn note_waiting(&self, len: usize) {
        if len > self.loop_peak.load(Ordering::Relaxed) {
            self.loop_peak.fetch_max(len, Ordering::Relaxed);
        }
    }
}
