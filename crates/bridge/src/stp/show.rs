//! Views of a tree and its ports for display.

use super::port::{Port, PortRole, StpCounts};
use super::vector::{PriorityVector, Times};
use super::{Stp, StpConfig, StpPort};
use crate::PortNo;
use crate::PortState;
use clock::Instant;
use wire::bpdu::{BridgeId, PortId};

/// View of the bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StpView {
    /// Identifier of this bridge.
    pub bridge: BridgeId,
    /// Identifier of the current root.
    pub root: BridgeId,
    /// Path cost to the root; 0 if this bridge is the root.
    pub root_cost: u32,
    /// Root port; `None` if this bridge is the root.
    pub root_port: Option<PortNo>,
    /// Times of the root, and the age of its information.
    pub times: Times,
    /// Number of topology changes begun (14.8.1.1.3).
    pub topology_changes: u64,
    /// Last time at which a topology change was in progress.
    pub topology_changed_at: Option<Instant>,
    /// Number of times that the state machines did not come to rest: always 0.
    pub unsettled: u64,
}

/// Guard that makes a port discard although its role would let it forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// BPDU guard disabled the port until this time, or until [`Stp::reenable`]
    /// ([`Instant::NEVER`]).
    Bpdu(Instant),
    /// Root guard: the port received information better than that of the current root.
    Root,
    /// Loop guard: BPDUs of the port's designated bridge ceased.
    Loop,
}

/// View of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StpPortView {
    /// Port number in the bridge.
    pub port: PortNo,
    /// Port identifier in the spanning tree.
    pub id: PortId,
    /// Settings of the port.
    pub asked: StpPort,
    /// Path cost that the port adds to information received on it.
    pub path_cost: u32,
    /// Role of the port in the tree.
    pub role: PortRole,
    /// State of the port in the tree.
    pub state: PortState,
    /// Priority vector of the LAN: designated bridge and port, root and cost.
    pub designated: PriorityVector,
    /// True if the port is an edge port, without bridges on its LAN.
    pub edge: bool,
    /// True if the LAN has at most two stations.
    pub point_to_point: bool,
    /// True if the port uses RSTP, false if it uses STP.
    pub rapid: bool,
    /// Guard that blocks the port, if any.
    pub guarded: Option<Guarded>,
    /// Spanning tree counters of the port.
    pub counts: StpCounts,
}

impl Stp {
    /// Returns the current configuration.
    pub fn config(&self) -> &StpConfig {
        &self.tree.config
    }

    /// Returns the view of the bridge.
    pub fn view(&self) -> StpView {
        StpView {
            bridge: self.tree.bridge_id(),
            root: self.tree.root_priority.root,
            root_cost: self.tree.root_priority.cost,
            root_port: self.tree.root_port,
            times: self.tree.root_times,
            topology_changes: self.changes,
            topology_changed_at: self.changed_at,
            unsettled: self.unsettled,
        }
    }

    /// Returns the view of a port.
    pub fn port(&self, port: PortNo) -> Option<StpPortView> {
        self.ports.get(&port).map(view)
    }

    /// Returns the views of all ports, by number.
    pub fn ports(&self) -> impl Iterator<Item = StpPortView> {
        self.ports.values().map(view)
    }

    /// Returns the state of a port; an unknown port is discarding.
    pub fn state(&self, port: PortNo) -> PortState {
        self.ports.get(&port).map_or(PortState::Discarding, Port::port_state)
    }
}

fn view(p: &Port) -> StpPortView {
    let held = || {
        let root = p.root_inconsistent.then_some(Guarded::Root);
        root.or(p.silent.then_some(Guarded::Loop))
    };
    StpPortView {
        port: p.no,
        id: p.port_id,
        asked: p.asked,
        path_cost: p.port_path_cost,
        role: p.role,
        state: p.port_state(),
        designated: p.port_priority,
        edge: p.oper_edge,
        point_to_point: p.is_point_to_point(),
        rapid: p.send_rstp,
        guarded: p.guarded.map(Guarded::Bpdu).or_else(held),
        counts: p.counts,
    }
}
