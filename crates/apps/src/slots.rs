//! Numbered places for connections: as many as configured, the lowest free one next.

use std::collections::BTreeSet;

/// Values by number, at most `most` of them.
#[derive(Debug)]
pub struct Slots<T> {
    values: Vec<Option<T>>,
    free: BTreeSet<u32>,
    most: u32,
    len: usize,
}

impl<T> Slots<T> {
    /// Room for `most`.
    pub fn new(most: usize) -> Slots<T> {
        Slots { values: Vec::new(), free: BTreeSet::new(), most: most.min(1 << 18) as u32, len: 0 }
    }

    /// Puts a value into the lowest free place; gives it back if there is none.
    ///
    /// # Errors
    /// The value, if all places are taken.
    pub fn insert(&mut self, value: T) -> Result<u32, T> {
        let at = match self.free.pop_first() {
            Some(at) => at,
            None if (self.values.len() as u32) < self.most => {
                self.values.push(None);
                (self.values.len() - 1) as u32
            }
            None => return Err(value),
        };
        if let Some(place) = self.values.get_mut(at as usize) {
            *place = Some(value);
            self.len += 1;
        }
        Ok(at)
    }

    /// Takes a value out.
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.values.get_mut(at as usize)?.take()?;
        self.free.insert(at);
        self.len -= 1;
        Some(value)
    }

    /// The value at a place.
    pub fn get(&self, at: u32) -> Option<&T> {
        self.values.get(at as usize)?.as_ref()
    }

    /// The value at a place, to be changed.
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.values.get_mut(at as usize)?.as_mut()
    }

    /// All values with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.values.iter().enumerate().filter_map(|(at, value)| Some((at as u32, value.as_ref()?)))
    }

    /// All values with their numbers, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.values.iter_mut().enumerate().filter_map(|(at, value)| Some((at as u32, value.as_mut()?)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
