//! A port's variables and timers, by the names that the standard gives them (IEEE 802.1D-2004 17.17, 17.19).

use super::config::{Duplex, Link, PointToPoint, StpPort, path_cost};
use super::machines::{detection, information, migration, receive, state, topology, transitions, transmit};
use super::vector::{PriorityVector, Times};
use crate::{PortNo, PortState};
use clock::Instant;
use wire::bpdu::{Bpdu, PortId};

/// MigrateTime (table 17-1), in seconds.
pub(super) const MIGRATE_TIME: u16 = 3;

/// What a port is in the tree (17.3.1, 17.19.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortRole {
    /// Takes no part: its link is down, or a guard disabled it.
    Disabled,
    /// The way to the root.
    Root,
    /// The way from the root to its LAN.
    Designated,
    /// Another way to the root, not taken.
    Alternate,
    /// Another way to a LAN that a port of the same bridge serves.
    Backup,
}

/// Whose the information is that a port has (17.19.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InfoIs {
    Disabled,
    Aged,
    Mine,
    Received,
}

/// What a message turned out to be (17.19.26).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RcvdInfo {
    SuperiorDesignated,
    RepeatedDesignated,
    InferiorDesignated,
    InferiorRootAlternate,
    Other,
}

stats::tallies! {
    /// What a port did and had done to it.
    pub struct StpCounts at "bridge.stp" {
        /// Configuration BPDUs that came.
        config_in,
        /// Topology change notifications that came.
        tcn_in,
        /// RST BPDUs that came.
        rst_in,
        /// Configuration BPDUs that left.
        config_out,
        /// Topology change notifications that left.
        tcn_out,
        /// RST BPDUs that left.
        rst_out,
        /// Came and were none: malformed.
        bad,
        /// Came too old: message age not below max age (9.3.4).
        old,
        /// Came back: our own, by the same port (9.3.4).
        own,
        /// Came while the port was down, or disabled by a guard.
        while_down,
        /// Came beyond the limit and were not worked on.
        limited,
        /// Came or would have left, and the port filters BPDUs.
        filtered,
        /// Disabled the port: BPDU guard.
        guarded,
        /// Times that root guard kept it from the way to the root.
        root_guarded,
        /// Times that loop guard kept it from taking a silent bridge's place.
        loop_guarded,
        /// Times that a neighbor's inferior, yet learning port was met (17.21.10).
        disputes,
        /// Did not leave: nobody fetched those before.
        unsent,
        /// Times that it began to forward.
        forwarded,
    }
}

/// A port. Booleans and timers (in seconds) are those of 17.19 and 17.17.
#[derive(Debug)]
pub(super) struct Port {
    pub no: PortNo,
    pub asked: StpPort,
    pub link: Link,
    pub counts: StpCounts,
    /// BPDUs of this second.
    pub rcvd: u32,
    /// Disabled by BPDU guard; till when.
    pub guarded: Option<Instant>,
    /// Discards by loop guard.
    pub silent: bool,
    /// Does root guard hold it now?
    pub root_inconsistent: bool,
    /// The message at hand, between Port Receive and Port Information.
    pub msg: Option<Bpdu>,
    /// Seconds since the designated bridge last spoke.
    pub held: u16,
    /// Seconds of short ageing that are left (17.19.1).
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
    /// Before BEGIN; its link is down.
    pub fn new(no: PortNo, asked: StpPort) -> Port {
        Port {
            no,
            asked,
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
            port_id: PortId::new(asked.priority, no + 1),
            port_path_cost: asked.path_cost.unwrap_or(path_cost(0)),
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

    /// What is asked of the port and how its link is, as variables (17.19.18, 17.19.20, 17.19.19).
    pub fn settle_link(&mut self) {
        self.port_enabled = self.link != Link::Down && self.guarded.is_none();
        let speed = if let Link::Up { speed_kbps, .. } = self.link { speed_kbps } else { 0 };
        self.port_path_cost = self.asked.path_cost.unwrap_or(path_cost(speed));
        self.port_id = PortId::new(self.asked.priority, self.no + 1);
        if !self.port_enabled {
            self.silent = false;
            self.disputed = false;
        }
    }

    /// operPointToPointMAC (6.4.3).
    pub fn is_point_to_point(&self) -> bool {
        match self.asked.point_to_point {
            PointToPoint::On => true,
            PointToPoint::Off => false,
            PointToPoint::Auto => matches!(self.link, Link::Up { duplex: Duplex::Full, .. }),
        }
    }

    /// TICK (17.22): `seconds` at once, where more than one went by.
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

    /// What was agreed with the neighbor was agreed under other circumstances: it is asked again, and till then the port discards.
    pub fn retract(&mut self) {
        if self.port_enabled && self.send_rstp && self.is_point_to_point() && !self.oper_edge {
            (self.agree, self.agreed, self.proposing, self.synced) = (false, false, false, false);
            self.sync = true;
        }
    }

    /// HelloTime (17.20.7).
    pub fn hello_time(&self) -> u16 {
        self.designated_times.hello
    }

    /// FwdDelay (17.20.6).
    pub fn fwd_delay(&self) -> u16 {
        self.designated_times.forward_delay
    }

    /// forwardDelay (17.20.5), with the hello time on point-to-point links only: on a shared segment nobody agrees to anything, and in
    /// two hello times old information about a root that is gone has not died (`differences.md`).
    pub fn forward_delay(&self) -> u16 {
        if self.send_rstp && self.is_point_to_point() { self.hello_time() } else { self.fwd_delay() }
    }

    /// MaxAge (17.20.8).
    pub fn max_age(&self) -> u16 {
        self.designated_times.max_age
    }

    /// EdgeDelay (17.20.4).
    pub fn edge_delay(&self) -> u16 {
        if self.is_point_to_point() { MIGRATE_TIME } else { self.max_age() }
    }

    /// Its part in allSynced (17.20.3). A port whose role is not settled is not synced, whatever it was.
    pub fn is_synced(&self) -> bool {
        let settled = self.selected && !self.updt_info && self.role == self.selected_role;
        settled && (self.synced || self.role == PortRole::Root)
    }

    /// What it does with frames.
    pub fn port_state(&self) -> PortState {
        match (self.learning, self.forwarding) {
            (_, true) => PortState::Forwarding,
            (true, false) => PortState::Learning,
            (false, false) => PortState::Discarding,
        }
    }
}
