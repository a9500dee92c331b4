//! Cost ledger (CPU ticks by processing stage) of a switch: switched on and off, and read.

use super::Switch;
use clock::tsc;
use stats::Costs;

/// Ticks by stage of the packet path, spent in the loops and, as a part of them, in the ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchCosts {
    /// Ticks of the loops, by stage.
    pub loops: Costs,
    /// Ticks of `loops` that were spent inside ports, by stage.
    pub ports: Costs,
}

impl Switch {
    /// Switches the accounting on or off. Existing sums are not reset.
    pub fn set_ledger(&self, on: bool) {
        let now = tsc::ticks();
        self.each_thread(|thread| thread.ledger.set_on(on, now));
        self.members().iter().flat_map(|(_, info)| &info.queues).for_each(|queue| queue.counts.ledger.set_on(on, now));
    }

    /// Returns the sums over all threads and members.
    pub fn costs(&self) -> SwitchCosts {
        let (now, mut loops) = (tsc::ticks(), Costs::default());
        self.each_thread(|thread| loops.add(&Costs::of([&thread.ledger], now)));
        let members = self.members();
        let ports = members.iter().flat_map(|(_, info)| &info.queues).map(|queue| &queue.counts.ledger);
        SwitchCosts { ports: Costs::of(ports, now), loops }
    }
}
