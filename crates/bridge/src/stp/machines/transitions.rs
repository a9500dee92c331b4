//! Port Role Transitions (IEEE 802.1D-2004 17.29): a port takes on the role selected for it. It
//! starts to learn and to forward after the delays, or at once if its neighbors have agreed.

use crate::stp::port::{Port, PortRole};
use crate::stp::tree::Tree;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    InitPort,
    DisablePort,
    DisabledPort,
    RootPort,
    RootProposed,
    RootAgreed,
    ReRoot,
    RootLearn,
    RootForward,
    ReRooted,
    DesignatedPort,
    DesignatedPropose,
    DesignatedSynced,
    DesignatedRetired,
    DesignatedLearn,
    DesignatedForward,
    DesignatedDiscard,
    BlockPort,
    AlternatePort,
    AlternateProposed,
    AlternateAgreed,
    BackupPort,
}

pub fn begin(p: &mut Port) {
    p.transitions = State::InitPort;
    p.role = PortRole::Disabled;
    (p.learn, p.forward, p.synced) = (false, false, false);
    (p.sync, p.re_root) = (true, true);
    p.rr_while = p.fwd_delay();
    p.fd_while = p.max_age();
    p.rb_while = 0;
}

pub fn step(p: &mut Port, b: &mut Tree) -> bool {
    let Some(next) = next(p, b) else { return false };
    enter(p, b, next);
    true
}

/// Returns the next state. All transitions except the unconditional ones require `selected &&
/// !updtInfo` (802.1D 17.29, all figures).
fn next(p: &Port, b: &Tree) -> Option<State> {
    if p.transitions == State::InitPort {
        return Some(State::DisablePort);
    }
    if !p.selected || p.updt_info {
        return None;
    }
    if p.role != p.selected_role {
        return Some(match p.selected_role {
            PortRole::Disabled => State::DisablePort,
            PortRole::Root => State::RootPort,
            PortRole::Designated => State::DesignatedPort,
            PortRole::Alternate | PortRole::Backup => State::BlockPort,
        });
    }
    match p.role {
        PortRole::Disabled => disabled(p),
        PortRole::Root => root(p, b),
        PortRole::Designated => designated(p),
        PortRole::Alternate | PortRole::Backup => alternate(p, b),
    }
}

/// Transitions of 802.1D figure 17-20 (disabled ports).
fn disabled(p: &Port) -> Option<State> {
    let again = p.fd_while != p.max_age() || p.sync || p.re_root || !p.synced;
    match p.transitions {
        State::DisablePort if !p.learning && !p.forwarding => Some(State::DisabledPort),
        State::DisabledPort if again => Some(State::DisabledPort),
        _ => None,
    }
}

/// Transitions of 802.1D figure 17-21 (root port).
fn root(p: &Port, b: &Tree) -> Option<State> {
    // reRooted (802.1D 17.20.10): no other port was the root port recently.
    let re_rooted = b.re_rooting == usize::from(p.rr_while != 0);
    let ready = p.fd_while == 0 || re_rooted && p.rb_while == 0 && b.rstp_version();
    if p.proposed && !p.agree {
        Some(State::RootProposed)
    } else if b.all_synced() && !p.agree || p.proposed && p.agree {
        Some(State::RootAgreed)
    } else if !p.forward && !p.re_root {
        Some(State::ReRoot)
    } else if ready && !p.learn {
        Some(State::RootLearn)
    } else if ready && p.learn && !p.forward {
        Some(State::RootForward)
    } else if p.re_root && p.forward {
        Some(State::ReRooted)
    } else if p.rr_while != p.fwd_delay() {
        Some(State::RootPort)
    } else {
        None
    }
}

/// Transitions of 802.1D figure 17-22 (designated port). While loop guard blocks the port, it
/// behaves as if disputed.
fn designated(p: &Port) -> Option<State> {
    let ready = (p.fd_while == 0 || p.agreed || p.oper_edge) && (p.rr_while == 0 || !p.re_root) && !p.sync && !p.silent;
    let discard = p.sync && !p.synced || p.re_root && p.rr_while != 0 || p.disputed || p.silent;
    if discard && !p.oper_edge && (p.learn || p.forward) {
        Some(State::DesignatedDiscard)
    } else if !p.forward && !p.agreed && !p.proposing && !p.oper_edge {
        Some(State::DesignatedPropose)
    } else if !p.synced && (!p.learning && !p.forwarding || p.agreed || p.oper_edge) || p.sync && p.synced {
        Some(State::DesignatedSynced)
    } else if p.rr_while == 0 && p.re_root {
        Some(State::DesignatedRetired)
    } else if ready && !p.learn {
        Some(State::DesignatedLearn)
    } else if ready && p.learn && !p.forward {
        Some(State::DesignatedForward)
    } else {
        None
    }
}

/// Transitions of 802.1D figure 17-23 (alternate and backup ports).
fn alternate(p: &Port, b: &Tree) -> Option<State> {
    if p.transitions == State::BlockPort {
        return (!p.learning && !p.forwarding).then_some(State::AlternatePort);
    }
    if p.proposed && !p.agree {
        Some(State::AlternateProposed)
    } else if b.all_synced() && !p.agree || p.proposed && p.agree {
        Some(State::AlternateAgreed)
    } else if p.fd_while != p.forward_delay() || p.sync || p.re_root || !p.synced {
        Some(State::AlternatePort)
    } else if p.rb_while != 2 * p.hello_time() && p.role == PortRole::Backup {
        Some(State::BackupPort)
    } else {
        None
    }
}

fn enter(p: &mut Port, b: &mut Tree, state: State) {
    p.transitions = state;
    match state {
        State::InitPort => {}
        State::DisablePort | State::BlockPort => {
            p.role = p.selected_role;
            (p.learn, p.forward) = (false, false);
        }
        State::DisabledPort => {
            p.fd_while = p.max_age();
            p.synced = true;
            p.rr_while = 0;
            (p.sync, p.re_root) = (false, false);
        }
        State::RootPort => {
            p.role = PortRole::Root;
            p.rr_while = p.fwd_delay();
        }
        State::RootProposed | State::AlternateProposed => {
            b.requested.sync = true;
            p.proposed = false;
        }
        State::RootAgreed => {
            (p.proposed, p.sync) = (false, false);
            (p.agree, p.new_info) = (true, true);
        }
        State::ReRoot => b.requested.re_root = true,
        State::RootLearn | State::DesignatedLearn => {
            p.fd_while = p.forward_delay();
            p.learn = true;
        }
        State::RootForward => {
            p.fd_while = 0;
            p.forward = true;
        }
        State::ReRooted | State::DesignatedRetired => p.re_root = false,
        State::DesignatedPort => p.role = PortRole::Designated,
        State::DesignatedPropose => {
            p.proposing = true;
            p.edge_delay_while = p.edge_delay();
            p.new_info = true;
        }
        State::DesignatedSynced => {
            p.rr_while = 0;
            p.synced = true;
            p.sync = false;
        }
        State::DesignatedForward => {
            p.forward = true;
            p.fd_while = 0;
            p.agreed = p.send_rstp;
        }
        State::DesignatedDiscard => {
            (p.learn, p.forward, p.disputed) = (false, false, false);
            p.fd_while = p.forward_delay();
        }
        State::AlternatePort => {
            p.fd_while = p.forward_delay();
            p.synced = true;
            p.rr_while = 0;
            (p.sync, p.re_root) = (false, false);
        }
        State::AlternateAgreed => {
            p.proposed = false;
            (p.agree, p.new_info) = (true, true);
        }
        State::BackupPort => p.rb_while = 2 * p.hello_time(),
    }
}
