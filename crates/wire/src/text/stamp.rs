//! Time stamp of an F2 line.

use core::fmt;

/// Time stamp of 64 bits in front of a frame. For a received frame it is the arrival time, in ticks
/// of a 48-bit counter. For a frame to be sent, it is the time of transmission.
///
/// ```text
/// 63      60 59       56 55      48 47                    0
/// reset      register    reserved   ticks                     zero altogether: send at once
/// ```
///
/// A tick is 8 ns (a counter of 125 MHz), unless the reader is configured otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Mask of the counter's bits.
    pub const TICKS: u64 = (1 << 48) - 1;

    /// Returns the stamp of a frame that arrived at `ticks`: the counter's low 48 bits.
    pub const fn arrival(ticks: u64) -> Stamp {
        Stamp(ticks & Stamp::TICKS)
    }

    /// Returns the stamp of a frame to be sent `ticks` after the time in local-time register
    /// `register` (1 to 7, low three bits used). If `reset` is true, the register is set to the
    /// present time first.
    pub const fn at(register: u8, reset: bool, ticks: u64) -> Stamp {
        Stamp((reset as u64) << 60 | (register as u64 & 7) << 56 | ticks & Stamp::TICKS)
    }

    /// Returns the number of ticks: the arrival time, or the delay after the time in the register.
    pub const fn ticks(self) -> u64 {
        self.0 & Stamp::TICKS
    }

    /// Returns the number of the local-time register to which a transmission time is relative; 0 if
    /// none.
    pub const fn register(self) -> u8 {
        (self.0 >> 56) as u8 & 7
    }

    /// Returns whether the register must first be set to the present time.
    pub const fn reset(self) -> bool {
        self.0 >> 60 & 1 == 1
    }

    /// Returns whether the frame is to be sent at once.
    pub const fn at_once(self) -> bool {
        self.0 == 0
    }
}

/// Prints 16 upper-case hexadecimal digits, as in a line.
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
