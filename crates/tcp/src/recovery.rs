//! Loss recovery: from the first sign of trouble to its end, or to finding that there was none.
//!
//! ```text
//!  Open --SACK, duplicate--> Disorder --lost--> Recovery --SND.UNA passes the recovery point--> Open
//!   |  --ECN-Echo--> Cwr ------------------------^   |                                           ^
//!   +--timeout, from any--> Loss --(F-RTO: spurious)-+-------------------------------------------+
//! ```
//!
//! What is lost is found by `rack` (with SACK) or by duplicates (RFC 6582, without). In Recovery and Cwr the window follows
//! proportional rate reduction (RFC 6937bis); a reduction that D-SACKs or timestamps show to be needless is undone
//! (RFC 3708, RFC 4015); after a timeout F-RTO looks for the original's ACK (RFC 5682).

use crate::cc::{Congestion, Control, Signal};
use crate::note::Notes;
use crate::scoreboard::Delivered;
use crate::tcb::Tcb;
use crate::{Segment, SeqNum};
use clock::Instant;

/// The state of the sender, in Linux's order and numbers (`tcpi_ca_state`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Ca {
    #[default]
    Open = 0,
    Disorder = 1,
    Cwr = 2,
    Recovery = 3,
    Loss = 4,
}

/// A segment that is to leave without regard to the congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Probe {
    /// RFC 8985 7.3.
    TailLoss,
    /// RFC 9293 3.8.6.1.
    Window,
    /// RFC 9293 3.8.4.
    Ask,
}

/// One reduction of the window: how far it is, and whether it can be taken back.
#[derive(Clone, Debug)]
struct Episode {
    /// It began at this SND.UNA and may be undone.
    undo: Option<SeqNum>,
    /// Retransmissions since then that no D-SACK has answered; negative: none was made.
    undo_retrans: i32,
    /// TSval of the first of them.
    retrans_stamp: Option<u32>,
    prr_delivered: u32,
    prr_out: u32,
    prr_base: u32,
}

impl Default for Episode {
    fn default() -> Episode {
        Episode { undo: None, undo_retrans: -1, retrans_stamp: None, prr_delivered: 0, prr_out: 0, prr_base: 0 }
    }
}

/// The sender's memory of trouble.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub ca: Ca,
    /// SND.NXT when trouble began: past it, it is over.
    pub high: SeqNum,
    /// From the first trouble on.
    episode: Option<Box<Episode>>,
    /// Duplicate ACKs, when there is no SACK to count by.
    pub dupacks: u16,
    /// Doublings of the timeout.
    pub backoff: u8,
    /// Timeouts, or window probes, in a row.
    pub retransmits: u8,
    frto: bool,
    /// F-RTO asks for new text before anything is sent again.
    pub new_first: bool,
    /// The front leaves whatever the windows say: the timeout asked for it.
    pub force_front: bool,
    pub probe: Option<Probe>,
    /// A tail loss probe is out: SND.NXT when it left.
    pub tlp_end: Option<SeqNum>,
    tlp_resent: bool,
    /// When what nobody answers left first; [`Instant::NEVER`]: nothing.
    pub unanswered_since: Instant,
    /// When anything came from the peer.
    pub heard_at: Instant,
}

/// What an acknowledging segment showed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    pub got: Delivered,
    /// SND.UNA moved.
    pub advanced: bool,
    /// A duplicate ACK by RFC 5681 2.
    pub duplicate: bool,
    /// D-SACK.
    pub dsack: bool,
    /// ECN-Echo.
    pub ece: bool,
    pub prior_in_flight: u32,
}

impl Recovery {
    pub(crate) fn new(iss: SeqNum) -> Recovery {
        Recovery {
            ca: Ca::Open,
            high: iss,
            episode: None,
            dupacks: 0,
            backoff: 0,
            retransmits: 0,
            frto: false,
            new_first: false,
            force_front: false,
            probe: None,
            tlp_end: None,
            tlp_resent: false,
            unanswered_since: Instant::NEVER,
            heard_at: Instant::ZERO,
        }
    }

    /// Text begins at `nxt`.
    pub(crate) fn begin_at(&mut self, nxt: SeqNum) {
        *self = Recovery { heard_at: self.heard_at, ..Recovery::new(nxt) };
    }

    /// Nothing is amiss: the short way through an ACK is enough.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.ca == Ca::Open && self.tlp_end.is_none() && self.dupacks == 0 && self.retransmits == 0
    }

    /// Bytes that duplicate ACKs say have left (RFC 5681 3.2 step 4), when SACK cannot.
    #[inline]
    pub(crate) fn reno_bytes(&self, tcb: &Tcb) -> u32 {
        if self.dupacks == 0 { 0 } else { u32::from(self.dupacks) * u32::from(tcb.snd.mss) }
    }

    /// The window is being moved by [`Recovery::reduce`].
    #[inline]
    pub(crate) fn is_reducing(&self) -> bool {
        matches!(self.ca, Ca::Cwr | Ca::Recovery)
    }

    /// A segment left again.
    pub(crate) fn on_resent(&mut self, len: u32, stamp: u32) {
        let episode = self.episode();
        episode.undo_retrans = episode.undo_retrans.max(0).saturating_add(1);
        episode.retrans_stamp.get_or_insert(stamp);
        episode.prr_out = episode.prr_out.saturating_add(len);
    }

    /// New text left.
    #[inline]
    pub(crate) fn on_sent(&mut self, len: u32) {
        if self.is_reducing() {
            let episode = self.episode();
            episode.prr_out = episode.prr_out.saturating_add(len);
        }
    }

    fn episode(&mut self) -> &mut Episode {
        self.episode.get_or_insert_default()
    }

    /// Where the reduction that may be undone began.
    fn undo(&self) -> Option<SeqNum> {
        self.episode.as_ref().and_then(|episode| episode.undo)
    }

    fn clear_undo(&mut self) {
        if let Some(episode) = &mut self.episode {
            (episode.undo, episode.undo_retrans, episode.retrans_stamp) = (None, -1, None);
        }
    }

    /// Gives back what only a reduction needs that is over and cannot be undone any more.
    pub(crate) fn release_memory(&mut self) {
        if self.ca == Ca::Open && self.undo().is_none() {
            self.episode = None;
        }
    }

    /// RFC 6937bis 3: sending follows what is delivered, so that the window reaches ssthresh after a round trip.
    pub(crate) fn reduce(
        &mut self,
        delivered: u32,
        lost: u32,
        advanced: bool,
        in_flight: u32,
        cc: &mut Control,
        mss: u16,
    ) {
        let mss = u32::from(mss);
        let ssthresh = cc.ssthresh();
        let episode = self.episode();
        episode.prr_delivered = episode.prr_delivered.saturating_add(delivered);
        let send = if in_flight > ssthresh {
            let share = u64::from(ssthresh) * u64::from(episode.prr_delivered);
            let share = share.div_ceil(u64::from(episode.prr_base.max(1)));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_sub(episode.prr_out)
        } else {
            let mut limit = episode.prr_delivered.saturating_sub(episode.prr_out).max(delivered);
            if advanced && lost == 0 {
                limit = limit.saturating_add(mss); // slow start while SND.UNA moves and nothing more is lost
            }
            limit.min(ssthresh - in_flight)
        };
        // The first retransmission leaves in any case.
        let send = if episode.prr_out == 0 { send.max(mss) } else { send };
        cc.set_cwnd(in_flight.saturating_add(send));
    }
}

impl Tcb {
    /// What an ACK means for recovery. Called after the scoreboard took it.
    pub(crate) fn recover(&mut self, shown: &Shown, seg: &Segment, now: Instant) {
        self.recovery.new_first = false;
        let reno = !self.sack;
        let counted = self.recovery.reno_bytes(self);
        if shown.ece {
            self.on_echo(shown, now);
        }
        self.answer_to_tail_loss(shown, now);
        if self.recovery.ca != Ca::Loss && self.recovery.ca != Ca::Open && self.passed_point() {
            self.leave(seg, now);
        }
        let mut lost = 0;
        match self.recovery.ca {
            Ca::Recovery => {
                if shown.advanced {
                    self.on_partial_ack(shown, seg, now);
                } else if reno && shown.duplicate {
                    self.add_duplicate();
                }
                if let Some(why) = self.may_undo(seg).filter(|_| shown.dsack) {
                    self.undo(why, now);
                } else {
                    lost = self.find_lost(shown.advanced, now);
                }
            }
            Ca::Loss => {
                self.after_timeout(shown, seg, now);
                lost = self.find_lost(shown.advanced, now);
            }
            Ca::Open | Ca::Disorder | Ca::Cwr => {
                if reno {
                    if shown.advanced {
                        self.recovery.dupacks = 0;
                    }
                    if shown.duplicate {
                        self.add_duplicate();
                    }
                }
                if let Some(why) = self.may_undo(seg).filter(|_| shown.dsack && self.recovery.ca != Ca::Cwr) {
                    self.undo(why, now);
                }
                lost = self.find_lost(false, now);
                if self.board.lost().segments > 0 && !self.only_mtu_probe_lost() {
                    self.enter_recovery(shown.got.acked, shown.got.sacked, now);
                } else if self.recovery.ca != Ca::Cwr {
                    let clear = self.board.sacked().segments == 0 && self.recovery.dupacks == 0;
                    self.recovery.ca = if clear { Ca::Open } else { Ca::Disorder };
                }
            }
        }
        if self.recovery.is_reducing() {
            let delivered = if reno { self.reno_delivered(shown, counted) } else { shown.got.bytes };
            let in_flight = self.in_flight();
            let mss = self.snd.mss;
            self.recovery.reduce(delivered, lost, shown.advanced, in_flight, &mut self.cc, mss);
        }
    }

    /// Without SACK a duplicate ACK stands for a segment, and a later one for what it passed less those, but for a segment
    /// at least: that one was missing (RFC 6582 3.2).
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

    /// SND.UNA is at or past the recovery point; without SACK it has to be past it, or duplicates of what was sent before
    /// would begin another recovery (RFC 6582 4).
    fn passed_point(&self) -> bool {
        let (una, high) = (self.snd.una, self.recovery.high);
        match self.recovery.ca {
            Ca::Cwr => una.after(high),
            Ca::Disorder => true,
            _ if self.sack => una.at_or_after(high),
            _ => una.after(high) || self.board.is_empty(),
        }
    }

    /// The recovery point is passed.
    fn leave(&mut self, seg: &Segment, now: Instant) {
        match self.recovery.ca {
            Ca::Recovery => {
                self.recovery.dupacks = 0;
                if let Some(why) = self.may_undo(seg) {
                    self.undo(why, now);
                } else {
                    self.end_reduction(now);
                }
                self.rack.on_recovery_exit();
            }
            Ca::Cwr => self.end_reduction(now),
            Ca::Open | Ca::Disorder | Ca::Loss => {
                // D-SACKs that come after Recovery was left may still show that it was needless.
                if self.board.sacked().segments == 0 && self.snd.una.after(self.recovery.high) {
                    self.recovery.clear_undo();
                }
            }
        }
        self.recovery.ca = Ca::Open;
    }

    fn end_reduction(&mut self, now: Instant) {
        let ssthresh = self.cc.ssthresh();
        if ssthresh < u32::MAX {
            self.cc.set_cwnd(ssthresh);
        }
        self.cc.on_recovery_exit(now);
        self.recovery.episode().retrans_stamp = None;
    }

    /// Finds what is lost: by RACK, or without SACK by the third duplicate and by partial ACKs.
    fn find_lost(&mut self, partial: bool, now: Instant) -> u32 {
        if self.board.is_empty() {
            return 0;
        }
        if self.sack {
            return self.detect_lost(now);
        }
        let third = self.recovery.ca < Ca::Recovery && u32::from(self.recovery.dupacks) >= crate::rack::DUPTHRESH;
        if third || (self.recovery.ca == Ca::Recovery && partial) { self.board.mark_front_lost() } else { 0 }
    }

    /// RFC 6675 5 step 4, RFC 6582 3.2 step 2: the window is reduced once, what is lost is sent again.
    pub(crate) fn enter_recovery(&mut self, acked: u32, sacked: u32, now: Instant) {
        self.begin_undo();
        self.notes |= if self.sack { Notes::SACK_EPISODE } else { Notes::RENO_EPISODE };
        if self.recovery.ca != Ca::Cwr {
            self.begin_reduction(Signal::Loss, acked, sacked, now);
        }
        self.recovery.high = self.snd.nxt;
        self.recovery.ca = Ca::Recovery;
    }

    fn begin_undo(&mut self) {
        let under_way = self.board.retrans().segments;
        let episode = self.recovery.episode();
        episode.undo = Some(self.snd.una);
        episode.undo_retrans = if under_way > 0 { under_way.min(i32::MAX as u32) as i32 } else { -1 };
        episode.retrans_stamp = None;
    }

    /// ssthresh from the flight, and PRR from its beginning.
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

    /// The window that congestion met: what was in flight (RFC 5681 3.1, (4)), or the congestion window (RFC 9438 4.6).
    ///
    /// That is the most that was in flight in this round trip: where ACKs arrive together, those in front of the one that tells of the loss have
    /// emptied the path, and nothing was sent between them. (A window of 15 became one of 2; at 1 % loss that cost a fifth of the rate.)
    fn reduced_from(&self, outstanding: u32) -> u32 {
        let cwnd = self.cc.cwnd();
        if self.config.reduce_cwnd { cwnd } else { outstanding.max(self.snd.flight).min(cwnd) }
    }

    /// RFC 3168 6.1.2: an echoed mark is answered like a loss, once a round trip.
    fn on_echo(&mut self, shown: &Shown, now: Instant) {
        if matches!(self.recovery.ca, Ca::Open | Ca::Disorder) {
            self.recovery.clear_undo();
            self.begin_reduction(Signal::Ecn, shown.got.acked, shown.got.sacked, now);
            self.notes |= Notes::ECN_REDUCTION;
            self.recovery.ca = Ca::Cwr;
            self.recovery.episode().prr_out = self.snd.mss.into(); // nothing has to leave at once
        }
    }

    /// RFC 6582 3.2 step 3: some of it arrived, the next is missing too. Or the original did, late.
    fn on_partial_ack(&mut self, shown: &Shown, seg: &Segment, now: Instant) {
        if !self.sack {
            let segments = (shown.got.acked / u32::from(self.snd.mss.max(1))).min(u32::from(u16::MAX)) as u16;
            self.recovery.dupacks = self.recovery.dupacks.saturating_sub(segments.saturating_sub(1));
        }
        if self.recovery.undo().is_some() && self.answers_original(seg) {
            // RFC 4015: what we sent again had not been lost.
            self.rack.reordered = true;
            self.undo(Notes::UNDONE_BY_TIMESTAMP, now);
        }
    }

    /// The reduction was needless, and how we know: all retransmissions were answered by D-SACKs, or an original's timestamp
    /// came back.
    fn may_undo(&self, seg: &Segment) -> Option<Notes> {
        let episode = self.recovery.episode.as_deref().filter(|episode| episode.undo.is_some());
        match episode {
            Some(episode) if episode.undo_retrans == 0 => Some(Notes::UNDONE_BY_DSACK),
            Some(_) if self.answers_original(seg) => Some(Notes::UNDONE_BY_TIMESTAMP),
            _ => None,
        }
    }

    /// RFC 4015: the timestamp it echoes is older than our first retransmission.
    fn answers_original(&self, seg: &Segment) -> bool {
        let first = self.recovery.episode.as_ref().and_then(|episode| episode.retrans_stamp);
        let (Some(_), Some(echoed), Some(first)) = (self.ts, seg.options.timestamps, first) else {
            return false;
        };
        echoed.ecr != 0 && SeqNum(echoed.ecr).before(SeqNum(first))
    }

    fn undo(&mut self, why: Notes, now: Instant) {
        self.notes |= why;
        self.cc.undo();
        self.board.forget_lost();
        self.recovery.clear_undo();
        self.recovery.dupacks = 0;
        self.recovery.frto = false;
        self.recovery.backoff = 0;
        self.recovery.retransmits = 0;
        self.ecn.cwr = false;
        self.recovery.ca = Ca::Open;
        self.snd.last_at = self.snd.last_at.max(now);
    }

    /// Everything was acknowledged before the D-SACK came: it may still show that the reduction was needless (RFC 3708).
    pub(crate) fn on_late_dsack(&mut self, seg: &Segment, now: Instant) {
        if let Some(why) = self.may_undo(seg).filter(|_| self.recovery.ca <= Ca::Disorder) {
            self.undo(why, now);
        }
    }

    /// RFC 2883: a retransmission arrived that was not needed.
    pub(crate) fn on_dsack(&mut self, end: SeqNum) {
        self.notes |= Notes::DSACK;
        let met = self.met();
        met.dsack_dups = met.dsack_dups.wrapping_add(1);
        if self.recovery.undo().is_some_and(|marker| end.after(marker)) {
            let episode = self.recovery.episode();
            episode.undo_retrans -= i32::from(episode.undo_retrans > 0);
        }
        self.rack.on_dsack(self.snd.una, self.snd.nxt);
    }

    /// The retransmission timer expired (RFC 5681 3.1, RFC 8985 6.3, RFC 5682 2.1 step 1).
    pub(crate) fn enter_loss(&mut self, now: Instant) {
        let new = self.recovery.ca < Ca::Recovery;
        let again = self.recovery.ca == Ca::Loss && self.recovery.retransmits > 0;
        if self.board.is_reneged() {
            self.notes |= Notes::RENEGED;
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
        self.recovery.dupacks = 0;
        let deadline = self.lost_if_sent_before(now);
        self.board.mark_lost_sent_before(deadline);
        let left = self.in_flight();
        if left > 0 {
            self.cc.set_cwnd(left.saturating_add(self.snd.mss.into()));
        }
        self.recovery.ca = Ca::Loss;
        self.recovery.high = self.snd.nxt;
        self.recovery.frto = self.config.frto && (new || self.recovery.retransmits > 0);
        self.recovery.tlp_end = None;
        self.recovery.probe = None;
        self.recovery.new_first = false;
        self.timers.early_at = Instant::NEVER;
        if self.ecn.on {
            self.ecn.cwr = true;
        }
    }

    /// What did not fit the path is sent again in smaller segments as the window allows, which stays as it is (RFC 1191 6.4;
    /// Linux: tcp_simple_retransmit).
    pub(crate) fn enter_loss_of_size(&mut self) {
        if self.recovery.ca == Ca::Loss {
            return;
        }
        self.recovery.clear_undo();
        self.recovery.ca = Ca::Loss;
        self.recovery.high = self.snd.nxt;
        (self.recovery.frto, self.recovery.tlp_end, self.recovery.probe) = (false, None, None);
        self.timers.early_at = Instant::NEVER;
    }

    /// An ACK after a timeout: F-RTO (RFC 5682 2.1, 3.1), undo, or slow start through what is lost.
    fn after_timeout(&mut self, shown: &Shown, seg: &Segment, now: Instant) {
        let recovered = self.snd.una.at_or_after(self.recovery.high);
        if let Some(why) = self.may_undo(seg).filter(|_| shown.advanced) {
            return self.undo(why | Notes::SPURIOUS_RTO, now);
        }
        if self.recovery.frto {
            // Something arrived that was sent before the timeout and never again: the timeout was spurious.
            if shown.got.original && self.recovery.undo().is_some() {
                return self.undo(Notes::SPURIOUS_RTO, now);
            }
            if self.snd.nxt.after(self.recovery.high) {
                // New text was sent, and this is no answer to it: the loss was real.
                if shown.got.sacked > 0 || shown.duplicate {
                    self.recovery.frto = false;
                }
            } else if shown.advanced && !recovered {
                self.recovery.high = self.snd.nxt;
                if self.unsent() > 0 && self.send_edge().after(self.snd.nxt) {
                    self.recovery.new_first = true;
                    return;
                }
                self.recovery.frto = false;
            }
        }
        if recovered {
            self.recovery.ca = Ca::Open;
            self.recovery.dupacks = 0;
            self.recovery.clear_undo();
            self.cc.on_recovery_exit(now);
            self.rack.on_recovery_exit();
            return;
        }
        if !self.sack {
            if shown.advanced {
                self.recovery.dupacks = 0;
            } else if self.snd.nxt.after(self.recovery.high) && shown.duplicate {
                self.add_duplicate();
            }
        }
    }

    /// A tail loss probe left.
    pub(crate) fn on_probed(&mut self, resent: bool) {
        self.notes |= Notes::LOSS_PROBE;
        self.recovery.tlp_end = Some(self.snd.nxt);
        self.recovery.tlp_resent = resent;
    }

    /// RFC 8985 7.4: did the probe repair a loss that nothing else will show?
    fn answer_to_tail_loss(&mut self, shown: &Shown, now: Instant) {
        let Some(end) = self.recovery.tlp_end else { return };
        let una = self.snd.una;
        if una.before(end) {
            return;
        }
        if !self.recovery.tlp_resent || shown.dsack {
            self.recovery.tlp_end = None;
        } else if una.after(end) {
            // Acknowledged with something newer and no D-SACK: one copy was lost, and the window pays for it.
            self.notes |= Notes::LOSS_PROBE_RECOVERY;
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
