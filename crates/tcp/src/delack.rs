//! When an ACK may wait (RFC 9293 3.8.6.3, RFC 5681 4.2), and what a receiver can tell of the round trip.
//!
//! Two full segments are acknowledged at once. Fewer wait for text to ride on, up to a time that follows the arrivals as in
//! Linux: 40 ms to 200 ms. A connection begins with up to 16 ACKs that do not wait, so that the peer's slow start is not held up;
//! one that answers text with text stops spending ACKs on it.

use crate::Timestamps;
use crate::rtt::{after_us, us_since};
use crate::tcb::Tcb;
use clock::{Duration, Instant};

/// Undelayed ACKs at most (Linux: TCP_MAX_QUICKACKS).
const MOST_QUICK: u32 = 16;

impl Tcb {
    /// Text in order arrived.
    #[inline(always)]
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

    /// The peer's FIN came: where its ACK may wait, it waits as that of text would, and so do later ones (Linux: tcp_fin).
    pub(crate) fn delay_ack_of_fin(&mut self, now: Instant) {
        let unacknowledged = self.rcv.nxt.since(self.rcv.wup);
        self.rcv.dsack = None;
        self.rcv.ack_now = unacknowledged > u32::from(self.rcv.mss_seen) || self.rcv.ato_us == 0;
        self.rcv.pingpong = true;
        if !self.rcv.ack_now {
            self.timers.ack_at = self.timers.ack_at.min(after_us(now, self.ack_delay_us()));
        }
    }

    /// The delay follows the time between arrivals (Linux: tcp_event_data_recv).
    #[inline(always)]
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
            // After a silence the peer may have begun slow start again.
            self.more_quick_acks();
        }
        self.rcv.last_at = now;
    }

    /// How long an ACK waits: not longer than a round trip, within the configured bounds.
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

    /// The next ACKs do not wait: as many as make half a window of full segments.
    pub(crate) fn more_quick_acks(&mut self) {
        let segments = self.recv_window() / (2 * u32::from(self.rcv.mss_seen.max(1)));
        self.rcv.quick = self.rcv.quick.max(segments.clamp(2, MOST_QUICK) as u8);
    }

    /// `TCP_QUICKACK`: ACKs do not wait for now; or may wait again.
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

    /// For auto-tuning: the peer's round trip by its echo of our timestamps, else by the arrival of a window's worth.
    #[inline(always)]
    pub(crate) fn time_receiver(&mut self, len: u32, timestamps: Option<Timestamps>, now: Instant) {
        if self.rcv.sizing.rtt_us != 0 && !self.rcv.tunable {
            return;
        }
        match (self.ts, timestamps) {
            (Some(_), Some(ts)) if ts.ecr != 0 => {
                // Only a full segment says that the peer did not wait for the application.
                let ms = self.ts_now(now).wrapping_sub(ts.ecr);
                if len >= u32::from(self.rcv.mss_seen) && ms < 1 << 20 {
                    self.rcv.sizing.sample(Duration::from_millis(u64::from(ms.max(1))), true);
                }
            }
            _ => self.time_window(now),
        }
    }
}
