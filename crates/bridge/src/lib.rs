//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Ethernet bridge (IEEE 802.1Q clause 8): learns addresses and forwards frames, optionally by
//! VLAN. Does no I/O and is independent of the port types.
//!
//! ```text
//!  Bridge::input     a burst from one port, in chunks of 32:
//!    keys            read both addresses, prefetch their buckets: the cache misses overlap
//!    decide          learn the source, look up the destination -> a port, all others,
//!                    the bridge itself, or a drop reason
//!    give            add to the outgoing bursts: moved to one port, copied to several, or dropped
//!      flood         storm control, snooping, flood settings of each port
//!  or, with VLANs, port states or rules (chosen per burst), frame by frame:
//!    check           state, VLAN, rules, learn the source, look up the destination
//!    give            as above, with the tag and the egress rules of each port
//! ```
//!
//! [`Fdb`] is the forwarding table. It is bounded and its entries expire. Its hash has a secret
//! key, because remote hosts choose the addresses. Every dropped frame is counted by its
//! [`stats::DropReason`]; [`Audit::holds`] checks that the totals of [`Bridge::audit`] balance.
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
    Action, Admit, Audit, BadVlans, Bridge, BridgeConfig, Buckets, Carrier, Counts, Direction, EventKind, GroupMessage,
    Leave, Listener, Local, MAX_RULES, MOST_VLANS, MdbPage, Member, Move, Mute, PortState, PortVlan, Querier, Query,
    Rate, Reserved, RouterPort, Rule, RuleCounts, Rules, Running, SnoopConfig, SnoopCounts, SnoopPort, Stacked, Storm,
    SyncEvent, Unknown, VlanSet,
};
pub use fdb::{ADDRESSES, Cursor, Entry, Fdb, FdbConfig, FdbCounts, Key, Kind, Learned, Page};
#[cfg(any(test, fuzzing))]
pub use stp::fuzz as stp_fuzz;
pub use stp::{
    Duplex, Effect, Guarded, Link, MAX_PATH_COST, MAX_UNSENT, PointToPoint, PortRole, PriorityVector, Stp, StpConfig,
    StpCounts, StpError, StpPort, StpPortView, StpVersion, StpView, Times, path_cost,
};

/// Number of a port in its bridge.
pub type PortNo = u16;
/// Port number that represents the bridge itself.
pub const LOCAL: PortNo = PortNo::MAX;
/// Maximum number of ports of a bridge.
pub const MAX_PORTS: usize = 1024;
