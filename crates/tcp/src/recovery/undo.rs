//! Undo of spurious reductions of the window: evidence (RFC 3522, RFC 3708) and effect (RFC 4015).

use super::Shown;
use crate::cc::Congestion;
use crate::rare_events::RareEvents;
use crate::tcb::{Ca, Frto, Tcb};
use crate::{Block, Segment, SeqNum};
use clock::Instant;

impl Tcb {
    /// Makes the reduction of the window final if the ACK covers a retransmission and echoes its
    /// timestamp. The retransmission then filled the hole, so the original was lost, and D-SACKs
    /// reported later do not undo the reduction (RFC 3522 3.2). If the original was only delayed,
    /// this ACK has a D-SACK.
    pub(super) fn note_real_loss(&mut self, shown: &Shown, seg: &Segment) {
        let (Some(at), Some(echoed)) = (shown.got.copied_at, seg.options.timestamps) else { return };
        let sharp = self.recovery.episode.as_ref().is_some_and(|episode| episode.undo.is_some() && !episode.blurred);
        let of_copy = self.echoes(seg) && SeqNum(echoed.ecr).at_or_after(SeqNum(self.ts_now(at)));
        if sharp && of_copy && shown.advanced && shown.dsack.is_none() {
            self.recovery.clear_undo();
        }
    }

    /// Starts to track a reduction of the window that may be undone. For an undo, retransmissions
    /// that are already in flight must also prove spurious.
    pub(super) fn begin_undo(&mut self) {
        let una = self.snd.una;
        let episode = self.recovery.episode.get_or_insert_default();
        episode.undo = Some(una);
        (episode.retrans_stamp, episode.blurred) = (None, false);
        episode.copies.begin(una.minus(self.snd.max_wnd), self.board.under_way_again());
    }

    /// Returns the evidence that the reduction of the window was needless; `None` if there is none.
    /// The evidence is that D-SACKs have reported every retransmission (RFC 3708), or that the ACK
    /// advanced SND.UNA and echoes the timestamp of an original (RFC 3522).
    pub(super) fn may_undo(&self, seg: &Segment, advanced: bool) -> Option<RareEvents> {
        let episode = self.recovery.episode.as_deref().filter(|episode| episode.undo.is_some())?;
        if episode.copies.all_reported() {
            return Some(RareEvents::UNDONE_BY_DSACK);
        }
        (advanced && self.answers_original(seg)).then_some(RareEvents::UNDONE_BY_TIMESTAMP)
    }

    /// Returns whether the echoed timestamp is older than our first retransmission (RFC 3522 3.2).
    /// Only an ACK that advances SND.UNA echoes the segment that filled the hole (RFC 7323 4.3).
    pub(super) fn answers_original(&self, seg: &Segment) -> bool {
        let first = self.recovery.episode.as_ref().and_then(|episode| episode.retrans_stamp);
        let (Some(echoed), Some(first)) = (seg.options.timestamps, first) else { return false };
        self.echoes(seg) && SeqNum(echoed.ecr).before(SeqNum(first))
    }

    /// Returns whether the ACK echoes a timestamp.
    pub(super) fn echoes(&self, seg: &Segment) -> bool {
        self.ts.is_some() && seg.options.timestamps.is_some_and(|echoed| echoed.ecr != 0)
    }

    /// Undoes the reduction of the window (RFC 4015): restores the congestion window and ssthresh,
    /// and removes the loss marks so that the segments are considered in flight.
    pub(super) fn undo(&mut self, why: RareEvents, now: Instant) {
        self.rare_events |= why;
        if self.recovery.ca == Ca::Recovery && why == RareEvents::UNDONE_BY_TIMESTAMP {
            self.rack.reordered = true;
        }
        self.cc.undo();
        self.board.spare_lost(now);
        self.recovery.clear_undo();
        self.recovery.dupacks = 0;
        self.recovery.frto = Frto::Off;
        (self.recovery.capped, self.recovery.episode().burst) = (true, self.initial_window());
        self.recovery.high = self.snd.nxt;
        self.recovery.backoff = 0;
        self.recovery.retransmits = 0;
        self.ecn.cwr = false;
        self.recovery.ca = Ca::Open;
        self.snd.last_at = self.snd.last_at.max(now);
    }

    /// Handles a D-SACK that arrives after everything was acknowledged. It may still show that the
    /// reduction was spurious (RFC 3708).
    pub(crate) fn on_late_dsack(&mut self, seg: &Segment, now: Instant) {
        if let Some(why) = self.may_undo(seg, false).filter(|_| self.recovery.ca <= Ca::Disorder) {
            self.undo(why, now);
            self.grow_burst(0);
        }
    }

    /// Processes a D-SACK, which reports data that arrived twice (RFC 2883). It is evidence only if
    /// we retransmitted that data. Otherwise the network has duplicated a segment (RFC 3708 3).
    ///
    /// A tail loss probe is sent by a timer, not by RACK, so a D-SACK of the probe does not widen
    /// RACK's window.
    pub(crate) fn on_dsack(&mut self, block: Block) {
        self.rare_events |= RareEvents::DSACK;
        let cold_events = self.cold_events();
        cold_events.dsack_dups = cold_events.dsack_dups.wrapping_add(1);
        let probed = self.recovery.tlp_resent && self.recovery.tlp_end == Some(block.right);
        let ours = self.recovery.episode.as_mut().is_some_and(|episode| episode.copies.report(block));
        if ours && !probed {
            self.rack.on_dsack(self.snd.una, self.snd.nxt);
        }
    }

    /// Increases the number of bytes that may be sent at once. After an undo, the window is used no
    /// faster than slow start would open it (RFC 4015 3.3).
    pub(super) fn grow_burst(&mut self, delivered: u32) {
        if !self.recovery.capped {
            return;
        }
        let room = self.cc.cwnd().saturating_sub(self.in_flight());
        let episode = self.recovery.episode();
        episode.burst = episode.burst.saturating_add(delivered.saturating_mul(2));
        // Everything in flight at the time of the undo has been acknowledged, so the restored
        // window can no longer be sent as one burst.
        self.recovery.capped = episode.burst < room && self.snd.una.before(self.recovery.high);
    }
}
