//! ICMP errors about packets that a tunnel has sent: told to the senders of what was inside (RFC 2003 4).
//!
//! A router that finds the path too narrow lowers the tunnel's MTU (4.1 "datagram too big", 5.1), and the sender is told
//! that much; what is unreachable or took too long on the outer way is a host unreachable inside (4.1, 4.4). Port
//! unreachable, source routes, quenches and redirects are the tunnel's own affair. What is quoted may itself be a tunnel's
//! packet: told one by one, as deep as tunnels may nest.

use super::Kind;
use crate::Stack;
use crate::icmp4::{Cause, plateau};
use crate::iface::IfaceId;
use crate::ip4::pmtu;
use crate::route::{Hop, Via};
use buf::Flags;
use lock::{Cx, Locks};
use wire::eth::{self, EtherType};
use wire::icmp4::{Inner, Problem, unreachable};
use wire::{etherip, gre, udp, vxlan};

impl<L: Locks> Stack<L> {
    /// Hands on what a router (or our own ARP) says about the packet `quoted`; false: no tunnel has sent it.
    pub(crate) fn tunnel_told(&self, cx: Cx, problem: Problem, quoted: &Inner<'_>) -> bool {
        let (mut problem, mut quoted, mut ours) = (problem, *quoted, false);
        for _ in 0..self.knobs.tunnel_nesting.get() {
            let Some((id, config)) = self.tunnels.lock(cx).quoted(&quoted.header, quoted.payload) else { break };
            if quoted.header.frag_off != 0 {
                break;
            }
            ours = true;
            let Some(cause) = self.inward(cx, id, config.overhead(), problem, &quoted) else { return true };
            let Some(inside) = inside(config.kind, quoted.payload) else { return true };
            let Ok(inner) = Inner::parse(inside) else { return true };
            if !self.is_own(cx, inner.header.src) {
                // What is quoted goes this way, or nobody here has sent it: a forger must not have us complain to whom he names.
                if self.ways.lookup(cx, inner.header.dst).is_none_or(|hop| !self.leads_by(cx, hop, id)) {
                    return true;
                }
                self.count(cx).tunnel.relayed.bump();
                self.complain(cx, inside, Flags::default(), cause);
                return true;
            }
            (problem, quoted) = (cause.problem(), inner);
        }
        if ours {
            self.tell_own(cx, problem, &quoted);
        }
        ours
    }

    /// Does a way leave by that iface, or one of its paths?
    fn leads_by(&self, cx: Cx, hop: Hop, id: IfaceId) -> bool {
        match hop.via {
            Via::Link(out) | Via::Gateway(out, _) => out == id,
            Via::Paths(set) => self.ways.has_path_by(&self.ways.pin(cx), set, id),
            _ => false,
        }
    }

    /// What an outer problem means to the sender of an inner packet, if anything.
    fn inward(&self, cx: Cx, id: IfaceId, overhead: usize, problem: Problem, quoted: &Inner<'_>) -> Option<Cause> {
        let host = Some(Cause::Unreachable(unreachable::HOST));
        match problem {
            Problem::Unreachable { code: unreachable::FRAG_NEEDED, next_mtu } => {
                let told = if next_mtu == 0 { plateau(quoted.header.total_len) } else { usize::from(next_mtu) };
                if told >= usize::from(quoted.header.total_len) || !quoted.header.df {
                    return None; // it would have passed, or been cut: whoever says so has not had it in hands
                }
                // The tunnel's is narrowed, and not the path's to that host: a stranger who guesses a tunnel's ends must not reach sockets.
                let mtu = told.max(pmtu::FLOOR).saturating_sub(overhead);
                self.narrow_tunnel(cx, id, mtu);
                Some(Cause::FragNeeded(mtu as u16))
            }
            Problem::Unreachable { code: unreachable::PORT | unreachable::SOURCE_ROUTE, .. } => None,
            Problem::Unreachable { .. } | Problem::TimeExceeded { code: 0 } => host,
            Problem::TimeExceeded { .. } | Problem::Redirect { .. } | Problem::ParameterProblem { .. } => None,
        }
    }
}

/// What of a quoted packet's payload is the inner packet: as much of it as came back.
fn inside(kind: Kind, payload: &[u8]) -> Option<&[u8]> {
    let link = match kind {
        Kind::Gif => return Some(payload),
        Kind::Gre => {
            let header = gre::Header::parse(payload).ok().filter(|header| header.protocol == EtherType::IPV4)?;
            return payload.get(header.header_len()..);
        }
        Kind::EtherIp => payload.get(etherip::HEADER_LEN..)?,
        Kind::Vxlan => payload.get(udp::HEADER_LEN + vxlan::HEADER_LEN..)?,
    };
    let header = eth::Header::parse(link).ok().filter(|header| header.ethertype == EtherType::IPV4);
    header.and_then(|_| link.get(eth::HEADER_LEN..))
}

/// The key or VNI of a quoted packet; `None`: not enough of it has come back to tell.
pub(super) fn key_in(kind: Kind, payload: &[u8]) -> Option<Option<u32>> {
    match kind {
        Kind::Gif | Kind::EtherIp => Some(None),
        Kind::Gre => gre::Header::parse(payload).ok().map(|header| header.key),
        Kind::Vxlan => vxlan::Header::parse(payload.get(udp::HEADER_LEN..)?).ok().map(|header| Some(header.vni)),
    }
}
