//! Loss recovery: starts at the first sign of loss, and ends when the lost data is acknowledged or
//! the loss proves to be spurious.
//!
//! ```text
//! Open --SACK, duplicate--> Disorder --lost--> Recovery --SND.UNA passes recovery point--> Open
//!  |  --ECN-Echo--> Cwr ------------------------^   |                                       ^
//!  +--timeout, from any--> Loss --(F-RTO: spurious)-+---------------------------------------+
//! ```
//!
//! With SACK, `rack` finds lost segments; without SACK, duplicate ACKs indicate them (RFC 6582). In
//! Recovery and Cwr the window follows proportional rate reduction (RFC 6937bis). A reduction that
//! D-SACKs or timestamps prove spurious is undone (RFC 3708, RFC 3522). After a timeout, F-RTO
//! detects the ACK of an original transmission (RFC 5682). The window restored by an undo is not
//! sent in one burst (RFC 4015). Segments whose loss mark an undo has removed are not marked lost
//! again on the same evidence.

use crate::cc::{Congestion, Signal};
use crate::rare_events::RareEvents;
use crate::scoreboard::Delivered;
use crate::tcb::{Ca, DUPTHRESH, Frto, Tcb};
use crate::{Segment, SeqNum};
use clock::Instant;

mod undo;

/// Values of an acknowledging segment, as input to loss recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    pub got: Delivered,
    /// True if SND.UNA moved.
    pub advanced: bool,
    /// True if the segment is a duplicate ACK (RFC 5681 2).
    pub duplicate: bool,
    /// End of the D-SACK block; `None` without such a block.
    pub dsack: Option<SeqNum>,
    /// True if ECN-Echo was set.
    pub ece: bool,
    pub prior_in_flight: u32,
    /// Exponent of the RTO back-off before this ACK.
    pub backoff: u8,
}

/// Conclusion from an ACK in Recovery: whether the reduction of the window was spurious.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doubt {
    None,
    /// Undecided: an original transmission arrived, but the outcome of retransmissions in flight is
    /// unknown.
    Waits,
    Undone,
}

impl Tcb {
    /// Updates loss recovery from an ACK that the scoreboard has already processed. Returns whether
    /// a reduction was undone.
    pub(crate) fn recover(&mut self, shown: &Shown, seg: &Segment, now: Instant) -> bool {
        self.recovery.new_first = false;
        let counted = self.recovery.reno_bytes(self.snd.mss);
        if shown.ece {
            self.on_echo(shown, now);
        }
        self.answer_to_tail_loss(shown, now);
        self.note_real_loss(shown, seg);
        let mut undone = false;
        if self.recovery.ca != Ca::Loss && self.recovery.ca != Ca::Open && self.passed_point() {
            undone = self.leave(shown, seg, now);
        }
        let mut lost = 0;
        match self.recovery.ca {
            Ca::Recovery => match self.in_recovery(shown, seg, now) {
                // Only new data is sent until the next ACK, so that retransmissions in flight have
                // time to arrive or to be reported as duplicates.
                Doubt::Waits => self.recovery.new_first = true,
                doubt => {
                    undone |= doubt == Doubt::Undone;
                    lost = self.find_lost(shown.advanced, now);
                }
            },
            Ca::Loss => {
                undone |= self.after_timeout(shown, seg, now);
                lost = self.find_lost(shown.advanced, now);
            }
            Ca::Open | Ca::Disorder | Ca::Cwr => {
                self.count_duplicates(shown);
                if self.recovery.ca != Ca::Cwr
                    && let Some(why) = self.may_undo(seg, false)
                {
                    self.undo(why, now);
                    undone = true;
                }
                lost = self.find_lost(false, now);
            }
        }
        if self.recovery.ca < Ca::Recovery {
            self.try_to_open(shown, now);
        }
        if self.recovery.is_reducing() {
            let delivered = if self.sack { shown.got.bytes } else { self.reno_delivered(shown, counted) };
            let in_flight = self.in_flight();
            let mss = self.snd.mss;
            self.recovery.reduce(delivered, lost, shown.advanced, in_flight, &mut self.cc, mss);
        }
        self.grow_burst(shown.got.bytes);
        undone
    }

    /// Without SACK, counts a duplicate ACK. An ACK that moves SND.UNA resets the count.
    fn count_duplicates(&mut self, shown: &Shown) {
        if self.sack {
            return;
        }
        if shown.advanced {
            self.recovery.dupacks = 0;
        }
        if shown.duplicate {
            self.add_duplicate();
        }
    }

    /// Enters Recovery if a segment is lost. Otherwise enters Disorder if segments are missing, or
    /// Open.
    fn try_to_open(&mut self, shown: &Shown, now: Instant) {
        if self.board.lost().segments > 0 && !self.only_mtu_probe_lost() {
            self.enter_recovery(shown.got.acked, shown.got.sacked, now);
        } else if self.recovery.ca != Ca::Cwr {
            let clear = self.board.sacked().segments == 0 && self.recovery.dupacks == 0;
            self.recovery.ca = if clear { Ca::Open } else { Ca::Disorder };
        }
    }

    /// Returns the number of bytes that an ACK delivered, for connections without SACK. A duplicate
    /// ACK counts as one delivered segment. A later ACK that moves SND.UNA delivers the bytes that
    /// it covers minus those already counted, and at least one segment: the missing one (RFC 6582
    /// 3.2).
    pub(crate) fn reno_delivered(&self, shown: &Shown, counted: u32) -> u32 {
        let mss = u32::from(self.snd.mss);
        if shown.advanced {
            shown.got.acked.saturating_sub(counted).max(shown.got.acked.min(mss))
        } else if shown.duplicate {
            mss
        } else {
            0
        }
    }

    fn add_duplicate(&mut self) {
        let most = self.board.len().saturating_sub(1).min(usize::from(u16::MAX)) as u16;
        self.recovery.dupacks = self.recovery.dupacks.saturating_add(1).min(most.max(1));
    }

    /// Returns whether SND.UNA has reached the recovery point. Without SACK, SND.UNA must be beyond
    /// the point, since duplicates of earlier data would otherwise start another recovery (RFC 6582
    /// 4).
    fn passed_point(&self) -> bool {
        let (una, high) = (self.snd.una, self.recovery.high);
        match self.recovery.ca {
            Ca::Cwr => una.after(high),
            Ca::Disorder => true,
            _ if self.sack => una.at_or_after(high),
            _ => una.after(high) || self.board.is_empty(),
        }
    }

    /// Leaves the current recovery state, since the recovery point is passed. Returns whether a
    /// reduction was undone.
    fn leave(&mut self, shown: &Shown, seg: &Segment, now: Instant) -> bool {
        let mut undone = false;
        match self.recovery.ca {
            Ca::Recovery => {
                self.recovery.dupacks = 0;
                if let Some(why) = self.may_undo(seg, shown.advanced) {
                    self.undo(why, now);
                    undone = true;
                } else {
                    self.end_reduction(now);
                }
                self.rack.on_recovery_exit();
            }
            Ca::Cwr => self.end_reduction(now),
            Ca::Open | Ca::Disorder | Ca::Loss => {
                // Late D-SACKs, after the end of Recovery, can still show that the reduction was
                // spurious.
                if self.board.sacked().segments == 0 && self.snd.una.after(self.recovery.high) {
                    self.recovery.clear_undo();
                }
            }
        }
        self.recovery.ca = Ca::Open;
        undone
    }

    fn end_reduction(&mut self, now: Instant) {
        let ssthresh = self.cc.ssthresh();
        if ssthresh < u32::MAX {
            self.cc.set_cwnd(ssthresh);
        }
        self.cc.on_recovery_exit(now);
        self.recovery.episode().retrans_stamp = None;
    }

    /// Marks lost segments: with SACK by RACK, otherwise by the third duplicate ACK and by partial
    /// ACKs. Returns the number of bytes newly lost.
    fn find_lost(&mut self, partial: bool, now: Instant) -> u32 {
        if self.board.is_empty() {
            return 0;
        }
        if self.sack {
            return self.detect_lost(now);
        }
        let third = self.recovery.ca < Ca::Recovery && u32::from(self.recovery.dupacks) >= DUPTHRESH;
        if third || (self.recovery.ca == Ca::Recovery && partial) { self.board.mark_front_lost() } else { 0 }
    }

    /// Enters Recovery: reduces the window once and retransmits lost segments (RFC 6675 5 step 4,
    /// RFC 6582 3.2 step 2).
    pub(crate) fn enter_recovery(&mut self, acked: u32, sacked: u32, now: Instant) {
        self.begin_undo();
        self.rare_events |= if self.sack { RareEvents::SACK_EPISODE } else { RareEvents::RENO_EPISODE };
        if self.recovery.ca != Ca::Cwr {
            self.begin_reduction(Signal::Loss, acked, sacked, now);
        }
        self.recovery.high = self.snd.nxt;
        self.recovery.ca = Ca::Recovery;
    }

    /// Sets ssthresh from the bytes in flight and starts proportional rate reduction (PRR).
    fn begin_reduction(&mut self, why: Signal, acked: u32, sacked: u32, now: Instant) {
        let outstanding = self.snd.nxt.since(self.snd.una).saturating_add(acked);
        self.cc.on_congestion(self.reduced_from(outstanding), why, now);
        let sacked_before = self.board.sacked().bytes.saturating_sub(sacked);
        let episode = self.recovery.episode();
        (episode.prr_delivered, episode.prr_out) = (0, 0);
        episode.prr_base = outstanding.saturating_sub(sacked_before).max(1);
        self.recovery.high = self.snd.nxt;
        self.recovery.tlp_end = None;
        self.ecn.cwr = self.ecn.on;
    }

    /// Returns the window, in bytes, from which a reduction starts: the bytes in flight (RFC 5681
    /// 3.1, (4)) or the congestion window (RFC 9438 4.6).
    ///
    /// Here the bytes in flight are the maximum in this round trip, not the current number. If ACKs
    /// arrive in a batch, the ACKs before the one that indicates the loss have already reduced the
    /// current number, and no data was sent between them. (With the current number, a window of 15
    /// segments shrank to 2; at 1 % loss this cost a fifth of the throughput.)
    fn reduced_from(&self, outstanding: u32) -> u32 {
        let cwnd = self.cc.cwnd();
        if self.config.reduce_cwnd { cwnd } else { outstanding.max(self.snd.flight).min(cwnd) }
    }

    /// Reduces the window on an echoed ECN mark in the same way as on a loss, once per round trip
    /// (RFC 3168 6.1.2).
    fn on_echo(&mut self, shown: &Shown, now: Instant) {
        if matches!(self.recovery.ca, Ca::Open | Ca::Disorder) {
            self.recovery.clear_undo();
            self.begin_reduction(Signal::Ecn, shown.got.acked, shown.got.sacked, now);
            self.rare_events |= RareEvents::ECN_REDUCTION;
            self.recovery.ca = Ca::Cwr;
            // Unlike a loss, an ECN mark requires no immediate retransmission, so the segment that
            // PRR always permits counts as already sent.
            self.recovery.episode().prr_out = self.snd.mss.into();
        }
    }

    /// Processes an ACK in Recovery that does not end it.
    fn in_recovery(&mut self, shown: &Shown, seg: &Segment, now: Instant) -> Doubt {
        if shown.advanced {
            if !self.sack {
                // RFC 6582 3.2 step 3: a partial ACK means that the next segment is missing too.
                let segments = (shown.got.acked / u32::from(self.snd.mss.max(1))).min(u32::from(u16::MAX)) as u16;
                self.recovery.dupacks = self.recovery.dupacks.saturating_sub(segments.saturating_sub(1));
            }
            if self.recovery.undo().is_some() && self.answers_original(seg) {
                self.rack.reordered = true;
                // While retransmissions are in flight, it is unknown whether all of them were
                // spurious.
                if self.board.retrans().segments > 0 {
                    return Doubt::Waits;
                }
                self.undo(RareEvents::UNDONE_BY_TIMESTAMP, now);
                return Doubt::Undone;
            }
        } else if !self.sack && shown.duplicate {
            self.add_duplicate();
        }
        match self.may_undo(seg, false) {
            Some(why) => {
                self.undo(why, now);
                Doubt::Undone
            }
            None => Doubt::None,
        }
    }

    /// Enters Loss after a retransmission timeout (RFC 5681 3.1, RFC 8985 6.3, RFC 5682 2.1 step
    /// 1).
    pub(crate) fn enter_loss(&mut self, now: Instant) {
        let new = self.recovery.ca < Ca::Recovery;
        let again = self.recovery.ca == Ca::Loss && self.recovery.retransmits > 0;
        let reneged = self.board.is_reneged();
        if reneged {
            self.rare_events |= RareEvents::RENEGED;
            self.board.forget_sacked();
        }
        let first = !again
            && (self.recovery.ca <= Ca::Disorder
                || self.snd.una.at_or_after(self.recovery.high)
                || self.recovery.ca != Ca::Loss);
        let outstanding = self.snd.nxt.since(self.snd.una);
        if first {
            self.cc.on_rto(self.reduced_from(outstanding), true, now);
            self.begin_undo();
        } else {
            self.cc.on_rto(outstanding, false, now);
        }
        if reneged {
            // Data that the peer discarded must be sent again, regardless of what arrives later.
            self.recovery.clear_undo();
        }
        self.recovery.dupacks = 0;
        self.recovery.capped = false;
        let deadline = self.lost_if_sent_before(now);
        self.board.mark_lost_sent_before(deadline);
        let left = self.in_flight();
        if left > 0 {
            self.cc.set_cwnd(left.saturating_add(self.snd.mss.into()));
        }
        self.recovery.ca = Ca::Loss;
        self.recovery.high = self.snd.nxt;
        let frto = self.config.frto && !reneged && (new || self.recovery.retransmits > 0);
        self.recovery.frto = if frto { Frto::First } else { Frto::Off };
        self.recovery.tlp_end = None;
        self.recovery.probe = None;
        self.recovery.new_first = false;
        self.timers.early_at = Instant::NEVER;
        if self.ecn.on {
            self.ecn.cwr = true;
        }
    }

    /// Enters Loss so that segments too large for the path are retransmitted in smaller ones, as
    /// far as the window permits. The window is unchanged (RFC 1191 6.4; Linux:
    /// tcp_simple_retransmit).
    pub(crate) fn enter_loss_of_size(&mut self) {
        if self.recovery.ca == Ca::Loss {
            return;
        }
        self.recovery.clear_undo();
        self.recovery.ca = Ca::Loss;
        self.recovery.high = self.snd.nxt;
        (self.recovery.frto, self.recovery.tlp_end, self.recovery.probe) = (Frto::Off, None, None);
        self.timers.early_at = Instant::NEVER;
    }

    /// Processes an ACK after a timeout: undo, F-RTO (RFC 5682 2.1, 3.1), or slow start through the
    /// lost data. Returns whether the reduction was undone.
    fn after_timeout(&mut self, shown: &Shown, seg: &Segment, now: Instant) -> bool {
        let recovered = self.snd.una.at_or_after(self.recovery.high);
        if let Some(why) = self.may_undo(seg, shown.advanced).filter(|_| shown.advanced) {
            self.undo(why | RareEvents::SPURIOUS_RTO, now);
            return true;
        }
        match self.recovery.frto {
            // Step 3: a segment arrived that was sent before the timeout and never retransmitted.
            Frto::Second if shown.got.original && self.recovery.undo().is_some() => {
                self.undo(RareEvents::SPURIOUS_RTO, now);
                return true;
            }
            // Step 3a: the ACK was caused by the new data and does not cover earlier data, so the
            // loss was real.
            Frto::Second if shown.got.sacked > 0 || shown.duplicate => self.recovery.frto = Frto::Off,
            // The ACK echoes the retransmission, so the original was lost (RFC 3522 3.2). Step 2a:
            // a duplicate ACK proves nothing.
            Frto::First if shown.advanced && self.echoes(seg) => self.recovery.frto = Frto::Off,
            Frto::First if !self.sack && shown.duplicate => self.recovery.frto = Frto::Off,
            // Step 2b. Until SND.UNA moves, the segment that timed out may be lost, regardless of
            // what else arrives.
            Frto::First if shown.advanced && !recovered => {
                self.recovery.high = self.snd.nxt;
                if self.unsent() > 0 && self.send_edge().after(self.snd.nxt) {
                    self.recovery.frto = Frto::Second;
                    self.recovery.new_first = true;
                    return false;
                }
                self.recovery.frto = Frto::Off;
            }
            _ => {}
        }
        if recovered {
            self.recovery.ca = Ca::Open;
            self.recovery.dupacks = 0;
            // D-SACKs may still show that the timeout was spurious.
            self.recovery.episode().retrans_stamp = None;
            self.cc.on_recovery_exit(now);
            self.rack.on_recovery_exit();
            return false;
        }
        if !self.sack {
            if shown.advanced {
                self.recovery.dupacks = 0;
            } else if self.snd.nxt.after(self.recovery.high) && shown.duplicate {
                self.add_duplicate();
            }
        }
        false
    }

    /// Records that a tail loss probe was sent. `resent` is true if the probe was a retransmission.
    pub(crate) fn on_probed(&mut self, resent: bool) {
        self.rare_events |= RareEvents::LOSS_PROBE;
        self.recovery.tlp_end = Some(self.snd.nxt);
        self.recovery.tlp_resent = resent;
    }

    /// Handles the reply to a tail loss probe. Detects a loss that the probe repaired and that no
    /// other event would indicate (RFC 8985 7.4).
    fn answer_to_tail_loss(&mut self, shown: &Shown, now: Instant) {
        let Some(end) = self.recovery.tlp_end else { return };
        let una = self.snd.una;
        if una.before(end) {
            return;
        }
        if !self.recovery.tlp_resent || shown.dsack == Some(end) {
            self.recovery.tlp_end = None; // it was new data, or both copies arrived
        } else if una.after(end) {
            // Newer data was acknowledged without a D-SACK, so the original or the probe was lost,
            // and the window is reduced.
            self.rare_events |= RareEvents::LOSS_PROBE_RECOVERY;
            self.recovery.clear_undo();
            if matches!(self.recovery.ca, Ca::Open | Ca::Disorder) {
                self.begin_reduction(Signal::Loss, shown.got.acked, shown.got.sacked, now);
                self.end_reduction(now);
            }
            self.recovery.tlp_end = None;
        } else if !shown.advanced && shown.got.sacked == 0 && shown.duplicate {
            self.recovery.tlp_end = None; // both copies arrived
        }
    }
}
