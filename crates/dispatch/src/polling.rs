//! Polling: decides when a loop takes frames from its ports, and how much processor time it leaves
//! to other threads (FreeBSD's polling(4), `kern.polling`).
//!
//! ```text
//! clock      each 1/hz: rounds over all handlers, up to each_burst frames each, until each was
//!            polled for `burst`; then sleep. The duration of a tick's work moves `burst` up or
//!            down by one, so that user_frac per cent of the tick are left to others.
//! idle_poll  as clock, and also between ticks: a round at a time, yielding after each
//! adaptive   rounds while frames arrive and for idle_us after that; then sleep until a port has
//!            frames
//! wakeup     sleep until a port has frames, then rounds until there are none: like interrupts,
//!            for comparison
//! ```
//! [`Polling::turn`] does the work of one turn and returns how to continue ([`Then`]). It does not
//! sleep and has no clock of its own, so the same algorithm runs in real and in virtual time. The
//! reports of bridge2004 state 600,000 frames per second for each port. This rate requires idle
//! polling, or a `burst_max` or `hz` above the defaults. The defaults allow 150 frames per tick and
//! 1000 ticks per second, that is, 150,000 frames per second.

mod loops;
#[cfg(test)]
mod tests;

pub use loops::{Loops, Taken};

use clock::{Duration, Instant};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Condition under which a loop polls its ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// While frames arrive. Otherwise the loop sleeps until a descriptor of a port becomes
    /// readable.
    #[default]
    Adaptive,
    /// At the ticks of a clock, `kern.polling.hz` times per second.
    Clock,
    /// Only after a descriptor of a port has become readable. The loop sleeps each time.
    Wakeup,
}

impl Mode {
    /// All modes, in the order of their numbers, the values of `kern.polling.mode`.
    pub const ALL: [Mode; 3] = [Mode::Adaptive, Mode::Clock, Mode::Wakeup];

    /// Returns the mode's name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Adaptive => "adaptive",
            Mode::Clock => "clock",
            Mode::Wakeup => "wakeup",
        }
    }

    /// Returns the mode's number.
    pub fn number(self) -> i64 {
        Mode::ALL.iter().position(|mode| *mode == self).map_or(0, |at| at as i64)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(word: &str) -> Result<Mode, String> {
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == word);
        found.ok_or_else(|| format!("unknown mode '{word}': expected adaptive, clock or wakeup"))
    }
}

stats::sysctls! {
    /// `kern.polling`: FreeBSD's sysctls with their ranges and defaults, and four more (mode, hz,
    /// idle_us, round).
    pub struct Sysctls {
        /// Polling mode: 0 adaptive (poll while frames arrive, then sleep until a port has frames),
        /// 1 clock, 2 wakeup (poll only after a port has frames).
        mode = "kern.polling.mode", 0..=2, 0;
        /// Ticks per second of the polling clock.
        hz = "kern.polling.hz", 100..=20000, 1000;
        /// Share of each tick that is left to other threads, in percent.
        user_frac = "kern.polling.user_frac", 0..=99, 50;
        /// Maximum number of frames taken from a port per tick.
        burst_max = "kern.polling.burst_max", 10..=1000, 150;
        /// Maximum number of frames taken from a port before the next port is polled, in clock
        /// mode.
        each_burst = "kern.polling.each_burst", 1..=1000, 5;
        /// Poll between ticks too, and yield the processor to other threads after each round.
        idle_poll = "kern.polling.idle_poll", 0..=1, 0;
        /// Number of ticks between two status checks of the ports (errors, links), which are
        /// expensive.
        reg_frac = "kern.polling.reg_frac", 1..=20000, 20;
        /// Time without a frame, in microseconds, after which a loop in adaptive mode sleeps.
        idle_us = "kern.polling.idle_us", 0..=1000000, 50;
        /// Maximum number of frames taken from a port before the next port is polled, in adaptive
        /// and wakeup mode.
        round = "kern.polling.round", 1..=256, 64;
    }
}

impl Sysctls {
    /// Returns the polling mode.
    pub fn mode(&self) -> Mode {
        usize::try_from(self.mode.get()).ok().and_then(|at| Mode::ALL.get(at)).copied().unwrap_or_default()
    }
}

stats::counters! {
    /// Counters of a polling loop. Those of clock mode have FreeBSD's names.
    pub struct Counts at "kern.polling" {
        /// Ticks of the polling clock.
        ticks,
        /// Rounds over all ports.
        rounds,
        /// Rounds over all ports that found no frame.
        empty,
        /// Frames taken from ports.
        frames,
        /// Status checks of the ports for errors and links, one in `reg_frac` ticks.
        status,
        /// Rounds over all ports between ticks (`idle_poll`).
        idle_rounds,
        /// Sleeps until a tick, or until a port has frames.
        sleeps,
        /// Ticks less than half a tick after the previous one, because the loop had been prevented
        /// from running.
        short_ticks,
        /// Ticks that were due before the work of an earlier tick had ended. They run right after
        /// it, with a shorter burst.
        lost_polls,
        /// Times the loop was more than 100 ticks late and restarted its clock.
        stalled,
    }
}

/// Current values of a polling loop, which any thread can read.
#[derive(Debug, Default)]
#[repr(align(128))] // written each turn; must not share a cache line with another thread's data
pub struct Gauges {
    burst: AtomicU64,
    residual_burst: AtomicU64,
    pending_polls: AtomicU64,
    load: AtomicU64,
    handlers: AtomicU64,
    sleeping: AtomicU64,
}

impl Gauges {
    /// Returns the name, the description and the value of each gauge.
    pub fn list(&self) -> [(&'static str, &'static str, u64); 6] {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        [
            ("burst", "Current maximum number of frames taken from a port per tick.", read(&self.burst)),
            ("residual_burst", "Frames of `burst` not yet taken in this tick.", read(&self.residual_burst)),
            ("pending_polls", "Ticks whose work is not finished.", read(&self.pending_polls)),
            ("load", "Share of the last tick used by its work, in percent.", read(&self.load)),
            ("handlers", "Number of polled ports.", read(&self.handlers)),
            ("idlepoll_sleeping", "1 while the loop sleeps, else 0.", read(&self.sleeping)),
        ]
    }
}

/// Work that a poll requests from a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Only take frames (POLL_ONLY).
    Frames,
    /// Take frames, and check errors and links (POLL_AND_CHECK_STATUS).
    Status,
}

/// The handlers that a loop polls, one for each port.
pub trait Handlers {
    /// Returns the number of handlers.
    fn count(&self) -> usize;
    /// Takes at most `most` frames from handler `number`. Returns the number of frames.
    fn poll(&mut self, number: usize, most: usize, ask: Ask, now: Instant) -> usize;
    /// Passes on the frames taken in this round. It is called before more frames are taken, because
    /// completing work is more urgent than starting new work (Rizzo, BSDCon 2001).
    fn flush(&mut self, now: Instant);
}

/// Next action of the loop after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// Continue at once.
    Again,
    /// Continue at once, after yielding the processor.
    Yield,
    /// Continue at the given time.
    Sleep(Instant),
    /// Continue when a port has frames.
    Wait,
}

/// State of the polling algorithm.
#[derive(Debug)]
pub struct Polling {
    sysctls: Arc<Sysctls>,
    gauges: Arc<Gauges>,
    /// Counters of the loop.
    pub counts: Counts,
    burst: usize,
    /// Number of ticks until the next status check.
    until_status: i64,
    next_tick: Option<Instant>,
    last_tick: Instant,
    /// Start of the idle period, in which no frame has arrived; `None` if the last round found
    /// frames.
    idle: Option<Instant>,
}

/// Initial value of `burst`, as in FreeBSD.
const FIRST_BURST: usize = 5;
/// Number of ticks by which the loop may be late. If it is later, the missed ticks are skipped.
const STALLED: u64 = 100;

impl Polling {
    /// Creates the state of a loop that has not run yet.
    pub fn new(sysctls: Arc<Sysctls>) -> Polling {
        Polling {
            sysctls,
            gauges: Arc::default(),
            counts: Counts::default(),
            burst: FIRST_BURST,
            until_status: 0,
            next_tick: None,
            last_tick: Instant::ZERO,
            idle: None,
        }
    }

    /// Returns the gauges of the loop.
    pub fn gauges(&self) -> Arc<Gauges> {
        self.gauges.clone()
    }

    /// Returns the sysctls of the loop.
    pub fn sysctls(&self) -> &Arc<Sysctls> {
        &self.sysctls
    }

    /// Runs one turn of the loop and returns what the loop must do next.
    pub fn turn(&mut self, work: &mut impl Handlers, clock: impl Fn() -> Instant) -> Then {
        self.show(&self.gauges.handlers, work.count() as u64);
        let then = match self.sysctls.mode() {
            Mode::Clock => self.by_clock(work, clock),
            Mode::Adaptive => self.by_need(work, clock(), Duration::from_micros(positive(self.sysctls.idle_us.get()))),
            Mode::Wakeup => self.by_need(work, clock(), Duration::ZERO),
        };
        let sleeps = matches!(then, Then::Sleep(_) | Then::Wait);
        self.counts.sleeps.add(u64::from(sleeps));
        self.show(&self.gauges.sleeping, u64::from(sleeps));
        then
    }

    fn show(&self, gauge: &AtomicU64, level: u64) {
        gauge.store(level, Ordering::Relaxed);
    }

    /// Takes at most `most` frames from each handler. Returns the total number of frames.
    fn round(&mut self, work: &mut impl Handlers, most: usize, ask: Ask, now: Instant) -> usize {
        let came = (0..work.count()).map(|number| work.poll(number, most, ask, now)).sum();
        work.flush(now);
        self.counts.rounds.bump();
        self.counts.empty.add(u64::from(came == 0));
        self.counts.frames.add(came as u64);
        came
    }

    /// Runs a round. Returns [`Then::Wait`] if no frame has arrived during the time `patience`.
    fn by_need(&mut self, work: &mut impl Handlers, now: Instant, patience: Duration) -> Then {
        self.next_tick = None;
        if self.round(work, positive(self.sysctls.round.get()) as usize, Ask::Frames, now) > 0 {
            self.idle = None;
            return Then::Again;
        }
        let since = *self.idle.get_or_insert(now);
        if now.since(since) < patience {
            return Then::Again;
        }
        self.idle = None;
        Then::Wait
    }

    fn by_clock(&mut self, work: &mut impl Handlers, clock: impl Fn() -> Instant) -> Then {
        let period = Duration::from_nanos(1_000_000_000 / positive(self.sysctls.hz.get()));
        let now = clock();
        let due = *self.next_tick.get_or_insert(now);
        if now < due {
            if self.sysctls.idle_poll.on() {
                self.counts.idle_rounds.bump();
                self.round(work, positive(self.sysctls.each_burst.get()) as usize, Ask::Frames, now);
                return Then::Yield;
            }
            return Then::Sleep(due);
        }
        if self.counts.ticks.get() > 0 && now.since(self.last_tick) < period / 2 {
            self.counts.short_ticks.bump();
        }
        self.last_tick = now;
        self.counts.ticks.bump();
        let next = due.after(period);
        let end = self.tick(work, now, period, &clock);
        self.next_tick = Some(self.after_tick(next, end, period));
        Then::Again
    }

    /// Runs the work of one tick. Returns the time at which it ended.
    fn tick(
        &mut self,
        work: &mut impl Handlers,
        now: Instant,
        period: Duration,
        clock: &impl Fn() -> Instant,
    ) -> Instant {
        self.until_status -= 1;
        let mut ask = Ask::Frames;
        if self.until_status <= 0 {
            self.until_status = self.sysctls.reg_frac.get();
            self.counts.status.bump();
            ask = Ask::Status;
        }
        let each = positive(self.sysctls.each_burst.get()) as usize;
        let mut residual = self.burst;
        while residual > 0 {
            self.show(&self.gauges.residual_burst, residual as u64);
            let most = residual.min(each);
            residual -= most;
            // After a round without frames, the handlers are not polled again in this tick.
            if self.round(work, most, ask, clock()) == 0 {
                break;
            }
            ask = Ask::Frames;
        }
        self.show(&self.gauges.residual_burst, 0);
        let end = clock();
        self.account(end.since(now), period);
        end
    }

    /// Adjusts `burst`: decrements it if the tick's work took longer than its share of the tick,
    /// increments it otherwise.
    fn account(&mut self, took: Duration, period: Duration) {
        let load = took.as_nanos() as u64 * 100 / (period.as_nanos() as u64).max(1);
        let ours = 100 - positive(self.sysctls.user_frac.get()).min(99);
        if load > ours {
            self.burst = self.burst.saturating_sub(1).max(1);
        } else {
            self.burst += 1;
        }
        self.limit_burst();
        self.show(&self.gauges.load, load);
    }

    fn limit_burst(&mut self) {
        self.burst = self.burst.clamp(1, positive(self.sysctls.burst_max.get()) as usize);
        self.show(&self.gauges.burst, self.burst as u64);
    }

    /// Returns the time of the next tick. If that time has passed, the tick's work runs at once,
    /// with a shorter burst. If too many ticks were missed, they are skipped.
    fn after_tick(&mut self, next: Instant, end: Instant, period: Duration) -> Instant {
        let behind = if end < next { 0 } else { end.since(next).as_nanos() / period.as_nanos().max(1) + 1 } as u64;
        self.show(&self.gauges.pending_polls, behind);
        if behind == 0 {
            return next;
        }
        self.counts.lost_polls.bump();
        self.burst -= self.burst / 8;
        self.limit_burst();
        if behind > STALLED {
            self.counts.stalled.bump();
            return end;
        }
        next
    }
}

/// Returns the value of a sysctl that cannot be negative.
fn positive(value: i64) -> u64 {
    value.max(0) as u64
}
