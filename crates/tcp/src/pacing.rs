//! Pacing: spreads a window over a round trip instead of sending it at once.
//!
//! The rate is one congestion window per smoothed round trip, times a gain above 1, so that the
//! window can still grow: 2 in slow start, 1.2 after it (Linux's `tcp_pacing_ss_ratio`,
//! `tcp_pacing_ca_ratio`). A socket may set a lower rate (`SO_MAX_PACING_RATE`). One burst is a
//! [`quantum`] of about a millisecond, so that pacing does not defeat segmentation offload. After
//! idle time, a connection may send at most half a quantum earlier, which compensates for a late
//! timer.

use clock::{Duration, Instant};

/// Rate in bytes per second that means no limit.
pub const UNLIMITED: u64 = u64::MAX;
/// Maximum number of bytes in a burst: the limit of `Out::text_len`.
const MAX_BURST: u32 = 65_535;

/// Returns the rate in bytes per second: `cwnd` bytes per `srtt`, times `gain` percent. Before the
/// first RTT measurement there is no limit, so that the initial window can be sent.
pub fn rate(cwnd: u32, srtt: Option<Duration>, gain: u32) -> u64 {
    let Some(srtt) = srtt.filter(|srtt| !srtt.is_zero()) else { return UNLIMITED };
    let ns = u64::try_from(srtt.as_nanos()).unwrap_or(u64::MAX);
    // the product is below 2^32 * 10^9 for gains up to 100 %, and fits 64 bits up to 400 %
    (u64::from(cwnd).saturating_mul(u64::from(gain).saturating_mul(10_000_000)) / ns).max(1)
}

/// Returns the number of bytes in one burst at `rate`: the bytes of 2^-10 s (Linux's
/// `sk_pacing_shift`), rounded to whole segments, and at least two segments.
pub fn quantum(rate: u64, mss: u16) -> u32 {
    let mss = u32::from(mss.max(1));
    let most = (MAX_BURST / mss).max(1) * mss;
    let wanted = u32::try_from(rate >> 10).unwrap_or(u32::MAX) / mss;
    wanted.max(2).saturating_mul(mss).min(most)
}

/// Returns the number of bytes that Linux passes at once to a port with segmentation offload: the
/// bytes of 2^-10 s as in [`quantum`], and more if the minimum round trip is below a few
/// milliseconds (`tcp_tso_rtt_log`).
pub fn run(rate: u64, mss: u16, min_rtt: Option<Duration>) -> u32 {
    let mss = u32::from(mss.max(1));
    let shift = min_rtt.map_or(32, |rtt| rtt.as_micros() >> 9);
    let near = if shift < 32 { (MAX_BURST + 1) >> shift } else { 0 };
    let bytes = u32::try_from(rate >> 10).unwrap_or(u32::MAX).saturating_add(near).min(MAX_BURST);
    (bytes / mss).max(1).saturating_mul(mss)
}

/// Pacer of one connection: the time of its next transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pacer {
    next: Instant,
    max_rate: u64,
}

impl Default for Pacer {
    fn default() -> Pacer {
        Pacer { next: Instant::ZERO, max_rate: UNLIMITED }
    }
}

impl Pacer {
    /// Sets the maximum rate in bytes per second.
    pub fn set_max_rate(&mut self, rate: u64) {
        self.max_rate = rate.max(1);
    }

    /// Maximum rate in bytes per second.
    pub fn max_rate(&self) -> u64 {
        self.max_rate
    }

    /// Returns the smaller of the maximum rate and `rate`, the rate that the window permits.
    pub fn limited(&self, rate: u64) -> u64 {
        rate.min(self.max_rate)
    }

    /// Time of the next transmission. If it is not after `now`, data may be sent now.
    #[inline]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Returns whether data may be sent now.
    #[inline]
    pub fn ready(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Records that `bytes` were sent (including headers, if the caller counts them), and computes
    /// the time of the next transmission. `rate` is the rate that the window permits; the maximum
    /// rate of the socket also applies.
    pub fn on_sent(&mut self, bytes: u32, rate: u64, now: Instant) {
        let rate = self.limited(rate);
        if rate == UNLIMITED {
            return;
        }
        let took = u64::from(bytes).saturating_mul(1_000_000_000) / rate.max(1);
        let saved = now.since(self.next).min(Duration::from_nanos(took / 2));
        let from = Instant::from_nanos(self.next.max(now).nanos().saturating_sub(saved.as_nanos() as u64));
        self.next = from.after(Duration::from_nanos(took));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_one_window_per_round_trip() {
        let srtt = Some(Duration::from_millis(100));
        assert_eq!(rate(100_000, srtt, 100), 1_000_000);
        assert_eq!(rate(100_000, srtt, 200), 2_000_000);
        assert_eq!(rate(100_000, srtt, 120), 1_200_000);
        assert_eq!((rate(100_000, None, 120), rate(100_000, Some(Duration::ZERO), 120)), (UNLIMITED, UNLIMITED));
        assert_eq!(rate(u32::MAX, Some(Duration::from_secs(1)), 400), 4 * u64::from(u32::MAX));
        assert_eq!(rate(0, Some(Duration::MAX), 0), 1, "never none");
    }

    #[test]
    fn a_burst_is_a_millisecond_of_whole_segments() {
        assert_eq!(quantum(0, 1460), 2 * 1460);
        assert_eq!(quantum(10 << 20, 1460), 7 * 1460);
        assert_eq!(quantum(UNLIMITED, 1460), 44 * 1460);
        assert_eq!(quantum(UNLIMITED, u16::MAX), 65_535);
        assert_eq!(quantum(5, 0), 2);
    }

    #[test]
    fn a_burst_is_longer_on_a_short_path() {
        assert_eq!(run(2_000_000, 1000, Some(Duration::from_millis(100))), 1000);
        assert_eq!(run(20_000_000, 1000, Some(Duration::from_millis(1))), (19_531 + 32_768) / 1000 * 1000);
        assert_eq!(run(UNLIMITED, 1000, None), 65_000);
    }

    /// Sends `burst` bytes whenever permitted, with a timer that is `late_us` late. Returns the
    /// bytes sent in `seconds`.
    fn sent(pacer: &mut Pacer, rate: u64, burst: u32, late_us: u64, seconds: u64) -> u64 {
        let (mut now, mut total) = (Instant::ZERO, 0);
        while now < Instant::from_millis(seconds * 1000) {
            assert!(pacer.ready(now));
            pacer.on_sent(burst, rate, now);
            total += u64::from(burst);
            assert!(!pacer.ready(now));
            now = pacer.next().max(now).after(Duration::from_micros(late_us));
        }
        total
    }

    #[test]
    fn late_timers_do_not_change_the_rate() {
        for late_us in [0, 10, 400] {
            let total = sent(&mut Pacer::default(), 10_000_000, 10_000, late_us, 10);
            assert!((99_000_000..=100_020_000).contains(&total), "{total} at {late_us} us late");
        }
    }

    #[test]
    fn the_sockets_limit_applies() {
        let mut pacer = Pacer::default();
        pacer.set_max_rate(1_000_000);
        assert_eq!((pacer.limited(UNLIMITED), pacer.limited(10), pacer.max_rate()), (1_000_000, 10, 1_000_000));
        let total = sent(&mut pacer, UNLIMITED, 10_000, 0, 5);
        assert!((4_990_000..=5_020_000).contains(&total), "{total}");
    }

    #[test]
    fn idle_time_accumulates_at_most_half_a_burst() {
        let mut pacer = Pacer::default();
        let now = Instant::from_millis(60_000);
        pacer.on_sent(10_000, 1_000_000, now); // 10 ms of data
        assert_eq!(pacer.next(), now.after(Duration::from_millis(5)));
        pacer.on_sent(10_000, 1_000_000, now);
        assert_eq!(pacer.next(), now.after(Duration::from_millis(15)));
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let mut pacer = Pacer::default();
        for _ in 0..100 {
            pacer.on_sent(65_535, UNLIMITED, Instant::ZERO);
            assert!(pacer.ready(Instant::ZERO));
        }
    }
}
