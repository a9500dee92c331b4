//! `nic(wire=w):a` and `nic(wire=w):b` are the two ends of one wire: here the second finds the first.

use crate::nic::{self, End};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The wires of a process, by name.
#[derive(Debug, Default)]
pub(super) struct Wires(Mutex<HashMap<String, Ends>>);

#[derive(Debug)]
struct Ends {
    /// The nic at the first end, and its speed.
    first: (String, &'static str),
    /// The nic at the second end, or the end itself until there is one.
    second: Result<String, Box<End>>,
}

/// Why there is no end of a wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WireError {
    /// A third nic.
    Taken {
        /// The nic.
        nic: String,
        /// The wire.
        wire: String,
        /// Who is at its ends.
        ends: [String; 2],
    },
    /// The nics at its ends have different speeds.
    Differs {
        /// The nic.
        nic: String,
        /// The wire.
        wire: String,
        /// Who is at the other end.
        first: String,
        /// Its speed.
        speed: &'static str,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Taken { nic, wire, ends: [a, b] } => {
                write!(f, "nic:{nic}: wire {wire} has two ends, and {a} and {b} are at them")
            }
            WireError::Differs { nic, wire, first, speed } => {
                write!(f, "nic:{nic}: at the other end of wire {wire} {first} has speed={speed}; use the same")
            }
        }
    }
}

impl std::error::Error for WireError {}

impl Wires {
    /// An end of the wire called `wire` for `nic`.
    pub fn end(&self, wire: &str, nic: &str, speed: &'static str) -> Result<End, WireError> {
        let mut wires = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ends) = wires.get_mut(wire) else {
            let (first, second) = nic::wire(nic::WIRE_SLOTS);
            let ends = Ends { first: (nic.to_string(), speed), second: Err(Box::new(second)) };
            wires.insert(wire.to_string(), ends);
            return Ok(first);
        };
        let (wire, nic) = (wire.to_string(), nic.to_string());
        let (first, first_speed) = ends.first.clone();
        if let Ok(second) = &ends.second {
            return Err(WireError::Taken { nic, wire, ends: [first, second.clone()] });
        }
        if first_speed != speed {
            return Err(WireError::Differs { nic, wire, first, speed: first_speed });
        }
        match std::mem::replace(&mut ends.second, Ok(nic.clone())) {
            Err(end) => Ok(*end),
            Ok(second) => Err(WireError::Taken { nic, wire, ends: [first, second] }),
        }
    }

    /// Wires with one end open.
    pub fn unfinished(&self) -> Vec<String> {
        let wires = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = wires.iter().filter(|(_, ends)| ends.second.is_err()).map(|(n, _)| n.clone()).collect();
        names.sort();
        names
    }
}
