//! `rate`: limits the bits or frames per second with a token bucket.
//!
//! The bucket fills at the rate, up to its size. A frame leaves when the bucket contains at least
//! its cost, which is then removed. The state is the time at which the bucket will be full. This
//! time is counted in units of one nanosecond divided by the rate, called "fractions" in this
//! module, so that no calculation is rounded.

use crate::generate::{AROUND, FCS};
use crate::queue::{Limit, Queue};
use crate::stage::{StageError, Timed};
use crate::units::Rate as Unit;
use crate::{Frames, Stage};
use clock::{Duration, Instant};
use wire::eth::MIN_FRAME_LEN;

/// Part of a frame that counts against a rate in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bits {
    /// The frame as on the wire: padded to 64 bytes, with FCS, preamble and inter-frame gap.
    #[default]
    Wire,
    /// The bytes of the frame alone.
    Payload,
}

/// Returns the number of bytes that a frame of `len` bytes, without FCS, needs on the wire:
/// padding, FCS, preamble and inter-frame gap included.
pub fn on_wire(len: usize) -> u64 {
    (len.max(MIN_FRAME_LEN) + FCS + AROUND) as u64
}

const SECOND: u128 = 1_000_000_000;
/// Default size of the bucket, as the time in which it fills. On a busy machine a sleep may end
/// late by this time, and tokens beyond the size of the bucket are lost.
const BURST: Duration = Duration::from_millis(10);
/// Minimum sleep. Waking up for each frame of a fast stream would cost more time than sending it.
const NAP: Duration = Duration::from_millis(1);

/// Stage that limits the rate of frames.
#[derive(Debug)]
pub struct Rate {
    /// Bits or frames per second. This is also the number of fractions per nanosecond.
    rate: u128,
    unit: Unit,
    bits: Bits,
    /// Size of the bucket in fractions (1 ns divided by the rate).
    burst: u128,
    /// Time when the bucket is full, in fractions (1 ns divided by the rate) since the epoch of the
    /// clock.
    full_at: u128,
    now: Instant,
    queue: Queue,
}

impl Rate {
    /// Creates a stage that limits frames to the rate `unit`. `burst` is the size of the bucket in
    /// bytes, or in frames for a rate in frames. A frame with a cost larger than the bucket passes
    /// when the bucket is full.
    pub fn new(unit: Unit, bits: Bits, burst: Option<u64>, limit: Limit) -> Rate {
        let (Unit::Bits(rate) | Unit::Frames(rate)) = unit;
        let rate = u128::from(rate.max(1));
        let burst = match (burst, unit) {
            (Some(bytes), Unit::Bits(_)) => u128::from(bytes) * 8 * SECOND,
            (Some(frames), Unit::Frames(_)) => u128::from(frames) * SECOND,
            (None, _) => BURST.as_nanos() * rate,
        };
        let queue = Queue::new(limit);
        Rate { rate, unit, bits, burst, full_at: 0, now: Instant::ZERO, queue }
    }

    /// Returns the cost of a frame of `len` bytes, in fractions (1 ns divided by the rate).
    fn cost(&self, len: usize) -> u128 {
        SECOND
            * match (self.unit, self.bits) {
                (Unit::Frames(_), _) => 1,
                (Unit::Bits(_), Bits::Wire) => u128::from(on_wire(len)) * 8,
                (Unit::Bits(_), Bits::Payload) => len as u128 * 8,
            }
    }

    /// Returns the time when the first frame may leave.
    fn due(&self) -> Option<Instant> {
        let (_, len) = self.queue.first()?;
        let cost = self.cost(len);
        let at = (self.full_at + cost).saturating_sub(self.burst.max(cost)).div_ceil(self.rate);
        Some(Instant::from_nanos(u64::try_from(at).unwrap_or(u64::MAX)))
    }
}

impl Stage for Rate {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        for index in 0..frames.len() {
            self.queue.push(frames, index, self.now);
        }
        frames.clear();
        let now = u128::from(self.now.nanos()) * self.rate;
        while !frames.is_full()
            && self.due().is_some_and(|due| due <= self.now)
            && let Some((_, len)) = self.queue.first()
        {
            self.full_at = self.full_at.max(now) + self.cost(len);
            self.queue.pop(frames);
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Frames) -> Result<(), StageError> {
        self.queue.clear();
        Ok(())
    }

    fn timed(&mut self) -> Option<&mut dyn Timed> {
        Some(self)
    }

    fn report(&self) -> Option<String> {
        self.queue.report("rate")
    }
}

impl Timed for Rate {
    fn at(&mut self, now: Instant) {
        self.now = now;
    }

    fn next_event(&self) -> Option<Instant> {
        let due = self.due()?;
        if due <= self.now {
            return Some(due); // the batch was full
        }
        // Sleep at most for the time in which half the bucket fills, so that no tokens are lost.
        let half = u64::try_from(self.burst / self.rate / 2).unwrap_or(u64::MAX);
        Some(due.max(self.now.after(NAP.min(Duration::from_nanos(half)))))
    }

    fn held(&self) -> usize {
        self.queue.len()
    }

    fn is_full(&self) -> bool {
        self.queue.is_full()
    }
}

#[cfg(test)]
mod tests;
