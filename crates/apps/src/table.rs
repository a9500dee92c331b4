//! Names and what belongs to them: a hash table with a keyed hash whose entries lie in one array, so that any can be drawn.
//!
//! Slots are probed one after the other and hold an entry's number with 32 bits of its hash; a removal closes the gap, so there are
//! no tombstones. Growing and shrinking moves slots only, by hashes kept with the entries.

use std::hash::BuildHasher;
use wire::hash::{Key, Keyed};

const FREE: u32 = u32::MAX;
const SLOTS_MIN: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Slot {
    entry: u32,
    tag: u32,
}

#[derive(Debug)]
struct Entry<V> {
    hash: u64,
    name: Box<[u8]>,
    value: V,
}

/// The table.
#[derive(Debug)]
pub struct Table<V> {
    key: Key,
    entries: Vec<Entry<V>>,
    slots: Vec<Slot>,
}

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl<V> Table<V> {
    /// An empty one, under this key.
    pub fn new(key: Key) -> Table<V> {
        Table { key, entries: Vec::new(), slots: Vec::new() }
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn mask(&self) -> usize {
        self.slots.len().wrapping_sub(1)
    }

    /// The slot and the entry of a name.
    #[inline]
    fn find(&self, hash: u64, name: &[u8]) -> Option<(usize, usize)> {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots.get(at)?;
            if slot.entry == FREE {
                return None;
            }
            if slot.tag == tag(hash) && self.entries.get(slot.entry as usize).is_some_and(|e| *e.name == *name) {
                return Some((at, slot.entry as usize));
            }
            at = (at + 1) & mask;
        }
    }

    fn hash(&self, name: &[u8]) -> u64 {
        Keyed(self.key).hash_one(name)
    }

    /// A name's value.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<&V> {
        let (_, entry) = self.find(self.hash(name), name)?;
        self.entries.get(entry).map(|entry| &entry.value)
    }

    /// A name's value, to be changed.
    #[inline]
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut V> {
        let (_, entry) = self.find(self.hash(name), name)?;
        self.entries.get_mut(entry).map(|entry| &mut entry.value)
    }

    /// Gives a name its value; gives back the one it had.
    pub fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        let hash = self.hash(name);
        if let Some((_, entry)) = self.find(hash, name) {
            return self.entries.get_mut(entry).map(|entry| std::mem::replace(&mut entry.value, value));
        }
        // At most three quarters of the slots are taken: a search ends.
        if (self.entries.len() + 1) * 4 > self.slots.len() * 3 {
            self.resize((self.slots.len() * 2).max(SLOTS_MIN));
        }
        let entry = self.entries.len() as u32;
        self.entries.push(Entry { hash, name: name.into(), value });
        self.settle(Slot { entry, tag: tag(hash) }, hash);
        None
    }

    /// Puts a slot where its hash wants it, or behind.
    fn settle(&mut self, slot: Slot, hash: u64) {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        while let Some(place) = self.slots.get_mut(at) {
            if place.entry == FREE {
                *place = slot;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn resize(&mut self, slots: usize) {
        self.slots = vec![Slot { entry: FREE, tag: 0 }; slots];
        for at in 0..self.entries.len() {
            let Some(hash) = self.entries.get(at).map(|entry| entry.hash) else { continue };
            self.settle(Slot { entry: at as u32, tag: tag(hash) }, hash);
        }
    }

    /// Takes a name out, with its value.
    pub fn remove(&mut self, name: &[u8]) -> Option<(Box<[u8]>, V)> {
        let (slot, entry) = self.find(self.hash(name), name)?;
        self.take(slot, entry)
    }

    /// Takes out the name with this number: numbers are below [`Table::len`], and change with each removal.
    pub fn remove_at(&mut self, number: usize) -> Option<(Box<[u8]>, V)> {
        let slot = self.slot_of(number)?;
        self.take(slot, number)
    }

    fn slot_of(&self, number: usize) -> Option<usize> {
        let mask = self.mask();
        let mut at = self.entries.get(number)?.hash as usize & mask;
        while self.slots.get(at)?.entry as usize != number {
            at = (at + 1) & mask;
        }
        Some(at)
    }

    fn take(&mut self, slot: usize, number: usize) -> Option<(Box<[u8]>, V)> {
        self.close_gap(slot);
        let last = self.entries.len().checked_sub(1)?;
        if number != last {
            // The last entry takes the place of this one.
            let moved = self.slot_of(last)?;
            if let Some(slot) = self.slots.get_mut(moved) {
                slot.entry = number as u32;
            }
        }
        let entry = self.entries.swap_remove(number);
        if self.slots.len() > SLOTS_MIN && self.entries.len() * 8 < self.slots.len() {
            self.resize(self.slots.len() / 2);
            self.entries.shrink_to(self.slots.len());
        }
        Some((entry.name, entry.value))
    }

    /// Those behind an emptied slot move up, as far as their hashes let them.
    fn close_gap(&mut self, slot: usize) {
        let mask = self.mask();
        let (mut gap, mut at) = (slot, slot);
        loop {
            at = (at + 1) & mask;
            let Some(found) = self.slots.get(at).copied().filter(|slot| slot.entry != FREE) else { break };
            let home = self.entries.get(found.entry as usize).map_or(0, |entry| entry.hash as usize & mask);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                if let Some(place) = self.slots.get_mut(gap) {
                    *place = found;
                }
                gap = at;
            }
        }
        if let Some(place) = self.slots.get_mut(gap) {
            place.entry = FREE;
        }
    }

    /// Visits at most `most` names downwards from `cursor` (0: from the end) until `visit` returns
    /// false. Returns the cursor to go on with; 0: all were visited.
    ///
    /// Names that stay from the first call to the last are visited: a removal moves the last entry
    /// down, so one below the cursor stays below. Some may be visited twice, new ones not at all.
    pub fn scan<'t>(&'t self, cursor: u64, most: usize, mut visit: impl FnMut(&'t [u8], &'t V) -> bool) -> u64 {
        let len = self.entries.len();
        let mut at = if cursor == 0 { len } else { usize::try_from(cursor).unwrap_or(len).min(len) };
        for _ in 0..most {
            let Some(below) = at.checked_sub(1) else { break };
            let Some(entry) = self.entries.get(below) else { break };
            at = below;
            if !visit(&entry.name, &entry.value) {
                break;
            }
        }
        at as u64
    }

    /// All names, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.entries.iter().map(|entry| (&*entry.name, &entry.value))
    }
}

#[cfg(test)]
mod tests;
