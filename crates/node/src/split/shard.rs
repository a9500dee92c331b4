//! Ports of a stack in a split host: a queue that the dispatcher fills, and one ring per port to
//! the dispatcher.

use super::counts::{DispatchCounts, Strays};
use super::netisr::leads_to;
use crate::inputs::Receiver;
use crate::isr::{Isr, Received, ShardOf, in_bursts};
use crate::switch::Call;
use buf::ring::Producer;
use buf::{Burst, Frame};
use clock::Instant;
use dispatch::netisr::{Items, Netisr, ProtoId, Worker};
use inet::Stack;
use lock::{Cx, Locks};
use port::{Port, PortCounts, RxHalf, TxHalf};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wire::Mac;
use wire::hash::Key;

/// Connection of a stack with the dispatcher, passed to the stack's thread.
pub(crate) struct Shard {
    pub(super) at: usize,
    pub(super) key: Key,
    pub(super) netisr: Arc<Netisr<Received>>,
    pub(super) worker: Worker<Received>,
    pub(super) call: Call,
    pub(super) dispatched: Arc<DispatchCounts>,
    pub(super) strays: Arc<Strays>,
    /// Name, MAC address and port of each iface; `None` once the stack has removed the port from
    /// the list.
    pub(super) ports: Vec<Option<(String, Mac, Port)>>,
}

impl Shard {
    /// Removes and returns the port for iface number `at` of the configuration.
    pub(crate) fn take_port(&mut self, at: usize) -> Option<(String, Mac, Port)> {
        self.ports.get_mut(at).and_then(Option::take)
    }

    /// Returns the netisr, and the connection with the dispatcher for the running stack. Registers
    /// with `stack` the function that decides which replies are dispatched to this stack.
    pub(crate) fn sit<L: Locks>(self, stack: &Stack<L>) -> (Isr, Sharded) {
        let Shard { at, key, netisr, worker, call, dispatched, strays, .. } = self;
        stack.set_leads_here(leads_to(netisr.clone(), key, at));
        (Isr::of_shard(netisr, ShardOf { at, dispatched, strays }), Sharded { worker, call })
    }
}

/// Connection of a running stack with the dispatcher.
#[derive(Debug)]
pub(crate) struct Sharded {
    worker: Worker<Received>,
    call: Call,
}

impl Sharded {
    /// Passes the frames queued by the dispatcher to the stack, and returns their number.
    pub(crate) fn take<L: Locks>(&mut self, stack: &Stack<L>, cx: Cx, receivers: &[Receiver]) -> usize {
        self.worker.round(&mut |_: ProtoId, items: &mut Items<'_, Received>| {
            let take = |iface, burst: &mut Burst| {
                if let Some(receiver) = receivers.iter().find(|receiver| receiver.iface == iface) {
                    note_received(receiver, burst);
                    if receiver.watch.is_on() {
                        receiver.take_watched(stack, cx, burst);
                    }
                }
                stack.input(cx, iface, burst);
            };
            in_bursts(items, take, || stack.count_bug(cx));
        })
    }

    /// Runs `sleep` unless frames are queued for the stack. The dispatcher wakes the thread when
    /// frames arrive.
    pub(crate) fn sleep<R>(&self, sleep: impl FnOnce() -> R) -> Option<R> {
        let waits = || self.worker.netisr().has_waiting(self.worker.workstream());
        self.call.sleep(waits, |_| sleep())
    }
}

fn note_received(receiver: &Receiver, burst: &Burst) {
    let counts = &receiver.counts.rx;
    counts.frames.add(burst.len() as u64);
    counts.bytes.add(burst.bytes() as u64);
}

/// State of a port, which the dispatcher writes and the stacks read: whether the port has ended,
/// and why.
#[derive(Debug, Default)]
pub(super) struct Health {
    gone: AtomicBool,
    why: Mutex<Option<String>>,
}

impl Health {
    pub(super) fn end(&self, why: Option<String>) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
        self.gone.store(true, Ordering::Release);
    }
}

/// Receive half of a stack's port. It delivers no frames, because these arrive through the netisr
/// queue. It only reports readiness and the end of the port.
pub(super) struct ShardRx {
    pub(super) call: Call,
    pub(super) health: Arc<Health>,
    pub(super) is_silent: bool,
}

impl RxHalf for ShardRx {
    fn rx_burst(&mut self, _: &mut Burst, _: usize, _: Instant) -> usize {
        0
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.call.fd())
    }

    fn is_gone(&self) -> bool {
        self.health.gone.load(Ordering::Acquire)
    }

    fn is_silent(&self) -> bool {
        self.is_silent
    }

    fn why_gone(&self) -> Option<String> {
        self.health.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Transmit half of a stack's port: a ring to the dispatcher. Sending wakes the dispatcher if it
/// sleeps.
pub(super) struct ShardTx {
    pub(super) ring: Producer<Frame>,
    pub(super) counts: Arc<PortCounts>,
    /// Wakes the dispatcher.
    pub(super) call: Call,
}

impl ShardTx {
    fn count(&self, frames: usize, bytes: usize) {
        let tx = &self.counts.tx;
        tx.frames.add(frames as u64);
        tx.bytes.add(bytes as u64);
        tx.bursts.add(u64::from(frames > 0));
        if frames > 0 {
            self.call.wake();
        }
    }
}

impl TxHalf for ShardTx {
    fn tx_burst(&mut self, from: &mut Burst, _now: Instant) -> usize {
        let before = from.bytes();
        let frames = self.ring.push_burst(from);
        self.count(frames, before - from.bytes());
        frames
    }

    fn tx_one(&mut self, frame: Frame, _now: Instant) -> Result<(), Frame> {
        let bytes = frame.len();
        self.ring.push(frame)?;
        self.count(1, bytes);
        Ok(())
    }
}
