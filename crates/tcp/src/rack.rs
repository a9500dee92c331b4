//! RACK: a segment is lost when one sent later has arrived and a short time has passed (RFC 8985
//! 6).

use crate::rare_events::RareEvents;
use crate::tcb::{Ca, DUPTHRESH, Early, Tcb};
use clock::{Duration, Instant};

impl Tcb {
    /// Returns the reordering window: the time after a round trip for which a missing segment is
    /// not yet considered lost.
    fn reorder_window(&self) -> Duration {
        let rack = &self.rack;
        if !rack.reordered
            && (matches!(self.recovery.ca, Ca::Recovery | Ca::Loss) || self.board.sacked().segments >= DUPTHRESH)
        {
            return Duration::ZERO;
        }
        let (min, srtt) = (self.rtt.min().unwrap_or_default(), self.rtt.srtt().unwrap_or_default());
        (min / 4 + srtt / 4 * u32::from(rack.mult - 1)).min(srtt)
    }

    /// Returns the time after which a segment is considered lost if a later one has arrived: a
    /// round trip plus the reordering window.
    ///
    /// RFC 8985 uses the RTT of the latest-sent segment delivered, and widens the window by
    /// quarters of the minimum RTT. Under reordering both RTTs can be near zero, because they were
    /// measured on segments that arrived early. Once D-SACKs show that the wait was too short, both
    /// values are instead based on the smoothed RTT, which the RFC uses only as an upper limit of
    /// the window.
    fn loss_wait(&self) -> Duration {
        let rtt = self.rack.rtt();
        let rtt = if self.rack.mult > 1 { rtt.max(self.rtt.srtt().unwrap_or_default()) } else { rtt };
        rtt + self.reorder_window()
    }

    /// Detects lost segments (RFC 8985 6.2 step 5). If some segments are not yet due, sets the
    /// reordering timer. Returns the number of bytes newly lost.
    pub(crate) fn detect_lost(&mut self, now: Instant) -> u32 {
        if self.rack.at == Instant::ZERO && self.board.sacked().segments == 0 {
            return 0;
        }
        if !self.config.rack && self.recovery.ca < Ca::Recovery && self.board.sacked().segments < DUPTHRESH {
            return 0;
        }
        let wait = self.loss_wait();
        let resent = self.board.retrans().segments;
        // Segments whose loss mark an undo has removed get a longer wait, since the undo showed
        // that the earlier wait was too short.
        let spared_wait = wait.max(self.rtt.srtt().unwrap_or_default() + self.reorder_window());
        let (lost, due) = self.board.detect_lost((self.rack.at, self.rack.end), wait, spared_wait, now);
        if self.board.retrans().segments < resent {
            self.rare_events |= RareEvents::REXMIT_LOST;
        }
        if let Some(due) = due.filter(|_| self.config.rack) {
            self.timers.early = Early::Reorder;
            self.timers.early_at = due.max(now.after(Duration::from_micros(1)));
        } else if self.timers.early == Early::Reorder {
            self.timers.early_at = Instant::NEVER;
        }
        lost
    }

    /// Returns the send time up to which unacknowledged segments are considered lost at a timeout
    /// (RFC 8985 6.3).
    pub(crate) fn lost_if_sent_before(&self, now: Instant) -> Instant {
        let wait = self.loss_wait().as_nanos();
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        if self.config.rack && self.sack { Instant::from_nanos(now.nanos().saturating_sub(wait)) } else { now }
    }
}
