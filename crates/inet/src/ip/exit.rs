//! The exit of a packet of this host, of either family, and the reasons for having none.

use crate::iface::IfaceId;
use std::net::Ipv4Addr;
use wire::Mac;

/// Reason for which a packet of this host was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputError {
    /// No route to the destination.
    NoRoute,
    /// The route is a reject, prohibit or blackhole route.
    Rejected,
    /// Longer than the path takes, and it may not be fragmented; or longer than a header can state.
    TooBig(usize),
    /// The iface is down.
    IfaceDown,
}

/// The iface by which a packet of this host leaves, and its receiver there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit<A = Ipv4Addr> {
    pub(crate) iface: IfaceId,
    pub(crate) to: Target<A>,
}

/// Link-layer receiver of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<A = Ipv4Addr> {
    /// To the neighbor with this address.
    Neighbor(A),
    /// To a station: a broadcast or a multicast.
    Station(Mac),
    /// To this host.
    Here,
}
