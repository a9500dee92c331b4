//! What there is to see of a tree and its ports.

use super::port::{Port, PortRole, StpCounts};
use super::vector::{PriorityVector, Times};
use super::{Stp, StpConfig, StpPort};
use crate::PortNo;
use crate::PortState;
use clock::Instant;
use wire::bpdu::{BridgeId, PortId};

/// The whole bridge's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StpView {
    /// We.
    pub bridge: BridgeId,
    /// Who is taken for the root.
    pub root: BridgeId,
    /// What the way there costs; 0: we are.
    pub root_cost: u32,
    /// The port that leads there; none: we are.
    pub root_port: Option<PortNo>,
    /// The root's times, and how old its word is.
    pub times: Times,
    /// Changes of topology: how often one began (14.8.1.1.3).
    pub topology_changes: u64,
    /// When one was last under way; none: never.
    pub topology_changed_at: Option<Instant>,
    /// Times that the machines did not come to rest: always 0.
    pub unsettled: u64,
}

/// Why a port discards though the tree would have it forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// BPDU guard disabled it; till when, or until it is told ([`Instant::NEVER`]).
    Bpdu(Instant),
    /// Root guard: better information came than from our root.
    Root,
    /// Loop guard: its designated bridge is silent.
    Loop,
}

/// A port's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StpPortView {
    /// Which.
    pub port: PortNo,
    /// Its identifier.
    pub id: PortId,
    /// What was asked of it.
    pub asked: StpPort,
    /// What a frame pays that comes in here.
    pub path_cost: u32,
    /// Its role.
    pub role: PortRole,
    /// Its state.
    pub state: PortState,
    /// The designated bridge and port of its LAN, the root and the cost they say.
    pub designated: PriorityVector,
    /// Is it an edge?
    pub edge: bool,
    /// Are there two stations at most?
    pub point_to_point: bool,
    /// Does it speak RSTP, rather than STP?
    pub rapid: bool,
    /// Is a guard in the way?
    pub guarded: Option<Guarded>,
    /// What it did.
    pub counts: StpCounts,
}

impl Stp {
    /// The configuration as it is now.
    pub fn config(&self) -> &StpConfig {
        &self.tree.config
    }

    /// The whole bridge's part.
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

    /// One port's part.
    pub fn port(&self, port: PortNo) -> Option<StpPortView> {
        self.ports.get(&port).map(view)
    }

    /// All ports' parts, by their numbers.
    pub fn ports(&self) -> impl Iterator<Item = StpPortView> {
        self.ports.values().map(view)
    }

    /// What a port does with frames; one that takes no part discards.
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
