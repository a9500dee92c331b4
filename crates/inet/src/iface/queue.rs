//! Transmit queues of an interface. Each has a stage: a short queue of frames that wait for the
//! port.
//!
//! If several threads share a host, its ports may have several transmit queues. The threads then
//! send through different queues, so that they do not write to the same cache lines. To keep frames
//! in order, a connection with unacknowledged data uses only one queue, and so does a tunnel.

use super::id::IfaceId;
use buf::{Burst, Frame};
use clock::Instant;
use lock::{CachePadded, Cx, Guarded, Locks};
use stats::hint::cold_path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Transmits the frames of one transmit queue of a port.
pub trait Output: Send {
    /// Sends frames from the front of `burst` and returns the number sent. Frames that were not
    /// accepted stay in `burst`.
    fn output(&mut self, burst: &mut Burst, now: Instant) -> usize;

    /// Sends a single frame; returns the frame as `Err` if it was not accepted.
    fn output_one(&mut self, frame: Frame, now: Instant) -> Result<(), Frame> {
        let mut burst = Burst::of(frame);
        self.output(&mut burst, now);
        burst.pop().map_or(Ok(()), Err)
    }

    /// Sends delayed or paced frames that are due. Returns the time at which this must be called
    /// again; `None` if no frame is held.
    fn poll(&mut self, now: Instant) -> Option<Instant> {
        let _ = now;
        None
    }

    /// Returns the time at which [`Output::poll`] must be called; `None` if no frame is held.
    fn next_event(&self) -> Option<Instant> {
        None
    }
}

/// Time at which a staged frame is passed to the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtOnce {
    /// Immediately, since the caller sends a single frame and returns.
    Yes,
    /// Later, since the caller flushes the queues at the end of its burst.
    Later,
}

/// Staged frames of one transmit queue.
pub(crate) struct TxStage {
    /// Set that contains only this queue.
    pub(crate) own: QueueSet,
    pub(crate) burst: Burst,
    pub(crate) output: Option<Box<dyn Output>>,
}

impl TxStage {
    /// Passes the staged frames to the port; returns the number that it accepted.
    #[inline(always)]
    pub(crate) fn flush(&mut self, now: Instant) -> usize {
        match &mut self.output {
            Some(output) => output.output(&mut self.burst, now),
            None => 0,
        }
    }
}

/// A set of transmit queues of any interfaces. It stores a set of interface numbers and a set of
/// queue numbers, both modulo 64. Therefore it may also contain queues that were not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QueueSet {
    ifaces: u64,
    queues: u64,
}

/// A [`QueueSet`] that only one thread changes.
#[derive(Debug, Default)]
pub(crate) struct AtomicQueueSet {
    ifaces: AtomicU64,
    queues: AtomicU64,
}

impl QueueSet {
    fn of(iface: IfaceId, queue: usize) -> QueueSet {
        QueueSet { ifaces: bit(usize::from(iface.0)), queues: bit(queue) }
    }

    /// Returns whether the set may contain queues of `iface`.
    #[inline(always)]
    fn has(self, iface: IfaceId) -> bool {
        self.ifaces & bit(usize::from(iface.0)) != 0
    }
}

impl AtomicQueueSet {
    /// Adds the queues of another set.
    #[inline(always)]
    pub(crate) fn add(&self, more: QueueSet) {
        self.ifaces.store(self.ifaces.load(Ordering::Relaxed) | more.ifaces, Ordering::Relaxed);
        self.queues.store(self.queues.load(Ordering::Relaxed) | more.queues, Ordering::Relaxed);
    }

    /// Empties the set and returns its former content; `None` if it was empty.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn take(&self) -> Option<QueueSet> {
        let ifaces = self.ifaces.load(Ordering::Relaxed);
        if ifaces == 0 {
            return None;
        }
        let queues = self.queues.load(Ordering::Relaxed);
        self.ifaces.store(0, Ordering::Relaxed);
        self.queues.store(0, Ordering::Relaxed);
        Some(QueueSet { ifaces, queues })
    }
}

#[inline(always)]
fn bit(at: usize) -> u64 {
    1 << (at % u64::BITS as usize)
}

fn queue<L: Locks>(iface: IfaceId, at: usize) -> CachePadded<Queue<L>> {
    CachePadded(Guarded::new(TxStage { own: QueueSet::of(iface, at), burst: Burst::new(), output: None }))
}

/// A transmit queue with its lock.
pub(crate) type Queue<L> = Guarded<L, TxStage>;

/// Transmit queues of a port.
pub(crate) struct Queues<L: Locks> {
    iface: IfaceId,
    first: CachePadded<Queue<L>>,
    /// Queues after the first. They are allocated for the first port with several queues and are
    /// never freed.
    more: OnceLock<Box<[CachePadded<Queue<L>>]>>,
    /// Number of queues in `more` that the current port uses.
    others: AtomicUsize,
}

impl<L: Locks> Queues<L> {
    /// Creates the queues of an interface: one queue, without an output.
    pub(crate) fn new(iface: IfaceId) -> Queues<L> {
        Queues { iface, first: queue(iface, 0), more: OnceLock::new(), others: AtomicUsize::new(0) }
    }

    /// Returns the queue with the number `at()`, modulo the number of queues. `at` is called only
    /// if there are several queues.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn at(&self, at: impl FnOnce() -> usize) -> &Queue<L> {
        match self.others.load(Ordering::Acquire) {
            _ if !L::SHARED => &self.first.0,
            0 => &self.first.0,
            others => {
                cold_path(); // most ports have only one queue
                let other = (at() % (others + 1)).checked_sub(1);
                other.and_then(|at| self.more.get()?.get(at)).map_or(&self.first.0, |queue| &queue.0)
            }
        }
    }

    /// Returns the queues that a set contains.
    pub(crate) fn among(&self, set: QueueSet) -> impl Iterator<Item = &Queue<L>> {
        let queues = if set.has(self.iface) { set.queues } else { 0 };
        self.iter().enumerate().filter(move |(at, _)| queues & bit(*at) != 0).map(|(_, queue)| queue)
    }

    /// Returns all queues, including those that the current port does not use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue<L>> {
        std::iter::once(&self.first).chain(self.more.get().into_iter().flatten()).map(|queue| &queue.0)
    }

    /// Sets the outputs of the queues. Returns the staged frames of queues that have no output
    /// afterwards. The first port with several queues determines the maximum number of queues.
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

    /// Returns the number of lock acquisitions and the number of locks.
    pub(crate) fn locks(&self) -> (u64, usize) {
        self.iter().fold((0, 0), |(taken, n), queue| (taken + queue.acquisitions(), n + 1))
    }
}
