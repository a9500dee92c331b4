//! A bridge with cards that wait for their bus. Measures the rate when processor and bus work at
//! the same time.
//!
//! Time is simulated. A turn of the processor takes as long as it really takes; a transfer takes
//! the clocks of `port::nic::bus`. While the processor works on the frames of one turn, the bus
//! transfers the frames that arrive for the next turn and those that leave, one frame at a time for
//! all cards. The next turn begins when both are done. The slower of the two therefore sets the
//! rate, whatever time this program takes to model the bus.

use super::NicRig;
use crate::subject::{Reading, Subject};
use crate::{os, timer, tsc};
use anyhow::ensure;
use clock::{Duration, Instant};

/// Subject that measures the simulated time per bridged frame, in ticks.
pub struct NicPaced(NicRig);

impl NicPaced {
    /// Builds the rig with the given settings and `bus_pace=on`.
    ///
    /// # Errors
    /// As [`NicRig::new`].
    pub fn new(id: &str, words: &str) -> anyhow::Result<NicPaced> {
        Ok(NicPaced(NicRig::new(id, &format!("{words} bus_pace=on"))?))
    }

    /// Passes about `frames` frames. Returns the simulated time in nanoseconds.
    fn run(&mut self, frames: usize) -> anyhow::Result<u64> {
        self.run_with(frames, |measured| measured)
    }

    /// Passes about `frames` frames as [`NicPaced::run`] does. `turn` converts the measured
    /// nanoseconds of a turn to simulated nanoseconds.
    pub(super) fn run_with(&mut self, frames: usize, turn: impl Fn(u64) -> u64) -> anyhow::Result<u64> {
        let (rig, hertz) = (&mut self.0, timer::rate().hz);
        let from = rig.now;
        for _ in 0..frames.div_ceil(rig.a_turn()) {
            let begun = rig.now;
            rig.offer(rig.setup.feed)?; // frames that arrive while the processor works
            let start = tsc::now();
            rig.turn();
            let ticks = tsc::now().saturating_sub(start).saturating_sub(timer::cost());
            let ns = u128::from(ticks) * 1_000_000_000 / u128::from(hertz);
            let processor = begun.after(Duration::from_nanos(turn(ns as u64)));
            rig.now = rig.transfer(begun).max(processor);
            rig.collect();
        }
        Ok(rig.now.nanos() - from.nanos())
    }
}

impl NicRig {
    /// Steps the cards from `begun` on, waiting for the bus, until nothing moves; returns the time
    /// at which the bus is done.
    pub(super) fn transfer(&mut self, begun: Instant) -> Instant {
        let mut now = begun;
        loop {
            let mut moved = 0;
            for card in &mut self.comes {
                moved += card.engine.step(now);
            }
            for card in &mut self.leaves {
                moved += card.engine.step(now);
            }
            let Some(card) = self.comes.first() else { return now };
            let free = self.bus.busy_until(&card.nic.settings);
            if moved == 0 && free <= now {
                return now;
            }
            now = now.max(free);
        }
    }
}

impl Subject for NicPaced {
    fn id(&self) -> &str {
        &self.0.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        self.run(self.0.warming())?;
        let (wall, cpu, before) = (os::monotonic_ns(), os::thread_cpu_ns(), self.0.back);
        let ns = self.run(self.0.setup.frames)?;
        let (wall_ns, cpu_ns) = (os::monotonic_ns() - wall, os::thread_cpu_ns() - cpu);
        self.0.audit()?;
        ensure!(self.0.missed() == 0, "{}: {} frames missed", self.0.id, self.0.missed());
        let ticks = (u128::from(ns) * u128::from(timer::rate().hz) / 1_000_000_000) as u64;
        // The simulated time may exceed the real time. The larger value is reported, so that the
        // runner detects neither a stepped clock nor missing processor time.
        Ok(Reading { ops: self.0.back - before, ticks, wall_ns: wall_ns.max(ns), cpu_ns: cpu_ns.max(ns) })
    }
}
