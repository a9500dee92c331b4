//! Counters of this project's hosts and of the process during a play.

use dispatch::netisr::WorkRow;
use lock::Locks;
use node::Host;
use std::collections::BTreeMap;

/// Counters of a host's netisr.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dispatched {
    /// Frames processed directly by the thread that took them from the port.
    pub directly: u64,
    /// Frames put into a workstream's queue.
    pub queued: u64,
    /// Frames dropped because the workstream's queue was full.
    pub refused: u64,
    /// Number of wake-ups of workstream threads.
    pub wakeups: u64,
}

/// Counters summed over all hosts of this project.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Observed {
    /// Netisr counters of the judged host.
    pub netisr: Dispatched,
    /// Counters by name, as in `show counters`.
    pub counters: BTreeMap<String, u64>,
    /// Context switches of the whole process during the play: voluntary, involuntary.
    pub switches: [u64; 2],
    /// Cost ledger by stage: (ticks, units). Empty if the ledger was off.
    pub stages: BTreeMap<&'static str, (u64, u64)>,
}

impl Observed {
    /// Returns the counters of `host` since it was built; the caller fills in
    /// [`Observed::switches`].
    pub fn of<L: Locks>(host: &Host<L>) -> Observed {
        let counters = host.stack.snapshot().into_iter().map(|entry| (entry.name, entry.value)).collect();
        let costs = host.stack.ledger();
        let stages = costs.stages.iter().map(|cost| (cost.stage.word(), (cost.ticks, cost.units))).collect();
        Observed { netisr: dispatched(host), counters, stages, switches: [0; 2] }
    }

    /// Adds the counters of another host.
    pub fn add(&mut self, other: &Observed) {
        let (to, from) = (&mut self.netisr, &other.netisr);
        to.directly += from.directly;
        to.queued += from.queued;
        to.refused += from.refused;
        to.wakeups += from.wakeups;
        for (to, from) in self.switches.iter_mut().zip(other.switches) {
            *to += from;
        }
        for (name, count) in &other.counters {
            *self.counters.entry(name.clone()).or_default() += count;
        }
        for (stage, (ticks, units)) in &other.stages {
            let sum = self.stages.entry(stage).or_default();
            *sum = (sum.0 + ticks, sum.1 + units);
        }
    }
}

fn dispatched<L: Locks>(host: &Host<L>) -> Dispatched {
    let Some(seen) = host.isr_seen() else { return Dispatched::default() };
    let sum = |pick: fn(&WorkRow) -> u64| seen.work.iter().map(pick).sum();
    Dispatched {
        directly: sum(|row| row.dispatched + row.hybrid_dispatched),
        queued: sum(|row| row.queued),
        refused: sum(|row| row.qdrops),
        wakeups: seen.wakeups,
    }
}
