//! Groups of 16 entries, one cache line each: for an IPv4 /24 with longer prefixes, and for the
//! IPv6 trie, which also allocates quarters of a group.
//!
//! Groups live in segments that never move, since readers use them while the writer adds more.
//! [`Groups`] is shared by readers and writer. [`Spare`] belongs to the writer: the free groups,
//! and the removed groups that a reader may still use.
#![allow(clippy::indexing_slicing, reason = "a group's number comes from `Spare`, which counts them; 4 bits index 16")]

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::entry::{DEFAULT_LIMIT, Entry};
use buf::mem::{self, Pages};
use lock::Pins;

const GROUP: u32 = 1 << 31;
const IN_GROUP: usize = 16;
/// Number of groups in the first segment, which takes 4 KiB. Each further segment is twice as
/// large; the system provides zeroed pages.
const FIRST: usize = 64;
/// Number of segments: enough for two groups for each of four million /32 routes, which take 512
/// MiB.
const SEGMENTS: usize = 17;
const GROUPS_MAX: usize = FIRST * ((1 << SEGMENTS) - 1);
const _: () = assert!(GROUPS_MAX >= 2 * DEFAULT_LIMIT && GROUPS_MAX * QUARTERS < INDEX as usize);
/// Bits of a reference that index quarters of groups; the matcher uses the two bits above.
const INDEX: u32 = (1 << 29) - 1;
/// Number of entries in a quarter of a group.
pub(super) const IN_QUARTER: usize = 4;
const QUARTERS: usize = IN_GROUP / IN_QUARTER;
/// Maximum number of removed groups that readers may still use. Beyond it, a group stays in place
/// with 16 equal entries, which is correct but not compact. The next removal there tries again.
const WAITING: usize = 1 << 16;
/// Number of removed groups at which the readers' pins are checked.
const ASK_AT: usize = 64;

/// Returns whether an entry, or the OR of several entries, contains a group reference.
#[inline(always)]
pub(super) fn is_group(entry: u32) -> bool {
    entry & GROUP != 0
}

#[inline(always)]
fn index(entry: u32) -> usize {
    (entry & INDEX) as usize
}

/// Resolves the references of a matcher.
pub(super) trait Below {
    /// Returns the entries that a reference points to.
    fn below(&self, entry: u32) -> &[AtomicU32];
}

impl Below for Groups {
    #[inline(always)]
    fn below(&self, entry: u32) -> &[AtomicU32] {
        self.of(entry)
    }
}

/// Sets every entry that does not belong to a prefix longer than `len` to `with`, in `entries` and
/// in the groups below.
///
/// Insert and remove both use this function: under a present prefix, no entry belongs to a shorter
/// one. Each entry is the complete answer for its addresses, so a concurrent reader gets either the
/// old or the new answer for each address.
pub(super) fn paint(entries: &[AtomicU32], groups: &impl Below, len: u8, with: Entry) {
    let bound = Entry::bound(len);
    for entry in entries {
        let now = entry.load(Ordering::Relaxed);
        if now < bound {
            entry.store(with.0, Ordering::Release);
        } else if is_group(now) {
            paint(groups.below(now), groups, len, with);
        }
    }
}

/// Returns the segment that contains a quarter, and the index of the quarter's first word in that
/// segment.
#[inline(always)]
fn place(quarter: usize) -> (usize, usize) {
    let at = quarter + FIRST * QUARTERS;
    let segment = at.ilog2() - (FIRST * QUARTERS).ilog2();
    (segment as usize, (at - ((FIRST * QUARTERS) << segment)) * IN_QUARTER)
}

/// Groups of a matcher, stored in segments.
#[derive(Default)]
pub(super) struct Groups {
    segments: [OnceLock<Segment>; SEGMENTS],
}

/// Memory of a segment: the groups begin at `words[first]`, on a cache line boundary.
struct Segment {
    words: Box<[AtomicU32]>,
    first: usize,
}

impl Segment {
    fn new(words: usize, pages: Pages) -> Segment {
        let words: Box<[AtomicU32]> = mem::zeroed(words + IN_GROUP - 1, pages);
        let first = words.as_ptr().align_offset(IN_GROUP * size_of::<u32>());
        Segment { words, first }
    }
}

impl Groups {
    /// Returns the words of the table from the group that a reference names to the end of the
    /// memory segment that holds the group.
    #[inline(always)]
    pub(super) fn from(&self, entry: u32) -> &[AtomicU32] {
        let (segment, at) = place(index(entry));
        match self.segments.get(segment).and_then(OnceLock::get) {
            Some(segment) => &segment.words[segment.first + at..],
            None => &[], // no entry refers to a group that was not allocated
        }
    }

    /// Returns the entries of a group.
    #[inline(always)]
    pub(super) fn of(&self, entry: u32) -> &[AtomicU32] {
        &self.from(entry)[..IN_GROUP]
    }

    #[inline(always)]
    pub(super) fn at(&self, entry: u32, nibble: usize) -> u32 {
        self.of(entry)[nibble].load(Ordering::Acquire)
    }

    /// Replaces `entry` by a reference to a group with 16 copies of it, unless it is a reference
    /// already. The group is filled before it is published. Returns `None` if no groups are left.
    pub(super) fn open(&self, entry: &AtomicU32, spare: &mut Spare, pins: &Pins) -> Option<u32> {
        let now = entry.load(Ordering::Relaxed);
        if is_group(now) {
            return Some(now);
        }
        let group = spare.take(self, pins)?;
        self.of(group).iter().for_each(|inside| inside.store(now, Ordering::Relaxed));
        entry.store(group, Ordering::Release);
        Some(group)
    }

    /// Removes the group of `entry` once it contains no entry of a prefix longer than `len`.
    /// Readers that still use the group see its last entries.
    pub(super) fn close(&self, entry: &AtomicU32, len: u8, spare: &mut Spare, pins: &Pins) {
        let group = entry.load(Ordering::Relaxed);
        if !is_group(group) || spare.is_full() {
            return;
        }
        let inside = self.of(group);
        let bound = Entry::bound(len);
        // Entries of prefixes that cover the whole group are all equal: they belong to the longest
        // such prefix.
        if inside.iter().all(|inside| inside.load(Ordering::Relaxed) < bound) {
            entry.store(inside[0].load(Ordering::Relaxed), Ordering::Release);
            spare.retire(group, pins);
        }
    }
}

/// Groups and quarters that no entry refers to.
pub struct Spare {
    groups: Free,
    quarters: Free,
    pub(super) made: usize,
    /// Groups divided into quarters.
    quartered: usize,
    pub(super) pages: Pages,
}

/// Numbers that no entry refers to: free ones, and those that a pinned reader may still use.
#[derive(Default)]
struct Free {
    free: Vec<u32>,
    /// Removed numbers, each with the count of [`Pins`] at its removal, oldest first.
    waiting: VecDeque<(u64, u32)>,
}

impl Default for Spare {
    fn default() -> Spare {
        Spare { groups: Free::default(), quarters: Free::default(), made: 0, quartered: 0, pages: Pages::Small }
    }
}

impl Spare {
    /// Returns the size in bytes of all groups, used or not, and of the lists.
    pub(super) fn bytes(&self) -> usize {
        self.made * IN_GROUP * size_of::<u32>() + self.groups.bytes() + self.quarters.bytes()
    }

    /// Returns whether at least `groups` more groups can be allocated.
    pub(super) fn has(&self, groups: usize) -> bool {
        GROUPS_MAX - self.made + self.groups.free.len() >= groups
    }

    /// Returns the number of groups and quarters that entries refer to.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        let groups = self.made - self.quartered - self.groups.len();
        groups + self.quartered * QUARTERS - self.quarters.len()
    }

    /// Returns whether so many numbers wait for readers that optional removals must stop.
    pub(super) fn is_full(&self) -> bool {
        self.groups.waiting.len().max(self.quarters.waiting.len()) >= WAITING
    }

    /// Allocates a group; its content is undefined.
    pub(super) fn take(&mut self, groups: &Groups, pins: &Pins) -> Option<u32> {
        if let Some(group) = self.groups.take(pins) {
            return Some(group);
        }
        let first = self.made * QUARTERS;
        let (segment, _) = place(first);
        let words = (FIRST << segment) * IN_GROUP;
        groups.segments.get(segment)?.get_or_init(|| Segment::new(words, self.pages));
        self.made += 1;
        Some(GROUP | first as u32)
    }

    /// Allocates a quarter of a group; its content is undefined.
    pub(super) fn take_quarter(&mut self, groups: &Groups, pins: &Pins) -> Option<u32> {
        if let Some(quarter) = self.quarters.take(pins) {
            return Some(quarter);
        }
        let group = self.take(groups, pins)?;
        self.quartered += 1;
        self.quarters.free.extend((1..QUARTERS as u32).rev().map(|at| group + at));
        Some(group)
    }

    /// Frees a group that no entry refers to. It is reused once no reader can use it.
    pub(super) fn retire(&mut self, group: u32, pins: &Pins) {
        self.groups.retire(group, pins);
    }

    /// Frees a quarter, like [`Spare::retire`].
    pub(super) fn retire_quarter(&mut self, quarter: u32, pins: &Pins) {
        self.quarters.retire(quarter, pins);
    }
}

impl Free {
    fn bytes(&self) -> usize {
        self.free.capacity() * 4 + self.waiting.capacity() * 16
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.free.len() + self.waiting.len()
    }

    fn take(&mut self, pins: &Pins) -> Option<u32> {
        if self.free.is_empty() && !self.waiting.is_empty() {
            self.look_after(pins);
        }
        self.free.pop()
    }

    fn retire(&mut self, entry: u32, pins: &Pins) {
        self.waiting.push_back((pins.retire(), GROUP | entry & INDEX));
        if self.waiting.len().is_multiple_of(ASK_AT) {
            self.look_after(pins);
        }
    }

    /// Moves the numbers that no reader can use any more to `free`.
    fn look_after(&mut self, pins: &Pins) {
        let passed = pins.passed();
        while let Some((_, entry)) = self.waiting.pop_front_if(|(at, _)| *at <= passed) {
            self.free.push(entry);
        }
    }
}
