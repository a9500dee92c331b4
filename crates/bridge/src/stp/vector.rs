//! Priority vectors (IEEE 802.1D-2004 17.5, 17.6), and the times sent along with them.

use wire::bpdu::{BridgeId, Config, PortId};

/// Priority vector: root, cost, designated bridge and port. The derived ordering compares them in
/// this order; lower is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct PriorityVector {
    /// Identifier of the root bridge.
    pub root: BridgeId,
    /// Cost of the path to the root.
    pub cost: u32,
    /// Identifier of the designated bridge, which sent the information.
    pub bridge: BridgeId,
    /// Port of the designated bridge that sent the information.
    pub port: PortId,
}

impl PriorityVector {
    /// Returns the priority vector in a message.
    pub(super) fn of(config: &Config) -> PriorityVector {
        PriorityVector { root: config.root, cost: config.root_path_cost, bridge: config.bridge, port: config.port }
    }

    /// Returns the vector with the path cost of a port added (root path priority vector, 802.1D
    /// 17.6).
    pub(super) fn plus(self, cost: u32) -> PriorityVector {
        PriorityVector { cost: self.cost.saturating_add(cost), ..self }
    }

    /// Returns whether this vector is better than `other`, or comes from the same port of the same
    /// bridge and therefore replaces its earlier information (802.1D 17.6).
    pub(super) fn is_superior_to(&self, other: &PriorityVector) -> bool {
        let same = self.bridge.address() == other.bridge.address() && self.port.number() == other.port.number();
        self < other || same && self != other
    }
}

/// Times in a BPDU (802.1D 17.18.4), in whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Time since the root sent its information.
    pub message_age: u16,
    /// Maximum age of the root's information. Older information is discarded.
    pub max_age: u16,
    /// Hello time: interval between configuration messages.
    pub hello: u16,
    /// Time that a port spends in the listening state, and again in the learning state.
    pub forward_delay: u16,
}

impl Times {
    /// Returns the times in a message. The age is rounded to the nearest second, because processing
    /// times vary. The others are clamped to the ranges of 802.1D table 17-1, because a message may
    /// contain any value.
    pub(super) fn of(config: &Config) -> Times {
        let up = |time: u16| time.div_ceil(256);
        Times {
            message_age: (config.message_age / 128).div_ceil(2),
            max_age: up(config.max_age).clamp(6, 40),
            hello: up(config.hello_time).clamp(1, 10),
            forward_delay: up(config.forward_delay).clamp(4, 30),
        }
    }

    /// Returns the times to send to the next bridge, with the age increased by one second (802.1D
    /// 17.21.25 c).
    pub(super) fn older(self) -> Times {
        Times { message_age: self.message_age.saturating_add(1), ..self }
    }
}
