//! Next hops of routes.

use crate::iface::IfaceId;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Number of a set of paths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PathsId(pub(super) u16);

/// Next hop of a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Via<G = Ipv4Addr> {
    /// To this host: an address of `iface`.
    Local(IfaceId),
    /// To all hosts on the link of `iface` (IPv4 only).
    Broadcast(IfaceId),
    /// To a neighbor on the link of `iface`: the destination itself.
    Link(IfaceId),
    /// To a gateway on the link of `iface`.
    Gateway(IfaceId, G),
    /// One of several paths, selected per flow.
    Paths(PathsId),
    /// Rejected with host unreachable; for IPv6 with no route to destination.
    Reject,
    /// Rejected with communication administratively prohibited (RFC 1812 5.2.7.1, code 13).
    Prohibit,
    /// Dropped silently.
    Blackhole,
}

/// An IPv6 [`Via`].
pub type Via6 = Via<Ipv6Addr>;

impl<G> Via<G> {
    /// Returns the outgoing interface; `None` if there is none or there are several paths.
    pub fn iface(&self) -> Option<IfaceId> {
        match self {
            Via::Local(id) | Via::Broadcast(id) | Via::Link(id) | Via::Gateway(id, _) => Some(*id),
            Via::Paths(_) | Via::Reject | Via::Prohibit | Via::Blackhole => None,
        }
    }
}
