//! Rate limits: token buckets. The caller passes the time.

mod limiter;
mod policers;

pub(crate) use limiter::Limiter;
pub(crate) use policers::Policers;

use clock::Instant;

/// A token bucket that is filled with `rate` tokens per second and stores at most the tokens of one
/// second.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    nanos: u64,
    last: Option<Instant>, // `None`: the bucket is full
}

const SECOND: u64 = 1_000_000_000;

impl TokenBucket {
    /// Consumes a token. Returns `false` if there is none. A `rate` of 0 means no limit.
    pub fn take(&mut self, rate: u64, now: Instant) -> bool {
        self.take_above(0, rate, now)
    }

    /// Consumes a token as [`TokenBucket::take`] does, but only if the bucket contains more than
    /// `reserve` tokens. Otherwise returns `false`.
    pub fn take_above(&mut self, reserve: u64, rate: u64, now: Instant) -> bool {
        if rate == 0 {
            return true;
        }
        let cost = (SECOND / rate).max(1);
        let gained = self.last.map_or(u128::from(SECOND), |last| now.since(last).as_nanos());
        self.nanos = (self.nanos + gained.min(u128::from(SECOND)) as u64).min(SECOND);
        self.last = Some(now);
        if self.nanos < cost.saturating_add(cost.saturating_mul(reserve)) {
            return false;
        }
        self.nanos -= cost;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Duration;

    #[test]
    fn a_burst_of_one_second_then_the_rate() {
        let mut bucket = TokenBucket::default();
        let mut now = Instant::from_millis(5);
        assert_eq!((0..300).filter(|_| bucket.take(200, now)).count(), 200);
        now = now.after(Duration::from_millis(100));
        assert_eq!((0..300).filter(|_| bucket.take(200, now)).count(), 20);
        assert!((0..1000).all(|_| bucket.take(0, now)), "0 is no limit");
    }

    #[test]
    fn time_zero_is_an_ordinary_time() {
        let mut bucket = TokenBucket::default();
        assert_eq!((0..300).filter(|_| bucket.take(200, Instant::ZERO)).count(), 200);
    }

    #[test]
    fn a_reserve_is_not_used() {
        let mut bucket = TokenBucket::default();
        let now = Instant::from_millis(5);
        assert_eq!((0..300).filter(|_| bucket.take_above(25, 200, now)).count(), 175);
        assert_eq!((0..300).filter(|_| bucket.take(200, now)).count(), 25);
    }
}
