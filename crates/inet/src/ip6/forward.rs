//! Slow path of IPv6 forwarding (RFC 8200 3, RFC 4007 9, RFC 4443 3), for packets that the fast
//! path in [`crate::ip`] does not forward. It checks scope, next hop, hop limit and length. Routers
//! neither fragment IPv6 packets nor update checksums.

use crate::Stack;
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::ip::link_len;
use crate::route::{Hop, Via6};
use buf::Frame;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv6Addr;
use wire::icmp6::{Problem, time_exceeded, unreachable};
use wire::ip6;

/// Drop reason of a packet that cannot be forwarded, and the ICMPv6 error for its sender; `None` if
/// no error is sent.
pub(super) type Obstacle = (DropReason, Option<Problem>);

impl<L: Locks> Stack<L> {
    /// Forwards a packet that is not for this host. Returns whether the packet was sent, or is
    /// queued until the MAC address of the next hop is resolved.
    pub(super) fn ip6_forward(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        mut packet: Frame,
        header: &ip6::Header,
        hop: Option<&Hop<Ipv6Addr>>,
    ) -> bool {
        match self.onward6(cx, from, &packet, header, hop.map(|hop| hop.via)) {
            Ok((out, next)) => {
                if let Some(from) = from.filter(|from| from.id == out) {
                    self.maybe_redirect6(cx, from, &packet, header, next);
                }
                if ip6::decrement_hop_limit(packet.bytes_mut()).is_none() {
                    self.drop_as_bug(cx, packet, "a forwarded packet has a hop limit of 1 or less");
                    return false;
                }
                self.send_to_neighbor::<u128, u128>(cx, out, next, packet, hop, AtOnce::Later);
                true
            }
            Err((why, problem)) => {
                if let Some(problem) = problem {
                    self.icmp6_error(cx, from.map(|from| from.id), &packet, problem);
                }
                self.drop_frame(cx, packet, why);
                false
            }
        }
    }

    fn onward6(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        packet: &Frame,
        header: &ip6::Header,
        via: Option<Via6>,
    ) -> Result<(IfaceId, Ipv6Addr), Obstacle> {
        let (out, next) = self.next6(cx, from, header, via)?;
        // The hop limit is checked after the route, as for IPv4, so that the drop reason of a
        // packet without a route does not depend on its hop limit.
        if header.hop_limit <= 1 {
            let problem = Problem::TimeExceeded { code: time_exceeded::HOP_LIMIT };
            return Err((DropReason::Ip6HopLimit, Some(problem)));
        }
        let mtu = self.ifaces.get(out).map_or(0, Iface::mtu6);
        if link_len(packet) > mtu {
            return Err((DropReason::Ip6TooBig, Some(Problem::TooBig { mtu: mtu.max(1280) as u32 })));
        }
        Ok((out, next))
    }

    /// Returns the outgoing interface and the next hop of a packet with this header. `from` is the
    /// interface by which it arrived, and `via` is the target of the route to its destination.
    pub(super) fn next6(
        &self,
        cx: Cx,
        from: Option<&Iface<L>>,
        header: &ip6::Header,
        via: Option<Via6>,
    ) -> Result<(IfaceId, Ipv6Addr), Obstacle> {
        let reported = |code| Some(Problem::Unreachable { code });
        if header.src.is_unspecified() {
            return Err((DropReason::Ip6BeyondScope, None));
        }
        if ip6::is_link_local(header.src) {
            return Err((DropReason::Ip6BeyondScope, reported(unreachable::BEYOND_SCOPE)));
        }
        let (out, next) = match via {
            Some(Via6::Gateway(out, gateway) | Via6::Gateway6(out, gateway)) => (out, gateway),
            Some(Via6::Link(out)) => (out, header.dst),
            Some(Via6::Prohibit) => return Err((DropReason::Ip6Prohibited, reported(unreachable::ADMIN_PROHIBITED))),
            Some(Via6::Blackhole | Via6::Local(_) | Via6::Broadcast(_) | Via6::Paths(_)) => {
                return Err((DropReason::Ip6NoRoute, None));
            }
            Some(Via6::Reject) | None => return Err((DropReason::Ip6NoRoute, reported(unreachable::NO_ROUTE))),
        };
        // A packet that leaves through the tunnel from which it arrived would loop between the two
        // ends until its hop limit expires (RFC 4443 3.1).
        if from.is_some_and(|from| from.kind == IfaceKind::Tunnel && from.id == out && from.on_link6(cx, header.dst)) {
            return Err((DropReason::Ip6GoesBack, reported(unreachable::ADDRESS)));
        }
        Ok((out, next))
    }

    /// Drops a packet because its next hop did not answer neighbor solicitations, and sends an
    /// ICMPv6 error to the sender.
    pub(crate) fn host_unreachable6(&self, cx: Cx, packet: Frame) {
        self.icmp6_error(cx, None, &packet, Problem::Unreachable { code: unreachable::ADDRESS });
        self.drop_frame(cx, packet, DropReason::NeighTimeout);
    }
}
