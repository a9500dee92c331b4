//! Header prediction: the fast path for an expected segment (RFC 7323 5.6, RFC 1323 4.2.4;
//! Jacobson, 1990).
//!
//! On a quiet connection nearly every segment contains the next data, or acknowledges all data in
//! flight, or both, and nothing else. [`Tcb::on_expected`] detects such a segment by comparisons
//! only. It then makes the same state changes as the full steps in `input` and `ack`, without their
//! checks. If it rejects a segment, the state is unchanged, and the segment takes the slow path.
//!
//! It accepts a segment with data at RCV.NXT within the window, if the segment acknowledges nothing
//! new, or all of the single segment in flight. It also accepts a pure ACK of the single segment in
//! flight. This includes request and response, and the receiving side of a transfer. ACKs of
//! several segments need the scoreboard and congestion control, and are processed by `ack`. The
//! tests in `proof` check that both paths end in the same state.

mod end;
mod output;
#[cfg(any(test, fuzzing))]
mod proof;

pub use end::Ended;
pub use output::{Bare, Next};

use crate::rtt::us_since;
use crate::tcb::{Rtx, Tcb};
use crate::{SeqNum, State, Timestamps};
use clock::Instant;

/// A segment that has the ACK flag, optionally PSH or FIN, and no other flag; that has timestamps
/// and no other option; and that has no ECN mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Sequence number (SEG.SEQ).
    pub seq: SeqNum,
    /// Acknowledgment number (SEG.ACK).
    pub ack: SeqNum,
    /// Window field, unscaled (SEG.WND).
    pub window: u16,
    /// Bytes of data, all in one packet.
    pub len: u32,
    /// True if the FIN flag is set.
    pub fin: bool,
    /// Timestamps option.
    pub timestamps: Timestamps,
}

/// Result of a segment that the fast path accepted. All of the segment's data is in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Number of bytes that the send queue may release. If nonzero, a round trip was measured.
    pub acked: u32,
}

impl Tcb {
    /// Processes an expected segment. Returns `None` if the segment is not expected. In that case
    /// nothing has changed, and [`Tcb::on_segment`] must process the segment.
    #[inline]
    pub fn on_expected(&mut self, seg: &Expected, now: Instant) -> Option<Taken> {
        if !self.expects(seg) {
            return None;
        }
        let acked = seg.ack.since(self.snd.una);
        let sent = match acked {
            0 => None,
            _ => Some(self.board.sole().filter(|_| self.may_advance(seg.ack))?.at),
        };
        self.counts.segs_in = self.counts.segs_in.wrapping_add(1);
        self.recovery.heard_at = now;
        self.options.more = false;
        match sent {
            Some(sent) => self.all_acknowledged(seg, (acked, acked), sent, now),
            None => {
                self.take_window(seg.window, seg.seq, seg.ack, false);
                if self.snd.una == self.snd.nxt {
                    self.recovery.unanswered_since = Instant::NEVER;
                }
            }
        }
        if let Some(ts) = &mut self.ts
            && seg.seq.at_or_before(self.rcv.wup)
        {
            ts.take(seg.timestamps.val, now);
        }
        if seg.len > 0 {
            self.take_next_text(seg, now);
        }
        Some(Taken { acked })
    }

    /// Returns whether the segment is next in sequence, fits the window, and needs no slow-path
    /// processing.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn expects(&self, seg: &Expected) -> bool {
        let Some(ts) = &self.ts else { return false };
        self.state == State::Established
            && !seg.fin
            && seg.seq == self.rcv.nxt
            && SeqNum(seg.timestamps.val).at_or_after(SeqNum(ts.recent))
            && seg.len <= self.recv_window()
            && (seg.len > 0 || seg.ack != self.snd.una)
            && self.ooo.is_none()
            && !self.rcv.fin_came
            && self.recovery.is_quiet()
            && self.board.sacked().segments == 0
            && self.timers.rtx != Rtx::Persist
            && !self.options.orphan
    }

    /// Returns whether `ack` covers all data in flight and needs no slow-path processing.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn may_advance(&self, ack: SeqNum) -> bool {
        ack == self.snd.nxt
            && self.sack
            && !self.snd.urgent_on
            && self.pmtu.is_none()
            && !self.rack.is_late(self.snd.una)
    }

    /// Processes the ACK of the only segment in flight, which has `acked` sequence numbers and
    /// `text` bytes and was sent at `sent`. This is the special case of
    /// [`Tcb::process_ack`](crate::Tcb).
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn all_acknowledged(&mut self, seg: &Expected, (acked, text): (u32, u32), sent: Instant, now: Instant) {
        self.board.acknowledge_sole();
        self.snd.una = seg.ack;
        self.recovery.backoff = 0;
        self.recovery.force_front = false;
        self.recovery.unanswered_since = Instant::NEVER;
        self.counts.bytes_acked = self.counts.bytes_acked.wrapping_add(text.into());
        self.counts.delivered = self.counts.delivered.wrapping_add(1);
        self.take_window(seg.window, seg.seq, seg.ack, true);
        let rtt_us = us_since(now, sent);
        self.rtt.sample(rtt_us, seg.ack, self.snd.nxt, now);
        self.rack.delivered(sent, seg.ack, rtt_us);
        self.grow(acked, (acked, 0), Some(rtt_us), false, now);
        self.timers.clear_rtx();
        self.chrono_acked(now);
    }

    /// Accepts data at RCV.NXT that lies within the window. This is the special case of
    /// `take_in_order` without out-of-order data.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn take_next_text(&mut self, seg: &Expected, now: Instant) {
        self.counts.data_segs_in = self.counts.data_segs_in.wrapping_add(1);
        self.counts.bytes_received = self.counts.bytes_received.wrapping_add(seg.len.into());
        self.rcv.nxt = self.rcv.nxt.plus(seg.len);
        self.rcv.unread = self.rcv.unread.saturating_add(seg.len);
        self.time_receiver(seg.len, Some(seg.timestamps), now);
        self.schedule_ack(seg.len, now);
    }
}

#[cfg(test)]
mod tests;
