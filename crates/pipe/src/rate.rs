//! `rate`: no more than so many bits or frames a second, by a bucket of tokens.
//!
//! A frame leaves when the bucket holds what it costs, and takes it out; the bucket fills at the rate, up to its size. It is kept
//! as the time at which it would be full again, in parts of a nanosecond so small that nothing is ever rounded.

use crate::generate::{AROUND, FCS};
use crate::queue::{Limit, Queue};
use crate::stage::{StageError, Timed};
use crate::units::Rate as Unit;
use crate::{Frames, Stage};
use clock::{Duration, Instant};
use wire::eth::MIN_FRAME_LEN;

/// What a bit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bits {
    /// What a wire is busy with: FCS, preamble and gap too, and nothing shorter than 64 bytes.
    #[default]
    Wire,
    /// Those of the line alone.
    Payload,
}

/// What a frame of `len` bytes (without FCS) takes on a wire: bytes, preamble and gap included.
pub fn on_wire(len: usize) -> u64 {
    (len.max(MIN_FRAME_LEN) + FCS + AROUND) as u64
}

const SECOND: u128 = 1_000_000_000;
/// What the bucket holds if nobody says: on a busy machine a sleeper comes late by as much, and what did not fit is lost to the rate.
const BURST: Duration = Duration::from_millis(10);
/// Waking for each frame of a fast stream would be all there is time for.
const NAP: Duration = Duration::from_millis(1);

/// Lets frames through at a rate.
#[derive(Debug)]
pub struct Rate {
    /// Units a second, and therefore parts a nanosecond has.
    rate: u128,
    unit: Unit,
    bits: Bits,
    /// Parts.
    burst: u128,
    /// When the bucket is full again, in parts since the epoch.
    full_at: u128,
    now: Instant,
    queue: Queue,
}

impl Rate {
    /// `unit` a second, and `burst` bytes (frames, if those are counted) at once; a frame that is larger than that still passes.
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

    /// Parts that a frame takes out.
    fn cost(&self, len: usize) -> u128 {
        SECOND
            * match (self.unit, self.bits) {
                (Unit::Frames(_), _) => 1,
                (Unit::Bits(_), Bits::Wire) => u128::from(on_wire(len)) * 8,
                (Unit::Bits(_), Bits::Payload) => len as u128 * 8,
            }
    }

    /// When the first may leave.
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
        // By half a bucket at most: nothing is lost that would have flowed in.
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
