//! Receive modes: an interrupt handler, moderated or not, or a polling loop.

use super::rig::{Rig, Tally};
use anyhow::ensure;
use buf::{Burst, Frame};
use clock::Instant;
use dispatch::polling::{Ask, Handlers, Polling, Sysctls, Then};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of frames in the queue between the interrupt handler and the forwarding code
/// (BSD's ipintrq, IFQ_MAXLEN).
pub const QUEUE: usize = 50;
/// Polling ticks per second in clock mode. At 1000, a burst, which grows by one frame per tick,
/// would take a second to reach a thousand frames.
pub const HZ: i64 = 5000;
/// Per cent of the processor that clock polling leaves to other threads.
pub const USER_FRAC: i64 = 20;
/// Frames that the handler takes from the ring between two steps of the simulated world.
const CHUNK: usize = 16;

/// Method by which the processor receives frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// An interrupt for each frame that arrives while no interrupt is pending.
    Interrupts,
    /// Interrupts with a minimum interval between them.
    Moderated,
    /// Polling at each clock tick.
    Clock,
    /// Polling while there is work, an interrupt when there is none.
    Adaptive,
    /// An interrupt, then polling until the ring is empty (`kern.polling.mode=wakeup`).
    Wakeup,
}

impl Mode {
    /// All modes, in output order.
    pub const ALL: [Mode; 5] = [Mode::Interrupts, Mode::Moderated, Mode::Clock, Mode::Adaptive, Mode::Wakeup];

    /// Returns the name of the mode.
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

/// The processor, receiving frames in one mode.
pub struct Engine {
    pub rig: Rig,
    burst: Burst,
    queue: VecDeque<Frame>,
    queue_full: u64,
    /// Polling state; `None` in the interrupt modes.
    polling: Option<Polling>,
    /// Wake-up condition of a sleeping polling loop: a time, or the arrival of a frame; `None`
    /// while the loop runs.
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

    /// Runs for `ns` nanoseconds of the processor's time.
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

    /// Runs the handler if an interrupt is pending, then processes one frame.
    fn by_interrupts(&mut self, until: u64) {
        let mut handled = 0;
        loop {
            // `receive` returns no frames while no interrupt is pending.
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
        self.rig.idle(); // a turn takes time even if it finds nothing
        self.asleep = matches!(then, Then::Sleep(_) | Then::Wait).then_some(then);
    }

    /// Returns the counts of frames and interrupts since the start.
    pub fn tally(&self) -> Tally {
        self.rig.tally(self.queue_full)
    }

    /// Checks that every offered frame is accounted for.
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
    let sysctls = Arc::new(Sysctls::default());
    for (name, value) in settings {
        let _ = sysctls.set(&format!("kern.polling.{name}"), *value); // in range
    }
    Polling::new(sysctls)
}

/// The receiving card as the polling loop's handler.
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
