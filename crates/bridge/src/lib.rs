//! An Ethernet bridge (IEEE 802.1Q clause 8): learns where addresses are and decides where frames go. It does no I/O and knows no port.
//!
//! ```text
//!  Bridge::input     a burst from one port, in chunks of 32:
//!    keys            both addresses read, their buckets asked for: a chunk's cache misses are under way together
//!    decide          source learned, destination looked up -> a port, all others, or a reason
//!    give            into the bursts that leave: moved to one port, copied to several, or dropped for a reason
//! ```
//!
//! [`Fdb`] is the table: bounded, aged, keyed by a secret (addresses are a stranger's). Every frame that ends here ends with a
//! [`stats::DropReason`]; [`Bridge::audit`] adds up.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

mod bridge;
mod fdb;
mod stp;

pub use bridge::{Audit, Bridge, BridgeConfig, Counts, Member};
pub use fdb::{ADDRESSES, Entry, Fdb, FdbConfig, FdbCounts, Key, Kind, Learned};
#[cfg(any(test, fuzzing))]
pub use stp::fuzz as stp_fuzz;
pub use stp::{
    Duplex, Effect, Guarded, Link, MAX_PATH_COST, MAX_UNSENT, PointToPoint, PortRole, PortState, PriorityVector, Stp,
    StpConfig, StpCounts, StpError, StpPort, StpPortView, StpVersion, StpView, Times, path_cost,
};

/// A port's place in its bridge.
pub type PortNo = u16;
/// The most ports of a bridge.
pub const MAX_PORTS: usize = 1024;
