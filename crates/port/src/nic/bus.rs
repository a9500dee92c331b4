//! What the bus between processor and card costs: time the processor waits for a register, and clocks of the bus itself.
//!
//! The processor's side is real time, spun away: a register read waits for the card's answer, a write only until the bus
//! bridge has it. Measured on an e1000 of the report's years (R. Olsson, L. Buytenhek, H. Welte, `mmio_test`, 2005): 2100
//! cycles of 2.4 GHz for ICR, so 875 ns; and 490 cycles, 204 ns, for an uncached access that stays at the memory bridge, which
//! stands here for a posted write.
//!
//! The bus's side is counted in its clocks: PCI-X, 64 bits, 8 bytes a clock. A burst needs an address, an attribute and a
//! response phase and a turn-around, 4 clocks, before and after its data; a read is split into request and completion, so
//! twice that (PCI-X Addendum 1.0, chapter 2). These are least figures, without waiting for the arbiter: what they allow is an
//! upper limit.

use super::knobs::Knobs;
use clock::Instant;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Phases of a burst that carry no data.
const OVERHEAD: u64 = 4;
/// Bytes a clock.
const WIDTH: u64 = 8;
/// The longest burst (the maximum memory read byte count that the 8254x can be given is 4096; 512 is its default).
const LONGEST: u64 = 512;
/// Clocks of a register write: one word.
pub const REGISTER_WRITE: u64 = OVERHEAD + 1;
/// Clocks of a register read: request and completion.
pub const REGISTER_READ: u64 = 2 * OVERHEAD + 1;
/// Bytes of a descriptor, as the card has them.
pub const DESCRIPTOR: u64 = 16;

/// Clocks of writing `bytes` into memory.
pub fn write_clocks(bytes: u64) -> u64 {
    bytes.div_ceil(LONGEST) * OVERHEAD + bytes.div_ceil(WIDTH)
}

/// Clocks of reading `bytes` from memory.
pub fn read_clocks(bytes: u64) -> u64 {
    bytes.div_ceil(LONGEST) * 2 * OVERHEAD + bytes.div_ceil(WIDTH)
}

/// A bus whose clocks are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// 64 bits at 100 MHz: the report's.
    PciX100,
    /// 64 bits at 133 MHz: the report's fastest.
    PciX133,
}

impl Model {
    /// Clocks a second.
    pub fn hertz(self) -> u64 {
        match self {
            Model::PciX100 => 100_000_000,
            Model::PciX133 => 133_333_333,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Model::PciX100 => "PCI-X, 64 bits, 100 MHz",
            Model::PciX133 => "PCI-X, 64 bits, 133 MHz",
        })
    }
}

/// The bus of one card, or of several that share it: until when it is busy, for cards that wait for
/// it.
#[derive(Debug, Default)]
pub struct Bus {
    /// Nanoseconds of the clock that the cards are stepped by. All directions write it: what one of
    /// them loses of another's when they run on two threads makes the bus a little too fast, no
    /// more.
    free_at: AtomicU64,
}

impl Bus {
    /// The model in force.
    pub fn model(knobs: &Knobs) -> Option<Model> {
        match knobs.bus.get() {
            1 => Some(Model::PciX100),
            2 => Some(Model::PciX133),
            _ => None,
        }
    }

    /// May the card begin with another frame?
    pub(super) fn is_free(&self, knobs: &Knobs, now: Instant) -> bool {
        !knobs.bus_pace.on() || self.free_at.load(Ordering::Relaxed) <= now.nanos()
    }

    /// Returns until when the bus is busy; [`Instant::ZERO`] for cards that do not wait for it
    /// (`nic.bus_pace`).
    pub fn busy_until(&self, knobs: &Knobs) -> Instant {
        if knobs.bus_pace.on() { Instant::from_nanos(self.free_at.load(Ordering::Relaxed)) } else { Instant::ZERO }
    }

    /// The card is stepped again, `before` was the last time: what the bus did not do until then it has not saved up.
    pub(super) fn resume(&self, knobs: &Knobs, before: Instant) {
        if knobs.bus_pace.on() {
            self.free_at.store(self.free_at.load(Ordering::Relaxed).max(before.nanos()), Ordering::Relaxed);
        }
    }

    /// Is busy for so many clocks; what is counted.
    pub(super) fn take(&self, knobs: &Knobs, clocks: u64) -> u64 {
        if Bus::model(knobs).is_none() {
            return 0;
        }
        self.occupy(knobs, clocks);
        clocks
    }

    /// Keeps a bus that is waited for busy for so many clocks. Register accesses are counted by
    /// themselves: this is all they do here.
    #[inline(always)]
    pub(super) fn occupy(&self, knobs: &Knobs, clocks: u64) {
        if knobs.bus_pace.on()
            && let Some(model) = Bus::model(knobs)
        {
            let ns = clocks * 1_000_000_000 / model.hertz();
            self.free_at.store(self.free_at.load(Ordering::Relaxed).saturating_add(ns), Ordering::Relaxed);
        }
    }
}

/// Waits as long as an access to a register takes.
#[inline(always)]
pub(super) fn wait(ns: u64) {
    if ns > 0 {
        spin(ns);
    }
}

#[inline(never)]
fn spin(ns: u64) {
    let from = clock::tsc::ticks();
    let ticks = (u128::from(ns) * u128::from(clock::tsc::hertz()) / 1_000_000_000) as u64;
    while clock::tsc::ticks().wrapping_sub(from) < ticks {
        std::hint::spin_loop();
    }
}
