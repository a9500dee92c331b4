//! What kept text from leaving, and for how long: `tcpi_busy_time`, and of it `tcpi_rwnd_limited` and `tcpi_sndbuf_limited`.
//!
//! A connection is busy from the first byte queued until everything is acknowledged. In that time the peer's window may be
//! what holds it up, or the writer's own buffer: all of it is under way, the congestion window would take more, and the
//! writer waits for room. The later in this list counts (as in Linux: tcp_chrono_start).

use crate::cc::Congestion;
use crate::tcb::Tcb;
use clock::{Duration, Instant};

/// What holds text up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Why {
    /// There is none.
    #[default]
    Idle,
    /// Nothing but the path.
    Busy,
    /// The peer's window.
    Window,
    /// The send buffer.
    Writer,
}

/// Time by what held text up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chrono {
    why: Why,
    since: Instant,
    /// In nanoseconds, of Busy, Window and Writer.
    spent: [u64; 3],
}

impl Chrono {
    /// Nothing but the path holds text up?
    #[inline(always)]
    pub(crate) fn is_busy(&self) -> bool {
        self.why == Why::Busy
    }

    #[cold]
    fn turn(&mut self, why: Why, now: Instant) {
        let at = (self.why as usize).wrapping_sub(1);
        if let Some(spent) = self.spent.get_mut(at) {
            *spent = spent.saturating_add(now.since(self.since).as_nanos() as u64);
        }
        (self.why, self.since) = (why, now);
    }

    /// Time spent on `why` until `now`.
    fn of(&self, why: Why, now: Instant) -> Duration {
        let mut so_far = *self;
        so_far.turn(self.why, now);
        let spent = so_far.spent.get((why as usize).wrapping_sub(1));
        Duration::from_nanos(spent.copied().unwrap_or(0))
    }

    /// Busy, held up by the window, held up by the buffer: the first is all of it.
    pub(crate) fn told(&self, now: Instant) -> [Duration; 3] {
        let [busy, window, writer] = [Why::Busy, Why::Window, Why::Writer].map(|why| self.of(why, now));
        [busy + window + writer, window, writer]
    }
}

impl Tcb {
    /// The application waits for room in the send buffer, or would if it could wait.
    pub fn writer_waits(&mut self, now: Instant) {
        self.wishes.starved = true;
        self.chrono_sent(now);
    }

    /// Something waits to be sent.
    #[cold]
    pub(crate) fn chrono_begin(&mut self, now: Instant) {
        if self.chrono.why == Why::Idle || self.chrono.why == Why::Writer && !self.wishes.starved {
            self.chrono.turn(Why::Busy, now);
        }
    }

    /// The peer's window has no room for it.
    #[cold]
    pub(crate) fn chrono_window(&mut self, now: Instant) {
        if self.chrono.why < Why::Window {
            self.chrono.turn(Why::Window, now);
        }
    }

    /// Something was sent, so the window had room; perhaps that was all, and the writer's buffer has none.
    #[cold]
    pub(crate) fn chrono_sent(&mut self, now: Instant) {
        if self.chrono.why == Why::Window {
            self.chrono.turn(Why::Busy, now);
        }
        let starved = self.wishes.starved && self.unsent() == 0 && !self.board.is_empty();
        if starved && self.chrono.why == Why::Busy && self.in_flight() < self.cc.cwnd() {
            self.chrono.turn(Why::Writer, now);
        }
    }

    /// Everything is acknowledged?
    #[inline]
    pub(crate) fn chrono_acked(&mut self, now: Instant) {
        if self.chrono.why != Why::Idle && self.unsent() == 0 {
            self.chrono.turn(Why::Idle, now);
        }
    }
}
