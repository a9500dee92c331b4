//! Types of the figures that another thread, such as a server of metrics, requests of running hosts
//! and switches.
//!
//! Only the thread that runs a node reads its state. Another thread requests the [`Figures`] of all
//! nodes from a [`Collector`]; the thread of each node answers between two of its rounds, with
//! names and values, of which the other thread makes text.

mod collector;

use stats::{Entry, StageCost};

/// Collector of the figures of all nodes of a process.
pub type Collector = collector::Collector<Figures>;

/// Figures of the nodes, as answers to one request.
pub type Collected = collector::Collected<Figures>;

/// End of a node's connection with its collector.
pub type Source = collector::Source<Figures>;

/// State of a host or switch at an instant. Counters count from its start.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Name of the host or switch.
    pub node: String,
    /// Counters of the stack or bridge, among them one for each reason of drops
    /// ([`stats::DropReason`]).
    pub counters: Vec<Entry>,
    /// Frames that are not accounted for. It is 0 if no frame is being processed.
    pub unaccounted: i64,
    /// The ports. A port with several queues has an item for each.
    pub ports: Vec<PortFigures>,
    /// Buffers in use, and all buffers of the pool.
    pub pool: [u64; 2],
    /// Numbers of IPv4 and IPv6 routes; `None` for a switch.
    pub routes: Option<[u64; 2]>,
    /// Numbers of neighbors by state, in the order of [`NEIGHBOR_STATES`], of IPv4 and IPv6; `None`
    /// for a switch.
    pub neighbors: Option<[[u64; 5]; 2]>,
    /// Numbers of TCP connections by state, in the order of [`TCP_STATES`]; `None` for a switch.
    pub connections: Option<[u64; 11]>,
    /// Number of known addresses; `None` for a host.
    pub addresses: Option<u64>,
    /// Ticks and frames by stage of the path, while the cost ledger is on.
    pub stages: Vec<StageCost>,
}

/// Counters and state of a port.
#[derive(Clone, Debug)]
pub struct PortFigures {
    /// Name of the port's iface or member.
    pub name: String,
    /// Counters of the receiving and of the transmitting direction.
    pub counters: Vec<Entry>,
    /// True if the link is up.
    pub is_up: bool,
}

/// Names of the states of neighbor entries.
pub const NEIGHBOR_STATES: [&str; 5] = ["incomplete", "reachable", "stale", "probe", "permanent"];

/// Names of the states of TCP connections (RFC 9293 3.3.2), with `listen` for listeners.
pub const TCP_STATES: [&str; 11] = [
    "listen",
    "syn_sent",
    "syn_received",
    "established",
    "fin_wait_1",
    "fin_wait_2",
    "close_wait",
    "closing",
    "last_ack",
    "time_wait",
    "closed",
];
