//! What kept text from leaving, and for how long: `tcpi_busy_time`, and of it `tcpi_rwnd_limited` and `tcpi_sndbuf_limited`.
//!
//! A connection is busy from the first byte queued until everything is acknowledged. In that time the peer's window may be
//! what holds it up, or the writer's own buffer: all of it is under way, the congestion window would take more, and the
//! writer waits for room. The later in this list counts (as in Linux: tcp_chrono_start).

use crate::cc::Congestion;
use crate::tcb::{Tcb, Why};
use clock::{Duration, Instant};

impl Tcb {
    /// Nothing but the path holds text up?
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
            Why::Window => self.met().held_up.first_mut(),
            Why::Writer => self.met().held_up.last_mut(),
        };
        if let Some(spent) = spent {
            *spent = spent.saturating_add(passed);
        }
        (self.held_by, self.chrono.since) = (why, now);
    }

    /// Busy, held up by the window, held up by the buffer: the first is all of it.
    pub(crate) fn chrono_told(&self, now: Instant) -> [Duration; 3] {
        let [window, writer] = self.met.as_ref().map_or([0; 2], |met| met.held_up);
        let mut spent = [self.chrono.busy, window, writer];
        if let Some(spent) = spent.get_mut((self.held_by as usize).wrapping_sub(1)) {
            *spent = spent.saturating_add(now.since(self.chrono.since).as_nanos() as u64);
        }
        let [busy, window, writer] = spent.map(Duration::from_nanos);
        [busy + window + writer, window, writer]
    }

    /// The application waits for room in the send buffer, or would if it could wait.
    pub fn writer_waits(&mut self, now: Instant) {
        self.wishes.starved = true;
        self.chrono_sent(now);
    }

    /// Something waits to be sent: whoever wrote it may wait for more room, but it is not the room that holds this up.
    #[cold]
    pub(crate) fn chrono_begin(&mut self, now: Instant) {
        if matches!(self.held_by, Why::Idle | Why::Writer) {
            self.chrono_turn(Why::Busy, now);
        }
    }

    /// The peer's window has no room for it.
    #[cold]
    pub(crate) fn chrono_window(&mut self, now: Instant) {
        if self.held_by < Why::Window {
            self.chrono_turn(Why::Window, now);
        }
    }

    /// Something was sent, so the window had room; perhaps that was all, and the writer's buffer has none.
    #[cold]
    pub(crate) fn chrono_sent(&mut self, now: Instant) {
        if self.held_by == Why::Window {
            self.chrono_turn(Why::Busy, now);
        }
        let starved = self.wishes.starved && self.unsent() == 0 && !self.board.is_empty();
        if starved && self.held_by == Why::Busy && self.in_flight() < self.cc.cwnd() {
            self.chrono_turn(Why::Writer, now);
        }
    }

    /// Everything is acknowledged?
    #[inline]
    pub(crate) fn chrono_acked(&mut self, now: Instant) {
        if self.held_by != Why::Idle && self.unsent() == 0 {
            self.chrono_turn(Why::Idle, now);
        }
    }
}
