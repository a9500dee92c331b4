//! Next hops of routes.

use crate::iface::IfaceId;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Number of a set of paths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PathsId(pub(super) u16);

/// Target of a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Via<G = Ipv4Addr> {
    /// Packets are delivered to this host: the destination is an address of `iface`, or the route
    /// is a local route, which delivers the packets to all addresses of a prefix.
    Local(IfaceId),
    /// Packets are delivered to all hosts on the link of `iface` (IPv4 only).
    Broadcast(IfaceId),
    /// Packets are sent to the destination itself, which is a neighbor on the link of `iface`.
    Link(IfaceId),
    /// Packets are sent to a gateway on the link of `iface`.
    Gateway(IfaceId, G),
    /// Packets of an IPv4 route are sent to an IPv6 gateway on the link of `iface` (RFC 8950).
    Gateway6(IfaceId, Ipv6Addr),
    /// Packets take one of several paths, selected per flow.
    Paths(PathsId),
    /// Packets are rejected with host unreachable; for IPv6, with no route to destination.
    Reject,
    /// Packets are rejected with communication administratively prohibited (RFC 1812 5.2.7.1, code
    /// 13).
    Prohibit,
    /// Packets are dropped silently.
    Blackhole,
}

/// An IPv6 [`Via`].
pub type Via6 = Via<Ipv6Addr>;

impl<G> Via<G> {
    /// Returns the outgoing interface; `None` for a target without an interface or with several
    /// paths.
    pub fn iface(&self) -> Option<IfaceId> {
        match self {
            Via::Local(id) | Via::Broadcast(id) | Via::Link(id) | Via::Gateway(id, _) | Via::Gateway6(id, _) => {
                Some(*id)
            }
            Via::Paths(_) | Via::Reject | Via::Prohibit | Via::Blackhole => None,
        }
    }

    /// Returns whether packets are sent to a gateway, of whichever family.
    pub fn is_gateway(&self) -> bool {
        matches!(self, Via::Gateway(..) | Via::Gateway6(..))
    }
}
