//! Transmit queues of an iface's port, each with a short stage in front of it.
//!
//! A port has one queue; of a shared host it may have several. Then each thread sends by the queue of its number, and
//! threads that send at the same time write no common line.

use super::Output;
use buf::Burst;
use clock::Instant;
use lock::{Cx, Guarded, Locks};
use std::hint::cold_path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Frames on their way to a queue of the port.
#[derive(Default)]
pub(crate) struct TxStage {
    /// The queue's bit among those of its iface; queues 64 apart share one.
    pub(crate) bit: u64,
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

/// Returns the bit of queue `at`.
fn bit(at: usize) -> u64 {
    1 << (at % u64::BITS as usize)
}

/// A queue, locked.
type Queue<L> = Guarded<L, TxStage>;

/// A queue on lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// The queues of a port.
pub(crate) struct Queues<L: Locks> {
    first: Apart<Queue<L>>,
    /// Those after the first: made when a port has them, and kept.
    more: OnceLock<Box<[Apart<Queue<L>>]>>,
    /// How many of them the port has now.
    others: AtomicUsize,
}

impl<L: Locks> Default for Queues<L> {
    fn default() -> Self {
        Queues { first: Apart::default(), more: OnceLock::new(), others: AtomicUsize::new(0) }
    }
}

impl<L: Locks> Queues<L> {
    /// Returns the queue by which the calling thread sends.
    #[inline(always)]
    pub(crate) fn of_thread(&self, cx: Cx) -> &Queue<L> {
        if L::SHARED { self.at(cx.current()) } else { &self.first.0 }
    }

    /// Returns the queue with number `at`, counted around.
    #[inline(always)]
    pub(crate) fn at(&self, at: usize) -> &Queue<L> {
        match self.others.load(Ordering::Acquire) {
            0 => &self.first.0,
            others => {
                cold_path(); // laid out elsewhere: most ports have one queue
                let other = (at % (others + 1)).checked_sub(1);
                other.and_then(|at| self.more.get()?.get(at)).map_or(&self.first.0, |queue| &queue.0)
            }
        }
    }

    /// Returns the queues with bits in `bits`.
    pub(crate) fn with_bits(&self, bits: u64) -> impl Iterator<Item = &Queue<L>> {
        self.iter().enumerate().filter(move |(at, _)| bits & bit(*at) != 0).map(|(_, queue)| queue)
    }

    /// Returns all queues that ever were.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue<L>> {
        std::iter::once(&self.first).chain(self.more.get().into_iter().flatten()).map(|queue| &queue.0)
    }

    /// Gives the queues their outputs, none to those beyond. An iface that had another port before has as many queues as
    /// that one at most.
    pub(crate) fn set(&self, cx: Cx, outputs: Vec<Box<dyn Output>>) {
        let others = outputs.len().saturating_sub(1);
        let made = if others == 0 || !L::SHARED {
            self.more.get().map_or(0, |more| more.len())
        } else {
            self.more.get_or_init(|| (0..others).map(|_| Apart::default()).collect()).len()
        };
        self.others.store(0, Ordering::Release);
        let mut outputs = outputs.into_iter();
        for (at, queue) in self.iter().enumerate() {
            let mut stage = queue.lock(cx);
            (stage.bit, stage.output) = (bit(at), outputs.next());
        }
        self.others.store(others.min(made), Ordering::Release);
    }

    /// Returns how often their locks were taken, and how many there are.
    pub(crate) fn locks(&self) -> (u64, usize) {
        self.iter().fold((0, 0), |(taken, n), queue| (taken + queue.acquisitions(), n + 1))
    }
}
