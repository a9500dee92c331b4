//! Outgoing interface and next hop of a packet of this host, and the reasons for which there is
//! none.

use crate::iface::IfaceId;
use std::net::Ipv4Addr;
use wire::Mac;

/// Reason why a packet of this host was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputError {
    /// No route to the destination.
    NoRoute,
    /// The route is a reject, prohibit or blackhole route.
    Rejected,
    /// The packet is longer than the path MTU and must not be fragmented, or longer than a header
    /// can state.
    TooBig(usize),
    /// The interface is down.
    IfaceDown,
}

/// Outgoing interface of a packet of this host, and its receiver on that link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit<A = Ipv4Addr> {
    pub(crate) iface: IfaceId,
    pub(crate) to: Target<A>,
}

/// Link-layer receiver of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<A = Ipv4Addr> {
    /// Neighbor with this address.
    Neighbor(A),
    /// Broadcast or multicast MAC address.
    Station(Mac),
    /// This host.
    Here,
}
