//! Input of netisr from the ports, and output of its queues to the stack.

use super::protocols::{CLASSES, Received, class_of, ids};
use buf::{Burst, Frame};
use dispatch::netisr::{Caller, Items, Netisr, NetisrError, ProtoId, Worker};
use inet::Stack;
use inet::iface::IfaceId;
use lock::{Cx, Locks};
use stats::DropReason;
use std::collections::VecDeque;
use std::sync::Arc;

/// Input of netisr, used by the host's own loop.
#[derive(Debug)]
pub(crate) struct Feed {
    caller: Caller<Received>,
    protocols: [ProtoId; CLASSES],
    /// Workers of the workstreams that have no thread; the loop runs them.
    own: Vec<Worker<Received>>,
    /// Frames of the current burst by protocol; empty between bursts.
    lists: [VecDeque<Received>; CLASSES],
}

impl Feed {
    pub(super) fn new(netisr: &Arc<Netisr<Received>>) -> Result<Feed, NetisrError> {
        let own = (0..netisr.workstreams()).map(|at| netisr.worker(at)).collect::<Result<_, _>>()?;
        let protocols = ids(netisr)?;
        Ok(Feed { caller: netisr.caller(0)?, protocols, own, lists: Default::default() })
    }

    /// Passes frames received on `iface` to the stack, or queues them.
    #[inline]
    pub(crate) fn input<L: Locks>(&mut self, stack: &Stack<L>, cx: Cx, iface: IfaceId, burst: &mut Burst) {
        if self.protocols.iter().all(|protocol| self.caller.is_direct(*protocol)) {
            self.count_direct(burst.as_slice());
            return stack.input(cx, iface, burst);
        }
        self.input_apart(stack, cx, iface, burst);
    }

    #[inline]
    fn count_direct(&self, frames: &[Frame]) {
        let mut counts = [0; CLASSES];
        for frame in frames {
            if let Some(count) = counts.get_mut(class_of(frame)) {
                *count += 1;
            }
        }
        for (protocol, n) in self.protocols.iter().zip(counts).filter(|(_, n)| *n > 0) {
            self.caller.count_direct(*protocol, n);
        }
    }

    fn input_apart<L: Locks>(&mut self, stack: &Stack<L>, cx: Cx, iface: IfaceId, burst: &mut Burst) {
        for frame in burst.drain() {
            if let Some(list) = self.lists.get_mut(class_of(&frame)) {
                list.push_back(Received { iface, frame });
            }
        }
        let mut work = |_: ProtoId, items: &mut Items<'_, Received>| take_through(stack, cx, items);
        for (protocol, list) in self.protocols.iter().zip(&mut self.lists).filter(|(_, list)| !list.is_empty()) {
            self.caller.dispatch(*protocol, u64::from(iface.0), list, &mut work);
            stack.refuse(cx, list.drain(..).map(|received| received.frame), DropReason::NetisrQueueFull);
        }
    }

    /// Processes frames queued in workstreams without a thread.
    #[inline]
    pub(crate) fn work<L: Locks>(&mut self, stack: &Stack<L>, cx: Cx) {
        let mut work = |_: ProtoId, items: &mut Items<'_, Received>| take_through(stack, cx, items);
        for worker in &mut self.own {
            worker.turn(&mut work);
        }
    }

    /// Removes the worker of workstream `at` from the loop, so that a thread can run it.
    pub(crate) fn release(&mut self, at: usize) {
        self.own.retain(|worker| worker.workstream() != at);
    }
}

/// Passes `items` to the stack, in bursts of frames from the same iface.
pub(crate) fn take_through<L: Locks>(stack: &Stack<L>, cx: Cx, items: &mut Items<'_, Received>) {
    in_bursts(items, |iface, burst| stack.input(cx, iface, burst), || stack.count_bug(cx));
}

/// Passes `items` to `take`, in bursts of frames from the same iface. `take` must consume the whole
/// burst. `bug` is called for a frame that does not fit into the burst, which would be a program
/// error.
pub(crate) fn in_bursts(items: &mut Items<'_, Received>, mut take: impl FnMut(IfaceId, &mut Burst), bug: impl Fn()) {
    let (mut burst, mut from) = (Burst::new(), None);
    for Received { iface, frame } in items {
        match from {
            Some(before) if before != iface || burst.room() == 0 => take(before, &mut burst),
            _ => {}
        }
        from = Some(iface);
        burst.put(frame, &bug);
    }
    if let Some(iface) = from {
        take(iface, &mut burst);
    }
}
