//! Public types of flows: their identification, state, and the decision about them.

use clock::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Proto;

/// Decision about a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Decision {
    /// All packets of the flow pass, within the quotas.
    Allow,
    /// Packets that the station sends are dropped. The station receives a TCP RST or, for other
    /// protocols, an ICMP error (administratively prohibited).
    Refuse,
    /// Packets that the station sends are dropped silently.
    Drop,
}

/// A flow: packets between two addresses and ports.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Flow {
    /// IP protocol.
    pub protocol: Proto,
    /// Address and port of the station; port 0 for protocols other than TCP, UDP and SCTP.
    pub source: SocketAddr,
    /// Address and port on the other side of the policy.
    pub destination: SocketAddr,
    /// Domain name, in lower case, for which the station last received the destination's address
    /// from DNS over UDP. `None` if there was no such response, or if it is too old.
    pub name: Option<Arc<str>>,
}

/// Packets and bytes of a flow in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Volume {
    /// Number of frames.
    pub packets: u64,
    /// Bytes of the frames, without FCS.
    pub bytes: u64,
}

/// State of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FlowState {
    /// The flow, from the station's point of view.
    pub flow: Flow,
    /// Decision that applies to the flow.
    pub decision: Decision,
    /// True if the station sent the first packet.
    pub by_station: bool,
    /// Frames from the station that the policy admitted.
    pub sent: Volume,
    /// Frames to the station that the policy admitted.
    pub received: Volume,
    /// Time since the first packet of the flow. Both `age` and `idle` are measured until the policy
    /// last inspected a packet of any flow.
    pub age: Duration,
    /// Time since the last packet of the flow.
    pub idle: Duration,
}
