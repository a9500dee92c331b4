//! Answers that are not part of a stream: RST, challenge ACKs, and how often (RFC 9293 3.5.2, RFC 5961).

use crate::note::Notes;
use crate::segment::OutOptions;
use crate::tcb::Tcb;
use crate::{ChallengeLimit, Dropped, Ecn, Out, Reply, Segment, SeqNum};
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
        window_update: false,
    }
}

/// How often one connection answers what may be an attacker's: challenge ACKs by a budget of its own (RFC 5961 7,
/// CVE-2016-5696), and segments out of window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    challenges: ChallengeLimit,
    /// The budget is drawn by this. It begins with the secret ISS, and nobody sees its numbers.
    random: u64,
    /// When a segment out of window was answered last.
    invalid_at: Instant,
}

impl Answers {
    pub(crate) fn new(secret: SeqNum) -> Answers {
        let random = (u64::from(secret.0) << 32 | u64::from(!secret.0)) | 1;
        Answers { challenges: ChallengeLimit::default(), random, invalid_at: Instant::NEVER }
    }

    /// May a challenge ACK be sent now? About `average` a second.
    fn challenge(&mut self, average: u8, now: Instant) -> bool {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.challenges.take(average, now, self.random)
    }

    /// May a segment out of window, without text, be answered now?
    fn invalid(&mut self, interval: Duration, now: Instant) -> bool {
        let granted = self.invalid_at == Instant::NEVER || now.since(self.invalid_at) >= interval;
        if granted {
            self.invalid_at = now;
        }
        granted
    }
}

impl Tcb {
    /// RFC 5961: says where we are, and nothing else, to a segment that may be an attacker's.
    #[inline(never)]
    pub(crate) fn challenge(&mut self, reply: &mut Reply, why: Dropped, now: Instant) -> Result<(), Dropped> {
        let average = self.config.challenge_acks;
        if self.met().answers.challenge(average, now) {
            reply.answer = Some(self.make_ack(now));
        }
        Err(why)
    }

    /// RFC 9293 3.10.7.4, first: an unacceptable segment is answered by an ACK. Without text at most one each half second:
    /// two ends that find each other unacceptable would else answer each other for ever.
    #[inline(never)]
    pub(crate) fn answer_unacceptable(&mut self, seg: &Segment, why: Dropped, now: Instant) -> Result<(), Dropped> {
        if seg.has(Flags::RST) {
            return Err(why);
        }
        let counts = seg.len > 0 && !seg.has(Flags::SYN);
        let interval = self.config.invalid_interval;
        if counts || self.met().answers.invalid(interval, now) {
            self.rcv.ack_now = true;
        } else {
            self.notes |= Notes::INVALID_LIMITED;
        }
        Err(why)
    }

    /// The RST that ends a synchronized connection: from SND.NXT, with timestamps where they were agreed (RFC 7323 3.2).
    pub(crate) fn make_reset(&self, now: Instant) -> Out {
        let options = self.ts.map_or(OutOptions::NONE, |ts| OutOptions::timestamps(self.ts_now(now), ts.recent));
        Out { options, ..bare(self.snd.nxt, self.rcv.nxt, Flags::RST | Flags::ACK) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// CVE-2016-5696: the budget of a connection and its end are drawn from its secret, and anew each time.
    #[test]
    fn challenges_are_drawn_from_the_secret() {
        let secret = |n: u32| SeqNum(crate::siphash::Key(n.into(), 9).sip13(&[n.into()]) as u32);
        for draw in [0u64, 3] {
            let mut budgets: BTreeMap<usize, u32> = BTreeMap::new();
            let mut ends: BTreeMap<u64, u32> = BTreeMap::new();
            for n in 0..2_000 {
                let mut answers = Answers::new(secret(n));
                let begin = Instant::from_millis(5_000 * draw);
                for earlier in 0..draw {
                    answers.challenge(10, Instant::from_millis(5_000 * earlier));
                }
                *budgets.entry((0..30).filter(|_| answers.challenge(10, begin)).count()).or_default() += 1;
                let end = (1..160).find(|tick| answers.challenge(10, begin.after(Duration::from_millis(tick * 10))));
                *ends.entry(end.unwrap() / 10).or_default() += 1;
            }
            assert_eq!(budgets.keys().copied().collect::<Vec<_>>(), (5..=15).collect::<Vec<_>>());
            assert!(budgets.values().all(|times| (110..=260).contains(times)), "draw {draw}: {budgets:?}");
            let tenths = ends.range(5..15).filter(|(_, times)| **times >= 100).count();
            assert_eq!(tenths, 10, "draw {draw}: {ends:?}");
        }
    }
}
