//! The heaviest of a stream of keys in a table that does not grow: the Space-Saving sketch (Metwally, Agrawal, El Abbadi 2005).
//!
//! A key that has no place takes that of the lightest, with its weight, which from then on may be too much: the entry's error. No
//! weight is ever too small, none is too large by more than its error, and no error exceeds the total divided by the places: a key
//! that has more than that is in the table.

use std::collections::HashMap;
use std::hash::Hash;

/// A key's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<K> {
    /// Whose.
    pub key: K,
    /// What is ascribed to it.
    pub weight: u64,
    /// How much of that may be others'.
    pub error: u64,
}

/// The table.
#[derive(Debug)]
pub struct Sketch<K> {
    /// A heap: no entry is heavier than the two behind it.
    heap: Vec<Entry<K>>,
    /// Keyed by chance: keys are a stranger's.
    places: HashMap<K, usize>,
    capacity: usize,
    total: u64,
    evicted: u64,
}

impl<K: Hash + Eq + Clone> Sketch<K> {
    /// With room for `capacity` keys, one at least.
    pub fn new(capacity: usize) -> Sketch<K> {
        Sketch { heap: Vec::new(), places: HashMap::new(), capacity: capacity.max(1), total: 0, evicted: 0 }
    }

    /// `weight` more of `key`.
    pub fn add(&mut self, key: K, weight: u64) {
        self.total += weight;
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.heap.len() < self.capacity => {
                let place = self.heap.len();
                self.places.insert(key.clone(), place);
                self.heap.push(Entry { key, weight, error: 0 });
                return self.up(place);
            }
            None => {
                self.evicted += 1;
                if let Some(lightest) = self.heap.first_mut() {
                    self.places.remove(&lightest.key);
                    self.places.insert(key.clone(), 0);
                    (lightest.key, lightest.error) = (key, lightest.weight);
                }
                0
            }
        };
        if let Some(entry) = self.heap.get_mut(place) {
            entry.weight += weight;
        }
        self.down(place);
    }

    /// All that was added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How often a key took another's place.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// What a key that is not in the table can have had at most, and no error exceeds.
    pub fn bound(&self) -> u64 {
        if self.heap.len() < self.capacity { 0 } else { self.heap.first().map_or(0, |lightest| lightest.weight) }
    }

    /// Heaviest first; of the same weight, the surer first.
    pub fn heaviest(&self) -> Vec<&Entry<K>> {
        let mut all: Vec<&Entry<K>> = self.heap.iter().collect();
        all.sort_by_key(|entry| (std::cmp::Reverse(entry.weight), entry.error));
        all
    }

    fn weight(&self, place: usize) -> Option<u64> {
        self.heap.get(place).map(|entry| entry.weight)
    }

    fn up(&mut self, mut place: usize) {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.weight(above) <= self.weight(place) {
                return;
            }
            self.swap(place, above);
            place = above;
        }
    }

    fn down(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2];
            let lighter = below.into_iter().filter(|at| *at < self.heap.len()).min_by_key(|at| self.weight(*at));
            match lighter {
                Some(lighter) if self.weight(lighter) < self.weight(place) => {
                    self.swap(place, lighter);
                    place = lighter;
                }
                _ => return,
            }
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            if let Some(entry) = self.heap.get(place)
                && let Some(known) = self.places.get_mut(&entry.key)
            {
                *known = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against exact counts: what the paper promises.
        #[test]
        fn it_keeps_its_promises(adds in prop::collection::vec((0..40_u32, 1..50_u64), 0..600), capacity in 1..30_usize) {
            let mut sketch = Sketch::new(capacity);
            let mut exact: HashMap<u32, u64> = HashMap::new();
            for (key, weight) in adds {
                // A few are heavy.
                let key = key * key / 60;
                sketch.add(key, weight);
                *exact.entry(key).or_default() += weight;
            }
            let heaviest = sketch.heaviest();
            prop_assert!(heaviest.is_sorted_by(|a, b| a.weight >= b.weight) && heaviest.len() <= capacity);
            prop_assert_eq!(heaviest.iter().map(|entry| entry.weight).sum::<u64>(), sketch.total());
            prop_assert!(sketch.bound() <= sketch.total() / capacity as u64);
            for entry in &heaviest {
                let true_weight = exact.remove(&entry.key).unwrap();
                prop_assert!(entry.weight >= true_weight && entry.weight - true_weight <= entry.error);
                prop_assert!(entry.error <= sketch.bound());
            }
            for weight in exact.values() {
                prop_assert!(*weight <= sketch.bound());
            }
        }
    }
}
