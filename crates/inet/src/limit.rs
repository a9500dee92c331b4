//! Rate limits: token buckets on the time that is handed in.

use clock::Instant;

/// A token bucket: `rate` a second, at most a second's worth at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    nanos: u64,
    last: Instant,
}

const SECOND: u64 = 1_000_000_000;

impl TokenBucket {
    /// Takes a token; `false` if there is none. A `rate` of 0 is no limit.
    pub fn take(&mut self, rate: u64, now: Instant) -> bool {
        if rate == 0 {
            return true;
        }
        let cost = (SECOND / rate).max(1);
        let gained = now.since(self.last).as_nanos().min(u128::from(SECOND)) as u64;
        if self.last == Instant::ZERO && self.nanos == 0 {
            self.nanos = SECOND; // full at the start
        }
        self.nanos = (self.nanos + gained).min(SECOND);
        self.last = now;
        if self.nanos < cost {
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
    fn a_second_at_once_then_the_rate() {
        let mut bucket = TokenBucket::default();
        let mut now = Instant::from_millis(5);
        assert_eq!((0..300).filter(|_| bucket.take(200, now)).count(), 200);
        now = now.after(Duration::from_millis(100));
        assert_eq!((0..300).filter(|_| bucket.take(200, now)).count(), 20);
        assert!((0..1000).all(|_| bucket.take(0, now)), "0 is no limit");
    }
}
