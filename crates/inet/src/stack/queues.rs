//! The two queues of packets that a stack sends to itself: loopback packets and decapsulated
//! packets. Only one thread at a time processes them.
//!
//! Any thread that uses a stack may poll it after its own burst. If two threads processed the
//! queues at once, they could reorder packets of the same flow. Therefore only one thread processes
//! them, and other threads leave their packets to that thread, which checks the queues again at the
//! end. [`Stack::poll`] then reports that it is due at once, and [`Stack::poll_soon`] that packets
//! are queued.

use super::{CHUNK, Stack};
use crate::iface::LOOPBACK;
use buf::{Burst, Flags, Frame};
use clock::Instant;
use lock::{Cx, Locks};
use stats::DropReason;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exclusive right of a thread to process the queues, which ends when this value is dropped. It
/// begins and ends with an atomic swap. A thread that did not get the right has queued its packets
/// before its own swap, so the thread that checks the queues after its turn finds these packets.
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

    /// Processes the packets that are currently in the two queues, but not the packets that result
    /// from them. Returns `false` if another thread is processing the queues.
    #[cfg_attr(not(debug_assertions), inline(always))]
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
        self.flush(cx); // before the next thread's turn: it may use another transmit queue
        true
    }

    /// Notifies the thread that polls a shared stack of an event at `at`, since that thread may be
    /// asleep.
    #[cfg_attr(not(debug_assertions), inline(always))]
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

    /// Returns whether earlier calls have created work that is due before `at` and not yet
    /// processed: a queued packet, a timer of a connection, memory that a writer waits for, a frame
    /// that a port holds, or a task to be woken. Timers of neighbors, groups and fragments are not
    /// checked.
    pub fn is_due_before(&self, cx: Cx, at: Instant) -> bool {
        let has_timer = self.tcp_next_timer(cx) < at || self.alarm.next() < at;
        self.has_waiting() || has_timer || self.tcp_may_wake() || self.held_until() < at
    }

    /// Updates the maximum queue length after a packet was queued. `len` is the new length of one
    /// of the two queues, each of which has its own lock.
    pub(crate) fn note_waiting(&self, len: usize) {
        if len > self.loop_peak.load(Ordering::Relaxed) {
            self.loop_peak.fetch_max(len, Ordering::Relaxed);
        }
    }

    /// Queues a packet from this host to itself for [`Stack::poll`]. These packets are always
    /// queued and never processed directly.
    pub(crate) fn loop_back(&self, cx: Cx, mut packet: Frame) {
        packet.set_flags(packet.flags().with(Flags::LOOPBACK).with(Flags::RX_IP_OK).with(Flags::RX_L4_OK));
        let mut queue = self.loopback.lock(cx);
        if queue.len() as i64 >= self.sysctls.loop_queue.get() {
            if let Some(lo) = self.ifaces.get(LOOPBACK) {
                lo.tx.errors.bump();
            }
            drop(queue);
            return self.drop_frame(cx, packet, DropReason::LoopQueueFull);
        }
        if let Some(lo) = self.ifaces.get(LOOPBACK) {
            lo.tx.passed(&packet);
            lo.rx.passed(&packet);
        }
        queue.push_back(packet);
        self.loopback_len.store(queue.len(), Ordering::Relaxed);
        self.note_waiting(queue.len());
        drop(queue);
        self.count(cx).loopback.queued.bump();
        self.due(Instant::ZERO);
    }

    fn poll_loopback(&self, cx: Cx) {
        let lap = self.resume(cx);
        let waiting = self.loopback_len.load(Ordering::Relaxed); // packets queued from now on wait for the next poll
        let mut packets = Burst::new();
        let mut left = waiting;
        while left > 0 {
            let mut queue = self.loopback.lock(cx);
            for _ in 0..left.min(CHUNK) {
                left -= 1;
                match queue.pop_front() {
                    Some(packet) => packets.put(packet, || self.count_bug(cx)), // takes at most CHUNK
                    None => left = 0,
                }
                if left == 0 {
                    break;
                }
            }
            self.loopback_len.store(queue.len(), Ordering::Relaxed);
            drop(queue);
            self.input_packets(cx, None, &mut packets, lap);
        }
    }
}
