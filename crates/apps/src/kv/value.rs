//! Values of keys: string, list, set, hash or sorted set, each with its current memory cost in
//! bytes.
//!
//! The cost covers the bytes and their overhead, rounded up. [`ELEMENT`] covers the overhead of the
//! allocator and an entry in a table that is only half full. Memory is released when less than a
//! quarter of it is used.

use super::Refusal;
use crate::table::Table;
use linerate::wire::hash::Key;
use std::collections::{BTreeSet, VecDeque};

/// Memory charged for an element in addition to its content, in bytes.
pub const ELEMENT: usize = 160;

#[derive(Debug)]
pub enum Value {
    Text(Vec<u8>),
    List(List),
    Set(Members<()>),
    /// A hash: maps fields to values.
    Hash(Members<Box<[u8]>>),
    Sorted(Sorted),
}

impl Value {
    /// Returns the name of the type, as the command TYPE reports it.
    pub fn name(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Hash(_) => "hash",
            Value::Sorted(_) => "zset",
        }
    }

    /// Returns the memory cost of the value in bytes.
    pub fn cost(&self) -> usize {
        match self {
            Value::Text(text) => text.capacity(),
            Value::List(list) => list.cost,
            Value::Set(set) => set.cost,
            Value::Hash(hash) => hash.cost,
            Value::Sorted(sorted) => sorted.cost,
        }
    }

    /// Returns whether the value has no elements left, so that its key is removed. A string is
    /// never removed, since it may be empty.
    pub fn is_over(&self) -> bool {
        match self {
            Value::Text(_) => false,
            Value::List(list) => list.items.is_empty(),
            Value::Set(set) => set.table.is_empty(),
            Value::Hash(hash) => hash.table.is_empty(),
            Value::Sorted(sorted) => sorted.scores.is_empty(),
        }
    }
}

/// A type of value on which a command operates.
pub trait Kind: Sized {
    /// Returns the value as this type.
    ///
    /// # Errors
    /// [`Refusal::WrongType`].
    fn of(value: &Value) -> Result<&Self, Refusal>;

    /// Returns the value as a mutable reference to this type.
    ///
    /// # Errors
    /// [`Refusal::WrongType`].
    fn of_mut(value: &mut Value) -> Result<&mut Self, Refusal>;

    /// Creates an empty value. `key` is the secret key of its hash tables.
    fn empty_value(key: Key) -> Value;
}

impl Kind for Vec<u8> {
    fn of(value: &Value) -> Result<&Self, Refusal> {
        if let Value::Text(text) = value { Ok(text) } else { Err(Refusal::WrongType) }
    }

    fn of_mut(value: &mut Value) -> Result<&mut Self, Refusal> {
        if let Value::Text(text) = value { Ok(text) } else { Err(Refusal::WrongType) }
    }

    fn empty_value(_: Key) -> Value {
        Value::Text(Vec::new())
    }
}

#[derive(Debug, Default)]
pub struct List {
    items: VecDeque<Box<[u8]>>,
    cost: usize,
}

/// One of the two ends of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The head of the list.
    Left,
    /// The tail of the list.
    Right,
}

impl List {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the number of elements for which memory is allocated.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.items.capacity()
    }

    /// Adds an element at one end.
    pub fn push(&mut self, end: End, item: &[u8]) {
        self.cost += item.len() + ELEMENT;
        match end {
            End::Left => self.items.push_front(item.into()),
            End::Right => self.items.push_back(item.into()),
        }
    }

    /// Removes the element at one end and returns it.
    pub fn pop(&mut self, end: End) -> Option<Box<[u8]>> {
        let item = match end {
            End::Left => self.items.pop_front(),
            End::Right => self.items.pop_back(),
        }?;
        self.cost -= item.len() + ELEMENT;
        if self.items.len() * 4 < self.items.capacity() {
            self.items.shrink_to(self.items.len() * 2);
        }
        Some(item)
    }

    /// Returns the elements from position `from` to position `to`, both included.
    pub fn range(&self, from: usize, to: usize) -> impl Iterator<Item = &[u8]> {
        self.items.iter().skip(from).take((to + 1).saturating_sub(from)).map(|item| &**item)
    }
}

impl Kind for List {
    fn of(value: &Value) -> Result<&Self, Refusal> {
        if let Value::List(list) = value { Ok(list) } else { Err(Refusal::WrongType) }
    }

    fn of_mut(value: &mut Value) -> Result<&mut Self, Refusal> {
        if let Value::List(list) = value { Ok(list) } else { Err(Refusal::WrongType) }
    }

    fn empty_value(_: Key) -> Value {
        Value::List(List::default())
    }
}

/// Memory charged for the value of a member, in addition to the member's name.
pub trait Cost {
    /// Returns the cost in bytes.
    fn cost(&self) -> usize;
}

impl Cost for () {
    fn cost(&self) -> usize {
        0
    }
}

impl Cost for Box<[u8]> {
    fn cost(&self) -> usize {
        self.len()
    }
}

/// Members of a set (without values), or fields of a hash with their values.
#[derive(Debug)]
pub struct Members<V> {
    table: Table<V>,
    cost: usize,
}

impl<V: Cost> Members<V> {
    fn empty(key: Key) -> Members<V> {
        Members { table: Table::new(key), cost: 0 }
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the value of a member.
    pub fn get(&self, name: &[u8]) -> Option<&V> {
        self.table.get(name)
    }

    /// Inserts a member; returns whether it is new.
    pub fn insert(&mut self, name: &[u8], value: V) -> bool {
        self.cost += value.cost();
        match self.table.insert(name, value) {
            Some(old) => {
                self.cost -= old.cost();
                false
            }
            None => {
                self.cost += name.len() + ELEMENT;
                true
            }
        }
    }

    /// Removes a member; returns whether it existed.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let taken = self.table.remove(name);
        self.less(taken).is_some()
    }

    /// Removes the member that the random number `number` selects, and returns its name.
    pub fn draw(&mut self, number: u64) -> Option<Box<[u8]>> {
        let at = number.checked_rem(self.table.len() as u64)?;
        let taken = self.table.remove_at(at as usize);
        self.less(taken)
    }

    fn less(&mut self, taken: Option<(Box<[u8]>, V)>) -> Option<Box<[u8]>> {
        let (name, value) = taken?;
        self.cost -= name.len() + value.cost() + ELEMENT;
        Some(name)
    }

    /// Visits members; see [`Table::scan`].
    pub fn scan<'t>(&'t self, cursor: u64, most: usize, visit: impl FnMut(&'t [u8], &'t V) -> bool) -> u64 {
        self.table.scan(cursor, most, visit)
    }

    /// Returns all members, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.table.iter()
    }
}

impl Kind for Members<()> {
    fn of(value: &Value) -> Result<&Self, Refusal> {
        if let Value::Set(set) = value { Ok(set) } else { Err(Refusal::WrongType) }
    }

    fn of_mut(value: &mut Value) -> Result<&mut Self, Refusal> {
        if let Value::Set(set) = value { Ok(set) } else { Err(Refusal::WrongType) }
    }

    fn empty_value(key: Key) -> Value {
        Value::Set(Members::empty(key))
    }
}

impl Kind for Members<Box<[u8]>> {
    fn of(value: &Value) -> Result<&Self, Refusal> {
        if let Value::Hash(hash) = value { Ok(hash) } else { Err(Refusal::WrongType) }
    }

    fn of_mut(value: &mut Value) -> Result<&mut Self, Refusal> {
        if let Value::Hash(hash) = value { Ok(hash) } else { Err(Refusal::WrongType) }
    }

    fn empty_value(key: Key) -> Value {
        Value::Hash(Members::empty(key))
    }
}

/// A score of a sorted set: any number except NaN and negative zero.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Score(f64);

impl Score {
    /// Creates a score, unless the number is NaN.
    pub fn new(score: f64) -> Option<Score> {
        (!score.is_nan()).then_some(Score(score + 0.0))
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A sorted set, ordered by score and then by name. Each name is stored twice.
#[derive(Debug)]
pub struct Sorted {
    scores: Table<Score>,
    order: BTreeSet<(Score, Box<[u8]>)>,
    cost: usize,
}

impl Sorted {
    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Returns the score of a member.
    pub fn score(&self, name: &[u8]) -> Option<Score> {
        self.scores.get(name).copied()
    }

    /// Sets the score of a member; returns whether it is new.
    pub fn insert(&mut self, name: &[u8], score: Score) -> bool {
        let old = self.scores.insert(name, score);
        match old {
            Some(old) if old == score => return false,
            Some(old) => drop(self.order.remove(&(old, name.into()))),
            None => self.cost += 2 * (name.len() + ELEMENT),
        }
        self.order.insert((score, name.into()));
        old.is_none()
    }

    /// Removes a member. Returns whether it existed.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some((name, score)) = self.scores.remove(name) else { return false };
        self.cost -= 2 * (name.len() + ELEMENT);
        self.order.remove(&(score, name));
        true
    }

    /// Returns all members in ascending order of scores.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], Score)> {
        self.order.iter().map(|(score, name)| (&**name, *score))
    }

    /// Returns the members whose scores are in an inclusive range, in ascending order of scores.
    pub fn between(&self, from: Score, to: Score) -> impl DoubleEndedIterator<Item = (&[u8], Score)> {
        let bounds = (from, Box::default())..;
        let found = (from <= to).then(|| self.order.range(bounds).take_while(move |(score, _)| *score <= to));
        // The members are collected first, since an upper bound for `range` would have to contain a
        // name greater than all others.
        let found: Vec<_> = found.into_iter().flatten().map(|(score, name)| (&**name, *score)).collect();
        found.into_iter()
    }

    /// Visits members; see [`Table::scan`].
    pub fn scan<'t>(&'t self, cursor: u64, most: usize, visit: impl FnMut(&'t [u8], &'t Score) -> bool) -> u64 {
        self.scores.scan(cursor, most, visit)
    }

    /// Removes the member with the lowest score.
    pub fn pop_first(&mut self) -> Option<(Score, Box<[u8]>)> {
        let first = self.order.pop_first()?;
        self.scores.remove(&first.1);
        self.cost -= 2 * (first.1.len() + ELEMENT);
        Some(first)
    }
}

impl Kind for Sorted {
    fn of(value: &Value) -> Result<&Self, Refusal> {
        if let Value::Sorted(sorted) = value { Ok(sorted) } else { Err(Refusal::WrongType) }
    }

    fn of_mut(value: &mut Value) -> Result<&mut Self, Refusal> {
        if let Value::Sorted(sorted) = value { Ok(sorted) } else { Err(Refusal::WrongType) }
    }

    fn empty_value(key: Key) -> Value {
        Value::Sorted(Sorted { scores: Table::new(key), order: BTreeSet::new(), cost: 0 })
    }
}
