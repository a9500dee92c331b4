//! What lies under a /24 that has longer prefixes: groups of 16 entries, 64 bytes each.
#![allow(clippy::indexing_slicing, reason = "entries are written here only, from the length of `all`; 4 bits index 16")]

use std::ops::Range;

use super::Entry;

const GROUP: u32 = 1 << 31;
/// No entry refers to group 0: it ends the free list.
const NO_GROUP: u32 = 0;

type Group = [u32; 16];

/// True of an entry that refers to a group, and of several entries or-ed together of which one does.
#[inline(always)]
pub(super) fn is_group(entry: u32) -> bool {
    entry & GROUP != 0
}

#[inline(always)]
fn index(entry: u32) -> usize {
    (entry & !GROUP) as usize
}

/// Every entry that no prefix longer than `len` owns becomes `with`, in `entries` and in the groups below them.
///
/// Insert and remove are both this: under a present prefix no entry belongs to a shorter one.
pub(super) fn paint(entries: &mut [u32], groups: &mut Groups, len: u8, with: Entry) {
    let bound = Entry::bound(len);
    for entry in entries {
        if *entry < bound {
            *entry = with.0;
        } else if is_group(*entry) {
            groups.paint_part(*entry, 0..16, len, with);
        }
    }
}

pub(super) struct Groups {
    all: Vec<Group>,
    /// Head of the list of unused groups, linked through their first entry.
    free: u32,
}

impl Groups {
    pub(super) fn new() -> Groups {
        Groups { all: vec![[0; 16]], free: NO_GROUP }
    }

    #[inline]
    pub(super) fn at(&self, entry: u32, nibble: usize) -> u32 {
        self.all[index(entry)][nibble]
    }

    /// [`paint`] for some entries of one group.
    pub(super) fn paint_part(&mut self, group: u32, part: Range<usize>, len: u8, with: Entry) {
        let mut entries = self.all[index(group)];
        paint(&mut entries[part], self, len, with);
        self.all[index(group)] = entries;
    }

    /// Makes `entry` refer to a group that says the same for all 16, if it does not refer to one yet.
    pub(super) fn open(&mut self, entry: &mut u32) -> u32 {
        if !is_group(*entry) {
            *entry = self.take([*entry; 16]);
        }
        *entry
    }

    /// [`Groups::open`] for an entry that is itself in a group.
    pub(super) fn open_inner(&mut self, outer: u32, nibble: usize) -> u32 {
        let mut entry = self.at(outer, nibble);
        self.open(&mut entry);
        self.all[index(outer)][nibble] = entry;
        entry
    }

    /// Gives back the group of `entry` once nothing longer than `len` is left in it.
    pub(super) fn close(&mut self, entry: &mut u32, len: u8) {
        if !is_group(*entry) {
            return;
        }
        let group = &mut self.all[index(*entry)];
        // Entries of prefixes that cover the group are all the same one: the longest.
        if group.iter().all(|&inside| inside < Entry::bound(len)) {
            let unused = index(*entry) as u32;
            *entry = group[0];
            group[0] = self.free;
            self.free = unused;
        }
    }

    /// [`Groups::close`] for an entry that is itself in a group.
    pub(super) fn close_inner(&mut self, outer: u32, nibble: usize) {
        let mut entry = self.at(outer, nibble);
        self.close(&mut entry, 28);
        self.all[index(outer)][nibble] = entry;
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Group>()
    }

    fn take(&mut self, filled: Group) -> u32 {
        let index = self.free;
        if index != NO_GROUP {
            self.free = self.all[index as usize][0];
            self.all[index as usize] = filled;
            return GROUP | index;
        }
        if self.all.len() == self.all.capacity() {
            // By an eighth: doubling could hold 256 bytes a route for nothing. Large blocks move by remapping.
            self.all.reserve_exact(self.all.len() / 8 + 64);
        }
        self.all.push(filled);
        GROUP | (self.all.len() - 1) as u32
    }
}
