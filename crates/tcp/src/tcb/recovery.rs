//! Loss recovery state of the sender, and proportional rate reduction (RFC 6937bis).

use crate::SeqNum;
use crate::cc::{Congestion, Control};
use clock::Instant;
use copies::Copies;

mod copies;

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Episode {
    /// It began at this SND.UNA and may be undone.
    pub undo: Option<SeqNum>,
    /// Retransmissions that no D-SACK has reported.
    pub copies: Copies,
    /// TSval of the first retransmission.
    pub retrans_stamp: Option<u32>,
    /// A copy has the TSval of the transmission before it, so that an echo matches both.
    pub blurred: bool,
    pub prr_delivered: u32,
    pub prr_out: u32,
    pub prr_base: u32,
    /// Bytes that may leave until the next ACK, if [`Recovery::capped`].
    pub burst: u32,
}

/// Progress of F-RTO after a timeout (RFC 5682 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frto {
    /// The conventional recovery.
    Off,
    /// Step 2: nothing was acknowledged cumulatively since the timeout.
    First,
    /// Step 3: something was, and new text was sent.
    Second,
}

/// Loss recovery state of the sender.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub ca: Ca,
    /// SND.NXT when trouble began: past it, it is over.
    pub high: SeqNum,
    /// From the first trouble on.
    pub episode: Option<Box<Episode>>,
    /// Duplicate ACKs, when there is no SACK to count by.
    pub dupacks: u16,
    /// Doublings of the timeout.
    pub backoff: u8,
    /// Timeouts, or window probes, in a row.
    pub retransmits: u8,
    pub frto: Frto,
    /// Until the next ACK new text is sent and nothing is sent again: F-RTO waits for an answer, or an original arrived
    /// while copies are under way.
    pub new_first: bool,
    /// After an undo what leaves follows what is delivered, so that the restored window is not sent at once (RFC 4015 3.3).
    pub capped: bool,
    /// The front leaves whatever the windows are, after a timeout.
    pub force_front: bool,
    pub probe: Option<Probe>,
    /// A tail loss probe is out: SND.NXT when it left.
    pub tlp_end: Option<SeqNum>,
    pub tlp_resent: bool,
    /// First send time of what is unanswered; [`Instant::NEVER`]: nothing is.
    pub unanswered_since: Instant,
    /// Time of the last segment from the peer.
    pub heard_at: Instant,
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
            frto: Frto::Off,
            new_first: false,
            capped: false,
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
        self.ca == Ca::Open && self.tlp_end.is_none() && self.dupacks == 0 && self.retransmits == 0 && !self.capped
    }

    /// Bytes that duplicate ACKs say have left (RFC 5681 3.2 step 4), when SACK cannot.
    #[inline]
    pub(crate) fn reno_bytes(&self, mss: u16) -> u32 {
        u32::from(self.dupacks) * u32::from(mss)
    }

    /// The window is being moved by [`Recovery::reduce`].
    #[inline]
    pub(crate) fn is_reducing(&self) -> bool {
        matches!(self.ca, Ca::Cwr | Ca::Recovery)
    }

    /// `start..end` left again with TSval `stamp`; before it left with `before`.
    pub(crate) fn on_resent(&mut self, start: SeqNum, end: SeqNum, stamp: u32, before: u32) {
        let len = end.since(start);
        let episode = self.episode();
        episode.blurred |= stamp == before;
        episode.copies.add(start, end);
        episode.retrans_stamp.get_or_insert(stamp);
        episode.prr_out = episode.prr_out.saturating_add(len);
        self.spend(len);
    }

    /// Bytes that may leave until the next ACK, whatever the windows allow.
    #[inline]
    pub(crate) fn burst(&self) -> u32 {
        if self.capped { self.episode.as_ref().map_or(u32::MAX, |episode| episode.burst) } else { u32::MAX }
    }

    /// Takes `len` bytes from what may leave until the next ACK.
    #[inline]
    fn spend(&mut self, len: u32) {
        if self.capped {
            let episode = self.episode();
            episode.burst = episode.burst.saturating_sub(len);
        }
    }

    /// New text left.
    #[inline]
    pub(crate) fn on_sent(&mut self, len: u32) {
        self.spend(len);
        if self.is_reducing() {
            let episode = self.episode();
            episode.prr_out = episode.prr_out.saturating_add(len);
        }
    }

    pub(crate) fn episode(&mut self) -> &mut Episode {
        self.episode.get_or_insert_default()
    }

    /// Returns SND.UNA at the beginning of the reduction that may be undone.
    pub(crate) fn undo(&self) -> Option<SeqNum> {
        self.episode.as_ref().and_then(|episode| episode.undo)
    }

    pub(crate) fn clear_undo(&mut self) {
        if let Some(episode) = &mut self.episode {
            (episode.undo, episode.retrans_stamp) = (None, None);
            episode.copies.close();
        }
    }

    /// Gives back what only a reduction needs that is over and cannot be undone any more.
    pub(crate) fn release_memory(&mut self) {
        if self.ca == Ca::Open && self.undo().is_none() && !self.capped {
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
