//! Groups of 16 entries, a cache line each: IPv4's under a /24 that has longer prefixes, and those of IPv6's trie, which also
//! takes quarters of them.
//!
//! Groups stand in segments that never move, for readers are in them while the writer makes more. [`Groups`] is what both see;
//! [`Spare`] is the writer's: which groups are free, and which were taken out but may still be in a reader's hand.
#![allow(clippy::indexing_slicing, reason = "a group's number comes from `Spare`, which counts them; 4 bits index 16")]

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::entry::{DEFAULT_LIMIT, Entry};
use buf::mem::{self, Pages};
use lock::Pins;

const GROUP: u32 = 1 << 31;
const IN_GROUP: usize = 16;
/// Groups in the first segment, 4 KiB; each has twice as many as the one before, which the system gives zeroed.
const FIRST: usize = 64;
/// Segments for two groups for each of four million /32: 512 MiB.
const SEGMENTS: usize = 17;
const GROUPS_MAX: usize = FIRST * ((1 << SEGMENTS) - 1);
const _: () = assert!(GROUPS_MAX >= 2 * DEFAULT_LIMIT && GROUPS_MAX * QUARTERS < INDEX as usize);
/// The bits of a reference that count quarters of groups; the two above them are for the matcher.
const INDEX: u32 = (1 << 29) - 1;
/// Entries of a quarter of a group.
pub(super) const IN_QUARTER: usize = 4;
const QUARTERS: usize = IN_GROUP / IN_QUARTER;
/// Groups that wait for readers. Beyond that a group stays where it is with all its entries the same, which is right, if not
/// short; the next removal there looks again.
const WAITING: usize = 1 << 16;
/// So many wait before the readers are asked.
const ASK_AT: usize = 64;

/// Returns whether an entry, or one of several that are or-ed together, refers to words.
#[inline(always)]
pub(super) fn is_group(entry: u32) -> bool {
    entry & GROUP != 0
}

#[inline(always)]
fn index(entry: u32) -> usize {
    (entry & INDEX) as usize
}

/// A matcher's references, resolved.
pub(super) trait Below {
    /// Returns the entries below one that refers to words.
    fn below(&self, entry: u32) -> &[AtomicU32];
}

impl Below for Groups {
    #[inline(always)]
    fn below(&self, entry: u32) -> &[AtomicU32] {
        self.of(entry)
    }
}

/// Every entry that no prefix longer than `len` owns becomes `with`, in `entries` and in the groups below them.
///
/// Insert and remove are both this: under a present prefix no entry belongs to a shorter one. Each entry is the whole answer for its
/// addresses, so a reader in between has for each address the answer of before or that of after.
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

/// Segment of a quarter, and its first word there.
#[inline(always)]
fn place(quarter: usize) -> (usize, usize) {
    let at = quarter + FIRST * QUARTERS;
    let segment = at.ilog2() - (FIRST * QUARTERS).ilog2();
    (segment as usize, (at - ((FIRST * QUARTERS) << segment)) * IN_QUARTER)
}

/// The groups of a matcher, in segments.
#[derive(Default)]
pub(super) struct Groups {
    segments: [OnceLock<Segment>; SEGMENTS],
}

/// Groups on cache lines of their own: they begin at `words[first]`, where the first line begins.
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
    /// Returns the words of what an entry refers to, and of all that follows it in the segment.
    #[inline(always)]
    pub(super) fn from(&self, entry: u32) -> &[AtomicU32] {
        let (segment, at) = place(index(entry));
        match self.segments.get(segment).and_then(OnceLock::get) {
            Some(segment) => &segment.words[segment.first + at..],
            None => &[], // no entry refers to a group that was not made
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

    /// Makes `entry` refer to a group that says the same for all 16, if it does not refer to one yet: filled first, then
    /// shown. `None`: there are no more groups.
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

    /// Takes the group of `entry` out once nothing longer than `len` is left in it. Readers that are in it find there what it said last.
    pub(super) fn close(&self, entry: &AtomicU32, len: u8, spare: &mut Spare, pins: &Pins) {
        let group = entry.load(Ordering::Relaxed);
        if !is_group(group) || spare.is_behind() {
            return;
        }
        let inside = self.of(group);
        let bound = Entry::bound(len);
        // Entries of prefixes that cover the group are all the same one: the longest.
        if inside.iter().all(|inside| inside.load(Ordering::Relaxed) < bound) {
            entry.store(inside[0].load(Ordering::Relaxed), Ordering::Release);
            spare.retire(group, pins);
        }
    }
}

/// The groups and quarters that no entry refers to.
pub struct Spare {
    groups: Free,
    quarters: Free,
    /// Groups allocated.
    pub(super) made: usize,
    /// Groups divided into quarters.
    quartered: usize,
    pub(super) pages: Pages,
}

/// Numbers that no entry refers to: those free for use, and those that a pinned reader may still use.
#[derive(Default)]
struct Free {
    free: Vec<u32>,
    /// Taken out at this count of [`Pins`], the oldest first.
    waiting: VecDeque<(u64, u32)>,
}

impl Default for Spare {
    fn default() -> Spare {
        Spare { groups: Free::default(), quarters: Free::default(), made: 0, quartered: 0, pages: Pages::Small }
    }
}

impl Spare {
    /// Returns the bytes of all groups, used or not, and of the lists.
    pub(super) fn bytes(&self) -> usize {
        self.made * IN_GROUP * size_of::<u32>() + self.groups.bytes() + self.quarters.bytes()
    }

    /// Returns whether `groups` more can be had for sure.
    pub(super) fn has(&self, groups: usize) -> bool {
        GROUPS_MAX - self.made + self.groups.free.len() >= groups
    }

    /// Returns the number of groups and quarters that entries refer to.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        let groups = self.made - self.quartered - self.groups.len();
        groups + self.quartered * QUARTERS - self.quarters.len()
    }

    /// Returns whether so many wait for readers that no more is to be taken out than must be.
    pub(super) fn is_behind(&self) -> bool {
        self.groups.waiting.len().max(self.quarters.waiting.len()) >= WAITING
    }

    /// Takes a group of any content that no entry refers to.
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

    /// Takes a quarter of a group of any content that no entry refers to.
    pub(super) fn take_quarter(&mut self, groups: &Groups, pins: &Pins) -> Option<u32> {
        if let Some(quarter) = self.quarters.take(pins) {
            return Some(quarter);
        }
        let group = self.take(groups, pins)?;
        self.quartered += 1;
        self.quarters.free.extend((1..QUARTERS as u32).rev().map(|at| group + at));
        Some(group)
    }

    /// Takes back a group that no entry refers to, for use once no reader has it.
    pub(super) fn retire(&mut self, group: u32, pins: &Pins) {
        self.groups.retire(group, pins);
    }

    /// Takes back a quarter, as [`Spare::retire`].
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

    /// Frees what no reader has in hand any more.
    fn look_after(&mut self, pins: &Pins) {
        let passed = pins.passed();
        while let Some((_, entry)) = self.waiting.pop_front_if(|(at, _)| *at <= passed) {
            self.free.push(entry);
        }
    }
}
