//! Redirects (RFC 4861 8). Routers send them; hosts accept them if `net.inet6.icmp6.rediraccept` is
//! set.
//!
//! Any station on the link can send a redirect, so it is accepted only from the current first hop
//! of its destination. An accepted redirect creates a route that expires ([`crate::redirect`]).

use super::is_anothers;
use crate::Stack;
use crate::iface::{Iface, IfaceKind};
use crate::route::Via6;
use buf::Frame;
use fib::Prefix6;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv6Addr;
use wire::icmp6::nd::{self, Options};
use wire::{Mac, ip6};

impl<L: Locks> Stack<L> {
    /// Processes a redirect that gives `target` as the first hop of packets to `dst`.
    pub(super) fn redirected6(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        router: Ipv6Addr,
        (target, dst): (Ipv6Addr, Ipv6Addr),
        options: Options<'_>,
    ) -> DropReason {
        let link = options.target_link();
        let is_first_hop = target == dst || ip6::is_link_local(target);
        let is_valid = ip6::is_link_local(router) && is_first_hop && !dst.is_multicast() && !dst.is_unspecified();
        if !is_valid || link.is_some_and(|mac| !is_anothers(iface, mac)) {
            return DropReason::NdMalformed; // RFC 4861 8.1
        }
        let is_wanted = self.sysctls.accept_redirects6.on() && !self.sysctls.forwarding6.on();
        let is_by_first_hop = self.via6(cx, dst) == Some(Via6::Gateway(iface.id, router));
        let is_own = iface.addr6(cx, target).is_some();
        let via = if target == dst { Via6::Link(iface.id) } else { Via6::Gateway(iface.id, target) };
        let accepted = is_wanted
            && is_by_first_hop
            && !is_own
            && !ip6::is_link_local(dst)
            && self.reroute::<u128>(cx, Prefix6::host(dst), via);
        match (accepted, link) {
            (false, _) => {
                self.count(cx).nd.ignored.bump();
                DropReason::NdIgnored
            }
            (true, Some(mac)) => self.learn_neighbor(cx, iface, target, mac),
            (true, None) => DropReason::NdConsumed,
        }
    }

    /// Sends a redirect to the source of `packet` if the packet leaves by the interface on which it
    /// arrived and the source could have sent it directly to `next` (RFC 4861 8.2).
    #[cold]
    pub(crate) fn maybe_redirect6(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        packet: &Frame,
        header: &ip6::Header,
        next: Ipv6Addr,
    ) {
        let is_neighbor = iface.kind == IfaceKind::Ethernet && iface.on_link6(cx, header.src);
        let is_first_hop = next == header.dst || ip6::is_link_local(next);
        if !self.sysctls.send_redirects6.on() || !is_neighbor || !is_first_hop {
            return;
        }
        let Some(src) = iface.link_local6(cx) else { return };
        let rate = self.sysctls.icmp6_rate.get() as u64;
        if !self.six.limiter.lock(cx).error_allowed6(header.src, rate, cx.now) {
            return self.count(cx).icmp6.errors_limited.bump();
        }
        let link = self.six.neighbors.lock(cx).lookup(iface.id, next, cx.now);
        let addresses = (src, header.src);
        self.nd_send(cx, iface, addresses, nd::REDIRECT_MAX, |_: Option<Mac>, out: &mut [u8]| {
            nd::emit_redirect((next, header.dst), link, packet.bytes(), addresses, out)
        });
        self.count(cx).nd.redirects_sent.bump();
    }
}
