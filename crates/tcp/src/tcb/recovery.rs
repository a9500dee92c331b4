//! Loss recovery state of the sender, and proportional rate reduction (RFC 6937bis).

use crate::SeqNum;
use crate::cc::{Congestion, Control};
use alloc::boxed::Box;
use clock::Instant;
use copies::Copies;

mod copies;

/// Congestion state of the sender, in Linux's order and with its numbers (`tcpi_ca_state`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Ca {
    #[default]
    Open = 0,
    Disorder = 1,
    Cwr = 2,
    Recovery = 3,
    Loss = 4,
}

/// A segment that is sent regardless of the congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Probe {
    /// Tail loss probe (RFC 8985 7.3).
    TailLoss,
    /// Window probe (RFC 9293 3.8.6.1).
    Window,
    /// Keepalive probe (RFC 9293 3.8.4).
    Ask,
}

/// State of one reduction of the window: its progress, and whether it can be undone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Episode {
    /// SND.UNA when the reduction began, if the reduction may be undone.
    pub undo: Option<SeqNum>,
    /// Retransmissions not yet reported by a D-SACK.
    pub copies: Copies,
    /// TSval of the first retransmission.
    pub retrans_stamp: Option<u32>,
    /// True if a retransmission has the same TSval as the transmission before it, so that an echo
    /// matches both.
    pub blurred: bool,
    pub prr_delivered: u32,
    pub prr_out: u32,
    pub prr_base: u32,
    /// Number of bytes that may be sent until the next ACK, if [`Recovery::capped`].
    pub burst: u32,
}

/// Progress of F-RTO after a timeout (RFC 5682 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frto {
    /// F-RTO is not active: conventional recovery.
    Off,
    /// Step 2: nothing was acknowledged cumulatively since the timeout.
    First,
    /// Step 3: something was acknowledged, and new data was sent.
    Second,
}

/// Loss recovery state of the sender.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub ca: Ca,
    /// Recovery point: SND.NXT when the state was entered. Recovery ends when it is acknowledged.
    pub high: SeqNum,
    /// State of the window reduction; `None` before the first loss event.
    pub episode: Option<Box<Episode>>,
    /// Number of duplicate ACKs, counted only without SACK.
    pub dupacks: u16,
    /// Exponent of the RTO back-off.
    pub backoff: u8,
    /// Number of consecutive timeouts or window probes.
    pub retransmits: u8,
    pub frto: Frto,
    /// True if only new data is sent until the next ACK. Either F-RTO waits for that ACK, or an
    /// original arrived while retransmissions are in flight.
    pub new_first: bool,
    /// True if an undo has limited sending by the bytes delivered, so that the restored window is
    /// not sent at once (RFC 4015 3.3).
    pub capped: bool,
    /// True if the first segment in flight must be sent regardless of the windows, for example
    /// after a timeout.
    pub force_front: bool,
    pub probe: Option<Probe>,
    /// SND.NXT when a tail loss probe was sent, until the ACK that shows the probe's outcome.
    pub tlp_end: Option<SeqNum>,
    pub tlp_resent: bool,
    /// Time of the first transmission of data that is not acknowledged; [`Instant::NEVER`] if there
    /// is none.
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

    /// Resets the state for a connection whose data begins at `nxt`.
    pub(crate) fn begin_at(&mut self, nxt: SeqNum) {
        *self = Recovery { heard_at: self.heard_at, ..Recovery::new(nxt) };
    }

    /// Returns whether nothing unusual is in progress, so that the fast path can process an ACK.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.ca == Ca::Open && self.tlp_end.is_none() && self.dupacks == 0 && self.retransmits == 0 && !self.capped
    }

    /// Number of bytes that have left the path according to duplicate ACKs. It is used only without
    /// SACK (RFC 5681 3.2 step 4).
    #[inline]
    pub(crate) fn reno_bytes(&self, mss: u16) -> u32 {
        u32::from(self.dupacks) * u32::from(mss)
    }

    /// Returns whether [`Recovery::reduce`] controls the window.
    #[inline]
    pub(crate) fn is_reducing(&self) -> bool {
        matches!(self.ca, Ca::Cwr | Ca::Recovery)
    }

    /// Records a retransmission of `start..end` with TSval `stamp`. `before` is the TSval of the
    /// previous transmission.
    pub(crate) fn on_resent(&mut self, start: SeqNum, end: SeqNum, stamp: u32, before: u32) {
        let len = end.since(start);
        let episode = self.episode();
        episode.blurred |= stamp == before;
        episode.copies.add(start, end);
        episode.retrans_stamp.get_or_insert(stamp);
        episode.prr_out = episode.prr_out.saturating_add(len);
        self.spend(len);
    }

    /// Returns the number of bytes that loss recovery permits to send until the next ACK. The
    /// windows limit this further.
    #[inline]
    pub(crate) fn burst(&self) -> u32 {
        if self.capped { self.episode.as_ref().map_or(u32::MAX, |episode| episode.burst) } else { u32::MAX }
    }

    /// Subtracts `len` from the bytes that may be sent until the next ACK.
    #[inline]
    fn spend(&mut self, len: u32) {
        if self.capped {
            let episode = self.episode();
            episode.burst = episode.burst.saturating_sub(len);
        }
    }

    /// Records that `len` bytes of new data were sent.
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

    /// Returns SND.UNA at the beginning of the reduction, if it may be undone.
    pub(crate) fn undo(&self) -> Option<SeqNum> {
        self.episode.as_ref().and_then(|episode| episode.undo)
    }

    pub(crate) fn clear_undo(&mut self) {
        if let Some(episode) = &mut self.episode {
            (episode.undo, episode.retrans_stamp) = (None, None);
            episode.copies.close();
        }
    }

    /// Frees the state of a reduction that has ended and can no longer be undone.
    pub(crate) fn release_memory(&mut self) {
        if self.ca == Ca::Open && self.undo().is_none() && !self.capped {
            self.episode = None;
        }
    }

    /// Applies proportional rate reduction: the bytes sent are in proportion to the bytes
    /// delivered, so that the window reaches ssthresh after a round trip (RFC 6937bis 3).
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
                // The limit grows as in slow start while SND.UNA advances and no further data is
                // lost.
                limit = limit.saturating_add(mss);
            }
            limit.min(ssthresh - in_flight)
        };
        // The first retransmission is always sent.
        let send = if episode.prr_out == 0 { send.max(mss) } else { send };
        cc.set_cwnd(in_flight.saturating_add(send));
    }
}
