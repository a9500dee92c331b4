//! Procedures of the state machines, with the names of IEEE 802.1D-2004 17.21. Procedures that
//! affect all ports are in [`selection`](super::selection).

use super::port::{InfoIs, Port, PortRole, RcvdInfo};
use super::tree::Tree;
use super::vector::{PriorityVector, Times};
use wire::bpdu::{Bpdu, Config, Flags, SenderRole};

/// The `betterorsameInfo` procedure (802.1D 17.21.1): returns whether new information from this
/// origin has the same origin as the port's information and is at least as good.
pub fn better_or_same_info(p: &Port, new_info_is: InfoIs) -> bool {
    match new_info_is {
        InfoIs::Received => p.info_is == InfoIs::Received && p.msg_priority <= p.port_priority,
        InfoIs::Mine => p.info_is == InfoIs::Mine && p.designated_priority <= p.port_priority,
        InfoIs::Disabled | InfoIs::Aged => false,
    }
}

/// Sets fdbFlush (802.1D 17.19.7) and resets it at once: with RSTP, the owner of the ports flushes
/// the addresses; with STP, it lets them expire sooner for a while.
pub fn fdb_flush(p: &mut Port, b: &mut Tree) {
    if b.rstp_version() {
        return b.out.flush(p.no);
    }
    p.age_while = p.fwd_delay();
    b.out.ageing(p.no);
}

/// The `newTcWhile` procedure (802.1D 17.21.7): starts the topology change timer, unless it runs.
pub fn new_tc_while(p: &mut Port, b: &Tree) {
    if p.tc_while != 0 {
        return;
    }
    if p.send_rstp {
        p.tc_while = p.hello_time() + 1;
        p.new_info = true;
    } else {
        p.tc_while = b.root_times.max_age + b.root_times.forward_delay;
    }
}

/// The `rcvInfo` procedure (802.1D 17.21.8): classifies the received message. A configuration BPDU,
/// or an RST BPDU with the role Unknown, is treated as sent by a designated port (802.1D 9.3.3).
pub fn rcv_info(p: &mut Port) -> RcvdInfo {
    let config = match p.msg.as_ref() {
        Some(Bpdu::Config(config) | Bpdu::Rst(config)) => *config,
        Some(Bpdu::Tcn) => {
            p.rcvd_tcn = true;
            return RcvdInfo::Other;
        }
        None => return RcvdInfo::Other,
    };
    p.msg_priority = PriorityVector::of(&config);
    p.msg_times = Times::of(&config);
    let same = p.msg_priority == p.port_priority;
    match sender_role(p) {
        SenderRole::Unknown | SenderRole::Designated => {
            if p.msg_priority.is_superior_to(&p.port_priority) || same && p.msg_times != p.port_times {
                RcvdInfo::SuperiorDesignated
            } else if same && p.info_is == InfoIs::Received {
                RcvdInfo::RepeatedDesignated
            } else {
                RcvdInfo::InferiorDesignated
            }
        }
        SenderRole::Root | SenderRole::AlternateOrBackup if p.msg_priority >= p.port_priority => {
            RcvdInfo::InferiorRootAlternate
        }
        SenderRole::Root | SenderRole::AlternateOrBackup => RcvdInfo::Other,
    }
}

fn flags(p: &Port) -> Flags {
    p.msg.as_ref().and_then(Bpdu::config).map_or(Flags::NONE, |config| config.flags)
}

/// Returns the sender's role, which is Unknown for a configuration BPDU, because it has no role
/// flags.
fn sender_role(p: &Port) -> SenderRole {
    if matches!(p.msg, Some(Bpdu::Rst(_))) { flags(p).role() } else { SenderRole::Unknown }
}

/// Returns whether the message is an RST BPDU with this flag set.
fn rst_flag(p: &Port, flag: Flags) -> bool {
    matches!(p.msg, Some(Bpdu::Rst(_))) && flags(p).contains(flag)
}

/// The `recordAgreement` procedure (802.1D 17.21.9). The standard requires rstpVersion; this code
/// requires sendRSTP, which implies it, because a neighbor that uses STP cannot agree. An agreement
/// to earlier information is not valid for the current information (see `differences.md`).
pub fn record_agreement(p: &mut Port) {
    let agreement = p.send_rstp && p.is_point_to_point() && rst_flag(p, Flags::AGREEMENT);
    if agreement && !answers(p) {
        return;
    }
    p.agreed = agreement;
    if p.agreed {
        p.proposing = false;
    }
}

/// Returns whether an agreement can refer to the port's current information. This requires that its
/// sender has the same root, and has a higher cost if it reaches the root through this port.
fn answers(p: &Port) -> bool {
    let (theirs, ours) = (p.msg_priority, p.port_priority);
    theirs.root == ours.root && (sender_role(p) != SenderRole::Root || theirs.cost > ours.cost)
}

/// The `recordDispute` procedure (802.1D 17.21.10): records that the sender of inferior information
/// is learning.
pub fn record_dispute(p: &mut Port) {
    if rst_flag(p, Flags::LEARNING) {
        p.agreed = false;
        p.disputed = true;
        p.counts.disputes += 1;
    }
}

/// The `recordProposal` procedure (802.1D 17.21.11): records a proposal in the received message.
pub fn record_proposal(p: &mut Port) {
    p.proposed |= rst_flag(p, Flags::PROPOSAL);
}

/// The `recordPriority` procedure (802.1D 17.21.12): stores the received priority vector.
pub fn record_priority(p: &mut Port) {
    p.port_priority = p.msg_priority;
}

/// The `recordTimes` procedure (802.1D 17.21.13): stores the received times.
pub fn record_times(p: &mut Port) {
    p.port_times = p.msg_times;
}

/// The `setTcFlags` procedure (802.1D 17.21.17): records the topology change flags of the received
/// message.
pub fn set_tc_flags(p: &mut Port) {
    let flags = flags(p);
    p.rcvd_tc |= flags.contains(Flags::TOPOLOGY_CHANGE);
    p.rcvd_tc_ack |= flags.contains(Flags::TOPOLOGY_CHANGE_ACK);
}

/// The `updtRcvdInfoWhile` procedure (802.1D 17.21.23): starts the timer after which the received
/// information expires.
pub fn updt_rcvd_info_while(p: &mut Port) {
    let young = p.port_times.message_age < p.port_times.max_age;
    p.rcvd_info_while = if young { 3 * p.port_times.hello } else { 0 };
}

/// Called when received information expires because BPDUs from the designated bridge have ceased.
/// With loop guard, the port then discards until BPDUs arrive again.
pub fn fell_silent(p: &mut Port) {
    if p.requested.loop_guard && p.is_point_to_point() && p.role != PortRole::Designated {
        p.counts.loop_guarded += u64::from(!p.silent);
        p.silent = true;
    }
}

/// The `txConfig` procedure (802.1D 17.21.19): sends a configuration BPDU.
pub fn tx_config(p: &mut Port, b: &mut Tree) {
    let ack = if p.tc_ack { Flags::TOPOLOGY_CHANGE_ACK } else { Flags::NONE };
    let mut said = config(p, tc(p).with(ack));
    // STP also adds the time since the information was received (802.1D-1998 8.6.1.3.3), so that
    // outdated information disappears after max age.
    said.message_age = said.message_age.saturating_add(b.held.min(255) << 8);
    let bpdu = Bpdu::Config(said);
    if transmit(p, b, bpdu) {
        p.counts.config_out += 1;
    }
}

/// The `txRstp` procedure (802.1D 17.21.20): sends an RST BPDU.
pub fn tx_rstp(p: &mut Port, b: &mut Tree) {
    let role = match p.role {
        PortRole::Disabled => SenderRole::Unknown,
        PortRole::Alternate | PortRole::Backup => SenderRole::AlternateOrBackup,
        PortRole::Root => SenderRole::Root,
        PortRole::Designated => SenderRole::Designated,
    };
    let set = [
        (p.agree, Flags::AGREEMENT),
        (p.proposing, Flags::PROPOSAL),
        (p.learning, Flags::LEARNING),
        (p.forwarding, Flags::FORWARDING),
    ];
    let flags = set.iter().filter(|(set, _)| *set).fold(tc(p), |flags, (_, flag)| flags.with(*flag));
    let bpdu = Bpdu::Rst(config(p, flags.with_role(role)));
    if transmit(p, b, bpdu) {
        p.counts.rst_out += 1;
    }
}

/// The `txTcn` procedure (802.1D 17.21.21): sends a topology change notification.
pub fn tx_tcn(p: &mut Port, b: &mut Tree) {
    if transmit(p, b, Bpdu::Tcn) {
        p.counts.tcn_out += 1;
    }
}

fn tc(p: &Port) -> Flags {
    if p.tc_while != 0 { Flags::TOPOLOGY_CHANGE } else { Flags::NONE }
}

fn transmit(p: &mut Port, b: &mut Tree, bpdu: Bpdu) -> bool {
    if p.requested.bpdu_filter {
        p.counts.filtered += 1;
        return false;
    }
    let sent = b.out.transmit(p.no, bpdu);
    p.counts.unsent += u64::from(!sent);
    sent
}

/// Returns the fields of a BPDU: the designated priority vector and times, whatever the role of the
/// port (802.1D 17.21.19, 17.21.20).
fn config(p: &Port, flags: Flags) -> Config {
    let (vector, times) = (p.designated_priority, p.designated_times);
    Config {
        flags,
        root: vector.root,
        root_path_cost: vector.cost,
        bridge: vector.bridge,
        port: vector.port,
        message_age: times.message_age << 8,
        max_age: times.max_age << 8,
        hello_time: times.hello << 8,
        forward_delay: times.forward_delay << 8,
    }
}
