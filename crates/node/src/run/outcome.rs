//! Final state of a host or switch.

/// Final state of a host or switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Name of the host or switch.
    pub name: String,
    /// Text of the final audit, as the command `audit` prints it.
    pub audit: String,
    /// Numbers of unaccounted frames. For a host: (in the stack, from the ports to the stack, from
    /// the stack to the ports). For a switch: (in the bridge, between the bridge and its ports,
    /// queued and not sent).
    pub imbalance: [i64; 3],
    /// Set if the host ended because all its ports had ended, at least one by a failure.
    pub lost_ports: bool,
}

impl Outcome {
    /// Returns whether every frame is accounted for.
    pub fn is_balanced(&self) -> bool {
        self.imbalance == [0; 3]
    }
}
