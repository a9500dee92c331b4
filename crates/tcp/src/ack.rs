//! ACK processing in a synchronized state: RFC 9293 3.10.7.4, fifth step (SEG.ACK, SEG.WND and SACK
//! blocks).
//!
//! Called from `input` for a segment that passed the first four steps. Moves SND.UNA, updates the
//! scoreboard and the round-trip estimate, runs `recovery`, grows the congestion window and rearms
//! the timers.

use crate::cc::{Ack, Congestion};
use crate::rare_events::RareEvents;
use crate::recovery::Shown;
use crate::rtt::us_since;
use crate::scoreboard::Delivered;
use crate::tcb::{Early, Rtx, Tcb};
use crate::{Block, Dropped, Events, Reply, Segment, SeqNum};
use clock::Instant;
use wire::tcp::Flags;

impl Tcb {
    /// Processes SEG.ACK (RFC 9293 3.10.7.4, fifth, ESTABLISHED). ACKs that are too old or beyond
    /// SND.NXT get a challenge ACK (RFC 5961 5.2).
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn process_ack(&mut self, seg: &Segment, now: Instant, reply: &mut Reply) -> Result<(), Dropped> {
        let (una, nxt) = (self.snd.una, self.snd.nxt);
        if seg.ack.after(nxt) {
            return self.challenge(reply, Dropped::AckUnsent, now);
        }
        if seg.ack.before(una.minus(self.snd.max_wnd)) {
            return self.challenge(reply, Dropped::AckTooOld, now);
        }
        self.options.more = false;
        let advanced = seg.ack.after(una);
        let backoff = self.recovery.backoff;
        let mut shown = Shown { advanced, backoff, prior_in_flight: self.in_flight(), ..Shown::default() };
        if advanced {
            self.advance(seg.ack, &mut shown.got, reply);
        }
        let (window_before, text) = (self.snd.wnd, seg.len > 0 || seg.has(Flags::FIN));
        if advanced || seg.ack == una {
            self.take_window(seg.window, seg.seq, seg.ack, advanced);
            if self.snd.wnd > window_before && !advanced && !text {
                self.rare_events |= RareEvents::WINDOW_UPDATE;
            }
        }
        let dsack = match self.sack && !seg.options.sack.is_empty() {
            true => self.take_sack(seg, una, &mut shown.got),
            false => None,
        };
        if self.snd.una == self.snd.nxt && !advanced {
            if dsack.is_some() {
                self.on_late_dsack(seg, now);
            }
            self.window_answered(now);
            return Ok(());
        }
        // A duplicate ACK (RFC 5681 2) acknowledges no new data, contains no data and leaves the
        // window unchanged, while data is outstanding.
        shown.duplicate = !advanced && !text && self.snd.wnd == window_before && seg.ack == una;
        if shown.duplicate {
            self.rare_events |= RareEvents::DUPLICATE_ACK;
        }
        (shown.dsack, shown.ece) = (dsack, self.ecn.on && seg.has(Flags::ECE));
        reply.measured = self.learn(&shown, seg, now);
        Ok(())
    }

    /// Moves SND.UNA to `ack`, removes the acknowledged segments from the scoreboard, and resets
    /// the RTO back-off.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn advance(&mut self, ack: SeqNum, got: &mut Delivered, reply: &mut Reply) {
        let text = ack.earlier(self.snd.end).since_or_zero(self.snd.una);
        self.board.acknowledge(ack, self.recovery.high, got);
        self.snd.una = ack;
        if self.pmtu.is_some() {
            self.check_mtu_probe();
        }
        self.recovery.backoff = 0;
        self.recovery.retransmits = 0;
        self.recovery.force_front = false;
        self.recovery.unanswered_since = Instant::NEVER;
        if self.snd_urgent().is_some_and(|end| ack.at_or_after(end)) {
            self.snd.urgent_on = false;
        }
        self.counts.bytes_acked = self.counts.bytes_acked.wrapping_add(text.into());
        reply.acked = text;
        if text > 0 {
            reply.events |= Events::WRITABLE;
        }
    }

    /// Sets SND.WND if the segment is newer than the one that last set it (RFC 9293 3.10.7.4).
    #[inline]
    pub(crate) fn take_window(&mut self, window: u16, seq: SeqNum, ack: SeqNum, advanced: bool) {
        let newer = advanced || seq.after(self.snd.wl1) || (seq == self.snd.wl1 && ack.at_or_after(self.snd.wl2));
        if !newer {
            return;
        }
        let window = u32::from(window) << self.snd.wscale;
        (self.snd.wl1, self.snd.wl2) = (seq, ack);
        self.snd.wnd = window;
        if window > self.snd.max_wnd {
            self.snd.max_wnd = window;
            self.set_mss();
        }
    }

    /// Right edge of the peer's receive window.
    #[inline]
    pub(crate) fn send_edge(&self) -> SeqNum {
        self.snd.una.plus(self.snd.wnd)
    }

    /// Marks SACKed ranges on the scoreboard. Returns the end of the segment's first block if that
    /// block is a D-SACK (RFC 2883 4).
    #[inline(never)]
    fn take_sack(&mut self, seg: &Segment, prior_una: SeqNum, got: &mut Delivered) -> Option<SeqNum> {
        let blocks = seg.options.sack.as_slice();
        let dsack = match blocks {
            [first, second, ..] => first.left.before(seg.ack) || inside(first, second),
            [first] => first.left.before(seg.ack),
            [] => false,
        };
        let valid = |block: &Block| block.left.before(block.right) && block.right.at_or_before(self.snd.nxt);
        let recent = |block: &Block| block.right.after(prior_una.minus(self.snd.max_wnd.max(1)));
        let lies = !blocks.iter().skip(usize::from(dsack)).all(valid);
        // A duplicate segment cannot be longer than the largest window that the peer ever
        // advertised.
        let small = |block: &Block| block.right.since(block.left) <= self.snd.max_wnd.max(1);
        let first = blocks.first().copied().filter(|block| dsack && valid(block) && recent(block) && small(block));
        if let Some(block) = first {
            self.on_dsack(block);
        } else if dsack {
            self.rare_events |= RareEvents::DSACK_OLD;
        }
        if lies {
            self.rare_events |= RareEvents::SACK_INVALID;
        }
        let una = self.snd.una;
        for block in blocks.iter().skip(usize::from(dsack)) {
            if block.left.before(block.right) && block.right.at_or_before(self.snd.nxt) && block.right.after(una) {
                self.board.sack(block.left.later(una), block.right, self.recovery.high, got);
            }
        }
        first.map(|block| block.right)
    }

    /// Updates the RTT estimate, loss recovery, the congestion window and the timers after an ACK.
    /// Returns whether an RTT was measured.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn learn(&mut self, shown: &Shown, seg: &Segment, now: Instant) -> bool {
        let backed_off = self.answers_lost_ack(shown, seg).then_some(shown.backoff);
        let rtt_us = if backed_off.is_none() { self.measure(shown, seg, now) } else { None };
        let delivered = shown.got.segments;
        self.counts.delivered = self.counts.delivered.wrapping_add(delivered);
        if shown.ece {
            let cold_events = self.cold_events();
            cold_events.delivered_ce = cold_events.delivered_ce.wrapping_add(delivered);
        }
        if self.sack {
            // If the ACK echoes a timestamp older than the retransmission, the original was
            // delivered, not the retransmission (RFC 8985 6.2 step 2).
            let echoed = seg.options.timestamps.filter(|ts| shown.advanced && ts.ecr != 0 && self.ts.is_some());
            let left_later = |at| echoed.is_some_and(|ts| SeqNum(ts.ecr).before(SeqNum(self.ts_now(at))));
            let of_copy = [shown.got.last.map(|last| last.0), shown.got.latest.map(|latest| latest.at)]
                .map(|at| !at.is_some_and(left_later));
            let late = self.rack.update(&shown.got, of_copy, self.rtt.min_us(), self.snd.mss, now);
            if late {
                let cold_events = self.cold_events();
                cold_events.reord_seen = cold_events.reord_seen.wrapping_add(1);
                self.rare_events |= RareEvents::REORDERED;
            }
            self.rack.reached(self.snd.una);
            for block in seg.options.sack.as_slice() {
                let inside = block.right.at_or_before(self.snd.nxt) && block.right.after(self.snd.una);
                if inside && block.left.before(block.right) {
                    self.rack.reached(block.right);
                }
            }
        }
        let (reducing, duplicates) = (self.recovery.is_reducing(), self.recovery.reno_bytes(self.snd.mss));
        let quiet = self.recovery.is_quiet()
            && shown.got.sacked == 0
            && !shown.duplicate
            && !shown.ece
            && shown.dsack.is_none();
        let undone = (!quiet || self.board.sacked().segments > 0) && self.recover(shown, seg, now);
        if shown.advanced {
            let bytes = match self.config.limit_growth {
                true => shown.got.acked,
                false if self.sack => shown.got.bytes,
                false => self.reno_delivered(shown, duplicates),
            };
            self.recovery.backoff = backed_off.unwrap_or(self.recovery.backoff);
            self.grow(bytes, (shown.prior_in_flight, self.in_flight()), rtt_us, reducing && !undone, now);
        }
        self.rearm(shown, now);
        rtt_us.is_some()
    }

    /// Reports an ACK of `bytes` bytes to congestion control, together with the bytes in flight
    /// before and after the ACK.
    #[inline]
    pub(crate) fn grow(
        &mut self,
        bytes: u32,
        (prior_in_flight, in_flight): (u32, u32),
        rtt_us: Option<u32>,
        reducing: bool,
        now: Instant,
    ) {
        let round_start = self.snd.una.after(self.snd.round_end);
        // In slow start, the window counts as the limit on sending once half of it is in flight, so
        // that it may grow to twice the bytes in flight (Linux: tcp_is_cwnd_limited).
        let (cwnd, slow) = (self.cc.cwnd(), self.cc.cwnd() < self.cc.ssthresh());
        let ack = Ack {
            bytes,
            prior_in_flight,
            in_flight,
            rtt_us,
            round_start,
            cwnd_limited: self.snd.limited || (slow && cwnd / 2 < self.snd.flight),
            limit_growth: self.config.limit_growth,
            // True also for the ACK that ends a reduction of the window: a full acknowledgment does
            // not grow the window (RFC 6582 3.2).
            in_recovery: reducing || self.recovery.is_reducing(),
            snd_una: self.snd.una,
            snd_nxt: self.snd.nxt,
        };
        let first_slow_start = self.cc.ssthresh() == u32::MAX;
        self.cc.on_ack(&ack, now);
        if first_slow_start && self.cc.ssthresh() != u32::MAX {
            self.rare_events |= RareEvents::HYSTART_EXIT;
        }
        if round_start {
            self.snd.round_end = self.snd.nxt;
        }
    }

    /// Returns whether the first ACK after a timeout covers a retransmission but echoes a timestamp
    /// that is older than the retransmission.
    ///
    /// The peer's ACK was then probably lost, and the retransmission made the peer send it again.
    /// The time since the original transmission includes our own timeout, so it must not be used as
    /// an RTT sample. The RTO stays backed off until there is a valid sample (RFC 6298 3, Karn). In
    /// a measurement with such samples, each lost ACK doubled the RTO, up to its maximum.
    fn answers_lost_ack(&self, shown: &Shown, seg: &Segment) -> bool {
        let (Some(at), Some(echoed)) = (shown.got.copied_at, seg.options.timestamps) else { return false };
        let copied = shown.backoff > 0 && shown.advanced && self.ts.is_some();
        copied && echoed.ecr != 0 && SeqNum(echoed.ecr).before(SeqNum(self.ts_now(at)))
    }

    /// Measures the RTT from segments sent only once (RFC 6298 3, Karn), or else from the echoed
    /// timestamp (RFC 7323 4).
    #[inline]
    fn measure(&mut self, shown: &Shown, seg: &Segment, now: Instant) -> Option<u32> {
        let sent = match shown.got.first_sent {
            Some(at) if shown.got.copied_at.is_none() => Some(at),
            _ => shown.got.sack_sent,
        };
        let us = match sent {
            Some(at) => us_since(now, at),
            None => {
                let echoed = seg.options.timestamps.filter(|ts| shown.advanced && ts.ecr != 0 && self.ts.is_some())?;
                // An echo of 2^20 ms or more is not one of our timestamps.
                let ms = Some(self.ts_now(now).wrapping_sub(echoed.ecr)).filter(|ms| *ms < 1 << 20)?;
                ms.max(1) * 1000
            }
        };
        self.rtt.sample(us, self.snd.una, self.snd.nxt, now);
        Some(us)
    }

    /// Rearms the retransmission timer (RFC 6298 5.2, 5.3) and the tail loss probe (RFC 8985 7.2).
    #[inline]
    fn rearm(&mut self, shown: &Shown, now: Instant) {
        if self.board.is_empty() {
            self.timers.clear_rtx();
            self.chrono_acked(now);
            return;
        }
        if shown.advanced {
            self.arm_rto(now);
        }
        if shown.advanced || shown.got.sacked > 0 {
            let waiting = self.timers.early == Early::Reorder && self.timers.early_at != Instant::NEVER;
            if !waiting {
                self.arm_tail_loss(now);
            }
        }
    }

    /// Handles an ACK while nothing is in flight: the reply to a window probe or keepalive probe,
    /// or a window update.
    #[inline(never)]
    fn window_answered(&mut self, now: Instant) {
        self.recovery.unanswered_since = Instant::NEVER;
        self.recovery.retransmits = 0;
        if self.timers.rtx != Rtx::Persist {
            return;
        }
        let next = self.unsent().min(self.snd.mss.into()).max(u32::from(self.fin_waits()).min(1));
        if self.snd.wnd >= next.max(1) {
            self.timers.clear_rtx();
            self.recovery.backoff = 0;
        } else if self.timers.rtx_at != Instant::NEVER {
            // The peer has replied, so it is alive, and the next probe is sent a full interval from
            // now. The back-off is kept, so the intervals continue to grow.
            self.timers.rtx_at = now.after(self.rto());
        }
    }
}

/// Returns whether D-SACK block `inner` lies within `outer`, the block that follows it in the
/// option (RFC 2883 4.2.2).
fn inside(inner: &Block, outer: &Block) -> bool {
    inner.left.at_or_after(outer.left) && inner.right.at_or_before(outer.right)
}
