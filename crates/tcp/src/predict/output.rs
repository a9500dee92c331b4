//! Fast path for output: data that fits one segment and is sent while nothing is in flight, as in
//! request and response; also pure ACKs and FINs.

use crate::cc::Congestion;
use crate::scoreboard::mark;
use crate::tcb::{Rtx, Tcb};
use crate::{SeqNum, State, Timestamps};
use clock::Instant;

/// Header fields of one segment with ACK and timestamps. If the segment has data, it has PSH and
/// contains the whole send queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// Sequence number (SEG.SEQ).
    pub seq: SeqNum,
    /// Acknowledgment number (SEG.ACK).
    pub ack: SeqNum,
    /// Window field, scaled (SEG.WND).
    pub window: u16,
    /// Timestamps option.
    pub timestamps: Timestamps,
}

/// Kind of a segment without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bare {
    /// Pure ACK.
    Ack,
    /// FIN with ACK.
    Fin,
}

impl Tcb {
    /// Returns the kind of the only segment to send now, if that segment has no data and needs no
    /// slow-path processing. [`Tcb::send_bare`] then builds it.
    #[inline]
    pub fn next_bare(&self) -> Option<Bare> {
        let ready = self.unsent() == 0
            && self.state.is_synchronized()
            && self.ts.is_some()
            && !self.snd.urgent_on
            && !self.ecn.on
            && !self.rcv.opens
            && !self.is_troubled()
            && self.ooo.is_none()
            && self.rcv.dsack.is_none()
            && self.cold_options.is_none()
            && self.config.push_runs == 0;
        if !ready {
            return None;
        }
        if !self.fin_waits() {
            return self.rcv.ack_now.then_some(Bare::Ack);
        }
        let course = self.state.may_send()
            && self.snd.wnd > 0
            && self.recovery.is_quiet()
            && self.timers.rtx != Rtx::Persist
            && self.pmtu.is_none();
        course.then_some(Bare::Fin)
    }

    /// Builds the segment whose kind [`Tcb::next_bare`] returned, and records it as sent.
    #[inline]
    pub fn send_bare(&mut self, bare: Bare, now: Instant) -> Next {
        let seq = self.snd.nxt;
        let timestamps = Timestamps { val: self.ts_now(now), ecr: self.ts.map_or(0, |ts| ts.recent) };
        let next = Next { seq, ack: self.rcv.nxt, window: self.advertise(), timestamps };
        if bare == Bare::Fin {
            let end = seq.plus(1);
            self.board.push(seq, end, mark::FIN, now);
            (self.snd.nxt, self.snd.last_at) = (end, now);
            if self.timers.rtx_at == Instant::NEVER {
                self.arm_rto(now);
            }
            self.arm_tail_loss_on_send(now);
        }
        self.counts.segs_out = self.counts.segs_out.wrapping_add(1);
        self.ack_left();
        if bare == Bare::Fin && (!self.is_busy() || self.options.starved) {
            self.chrono_sent(now);
        }
        next
    }

    /// Returns the number of bytes queued, if all of them can be sent now as one segment without
    /// slow-path processing. [`Tcb::send_next`] then builds the segment.
    ///
    /// With nothing in flight, one segment fits the congestion window and Nagle does not delay it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn next_text(&self) -> Option<u32> {
        let len = self.unsent();
        let ready = len > 0
            && len <= self.snd.mss.into()
            && len <= self.snd.wnd
            && self.state == State::Established
            && self.board.is_empty()
            && self.ts.is_some()
            && !self.options.cork
            && !self.options.more
            && !self.snd.fin
            && !self.snd.urgent_on
            && !self.ecn.on
            && self.recovery.is_quiet()
            && !self.is_troubled()
            && self.timers.rtx != Rtx::Persist
            && self.ooo.is_none()
            && self.rcv.dsack.is_none()
            && self.cold_options.is_none()
            && self.pmtu.is_none()
            && self.config.push_runs == 0;
        ready.then_some(len)
    }

    /// Builds the segment of `len` bytes, the number that [`Tcb::next_text`] returned, and records
    /// it as sent. It contains the whole send queue.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn send_next(&mut self, len: u32, now: Instant) -> Next {
        if !self.is_busy() {
            self.chrono_begin(now);
        }
        self.restart_after_idle(now);
        let (mss, room) = (u32::from(self.snd.mss), self.cc.cwnd().saturating_sub(len));
        self.note_usage(len, room < mss);
        let (seq, end) = (self.snd.nxt, self.snd.end);
        let timestamps = Timestamps { val: self.ts_now(now), ecr: self.ts.map_or(0, |ts| ts.recent) };
        let next = Next { seq, ack: self.rcv.nxt, window: self.advertise(), timestamps };
        self.board.push(seq, end, mark::PSH, now);
        if len < mss {
            self.snd.small = end;
        }
        (self.snd.nxt, self.snd.last_at) = (end, now);
        if self.timers.rtx_at == Instant::NEVER {
            self.arm_rto(now);
        }
        self.arm_tail_loss_on_send(now);
        self.note_answer(now);
        self.counts.bytes_sent = self.counts.bytes_sent.wrapping_add(len.into());
        self.counts.segs_out = self.counts.segs_out.wrapping_add(1);
        self.counts.data_segs_out = self.counts.data_segs_out.wrapping_add(1);
        self.ack_left();
        if !self.is_busy() || self.options.starved {
            self.chrono_sent(now);
        }
        next
    }
}
