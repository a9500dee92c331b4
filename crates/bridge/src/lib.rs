//! An Ethernet bridge (IEEE 802.1Q clause 8): learns where addresses are and decides where frames go, by VLAN if asked. It does no I/O and knows no port.
//!
//! ```text
//!  Bridge::input     a burst from one port, in chunks of 32:
//!    keys            both addresses read, their buckets asked for: a chunk's cache misses are under way together
//!    decide          source learned, destination looked up -> a port, all others, the bridge itself, or a reason
//!    give            into the bursts that leave: moved to one port, copied to several, or dropped for a reason
//!      flood         storm control, snooping, the switches of each port
//!  or, where VLANs, states of ports or rules have a say (Bridge knows at the burst), frame by frame:
//!    check           state, VLAN, rules, source learned, destination looked up
//!    give            the same, with the tag as each port has it, and that port's rules
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
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod stp;

pub use bridge::{
    About, Action, Admit, Audit, BadVlans, Bridge, BridgeConfig, Buckets, Carrier, Counts, Direction, Leave, Listener,
    Local, MAX_RULES, MOST_VLANS, MdbPage, Member, Move, Mute, News, PortState, PortVlan, Querier, Query, Rate,
    Reserved, RouterPort, Rule, RuleCounts, Rules, Running, Said, SnoopConfig, SnoopCounts, SnoopPort, Stacked, Storm,
    Unknown, VlanSet,
};
pub use fdb::{ADDRESSES, Cursor, Entry, Fdb, FdbConfig, FdbCounts, Key, Kind, Learned, Page};
#[cfg(any(test, fuzzing))]
pub use stp::fuzz as stp_fuzz;
pub use stp::{
    Duplex, Effect, Guarded, Link, MAX_PATH_COST, MAX_UNSENT, PointToPoint, PortRole, PriorityVector, Stp, StpConfig,
    StpCounts, StpError, StpPort, StpPortView, StpVersion, StpView, Times, path_cost,
};

/// A port's place in its bridge.
pub type PortNo = u16;
/// In the place of a port: the bridge itself.
pub const LOCAL: PortNo = PortNo::MAX;
/// The most ports of a bridge.
pub const MAX_PORTS: usize = 1024;
