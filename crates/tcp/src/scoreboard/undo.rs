//! The scoreboard after an undo: retransmissions that D-SACKs may still report, and records whose
//! loss mark the undo has removed.

use super::{Scoreboard, Sum, mark};
use crate::SeqNum;
use clock::Instant;

impl Scoreboard {
    /// Returns the first and the end sequence number of each retransmission that is considered in
    /// flight.
    pub(crate) fn under_way_again(&self) -> impl Iterator<Item = (SeqNum, SeqNum)> {
        let resent = self.marked.iter().flat_map(|marked| marked.resent.iter());
        resent
            .filter(|(start, at)| self.is_under_way_again(*start, *at))
            .filter_map(|(start, _)| self.records.get(self.find(*start)).map(|record| (record.start, record.end)))
    }

    /// Removes the lost mark from all records. A retransmission that had been considered lost is in
    /// flight again, since its D-SACK is expected.
    pub(crate) fn spare_lost(&mut self, now: Instant) {
        let Some(marked) = &mut self.marked else { return };
        marked.spared_at = now;
        for record in self.records.iter_mut().filter(|record| record.has(mark::LOST)) {
            record.marks = (record.marks & !mark::LOST) | mark::SPARED;
            if record.has(mark::EVER) && !record.has(mark::RETRANS) {
                record.marks |= mark::RETRANS;
                marked.retrans.add(record);
                marked.resent.push_back((record.start, record.at));
            }
        }
        marked.resent.make_contiguous().sort_by_key(|entry| entry.1);
        marked.lost = Sum::default();
        (marked.resend, marked.unresolved) = (marked.base, marked.base);
    }
}
