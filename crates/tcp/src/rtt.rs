//! Round trips and the retransmission timeout (RFC 6298, RFC 7323 4.2), in microseconds.
//!
//! With a sample for nearly every ACK the variance of RFC 6298 would forget within a round trip what it has seen (RFC 7323
//! appendix G). So it takes the greatest deviation of a round trip, at once when it grows and by a quarter a round trip
//! when it shrinks, as Linux does. RTO = SRTT + max(4 RTTVAR, `rto_min`): the floor is on the variance.

use crate::{Config, SeqNum};
use clock::{Duration, Instant};

/// How long the least round trip is believed, in 2^30 ns: five minutes.
const MIN_RTT_WINDOW: u32 = 279;
/// A round trip is never taken for less: a sample of zero would divide.
const LEAST_US: u32 = 1;
/// 2^26 us: a sample beyond a minute is none.
const MOST_US: u32 = 1 << 26;

/// `us` microseconds after `now`, without the 128-bit arithmetic of a `Duration`.
#[inline]
pub(crate) fn after_us(now: Instant, us: u64) -> Instant {
    Instant::from_nanos(now.nanos().saturating_add(us.saturating_mul(1000)))
}

/// Microseconds from `earlier` to `now`, as many as fit; 0 if it lies ahead.
#[inline]
pub(crate) fn us_since(now: Instant, earlier: Instant) -> u32 {
    u32::try_from(now.nanos().saturating_sub(earlier.nanos()) / 1000).unwrap_or(u32::MAX)
}

/// What is known of the path's round trip.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// Smoothed, in eighths of a microsecond; 0 before the first sample.
    srtt8: u32,
    /// Deviation, in quarters of a microsecond.
    mdev4: u32,
    /// Greatest deviation of this round trip, in quarters.
    mdev_max4: u32,
    /// What the RTO is made of, in quarters (that is: 4 RTTVAR).
    rttvar4: u32,
    /// The round trip ends when this is acknowledged.
    round_end: SeqNum,
    /// Least sample of late.
    min_us: u32,
    /// When, in 2^30 ns.
    min_at: u32,
    /// The timeout without back-off.
    rto_us: u32,
    rto_min_us: u32,
    rto_max_us: u32,
}

fn micros(d: Duration) -> u32 {
    u32::try_from(d.as_micros()).unwrap_or(u32::MAX)
}

impl Rtt {
    pub(crate) fn new(config: &Config) -> Rtt {
        Rtt {
            srtt8: 0,
            mdev4: 0,
            mdev_max4: 0,
            rttvar4: 0,
            round_end: SeqNum(0),
            min_us: u32::MAX,
            min_at: 0,
            rto_us: micros(config.rto_initial),
            rto_min_us: micros(config.rto_min),
            rto_max_us: micros(config.rto_max).max(micros(config.rto_min)),
        }
    }

    /// Takes a measurement made when `una` was acknowledged up to.
    #[inline]
    pub(crate) fn sample(&mut self, rtt_us: u32, una: SeqNum, nxt: SeqNum, now: Instant) {
        let us = rtt_us.clamp(LEAST_US, MOST_US);
        let at = (now.nanos() >> 30) as u32;
        if us <= self.min_us || at.wrapping_sub(self.min_at) > MIN_RTT_WINDOW {
            (self.min_us, self.min_at) = (us, at);
        }
        if self.srtt8 == 0 {
            self.srtt8 = us << 3;
            self.mdev4 = us << 1;
            self.rttvar4 = self.mdev4.max(self.rto_min_us);
            self.mdev_max4 = self.rttvar4;
            self.round_end = nxt;
        } else {
            self.smooth(us, una, nxt);
        }
        self.rto_us = (self.srtt8 >> 3).saturating_add(self.rttvar4);
    }

    #[inline]
    fn smooth(&mut self, us: u32, una: SeqNum, nxt: SeqNum) {
        let error = i64::from(us) - i64::from(self.srtt8 >> 3);
        self.srtt8 = (i64::from(self.srtt8) + error).clamp(8, i64::from(MOST_US) << 3) as u32;
        let deviation = error.unsigned_abs() as u32;
        self.mdev4 = self.mdev4.saturating_sub(self.mdev4 >> 2).saturating_add(deviation);
        if self.mdev4 > self.mdev_max4 {
            self.mdev_max4 = self.mdev4;
            self.rttvar4 = self.rttvar4.max(self.mdev_max4);
        }
        if una.after(self.round_end) {
            if self.mdev_max4 < self.rttvar4 {
                self.rttvar4 -= (self.rttvar4 - self.mdev_max4) >> 2;
            }
            self.round_end = nxt;
            self.mdev_max4 = self.rto_min_us;
        }
    }

    /// SRTT; `None` before the first sample.
    #[inline]
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.srtt8 != 0).then(|| Duration::from_micros(u64::from(self.srtt8 >> 3)))
    }

    /// RTTVAR.
    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_micros(u64::from(self.mdev4 >> 2))
    }

    /// The least round trip of the last minutes; `None` before the first sample.
    #[inline]
    pub(crate) fn min(&self) -> Option<Duration> {
        (self.min_us != u32::MAX).then(|| Duration::from_micros(u64::from(self.min_us)))
    }

    /// The same in microseconds, `u32::MAX` before.
    #[inline]
    pub(crate) fn min_us(&self) -> u32 {
        self.min_us
    }

    /// SRTT in microseconds; 0 before the first sample.
    #[inline]
    pub(crate) fn srtt_us(&self) -> u32 {
        self.srtt8 >> 3
    }

    /// The timeout in microseconds after `backoff` doublings (RFC 6298 5.5), within the configured bounds.
    #[inline]
    pub(crate) fn rto_us(&self, backoff: u8) -> u64 {
        (u64::from(self.rto_us) << backoff.min(31)).clamp(self.rto_min_us.into(), self.rto_max_us.into())
    }

    /// The same as a duration.
    pub(crate) fn rto(&self, backoff: u8) -> Duration {
        Duration::from_micros(self.rto_us(backoff))
    }

    /// RFC 6298 5.7: the SYN was sent again, and nothing was measured by it. The timeout begins data at 3 s.
    pub(crate) fn after_lost_syn(&mut self) {
        if self.srtt8 == 0 {
            self.rto_us = self.rto_us.max(3_000_000);
        }
    }
}

#[cfg(test)]
mod tests;
