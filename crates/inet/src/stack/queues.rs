//! The two queues of what a stack gives to itself, loopback's and that of packets out of tunnels: who takes in what waits there.
//!
//! Any thread in a stack may poll it, each behind its own burst. Two of them at it at once would each have a piece of one flow in
//! hand, and the later piece might be through first. So it is one thread's turn; who comes meanwhile leaves it to that one, who looks
//! again behind its turn ([`Stack::poll`] says that it is due at once, [`Stack::poll_soon`] that something waits).

use super::Stack;
use clock::Instant;
use lock::{Cx, Locks};
use std::sync::atomic::{AtomicBool, Ordering};

/// A thread's turn, until dropped. It begins and ends with a swap: who was refused wrote before, so that the thread that looks after
/// its end sees what the other had queued.
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
    /// Returns whether anything waits in either queue.
    #[inline(always)]
    pub(super) fn has_waiting(&self) -> bool {
        self.loopback_len.load(Ordering::Relaxed) > 0 || self.requeued.has_some()
    }

    /// Takes in what waits in both, what that gives rise to apart; `false`: another thread is at it.
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

    /// Reports to the thread that polls a shared stack that something is due at `at`: it may sleep.
    #[inline(always)]
    pub(crate) fn due(&self, at: Instant) {
        if L::SHARED
            && let Some(doorbell) = self.doorbell.get()
        {
            doorbell(at);
        }
    }

    /// Sets what is called with the time at which something is due, whenever a call gives rise to it: the first that is set
    /// stays.
    pub fn set_doorbell(&self, doorbell: impl Fn(Instant) + Send + Sync + 'static) {
        let _ = self.doorbell.set(Box::new(doorbell));
    }

    /// Returns whether a call has given rise to something that is due before `at`, and that is not done yet: a packet
    /// in a queue, a timer of a connection, memory that a writer waits for, a frame that a port holds back. Deadlines of
    /// neighbors, groups and fragments are not looked at.
    pub fn is_due_before(&self, cx: Cx, at: Instant) -> bool {
        self.has_waiting() || self.tcp_next_timer(cx) < at || self.tcp_may_wake() || self.held_until() < at
    }

    /// So many wait in one of the two, each of which has its own lock.
    pub(crate) fn note_waiting(&self, len: usize) {
        if len > self.loop_peak.load(Ordering::Relaxed) {
            self.loop_peak.fetch_max(len, Ordering::Relaxed);
        }
    }
}
