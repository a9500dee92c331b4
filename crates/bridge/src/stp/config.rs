//! Spanning tree configuration, checked against the ranges of the standard (IEEE 802.1D-2004 17.13,
//! 17.14).

use crate::{MAX_PORTS, PortNo};
use clock::Duration;
use std::{error, fmt};
use wire::Mac;

/// Protocol version to use (Force Protocol Version, 802.1D 17.13.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StpVersion {
    /// Version 0: the Spanning Tree Protocol of 802.1D-1998, without rapid transitions.
    Stp,
    /// Version 2: the Rapid Spanning Tree Protocol, and STP on ports whose neighbor does not
    /// support it.
    #[default]
    Rstp,
}

impl StpVersion {
    /// Returns the version called `word`, `rstp` or `stp`; `None` for other words.
    pub fn named(word: &str) -> Option<StpVersion> {
        match word {
            "rstp" => Some(StpVersion::Rstp),
            "stp" => Some(StpVersion::Stp),
            _ => None,
        }
    }

    /// Returns the word for this version that [`StpVersion::named`] accepts.
    pub fn word(self) -> &'static str {
        match self {
            StpVersion::Stp => "stp",
            StpVersion::Rstp => "rstp",
        }
    }
}

/// Spanning tree configuration of a bridge. Times are in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StpConfig {
    /// MAC address of the bridge: the low 48 bits of its identifier.
    pub address: Mac,
    /// Bridge priority, 0 to 61440 in steps of 4096. The bridge with the lowest priority becomes
    /// root.
    pub priority: u16,
    /// Bridge Hello Time: 1 or 2 s; with [`StpVersion::Stp`] up to 10.
    pub hello_s: u16,
    /// Bridge Max Age: 6 to 40 s.
    pub max_age_s: u16,
    /// Bridge Forward Delay: 4 to 30 s.
    pub forward_delay_s: u16,
    /// Transmit Hold Count: maximum number of BPDUs that a port sends in a second, 1 to 10.
    pub hold_count: u16,
    /// Spanning tree protocol version.
    pub version: StpVersion,
    /// Maximum number of BPDUs processed per second and port, at least 1. BPDUs over the limit have
    /// an effect only if they repeat known information.
    pub rx_limit: u32,
}

impl Default for StpConfig {
    /// Returns the recommended values of 802.1D table 17-1, and an all-zero address.
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
    /// Checks the ranges of 802.1D table 17-1, and the relation between the times (17.14).
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

/// Setting for the type of a port's LAN (adminPointToPointMAC, 802.1D 6.4.3): point-to-point, which
/// is a LAN with at most two stations, or shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PointToPoint {
    /// Point-to-point if and only if the link is full duplex.
    #[default]
    Auto,
    /// Always point-to-point, whatever the duplex mode.
    On,
    /// Never point-to-point: a shared segment.
    Off,
}

/// Spanning tree settings of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StpPort {
    /// Port priority, 0 to 240 in steps of 16. The port with the lowest priority is preferred.
    pub priority: u8,
    /// Path cost, 1 to 200,000,000. `None` derives it from the link speed (802.1D table 17-3).
    pub path_cost: Option<u32>,
    /// AdminEdge (802.1D 17.13.1): the port starts as an edge port, until a BPDU arrives.
    pub edge: bool,
    /// AutoEdge (802.1D 17.13.3): the port becomes an edge port if no BPDUs arrive.
    pub auto_edge: bool,
    /// Setting for the type of the port's LAN: point-to-point or shared.
    pub point_to_point: PointToPoint,
    /// BPDU guard: any received BPDU disables the port.
    pub bpdu_guard: bool,
    /// Time after which a port that BPDU guard disabled is enabled again. With `None`, only
    /// [`Stp::reenable`](super::Stp::reenable) enables it.
    pub guard_recovery: Option<Duration>,
    /// Root guard: the port never becomes root port (restrictedRole in 802.1Q). It discards while
    /// it receives information better than that of the current root.
    pub root_guard: bool,
    /// Loop guard: the port discards when BPDUs from its designated bridge cease, instead of
    /// becoming designated.
    pub loop_guard: bool,
    /// BPDU filter: the port neither sends nor processes BPDUs. A loop through such a port is not
    /// detected.
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

/// Link state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The link has no carrier.
    Down,
    /// The link can pass frames.
    Up {
        /// Duplex mode of the link.
        duplex: Duplex,
        /// Speed in kilobits per second. 0 means unknown and is treated as 10 Gb/s.
        speed_kbps: u64,
    },
}

/// Duplex mode of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplex {
    /// Half duplex: possibly a shared segment.
    Half,
    /// Full duplex: exactly two stations.
    Full,
}

/// Maximum path cost of a port (802.1D 17.13.11).
pub const MAX_PATH_COST: u32 = 200_000_000;

/// Returns the path cost for a link speed (802.1D table 17-3): 20,000,000,000 divided by the speed
/// in kb/s, and 200,000,000 at 100 kb/s and below.
pub fn path_cost(speed_kbps: u64) -> u32 {
    let speed = if speed_kbps == 0 { 10_000_000 } else { speed_kbps };
    (20_000_000_000 / speed).clamp(1, u64::from(MAX_PATH_COST)) as u32
}

/// Error in a spanning tree configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StpError {
    /// The priority of a bridge is not a multiple of 4096.
    BridgePriority(u16),
    /// The priority of a port is not a multiple of 16.
    PortPriority(u8),
    /// A path cost is 0 or more than 200,000,000.
    PathCost(u32),
    /// A value is out of range (802.1D table 17-1).
    Range {
        /// Name of the setting that is out of range.
        what: &'static str,
        /// Value that was given.
        value: u16,
        /// Lowest value that is allowed.
        least: u16,
        /// Highest value that is allowed.
        most: u16,
    },
    /// The times do not satisfy the inequality of 802.1D 17.14.
    Relation,
    /// The port number is too high: a bridge has at most [`MAX_PORTS`] ports.
    TooManyPorts,
    /// The port exists already.
    Exists(PortNo),
    /// The port does not exist.
    NoPort(PortNo),
}

impl fmt::Display for StpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StpError::BridgePriority(found) => write!(f, "bridge priority {found} is not a multiple of 4096"),
            StpError::PortPriority(found) => write!(f, "port priority {found} is not a multiple of 16"),
            StpError::PathCost(found) => write!(f, "path cost {found}: must be 1 to {MAX_PATH_COST}"),
            StpError::Range { what, value, least, most } => {
                write!(f, "{what} {value}: must be {least} to {most}")
            }
            StpError::Relation => {
                f.write_str("inconsistent timers: 2 * (forward delay - 1) >= max age >= 2 * (hello + 1) must hold")
            }
            StpError::TooManyPorts => write!(f, "port number is too high: a bridge has at most {MAX_PORTS} ports"),
            StpError::Exists(port) => write!(f, "port {port} is already in the spanning tree"),
            StpError::NoPort(port) => write!(f, "port {port} is not in the spanning tree"),
        }
    }
}

impl error::Error for StpError {}
