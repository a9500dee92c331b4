//! Groups of 16 entries, each of which is one cache line. The IPv4 table uses them for a /24 that
//! contains longer prefixes. The IPv6 trie uses groups and also quarters of a group.
//!
//! Groups are stored in memory segments that never move, since readers use them while the writer
//! adds more. [`Groups`] is shared by the readers and the writer. [`Spare`] belongs to the writer
//! and contains the free groups, and the removed groups that a reader may still use.
#![allow(clippy::indexing_slicing, reason = "`Spare` allocates the group numbers; 4 bits index 16 entries")]

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::entry::{DEFAULT_LIMIT, Entry};
use buf::mem::{self, Pages};
use lock::Pins;

const GROUP: u32 = 1 << 31;
const IN_GROUP: usize = 16;
/// Number of groups in the first segment, which takes 4 KiB. Each further segment is twice as
/// large. The operating system provides zeroed pages.
const FIRST: usize = 64;
/// Maximum number of segments: enough for four million /32 routes with two groups each, which take
/// 512 MiB.
const SEGMENTS: usize = 17;
const GROUPS_MAX: usize = FIRST * ((1 << SEGMENTS) - 1);
const _: () = assert!(GROUPS_MAX >= 2 * DEFAULT_LIMIT && GROUPS_MAX * QUARTERS < INDEX as usize);
/// Mask of the bits of a reference that contain a position, counted in quarters of a group. The
/// matcher uses the two bits above them.
const INDEX: u32 = (1 << 29) - 1;
/// Number of entries in a quarter of a group.
pub(super) const IN_QUARTER: usize = 4;
const QUARTERS: usize = IN_GROUP / IN_QUARTER;
/// Maximum number of removed groups that wait because readers may still use them. At this limit, a
/// group that is no longer needed stays in use with 16 equal entries, which is correct but not
/// compact. The next removal of a route in that group tries again to remove it.
const WAITING: usize = 1 << 16;
/// The pins of the readers are checked whenever the number of waiting groups is a multiple of this
/// number.
const ASK_AT: usize = 64;

/// Returns whether an entry is a reference. For the bitwise OR of several entries, returns whether
/// at least one of them is a reference.
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
    /// Returns the entries to which the reference `entry` points.
    fn below(&self, entry: u32) -> &[AtomicU32];
}

impl Below for Groups {
    #[inline(always)]
    fn below(&self, entry: u32) -> &[AtomicU32] {
        self.of(entry)
    }
}

/// Sets the entries in `entries`, and in the groups to which they refer, to `with`, except entries
/// of prefixes longer than `len`.
///
/// The insertion and the removal of a prefix of `len` bits both use this function. It works for a
/// removal because, while a prefix is present, no entry for its addresses belongs to a shorter
/// prefix. Each entry is the complete answer for its addresses, so a concurrent reader gets either
/// the old or the new answer for each address.
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

/// Returns the number of the segment that contains the quarter with the number `quarter`, and the
/// index of the quarter's first word in that segment.
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

/// Memory of a segment. The groups begin at `words[first]`, which is on a cache line boundary.
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
    /// Returns the words of a segment, from the group or quarter that `entry` refers to, to the end
    /// of the segment.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn from(&self, entry: u32) -> &[AtomicU32] {
        let (segment, at) = place(index(entry));
        match self.segments.get(segment).and_then(OnceLock::get) {
            Some(segment) => &segment.words[segment.first + at..],
            None => &[], // no entry refers to a group that was not allocated
        }
    }

    /// Returns the entries of the group that `entry` refers to.
    #[inline(always)]
    pub(super) fn of(&self, entry: u32) -> &[AtomicU32] {
        &self.from(entry)[..IN_GROUP]
    }

    #[inline(always)]
    pub(super) fn at(&self, entry: u32, nibble: usize) -> u32 {
        self.of(entry)[nibble].load(Ordering::Acquire)
    }

    /// Replaces `entry` by a reference to a new group with 16 copies of it, unless it is a
    /// reference already. The group is filled before it is published. Returns the reference; `None`
    /// if no groups are left.
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

    /// Removes the group that `entry` refers to, if it contains no entry of a prefix longer than
    /// `len`. Readers that still use the group see its last entries.
    pub(super) fn close(&self, entry: &AtomicU32, len: u8, spare: &mut Spare, pins: &Pins) {
        let group = entry.load(Ordering::Relaxed);
        if !is_group(group) || spare.is_full() {
            return;
        }
        let inside = self.of(group);
        let bound = Entry::bound(len);
        // If only prefixes that cover the whole group remain, all entries are equal: they belong to
        // the longest of these prefixes.
        if inside.iter().all(|inside| inside.load(Ordering::Relaxed) < bound) {
            entry.store(inside[0].load(Ordering::Relaxed), Ordering::Release);
            spare.retire(group, pins);
        }
    }
}

/// Allocator of groups and quarters. It contains the numbers of those that no entry refers to, and
/// the number of groups allocated so far.
pub struct Spare {
    groups: Free,
    quarters: Free,
    pub(super) made: usize,
    /// Number of groups divided into quarters.
    quartered: usize,
    pub(super) pages: Pages,
}

/// Numbers of groups or quarters that no entry refers to: free ones, and those that a pinned reader
/// may still use.
#[derive(Default)]
struct Free {
    free: Vec<u32>,
    /// Numbers of removed groups or quarters, each with the time of its removal (a count of
    /// [`Pins`]), oldest first.
    waiting: VecDeque<(u64, u32)>,
}

impl Default for Spare {
    fn default() -> Spare {
        Spare { groups: Free::default(), quarters: Free::default(), made: 0, quartered: 0, pages: Pages::Small }
    }
}

impl Spare {
    /// Returns the size in bytes of all groups, used or not, and of the lists of free groups.
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

    /// Returns whether the number of removed groups or quarters that readers may still use has
    /// reached its limit. Optional removals must then be omitted.
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

    /// Frees a quarter that no entry refers to. It is reused once no reader can use it.
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

    /// Moves the numbers that no reader can use any more from `waiting` to `free`.
    fn look_after(&mut self, pins: &Pins) {
        let passed = pins.passed();
        while let Some(&(at, entry)) = self.waiting.front()
            && at <= passed
        {
            self.waiting.pop_front();
            self.free.push(entry);
        }
    }
}
