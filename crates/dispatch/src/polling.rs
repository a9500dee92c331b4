//! Polling: when a loop takes frames from its ports, and how much of the processor it leaves to others (FreeBSD's polling(4), `kern.polling`).
//!
//! ```text
//!  clock       each 1/hz: rounds over all handlers, each_burst frames of each at most, until each was asked for `burst`; then sleep.
//!              What a tick took moves `burst` up or down by one, so that user_frac per cent of it are left to others.
//!    idle_poll   between ticks as well, a round at a time, the processor offered to others after each
//!  adaptive    rounds while anything comes and idle_us longer; then sleep until a port has something
//!  wakeup      sleep until a port has something, rounds until there is nothing: as interrupts do it, for comparison
//! ```
//! [`Polling::turn`] does the work of one turn and says how to go on ([`Then`]). It does not sleep and has no clock of its own: one
//! algorithm runs on live and on virtual time. bridge2004's reports of 600,000 frames a second and port mean idle polling, or a
//! `burst_max` or `hz` beyond the defaults: those allow 150 * 1000 (REPORTS, trap 6).

mod loops;
#[cfg(test)]
mod tests;

pub use loops::{Loops, Taken};

use clock::{Duration, Instant};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What wakes a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Work while there is some, a port's descriptor when there is none.
    #[default]
    Adaptive,
    /// A clock, `kern.polling.hz` times a second.
    Clock,
    /// A port's descriptor, each time.
    Wakeup,
}

impl Mode {
    /// All of them, by number: the values of `kern.polling.mode`.
    pub const ALL: [Mode; 3] = [Mode::Adaptive, Mode::Clock, Mode::Wakeup];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Adaptive => "adaptive",
            Mode::Clock => "clock",
            Mode::Wakeup => "wakeup",
        }
    }

    /// Its number.
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

stats::knobs! {
    /// `kern.polling`: those of FreeBSD with their ranges and defaults, and ours (mode, hz, idle_us, round).
    pub struct Knobs {
        /// What wakes a loop: 0 work and then descriptors (adaptive), 1 a clock, 2 descriptors alone (wakeup).
        mode = "kern.polling.mode", 0..=2, 0;
        /// Ticks a second of the clock that polls.
        hz = "kern.polling.hz", 100..=20000, 1000;
        /// Per cent of a tick that are left to others.
        user_frac = "kern.polling.user_frac", 0..=99, 50;
        /// Most frames that are taken from a port in a tick.
        burst_max = "kern.polling.burst_max", 10..=1000, 150;
        /// Frames that are taken from a port before the next one has its turn, when a clock polls.
        each_burst = "kern.polling.each_burst", 1..=1000, 5;
        /// Poll between ticks as well, whenever nobody else wants the processor.
        idle_poll = "kern.polling.idle_poll", 0..=1, 0;
        /// Ticks between two looks at what is dear to look at (errors, links).
        reg_frac = "kern.polling.reg_frac", 1..=20000, 20;
        /// Microseconds without a frame after which an adaptive loop sleeps.
        idle_us = "kern.polling.idle_us", 0..=1000000, 50;
        /// Frames that are taken from a port before the next one has its turn, when no clock polls.
        round = "kern.polling.round", 1..=256, 64;
    }
}

impl Knobs {
    /// What wakes loops.
    pub fn mode(&self) -> Mode {
        usize::try_from(self.mode.get()).ok().and_then(|at| Mode::ALL.get(at)).copied().unwrap_or_default()
    }
}

stats::counters! {
    /// What a loop did. Clock-driven ones have FreeBSD's names.
    pub struct Counts at "kern.polling" {
        /// Ticks of the clock.
        ticks,
        /// Rounds over all ports.
        rounds,
        /// Rounds that found nothing.
        empty,
        /// Frames taken.
        frames,
        /// Looks at errors and links (one in reg_frac ticks).
        status,
        /// Rounds between ticks.
        idle_rounds,
        /// Sleeps, for a clock or a descriptor.
        sleeps,
        /// Ticks that came less than half a tick after the one before: somebody kept us from running.
        short_ticks,
        /// Ticks that came while an earlier one's work was still done: done at once after it, with a shorter burst.
        lost_polls,
        /// More than 100 ticks behind: given up, begun anew.
        stalled,
    }
}

/// Levels, to be read from anywhere.
#[derive(Debug, Default)]
#[repr(align(128))] // written each turn; the next one in memory is another thread's
pub struct Gauges {
    burst: AtomicU64,
    residual_burst: AtomicU64,
    pending_polls: AtomicU64,
    load: AtomicU64,
    handlers: AtomicU64,
    sleeping: AtomicU64,
}

impl Gauges {
    /// Name, sentence, value.
    pub fn list(&self) -> [(&'static str, &'static str, u64); 6] {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        [
            ("burst", "Frames taken from a port in a tick, now.", read(&self.burst)),
            ("residual_burst", "Of those, not yet asked for.", read(&self.residual_burst)),
            ("pending_polls", "Ticks whose work is not done.", read(&self.pending_polls)),
            ("load", "Per cent of the last tick that its work took.", read(&self.load)),
            ("handlers", "Ports that are polled.", read(&self.handlers)),
            ("idlepoll_sleeping", "Is the loop asleep?", read(&self.sleeping)),
        ]
    }
}

/// How much a handler is to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Frames (POLL_ONLY).
    Frames,
    /// Errors and links as well (POLL_AND_CHECK_STATUS).
    Status,
}

/// What is polled.
pub trait Handlers {
    /// How many there are.
    fn count(&self) -> usize;
    /// Takes `most` frames at most from the handler of that number; says how many there were.
    fn poll(&mut self, number: usize, most: usize, ask: Ask, now: Instant) -> usize;
    /// Lets what was taken go on, before more is taken: to process to the end comes before beginning (Rizzo, BSDCon 2001).
    fn flush(&mut self, now: Instant);
}

/// How to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// At once.
    Again,
    /// At once, if nobody else wants the processor.
    Yield,
    /// At that time.
    Sleep(Instant),
    /// When a port has something.
    Wait,
}

/// The algorithm, and where it stands.
#[derive(Debug)]
pub struct Polling {
    knobs: Arc<Knobs>,
    gauges: Arc<Gauges>,
    /// What happened.
    pub counts: Counts,
    burst: usize,
    /// Ticks until errors are looked at.
    until_status: i64,
    next_tick: Option<Instant>,
    last_tick: Instant,
    /// Since when nothing came.
    idle: Option<Instant>,
}

/// `burst` at the start, as in FreeBSD.
const FIRST_BURST: usize = 5;
/// Ticks behind that are given up.
const STALLED: u64 = 100;

impl Polling {
    /// At its start.
    pub fn new(knobs: Arc<Knobs>) -> Polling {
        Polling {
            knobs,
            gauges: Arc::default(),
            counts: Counts::default(),
            burst: FIRST_BURST,
            until_status: 0,
            next_tick: None,
            last_tick: Instant::ZERO,
            idle: None,
        }
    }

    /// Its levels.
    pub fn gauges(&self) -> Arc<Gauges> {
        self.gauges.clone()
    }

    /// Its knobs.
    pub fn knobs(&self) -> &Arc<Knobs> {
        &self.knobs
    }

    /// Does what is to be done now.
    pub fn turn(&mut self, work: &mut impl Handlers, clock: impl Fn() -> Instant) -> Then {
        self.show(&self.gauges.handlers, work.count() as u64);
        let then = match self.knobs.mode() {
            Mode::Clock => self.by_clock(work, clock),
            Mode::Adaptive => self.by_need(work, clock(), Duration::from_micros(positive(self.knobs.idle_us.get()))),
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

    /// `most` frames at most from each handler; says how many came.
    fn round(&mut self, work: &mut impl Handlers, most: usize, ask: Ask, now: Instant) -> usize {
        let came = (0..work.count()).map(|number| work.poll(number, most, ask, now)).sum();
        work.flush(now);
        self.counts.rounds.bump();
        self.counts.empty.add(u64::from(came == 0));
        self.counts.frames.add(came as u64);
        came
    }

    /// A round, and sleep when nothing has come for `patience`.
    fn by_need(&mut self, work: &mut impl Handlers, now: Instant, patience: Duration) -> Then {
        self.next_tick = None;
        if self.round(work, positive(self.knobs.round.get()) as usize, Ask::Frames, now) > 0 {
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
        let period = Duration::from_nanos(1_000_000_000 / positive(self.knobs.hz.get()));
        let now = clock();
        let due = *self.next_tick.get_or_insert(now);
        if now < due {
            if self.knobs.idle_poll.on() {
                self.counts.idle_rounds.bump();
                self.round(work, positive(self.knobs.each_burst.get()) as usize, Ask::Frames, now);
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

    /// A tick's work; says when it ended.
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
            self.until_status = self.knobs.reg_frac.get();
            self.counts.status.bump();
            ask = Ask::Status;
        }
        let each = positive(self.knobs.each_burst.get()) as usize;
        let mut residual = self.burst;
        while residual > 0 {
            self.show(&self.gauges.residual_burst, residual as u64);
            let most = residual.min(each);
            residual -= most;
            // Who had nothing now has nothing later in this tick.
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

    /// Moves `burst` by what the tick took.
    fn account(&mut self, took: Duration, period: Duration) {
        let load = took.as_nanos() as u64 * 100 / (period.as_nanos() as u64).max(1);
        let ours = 100 - positive(self.knobs.user_frac.get()).min(99);
        if load > ours {
            self.burst = self.burst.saturating_sub(1).max(1);
        } else {
            self.burst += 1;
        }
        self.limit_burst();
        self.show(&self.gauges.load, load);
    }

    fn limit_burst(&mut self) {
        self.burst = self.burst.clamp(1, positive(self.knobs.burst_max.get()) as usize);
        self.show(&self.gauges.burst, self.burst as u64);
    }

    /// When the next tick is. If it is over already its work is done at once, with a shorter burst; too many are given up.
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

/// A knob that cannot be negative.
fn positive(value: i64) -> u64 {
    value.max(0) as u64
}
