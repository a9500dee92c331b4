//! Receive halves of a host's ports. Their bursts go to the stack, or to the queues of netisr.
//!
//! A host of one thread keeps all receive halves in one list. A shared host can divide them into
//! parts, each with its own lock. Only the thread that runs a part ([`Host::run_part`]) receives
//! from the ports of that part, so that threads that receive at the same time do not write the same
//! cache lines. [`Host::step`] receives from the parts that no thread runs.
//!
//! [`Host::run_part`]: crate::Host::run_part
//! [`Host::step`]: crate::Host::step

mod host;
mod receiver;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use receiver::Receiver;

use crate::isr::Feed;
use crate::split::Sharded;
use inet::iface::IfaceId;
use lock::{CachePadded, Cx, Guarded, Locks};
use port::os::event::Event;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Receivers of a part, and the destination of the frames that they receive.
#[derive(Default)]
pub(crate) struct Inputs {
    pub(crate) receivers: Vec<Receiver>,
    /// Netisr, which selects the thread that processes a frame; `None` if the receiving thread
    /// processes all frames.
    pub(crate) feed: Option<Feed>,
    /// For a stack of a split host: the queue that the dispatcher fills; otherwise `None`.
    pub(crate) shard: Option<Sharded>,
}

/// A subset of a host's receive halves, with a lock of its own.
pub(crate) struct Part<L: Locks> {
    inputs: CachePadded<Guarded<L, Inputs>>,
    /// Set while a thread has claimed this part and runs it.
    is_claimed: AtomicBool,
    /// Number of rounds in which the thread that runs this part received frames.
    rounds: CachePadded<AtomicU64>,
    /// Wakes the thread that runs this part when its ports change; `None` if no descriptor was
    /// available.
    event: Option<Event>,
}

/// All receive halves of a host, divided into parts.
pub(crate) struct Parts<L: Locks> {
    /// Part that always exists. Netisr and the dispatcher of a split host use this part only.
    pub(crate) first: Part<L>,
    more: Box<[Part<L>]>,
}

impl<L: Locks> Part<L> {
    /// Locks the part, waiting if necessary.
    pub(crate) fn lock(&self, cx: Cx) -> impl std::ops::DerefMut<Target = Inputs> {
        self.inputs.0.lock(cx)
    }

    /// Returns an empty part for a thread other than the host's first.
    fn beside() -> Part<L> {
        Part { event: Event::new().ok(), ..Part::default() }
    }

    /// Returns the event that wakes the thread that runs this part.
    pub(crate) fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Wakes the thread that runs this part.
    fn wake(&self) {
        self.event.iter().for_each(Event::raise);
    }
}

impl<L: Locks> Default for Part<L> {
    fn default() -> Self {
        Part {
            inputs: CachePadded(Guarded::default()),
            is_claimed: AtomicBool::new(false),
            rounds: CachePadded::default(),
            event: None,
        }
    }
}

impl<L: Locks> Default for Parts<L> {
    fn default() -> Self {
        Parts { first: Part::default(), more: Box::default() }
    }
}

impl<L: Locks> Parts<L> {
    /// Returns all parts.
    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Part<L>> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Returns the number of rounds in which the threads that run parts received frames. If the
    /// number has grown since a thread's last round, the state of sockets may have changed.
    pub(crate) fn rounds(&self) -> u64 {
        self.more.iter().map(|part| part.rounds.0.load(Ordering::Acquire)).sum()
    }

    /// Returns the parts that no thread runs.
    #[inline(always)]
    pub(crate) fn unclaimed(&self) -> impl Iterator<Item = &Part<L>> {
        self.iter().filter(|part| !part.is_claimed.load(Ordering::Relaxed))
    }

    /// Adds a receiver to the part with the fewest receivers, or one of a mirror, which receives
    /// little, to the first part.
    pub(crate) fn add(&self, cx: Cx, receiver: Receiver) {
        let count = |part: &&Part<L>| part.lock(cx).receivers.iter().filter(|of| !of.is_mirror).count();
        let fewest = if receiver.is_mirror { Some(&self.first) } else { self.iter().min_by_key(count) };
        if let Some(part) = fewest {
            part.lock(cx).receivers.push(receiver);
            part.wake();
        }
    }

    /// Removes the receivers of an iface.
    pub(crate) fn remove(&self, cx: Cx, iface: IfaceId) {
        for part in self.iter() {
            part.lock(cx).receivers.retain(|receiver| receiver.iface != iface);
            part.wake(); // a sleeping thread holds the port's descriptor
        }
    }
}
