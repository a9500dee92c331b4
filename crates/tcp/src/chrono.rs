//! Time spent limited, by cause: `tcpi_busy_time`, and within it `tcpi_rwnd_limited` and
//! `tcpi_sndbuf_limited`.
//!
//! A connection is busy from the first byte queued until everything is acknowledged. While busy, it
//! may be limited by the peer's window. It may also be limited by its own send buffer, if all data
//! is in flight, the congestion window would permit more, and the writer waits for space. If
//! several causes apply, the buffer has precedence over the window, and the window over busy (as in
//! Linux: tcp_chrono_start).

use crate::cc::Congestion;
use crate::tcb::{Tcb, Why};
use clock::{Duration, Instant};

impl Tcb {
    /// Returns whether the connection is busy and only the path delays its data, not the peer's
    /// window or the send buffer.
    #[inline(always)]
    pub(crate) fn is_busy(&self) -> bool {
        self.held_by == Why::Busy
    }

    #[cold]
    fn chrono_turn(&mut self, why: Why, now: Instant) {
        let passed = now.since(self.chrono.since).as_nanos() as u64;
        let spent = match self.held_by {
            Why::Idle => None,
            Why::Busy => Some(&mut self.chrono.busy),
            Why::Window => self.cold_events().held_up.first_mut(),
            Why::Writer => self.cold_events().held_up.last_mut(),
        };
        if let Some(spent) = spent {
            *spent = spent.saturating_add(passed);
        }
        (self.held_by, self.chrono.since) = (why, now);
    }

    /// Returns three times: busy, limited by the peer's window, and limited by the send buffer.
    /// Busy includes the other two.
    pub(crate) fn chrono_report(&self, now: Instant) -> [Duration; 3] {
        let [window, writer] = self.cold_events.as_ref().map_or([0; 2], |cold_events| cold_events.held_up);
        let mut spent = [self.chrono.busy, window, writer];
        if let Some(spent) = spent.get_mut((self.held_by as usize).wrapping_sub(1)) {
            *spent = spent.saturating_add(now.since(self.chrono.since).as_nanos() as u64);
        }
        let [busy, window, writer] = spent.map(Duration::from_nanos);
        [busy + window + writer, window, writer]
    }

    /// Records that the application waits for space in the send buffer, or would wait if its socket
    /// were blocking.
    pub fn writer_waits(&mut self, now: Instant) {
        self.options.starved = true;
        self.chrono_sent(now);
    }

    /// Starts the busy time when data is queued. Also ends time that counts as limited by the send
    /// buffer, since the buffer does not delay data that is already queued.
    #[cold]
    pub(crate) fn chrono_begin(&mut self, now: Instant) {
        if matches!(self.held_by, Why::Idle | Why::Writer) {
            self.chrono_turn(Why::Busy, now);
        }
    }

    /// Records that the peer's window has no space for the queued data.
    #[cold]
    pub(crate) fn chrono_window(&mut self, now: Instant) {
        if self.held_by < Why::Window {
            self.chrono_turn(Why::Window, now);
        }
    }

    /// Records a transmission, which shows that the window had space. If everything is now in
    /// flight and the writer waits, the send buffer is the limit.
    #[cold]
    pub(crate) fn chrono_sent(&mut self, now: Instant) {
        if self.held_by == Why::Window {
            self.chrono_turn(Why::Busy, now);
        }
        let starved = self.options.starved && self.unsent() == 0 && !self.board.is_empty();
        if starved && self.held_by == Why::Busy && self.in_flight() < self.cc.cwnd() {
            self.chrono_turn(Why::Writer, now);
        }
    }

    /// Ends the busy time if everything has been acknowledged.
    #[inline]
    pub(crate) fn chrono_acked(&mut self, now: Instant) {
        if self.held_by != Why::Idle && self.unsent() == 0 {
            self.chrono_turn(Why::Idle, now);
        }
    }
}
