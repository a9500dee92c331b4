//! Finds the heaviest keys of a stream, those with the greatest total weight, in a table of fixed
//! size. The algorithm is the Space-Saving sketch (Metwally, Agrawal, El Abbadi 2005).
//!
//! If the table is full, a key that is not in it replaces the lightest entry and inherits its
//! weight, which becomes the error of the new entry. The weight of an entry is never too small, and
//! exceeds the true weight by at most its error. No error exceeds the total weight divided by the
//! number of entries, and every key with a greater weight is in the table.

use std::collections::HashMap;
use std::hash::Hash;

/// An entry of the table: a key with its estimated weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<K> {
    /// Key of the entry.
    pub key: K,
    /// Weight counted for the key.
    pub weight: u64,
    /// Maximum part of the weight that belongs to other keys.
    pub error: u64,
}

/// Table of the heaviest keys.
#[derive(Debug)]
pub struct Sketch<K> {
    /// A binary heap: no entry is heavier than its two children.
    heap: Vec<Entry<K>>,
    /// Index of each key in the heap. The map has a randomly keyed hash, since keys come from
    /// untrusted input.
    places: HashMap<K, usize>,
    capacity: usize,
    total: u64,
    evicted: u64,
}

impl<K: Hash + Eq + Clone> Sketch<K> {
    /// Creates a table for `capacity` keys. A capacity of 0 is treated as 1.
    pub fn new(capacity: usize) -> Sketch<K> {
        Sketch { heap: Vec::new(), places: HashMap::new(), capacity: capacity.max(1), total: 0, evicted: 0 }
    }

    /// Adds `weight` to the weight of `key`.
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

    /// Returns the sum of all weights added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of times that a key replaced another key in the table.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the maximum weight of a key that is not in the table, which is also the maximum
    /// error.
    pub fn bound(&self) -> u64 {
        if self.heap.len() < self.capacity { 0 } else { self.heap.first().map_or(0, |lightest| lightest.weight) }
    }

    /// Returns the entries by descending weight, and entries of equal weight by ascending error.
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
        /// Compares the sketch with exact counts, and checks the guarantees of the paper.
        #[test]
        fn weights_and_errors_stay_within_bounds(adds in prop::collection::vec((0..40_u32, 1..50_u64), 0..600), capacity in 1..30_usize) {
            let mut sketch = Sketch::new(capacity);
            let mut exact: HashMap<u32, u64> = HashMap::new();
            for (key, weight) in adds {
                // Make some keys heavy.
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
