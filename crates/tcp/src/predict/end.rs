//! Fast path for the ACK that ends a handshake, and for segments that close a connection: the
//! peer's FIN, the ACK of our FIN, or both. Each occurs once, but on a short connection the full
//! steps of `input` cost more than the processing of all of its data.

use super::Expected;
use crate::tcb::{Rtx, Tcb};
use crate::{Ecn, Events, Segment, SeqNum, State};
use clock::Instant;
use wire::tcp::Flags;

/// Result of a segment that the fast path accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Number of bytes that the send queue may release.
    pub acked: u32,
    /// True if a round trip was measured.
    pub measured: bool,
    /// Events for the application.
    pub events: Events,
}

impl Tcb {
    /// Processes the ACK that completed the handshake, directly after [`Tcb::from_handshake`] has
    /// created this connection. If the segment contains anything besides the ACK, returns `false`
    /// without a change, and [`Tcb::on_segment`] must process the segment.
    pub fn on_handshake_ack(&mut self, seg: &Segment, now: Instant) -> bool {
        let plain = seg.flags == Flags::ACK && seg.len == 0 && seg.options.sack.is_empty() && seg.ecn == Ecn::NotEct;
        let expected = plain
            && (seg.seq, seg.ack) == (self.rcv.nxt, self.snd.nxt)
            && self.ts.map(|ts| ts.recent) == seg.options.timestamps.map(|ts| ts.val)
            && u32::from(seg.window) << self.snd.wscale == self.snd.wnd;
        if expected {
            self.counts.segs_in = self.counts.segs_in.wrapping_add(1);
            self.recovery.heard_at = now;
        }
        expected
    }

    /// Processes a segment without data that has FIN, or that acknowledges everything in flight
    /// while we are closing. Otherwise returns `None` without a change, and [`Tcb::on_segment`]
    /// must process the segment.
    pub fn on_end(&mut self, seg: &Expected, now: Instant) -> Option<Ended> {
        if !self.expects_end(seg) {
            return None;
        }
        let acked = seg.ack.since(self.snd.una);
        let sent = match acked {
            0 => None,
            _ => Some(self.board.sole().filter(|_| self.may_advance(seg.ack))?.at),
        };
        let mut ended = Ended { acked: 0, measured: sent.is_some(), events: Events::NONE };
        self.counts.segs_in = self.counts.segs_in.wrapping_add(1);
        self.recovery.heard_at = now;
        self.options.more = false;
        match sent {
            Some(sent) => {
                ended.acked = seg.ack.earlier(self.snd.end).since_or_zero(self.snd.una);
                if ended.acked > 0 {
                    ended.events |= Events::WRITABLE;
                }
                self.all_acknowledged(seg, (acked, ended.acked), sent, now);
            }
            None => {
                self.take_window(seg.window, seg.seq, seg.ack, false);
                self.recovery.unanswered_since = Instant::NEVER;
            }
        }
        if let Some(ts) = &mut self.ts
            && seg.seq.at_or_before(self.rcv.wup)
        {
            ts.take(seg.timestamps.val, now);
        }
        self.after_fin_acked(now, &mut ended.events);
        if seg.fin {
            (self.rcv.fin, self.rcv.fin_came) = (seg.seq, true);
            self.take_fin(now, &mut ended.events);
        }
        Some(ended)
    }

    /// Returns whether the segment is next in sequence, has a FIN or acknowledges everything in
    /// flight, and needs no slow-path processing.
    #[inline]
    fn expects_end(&self, seg: &Expected) -> bool {
        let Some(ts) = &self.ts else { return false };
        let takes = match self.state {
            State::Established => seg.fin,
            State::FinWait1 | State::FinWait2 => true,
            State::LastAck => !seg.fin,
            _ => false,
        };
        takes
            && seg.len == 0
            && seg.seq == self.rcv.nxt
            && SeqNum(seg.timestamps.val).at_or_after(SeqNum(ts.recent))
            && (seg.ack != self.snd.una || seg.fin && seg.ack == self.snd.nxt)
            && !(seg.fin && self.config.delay_fin_ack)
            && self.ooo.is_none()
            && self.rcv.fin_came != self.state.may_receive()
            && self.recovery.is_quiet()
            && self.board.sacked().segments == 0
            && self.timers.rtx != Rtx::Persist
    }
}
