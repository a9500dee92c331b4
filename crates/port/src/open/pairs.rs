//! `pair:a` opened twice in one process gives the two ends of one pair: here the second finds the first. So with the queues of a TAP.

use super::wires::Wires;
use crate::spec::Layer;
use crate::tap::Queues;
use crate::{Caps, Port, pair};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The pairs of a process, by name, its TAP devices of several queues and the wires between its nics. A pair's name and a wire's stay taken,
/// also when their ends are gone.
#[derive(Debug, Default)]
pub struct Pairs {
    ends: Mutex<HashMap<String, Ends>>,
    queues: Queues,
    wires: Wires,
}

#[derive(Debug)]
struct Ends {
    /// What the first end asked for.
    layer: Layer,
    /// The second end, until it is asked for.
    second: Option<Port>,
}

/// Why there is no end of a pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PairError {
    /// Both ends have been opened.
    Taken(String),
    /// The second end was opened with other options than the first.
    Differs {
        /// The pair's name.
        name: String,
        /// How the first end was opened.
        first: String,
    },
}

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairError::Taken(name) => write!(f, "pair:{name}: both ends are open already"),
            PairError::Differs { name, first } => {
                write!(f, "pair:{name}: the other end was opened as {first}:{name}; use the same options, or none")
            }
        }
    }
}

impl std::error::Error for PairError {}

impl Pairs {
    /// No pairs.
    pub fn new() -> Pairs {
        Pairs::default()
    }

    /// The TAP devices of several queues.
    pub(super) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// The first end of a new pair, or the second of one that is there.
    pub(super) fn open(&self, name: &str, layer: &Layer, caps: Caps) -> Result<Port, PairError> {
        let mut pairs = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ends) = pairs.get_mut(name) else {
            let slots = usize::try_from(layer.count("slots")).unwrap_or(1);
            let (first, second) = pair::pair(name, slots, caps);
            pairs.insert(name.to_string(), Ends { layer: layer.clone(), second: Some(second) });
            return Ok(first);
        };
        if layer.options().next().is_some() && *layer != ends.layer {
            return Err(PairError::Differs { name: name.to_string(), first: ends.layer.to_string() });
        }
        ends.second.take().ok_or_else(|| PairError::Taken(name.to_string()))
    }

    pub(super) fn wires(&self) -> &Wires {
        &self.wires
    }

    /// Names of wires that only one nic is at: the same for them.
    pub fn unfinished_wires(&self) -> Vec<String> {
        self.wires.unfinished()
    }

    /// Names of pairs of which one end has not been opened: wired wrongly, if the configuration is complete.
    pub fn unfinished(&self) -> Vec<String> {
        let pairs = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> =
            pairs.iter().filter(|(_, ends)| ends.second.is_some()).map(|(n, _)| n.clone()).collect();
        names.sort();
        names
    }
}
