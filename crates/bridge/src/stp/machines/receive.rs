//! Port Receive (IEEE 802.1D-2004 17.23): on a received BPDU, clears the edge status and passes the
//! BPDU to the other machines.

use crate::stp::port::{MIGRATE_TIME, Port};
use wire::bpdu::Bpdu;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Discard,
    Receive,
}

pub fn begin(p: &mut Port) {
    enter(p, State::Discard);
}

pub fn step(p: &mut Port) -> bool {
    let next = match p.receive {
        _ if (p.rcvd_bpdu || p.edge_delay_while != MIGRATE_TIME) && !p.port_enabled => State::Discard,
        State::Discard if p.rcvd_bpdu && p.port_enabled => State::Receive,
        State::Receive if p.rcvd_bpdu && p.port_enabled && !p.rcvd_msg => State::Receive,
        _ => return false,
    };
    enter(p, next);
    true
}

fn enter(p: &mut Port, state: State) {
    p.receive = state;
    p.edge_delay_while = MIGRATE_TIME;
    match state {
        State::Discard => {
            (p.rcvd_bpdu, p.rcvd_rstp, p.rcvd_stp, p.rcvd_msg) = (false, false, false, false);
            p.msg = None;
        }
        State::Receive => {
            updt_bpdu_version(p);
            (p.oper_edge, p.rcvd_bpdu) = (false, false);
            p.rcvd_msg = true;
        }
    }
}

/// The `updtBPDUVersion` procedure (802.1D 17.21.22): records whether the neighbor uses RSTP or
/// STP.
fn updt_bpdu_version(p: &mut Port) {
    match p.msg {
        Some(Bpdu::Rst(_)) => p.rcvd_rstp = true,
        Some(Bpdu::Config(_) | Bpdu::Tcn) => p.rcvd_stp = true,
        None => {}
    }
}
