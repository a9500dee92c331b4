//! Replies outside the data stream: RSTs and rate-limited challenge ACKs (RFC 9293 3.5.2, RFC
//! 5961).

use crate::rare_events::RareEvents;
use crate::segment::OutOptions;
use crate::tcb::Tcb;
use crate::{Dropped, Ecn, Out, Reply, Segment, SeqNum};
use clock::Instant;
use wire::tcp::Flags;

/// Returns the RST for a segment that belongs to no connection; `None` if the segment is itself a
/// RST (RFC 9293 3.10.7.1).
pub fn answer_to_nobody(seg: &Segment) -> Option<Out> {
    if seg.has(Flags::RST) {
        return None;
    }
    Some(reset_for(seg))
}

/// Builds a RST that the sender of `seg` accepts. Its sequence number is SEG.ACK; if `seg` has no
/// ACK, the RST acknowledges all of `seg` instead.
pub(crate) fn reset_for(seg: &Segment) -> Out {
    let (seq, ack, flags) = if seg.has(Flags::ACK) {
        (seg.ack, SeqNum(0), Flags::RST)
    } else {
        (SeqNum(0), seg.seq.plus(seg.seq_len()), Flags::RST | Flags::ACK)
    };
    bare(seq, ack, flags)
}

/// Builds a segment without options or data.
pub(crate) fn bare(seq: SeqNum, ack: SeqNum, flags: Flags) -> Out {
    Out {
        seq,
        ack,
        flags,
        window: 0,
        urgent: 0,
        options: OutOptions::NONE,
        text_at: 0,
        text_len: 0,
        mss: 0,
        ecn: Ecn::NotEct,
        retransmission: false,
        window_update: false,
    }
}

impl Tcb {
    /// Adds a challenge ACK to `reply`, within the rate limit, for a segment that may be forged
    /// (RFC 5961). Always returns `why` as the error.
    #[inline(never)]
    pub(crate) fn challenge(&mut self, reply: &mut Reply, why: Dropped, now: Instant) -> Result<(), Dropped> {
        let average = self.config.challenge_acks;
        if self.cold_events().answers.challenge(average, now) {
            reply.answer = Some(self.make_ack(now));
        }
        Err(why)
    }

    /// Requests an ACK of an unacceptable segment (RFC 9293 3.10.7.4, first).
    ///
    /// For segments without data, at most one ACK is sent per `invalid_interval` (default 0.5 s):
    /// otherwise two ends that find each other's segments unacceptable would exchange ACKs forever.
    #[inline(never)]
    pub(crate) fn answer_unacceptable(&mut self, seg: &Segment, why: Dropped, now: Instant) -> Result<(), Dropped> {
        if seg.has(Flags::RST) {
            return Err(why);
        }
        let counts = seg.len > 0 && !seg.has(Flags::SYN);
        let interval = self.config.invalid_interval;
        if counts || self.cold_events().answers.invalid(interval, now) {
            self.rcv.ack_now = true;
        } else {
            self.rare_events |= RareEvents::INVALID_LIMITED;
        }
        Err(why)
    }

    /// Builds the RST that ends a synchronized connection: from SND.NXT, with timestamps if
    /// negotiated (RFC 7323 3.2).
    pub(crate) fn make_reset(&self, now: Instant) -> Out {
        let options = self.ts.map_or(OutOptions::NONE, |ts| OutOptions::timestamps(self.ts_now(now), ts.recent));
        Out { options, ..bare(self.snd.nxt, self.rcv.nxt, Flags::RST | Flags::ACK) }
    }
}
