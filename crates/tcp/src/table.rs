//! Bounded tables of compact entries, with lookup by a keyed hash and queues ordered by age.
//!
//! Used by the SYN queue and TIME-WAIT. A slot occupies the size of its entry plus 20 bytes of
//! links. Memory doubles as entries are added, up to the limit; there is no allocation per entry.
//! The front of a queue is its oldest entry. The caller decides which entries to evict.

use crate::Ends;
use crate::siphash::Key;
use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;
/// Queue number that marks a free slot.
const FREE: u8 = u8::MAX;

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[derive(Clone, Copy, Debug)]
struct Links {
    hash: u32,
    chain: u32,
    next: u32,
    prev: u32,
    queue: u8,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

/// Reports a link to a nonexistent entry, which is a bug in the table: panics in a debug build, and
/// does nothing in a release build, since no frame is dropped.
#[cold]
fn broken() {
    debug_assert!(false, "broken link in the table");
}

/// Table of entries, indexed by hash and queued by age.
#[derive(Debug)]
pub(crate) struct Table<T, const QUEUES: usize> {
    key: Key,
    values: Vec<T>,
    links: Vec<Links>,
    heads: Vec<u32>,
    queues: [Queue; QUEUES],
    free: u32,
    len: usize,
    limit: usize,
}

impl<T: Copy, const QUEUES: usize> Table<T, QUEUES> {
    /// Creates an empty table for at most `limit` entries.
    pub(crate) fn new(key: Key, limit: usize) -> Self {
        let limit = limit.min(NONE as usize - 1);
        let queues = [Queue { first: NONE, last: NONE }; QUEUES];
        Table { key, values: Vec::new(), links: Vec::new(), heads: Vec::new(), queues, free: NONE, len: 0, limit }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.limit
    }

    /// Changes the maximum number of entries; existing entries are kept.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(NONE as usize - 1);
    }

    /// Returns the number of bytes allocated for the table.
    pub(crate) fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>()
            + self.links.capacity() * size_of::<Links>()
            + self.heads.capacity() * size_of::<u32>()
    }

    /// Returns the hash of `ends`, computed by folded multiplication under a secret key as in the
    /// host's demux. A peer never receives this hash, so it only has to prevent chosen collisions.
    /// It needs three multiplications, an eighth of the cost of SipHash with its six rounds of 14
    /// steps.
    pub(crate) fn hash(&self, ends: &Ends) -> u32 {
        let Key(k0, k1) = self.key;
        let [l_high, l, r_high, r, ports] = ends.words();
        let high = fold(l_high ^ k1, r_high ^ k0);
        fold(fold(l ^ k0, r ^ k1) ^ k1, ports ^ high ^ k0) as u32
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.links.get(at as usize).filter(|links| links.queue != FREE)?;
        self.values.get(at as usize)
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.links.get(at as usize).filter(|links| links.queue != FREE)?;
        self.values.get_mut(at as usize)
    }

    /// Returns the index of the entry with `hash` for which `is_it` returns true.
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(&T) -> bool) -> Option<u32> {
        let mut at = *self.heads.get(hash as usize & self.heads.len().wrapping_sub(1))?;
        while let Some(links) = self.links.get(at as usize) {
            if links.hash == hash && self.values.get(at as usize).is_some_and(&is_it) {
                return Some(at);
            }
            at = links.chain;
        }
        None
    }

    /// Iterates over all entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let used = self.links.iter().map(|links| links.queue != FREE);
        self.values.iter().zip(used).filter_map(|(value, used)| used.then_some(value))
    }

    /// Returns the oldest entry of `queue`.
    pub(crate) fn front(&self, queue: u8) -> Option<(u32, &T)> {
        let at = self.queues.get(usize::from(queue))?.first;
        Some((at, self.get(at)?))
    }

    /// Inserts `value` as the youngest entry of `queue`; returns `None` if the table is full.
    pub(crate) fn insert(&mut self, hash: u32, queue: u8, value: T) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        if self.len >= self.heads.len() {
            self.grow();
        }
        let links = Links { hash, chain: NONE, next: NONE, prev: NONE, queue };
        let at = match self.links.get(self.free as usize) {
            Some(place) => {
                let at = core::mem::replace(&mut self.free, place.next);
                if let (Some(l), Some(v)) = (self.links.get_mut(at as usize), self.values.get_mut(at as usize)) {
                    (*l, *v) = (links, value);
                }
                at
            }
            None => {
                self.links.push(links);
                self.values.push(value);
                (self.links.len() as u32).wrapping_sub(1)
            }
        };
        self.chain(at);
        self.append(at, queue);
        self.len += 1;
        Some(at)
    }

    /// Removes the entry at `at`.
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let value = *self.get(at)?;
        self.unchain(at);
        self.detach(at);
        let free = core::mem::replace(&mut self.free, at);
        if let Some(links) = self.links.get_mut(at as usize) {
            (links.queue, links.next) = (FREE, free);
        }
        self.len -= 1;
        Some(value)
    }

    /// Moves the entry at `at` to the end of `queue`.
    pub(crate) fn requeue(&mut self, at: u32, queue: u8) {
        if self.get(at).is_some() {
            self.detach(at);
            self.append(at, queue);
        }
    }

    fn append(&mut self, at: u32, queue: u8) {
        let Some(ends) = self.queues.get_mut(usize::from(queue)) else { return broken() };
        let last = core::mem::replace(&mut ends.last, at);
        if last == NONE {
            ends.first = at;
        }
        if let Some(before) = self.links.get_mut(last as usize) {
            before.next = at;
        }
        if let Some(links) = self.links.get_mut(at as usize) {
            (links.prev, links.next, links.queue) = (last, NONE, queue);
        } else {
            broken();
        }
    }

    fn detach(&mut self, at: u32) {
        let Some(&Links { next, prev, queue, .. }) = self.links.get(at as usize) else { return broken() };
        let Some(ends) = self.queues.get_mut(usize::from(queue)) else { return broken() };
        match self.links.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => ends.first = next,
        }
        match self.links.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => ends.last = prev,
        }
    }

    fn chain(&mut self, at: u32) {
        let mask = self.heads.len().wrapping_sub(1);
        let Some(links) = self.links.get_mut(at as usize) else { return broken() };
        if let Some(head) = self.heads.get_mut(links.hash as usize & mask) {
            links.chain = core::mem::replace(head, at);
        } else {
            broken();
        }
    }

    fn unchain(&mut self, at: u32) {
        let mask = self.heads.len().wrapping_sub(1);
        let Some(&Links { hash, chain, .. }) = self.links.get(at as usize) else { return broken() };
        let Some(head) = self.heads.get_mut(hash as usize & mask) else { return broken() };
        if *head == at {
            *head = chain;
            return;
        }
        let mut before = *head;
        while let Some(links) = self.links.get_mut(before as usize) {
            if links.chain == at {
                links.chain = chain;
                return;
            }
            before = links.chain;
        }
        broken();
    }

    fn grow(&mut self) {
        let heads = (self.heads.len() * 2).max(16);
        self.heads = vec![NONE; heads];
        for at in 0..self.links.len() as u32 {
            if self.get(at).is_some() {
                self.chain(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use wire::L4Port;

    fn hash_of(value: u32) -> u32 {
        value / 3 // many values share one hash
    }

    proptest! {
        #[test]
        fn behaves_like_two_queues(steps in prop::collection::vec((0..4u8, 0..60u32, 0..2u8), 1..300)) {
            let mut table: Table<u32, 2> = Table::new(Key(1, 2), 40);
            let mut model: [VecDeque<u32>; 2] = Default::default();
            for (what, value, queue) in steps {
                let found = table.find(hash_of(value), |it| *it == value);
                let holds = model.iter().any(|queue| queue.contains(&value));
                prop_assert_eq!(found.is_some(), holds);
                match (what, found) {
                    (0 | 1, None) => {
                        let full = model[0].len() + model[1].len() == 40;
                        prop_assert_eq!(table.insert(hash_of(value), queue, value).is_none(), full);
                        if !full {
                            model[usize::from(queue)].push_back(value);
                        }
                    }
                    (2, Some(at)) => {
                        prop_assert_eq!(table.remove(at), Some(value));
                        model.iter_mut().for_each(|queue| queue.retain(|it| *it != value));
                        prop_assert_eq!(table.get(at), None);
                        prop_assert_eq!(table.remove(at), None);
                    }
                    (_, Some(at)) => {
                        table.requeue(at, queue);
                        model.iter_mut().for_each(|queue| queue.retain(|it| *it != value));
                        model[usize::from(queue)].push_back(value);
                    }
                    _ => {}
                }
                prop_assert_eq!(table.len(), model[0].len() + model[1].len());
                for (n, queue) in model.iter().enumerate() {
                    prop_assert_eq!(table.front(n as u8).map(|(_, it)| it), queue.front());
                }
            }
        }
    }

    fn place(key: Key, ends: &Ends) -> u32 {
        Table::<u8, 1>::new(key, 1).hash(ends)
    }

    fn stranger(n: u64) -> Ends {
        Ends { local: 1, remote: (n >> 16).into(), local_port: L4Port(80), remote_port: L4Port(n as u16) }
    }

    /// Each bit of an entry's slot is set half of the time, within five standard deviations, when
    /// either half of the key varies.
    #[test]
    fn buckets_depend_on_all_of_the_key() {
        let word = |n: u64| Key(n, 3).sip13(&[n]);
        let keys: [&dyn Fn(u64) -> Key; 2] = [&|n| Key(word(n), 77), &|n| Key(77, word(n))];
        for (half, key) in keys.iter().enumerate() {
            for ends in [stranger(0), stranger(12_345_678)] {
                let places: Vec<u32> = (0..4096).map(|n| place(key(n), &ends)).collect();
                for bit in 0..32 {
                    let ones: u32 = places.iter().map(|place| place >> bit & 1).sum();
                    assert!((1888..=2208).contains(&ones), "half {half}, bit {bit}: {ones} of 4096");
                }
            }
        }
    }

    /// Tuples that collide under one key do not collide under another, so an attacker cannot
    /// prepare a flood of one chain.
    #[test]
    fn collisions_do_not_outlive_the_key() {
        const CHAINS: u32 = 1024;
        let (one, other) = (Key(11, 22).derive(1), Key(11, 22).derive(2));
        let target = place(one, &stranger(0)) % CHAINS;
        let colliding: Vec<Ends> =
            (0..1 << 20).map(stranger).filter(|ends| place(one, ends) % CHAINS == target).take(500).collect();
        assert_eq!(colliding.len(), 500);
        let mut chains = vec![0; CHAINS as usize];
        colliding.iter().for_each(|ends| chains[(place(other, ends) % CHAINS) as usize] += 1);
        assert!(*chains.iter().max().unwrap() <= 8, "{:?}", chains.iter().max());
    }

    #[test]
    fn chains_stay_short_and_memory_bounded() {
        let mut table: Table<u64, 1> = Table::new(Key(1, 2), 10_000);
        for n in 0..10_000u64 {
            table.insert(table.hash(&Ends { remote: n.into(), ..Ends::default() }), 0, n).unwrap();
        }
        assert_eq!((table.insert(7, 0, 7), table.len()), (None, 10_000));
        let mut chains = vec![0u32; table.heads.len()];
        table.links.iter().for_each(|links| chains[links.hash as usize & (table.heads.len() - 1)] += 1);
        assert!(*chains.iter().max().unwrap() <= 9, "{:?}", chains.iter().max());
        // vectors grow by doubling, so there are up to twice the slots, each with a head
        assert!(table.bytes() <= 2 * 10_000 * (size_of::<u64>() + size_of::<Links>() + 4));
        assert_eq!(size_of::<Links>(), 20);
    }
}
