//! Port Information (IEEE 802.1D-2004 17.27): the origin and age of the port's information, and its
//! changes on a received message.

use crate::stp::port::{InfoIs, Port, PortRole, RcvdInfo};
use crate::stp::procedures as pr;
use crate::stp::tree::Tree;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Disabled,
    Aged,
    Update,
    SuperiorDesignated,
    RepeatedDesignated,
    InferiorDesignated,
    NotDesignated,
    Other,
    Current,
    Receive,
}

pub fn begin(p: &mut Port) {
    enter(p, State::Disabled);
}

pub fn step(p: &mut Port, b: &mut Tree) -> bool {
    let next = match p.information {
        _ if !p.port_enabled && p.info_is != InfoIs::Disabled => State::Disabled,
        State::Disabled if p.port_enabled => State::Aged,
        State::Disabled if p.rcvd_msg => State::Disabled,
        State::Aged if p.selected && p.updt_info => State::Update,
        State::Current if p.selected && p.updt_info => State::Update,
        State::Current if p.info_is == InfoIs::Received && p.rcvd_info_while == 0 && !p.updt_info && !p.rcvd_msg => {
            pr::fell_silent(p);
            State::Aged
        }
        State::Current if p.rcvd_msg && !p.updt_info => State::Receive,
        State::Receive => match p.rcvd_info {
            RcvdInfo::SuperiorDesignated => State::SuperiorDesignated,
            RcvdInfo::RepeatedDesignated => State::RepeatedDesignated,
            RcvdInfo::InferiorDesignated => State::InferiorDesignated,
            RcvdInfo::InferiorRootAlternate => State::NotDesignated,
            RcvdInfo::Other => State::Other,
        },
        State::Disabled | State::Aged | State::Current => return false,
        _ => State::Current,
    };
    if matches!(next, State::SuperiorDesignated | State::RepeatedDesignated) {
        p.held = 0;
        b.requested.relay |= p.role == PortRole::Root;
    }
    enter(p, next);
    true
}

fn enter(p: &mut Port, state: State) {
    p.information = state;
    match state {
        State::Disabled => {
            p.rcvd_msg = false;
            (p.proposing, p.proposed, p.agree, p.agreed) = (false, false, false, false);
            p.rcvd_info_while = 0;
            p.info_is = InfoIs::Disabled;
            (p.reselect, p.selected) = (true, false);
        }
        State::Aged => {
            p.info_is = InfoIs::Aged;
            (p.reselect, p.selected) = (true, false);
        }
        State::Update => {
            (p.proposing, p.proposed) = (false, false);
            p.agreed = p.agreed && pr::better_or_same_info(p, InfoIs::Mine);
            p.synced = p.synced && p.agreed;
            p.port_priority = p.designated_priority;
            p.port_times = p.designated_times;
            p.updt_info = false;
            p.info_is = InfoIs::Mine;
            p.new_info = true;
        }
        State::Current => {}
        State::Receive => p.rcvd_info = pr::rcv_info(p),
        State::SuperiorDesignated => {
            (p.agreed, p.proposing) = (false, false);
            pr::record_proposal(p);
            pr::set_tc_flags(p);
            p.agree = p.agree && pr::better_or_same_info(p, InfoIs::Received);
            pr::record_priority(p);
            pr::record_times(p);
            pr::updt_rcvd_info_while(p);
            p.info_is = InfoIs::Received;
            (p.reselect, p.selected) = (true, false);
            p.rcvd_msg = false;
        }
        State::RepeatedDesignated => {
            pr::record_proposal(p);
            pr::set_tc_flags(p);
            pr::updt_rcvd_info_while(p);
            p.rcvd_msg = false;
        }
        State::InferiorDesignated => {
            pr::record_dispute(p);
            p.rcvd_msg = false;
        }
        State::NotDesignated => {
            pr::record_agreement(p);
            pr::set_tc_flags(p);
            p.rcvd_msg = false;
        }
        State::Other => p.rcvd_msg = false,
    }
}
