//! Queue of decapsulated packets with their interfaces, like the loopback queue. If these packets
//! were processed directly, the input path would call itself once per encapsulation, and the sender
//! of a packet determines the number of encapsulations.

mod queue;

pub(crate) use queue::Requeue;

use super::trouble::Trouble;
use crate::Stack;
use crate::iface::{IfaceId, IfaceKind};
use crate::stack::CHUNK;
use buf::{Burst, Flags, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use std::sync::atomic::Ordering;
use wire::icmp4::Inner;
use wire::ip6;

/// Maximum number of deferred error reports. Further reports are discarded.
const TROUBLES_MAX: usize = 64;
/// Number of bytes of a packet that are kept for a deferred error report. They include the headers,
/// with options or extension headers, and the 8 bytes of payload that identify a socket.
const QUOTED: usize = 128;

impl<L: Locks> Stack<L> {
    /// Queues a frame as if it had been received on `iface`. Drops the frame if the queue has
    /// reached the limit `net.link.tunnel.queue`.
    pub(super) fn requeue(&self, cx: Cx, iface: IfaceId, frame: Frame) {
        let mut queue = self.requeued.queue.lock(cx);
        if queue.len() as i64 >= self.sysctls.tunnel_queue.get() {
            drop(queue);
            self.count_tunnel_error(cx, iface, |iface| &iface.rx);
            return self.drop_frame(cx, frame, DropReason::TunnelQueueFull);
        }
        if let Some(iface) = self.ifaces.get(iface) {
            iface.rx.passed(&frame);
        }
        queue.push_back((iface, frame));
        self.note_waiting(queue.len());
        self.requeued.some.store(true, Ordering::Relaxed);
        drop(queue);
        self.count(cx).tunnel.requeued.bump();
        self.due(clock::Instant::ZERO);
    }

    /// Returns the number of queued frames.
    pub(crate) fn held_by_tunnels(&self, cx: Cx) -> usize {
        self.requeued.queue.lock(cx).len()
    }

    /// Stores `trouble` and the beginning of a packet that this host sent. The next poll reports it
    /// to the packet's socket.
    pub(super) fn queue_report(&self, cx: Cx, trouble: Trouble, packet: &[u8]) {
        let mut troubles = self.requeued.troubles.lock(cx);
        if troubles.len() < TROUBLES_MAX {
            troubles.push_back((trouble, packet.get(..QUOTED).unwrap_or(packet).to_vec()));
            self.requeued.some.store(true, Ordering::Relaxed);
        }
    }

    fn send_queued_reports(&self, cx: Cx) {
        let troubles = std::mem::take(&mut *self.requeued.troubles.lock(cx));
        for (trouble, packet) in troubles {
            if ip6::is_version(&packet) {
                self.send_error6(cx, None, &packet, Flags::default(), trouble.problem6());
            } else if let Ok(quoted) = Inner::parse(&packet) {
                self.deliver_error(cx, trouble.cause().problem(), &quoted);
            }
        }
    }

    /// Reports the deferred errors and processes the queued packets. Packets that result from this
    /// processing are queued for the next poll.
    pub(crate) fn poll_requeued(&self, cx: Cx) {
        if !self.requeued.has_some() {
            return;
        }
        self.send_queued_reports(cx);
        let mut left = self.requeued.queue.lock(cx).len();
        let mut frames = Burst::new();
        while left > 0 {
            let Some(id) = self.take_requeued(cx, &mut frames, left.min(CHUNK)) else { break };
            left -= frames.len();
            self.input_requeued(cx, id, &mut frames);
        }
        let queue = self.requeued.queue.lock(cx);
        let some = !queue.is_empty() || !self.requeued.troubles.lock(cx).is_empty();
        self.requeued.some.store(some, Ordering::Relaxed);
    }

    /// Moves up to `most` consecutive frames of one interface from the front of the queue to
    /// `frames`. Returns the interface.
    fn take_requeued(&self, cx: Cx, frames: &mut Burst, most: usize) -> Option<IfaceId> {
        let mut queue = self.requeued.queue.lock(cx);
        let first = queue.front()?.0;
        while frames.len() < most && queue.front().is_some_and(|(id, _)| *id == first) {
            match queue.pop_front() {
                Some((_, frame)) => frames.put(frame, || self.count_bug(cx)), // takes at most a chunk
                None => break,
            }
        }
        Some(first)
    }

    fn input_requeued(&self, cx: Cx, id: IfaceId, frames: &mut Burst) {
        let Some(iface) = self.ifaces.get(id).filter(|iface| iface.is_up()) else {
            return frames.drain().for_each(|frame| self.drop_frame(cx, frame, DropReason::IfaceDown));
        };
        if iface.kind == IfaceKind::Ethernet {
            return self.input_chunk(cx, iface, frames, self.resume(cx));
        }
        self.input_packets(cx, Some(iface), frames, self.resume(cx));
    }
}
