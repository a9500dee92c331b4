//! RACK: a segment is lost when one sent later has arrived, and a little time has passed (RFC 8985 6).

use crate::SeqNum;
use crate::note::Notes;
use crate::recovery::Ca;
use crate::rtt::us_since;
use crate::scoreboard::{Delivered, sent_after};
use crate::tcb::Tcb;
use crate::timers::Early;
use clock::{Duration, Instant};

/// RFC 5681 3.2, RFC 8985 6.2: with so many SACKed, and no reordering seen, nobody waits.
pub(crate) const DUPTHRESH: u32 = 3;
/// RFC 8985 6.2 step 4: a window widened by D-SACKs lasts for so many recoveries.
const PERSIST: u8 = 16;

/// Linux's tcp_max_reordering.
const MAX_DEGREE: u32 = 300;

/// RACK's variables.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// When the latest-sent of all delivered left, and its end.
    at: Instant,
    end: SeqNum,
    rtt_us: u32,
    /// The highest delivered.
    fack: SeqNum,
    /// The window widens once a round trip: until this is acknowledged.
    dsack_end: SeqNum,
    pub reordered: bool,
    /// The most segments by which something came late: told, and not used (`tcpi_reordering`).
    pub degree: u16,
    dsack_round: bool,
    mult: u8,
    persist: u8,
}

impl Rack {
    pub(crate) fn new(iss: SeqNum) -> Rack {
        Rack {
            at: Instant::ZERO,
            end: iss,
            rtt_us: 0,
            fack: iss,
            dsack_end: iss,
            reordered: false,
            degree: DUPTHRESH as u16,
            dsack_round: false,
            mult: 1,
            persist: 0,
        }
    }

    fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt_us.into())
    }

    /// Text begins at `nxt`.
    pub(crate) fn begin_at(&mut self, nxt: SeqNum) {
        (self.end, self.fack, self.dsack_end) = (nxt, nxt, nxt);
    }

    /// Steps 1 to 3: the latest delivered, a round trip, and whether something came late. The round trip is that of the last
    /// segment looked at, as the RFC's RACK_update has it: of what an ACK passes, originals may have taken longer than it.
    ///
    /// `of_copy`: the ACK may answer the latest copy of the last segment, and of the latest-sent.
    #[inline]
    pub(crate) fn update(
        &mut self,
        got: &Delivered,
        of_copy: [bool; 2],
        min_rtt_us: u32,
        mss: u16,
        now: Instant,
    ) -> bool {
        let (Some(latest), Some(last)) = (got.latest, got.last) else { return false };
        let [last_of_copy, latest_of_copy] = of_copy;
        // Step 2: a copy that came back faster than any before was the original.
        let early = |at| min_rtt_us != u32::MAX && us_since(now, at) < min_rtt_us;
        if !(last.1 && (!last_of_copy || early(last.0))) {
            self.rtt_us = us_since(now, last.0);
        }
        let doubtful = latest.retransmitted && (!latest_of_copy || early(latest.at));
        if !doubtful && sent_after(latest.at, latest.end, self.at, self.end) {
            (self.at, self.end) = (latest.at, latest.end);
        }
        let late = got.lowest_original.filter(|lowest| lowest.before(self.fack));
        if let Some(lowest) = late {
            self.reordered = true;
            let degree = self.fack.since(lowest).div_ceil(u32::from(mss.max(1)));
            self.degree = self.degree.max(degree.min(MAX_DEGREE) as u16);
        }
        late.is_some()
    }

    /// [`Rack::update`] and [`Rack::reached`] for one segment that was sent once and did not come late.
    #[inline]
    pub(crate) fn delivered(&mut self, at: Instant, end: SeqNum, rtt_us: u32) {
        self.rtt_us = rtt_us;
        if sent_after(at, end, self.at, self.end) {
            (self.at, self.end) = (at, end);
        }
        self.reached(end);
    }

    /// Would what begins at `start` come late?
    #[inline]
    pub(crate) fn is_late(&self, start: SeqNum) -> bool {
        start.before(self.fack)
    }

    /// The highest delivered so far, for the next ACK's step 3.
    #[inline]
    pub(crate) fn reached(&mut self, end: SeqNum) {
        self.fack = self.fack.later(end);
    }

    /// Step 4: a D-SACK says that we retransmitted too early.
    pub(crate) fn on_dsack(&mut self, una: SeqNum, nxt: SeqNum) {
        if self.dsack_round && una.before(self.dsack_end) {
            return;
        }
        (self.dsack_round, self.dsack_end) = (true, nxt);
        self.mult = self.mult.saturating_add(1);
        self.persist = PERSIST;
    }

    /// A recovery is over.
    pub(crate) fn on_recovery_exit(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }
}

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
