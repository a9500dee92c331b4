//! What arrived out of order, as ranges; and which of them to report (RFC 9293 MUST-39, RFC 2018 4, RFC 2883).
//!
//! The bytes lie with the host. Here are sorted, disjoint, non-touching ranges, at most as many as configured: a segment
//! that would make one more is dropped, so that a sender of crumbs (SegmentSmack, CVE-2018-5390) costs O(log n) to find the
//! place and a bounded move to make it. What was reported is never taken back for want of room.

use crate::{Block, SeqNum};

/// Blocks that fit into a header without other options.
const MOST_BLOCKS: usize = 4;

/// The ranges beyond RCV.NXT.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reassembly {
    ranges: Vec<Block>,
    /// Left edges of the ranges that changed last, newest first.
    recent: [SeqNum; MOST_BLOCKS],
    recents: u8,
}

/// What became of text beyond RCV.NXT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    /// It brought something new.
    New,
    /// All of it was there: within this range.
    Duplicate(Block),
    /// There is no room for another range.
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

    /// The number after the last that is held.
    pub(crate) fn end(&self) -> Option<SeqNum> {
        self.ranges.last().map(|range| range.right)
    }

    /// Takes `left..right`, which is not empty and lies beyond RCV.NXT.
    pub(crate) fn insert(&mut self, left: SeqNum, right: SeqNum, most: usize) -> Stored {
        // The ranges that touch the new one are `from..to`.
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

    /// The first part of `left..right` that is held already (RFC 2883 4: what is reported is contiguous).
    pub(crate) fn held_of(&self, left: SeqNum, right: SeqNum) -> Option<Block> {
        let at = self.ranges.partition_point(|range| range.right.at_or_before(left));
        let range = self.ranges.get(at).filter(|range| range.left.before(right))?;
        Some(Block { left: range.left.later(left), right: range.right.earlier(right) })
    }

    /// RCV.NXT is `nxt` now: answers how much further stored text takes it.
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

    /// Forgets everything, and says what.
    pub(crate) fn clear(&mut self) -> Option<Block> {
        let (first, last) = (self.ranges.first()?, self.ranges.last()?);
        let all = Block { left: first.left, right: last.right };
        self.ranges.clear();
        self.recents = 0;
        Some(all)
    }

    /// The ranges to report: the one that changed last first, then those that were reported before (RFC 2018 4).
    pub(crate) fn report(&self) -> impl Iterator<Item = Block> + '_ {
        self.recent.iter().take(usize::from(self.recents)).filter_map(|left| self.starting_at(*left))
    }

    /// The range that holds `left..right`, for the second block of a D-SACK (RFC 2883 4).
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

    /// Panics unless ranges are sorted, disjoint, apart, and beyond `nxt`.
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
