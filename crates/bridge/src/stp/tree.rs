//! Variables of a bridge (IEEE 802.1D-2004 17.18), and requests from one port's machines to all
//! ports.
//!
//! A machine works on one [`Port`](super::port::Port) and one [`Tree`]. Its requests to other
//! ports, such as setSyncTree, are stored here until the step of the machine is complete.

use super::config::{StpConfig, StpVersion};
use super::effect::Outbox;
use super::vector::{PriorityVector, Times};
use crate::PortNo;
use wire::bpdu::{BridgeId, PortId};

/// Variables of the bridge.
#[derive(Debug)]
pub(super) struct Tree {
    pub config: StpConfig,
    pub root_port: Option<PortNo>,
    pub root_port_id: PortId,
    pub root_priority: PriorityVector,
    pub root_times: Times,
    /// Age of the root port's information: seconds since its last BPDU from the designated bridge.
    pub held: u16,
    /// Number of ports that are not synced; allSynced (802.1D 17.20.3) is true if it is 0.
    pub unsynced: usize,
    /// Number of ports whose rrWhile timer runs.
    pub re_rooting: usize,
    pub requested: TreeRequests,
    pub out: Outbox,
}

/// Pending requests to all ports.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeRequests {
    /// True if setSyncTree was requested (802.1D 17.21.14).
    pub sync: bool,
    /// True if setReRootTree was requested (802.1D 17.21.15).
    pub re_root: bool,
    /// Port that requested setTcPropTree (802.1D 17.21.18), which affects all other ports; `None`
    /// if it was not requested.
    pub tc_prop: Option<PortNo>,
    /// True if information about the root has arrived and must be passed on at once to neighbors
    /// that use STP (802.1D-1998 8.6.4).
    pub relay: bool,
}

impl Tree {
    pub fn new(config: StpConfig) -> Tree {
        let mut tree = Tree {
            config,
            root_port: None,
            root_port_id: PortId::default(),
            root_priority: PriorityVector::default(),
            root_times: Times::default(),
            held: 0,
            unsynced: 0,
            re_rooting: 0,
            requested: TreeRequests::default(),
            out: Outbox::default(),
        };
        tree.root_priority = tree.bridge_priority();
        tree.root_times = tree.bridge_times();
        tree
    }

    /// Returns BridgeIdentifier (802.1D 17.18.1).
    pub fn bridge_id(&self) -> BridgeId {
        BridgeId::new(self.config.priority, self.config.address)
    }

    /// Returns BridgePriority (802.1D 17.18.2): the priority vector of this bridge as root.
    pub fn bridge_priority(&self) -> PriorityVector {
        PriorityVector { root: self.bridge_id(), cost: 0, bridge: self.bridge_id(), port: PortId::default() }
    }

    /// Returns BridgeTimes (802.1D 17.18.3).
    pub fn bridge_times(&self) -> Times {
        Times {
            message_age: 0,
            max_age: self.config.max_age_s,
            hello: self.config.hello_s,
            forward_delay: self.config.forward_delay_s,
        }
    }

    /// Returns rstpVersion (802.1D 17.20.11); stpVersion is its opposite.
    pub fn rstp_version(&self) -> bool {
        self.config.version == StpVersion::Rstp
    }

    /// Returns allSynced (802.1D 17.20.3).
    pub fn all_synced(&self) -> bool {
        self.unsynced == 0
    }
}
