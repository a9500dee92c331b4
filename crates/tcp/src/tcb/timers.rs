//! Deadlines of a connection.

use clock::Instant;

/// Purpose of the retransmission deadline, which unacknowledged data and window probes share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Rtx {
    /// Data, SYN or FIN is unacknowledged.
    #[default]
    Rto,
    /// The peer's window is closed (RFC 9293 3.8.6.1).
    Persist,
}

/// Purpose of the deadline that precedes the retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Early {
    /// A tail loss probe is due, because the tail may be lost (RFC 8985 7).
    #[default]
    TailLoss,
    /// Missing segments may be reordered (RFC 8985 6.3).
    Reorder,
}

/// Deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    pub rtx_at: Instant,
    pub early_at: Instant,
    pub ack_at: Instant,
    pub long_at: Instant,
    pub rtx: Rtx,
    pub early: Early,
}

impl Default for Timers {
    fn default() -> Timers {
        let never = Instant::NEVER;
        Timers { rtx_at: never, early_at: never, ack_at: never, long_at: never, rtx: Rtx::Rto, early: Early::TailLoss }
    }
}

impl Timers {
    #[inline]
    pub(crate) fn clear_rtx(&mut self) {
        (self.rtx_at, self.early_at, self.rtx) = (Instant::NEVER, Instant::NEVER, Rtx::Rto);
    }

    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.rtx_at.min(self.early_at).min(self.ack_at).min(self.long_at)
    }
}
