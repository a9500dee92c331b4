//! A map of bounded size that forgets the entries that were inserted first.

use std::collections::HashMap;
use std::hash::Hash;

/// Map with at most `2 * half` entries: those of the current and of the previous generation. When
/// the current generation is full, it becomes the previous one, whose entries are forgotten.
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
