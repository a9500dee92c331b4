//! Registry of the pairs of a process. When `pair:a` is opened for the first time, a pair is
//! created and one end is returned. The second time, the other end is returned. The registry also
//! contains multi-queue TAP devices and wires.

use super::wires::Wires;
use crate::spec::Layer;
#[cfg(target_os = "linux")]
use crate::tap::Queues;
use crate::{Caps, Port, PortCounts, pair};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The pairs of a process by name, its multi-queue TAP devices, and the wires between its nics. The
/// name of a pair can be used again once its ends are closed. The name of a wire cannot.
#[derive(Debug, Default)]
pub struct Pairs {
    ends: Mutex<HashMap<String, Ends>>,
    #[cfg(target_os = "linux")]
    queues: Queues,
    wires: Wires,
}

#[derive(Debug)]
struct Ends {
    /// Options with which the first end was opened.
    layer: Layer,
    /// The second end; `None` once a caller has opened it.
    second: Option<Port>,
    /// Counters of both ends, which exist as long as the ends are open.
    counts: [Weak<PortCounts>; 2],
}

impl Ends {
    /// Returns whether no caller has an end of the pair any more.
    fn is_closed(&self) -> bool {
        let [first, second] = &self.counts;
        first.strong_count() == 0 && (self.second.is_some() || second.strong_count() == 0)
    }
}

/// Reasons why an end of a pair cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PairError {
    /// Both ends have been opened already.
    Taken(String),
    /// The second end was requested with options that differ from those of the first end.
    Differs {
        /// Name of the pair.
        name: String,
        /// Spec of the first end.
        first: String,
    },
}

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairError::Taken(name) => write!(f, "pair:{name}: both ends are already open"),
            PairError::Differs { name, first } => {
                write!(f, "pair:{name}: the other end was opened as {first}:{name}; use the same options, or none")
            }
        }
    }
}

impl std::error::Error for PairError {}

impl Pairs {
    /// Creates an empty registry.
    pub fn new() -> Pairs {
        Pairs::default()
    }

    /// Returns the multi-queue TAP devices.
    #[cfg(target_os = "linux")]
    pub(super) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Opens the first end of a new pair, or the second end of an existing pair.
    pub(super) fn open(&self, name: &str, layer: &Layer, caps: Caps) -> Result<Port, PairError> {
        let mut pairs = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ends) = pairs.get_mut(name).filter(|ends| !ends.is_closed()) else {
            pairs.retain(|_, ends| !ends.is_closed());
            let slots = usize::try_from(layer.count("slots")).unwrap_or(1);
            let (first, second) = pair::pair(name, slots, caps);
            let counts = [&first, &second].map(|end| Arc::downgrade(&end.counts));
            pairs.insert(name.to_string(), Ends { layer: layer.clone(), second: Some(second), counts });
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

    /// Returns the names of the wires to which only one nic is attached.
    pub fn unfinished_wires(&self) -> Vec<String> {
        self.wires.unfinished()
    }

    /// Returns the names of the pairs of which only one end was opened. This is an error once the
    /// whole configuration has been read.
    pub fn unfinished(&self) -> Vec<String> {
        let pairs = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = pairs
            .iter()
            .filter(|(_, ends)| ends.second.is_some() && !ends.is_closed())
            .map(|(n, _)| n.clone())
            .collect();
        names.sort();
        names
    }
}
