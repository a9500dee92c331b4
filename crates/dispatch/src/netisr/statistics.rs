//! Statistics of netisr. Each caller and worker has its own counters. When it ends, they are added
//! to the totals.

use super::NetisrError;
use stats::Shards;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of callers and workers at the same time.
const WRITERS_MAX: usize = 128;

stats::counters! {
    /// Items of one protocol that one caller or worker processed.
    pub struct Counts at "netisr" {
        /// Processed by the caller in direct mode, without queues (Disp'd).
        dispatched,
        /// Processed by the caller in hybrid mode, while it had the turn of its workstream
        /// (HDisp'd).
        hybrid_dispatched,
        /// Processed completely (Handled).
        handled,
        /// Dropped: the work function panicked while the item was in progress, or returned without
        /// taking the item.
        lost,
        /// Taken from queues by a worker.
        taken,
        /// Put back into queues by a worker that ended before it processed them.
        put_back,
    }
}

/// Counters of one protocol in one workstream, summed over all callers and workers.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sums {
    pub dispatched: u64,
    pub hybrid_dispatched: u64,
    pub handled: u64,
    pub lost: u64,
    taken: u64,
    put_back: u64,
}

impl Sums {
    fn add(&mut self, counts: &Counts) {
        self.dispatched += counts.dispatched.get();
        self.hybrid_dispatched += counts.hybrid_dispatched.get();
        self.handled += counts.handled.get();
        self.lost += counts.lost.get();
        self.taken += counts.taken.get();
        self.put_back += counts.put_back.get();
    }

    /// Returns the number of items that were begun or taken from a queue, but are neither handled
    /// nor lost.
    pub fn in_hand(&self) -> u64 {
        let began = self.dispatched + self.hybrid_dispatched + self.taken;
        began.saturating_sub(self.handled + self.lost + self.put_back)
    }
}

struct Pages {
    writers: Vec<(usize, Arc<Shards<Counts>>)>,
    /// Counters of callers and workers that have ended, by workstream and protocol.
    past: Vec<Sums>,
}

/// Counters of all callers and workers.
pub struct Statistics {
    pages: Mutex<Pages>,
    protocols: usize,
}

impl Statistics {
    pub fn new(workstreams: usize, protocols: usize) -> Statistics {
        let pages = Pages { writers: Vec::new(), past: vec![Sums::default(); workstreams * protocols] };
        Statistics { pages: Mutex::new(pages), protocols }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates counters for a caller or worker of `workstream`.
    pub fn open(&self, workstream: usize) -> Result<Arc<Shards<Counts>>, NetisrError> {
        let mut pages = self.pages();
        if pages.writers.len() >= WRITERS_MAX {
            return Err(NetisrError::Callers { most: WRITERS_MAX });
        }
        let counts = Arc::new(Shards::new(self.protocols));
        pages.writers.push((workstream, counts.clone()));
        Ok(counts)
    }

    /// Adds the counters of a caller or worker that ends to the totals.
    pub fn close(&self, counts: &Arc<Shards<Counts>>) {
        let mut pages = self.pages();
        let Some(at) = pages.writers.iter().position(|(_, other)| Arc::ptr_eq(other, counts)) else { return };
        let (workstream, counts) = pages.writers.swap_remove(at);
        let past = pages.past.iter_mut().skip(workstream * self.protocols).take(self.protocols);
        past.zip(counts.iter()).for_each(|(sums, counts)| sums.add(counts));
    }

    /// Returns the counters of `protocol` in `workstream`, summed over all callers and workers.
    pub fn sums(&self, workstream: usize, protocol: usize) -> Sums {
        let pages = self.pages();
        let mut sums = pages.past.get(workstream * self.protocols + protocol).copied().unwrap_or_default();
        let writers = pages.writers.iter().filter(|(at, _)| *at == workstream);
        writers.for_each(|(_, counts)| sums.add(counts.at(protocol)));
        sums
    }
}
