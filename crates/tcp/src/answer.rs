//! Answers that are not part of a stream: RST, challenge ACKs, and how often (RFC 9293 3.5.2, RFC 5961).

use crate::segment::OutOptions;
use crate::tcb::Tcb;
use crate::{Dropped, Ecn, Out, Reply, Segment, SeqNum};
use clock::{Duration, Instant};
use wire::tcp::Flags;

/// RFC 9293 3.10.7.1: the answer to a segment that belongs to no connection; none to a RST.
pub fn answer_to_nobody(seg: &Segment) -> Option<Out> {
    if seg.has(Flags::RST) {
        return None;
    }
    Some(reset_for(seg))
}

/// The RST that its receiver will believe: from what it acknowledges, or acknowledging all of it.
pub(crate) fn reset_for(seg: &Segment) -> Out {
    let (seq, ack, flags) = if seg.has(Flags::ACK) {
        (seg.ack, SeqNum(0), Flags::RST)
    } else {
        (SeqNum(0), seg.seq.plus(seg.seq_len()), Flags::RST | Flags::ACK)
    };
    bare(seq, ack, flags)
}

/// A segment of a header only.
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
    }
}

/// How many challenge ACKs one connection may still send.
///
/// RFC 5961 7 asks for a limit; one for all connections tells a stranger about others' traffic (CVE-2016-5696), so this is
/// one connection's own, and the budget of each second is drawn anew from a generator that begins with the secret ISS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    until: Instant,
    left: u8,
    random: u32,
    /// When a segment out of window was answered last.
    invalid_at: Instant,
}

/// One budget lasts so long.
const PERIOD: Duration = Duration::from_secs(1);

impl Budget {
    pub(crate) fn new(secret: SeqNum) -> Budget {
        Budget { until: Instant::ZERO, left: 0, random: secret.0 | 1, invalid_at: Instant::ZERO }
    }

    /// Takes one, if there is one: `average` a second, between a half and one and a half of it.
    pub(crate) fn take(&mut self, average: u8, now: Instant) -> bool {
        if now >= self.until {
            // Marsaglia's xorshift: not for secrets, but its seed is one and nobody sees its numbers.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 17;
            self.random ^= self.random << 5;
            let average = u32::from(average.max(1));
            self.left = (average / 2 + self.random % (average + 1)).clamp(1, 255) as u8;
            self.until = now.after(PERIOD);
        }
        let granted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        granted
    }

    /// May a segment out of window, without text, be answered now?
    pub(crate) fn invalid(&mut self, interval: Duration, now: Instant) -> bool {
        let granted = self.invalid_at == Instant::ZERO || now.since(self.invalid_at) >= interval;
        if granted {
            self.invalid_at = now;
        }
        granted
    }
}

impl Tcb {
    /// RFC 5961: says where we are, and nothing else, to a segment that may be an attacker's.
    pub(crate) fn challenge(&mut self, reply: &mut Reply, why: Dropped, now: Instant) -> Result<(), Dropped> {
        if self.challenge.take(self.config.challenge_acks, now) {
            reply.answer = Some(self.make_ack(now));
        }
        Err(why)
    }

    /// RFC 9293 3.10.7.4, first: an unacceptable segment is answered by an ACK. Without text at most one each half second:
    /// two ends that find each other unacceptable would else answer each other for ever.
    pub(crate) fn answer_unacceptable(&mut self, seg: &Segment, why: Dropped, now: Instant) -> Result<(), Dropped> {
        if seg.has(Flags::RST) {
            return Err(why);
        }
        let counts = seg.len > 0 && !seg.has(Flags::SYN);
        if counts || self.challenge.invalid(self.config.invalid_interval, now) {
            self.rcv.ack_now = true;
        }
        Err(why)
    }

    /// The RST that ends a synchronized connection: from SND.NXT.
    pub(crate) fn make_reset(&self) -> Out {
        bare(self.snd.nxt, self.rcv.nxt, Flags::RST | Flags::ACK)
    }
}

#[cfg(test)]
mod tests;
