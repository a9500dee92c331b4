//! What an operator says about the spanning tree, held to the standard's ranges (IEEE 802.1D-2004 17.13, 17.14).

use crate::{MAX_PORTS, PortNo};
use clock::Duration;
use std::{error, fmt};
use wire::Mac;

/// Force Protocol Version (17.13.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StpVersion {
    /// 0: the Spanning Tree Protocol of 802.1D-1998, without rapid transitions.
    Stp,
    /// 2: the Rapid Spanning Tree Protocol; with a neighbor that does not know it, STP on that port alone.
    #[default]
    Rstp,
}

/// What a bridge's spanning tree is to be. Times are in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StpConfig {
    /// The bridge's address: the low 48 bits of its identifier.
    pub address: Mac,
    /// Its priority, 0 to 61440 in steps of 4096; the least is root.
    pub priority: u16,
    /// Bridge Hello Time: 1 or 2 s; with [`StpVersion::Stp`] up to 10.
    pub hello_s: u16,
    /// Bridge Max Age: 6 to 40 s.
    pub max_age_s: u16,
    /// Bridge Forward Delay: 4 to 30 s.
    pub forward_delay_s: u16,
    /// Transmit Hold Count: 1 to 10 BPDUs of a port in a second.
    pub hold_count: u16,
    /// The protocol.
    pub version: StpVersion,
    /// BPDUs of a port that are worked on in a second; of more only those count that say again what is known. At least 1.
    pub rx_limit: u32,
}

impl Default for StpConfig {
    /// Table 17-1's recommended values, and an address that is nobody's.
    fn default() -> StpConfig {
        StpConfig {
            address: Mac::ZERO,
            priority: 0x8000,
            hello_s: 2,
            max_age_s: 20,
            forward_delay_s: 15,
            hold_count: 6,
            version: StpVersion::Rstp,
            rx_limit: 64,
        }
    }
}

impl StpConfig {
    /// Table 17-1's ranges, and the relation between the times (17.14).
    pub(super) fn check(&self) -> Result<(), StpError> {
        check_priority(self.priority)?;
        let most = if self.version == StpVersion::Stp { 10 } else { 2 };
        in_range("hello_s", self.hello_s, 1, most)?;
        in_range("max_age_s", self.max_age_s, 6, 40)?;
        in_range("forward_delay_s", self.forward_delay_s, 4, 30)?;
        in_range("hold_count", self.hold_count, 1, 10)?;
        in_range("rx_limit", self.rx_limit.min(u32::from(u16::MAX)) as u16, 1, u16::MAX)?;
        let holds = 2 * (self.forward_delay_s - 1) >= self.max_age_s && self.max_age_s >= 2 * (self.hello_s + 1);
        if holds { Ok(()) } else { Err(StpError::Relation) }
    }
}

pub(super) fn check_priority(priority: u16) -> Result<(), StpError> {
    if priority.is_multiple_of(4096) { Ok(()) } else { Err(StpError::BridgePriority(priority)) }
}

fn in_range(what: &'static str, value: u16, least: u16, most: u16) -> Result<(), StpError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(StpError::Range { what, value, least, most }) }
}

/// Whether a port's LAN has two stations at most (adminPointToPointMAC, 6.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PointToPoint {
    /// If the link is full duplex.
    #[default]
    Auto,
    /// Yes.
    On,
    /// No: a shared segment.
    Off,
}

/// What is asked of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StpPort {
    /// 0 to 240 in steps of 16; the least is preferred.
    pub priority: u8,
    /// 1 to 200,000,000; none: by the link's speed (table 17-3).
    pub path_cost: Option<u32>,
    /// AdminEdge (17.13.1): taken for an edge from the start; a BPDU shows otherwise.
    pub edge: bool,
    /// AutoEdge (17.13.3): an edge if nobody sends BPDUs.
    pub auto_edge: bool,
    /// Two stations or more.
    pub point_to_point: PointToPoint,
    /// A BPDU disables the port.
    pub bpdu_guard: bool,
    /// After what time it is enabled again; none: when somebody says so ([`Stp::reenable`](super::Stp::reenable)).
    pub guard_recovery: Option<Duration>,
    /// Never becomes root port, however good what is said there (802.1Q restrictedRole): it discards then.
    pub root_guard: bool,
    /// A port whose designated bridge falls silent discards, rather than take its place.
    pub loop_guard: bool,
    /// Neither sends BPDUs nor hears any. A loop through such a port is nobody's to find.
    pub bpdu_filter: bool,
}

impl Default for StpPort {
    fn default() -> StpPort {
        StpPort {
            priority: 128,
            path_cost: None,
            edge: false,
            auto_edge: true,
            point_to_point: PointToPoint::Auto,
            bpdu_guard: false,
            guard_recovery: None,
            root_guard: false,
            loop_guard: false,
            bpdu_filter: false,
        }
    }
}

impl StpPort {
    pub(super) fn check(&self) -> Result<(), StpError> {
        if !self.priority.is_multiple_of(16) {
            return Err(StpError::PortPriority(self.priority));
        }
        match self.path_cost {
            Some(cost) if cost == 0 || cost > MAX_PATH_COST => Err(StpError::PathCost(cost)),
            _ => Ok(()),
        }
    }
}

/// How a port's link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Nothing is carried.
    Down,
    /// Frames are carried.
    Up {
        /// One direction at a time, or both.
        duplex: Duplex,
        /// In kilobits per second; 0: not known, taken for 10 Gb/s.
        speed_kbps: u64,
    },
}

/// How a link's directions share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplex {
    /// A shared segment, perhaps.
    Half,
    /// Two stations.
    Full,
}

/// The most that a port's path may cost (17.13.11).
pub const MAX_PATH_COST: u32 = 200_000_000;

/// Table 17-3: 20,000,000,000 by the speed in kb/s; 200,000,000 at 100 kb/s and below.
pub fn path_cost(speed_kbps: u64) -> u32 {
    let speed = if speed_kbps == 0 { 10_000_000 } else { speed_kbps };
    (20_000_000_000 / speed).clamp(1, u64::from(MAX_PATH_COST)) as u32
}

/// Why a configuration is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StpError {
    /// A bridge's priority is no multiple of 4096.
    BridgePriority(u16),
    /// A port's priority is no multiple of 16.
    PortPriority(u8),
    /// A path's cost is 0 or more than 200,000,000.
    PathCost(u32),
    /// A value outside its range (table 17-1).
    Range {
        /// Which.
        what: &'static str,
        /// As it was given.
        value: u16,
        /// The least it may be.
        least: u16,
        /// The most.
        most: u16,
    },
    /// The times do not go together (17.14).
    Relation,
    /// More ports than a bridge may have.
    TooManyPorts,
    /// There is such a port.
    Exists(PortNo),
    /// There is no such port.
    NoPort(PortNo),
}

impl fmt::Display for StpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StpError::BridgePriority(found) => write!(f, "bridge priority {found} is not a multiple of 4096"),
            StpError::PortPriority(found) => write!(f, "port priority {found} is not a multiple of 16"),
            StpError::PathCost(found) => write!(f, "path cost {found} is not within 1 and {MAX_PATH_COST}"),
            StpError::Range { what, value, least, most } => {
                write!(f, "{what} is {value}, not within {least} and {most}")
            }
            StpError::Relation => f.write_str(
                "the times do not go together: 2 * (forward delay - 1) >= max age >= 2 * (hello + 1) must hold",
            ),
            StpError::TooManyPorts => write!(f, "a bridge has {MAX_PORTS} ports at most"),
            StpError::Exists(port) => write!(f, "port {port} takes part already"),
            StpError::NoPort(port) => write!(f, "port {port} takes no part"),
        }
    }
}

impl error::Error for StpError {}
