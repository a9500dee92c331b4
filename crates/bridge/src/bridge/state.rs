//! State of a port beyond [`Member`](super::Member) that only the slow path needs: spanning tree
//! state, VLANs, storm control buckets and rules.

use super::Bridge;
use super::rules::Rules;
use super::snoop::SnoopPort;
use super::storm::Buckets;
use super::vlan::PortVlan;
use crate::PortNo;
use clock::Instant;
use stats::DropReason;

/// Spanning tree state of a port (IEEE 802.1Q 8.4). Frames for reserved groups are received in all
/// states except `Disabled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortState {
    /// The port receives and sends nothing.
    Disabled,
    /// The port neither learns nor forwards (states blocking and listening in older versions of
    /// 802.1D).
    Discarding,
    /// The port learns addresses but does not forward frames.
    Learning,
    /// The port learns addresses and forwards frames.
    #[default]
    Forwarding,
}

/// State of the whole bridge (up, down and monitor in if_bridge).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Running {
    /// The bridge forwards frames.
    #[default]
    Up,
    /// The bridge learns, counts, applies rules and copies frames to span ports, but does not
    /// forward.
    Monitor,
    /// The bridge drops all frames.
    Down,
}

/// Link state of a port's device. A device whose driver does not report its link state is
/// considered up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carrier {
    /// The device can pass frames.
    #[default]
    Up,
    /// The device has no carrier.
    None,
    /// The device is administratively down.
    Down,
    /// The device was removed, or the reader of its pipe is gone.
    Gone,
}

impl Carrier {
    /// Returns the reason for which frames to a port with this link state are dropped; `None` if
    /// they are not.
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
    /// Time until which the port is muted; `None` if it is not muted.
    pub muted: Option<Instant>,
    /// True if a spanning tree protects the port from loops. Such a port is never muted.
    pub spanned: bool,
    pub vlan: PortVlan,
    pub buckets: Buckets,
    pub snoop: SnoopPort,
    pub rules_in: Option<Rules>,
    pub rules_out: Option<Rules>,
}

impl Extra {
    /// Returns whether the state of this port requires the slow path.
    pub fn is_checked(&self) -> bool {
        !self.is_open() || self.rules_in.is_some() || self.rules_out.is_some()
    }

    /// Returns whether the port is forwarding and not muted.
    pub fn is_open(&self) -> bool {
        self.state == PortState::Forwarding && self.muted.is_none()
    }
}

impl Bridge {
    /// Sets the state of the bridge. The initial state is [`Running::Up`].
    pub fn set_running(&mut self, running: Running) {
        self.running = running;
        self.reconsider();
    }

    /// Returns the state of the bridge.
    pub fn running(&self) -> Running {
        self.running
    }

    /// Sets the link state of a port's device; it is [`Carrier::Up`] initially. A port without
    /// carrier gets no frames except those of [`Bridge::send`]. Addresses learned at the port are
    /// kept; [`Bridge::forget`] flushes them.
    pub fn set_carrier(&mut self, port: PortNo, carrier: Carrier) {
        if !self.has(port) {
            return; // removed after the caller listed the ports
        }
        if let Some(extra) = self.extra_mut(port) {
            extra.carrier = carrier;
        }
        if let Some((member, _)) = self.members.get_mut(usize::from(port)) {
            member.carrier = carrier == Carrier::Up;
        }
    }

    /// Returns the link state of a port's device; `None` if there is no such port.
    pub fn carrier(&self, port: PortNo) -> Option<Carrier> {
        self.extra(port).map(|extra| extra.carrier)
    }

    /// Returns the drop reason for a frame that may not be forwarded to port `to`.
    #[cold]
    pub(super) fn apart(&self, to: PortNo) -> DropReason {
        self.carrier(to).and_then(Carrier::reason).unwrap_or(DropReason::BridgeApart)
    }

    /// Returns the spanning tree state of a port.
    pub fn state(&self, port: PortNo) -> Option<PortState> {
        self.extra(port).map(|extra| extra.state)
    }

    /// Sets the spanning tree state of a port; it is [`PortState::Forwarding`] initially. Addresses
    /// learned at the port are kept; [`crate::Fdb::flush`] removes them.
    pub fn set_state(&mut self, port: PortNo, state: PortState) {
        if let Some(extra) = self.extra_mut(port) {
            extra.state = state;
            self.reconsider();
        }
    }
}
