//! Port Role Selection (IEEE 802.1D-2004 17.28), the only machine that exists once per bridge. It
//! selects the root, the root port and the role of every port from the information of all ports.

use super::port::{InfoIs, Port, PortRole};
use super::tree::Tree;
use super::vector::PriorityVector;
use crate::PortNo;
use std::collections::BTreeMap;
use wire::bpdu::PortId;

/// Executes ROLE_SELECTION: clearReselectTree (802.1D 17.21.2), updtRolesTree and setSelectedTree
/// (17.21.16).
pub fn role_selection(ports: &mut BTreeMap<PortNo, Port>, b: &mut Tree) {
    ports.values_mut().for_each(|p| p.reselect = false);
    updt_roles_tree(ports, b);
    ports.values_mut().for_each(|p| p.selected = true);
}

/// The `updtRolesTree` procedure (802.1D 17.21.25): selects the root and the role of each port.
fn updt_roles_tree(ports: &mut BTreeMap<PortNo, Port>, b: &mut Tree) {
    let own = (b.bridge_priority(), PortId::default(), None);
    let paths = ports.values().filter(|p| leads_elsewhere(p, b)).map(|p| (root_path(p), p.port_id, Some(p.no)));
    let (priority, port_id, port) = paths.chain([own]).min().unwrap_or(own);
    (b.root_priority, b.root_port_id, b.root_port) = (priority, port_id, port);
    b.root_times = port.and_then(|no| ports.get(&no)).map_or(b.bridge_times(), |root| root.port_times.older());
    for p in ports.values_mut() {
        p.designated_priority = PriorityVector { bridge: b.bridge_id(), port: p.port_id, ..b.root_priority };
        p.designated_times = super::vector::Times { hello: b.config.hello_s, ..b.root_times };
        select(p, b);
    }
}

/// Returns whether this port may be selected as root port. This is not possible if its information
/// comes from another port of this bridge, or with root guard.
fn leads_elsewhere(p: &Port, b: &Tree) -> bool {
    let others = p.port_priority.bridge.address() != b.config.address && !is_past(p, b);
    p.info_is == InfoIs::Received && others && !p.requested.root_guard
}

/// Returns whether the information names this bridge as root, but with a priority that the bridge
/// no longer has. Such information is outdated and must not be used (see `differences.md`).
fn is_past(p: &Port, b: &Tree) -> bool {
    p.port_priority.root.address() == b.config.address && p.port_priority.root != b.bridge_id()
}

/// Returns the root path priority vector of a port (802.1D 17.6).
fn root_path(p: &Port) -> PriorityVector {
    p.port_priority.plus(p.port_path_cost)
}

/// Selects the role of a port (802.1D 17.21.25 f and following).
fn select(p: &mut Port, b: &Tree) {
    let mine_differs = p.port_priority != p.designated_priority || p.port_times != p.designated_times;
    let better = p.designated_priority < p.port_priority || is_past(p, b);
    let by_us = p.port_priority.bridge.address() == b.config.address;
    (p.selected_role, p.updt_info) = match p.info_is {
        InfoIs::Disabled => (PortRole::Disabled, false),
        InfoIs::Aged => (PortRole::Designated, true),
        InfoIs::Mine => (PortRole::Designated, mine_differs),
        InfoIs::Received if b.root_port == Some(p.no) => (PortRole::Root, false),
        InfoIs::Received if better => (PortRole::Designated, true),
        InfoIs::Received if by_us => (PortRole::Backup, false),
        InfoIs::Received => (PortRole::Alternate, false),
    };
    guard_root(p, b);
}

/// Records whether root guard blocks the port, because its information is better than the root's.
fn guard_root(p: &mut Port, b: &Tree) {
    let held = p.requested.root_guard && p.info_is == InfoIs::Received && root_path(p) < b.root_priority;
    p.counts.root_guarded += u64::from(held && !p.root_inconsistent);
    p.root_inconsistent = held;
}
