//! Transmit queues of an interface, and the selection of a queue by each thread.

use crate::Stack;
use crate::iface::{Iface, IfaceId, Output, Queue};
use lock::{Cx, Locks};
use stats::DropReason;
use std::sync::atomic::Ordering;

impl<L: Locks> Stack<L> {
    /// Sets the output for the frames of `iface`. With `None`, the frames are dropped.
    pub fn set_output(&self, cx: Cx, iface: IfaceId, output: Option<Box<dyn Output>>) {
        self.set_outputs(cx, iface, output.into_iter().collect());
    }

    /// Sets the outputs for `iface`'s frames, one per queue of its port. If `outputs` is empty,
    /// frames are dropped. On a shared stack, each thread sends by one queue
    /// ([`Stack::set_queue`]). A connection uses the queue of the thread that last wrote data while
    /// all earlier data was acknowledged. A tunnel uses the first queue. A stack of one thread uses
    /// only the first queue.
    #[inline(never)]
    pub fn set_outputs(&self, cx: Cx, iface: IfaceId, outputs: Vec<Box<dyn Output>>) {
        if let Some(iface) = self.ifaces.get(iface) {
            let ended = iface.queues.set(cx, outputs);
            ended.into_iter().for_each(|frame| self.drop_frame(cx, frame, DropReason::TxNoPort));
        }
    }

    /// Sets the transmit queue by which the calling thread sends on every port. The number is taken
    /// modulo the number of queues of the port. `None`, the default, selects the number of the
    /// thread. Threads that send at the same time should use different queues.
    pub fn set_queue(&self, cx: Cx, queue: Option<u16>) {
        self.count(cx).queue.store(queue.map_or(0, |queue| u32::from(queue) + 1), Ordering::Relaxed);
    }

    /// Returns the number of the queue by which the calling thread sends.
    pub(crate) fn queue_number(&self, cx: Cx) -> usize {
        let counters = self.count(cx);
        if counters.nesting.load(Ordering::Relaxed) > 0 {
            return 0; // several threads may send through one tunnel
        }
        match counters.queue.load(Ordering::Relaxed) {
            0 => cx.current(),
            set => set as usize - 1,
        }
    }

    /// Calls `send` with `queue` set as the calling thread's transmit queue.
    pub(crate) fn sending_by<R>(&self, cx: Cx, queue: usize, send: impl FnOnce() -> R) -> R {
        if !L::SHARED {
            return send();
        }
        let cell = &self.count(cx).queue;
        let own = cell.load(Ordering::Relaxed);
        cell.store(queue as u32 + 1, Ordering::Relaxed);
        let sent = send();
        cell.store(own, Ordering::Relaxed);
        sent
    }

    /// Returns the queue of `iface` by which the calling thread sends.
    #[inline(always)]
    pub(crate) fn queue_of<'a>(&self, cx: Cx, iface: &'a Iface<L>) -> &'a Queue<L> {
        iface.queues.at(|| self.queue_number(cx))
    }
}
