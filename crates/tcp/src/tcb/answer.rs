//! Rate limits of challenge ACKs and of replies to out-of-window segments.

use crate::{ChallengeLimit, SeqNum};
use clock::{Duration, Instant};

/// Rate limits of one connection: a budget of its own for challenge ACKs (RFC 5961 7,
/// CVE-2016-5696), and a minimum interval between replies to out-of-window segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    challenges: ChallengeLimit,
    /// State of the random number generator that determines the budgets. It is seeded from the ISS
    /// and never sent.
    random: u64,
    /// Time of the last reply to an out-of-window segment.
    invalid_at: Instant,
}

impl Answers {
    pub(crate) fn new(secret: SeqNum) -> Answers {
        let random = (u64::from(secret.0) << 32 | u64::from(!secret.0)) | 1;
        Answers { challenges: ChallengeLimit::default(), random, invalid_at: Instant::NEVER }
    }

    /// Returns whether a challenge ACK may be sent now. `average` is the average number that is
    /// permitted per second.
    pub(crate) fn challenge(&mut self, average: u8, now: Instant) -> bool {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.challenges.take(average, now, self.random)
    }

    /// Returns whether a reply to an out-of-window segment without data may be sent now.
    pub(crate) fn invalid(&mut self, interval: Duration, now: Instant) -> bool {
        let granted = self.invalid_at == Instant::NEVER || now.since(self.invalid_at) >= interval;
        if granted {
            self.invalid_at = now;
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// CVE-2016-5696: the size and the end of a connection's budget are drawn from its secret, anew
    /// for each period.
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
