//! A set of ports.

use crate::{MAX_PORTS, PortNo};

/// A set of ports, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::bridge) struct PortSet([u64; MAX_PORTS / 64]);

impl PortSet {
    /// The set of all ports.
    pub const ALL: PortSet = PortSet([u64::MAX; MAX_PORTS / 64]);

    pub fn contains(&self, port: PortNo) -> bool {
        self.0.get(usize::from(port >> 6)).is_some_and(|word| word >> (port & 63) & 1 != 0)
    }

    pub fn insert(&mut self, port: PortNo) {
        if let Some(word) = self.0.get_mut(usize::from(port >> 6)) {
            *word |= 1 << (port & 63);
        }
    }

    pub fn remove(&mut self, port: PortNo) {
        if let Some(word) = self.0.get_mut(usize::from(port >> 6)) {
            *word &= !(1 << (port & 63));
        }
    }

    /// Returns the union of this set and `other`.
    pub fn with(mut self, other: &PortSet) -> PortSet {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
        self
    }
}
