//! RACK state and its updates by ACKs (RFC 8985 6.2, steps 1 to 4).

use crate::SeqNum;
use crate::rtt::us_since;
use crate::scoreboard::{Delivered, sent_after};
use clock::{Duration, Instant};

/// Number of SACKed segments at which the reordering window becomes 0, as long as no reordering was
/// detected (RFC 5681 3.2, RFC 8985 6.2).
pub(crate) const DUPTHRESH: u32 = 3;
/// Number of recoveries after which a reordering window that D-SACKs have widened returns to its
/// initial size (RFC 8985 6.2 step 4).
const PERSIST: u8 = 16;

/// Maximum value of `degree` in segments (Linux's tcp_max_reordering).
const MAX_DEGREE: u32 = 300;

/// RACK state of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// Send time and end sequence number of the delivered segment that was sent last.
    pub at: Instant,
    pub end: SeqNum,
    rtt_us: u32,
    /// Highest sequence number delivered so far.
    fack: SeqNum,
    /// Sequence number whose ACK permits the window to widen again. The window widens at most once
    /// per round trip.
    dsack_end: SeqNum,
    pub reordered: bool,
    /// Largest reordering detected, in segments. It is only reported (`tcpi_reordering`).
    pub degree: u16,
    dsack_round: bool,
    pub mult: u8,
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

    pub(crate) fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt_us.into())
    }

    /// Sets the sequence numbers for a connection whose data begins at `nxt`.
    pub(crate) fn begin_at(&mut self, nxt: SeqNum) {
        (self.end, self.fack, self.dsack_end) = (nxt, nxt, nxt);
    }

    /// Updates the latest-sent segment and the RTT. Returns whether a segment arrived late (steps 1
    /// to 3). The RTT is that of the last segment processed, as in RACK_update of the RFC; other
    /// originals that the ACK covers may have a longer one.
    ///
    /// The two flags of `of_copy` state whether the ACK may be a reply to a retransmission: the
    /// first flag for the last segment processed, the second for the latest-sent segment.
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
        // Step 2: an ACK that arrived in less than the minimum RTT is a reply to the original.
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

    /// Performs the steps of [`Rack::update`] and [`Rack::reached`] for one segment that was sent
    /// once and did not arrive late.
    #[inline]
    pub(crate) fn delivered(&mut self, at: Instant, end: SeqNum, rtt_us: u32) {
        self.rtt_us = rtt_us;
        if sent_after(at, end, self.at, self.end) {
            (self.at, self.end) = (at, end);
        }
        self.reached(end);
    }

    /// Returns whether a segment that begins at `start` would arrive late, that is, reordered.
    #[inline]
    pub(crate) fn is_late(&self, start: SeqNum) -> bool {
        start.before(self.fack)
    }

    /// Updates the highest sequence number delivered, which step 3 of the next ACK uses.
    #[inline]
    pub(crate) fn reached(&mut self, end: SeqNum) {
        self.fack = self.fack.later(end);
    }

    /// Processes a D-SACK, which shows that a retransmission was too early (step 4).
    pub(crate) fn on_dsack(&mut self, una: SeqNum, nxt: SeqNum) {
        if self.dsack_round && una.before(self.dsack_end) {
            return;
        }
        (self.dsack_round, self.dsack_end) = (true, nxt);
        self.mult = self.mult.saturating_add(1);
        self.persist = PERSIST;
    }

    /// Counts a completed recovery. After 16 recoveries the reordering window returns to its
    /// initial size.
    pub(crate) fn on_recovery_exit(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }
}
