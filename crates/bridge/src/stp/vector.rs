//! What is compared: priority vectors (IEEE 802.1D-2004 17.5, 17.6), and the times that travel with them.

use wire::bpdu::{BridgeId, Config, PortId};

/// Root, cost, designated bridge, designated port. The less, the better, in that order; that is what the derived order says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct PriorityVector {
    /// Root bridge.
    pub root: BridgeId,
    /// Root path cost.
    pub cost: u32,
    /// Designated bridge: who says so.
    pub bridge: BridgeId,
    /// Designated port: through which of its ports.
    pub port: PortId,
}

impl PriorityVector {
    /// As a message has it.
    pub(super) fn of(config: &Config) -> PriorityVector {
        PriorityVector { root: config.root, cost: config.root_path_cost, bridge: config.bridge, port: config.port }
    }

    /// With the cost of one more port (17.6, root path priority vector).
    pub(super) fn plus(self, cost: u32) -> PriorityVector {
        PriorityVector { cost: self.cost.saturating_add(cost), ..self }
    }

    /// Better, or from the same port of the same bridge: then it replaces what that one said before (17.6).
    pub(super) fn is_superior_to(&self, other: &PriorityVector) -> bool {
        let same = self.bridge.address() == other.bridge.address() && self.port.number() == other.port.number();
        self < other || same && self != other
    }
}

/// The times that travel with a vector (17.18.4), in whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// How old the root's word is.
    pub message_age: u16,
    /// How old it may become.
    pub max_age: u16,
    /// How often it is said.
    pub hello: u16,
    /// How long a port listens, and learns.
    pub forward_delay: u16,
}

impl Times {
    /// As a message has them: the age to the nearest second, since it varies by what a bridge took; the others held to table 17-1's
    /// ranges, since a stranger may say anything.
    pub(super) fn of(config: &Config) -> Times {
        let up = |time: u16| time.div_ceil(256);
        Times {
            message_age: (config.message_age / 128).div_ceil(2),
            max_age: up(config.max_age).clamp(6, 40),
            hello: up(config.hello_time).clamp(1, 10),
            forward_delay: up(config.forward_delay).clamp(4, 30),
        }
    }

    /// A bridge further along: a second older (17.21.25 c).
    pub(super) fn older(self) -> Times {
        Times { message_age: self.message_age.saturating_add(1), ..self }
    }
}
