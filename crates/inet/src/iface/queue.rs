//! Transmit queues of an iface's port, each with a short stage in front of it.
//!
//! A port has one queue; of a shared host it may have several. Then each thread sends by a queue of its own, and threads
//! that send at the same time write no common line.

use super::{IfaceId, Output};
use buf::{Burst, Frame};
use clock::Instant;
use lock::{Apart, Cx, Guarded, Locks};
use std::hint::cold_path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Frames on their way to a queue of the port.
pub(crate) struct TxStage {
    /// The queue's own.
    pub(crate) place: Places,
    pub(crate) burst: Burst,
    pub(crate) output: Option<Box<dyn Output>>,
}

impl TxStage {
    /// Hands the waiting frames to the port; returns how many it took.
    #[inline(always)]
    pub(crate) fn flush(&mut self, now: Instant) -> usize {
        match &mut self.output {
            Some(output) => output.output(&mut self.burst, now),
            None => 0,
        }
    }
}

/// A set of queues: bits of ifaces and of numbers. Numbers 64 apart share a bit, and a set of several queues may have more
/// than were put into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Places {
    ifaces: u64,
    queues: u64,
}

/// [`Places`] that one thread writes and others may read.
#[derive(Debug, Default)]
pub(crate) struct PlacesCell {
    ifaces: AtomicU64,
    queues: AtomicU64,
}

impl Places {
    fn of(iface: IfaceId, queue: usize) -> Places {
        Places { ifaces: bit(usize::from(iface.0)), queues: bit(queue) }
    }

    /// Returns whether any queue of `iface` is in it.
    #[inline(always)]
    pub(crate) fn have(self, iface: IfaceId) -> bool {
        self.ifaces & bit(usize::from(iface.0)) != 0
    }
}

impl PlacesCell {
    /// Adds what is in `more`.
    #[inline(always)]
    pub(crate) fn add(&self, more: Places) {
        self.ifaces.store(self.ifaces.load(Ordering::Relaxed) | more.ifaces, Ordering::Relaxed);
        self.queues.store(self.queues.load(Ordering::Relaxed) | more.queues, Ordering::Relaxed);
    }

    /// Empties it; `None`: it was.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<Places> {
        let ifaces = self.ifaces.load(Ordering::Relaxed);
        if ifaces == 0 {
            return None;
        }
        let queues = self.queues.load(Ordering::Relaxed);
        self.ifaces.store(0, Ordering::Relaxed);
        self.queues.store(0, Ordering::Relaxed);
        Some(Places { ifaces, queues })
    }
}

#[inline(always)]
fn bit(at: usize) -> u64 {
    1 << (at % u64::BITS as usize)
}

fn queue<L: Locks>(iface: IfaceId, at: usize) -> Apart<Queue<L>> {
    Apart(Guarded::new(TxStage { place: Places::of(iface, at), burst: Burst::new(), output: None }))
}

/// A queue, locked.
pub(crate) type Queue<L> = Guarded<L, TxStage>;

/// The queues of a port.
pub(crate) struct Queues<L: Locks> {
    iface: IfaceId,
    first: Apart<Queue<L>>,
    /// Those after the first: made when a port has them, and kept.
    more: OnceLock<Box<[Apart<Queue<L>>]>>,
    /// How many of them the port has now.
    others: AtomicUsize,
}

impl<L: Locks> Queues<L> {
    /// Makes one queue, without an output.
    pub(crate) fn new(iface: IfaceId) -> Queues<L> {
        Queues { iface, first: queue(iface, 0), more: OnceLock::new(), others: AtomicUsize::new(0) }
    }

    /// Returns the queue with the number that `at` gives, counted around.
    #[inline(always)]
    pub(crate) fn at(&self, at: impl FnOnce() -> usize) -> &Queue<L> {
        match self.others.load(Ordering::Acquire) {
            _ if !L::SHARED => &self.first.0,
            0 => &self.first.0,
            others => {
                cold_path(); // laid out elsewhere: most ports have one queue
                let other = (at() % (others + 1)).checked_sub(1);
                other.and_then(|at| self.more.get()?.get(at)).map_or(&self.first.0, |queue| &queue.0)
            }
        }
    }

    /// Returns those of the queues that are in `places`.
    pub(crate) fn among(&self, places: Places) -> impl Iterator<Item = &Queue<L>> {
        let queues = if places.have(self.iface) { places.queues } else { 0 };
        self.iter().enumerate().filter(move |(at, _)| queues & bit(*at) != 0).map(|(_, queue)| queue)
    }

    /// Returns all queues that ever were.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue<L>> {
        std::iter::once(&self.first).chain(self.more.get().into_iter().flatten()).map(|queue| &queue.0)
    }

    /// Gives the queues their outputs, none to those beyond; returns the frames that waited for one of these. An iface that
    /// had another port before has as many queues as that one at most.
    pub(crate) fn set(&self, cx: Cx, outputs: Vec<Box<dyn Output>>) -> Vec<Frame> {
        let others = outputs.len().saturating_sub(1);
        let made = if others == 0 || !L::SHARED {
            self.more.get().map_or(0, |more| more.len())
        } else {
            self.more.get_or_init(|| (1..=others).map(|at| queue(self.iface, at)).collect()).len()
        };
        self.others.store(0, Ordering::Release);
        let mut outputs = outputs.into_iter();
        let mut ended = Vec::new();
        for queue in self.iter() {
            let mut stage = queue.lock(cx);
            stage.output = outputs.next();
            if stage.output.is_none() {
                ended.extend(stage.burst.drain());
            }
        }
        self.others.store(others.min(made), Ordering::Release);
        ended
    }

    /// Returns how often their locks were taken, and how many there are.
    pub(crate) fn locks(&self) -> (u64, usize) {
        self.iter().fold((0, 0), |(taken, n), queue| (taken + queue.acquisitions(), n + 1))
    }
}
