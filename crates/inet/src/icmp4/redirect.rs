//! Received redirects (RFC 1122 3.2.2.2).
//!
//! A redirect is accepted only if the sysctl `net.inet.icmp.accept_redirects` is on, the sender is
//! the current gateway to the destination, the new gateway is on the same link, and this host sent
//! the quoted packet.

use crate::Stack;
use crate::iface::Iface;
use crate::route::Via;
use fib::Prefix;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv4Addr;
use wire::icmp4::Inner;

impl<L: Locks> Stack<L> {
    pub(super) fn redirected(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        from: Ipv4Addr,
        gateway: Ipv4Addr,
        inner: &Inner<'_>,
    ) -> DropReason {
        let Some(iface) = iface.filter(|_| self.sysctls.accept_redirects.on()) else {
            return DropReason::IcmpRedirectIgnored;
        };
        let current = self.ways.lookup(cx, inner.header.dst).map(|hop| hop.via);
        let on_link = iface.addrs(cx).iter().any(|addr| addr.contains(gateway)) && !self.is_own(cx, gateway);
        let is_valid = current == Some(Via::Gateway(iface.id, from)) && on_link && self.is_own(cx, inner.header.src);
        match Prefix::new(inner.header.dst, 32) {
            Ok(host) if is_valid && self.reroute::<u32>(cx, host, Via::Gateway(iface.id, gateway)) => {
                DropReason::IcmpConsumed
            }
            _ => DropReason::IcmpRedirectIgnored,
        }
    }
}
