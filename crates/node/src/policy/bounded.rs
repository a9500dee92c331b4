//! Building blocks of bounded tables: a map that forgets its oldest entries, and a rate limit for
//! searches of a full table.

use clock::{Duration, Instant};
use std::collections::HashMap;
use std::hash::Hash;

/// Map with at most `2 * half` entries, in two generations of at most `half` entries each. When the
/// current generation is full, the previous generation is discarded, and the current one takes its
/// place.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    half: usize,
    current: HashMap<K, V>,
    previous: HashMap<K, V>,
}

impl<K: Hash + Eq, V> Recent<K, V> {
    pub fn new(half: usize) -> Recent<K, V> {
        Recent { half, current: HashMap::new(), previous: HashMap::new() }
    }

    /// Inserts or replaces an entry.
    pub fn insert(&mut self, key: K, value: V) {
        if self.current.len() >= self.half && !self.current.contains_key(&key) {
            self.previous = std::mem::take(&mut self.current);
        }
        self.current.insert(key, value);
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.current.get(key).or_else(|| self.previous.get(key))
    }
}

/// Rate limit for searching a full table for entries that can be removed. Each search reads the
/// whole table, so at most one per second is permitted.
#[derive(Default, Debug)]
pub(super) struct SearchPace(Option<Instant>);

impl SearchPace {
    /// Returns whether a search is due; if so, records its time.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|at| now.since(at) >= Duration::from_secs(1));
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_inserted_first_are_forgotten() {
        let mut recent = Recent::new(3);
        (0..10).for_each(|key| recent.insert(key, key));
        assert_eq!((0..10).filter_map(|key| recent.get(&key).copied()).collect::<Vec<_>>(), [6, 7, 8, 9]);
        recent.insert(9, 90);
        recent.insert(6, 60); // key 6 is now in both generations
        assert_eq!([9, 8, 6].map(|key| recent.get(&key).copied()), [Some(90), Some(8), Some(60)]);
        (0..1000).for_each(|key| recent.insert(key, key));
        assert!(recent.current.len() <= 3 && recent.previous.len() <= 3);
    }

    #[test]
    fn searches_are_a_second_apart() {
        let mut pace = SearchPace::default();
        let due = [0, 999, 1000, 1500, 2000].map(|ms| pace.is_due(Instant::from_millis(ms)));
        assert_eq!(due, [true, false, true, false, true]);
    }
}
