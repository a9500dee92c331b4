//! Bridge Detection (IEEE 802.1D-2004 17.25): detects whether the port has a bridge neighbor or is
//! an edge port.

use crate::stp::port::Port;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Edge,
    NotEdge,
}

pub fn begin(p: &mut Port) {
    enter(p, if p.requested.edge { State::Edge } else { State::NotEdge });
}

pub fn step(p: &mut Port) -> bool {
    let nobody = p.edge_delay_while == 0 && p.requested.auto_edge && p.send_rstp && p.proposing;
    let next = match p.detection {
        State::Edge if !p.port_enabled && !p.requested.edge || !p.oper_edge => State::NotEdge,
        State::NotEdge if !p.port_enabled && p.requested.edge || nobody => State::Edge,
        _ => return false,
    };
    enter(p, next);
    true
}

fn enter(p: &mut Port, state: State) {
    p.detection = state;
    p.oper_edge = state == State::Edge;
}
