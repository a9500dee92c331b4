//! Binary heap of the keys whose deadline is in the current granule, earliest first. The entry of
//! each key contains its position in the heap, so that a key can be removed from the middle.

use super::Entry;
use crate::Instant;
use alloc::vec::Vec;

/// A heap of (deadline, key) pairs; [`Entry::prev`] contains a key's position.
#[derive(Debug, Default)]
pub(super) struct Near(Vec<(Instant, u32)>);

impl Near {
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        self.0.first().copied()
    }

    pub(super) fn push(&mut self, at: Instant, key: u32, entries: &mut [Entry]) {
        self.0.push((at, key));
        self.rise(self.0.len() - 1, entries);
    }

    /// Removes the key at `position`.
    pub(super) fn remove(&mut self, position: u32, entries: &mut [Entry]) {
        let position = position as usize;
        self.0.swap_remove(position);
        if position < self.0.len() {
            let settled = self.sink(position, entries);
            self.rise(settled, entries);
        }
    }

    fn rise(&mut self, mut at: usize, entries: &mut [Entry]) {
        while at > 0 && self.0[at] < self.0[(at - 1) / 2] {
            self.0.swap(at, (at - 1) / 2);
            self.note(at, entries);
            at = (at - 1) / 2;
        }
        self.note(at, entries);
    }

    fn sink(&mut self, mut at: usize, entries: &mut [Entry]) -> usize {
        loop {
            let children = 2 * at + 1..self.0.len().min(2 * at + 3);
            let Some(least) = children.min_by_key(|child| self.0[*child]).filter(|child| self.0[*child] < self.0[at])
            else {
                self.note(at, entries);
                return at;
            };
            self.0.swap(at, least);
            self.note(at, entries);
            at = least;
        }
    }

    fn note(&self, at: usize, entries: &mut [Entry]) {
        entries[self.0[at].1 as usize].prev = at as u32;
    }
}
