//! Retransmissions not yet reported by a D-SACK (RFC 3708).
//!
//! A reduction of the window was spurious only if every retransmission since its beginning arrived
//! in addition to its original. Each retransmission is therefore stored as a range of sequence
//! numbers until D-SACKs cover it. A D-SACK of any other data was caused by the network.

use crate::{Block, SeqNum};
use alloc::vec::Vec;

/// Maximum number of ranges stored; retransmissions of adjacent segments share a range. If more are
/// needed, the reduction cannot be undone.
const MAX: usize = 128;
/// Number of foreign D-SACKs, that is, D-SACKs of data that we did not retransmit, at which undo is
/// disabled. The network then duplicates segments, possibly including retransmissions.
const FOREIGN: u8 = 2;
/// Maximum count of foreign D-SACKs; the count decreases by one with each reduction.
const FOREIGN_MAX: u8 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    start: SeqNum,
    end: SeqNum,
    /// True if the retransmission was sent, or was in flight, since the current reduction of the
    /// window began.
    counts: bool,
}

/// Retransmissions of one connection that D-SACKs have not reported yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    /// Ranges of retransmitted data, in transmission order.
    ranges: Vec<Range>,
    /// True if a retransmission was sent since the current reduction of the window began.
    any: bool,
    /// True if a retransmission is missing from `ranges`, because the list was full.
    overflow: bool,
    /// Number of D-SACKs of data that was never retransmitted.
    foreign: u8,
}

impl Copies {
    /// Begins a reduction of the window. It includes the earlier retransmissions `under_way`, which
    /// are still in flight. Stored ranges that end at or before `oldest` are removed.
    pub(crate) fn begin(&mut self, oldest: SeqNum, under_way: impl Iterator<Item = (SeqNum, SeqNum)>) {
        (self.any, self.overflow) = (false, false);
        self.foreign = self.foreign.saturating_sub(1);
        self.ranges.retain(|copy| copy.end.after(oldest));
        for copy in &mut self.ranges {
            copy.counts = false;
        }
        for (start, end) in under_way {
            self.take(start, end);
            self.add(start, end);
        }
    }

    /// Marks the reduction of the window as no longer undoable. Its retransmissions remain stored,
    /// since their D-SACKs still indicate reordering.
    pub(crate) fn close(&mut self) {
        (self.any, self.overflow) = (false, false);
        for copy in &mut self.ranges {
            copy.counts = false;
        }
    }

    /// Adds the retransmission `start..end`.
    pub(crate) fn add(&mut self, start: SeqNum, end: SeqNum) {
        self.any = true;
        if let Some(last) = self.ranges.last_mut().filter(|last| last.end == start && last.counts) {
            last.end = end;
            return;
        }
        if self.ranges.len() >= MAX {
            match self.ranges.iter().position(|copy| !copy.counts) {
                Some(old) => drop(self.ranges.remove(old)),
                None => return self.overflow = true,
            }
        }
        self.ranges.push(Range { start, end, counts: true });
    }

    /// Processes D-SACK `block`. Returns whether some of its data was retransmitted.
    pub(crate) fn report(&mut self, block: Block) -> bool {
        let ours = self.take(block.left, block.right);
        if !ours {
            self.foreign = (self.foreign + 1).min(FOREIGN_MAX);
        }
        ours
    }

    /// Returns whether data was retransmitted since the reduction of the window began, and D-SACKs
    /// have reported all of these retransmissions.
    pub(crate) fn all_reported(&self) -> bool {
        self.any && !self.overflow && self.foreign < FOREIGN && !self.ranges.iter().any(|copy| copy.counts)
    }

    /// Removes one retransmission of each sequence number in `left..right`. Returns whether any was
    /// removed.
    fn take(&mut self, left: SeqNum, right: SeqNum) -> bool {
        let (mut left, mut any) = (left, false);
        while left.before(right) {
            let Some(index) = self.ranges.iter().position(|copy| copy.start.at_or_before(left) && copy.end.after(left))
            else {
                let next = self.ranges.iter().map(|copy| copy.start).filter(|start| start.after(left));
                match next.reduce(SeqNum::earlier) {
                    Some(next) => left = next,
                    None => break,
                }
                continue;
            };
            let copy = self.ranges.remove(index);
            any = true;
            let splits = copy.start.before(left) && copy.end.after(right);
            if splits && self.ranges.len() + 2 > MAX {
                // There is no space for the remaining parts, so the range stays whole.
                self.ranges.insert(index, copy);
                break;
            }
            if copy.end.after(right) {
                self.ranges.insert(index, Range { start: right, ..copy });
            }
            if copy.start.before(left) {
                self.ranges.insert(index, Range { end: left, ..copy });
            }
            left = copy.end;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(left: u32, right: u32) -> Block {
        Block { left: SeqNum(left), right: SeqNum(right) }
    }

    fn copies(of: &[(u32, u32)]) -> Copies {
        let mut copies = Copies::default();
        copies.begin(SeqNum(0), std::iter::empty());
        for &(start, end) in of {
            copies.add(SeqNum(start), SeqNum(end));
        }
        copies
    }

    /// RFC 3708 3: only D-SACKs of retransmitted data are evidence, and all of that data must be
    /// reported.
    #[test]
    fn all_are_reported_when_each_retransmission_is() {
        let mut copies = copies(&[(100, 200), (200, 300), (500, 600)]);
        assert!(!copies.all_reported());
        assert!(!copies.report(block(300, 500)), "the network's copy");
        assert!(copies.report(block(200, 300)) && copies.report(block(500, 600)));
        assert!(!copies.all_reported());
        assert!(copies.report(block(100, 150)));
        assert!(!copies.all_reported(), "half a copy");
        assert!(copies.report(block(150, 400)));
        assert!(copies.all_reported());
    }

    #[test]
    fn a_segment_retransmitted_twice_is_reported_twice() {
        let mut copies = copies(&[(100, 200), (100, 200)]);
        assert!(copies.report(block(100, 200)) && !copies.all_reported());
        assert!(copies.report(block(100, 200)) && copies.all_reported());
        assert!(!copies.report(block(100, 200)), "a third is the network's");
    }

    /// RFC 3708 3: if the network duplicates segments, a D-SACK is no evidence that the original
    /// arrived.
    #[test]
    fn duplicates_made_by_the_network_prevent_an_undo() {
        let mut copies = copies(&[(100, 200)]);
        assert!(!copies.report(block(500, 600)) && !copies.report(block(700, 800)));
        assert!(copies.report(block(100, 200)) && !copies.all_reported());
        copies.begin(SeqNum(0), std::iter::empty());
        copies.add(SeqNum(100), SeqNum(200));
        assert!(copies.report(block(100, 200)) && copies.all_reported(), "it is forgotten in time");
    }

    #[test]
    fn without_retransmissions_nothing_is_undone() {
        assert!(!copies(&[]).all_reported());
    }

    /// Retransmissions of the previous reduction remain stored for RACK but are not part of this
    /// one.
    #[test]
    fn copies_of_an_earlier_reduction_do_not_count() {
        let mut copies = copies(&[(100, 200), (300, 400)]);
        copies.begin(SeqNum(50), [(SeqNum(300), SeqNum(400))].into_iter());
        assert!(copies.report(block(100, 200)) && !copies.all_reported());
        assert!(copies.report(block(300, 400)) && copies.all_reported());
    }

    #[test]
    fn memory_is_bounded_and_beyond_it_nothing_is_undone() {
        let far: Vec<(u32, u32)> = (0..=MAX as u32).map(|i| (i * 10, i * 10 + 5)).collect();
        let mut copies = copies(&far);
        assert_eq!(copies.ranges.len(), MAX);
        assert!(copies.report(block(0, 5000)) && !copies.all_reported());
        copies.begin(SeqNum(0), std::iter::empty());
        copies.add(SeqNum(7), SeqNum(9));
        assert!(copies.report(block(7, 9)) && copies.all_reported());
    }

    /// A retransmission may cross the wrap of sequence numbers.
    #[test]
    fn a_retransmission_across_the_sequence_wrap() {
        let mut copies = Copies::default();
        copies.begin(SeqNum(u32::MAX - 1000), std::iter::empty());
        copies.add(SeqNum(u32::MAX - 50), SeqNum(50));
        assert!(copies.report(Block { left: SeqNum(u32::MAX - 100), right: SeqNum(100) }));
        assert!(copies.all_reported());
    }
}
