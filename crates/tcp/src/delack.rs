//! Delayed ACKs (RFC 9293 3.8.6.3, RFC 5681 4.2), and the receiver's estimate of the round-trip
//! time.
//!
//! When more than one full segment is unacknowledged, the ACK is sent immediately. Otherwise it is
//! delayed by 40 to 200 ms, depending on the arrival rate as in Linux, so that a data segment can
//! contain it. A connection begins with up to 16 immediate ACKs, so that the peer's slow start is
//! not delayed. Once the connection is interactive (request and response in turn; Linux: pingpong),
//! ACKs are no longer sent immediately.

use crate::Timestamps;
use crate::rtt::{after_us, us_since};
use crate::tcb::Tcb;
use clock::{Duration, Instant};

/// Maximum number of immediate ACKs in a row (Linux: TCP_MAX_QUICKACKS).
const MOST_QUICK: u32 = 16;

impl Tcb {
    /// Schedules the ACK for `len` bytes received in order.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn schedule_ack(&mut self, len: u32, now: Instant) {
        let own = self.own_mss();
        if len > u32::from(self.rcv.mss_seen) {
            self.rcv.mss_seen = len.min(own.into()) as u16;
        }
        self.follow_arrivals(now);
        let unacknowledged = self.rcv.nxt.since(self.rcv.wup);
        if unacknowledged > u32::from(self.rcv.mss_seen) || (self.rcv.quick > 0 && !self.rcv.pingpong) {
            self.rcv.ack_now = true;
        }
        if !self.rcv.ack_now {
            self.timers.ack_at = self.timers.ack_at.min(after_us(now, self.ack_delay_us()));
        }
    }

    /// Delays the ACK of the peer's FIN like an ACK of data, where possible. Later ACKs are also
    /// delayed (Linux: tcp_fin).
    pub(crate) fn delay_ack_of_fin(&mut self, now: Instant) {
        let unacknowledged = self.rcv.nxt.since(self.rcv.wup);
        self.rcv.dsack = None;
        self.rcv.ack_now = unacknowledged > u32::from(self.rcv.mss_seen) || self.rcv.ato_us == 0;
        self.rcv.pingpong = true;
        if !self.rcv.ack_now {
            self.timers.ack_at = self.timers.ack_at.min(after_us(now, self.ack_delay_us()));
        }
    }

    /// Adapts the ACK delay to the time between arrivals (Linux: tcp_event_data_recv).
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn follow_arrivals(&mut self, now: Instant) {
        let least = self.config.delayed_ack_min.as_micros() as u32;
        let gap = us_since(now, self.rcv.last_at);
        let ato = self.rcv.ato_us;
        if ato == 0 {
            self.rcv.ato_us = least;
            self.more_quick_acks();
        } else if gap <= least / 2 {
            self.rcv.ato_us = ato / 2 + least / 2;
        } else if gap < ato {
            let rto = self.rtt.rto_us(self.recovery.backoff).min(u32::MAX.into()) as u32;
            self.rcv.ato_us = (ato / 2 + gap).min(rto);
        } else if u64::from(gap) > self.rtt.rto_us(self.recovery.backoff) {
            // After a silence the peer may be in slow start again.
            self.more_quick_acks();
        }
        self.rcv.last_at = now;
    }

    /// Delay of an ACK in microseconds: at most a round trip, within the configured bounds.
    #[inline]
    fn ack_delay_us(&self) -> u64 {
        let (least, most) =
            (self.config.delayed_ack_min.as_micros() as u64, self.config.delayed_ack_max.as_micros() as u64);
        let round = match self.rtt.srtt_us() {
            0 => most,
            srtt => least.max(srtt.into()),
        };
        u64::from(self.rcv.ato_us).min(round).clamp(least, most.max(least))
    }

    /// Makes the next ACKs immediate: one for each two full segments that fit the receive window.
    pub(crate) fn more_quick_acks(&mut self) {
        let segments = self.recv_window() / (2 * u32::from(self.rcv.mss_seen.max(1)));
        self.rcv.quick = self.rcv.quick.max(segments.clamp(2, MOST_QUICK) as u8);
    }

    /// Turns immediate ACKs on for at most the next 16 ACKs, or off (`TCP_QUICKACK`).
    pub fn set_quickack(&mut self, on: bool) {
        self.rcv.pingpong = !on;
        if on {
            self.more_quick_acks();
            if self.timers.ack_at != Instant::NEVER {
                self.timers.ack_at = Instant::NEVER;
                self.rcv.ack_now = true;
            }
        } else {
            self.rcv.quick = 0;
        }
    }

    /// Measures the peer's round-trip time for auto-tuning, from the echo of our timestamps or,
    /// without timestamps, from the time in which a window of data arrives.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn time_receiver(&mut self, len: u32, timestamps: Option<Timestamps>, now: Instant) {
        if self.rcv.sizing.rtt_us != 0 && !self.rcv.tunable {
            return;
        }
        match (self.ts, timestamps) {
            (Some(_), Some(ts)) if ts.ecr != 0 => {
                // Only a full segment is used. A shorter one may have waited for the peer's
                // application, which would lengthen the measured time.
                let ms = self.ts_now(now).wrapping_sub(ts.ecr);
                if len >= u32::from(self.rcv.mss_seen) && ms < 1 << 20 {
                    self.rcv.sizing.sample(Duration::from_millis(u64::from(ms.max(1))), true);
                }
            }
            _ => self.time_window(now),
        }
    }
}
