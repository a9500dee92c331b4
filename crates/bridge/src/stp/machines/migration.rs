//! Port Protocol Migration (IEEE 802.1D-2004 17.24): selects the protocol (STP or RSTP) that the
//! neighbors use.

use crate::stp::port::{MIGRATE_TIME, Port};
use crate::stp::tree::Tree;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    CheckingRstp,
    SelectingStp,
    Sensing,
}

pub fn begin(p: &mut Port, b: &Tree) {
    enter(p, b, State::CheckingRstp);
}

pub fn step(p: &mut Port, b: &Tree) -> bool {
    let rstp = b.rstp_version() && !p.send_rstp && p.rcvd_rstp;
    let next = match p.migration {
        State::CheckingRstp if p.mdelay_while == 0 => State::Sensing,
        State::CheckingRstp if p.mdelay_while != MIGRATE_TIME && !p.port_enabled => State::CheckingRstp,
        State::SelectingStp if p.mdelay_while == 0 || !p.port_enabled || p.mcheck => State::Sensing,
        State::Sensing if !p.port_enabled || p.mcheck || rstp => State::CheckingRstp,
        State::Sensing if p.send_rstp && p.rcvd_stp => State::SelectingStp,
        _ => return false,
    };
    enter(p, b, next);
    true
}

fn enter(p: &mut Port, b: &Tree, state: State) {
    p.migration = state;
    match state {
        State::CheckingRstp => {
            p.mcheck = false;
            p.send_rstp = b.rstp_version();
            p.mdelay_while = MIGRATE_TIME;
        }
        State::SelectingStp => {
            p.send_rstp = false;
            p.mdelay_while = MIGRATE_TIME;
        }
        State::Sensing => (p.rcvd_rstp, p.rcvd_stp) = (false, false),
    }
}
