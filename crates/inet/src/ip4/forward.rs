//! Slow path of IPv4 forwarding (RFC 1812 5.2, 5.3), for packets that the fast path in
//! [`crate::ip`] does not forward: those with an expired TTL, options or an unresolved next hop,
//! and those that require fragmentation or a redirect.

use crate::Stack;
use crate::icmp4::Cause;
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceId};
use crate::ip::link_len;
use crate::ip4::frag::{self, FragError};
use crate::route::{Hop, Via};
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::{IpAddr, Ipv4Addr};
use wire::icmp4::unreachable;
use wire::ip4;

/// Reason why the fast path cannot forward a packet, and what must be done with the packet.
enum Obstacle {
    Drop(DropReason),
    Tell(DropReason, Cause),
    Fragment,
    Resolve(IfaceId, IpAddr),
}

impl<L: Locks> Stack<L> {
    /// Returns the first reason why the fast path cannot forward `packet`. If none of the other
    /// reasons applies, returns [`Obstacle::Resolve`].
    fn obstacle(&self, packet: &Frame, hop: Option<&Hop>) -> Obstacle {
        if packet.flags().has(Flags::LINK_BROADCAST) {
            return Obstacle::Drop(DropReason::Ip4LinkBroadcast);
        }
        let Some(hop) = hop else {
            return Obstacle::Tell(DropReason::Ip4NoRoute, Cause::Unreachable(unreachable::NET));
        };
        let Some(header) = ip4::HeaderView::of(packet.bytes()) else {
            return Obstacle::Drop(DropReason::Ip4Malformed);
        };
        let (out, next) = match hop.via {
            Via::Gateway(iface, gateway) => (iface, gateway.into()),
            Via::Gateway6(iface, gateway) => (iface, gateway.into()),
            Via::Link(iface) => (iface, header.dst().into()),
            Via::Reject => return Obstacle::Tell(DropReason::Ip4NoRoute, Cause::Unreachable(unreachable::HOST)),
            Via::Prohibit => {
                return Obstacle::Tell(DropReason::Ip4Prohibited, Cause::Unreachable(unreachable::ADMIN_PROHIBITED));
            }
            Via::Blackhole | Via::Paths(_) => return Obstacle::Drop(DropReason::Ip4NoRoute),
            Via::Local(_) | Via::Broadcast(_) => return Obstacle::Drop(DropReason::Ip4NotForwardable),
        };
        // The TTL is checked after the route (RFC 1812 5.2.1.2), so the drop reason of a packet
        // without a usable route does not depend on its TTL.
        if header.ttl() <= 1 {
            return Obstacle::Tell(DropReason::Ip4TtlExceeded, Cause::TtlExceeded);
        }
        if link_len(packet) > self.ifaces.get(out).map_or(0, Iface::mtu) {
            return Obstacle::Fragment;
        }
        Obstacle::Resolve(out, next)
    }

    /// Forwards a packet on the slow path. Returns whether the packet or its fragments were sent,
    /// or are queued until the MAC address of the next hop is resolved.
    pub(super) fn forward_slow(&self, cx: Cx, from: Option<&Iface<L>>, mut packet: Frame, hop: Option<&Hop>) -> bool {
        match self.obstacle(&packet, hop) {
            Obstacle::Drop(why) => self.drop_frame(cx, packet, why),
            Obstacle::Tell(why, cause) => {
                self.icmp4_error(cx, &packet, cause);
                self.drop_frame(cx, packet, why);
            }
            Obstacle::Fragment => return self.forward_fragments(cx, packet, hop),
            Obstacle::Resolve(out, next) => {
                if let (Some(from), IpAddr::V4(gateway)) = (from.filter(|from| from.id == out), next) {
                    self.maybe_redirect(cx, from, &packet, gateway);
                }
                if !self.record_options(cx, out, next, &mut packet) {
                    self.drop_frame(cx, packet, DropReason::Ip4BadOptions);
                    return false;
                }
                ip4::decrement_ttl(packet.bytes_mut());
                self.send_to_next(cx, out, next, packet, hop);
                return true;
            }
        }
        false
    }

    /// Sends a packet to a neighbor, which may have an IPv6 address.
    fn send_to_next(&self, cx: Cx, out: IfaceId, next: IpAddr, packet: Frame, hop: Option<&Hop>) {
        match next {
            IpAddr::V4(next) => self.send_to_neighbor::<u32, u32>(cx, out, next, packet, hop, AtOnce::Later),
            IpAddr::V6(next) => self.send_to_neighbor::<u32, u128>(cx, out, next, packet, hop, AtOnce::Later),
        }
    }

    fn forward_fragments(&self, cx: Cx, mut packet: Frame, hop: Option<&Hop>) -> bool {
        let Ok(header) = ip4::Header::parse(packet.bytes()) else {
            self.drop_frame(cx, packet, DropReason::Ip4Malformed);
            return false;
        };
        let Some((out, next)) = hop.and_then(|hop| match hop.via {
            Via::Gateway(iface, gateway) => Some((iface, IpAddr::V4(gateway))),
            Via::Gateway6(iface, gateway) => Some((iface, IpAddr::V6(gateway))),
            Via::Link(iface) => Some((iface, IpAddr::V4(header.dst))),
            _ => None,
        }) else {
            self.drop_frame(cx, packet, DropReason::Ip4NoRoute);
            return false;
        };
        let mtu = self.ifaces.get(out).map_or(0, Iface::mtu);
        if header.df {
            self.icmp4_error(cx, &packet, Cause::FragNeeded(mtu as u16));
            self.drop_frame(cx, packet, DropReason::Ip4TooBig);
            return false;
        }
        if !self.record_options(cx, out, next, &mut packet) {
            self.drop_frame(cx, packet, DropReason::Ip4BadOptions);
            return false;
        }
        // If this is a large TCP segment and the segments into which the port would split it exceed
        // the MTU, it is fragmented like any other long packet.
        packet.set_flags(packet.flags().without(Flags::GSO));
        let before = ip4::decrement_ttl(packet.bytes_mut());
        let header = ip4::Header { ttl: before.unwrap_or(header.ttl), ..header };
        self.output_fragments(cx, packet, &header, mtu, |stack, fragment| {
            stack.send_to_next(cx, out, next, fragment, None);
        })
    }

    /// Fragments a packet and passes each fragment to `send`. Returns whether fragmentation
    /// succeeded.
    pub(crate) fn output_fragments(
        &self,
        cx: Cx,
        packet: Frame,
        header: &ip4::Header,
        mtu: usize,
        mut send: impl FnMut(&Self, Frame),
    ) -> bool {
        let mut fragments = Vec::new();
        let counters = self.count(cx);
        match frag::fragment(packet, header, mtu, &self.pool, &mut |fragment| fragments.push(fragment)) {
            Ok(original) => {
                counters.audit.made.add(fragments.len() as u64);
                counters.ip4.fragmented.bump();
                counters.ip4.fragments_sent.add(fragments.len() as u64);
                self.drop_frame(cx, original, DropReason::Ip4Fragmented);
                fragments.into_iter().for_each(|fragment| send(self, fragment));
                true
            }
            Err((original, FragError::NoBuffer)) => {
                self.drop_frame(cx, original, DropReason::FragNoBuffer);
                false
            }
            Err((original, FragError::Malformed)) => {
                self.drop_frame(cx, original, DropReason::FragMalformed);
                false
            }
            Err((original, FragError::DontFragment | FragError::MtuTooSmall)) => {
                self.drop_frame(cx, original, DropReason::Ip4TooBig);
                false
            }
        }
    }

    /// Records this host's address and the time in the Record Route and Timestamp options (RFC 1812
    /// 5.3.13.5, 5.3.13.6). Returns `false` if the options are invalid.
    fn record_options(&self, cx: Cx, out: IfaceId, next: IpAddr, packet: &mut Frame) -> bool {
        if ip4::HeaderView::of(packet.bytes()).is_none_or(|header| header.ihl_len() == ip4::HEADER_LEN) {
            return true;
        }
        let towards = if let IpAddr::V4(next) = next { next } else { Ipv4Addr::UNSPECIFIED };
        let addr = self.ifaces.get(out).and_then(|out| self.source_for(cx, out, towards));
        let scribe = ip4::Scribe { addr: addr.unwrap_or(Ipv4Addr::UNSPECIFIED), millis: self.millis_of_options(cx) };
        ip4::record(packet.bytes_mut(), scribe, &|addr| self.is_own(cx, addr)).is_ok()
    }

    /// Returns the time for a Timestamp option: milliseconds of our clock with the high bit set.
    /// That bit marks a time that is not counted from midnight UT (RFC 791 3.1).
    pub(crate) fn millis_of_options(&self, cx: Cx) -> u32 {
        1 << 31 | (cx.now.nanos() / 1_000_000) as u32
    }

    /// Drops a packet because its next hop did not answer ARP requests. Sends an ICMP error to the
    /// sender, or reports the error to the socket of this host that sent the packet.
    pub(crate) fn host_unreachable(&self, cx: Cx, packet: Frame) {
        self.icmp4_error(cx, &packet, Cause::NoNeighbor);
        self.drop_frame(cx, packet, DropReason::NeighTimeout);
    }

    /// Sends a redirect if the sender could have reached the gateway directly (RFC 1812 5.2.7.2).
    fn maybe_redirect(&self, cx: Cx, from: &Iface<L>, packet: &Frame, gateway: Ipv4Addr) {
        let Ok(header) = ip4::Header::parse(packet.bytes()) else { return };
        let neighbor = from.addrs(cx).iter().any(|addr| addr.contains(header.src) && addr.contains(gateway));
        if self.sysctls.send_redirects.on() && neighbor {
            self.icmp4_error(cx, packet, Cause::Redirect(gateway));
        }
    }
}
