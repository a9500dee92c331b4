//! Port Transmit (IEEE 802.1D-2004 17.26): sends at most
//! [`hold_count`](crate::StpConfig::hold_count) BPDUs per second, and one per hello time.

use crate::stp::port::{Port, PortRole};
use crate::stp::procedures as pr;
use crate::stp::tree::Tree;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    TransmitInit,
    TransmitPeriodic,
    TransmitConfig,
    TransmitTcn,
    TransmitRstp,
    Idle,
}

pub fn begin(p: &mut Port) {
    p.transmit = State::TransmitInit;
    p.new_info = true;
    p.tx_count = 0;
}

pub fn step(p: &mut Port, b: &mut Tree) -> bool {
    if !p.port_enabled {
        // A port without a link has no neighbor to send to, and restarts when the link comes up. In
        // the figure, this happens at BEGIN.
        if p.transmit != State::TransmitInit {
            begin(p);
        }
        return false;
    }
    let may = p.new_info && p.tx_count < b.config.hold_count && p.hello_when != 0;
    let next = match p.transmit {
        State::Idle if !p.selected || p.updt_info => return false,
        State::Idle if p.hello_when == 0 => State::TransmitPeriodic,
        State::Idle if may && p.send_rstp => State::TransmitRstp,
        State::Idle if may && p.role == PortRole::Designated => State::TransmitConfig,
        State::Idle if may && p.role == PortRole::Root => State::TransmitTcn,
        State::Idle => return false,
        _ => State::Idle,
    };
    enter(p, b, next);
    true
}

fn enter(p: &mut Port, b: &mut Tree, state: State) {
    p.transmit = state;
    match state {
        State::TransmitInit => {}
        State::TransmitPeriodic => {
            p.new_info |= p.role == PortRole::Designated || p.role == PortRole::Root && p.tc_while != 0;
        }
        State::TransmitConfig => {
            p.new_info = false;
            pr::tx_config(p, b);
            p.tx_count += 1;
            p.tc_ack = false;
        }
        State::TransmitTcn => {
            p.new_info = false;
            // newInfo of a root port may indicate an agreement, which STP does not have. A
            // notification is therefore sent only on a topology change.
            if p.tc_while != 0 {
                pr::tx_tcn(p, b);
                p.tx_count += 1;
            }
        }
        State::TransmitRstp => {
            p.new_info = false;
            pr::tx_rstp(p, b);
            p.tx_count += 1;
            p.tc_ack = false;
        }
        State::Idle => p.hello_when = p.hello_time(),
    }
}
