//! Outgoing interface and next hop of a packet that this host sends, and the reasons why it cannot
//! be sent.

use crate::iface::IfaceId;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Mac;

/// Reason why a packet of this host was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputError {
    /// No route to the destination.
    NoRoute,
    /// The route is a reject, prohibit or blackhole route.
    Rejected,
    /// The packet is longer than the path MTU and must not be fragmented, or it is longer than an
    /// IP header can state. The value is the maximum length in bytes.
    TooBig(usize),
    /// The interface is down.
    IfaceDown,
}

/// Outgoing interface of a packet of this host, and the receiver of the packet on that link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit<A = Ipv4Addr> {
    pub(crate) iface: IfaceId,
    pub(crate) to: Target<A>,
}

/// Receiver of a packet on the link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<A = Ipv4Addr> {
    /// Neighbor with this IP address.
    Neighbor(A),
    /// Neighbor with this IPv6 address, for a packet of either family (RFC 8950).
    Neighbor6(Ipv6Addr),
    /// Broadcast or multicast MAC address.
    Station(Mac),
    /// This host.
    Here,
}
