//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Statistics: counters, drop reasons, the cost ledger (CPU ticks by processing stage),
//! tracepoints, and sysctls.
//!
//! One declaration ([`counters!`], `drop_reasons!`, `stages!`, [`sysctls!`]) gives the struct, the
//! dotted name, and the description that the documentation and `linerate netstat` print. Each
//! thread that writes owns a copy of the counters (a shard), so counting is a plain load, add and
//! store. Readers sum the shards and may lag a few events behind.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

mod counter;
mod drops;
pub mod hint;
#[cfg(feature = "std")]
mod ledger;
#[cfg(feature = "std")]
mod shards;
mod sysctl;
#[cfg(test)]
mod tests;
pub mod trace;

pub use counter::{Counter, Described, Entry, entries};
pub use drops::{DropReason, Drops, End};
#[cfg(feature = "std")]
pub use ledger::{
    Costs, Lap, Ledger, Outer, Probe, Row, SAMPLED, STAGE_BOUNDS_NS, Stage, StageCost, StageTimes, Statement,
};
#[cfg(feature = "std")]
pub use shards::Shards;
pub use sysctl::{OutOfRange, Sysctl, SysctlInfo, SysctlSet};
