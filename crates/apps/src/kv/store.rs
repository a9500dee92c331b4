//! The store: keys and values, their memory costs, and the times at which keys expire.
//!
//! An expired key no longer exists for any request. It is removed on access or by [`Store::sweep`];
//! deadlines (expiry times) are sorted, so the next one is found without a search. The total memory
//! cost is updated with each change. The caller checks [`Store::has_room`] before it adds data.

use super::Refusal;
use super::value::{ELEMENT, Kind, Value};
use crate::table::Table;
use linerate::stack::Instant;
use linerate::wire::hash::Key;
use std::collections::BTreeSet;

/// Memory charged for a key in addition to its name and value, in bytes.
pub const KEY: usize = ELEMENT + 192;

/// Limits of a key-value store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Maximum number of keys.
    pub keys: usize,
    /// Maximum total bytes, as charged by this module for names, values and overhead.
    pub bytes: usize,
}

/// Bytes reserved for one request while it is executed: its text and the overhead of each argument,
/// both counted twice as in [`Store::has_room`].
const REQUEST: usize = 64 << 20;

impl Bounds {
    /// Returns limits for `keys` strings of `text` bytes each, whose keys have names of at most
    /// `name` bytes.
    pub fn for_texts(keys: usize, name: usize, text: usize) -> Bounds {
        let bytes = keys.saturating_mul(KEY.saturating_add(name).saturating_add(text));
        Bounds { keys, bytes: bytes.saturating_add(REQUEST) }
    }
}

#[derive(Debug)]
struct Item {
    value: Value,
    until: Instant,
}

/// A key watched by transactions.
#[derive(Debug)]
struct Watched {
    clients: usize,
    /// Value of the store's change counter at the last change of this key; see [`Store::watch`].
    changed: u64,
}

#[derive(Debug)]
pub struct Store {
    bounds: Bounds,
    key: Key,
    items: Table<Item>,
    deadlines: BTreeSet<(Instant, Box<[u8]>)>,
    /// Keys watched by transactions.
    watched: Table<Watched>,
    changes: u64,
    bytes: usize,
    expired: u64,
    drawn: u64,
}

impl Store {
    /// Creates an empty store. `key` is the secret key of its hash tables.
    pub fn new(bounds: Bounds, key: Key) -> Store {
        let (items, deadlines, watched) = (Table::new(key), BTreeSet::new(), Table::new(key));
        Store { bounds, key, items, deadlines, watched, changes: 0, bytes: 0, expired: 0, drawn: 0 }
    }

    /// Returns the number of keys, including expired ones that have not been removed yet.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the total memory cost of all keys and values in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of keys that have expired since the start.
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Returns whether the byte limit permits adding `bytes` bytes in `elements` new elements or
    /// keys.
    pub fn has_room(&self, bytes: usize, elements: usize) -> bool {
        // A sorted set stores each member twice.
        self.may_grow(bytes.saturating_add(elements.saturating_mul(KEY)).saturating_mul(2))
    }

    /// Returns whether the total memory cost may grow by `bytes`.
    pub fn may_grow(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) <= self.bounds.bytes
    }

    /// Returns whether the limit on the number of keys permits storing values under these names.
    /// Names of existing keys are not counted; a name that is given twice is counted twice.
    pub fn has_room_for<'n>(&mut self, names: impl Iterator<Item = &'n [u8]> + Clone, now: Instant) -> bool {
        let most = names.clone().count();
        // The names are looked up only if all of them together would exceed the limit.
        self.items.len() + most <= self.bounds.keys
            || self.items.len() + names.filter(|name| self.get(name, now).is_none()).count() <= self.bounds.keys
    }

    /// Returns the number of keys that have an expiry time.
    pub fn deadlines(&self) -> usize {
        self.deadlines.len()
    }

    /// Starts to watch a key for changes. Returns the current change number, which the caller
    /// passes to [`Store::is_unchanged`]. Each call needs one call of [`Store::unwatch`].
    pub fn watch(&mut self, name: &[u8], now: Instant) -> u64 {
        self.item(name, now); // removes an expired key before it is watched
        match self.watched.get_mut(name) {
            Some(watched) => watched.clients += 1,
            None => drop(self.watched.insert(name, Watched { clients: 1, changed: 0 })),
        }
        self.changes
    }

    /// Returns whether a watched key is unchanged since [`Store::watch`] returned the change number
    /// `since`.
    pub fn is_unchanged(&mut self, name: &[u8], since: u64, now: Instant) -> bool {
        self.item(name, now);
        self.watched.get(name).is_some_and(|watched| watched.changed <= since)
    }

    /// Ends one client's watch of a key, which [`Store::watch`] started.
    pub fn unwatch(&mut self, name: &[u8]) {
        let Some(watched) = self.watched.get_mut(name) else { return };
        watched.clients = watched.clients.saturating_sub(1);
        if watched.clients == 0 {
            self.watched.remove(name);
        }
    }

    /// Returns the number of watched keys.
    #[cfg(test)]
    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// Records that a key was changed, if it is watched.
    #[inline]
    fn touch(&mut self, name: &[u8]) {
        if self.watched.is_empty() {
            return;
        }
        if let Some(watched) = self.watched.get_mut(name) {
            self.changes += 1;
            watched.changed = self.changes;
        }
    }

    /// Visits the keys that have not expired; see [`Table::scan`].
    pub fn scan<'t>(
        &'t self,
        cursor: u64,
        most: usize,
        now: Instant,
        mut visit: impl FnMut(&'t [u8], &'t Value) -> bool,
    ) -> u64 {
        self.items.scan(cursor, most, |name, item| item.until <= now || visit(name, &item.value))
    }

    /// Returns a pseudorandom number that clients cannot predict.
    pub fn draw(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        self.key.hash2(self.drawn, self.items.len() as u64)
    }

    fn item(&mut self, name: &[u8], now: Instant) -> Option<&Item> {
        if self.items.get(name).is_some_and(|item| item.until <= now) {
            self.expired += 1;
            self.take(name);
        }
        self.items.get(name)
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&mut self, name: &[u8], now: Instant) -> Option<&Value> {
        self.item(name, now).map(|item| &item.value)
    }

    /// Returns the value of a key as type `K`; `None` if the key does not exist.
    ///
    /// # Errors
    /// [`Refusal::WrongType`].
    pub fn find<K: Kind>(&mut self, name: &[u8], now: Instant) -> Result<Option<&K>, Refusal> {
        self.get(name, now).map(K::of).transpose()
    }

    /// Changes the value of a key; creates an empty value of the type `K` if the key does not
    /// exist.
    ///
    /// # Errors
    /// [`Refusal::WrongType`], or the error of `change`. If `change` fails, it must leave the value
    /// unchanged.
    pub fn edit<K: Kind, R>(
        &mut self,
        name: &[u8],
        now: Instant,
        change: impl FnOnce(&mut K) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        if self.get(name, now).is_none() {
            self.put(name, K::empty_value(self.key), Instant::NEVER);
        }
        self.change(name, now, change).transpose().unwrap_or(Err(Refusal::WrongType))
    }

    /// Changes the value of an existing key.
    ///
    /// # Errors
    /// The errors of [`Store::edit`].
    pub fn change<K: Kind, R>(
        &mut self,
        name: &[u8],
        now: Instant,
        change: impl FnOnce(&mut K) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        if self.get(name, now).is_none() {
            return Ok(None);
        }
        let Some(item) = self.items.get_mut(name) else { return Ok(None) };
        let before = item.value.cost();
        let done = K::of_mut(&mut item.value).and_then(change);
        let (after, is_over) = (item.value.cost(), item.value.is_over());
        self.bytes = (self.bytes + after).saturating_sub(before);
        if is_over {
            self.take(name);
        } else if done.is_ok() {
            self.touch(name);
        }
        done.map(Some)
    }

    /// Sets the value and the expiry time of a key, replacing any old value.
    pub fn put(&mut self, name: &[u8], value: Value, until: Instant) {
        let cost = value.cost();
        self.bytes += cost;
        match self.items.insert(name, Item { value, until }) {
            Some(old) => {
                self.bytes = self.bytes.saturating_sub(old.value.cost());
                self.forget(name, old.until);
            }
            None => self.bytes += name.len() + KEY,
        }
        self.remember(name, until);
        self.touch(name);
    }

    /// Sets the value of a key to a string, reusing the memory of an old string where possible.
    pub fn set_text(&mut self, name: &[u8], text: &[u8], until: Instant) {
        if let Some(Item { value: Value::Text(old), until: Instant::NEVER }) = self.items.get_mut(name)
            && until == Instant::NEVER
            && old.capacity() >= text.len()
            && old.capacity() <= text.len() * 2 + 16
        {
            old.clear();
            old.extend_from_slice(text);
            return self.touch(name);
        }
        self.put(name, Value::Text(text.to_vec()), until);
    }

    fn remember(&mut self, name: &[u8], until: Instant) {
        if until != Instant::NEVER {
            self.deadlines.insert((until, name.into()));
            self.bytes += name.len() + ELEMENT;
        }
    }

    fn forget(&mut self, name: &[u8], until: Instant) {
        if until != Instant::NEVER && self.deadlines.remove(&(until, name.into())) {
            self.bytes = self.bytes.saturating_sub(name.len() + ELEMENT);
        }
    }

    fn take(&mut self, name: &[u8]) -> Option<Item> {
        let (name, item) = self.items.remove(name)?;
        self.bytes = self.bytes.saturating_sub(item.value.cost() + name.len() + KEY);
        self.forget(&name, item.until);
        self.touch(&name);
        Some(item)
    }

    /// Removes a key; returns whether it existed.
    pub fn remove(&mut self, name: &[u8], now: Instant) -> bool {
        self.take(name).is_some_and(|item| item.until > now)
    }

    /// Returns the expiry time of a key: [`Instant::NEVER`] if the key does not expire, `None` if
    /// the key does not exist.
    pub fn until(&mut self, name: &[u8], now: Instant) -> Option<Instant> {
        self.item(name, now).map(|item| item.until)
    }

    /// Sets the expiry time of a key; returns whether the key exists.
    pub fn set_until(&mut self, name: &[u8], until: Instant, now: Instant) -> bool {
        let Some(old) = self.until(name, now) else { return false };
        if let Some(item) = self.items.get_mut(name) {
            item.until = until;
        }
        self.forget(name, old);
        self.remember(name, until);
        self.touch(name);
        true
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        let mut watched = Vec::new();
        self.watched.scan(0, usize::MAX, |name, _| {
            watched.extend(self.items.get(name).is_some().then(|| name.to_vec()));
            true
        });
        watched.iter().for_each(|name| self.touch(name));
        (self.items, self.deadlines, self.bytes) = (Table::new(self.key), BTreeSet::new(), 0);
    }

    /// Removes at most `most` expired keys.
    pub fn sweep(&mut self, now: Instant, most: usize) {
        for _ in 0..most {
            let Some((until, _)) = self.deadlines.first() else { return };
            if *until > now {
                return;
            }
            if let Some((_, name)) = self.deadlines.pop_first() {
                self.bytes = self.bytes.saturating_sub(name.len() + ELEMENT);
                self.expired += 1;
                self.take(&name);
            }
        }
    }

    /// Returns the earliest expiry time of all keys.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Recomputes the total cost, which must equal [`Store::bytes`].
    #[cfg(test)]
    pub fn count_bytes(&self) -> usize {
        let items: usize = self.items.iter().map(|(name, item)| name.len() + KEY + item.value.cost()).sum();
        items + self.deadlines.iter().map(|(_, name)| name.len() + ELEMENT).sum::<usize>()
    }
}
