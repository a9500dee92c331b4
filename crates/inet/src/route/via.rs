//! Next hops of routes.

use crate::iface::IfaceId;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A set of paths, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PathsId(pub(super) u16);

/// Next hop of a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Via<G = Ipv4Addr> {
    /// To this host: an address of `iface`.
    Local(IfaceId),
    /// To all hosts on the link of `iface`; of IPv4.
    Broadcast(IfaceId),
    /// To a neighbor on the link of `iface`: the destination itself.
    Link(IfaceId),
    /// To a gateway on the link of `iface`.
    Gateway(IfaceId, G),
    /// By one of several, each flow by one.
    Paths(PathsId),
    /// Nowhere: answered with host unreachable, over IPv6 with no route to destination.
    Reject,
    /// Nowhere: answered with communication administratively prohibited (RFC 1812 5.2.7.1, code 13).
    Prohibit,
    /// Nowhere, silently.
    Blackhole,
}

/// [`Via`] of IPv6.
pub type Via6 = Via<Ipv6Addr>;

impl<G> Via<G> {
    /// Returns the iface it leads to; `None`: to none, or by several paths.
    pub fn iface(&self) -> Option<IfaceId> {
        match self {
            Via::Local(id) | Via::Broadcast(id) | Via::Link(id) | Via::Gateway(id, _) => Some(*id),
            Via::Paths(_) | Via::Reject | Via::Prohibit | Via::Blackhole => None,
        }
    }
}
