//! Congestion control: how much data may be in flight.
//!
//! The TCP core reports acknowledgments and losses to an implementation of [`Congestion`], which
//! returns a window in bytes. During recovery, proportional rate reduction (`recovery`) sets the
//! window, not the algorithm. [`Control`] stores the algorithm in use by value, so that it needs no
//! allocation and a call is a predictable branch instead of a virtual call.

mod congestion;
pub mod cubic;
pub mod hystart;
pub mod newreno;

use alloc::borrow::ToOwned;
use alloc::string::String;
use clock::{Duration, Instant};
use core::fmt;
use core::str::FromStr;

pub use congestion::{Ack, Congestion, Signal};
pub use cubic::Cubic;
pub use newreno::NewReno;

/// Congestion control algorithm of a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Algorithm {
    /// NewReno (RFC 5681, RFC 6582).
    #[default]
    NewReno,
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    Cubic,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 2] = [Algorithm::NewReno, Algorithm::Cubic];

    /// Returns the name used by `TCP_CONGESTION`.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::NewReno => "reno",
            Algorithm::Cubic => "cubic",
        }
    }
}

/// Error: the given name denotes no congestion control algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownAlgorithm(pub String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown congestion control '{}': expected reno (or newreno) or cubic", self.0)
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;
    /// Accepts Linux's names of the algorithms, and FreeBSD's `newreno`.
    fn from_str(word: &str) -> Result<Algorithm, UnknownAlgorithm> {
        match word {
            "reno" | "newreno" => Ok(Algorithm::NewReno),
            "cubic" => Ok(Algorithm::Cubic),
            other => Err(UnknownAlgorithm(other.to_owned())),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// State of the congestion control algorithm in use.
#[derive(Clone, Debug)]
pub enum Control {
    /// NewReno (RFC 5681, RFC 6582).
    NewReno(NewReno),
    /// CUBIC (RFC 9438).
    Cubic(Cubic),
}

impl Control {
    /// Creates the initial state of `algorithm` with a window of `initial_window` bytes.
    pub fn new(algorithm: Algorithm, mss: u16, initial_window: u32) -> Control {
        match algorithm {
            Algorithm::NewReno => Control::NewReno(NewReno::new(mss, initial_window)),
            Algorithm::Cubic => Control::Cubic(Cubic::new(mss, initial_window)),
        }
    }
}

macro_rules! each {
    ($self:expr, $inner:ident => $what:expr) => {
        match $self {
            Control::NewReno($inner) => $what,
            Control::Cubic($inner) => $what,
        }
    };
}

impl Congestion for Control {
    #[inline]
    fn on_ack(&mut self, ack: &Ack, now: Instant) {
        each!(self, inner => inner.on_ack(ack, now));
    }

    fn on_congestion(&mut self, in_flight: u32, why: Signal, now: Instant) {
        each!(self, inner => inner.on_congestion(in_flight, why, now));
    }

    fn on_recovery_exit(&mut self, now: Instant) {
        each!(self, inner => inner.on_recovery_exit(now));
    }

    fn on_rto(&mut self, in_flight: u32, first: bool, now: Instant) {
        each!(self, inner => inner.on_rto(in_flight, first, now));
    }

    fn undo(&mut self) {
        each!(self, inner => inner.undo());
    }

    fn on_idle_restart(&mut self, idle: Duration, rto: Duration) {
        each!(self, inner => inner.on_idle_restart(idle, rto));
    }

    #[inline]
    fn cwnd(&self) -> u32 {
        each!(self, inner => inner.cwnd())
    }

    #[inline]
    fn ssthresh(&self) -> u32 {
        each!(self, inner => inner.ssthresh())
    }

    fn set_cwnd(&mut self, cwnd: u32) {
        each!(self, inner => inner.set_cwnd(cwnd));
    }

    fn set_mss(&mut self, mss: u16) {
        each!(self, inner => inner.set_mss(mss));
    }

    fn pacing_gain(&self) -> u32 {
        each!(self, inner => inner.pacing_gain())
    }

    fn name(&self) -> &'static str {
        each!(self, inner => inner.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_are_named_as_the_socket_option_spells_them() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
            assert_eq!(Control::new(algorithm, 1460, 14_600).name(), algorithm.to_string());
        }
        assert_eq!("newreno".parse(), Ok(Algorithm::NewReno));
        assert!("vegas".parse::<Algorithm>().unwrap_err().to_string().contains("reno (or newreno) or cubic"));
    }

    #[test]
    fn all_algorithms_in_one_small_value() {
        assert!(size_of::<Control>() <= 144, "{}", size_of::<Control>());
    }
}
