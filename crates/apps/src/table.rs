//! A hash table that maps names to values. Its hash function has a secret key, so that peers cannot
//! choose colliding names. Its entries are numbered, so that one can be selected at random.

use indexmap::IndexMap;
use linerate::wire::hash::{Key, Keyed};

/// Capacity in entries up to which a table does not shrink.
const SHRINKS_FROM: usize = 16;

/// A hash table from names to values. The numbers of its entries are below [`Table::len`] and
/// change with each removal.
#[derive(Debug)]
pub struct Table<V>(IndexMap<Box<[u8]>, V, Keyed>);

impl<V> Table<V> {
    /// Creates an empty table. `key` is the secret key of its hash function.
    pub fn new(key: Key) -> Table<V> {
        Table(IndexMap::with_hasher(Keyed(key)))
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a name.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&V> {
        self.0.get(name)
    }

    /// Returns a mutable reference to the value of a name.
    #[inline]
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut V> {
        self.0.get_mut(name)
    }

    /// Sets the value of a name; returns the value that the name had before.
    pub fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        match self.0.get_mut(name) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => self.0.insert(name.into(), value),
        }
    }

    /// Removes a name; returns it with its value.
    pub fn remove(&mut self, name: &[u8]) -> Option<(Box<[u8]>, V)> {
        self.remove_at(self.0.get_index_of(name)?)
    }

    /// Removes the entry with this number; the last entry then gets the number.
    pub fn remove_at(&mut self, number: usize) -> Option<(Box<[u8]>, V)> {
        let removed = self.0.swap_remove_index(number)?;
        if self.0.capacity() > SHRINKS_FROM && self.0.len() * 8 < self.0.capacity() {
            self.0.shrink_to(self.0.len() * 2);
        }
        Some(removed)
    }

    /// Visits at most `most` entries in descending order of their numbers, starting below `cursor`
    /// (0: at the end), until `visit` returns `false`. Returns the cursor for the next call; 0
    /// means that all entries were visited.
    ///
    /// Every name that exists from the first call to the last one is visited: a removal moves the
    /// last entry to a lower number, so an entry below the cursor stays below it. Some names may be
    /// visited twice; names added in the meantime may be missed.
    pub fn scan<'t>(&'t self, cursor: u64, most: usize, mut visit: impl FnMut(&'t [u8], &'t V) -> bool) -> u64 {
        let len = self.0.len();
        let mut at = if cursor == 0 { len } else { usize::try_from(cursor).unwrap_or(len).min(len) };
        for _ in 0..most {
            let Some((name, value)) = at.checked_sub(1).and_then(|below| self.0.get_index(below)) else { break };
            at -= 1;
            if !visit(name, value) {
                break;
            }
        }
        at as u64
    }

    /// Returns an iterator over all names and values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

#[cfg(test)]
mod tests;
