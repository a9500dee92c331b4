//! A worker: one workstream's, on a thread of its own or in somebody's loop; and what work is.

use super::books::Counts;
use super::workstream::Next;
use super::{Item, List, Netisr, NetisrError, ProtoId};
use stats::Shards;
use std::sync::Arc;

/// Items that the work is given at a time: as many as a burst can hold.
pub(super) const CHUNK: usize = 256;

/// What is done with items.
pub trait Work<T> {
    /// Takes all of `items`, the oldest first; what it leaves is dropped, and counted as lost.
    fn run(&mut self, protocol: ProtoId, items: &mut Items<'_, T>);
}

impl<T, F: FnMut(ProtoId, &mut Items<'_, T>)> Work<T> for F {
    fn run(&mut self, protocol: ProtoId, items: &mut Items<'_, T>) {
        self(protocol, items);
    }
}

/// The items of one call, to be taken out; at most 256.
#[derive(Debug)]
pub struct Items<'a, T> {
    from: &'a mut List<T>,
    left: usize,
}

impl<T> Iterator for Items<'_, T> {
    type Item = T;

    #[inline(always)]
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

/// Items in hand: lost, if the work does not come back.
struct Hand<'a>(&'a Counts, u64);

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.0.lost.add(self.1);
    }
}

/// Has the first of `items` worked on, 256 at most.
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

/// Who works on a workstream. Its end, by a panic as well, leaves what it had not begun in the queue.
#[derive(Debug)]
pub struct Worker<T: Item> {
    at: usize,
    isr: Arc<Netisr<T>>,
    counts: Arc<Shards<Counts>>,
    /// A queue that was moved out, and whose.
    local: List<T>,
    protocol: ProtoId,
}

impl<T: Item> Worker<T> {
    pub(super) fn new(isr: Arc<Netisr<T>>, at: usize) -> Result<Worker<T>, NetisrError> {
        let taken = NetisrError::Taken { workstream: at };
        let counts = isr.books.open(at)?;
        if !isr.streams.get(at).is_some_and(|stream| stream.claim()) {
            isr.books.close(&counts);
            return Err(taken);
        }
        Ok(Worker { at, isr, counts, local: List::new(), protocol: ProtoId(0) })
    }

    /// Its workstream.
    pub fn workstream(&self) -> usize {
        self.at
    }

    /// What it shares with the others.
    pub fn netisr(&self) -> &Arc<Netisr<T>> {
        &self.isr
    }

    /// Works until nothing waits, what comes meanwhile as well; says how many items that were. Never sleeps.
    pub fn turn(&mut self, work: &mut impl Work<T>) -> usize {
        self.take(usize::MAX, work)
    }

    /// The same of as many queues as there are protocols, each as long as its limit at most. For a worker whose thread has other work too, which
    /// nobody who brings more and more may keep it from.
    pub fn round(&mut self, work: &mut impl Work<T>) -> usize {
        self.take(self.isr.protocols.len(), work)
    }

    /// Works on `most` queues at most.
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

    /// Sleeps until something waits; `false`: nothing will, any more.
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

    /// Works until it is told to end.
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
        self.isr.books.close(&self.counts);
    }
}
