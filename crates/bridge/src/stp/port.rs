//! Variables and timers of a port, by their names in the standard (IEEE 802.1D-2004 17.17, 17.19).

use super::config::{Duplex, Link, PointToPoint, StpPort, path_cost};
use super::machines::{detection, information, migration, receive, state, topology, transitions, transmit};
use super::vector::{PriorityVector, Times};
use crate::{PortNo, PortState};
use clock::Instant;
use wire::bpdu::{Bpdu, PortId};

/// MigrateTime (802.1D table 17-1), in seconds.
pub(super) const MIGRATE_TIME: u16 = 3;

/// Role of a port in the spanning tree (802.1D 17.3.1, 17.19.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortRole {
    /// A port that is not part of the tree, because its link is down or a guard disabled it.
    Disabled,
    /// Port towards the root.
    Root,
    /// Port that connects its LAN to the root.
    Designated,
    /// Alternative to the root port. It discards.
    Alternate,
    /// Backup of another port of the same bridge on the same LAN. It discards.
    Backup,
}

/// Origin of a port's information (802.1D 17.19.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InfoIs {
    Disabled,
    Aged,
    Mine,
    Received,
}

/// Classification of received information (802.1D 17.19.26).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RcvdInfo {
    SuperiorDesignated,
    RepeatedDesignated,
    InferiorDesignated,
    InferiorRootAlternate,
    Other,
}

stats::tallies! {
    /// Spanning tree counters of a port.
    pub struct StpCounts at "bridge.stp" {
        /// Configuration BPDUs received.
        config_in,
        /// Topology change notifications received.
        tcn_in,
        /// RST BPDUs received.
        rst_in,
        /// Configuration BPDUs sent.
        config_out,
        /// Topology change notifications sent.
        tcn_out,
        /// RST BPDUs sent.
        rst_out,
        /// BPDUs received and dropped because they are malformed.
        bad,
        /// BPDUs received and dropped because their message age is not below max age (802.1D
        /// 9.3.4).
        old,
        /// BPDUs received by the port that sent them, and dropped (802.1D 9.3.4).
        own,
        /// BPDUs received while the port was down, or disabled by a guard.
        while_down,
        /// BPDUs received over the rate limit and not processed.
        limited,
        /// BPDUs dropped on receipt or not sent, because the port filters BPDUs.
        filtered,
        /// BPDUs received that disabled the port (BPDU guard).
        guarded,
        /// Number of times that root guard prevented the port from becoming root port.
        root_guarded,
        /// Number of times that loop guard prevented the port from becoming designated after BPDUs
        /// of its designated bridge had ceased.
        loop_guarded,
        /// Number of times that a neighbor with inferior information was found to be a designated
        /// port in the state learning (dispute, 802.1D 17.21.10).
        disputes,
        /// BPDUs not sent because the queue was full.
        unsent,
        /// Number of times that the port started to forward.
        forwarded,
    }
}

/// A port. Its flags and its timers (in seconds) have the names of IEEE 802.1D-2004 17.19 and
/// 17.17, which define them.
#[derive(Debug)]
pub(super) struct Port {
    pub no: PortNo,
    pub requested: StpPort,
    pub link: Link,
    pub counts: StpCounts,
    /// Number of BPDUs received in the current second.
    pub rcvd: u32,
    /// Time until which BPDU guard disables the port; `None` if the port is not disabled by it.
    pub guarded: Option<Instant>,
    /// True if loop guard currently makes the port discard.
    pub silent: bool,
    /// True if root guard currently blocks the port.
    pub root_inconsistent: bool,
    /// Message that Port Receive passes to Port Information.
    pub msg: Option<Bpdu>,
    /// Seconds since the last BPDU from the designated bridge.
    pub held: u16,
    /// Remaining seconds of the short ageing time (802.1D 17.19.1).
    pub age_while: u16,

    pub edge_delay_while: u16,
    pub fd_while: u16,
    pub hello_when: u16,
    pub mdelay_while: u16,
    pub rb_while: u16,
    pub rcvd_info_while: u16,
    pub rr_while: u16,
    pub tc_while: u16,

    pub agree: bool,
    pub agreed: bool,
    pub designated_priority: PriorityVector,
    pub designated_times: Times,
    pub disputed: bool,
    pub fdb_flush: bool,
    pub forward: bool,
    pub forwarding: bool,
    pub info_is: InfoIs,
    pub learn: bool,
    pub learning: bool,
    pub mcheck: bool,
    pub msg_priority: PriorityVector,
    pub msg_times: Times,
    pub new_info: bool,
    pub oper_edge: bool,
    pub port_enabled: bool,
    pub port_id: PortId,
    pub port_path_cost: u32,
    pub port_priority: PriorityVector,
    pub port_times: Times,
    pub proposed: bool,
    pub proposing: bool,
    pub rcvd_bpdu: bool,
    pub rcvd_info: RcvdInfo,
    pub rcvd_msg: bool,
    pub rcvd_rstp: bool,
    pub rcvd_stp: bool,
    pub rcvd_tc: bool,
    pub rcvd_tc_ack: bool,
    pub rcvd_tcn: bool,
    pub re_root: bool,
    pub reselect: bool,
    pub role: PortRole,
    pub selected: bool,
    pub selected_role: PortRole,
    pub send_rstp: bool,
    pub sync: bool,
    pub synced: bool,
    pub tc_ack: bool,
    pub tc_prop: bool,
    pub tx_count: u16,
    pub updt_info: bool,

    pub receive: receive::State,
    pub migration: migration::State,
    pub detection: detection::State,
    pub transmit: transmit::State,
    pub information: information::State,
    pub transitions: transitions::State,
    pub state: state::State,
    pub topology: topology::State,
}

impl Port {
    /// Returns a port in the state before BEGIN, with its link down.
    pub fn new(no: PortNo, requested: StpPort) -> Port {
        Port {
            no,
            requested,
            link: Link::Down,
            counts: StpCounts::default(),
            rcvd: 0,
            guarded: None,
            silent: false,
            root_inconsistent: false,
            msg: None,
            held: 0,
            age_while: 0,
            edge_delay_while: 0,
            fd_while: 0,
            hello_when: 0,
            mdelay_while: 0,
            rb_while: 0,
            rcvd_info_while: 0,
            rr_while: 0,
            tc_while: 0,
            agree: false,
            agreed: false,
            designated_priority: PriorityVector::default(),
            designated_times: Times::default(),
            disputed: false,
            fdb_flush: false,
            forward: false,
            forwarding: false,
            info_is: InfoIs::Disabled,
            learn: false,
            learning: false,
            mcheck: false,
            msg_priority: PriorityVector::default(),
            msg_times: Times::default(),
            new_info: false,
            oper_edge: false,
            port_enabled: false,
            port_id: PortId::new(requested.priority, no + 1),
            port_path_cost: requested.path_cost.unwrap_or(path_cost(0)),
            port_priority: PriorityVector::default(),
            port_times: Times::default(),
            proposed: false,
            proposing: false,
            rcvd_bpdu: false,
            rcvd_info: RcvdInfo::Other,
            rcvd_msg: false,
            rcvd_rstp: false,
            rcvd_stp: false,
            rcvd_tc: false,
            rcvd_tc_ack: false,
            rcvd_tcn: false,
            re_root: false,
            reselect: false,
            role: PortRole::Disabled,
            selected: false,
            selected_role: PortRole::Disabled,
            send_rstp: false,
            sync: false,
            synced: false,
            tc_ack: false,
            tc_prop: false,
            tx_count: 0,
            updt_info: false,
            receive: receive::State::Discard,
            migration: migration::State::CheckingRstp,
            detection: detection::State::NotEdge,
            transmit: transmit::State::TransmitInit,
            information: information::State::Disabled,
            transitions: transitions::State::InitPort,
            state: state::State::Discarding,
            topology: topology::State::Inactive,
        }
    }

    /// Computes the variables that depend on the settings and the link of the port (802.1D 17.19.18
    /// to 17.19.20).
    pub fn update_link(&mut self) {
        self.port_enabled = self.link != Link::Down && self.guarded.is_none();
        let speed = if let Link::Up { speed_kbps, .. } = self.link { speed_kbps } else { 0 };
        self.port_path_cost = self.requested.path_cost.unwrap_or(path_cost(speed));
        self.port_id = PortId::new(self.requested.priority, self.no + 1);
        if !self.port_enabled {
            self.silent = false;
            self.disputed = false;
        }
    }

    /// Returns operPointToPointMAC (802.1D 6.4.3).
    pub fn is_point_to_point(&self) -> bool {
        match self.requested.point_to_point {
            PointToPoint::On => true,
            PointToPoint::Off => false,
            PointToPoint::Auto => matches!(self.link, Link::Up { duplex: Duplex::Full, .. }),
        }
    }

    /// TICK (802.1D 17.22): advances all timers by `seconds`, which is more than one if calls were
    /// late.
    pub fn tick(&mut self, seconds: u16) {
        let timers = [
            &mut self.hello_when,
            &mut self.tc_while,
            &mut self.fd_while,
            &mut self.rcvd_info_while,
            &mut self.rr_while,
            &mut self.rb_while,
            &mut self.mdelay_while,
            &mut self.edge_delay_while,
            &mut self.tx_count,
            &mut self.age_while,
        ];
        for timer in timers {
            *timer = timer.saturating_sub(seconds);
        }
        self.held = self.held.saturating_add(seconds);
        self.rcvd = 0;
    }

    /// Withdraws the agreement with the neighbor after the port's information has changed. The
    /// agreement is requested again, and the port discards until it arrives.
    pub fn retract(&mut self) {
        if self.port_enabled && self.send_rstp && self.is_point_to_point() && !self.oper_edge {
            (self.agree, self.agreed, self.proposing, self.synced) = (false, false, false, false);
            self.sync = true;
        }
    }

    /// Returns HelloTime (802.1D 17.20.7).
    pub fn hello_time(&self) -> u16 {
        self.designated_times.hello
    }

    /// Returns FwdDelay (802.1D 17.20.6).
    pub fn fwd_delay(&self) -> u16 {
        self.designated_times.forward_delay
    }

    /// Returns forwardDelay (802.1D 17.20.5). Unlike the standard, uses the hello time only on
    /// point-to-point links: on a shared segment there are no agreements, and old information about
    /// a failed root persists for more than two hello times (see `differences.md`).
    pub fn forward_delay(&self) -> u16 {
        if self.send_rstp && self.is_point_to_point() { self.hello_time() } else { self.fwd_delay() }
    }

    /// Returns MaxAge (802.1D 17.20.8).
    pub fn max_age(&self) -> u16 {
        self.designated_times.max_age
    }

    /// Returns EdgeDelay (802.1D 17.20.4).
    pub fn edge_delay(&self) -> u16 {
        if self.is_point_to_point() { MIGRATE_TIME } else { self.max_age() }
    }

    /// Returns whether the port is synced, for allSynced (802.1D 17.20.3). A port with a pending
    /// role change is not synced, whatever its previous state.
    pub fn is_synced(&self) -> bool {
        let settled = self.selected && !self.updt_info && self.role == self.selected_role;
        settled && (self.synced || self.role == PortRole::Root)
    }

    /// Returns the port state.
    pub fn port_state(&self) -> PortState {
        match (self.learning, self.forwarding) {
            (_, true) => PortState::Forwarding,
            (true, false) => PortState::Learning,
            (false, false) => PortState::Discarding,
        }
    }
}
