//! RACK: a segment is lost when one sent later has arrived, and a little time has passed (RFC 8985 6).

use crate::note::Notes;
use crate::tcb::{Ca, DUPTHRESH, Early, Tcb};
use clock::{Duration, Instant};

impl Tcb {
    /// How long what is missing is waited for beyond a round trip.
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

    /// The time after which a segment that others have overtaken counts as lost: a round trip and the reordering window.
    ///
    /// RFC 8985 takes the round trip of the latest-sent segment that was delivered, and widens the window by quarters of the least.
    /// Both may be next to nothing where segments overtake: they are those of the overtaking ones. Once D-SACKs show that this was
    /// too short, both follow the smoothed round trip, which bounds the window in the RFC as well.
    fn loss_wait(&self) -> Duration {
        let rtt = self.rack.rtt();
        let rtt = if self.rack.mult > 1 { rtt.max(self.rtt.srtt().unwrap_or_default()) } else { rtt };
        rtt + self.reorder_window()
    }

    /// RFC 8985 6.2 step 5; sets the reordering timer when something has to be waited for. Bytes found lost.
    pub(crate) fn detect_lost(&mut self, now: Instant) -> u32 {
        if self.rack.at == Instant::ZERO && self.board.sacked().segments == 0 {
            return 0;
        }
        if !self.config.rack && self.recovery.ca < Ca::Recovery && self.board.sacked().segments < DUPTHRESH {
            return 0;
        }
        let wait = self.loss_wait();
        let resent = self.board.retrans().segments;
        // What an undo spared is waited for longer: the path showed that the time before was too short.
        let spared_wait = wait.max(self.rtt.srtt().unwrap_or_default() + self.reorder_window());
        let (lost, due) = self.board.detect_lost((self.rack.at, self.rack.end), wait, spared_wait, now);
        if self.board.retrans().segments < resent {
            self.notes |= Notes::REXMIT_LOST;
        }
        if let Some(due) = due.filter(|_| self.config.rack) {
            self.timers.early = Early::Reorder;
            self.timers.early_at = due.max(now.after(Duration::from_micros(1)));
        } else if self.timers.early == Early::Reorder {
            self.timers.early_at = Instant::NEVER;
        }
        lost
    }

    /// The time after which something unacknowledged counts as lost when the timeout comes (RFC 8985 6.3).
    pub(crate) fn lost_if_sent_before(&self, now: Instant) -> Instant {
        let wait = self.loss_wait().as_nanos();
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        if self.config.rack && self.sack { Instant::from_nanos(now.nanos().saturating_sub(wait)) } else { now }
    }
}
