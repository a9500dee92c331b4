//! NewReno: slow start, and congestion avoidance with byte counting (RFC 5681, RFC 6582, RFC 3465
//! with L = 2).

use super::congestion::{Ack, Congestion, Signal};
use clock::{Duration, Instant};

/// Minimum ssthresh in segments (RFC 5681 3.1).
const MIN_SEGMENTS: u32 = 2;

/// State of the NewReno algorithm.
#[derive(Clone, Debug)]
pub struct NewReno {
    cwnd: u32,
    ssthresh: u32,
    /// Bytes acknowledged in congestion avoidance and not yet applied to the window.
    acked: u32,
    initial_window: u32,
    prior_cwnd: u32,
    prior_ssthresh: u32,
    mss: u16,
    /// True in slow start after a timeout, in which one ACK adds at most one segment (RFC 3465
    /// 2.3).
    after_rto: bool,
}

impl NewReno {
    /// Begins in slow start with a window of `initial_window` bytes.
    pub fn new(mss: u16, initial_window: u32) -> NewReno {
        let mss = mss.max(1);
        NewReno {
            cwnd: initial_window.max(u32::from(mss)),
            ssthresh: u32::MAX,
            acked: 0,
            initial_window,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            mss,
            after_rto: false,
        }
    }

    fn mss(&self) -> u32 {
        u32::from(self.mss)
    }

    fn remember(&mut self) {
        self.prior_cwnd = self.cwnd;
        self.prior_ssthresh = self.ssthresh;
    }

    /// Sets ssthresh to half the bytes in flight (RFC 5681, equation 4).
    fn halve(&mut self, in_flight: u32) {
        self.ssthresh = (in_flight / 2).max(MIN_SEGMENTS * self.mss());
        self.acked = 0;
    }

    /// Grows the window in slow start (RFC 5681, equation 2; RFC 3465 2.2). Returns the
    /// acknowledged bytes that would grow the window beyond ssthresh. They are used for congestion
    /// avoidance.
    fn slow_start(&mut self, bytes: u32, limited: bool) -> u32 {
        let limit = match self.after_rto {
            _ if !limited => u32::MAX,
            true => self.mss(),
            false => self.mss().saturating_mul(2),
        };
        let step = bytes.min(limit).min(self.ssthresh.saturating_sub(self.cwnd));
        self.cwnd = self.cwnd.saturating_add(step);
        if self.cwnd >= self.ssthresh {
            self.after_rto = false;
        }
        bytes.min(limit).saturating_sub(step)
    }

    /// Adds one segment to the window for each full window acknowledged (RFC 3465 2.1).
    fn avoid(&mut self, bytes: u32) {
        self.acked = self.acked.saturating_add(bytes);
        if self.acked >= self.cwnd {
            self.acked = self.acked.saturating_sub(self.cwnd).min(self.cwnd);
            self.cwnd = self.cwnd.saturating_add(self.mss());
        }
    }
}

impl Congestion for NewReno {
    #[inline]
    fn on_ack(&mut self, ack: &Ack, _now: Instant) {
        if ack.in_recovery || !ack.cwnd_limited {
            return;
        }
        let mut bytes = ack.bytes;
        if self.cwnd < self.ssthresh {
            bytes = self.slow_start(bytes, ack.limit_growth);
        }
        if self.cwnd >= self.ssthresh && bytes > 0 {
            self.avoid(bytes);
        }
    }

    fn on_congestion(&mut self, in_flight: u32, _why: Signal, _now: Instant) {
        self.remember();
        self.halve(in_flight);
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        self.acked = 0;
    }

    fn on_rto(&mut self, in_flight: u32, first: bool, _now: Instant) {
        if first {
            self.remember();
            self.halve(in_flight);
        }
        self.cwnd = self.mss();
        self.acked = 0;
        self.after_rto = true;
    }

    fn undo(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.ssthresh = self.ssthresh.max(self.prior_ssthresh);
        self.after_rto = false;
    }

    /// Halves the window for each RTO of idle time, down to the restart window, and raises ssthresh
    /// to at least three quarters of the old window.
    fn on_idle_restart(&mut self, idle: Duration, rto: Duration) {
        let restart = self.initial_window.min(self.cwnd);
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let silent = idle.as_nanos() / rto.as_nanos().max(1);
        self.cwnd = self.cwnd.checked_shr(u32::try_from(silent).unwrap_or(u32::MAX)).unwrap_or(0).max(restart);
        self.acked = 0;
    }

    #[inline]
    fn cwnd(&self) -> u32 {
        self.cwnd
    }

    #[inline]
    fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd.max(self.mss());
    }

    fn set_mss(&mut self, mss: u16) {
        self.mss = mss.max(1);
        self.cwnd = self.cwnd.max(self.mss());
    }

    fn name(&self) -> &'static str {
        "reno"
    }
}

#[cfg(test)]
mod tests;
