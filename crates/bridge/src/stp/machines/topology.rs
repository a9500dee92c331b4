//! Topology Change (IEEE 802.1D-2004 17.31): flushes learned addresses and propagates topology
//! changes.

use crate::stp::port::{Port, PortRole};
use crate::stp::procedures as pr;
use crate::stp::tree::Tree;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Inactive,
    Learning,
    Detected,
    Active,
    NotifiedTcn,
    NotifiedTc,
    Propagating,
    Acknowledged,
}

pub fn begin(p: &mut Port) {
    p.topology = State::Inactive;
    (p.tc_while, p.tc_ack) = (0, false);
}

pub fn step(p: &mut Port, b: &mut Tree) -> bool {
    let active = matches!(p.role, PortRole::Root | PortRole::Designated);
    let reported = p.rcvd_tc || p.rcvd_tcn || p.rcvd_tc_ack || p.tc_prop;
    let next = match p.topology {
        State::Inactive if p.learn && !p.fdb_flush => State::Learning,
        State::Learning if active && p.forward && !p.oper_edge => State::Detected,
        State::Learning if reported => State::Learning,
        State::Learning if !active && !p.learn && !p.learning => State::Inactive,
        State::Active if !active || p.oper_edge => State::Learning,
        State::Active if p.rcvd_tcn => State::NotifiedTcn,
        State::Active if p.rcvd_tc => State::NotifiedTc,
        State::Active if p.tc_prop => State::Propagating,
        State::Active if p.rcvd_tc_ack => State::Acknowledged,
        State::Inactive | State::Learning | State::Active => return false,
        State::NotifiedTcn => State::NotifiedTc,
        _ => State::Active,
    };
    enter(p, b, next);
    true
}

fn enter(p: &mut Port, b: &mut Tree, state: State) {
    p.topology = state;
    match state {
        State::Inactive => {
            pr::fdb_flush(p, b);
            (p.tc_while, p.tc_ack) = (0, false);
        }
        State::Learning => (p.rcvd_tc, p.rcvd_tcn, p.rcvd_tc_ack, p.tc_prop) = (false, false, false, false),
        State::Detected => {
            pr::new_tc_while(p, b);
            b.requested.tc_prop = Some(p.no);
            p.new_info = true;
        }
        State::Active => {}
        State::NotifiedTcn => pr::new_tc_while(p, b),
        State::NotifiedTc => {
            (p.rcvd_tcn, p.rcvd_tc) = (false, false);
            if p.role == PortRole::Designated {
                p.tc_ack = true;
            }
            b.requested.tc_prop = Some(p.no);
        }
        State::Propagating => {
            pr::new_tc_while(p, b);
            pr::fdb_flush(p, b);
            p.tc_prop = false;
        }
        State::Acknowledged => (p.tc_while, p.rcvd_tc_ack) = (0, false),
    }
}
