//! The worker of a netisr workstream, on its own thread or inside another loop, and the trait for
//! the work function.

use super::statistics::Counts;
use super::workstream::Next;
use super::{Item, List, Netisr, NetisrError, ProtoId};
use stats::Shards;
use std::sync::Arc;

/// Maximum number of items passed to the work function at a time: the capacity of a burst.
pub(super) const CHUNK: usize = 256;

/// Function by which a worker or caller processes items.
pub trait Work<T> {
    /// Processes `items`, oldest first. It must take all of them out of the iterator. Items that
    /// are left are dropped, and counted as lost.
    fn run(&mut self, protocol: ProtoId, items: &mut Items<'_, T>);
}

impl<T, F: FnMut(ProtoId, &mut Items<'_, T>)> Work<T> for F {
    fn run(&mut self, protocol: ProtoId, items: &mut Items<'_, T>) {
        self(protocol, items);
    }
}

/// Iterator over the items of one call, at most 256.
#[derive(Debug)]
pub struct Items<'a, T> {
    from: &'a mut List<T>,
    left: usize,
}

impl<T> Iterator for Items<'_, T> {
    type Item = T;

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn next(&mut self) -> Option<T> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        self.from.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Items<'_, T> {}

impl<T> Drop for Items<'_, T> {
    fn drop(&mut self) {
        drop(self.from.drain(..self.left));
    }
}

/// Counters of a caller or worker, and the number of its items in progress. These items are counted
/// as lost if the work function panics.
struct Hand<'a>(&'a Counts, u64);

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.0.lost.add(self.1);
    }
}

/// Passes the first of `items`, at most 256, to the work function.
#[inline]
pub(super) fn chunk<T>(work: &mut impl Work<T>, protocol: ProtoId, items: &mut List<T>, counts: &Counts) {
    let n = items.len().min(CHUNK);
    let mut hand = Hand(counts, n as u64);
    let mut given = Items { from: items, left: n };
    work.run(protocol, &mut given);
    let left = given.left;
    drop(given);
    hand.1 = left as u64;
    counts.handled.add((n - left) as u64);
}

/// The worker of a workstream. When it is dropped, even by a panic, the items that it has not begun
/// go back to their queue.
#[derive(Debug)]
pub struct Worker<T: Item> {
    at: usize,
    isr: Arc<Netisr<T>>,
    counts: Arc<Shards<Counts>>,
    /// Items that the worker has taken from a queue and not yet processed.
    local: List<T>,
    /// Protocol of the items in `local`.
    protocol: ProtoId,
}

impl<T: Item> Worker<T> {
    pub(super) fn new(isr: Arc<Netisr<T>>, at: usize) -> Result<Worker<T>, NetisrError> {
        let taken = NetisrError::Taken { workstream: at };
        let counts = isr.statistics.open(at)?;
        if !isr.streams.get(at).is_some_and(|stream| stream.claim()) {
            isr.statistics.close(&counts);
            return Err(taken);
        }
        Ok(Worker { at, isr, counts, local: List::new(), protocol: ProtoId(0) })
    }

    /// Returns the worker's workstream.
    pub fn workstream(&self) -> usize {
        self.at
    }

    /// Returns the netisr to which the worker belongs.
    pub fn netisr(&self) -> &Arc<Netisr<T>> {
        &self.isr
    }

    /// Processes items until none waits, including items that arrive meanwhile. Returns the number
    /// of items. Never sleeps.
    pub fn turn(&mut self, work: &mut impl Work<T>) -> usize {
        self.take(usize::MAX, work)
    }

    /// Processes at most as many queues as there are protocols, each at most up to its limit.
    /// Intended for a worker that shares its thread with other work, so that a continuous flow of
    /// items does not block that work.
    pub fn round(&mut self, work: &mut impl Work<T>) -> usize {
        self.take(self.isr.protocols.len(), work)
    }

    /// Processes at most `most` queues. Returns the number of items.
    #[inline]
    fn take(&mut self, most: usize, work: &mut impl Work<T>) -> usize {
        let Some(stream) = self.isr.streams.get(self.at).filter(|stream| stream.start()) else { return 0 };
        let mut worked = 0;
        for taken in 0.. {
            if taken == most {
                stream.pause();
                break;
            }
            let Some(at) = stream.next(&mut self.local) else { break };
            self.protocol = ProtoId(at as u8);
            let counts = self.counts.at(at);
            counts.taken.add(self.local.len() as u64);
            worked += self.local.len();
            while !self.local.is_empty() {
                chunk(work, self.protocol, &mut self.local, counts);
            }
        }
        worked
    }

    /// Sleeps until an item waits. Returns `false` if the worker must end.
    pub fn sleep(&mut self) -> bool {
        let Some(stream) = self.isr.streams.get(self.at) else { return false };
        for _ in 0..self.isr.config.looks {
            if stream.is_promising() {
                break;
            }
            std::thread::yield_now();
        }
        stream.sleep() == Next::Work
    }

    /// Processes items and sleeps between them, until requested to end.
    pub fn run(&mut self, work: &mut impl Work<T>) {
        while self.turn(work) > 0 || self.sleep() {}
    }
}

impl<T: Item> Drop for Worker<T> {
    fn drop(&mut self) {
        self.counts.at(self.protocol.at()).put_back.add(self.local.len() as u64);
        if let Some(stream) = self.isr.streams.get(self.at) {
            stream.release(self.protocol.at(), &mut self.local);
        }
        self.isr.statistics.close(&self.counts);
    }
}
