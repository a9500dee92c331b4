//! Who decides when frames are taken: an interrupt handler, moderated or not, or a polling loop.

use super::rig::{Rig, Tally};
use anyhow::ensure;
use buf::{Burst, Frame};
use clock::Instant;
use dispatch::polling::{Ask, Handlers, Knobs, Polling, Then};
use std::collections::VecDeque;
use std::sync::Arc;

/// Frames of the queue between handler and work (BSD's ipintrq, IFQ_MAXLEN).
pub const QUEUE: usize = 50;
/// Ticks a second of the clock that polls: a burst of a thousand at 1000 would take a second to grow to.
pub const HZ: i64 = 5000;
/// Per cent that it leaves to others.
pub const USER_FRAC: i64 = 20;
/// Frames that the handler takes from the ring between two steps of the world.
const CHUNK: usize = 16;

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// An interrupt for each frame that finds none pending.
    Interrupts,
    /// Interrupts some time apart.
    Moderated,
    /// A clock.
    Clock,
    /// A loop while there is work, an interrupt when there is none.
    Adaptive,
    /// An interrupt, and a loop until there is nothing (`kern.polling.mode=wakeup`).
    Wakeup,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 5] = [Mode::Interrupts, Mode::Moderated, Mode::Clock, Mode::Adaptive, Mode::Wakeup];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Interrupts => "interrupts",
            Mode::Moderated => "moderated",
            Mode::Clock => "clock",
            Mode::Adaptive => "adaptive",
            Mode::Wakeup => "wakeup",
        }
    }
}

/// The processor under one mode.
pub struct Engine {
    pub rig: Rig,
    burst: Burst,
    queue: VecDeque<Frame>,
    queue_full: u64,
    /// `None`: interrupts.
    polling: Option<Polling>,
    /// The polling loop sleeps until then, or until there is something.
    asleep: Option<Then>,
}

impl Engine {
    pub fn new(mode: Mode, rig: Rig) -> Engine {
        let polling = match mode {
            Mode::Interrupts | Mode::Moderated => None,
            Mode::Clock => Some(polling(&[("mode", 1), ("hz", HZ), ("user_frac", USER_FRAC), ("burst_max", 1000)])),
            Mode::Adaptive => Some(polling(&[("mode", 0)])),
            Mode::Wakeup => Some(polling(&[("mode", 2)])),
        };
        let queue = VecDeque::with_capacity(QUEUE);
        Engine { rig, burst: Burst::new(), queue, queue_full: 0, polling, asleep: None }
    }

    /// Runs for so many nanoseconds of the processor's time.
    pub fn run(&mut self, ns: u64) {
        let until = self.rig.time.now() + ns;
        while self.rig.time.now() < until {
            self.rig.step();
            match self.polling.take() {
                None => self.by_interrupts(until),
                Some(mut polling) => {
                    self.by_polling(&mut polling);
                    self.polling = Some(polling);
                }
            }
        }
    }

    /// The handler, if there is a cause; then one frame's work.
    fn by_interrupts(&mut self, until: u64) {
        let mut handled = 0;
        loop {
            // Nothing comes of it while no interrupt is pending; with frames left over it goes on.
            let n = self.rig.receive(&mut self.burst, CHUNK);
            handled += n;
            for frame in self.burst.drain() {
                if self.queue.len() < QUEUE { self.queue.push_back(frame) } else { self.queue_full += 1 }
            }
            self.rig.step();
            if n < CHUNK || self.rig.time.now() >= until {
                break;
            }
        }
        match self.queue.pop_front() {
            Some(frame) => {
                self.burst = Burst::of(frame);
                self.rig.process(&mut self.burst);
                self.rig.flush();
            }
            None if handled == 0 => self.rig.idle(),
            None => {}
        }
    }

    fn by_polling(&mut self, polling: &mut Polling) {
        match self.asleep {
            Some(Then::Sleep(at)) if self.rig.time.instant() < at => return self.rig.idle(),
            Some(Then::Wait) if !self.rig.has_frames() => return self.rig.idle(),
            Some(Then::Wait) => self.rig.wake(),
            _ => {}
        }
        let time = self.rig.time.clone();
        let mut ports = Ports { rig: &mut self.rig, burst: &mut self.burst };
        let then = polling.turn(&mut ports, || time.instant());
        self.rig.idle(); // a turn takes time, whatever it finds
        self.asleep = matches!(then, Then::Sleep(_) | Then::Wait).then_some(then);
    }

    /// What has happened so far.
    pub fn tally(&self) -> Tally {
        self.rig.tally(self.queue_full)
    }

    /// Does every frame have its place?
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.rig.step();
        let tally = self.tally();
        let held = self.rig.held() + self.queue.len() as u64;
        let all = tally.forwarded + tally.missed + tally.queue_full + held;
        ensure!(tally.offered == all, "frames unaccounted for: {tally:?}, {held} held");
        Ok(())
    }
}

fn polling(settings: &[(&str, i64)]) -> Polling {
    let knobs = Arc::new(Knobs::default());
    for (name, value) in settings {
        let _ = knobs.set(&format!("kern.polling.{name}"), *value); // in range
    }
    Polling::new(knobs)
}

/// The receiving card, as a polling loop has it.
struct Ports<'a> {
    rig: &'a mut Rig,
    burst: &'a mut Burst,
}

impl Handlers for Ports<'_> {
    fn count(&self) -> usize {
        1
    }

    fn poll(&mut self, _: usize, most: usize, ask: Ask, _: Instant) -> usize {
        self.rig.step();
        if ask == Ask::Status {
            self.rig.check_status();
        }
        let n = self.rig.receive(self.burst, most);
        if n > 0 {
            self.rig.process(self.burst);
        }
        n
    }

    fn flush(&mut self, _: Instant) {
        self.rig.flush();
    }
}
