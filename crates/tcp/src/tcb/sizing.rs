//! State of receive-buffer auto-tuning.

use clock::{Duration, Instant};

/// Receive-buffer auto-tuning by dynamic right-sizing: measures the bytes that the application
/// reads per round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizing {
    /// Number of bytes read since `since`.
    pub copied: u32,
    pub since: Instant,
    /// Maximum number of bytes read in any round trip so far.
    pub most: u32,
    /// RTT measured on the receiving side, in microseconds; 0 before the first sample.
    pub rtt_us: u32,
}

impl Sizing {
    /// Adds an RTT sample of the receiving side. If `sure`, samples are smoothed with a weight of
    /// one eighth; otherwise the minimum is used.
    pub(crate) fn sample(&mut self, rtt: Duration, sure: bool) {
        let us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1);
        self.rtt_us = match self.rtt_us {
            0 => us,
            old if sure => old - old / 8 + us / 8,
            old => old.min(us),
        };
    }
}
