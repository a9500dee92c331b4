//! ICMP errors about packets that a tunnel has sent: told to the senders of what was inside (RFC 2003 4, RFC 2473 8), whichever family each
//! of the two headers is.
//!
//! A router that finds the path too narrow lowers the tunnel's MTU (RFC 2003 4.1, 5.1), and the sender is told that much; what is
//! unreachable or took too long on the outer way is a host unreachable inside (4.1, 4.4; RFC 2473 8.2, 8.3). Port unreachable, source routes,
//! quenches and redirects are the tunnel's own affair. What is quoted may itself be a tunnel's packet: told one by one, as deep as tunnels may
//! nest.

use super::quote::Quote;
use super::{Config, DontFragment, Kind};
use crate::Stack;
use crate::family::Family;
use crate::icmp4::{Cause, plateau};
use crate::iface::IfaceId;
use crate::ip4::pmtu;
use crate::route::Via;
use buf::Flags;
use lock::{Cx, Locks};
use std::net::IpAddr;
use wire::eth::{self, EtherType};
use wire::icmp4::{self, Problem, unreachable};
use wire::{etherip, gre, icmp6, udp, vxlan};

/// What befell a packet, as far as who is inside a tunnel has to know.
#[derive(Clone, Copy)]
pub(super) enum Trouble {
    /// Only so much passes.
    TooBig(usize),
    /// It does not get there.
    Host,
}

impl Trouble {
    pub(super) fn cause(self) -> Cause {
        match self {
            Trouble::TooBig(mtu) => Cause::FragNeeded(mtu as u16),
            Trouble::Host => Cause::Unreachable(unreachable::HOST),
        }
    }

    /// No sender of IPv6 makes less than 1280 bytes of a packet: what is outside is cut up then (RFC 2473 7.1).
    pub(super) fn problem6(self) -> icmp6::Problem {
        match self {
            Trouble::TooBig(mtu) => icmp6::Problem::TooBig { mtu: mtu.max(pmtu::FLOOR6) as u32 },
            Trouble::Host => icmp6::Problem::Unreachable { code: icmp6::unreachable::ADDRESS },
        }
    }

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
    /// Hands on what a router (or our own ARP) says about the packet `quoted`; false: no tunnel has sent it.
    pub(crate) fn tunnel_told(&self, cx: Cx, problem: Problem, quoted: &icmp4::Inner<'_>) -> bool {
        self.told(cx, Trouble::of(problem, quoted.header.total_len), Quote::V4(*quoted))
    }

    /// The same of an IPv6 packet.
    pub(crate) fn tunnel_told6(&self, cx: Cx, problem: icmp6::Problem, quoted: &icmp6::Inner<'_>) -> bool {
        self.told(cx, Trouble::of6(problem), Quote::V6(*quoted))
    }

    fn told(&self, cx: Cx, trouble: Option<Trouble>, quoted: Quote<'_>) -> bool {
        let (mut trouble, mut quoted, mut ours) = (trouble, quoted, false);
        for _ in 0..self.knobs.tunnel_nesting.get() {
            let Some((id, config)) = self.tunnels.lock(cx).quoted(&quoted) else { break };
            if quoted.is_later() {
                break;
            }
            ours = true;
            let Some(within) = self.inward(cx, id, &config, trouble, &quoted) else { return true };
            let Some(inside) = inside(config.kind, quoted.payload()) else { return true };
            let Some(inner) = Quote::parse(inside) else { return true };
            if !self.is_own_end(cx, inner.ends().0) {
                // What is quoted goes this way, or nobody here has sent it: a forger must not have us complain to whom he names.
                if self.leads_through(cx, inner.ends().1, id) && minds(&config, &quoted, &inner, within) {
                    self.count(cx).tunnel.relayed.bump();
                    match inner {
                        Quote::V4(_) => self.complain(cx, inside, Flags::default(), within.cause()),
                        Quote::V6(_) => self.complain6(cx, None, inside, Flags::default(), within.problem6()),
                    }
                }
                return true;
            }
            (trouble, quoted) = (Some(within), inner);
        }
        if let Some(trouble) = trouble.filter(|_| ours) {
            match quoted {
                Quote::V4(inner) => self.tell_own(cx, trouble.cause().problem(), &inner),
                Quote::V6(inner) => self.tell_own6(cx, None, trouble.problem6(), &inner),
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

    /// Returns whether packets to `dst`, or some of their flows, go through a tunnel.
    fn leads_through(&self, cx: Cx, dst: IpAddr, id: IfaceId) -> bool {
        match dst {
            IpAddr::V4(dst) => self.leads_by(cx, dst.to_bits(), id),
            IpAddr::V6(dst) => self.leads_by(cx, dst.to_bits(), id),
        }
    }

    fn leads_by<F: Family>(&self, cx: Cx, dst: F, id: IfaceId) -> bool {
        let ways = F::ways(self);
        let pinned = ways.pin(cx);
        match self.way_to(cx, &pinned, dst).map(|hop| hop.via) {
            Some(Via::Link(out) | Via::Gateway(out, _)) => out == id,
            Some(Via::Paths(set)) => ways.has_path_by(&pinned, set, id),
            _ => false,
        }
    }

    /// What an outer problem means to the sender of an inner packet, if anything.
    fn inward(
        &self,
        cx: Cx,
        id: IfaceId,
        config: &Config,
        trouble: Option<Trouble>,
        quoted: &Quote<'_>,
    ) -> Option<Trouble> {
        let Trouble::TooBig(told) = trouble? else { return Some(Trouble::Host) };
        let (floor, may_be_cut) = match quoted {
            Quote::V4(inner) => (pmtu::FLOOR, !inner.header.df),
            Quote::V6(_) => (pmtu::FLOOR6, false),
        };
        if told >= quoted.total_len() || may_be_cut {
            return None; // it would have passed, or been cut: whoever says so has not had it in hands
        }
        if let Quote::V6(inner) = quoted {
            if told < pmtu::FLOOR6 {
                return None; // RFC 8201 4: no link is so narrow
            }
            self.note_path6(cx, inner.header.dst, told); // what is cut up here is cut to fit
        }
        // The tunnel's is narrowed, and not the path's to that host: a stranger who guesses a tunnel's ends must not reach sockets.
        let mtu = told.max(floor).saturating_sub(config.overhead());
        self.narrow_tunnel(cx, id, mtu);
        Some(Trouble::TooBig(mtu))
    }
}

/// Has its sender to know? What may be cut up outside will be (RFC 2473 7).
fn minds(config: &Config, outer: &Quote<'_>, inner: &Quote<'_>, trouble: Trouble) -> bool {
    match (trouble, outer, inner) {
        (Trouble::Host, ..) | (_, Quote::V4(_), Quote::V4(_)) => true,
        (_, _, Quote::V4(inner)) => inner.header.df || config.df == DontFragment::Set,
        (_, _, Quote::V6(inner)) => inner.total_len() > pmtu::FLOOR6,
    }
}

/// What of a quoted packet's payload is the inner packet: as much of it as came back.
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
