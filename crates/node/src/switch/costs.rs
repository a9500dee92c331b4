//! Methods that switch the cost ledger (CPU ticks by processing stage) of a switch on and off, and
//! that read it.

use super::Switch;
use clock::tsc;
use stats::{Costs, StageTimes};

/// CPU ticks of a switch by stage of the packet path: all ticks of the loops, and the part of them
/// that was spent in ports.
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
        let hertz = if on { tsc::hertz() } else { 0 }; // the first call takes 10 ms
        let now = tsc::ticks();
        self.each_thread(|thread| thread.ledger.set_on_with_times(on, now, hertz));
        self.members().iter().flat_map(|(_, info)| &info.queues).for_each(|queue| queue.counts.ledger.set_on(on, now));
    }

    /// Returns the sums over all threads, by stage, and histograms of the time of each stage for
    /// each frame, from a sample.
    pub(crate) fn loop_costs(&self) -> (Costs, Vec<StageTimes>) {
        let (now, mut costs, mut times) = (tsc::ticks(), Costs::default(), Vec::new());
        self.each_thread(|thread| {
            costs.add(&Costs::of([&thread.ledger], now));
            StageTimes::add_all(&mut times, &thread.ledger);
        });
        (costs, times)
    }

    /// Returns the sums over all threads and members.
    pub fn costs(&self) -> SwitchCosts {
        let (now, (loops, _)) = (tsc::ticks(), self.loop_costs());
        let members = self.members();
        let ports = members.iter().flat_map(|(_, info)| &info.queues).map(|queue| &queue.counts.ledger);
        SwitchCosts { ports: Costs::of(ports, now), loops }
    }
}
