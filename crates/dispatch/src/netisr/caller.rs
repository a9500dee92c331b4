//! A caller of netisr: passes items to netisr, and processes them itself if the mode allows it.

use super::config::Live;
use super::statistics::Counts;
use super::worker::{CHUNK, chunk};
use super::workstream::Workstream;
use super::{Item, List, Mode, Netisr, NetisrError, Policy, ProtoId, Work, not_registered};
use stats::Shards;
use std::sync::Arc;

/// Entry point to netisr, used by one thread or loop.
#[derive(Debug)]
pub struct Caller<T: Item> {
    isr: Arc<Netisr<T>>,
    /// The caller's own workstream.
    at: usize,
    counts: Arc<Shards<Counts>>,
    /// Items of a burst, by the workstream selected for them. The lists are empty between calls.
    shares: Box<[List<T>]>,
}

impl<T: Item> Caller<T> {
    pub(super) fn new(isr: Arc<Netisr<T>>, at: usize) -> Result<Caller<T>, NetisrError> {
        let counts = isr.statistics.open(at)?;
        let shares = (0..isr.streams.len()).map(|_| List::new()).collect();
        Ok(Caller { isr, at, counts, shares })
    }

    /// Returns the netisr to which the caller belongs.
    pub fn netisr(&self) -> &Arc<Netisr<T>> {
        &self.isr
    }

    /// Returns the caller's own workstream.
    pub fn workstream(&self) -> usize {
        self.at
    }

    /// Returns whether the caller processes all items of this protocol itself, at once. It then
    /// need not create items, and only reports their number by
    /// [`count_direct`](Caller::count_direct).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn is_direct(&self, protocol: ProtoId) -> bool {
        let direct = self.isr.mode_of(protocol) == Mode::Direct;
        if direct {
            self.isr.pass(protocol);
        }
        direct
    }

    /// Counts `n` items that the caller has processed itself.
    #[inline(always)]
    pub fn count_direct(&self, protocol: ProtoId, n: usize) {
        let counts = self.counts.at(protocol.at());
        counts.dispatched.add(n as u64);
        counts.handled.add(n as u64);
    }

    /// Processes or queues all of `items`, as the mode requires. `source` identifies the source of
    /// the items, such as the number of an interface. Items left in `items` were refused because of
    /// full queues, and are counted as QDrops.
    pub fn dispatch(&mut self, protocol: ProtoId, source: u64, items: &mut List<T>, work: &mut impl Work<T>) {
        match self.isr.mode_of(protocol) {
            Mode::Direct => {
                self.isr.pass(protocol);
                self.direct(protocol, items, work);
            }
            Mode::Deferred => self.defer(protocol, source, items, Mode::Deferred),
            Mode::Hybrid => self.hybrid(protocol, source, items, work),
        }
    }

    /// Queues `items` regardless of the mode, for a caller that may not process them itself. Items
    /// left in `items` were refused. No host calls this method, because packets that a stack sends
    /// to itself (loopback, decapsulated packets) wait in the stack (decision 19).
    pub fn queue(&mut self, protocol: ProtoId, source: u64, items: &mut List<T>) {
        self.defer(protocol, source, items, Mode::Deferred);
    }

    fn direct(&mut self, protocol: ProtoId, items: &mut List<T>, work: &mut impl Work<T>) {
        let counts = self.counts.at(protocol.at());
        while !items.is_empty() {
            counts.dispatched.add(items.len().min(CHUNK) as u64);
            chunk(work, protocol, items, counts);
        }
    }

    fn defer(&mut self, protocol: ProtoId, source: u64, items: &mut List<T>, mode: Mode) {
        let Some(live) = self.isr.live(protocol) else { return not_registered() };
        if let [stream] = &*self.isr.streams {
            stream.put(protocol.at(), items, self.isr.qlimit(protocol));
        } else {
            let touched = share(live, self.at, source, items, mode, &mut self.shares);
            put_all(&self.isr, protocol, &mut self.shares, touched, items);
        }
        live.note_queued();
    }

    fn hybrid(&mut self, protocol: ProtoId, source: u64, items: &mut List<T>, work: &mut impl Work<T>) {
        let Some(live) = self.isr.live(protocol) else { return not_registered() };
        let counts = self.counts.at(protocol.at());
        if let [stream] = &*self.isr.streams {
            return match stream.begin() {
                Some(_turn) => in_turn(protocol, items, work, counts),
                None => {
                    stream.put(protocol.at(), items, self.isr.qlimit(protocol));
                    live.note_queued();
                }
            };
        }
        let mut touched = share(live, self.at, source, items, Mode::Hybrid, &mut self.shares);
        let own = 1 << self.at;
        let turn = self.isr.streams.get(self.at).filter(|_| touched & own != 0).and_then(Workstream::begin);
        if turn.is_some() {
            touched &= !own;
        }
        // Items of other workstreams are queued first, so that a panic in the work function does
        // not lose them.
        if touched != 0 {
            put_all(&self.isr, protocol, &mut self.shares, touched, items);
            live.note_queued();
        }
        if let (Some(_turn), Some(share)) = (turn, self.shares.get_mut(self.at)) {
            in_turn(protocol, share, work, counts);
        }
    }
}

/// Processes all of `items`. This thread must have the turn of the workstream.
fn in_turn<T>(protocol: ProtoId, items: &mut List<T>, work: &mut impl Work<T>, counts: &Counts) {
    while !items.is_empty() {
        counts.hybrid_dispatched.add(items.len().min(CHUNK) as u64);
        chunk(work, protocol, items, counts);
    }
}

/// Sorts `items` by the workstream selected for them, keeping their order. Returns a mask with one
/// bit set for each workstream that has received items.
fn share<T: Item>(
    live: &Live<T>,
    own: usize,
    source: u64,
    items: &mut List<T>,
    mode: Mode,
    shares: &mut [List<T>],
) -> u64 {
    let (mut touched, policy, n) = (0, live.policy(), shares.len().max(1));
    for item in items.drain(..) {
        let at = if n == 1 { 0 } else { choose(live, policy, own, source, &item, mode) % n };
        // `at` is below the number of shares, one for each workstream.
        let Some(share) = shares.get_mut(at) else {
            not_registered();
            continue;
        };
        share.push_back(item);
        touched |= 1 << at;
    }
    touched
}

/// Returns the number of the workstream for an item. The caller reduces it modulo the number of
/// workstreams.
#[inline]
fn choose<T: Item>(live: &Live<T>, policy: Policy, own: usize, source: u64, item: &T, mode: Mode) -> usize {
    let by_source = source as usize;
    match policy {
        Policy::Source => by_source,
        Policy::Flow => {
            let requested = || live.about.m2flow.as_ref().and_then(|m2flow| m2flow(item));
            item.flow().or_else(requested).map_or(by_source, |flow| flow as usize)
        }
        Policy::Cpu => {
            let none = if mode == Mode::Hybrid { own } else { by_source };
            live.about.m2cpuid.as_ref().and_then(|m2cpuid| m2cpuid(item)).unwrap_or(none)
        }
    }
}

/// Puts each share of items into the queue of its workstream. Refused items are put back into
/// `items`.
fn put_all<T: Item>(isr: &Netisr<T>, protocol: ProtoId, shares: &mut [List<T>], mut touched: u64, items: &mut List<T>) {
    let limit = isr.qlimit(protocol);
    while touched != 0 {
        let at = touched.trailing_zeros() as usize;
        touched &= touched - 1;
        if let (Some(stream), Some(share)) = (isr.streams.get(at), shares.get_mut(at)) {
            stream.put(protocol.at(), share, limit);
            items.append(share);
        }
    }
}

impl<T: Item> Drop for Caller<T> {
    fn drop(&mut self) {
        self.isr.statistics.close(&self.counts);
    }
}
