//! The time field of an F2 line.

use std::fmt;

/// 64 bits in front of a frame. On what was received: the arrival, in ticks of a counter of 48 bits. On what is to be sent: when.
///
/// ```text
/// 63      60 59       56 55      48 47                    0
/// reset      register    reserved   ticks                     zero altogether: send at once
/// ```
///
/// A tick is 8 ns (a counter of 125 MHz) unless whoever reads it was told otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Bits of the counter.
    pub const TICKS: u64 = (1 << 48) - 1;

    /// An arrival: the counter's low 48 bits.
    pub const fn arrival(ticks: u64) -> Stamp {
        Stamp(ticks & Stamp::TICKS)
    }

    /// To be sent `ticks` behind local-time register `register` (1 to 7, lower three bits taken), which is set to the
    /// present first if `reset`.
    pub const fn at(register: u8, reset: bool, ticks: u64) -> Stamp {
        Stamp((reset as u64) << 60 | (register as u64 & 7) << 56 | ticks & Stamp::TICKS)
    }

    /// The counter's value: of arrival, or behind the register.
    pub const fn ticks(self) -> u64 {
        self.0 & Stamp::TICKS
    }

    /// Which local-time register a time to send at counts from; 0 is none.
    pub const fn register(self) -> u8 {
        (self.0 >> 56) as u8 & 7
    }

    /// Is the register to be set to the present first?
    pub const fn reset(self) -> bool {
        self.0 >> 60 & 1 == 1
    }

    /// Nothing to wait for.
    pub const fn at_once(self) -> bool {
        self.0 == 0
    }
}

/// 16 upper-case digits, as in a line.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stamp({self})")
    }
}
