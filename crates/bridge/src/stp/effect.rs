//! What is to be done outside: states of ports, forgetting of addresses, BPDUs that leave.
//!
//! States come before BPDUs: a port discards before the agreement leaves that says so. A port is in the list once, however often it
//! changes; of BPDUs [`MAX_UNSENT`] wait, and what comes then is not sent.

use crate::PortNo;
use crate::PortState;
use clock::Duration;
use std::collections::{BTreeSet, VecDeque};
use wire::bpdu::Bpdu;

/// The most BPDUs that wait to be fetched.
pub const MAX_UNSENT: usize = 4096;

/// What is to be done outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The port is to discard, learn or forward from now on.
    State(PortNo, PortState),
    /// What was learned at the port is to be forgotten, now (17.19.7).
    Flush(PortNo),
    /// What was learned at the port ages in this time, for as long (17.19.1); none: as always again.
    Ageing(PortNo, Option<Duration>),
    /// The BPDU is to leave ([`Bpdu::emit_frame`]).
    Transmit(PortNo, Bpdu),
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    states: BTreeSet<PortNo>,
    flushes: BTreeSet<PortNo>,
    ageings: BTreeSet<PortNo>,
    bpdus: VecDeque<(PortNo, Bpdu)>,
}

impl Outbox {
    pub fn state(&mut self, port: PortNo) {
        self.states.insert(port);
    }

    pub fn flush(&mut self, port: PortNo) {
        self.flushes.insert(port);
    }

    pub fn ageing(&mut self, port: PortNo) {
        self.ageings.insert(port);
    }

    /// `false`: there is no room.
    pub fn transmit(&mut self, port: PortNo, bpdu: Bpdu) -> bool {
        if self.bpdus.len() >= MAX_UNSENT {
            return false;
        }
        self.bpdus.push_back((port, bpdu));
        true
    }

    /// Nothing of a port that is gone.
    pub fn forget(&mut self, port: PortNo) {
        self.states.remove(&port);
        self.flushes.remove(&port);
        self.ageings.remove(&port);
        self.bpdus.retain(|(of, _)| *of != port);
    }

    pub fn next_state(&mut self) -> Option<PortNo> {
        self.states.pop_first()
    }

    pub fn next_flush(&mut self) -> Option<PortNo> {
        self.flushes.pop_first()
    }

    pub fn next_ageing(&mut self) -> Option<PortNo> {
        self.ageings.pop_first()
    }

    pub fn next_bpdu(&mut self) -> Option<(PortNo, Bpdu)> {
        self.bpdus.pop_front()
    }
}
