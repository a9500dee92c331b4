//! The cost ledger of a switch: switched on and off, and read.

use super::Switch;
use clock::tsc;
use stats::Costs;

/// Ticks by stage, of loops and of the ports' own parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchCosts {
    /// Stages of the loops.
    pub loops: Costs,
    /// Parts of those, as ports book them.
    pub ports: Costs,
}

impl Switch {
    /// Begins to book what each stage costs, or ends it. What was booked stays.
    pub fn set_ledger(&self, on: bool) {
        let now = tsc::ticks();
        self.each_lane(|lane| lane.ledger.set_on(on, now));
        self.members().iter().flat_map(|(_, info)| &info.queues).for_each(|queue| queue.counts.ledger.set_on(on, now));
    }

    /// What was booked, over all lanes and members.
    pub fn costs(&self) -> SwitchCosts {
        let (now, mut loops) = (tsc::ticks(), Costs::default());
        self.each_lane(|lane| loops.add(&Costs::of([&lane.ledger], now)));
        let members = self.members();
        let ports = members.iter().flat_map(|(_, info)| &info.queues).map(|queue| &queue.counts.ledger);
        SwitchCosts { ports: Costs::of(ports, now), loops }
    }
}
