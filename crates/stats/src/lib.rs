//! What happened, counted: counters, drop reasons, the cost ledger, tracepoints; and what is to
//! happen: knobs.
//!
//! One declaration ([`counters!`], `drop_reasons!`, `stages!`, [`knobs!`]) gives the struct, the dotted name, and the sentence
//! that the documentation and `linerate netstat` print. Writers own their shard, so counting is a plain load, add and
//! store; readers sum the shards and may be a few events behind.

mod counter;
mod drops;
mod knob;
mod ledger;
mod shards;
#[cfg(test)]
mod tests;
pub mod trace;

pub use counter::{Counter, Described, Entry};
pub use drops::{DropReason, Drops, End};
pub use knob::{Knob, KnobInfo, KnobSet, OutOfRange};
pub use ledger::{Costs, Lap, Ledger, Outer, Probe, Row, Stage, StageCost, Statement};
pub use shards::Shards;
