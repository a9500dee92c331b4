//! Round-trip time and retransmission timeout (RFC 6298, RFC 7323 4.2), in microseconds.
//!
//! With a sample for nearly every ACK, the variance of RFC 6298 would decay within a round trip
//! (RFC 7323 appendix G). As in Linux, RTTVAR is instead the largest deviation within a round trip:
//! it grows at once and shrinks by a quarter per round trip. In RTO = SRTT + max(4 RTTVAR,
//! `rto_min`), the minimum applies to the variance.

use crate::{Config, SeqNum};
use clock::{Duration, Instant};

/// Lifetime of the minimum RTT, in units of 2^30 ns: five minutes.
const MIN_RTT_WINDOW: u32 = 279;
/// Minimum sample in microseconds; zero would cause a division by zero.
const LEAST_US: u32 = 1;
/// Maximum sample in microseconds (2^26); a sample of more than a minute is invalid.
const MOST_US: u32 = 1 << 26;

/// Returns the instant `us` microseconds after `now`, without the 128-bit arithmetic of a
/// `Duration`.
#[inline]
pub(crate) fn after_us(now: Instant, us: u64) -> Instant {
    Instant::from_nanos(now.nanos().saturating_add(us.saturating_mul(1000)))
}

/// Returns the microseconds from `earlier` to `now`, saturating; 0 if `earlier` is in the future.
#[inline]
pub(crate) fn us_since(now: Instant, earlier: Instant) -> u32 {
    u32::try_from(now.nanos().saturating_sub(earlier.nanos()) / 1000).unwrap_or(u32::MAX)
}

/// Round-trip time estimator of a path.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// Smoothed RTT, in eighths of a microsecond; 0 before the first sample.
    srtt8: u32,
    /// Mean deviation, in quarters of a microsecond.
    mdev4: u32,
    /// Maximum deviation in this round trip, in quarters of a microsecond.
    mdev_max4: u32,
    /// Variance used for the RTO, in quarters of a microsecond (that is, 4 RTTVAR).
    rttvar4: u32,
    /// Sequence number whose ACK ends the current round trip.
    round_end: SeqNum,
    /// Minimum RTT of the last five minutes, in microseconds.
    min_us: u32,
    /// Time at which the minimum was measured, in units of 2^30 ns.
    min_at: u32,
    /// RTO in microseconds, without back-off.
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

    /// Adds the RTT sample `rtt_us`, in microseconds. `una` and `nxt` are SND.UNA and SND.NXT at
    /// the time of the measurement.
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

    /// Smoothed RTT; `None` before the first sample.
    #[inline]
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.srtt8 != 0).then(|| Duration::from_micros(u64::from(self.srtt8 >> 3)))
    }

    /// Mean deviation of the RTT.
    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_micros(u64::from(self.mdev4 >> 2))
    }

    /// Minimum RTT of the last five minutes; `None` before the first sample.
    #[inline]
    pub(crate) fn min(&self) -> Option<Duration> {
        (self.min_us != u32::MAX).then(|| Duration::from_micros(u64::from(self.min_us)))
    }

    /// Minimum RTT in microseconds; `u32::MAX` before the first sample.
    #[inline]
    pub(crate) fn min_us(&self) -> u32 {
        self.min_us
    }

    /// SRTT in microseconds; 0 before the first sample.
    #[inline]
    pub(crate) fn srtt_us(&self) -> u32 {
        self.srtt8 >> 3
    }

    /// Returns the RTO in microseconds after `backoff` doublings (RFC 6298 5.5), within the
    /// configured bounds.
    #[inline]
    pub(crate) fn rto_us(&self, backoff: u8) -> u64 {
        (u64::from(self.rto_us) << backoff.min(31)).clamp(self.rto_min_us.into(), self.rto_max_us.into())
    }

    /// Returns the RTO after `backoff` doublings as a duration.
    pub(crate) fn rto(&self, backoff: u8) -> Duration {
        Duration::from_micros(self.rto_us(backoff))
    }

    /// Sets the RTO for data to at least 3 s if the SYN was retransmitted and no RTT was measured
    /// (RFC 6298 5.7).
    pub(crate) fn after_lost_syn(&mut self) {
        if self.srtt8 == 0 {
            self.rto_us = self.rto_us.max(3_000_000);
        }
    }
}

#[cfg(test)]
mod tests;
