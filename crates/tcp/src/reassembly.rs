//! Out-of-order data as ranges, and the order in which to report them (RFC 9293 MUST-39, RFC 2018
//! 4, RFC 2883).
//!
//! The host stores the bytes. The ranges are sorted, disjoint and non-adjacent. The configuration
//! limits their number: a segment that would add one more is dropped. Each tiny segment of an
//! attacker (SegmentSmack, CVE-2018-5390) therefore costs O(log n) for the lookup and a bounded
//! move for the insertion. Data that a SACK has reported is never discarded to make space.

use crate::{Block, SeqNum};
use alloc::vec::Vec;

/// Maximum SACK blocks in a header without other options.
const MOST_BLOCKS: usize = 4;

/// Ranges of data beyond RCV.NXT.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reassembly {
    ranges: Vec<Block>,
    /// Left edges of the ranges that changed last, newest first.
    recent: [SeqNum; MOST_BLOCKS],
    recents: u8,
}

/// Result of storing data beyond RCV.NXT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    /// At least a part of the data was new and is now stored.
    New,
    /// All of the data was already stored, within this range.
    Duplicate(Block),
    /// The data was dropped: the maximum number of ranges is reached.
    Full,
}

impl Reassembly {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn ranges(&self) -> &[Block] {
        &self.ranges
    }

    /// Returns the sequence number after the last byte stored.
    pub(crate) fn end(&self) -> Option<SeqNum> {
        self.ranges.last().map(|range| range.right)
    }

    /// Stores the range `left..right`, which is not empty and lies beyond RCV.NXT. `most` is the
    /// maximum number of ranges.
    pub(crate) fn insert(&mut self, left: SeqNum, right: SeqNum, most: usize) -> Stored {
        // Ranges with index `from..to` touch the new one.
        let from = self.ranges.partition_point(|range| range.right.before(left));
        let mut to = from;
        let mut joined = Block { left, right };
        while let Some(range) = self.ranges.get(to).filter(|range| range.left.at_or_before(right)) {
            if range.left.at_or_before(left) && range.right.at_or_after(right) {
                let whole = *range;
                self.touch(whole.left);
                return Stored::Duplicate(whole);
            }
            joined = Block { left: joined.left.earlier(range.left), right: joined.right.later(range.right) };
            self.unlist(range.left);
            to += 1;
        }
        if from == to {
            if self.ranges.len() >= most {
                return Stored::Full;
            }
            self.ranges.insert(from, joined);
        } else {
            if let Some(first) = self.ranges.get_mut(from) {
                *first = joined;
            }
            self.ranges.drain(from + 1..to);
        }
        self.touch(joined.left);
        Stored::New
    }

    /// Returns the first part of `left..right` that is already stored (RFC 2883 4: the reported
    /// range is contiguous).
    pub(crate) fn held_of(&self, left: SeqNum, right: SeqNum) -> Option<Block> {
        let at = self.ranges.partition_point(|range| range.right.at_or_before(left));
        let range = self.ranges.get(at).filter(|range| range.left.before(right))?;
        Some(Block { left: range.left.later(left), right: range.right.earlier(right) })
    }

    /// Removes the ranges that begin at or before `nxt`, the new RCV.NXT. Returns how many bytes
    /// beyond `nxt` those ranges extend.
    pub(crate) fn join(&mut self, nxt: SeqNum) -> u32 {
        let passed = self.ranges.partition_point(|range| range.left.at_or_before(nxt));
        let mut reach = nxt;
        for at in 0..passed {
            if let Some(range) = self.ranges.get(at).copied() {
                reach = reach.later(range.right);
                self.unlist(range.left);
            }
        }
        self.ranges.drain(..passed);
        reach.since(nxt)
    }

    /// Discards all ranges and returns one block that spans them.
    pub(crate) fn clear(&mut self) -> Option<Block> {
        let (first, last) = (self.ranges.first()?, self.ranges.last()?);
        let all = Block { left: first.left, right: last.right };
        self.ranges.clear();
        self.recents = 0;
        Some(all)
    }

    /// Returns the ranges to report in SACK blocks: the one that changed last, then those reported
    /// before (RFC 2018 4).
    pub(crate) fn report(&self) -> impl Iterator<Item = Block> + '_ {
        self.recent.iter().take(usize::from(self.recents)).filter_map(|left| self.starting_at(*left))
    }

    /// Returns the range that starts at `left`.
    fn starting_at(&self, left: SeqNum) -> Option<Block> {
        let at = self.ranges.partition_point(|range| range.left.before(left));
        self.ranges.get(at).copied().filter(|range| range.left == left)
    }

    fn touch(&mut self, left: SeqNum) {
        self.unlist(left);
        self.recent.rotate_right(1);
        if let Some(first) = self.recent.first_mut() {
            *first = left;
        }
        self.recents = (self.recents + 1).min(MOST_BLOCKS as u8);
    }

    fn unlist(&mut self, left: SeqNum) {
        let listed = self.recent.get_mut(..usize::from(self.recents)).unwrap_or_default();
        if let Some(at) = listed.iter().position(|other| *other == left) {
            listed.get_mut(at..).unwrap_or_default().rotate_left(1);
            self.recents -= 1;
        }
    }

    /// Panics unless the ranges are sorted, disjoint, non-adjacent, and beyond `nxt`.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn check_invariants(&self, nxt: SeqNum) {
        let mut before = nxt;
        for range in &self.ranges {
            assert!(range.left.after(before) && range.right.after(range.left));
            before = range.right;
        }
        assert!(self.recents as usize <= MOST_BLOCKS && self.recents as usize <= self.ranges.len());
        assert_eq!(self.report().count(), self.recents as usize);
    }
}

#[cfg(test)]
mod tests;
