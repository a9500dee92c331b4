//! Effects that the owner of the ports must carry out: changes of port states, address flushes, and
//! BPDUs to send.
//!
//! Port states are returned before BPDUs, so that a port discards before the corresponding
//! agreement is sent. Each port is listed once, however often its state changes. At most
//! [`MAX_UNSENT`] BPDUs are queued; further ones are not sent.

use crate::PortNo;
use crate::PortState;
use clock::Duration;
use std::collections::{BTreeSet, VecDeque};
use wire::bpdu::Bpdu;

/// Maximum number of BPDUs queued for sending.
pub const MAX_UNSENT: usize = 4096;

/// Effect that the owner of the ports must carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Set the port to discarding, learning or forwarding.
    State(PortNo, PortState),
    /// Flush the addresses learned at the port (802.1D 17.19.7).
    Flush(PortNo),
    /// Use this ageing time for the addresses learned at the port, for a period of the same length
    /// (802.1D 17.19.1). `None` restores the normal ageing time.
    Ageing(PortNo, Option<Duration>),
    /// Send the BPDU ([`Bpdu::emit_frame`]).
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

    /// Queues a BPDU. Returns `false` if the queue is full.
    pub fn transmit(&mut self, port: PortNo, bpdu: Bpdu) -> bool {
        if self.bpdus.len() >= MAX_UNSENT {
            return false;
        }
        self.bpdus.push_back((port, bpdu));
        true
    }

    /// Discards all queued effects of a removed port.
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
