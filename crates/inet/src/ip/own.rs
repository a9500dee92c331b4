//! Addresses of a host, of either family.

use crate::demux::Addr;
use crate::ip6::AddrState;
use crate::route::Via;
use crate::{Stack, zone};
use lock::{Cx, Locks};

impl<L: Locks> Stack<L> {
    /// Returns whether `addr` is a valid address of this host; `None` for an IPv6 link-local
    /// address without an interface, since it is ambiguous.
    pub(crate) fn owns(&self, cx: Cx, addr: Addr) -> Option<bool> {
        if let Some(v4) = addr.to_v4() {
            return Some(matches!(self.ways.lookup(cx, v4).map(|hop| hop.via), Some(Via::Local(_))));
        }
        let (v6, iface) = zone::split(addr.0);
        if wire::ip6::is_link_local(v6) && iface.is_none() {
            return None;
        }
        // If no interface has the number in the scope id, this is not an address of this host.
        let iface = match iface {
            Some(id) => match self.ifaces.get(id) {
                None => return Some(false),
                iface => iface,
            },
            None => None,
        };
        Some(self.state6(cx, iface, v6) == Some(AddrState::Valid))
    }
}
