//! Registry by which `nic(wire=w):a` and `nic(wire=w):b` become the two ends of one wire.

use crate::nic::{self, End};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Wires of a process, by name.
#[derive(Debug, Default)]
pub(super) struct Wires(Mutex<HashMap<String, Ends>>);

#[derive(Debug)]
struct Ends {
    /// Name and speed of the first nic that was attached to the wire.
    first: (String, &'static str),
    /// Name of the second nic, or the second end of the wire until that nic is opened.
    second: Result<String, Box<End>>,
}

/// Reasons why an end of a wire cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The wire already has two nics.
    Taken {
        /// Name of the nic.
        nic: String,
        /// Name of the wire.
        wire: String,
        /// The nics at the ends of the wire.
        ends: [String; 2],
    },
    /// The nics at the two ends of the wire have different speeds.
    Differs {
        /// Name of the nic.
        nic: String,
        /// Name of the wire.
        wire: String,
        /// Name of the nic at the other end.
        first: String,
        /// Speed of the nic at the other end.
        speed: &'static str,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Taken { nic, wire, ends: [a, b] } => {
                write!(f, "nic:{nic}: wire '{wire}' already connects {a} and {b}")
            }
            WireError::Differs { nic, wire, first, speed } => {
                write!(f, "nic:{nic}: {first} at the other end of wire '{wire}' has speed={speed}: use the same speed")
            }
        }
    }
}

impl std::error::Error for WireError {}

impl Wires {
    /// Returns an end of the wire called `wire` for the nic called `nic`.
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

    /// Returns the names of the wires to which only one nic is attached.
    pub fn unfinished(&self) -> Vec<String> {
        let wires = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = wires.iter().filter(|(_, ends)| ends.second.is_err()).map(|(n, _)| n.clone()).collect();
        names.sort();
        names
    }
}
