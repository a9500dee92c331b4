//! Counters of the dispatcher of a split host.

use stats::{Counter, Described, Entry};
use std::sync::{Mutex, PoisonError};
use wire::flow::whose::Fragments;

stats::counters! {
    /// Counters of the dispatcher of a split host.
    pub struct DispatchCounts at "node.split" {
        /// Frames received from ports.
        received,
        /// Copies of frames created for all stacks.
        copied,
        /// Copies not created: the pool was empty.
        not_copied,
        /// Frames dropped: the queue of their stack was full.
        queue_full,
        /// Frames received from stacks.
        taken,
        /// Frames sent to ports.
        sent,
        /// Frames still queued when the host shut down.
        shutdown,
    }
}

/// State of fragmented packets. Counts fragments that arrived before the first fragment of their
/// packet, which may go to the wrong stack. This counter is not part of [`DispatchCounts`], because
/// only the dispatcher's loop writes to `DispatchCounts`.
#[derive(Debug, Default)]
pub(crate) struct Strays(Mutex<Fragments>);

impl Strays {
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Fragments) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of fragments that arrived before the first fragment of their packet.
    pub(crate) fn count(&self) -> u64 {
        self.with(|fragments| fragments.strays)
    }
}

/// Adds to a counter that only one thread changes.
pub(super) fn add(counter: &Counter, n: usize) {
    counter.add(n as u64);
}

/// Returns all counters of the dispatcher with their descriptions.
pub(crate) fn entries(dispatched: &DispatchCounts, strays: &Strays) -> Vec<Entry> {
    let mut out = Vec::new();
    dispatched.visit(&mut |prefix, field, sentence, value| {
        out.push(Entry { name: format!("{prefix}.{field}"), sentence, value });
    });
    let sentence = "Fragments received before the first fragment of their packet: dispatched by their addresses.";
    out.push(Entry { name: "node.split.strays".to_owned(), sentence, value: strays.count() });
    out
}
