//! What a port is besides its [`Member`](super::Member): its state, VLANs, buckets and rules, which only some frames ask for.

use super::Bridge;
use super::rules::Rules;
use super::snoop::SnoopPort;
use super::storm::Buckets;
use super::vlan::PortVlan;
use crate::PortNo;
use clock::Instant;
use stats::DropReason;

/// What a spanning tree lets a port do (IEEE 802.1Q 8.4). Frames for reserved groups are read in all states but the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortState {
    /// Nothing.
    Disabled,
    /// Neither learns nor forwards (blocking and listening of 802.1D).
    Discarding,
    /// Learns, does not forward.
    Learning,
    /// Learns and forwards.
    #[default]
    Forwarding,
}

/// What the bridge does as a whole (if_bridge's up, down and monitor).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Running {
    /// All of it.
    #[default]
    Up,
    /// Looks on: learns, counts, asks its rules, copies to span ports. It forwards nothing.
    Monitor,
    /// Nothing: what comes is dropped.
    Down,
}

/// Link state of a port's device. A device without a driver that reports it counts as up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carrier {
    /// The device carries frames.
    #[default]
    Up,
    /// The device has no carrier.
    None,
    /// The device is administratively down.
    Down,
    /// The device was removed, or its pipe has no reader.
    Gone,
}

impl Carrier {
    /// Returns the drop reason of a frame for a port in this state.
    fn reason(self) -> Option<DropReason> {
        match self {
            Carrier::Up => None,
            Carrier::None => Some(DropReason::BridgeNoCarrier),
            Carrier::Down => Some(DropReason::BridgePortDown),
            Carrier::Gone => Some(DropReason::BridgePortGone),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Extra {
    pub state: PortState,
    pub carrier: Carrier,
    /// Until then.
    pub muted: Option<Instant>,
    /// A spanning tree keeps loops away: not to be muted.
    pub spanned: bool,
    pub vlan: PortVlan,
    pub buckets: Buckets,
    pub snoop: SnoopPort,
    pub rules_in: Option<Rules>,
    pub rules_out: Option<Rules>,
}

impl Extra {
    /// Do frames have to be looked at because of it?
    pub fn is_checked(&self) -> bool {
        !self.is_open() || self.rules_in.is_some() || self.rules_out.is_some()
    }

    /// Does it forward?
    pub fn is_open(&self) -> bool {
        self.state == PortState::Forwarding && self.muted.is_none()
    }
}

impl Bridge {
    /// Whether it forwards, looks on or does nothing; [`Running::Up`] at first.
    pub fn set_running(&mut self, running: Running) {
        self.running = running;
        self.reconsider();
    }

    /// What it does as a whole.
    pub fn running(&self) -> Running {
        self.running
    }

    /// Sets whether a port's device carries frames; [`Carrier::Up`] at first. A port that does not gets no frames but those of
    /// [`Bridge::send`]. What was learned there stays ([`Bridge::forget`]).
    pub fn set_carrier(&mut self, port: PortNo, carrier: Carrier) {
        if let Some(extra) = self.extra_mut(port) {
            extra.carrier = carrier;
        }
        if let Some((member, _)) = self.members.get_mut(usize::from(port)) {
            member.carrier = carrier == Carrier::Up;
        }
    }

    /// Whether a port's device carries frames.
    pub fn carrier(&self, port: PortNo) -> Option<Carrier> {
        self.extra(port).map(|extra| extra.carrier)
    }

    /// Returns the drop reason of a frame that may not be forwarded to port `to`.
    #[cold]
    pub(super) fn apart(&self, to: PortNo) -> DropReason {
        self.carrier(to).and_then(Carrier::reason).unwrap_or(DropReason::BridgeApart)
    }

    /// A port's state.
    pub fn state(&self, port: PortNo) -> Option<PortState> {
        self.extra(port).map(|extra| extra.state)
    }

    /// Sets that; [`PortState::Forwarding`] at first. What was learned there stays ([`crate::Fdb::flush`]).
    pub fn set_state(&mut self, port: PortNo, state: PortState) {
        if let Some(extra) = self.extra_mut(port) {
            extra.state = state;
            self.reconsider();
        }
    }
}
