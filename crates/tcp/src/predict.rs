//! Header prediction: the short way for the segment that was to be expected (RFC 7323 5.6, RFC 1323 4.2.4; Jacobson, 1990).
//!
//! In a quiet connection nearly every segment is the next text, or acknowledges all that is under way, or both, and says nothing
//! else. [`Tcb::on_expected`] asks whether this is such a one, by comparisons alone, and then does what the walk of `input` and
//! `ack` would have done, without asking at each of its steps. What it declines has changed nothing, and goes that way.
//!
//! It takes text at RCV.NXT within the window that acknowledges nothing new, or all of the one segment under way; and the ACK
//! alone that does so: a request and its answer, and a transfer seen from its receiver. ACKs of a longer flight have more to say, to
//! the scoreboard and to congestion control, and are left to `ack`. That both ways end in the same state is a test's to prove
//! (`proof`).

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

/// A segment with ACK, perhaps PSH or FIN and no other flag; with timestamps and no other option; without a mark of ECN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// SEG.ACK.
    pub ack: SeqNum,
    /// SEG.WND, unscaled.
    pub window: u16,
    /// Bytes of text, all in one packet.
    pub len: u32,
    /// With FIN.
    pub fin: bool,
    /// Timestamps.
    pub timestamps: Timestamps,
}

/// What became of one that was taken: all of its text is in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Bytes that the send queue may release. If there are any, a round trip was measured.
    pub acked: u32,
}

impl Tcb {
    /// Takes the segment if it was to be expected; `None`: nothing has changed, [`Tcb::on_segment`] must take it.
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
        self.wishes.more = false;
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

    /// Is it next in line, does it fit, and is nothing else to be thought of?
    #[inline(always)]
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
            && !self.wishes.orphan
    }

    /// Does `ack` cover all that is under way, and is that a matter of course?
    #[inline(always)]
    fn may_advance(&self, ack: SeqNum) -> bool {
        ack == self.snd.nxt
            && self.sack
            && !self.snd.urgent_on
            && self.pmtu.is_none()
            && !self.rack.is_late(self.snd.una)
    }

    /// The one segment under way, `acked` numbers and `text` bytes that left at `sent`, has arrived: [`Tcb::process_ack`](crate::Tcb)
    /// of that.
    #[inline(always)]
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

    /// Text at RCV.NXT, all of it within the window: `take_in_order` where nothing waits before its turn.
    #[inline(always)]
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
