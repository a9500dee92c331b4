//! Scoreboard of unacknowledged segments: one record per segment, in sequence order (RFC 6675 3,
//! RFC 8985 5).
//!
//! A record is created when a segment is sent and removed when SND.UNA passes it. In between it may
//! be SACKed, marked lost and retransmitted. The sums of SACKed, lost and retransmitted bytes are
//! updated with each mark, so FlightSize and pipe need no loop.
//!
//! Hostile SACKs remain cheap (CVE-2019-11477, CVE-2019-11478). A block is found by binary search.
//! A SACKed record stores how many records after it are also SACKed (`run`), so repeated reports
//! are skipped. All other loops use cursors that pass each record once. The work per ACK is
//! O(blocks log n), amortised.

use crate::SeqNum;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use clock::{Duration, Instant};

/// One segment in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub start: SeqNum,
    /// Sequence number after the segment's last, including FIN.
    pub end: SeqNum,
    /// Time of the segment's latest transmission.
    pub at: Instant,
    /// If SACKed: minimum number of consecutive SACKed records beginning with this one.
    run: u32,
    pub marks: u8,
}

impl Sent {
    #[inline]
    pub fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Length of the segment in sequence numbers.
    #[inline]
    pub fn len(&self) -> u32 {
        self.end.since(self.start)
    }

    /// Number of data bytes in the segment.
    #[inline]
    pub fn text_len(&self) -> u32 {
        self.len().saturating_sub(u32::from(self.has(mark::FIN)))
    }
}

/// Summary of the records that an ACK newly delivered, cumulatively or selectively.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// Number of bytes that SND.UNA passed.
    pub acked: u32,
    /// Number of bytes newly delivered: not SACKed before, now acknowledged or SACKed.
    pub bytes: u32,
    /// Number of segments newly delivered.
    pub segments: u32,
    /// Number of bytes newly SACKed.
    pub sacked: u32,
    /// True if the ACK delivered a record that was never retransmitted and that ends at or before
    /// the last recovery point.
    pub original: bool,
    /// Latest transmission time among retransmitted records that SND.UNA passed.
    pub copied_at: Option<Instant>,
    /// Earliest transmission time among never retransmitted records that SND.UNA passed.
    pub first_sent: Option<Instant>,
    /// Latest transmission time among newly SACKed, never retransmitted records.
    pub sack_sent: Option<Instant>,
    /// Lowest sequence number among delivered records that were never retransmitted, for detecting
    /// reordering.
    pub lowest_original: Option<SeqNum>,
    /// The delivered record that was sent last (RFC 8985 6.2 step 1).
    pub latest: Option<Latest>,
    /// Transmission time of the delivered record with the highest sequence number, and whether that
    /// record was retransmitted. If SND.UNA passed any records, only these are considered.
    pub last: Option<(Instant, bool)>,
}

/// The record that was sent last among those that an ACK delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latest {
    pub at: Instant,
    pub end: SeqNum,
    pub retransmitted: bool,
}

/// Returns whether a segment was sent later than another one, or at the same instant with a higher
/// sequence number (RFC 8985 6.2).
#[inline]
pub(crate) fn sent_after(at: Instant, end: SeqNum, than_at: Instant, than_end: SeqNum) -> bool {
    at > than_at || (at == than_at && end.after(than_end))
}

/// Numbers of bytes and segments of the records that have a certain mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub bytes: u32,
    pub segments: u32,
}

impl Sum {
    #[inline]
    fn add(&mut self, record: &Sent) {
        self.bytes = self.bytes.wrapping_add(record.len());
        self.segments = self.segments.wrapping_add(1);
    }

    #[inline]
    fn sub(&mut self, record: &Sent) {
        self.bytes = self.bytes.wrapping_sub(record.len());
        self.segments = self.segments.wrapping_sub(1);
    }
}

/// Records of the segments in flight of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    records: VecDeque<Sent>,
    /// State of marked records. It is allocated at the first mark and freed when nothing is in
    /// flight, since few connections have marked records at any time.
    marked: Option<Box<Marked>>,
}

/// State of a scoreboard with marked records.
#[derive(Clone, Debug, Default)]
struct Marked {
    /// Number of records removed from the front since this state was created, which is also the
    /// number of the record at index 0. The cursors are such record numbers.
    base: u64,
    /// Cursor: no record with a lower number is lost and awaiting retransmission.
    resend: u64,
    /// Cursor: no record with a lower number is an original transmission that may still be marked
    /// lost.
    unresolved: u64,
    /// Retransmissions in flight, in transmission order: first sequence number and transmission
    /// time. Stale entries are skipped.
    resent: VecDeque<(SeqNum, Instant)>,
    /// Time of the last undo that unmarked lost records.
    spared_at: Instant,
    sacked: Sum,
    lost: Sum,
    retrans: Sum,
}

impl Scoreboard {
    /// Bytes and segments of the SACKed records.
    #[inline]
    pub(crate) fn sacked(&self) -> Sum {
        self.marked.as_ref().map_or(Sum::default(), |marked| marked.sacked)
    }

    /// Bytes and segments of the records considered lost.
    #[inline]
    pub(crate) fn lost(&self) -> Sum {
        self.marked.as_ref().map_or(Sum::default(), |marked| marked.lost)
    }

    /// Bytes and segments of the retransmissions considered in flight.
    #[inline]
    pub(crate) fn retrans(&self) -> Sum {
        self.marked.as_ref().map_or(Sum::default(), |marked| marked.retrans)
    }

    /// Returns the number of bytes that have left the path (SACKed or lost), and the number of
    /// bytes of retransmissions in flight.
    #[inline]
    pub(crate) fn gone_and_again(&self) -> (u32, u32) {
        match &self.marked {
            Some(marked) => (marked.sacked.bytes.saturating_add(marked.lost.bytes), marked.retrans.bytes),
            None => (0, 0),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&Sent> {
        self.records.front()
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<&Sent> {
        self.records.back()
    }

    /// Returns the record if there is exactly one and it was sent once and has no marks.
    #[inline]
    pub(crate) fn sole(&self) -> Option<&Sent> {
        const HISTORY: u8 = mark::SACKED | mark::LOST | mark::RETRANS | mark::EVER;
        let only = self.records.len() == 1;
        self.records.front().filter(|record| only && record.marks & HISTORY == 0)
    }

    /// Removes the single record, which was acknowledged.
    #[inline]
    pub(crate) fn acknowledge_sole(&mut self) {
        self.records.clear();
        self.marked = None;
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.records.iter()
    }

    /// Adds a segment that was sent for the first time.
    #[inline]
    pub(crate) fn push(&mut self, start: SeqNum, end: SeqNum, marks: u8, at: Instant) {
        if self.records.capacity() == 0 {
            self.records.reserve_exact(1); // request and response: rarely a second one in flight
        }
        self.records.push_back(Sent { start, end, at, run: 0, marks });
    }

    /// Returns the index of the first record that ends after `seq`.
    #[inline]
    fn find(&self, seq: SeqNum) -> usize {
        self.records.partition_point(|record| record.end.at_or_before(seq))
    }

    /// Removes the records before `una`, the new SND.UNA, and adds them to `out`.
    #[inline]
    pub(crate) fn acknowledge(&mut self, una: SeqNum, recovery_point: SeqNum, out: &mut Delivered) {
        while let Some(front) = self.records.front() {
            if front.start.at_or_after(una) {
                break;
            }
            if front.end.after(una) {
                self.trim_front(una, out);
                break;
            }
            let record = *front;
            self.records.pop_front();
            out.acked = out.acked.wrapping_add(record.len());
            if record.marks & (mark::SACKED | mark::LOST | mark::RETRANS | mark::EVER) == 0 {
                note_original(&record, recovery_point, out);
            } else {
                self.forget(&record, recovery_point, out);
            }
            match &mut self.marked {
                Some(_) if self.records.is_empty() => self.marked = None,
                Some(marked) => marked.base += 1,
                None => {}
            }
        }
    }

    /// Slow path of [`Scoreboard::acknowledge`]: updates the sums for the removal of a marked
    /// record.
    fn forget(&mut self, record: &Sent, recovery_point: SeqNum, out: &mut Delivered) {
        if record.has(mark::EVER) {
            out.copied_at = out.copied_at.max(Some(record.at));
        }
        let marked = self.marked.get_or_insert_default();
        if record.has(mark::SACKED) {
            marked.sacked.sub(record);
            return;
        }
        if record.has(mark::LOST) {
            marked.lost.sub(record);
        }
        if record.has(mark::RETRANS) {
            marked.retrans.sub(record);
        }
        if record.has(mark::EVER) {
            note_delivered(record, out);
        } else {
            note_original(record, recovery_point, out);
        }
    }

    /// Shortens the first record after an ACK of only a part of it.
    fn trim_front(&mut self, una: SeqNum, out: &mut Delivered) {
        let Some(front) = self.records.front_mut() else { return };
        let gone = una.since(front.start);
        front.start = una;
        let (marks, at) = (front.marks, front.at);
        out.acked = out.acked.wrapping_add(gone);
        if marks & mark::SACKED == 0 {
            out.bytes = out.bytes.wrapping_add(gone);
        }
        let Some(marked) = &mut self.marked else { return };
        let sums =
            [(&mut marked.sacked, mark::SACKED), (&mut marked.lost, mark::LOST), (&mut marked.retrans, mark::RETRANS)];
        for (sum, _) in sums.into_iter().filter(|(_, which)| marks & which != 0) {
            sum.bytes = sum.bytes.wrapping_sub(gone);
        }
        if marks & mark::RETRANS != 0
            && let Some(entry) = marked.resent.iter_mut().rfind(|entry| **entry == (una.minus(gone), at))
        {
            entry.0 = una;
        }
    }

    /// Marks the records in `left..right` as SACKed. Records that are only partly in this range are
    /// skipped.
    pub(crate) fn sack(&mut self, left: SeqNum, right: SeqNum, recovery_point: SeqNum, out: &mut Delivered) {
        let mut at = self.records.partition_point(|record| record.start.before(left));
        let end = self.find_whole_end(right).max(at);
        while at < end {
            let reach = (end - at) as u32;
            let Some(record) = self.records.get_mut(at) else { break };
            if record.has(mark::SACKED) {
                let run = record.run;
                record.run = run.max(reach);
                at += run.max(1) as usize;
                continue;
            }
            let record = {
                let before = *record;
                record.marks = (record.marks | mark::SACKED) & !(mark::LOST | mark::RETRANS);
                record.run = reach;
                before
            };
            let marked = self.marked.get_or_insert_default();
            if record.has(mark::LOST) {
                marked.lost.sub(&record);
            }
            if record.has(mark::RETRANS) {
                marked.retrans.sub(&record);
            }
            marked.sacked.add(&record);
            out.sacked = out.sacked.wrapping_add(record.len());
            let passed = out.last.filter(|_| out.acked > 0);
            if record.has(mark::EVER) {
                note_delivered(&record, out);
            } else {
                let first = out.first_sent;
                note_original(&record, recovery_point, out);
                out.first_sent = first;
                out.sack_sent = out.sack_sent.max(Some(record.at));
            }
            out.last = passed.or(out.last);
            at += 1;
        }
    }

    /// Returns the record that ends at `end`.
    pub(crate) fn ending_at(&self, end: SeqNum) -> Option<&Sent> {
        self.records.get(self.find(end.minus(1))).filter(|record| record.end == end)
    }

    /// Returns the index of the first record that ends after `right`.
    #[inline]
    fn find_whole_end(&self, right: SeqNum) -> usize {
        self.records.partition_point(|record| record.end.at_or_before(right))
    }

    /// Marks the record at `index` lost. Returns `false` if it is SACKed, or already considered
    /// lost.
    fn mark_lost(&mut self, index: usize) -> bool {
        let Some(record) = self.records.get_mut(index) else { return false };
        if record.has(mark::SACKED) || (record.has(mark::LOST) && !record.has(mark::RETRANS)) {
            return false;
        }
        let before = *record;
        record.marks = (record.marks | mark::LOST) & !(mark::RETRANS | mark::SPARED);
        let marked = self.marked.get_or_insert_default();
        if before.has(mark::RETRANS) {
            marked.retrans.sub(&before);
        }
        if !before.has(mark::LOST) {
            marked.lost.add(&before);
        }
        marked.resend = marked.resend.min(marked.base + index as u64);
        true
    }

    /// Marks the first record lost (RFC 6582 3.2; RFC 6298 5.4). Returns the number of bytes newly
    /// marked.
    pub(crate) fn mark_front_lost(&mut self) -> u32 {
        let len = self.records.front().map_or(0, Sent::len);
        if self.mark_lost(0) { len } else { 0 }
    }

    /// Marks records larger than `mss` lost, since they did not fit the path. Returns whether any
    /// record was marked.
    pub(crate) fn mark_lost_above(&mut self, mss: u32) -> bool {
        let mut any = false;
        for index in 0..self.records.len() {
            if self.records.get(index).is_some_and(|record| record.text_len() > mss) {
                any |= self.mark_lost(index);
            }
        }
        any
    }

    /// Marks records lost after a timeout: the first, and those sent no later than `deadline` (RFC
    /// 8985 6.3).
    pub(crate) fn mark_lost_sent_before(&mut self, deadline: Instant) {
        for index in 0..self.records.len() {
            if index == 0 || self.records.get(index).is_some_and(|record| record.at <= deadline) {
                self.mark_lost(index);
            }
        }
        if let Some(marked) = &mut self.marked {
            marked.unresolved = marked.base;
        }
    }

    /// Returns the index of the first original that may still be marked lost: the cursor
    /// `unresolved`.
    #[inline]
    fn unresolved(&self) -> usize {
        self.marked.as_ref().map_or(0, |marked| marked.unresolved.saturating_sub(marked.base) as usize)
    }

    /// Marks records lost that were sent before the latest delivered one and longer than `wait` ago
    /// (RFC 8985 6.2 step 5).
    ///
    /// For segments whose loss mark was removed by an undo, the time of the undo replaces the time
    /// of sending, and `spared_wait` replaces `wait`, since segments that overtook them before the
    /// undo are not evidence of loss. Returns the number of bytes found lost, and the time at which
    /// the next segment sent before the latest delivered one is due.
    pub(crate) fn detect_lost(
        &mut self,
        latest: (Instant, SeqNum),
        wait: Duration,
        spared_wait: Duration,
        now: Instant,
    ) -> (u32, Option<Instant>) {
        let (mut lost, mut due) = (0u32, None);
        let spared_at = self.marked.as_ref().map_or(Instant::ZERO, |marked| marked.spared_at);
        // One timer serves all records sent before the latest delivered one. It expires when the
        // last of them is due.
        let judge = |record: &Sent| match record.has(mark::SPARED) {
            true => (spared_at, spared_wait, latest.0.after(spared_wait)),
            false => (record.at, wait, latest.0.after(wait)),
        };
        // Originals are in transmission order, so the loop ends at the first one that is not due.
        let mut index = self.unresolved();
        while let Some(record) = self.records.get(index) {
            if record.has(mark::SACKED) {
                index += record.run.max(1) as usize;
                continue;
            }
            if !record.has(mark::LOST | mark::EVER) {
                let (at, wait, last) = judge(record);
                if !sent_after(latest.0, latest.1, at, record.end) {
                    break;
                }
                if at.after(wait) > now {
                    due = Some(last);
                    break;
                }
                lost = lost.wrapping_add(record.len());
                self.mark_lost(index);
            }
            index += 1;
        }
        if let Some(marked) = &mut self.marked {
            marked.unresolved = marked.base + index as u64;
        }
        // The entries of `resent` are in transmission order.
        while let Some(&(start, at)) = self.marked.as_ref().and_then(|marked| marked.resent.front()) {
            let index = self.find(start);
            if let Some(record) = self.records.get(index).filter(|_| self.is_under_way_again(start, at)) {
                let (at, wait, last) = judge(record);
                if !sent_after(latest.0, latest.1, at, record.end) {
                    break;
                }
                if at.after(wait) > now {
                    due = due.max(Some(last));
                    break;
                }
                lost = lost.wrapping_add(record.len());
                self.mark_lost(index);
            }
            if let Some(marked) = &mut self.marked {
                marked.resent.pop_front();
            }
        }
        (lost, due)
    }

    /// Returns the next lost record that is not retransmitted yet, with its index.
    pub(crate) fn next_lost(&mut self) -> Option<(usize, Sent)> {
        let marked = self.marked.as_mut().filter(|marked| marked.lost.segments > 0)?;
        marked.resend = marked.resend.max(marked.base);
        while let Some(record) = self.records.get((marked.resend - marked.base) as usize) {
            if record.has(mark::LOST) && !record.has(mark::RETRANS) {
                return Some(((marked.resend - marked.base) as usize, *record));
            }
            let skip = if record.has(mark::SACKED) { record.run.max(1) } else { 1 };
            marked.resend += u64::from(skip);
        }
        None
    }

    /// Records the retransmission of the record at `index`.
    pub(crate) fn on_resent(&mut self, index: usize, now: Instant) {
        let Some(record) = self.records.get_mut(index) else { return };
        let before = *record;
        record.marks = (record.marks | mark::RETRANS | mark::EVER) & !mark::SPARED;
        record.at = now;
        let marked = self.marked.get_or_insert_default();
        if !before.has(mark::RETRANS) {
            marked.retrans.add(&before);
        }
        marked.resent.push_back((before.start, now));
        self.drop_stale();
    }

    /// Removes stale entries from `resent`, so that its length is at most about twice the number of
    /// valid entries. The amortised cost is one more visit per entry.
    fn drop_stale(&mut self) {
        let Some(marked) = &mut self.marked else { return };
        if marked.retrans.segments == 0 {
            marked.resent.clear();
        } else if marked.resent.len() > 2 * marked.retrans.segments as usize + 16 {
            let mut kept = core::mem::take(&mut marked.resent);
            kept.retain(|&(start, at)| self.is_under_way_again(start, at));
            if let Some(marked) = &mut self.marked {
                marked.resent = kept;
            }
        }
    }

    /// Returns whether the record at `start` was last sent at `at`, and this transmission was a
    /// retransmission that is considered in flight.
    fn is_under_way_again(&self, start: SeqNum, at: Instant) -> bool {
        let record = self.records.get(self.find(start));
        record.is_some_and(|record| record.start == start && record.at == at && record.has(mark::RETRANS))
    }

    /// Marks the records that start at `from` or in `from..to` lost, because the host could not
    /// send them.
    pub(crate) fn unsend(&mut self, from: SeqNum, to: SeqNum) {
        let mut index = self.find(from);
        while let Some(record) = self.records.get(index) {
            if record.start != from && record.start.at_or_after(to) {
                break;
            }
            self.mark_lost(index);
            index += 1;
        }
    }

    /// Splits the record at `index` into two records. The first one keeps `len` sequence numbers.
    pub(crate) fn split(&mut self, index: usize, len: u32) {
        let Some(record) = self.records.get_mut(index) else { return };
        if len == 0 || len >= record.len() {
            return;
        }
        let cut = record.start.plus(len);
        let mut rest = Sent { start: cut, ..*record };
        record.end = cut;
        record.marks &= !(mark::FIN | mark::PSH);
        rest.run = 0;
        self.records.insert(index + 1, rest);
        if let Some(marked) = &mut self.marked {
            let sums = [
                (&mut marked.sacked, mark::SACKED),
                (&mut marked.lost, mark::LOST),
                (&mut marked.retrans, mark::RETRANS),
            ];
            for (sum, _) in sums.into_iter().filter(|(_, which)| rest.has(*which)) {
                sum.segments = sum.segments.wrapping_add(1);
            }
            let number = marked.base + index as u64;
            for cursor in [&mut marked.resend, &mut marked.unresolved] {
                if *cursor > number {
                    *cursor += 1;
                }
            }
            if rest.has(mark::RETRANS) {
                marked.resent.push_back((rest.start, rest.at));
                marked.resent.make_contiguous().sort_by_key(|entry| entry.1);
            }
        }
        // The `run` counts do not include the additional record.
        for record in self.records.iter_mut().filter(|record| record.run > 1) {
            record.run = 1;
        }
    }

    /// Returns the index of the last record.
    #[inline]
    pub(crate) fn last_index(&self) -> Option<usize> {
        self.records.len().checked_sub(1)
    }

    /// Returns whether the first record is SACKed although SND.UNA is before it, so the peer has
    /// discarded the data (RFC 2018 8).
    #[inline]
    pub(crate) fn is_reneged(&self) -> bool {
        self.records.front().is_some_and(|record| record.has(mark::SACKED))
    }

    /// Clears all SACK marks and marks those records lost (RFC 2018 8: after a timeout, earlier
    /// SACKs must not be relied on).
    pub(crate) fn forget_sacked(&mut self) {
        let Some(marked) = &mut self.marked else { return };
        for record in self.records.iter_mut().filter(|record| record.has(mark::SACKED)) {
            record.marks = (record.marks & !mark::SACKED) | mark::LOST;
            record.run = 0;
            marked.lost.add(record);
        }
        marked.sacked = Sum::default();
        (marked.resend, marked.unresolved) = (marked.base, marked.base);
    }

    /// Frees unused capacity of the scoreboard.
    pub(crate) fn release_memory(&mut self) {
        self.records.shrink_to_fit();
        if let Some(marked) = &mut self.marked {
            marked.resent.shrink_to_fit();
        }
    }

    /// Removes all records and frees the capacity for more than two.
    pub(crate) fn keep_little(&mut self) {
        self.clear();
        self.records.shrink_to(2);
    }

    /// Removes all records.
    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.marked = None;
    }

    /// Panics if a sum or cursor does not match the records.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn check_invariants(&self, una: SeqNum, nxt: SeqNum) {
        let mut at = una;
        let (mut sacked, mut lost, mut retrans) = (Sum::default(), Sum::default(), Sum::default());
        let marked = self.marked.as_deref().cloned().unwrap_or_default();
        for (index, record) in self.records.iter().enumerate() {
            assert_eq!(record.start, at, "records are contiguous");
            assert!(record.start.before(record.end), "no record is empty");
            at = record.end;
            if record.has(mark::SACKED) {
                sacked.add(record);
                assert!(!record.has(mark::LOST | mark::RETRANS), "SACKed is neither lost nor under way");
                let run = self.records.iter().skip(index).take(record.run as usize);
                assert!(run.clone().count() == record.run as usize && run.clone().all(|r| r.has(mark::SACKED)));
            }
            if record.has(mark::LOST) {
                lost.add(record);
                let waits = !record.has(mark::RETRANS);
                assert!(!waits || marked.base + index as u64 >= marked.resend, "the cursor passed a lost record");
            }
            if record.has(mark::RETRANS) {
                retrans.add(record);
                assert!(record.has(mark::EVER));
                assert!(marked.resent.iter().any(|entry| *entry == (record.start, record.at)), "a copy nobody watches");
            }
        }
        assert!(at == nxt || self.records.is_empty(), "records end at SND.NXT: {at} {nxt}");
        assert_eq!((sacked, lost, retrans), (self.sacked(), self.lost(), self.retrans()));
        assert!(self.marked.is_none() || !self.records.is_empty(), "memory kept for nothing");
    }
}

#[inline]
fn note_delivered(record: &Sent, out: &mut Delivered) {
    out.bytes = out.bytes.wrapping_add(record.len());
    out.segments = out.segments.wrapping_add(1);
    let later = out.latest.is_none_or(|latest| sent_after(record.at, record.end, latest.at, latest.end));
    if later {
        out.latest = Some(Latest { at: record.at, end: record.end, retransmitted: record.has(mark::EVER) });
    }
    out.last = Some((record.at, record.has(mark::EVER)));
}

#[inline]
fn note_original(record: &Sent, recovery_point: SeqNum, out: &mut Delivered) {
    note_delivered(record, out);
    out.first_sent = out.first_sent.or(Some(record.at));
    out.original |= record.end.at_or_before(recovery_point);
    let lowest = out.lowest_original.map_or(record.start, |lowest| lowest.earlier(record.start));
    out.lowest_original = Some(lowest);
}

pub(crate) mod mark;
mod undo;

#[cfg(test)]
mod tests;
