//! ICMP errors about packets that a tunnel has sent. They are reported to the sender of the inner
//! packet (RFC 2003 4, RFC 2473 8), for IPv4 and IPv6 inner and outer headers.
//!
//! An error that reports a smaller path MTU lowers the tunnel's MTU (RFC 2003 4.1, 5.1), and the
//! new MTU is reported to the sender. Unreachable and time exceeded errors on the outer path become
//! host unreachable for the inner packet (RFC 2003 4.1, 4.4; RFC 2473 8.2, 8.3). Port unreachable,
//! source routes, quenches and redirects concern only the tunnel. The inner packet of the quoted
//! packet may itself be a tunnel packet. The error is then reported through each tunnel, up to the
//! nesting limit.

use super::quote::Quote;
use super::trouble::Trouble;
use super::{Config, DontFragment, Kind};
use crate::Stack;
use crate::family::Family;
use crate::icmp4::plateau;
use crate::iface::IfaceId;
use crate::ip4::pmtu;
use crate::route::Via;
use buf::Flags;
use lock::{Cx, Locks};
use std::net::IpAddr;
use wire::eth::{self, EtherType};
use wire::icmp4::{self, Problem, unreachable};
use wire::{etherip, gre, icmp6, udp, vxlan};

impl Trouble {
    fn of(problem: Problem, total_len: u16) -> Option<Trouble> {
        match problem {
            Problem::Unreachable { code: unreachable::FRAG_NEEDED, next_mtu: 0 } => {
                Some(Trouble::TooBig(plateau(total_len)))
            }
            Problem::Unreachable { code: unreachable::FRAG_NEEDED, next_mtu } => {
                Some(Trouble::TooBig(usize::from(next_mtu)))
            }
            Problem::Unreachable { code: unreachable::PORT | unreachable::SOURCE_ROUTE, .. } => None,
            Problem::Unreachable { .. } | Problem::TimeExceeded { code: 0 } => Some(Trouble::Host),
            Problem::TimeExceeded { .. } | Problem::Redirect { .. } | Problem::ParameterProblem { .. } => None,
        }
    }

    fn of6(problem: icmp6::Problem) -> Option<Trouble> {
        match problem {
            icmp6::Problem::TooBig { mtu } => Some(Trouble::TooBig(mtu as usize)),
            icmp6::Problem::Unreachable { code: icmp6::unreachable::PORT } => None,
            icmp6::Problem::Unreachable { .. } | icmp6::Problem::TimeExceeded { code: 0 } => Some(Trouble::Host),
            icmp6::Problem::TimeExceeded { .. } | icmp6::Problem::Parameter { .. } => None,
        }
    }
}

impl<L: Locks> Stack<L> {
    /// Processes an error about the packet `quoted`. The error comes from a router or from this
    /// host's ARP. Returns `false` if no tunnel has sent that packet.
    pub(crate) fn tunnel_error_input(&self, cx: Cx, problem: Problem, quoted: &icmp4::Inner<'_>) -> bool {
        self.relay_error(cx, Trouble::of(problem, quoted.header.total_len), Quote::V4(*quoted))
    }

    /// Processes an error about an IPv6 packet as [`Stack::tunnel_error_input`] does for IPv4.
    pub(crate) fn tunnel_error_input6(&self, cx: Cx, problem: icmp6::Problem, quoted: &icmp6::Inner<'_>) -> bool {
        self.relay_error(cx, Trouble::of6(problem), Quote::V6(*quoted))
    }

    #[inline(never)]
    fn relay_error(&self, cx: Cx, trouble: Option<Trouble>, quoted: Quote<'_>) -> bool {
        let (mut trouble, mut quoted, mut ours) = (trouble, quoted, false);
        for _ in 0..self.sysctls.tunnel_nesting.get() {
            let Some((id, config)) = self.tunnels.lock(cx).quoted(&quoted) else { break };
            if quoted.is_later() {
                break;
            }
            ours = true;
            let Some(within) = self.inward(cx, id, &config, trouble, &quoted) else { return true };
            let Some(inside) = inside(config.kind, quoted.payload()) else { return true };
            let Some(inner) = Quote::parse(inside) else { return true };
            if !self.is_own_end(cx, inner.ends().0) {
                // The inner destination must be routed through this tunnel. Otherwise forged errors
                // could make this host send errors to arbitrary hosts.
                if self.leads_through(cx, inner.ends().1, id) && minds(&config, &quoted, &inner, within) {
                    self.count(cx).tunnel.relayed.bump();
                    match inner {
                        Quote::V4(_) => self.send_error(cx, inside, Flags::default(), within.cause()),
                        Quote::V6(_) => self.send_error6(cx, None, inside, Flags::default(), within.problem6()),
                    }
                }
                return true;
            }
            (trouble, quoted) = (Some(within), inner);
        }
        if let Some(trouble) = trouble.filter(|_| ours) {
            match quoted {
                Quote::V4(inner) => self.deliver_error(cx, trouble.cause().problem(), &inner),
                Quote::V6(inner) => self.deliver_error6(cx, None, trouble.problem6(), &inner),
            }
        }
        ours
    }

    pub(super) fn is_own_end(&self, cx: Cx, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => self.is_own(cx, addr),
            IpAddr::V6(addr) => self.is_own6(cx, addr),
        }
    }

    /// Returns whether packets to `dst`, or some of their flows, are routed through tunnel `id`.
    fn leads_through(&self, cx: Cx, dst: IpAddr, id: IfaceId) -> bool {
        match dst {
            IpAddr::V4(dst) => self.leads_by(cx, dst.to_bits(), id),
            IpAddr::V6(dst) => self.leads_by(cx, dst.to_bits(), id),
        }
    }

    fn leads_by<F: Family>(&self, cx: Cx, dst: F, id: IfaceId) -> bool {
        let reader = F::routes_reader(self);
        let pinned = reader.pin(cx);
        match self.route_lookup(cx, &pinned, dst).map(|hop| hop.via) {
            Some(Via::Link(out) | Via::Gateway(out, _) | Via::Gateway6(out, _)) => out == id,
            Some(Via::Paths(set)) => reader.has_path_by(&pinned, set, id),
            _ => false,
        }
    }

    /// Converts a failure of the outer packet into a failure of the inner packet. Returns `None` if
    /// the sender of the inner packet need not be notified.
    fn inward(
        &self,
        cx: Cx,
        id: IfaceId,
        config: &Config,
        trouble: Option<Trouble>,
        quoted: &Quote<'_>,
    ) -> Option<Trouble> {
        let Trouble::TooBig(reported) = trouble? else { return Some(Trouble::Host) };
        let (floor, may_be_cut) = match quoted {
            Quote::V4(inner) => (pmtu::FLOOR, !inner.header.df),
            Quote::V6(_) => (pmtu::FLOOR6, false),
        };
        if reported >= quoted.total_len() || may_be_cut {
            return None; // forged: the packet would have passed or been fragmented
        }
        if let Quote::V6(inner) = quoted {
            if reported < pmtu::FLOOR6 {
                return None; // RFC 8201 4: no link has such a small MTU
            }
            self.note_path6(cx, inner.header.dst, reported); // determines the size of fragments sent by this host
        }
        // Only the tunnel's MTU is lowered, not the path MTU to the remote address. An attacker
        // that guesses a tunnel's addresses must not affect sockets.
        let mtu = reported.max(floor).saturating_sub(config.overhead());
        self.narrow_tunnel(cx, id, mtu);
        Some(Trouble::TooBig(mtu))
    }
}

/// Returns whether the sender of the inner packet must be notified. It need not be if the outer
/// packet can be fragmented (RFC 2473 7).
fn minds(config: &Config, outer: &Quote<'_>, inner: &Quote<'_>, trouble: Trouble) -> bool {
    match (trouble, outer, inner) {
        (Trouble::Host, ..) | (_, Quote::V4(_), Quote::V4(_)) => true,
        (_, _, Quote::V4(inner)) => inner.header.df || config.df == DontFragment::Set,
        (_, _, Quote::V6(inner)) => inner.total_len() > pmtu::FLOOR6,
    }
}

/// Returns the part of the inner packet that the payload of a quoted packet includes.
fn inside(kind: Kind, payload: &[u8]) -> Option<&[u8]> {
    let is_ip = |ethertype| matches!(ethertype, EtherType::IPV4 | EtherType::IPV6);
    let link = match kind {
        Kind::Gif => return Some(payload),
        Kind::Gre => {
            let header = gre::Header::parse(payload).ok().filter(|header| is_ip(header.protocol))?;
            return payload.get(header.header_len()..);
        }
        Kind::EtherIp => payload.get(etherip::HEADER_LEN..)?,
        Kind::Vxlan => payload.get(udp::HEADER_LEN + vxlan::HEADER_LEN..)?,
    };
    let header = eth::Header::parse(link).ok().filter(|header| is_ip(header.ethertype));
    header.and_then(|_| link.get(eth::HEADER_LEN..))
}
