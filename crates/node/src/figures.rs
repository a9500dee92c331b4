//! Types of the figures that another thread, such as a server of metrics, requests of running hosts
//! and switches.
//!
//! Only the thread that runs a node reads its state. Another thread requests the [`Figures`] of all
//! nodes from a [`Collector`]; the thread of each node answers between two of its rounds, with
//! names and values, of which the other thread makes text.

mod collector;

use crate::fpm::FpmStatus;
use dispatch::netisr::WorkRow;
use stats::{Counter, Entry, StageCost, StageTimes};

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
    /// State of the connection with a routing engine; `None` if the node accepts none. Its counters
    /// are among [`Figures::counters`].
    pub fpm: Option<FpmStatus>,
    /// Numbers of neighbors by state, in the order of [`NEIGHBOR_STATES`], of IPv4 and IPv6; `None`
    /// for a switch.
    pub neighbors: Option<[[u64; 5]; 2]>,
    /// Numbers of TCP connections by state, in the order of [`TCP_STATES`]; `None` for a switch.
    pub connections: Option<[u64; 11]>,
    /// Histogram of round-trip times; `None` for a switch.
    pub rtt: Option<RttFigures>,
    /// Number of known addresses; `None` for a host.
    pub addresses: Option<u64>,
    /// Queues of netisr by workstream and protocol, as `netstat -Q` shows them. A stack of a split
    /// host has its own workstream only. Empty for a switch.
    pub isr: Vec<WorkRow>,
    /// Names of the stacks of a split host, with the numbers of frames that its dispatcher has
    /// queued for them. Empty for all other nodes.
    pub dispatched: Vec<(String, u64)>,
    /// Ticks and frames by stage of the path, while the cost ledger is on.
    pub stages: Vec<StageCost>,
    /// Histograms of the time of a stage for each frame, in a sample, while the cost ledger is on.
    pub stage_times: Vec<StageTimes>,
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
    /// Bits per second of the link when the port was opened; `None` if it is unknown.
    pub speed: Option<u64>,
}

/// Upper bounds of the buckets of [`RttHistogram`] in microseconds, each four times the preceding
/// one. A further bucket has the longer times.
pub const RTT_BOUNDS_US: [u64; 9] = [100, 400, 1600, 6400, 25_600, 102_400, 409_600, 1_638_400, 6_553_600];

/// Histogram of the smoothed round-trip times of TCP connections. Each request for figures adds one
/// sample for each connection that has measured its time.
#[derive(Debug, Default)]
pub struct RttHistogram {
    buckets: [Counter; RTT_BOUNDS_US.len() + 1],
    sum_us: Counter,
}

impl RttHistogram {
    /// Adds a sample, in microseconds. Only one thread adds samples.
    pub fn add(&self, us: u64) {
        let at = RTT_BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets.get(at).into_iter().for_each(Counter::bump);
        self.sum_us.add(us);
    }

    /// Returns the current values.
    pub fn figures(&self) -> RttFigures {
        RttFigures { buckets: self.buckets.each_ref().map(Counter::get), sum_us: self.sum_us.get() }
    }
}

/// Values of an [`RttHistogram`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RttFigures {
    /// Numbers of samples by bucket.
    pub buckets: [u64; RTT_BOUNDS_US.len() + 1],
    /// Sum of the samples in microseconds.
    pub sum_us: u64,
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
