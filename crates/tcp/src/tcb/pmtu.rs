//! State of the path MTU search.

use crate::SeqNum;
use clock::Instant;

/// Difference between the lower and the upper limit, in bytes, at which the search ends.
const CLOSE_ENOUGH: u16 = 32;

/// State of the path MTU search (RFC 8899 5.2).
#[derive(Clone, Debug)]
pub(crate) struct Pmtu {
    /// Largest segment size that is known to fit the path, as an MSS value in bytes.
    pub mss: u16,
    /// Smallest segment size that is known or assumed not to fit the path, as an MSS value in
    /// bytes.
    pub above: u16,
    /// Probe in flight: its size, and the sequence number at which it ends.
    pub probe: Option<(u16, SeqNum)>,
    pub failed: u8,
    pub raise_at: Instant,
}

impl Pmtu {
    /// Returns the size of the next probe of the path MTU search; `None` if the search has ended.
    pub(crate) fn candidate(&self) -> Option<u16> {
        let gap = self.above.saturating_sub(self.mss);
        (gap > CLOSE_ENOUGH).then(|| self.mss + gap / 2)
    }
}
