//! Views of a spanning tree and its ports, for display.

use super::port::{Port, PortRole, StpCounts};
use super::vector::{PriorityVector, Times};
use super::{Stp, StpConfig, StpPort};
use crate::PortNo;
use crate::PortState;
use clock::Instant;
use wire::bpdu::{BridgeId, PortId};

/// Spanning tree state of a bridge, for display.
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
    /// Times sent by the root, and the age of its information.
    pub times: Times,
    /// Number of topology changes that have started (802.1D 14.8.1.1.3).
    pub topology_changes: u64,
    /// Last time at which a topology change was in progress; `None` if there was none.
    pub topology_changed_at: Option<Instant>,
    /// Number of times that the state machines did not come to rest. It is always 0, unless there
    /// is a bug.
    pub unsettled: u64,
}

/// Guard that makes a port discard although its role would let it forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// BPDU guard disabled the port until this time ([`Instant::NEVER`]: until [`Stp::reenable`]).
    Bpdu(Instant),
    /// Root guard: the port receives information better than that of the current root.
    Root,
    /// Loop guard: BPDUs from the port's designated bridge have ceased.
    Loop,
}

/// Spanning tree state of a port, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StpPortView {
    /// Port number in the bridge.
    pub port: PortNo,
    /// Port identifier in the spanning tree.
    pub id: PortId,
    /// Settings of the port.
    pub requested: StpPort,
    /// Path cost that the port adds to information received on it.
    pub path_cost: u32,
    /// Role of the port in the tree.
    pub role: PortRole,
    /// State of the port in the tree.
    pub state: PortState,
    /// Designated priority vector of the LAN: root, cost, designated bridge and port.
    pub designated: PriorityVector,
    /// True if the port is an edge port, which has no bridge on its LAN.
    pub edge: bool,
    /// True if the LAN is a point-to-point link, which has at most two stations.
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

    /// Returns the spanning tree state of the bridge.
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

    /// Returns the spanning tree state of a port; `None` if it is not in the tree.
    pub fn port(&self, port: PortNo) -> Option<StpPortView> {
        self.ports.get(&port).map(view)
    }

    /// Returns the spanning tree states of all ports, in the order of their numbers.
    pub fn ports(&self) -> impl Iterator<Item = StpPortView> {
        self.ports.values().map(view)
    }

    /// Returns the state of a port. An unknown port is considered discarding.
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
        requested: p.requested,
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
