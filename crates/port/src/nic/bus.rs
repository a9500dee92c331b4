//! Cost model of the bus between processor and card: processor time per register access, and bus
//! clocks per transfer.
//!
//! Processor time is real time, spent spinning: a register read waits for the card's answer, a
//! write only until the bus bridge accepts it. The durations were measured on an e1000 in 2005 (R.
//! Olsson, L. Buytenhek, H. Welte, `mmio_test`): reading ICR took 2100 cycles at 2.4 GHz, or 875
//! ns. An uncached access that does not go beyond the memory bridge took 490 cycles, or 204 ns. The
//! second figure is used here for a posted write.
//!
//! Bus time is counted in bus clocks of PCI-X with 64 bits, which transfers 8 bytes per clock. A
//! burst needs 4 clocks in addition to its data: an address, an attribute and a response phase, and
//! a turn-around. A read is split into request and completion, so it needs 8 additional clocks
//! (PCI-X Addendum 1.0, chapter 2). These are minimum costs, without waiting for the arbiter, so
//! the resulting rates are upper limits.

use super::settings::Settings;
use clock::Instant;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of clocks of a bus transaction that transfer no data.
const OVERHEAD: u64 = 4;
/// Number of bytes transferred per clock.
const WIDTH: u64 = 8;
/// Length of the longest transaction in bytes (default of the 8254x's maximum memory read byte
/// count, which can be set to up to 4096).
const LONGEST: u64 = 512;
/// Number of clocks of a register write, which transfers one word.
pub const REGISTER_WRITE: u64 = OVERHEAD + 1;
/// Number of clocks of a register read: request and completion.
pub const REGISTER_READ: u64 = 2 * OVERHEAD + 1;
/// Size of a descriptor in the card's layout, in bytes.
pub const DESCRIPTOR: u64 = 16;

/// Returns the number of bus clocks needed to write `bytes` bytes to memory.
pub fn write_clocks(bytes: u64) -> u64 {
    bytes.div_ceil(LONGEST) * OVERHEAD + bytes.div_ceil(WIDTH)
}

/// Returns the number of bus clocks needed to read `bytes` bytes from memory.
pub fn read_clocks(bytes: u64) -> u64 {
    bytes.div_ceil(LONGEST) * 2 * OVERHEAD + bytes.div_ceil(WIDTH)
}

/// Bus model that determines the number of clocks per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// PCI-X with 64 bits at 100 MHz: the bus used in the report bridge2004.
    PciX100,
    /// PCI-X with 64 bits at 133 MHz: the fastest bus mentioned in the report bridge2004.
    PciX133,
}

impl Model {
    /// Returns the number of clocks per second.
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

/// Bus that one or several cards share. Stores until when the bus is busy, for cards that wait for
/// it.
#[derive(Debug, Default)]
pub struct Bus {
    /// Time at which the bus becomes free, in nanoseconds of the clock with which the cards are
    /// stepped. All directions write it without locking. With two threads an update may be lost,
    /// which makes the modelled bus slightly faster.
    free_at: AtomicU64,
}

impl Bus {
    /// Returns the configured model; `None` if bus clocks are not counted.
    pub fn model(settings: &Settings) -> Option<Model> {
        match settings.bus.get() {
            1 => Some(Model::PciX100),
            2 => Some(Model::PciX133),
            _ => None,
        }
    }

    /// Returns whether the bus is free, so that the card may transfer another frame.
    pub(super) fn is_free(&self, settings: &Settings, now: Instant) -> bool {
        !settings.bus_pace.on() || self.free_at.load(Ordering::Relaxed) <= now.nanos()
    }

    /// Returns the time at which the bus becomes free; [`Instant::ZERO`] if cards do not wait for
    /// the bus (`nic.bus_pace`).
    pub fn busy_until(&self, settings: &Settings) -> Instant {
        if settings.bus_pace.on() { Instant::from_nanos(self.free_at.load(Ordering::Relaxed)) } else { Instant::ZERO }
    }

    /// If the bus became free before the previous step, at time `before`, moves the time at which
    /// it became free to `before`, so that an idle bus does not accumulate unused time.
    pub(super) fn resume(&self, settings: &Settings, before: Instant) {
        if settings.bus_pace.on() {
            self.free_at.store(self.free_at.load(Ordering::Relaxed).max(before.nanos()), Ordering::Relaxed);
        }
    }

    /// Occupies the bus for `clocks`. Returns the number of clocks to add to the counters (0
    /// without a model).
    pub(super) fn take(&self, settings: &Settings, clocks: u64) -> u64 {
        if Bus::model(settings).is_none() {
            return 0;
        }
        self.occupy(settings, clocks);
        clocks
    }

    /// Occupies the bus for `clocks`, if cards wait for the bus. Called directly for register
    /// accesses, whose clocks are counted elsewhere.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn occupy(&self, settings: &Settings, clocks: u64) {
        if settings.bus_pace.on()
            && let Some(model) = Bus::model(settings)
        {
            let ns = clocks * 1_000_000_000 / model.hertz();
            self.free_at.store(self.free_at.load(Ordering::Relaxed).saturating_add(ns), Ordering::Relaxed);
        }
    }
}

/// Waits for the duration of a register access.
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
